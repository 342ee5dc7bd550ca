"""An invariant is a rule over the rows of one stream: what it takes, what it finds, and the verdict on that."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

from wmlab.core.invariants import Derived, Evidence, Finding, Verdict, invariant, of_one_stream, verdicts_of

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


def judged(marks: pa.Table) -> Verdict:
    values = {"limit": 4, "largest": Derived(largest)}
    streams = sorted(set(marks["stream"].to_pylist()))
    tables = [(name, of_one_stream({"marks": marks}, name)) for name in streams]
    return verdicts_of("a run", {"X1": times_rise}, tables, values)["X1"]


def test_invariants_are_judged_stream_by_stream() -> None:
    verdict = judged(MARKS)
    assert (verdict.verdict, verdict.judged, verdict.violations, verdict.what) == ("violated", 1, 1, "it falls")
    assert verdict.evidence == (Evidence("marks", {"time": 1}),)
    verdict = judged(MARKS.slice(1, 1))
    assert (verdict.verdict, verdict.what, verdict.evidence) == ("unknown", "a time is beyond the limit", ())
    verdict = judged(MARKS.slice(0, 0))
    assert (verdict.verdict, verdict.what) == ("unknown", "there are no marks")
