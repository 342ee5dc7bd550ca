"""The formats of files with cases, and which adapter runs which kind of case.

    format      its file                                        a case is run
    pravega     lists its cases                                 under both cut algorithms
    hazelcast   lists its cases, which name variants            under each of its variants, the modes of the model
    nebula      has cases by their kind, described by `meta`    once
    engines     has cases by their kind, of one or two parts    once

A kind, variant, operation, field or text that no adapter knows fails. A file in no format is one case, which fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from tests.conformance import (
    buckets,
    engines_flink,
    engines_others,
    engines_spark,
    hazelcast_merging,
    hazelcast_pipelines,
    hazelcast_processors,
    leader,
    marks,
    nebula_progress,
    nebula_windows,
    readers,
    revisions,
    shapes,
    streams,
    workflow,
)
from tests.conformance.fields import Fields, UnknownFormatError, expect, known, lookup, undescribed
from tests.conformance.hazelcast_steps import in_steps
from wmlab.dataflow.model.processor import Deviations
from wmlab.dataflow.rules import Rules
from wmlab.streams.model.cut import CutAlgorithm

Case: TypeAlias = dict[str, Any]
ALGORITHMS: Final[tuple[CutAlgorithm, ...]] = ("sound", "pravega")
VARIANTS: Final = {"design": Rules("sound").deviations, "hz": Rules("implementation").deviations}
"""By the words of the vectors: what they call "design" is Hazelcast without its defects."""
META: Final = {"convention", "ids", "generations", "recommended_rule"}
UNITS: Final = {"seconds unless ms noted"}

OfPravega: TypeAlias = Callable[[Fields, Fields, CutAlgorithm], None]
"""Runs a case with its inputs and its expectations; the latter are empty for a kind whose steps have them."""

PRAVEGA: Final[Mapping[str, OfPravega]] = {
    "workflow": workflow.run,
    "reader_compare": workflow.run,
    "reader_window": workflow.run,
    "writer_mark": workflow.run,
    "barrier": leader.run_barrier,
    "recreate": leader.run_recreate,
    "writer_mark_cas": marks.run_cas,
    "writer_position": marks.run_position,
    "txn_mark": marks.run_txn,
    "segment_id": marks.run_segment_id,
    "validation": marks.run_validation,
    "reader_group": readers.run_group,
    "latest_item": readers.run_latest,
    "revisioned_log": revisions.run,
    "streamcut_compare": streams.run_compare,
    "streamcut_valid": streams.run_valid,
    "segments_between": streams.run_between,
    "rolling_txn": streams.run_rolling,
    "scale_shape": shapes.run,
    "bucket_hash": buckets.run_hash,
    "bucket_distribution": buckets.run_distribution,
}
IN_STEPS: Final = {"workflow", "reader_compare", "reader_window", "writer_mark", "barrier"}
"""The kinds whose expectations stand in their steps."""

HAZELCAST: Final[Mapping[str, Callable[[Fields, Fields, Deviations], None]]] = {
    "wm_coalescer": in_steps(hazelcast_merging.one_key),
    "keyed_coalescer": in_steps(hazelcast_merging.all_keys),
    "edge_stream": in_steps(hazelcast_merging.one_edge),
    "tasklet": in_steps(hazelcast_merging.tasklet),
    "event_time_mapper": in_steps(hazelcast_pipelines.mapper),
    "lag_policy": in_steps(hazelcast_pipelines.policy),
    "frame_policy": in_steps(hazelcast_pipelines.frames),
    "pipeline_source": hazelcast_pipelines.run_source,
    "pipeline_window": hazelcast_pipelines.run_window,
    "pipeline_join": hazelcast_pipelines.run_join,
    "async_ordered": in_steps(hazelcast_processors.ordered_calls),
    "async_unordered": in_steps(hazelcast_processors.unordered_calls),
    "late_drop": in_steps(hazelcast_processors.late_drop),
    "stateful_map": in_steps(hazelcast_processors.stateful_map),
    "pure": in_steps(hazelcast_processors.pure_functions),
    "window": in_steps(hazelcast_processors.sliding_windows),
    "session": in_steps(hazelcast_processors.sessions),
    "s2s_join": hazelcast_processors.run_join,
}
"""Runs a case with its configuration and its other fields."""

NEBULA: Final[Mapping[str, Callable[[Fields], None]]] = {
    "chunk_collector": nebula_progress.run_chunks,
    "chunk_rule_comparison": nebula_progress.run_rules,
    "seq_queue": nebula_progress.run_sequences,
    "seq_queue_generators": nebula_progress.run_generated,
    "multi_origin": nebula_progress.run_origins,
    "emit_rechunk": nebula_windows.run_rechunking,
    "slice_assigner": nebula_windows.run_slices,
    "slice_store": nebula_windows.run_store,
    "window_trigger": nebula_windows.run_trigger,
    "sequencer": nebula_windows.run_sequencer,
    "assigners": nebula_windows.run_assigner,
}
ENGINES: Final[Mapping[str, Callable[[Fields], None]]] = {
    "bounded_out_of_orderness": engines_flink.run_bounded,
    "idleness_timer": engines_flink.run_idleness,
    "status_watermark_valve": engines_flink.run_valve,
    "watermark_output_multiplexer": engines_flink.run_multiplexer,
    "alignment.coordinator": engines_flink.run_coordinator,
    "alignment.aggregator": engines_flink.run_aggregator,
    "alignment.source": engines_flink.run_source,
    "alignment.split": engines_flink.run_split,
    "spark.node": engines_spark.run_query,
    "spark.multi_stream": engines_spark.run_query,
    "spark.stateful_chain": engines_spark.run_chain,
    "spark.errors": engines_spark.run_error,
    "spark.recovery": engines_spark.run_recovery,
    "kafka_streams.partition_group": engines_others.run_partition_group,
    "kafka_streams.windows": engines_others.run_windows,
    "kafka_streams.rule": engines_others.run_rule,
    "beam.transform": engines_others.run_transform,
    "beam.estimators": engines_others.run_estimator,
    "beam.kafkaio_limited_delay": engines_others.run_limited_delay,
    "beam.aggregator": engines_others.run_reports,
}
ENGINE_NAMES: Final = {kind.partition(".")[0] for kind in ENGINES if "." in kind}


class Format(NamedTuple):
    """How the cases of a format are found in a file, and what runs one of them in one of its variants.

    `run` raises AssertionError when an expectation fails or anything in the case is unknown.
    """

    kinds: Mapping[str, Any]
    recognises: Callable[[Any], bool]
    cases_of: Callable[[Any], list[Case]]
    variants: Callable[[Case], Iterable[str]]
    run: Callable[[Case, Any], None]


def listed_cases(content: Any) -> list[Case]:
    """The cases that a file lists; a file that lists none is one case without a kind."""
    cases = content.get("cases") if isinstance(content, dict) else None
    return cases if isinstance(cases, list) else [{"name": "file without cases"}]


def run_of_pravega(case: Case, algorithm: CutAlgorithm) -> None:
    with undescribed(case, str(case.get("name"))) as fields:
        kind = known("kind", fields.take("kind"), PRAVEGA)
        inputs, expected = fields.take("inputs"), fields.take("expected")
        if kind in IN_STEPS:
            expect("place of the expectations", expected, "in steps[].expect")
            expected = {}
        with Fields(inputs, "inputs") as input_fields, Fields(expected, "expected") as expected_fields:
            PRAVEGA[kind](input_fields, expected_fields, algorithm)


def variants_of_hazelcast(case: Case) -> list[str]:
    """The variants that a case names; one that names none is run once, and fails."""
    variants = case.get("variants")
    return variants if isinstance(variants, list) and variants else ["no variant"]


def run_of_hazelcast(case: Case, variant: str) -> None:
    with undescribed(case, str(case.get("id"))) as fields:
        run = lookup("kind", fields.take("kind"), HAZELCAST)
        if variant not in VARIANTS or not set(fields.take("variants")) <= VARIANTS.keys():
            raise UnknownFormatError(f"variant {variant!r} of {list(VARIANTS)}")
        with Fields(fields.take("config"), "config") as config:
            run(config, fields, VARIANTS[variant])


def has_kinds_and(described: str, content: Any) -> bool:
    """Whether a file has cases by their kind, next to a description of this name."""
    return isinstance(content, dict) and described in content and "cases" not in content


def cases_by_kind(entries_by_kind: Callable[[Any], Iterator[tuple[str, Any]]], content: Any) -> list[Case]:
    """Every entry under a kind as a case with its kind and a name."""
    return [
        {"kind": kind, "name": f"{kind}-{entry.get('id') or entry.get('name') or number}", "entry": entry}
        for kind, entries in entries_by_kind(content)
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries])
    ]


def run_by_kind(kinds: Mapping[str, Callable[[Fields], None]], case: Case, _: str) -> None:
    run = lookup("kind", case["kind"], kinds)
    with undescribed(case["entry"], case["name"]) as fields:
        run(fields)


def entries_of_nebula(content: Case) -> Iterator[tuple[str, Any]]:
    """The entries under each kind; raises for an unknown description."""
    if unknown := content["meta"].keys() - META:
        raise UnknownFormatError(f"meta: unknown fields {sorted(unknown)}")
    for kind, entries in content.items():
        if kind == "chunk_rule_comparison" and isinstance(entries, dict):
            with Fields(entries, kind) as fields:
                fields.take("origin", None)
                fields.take("meaning", None)
                yield kind, fields.take("rows")
        elif kind != "meta":
            yield kind, entries


def entries_of_engines(content: Case) -> Iterator[tuple[str, Any]]:
    """The entries under each kind, of which an engine's name has several; raises for an unknown unit."""
    for name, value in content.items():
        if name == "_convention":
            continue
        parts = (
            {f"{name}.{part}": entries for part, entries in value.items()} if name in ENGINE_NAMES else {name: value}
        )
        for kind, entries in parts.items():
            if kind == f"{name}.unit":
                known("unit", entries, UNITS)
            else:
                yield kind, [with_fields(entry) for entry in (entries if isinstance(entries, list) else [entries])]


def with_fields(entry: Any) -> Case:
    """A case as an object; steps that are rows under names of columns become objects as well."""
    if not isinstance(entry, dict):
        return {"text": entry}
    if "columns" in entry:
        rest = {name: value for name, value in entry.items() if name != "columns"}
        return {**rest, "steps": [dict(zip(entry["columns"], row, strict=True)) for row in entry["steps"]]}
    return entry


FORMATS: Final[Mapping[str, Format]] = {
    "nebula": Format(
        kinds=NEBULA,
        recognises=partial(has_kinds_and, "meta"),
        cases_of=partial(cases_by_kind, entries_of_nebula),
        variants=lambda case: [""],
        run=partial(run_by_kind, NEBULA),
    ),
    "engines": Format(
        kinds=ENGINES,
        recognises=partial(has_kinds_and, "_convention"),
        cases_of=partial(cases_by_kind, entries_of_engines),
        variants=lambda case: [""],
        run=partial(run_by_kind, ENGINES),
    ),
    "hazelcast": Format(
        kinds=HAZELCAST,
        recognises=lambda content: any(isinstance(case, dict) and "variants" in case for case in listed_cases(content)),
        cases_of=listed_cases,
        variants=variants_of_hazelcast,
        run=run_of_hazelcast,
    ),
    "pravega": Format(
        kinds=PRAVEGA,
        recognises=lambda content: True,
        cases_of=listed_cases,
        variants=lambda case: ALGORITHMS,
        run=run_of_pravega,
    ),
}


def runs_of(content: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """A readable name for each run of a case of a file, and what runs it."""
    form = next(form for form in FORMATS.values() if form.recognises(content))
    for case in form.cases_of(content):
        name = case.get("name", case.get("id"))
        for variant in form.variants(case):
            yield f"{name}-{variant}" if variant else name, partial(form.run, case, variant)
