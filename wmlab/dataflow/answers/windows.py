"""The windows of a recorded dataflow at a moment: what they hold, which are open, and the results that left.

Of what an instance took in one millisecond rows go to a window before watermarks: an instance takes rows of several
queues before the watermarks between them, and those that it dropped are left out anyway.

Source: upstream classes `SlidingWindowP`, `SessionWindowP`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, cast

from wmlab.dataflow.answers.lowest import LowestFrames, LowestSessions, WindowName
from wmlab.dataflow.answers.replay import (
    Playback,
    RuleState,
    TakenStimulus,
    restored,
    snapshot_of,
    successor_snapshot,
)
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, read
from wmlab.dataflow.model.aggregate import Aggregation, group_of
from wmlab.dataflow.model.items import Event, RowValues, Watermark
from wmlab.dataflow.model.join import AnyJoin
from wmlab.dataflow.model.processor import Complete, EdgeRow, Stimulus
from wmlab.dataflow.model.window import SessionProcessor, WindowProcessor
from wmlab.dataflow.scenario.vertices import plain_value
from wmlab.dataflow.sim.task import partition_hash

WindowRule = WindowProcessor | SessionProcessor
_COUNT: Final = (Aggregation("count", None),)


@dataclass(frozen=True, slots=True)
class WindowResult:
    """A result of a window vertex: in which execution and when it left which instance (clock ms), and the row.

    It was item `sequence` of `queue`.
    """

    execution: int
    at_ms: int
    instance: int
    row: Mapping[str, Any]
    queue: int
    sequence: int


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window [start, end) whose result has not left an instance that has `rows` rows for it.

    `needed` is the watermark of that instance which closes it, `group` the group of a session.
    """

    start: int
    end: int
    needed: int
    rows: int
    instance: int
    group: RowValues = ()


@dataclass(slots=True)
class WindowState(RuleState[WindowRule]):
    """The windows of one instance: the state of the rule, which counts rows, and the results that have not left.

    `lowest` has the open windows by their end, so that the first one is found without looking at all.
    """

    leaving: OrderedDict[WindowName, int] = field(default_factory=OrderedDict)
    lowest: LowestFrames | LowestSessions = field(init=False)

    def __post_init__(self) -> None:
        """What was open at the start is known."""
        if isinstance(self.rule, SessionProcessor):
            self.lowest = LowestSessions(self.rule, self.state)
        else:
            self.lowest = LowestFrames(self.rule, self.state)

    def follow(self, event: TakenStimulus | WindowName) -> WindowState:
        """After the instance took something, or after a result of a window left it."""
        if not isinstance(event, TakenStimulus):
            self._left(event)
            return self
        for item in self.take(event):
            if isinstance(item, Event):
                self.leaving[item.values[:-1]] = cast("int", item.values[-1])
        if isinstance(event.stimulus, EdgeRow):
            self.lowest.follow(self.state, event.stimulus)
        return self

    def _left(self, window: WindowName) -> None:
        """Results leave in the order in which their windows were closed."""
        if window in self.leaving:
            while self.leaving.popitem(last=False)[0] != window:
                pass

    def open(self, instance: int) -> Iterator[OpenWindow]:
        """The windows that are open or whose results are on their way out."""
        yield from self._leaving(instance)
        yield from (self._window(*known, instance) for known in self.lowest.every(self.state))

    def open_at(self, instance: int, end: int) -> Iterator[OpenWindow]:
        """Those with that end."""
        yield from (window for window in self._leaving(instance) if window.end == end)
        yield from (self._window(*known, instance) for known in self.lowest.at(self.state, end))

    def first_open(self, instance: int, needed: int) -> OpenWindow | None:
        """Of those that a watermark of `needed` or higher closes the one that ends first."""
        windows = [window for window in self._leaving(instance) if window.needed >= needed]
        if (known := self.lowest.first(self.state, needed)) is not None:
            windows.append(self._window(*known, instance))
        return min(windows, key=attrgetter("end"), default=None)

    def _leaving(self, instance: int) -> Iterator[OpenWindow]:
        return (self._window(window, rows, instance) for window, rows in self.leaving.items())

    def _window(self, window: WindowName, rows: int, instance: int) -> OpenWindow:
        start, end, *group = window
        return OpenWindow(start, end, self.rule.closed_by(end), rows, instance, tuple(group))


class _TimedEvent(NamedTuple):
    """What a window took, or a result that left it: by the clock (ms), by `rank`, and by `order` among its equals.

    Of one millisecond rows come before watermarks, and these before results.
    """

    at_ms: int
    rank: int
    order: int
    event: TakenStimulus | WindowName


class WindowRows:
    """The rows and results of a window or session over one execution, and the playback of each of its instances."""

    def __init__(self, run: DataflowRun, execution: int, vertex: str) -> None:
        self._window = run.rules.results[vertex]
        assert not isinstance(self._window.rule, AnyJoin)
        self._run, self._execution, self.rule = run, execution, self._window.rule
        self.instances: int = run.vertex(vertex)["parallelism"]
        self._snapshot = run.once(snapshot_of, execution)
        self._successor = run.once(successor_snapshot, execution)
        self._own_results = [result for instance in range(self.instances) for result in self._results(instance)]

    @cached_property
    def _all_results(self) -> list[WindowResult]:
        """Also those that left before the snapshot that the execution began from."""
        if self._snapshot is None:
            return self._own_results
        before, reached = self._former._all_results, self._snapshot
        carried = (
            result
            for result in before
            if result.execution != reached.execution or result.sequence < reached.put(result.queue)
        )
        return [*carried, *self._own_results]

    @cached_property
    def results(self) -> dict[int, list[WindowResult]]:
        """The results by the end of their windows, in the order of instances, executions and the clock."""
        results: dict[int, list[WindowResult]] = {}
        for result in sorted(self._all_results, key=attrgetter("instance")):
            results.setdefault(result.row["end"], []).append(result)
        return results

    @property
    def _former(self) -> WindowRows:
        """The same of the execution that took the snapshot from which this one began."""
        assert self._snapshot is not None
        return self._run.once(WindowRows, self._snapshot.execution, self._window.vertex)

    def values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """A row that came in as the rule takes it."""
        return tuple(plain_value(row[name]) for name in self._window.inputs[0])

    def instance_of(self, values: tuple[Any, ...], taken_by: int) -> int:
        """The instance whose result a row is part of, that instance `taken_by` of the entry has taken.

        The first of two stages hands what it has of a group to the instance of the second that the group belongs to.
        """
        if self._window.one_stage:
            return taken_by
        return partition_hash(group_of(values, self.rule.group)) % self.instances

    def _results(self, instance: int) -> Iterable[WindowResult]:
        """Those that left an instance in this execution; one that went to several queues once."""
        results: dict[tuple[int, str], WindowResult] = {}
        for queue in self._run.out_of(self._window.vertex, instance):
            for item in self._items(queue):
                left = item["put_ms"], item["row"]
                if item["kind"] == "event" and left not in results:
                    row, position = read(item["row"]), (item["queue"], item["sequence"])
                    results[left] = WindowResult(self._execution, item["put_ms"], instance, row, *position)
        return results.values()

    def _items(self, queue: RecordedRow) -> Sequence[RecordedRow]:
        return self._run.indexed("items").get((self._execution, queue["queue"]), ())

    @cached_property
    def playbacks(self) -> list[Playback[WindowState]]:
        """What each instance took, and what left it, fed to the rule; of windows groups need not be told apart."""
        if isinstance(self.rule, SessionProcessor):
            named = ("start", "end", *self._window.columns[2 : 2 + len(self.rule.group)])
        else:
            named = ("start", "end")
        events: list[list[_TimedEvent]] = [[] for _ in range(self.instances)]
        for taken_by in range(self._run.vertex(self._window.entry)["parallelism"]):
            for item, edge in self._accepted(taken_by):
                values = self.values(read(item["row"]))
                row = EdgeRow(edge, Event(values))
                taken = self._taken(item["taken_ms"], row, self._window.entry, taken_by, item["taken"])
                events[self.instance_of(values, taken_by)].append(_TimedEvent(taken.at_ms, 0, item["taken"], taken))
        for instance, of_instance in enumerate(events):
            of_instance += self._coalesced(instance)
        for result in self._own_results:
            window = tuple(plain_value(result.row[name]) for name in named)
            events[result.instance].append(_TimedEvent(result.at_ms, 2, 0, window))
        return [
            Playback(
                partial(self._start, instance),
                WindowState.follow,
                [(timed.at_ms, timed.event) for timed in sorted(of_instance, key=itemgetter(0, 1, 2))],
            )
            for instance, of_instance in enumerate(events)
        ]

    def _taken(self, at_ms: int, stimulus: Stimulus, vertex: str, instance: int, index: int) -> TakenStimulus:
        """What was item `index` of those that an instance took, or was coalesced at it."""
        is_saved = self._successor is None or index < self._successor.taken(vertex, instance)
        return TakenStimulus(at_ms, stimulus, is_saved)

    def _start(self, instance: int) -> WindowState:
        """An instance when the execution began: without anything, or as the snapshot has it. It counts rows only."""
        rule: WindowRule
        if isinstance(self.rule, SessionProcessor):
            rule = replace(self.rule, aggregates=_COUNT)
        else:
            rule = replace(self.rule, aggregates=_COUNT, group=(), grouped=(), limit=None)
        states = None
        if self._snapshot is not None:
            states = [playback.at_end().saved for playback in self._former.playbacks]
        return WindowState(rule, restored(rule, instance, states))

    def _accepted(self, instance: int) -> Iterable[tuple[RecordedRow, int]]:
        """The rows that an instance of the entry took and did not drop, with the input edge.

        Of equal rows those that were dropped came last: once one was late, all of its time are.
        """
        drops = self._run.indexed("drops").get((self._execution, self._window.entry, instance), ())
        dropped = Counter((drop["edge"], drop["row"]) for drop in drops)
        taken = [
            (item, queue["edge"])
            for queue in self._run.into(self._window.entry, instance)
            for item in self._items(queue)
            if item["kind"] == "event" and item["taken_ms"] is not None
        ]
        taken.sort(key=lambda entry: entry[0]["taken"], reverse=True)
        for item, edge in taken:
            if dropped[edge, item["row"]]:
                dropped[edge, item["row"]] -= 1
            else:
                yield item, edge

    def _coalesced(self, instance: int) -> Iterator[_TimedEvent]:
        """The watermarks over all inputs of an instance, and their end."""
        vertex = self._window.vertex
        steps = self._run.indexed("coalescing", "level", "edge")
        of_instance = steps.get((self._execution, vertex, instance, "global", None), ())
        for order, step in enumerate(of_instance):
            stimuli: list[Stimulus] = [Watermark(key, value) for key, value in step["emitted"]]
            if not step["active"] and not step["idle"]:
                stimuli.append(Complete())
            for stimulus in stimuli:
                taken = self._taken(step["at_ms"], stimulus, vertex, instance, step["taken"] - 1)
                yield _TimedEvent(step["at_ms"], 1, order, taken)
