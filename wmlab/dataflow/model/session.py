"""Session windows: rows of a group belong together as long as no gap of `timeout` lies between them.

A row at t is the interval [t, t + timeout). Intervals of a group that overlap are one session; those that only touch
are two. One row can join two sessions.

    row              late if below the last watermark: dropped
    watermark        of its key: results of all sessions that end before it, then the watermark
                     of another key: nothing
    end of inputs    results of all sessions

A session that ends exactly at the watermark stays, other than a sliding window, which would close: the row that would
extend it is late, the one that would touch it is not. A result is the row (start, end, group, aggregates...).

Source: "Keyed watermark support", Changes to window aggregation processors; upstream class `SessionWindowP`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import (
    Accumulators,
    Aggregate,
    accumulated,
    combined,
    created,
    finished,
    group_of,
    group_order,
)
from wmlab.dataflow.model.items import MAX, MIN, Event, FrozenMap
from wmlab.dataflow.model.processor import (
    Complete,
    Drop,
    GlobalWatermark,
    Processor,
    Reply,
    Row,
    Stimulus,
    Values,
    by_default,
    time_of,
)


@dataclass(frozen=True, slots=True)
class Session:
    """Rows in [start, end), in the unit of the event times."""

    start: int
    end: int
    accumulators: Accumulators


@dataclass(frozen=True, slots=True)
class Sessions:
    """The open sessions of every group by time, and the last watermark."""

    groups: FrozenMap[Values, tuple[Session, ...]] = field(default_factory=FrozenMap)
    watermark: int = MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow(Processor[Sessions]):
    """Sessions over the time in column `time`; `group` are the columns of the grouping key, none for one group.

    Raises `ModelError` for a timeout below 1.
    """

    timeout: int
    time: int
    aggregates: tuple[Aggregate, ...]
    group: tuple[int, ...] = ()
    key: int = 0

    def __post_init__(self) -> None:
        if self.timeout < 1:
            raise ModelError(f"No session has a timeout of {self.timeout}.", remedy="Give a timeout of at least 1.")

    def start(self) -> Sessions:
        """No row and no watermark came."""
        return Sessions()

    def step(self, state: Sessions, stimulus: Stimulus) -> Reply[Sessions]:
        """Raises `ModelError` for a row without a time."""
        match stimulus:
            case Row(edge, event):
                return self._row(state, edge, event)
            case GlobalWatermark(watermark) if watermark.key == self.key:
                rest, out = self._close(state, watermark.value)
                return Reply(Sessions(rest, watermark.value), (*out, watermark))
            case GlobalWatermark():
                return Reply(state)
            case Complete():
                rest, out = self._close(state, None)
                return Reply(replace(state, groups=rest), out)
        return by_default(state, stimulus)

    def _row(self, state: Sessions, edge: int, event: Event) -> Reply[Sessions]:
        time = time_of(event.values, self.time)
        if time < state.watermark:
            return Reply(state, drops=(Drop(edge, event, "session", self.key, time, state.watermark),))
        group = group_of(event.values, self.group)
        made = accumulated(self.aggregates, created(self.aggregates), event.values)
        alone = Session(time, min(MAX, time + self.timeout), made)
        sessions = self._joined(state.groups.get(group, ()), alone)
        return Reply(replace(state, groups=state.groups.put(group, sessions)))

    def _joined(self, sessions: tuple[Session, ...], added: Session) -> tuple[Session, ...]:
        apart = [one for one in sessions if one.end <= added.start or added.end <= one.start]
        whole = None
        for one in (*(one for one in sessions if one not in apart), added):
            whole = one if whole is None else self._merged(whole, one)
        return tuple(sorted((*apart, whole or added), key=lambda one: one.start))

    def _merged(self, one: Session, other: Session) -> Session:
        accumulators = combined(self.aggregates, one.accumulators, other.accumulators)
        return Session(min(one.start, other.start), max(one.end, other.end), accumulators)

    def _close(
        self, state: Sessions, watermark: int | None
    ) -> tuple[FrozenMap[Values, tuple[Session, ...]], tuple[Event, ...]]:
        """What stays open, and the results of sessions that end before the watermark (None: of all)."""
        ended, kept = [], {}
        for group, sessions in state.groups.items():
            stays = tuple(one for one in sessions if watermark is not None and self.closed_by(one.end) > watermark)
            ended += [(one, group) for one in sessions if one not in stays]
            if stays:
                kept[group] = stays
        ended.sort(key=lambda entry: (entry[0].end, entry[0].start, group_order(entry[1])))
        return FrozenMap(kept), tuple(self._result(one, group) for one, group in ended)

    def _result(self, session: Session, group: Values) -> Event:
        results = finished(self.aggregates, session.accumulators)
        return Event((session.start, session.end, *group, *results))

    def closed_by(self, end: int) -> int:
        """The lowest watermark that closes a session that ends at `end`. Source: as the module."""
        return end + 1

    def size(self, state: Sessions) -> int:
        """The open sessions."""
        return sum(map(len, state.groups.values()))

    def restore(self, snapshots: Sequence[Sessions]) -> Sessions:
        """Its own sessions, and the lowest watermark of all instances."""
        if not snapshots:
            return self.start()
        return Sessions(snapshots[0].groups, min(snapshot.watermark for snapshot in snapshots))
