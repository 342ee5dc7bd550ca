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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import MIN, RowValues, Watermark, row_time
from wmlab.dataflow.model.processor import SOUND, Deviations, Drop, JobFailedError, Processor, Reason

START: Final = MIN + 1
"""Below every watermark: as what is needed, any one at all."""
LEFT: Final = 0
RIGHT: Final = 1


@dataclass(slots=True)
class Buffered:
    """A row that is kept; `unmatched` only on the outer side, until a partner comes."""

    values: RowValues
    unmatched: bool = False


@dataclass(slots=True)
class JoinState:
    """Times by key in the unit of the key's field, and the rows of both sides in the order they came."""

    limits: dict[int, int]
    received: dict[int, int]
    emitted: dict[int, int]
    buffers: tuple[list[Buffered], list[Buffered]] = field(default_factory=lambda: ([], []))


JoinBounds = Mapping[int, Mapping[int, int]]
"""From a key to the keys it bounds, with the amounts, in the unit of the times; see `expression`."""
EmissionLimit = Literal["state", "buffer"]


@dataclass(kw_only=True, eq=False)
class StreamJoin(Processor[JoinState]):
    """Edge 0 is the left input, edge 1 the right one; `keys` gives for each side the time column of every key.

    `outer` is the side whose rows all appear in the output, None for an inner join. `widths` are the numbers of columns
    of both sides. `condition` gets the joined row, left before right, and is met by what counts as true. `limit` is how
    many rows may be kept, None for any number. Raises `ModelError` if a key is on both sides, a bound names a key of
    neither, or a side does not bound the other.
    """

    outer: int | None = None
    keys: tuple[Mapping[int, int], Mapping[int, int]]
    widths: tuple[int, int]
    bounds: JoinBounds
    condition: Callable[[RowValues], object] = field(repr=False)
    output: EmissionLimit = "state"
    limit: int | None = None
    deviations: Deviations = SOUND

    def __post_init__(self) -> None:
        left, right = (frozenset(keys) for keys in self.keys)
        # Bounds within one side mean nothing to a join.
        across = {
            key: {other: amount for other, amount in bounded.items() if (other in left) is (key in right)}
            for key, bounded in self.bounds.items()
        }
        named = {*self.bounds, *chain.from_iterable(self.bounds.values())}
        is_bounded = all(any(map(across.get, keys)) for keys in (left, right))
        if left & right or not named <= left | right or not is_bounded:
            raise ModelError(
                "A join needs different keys on its two sides and a bound in each direction (got the keys "
                f"{[*left]} and {[*right]} with the bounds {dict(self.bounds)}).",
                remedy="Give both sides keys of their own, and compare a time of each with one of the other's plus or "
                "minus a constant, in both directions.",
            )
        self.bounds = across
        super().__post_init__()

    def start(self) -> JoinState:
        """No row and no watermark came."""
        keys = sorted([*self.keys[LEFT], *self.keys[RIGHT]])
        limits, received, emitted = (dict.fromkeys(keys, START) for _ in range(3))
        return JoinState(limits, received, emitted)

    def watermark(self, watermark: Watermark) -> None:
        """Those over all edges are ignored."""

    def complete(self) -> None:
        """What never found a partner leaves padded."""
        if self.deviations.unmatched_lost_at_end:
            return
        for rows in self.state.buffers:
            self.out += [self._padded(row.values) for row in rows if row.unmatched]
            rows.clear()

    def row(self, values: RowValues, edge: int) -> None:
        """It is dropped, or matched and perhaps kept. Raises `JobFailedError` at the row limit, for any row."""
        state = self.state
        if self.limit is not None and self.size >= self.limit:
            raise JobFailedError(
                Reason.LIMIT_EXCEEDED,
                f"The join keeps {self.size} rows at a limit of {self.limit}, and another row came.",
                remedy="Raise the limit, tighten the bounds, or find out which side sends no watermarks.",
            )
        times = {key: row_time(values, column) for key, column in self.keys[edge].items()}
        late = next((key for key, time in times.items() if time < _taken_from(state.received[key])), None)
        if late is not None:
            self.drops.append(Drop(edge, values, "join", late, times[late], state.received[late]))
            return
        is_kept = all(time >= _taken_from(state.limits[key]) for key, time in times.items())
        partners = self._partners(values, edge)
        unmatched = edge == self.outer and not partners
        if is_kept:
            state.buffers[edge].append(Buffered(values, unmatched))
        self.out += partners or ([self._padded(values)] if unmatched and not is_kept else [])

    def _partners(self, values: RowValues, side: int) -> list[RowValues]:
        """The joined rows; rows of the other side have found their partner by that."""
        results = []
        for row in self.state.buffers[1 - side]:
            joined = values + row.values if side == LEFT else row.values + values
            if self.condition(joined):
                results.append(joined)
                row.unmatched = False
        return results

    def _padded(self, values: RowValues) -> RowValues:
        if self.outer == LEFT:
            return values + (None,) * self.widths[RIGHT]
        return (None,) * self.widths[LEFT] + values

    def edge_watermark(self, watermark: Watermark, edge: int) -> None:  # noqa: ARG002
        """Limits rise, rows that can find no partner any more go, and watermarks that are due leave."""
        state, key, value = self.state, watermark.key, watermark.value
        if key not in state.received:
            return
        state.received[key] = value
        before = dict(state.limits)
        for other, amount in self.bounds.get(key, {}).items():
            state.limits[other] = max(state.limits[other], value - amount)
        if state.limits != before:
            self._purge()
        for known, emitted in state.emitted.items():
            if (due := self._due(known)) > emitted:
                state.emitted[known] = due
                self.out.append(Watermark(known, due))

    def _purge(self) -> None:
        """Rows below a limit go; of the outer side those leave padded that never found a partner."""
        for side in (LEFT, RIGHT):
            limits = [(column, _taken_from(self.state.limits[key])) for key, column in self.keys[side].items()]
            useful: list[Buffered] = []
            for row in self.state.buffers[side]:
                if all(row_time(row.values, column) >= limit for column, limit in limits):
                    useful.append(row)
                elif row.unmatched:
                    self.out.append(self._padded(row.values))
            self.state.buffers[side][:] = useful

    def _due(self, key: int) -> int:
        """The watermark of a key that the output may have now, by the formula of this join."""
        if self.output == "state":
            return min(self.state.received[key], self.state.limits[key])
        side = LEFT if key in self.keys[LEFT] else RIGHT
        column = self.keys[side][key]
        return min([self.state.received[key], *(row_time(row.values, column) for row in self.state.buffers[side])])

    @property
    def size(self) -> int:
        """The rows of both sides."""
        return sum(map(len, self.state.buffers))

    @property
    def sizes(self) -> dict[str, int]:
        """Also the rows of each side."""
        left, right = map(len, self.state.buffers)
        return {"all": left + right, "left": left, "right": right}

    def restored(self, snapshots: Sequence[JoinState]) -> JoinState:
        """Its own rows, and of every key the lowest limit and watermark of all instances.

        With the formula `buffer` watermarks are not part of a snapshot, so a row that was late can come in again.
        Source: "Stream-to-stream join", Fault tolerance.
        """
        state = self.start()
        if self.output == "state":
            state.received = _lowest([snapshot.received for snapshot in snapshots])
        state.limits = _lowest([snapshot.limits for snapshot in snapshots])
        state.buffers = snapshots[0].buffers
        return state


def _taken_from(watermark: int) -> int:
    """The lowest time that a watermark or a limit leaves: before the first one every time, also -2^63."""
    return MIN if watermark == START else watermark


def _lowest(maps: Sequence[dict[int, int]]) -> dict[int, int]:
    return {key: min(times[key] for times in maps) for key in maps[0]}


BatchRows = dict[RowValues, list[RowValues]]
"""The rows of a batch by the columns that must be equal, in the order they came."""


@dataclass(kw_only=True, eq=False)
class BatchJoin(Processor[BatchRows]):
    """Edge 0 is the left input, edge 1 the batch, which has to end first. The state is the rows of the batch.

    `outer` is LEFT if all rows of the left side appear in the output, else None; `width` is the number of columns of
    the batch. `condition` is that of `StreamJoin`. `equal` are pairs of a left column and one of the batch that must be
    equal for the condition to hold: partners are looked for among the rows that have these values, as in the hash table
    of upstream, and without such pairs among all. Watermarks over all edges and idle messages are forwarded: an input
    that has ended holds nothing back. Source: upstream classes `HashJoinCollectP`, `HashJoinP`.
    """

    outer: int | None = None
    width: int
    condition: Callable[[RowValues], object] = field(repr=False)
    equal: tuple[tuple[int, int], ...] = ()

    def start(self) -> BatchRows:
        """No row of the batch came."""
        return {}

    def row(self, values: RowValues, edge: int) -> None:
        """One of the batch is kept; one of the other side leaves with each partner, or on the outer side padded."""
        if edge == RIGHT:
            self.state.setdefault(tuple(values[column] for _, column in self.equal), []).append(values)
            return
        candidates = self.state.get(tuple(values[column] for column, _ in self.equal), [])
        pairs = [values + partner for partner in candidates if self.condition(values + partner)]
        if not pairs and self.outer == LEFT:
            pairs = [values + (None,) * self.width]
        self.out += pairs

    @property
    def size(self) -> int:
        """The rows of the batch."""
        return sum(map(len, self.state.values()))

    def restored(self, snapshots: Sequence[BatchRows]) -> BatchRows:
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
