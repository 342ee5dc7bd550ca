"""Cases on keyed watermarks over a dataflow: a file whose cases name the variants they hold for.

A case is run once for each of its variants, which are the modes of the model. As everywhere here, a kind, operation,
field or variant that no adapter knows fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, get_args

from tests.conformance import (
    hazelcast_merging,
    hazelcast_processors,
    hazelcast_processors_joins,
    hazelcast_processors_windows,
    hazelcast_runtime,
    hazelcast_sources,
)
from tests.conformance.fields import Fields, UnknownFormatError, known, undescribed
from wmlab.dataflow.model.processor import Deviations, Mode, deviations

KINDS: Final[Mapping[str, Callable[[Fields, Deviations], None]]] = {
    "wm_coalescer": hazelcast_merging.run_coalescer,
    "keyed_coalescer": hazelcast_merging.run_keyed,
    "edge_stream": hazelcast_merging.run_edge,
    "tasklet": hazelcast_runtime.run_tasklet,
    "event_time_mapper": hazelcast_sources.run_mapper,
    "lag_policy": hazelcast_sources.run_policy,
    "frame_policy": hazelcast_sources.run_frames,
    "pipeline_source": hazelcast_sources.run_pipeline,
    "async_ordered": hazelcast_processors.run_async_ordered,
    "async_unordered": hazelcast_processors.run_async_unordered,
    "late_drop": hazelcast_processors.run_late_drop,
    "stateful_map": hazelcast_processors.run_stateful_map,
    "pure": hazelcast_processors.run_pure,
    "window": hazelcast_processors_windows.run_window,
    "session": hazelcast_processors_windows.run_session,
    "pipeline_window": hazelcast_processors_windows.run_pipeline_window,
    "s2s_join": hazelcast_processors_joins.run_join,
    "pipeline_join": hazelcast_processors_joins.run_pipeline_join,
}


def is_hazelcast(content: Any) -> bool:
    """Whether a file is in this format: its cases name their variants."""
    listed = content.get("cases") if isinstance(content, dict) else None
    return isinstance(listed, list) and any(isinstance(case, dict) and "variants" in case for case in listed)


def variants_of(case: Mapping[str, Any]) -> Iterator[str]:
    """The variants a case is run under; one that names none is run once, and fails."""
    variants = case.get("variants")
    yield from variants if isinstance(variants, list) and variants else ["no variant"]


def run_case(case: Mapping[str, Any], variant: str) -> None:
    """Run one case; raises AssertionError when an expectation fails or anything in the case is unknown."""
    with undescribed(case, str(case.get("id"))) as fields:
        run, modes = KINDS[known("kind", fields.take("kind"), KINDS)], get_args(Mode)
        if variant not in modes or not set(fields.take("variants")) <= set(modes):
            raise UnknownFormatError(f"variant {variant!r} of {modes}")
        run(fields, deviations(variant))
