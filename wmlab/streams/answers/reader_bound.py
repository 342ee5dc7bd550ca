"""Why the lower bound that a reader sees stands where it does at a moment.

It is held by a segment that is still before a cut, or waits for a newer watermark.

Source: PDP-33, Watermarking in the Reader; upstream classes `WatermarkReaderImpl` and `ReaderGroupStateManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby

from wmlab.core.errors import RecordingError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import grouped, listed, moment, span
from wmlab.streams.answers.history import PredictionRules, group_states, rows_of_stream, segments_of
from wmlab.streams.answers.stream_bound import BoundExplanation, HoldingSegment, explain_stream
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.segment import Segment, segment_name
from wmlab.streams.model.window import compare_with_cut

_NAMED = 3


def explain_reader(
    recording: Recording, stream: str, *, at_ms: int, reader: str, rules: PredictionRules
) -> BoundExplanation:
    """What holds the lower bound that `reader` sees at `at_ms` (clock, ms).

    Raises `RecordingError` for a reader that never looked at a window of the stream.
    """
    group = _group_of(recording, stream, reader)
    windows = rows_of_stream(recording, "windows", stream, until_ms=at_ms)
    looks = [row for row in windows if (row["group"], row["reader"]) == (group, reader)]
    explained = partial(BoundExplanation, at_ms=at_ms, stream=stream, reader=reader)
    if not looks:
        sentence = f"reader {reader} knows no lower bound: it has not looked at its window yet"
        return explained(lower=None, cause="not looked", sentence=sentence)
    lower = looks[-1]["lower"]
    watermarks = rows_of_stream(recording, "watermarks", stream, until_ms=at_ms)
    segments = segments_of(recording, stream)
    positions = [row for row in rows_of_stream(recording, "positions", stream, until_ms=at_ms) if row["group"] == group]
    *_, (_, state) = ((0, {}), *group_states(positions))
    # Without a lower bound, what comes before an end of known time that the group has passed is behind it.
    ended = [n for n, row in enumerate(watermarks, start=1) if not row["writers"] and not _behind(state, row, segments)]
    later = watermarks[ended[-1] :] if lower is None and ended else watermarks
    newer = [row for row in later if row["writers"] and _is_beyond(row, looks[-1])]
    if not newer:
        log = explain_stream(recording, stream, at_ms=at_ms, rules=rules)
        sees = f"reader {reader} sees the newest lower bound there is: " if lower is not None else f"reader {reader}: "
        return explained(
            lower=lower,
            cause="no newer mark",
            since_ms=log.since_ms,
            by_ms=log.by_ms,
            release_ms=log.release_ms,
            sentence=f"{sees}{log.sentence}",
            log=log,
        )
    behind = _behind(state, newer[0], segments)
    *_, unchanged = (list(run) for _, run in groupby(looks, key=lambda row: (row["lower"], row["lower_seq"])))
    since_ms = max(newer[0]["emitted_ms"], unchanged[0]["at_ms"])
    by_ms = None if lower is None else watermarks[-1]["lower"] - lower
    release_ms = looks[-1]["at_ms"] + rules.look_every_ms if rules.look_every_ms and not behind else None
    knows = (
        "knows no lower bound"
        if lower is None
        else f"sees lower bound {moment(lower, clock_ms=at_ms)} since {moment(since_ms)}"
    )
    return explained(
        lower=lower,
        cause="segment" if behind else "not looked since",
        segments=behind,
        since_ms=since_ms,
        by_ms=by_ms,
        release_ms=release_ms,
        sentence=f"reader {reader} {knows}, {_why(behind, newer[0], looks[-1], by_ms, release_ms)}",
    )


def _is_beyond(watermark: TableRow, window: TableRow) -> bool:
    """Whether a watermark came after the one that gave a window its lower bound, or is above it if that is unknown."""
    if window["lower_seq"] is not None:
        return bool(watermark["seq"] > window["lower_seq"])
    return window["lower"] is None or bool(watermark["lower"] > window["lower"])


def _group_of(recording: Recording, stream: str, reader: str) -> str:
    groups = {row["reader"]: row["group"] for row in rows_of_stream(recording, "windows", stream)}
    if reader not in groups:
        known = ", ".join(sorted(groups)) or "none"
        raise RecordingError(
            f"The recording {recording.name!r} has no reader {reader!r} of {stream}; its readers: {known}.",
            remedy="name one of them, or leave the reader out to explain the stream's own bound.",
        )
    return str(groups[reader])


def _behind(
    state: Mapping[int, TableRow], watermark: TableRow, segments: Mapping[int, Segment]
) -> tuple[HoldingSegment, ...]:
    """The open segments that stand before a watermark's cut, ascending."""
    cut = Position(watermark["cut"])
    return tuple(
        HoldingSegment(segment=segment_name(i), reader=row["reader"], offset=row["offset"], needed=cut.get(i))
        for i, row in sorted(state.items())
        if compare_with_cut(ReaderPosition({i: row["offset"]}), cut, segments) < 1
    )


def _why(
    behind: tuple[HoldingSegment, ...], watermark: TableRow, look: TableRow, by_ms: int | None, release_ms: int | None
) -> str:
    newest = "" if by_ms is None else f", {span(by_ms, beside_ms=look['at_ms'])} behind the log"
    time = moment(watermark["lower"], clock_ms=watermark["emitted_ms"])
    cut = f"the watermark {time}, emitted at {moment(watermark['emitted_ms'])}"
    if not behind:
        again = "" if release_ms is None else f"; it looks again at {moment(release_ms)}"
        return f"for it has not looked since {moment(look['at_ms'])}{newest}: its group has passed {cut}{again}"
    waiting = [_in_words(segment) for segment in behind[:_NAMED]]
    more = len(behind) - _NAMED
    waiting += [f"{more} more segment{'s' if more > 1 else ''}"] if more > 0 else []
    first = "the first cut" if look["lower"] is None else "the next cut"
    return f"held before {first} by {listed(waiting)}{newest}; {cut}, is passed when that is read"


def _in_words(segment: HoldingSegment) -> str:
    last_reader = f"last read by {segment.reader}" if segment.reader else "read by nobody yet"
    if segment.needed is None:
        return f"segment {segment.segment} ({last_reader}), which has to be finished"
    return f"segment {segment.segment} ({last_reader}) at {grouped(segment.offset)} of {grouped(segment.needed)} bytes"
