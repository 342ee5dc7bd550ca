"""The watermarks of Jet and NebulaStream as strategies over one log, by the rules of `dataflow` and `progress`.

A writer of the log is an input of Jet, or an origin of NebulaStream. The watermarks of both are exclusive. The
simulators add the network, failures and readers; here records are known as they arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import FrameGrid, Item, Watermark
from wmlab.dataflow.model.source import EventTimeMapper, FixedLag, SourceState
from wmlab.progress.model.numbers import TupleBuffer, assign_origins, by_event_time
from wmlab.progress.model.tracker import LocalRule, ProgressRules, ProgressTracker
from wmlab.strategies.model.strategy import (
    END,
    UNKNOWN,
    Input,
    NotNegativeMs,
    Positive,
    PositiveMs,
    Record,
    Strategy,
    now_of,
)


def _index(writers: Mapping[str, int], record: Record) -> int:
    index = writers.get(record.writer)
    if index is None:
        raise ModelError(
            f"Writer {record.writer!r} is not among the declared ones: {', '.join(writers)}.",
            remedy="Declare all writers of the log in writers=.",
        )
    return index


@dataclass(slots=True)
class Merging:
    """The state of Jet: the source of each input, and the coalesced watermarks.

    `busy` are the inputs that are not idle, the one with the oldest last record first.
    """

    mapper: EventTimeMapper
    indices: dict[str, int]
    sources: list[SourceState]
    coalescer: KeyedCoalescer
    busy: dict[int, None] = field(default_factory=dict)
    x: int = UNKNOWN


_ROW: Final = ()


@dataclass(frozen=True, slots=True)
class JetWatermark(Strategy[Merging]):
    """X = the coalesced watermark of one key, an input for each of `writers`; also native, as Jet's is exclusive.

    An input's watermark is its largest event time less `lag`, at multiples of `frame`; an input is idle after `idle_ms`
    of arrival time without a record (None: never), as seen at the next input. See `dataflow.model.source` and
    `dataflow.model.coalescer`.
    """

    writers: tuple[str, ...]
    lag: NotNegativeMs = 0
    idle_ms: PositiveMs | None = 60_000
    frame: Positive = 1

    def start(self) -> Merging:
        indices = {writer: index for index, writer in enumerate(self.writers)}
        mapper = EventTimeMapper(policy=FixedLag(self.lag), frames=FrameGrid(self.frame), idle_timeout_ms=self.idle_ms)
        return Merging(mapper, indices, [], KeyedCoalescer(len(indices)))

    def step(self, state: Merging, item: Input) -> tuple[Merging, int, int]:
        now_ms, mapper = now_of(item), state.mapper
        if not state.sources:
            state.sources = [mapper.start(1, now_ms=now_ms) for _ in state.indices]
            state.busy = dict.fromkeys(state.indices.values())
        index = _index(state.indices, item) if isinstance(item, Record) else None
        if index is not None:
            state.busy.pop(index, None)
        while state.busy:
            quiet = next(iter(state.busy))
            if not state.sources[quiet].partitions[0].idle(now_ms):
                break
            del state.busy[quiet]
            self._take(state, quiet, mapper.tick(state.sources[quiet], now_ms=now_ms))
        if index is not None and isinstance(item, Record):
            state.busy[index] = None
            items = mapper.report(state.sources[index], partition=0, time=item.event_time, now_ms=now_ms)
            self._take(state, index, (*items, _ROW))
        return state, state.x, state.x

    def _take(self, state: Merging, index: int, items: tuple[Item, ...]) -> None:
        for item in items:
            for emitted in state.coalescer.step(index, item):
                if isinstance(emitted, Watermark):
                    state.x = emitted.value


@dataclass(slots=True)
class Filling:
    """The state of NebulaStream: the tracker, and for each origin when its open buffer began and its event times."""

    origins: Mapping[str, int]
    tracker: ProgressTracker
    sequences: dict[int, int] = field(default_factory=dict)
    open: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    x: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class NebulaWatermark(Strategy[Filling]):
    """X = the largest value so far of the global watermark of a tracker, with an origin for each of `writers`.

    An origin sends a buffer of one chunk when it has `rows` records, or `interval_ms` of arrival time after the first
    of them, as seen at the next input; one of the two may be None. The watermark of a buffer is its largest event time,
    and at least 0. Native is the global watermark itself, which may go back with `local="head"`; None: unknown. At the
    end of the input X is `END`, as windows are flushed. See `progress.model.tracker`.
    """

    writers: tuple[str, ...]
    rows: Positive | None = 64
    interval_ms: PositiveMs | None = None
    local: LocalRule = "running_max"

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        if self.rows is None and self.interval_ms is None:
            raise ModelError("No buffer is ever full.", remedy="Give rows, interval_ms or both.")

    def start(self) -> Filling:
        origins = assign_origins(self.writers)
        return Filling(origins, ProgressTracker(list(origins.values()), ProgressRules(local=self.local)))

    def step(self, state: Filling, item: Input) -> tuple[Filling, int, int | None]:
        now_ms = now_of(item)
        if now_ms is not None and self.interval_ms is not None:
            # Buffers stand in the order in which they began.
            while state.open and now_ms - state.open[first := next(iter(state.open))][0] >= self.interval_ms:
                self._send(state, first)
        if isinstance(item, Record):
            origin = _index(state.origins, item)
            times = state.open.setdefault(origin, (item.arrival_ms, []))[1]
            times.append(item.event_time)
            if len(times) == self.rows:
                self._send(state, origin)
        return state, state.x, state.tracker.watermark

    def at_end(self, state: Filling) -> tuple[int, int | None]:
        return END, state.tracker.watermark

    def _send(self, state: Filling, origin: int) -> None:
        _, times = state.open.pop(origin)
        state.sequences[origin] = sequence = state.sequences.get(origin, 0) + 1
        buffer = TupleBuffer(origin, sequence, 0, last=True, watermark=by_event_time(times))
        state.tracker.step(buffer)
        if state.tracker.watermark is not None:
            state.x = max(state.x, state.tracker.watermark)
