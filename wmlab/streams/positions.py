"""From times to stream cuts and back, by the watermarks that a recording holds; and where its reader groups stood.

The recorded watermarks and their index become values of the model again, and the model answers. Watermarks that the
index does not have, because a leader stopped before it wrote the record, are found all the same.

`read_sides` answers by the designs that PDP-33 discarded, too, as if they had run instead.

Source: PDP-33, Future Possibilities and Discarded Approaches; Pravega issue 4098 asks for a stream cut by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from wmlab.core.arguments import the_choice, the_flag, the_moment
from wmlab.core.errors import ModelError, RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import listed, shown
from wmlab.streams.answers.history import (
    StreamTables,
    epochs_of,
    furthest,
    known_watermarks,
    log_rows,
    recorded_configuration,
    rows_of_stream,
    segments_of,
    the_stream,
)
from wmlab.streams.model import index
from wmlab.streams.model.cycle import CycleRules
from wmlab.streams.model.index import IndexRecord, MarksIndex, ReadSide
from wmlab.streams.model.log import MarksLog, Watermark
from wmlab.streams.model.position import Position, segment_bytes_between
from wmlab.streams.model.replay import Received
from wmlab.streams.model.segment import Segment, joined_ranges, same_space, segment_name
from wmlab.streams.model.window import Followed, TimeWindow


def stream_cut_at(
    recording: Recording, time: int, *, stream: str | None = None, closest: bool = False
) -> Position | None:
    """The stream cut for a time: that of the last watermark with a lower bound at or below it; None before the first.

    As long as the writers keep their promises, no event beyond the cut is older than that watermark's lower bound. With
    `closest` it is the cut of the watermark whose lower bound is closest to the time (PDP-33, Future Possibilities); of
    two equally close ones, the earlier. Before the first watermark, this is the cut of the first one; it is None only
    if there is no watermark. It may belong to a later time. Then a reader that starts there may miss events of the
    given time and later, which the default includes.

    Raises `RecordingError` when the recording has several streams and none is named, or not the named one.
    """
    closest, time_ms = the_flag(closest, "closest"), the_moment(time, name="time", start_ms=recording.start_ms)
    written, log, _ = _watermarks(recording, stream)
    return index.cut_at_time(written, log, time_ms, closest=closest)


def time_at(recording: Recording, cut: Mapping[Any, Any], *, stream: str | None = None) -> TimeWindow:
    """The time at a stream cut: what the recorded marks say at that position; None: unknown.

    `cut` maps segments, as ids or as "number@epoch", to offsets in bytes. Raises `ModelError` when it does not cover
    the key space once, `RecordingError` as `stream_cut_at`.
    """
    written, log, segments = _watermarks(recording, stream)
    position = Position(cut)
    _refuse_partial(position, segments)
    return index.window_at(written, log, position, segments)


def bytes_between(
    recording: Recording, frm: Mapping[Any, Any], to: Mapping[Any, Any], *, stream: str | None = None
) -> dict[str, int]:
    """The bytes of each segment, by "number@epoch", from one stream cut to a later one.

    An empty `frm` is the head of the stream, an empty `to` its end in the recording. Raises `ModelError` when a cut
    does not cover the key space once or `to` lies before `frm`, `RecordingError` as `stream_cut_at`.
    """
    name = the_stream(recording, stream)
    history, ends = epochs_of(recording, name), _appends(recording, name)
    lengths = {segment: ends[segment][-1][0] if segment in ends else 0 for segment in history.segments}
    by_segment = segment_bytes_between(Position(frm), Position(to), history, lengths)
    return {segment_name(segment): count for segment, count in by_segment.items()}


def group_positions(recording: Recording, *, stream: str | None = None) -> dict[str, list[tuple[int, Position]]]:
    """For each reader group, the clock (ms) and its position after every update. Raises as `stream_cut_at`."""
    tables = StreamTables(recording, the_stream(recording, stream))
    return {
        group: [
            (at_ms, Position({segment: row["offset"] for segment, row in state.items()}))
            for at_ms, state in tables.of_group(group).states
        ]
        for group in sorted({str(row["group"]) for row in tables.rows("positions")})
    }


def group_windows(
    recording: Recording, *, stream: str | None = None, visible: Literal["all", "then"] = "then"
) -> dict[str, list[tuple[int, TimeWindow]]]:
    """For each reader group, the clock (ms) and its time window from then on; None: unknown.

    For a map of times (`read_side="document"`), it is the window in the group's shared state, after every update. A
    group that shares offsets stores no window: then it is the window of a reader that polls all the time, after every
    update and with every watermark that becomes visible and changes the window.

    `visible="all"` uses the complete log from the beginning, at the positions of every group: it shows what became
    known later about each position. Raises `RecordingError` as `stream_cut_at`, and for another `visible`.
    Source: PDP-33, Client Changes (getCurrentTimeWindow on the group's state).
    """
    the_choice(visible, "visible", ("all", "then"))
    tables = StreamTables(recording, the_stream(recording, stream))
    windows: dict[str, list[tuple[int, TimeWindow]]] = {}
    for group in sorted({str(row["group"]) for name in ("positions", "group_updates") for row in tables.rows(name)}):
        history = tables.of_group(group)
        if history.maps and visible == "then":
            windows[group] = [(row["at_ms"], TimeWindow(row["lower"], row["upper"])) for row in history.maps]
        elif history.states:
            windows[group] = list(_windows(history.followed(in_hindsight=visible == "all")))
    return windows


def most_recent_watermark(
    recording: Recording, reader: str, at_ms: int | str | None = None, *, stream: str | None = None
) -> Watermark | None:
    """The last watermark that a reader had passed at a moment (clock), by default at the end of the run.

    It gave the lower bound of the reader's window. None before the first one, and while no lower bound was known.
    Raises `RecordingError` for a reader that saw no window, for anything but a moment, and as `stream_cut_at`.
    Source: PDP-33, API (getMostRecentWatermark).
    """
    name = the_stream(recording, stream)
    windows = rows_of_stream(recording, "windows", name)
    readers = sorted({str(row["reader"]) for row in windows})
    if reader not in readers:
        raise RecordingError(
            f"There is no reader {shown(reader)} with a window in stream {name}.",
            remedy=f"Give one of {listed(readers)}." if readers else "Record a scenario with readers.",
        )
    moment_ms = None if at_ms is None else the_moment(at_ms, start_ms=recording.start_ms)
    passed = [
        row for row in windows if row["reader"] == reader and (moment_ms is None or int(row["at_ms"]) <= moment_ms)
    ]
    if not passed:
        return None
    seq = sorted(passed, key=lambda row: int(row["at_ms"]))[-1]["lower_seq"]
    return next((watermark for row, watermark in log_rows(recording, name) if row["seq"] == seq), None)


def _windows(followed: Iterable[Followed]) -> Iterator[tuple[int, TimeWindow]]:
    """The windows of a group after each of its moves, and where a watermark changes them."""
    before = None
    for state in followed:
        if state.cause == "position" or state.tracker.window != before:
            yield state.at_ms, state.tracker.window
        before = state.tracker.window


def read_sides(recording: Recording, *, stream: str | None = None) -> tuple[ReadSide, ...]:
    """The read side and the discarded designs, applied to the notes, appends and watermarks of one stream.

    A recording without scenario has the default timeout. Raises `RecordingError` as `stream_cut_at`.
    """
    name = the_stream(recording, stream)
    rows, rules = rows_of_stream(recording, "segments", name), recorded_configuration(recording, name)
    known, segments = known_watermarks(log_rows(recording, name)), segments_of(recording, name)
    accepted = [row for row in rows_of_stream(recording, "writer_marks", name) if row["outcome"] == "success"]
    notes = [
        Received(row["received_ms"], row["writer"], row["time"], Position(row["position"]))
        for row in accepted
        if row["txn"] is None
    ]
    return (
        index.marks_segment(known, len(accepted), segments),
        index.extended_attributes(known, len(accepted), segments),
        index.segment_index(notes, segments, (rules or CycleRules()).timeout_ms),
        index.ingestion_time(
            _appends(recording, name), {row["segment_id"]: row["sealed_ms"] for row in rows}, segments
        ),
    )


def _appends(recording: Recording, stream: str) -> dict[int, list[tuple[int, int]]]:
    """Where the appends of each segment ended, in bytes, and when they were stored, in ms; ascending."""
    ends = furthest(recording, stream, "segment_id", "append_ms").sort_by("offset")
    appends: dict[int, list[tuple[int, int]]] = {}
    for row in ends.to_pylist():
        appends.setdefault(row["segment_id"], []).append((row["offset"], row["append_ms"]))
    return appends


def _watermarks(recording: Recording, stream: str | None) -> tuple[MarksIndex, MarksLog[Watermark], dict[int, Segment]]:
    """The index, the log and the segments of one stream of a recording."""
    name = the_stream(recording, stream)
    entries = tuple((row["revision"], watermark) for row, watermark in log_rows(recording, name))
    log = MarksLog(entries, end=entries[-1][0] if entries else 0)
    rows = sorted(rows_of_stream(recording, "watermark_index", name), key=lambda row: int(row["place"]))
    return tuple(IndexRecord(row["time"], row["offset"]) for row in rows), log, segments_of(recording, name)


def _refuse_partial(position: Position, segments: Mapping[int, Segment]) -> None:
    known = [segments[segment].keys for segment in position.offsets if segment in segments]
    space = joined_ranges(segment.keys for segment in segments.values() if segment.epoch == 0)
    if len(known) < len(position.offsets) or not same_space(known, space):
        named = ", ".join(map(segment_name, position.offsets)) or "nothing"
        raise ModelError(
            f"{named} is not a stream cut of the stream.",
            remedy="Give the offset of one segment at each key, as recording.stream_cut_at does.",
        )
