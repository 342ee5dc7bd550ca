"""Cases on the watermarks of Flink, Spark, Kafka Streams and Beam: a file whose kinds are names of one or two parts.

Every entry under a kind is one case. As everywhere here, a kind, operation, field or text that no adapter knows fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.conformance import engines_flink, engines_others, engines_spark
from tests.conformance.fields import Fields, known, run_kind

KINDS: Final[Mapping[str, Callable[[Fields], None]]] = {
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
GROUPS: Final = {kind.partition(".")[0] for kind in KINDS if "." in kind}
UNITS: Final = {"seconds unless ms noted"}


def is_engines(content: Any) -> bool:
    """Whether a file is in this format: what watermarks mean under `_convention`, and kinds beside it."""
    return isinstance(content, dict) and "_convention" in content and "cases" not in content


def cases_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All cases of a file, each with its kind and a name."""
    return [
        {"kind": kind, "name": f"{kind}-{entry.get('id', number)}", "entry": entry}
        for kind, entries in _kinds(content)
        for number, entry in enumerate(map(_entry, entries if isinstance(entries, list) else [entries]))
    ]


def _kinds(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if name == "_convention":
            continue
        if name not in GROUPS:
            yield name, value
            continue
        for part, entries in value.items():
            if part != "unit":
                yield f"{name}.{part}", entries
            else:
                known("unit", entries, UNITS)


def _entry(entry: Any) -> dict[str, Any]:
    """A case as an object; steps that are rows under names of columns become objects as well."""
    if not isinstance(entry, dict):
        return {"text": entry}
    if "columns" in entry:
        rest = {name: value for name, value in entry.items() if name != "columns"}
        return {**rest, "steps": [dict(zip(entry["columns"], row, strict=True)) for row in entry["steps"]]}
    return entry


def run_case(case: Mapping[str, Any]) -> None:
    """Run one case; raises AssertionError when an expectation fails or anything in the case is unknown."""
    run_kind(KINDS, case)
