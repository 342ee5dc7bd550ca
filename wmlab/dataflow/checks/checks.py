"""The invariants K1 to K14 of dataflows, and the verdict on each from the tables of a recording.

What merging let through, what was dropped and what came out is recorded, and held against what stood on the queues: the
merged watermarks are computed anew as the documents have them, windows and joins by batch queries over the on-time
rows. So a recording of mode `hz` shows its defects where they had an effect.

Source: "Keyed watermark support"; "Stream-to-stream join"; wmlab's own list of what they guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from wmlab.core.errors import ModelError
from wmlab.core.spark.judge import Invariant, summed
from wmlab.dataflow.checks.batch import joins_equal_batch, windows_equal_batch
from wmlab.dataflow.checks.coalesced import coalesced
from wmlab.dataflow.checks.marks import (
    idle_once,
    idle_when_all_are,
    leaves_the_instance,
    marks_increase,
    marks_merged,
    reaches_the_instance,
)
from wmlab.dataflow.checks.rows import (
    calls_consistent,
    drops_by_rule,
    idle_overtakes_no_call,
    late_stays_late,
    on_time_stays_on_time,
    within_limits,
)
from wmlab.dataflow.sim.rules import DataflowRules

_NO_STEP: Final = "nothing was merged"
_ROWS: Final = ("items", "queues", "coalescing", "vertices")
_RESULTS: Final = ("items", "queues", "drops", "executions", "rules")

DATAFLOW_INVARIANTS: Final[Mapping[str, Invariant]] = {
    "K1": Invariant(
        "the watermarks of a key strictly increase on every queue",
        marks_increase,
        ("items", "queues"),
        "no queue had two watermarks of a key",
    ),
    "K2": Invariant(
        "merging lets one idle message through until an input is active again",
        idle_once,
        ("coalescing",),
        "no merging became idle",
    ),
    "K3": Invariant(
        "merging lets the lowest watermark of the active inputs through, and never goes back",
        marks_merged,
        ("coalescing", "merged"),
        _NO_STEP,
    ),
    "K4": Invariant(
        "merging says idle when its last active input is idle or ends, and only then",
        idle_when_all_are,
        ("coalescing", "merged"),
        _NO_STEP,
    ),
    "K5": Invariant(
        "every watermark that an edge lets through reaches the merging of all edges",
        reaches_the_instance,
        ("coalescing", "executions"),
        "no edge let a watermark through",
    ),
    "K6": Invariant(
        "every merged watermark leaves a vertex that hands watermarks on",
        leaves_the_instance,
        ("coalescing", "items", "queues", "vertices", "executions"),
        "no such vertex merged a watermark",
    ),
    "K7": Invariant(
        "a row that is on time on input is on time on output",
        on_time_stays_on_time,
        _ROWS,
        "no row with a time went through a vertex",
    ),
    "K8": Invariant("a row that is late on input is late on output", late_stays_late, _ROWS, "no row came in late"),
    "K9": Invariant(
        "a row is dropped only when it is below the watermark",
        drops_by_rule,
        ("drops", "coalescing", "vertices", "executions"),
        "no row was dropped",
    ),
    "K10": Invariant(
        "windows are those of a batch query over the on-time rows",
        windows_equal_batch,
        _RESULTS,
        "no window or session gave a result, or had to",
    ),
    "K11": Invariant(
        "joins are those of a batch query over the on-time rows",
        joins_equal_batch,
        _RESULTS,
        "no join gave a result, or had to",
    ),
    "K12": Invariant(
        "no window or join holds more than its limit",
        within_limits,
        ("state", "rules"),
        "nothing with a limit held rows",
    ),
    "K13": Invariant(
        "every row makes one call, and no more calls are in flight than the capacity",
        calls_consistent,
        ("calls", "items", "queues", "executions", "capacities"),
        "no call was made",
    ),
    "K14": Invariant(
        "an idle message overtakes no call in flight",
        idle_overtakes_no_call,
        ("calls", "items", "queues", "coalescing"),
        "no asynchronous vertex became idle",
    ),
}
"""What a recording of a dataflow has to keep, by name."""
JUDGED: Final = (
    "items", "queues", "coalescing", "vertices", "executions", "drops", "state", "calls",
)  # fmt: skip
"""The tables of a recording from which that is judged."""
_OF_THE_DATAFLOW: Final = ("rules", "capacities")


def dataflow_verdict(name: str, tables: Mapping[str, DataFrame], rules: DataflowRules | None) -> DataFrame:
    """The verdict on one invariant, "K1" to "K14", over a recorded dataflow: exactly one row.

    `tables` are the recording's tables by name, `rules` what they do not say of its dataflow; None if nobody
    knows, and then what needs it is "unknown". Columns as `wmlab.streams.checks.checks.verdict`. Nothing is executed
    here. Raises `ModelError` for another name or a missing table.
    """
    if name not in DATAFLOW_INVARIANTS:
        known = ", ".join(DATAFLOW_INVARIANTS)
        raise ModelError(f"There is no invariant {name!r} of dataflows.", remedy=f"Ask for one of {known}.")
    if missing := [table for table in JUDGED if table not in tables]:
        raise ModelError(
            f"{name} is judged from the table {missing[0]!r}, which is not given.",
            remedy=f"Give the tables {', '.join(JUDGED)}.",
        )
    rule = DATAFLOW_INVARIANTS[name]
    if rules is None and any(table in _OF_THE_DATAFLOW for table in rule.tables):
        why = "the recording does not tell its dataflow, as it has Python functions"
        rule = Invariant(rule.statement, rule.judge, rule.tables, why)
    vertex_rules = rules or DataflowRules()
    made: dict[str, Callable[[], object]] = {
        "merged": lambda: coalesced(tables["items"], tables["queues"], tables["coalescing"]),
        "rules": lambda: tuple(vertex_rules.results.values()),
        "capacities": lambda: vertex_rules.capacities,
    }
    return summed(name, rule, rule.judge(*(made[one]() if one in made else tables[one] for one in rule.tables)))
