"""The stream-to-stream join, with a condition that bounds times by each other; and the join with a batch.

Both are inner or outer. In the first, a row on one side, in this order:

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

The join of a stream or batch with a batch uses no watermarks: all of the batch is there before the first row of the
other side, and is kept to the end, so that each row can leave with its partners at once.

Source: "Stream-to-stream join", Implementation of multiple watermarks; "Keyed watermark support", Processor API and
JOIN operator; upstream classes `StreamToStreamJoinP`, `HashJoinP`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar, Final, Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import MIN, Event, FrozenMap, RowValues, Watermark, row_time
from wmlab.dataflow.model.processor import DESIGN, Deviations, Drop, JobFailedError, Processor, Reason, Reply

START: Final = MIN + 1
"""Below every watermark: as what is needed, any one at all."""
LEFT: Final = 0
RIGHT: Final = 1


@dataclass(frozen=True, slots=True)
class Buffered:
    """A row that is kept; `unmatched` only on the outer side, until a partner comes."""

    values: RowValues
    unmatched: bool = False


@dataclass(frozen=True, slots=True)
class JoinState:
    """Rows of both sides in the order they came, and times by key in the unit of the key's field."""

    buffers: tuple[tuple[Buffered, ...], tuple[Buffered, ...]] = ((), ())
    limits: FrozenMap[int, int] = field(default_factory=FrozenMap)
    received: FrozenMap[int, int] = field(default_factory=FrozenMap)
    emitted: FrozenMap[int, int] = field(default_factory=FrozenMap)

    def buffer(self, side: int, rows: Iterable[Buffered]) -> JoinState:
        """With other rows on one side."""
        new = tuple(rows)
        return replace(self, buffers=(new, self.buffers[RIGHT]) if side == LEFT else (self.buffers[LEFT], new))


JoinBounds = Mapping[int, Mapping[int, int]]
"""From a key to the keys it bounds, with the amounts, in the unit of the times; see `expression`."""
EmissionLimit = Literal["state", "buffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin(Processor[JoinState]):
    """Edge 0 is the left input, edge 1 the right one; `keys` gives for each side the time column of every key.

    `outer` is the side whose rows all appear in the output, None for an inner join. `widths` are the numbers of columns
    of both sides. `condition` gets the joined row, left before right, and is met by what counts as true. `limit` is how
    many rows may be kept, None for any number. Raises `ModelError` if a key is on both sides, a bound names a key of
    neither, or a side does not bound the other.
    """

    counts_retries: ClassVar[bool] = True

    outer: int | None = None
    keys: tuple[Mapping[int, int], Mapping[int, int]]
    widths: tuple[int, int]
    bounds: JoinBounds
    condition: Callable[[RowValues], object] = field(repr=False)
    output: EmissionLimit = "state"
    limit: int | None = None
    deviations: Deviations = DESIGN

    def __post_init__(self) -> None:
        left, right = (frozenset(keys) for keys in self.keys)
        # Bounds within one side mean nothing to a join.
        across = {
            key: FrozenMap((other, amount) for other, amount in bounded.items() if (other in left) is (key in right))
            for key, bounded in self.bounds.items()
        }
        named = {*self.bounds, *chain.from_iterable(self.bounds.values())}
        is_bounded = all(any(map(across.get, keys)) for keys in (left, right))
        if left & right or not named <= left | right or not is_bounded:
            raise ModelError(
                f"No join has times of the keys {[*left]} and {[*right]} with the bounds {dict(self.bounds)}.",
                remedy="Give both sides keys of their own, and compare a time of each with one of the other's plus or "
                "minus a constant, in both directions.",
            )
        object.__setattr__(self, "bounds", FrozenMap(across.items()))

    def start(self) -> JoinState:
        """No row and no watermark came."""
        times = FrozenMap((key, START) for key in sorted([*self.keys[LEFT], *self.keys[RIGHT]]))
        return JoinState(limits=times, received=times, emitted=times)

    def watermark(self, state: JoinState, watermark: Watermark) -> Reply[JoinState]:  # noqa: ARG002
        """Those over all edges are ignored."""
        return Reply(state)

    def complete(self, state: JoinState) -> Reply[JoinState]:
        """What never found a partner leaves padded."""
        if self.deviations.unmatched_lost_at_end:
            return Reply(state)
        padded = (self._padded(row.values) for rows in state.buffers for row in rows if row.unmatched)
        return Reply(replace(state, buffers=((), ())), tuple(padded))

    def row(self, state: JoinState, edge: int, event: Event) -> Reply[JoinState]:
        """It is dropped, or matched and perhaps kept. Raises `JobFailedError` at the row limit."""
        if not self.deviations.limit_when_exceeded:
            self._require_room(state)
        times = {key: row_time(event.values, column) for key, column in self.keys[edge].items()}
        late = next((key for key, time in times.items() if time < _taken_from(state.received[key])), None)
        if late is not None:
            return Reply(state, drops=(Drop(edge, event, "join", late, times[late], state.received[late]),))
        is_kept = all(time >= _taken_from(state.limits[key]) for key, time in times.items())
        if is_kept:
            self._require_room(state)
        state, partners = self._matched(state, edge, event.values)
        unmatched = edge == self.outer and not partners
        if is_kept:
            state = state.buffer(edge, (*state.buffers[edge], Buffered(event.values, unmatched)))
        results = partners or ([self._padded(event.values)] if unmatched and not is_kept else [])
        return Reply(state, tuple(results))

    def row_again(self, state: JoinState) -> Reply[JoinState]:
        """Nothing is left to do, but it counts against the row limit."""
        self._require_room(state)
        return Reply(state)

    def _require_room(self, state: JoinState) -> None:
        if self.limit is not None and self.size(state) >= self.limit:
            raise JobFailedError(
                Reason.LIMIT_EXCEEDED,
                f"The join keeps {self.size(state)} rows at a limit of {self.limit}, and another row came.",
                remedy="Raise the limit, tighten the bounds, or find out which side sends no watermarks.",
            )

    def _matched(self, state: JoinState, side: int, values: RowValues) -> tuple[JoinState, list[Event]]:
        """The joined rows, and the other side's rows with those marked that found their partner."""
        results, other = [], []
        for row in state.buffers[1 - side]:
            joined = values + row.values if side == LEFT else row.values + values
            meets = bool(self.condition(joined))
            if meets:
                results.append(Event(joined))
            other.append(Buffered(row.values) if meets and row.unmatched else row)
        return state.buffer(1 - side, other), results

    def _padded(self, values: RowValues) -> Event:
        if self.outer == LEFT:
            return Event(values + (None,) * self.widths[RIGHT])
        return Event((None,) * self.widths[LEFT] + values)

    def edge_watermark(self, state: JoinState, edge: int, watermark: Watermark) -> Reply[JoinState]:  # noqa: ARG002
        """Limits rise, rows that can find no partner any more go, and watermarks that are due leave."""
        key, value = watermark.key, watermark.value
        if key not in state.received:
            return Reply(state)
        raised = {other: max(state.limits[other], value - amount) for other, amount in self.bounds.get(key, {}).items()}
        limits = FrozenMap({**state.limits, **raised})
        after = replace(state, received=state.received.put(key, value), limits=limits)
        state, padded = (after, ()) if limits == state.limits else self._purged(after)
        due = {known: self._due(state, known) for known in state.emitted}
        out = [Watermark(known, time) for known, time in due.items() if time > state.emitted[known]]
        emitted = FrozenMap({**state.emitted, **{item.key: item.value for item in out}})
        return Reply(replace(state, emitted=emitted), (*padded, *out))

    def _purged(self, state: JoinState) -> tuple[JoinState, tuple[Event, ...]]:
        padded: list[Event] = []
        for side in (LEFT, RIGHT):
            limits = [(column, _taken_from(state.limits[key])) for key, column in self.keys[side].items()]
            useful: list[Buffered] = []
            for row in state.buffers[side]:
                if all(row_time(row.values, column) >= limit for column, limit in limits):
                    useful.append(row)
                elif row.unmatched:
                    padded.append(self._padded(row.values))
            state = state.buffer(side, useful)
        return state, tuple(padded)

    def _due(self, state: JoinState, key: int) -> int:
        """The watermark of a key that the output may have now, by the formula of this join."""
        if self.output == "state":
            return min(state.received[key], state.limits[key])
        side = LEFT if key in self.keys[LEFT] else RIGHT
        column = self.keys[side][key]
        buffered_times = [row_time(row.values, column) for row in state.buffers[side]]
        return min([state.received[key], *buffered_times])

    def size(self, state: JoinState) -> int:
        """The rows of both sides."""
        return sum(map(len, state.buffers))

    def sizes(self, state: JoinState) -> dict[str, int]:
        """Also the rows of each side."""
        left, right = map(len, state.buffers)
        return {"all": left + right, "left": left, "right": right}

    def restore(self, snapshots: Sequence[JoinState]) -> JoinState:
        """Its own rows, and of every key the lowest limit and watermark of all instances.

        With the formula `buffer` watermarks are not part of a snapshot, so a row that was late can come in again.
        Source: "Stream-to-stream join", Fault tolerance.
        """
        start = self.start()
        received = start.received if self.output == "buffer" else _lowest([state.received for state in snapshots])
        limits = _lowest([state.limits for state in snapshots])
        return replace(start, buffers=snapshots[0].buffers, limits=limits, received=received)


def _taken_from(watermark: int) -> int:
    """The lowest time that a watermark or a limit leaves: before the first one every time, also -2^63."""
    return MIN if watermark == START else watermark


def _lowest(maps: Sequence[FrozenMap[int, int]]) -> FrozenMap[int, int]:
    return FrozenMap((key, min(times[key] for times in maps)) for key in maps[0])


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The rows of a batch in the order they came.

    `by_key` has them by the columns that must be equal, once the first row of the other side has come; it follows from
    the rows, so it tells no two states apart.
    """

    rows: tuple[RowValues, ...] = ()
    by_key: Mapping[RowValues, Sequence[RowValues]] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJoin(Processor[BatchRows]):
    """Edge 0 is the left input, edge 1 the batch, which has to end first. The state is the rows of the batch.

    `outer` is LEFT if all rows of the left side appear in the output, else None; `width` is the number of columns of
    the batch. `condition` is that of `StreamJoin`. `equal` are pairs of a left column and one of the batch that must be
    equal for the condition to hold: partners are looked for among the rows that have these values, as in the hash table
    of upstream, and without such pairs among all. Watermarks over all edges and idle messages pass: an input that has
    ended holds nothing back. Source: upstream classes `HashJoinCollectP`, `HashJoinP`.
    """

    empty: ClassVar[BatchRows] = BatchRows()

    outer: int | None = None
    width: int
    condition: Callable[[RowValues], object] = field(repr=False)
    equal: tuple[tuple[int, int], ...] = ()

    def row(self, state: BatchRows, edge: int, event: Event) -> Reply[BatchRows]:
        """One of the batch is kept; one of the other side leaves with each partner, or on the outer side padded."""
        if edge == RIGHT:
            return Reply(BatchRows((*state.rows, event.values)))
        by_key = self._by_key(state.rows) if state.by_key is None else state.by_key
        candidates = by_key.get(tuple(event.values[column] for column, _ in self.equal), ())
        pairs = [event.values + partner for partner in candidates if self.condition(event.values + partner)]
        if not pairs and self.outer == LEFT:
            pairs = [event.values + (None,) * self.width]
        return Reply(replace(state, by_key=by_key), tuple(map(Event, pairs)))

    def _by_key(self, rows: Iterable[RowValues]) -> Mapping[RowValues, Sequence[RowValues]]:
        by_key: dict[RowValues, list[RowValues]] = {}
        for row in rows:
            by_key.setdefault(tuple(row[column] for _, column in self.equal), []).append(row)
        return by_key

    def size(self, state: BatchRows) -> int:
        """The rows of the batch."""
        return len(state.rows)

    def restore(self, snapshots: Sequence[BatchRows]) -> BatchRows:
        """Its own rows."""
        return snapshots[0]


AnyJoin = StreamJoin | BatchJoin
"""A join of either kind."""


def minimum_spread(bounds: JoinBounds, left: Collection[int]) -> int:
    """The width of the narrowest time range in which rows can match, at least 1, in the unit of the times.

    That is the smallest amount from the left side plus the smallest from the right; each has one. `left` are the left
    side's times. Source: upstream class `StreamToStreamJoinPhysicalRel` (minimumSpread).
    """
    sides: dict[bool, list[int]] = {True: [], False: []}
    for key, bounded in bounds.items():
        sides[key in left] += bounded.values()
    return max(1, min(sides[True]) + min(sides[False]))
