"""From times to places in a stream and back, by the marks that a recording holds.

The recorded watermarks and their index become values of the model again, and the model answers. Watermarks that the
index does not have, because a leader stopped before it wrote the record, are found all the same.

Source: PDP-33, Future Possibilities; Pravega issue 4098 asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.streams.answers.history import rows_of, segments_of, the_stream
from wmlab.streams.model import index as watermark_index
from wmlab.streams.model.index import IndexRecord, MarksIndex
from wmlab.streams.model.log import MarksLog, Watermark
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.segment import Segment, joined, same_space, segment_name
from wmlab.streams.model.window import TimeWindow


def stream_cut_at(recording: Recording, time: int, *, stream: str | None = None) -> Position | None:
    """The closest stream cut for a time: that of the last watermark not beyond it; None before the first.

    As far as the writers keep what they noted, no event beyond the cut is older than that watermark's lower bound.
    Raises `RecordingError` when the recording has several streams and none is named, or not the named one.
    """
    index, log, _ = _watermarks(recording, stream)
    return watermark_index.stream_cut_at(index, log, time)


def time_at(recording: Recording, cut: Mapping[Any, Any], *, stream: str | None = None) -> TimeWindow:
    """The time at a stream cut: the bounds that a reader there could know from the recorded marks; None: unknown.

    `cut` maps segments, as ids or as "number@epoch", to offsets in bytes. Raises `ModelError` when it does not cover
    the key space once, `RecordingError` as `stream_cut_at`.
    """
    index, log, segments = _watermarks(recording, stream)
    position = ReaderPosition(cut)
    _refuse_partial(position, segments)
    return watermark_index.window_at(index, log, position, segments)


def _watermarks(recording: Recording, stream: str | None) -> tuple[MarksIndex, MarksLog[Watermark], dict[int, Segment]]:
    """The index, the log and the segments of one stream of a recording."""
    name = the_stream(recording, stream)

    entries = tuple(
        (
            row["revision"],
            Watermark(row["lower"], row["upper"], Position(row["cut"]), row["writers"], known=bool(row["writers"])),
        )
        for row in sorted(rows_of(recording, "watermarks", name), key=lambda row: int(row["seq"]))
    )
    log = MarksLog(entries, end=entries[-1][0] if entries else 0)
    index = sorted(rows_of(recording, "watermark_index", name), key=lambda row: int(row["place"]))
    records = (IndexRecord(row["time"], row["offset"]) for row in index)
    return MarksIndex().append(records), log, segments_of(recording, name)


def _refuse_partial(position: ReaderPosition, segments: Mapping[int, Segment]) -> None:
    known = [segments[segment].keys for segment in position.offsets if segment in segments]
    space = joined(segment.keys for segment in segments.values() if segment.epoch == 0)
    if len(known) < len(position.offsets) or not same_space(known, space):
        given = ", ".join(map(segment_name, position.offsets)) or "nothing"
        raise ModelError(
            f"{given} is not a stream cut of the stream.",
            remedy="Give the offset of one segment at each key, as recording.stream_cut_at does.",
        )
