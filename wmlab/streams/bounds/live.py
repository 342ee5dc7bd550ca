"""Watermarks and time bounds while a stream is recorded: a Structured Streaming query over a feed.

A feed is the log of what a store and its readers learn, one row each (`FEED`). The query runs the cycles of a
`Configuration` on it, stream by stream, and follows every reader group, with the rules of
`wmlab.streams.model.replay` and `wmlab.streams.model.window`. What it has given at any moment is what the answers of
a whole recording begin with: `replay`, and `group_time_bounds` with `visible="then"`.

The rows of one millisecond come in one batch, and no row comes behind a batch before it; the query fails otherwise,
since a watermark that was given cannot be taken back. A checkpoint holds the whole state, so a query that is started
again goes on without loss or repetition.

Source: as `wmlab.streams.model.replay`; Structured Streaming Programming Guide, transformWithState.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import stateful_processor as spark

from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import require
from wmlab.core.words import moment
from wmlab.streams.bounds.groups import RESET
from wmlab.streams.bounds.replay import judged_calls
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.replay import Configuration, Progress, advance, begin, received_of
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import Followed, VisibleLog, follow_group, position_moves

FEED: Final = (
    "stream string, at_ms long, kind string, who string, time long, position map<long, long>, "
    "segment_id long, keys string, version long, reset boolean"
)
"""The rows of a feed, by `kind`; whatever is not named is null.

    segment    a segment was created: segment_id, keys
    note       the store judged a noted time: who (the writer), time, position
    shutdown   a writer need not be waited for: who
    position   a change of a reader group: who (the group), version, position (offsets; null: the segment has left it),
               again (it is part of a reset, after which the readers of the group start again)
"""

_ANSWER: Final = (
    "stream string, at_ms long, group string, version long, change string, "
    "lower long, upper long, lower_seq long, upper_seq long, "
    "cut map<long, long>, writers map<string, long>"
)


def feed(marks: DataFrame, segments: DataFrame, shutdowns: DataFrame, positions: DataFrame) -> DataFrame:
    """The feed of recorded tables (`writer_marks`, `segments`, `writer_shutdowns`, `positions`); columns as in `FEED`.

    Calls that no store judged are left out, as in `replay`. Raises `ModelError` for a missing column.
    """
    require(segments, "segments", ["stream", "segment_id", "keys", "created_ms"])
    require(positions, "positions", ["stream", "group", "version", "at_ms", "segment_id", "offset", "finished"])
    stream, kind = "string(stream) AS stream", "if(time IS NULL, 'shutdown', 'note') AS kind"
    created = segments.selectExpr(stream, "created_ms AS at_ms", "'segment' AS kind", "segment_id", "keys")
    notes = judged_calls(marks, shutdowns)
    noted = notes.selectExpr("stream", "received_ms AS at_ms", kind, "writer AS who", "time", "position")
    position = "map(segment_id, if(finished, null, offset)) AS position"
    reset = f"boolean({RESET if RESET in positions.columns else 'false'}) AS {RESET}"
    read = positions.selectExpr(stream, "at_ms", "'position' AS kind", "group AS who", position, "version", reset)
    return created.unionByName(noted, allowMissingColumns=True).unionByName(read, allowMissingColumns=True)


def live(feed: DataFrame, config: Configuration) -> DataFrame:
    """The watermarks of every stream of a feed, and the time bounds of its reader groups, as the feed arrives.

    `feed` is a streaming DataFrame with the columns `FEED`. The result is streaming too, in append mode. A row with a
    null `group` is a watermark: stream, at_ms (of its cycle), lower, upper, lower_seq (its index in the log), cut,
    writers; these are the rows of `replay`. Any other row has the bounds of a group from then on, after a change of its
    position or with a watermark that became visible, with the columns of `group_time_bounds`: after a reset the group
    starts again. A feed contains no shared times, so the query follows the position of the group. It fails at a row
    that is older than a previous batch.
    """
    require(feed, "feed", _names(FEED))
    from wmlab.streams.bounds.configurations import configurations  # which an executor does without

    checked = configurations({"config": config})["config"]
    return feed.groupBy("stream").transformWithState(Live(checked), _ANSWER, "append", "none")


class LiveLog(VisibleLog, Protocol):
    """The watermarks of one stream so far, each with the clock time of its cycle; a list will do."""

    def append(self, entry: tuple[int, Watermark], /) -> None:
        """Add the next watermark."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What the query knows of one stream besides its log: its segments, the replay, and each group as last followed."""

    until_ms: int = -(2**63)
    segments: tuple[Segment, ...] = ()
    progress: Progress | None = None
    groups: Mapping[str, Followed] = field(default_factory=dict)

    def step(
        self, rows: Iterable[Row], config: Configuration, log: LiveLog
    ) -> tuple[StreamState, list[dict[str, Any]]]:
        """The state after one batch of a feed, and the rows of the answer; new watermarks are appended to the log.

        Raises `ModelError` for a row behind.
        """
        ordered = sorted(rows, key=lambda row: (row.at_ms, row.version or 0, row.who or ""))
        if ordered[0].at_ms < self.until_ms:
            raise ModelError(
                f"A {ordered[0].kind} of {moment(ordered[0].at_ms)} comes after the batch up to "
                f"{moment(self.until_ms - 1)}.",
                remedy="Feed the rows in the order of their time, those of a millisecond in one batch.",
            )
        until_ms = ordered[-1].at_ms + 1
        born = [row for row in ordered if row.kind == "segment"]
        segments = (*self.segments, *(Segment.parse(row.segment_id, row.keys) for row in born))
        progress = self.progress or (begin(config, born[0].at_ms) if born else None)
        if progress is None:
            raise ModelError(
                f"A {ordered[0].kind} of {moment(ordered[0].at_ms)} comes before any segment.",
                remedy="Begin the feed of a stream with the rows of its segments.",
            )
        calls = [row for row in ordered if row.kind in ("note", "shutdown")]
        received = received_of((row.at_ms, row.who, row.time, row.position) for row in calls)
        progress, emitted = advance(progress, received, StreamHistory.of(segments), config, until_ms=until_ms)
        answer = [
            {
                "at_ms": at_ms,
                "lower": watermark.lower,
                "upper": watermark.upper,
                "lower_seq": len(log) + number,
                "cut": dict(watermark.cut),
                "writers": dict(watermark.writers),
            }
            for number, (at_ms, watermark) in enumerate(emitted)
        ]
        for entry in emitted:
            log.append(entry)
        groups = dict(self.groups)
        by_id = {segment.id: segment for segment in segments}
        changes: dict[str, list[Row]] = {name: [] for name in groups}
        for row in ordered:
            if row.kind == "position":
                changes.setdefault(row.who, []).append(row)
        for name, of_group in changes.items():
            since = groups.get(name)
            moves = position_moves(_positions(of_group), since=since)
            for state in follow_group(moves, log, by_id, since=since):
                groups[name] = state
                if state.is_change:
                    answer.append(_bounds_row(name, state))
        return StreamState(until_ms, segments, progress, groups), answer


def _positions(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The rows of one group in a batch as rows of the table `positions`."""
    for row in rows:
        for segment, offset in dict(row.position).items():
            change = {"segment_id": segment, "offset": offset, "finished": offset is None}
            yield change | {"version": row.version, "at_ms": row.at_ms, "reset": row.reset}


def _bounds_row(group: str, state: Followed) -> dict[str, Any]:
    window = state.tracker.window
    return {
        "group": group,
        "at_ms": state.at_ms,
        "version": state.move.version,
        "change": state.cause,
        "lower": window.lower,
        "upper": window.upper,
        "lower_seq": window.lower_seq,
        "upper_seq": window.upper_seq,
    }


class Live(spark.StatefulProcessor):
    """The stateful processor of `live`: one stream a key.

    Its state is a `StreamState` and, entry by entry, the log: a group that comes late reads it from the beginning, so
    it is kept, but a batch reads and writes only what it needs of it.
    """

    def __init__(self, config: Configuration) -> None:
        self.config = config

    def init(self, handle: spark.StatefulProcessorHandle) -> None:
        """Open the state."""
        self.stored_state: spark.ValueState = handle.getValueState("stream", "state binary")
        self.stored_log: spark.MapState = handle.getMapState("log", "seq long", "watermark binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: spark.TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Take one batch of a stream."""
        stored = self.stored_state.get()
        state, size = (StreamState(), 0) if stored is None else pickle.loads(stored[0])
        log = _StoredLog(self.stored_log, size)
        state, answer = state.step(list(rows), self.config, log)
        self.stored_state.update((pickle.dumps((state, len(log))),))
        for row in answer:
            yield Row(**dict.fromkeys(_names(_ANSWER)) | row | {"stream": key[0]})

    def close(self) -> None:
        """Nothing is open."""


class _StoredLog:
    """A log in the state of a query, read entry by entry when it is needed."""

    def __init__(self, stored: spark.MapState, size: int) -> None:
        self._stored, self._size = stored, size
        self._entries: dict[int, tuple[int, Watermark]] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, seq: int) -> tuple[int, Watermark]:
        if seq not in self._entries:
            self._entries[seq] = pickle.loads(self._stored.getValue((seq,))[0])  # type: ignore[index]
        return self._entries[seq]

    def append(self, entry: tuple[int, Watermark]) -> None:
        """Store the next watermark."""
        self._stored.updateValue((self._size,), (pickle.dumps(entry),))
        self._entries[self._size] = entry
        self._size += 1


@cache
def _names(schema: str) -> list[str]:
    return [part.split()[0] for part in re.sub(r"<.*?>", "", schema).split(", ")]
