"""The items of each panel: the key space, the group's segments, event time, incidents; and the rows they are made from.

The key space has the segments that writers append to, that the newest stream cut runs through, and that the group
reads. The segments panel shows each segment that the group reads around the position it has published there: a cut left
of the middle is passed in this segment, and a watermark is passed when its cut is passed in all open segments. Event
time has a lane for each writer with its marks, the newest watermark, and the window that each reader sees.

Source: PDP-33, Stream Cuts, Watermark Computation and Watermarking in the Reader; upstream classes
`ReaderGroupState`, `PeriodicWatermarking` and `WatermarkReaderImpl`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from wmlab.core.charts.axis import nice_step
from wmlab.core.charts.scene import Value
from wmlab.core.errors import ChartError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import grouped
from wmlab.streams.answers.history import (
    CLOCKS,
    IN_CHARTS,
    LastingFaults,
    after_fault,
    furthest,
    group_states,
    is_of,
    named_state,
    replaced,
    rows_of_stream,
    scenario_span,
    without_ends,
)
from wmlab.streams.charts.bounds import read_bounds
from wmlab.streams.model.segment import segment_name
from wmlab.streams.scrubber.frames import VIOLATION, Builder, FrameItem, Incident

KEY_UNITS: Final = 1_000_000
"""The key space in the unit of `ScrubbedRun.keys`."""

_TABLES: Final = tuple(table for table in CLOCKS if table not in ("segments", "events"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubbedRun:
    """The rows of one stream by table, ascending by the clock of the table; of readers only those of `group`.

    A watermark that is an end of known time has no bounds.

    `planned` are beginning and end by the scenario, empty if there is none or the run was stopped. `group` is None if
    nobody read. `perfect` is the smallest event time still to come for the group, from each moment on; None is unknown,
    or nothing to come. `ranges` has the key range of each segment in millionths of the key space, `writers` are all who
    noted a time or wrote an event, `readers` all who looked at a window. `written` has, for each segment, the moments
    at which it grew and its length then.
    """

    stream: str
    planned: tuple[int, ...]
    group: str | None
    rows: Mapping[str, list[TableRow]]
    perfect: Sequence[tuple[int, Value]]
    ranges: Mapping[int, tuple[int, int]]
    sealed_ms: Mapping[int, int | None]
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    written: Mapping[int, tuple[list[int], list[int]]]

    def keys(self, segment_id: int) -> tuple[int, int]:
        """The segment's key range in millionths of the key space."""
        return self.ranges.get(segment_id, (0, 0))

    def length(self, segment_id: int, at_ms: int) -> int:
        """How many bytes the segment held at the moment."""
        times, ends = self.written.get(segment_id, ([], []))
        count = bisect_right(times, at_ms)
        return ends[count - 1] if count else 0

    def times(self) -> list[int]:
        """Every moment that a row has, and the planned ends; the first and the last are the ends of the run."""
        grown = [times[index] for times, _ in self.written.values() for index in (0, -1)]
        return [*self.planned, *grown] + [row[CLOCKS[table]] for table in _TABLES for row in self.rows[table]]


def read_run(recording: Recording, *, stream: str, group: str | None, bounds: Any) -> ScrubbedRun:
    """The run of a stream as `group` read it, by default the first group by name; `bounds` are None or its time bounds.

    Raises `ChartError` for a group that did not read the stream, and for bounds of another stream or group.
    """
    rows: dict[str, list[TableRow]] = {}
    for table in _TABLES:
        rows[table] = sorted(rows_of_stream(recording, table, stream), key=lambda row: int(row[CLOCKS[table]]))
    rows["watermarks"] = without_ends(rows["watermarks"])
    groups = sorted({row["group"] for row in (*rows["positions"], *rows["windows"])})
    if group is not None and group not in groups:
        raise ChartError(
            f"No reader group {group!r} read the stream {stream!r}.",
            remedy=f"Name one of: {', '.join(groups)}." if groups else "Leave the group out: nobody read.",
        )
    chosen = group if group is not None else next(iter(groups), None)
    for table in ("positions", "windows", "checkpoints"):
        rows[table] = [row for row in rows[table] if row["group"] == chosen]
    # How far each writer's events in each millisecond reached is what a picture can show of them.
    reached = furthest(recording, stream, "segment_id", "writer", "append_ms")
    events = sorted(reached.to_pylist(), key=lambda row: (row["append_ms"], row["offset"]))
    segments = rows_of_stream(recording, "segments", stream)
    return ScrubbedRun(
        stream=stream,
        planned=scenario_span(recording) or (),
        group=chosen,
        rows=rows,
        perfect=() if bounds is None else _perfect(bounds, stream, chosen),
        ranges={row["segment_id"]: (round(row["low"] * KEY_UNITS), round(row["high"] * KEY_UNITS)) for row in segments},
        sealed_ms={row["segment_id"]: row["sealed_ms"] for row in segments},
        writers=tuple(sorted({row["writer"] for row in (*rows["writer_marks"], *events)})),
        readers=tuple(sorted({row["reader"] for row in rows["windows"]})),
        written=_written(events),
    )


def _perfect(bounds: Any, stream: str, group: str | None) -> list[tuple[int, Value]]:
    table = read_bounds(bounds)
    if (table.stream, table.group) != (stream, group):
        raise ChartError(
            f"The bounds are of stream {table.stream!r}, group {table.group!r}; "
            f"the scrubber shows {stream!r}, {group!r}.",
            remedy="Pass recording.time_bounds(spark) with the rows of that stream and group.",
        )
    return list(zip(table.at_ms, table.perfect_watermark or (), strict=False))


def _written(events: Iterable[TableRow]) -> dict[int, tuple[list[int], list[int]]]:
    grown: dict[int, tuple[list[int], list[int]]] = {}
    for row in events:
        times, ends = grown.setdefault(row["segment_id"], ([], []))
        times.append(row["append_ms"])
        ends.append(max([row["offset"], *ends[-1:]]))
    return grown


MOST_SEGMENTS: Final = 10
"""Segments of a group drawn at a time."""
MOST_WRITERS: Final = 16
"""Writers drawn, the first by name."""
MOST_READERS: Final = 16
"""Readers whose bounds can be looked at in the browser, the first by name."""

_CUTS, _LEAST_BYTES = 6, 100
_FAR, _LETTERS, _MANY = 15, 21, 40
_OPEN_MS: Final = 10**14
_NEVER_MS: Final = 2**63

Words = Callable[[int], str]


def key_lanes(run: ScrubbedRun) -> tuple[str, ...]:
    """The lanes of the key space; that of old segments is there if a scale sealed its segments one by one."""
    lanes = ("append to", "newest cut", "read") if run.group else ("append to", "newest cut")
    return (*lanes, "still open") if any(_open_predecessors(run)) else lanes


def _open_predecessors(run: ScrubbedRun) -> Iterator[tuple[int, int | None, int]]:
    """From when to when a replaced segment was open while others of its scale were sealed already, and which one."""
    for before, epoch in pairwise(sorted(run.rows["epochs"], key=lambda row: int(row["epoch"]))):
        seals = {segment: run.sealed_ms.get(segment) for segment in replaced(before, epoch)[0]}
        first_ms = min((at_ms for at_ms in seals.values() if at_ms is not None), default=None)
        for segment, until_ms in seals.items():
            if first_ms is not None and until_ms != first_ms:
                yield first_ms, until_ms, segment


def key_items(run: ScrubbedRun, low_ms: int) -> tuple[FrameItem, ...]:
    """The items of the lanes: append, newest cut, and read; and old segments that a scale in steps has yet to seal."""
    builder, lanes = Builder(), key_lanes(run)
    for lane, name in enumerate(lanes):
        builder.put(name, low_ms, lane, "name", label=name)
    for from_ms, until_ms, segment in _open_predecessors(run):
        key = ("still open", segment)
        builder.put(key, from_ms, len(lanes) - 1, "segment", *run.keys(segment), segment_name(segment))
        if until_ms is not None:
            builder.take(key, until_ms)
    for epoch in run.rows["epochs"]:
        _blocks(run, builder, epoch["at_ms"], 0, dict.fromkeys(epoch["segment_ids"], ("segment", "")))
    for watermark in run.rows["watermarks"]:
        _blocks(run, builder, watermark["emitted_ms"], 1, dict.fromkeys(watermark["cut"], ("segment", "")))
    for at_ms, state in group_states(run.rows["positions"]):
        owners = {segment: row["reader"] for segment, row in state.items()}
        read = {
            segment: ("segment", f" {owner}") if owner else ("unowned", " nobody") for segment, owner in owners.items()
        }
        _blocks(run, builder, at_ms, 2, read)
    return builder.finish()


def _blocks(run: ScrubbedRun, builder: Builder, at_ms: int, lane: int, segments: Mapping[int, tuple[str, str]]) -> None:
    """From `at_ms` on these segments, each with its style and who reads it, lie in the lane, and no others."""
    builder.take_all(lane, at_ms, but=[(lane, segment) for segment in segments])
    for segment, (style, reader) in segments.items():
        builder.put((lane, segment), at_ms, lane, style, *run.keys(segment), f"{segment_name(segment)}{reader}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnershipSpan:
    """A segment in the group's state: in which lane, from when to when, and its positions."""

    segment_id: int
    lane: int
    from_ms: int
    to_ms: int = _NEVER_MS
    positions: list[tuple[int, int]] = field(default_factory=list)

    def position(self, at_ms: int) -> int:
        """The group's published offset at a moment of the span."""
        count = bisect_right(self.positions, at_ms, key=lambda position: position[0])
        return self.positions[count - 1][1] if count else 0


def ownership_spans(run: ScrubbedRun) -> list[OwnershipSpan]:
    """Where each segment has its lane: the first free one when it appears, until the group has finished it."""
    spans: dict[int, OwnershipSpan] = {}
    ended: list[OwnershipSpan] = []
    before: Mapping[int, TableRow] = {}
    for at_ms, state in group_states(run.rows["positions"]):
        ended += [replace(spans.pop(segment), to_ms=at_ms) for segment in before if segment not in state]
        for segment in sorted(state, key=run.keys):
            if segment not in spans:
                taken = {span.lane for span in spans.values()}
                lane = next(lane for lane in range(len(taken) + 1) if lane not in taken)
                spans[segment] = OwnershipSpan(segment_id=segment, lane=lane, from_ms=at_ms)
            if state[segment] is not before.get(segment):
                spans[segment].positions.append((at_ms, state[segment]["offset"]))
        before = state
    return [*ended, *spans.values()]


def reach(run: ScrubbedRun, spans: Sequence[OwnershipSpan]) -> tuple[int, int]:
    """How many bytes are shown before and after the position: a few cuts before it, and the usual unread amount."""
    unread = sorted(
        run.length(span.segment_id, at_ms) - before
        for span in spans
        for (_, before), (at_ms, _) in pairwise(span.positions)
    )
    gaps = sorted(
        later["cut"][segment] - earlier["cut"][segment]
        for earlier, later in pairwise(run.rows["watermarks"])
        for segment in later["cut"]
        if None not in (earlier["cut"].get(segment), later["cut"][segment])
    )
    usual = unread[len(unread) * 9 // 10] if unread else 0
    before = nice_step(max(_CUTS * gaps[len(gaps) // 2] if gaps else usual, _LEAST_BYTES), 1)
    return before, nice_step(min(max(usual, before // 4), 2 * before), 1)


def segment_items(
    run: ScrubbedRun, spans: Sequence[OwnershipSpan], moments: Sequence[int], words: Words
) -> tuple[FrameItem, ...]:
    """The items of the segments' lanes; a segment's length is updated at `moments` (ascending), times in `words`."""
    builder = Builder()
    windows = _windows(run)
    for span in spans:
        if span.lane >= MOST_SEGMENTS:
            continue
        builder.put((span, "name"), span.from_ms, span.lane, "name", label=segment_name(span.segment_id))
        for watermark in run.rows["watermarks"]:
            offset = watermark["cut"].get(span.segment_id)
            if offset is not None and watermark["emitted_ms"] < span.to_ms:
                since_ms = max(watermark["emitted_ms"], span.from_ms)
                builder.put((span, "cut", watermark["seq"]), since_ms, span.lane, "cut", offset)
        _flags(builder, span, windows, words)
        _bars(run, builder, span, moments)
        if span.to_ms < _NEVER_MS:
            builder.take_all(span, span.to_ms)
    return builder.finish()


def _bars(run: ScrubbedRun, builder: Builder, span: OwnershipSpan, moments: Sequence[int]) -> None:
    """What the group has read of the segment, what not yet, and how much that is."""
    inside = moments[bisect_left(moments, span.from_ms) : bisect_left(moments, span.to_ms)]
    for at_ms in sorted({*inside, *(at for at, _ in span.positions)}):
        read_to = span.position(at_ms)
        written = max(run.length(span.segment_id, at_ms), read_to)
        builder.put((span, "unread"), at_ms, span.lane, "unread", read_to, written)
        label = f"{size_words(written - read_to, digits=1)} unread"
        builder.put((span, "read"), at_ms, span.lane, "read", 0, read_to, label)


def _windows(run: ScrubbedRun) -> list[tuple[int, dict[str, TableRow | None]]]:
    """The watermarks that gave each window its bounds, from when on it was seen."""
    log = {watermark["seq"]: watermark for watermark in run.rows["watermarks"]}
    bounds = ("lower", "upper")
    return [(row["at_ms"], {bound: log.get(row[f"{bound}_seq"]) for bound in bounds}) for row in run.rows["windows"]]


def _flags(
    builder: Builder, span: OwnershipSpan, windows: Sequence[tuple[int, Mapping[str, TableRow | None]]], words: Words
) -> None:
    """The cuts of the group's window, as long as the window lasts."""
    for from_ms, watermarks in windows:
        if from_ms >= span.to_ms:
            break
        at_ms = max(from_ms, span.from_ms)
        for style, bound in (("passed", "lower"), ("ahead", "upper")):
            watermark = watermarks[bound]
            offset = watermark["cut"].get(span.segment_id) if watermark else None
            label = f"{bound} {words(watermark[bound])}" if watermark else ""
            builder.put((span, style), at_ms, span.lane, style, offset, label=label)


def size_words(size: int, *, digits: int | None = None) -> str:
    """A number of bytes with its unit; `digits` after the point, by default as many as it needs."""
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}" if digits is None else f"{size / unit:.{digits}f} {name}"
    return f"{size} B"


def lane_names(run: ScrubbedRun) -> list[str]:
    """Writers, "watermark", readers: one lane each; names may repeat."""
    return [*run.writers[:MOST_WRITERS], "watermark", *(f"{reader} sees" for reader in run.readers)]


def shortened(name: str) -> str:
    """A name as it stands beside its lane: in full, or as much of it as has room."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def known_times(run: ScrubbedRun) -> list[int]:
    """Every time that is drawn."""
    return [time for series in _series(run) for _, times in series for time in times if time is not None]


def around_clock(run: ScrubbedRun) -> tuple[int, int]:
    """How far event times lie before and after the clock while they are shown, as a range in ms with room around it.

    A time that stays unchanged far longer than usual may leave the range; it is written beside its lane in any case.
    """
    lags: list[int] = []
    ahead = [0]
    for series in _series(run):
        for (at_ms, times), (following_ms, _) in pairwise([*series, (series[-1][0], [])]):
            lags += [following_ms - time for time in times if time is not None]
            ahead += [time - at_ms for time in times if time is not None]
    if not lags:
        return -1_000, 1_000
    lags.sort()
    behind = max(min(lags[-1], _FAR * max(lags[len(lags) // 2], 1)), 1)
    return -behind - behind // 20, max(ahead) + max(behind, *ahead) // 20


def _series(run: ScrubbedRun) -> list[list[tuple[int, list[Value]]]]:
    """Who shows which times from when on: the watermarks, each reader, each writer, the perfect watermark."""
    series: dict[tuple[str, str], list[tuple[int, list[Value]]]] = {}
    for table, name, clock, times in (
        ("watermarks", "stream", "emitted_ms", ("lower", "upper")),
        ("windows", "reader", "at_ms", ("lower", "upper")),
        ("writer_marks", "writer", "received_ms", ("time",)),
    ):
        for row in run.rows[table]:
            series.setdefault((table, row[name]), []).append((row[clock], [row[time] for time in times]))
    if run.perfect:
        series["perfect", ""] = [(at_ms, [value]) for at_ms, value in run.perfect]
    return list(series.values())


def time_items(run: ScrubbedRun, low_ms: int, words: Words) -> tuple[FrameItem, ...]:
    """The items of the lanes of `lane_names`, times in `words`."""
    builder = Builder()
    writers = run.writers[:MOST_WRITERS]
    first = len(writers) + 1
    since = {first + n: joined_ms(run, reader, low_ms) for n, reader in enumerate(run.readers)}
    for lane, name in enumerate(lane_names(run)):
        builder.put((lane, "name"), since.get(lane, low_ms), lane, "name", label=shortened(name))
    for lane, name in enumerate(writers):
        _marks(run, builder, name, lane)
        _writer_values(run, builder, name, lane, low_ms, words)
    lane = len(writers)
    builder.put((lane, "value"), low_ms, lane, "value", label="none yet")
    for row in run.rows["watermarks"]:
        _interval(builder, row["emitted_ms"], lane, row, words)
        for bound, flag in (("lower", "passed"), ("upper", "ahead")):
            builder.put(((lane, bound), "line"), row["emitted_ms"], None, f"{bound} line", row[bound])
            builder.put(((lane, bound), "flag"), row["emitted_ms"], lane, flag, row[bound], label=bound)
    for lane, reader in enumerate(run.readers, start=first):
        builder.put((lane, "value"), since[lane], lane, "value", label="nothing yet")
        for row in run.rows["windows"]:
            if row["reader"] == reader:
                _interval(builder, row["at_ms"], lane, row, words)
        for at_ms, value in run.perfect:
            if at_ms >= since[lane]:
                builder.put((lane, "perfect"), at_ms, lane, "perfect", value)
    return builder.finish()


def joined_ms(run: ScrubbedRun, reader: str, low_ms: int) -> int:
    """When a reader that joined during the run did so; the beginning for the others."""
    joined = (row["at_ms"] for row in run.rows["incidents"] if row["kind"] == "join" and row["target"] == reader)
    return min(joined, default=low_ms)


def reader_of_overview(run: ScrubbedRun, named: str | None) -> str | None:
    """Whose bounds the overview draws: the reader asked for, or the one that knew a lower bound for longest.

    None if nobody read. Raises `ChartError` for a reader that the group does not have.
    """
    if named is not None and named not in run.readers:
        readers = ", ".join(run.readers) or "none"
        raise ChartError(
            f"Group {run.group!r} has no reader {named!r} that looked at its window.", remedy=f"Name one of: {readers}."
        )
    if named is not None or not run.readers:
        return named
    looked: dict[str, list[int]] = {reader: [] for reader in run.readers}
    known: dict[str, list[int]] = {reader: [] for reader in run.readers}
    for row in run.rows["windows"]:
        looked[row["reader"]].append(row["at_ms"])
        known[row["reader"]] += [] if row["lower"] is None else [row["at_ms"]]
    lasted = {
        reader: [at_ms[-1] - at_ms[0] if at_ms else -1 for at_ms in (known[reader], looked[reader])]
        for reader in run.readers
    }
    return max(run.readers, key=lambda reader: lasted[reader])


def _marks(run: ScrubbedRun, builder: Builder, writer: str, lane: int) -> None:
    for number, row in enumerate(run.rows["writer_marks"]):
        if row["writer"] == writer:
            accepted = row["outcome"] == "success"
            builder.put((lane, number), row["received_ms"], lane, "mark" if accepted else "refused", row["time"])
            if accepted:
                builder.put((lane, "newest"), row["received_ms"], lane, "newest mark", row["time"])


def _writer_values(run: ScrubbedRun, builder: Builder, writer: str, lane: int, low_ms: int, words: Words) -> None:
    """The text beside a writer's lane: its newest time, its state, and whether a cycle waits for it."""
    parts = {"time": "no mark", "state": "", "awaited": ""}
    builder.put((lane, "value"), low_ms, lane, "value", label=parts["time"])
    for at_ms, kind, text in sorted(_writer_changes(run, writer, words), key=lambda change: change[0]):
        parts[kind] = text
        style = "alarm" if parts["state"] or parts["awaited"] else "value"
        builder.put((lane, "value"), at_ms, lane, style, label=", ".join(filter(None, parts.values())))


def _writer_changes(run: ScrubbedRun, writer: str, words: Words) -> Iterator[tuple[int, str, str]]:
    for row in run.rows["writer_marks"]:
        if row["writer"] == writer and row["outcome"] == "success":
            yield row["received_ms"], "time", words(row["time"])
    for row in run.rows["cycles"]:
        text = "awaited" if writer in row["lagging"] else "dropped" if writer in row["removed"] else ""
        yield row["at_ms"], "awaited", text
    lasting: LastingFaults = {}
    for row in run.rows["incidents"]:
        if row["target"] == writer and is_of(row, "writer"):
            lasting = after_fault(lasting, row)
            state = named_state(lasting)
            yield row["at_ms"], "state", IN_CHARTS.get(state, state)


def _interval(builder: Builder, at_ms: int, lane: int, row: TableRow, words: Words) -> None:
    """A lower and an upper bound, each possibly unknown."""
    lower, upper = row["lower"], row["upper"]
    builder.put((lane, "lower"), at_ms, lane, "lower", lower)
    builder.put((lane, "upper"), at_ms, lane, "upper", upper)
    if lower is None or upper is None:
        builder.put((lane, "window"), at_ms, lane, "open window", lower, (lower or 0) + _OPEN_MS)
    else:
        builder.put((lane, "window"), at_ms, lane, "window", min(lower, upper), max(lower, upper))
    builder.put((lane, "value"), at_ms, lane, "value", label=_bounds_words(lower, upper, words))


def _bounds_words(lower: Value, upper: Value, words: Words) -> str:
    """Two bounds in words; a day is written once."""
    if lower is None and upper is None:
        return "unknown"
    first, last = ("unknown" if value is None else words(value) for value in (lower, upper))
    day, comma, clock = last.partition(", ")
    return f"{first} to {clock if comma and first.startswith(day + comma) else last}"


def incidents_of(run: ScrubbedRun, violations: Iterable[tuple[int, str]]) -> tuple[Incident, ...]:
    """Every incident, ascending by moment, then by kind. `violations` are (moment, in words)."""
    incidents = [Incident(at_ms, VIOLATION, text) for at_ms, text in violations]
    incidents += [
        Incident(row[clock], kind, text)
        for kind, (table, clock, texts_of) in _INCIDENTS.items()
        for row in run.rows[table]
        for text in texts_of(row)
    ]
    # Several epochs of one moment, as a rolling transaction makes, are one change.
    for before, row in pairwise({row["at_ms"]: row for row in run.rows["epochs"]}.values()):
        change = " → ".join(", ".join(map(segment_name, segments)) for segments in replaced(before, row))
        incidents.append(Incident(row["at_ms"], "scale", change))
    return tuple(sorted(incidents, key=lambda incident: (incident.at_ms, KINDS.index(incident.kind))))


def _without_watermark(cycle: TableRow) -> list[str]:
    why = f"waits for {', '.join(sorted(cycle['lagging']))}" if cycle["lagging"] else cycle["reason"]
    return [] if cycle["outcome"] == "emitted" else [f"the cycle of {cycle['controller']} {why}"]


def _refused(mark: TableRow) -> list[str]:
    return [] if mark["outcome"] == "success" else [f"a mark of {mark['writer']} is refused: {mark['outcome']}"]


def _completed(point: TableRow) -> list[str]:
    return [] if point["completed_ms"] is None else [f"checkpoint {point['checkpoint']} is complete"]


_ORDINARY: Final = frozenset(
    {"join", "leave", "create", "note", "commit", "write", "release", "checkpoint", "stream_cut", "anew", "roll"}
)
"""What a script does, or what follows, that is no fault."""


def _is_fault(row: TableRow) -> bool:
    of_stream = row["subject"] == "stream" and row["kind"] in ("truncate", "seal", "delete")
    return row["kind"] not in _ORDINARY and not of_stream


_INCIDENTS: Final[dict[str, tuple[str, str, Callable[[TableRow], list[str]]]]] = {
    "fault": ("incidents", "at_ms", lambda row: [row["detail"]] if row["kind"] != "scale" and _is_fault(row) else []),
    "change": ("incidents", "at_ms", lambda row: [] if row["kind"] == "scale" or _is_fault(row) else [row["detail"]]),
    "refused mark": ("writer_marks", "received_ms", _refused),
    "dropped writer": ("cycles", "at_ms", lambda row: [f"{row['controller']} drops {gone}" for gone in row["removed"]]),
    "refused call": ("errors", "at_ms", lambda row: [f"{row['process']}: {row['call']} is refused: {row['problem']}"]),
    "checkpoint": ("checkpoints", "completed_ms", _completed),
    "held cycle": ("cycles", "at_ms", _without_watermark),
    "watermark": ("watermarks", "emitted_ms", lambda row: [f"watermark {row['seq']} by {row['controller']}"]),
}
"""Of each kind the table, the column of its clock, and the incidents of a row in words."""
KINDS: Final = (VIOLATION, "scale", *_INCIDENTS)
"""Kinds of incidents in the order in which they are offered."""


def kinds_of(incidents: Sequence[Incident]) -> list[str]:
    """The kinds that occur, in their order."""
    return [kind for kind in KINDS if any(incident.kind == kind for incident in incidents)]


def incident_items(incidents: Sequence[Incident], low_ms: int) -> tuple[FrameItem, ...]:
    """A lane for each kind that occurs; every incident is shown from the start, so one sees what is still to come."""
    builder = Builder()
    for lane, kind in enumerate(kinds_of(incidents)):
        mine = [incident.at_ms for incident in incidents if incident.kind == kind]
        rare = len(mine) <= _MANY and kind not in ("watermark", "held cycle")
        usual = "incident" if rare else "frequent incident"
        style = {VIOLATION: "violation", "refused mark": "refused", "refused call": "refused"}.get(kind, usual)
        for at_ms in mine:
            builder.put((kind, at_ms), low_ms, lane, style, at_ms)
        builder.put((kind, "name"), low_ms, lane, "name", label=kind)
        builder.put((kind, "value"), low_ms, lane, "value", label=grouped(len(mine)))
    return builder.finish()
