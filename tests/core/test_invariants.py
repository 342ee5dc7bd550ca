"""An invariant is a rule over the rows of one stream: what it takes, what it finds, and the verdict on that."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa

from wmlab.core.invariants import Derived, Evidence, Finding, invariant, of_one_stream, totals_of, verdict_of

MARKS = pa.table({"stream": ["a", "b", "a"], "time": [3, 5, 1]})


@invariant("times rise", "there are no marks")
def times_rise(marks: list[dict[str, int]], limit: int, largest: int) -> list[Finding]:
    findings = [Finding.undecided("a time is beyond the limit")] if largest > limit else []
    for before, after in pairwise(marks):
        proof = [Evidence.of("marks", after, "time")]
        findings.append(Finding(before["time"] < after["time"], at_ms=after["time"], what="it falls", evidence=proof))
    return findings


def largest(marks: list[dict[str, int]]) -> int:
    return max((mark["time"] for mark in marks), default=0)


def judged(marks: pa.Table) -> dict[str, Any]:
    rules = {"X1": times_rise}
    values = {"limit": 4, "largest": Derived(largest)}
    streams = sorted(set(marks["stream"].to_pylist()))
    totals = [row for name in streams for row in totals_of(rules, of_one_stream({"marks": marks}, name), values, name)]
    return verdict_of("X1", times_rise, totals)


def test_invariants_are_judged_stream_by_stream() -> None:
    row = judged(MARKS)
    assert (row["verdict"], row["judged"], row["violations"], row["what"]) == ("violated", 1, 1, "it falls")
    assert row["evidence"] == [{"table": "marks", "row": '{"time":1}'}]
    row = judged(MARKS.slice(1, 1))
    assert (row["verdict"], row["what"], row["evidence"]) == ("unknown", "a time is beyond the limit", None)
    row = judged(MARKS.slice(0, 0))
    assert (row["verdict"], row["what"]) == ("unknown", "there are no marks")
