"""The check of a recorded dataflow: the invariants K1 to K15, from the tables of its recording.

What merging let through, what was dropped and what came out is recorded, and compared with what stood on the queues:
the coalesced watermarks are asked of the model as the documents have it, windows and joins of batch queries over the
on-time rows. So a recording of mode `hz` shows its defects where they had an effect.

Source: "Keyed watermark support"; "Stream-to-stream join"; wmlab's own list of what they guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.errors import RecordingError
from wmlab.core.invariants import (
    Derived,
    Invariant,
    TableRows,
    judged_in_memory,
    of_one_stream,
    totals_of,
    with_liveness,
)
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.core.spark.grouped import Reduced
from wmlab.core.spark.verdict import BatchInvariant, collected, frame_of
from wmlab.dataflow.checks import calls, liveness, rows, watermarks
from wmlab.dataflow.checks.batch import (
    joins_equal_batch,
    on_time_rows,
    reached_by_instance,
    taken_by_channels,
    windows_equal_batch,
)
from wmlab.dataflow.checks.channels import (
    QUEUE_LOADS,
    SIZES,
    SPECIALS,
    Channels,
    SizesByLimit,
    loads_in_memory,
    queue_loads,
    reduced_specials,
    specials_of,
)
from wmlab.dataflow.checks.rows import TimedRows, timed_rows
from wmlab.dataflow.checks.watermarks import coalesced_steps
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

INVARIANTS: Final[Mapping[str, Invariant | BatchInvariant]] = {
    "K1": watermarks.watermarks_increase,
    "K2": watermarks.idle_once,
    "K3": watermarks.watermarks_coalesced,
    "K4": watermarks.idle_when_all_are,
    "K5": watermarks.reaches_the_instance,
    "K6": watermarks.leaves_the_instance,
    "K7": rows.on_time_stays_on_time,
    "K8": rows.late_stays_late,
    "K9": rows.drops_by_rule,
    "K10": windows_equal_batch,
    "K11": joins_equal_batch,
    "K12": rows.within_limits,
    "K13": calls.calls_consistent,
    "K14": calls.idle_overtakes_no_call,
    "K15": watermarks.leaves_at_once,
}
"""What a recording of a dataflow has to keep, by name."""
LIVENESS: Final[Mapping[str, Invariant]] = {"K16": liveness.comes_to_rest}
"""What it has to keep once everything has come to rest; judged when it is named, for most runs end before that."""
UNKNOWN_DATAFLOW: Final = {
    name: replace(invariant, no_data="the recording does not tell its dataflow")
    if {"rules", "limits"} & {*invariant.inputs}
    else invariant
    for name, invariant in INVARIANTS.items()
}
"""The same, where nobody knows the rules of the dataflow."""
SMALL_TABLES: Final = ("queues", "coalescing", "vertices", "executions")
LARGE_TABLES: Final = ("items", "drops", "state", "calls")
"""The tables of a recording that this takes: those that a task has in memory, and those that grow with the rows."""


def inputs_of(
    small: Mapping[str, pa.Table], large: Mapping[str, DataFrame], rules: DataflowRules | None
) -> dict[str, Any]:
    """What the invariants take, from the tables of a recording and what they do not say of its dataflow.

    What goes to the task of a dataflow is reduced where it lies, see `channels`. Queries take the large tables as they
    are, and the specials and loads of the queues as values, for which Spark runs a query when they are first taken.
    """
    rules = rules or DataflowRules()
    limits = _limits(rules)

    @cache
    def rows_of(name: str) -> TableRows:
        table: pa.Table = made[name]() if name in made else small[name]
        return table.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]

    made: dict[str, Callable[[], Any]] = {
        "on_queues": cache(lambda: _on_queues(large["items"])),
        "specials": lambda: made["on_queues"]().filter(pc.field("most").is_null()).select(SPECIALS.names),
        "queue_loads": lambda: made["on_queues"]().filter(~pc.field("most").is_null()).select(QUEUE_LOADS),
        "channels": cache(lambda: Channels.of(rows_of("queues"))),
        "timed_rows": lambda: timed_rows(
            large["items"],
            TimedRows(
                rows_of("queues"), rows_of("vertices"), rows_of("coalescing"), rows_of("specials"), made["channels"]()
            ),
        ),
        "on_time": lambda: on_time_rows(
            taken_by_channels(large["items"], made["channels"]()), large["drops"], rules.results.values()
        ),
        "reached": lambda: reached_by_instance(
            rules, rows_of("specials"), rows_of("queue_loads"), made["channels"](), rows_of("executions")
        ),
    }
    reduced = {
        "sizes": Reduced(large["state"], SizesByLimit(limits), SIZES),
        "calls": large["calls"].drop("row"),
        "calls_of_instances": Derived(calls.calls_of_instances),
        "due": Derived(_due),
    }
    return {**small, **large, **made, **reduced, "limits": limits, "rules": rules}


def _on_queues(items: DataFrame) -> pa.Table:
    """The specials and the loads of the queues, by one query; in a row of either the columns of the other are null."""
    on_queues = frame_of(specials_of(items)).unionByName(queue_loads(items), allowMissingColumns=True)
    return collected(on_queues)


def _due(specials: TableRows, queues: TableRows, coalescing: TableRows) -> list[dict[str, Any]]:
    return coalesced_steps(specials, queues, coalescing)


def check(recording: Recording, spark: SparkSession, *only: str) -> Verdicts:
    """One verdict per invariant, K1 to K15, with the rows that prove a violation; from the tables, by Spark.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    small = {name: recording.table(name) for name in SMALL_TABLES}
    large = {name: recording.spark(spark, name) for name in LARGE_TABLES}
    invariants = with_liveness(INVARIANTS, LIVENESS, only)
    reads = {"first_reads": lambda: _reads(recording.spark(spark, "source_rows"))}
    try:
        rules = rules_of(dataflow_of(recording, DataflowScenario, stand_ins=True))
    except RecordingError:
        return verdict.check(
            spark, recording.name, {**invariants, **UNKNOWN_DATAFLOW}, inputs_of(small, large, None) | reads, only
        )
    return verdict.check(spark, recording.name, invariants, inputs_of(small, large, rules) | reads, only)


def _reads(source_rows: DataFrame) -> Reduced:
    return Reduced(source_rows.select(*liveness.FIRST_READS.names), liveness.first_reads, liveness.FIRST_READS)


def in_memory(recording: Recording, *only: str) -> Verdicts:
    """The verdicts of `check` without Spark, for a recording that fits into memory; raises as `check` does.

    Rows are compared by queries, which this leaves out: K7, K8, K10 and K11.
    """
    return judged_in_memory(
        recording.name, with_liveness(INVARIANTS, LIVENESS, only), partial(_totals_in_memory, recording), only
    )


def _totals_in_memory(recording: Recording, chosen: Mapping[str, Invariant]) -> Iterator[dict[str, Any]]:
    rules = rules_of(dataflow_of(recording, DataflowScenario, stand_ins=True))
    limits = _limits(rules)
    tables = {name: recording.table(name) for name in (*SMALL_TABLES, *LARGE_TABLES, "source_rows")}
    for stream in pc.unique(tables["vertices"]["stream"]).to_pylist():
        own = of_one_stream(tables, stream)
        specials = reduced_specials(own["items"].select(SPECIALS.names).combine_chunks().to_batches())
        sizes = SizesByLimit(limits)(own["state"].to_batches())
        own["specials"] = pa.Table.from_batches(specials, SPECIALS)
        own["sizes"] = pa.Table.from_batches(sizes, SIZES)
        reads = liveness.first_reads(own["source_rows"].combine_chunks().to_batches())
        own["first_reads"] = pa.Table.from_batches(reads, liveness.FIRST_READS)
        own["queue_loads"] = loads_in_memory(own["items"])
        values = {
            "channels": Channels.of(own["queues"].to_pylist(maps_as_pydicts="strict")),
            "calls_of_instances": Derived(calls.calls_of_instances),
            "due": Derived(_due),
            "limits": limits,
            "rules": rules,
        }
        yield from totals_of(chosen, own, values, stream)


def _limits(rules: DataflowRules) -> dict[str, int]:
    known = [(rule, rule.limit) for rule in rules.results.values()]
    return {name: limit for rule, limit in known if limit is not None for name in [rule.vertex]}
