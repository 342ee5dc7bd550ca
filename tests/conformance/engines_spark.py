"""Spark: queries of one and more streams with windows, chained operators, errors and recovery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.conformance.fields import Fields, UnknownFormatError, expect, expect_if, known, steps_of
from tests.strategies.oracles import spark_rules
from wmlab.core.errors import ModelError
from wmlab.strategies.model import spark


class Query:
    """A query that counts the rows of tumbling windows, batch by batch."""

    def __init__(self, delays: dict[str, int], policy: spark.WatermarkPolicy, window: int | None, mode: str) -> None:
        self.delays, self.policy, self.window, self.mode = delays, policy, window, mode
        self.marks = spark.watermarks(delays)
        self.counts: Counter[int] = Counter()

    def batch(self, rows: dict[str, list[int]]) -> list[list[int]]:
        """One batch; the windows that it emits, with their counts, in order."""
        changed = set()
        for time in (time for times in rows.values() for time in times):
            if self.window is not None and (start := time - time % self.window) + self.window > self.marks.late:
                self.counts[start] += 1
                changed.add(start)
        closed = [start for start in self.counts if start + (self.window or 0) <= self.marks.watermark]
        emitted = [[start, self.counts[start]] for start in sorted(changed if self.mode == "update" else closed)]
        for start in closed:
            del self.counts[start]
        largest = {stream: max(times) for stream, times in rows.items() if times}
        self.marks = spark.after_batch(self.marks, largest, self.delays, self.policy)
        return emitted

    def finish(self) -> list[list[int]]:
        """The batch without data that runs if the watermark has moved."""
        return self.batch({}) if self.marks.watermark > self.marks.late else []


def run_query(case: Fields) -> None:
    """Batches of rows, the watermark that each uses or leaves, and the windows that come out."""
    delays, policy = case.take("streams"), known("policy", case.take("policy", "min"), ("min", "max"))
    window, mode = None, "append"
    if "agg" in case:
        with Fields(case.take("agg"), "agg") as agg:
            window, mode = agg.take("window"), known("mode", agg.take("mode", mode), ("append", "update"))
    query, idle_batches = Query(delays, policy, window, mode), case.take("no_data_batches", True)
    for step in steps_of(case):
        used = query.marks.watermark
        if step.take("restart", False):
            query.marks = spark.after_restart(query.marks)
        else:
            emitted = query.batch(step.take("batch"))
            if idle_batches:
                emitted += query.finish()
            expect_if(step, emit=emitted)
        expect_if(step, wm=used, wm_after=query.marks.watermark)


def run_chain(case: Fields) -> None:
    """A count of windows over a count of windows: rows [start of the outer, inner windows, sum of their counts]."""
    delay, inner, outer = case.take("delay", 0), case.take("window1"), case.take("window2")
    marks = spark.watermarks({"": delay})
    counts: Counter[int] = Counter()
    sums: dict[int, list[int]] = {}
    for step in steps_of(case):
        times, emitted, dropped = times_of(step.take("ts")), [], set()
        for rows in (times, []):
            if not rows and marks.watermark == marks.late:
                break
            for time in rows:
                start = time - time % inner
                if start + inner <= marks.late:
                    dropped.add(start)
                else:
                    counts[start] += 1
            for start in sorted(s for s in counts if s + inner <= marks.watermark):
                of = (start + inner - 1) // outer * outer
                assert of + outer > marks.late, "a result of the first operator is late for the second"
                windows, total = sums.get(of, [0, 0])
                sums[of] = [windows + 1, total + counts.pop(start)]
            for start in sorted(s for s in sums if s + outer <= marks.watermark):
                emitted.append([start, *sums.pop(start)])
            used, marks = marks, spark.after_batch(marks, {"": max(rows)} if rows else {}, {"": delay})
        expect_if(step, wm_late=used.late, wm_evict=used.watermark, emit=emitted, dropped=len(dropped))


def times_of(text: Any) -> list[int]:
    """Times that are listed, or first and last."""
    if isinstance(text, list):
        return text
    first, dots, last = text.partition("..")
    return list(range(int(first), int(last) + 1)) if dots else [int(part) for part in text.split(",")]


def run_error(case: Fields) -> None:
    """A rule on what is refused or how a delay is read, in words."""
    match case.take("text"):
        case "negative delay":
            with pytest.raises(ModelError):
                spark.watermarks({"a": -1})
        case "delay given in months is read as 31-day months":
            expect("months", spark_rules.delay_ms(months=2), 62 * 24 * 3600 * 1000)
        case (
            "watermark redefined on a stream that already has one (Spark 4: error; before: latest wins with a warning)"
        ):
            spark_rules.redefine(["a"], "b")
            with pytest.raises(ModelError):
                spark_rules.redefine(["a"], "a")
        case text:
            raise UnknownFormatError(f"rule {text!r}")


def run_recovery(case: Fields) -> None:
    """Rows that came in batches before a query was started again, and its watermark then."""
    delays = {"": case.take("delay")}
    state = spark.watermarks(delays)
    for time in _flat(case.take("ts")):
        state = spark.after_batch(state, {"": time}, delays)
    expect("wm_after", spark.after_restart(state).watermark, case.take("wm_after"))


def _flat(times: Iterable[Any]) -> list[int]:
    return [max(time) if isinstance(time, list) else time for time in times]
