"""The facts about events that the invariants need, reduced batch by batch.

The table of events is the only one that may not fit into memory. I6 takes how many events were delivered under a lower
bound that had been shown. It also takes how many were late in each millisecond, with one of these; I11 takes when the
newest event was appended up to each offset of a cut. Both come from one scan.

An event counts when a reader of the group first reads it; whatever is read again proves nothing. A bound counts from
the window that showed it, for what is read in a later millisecond: within one the tables do not say what came first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.compute import take

from wmlab.core.invariants import TableRow, TableRows
from wmlab.core.spark.grouped import rows_by
from wmlab.core.times import Int64Array
from wmlab.streams.bounds.log_by_segment import int64_column
from wmlab.streams.checks.facts import SEGMENT_END
from wmlab.streams.checks.lateness import Excuses, describe, proof_of

DELIVERED: Final = "delivered"
LATE: Final = "late"
AT_BOUND: Final = "at the bound"
COVERED: Final = "covered"
EVENT_COLUMNS: Final = ("segment_id", "offset", "event_time", "append_ms", "writer")
"""The columns of an event that are taken, besides its stream."""
_READING: Final = ("group", "reader", "read_ms", "after", "reached", "shown_lower", "shown_to", "shown_ms")
_TEXTS: Final = ("fact", "stream", "because", "writer", "group", "reader", "shown_to")
EVENT_FACTS: Final = pa.schema(
    [
        (name, pa.string() if name in _TEXTS else pa.int64())
        for name in ("fact", "stream", "count", "because", *EVENT_COLUMNS, *_READING)
    ]
)
"""Rows of four kinds, told apart by `fact`; the other columns of a row are null.

- "delivered": `count` events of the stream were read after a lower bound had been shown to their group;
- "late": an event that lies below the largest lower bound shown to its group before, and `because`, see `lateness`; who
  read it, at `read_ms`, together with all events between the offsets `after` and `reached`; that bound, to whom it was
  shown, and when. It stands for `count` events that were read in the same millisecond with the same `because`;
- "at the bound": the same of an event whose time is that bound; only where they are asked for;
- "covered": the newest event of a segment up to `offset`, which a cut has, was appended at `append_ms`; what an earlier
  offset of the same segment covers is not counted again. A null in a cut is `SEGMENT_END`.
"""
_OF_EXCUSES: Final = ("watermarks", "writer_marks", "cycles", "segments")
_NEVER: Final = -(2**63)
_NONE: Final = np.zeros(0, np.int64)


class EventReduction:
    """Reduces events to `EVENT_FACTS`, by the other tables of their recording; `at_bound` asks for that kind, too."""

    def __init__(self, tables: Mapping[str, pa.Table], *, at_bound: bool = False) -> None:
        self.at_bound = at_bound
        self.readings = _first_reads(tables["reads"], tables["windows"])
        self.reached, self.after = (int64_column(self.readings, name) for name in ("reached", "after"))
        self.shown_lower = int64_column(self.readings, "shown_lower")
        self.shown = self.readings["shown_lower"].is_valid().to_numpy()
        self.of_segment: dict[tuple[str, int], list[Int64Array]] = {}
        for (stream, segment, _), rows in rows_by(self.readings, "stream", "segment_id", "group"):
            self.of_segment.setdefault((stream, segment), []).append(rows)
        self.cut_offsets = _cut_offsets(tables["watermarks"])
        self.tables = {name: tables[name] for name in _OF_EXCUSES}
        self.of_stream = {
            name: {key: rows for (key,), rows in rows_by(self.tables[name], "stream")} for name in _OF_EXCUSES
        }
        self._excuses: dict[str, Excuses] = {}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The facts of some events."""
        delivered: Counter[str] = Counter()
        late: dict[tuple[Any, ...], _LateEvents] = {}
        newest: dict[tuple[str, int], Int64Array] = {}
        for batch in batches:
            events = pa.Table.from_batches([batch])
            for segment, rows in rows_by(events, "stream", "segment_id"):
                of_segment = take(events, rows)
                self._cover(newest, segment, of_segment)
                for readings in self.of_segment.get(segment, ()):
                    count, below = self.delivered(of_segment, readings)
                    delivered[segment[0]] += count
                    for event in self.judged(below):
                        alike = event["fact"], event["stream"], event["because"], event["read_ms"]
                        if alike in late:
                            late[alike].add(event)
                        else:
                            late[alike] = _LateEvents(event)
        facts = [{"fact": DELIVERED, "stream": stream, "count": count} for stream, count in delivered.items() if count]
        facts += [alike.fact for alike in late.values()]
        yield from pa.Table.from_pylist(facts, EVENT_FACTS).to_batches()
        for (stream, number), append_ms in newest.items():
            yield from _covered(stream, number, self.cut_offsets[stream, number], append_ms).to_batches()

    def judged(self, late: pa.Table) -> Iterator[dict[str, Any]]:
        """Late events with `fact` and `because`."""
        for event in late.to_pylist():
            fact = LATE if event["event_time"] < event["shown_lower"] else AT_BOUND
            yield event | {"fact": fact, "because": self._excuses_of(event["stream"]).of(event)}

    def _excuses_of(self, stream: str) -> Excuses:
        if stream not in self._excuses:
            rows = {
                name: take(table, self.of_stream[name].get(stream, _NONE)).to_pylist(maps_as_pydicts="strict")
                for name, table in self.tables.items()
            }
            self._excuses[stream] = Excuses(**rows)
        return self._excuses[stream]

    def _cover(self, newest: dict[tuple[str, int], Int64Array], segment: tuple[Any, ...], events: pa.Table) -> None:
        """Raise what is known of the newest event up to each offset of a cut, from some events of the segment."""
        offsets = self.cut_offsets.get((segment[0], segment[1]))
        if offsets is None:
            return
        append_ms = newest.setdefault((segment[0], segment[1]), np.full(len(offsets), _NEVER))
        first = offsets.searchsorted(int64_column(events, "offset"))
        covered = first < len(offsets)
        np.maximum.at(append_ms, first[covered], int64_column(events, "append_ms")[covered])

    def delivered(self, events: pa.Table, readings: Int64Array) -> tuple[int, pa.Table]:
        """How many events of one segment a group read under a bound, and those that were late; its `readings` ascend.

        With `at_bound` those with the time of the bound are among the latter.

        An event belongs to the nearest end of what was read at or beyond it.
        """
        offset = int64_column(events, "offset")
        nearest = self.reached[readings].searchsorted(offset)
        within = np.flatnonzero(nearest < len(readings))
        reading = readings[nearest[within]]
        read = (offset[within] > self.after[reading]) & self.shown[reading]
        within, reading = within[read], reading[read]
        time, shown = int64_column(events, "event_time")[within], self.shown_lower[reading]
        late = time <= shown if self.at_bound else time < shown
        columns = take(events, within[late]).select(["stream", *EVENT_COLUMNS])
        by = take(self.readings, reading[late])
        for name in _READING:
            columns = columns.append_column(name, by[name])
        return len(within), columns


class _LateEvents:
    """How many late events were read in one millisecond with the same excuse, or none, and the first by its words."""

    def __init__(self, event: dict[str, Any]) -> None:
        self.count, self.event, self.words = 1, event, describe(event)

    def add(self, event: dict[str, Any]) -> None:
        """One more."""
        self.count += 1
        words = describe(event)
        if words < self.words or (words == self.words and _rows_of(event) < _rows_of(self.event)):
            self.event, self.words = event, words

    @property
    def fact(self) -> dict[str, Any]:
        """A row of `EVENT_FACTS`."""
        return self.event | {"count": self.count}


def _rows_of(event: TableRow) -> list[str]:
    return [proof.text for proof in proof_of(event)]


def delivered_events(event_facts: TableRows) -> int:
    """How many events of the stream were read after a lower bound had been shown to their group."""
    return sum(row["count"] for row in event_facts if row["fact"] == DELIVERED)


def late_deliveries(event_facts: TableRows) -> list[TableRow]:
    """The late events of the stream that stand for all, see `EVENT_FACTS`."""
    return [row for row in event_facts if row["fact"] == LATE]


def deliveries_at_bound(event_facts: TableRows) -> list[TableRow]:
    """The events of the stream with the time of the bound that was shown before, see `EVENT_FACTS`."""
    return [row for row in event_facts if row["fact"] == AT_BOUND]


class CoveredEvents:
    """When the newest event up to an offset of a cut was appended, by segment; made of `EVENT_FACTS` of one stream."""

    def __init__(self, event_facts: TableRows) -> None:
        newest: dict[int, dict[int, int]] = {}
        for row in event_facts:
            if row["fact"] == COVERED:
                offsets = newest.setdefault(row["segment_id"], {})
                offsets[row["offset"]] = max(offsets.get(row["offset"], _NEVER), row["append_ms"])
        self.by_segment = {
            segment: (sorted(offsets), list(accumulate((offsets[at] for at in sorted(offsets)), max)))
            for segment, offsets in newest.items()
        }

    def newest_ms(self, segment: int, offset: int | None) -> int | None:
        """When the newest event in a segment up to an offset of a cut was appended (ms); None: it has none there."""
        offsets, append_ms = self.by_segment.get(segment, ([], []))
        covered = bisect_right(offsets, SEGMENT_END if offset is None else offset)
        return append_ms[covered - 1] if covered else None


class _LowerBoundIncreases(NamedTuple):
    """The windows that raised the lower bound of a group: their rows in a table, and when they were seen."""

    first: int
    at_ms: Int64Array


def _first_reads(reads: pa.Table, windows: pa.Table) -> pa.Table:
    """What was read for the first time, with the last bound shown before; by stream, group, segment and end.

    The columns are stream, segment_id, and those of a late event that say who read it and what was shown before.
    """
    order = [(name, "ascending") for name in ("stream", "group", "segment_id", "to_offset", "at_ms")]
    first = reads.filter(pc.invert(reads["again"])).sort_by(order)
    raised, by_group = _raised(windows)
    read_ms = int64_column(first, "at_ms")
    last_raised = np.full(first.num_rows, -1)
    for group, rows in rows_by(first, "stream", "group"):
        if group in by_group:
            before = by_group[group].at_ms.searchsorted(read_ms[rows]) - 1
            last_raised[rows] = np.where(before >= 0, by_group[group].first + before, -1)
    last = take(raised, pa.array(last_raised, mask=last_raised < 0))
    columns = {name: first[name] for name in ("stream", "segment_id", "group", "reader")}
    columns |= {"read_ms": first["at_ms"], "after": first["from_offset"], "reached": first["to_offset"]}
    columns |= {"shown_lower": last["lower"], "shown_to": last["reader"], "shown_ms": last["at_ms"]}
    return pa.table(columns)


def _raised(windows: pa.Table) -> tuple[pa.Table, dict[tuple[Any, ...], _LowerBoundIncreases]]:
    """The windows that raised the lower bound of their group, in order, and where those of each group are."""
    order = [("stream", "ascending"), ("group", "ascending"), ("at_ms", "ascending"), ("lower", "descending")]
    known = windows.filter(windows["lower"].is_valid()).sort_by([*order, ("reader", "ascending")])
    lower, at_ms = (int64_column(known, name) for name in ("lower", "at_ms"))
    chosen: list[Int64Array] = [_NONE]
    by_group: dict[tuple[Any, ...], _LowerBoundIncreases] = {}
    count = 0
    for group, rows in rows_by(known, "stream", "group"):
        before = np.append(True, lower[rows][1:] > np.maximum.accumulate(lower[rows])[:-1])
        chosen.append(rows[before])
        by_group[group] = _LowerBoundIncreases(count, at_ms[rows[before]])
        count += int(before.sum())
    return take(known, np.concatenate(chosen)), by_group


def _cut_offsets(watermarks: pa.Table) -> dict[tuple[str, int], Int64Array]:
    """The offsets that the cuts of watermarks with writers give each segment, ascending, each once."""
    writers = watermarks["writers"].combine_chunks()
    counting = watermarks.filter(np.diff(np.asarray(writers.offsets)) > 0)
    cuts = counting["cut"].combine_chunks()
    streams = take(counting["stream"], np.repeat(np.arange(len(cuts)), np.diff(np.asarray(cuts.offsets))))
    entries = slice(cuts.offsets[0].as_py(), cuts.offsets[-1].as_py()) if len(cuts) else slice(0, 0)
    offsets = cuts.items[entries].fill_null(SEGMENT_END)
    named = pa.table({"stream": streams, "segment_id": cuts.keys[entries], "offset": offsets})
    offset = int64_column(named, "offset")
    return {
        (stream, segment): np.unique(offset[rows]) for (stream, segment), rows in rows_by(named, "stream", "segment_id")
    }


def _covered(stream: str, segment: int, offsets: Int64Array, append_ms: Int64Array) -> pa.Table:
    known = append_ms > _NEVER
    count = int(known.sum())
    columns = {"fact": [COVERED] * count, "stream": [stream] * count, "segment_id": [segment] * count}
    return _facts(pa.table(columns | {"offset": offsets[known], "append_ms": append_ms[known]}))


def _facts(columns: pa.Table) -> pa.Table:
    """Rows of `EVENT_FACTS` with these columns; the others are null."""
    nulls = {field.name: pa.nulls(columns.num_rows, field.type) for field in EVENT_FACTS}
    known = {name: columns[name] for name in columns.column_names}
    return pa.table(nulls | known).select(EVENT_FACTS.names).cast(EVENT_FACTS)
