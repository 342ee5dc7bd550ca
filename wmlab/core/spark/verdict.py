"""The check of a recording by Spark: rules over the rows of one stream, all in one pass.

An `Invariant` (`wmlab.core.invariants`) is a rule in Python, which gets the rows of one stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from wmlab.core.answers import Verdicts
from wmlab.core.invariants import TOTALS, Derived, Inputs, Invariant, chosen_of, totals_of, verdicts_of
from wmlab.core.spark.grouped import Reduced, TablesOfStream, by_stream
from wmlab.core.words import counted


def check(
    spark: SparkSession,
    recording: str,
    invariants: Mapping[str, Invariant],
    inputs: Inputs,
    only: Sequence[str] = (),
) -> Verdicts:
    """One verdict per invariant on the recording with this name.

    `inputs` has what rules take, by name, see `Inputs`; tables of a recording may be DataFrames or `Reduced`, too. A
    function without arguments is called when its input is first taken. `only` names the invariants that are judged;
    without names, all are. Raises `ModelError` for one that is none.
    """
    chosen = chosen_of(invariants, only)
    from wmlab.core.waiting import waiting_for  # this module is loaded by Spark's workers, too, where nobody looks on

    with waiting_for(f"Spark judges {counted(len(chosen), 'invariant')}"):
        return Verdicts.of(recording, verdicts(spark, chosen, inputs))


def verdicts(spark: SparkSession, invariants: Mapping[str, Invariant], inputs: Inputs) -> list[dict[str, Any]]:
    """The verdict on each invariant over all streams, in their order, as `Verdicts.of` takes it.

    Each has invariant, statement, verdict ("ok", "violated", "unknown"), judged and violations (how many single
    things), title, left_out and exceptions (how many things do not count, and which), what (the first violation, or why
    nothing could be decided, or what was left out; else None), and evidence: the rows that prove it, each with table
    and row (JSON), else None.
    """
    totals = _Taken(spark, inputs).totals(invariants) if invariants else None
    rows = [] if totals is None else [row.asDict(recursive=True) for row in totals.collect()]
    return verdicts_of(invariants, rows)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The inputs of a check, each made when it is first taken, with a session for what becomes a DataFrame."""

    spark: SparkSession
    inputs: Inputs
    _made: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """An input; one that is a function is called once."""
        if name not in self._made:
            value = self.inputs[name]
            self._made[name] = value() if callable(value) else value
        return self._made[name]

    def totals(self, rules: Mapping[str, Invariant]) -> DataFrame:
        """The `TOTALS` of rules in each stream, all from one pass."""
        needed = self._needed(name for entry in rules.values() for name in entry.inputs)
        values = {name: self.value(name) for name in needed}
        tables = {name: value for name, value in values.items() if isinstance(value, pa.Table | DataFrame | Reduced)}
        others = {name: value for name, value in values.items() if name not in tables}
        return by_stream(self.spark, tables, partial(_totals_of_stream, dict(rules), others), TOTALS)

    def _needed(self, names: Iterable[str]) -> list[str]:
        """These inputs and all that they are made of."""
        needed: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed[name] = None
                value = self.value(name)
                waiting += value.inputs if isinstance(value, Derived) else ()
        return sorted(needed)


def _totals_of_stream(rules: Mapping[str, Invariant], values: Inputs, stream: str, tables: TablesOfStream) -> pa.Table:
    """The `TOTALS` of one stream; runs on an executor."""
    return pa.Table.from_pylist(totals_of(rules, tables, values, stream), schema=TOTALS)
