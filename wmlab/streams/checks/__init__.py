"""The check of streams: one verdict for each invariant I1 to I13, from a recording alone.

It shares no state with the simulator: what it knows is what a recording holds, which is its tables, and for I13 the
options of its scenario that say how readers look. All are rules over the rows of one stream, and Spark brings these to
them in one pass; the events, which no task has in memory, it reduces first, where they lie.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; wmlab's own list of what both guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.invariants import Derived, Invariant, judged_in_memory, of_one_stream, totals_of, with_liveness
from wmlab.core.spark import verdict
from wmlab.core.spark.grouped import Reduced
from wmlab.streams.checks import events, facts, liveness, log, readers, windows
from wmlab.streams.checks.events import EVENT_FACTS, REDUCED_BY, EventReduction, event_facts_of

if TYPE_CHECKING:  # An executor needs no recording, and would take a fifth of a second to import it.
    from wmlab.core.recording import Recording

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "I1": log.lower_increases,
    "I2": log.upper_never_decreases,
    "I3": log.cut_never_moves_back,
    "I4": log.cut_beyond_writers,
    "I5": log.cut_complete,
    "I6": readers.nothing_late,
    "I7": log.bounds_in_order,
    "I8": log.one_winner,
    "I9": readers.windows_monotone,
    "I10": readers.lower_rises,
    "I11": readers.upper_covers_noted,
    "I12": readers.lower_below_latest,
    "I13": windows.windows_are_bounds,
}
"""What a recording has to keep, by name."""
LIVENESS: Final[Mapping[str, Invariant]] = {"I14": liveness.comes_to_rest}
"""What it has to keep once everything has come to rest; judged when it is named, for most runs end before that."""
INPUT_TABLES: Final = (
    "cycles", "epochs", "events", "group_updates", "incidents", "ownership", "positions", "reads", "segments",
    "watermarks", "windows", "writer_marks",
)  # fmt: skip
"""The tables of a recording that this takes."""
DERIVED: Final[Mapping[str, Derived]] = {
    "ordered_log": Derived(facts.ordered_log),
    "counting_log": Derived(facts.counting_log),
    "accepted_marks": Derived(facts.accepted_marks),
    "marks_by_writer": Derived(facts.marks_by_writer),
    "views_by_writer": Derived(facts.views_by_writer),
    "lineage": Derived(log.Lineage.of),
    "log_in_columns": Derived(windows.log_in_columns),
    "delivered_events": Derived(events.delivered_events),
    "late_deliveries": Derived(events.late_deliveries),
    "covered_events": Derived(events.CoveredEvents),
}
"""What the rules take beside tables, made of the rows of one stream."""


def inputs_of(recording: Recording) -> dict[str, pa.Table]:
    """What the invariants take, by name: `INPUT_TABLES`, and what is made of the scenario."""
    from wmlab.streams.checks.compared import compared_groups  # which an executor does without

    return {name: recording.table(name) for name in INPUT_TABLES} | {"compared_groups": compared_groups(recording)}


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant, I1 to I13, with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    from wmlab.streams.checks.compared import compared_groups  # which an executor does without

    groups = cache(partial(compared_groups, recording))
    inputs: dict[str, Any] = {name: partial(recording.table, name) for name in INPUT_TABLES if name != "events"}
    inputs["event_facts"] = lambda: _reduced_by_spark(recording, spark)
    inputs["compared_groups"] = groups
    inputs["some_are_compared"] = lambda: _some_are_compared(groups())
    return verdict.check(spark, recording.name, with_liveness(INVARIANTS, LIVENESS, only), {**inputs, **DERIVED}, only)


def _reduced_by_spark(recording: Recording, spark: SparkSession) -> Reduced:
    """The `EVENT_FACTS` of a recording, reduced where its events lie."""
    reduction = EventReduction({name: recording.table(name) for name in REDUCED_BY})
    return Reduced(recording.spark(spark, "events"), reduction, EVENT_FACTS)


def with_reduced_events(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables that rules take, of what `inputs_of` gives: with the `EVENT_FACTS` in the place of the events."""
    rest = {name: table for name, table in tables.items() if name != "events"}
    return rest | {"event_facts": event_facts_of(tables["events"], tables)}


def violations_in(tables: Mapping[str, pa.Table], stream: str) -> int:
    """How often the invariants are broken in one stream, from what `inputs_of` gives of it; judged here and now."""
    values = {**DERIVED, "some_are_compared": _some_are_compared(tables["compared_groups"])}
    totals = totals_of(INVARIANTS, with_reduced_events(tables), values, stream)
    return sum(row["violations"] for row in totals)


def in_memory(recording: Recording, *only: str) -> Verdicts:
    """The verdicts of `check` without Spark, for a recording that fits into memory; raises as `check` does."""
    return judged_in_memory(
        recording.name, with_liveness(INVARIANTS, LIVENESS, only), partial(_totals_in_memory, recording), only
    )


def _totals_in_memory(recording: Recording, chosen: Mapping[str, Invariant]) -> Iterator[dict[str, Any]]:
    tables = inputs_of(recording)
    values = {**DERIVED, "some_are_compared": _some_are_compared(tables["compared_groups"])}
    for stream in recording.table("segments")["stream"].unique().to_pylist():
        yield from totals_of(chosen, with_reduced_events(of_one_stream(tables, stream)), values, stream)


def _some_are_compared(compared_groups: pa.Table) -> bool:
    return bool(compared_groups["why_not"].null_count)
