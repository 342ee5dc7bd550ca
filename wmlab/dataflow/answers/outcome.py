"""The outcome of one window: it came out, has no row, or waits for an input; and which rows were dropped.

Source: "Keyed watermark support", WM rules and Changes to window aggregation processors; "Stream-to-stream join",
edge cases; upstream classes `SlidingWindowP`, `SessionWindowP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, cast

from wmlab.core.errors import RecordingError
from wmlab.core.facts import Value
from wmlab.core.holders import FAILED
from wmlab.dataflow.answers.cause import release_ms_of, setters_first
from wmlab.dataflow.answers.cause_facts import dataflow_facts, of_failure, of_holders, of_release
from wmlab.dataflow.answers.run import DataflowRun, read
from wmlab.dataflow.answers.search import Search, history_of, unique_holders
from wmlab.dataflow.answers.values import Explanation
from wmlab.dataflow.answers.vocabulary import CAME_OUT, EMPTY, LET_OUT, NOT_IN_IT, RELEASE, WAITING
from wmlab.dataflow.model.items import MIN
from wmlab.dataflow.model.window import OpenWindow, SessionProcessor, WindowProcessor
from wmlab.dataflow.scenario.vertices import plain_value


def window_vertex(run: DataflowRun, vertex: str | None) -> str:
    """The window vertex of that name, or the only one; raises `RecordingError` if there is no one answer."""
    known = list(run.rules.windows)
    if vertex is not None and run.vertex(vertex)["vertex"] in known:
        return vertex
    if vertex is None and len(known) == 1:
        return known[0]
    problem = f"{vertex!r} is not a window" if vertex is not None else f"there are {len(known)} windows"
    raise RecordingError(
        f"{problem} of {run.stream!r}; its windows: {', '.join(known) or 'none'}.",
        remedy="name one of them with vertex=..." if known else "ask a recording of a dataflow with a window.",
    )


class WindowResult(NamedTuple):
    """A result of a window vertex: in which execution and when it left which instance (clock ms), and the row."""

    instance: int
    execution: int
    at_ms: int
    row: Mapping[str, Any]


class WindowAnswers:
    """The windows or sessions of a vertex at the moment of a search."""

    def __init__(self, search: Search, vertex: str) -> None:
        self.search, self.run, self.vertex = search, search.run, vertex
        self.recorded = search.windows[vertex]
        self.rule = cast("WindowProcessor | SessionProcessor", self.recorded.rule)
        self.key: int = self.rule.key
        self.instances = range(search.run.vertex(vertex)["parallelism"])

    def values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """A row that came in as the rule takes it."""
        return tuple(plain_value(row[name]) for name in self.recorded.inputs[0])

    def open(self, instance: int) -> list[OpenWindow]:
        """The windows of an instance that hold rows, or whose results have not left it, by their end."""
        results: list[Any] = [i for i in self.search.job.leaving(self.vertex, instance) if type(i) is tuple]
        groups = len(self.rule.group) if isinstance(self.rule, SessionProcessor) else 0
        leaving = Counter((row[0], row[1], row[2 : 2 + groups]) for row in results)
        windows = [OpenWindow(start, end, count, group) for (start, end, group), count in leaving.items()]
        return sorted([*windows, *self.search.job.processor(self.vertex, instance).open_windows], key=itemgetter(1))

    def first_open(self, instance: int, needed: int) -> OpenWindow | None:
        """Of the windows of an instance that a watermark of `needed` or higher closes the one that ends first."""
        windows = self.open(instance)
        return next((window for window in windows if self.rule.closed_by(window.end) >= needed), None)

    @cached_property
    def results(self) -> list[WindowResult]:
        """The results that had left, by instance, execution and the clock; one that went to several queues once."""
        once = {(result.instance, result.at_ms, str(result.row)): result for result in self._every_result()}
        return sorted(once.values(), key=itemgetter(0, 2))

    def _every_result(self) -> Iterator[WindowResult]:
        for instance in self.instances:
            for execution, saved_ms in history_of(self.run, self.search.execution, self.vertex, instance):
                until_ms = self.search.at_ms if saved_ms is None else min(saved_ms, self.search.at_ms)
                for queue in self.run.out_of(self.vertex, instance):
                    for item in self.run.indexed("items").get((execution, queue["queue"]), ()):
                        if item["kind"] == "event" and item["put_ms"] <= until_ms:
                            yield WindowResult(instance, execution, item["put_ms"], read(item["row"]))

    def explanation(self, start: int | None, end: int) -> Explanation:
        """Why the window with that end (and, if given, that start) has or has not come out."""
        results = [
            result for result in self.results if result.row["end"] == end and start in {None, result.row["start"]}
        ]
        waiting = [
            (number, window)
            for number in self.instances
            for window in self.open(number)
            if window.end == end and start in {None, window.start}
        ]
        if waiting:
            return self._waits([(n, w) for n, w in waiting if w.start == waiting[0][1].start], results)
        return self._came_out(end, results) if results else self._empty(start, end)

    def _came_out(self, end: int, results: Sequence[WindowResult]) -> Explanation:
        """The first step that coalesced a watermark which closes the window let it come out, or else the end."""
        firsts = {result.instance: (result.at_ms, result.instance, result.execution) for result in reversed(results)}
        # It is out when the last of its instances has let it out.
        at_ms, instance, execution = max(firsts.values())
        step = self.run.first_step((execution, self.vertex, instance, "global", self.key), self.rule.closed_by(end))
        watermark = None
        values: dict[str, Value] = {
            "window from": results[0].row["start"],
            "window to": end,
            "came out at": at_ms,
            "results": len(results),
        }
        if step is not None:
            watermark = dict(step["emitted"])[self.key]
            sources = (queue["source"] for queue in self.run.into(self.vertex, instance, step["input"]))
            values |= {"watermark": watermark, "since": step["at_ms"]}
            values |= {"let out by": next(sources, self.vertex), "message": step["stimulus"]}
        fields = {"instance": instance, "watermark": watermark, "since_ms": at_ms}
        return self._explanation("came out", end, values, ((CAME_OUT,), LET_OUT), **fields)

    def _waits(self, windows: Sequence[tuple[int, OpenWindow]], results: Sequence[WindowResult] = ()) -> Explanation:
        """`windows` are the parts of one window, with their instances, and `results` what has come out of others."""
        start, end = windows[0][1].start, windows[0][1].end
        needed, rows = self.rule.closed_by(end), Counter[int]()
        for instance, window in windows:
            rows[instance] += window.rows
        watermarks = {
            number: self.search.job.level(self.vertex, number).emitted.get(self.key, (None, None)) for number in rows
        }
        # Of several instances the one that is furthest from it.
        marks = {number: MIN if mark is None else mark for number, (mark, _) in watermarks.items()}
        instance = min(rows, key=lambda number: (marks[number], number))
        watermark, since_ms = watermarks[instance]
        values: dict[str, Value] = {
            "window from": start,
            "window to": end,
            "rows": rows.total(),
            "part at": tuple(self.run.instance_name(self.vertex, number) for number in rows),
            "rows of part": tuple(rows.values()),
            "results": len(results) or None,
            "watermark": watermark,
            "since": since_ms,
            "needed": needed,
        }
        fields: dict[str, Any] = {"instance": instance, "watermark": watermark, "since_ms": since_ms}
        if self.search.end is not None and self.search.end.is_failure:
            return self._explanation("failed", end, values, (WAITING,), **fields)
        holders_now = self.search.holders_now(self.vertex, instance, self.key, watermark)
        every = unique_holders(
            holder
            for number in rows
            for holder in self.search.holders(self.vertex, number, self.key, needed, at="inputs")
        )
        holders = setters_first(every, holders_now)
        release_ms = release_ms_of(holders, self.search.at_ms)
        values |= of_holders(holders, holders_now, needed) | of_release(self.run, holders, release_ms)
        fields |= {"holders": holders, "release_ms": release_ms}
        return self._explanation("waiting", end, values, (WAITING, RELEASE), **fields)

    def _empty(self, start: int | None, end: int) -> Explanation:
        at_ms = self.search.at_ms
        size = self.rule.timeout if isinstance(self.rule, SessionProcessor) else self.rule.shape.size
        begins = end - size if start is None else start
        # The sessions that there are at that stretch of time, or the windows that there can be.
        if isinstance(self.rule, SessionProcessor):
            left = [(result.row["start"], result.row["end"]) for result in self.results]
            every = [*((window.start, window.end) for n in self.instances for window in self.open(n)), *left]
            near = [(starts, ends) for starts, ends in every if starts < end and ends > begins]
        else:
            near = list(self.rule.shape.windows_of(end - 1))
        if near and not any(known[1] == end and start in {None, known[0]} for known in near):
            raise RecordingError(
                f"{self.vertex!r} has no window from {self.run.time(begins)} to {self.run.time(end)}; "
                f"there is one from {self.run.time(near[0][0])} to {self.run.time(near[0][1])}.",
                remedy="ask for one that there is, by its end or as (start, end).",
            )
        late = sum(
            drop["vertex"] == self.vertex and drop["at_ms"] <= at_ms and begins <= drop["time"] < end
            for drop in self.run.rows("drops")
        )
        on_queue = self._on_queue(begins, end)
        values = {"window from": begins, "window to": end, "lost rows": late or None, "on a queue": on_queue or None}
        return self._explanation("empty", end, values, ((EMPTY,), NOT_IN_IT))

    def _on_queue(self, begins: int, end: int) -> int:
        """How many rows with a time in a stretch lie on the queues in front of it."""
        return sum(
            begins <= self.values(read(item["row"]))[self._time_on(queue["edge"])] < end
            for instance in self.instances
            for queue in self.run.into(self.vertex, instance)
            for item in self.search.rows("items", queue["queue"])
            if item["kind"] == "event" and self.search.still(item["taken_ms"])
        )

    def _time_on(self, edge: int) -> int:
        """The column of the time on an input edge."""
        return self.rule.time if isinstance(self.rule, SessionProcessor) else self.rule.time_on(edge)

    def _explanation(
        self, cause: str, end: int, values: Mapping[str, Value], templates: Sequence[Sequence[str]], **fields: Any
    ) -> Explanation:
        name = self.run.instance_name(self.vertex, fields.get("instance"))
        known = {"vertex": name, "key": self.key, **of_failure(self.search.end), **values}
        facts = dataflow_facts(self.run, known)
        return Explanation(
            at_ms=self.search.at_ms,
            stream=self.run.stream,
            vertex=self.vertex,
            key=self.key,
            cause=cause,
            needed=self.rule.closed_by(end),
            facts=facts,
            templates=facts.chosen(FAILED, *templates),
            **fields,
        )
