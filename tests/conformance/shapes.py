"""Whole runs (kind scale_shape): writers, scales, leaders and a bounded reader group, and what must hold of them.

Events carry the value of a counter that all writers share; an append is acknowledged at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from random import Random
from typing import Any, Final

from tests.conformance.fields import Fields, interpreted, known
from tests.streams.model.leaders import Led
from wmlab.streams.model import cycle
from wmlab.streams.model.cut import CutAlgorithm
from wmlab.streams.model.group import GroupState, StreamReading
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.marks import acknowledge, add_segments, remove_segment
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, key_of
from wmlab.streams.model.window import TimeWindow, Tracker

TICKS, CYCLE_EVERY, SCALE_EVERY, EVENT_BYTES = 150, 25, 11, 108


def run(inputs: Fields, expected: Fields, algorithm: CutAlgorithm) -> None:
    """Make the run that the case describes and check every property that it lists."""
    known("event value", inputs.take("event_value", None), {None, "a shared counter, one per second and writer"})
    made = Run(
        segments=inputs.take("initial_segments"),
        writers=inputs.take("writers", 2),
        note_every=inputs.take("note_every"),
        rules=cycle.CycleRules(algorithm=algorithm),
    )
    known("number of controllers", inputs.take("controllers", 2), {2})
    made.go(list(inputs.take("scales", [])), inputs.take("kill_after_watermarks", None))
    for text in expected.take("properties"):
        assert interpreted("property", text, PROPERTIES, made), f"{text}: {made.watermarks}"


class Run(Led):
    """One stream; all writers write one event per tick."""

    def __init__(self, *, segments: int, writers: int, note_every: int, rules: cycle.CycleRules) -> None:
        super().__init__(StreamHistory.create(segments, arithmetic="double"), rules)
        self.events: dict[int, list[int]] = {i: [] for i in self.history.active.ids}
        self.positions = {f"w{i}": Position(dict.fromkeys(self.history.active.ids)) for i in range(writers)}
        self.note_every = note_every
        self.leader = cycle.CycleState()
        self.killed_after: int | None = None
        self.counter = 0

    @property
    def watermarks(self) -> list[Watermark]:
        return [watermark for _, watermark in self.log.entries]

    def go(self, scales: list[Mapping[str, Any]], kill_after: int | None) -> None:
        """Write, note, scale and run cycles; a new leader takes over once there are `kill_after` watermarks."""
        random = Random(7)
        for tick in range(1, TICKS + 1):
            for writer in self.positions:
                self.write(writer, str(random.random()), note=tick % self.note_every == 0)
            if scales and tick % SCALE_EVERY == 0:
                self.scale(scales.pop(0))
            if tick % CYCLE_EVERY == 0:
                self.now_ms = tick
                self.leader, view, effects = self.decide(self.leader)
                self.emit(view, effects)
            if kill_after is not None and self.killed_after is None and len(self.log.entries) >= kill_after:
                self.leader, self.killed_after = cycle.CycleState(), len(self.log.entries)
        assert not scales, "not all scales were made"
        assert kill_after is None or self.killed_after is not None, "no controller was killed"

    def write(self, writer: str, key: str, *, note: bool) -> None:
        self.counter += 1
        where, active = key_of(key), self.history.active.segments
        segment = next(s.id for s in active if s.keys.low <= where < s.keys.high)
        self.events[segment].append(self.counter)
        length = EVENT_BYTES * len(self.events[segment])
        self.positions[writer] = acknowledge(self.positions[writer], segment, length)
        if note:
            self.marks, _ = self.marks.note(writer, self.counter, self.positions[writer])

    def scale(self, scale: Mapping[str, Any]) -> None:
        with Fields(scale, "scale") as fields:
            sealed = fields.take("seal")
            ranges = [KeyRange.of(*bounds) for bounds in fields.take("new_ranges")]
        before = self.history.active.ids
        self.history = self.history.scale([sealed], ranges)
        for segment in set(self.history.active.ids) - set(before):
            self.events[segment] = []
            self.positions = {writer: add_segments(position, [segment]) for writer, position in self.positions.items()}
        for segment in set(before) - set(self.history.active.ids):
            self.positions = {writer: remove_segment(position, segment) for writer, position in self.positions.items()}

    def bounded_read(self, first: int, last: int) -> Iterator[tuple[int, TimeWindow]]:
        """The events between two cuts with the window before each; at the end the final window, with no event."""
        start = {s: offset or 0 for s, offset in self.watermarks[first].cut.items()}
        group = GroupState({"stream": StreamReading.begin(start)})
        group.add_reader("r")
        part = group.streams["stream"]
        tracker, end = Tracker(), self.watermarks[last].cut
        reading = True
        while reading:
            reading = False
            for segment in group.unassigned:
                group.acquire("r", segment)
            for segment, offset in tuple(part.offsets.items()):
                tracker = tracker.advance(part.position, self.log, self.history.segments)
                length = EVENT_BYTES * len(self.events[segment])
                if offset < end.get(segment, length):
                    yield self.events[segment][offset // EVENT_BYTES], tracker.window
                    group.publish("r", {("stream", segment): offset + EVENT_BYTES})
                    reading = True
                elif segment not in end and any(segment < later for later in end):
                    group.complete("r", ("stream", segment), self.successors(segment), end=offset)
                    reading = True
        yield -1, tracker.advance(part.position, self.log, self.history.segments).window

    def successors(self, segment: int) -> dict[int, frozenset[int]]:
        followers = self.history.successors(segment)
        return {s.id: frozenset(p.id for p in self.history.predecessors(s.id)) for s in followers}


def lowers_rise(made: Run, count: str = "2") -> bool:
    """Whether there are so many watermarks and the lower bound of each is above that of the one before."""
    lowers = [watermark.lower for watermark in made.watermarks]
    return len(lowers) >= int(count) and all(a < b for a, b in pairwise(lowers))


def not_below_lower(made: Run, first: str, last: str) -> bool:
    """Whether no event of a bounded read lies below the lower bound of the watermark where it starts."""
    *read, _ = made.bounded_read(int(first), int(last))
    return bool(read) and min(value for value, _ in read) >= made.watermarks[int(first)].lower


def within_bounds(made: Run, first: str, last: str) -> bool:
    """Whether every event of a bounded read lies in the window that the reader had before it."""
    *read, _ = made.bounded_read(int(first), int(last))
    return bool(read) and all(
        (window.lower is None or window.lower <= value) and (window.upper is None or value <= window.upper)
        for value, window in read
    )


def windows_rise(made: Run) -> bool:
    """Whether neither bound of the windows of a bounded read ever decreases."""
    windows = [window for _, window in made.bounded_read(0, 1)]
    lowers = [w.lower for w in windows if w.lower is not None]
    uppers = [w.upper for w in windows if w.upper is not None]
    return bool(lowers and uppers) and lowers == sorted(lowers) and uppers == sorted(uppers)


def lower_known_at_end(made: Run) -> bool:
    """Whether the lower bound is known when a bounded read ends."""
    *_, (_, window) = made.bounded_read(0, 1)
    return window.lower is not None


PROPERTIES: Final[Mapping[str, Callable[..., bool]]] = {
    "each watermark has lower <= upper": lambda made: all(w.lower <= w.upper for w in made.watermarks),
    "both bounds of successive windows never decrease": windows_rise,
    "at the end of the bounded read the lower bound is not null": lower_known_at_end,
    "consecutive watermarks have strictly increasing lower": lowers_rise,
    r"(\d+) strictly increasing lower bounds": lowers_rise,
    r"at least (\d+) more watermarks appear after one of two controllers is killed": lambda made, count: (
        len(made.watermarks) - (made.killed_after or 0) >= int(count)
    ),
    r"every event read between cut (\d+) and cut (\d+) has time >= the lower bound seen at the start": not_below_lower,
    r"a reader group bounded by the cuts of watermark (\d+) and (\d+) reads only events with lower <= time, "
    r"and time <= upper of its current window when that is not null": within_bounds,
}
"""What may have to hold of a run, by its text."""
