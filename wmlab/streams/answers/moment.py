"""What every party of a stream had at a moment: segments, newest watermark, writers' notes, readers' windows.

`read_states` reads the tables of a stream once, and `RecordedStates.at` looks up a moment in them; so a moment costs
little, however long the run was.

Source: PDP-33, Stream Cuts, Periodic Watermark Workflow and Watermarking in the Reader; upstream classes
`PeriodicWatermarking`, `ReaderGroupState` and `WatermarkReaderImpl`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wmlab.core.errors import RecordingError
from wmlab.core.invariants import TableRow, Verdicts
from wmlab.core.recording import Recording, planned_span
from wmlab.streams.answers.curves import Curves
from wmlab.streams.answers.history import CLOCKS, StreamTables, events_of, without_ends
from wmlab.streams.answers.run_state import Note, RunState
from wmlab.streams.answers.timeline import Moment
from wmlab.streams.model.segment import segment_name
from wmlab.streams.tables import TOOK_PLACE, Subject

Clock = Callable[[int], str]
"""Writes a time (ms) as the axis next to it does."""
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentState:
    """A segment: its key range [low, high) in shares of the key space, and how many bytes were in it.

    `sealed_ms` is None while it is open. `offset` is the group's published position in it (bytes), None if the group
    does not read it; `reader` is who reads it, None for nobody.
    """

    segment_id: int
    low: float
    high: float
    created_ms: int
    sealed_ms: int | None
    length: int
    offset: int | None = None
    reader: str | None = None

    @property
    def name(self) -> str:
        """Its number and epoch, as "1@0"."""
        return segment_name(self.segment_id)

    @property
    def unread(self) -> int:
        """How many bytes the group has not read."""
        return self.length - (self.offset or 0)

    @property
    def title(self) -> str:
        """Its name and its reader: "1@0, read by readers-0"."""
        return self.name if self.offset is None else f"{self.name}, read by {self.reader or 'nobody'}"

    @property
    def words(self) -> str:
        """Whether it is open, how long it is, who reads it, and how much is not read."""
        is_open = "open" if self.sealed_ms is None else "sealed"
        reader = "" if self.offset is None else f", read by {self.reader or 'nobody'}"
        unread = "" if self.offset is None else f", {size_words(self.unread)} not read"
        return f"segment {self.name}, {is_open}, {size_words(self.length)}{reader}{unread}"


def note_words(writer: str, note: Note, clock: Clock) -> str:
    """What a writer noted, and why that was refused."""
    refused = "" if note.accepted else f", refused: {note.outcome}"
    return f"writer {writer} noted {clock(note.time)}{refused}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterState:
    """A writer: its notes up to the moment, by `received_ms`, and what befell it and lasts ("down"; "": nothing).

    `awaited`: the last cycle waited for it. `dropped`: a cycle dropped it, and it has noted no time since.
    """

    name: str
    notes: Sequence[Note]
    state: str
    awaited: bool
    dropped: bool

    @property
    def newest(self) -> Note | None:
        """Its last note that was accepted."""
        return next((note for note in reversed(self.notes) if note.accepted), None)

    def words(self, clock: Clock) -> str:
        """What it noted and what befell it: "writer w2 noted 25.2 s, down, waited for"."""
        noted = "has noted no time" if self.newest is None else f"noted {clock(self.newest.time)}"
        states = [self.state, "waited for" * self.awaited, "dropped" * self.dropped]
        return ", ".join([f"writer {self.name} {noted}", *filter(None, states)])


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """The newest watermark: its bounds (event time, ms; None: unknown), and when it was emitted (None: none was)."""

    lower: int | None = None
    upper: int | None = None
    emitted_ms: int | None = None

    def words(self, clock: Clock) -> str:
        """Its bounds, and when it was emitted."""
        if self.emitted_ms is None:
            return "no watermark yet"
        window = window_words(self.lower, self.upper, clock)
        return f"watermark {window}, emitted {_without_day(clock(self.emitted_ms), beside=window)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """A reader: the window that it saw when it last looked, at `looked_ms` (None: not yet), and what befell it.

    Bounds are event times in ms, None if unknown; `state` is "paused", "down" and so on, "" for nothing.
    """

    name: str
    lower: int | None
    upper: int | None
    looked_ms: int | None
    state: str

    def words(self, clock: Clock) -> str:
        """What it saw, and what befell it."""
        window = window_words(self.lower, self.upper, clock)
        seen = "has not polled yet" if self.looked_ms is None else f"saw {window}"
        return ", ".join(filter(None, [f"reader {self.name} {seen}", self.state]))


def window_words(lower: int | None, upper: int | None, clock: Clock) -> str:
    """Two bounds in words; a day is written once."""
    low, high = (None if bound is None else clock(bound) for bound in (lower, upper))
    if low is None:
        return "no bounds" if high is None else f"no lower bound, upper bound {high}"
    if high is None:
        return f"{low}, no upper bound"
    return low if low == high else f"{low} to {_without_day(high, beside=low)}"


def _without_day(time: str, *, beside: str) -> str:
    """An instant without its day next to one of the same day: "14:00:09" next to "Jan 3, 14:00:05"."""
    day, comma, clock = time.partition(", ")
    return clock if comma and beside.startswith(f"{day}, ") else time


def size_words(size: int) -> str:
    """A number of bytes: "480 B", "12.3 kB", "1.2 MB"."""
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """What all parties had at `at_ms` (clock).

    `segments` are all that had been created; `watermarks` the rows of those emitted, the newest one last, with bounds
    of None at an end of known time; `group` is the group whose readers are meant, None if nobody read.
    """

    stream: str
    at_ms: int
    group: str | None
    segments: tuple[SegmentState, ...]
    watermarks: Sequence[TableRow]
    writers: tuple[WriterState, ...]
    readers: tuple[ReaderState, ...]

    @property
    def watermark(self) -> TableRow | None:
        """The newest watermark."""
        return self.watermarks[-1] if self.watermarks else None

    @property
    def position(self) -> dict[int, int]:
        """The group's published position: the offset (bytes) in each segment that it reads."""
        return {segment.segment_id: segment.offset for segment in self.segments if segment.offset is not None}


@dataclass(frozen=True, slots=True)
class Appends:
    """What was appended to a segment: when (clock, ms, ascending), up to which byte, and the largest event time so far.

    All events of one ms are one entry.
    """

    at_ms: _Integers
    ends: _Integers
    newest: _Integers

    def length(self, at_ms: int) -> int:
        """How many bytes were in the segment at a moment."""
        count = int(self.at_ms.searchsorted(at_ms, side="right"))
        return int(self.ends[count - 1]) if count else 0

    def reached(self, length: int) -> int | None:
        """The entry with which the segment was that long; None if that is 0 bytes, which it had from the start."""
        return min(int(self.ends.searchsorted(length)), len(self.ends) - 1) if length and len(self.ends) else None


_NO_APPENDS: Final = Appends(*(np.empty(0, np.int64),) * 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStates:
    """The states of a stream at all moments from `low_ms` to `high_ms` (clock); `group` is None if nobody read.

    `appends` has the growth of each segment. `shares_clock` says whether event times lie on the scale of the clock: a
    usual note is not further from the clock than the run is long.
    """

    stream: str
    group: str | None
    low_ms: int
    high_ms: int
    shares_clock: bool
    appends: Mapping[int, Appends]
    curves: Curves
    _newest_times: tuple[_Integers, _Integers]
    _segments: Sequence[TableRow]
    _positions: Sequence[tuple[int, Mapping[int, TableRow]]]
    _writers: Sequence[str]
    _readers: Sequence[str]
    _joined_ms: Mapping[str, int]

    def at(self, at_ms: int) -> StreamState:
        """The state at a moment (clock, ms)."""
        known = self.curves.state_at(at_ms)
        return StreamState(
            stream=self.stream,
            at_ms=at_ms,
            group=self.group,
            segments=tuple(self._segments_at(at_ms)),
            watermarks=without_ends(known.watermarks),
            writers=tuple(_writer(writer, known) for writer in self._writers),
            readers=tuple(
                _reader(reader, known) for reader in self._readers if self._joined_ms.get(reader, at_ms) <= at_ms
            ),
        )

    def _segments_at(self, at_ms: int) -> Iterator[SegmentState]:
        count = bisect_right(self._positions, at_ms, key=lambda published: published[0])
        position = self._positions[count - 1][1] if count else {}
        for row in self._segments:
            if row["created_ms"] <= at_ms:
                segment, sealed_ms = row["segment_id"], row["sealed_ms"]
                read = position.get(segment)
                offset = None if read is None else int(read["offset"])
                length = self.appends.get(segment, _NO_APPENDS).length(at_ms)
                yield SegmentState(
                    segment_id=segment,
                    low=row["low"],
                    high=row["high"],
                    created_ms=row["created_ms"],
                    sealed_ms=None if sealed_ms is None or sealed_ms > at_ms else sealed_ms,
                    length=max(length, offset or 0),
                    offset=offset,
                    reader=None if read is None else read["reader"],
                )

    def newest_time(self, at_ms: int) -> int:
        """The largest event time (ms) that was appended or noted up to a moment, or the first one after it."""
        clocks, times = self._newest_times
        return int(times[max(int(clocks.searchsorted(at_ms, side="right")) - 1, 0)]) if len(times) else 0

    def known_times(self) -> Iterator[tuple[int, int, int]]:
        """Every event time that some party knew: from when until when (clock, ms), and the time (ms).

        Of the log and of readers these are the bounds, of writers their accepted notes until the next one; the last
        one is there at its arrival, for a writer may be gone for good.
        """
        tables, notes = self.curves.tables, self.curves.state_at(self.high_ms).notes
        log = [(row["emitted_ms"], (row["lower"], row["upper"])) for row in without_ends(tables.rows("watermarks"))]
        windows = (tables.windows[reader] for reader in self._readers)
        seen = ([(row["at_ms"], (row["lower"], row["upper"])) for row in rows] for rows in windows)
        for series in (sorted(log), *seen):
            for (from_ms, times), (until_ms, _) in pairwise([*series, (self.high_ms, ())]):
                yield from ((from_ms, max(until_ms, from_ms), time) for time in times if time is not None)
        for writer in self._writers:
            accepted = [note for note in notes.get(writer, ()) if note.accepted]
            for note, following in pairwise([*accepted, *accepted[-1:]]):
                yield note.received_ms, following.received_ms, note.time


def read_states(recording: Recording, stream: str, *, group: str | None = None) -> RecordedStates:
    """The states of a stream as one group read it, by default the first group by name.

    Raises `RecordingError` for a group that did not read the stream, and for a stream in which nothing happened.
    """
    curves = Curves(recording, stream)
    tables = curves.tables
    rows = {table: tables.rows(table) for table in _TABLES}
    chosen = _the_group(tables, group)
    windows = [row for row in rows["windows"] if row["group"] == chosen]
    appends, wrote = _appends(recording, stream)
    clocks = [row[CLOCKS[table]] for table in _TABLES if table != "segments" for row in rows[table]]
    clocks += [int(end) for of in appends.values() for end in (of.at_ms[0], of.at_ms[-1])]
    low_ms, high_ms = planned_span(recording) or (min(clocks, default=0), max(clocks, default=0))
    if not clocks or low_ms == high_ms:
        raise RecordingError(
            f"Nothing happened in the stream {stream!r}.", remedy="Record a run in which somebody writes or notes."
        )
    accepted = [row for row in rows["writer_marks"] if row["outcome"] == "success"]
    apart_ms = median(abs(row["received_ms"] - row["time"]) for row in accepted) if accepted else 0
    incidents = [row for row in rows["incidents"] if row["outcome"] == TOOK_PLACE]
    return RecordedStates(
        stream=stream,
        group=chosen,
        low_ms=low_ms,
        high_ms=high_ms,
        shares_clock=apart_ms <= high_ms - low_ms,
        appends=appends,
        curves=curves,
        _newest_times=_newest_times(appends, accepted),
        _segments=sorted(rows["segments"], key=lambda row: (row["low"], row["segment_id"])),
        _positions=() if chosen is None else tables.of_group(chosen).states,
        _writers=sorted(wrote.union(row["writer"] for row in rows["writer_marks"])),
        _readers=sorted({row["reader"] for row in windows}),
        _joined_ms={row["target"]: row["at_ms"] for row in reversed(incidents) if row["kind"] == "join"},
    )


_TABLES: Final = (
    "segments",
    "epochs",
    "writer_marks",
    "cycles",
    "watermarks",
    "positions",
    "windows",
    "incidents",
)


def _writer(writer: str, known: RunState) -> WriterState:
    notes = tuple(known.notes.get(writer, ()))
    return WriterState(
        name=writer,
        notes=notes,
        state=_state(known, "writer", writer),
        awaited=writer in (known.cycle or {}).get("lagging", ()),
        dropped=any(note.accepted for note in notes) and writer not in known.on_record,
    )


def _reader(reader: str, known: RunState) -> ReaderState:
    seen = known.seen.get(reader)
    return ReaderState(
        name=reader,
        lower=None if seen is None else seen.lower,
        upper=None if seen is None else seen.upper,
        looked_ms=None if seen is None else seen.looked_ms,
        state=_state(known, "reader", reader),
    )


def _state(known: RunState, subject: Subject, party: str) -> str:
    """What befell a party and lasts; "" for nothing."""
    fault = known.faults.of(subject, party, at_ms=known.at_ms)
    return "" if fault is None else fault.kind.value


def _the_group(tables: StreamTables, group: str | None) -> str | None:
    groups = tables.groups
    if group is not None and group not in groups:
        raise RecordingError(
            f"No reader group {group!r} read the stream {tables.stream!r}.",
            remedy=f"Name one of: {', '.join(groups)}." if groups else "Leave the group out: nobody read.",
        )
    return group or next(iter(groups), None)


def _appends(recording: Recording, stream: str) -> tuple[dict[int, Appends], set[str]]:
    """The growth of each segment, and who wrote; of the events only the last of each ms is kept."""
    by, writers = ["segment_id", "append_ms"], set[str]()

    def last_of_each_ms(events: pa.Table) -> pa.Table:
        largest = events.group_by(by).aggregate([("offset", "max"), ("event_time", "max")])
        return largest.rename_columns([*by, "offset", "event_time"])

    parts = []
    for part in events_of(recording, stream, *by, "offset", "event_time", "writer"):
        writers.update(part["writer"].unique().to_pylist())
        parts.append(last_of_each_ms(part))
    whole = last_of_each_ms(pa.concat_tables(parts)).sort_by([(name, "ascending") for name in by])
    segments, *columns = (whole[name].to_numpy() for name in (*by, "offset", "event_time"))
    ids, starts = np.unique(segments, return_index=True)
    grown: dict[int, Appends] = {}
    for segment, (begin, end) in zip(ids.tolist(), pairwise([*starts.tolist(), len(segments)]), strict=True):
        at_ms, *largest = (column[begin:end] for column in columns)
        grown[segment] = Appends(at_ms, *(np.maximum.accumulate(column) for column in largest))
    return grown, writers


def _newest_times(appends: Mapping[int, Appends], accepted: Sequence[TableRow]) -> tuple[_Integers, _Integers]:
    """The clock at which event times were appended or noted, ascending, and the largest one up to then."""
    noted = np.array([(row["received_ms"], row["time"]) for row in accepted], np.int64).reshape(-1, 2)
    clocks = np.concatenate([noted[:, 0], *(of.at_ms for of in appends.values())])
    times = np.concatenate([noted[:, 1], *(of.newest for of in appends.values())])
    order = clocks.argsort(kind="stable")
    return clocks[order], np.maximum.accumulate(times[order])


def violations(verdicts: Verdicts, stream: str) -> tuple[Moment, ...]:
    """The first violation in a stream of each invariant, by the moment of its verdict; ascending."""
    moments = []
    for verdict in verdicts:
        at_ms, who = verdict.at_ms, verdict.invariant
        if at_ms is not None and verdict.stream in (None, stream):
            what = f"is violated: {verdict.what or verdict.statement}"
            moments.append(Moment(at_ms=at_ms, to_ms=at_ms, who=who, what=what, parties=(who,)))
    return tuple(sorted(moments, key=attrgetter("at_ms")))
