"""The stream-to-stream join: inner, left outer or right outer, with a condition that bounds times by each other.

A row on one side, in this order:

    a time is below the last watermark of its key        late: dropped
    a time is below the limit of its key                 is matched, but not kept
    else                                                 is kept
    every row of the other side that meets the condition: the joined row leaves
    on the outer side, not kept and without a partner:   leaves at once, padded with nulls

The limit of a key is the lowest time that can still find a partner. A watermark of key k at v on either edge: for each
bound of k the limit of the bounded key rises to v - amount. If one rose, rows with any time below its limit go; outer
ones that never found a partner leave padded. Then watermarks leave for every key for which one is due. Two formulas say
which:

    state     the lower of the last watermark and the limit of the key; a key without a bound never has one
    buffer    the lower of the last watermark and the oldest time that is kept, whatever the restart did to it

Watermarks over all edges are ignored, and idle messages pass: a side that sends no watermarks keeps the other side's
rows for ever, until the row limit ends the job.

Source: "Stream-to-stream join", Implementation of multiple watermarks; "Keyed watermark support", Processor API;
upstream class `StreamToStreamJoinP`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import MIN, Event, FrozenMap, Watermark
from wmlab.dataflow.model.processor import (
    Complete,
    Drop,
    EdgeWatermark,
    GlobalWatermark,
    JobFailedError,
    Processor,
    Reason,
    Reply,
    Row,
    Stimulus,
    Values,
    by_default,
    time_of,
)

START: Final = MIN + 1
"""Below every watermark."""
LEFT: Final = 0
RIGHT: Final = 1


@dataclass(frozen=True, slots=True)
class Buffered:
    """A row that is kept; `unmatched` only on the outer side, until a partner comes."""

    values: Values
    unmatched: bool = False


@dataclass(frozen=True, slots=True)
class JoinState:
    """Rows of both sides in the order they came, and times by key in the unit of the key's field."""

    buffers: tuple[tuple[Buffered, ...], tuple[Buffered, ...]] = ((), ())
    limits: FrozenMap[int, int] = field(default_factory=FrozenMap)
    received: FrozenMap[int, int] = field(default_factory=FrozenMap)
    emitted: FrozenMap[int, int] = field(default_factory=FrozenMap)

    @classmethod
    def of_keys(cls, keys: Iterable[int]) -> JoinState:
        """Nothing came on any of these keys."""
        start = FrozenMap((key, START) for key in sorted(keys))
        return cls(limits=start, received=start, emitted=start)

    @property
    def rows(self) -> int:
        """The rows of both sides."""
        return len(self.buffers[LEFT]) + len(self.buffers[RIGHT])

    def buffer(self, side: int, rows: Iterable[Buffered]) -> JoinState:
        """With other rows on one side."""
        new = tuple(rows)
        return replace(self, buffers=(new, self.buffers[RIGHT]) if side == LEFT else (self.buffers[LEFT], new))


Bounds = Mapping[int, Mapping[int, int]]
"""From a key to the keys it bounds, with the amounts, in the unit of the times; see `expression`."""
Kind = Literal["inner", "left outer", "right outer"]
Output = Literal["state", "buffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin(Processor[JoinState]):
    """Edge 0 is the left input, edge 1 the right one; `keys` gives for each side the time column of every key.

    `widths` are the numbers of columns of both sides. `condition` gets the joined row, left before right. `limit` is
    how many rows may be kept, None for any number. Raises `ModelError` for a join that cannot be run, and names the
    mistake.
    """

    kind: Kind = "inner"
    keys: tuple[Mapping[int, int], Mapping[int, int]]
    widths: tuple[int, int]
    bounds: Bounds
    condition: Callable[[Values], bool | None] = field(repr=False)
    output: Output = "state"
    limit: int | None = None
    deviations: Deviations = DESIGN

    def __post_init__(self) -> None:
        require_joinable(self)
        object.__setattr__(self, "keys", tuple(FrozenMap(keys) for keys in self.keys))
        object.__setattr__(self, "bounds", FrozenMap((a, self._across(a)) for a in self.bounds))

    @property
    def outer(self) -> int | None:
        """The side whose rows all appear in the output; None for an inner join."""
        return {"inner": None, "left outer": LEFT, "right outer": RIGHT}[self.kind]

    def start(self) -> JoinState:
        """No row and no watermark came."""
        return JoinState.of_keys([*self.keys[LEFT], *self.keys[RIGHT]])

    def step(self, state: JoinState, stimulus: Stimulus) -> Reply[JoinState]:
        """Raises `JobFailedError` at the row limit, `ModelError` for a row without a time."""
        match stimulus:
            case Row(retry=True):
                return self._again(state)
            case Row(edge, event):
                return self._row(state, edge, event)
            case EdgeWatermark(watermark=watermark):
                return self._watermark(state, watermark)
            case GlobalWatermark():
                return Reply(state)
            case Complete() if not self.deviations.unmatched_lost_at_end:
                left_over = [row for rows in state.buffers for row in rows if row.unmatched]
                return Reply(replace(state, buffers=((), ())), tuple(self._padded(row.values) for row in left_over))
        return by_default(state, stimulus)

    def _across(self, key: int) -> FrozenMap[int, int]:
        """The bounds of a key on keys of the other side; those within one side mean nothing to a join."""
        other = self.keys[RIGHT if key in self.keys[LEFT] else LEFT]
        return FrozenMap((bounded, amount) for bounded, amount in self.bounds[key].items() if bounded in other)

    def _row(self, state: JoinState, side: int, event: Event) -> Reply[JoinState]:
        if not self.deviations.limit_when_exceeded:
            self._require_room(state)
        times = {key: time_of(event.values, column) for key, column in self.keys[side].items()}
        late = [key for key, time in times.items() if time < state.received[key]]
        if late:
            return Reply(state, drops=(self._drop(side, event, late[0], times, state),))
        kept = all(time >= state.limits[key] for key, time in times.items())
        if kept:
            self._require_room(state)
        state, partners = self._matched(state, side, event.values)
        unmatched = side == self.outer and not partners
        if kept:
            state = state.buffer(side, (*state.buffers[side], Buffered(event.values, unmatched)))
        results = partners or ([self._padded(event.values)] if unmatched and not kept else [])
        return Reply(state, tuple(results))

    def _again(self, state: JoinState) -> Reply[JoinState]:
        """A row that was taken, and whose results did not fit: nothing is left to do, but the limit may be asked."""
        if self.deviations.retry_counts_as_row:
            self._require_room(state)
        return Reply(state)

    def counts_retries(self) -> bool:
        """It is told of rows that are offered again. Source: upstream class `StreamToStreamJoinP`."""
        return True

    def _require_room(self, state: JoinState) -> None:
        if self.limit is not None and state.rows >= self.limit:
            raise JobFailedError(
                Reason.LIMIT_EXCEEDED,
                f"The join keeps {state.rows} rows at a limit of {self.limit}, and another row came.",
                remedy="Raise the limit, tighten the bounds, or find out which side sends no watermarks.",
            )

    def _drop(self, side: int, event: Event, key: int, times: Mapping[int, int], state: JoinState) -> Drop:
        return Drop(side, event, "join", key, times[key], state.received[key])

    def _matched(self, state: JoinState, side: int, values: Values) -> tuple[JoinState, list[Event]]:
        """The joined rows, and the other side's rows with those marked that found their partner."""
        results, other = [], []
        for row in state.buffers[1 - side]:
            joined = values + row.values if side == LEFT else row.values + values
            meets = self.condition(joined) is True
            if meets:
                results.append(Event(joined))
            other.append(Buffered(row.values) if meets and row.unmatched else row)
        return state.buffer(1 - side, other), results

    def _padded(self, values: Values) -> Event:
        nulls = (None,) * self.widths[RIGHT if self.outer == LEFT else LEFT]
        return Event(values + nulls if self.outer == LEFT else nulls + values)

    def _watermark(self, state: JoinState, watermark: Watermark) -> Reply[JoinState]:
        key, value = watermark.key, watermark.value
        if key not in state.received:
            return Reply(state)
        limits = state.limits
        for bounded, amount in self.bounds.get(key, {}).items():
            limits = limits.put(bounded, max(limits[bounded], value - amount))
        rose = limits != state.limits
        state = replace(state, received=state.received.put(key, value), limits=limits)
        state, padded = self._purged(state) if rose else (state, ())
        due = {known: self._due(state, known) for known in state.emitted}
        out = [Watermark(known, time) for known, time in due.items() if time > state.emitted[known]]
        emitted = FrozenMap({**state.emitted, **{item.key: item.value for item in out}})
        return Reply(replace(state, emitted=emitted), (*padded, *out))

    def _purged(self, state: JoinState) -> tuple[JoinState, tuple[Event, ...]]:
        padded: list[Event] = []
        for side in (LEFT, RIGHT):
            useful = [row for row in state.buffers[side] if self._useful(state, side, row.values)]
            gone = [row for row in state.buffers[side] if not self._useful(state, side, row.values)]
            padded += [self._padded(row.values) for row in gone if row.unmatched]
            state = state.buffer(side, useful)
        return state, tuple(padded)

    def _useful(self, state: JoinState, side: int, values: Values) -> bool:
        return all(time_of(values, column) >= state.limits[key] for key, column in self.keys[side].items())

    def _due(self, state: JoinState, key: int) -> int:
        """The watermark of a key that the output may have now, by the formula of this join."""
        if self.output == "state":
            return min(state.received[key], state.limits[key])
        side = LEFT if key in self.keys[LEFT] else RIGHT
        column = self.keys[side][key]
        kept = [time_of(row.values, column) for row in state.buffers[side]]
        return min([state.received[key], *kept])

    def size(self, state: JoinState) -> int:
        """The rows of both sides."""
        return state.rows

    def restore(self, snapshots: Sequence[JoinState]) -> JoinState:
        """Its own rows, and of every key the lowest limit and watermark of all instances.

        With the formula `buffer` watermarks are not part of a snapshot, so a row that was late can come in again.
        Source: "Stream-to-stream join", Fault tolerance.
        """
        if not snapshots:
            return self.start()
        start = self.start()
        received = start.received if self.output == "buffer" else _lowest([one.received for one in snapshots])
        return replace(
            start, buffers=snapshots[0].buffers, limits=_lowest([one.limits for one in snapshots]), received=received
        )


def _lowest(maps: Sequence[FrozenMap[int, int]]) -> FrozenMap[int, int]:
    return FrozenMap((key, min(one[key] for one in maps)) for key in maps[0])


def missing_bound(bounds: Bounds, left: Collection[int], right: Collection[int]) -> str | None:
    """Which direction has no bound, in words; None if both have one."""
    if not any(b in right for a in left for b in bounds.get(a, {})):
        return f"no time of the right side (keys {_listed(right)}) is bounded by one of the left (keys {_listed(left)})"
    if not any(b in left for a in right for b in bounds.get(a, {})):
        return f"no time of the left side (keys {_listed(left)}) is bounded by one of the right (keys {_listed(right)})"
    return None


def minimum_spread(bounds: Bounds, left: Collection[int]) -> int:
    """The width of the narrowest time range in which rows can match, at least 1, in the unit of the times.

    That is the smallest amount from the left side plus the smallest from the right. `left` are the left side's times.
    Raises `ModelError` if one direction has no bound.
    Source: upstream class `StreamToStreamJoinPhysicalRel` (minimumSpread).
    """
    amounts = [(a in left, amount) for a, bounded in bounds.items() for amount in bounded.values()]
    from_left = [amount for on_left, amount in amounts if on_left]
    from_right = [amount for on_left, amount in amounts if not on_left]
    if not from_left or not from_right:
        side = "right" if from_left else "left"
        raise ModelError(
            f"The join has no bound from the {side} side.", remedy="Bound the times of both sides by each other."
        )
    return max(1, min(from_left) + min(from_right))


def _listed(keys: Collection[int]) -> str:
    return ", ".join(map(str, sorted(keys)))


def require_joinable(join: StreamJoin) -> None:
    """Raises `ModelError` unless both sides have keys of their own and bound each other."""
    left, right = join.keys
    for keys, name in ((left, "left"), (right, "right")):
        if not keys:
            _refuse(f"The {name} side of the join carries no watermarks.", "Give it a time column with a key.")
    if both := sorted(left.keys() & right.keys()):
        _refuse(f"Key {both[0]} is on both sides of the join.", "Give the sources of the two sides different keys.")
    known = {*left, *right}
    if strange := sorted({*join.bounds, *(key for bounded in join.bounds.values() for key in bounded)} - known):
        _refuse(f"A bound names key {strange[0]}, which is on neither side.", f"Use keys among {sorted(known)}.")
    if problem := missing_bound(join.bounds, left, right):
        _refuse(problem, "Compare a time of each side with the other's plus or minus a constant, in both directions.")
    if join.kind not in ("inner", "left outer", "right outer"):
        _refuse(f"There is no join {join.kind!r}.", "Use 'inner', 'left outer' or 'right outer'.")
    if join.output not in ("state", "buffer"):
        _refuse(f"There is no output formula {join.output!r}.", "Use 'state' or 'buffer'.")


def _refuse(problem: str, remedy: str) -> None:
    raise ModelError(problem, remedy=remedy)
