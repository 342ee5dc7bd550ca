"""Joins of two streams in Spark and in Kafka Streams: which rows come out together, which alone, and when.

A strategy says which X a row meets; what a join makes of that is decided by its own rule. In both engines a row that
found no partner comes out alone once none can come any more, and both have had an error in saying when that is. Jet's
join is `wmlab.dataflow.model.join`.

Times and lengths have any one unit. Source: `StreamingSymmetricHashJoinExec` of Spark 4 (SPARK-45637, SPARK-49829);
`KStreamKStreamJoin` and `AbstractRocksDBSegmentedBytesStore` of Kafka 4 (KAFKA-19536).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final, Literal, NamedTuple

from wmlab.strategies.model.spark import QueryWatermarks, after_batch, watermarks
from wmlab.strategies.model.strategy import UNKNOWN, NotNegative, Positive, require_argument

Side = Literal["left", "right"]
_SIDES: Final[tuple[Side, Side]] = ("left", "right")
Outer = Literal["left", "right", "both"]
"""The sides whose rows come out without a partner too."""


class JoinRow(NamedTuple):
    """A row of one side: what has to be equal, its time, and of a window how many rows it counts."""

    key: Hashable
    time: int
    rows: int = 1


class JoinedRow(NamedTuple):
    """A result; None: no partner. `at` is the index, from 0, of the batch or of the row with which it came out."""

    at: int
    left: JoinRow | None
    right: JoinRow | None


def spark_join(
    batches: Iterable[tuple[Iterable[tuple[Hashable, int]], Iterable[tuple[Hashable, int]]]],
    *,
    delay: int = 0,
    window: int | None = None,
    outer: Outer | None = None,
    rule: Literal["current", "spark_49829"] = "current",
) -> list[JoinedRow]:
    """The results of a stream-stream join of Spark on key and time, batch by batch.

    A batch is the rows of the left side and those of the right, each a key and a time; one without data is two empty
    lists. Both sides have a watermark with this `delay`, and the query has the least of the two. With a `window` the
    rows of each side are counted first, by key and tumbling windows of this length, and the windows are joined: the
    time of a window is its end.

    A batch drops rows by the watermark of the batch before, and removes state by its own. So what a window gives to
    the join in a batch is over there in the same batch. By the rule "spark_49829" (until 3.5.3) such a row is not kept:
    what follows in the batch does not find it, and no outer result is made of it. Raises `ModelError` for a negative
    delay or a window that is not positive.
    """
    require_argument("delay", delay, NotNegative)
    require_argument("window", window, Positive | None)
    require_argument("outer", outer, Outer | None)
    require_argument("rule", rule, Literal["current", "spark_49829"])
    delays: dict[Hashable, int] = dict.fromkeys(_SIDES, delay)
    marks = watermarks(delays)
    counts: dict[Side, Counter[tuple[Hashable, int]]] = {side: Counter() for side in _SIDES}
    state: dict[Side, list[_StateRow]] = {side: [] for side in _SIDES}
    results = []
    for number, batch in enumerate(batches):
        rows = {side: [JoinRow(*row) for row in of_side] for side, of_side in zip(_SIDES, batch, strict=True)}
        largest: dict[Hashable, int] = {side: max(row.time for row in rows[side]) for side in _SIDES if rows[side]}
        if window is not None:
            rows = {side: _closed(counts[side], rows[side], window, marks) for side in _SIDES}
        results += [JoinedRow(number, *pair) for pair in _join(state, rows, marks, outer, rule)]
        marks = after_batch(marks, largest, delays)
    return results


class _StateRow(NamedTuple):
    """A row in the state of a join, and whether it has found a partner."""

    row: JoinRow
    matched: bool


_Pair = tuple[JoinRow | None, JoinRow | None]


def _closed(
    counts: Counter[tuple[Hashable, int]], rows: Iterable[JoinRow], window: int, marks: QueryWatermarks
) -> list[JoinRow]:
    """Counts the rows of a batch, and takes out the windows that are over."""
    for key, time, _ in rows:
        end = time - time % window + window
        if end > marks.late:
            counts[key, end] += 1
    over = sorted((group for group in counts if group[1] <= marks.watermark), key=lambda group: group[1])
    return [JoinRow(*group, counts.pop(group)) for group in over]


def _join(
    state: dict[Side, list[_StateRow]],
    rows: dict[Side, list[JoinRow]],
    marks: QueryWatermarks,
    outer: Outer | None,
    rule: str,
) -> list[_Pair]:
    """The results of one batch; `state` is what the join has of each side, which is changed."""
    pairs: list[_Pair] = []
    for side, other in (_SIDES, _SIDES[::-1]):  # first all rows of the left side, then those of the right
        for row in rows[side]:
            if row.time <= marks.late:
                continue
            partners = [partner.row for partner in state[other] if partner.row[:2] == row[:2]]
            state[other] = [_StateRow(entry.row, entry.matched or entry.row in partners) for entry in state[other]]
            pairs += [_pair(side, row, partner) for partner in partners]
            if row.time > marks.watermark or rule == "current":
                state[side].append(_StateRow(row, bool(partners)))
    for side in _SIDES:
        over = [entry for entry in state[side] if entry.row.time <= marks.watermark]
        state[side] = [entry for entry in state[side] if entry.row.time > marks.watermark]
        if outer in (side, "both"):
            pairs += [_pair(side, entry.row, None) for entry in over if not entry.matched]
    return pairs


def _pair(side: Side, row: JoinRow, partner: JoinRow | None) -> _Pair:
    return (row, partner) if side == "left" else (partner, row)


def stream_time_join(
    rows: Iterable[tuple[Side, Hashable, int]],
    *,
    before: int,
    after: int,
    grace: int = 0,
    outer: Outer | None = None,
    rule: Literal["current", "kafka_19536"] = "current",
) -> list[JoinedRow]:
    """The results of a stream-stream join of Kafka Streams on the key, in the order in which they come out.

    `rows` are those of one task in order of arrival: side, key and time. A left row at t is joined with the right rows
    of its window, from t - `before` to t + `after`, both included. Stream time is the largest time of either side. The
    window of a row is over once stream time is beyond its end and `grace`; the outer result of a row without partner
    comes out with the next row that moves stream time then. A store gives a row up once the largest time of its own
    side is `before` + `after` + `grace` beyond it, so a row that comes later finds it no more.

    A row that comes out of order, so that the end of its window is before stream time, comes out alone at once by the
    rule "kafka_19536" (until 4.2 at least), also within `grace`, and again with a partner that comes then. By the
    current rule, which is that of the proposed change, it waits. Raises `ModelError` for a negative length or another
    side.
    """
    lengths = {"before": before, "after": after, "grace": grace}
    for name, length in lengths.items():
        require_argument(name, length, NotNegative)
    require_argument("outer", outer, Outer | None)
    require_argument("rule", rule, Literal["current", "kafka_19536"])
    retention = sum(lengths.values())
    ahead: dict[Side, int] = {"left": after, "right": before}
    stored: dict[Side, list[JoinRow]] = {side: [] for side in _SIDES}
    largest: dict[Side, int] = dict.fromkeys(_SIDES, UNKNOWN)
    waiting: list[tuple[Side, JoinRow]] = []
    results: list[JoinedRow] = []
    for number, (side, key, time) in enumerate(rows):
        require_argument("the side of a row", side, Side)
        row, other = JoinRow(key, time), _SIDES[side == "left"]
        stored[side].append(row)
        largest[side] = max(largest[side], time)
        stream_time = max(largest.values())
        if time == stream_time:
            over = [entry for entry in waiting if entry[1].time + ahead[entry[0]] + grace < stream_time]
            waiting = [entry for entry in waiting if entry not in over]
            results += [
                JoinedRow(number, *_pair(*entry, None)) for entry in sorted(over, key=lambda entry: entry[1].time)
            ]
        window = range(time - ahead[other], time + ahead[side] + 1)
        partners = [
            partner
            for partner in stored[other]
            if partner.key == key and partner.time in window and partner.time > largest[other] - retention
        ]
        waiting = [entry for entry in waiting if entry[0] == side or entry[1] not in partners]
        results += [JoinedRow(number, *_pair(side, row, partner)) for partner in partners]
        if not partners and outer in (side, "both"):
            end = time + ahead[side] + (grace if rule == "current" else 0)
            if end < stream_time:
                results.append(JoinedRow(number, *_pair(side, row, None)))
            else:
                waiting.append((side, row))
    return results
