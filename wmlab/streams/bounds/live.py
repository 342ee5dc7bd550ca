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
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import stateful_processor as spark

from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import require
from wmlab.streams.bounds.replay import configurations, heard
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import Watermark
from wmlab.streams.model.position import ReaderPosition, moved
from wmlab.streams.model.replay import Configuration, Progress, advance, begin, received_of
from wmlab.streams.model.segment import Segment
from wmlab.streams.model.window import Tracker

FEED: Final = (
    "stream string, at_ms long, kind string, who string, time long, position map<long, long>, "
    "segment_id long, keys string, version long"
)
"""The rows of a feed, by `kind`; whatever is not named is null.

    segment    a segment was created: segment_id, keys
    note       the store judged a noted time: who (the writer), time, position
    shutdown   a writer need not be waited for: who
    position   a change of a reader group: who (the group), version, position (offsets; null: the segment has left it)
"""

_ANSWER: Final = (
    "stream string, at_ms long, group string, version long, change string, "
    "lower long, upper long, lower_seq long, upper_seq long, "
    "cut map<long, long>, writers map<string, long>"
)
Entry = tuple[int, Watermark]
"""A watermark with its place in the log, from 0."""


def feed(marks: DataFrame, segments: DataFrame, shutdowns: DataFrame, positions: DataFrame) -> DataFrame:
    """The feed of recorded tables (`writer_marks`, `segments`, `writer_shutdowns`, `positions`); columns as in `FEED`.

    Calls that no store judged are left out, as in `replay`. Raises `ModelError` for a missing column.
    """
    require(segments, "segments", ["stream", "segment_id", "keys", "created_ms"])
    require(positions, "positions", ["stream", "group", "version", "at_ms", "segment_id", "offset", "finished"])
    stream, kind = "string(stream) AS stream", "if(time IS NULL, 'shutdown', 'note') AS kind"
    created = segments.selectExpr(stream, "created_ms AS at_ms", "'segment' AS kind", "segment_id", "keys")
    notes = heard(marks, shutdowns)
    noted = notes.selectExpr("stream", "received_ms AS at_ms", kind, "writer AS who", "time", "position")
    position = "map(segment_id, if(finished, null, offset)) AS position"
    read = positions.selectExpr(stream, "at_ms", "'position' AS kind", "group AS who", position, "version")
    return created.unionByName(noted, allowMissingColumns=True).unionByName(read, allowMissingColumns=True)


def live(feed: DataFrame, config: Configuration) -> DataFrame:
    """The watermarks of every stream of a feed, and the time bounds of its reader groups, as they come.

    `feed` is a streaming DataFrame with the columns `FEED`. The result is streaming too, in append mode. A row with
    a null `group` is a watermark: stream, at_ms (of its cycle), lower, upper, lower_seq (its place in the log), cut,
    writers; these are the rows of `replay`. Any other row has the bounds of a group from then on, after a change of its
    position or with a watermark that became visible, with the columns of `group_time_bounds`. A feed says nothing of
    resets and of shared times: a group's tracker goes on, and follows its position. The query fails at a row that comes
    behind a batch before it.
    """
    require(feed, "feed", _names(FEED))
    checked = configurations({"config": config})["config"]
    return feed.groupBy("stream").transformWithState(Live(checked), _ANSWER, "append", "none")


@dataclass(frozen=True, slots=True)
class Group:
    """A reader group: its position by segment with its version, and its tracker."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    tracker: Tracker = field(default_factory=Tracker)
    version: int = -1

    def following(self, log: Sequence[Entry], segments: Mapping[int, Segment]) -> Group:
        """The group where it stands, with the log of watermarks from some place on.

        Where the log begins after the next watermark that the tracker would read, the tracker waits for the group to
        reach one before, and reads nothing.
        """
        fetched = self.tracker.fetched
        unread = log[fetched - log[0][0] :] if log and log[0][0] <= fetched else ()
        return replace(self, tracker=self.tracker.advance(ReaderPosition(self.offsets), unread, segments))

    def row(self, at_ms: int, name: str, change: str) -> dict[str, Any]:
        """The bounds of the group as a row of the answer."""
        seqs = {"lower_seq": self.tracker.lower_seq, "upper_seq": self.tracker.upper_seq}
        key = {"at_ms": at_ms, "group": name, "version": self.version, "change": change}
        return key | asdict(self.tracker.window) | seqs


@dataclass(frozen=True, slots=True)
class StreamState:
    """What the query knows of one stream: its segments, the replay, the log of watermarks, and the groups.

    `log` may begin later than the log of the stream, which has `emitted` entries, but not after `first_needed`.
    """

    until_ms: int = -(2**63)
    segments: tuple[Segment, ...] = ()
    progress: Progress | None = None
    log: tuple[Entry, ...] = ()
    emitted: int = 0
    groups: Mapping[str, Group] = field(default_factory=dict)

    def first_needed(self, rows: Iterable[Row]) -> int:
        """From which watermark on the groups have to read in a batch; a new one reads all of them.

        One that does not move has read all there are, or waits: of the log so far it needs nothing.
        """
        moving = {row.who for row in rows if row.kind == "position"}
        read = (self.groups[name].tracker.fetched if name in self.groups else 0 for name in moving)
        return min(read, default=self.emitted)

    def step(self, rows: Iterable[Row], config: Configuration) -> tuple[StreamState, list[dict[str, Any]]]:
        """The state after one batch of a feed, and the rows of the answer. Raises `ModelError` for a row behind."""
        ordered = sorted(rows, key=lambda row: (row.at_ms, row.version or 0, row.who or ""))
        if ordered[0].at_ms < self.until_ms:
            raise ModelError(
                f"A {ordered[0].kind} of {ordered[0].at_ms} ms comes after the batch up to {self.until_ms - 1} ms.",
                remedy="Feed the rows in the order of their time, those of a millisecond in one batch.",
            )
        until_ms = ordered[-1].at_ms + 1
        born = [row for row in ordered if row.kind == "segment"]
        segments = (*self.segments, *(Segment.parse(row.segment_id, row.keys) for row in born))
        progress = self.progress or (begin(config, born[0].at_ms) if born else None)
        if progress is None:
            raise ModelError(
                f"A {ordered[0].kind} of {ordered[0].at_ms} ms comes before any segment.",
                remedy="Begin the feed of a stream with the rows of its segments.",
            )
        heard = [row for row in ordered if row.kind in ("note", "shutdown")]
        received = received_of((row.at_ms, row.who, row.time, row.position) for row in heard)
        progress, emitted = advance(progress, received, StreamHistory.of(segments), config, until_ms=until_ms)
        state = replace(self, until_ms=until_ms, segments=segments, progress=progress)
        return state._read(emitted, [row for row in ordered if row.kind == "position"])

    def _read(self, emitted: list[tuple[int, Watermark]], moves: list[Row]) -> tuple[StreamState, list[dict[str, Any]]]:
        """Follow the reader groups through the watermarks and the changes of one batch."""
        known = {segment.id: segment for segment in self.segments}
        groups, log, answer = dict(self.groups), list(self.log), []
        first = self.emitted - len(log)
        coming = deque(emitted)
        by_time = {at_ms: list(rows) for at_ms, rows in groupby(moves, key=lambda row: row.at_ms)}
        for at_ms in sorted({*by_time, *(at_ms for at_ms, _ in emitted)}):
            appended = len(log)
            while coming and coming[0][0] <= at_ms:
                seq, (emitted_ms, watermark) = first + len(log), coming.popleft()
                row: dict[str, Any] = {
                    "at_ms": emitted_ms,
                    "lower": watermark.lower,
                    "upper": watermark.upper,
                    "lower_seq": seq,
                }
                answer.append(row | {"cut": dict(watermark.cut), "writers": dict(watermark.writers)})
                log.append((seq, watermark))
            moving = set()
            for (name, version), rows in groupby(by_time.get(at_ms, ()), key=lambda row: (row.who, row.version)):
                group = groups.get(name) or Group()
                held = moved(group.offsets, (change for row in rows for change in dict(row.position).items()))
                groups[name] = replace(group, offsets=held, version=version).following(log, known)
                answer.append(groups[name].row(at_ms, name, "position"))
                moving.add(name)
            for name in sorted(groups.keys() - moving) if len(log) > appended else ():
                before, groups[name] = groups[name], groups[name].following(log, known)
                row = groups[name].row(at_ms, name, "watermark")
                if row != before.row(at_ms, name, "watermark"):
                    answer.append(row)
        return replace(self, log=tuple(log), emitted=first + len(log), groups=groups), answer


class Live(spark.StatefulProcessor):
    """The stateful processor of `live`: one stream a key.

    Its state is a `StreamState` without the log, and the log by place: a group that comes late reads it from the
    beginning, so it is kept, but a batch reads and writes only what it needs of it.
    """

    def __init__(self, config: Configuration) -> None:
        self.config = config

    def init(self, handle: spark.StatefulProcessorHandle) -> None:
        """Open the state."""
        self.kept: spark.ValueState = handle.getValueState("stream", "state binary")
        self.log: spark.MapState = handle.getMapState("log", "seq long", "watermark binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: spark.TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Take one batch of a stream."""
        batch, kept = list(rows), self.kept.get()
        state = StreamState() if kept is None else pickle.loads(kept[0])
        places = range(state.first_needed(batch), state.emitted)
        log = tuple((seq, pickle.loads(self.log.getValue((seq,))[0])) for seq in places)  # type: ignore[index]
        after, answer = replace(state, log=log).step(batch, self.config)
        for seq, watermark in after.log[len(log) :]:
            self.log.updateValue((seq,), (pickle.dumps(watermark),))
        self.kept.update((pickle.dumps(replace(after, log=())),))
        for row in answer:
            yield Row(**dict.fromkeys(_names(_ANSWER)) | row | {"stream": key[0]})

    def close(self) -> None:
        """Nothing is open."""


@cache
def _names(schema: str) -> list[str]:
    return [part.split()[0] for part in re.sub(r"<.*?>", "", schema).split(", ")]
