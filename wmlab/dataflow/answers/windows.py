"""What became of one window: it came out and what let it, it waits and for whom, or it holds nothing.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream classes `SlidingWindowP`,
`SessionWindowP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from wmlab.core.errors import RecordingError
from wmlab.core.words import counted, moment
from wmlab.dataflow.answers.explanation import FlowExplanation, FlowHolder
from wmlab.dataflow.answers.run import Row, Run, read
from wmlab.dataflow.answers.search import Search
from wmlab.dataflow.answers.sentences import held_by, release_ms, released_by
from wmlab.dataflow.model.aggregate import Aggregate, finished, group_of
from wmlab.dataflow.model.items import Event
from wmlab.dataflow.model.join import StreamJoin
from wmlab.dataflow.model.processor import Row as RowStimulus
from wmlab.dataflow.model.window import Sessions, SessionWindow
from wmlab.dataflow.sim.rules import DataflowRules

_COUNT: Final = (Aggregate("count", None),)


@dataclass(frozen=True, slots=True)
class Open:
    """A window [start, end) that holds `rows` rows and has not come out, and the instances that hold them."""

    start: int
    end: int
    rows: int
    instances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fired:
    """A result of a window: when it left, from which instance, and the step of merging that let it (None: the end)."""

    at_ms: int
    instance: int
    row: dict[str, Any]
    step: Row | None


def explain_window(
    run: Run, rules: DataflowRules, window: int | tuple[int, int], *, vertex: str | None, at_ms: int
) -> FlowExplanation:
    """Why a window, by its end or (start, end), has or has not come out at `at_ms`.

    Raises `RecordingError` if there is no window vertex, several and none is named, or nothing had begun.
    """
    name = _the_window(run, rules, vertex)
    execution = run.execution(at_ms)
    if execution is None:
        raise RecordingError(f"at {at_ms} ms nothing had begun.", remedy="ask later.")
    start, end = window if isinstance(window, tuple) else (None, window)
    windows = Windows(Search(run, rules, execution, at_ms), name)
    if came := windows.fired(end, start):
        return windows.came_out(came)
    waiting = [one for one in windows.open() if one.end == end and start in {None, one.start}]
    return windows.waits(waiting[0]) if waiting else windows.empty(start, end)


def _the_window(run: Run, rules: DataflowRules, vertex: str | None) -> str:
    """The window vertex asked for, or the only one."""
    known = list(rules.windows)
    if vertex is not None and run.vertex(vertex)["vertex"] in known:
        return vertex
    if vertex is None and len(known) == 1:
        return known[0]
    problem = f"{vertex!r} is no window" if vertex is not None else f"there are {len(known)} windows"
    raise RecordingError(
        f"{problem} of {run.stream!r}; its windows: {', '.join(known) or 'none'}.",
        remedy="name one of them with vertex=..." if known else "ask a recording of a dataflow with a window.",
    )


class Windows:
    """The windows or sessions of a vertex at the moment of a search."""

    def __init__(self, search: Search, vertex: str) -> None:
        self.search, self.run, self.vertex = search, search.run, vertex
        known = search.windows[vertex]
        assert not isinstance(known.rule, StreamJoin)
        self.rule, self.columns, self.entry = known.rule, known.inputs[0], known.entry
        self.key = known.rule.key
        self._instances = range(self.run.vertex(vertex)["parallelism"])

    def open(self) -> list[Open]:
        """The windows that hold rows and have not come out, by their end."""
        levels = [self.search.merged(self.vertex, number, "global") for number in self._instances]
        marks = [level.emitted.get(self.key) for level in levels]
        upto = min((mark[0] for mark in marks if mark is not None), default=None) if None not in marks else None
        # At the end of the inputs of an instance all windows come out.
        complete = any(not level.active and not level.idle for level in levels)
        ended = {(row["start"], row["end"]) for _, _, row in self._results()} if complete else set()
        spans = self._sessions() if isinstance(self.rule, SessionWindow) else self._spans()
        return [
            span
            for span in sorted(spans, key=lambda span: span.end)
            if (upto is None or self.rule.closed_by(span.end) > upto) and (span.start, span.end) not in ended
        ]

    def fired(self, end: int, start: int | None) -> list[Fired]:
        """The results of one window, in the order they left."""
        results = [
            Fired(at_ms, instance, row, self._let_by(instance, end))
            for at_ms, instance, row in self._results()
            if row["end"] == end and start in {None, row["start"]}
        ]
        return sorted(results, key=lambda result: result.at_ms)

    def came_out(self, results: list[Fired]) -> FlowExplanation:
        """Why a window with these results came out."""
        first = results[0]
        start, end = first.row["start"], first.row["end"]
        let, mark = "at the end of its inputs", None
        if first.step is not None:
            mark, edge = dict(first.step["emitted"])[self.key], first.step["input"]
            sources = (q["source"] for q in self.run.queues if q["target"] == self.vertex and q["edge"] == edge)
            did = {"idle": "became idle", "done": "ended"}.get(first.step["stimulus"], "brought it")
            let = f"the watermark reached {moment(mark)} when {next(sources, self.vertex)} {did}"
        return self._explanation(
            "came out",
            end,
            f"{_named(start, end)} of {self.vertex} came out at {moment(first.at_ms)} "
            f"with {counted(len(results), 'result')}: {let}",
            instance=first.instance,
            watermark=mark,
            since_ms=first.at_ms,
        )

    def waits(self, window: Open) -> FlowExplanation:
        """Why an open window waits."""
        needed = self.rule.closed_by(window.end)
        found: list[FlowHolder] = []
        for instance in window.instances:
            found += self.search.at_inputs(self.entry, instance, self.key, needed)
        holders = tuple(dict.fromkeys(found))
        until = release_ms(holders, self.search.at_ms)
        parts = [
            f"{_named(window.start, window.end)} of {self.vertex} holds {counted(window.rows, 'row')} and waits for "
            f"watermark {moment(needed)} of key {self.key}",
            held_by(self.run, holders),
            released_by(self.run, holders, until),
        ]
        level = self.search.merged(self.entry, window.instances[0], "global")
        mark, since_ms = level.emitted.get(self.key, (None, None))
        return self._explanation(
            "waiting",
            window.end,
            "; ".join(part for part in parts if part),
            instance=window.instances[0],
            watermark=mark,
            since_ms=since_ms,
            holders=holders,
            release_ms=until,
        )

    def empty(self, start: int | None, end: int) -> FlowExplanation:
        """Why a window that holds nothing gives nothing."""
        size = self.rule.timeout if isinstance(self.rule, SessionWindow) else self.rule.shape.size
        begins = end - size if start is None else start
        late = [
            drop
            for drop in self.run.rows("drops")
            if drop["vertex"] == self.entry and drop["at_ms"] <= self.search.at_ms and begins <= drop["time"] < end
        ]
        lost = f"; {counted(len(late), 'row')} of its time came too late and were dropped" if late else ""
        sentence = (
            f"{_named(begins, end)} of {self.vertex} holds no row at {moment(self.search.at_ms)}, and a window without "
            f"rows gives no result{lost}"
        )
        return self._explanation("empty", end, sentence)

    def _explanation(self, cause: str, end: int, sentence: str, **fields: Any) -> FlowExplanation:
        return FlowExplanation(
            at_ms=self.search.at_ms,
            stream=self.run.stream,
            asked="window",
            vertex=self.vertex,
            key=self.key,
            cause=cause,
            needed=self.rule.closed_by(end),
            sentence=sentence,
            **fields,
        )

    def _taken(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows that were taken and not dropped, each with the instance."""
        number, at_ms = self.search.number, self.search.at_ms
        dropped = Counter(
            (drop["instance"], drop["row"])
            for drop in self.run.rows("drops")
            if drop["vertex"] == self.entry and drop["execution"] == number and drop["at_ms"] <= at_ms
        )
        for instance in range(self.run.vertex(self.entry)["parallelism"]):
            for queue in self.run.into(self.entry, instance):
                for item in self.run.on_queue(queue, number, at_ms):
                    if item["kind"] != "event" or item["taken_ms"] is None or item["taken_ms"] > at_ms:
                        continue
                    if dropped[instance, item["row"]]:
                        dropped[instance, item["row"]] -= 1
                    else:
                        yield instance, read(item["row"])

    def _results(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """The results that had left, as (clock ms, instance, row)."""
        for instance in self._instances:
            seen: set[tuple[int, str]] = set()
            for queue in self.run.out_of(self.vertex, instance):
                for item in self.run.on_queue(queue, self.search.number, self.search.at_ms):
                    if item["kind"] == "event" and (item["put_ms"], item["row"]) not in seen:
                        seen.add((item["put_ms"], item["row"]))
                        yield item["put_ms"], instance, read(item["row"])

    def _let_by(self, instance: int, end: int) -> Row | None:
        """The first step that merged a watermark which closes the window; None: there was none by now."""
        for row in self.run.steps(self.vertex, instance, self.search.number, self.search.at_ms):
            mark = dict(row["emitted"]).get(self.key)
            if row["level"] == "global" and mark is not None and mark >= self.rule.closed_by(end):
                return row
        return None

    def _spans(self) -> list[Open]:
        """The windows that hold rows, whether they have come out or not."""
        assert not isinstance(self.rule, SessionWindow)
        held: dict[tuple[int, int], list[int]] = {}
        for instance, row in self._taken():
            for window in self.rule.shape.windows_of(row[self.columns[self.rule.time]]):
                held.setdefault(window, []).append(instance)
        return [Open(start, end, len(n), tuple(sorted(set(n)))) for (start, end), n in held.items()]

    def _sessions(self) -> list[Open]:
        """The sessions of every instance and group as the model joins them, each with the number of its rows."""
        assert isinstance(self.rule, SessionWindow)
        counting = replace(self.rule, aggregates=_COUNT)
        groups: dict[tuple[int, tuple[Any, ...]], Sessions] = {}
        for instance, row in self._taken():
            values = tuple(row[name] for name in self.columns)
            group = instance, group_of(values, counting.group)
            groups[group] = counting.step(groups.get(group, counting.start()), RowStimulus(0, Event(values))).state
        return [
            Open(session.start, session.end, cast(int, finished(_COUNT, session.accumulators)[0]), (instance,))
            for (instance, _), state in groups.items()
            for sessions in state.groups.values()
            for session in sessions
        ]


def _named(start: int, end: int) -> str:
    return f"the window from {moment(start)} to {moment(end)}"
