"""The time bounds of a recording, how far they are from the perfect watermark, and the incidents next to them.

The perfect watermark is the smallest event time still to come. What is still to come after an offset of a segment is
the rest of the segment and everything in its descendants. Minima are taken per cell of a segment first, then over all
that follows a cell, then inside the position's own cell. So no task sees a whole segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window, functions as F
from pyspark.sql.types import StructType

from wmlab.core.arguments import the_choice
from wmlab.core.errors import ModelError
from wmlab.core.spark.grouped import Reduced, TablesOfStream, by_stream, rows_by
from wmlab.core.spark.schemas import refuse, require, spark_schema
from wmlab.core.times import Int64Array
from wmlab.streams.bounds.bounds import time_bounds
from wmlab.streams.bounds.groups import GROUP_COLUMNS, ROWS, RunEnds, bounds_of_group
from wmlab.streams.bounds.log_by_segment import NEVER, NO_NUMBERS, Ranges, int64_column, ranges_of, watermark_columns
from wmlab.streams.bounds.maps import groups_with_map, map_bounds_of_group, read_positions
from wmlab.streams.model.position import moved
from wmlab.streams.tables import end_ms

if TYPE_CHECKING:  # An executor needs neither recordings nor scenarios, and would take half a second to import them.
    from wmlab.core.recording import Recording

_SEGMENT: Final = ("stream", "segment_id")
_CHANGE: Final = (*GROUP_COLUMNS, "segment_id", "offset", "finished")
_EVENTS_PER_CELL: Final = 10_000
_PERFECT: Final = pa.field("perfect_watermark", pa.int64())
_AFTER: Final = pa.field("after_cell", pa.int64())
_SMALLEST: Final = ("segment_id", "cell", "smallest")
_SMALLEST_OF_STREAM: Final = pa.schema([("stream", pa.string()), *((name, pa.int64()) for name in _SMALLEST)])
"""The smallest event time of each cell of a segment that has an event."""
_INCIDENT: Final = pa.struct(
    [
        pa.field("at_ms", pa.int64(), nullable=False),
        *(pa.field(name, pa.string(), nullable=False) for name in ("kind", "what", "target")),
        *(pa.field(name, pa.string()) for name in ("subject", "outcome")),
    ]
)
_BOUNDS: Final = pa.schema(
    [
        *ROWS,
        ("upper_later", pa.int64()),
        pa.field("visible", pa.string(), nullable=False),
        _PERFECT,
        ("incidents", pa.list_(pa.field("element", _INCIDENT, nullable=False))),
    ]
)
"""The rows that `bounds_of_recording` answers for the positions of readers."""


def perfect_watermark(positions: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """Add `perfect_watermark` to every position: the smallest event time still to come, null when nothing comes.

    It is also null for a null or negative offset, which is not a position. `positions` needs stream, segment_id and
    offset (bytes read) and keeps its rows and columns; `events` and `segments` are the tables of a recording. An event
    is still to come if it ends beyond the offset in the same segment, or lies in a segment that descends from it.
    Raises `ModelError` for a missing column and for one that is there already.
    """
    require(positions, "positions", (*_SEGMENT, "offset"))
    require(events, "events", (*_SEGMENT, "offset", "event_time"))
    require(segments, "segments", (*_SEGMENT, "low", "high"))
    refuse(positions, "positions", ("perfect_watermark",))
    rows = positions.select(*_SEGMENT, F.col("offset").cast("long").alias("_offset"), F.struct("*").alias("_row"))
    smallest = F.when(F.col("_offset") >= 0, F.least("in_cell", "after_cell"))
    return _still_to_come(rows, events, segments).select("_row.*", smallest.alias("perfect_watermark"))


def group_perfect_watermark(positions: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """The perfect watermark of a reader group at every version of its state: the smallest over its open segments.

    `positions` is the table of a recording. One row per stream, group, version and at_ms, with `perfect_watermark`;
    null when nothing is still to come. Raises `ModelError` for a missing column.
    """
    require(positions, "positions", _CHANGE)
    rows = perfect_watermark(positions.select(*_CHANGE), events, segments)
    answer = StructType([*(rows.schema[name] for name in GROUP_COLUMNS), *spark_schema([_PERFECT])])
    return rows.groupBy("stream", "group").applyInArrow(_least_open, answer)


def _least_open(changes: pa.Table) -> pa.Table:
    """The smallest watermark over the open segments of one group at each version; runs on an executor.

    A row holds from its version on, until the next row of its segment.
    """
    ordered = changes.sort_by([("version", "ascending"), ("at_ms", "ascending")])
    names = (*GROUP_COLUMNS, "segment_id", "finished", "perfect_watermark")
    rows = zip(*(ordered[name].to_pylist() for name in names), strict=True)
    by_segment: dict[int, int] = {}
    least_by_version = []
    for moment, of_moment in groupby(rows, key=itemgetter(slice(len(GROUP_COLUMNS)))):
        update = ((segment, least if finished is False else None) for *_, segment, finished, least in of_moment)
        by_segment = moved(by_segment, update)
        least = min(by_segment.values(), default=None)
        least_by_version.append(dict(zip(GROUP_COLUMNS, moment, strict=True)) | {_PERFECT.name: least})
    schema = pa.schema([*(changes.schema.field(name) for name in GROUP_COLUMNS), _PERFECT])
    return pa.Table.from_pylist(least_by_version, schema)


def _least_unread(positions: Iterable[tuple[int, int, Mapping[int, int]]], places: pa.Table) -> pa.Table:
    """The smallest watermark over the open segments at each of the positions of `read_positions`.

    `places` has the watermark of each segment and offset.
    """
    columns = (places[name].to_pylist() for name in ("segment_id", "offset", _PERFECT.name))
    to_come = {(segment, offset): least for segment, offset, least in zip(*columns, strict=True)}
    rows = [
        {"version": version, "at_ms": at_ms, _PERFECT.name: _least(to_come.get(place) for place in offsets.items())}
        for version, at_ms, offsets in positions
    ]
    return pa.Table.from_pylist(rows, pa.schema([("version", pa.int64()), ("at_ms", pa.int64()), _PERFECT]))


def with_slack(bounds: DataFrame) -> DataFrame:
    """Add `uncertainty`, `slack_lower` and `slack_upper`, in ms, and `safe`: the bounds against the perfect watermark.

    `uncertainty` is upper - lower; `slack_lower` is perfect_watermark - lower, negative when the lower bound was too
    high; `slack_upper` is upper - perfect_watermark. Each is null when a side is unknown. An unknown lower bound is
    safe, and so is any when nothing is still to come. Raises `ModelError` for a missing column.
    """
    require(bounds, "bounds", ("lower", "upper", "perfect_watermark"))
    return bounds.withColumns(
        {
            "uncertainty": F.col("upper") - F.col("lower"),
            "slack_lower": F.col("perfect_watermark") - F.col("lower"),
            "slack_upper": F.col("upper") - F.col("perfect_watermark"),
            "safe": F.coalesce(F.col("lower") <= F.col("perfect_watermark"), F.lit(True)),
        }
    )


def _still_to_come(rows: DataFrame, events: DataFrame, segments: DataFrame) -> DataFrame:
    """`rows` with the smallest event time beyond the offset in its own cell, and in all that follows the cell."""
    count = F.ceil(F.count("*") / _EVENTS_PER_CELL).cast("long").alias("cells")
    cells = F.broadcast(events.groupBy(*_SEGMENT).agg(count, F.max("offset").alias("top")))
    # Cells of a segment are equally wide. Beyond 2^53 the largest offsets are the same number in floating point as the
    # end of all cells. A segment without events has one cell.
    cell = F.expr("COALESCE(LEAST(FLOOR(LEAST(_offset, top) / (top + 1D) * cells), cells - 1), 0)").alias("cell")
    timed = events.select(*_SEGMENT, F.col("offset").alias("_offset"), "event_time")
    columns = (*_SEGMENT, "_offset", cell)
    events_by_cell = timed.join(cells, list(_SEGMENT)).select(*columns, "event_time", F.lit(1).alias("is_event"))
    positions_by_cell = rows.join(cells, list(_SEGMENT), "left").select(*columns, "_row", F.lit(0).alias("is_event"))
    # From the cell's end downwards, a position comes before an event that ends exactly there: it is read already.
    downwards = Window.partitionBy(*_SEGMENT, "cell").orderBy(F.desc("_offset"), "is_event")
    both = positions_by_cell.unionByName(events_by_cell, allowMissingColumns=True)
    in_cell = both.withColumn("in_cell", F.min("event_time").over(downwards)).where("is_event = 0")
    return in_cell.join(F.broadcast(_after_cells(events_by_cell, segments)), [*_SEGMENT, "cell"], "left")


def _after_cells(events_by_cell: DataFrame, segments: DataFrame) -> DataFrame:
    """For every cell of every segment, the smallest event time in the cells after it and in the descendants."""
    minima = events_by_cell.groupBy(*_SEGMENT, "cell").agg(F.min("event_time").alias("smallest"))
    both = segments.select(*_SEGMENT, "low", "high").unionByName(minima, allowMissingColumns=True)
    after = StructType([*(both.schema[name] for name in (*_SEGMENT, "cell")), *spark_schema([_AFTER])])
    return both.groupBy("stream").applyInArrow(_followed, after)


def _followed(rows: pa.Table) -> pa.Table:
    """What follows each cell of the segments of one stream; runs on an executor. Rows of segments have no cell."""
    is_segment = pc.is_null(rows["cell"])
    minima = _minima_of(rows.filter(pc.invert(is_segment)))
    cells = {segment: max(by_cell) + 1 for segment, by_cell in minima.items()}
    after = _after_each_cell(ranges_of(rows.filter(is_segment)), minima, cells)
    stream = rows["stream"][0].as_py()
    cells_after = [
        {"stream": stream, "segment_id": segment, "cell": cell, _AFTER.name: least}
        for segment, of_segment in after.items()
        for cell, least in enumerate(of_segment)
    ]
    schema = pa.schema([*(rows.schema.field(name) for name in (*_SEGMENT, "cell")), _AFTER])
    return pa.Table.from_pylist(cells_after, schema)


def _minima_of(rows: pa.Table) -> dict[int, dict[int, int]]:
    """The smallest event time of each cell, by segment and cell; several rows of a cell are parts of it."""
    minima: dict[int, dict[int, int]] = {}
    for segment, cell, smallest in zip(*(rows[name].to_pylist() for name in _SMALLEST), strict=True):
        of_segment = minima.setdefault(segment, {})
        of_segment[cell] = min(smallest, of_segment.get(cell, smallest))
    return minima


def _after_each_cell(
    ranges: Ranges, minima: Mapping[int, Mapping[int, int]], cells: Mapping[int, int]
) -> dict[int, list[int | None]]:
    """By segment, for each of its cells, the smallest event time in those after it and in the descendants.

    Whatever overlaps a segment and has a larger id came to be, at the keys they share, out of that segment. A segment
    without a number of cells has one.
    """
    after: dict[int, list[int | None]] = {}
    later: list[tuple[float, float, int | None]] = []
    for segment in sorted(ranges.keys() | minima.keys(), reverse=True):
        # A segment that is not known has no descendants and is none.
        start, end = ranges.get(segment, (0.0, 0.0))
        least = _least(least for low, high, least in later if low < end and start < high)
        of_segment, upwards = minima.get(segment, {}), []
        for cell in range(cells.get(segment, 1) - 1, -1, -1):
            upwards.append(least)
            least = _least([least, of_segment.get(cell)])
        after[segment] = upwards[::-1]
        later.append((start, end, least))
    return after


def _least(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)


def bounds_of_recording(
    recording: Recording,
    spark: SparkSession,
    *,
    of: Literal["readers", "events"] | None = None,
    visible: Literal["all", "then"] | None = None,
) -> DataFrame:
    """Lower, upper and perfect watermark of every position in a recording, computed by Spark.

    The positions are those that reader groups published; or, when nobody read, the events, one row an event. `of`
    chooses.

    At the positions of readers a watermark counts only once it was emitted (`visible="then"`), so the bounds are
    what the log says there at that moment; nobody need have seen them. They change with a position and with a
    watermark that becomes visible, so there is a row for either, and one for the end of the run; a row holds until
    the next one of its group, and `change` says what it begins with, see `group_time_bounds`. Each is what a reader
    of the group sees that looks at that moment, as the table `windows` has it, but where readers learn later of
    marks or positions (`tracker_ms`, `state_latency_ms`, `read_latency_ms`) or the marks cannot be read for a time.
    A reader that did not look before a crash took its group back in a segment shows the earlier window until the
    group has read on. After a reset the group starts again. A stream that is deleted ends then. Where readers share
    a map of times (`read_side` "document"), they see the window of that map, so the rows have what the table
    `group_updates` has, see `map_bounds_of_group`; with `time_windows` False it is unknown. Their perfect watermark is
    that of what they have not read, published or not. `visible="all"` is the complete log: all watermarks of the run
    count from the beginning, at the positions of every group, so that there are rows of positions and of the end
    only. The column `visible` says which. The column `incidents` of these rows is an array of what happened since
    the row before, null when nothing did: (at_ms, kind, what, target, subject, outcome), as in the table, where
    `what` is called `detail`. `upper_later` is the upper bound of the complete log at the same position, which is
    what became known later (with `visible="all"` it is `upper`). The positions of events have the complete log
    only, since no reader was there; raises `ModelError` for anything else.
    """
    the_choice(of, "of", ("readers", "events", None), ModelError)
    the_choice(visible, "visible", ("all", "then", None), ModelError)
    events = recording.spark(spark, "events")
    if of == "events" or (of is None and not recording.counts["positions"]):
        if visible == "then":
            raise ModelError(
                "What was known then is known of readers, and these are the positions of events.",
                remedy='leave out visible="then", or take the positions of readers.',
            )
        positions = events.withColumn("at_ms", events.append_ms)
        watermarks, segments = (recording.spark(spark, name) for name in ("watermarks", "segments"))
        return perfect_watermark(time_bounds(positions, watermarks, segments), events, segments)
    then = visible or "then"
    timed = events.select(*_SEGMENT, "offset", "event_time")
    with_map = frozenset(groups_with_map(recording) if then == "then" else ())
    read = ("positions", "watermarks", "segments", "group_updates", "incidents")
    tables = {name: recording.table(name) for name in read}
    reads = recording.table("reads") if with_map else recording.table("reads").slice(0, 0)
    tables["reads"] = reads.filter(pc.is_in(reads["group"], pa.array([group for _, group in with_map], pa.string())))
    smallest = Reduced(timed, _Smallest(_offsets(_places(tables))), _SMALLEST_OF_STREAM)
    rule = _BoundsOfStream(then, with_map, _ends(recording))
    return by_stream(spark, tables | {"smallest": smallest}, rule, _BOUNDS)


@dataclass(frozen=True, slots=True)
class _BoundsOfStream:
    """The rule that gives the bounds of all groups of one stream; a value, since Spark sends it to the executors."""

    visible: str
    with_map: frozenset[tuple[str, str]]
    until_ms: RunEnds

    def __call__(self, stream: str, tables: TablesOfStream) -> pa.Table:
        """The rows of `_BOUNDS`, from the tables of one stream and the smallest event times between positions."""
        positions = tables["positions"]
        if not positions.num_rows:
            return _BOUNDS.empty_table()
        updates = tables["group_updates"]
        watermarks, ranges = watermark_columns(tables["watermarks"]), ranges_of(tables["segments"])
        places = _places(tables)
        perfect = _still_to_come_at(places, tables["smallest"], ranges)
        positions = positions.append_column(_PERFECT, perfect.slice(0, positions.num_rows))
        places = places.append_column(_PERFECT, perfect)
        happened = _in_order(tables["incidents"].rename_columns({"detail": "what"}).select(_INCIDENT.names))
        of_groups = [_BOUNDS.empty_table()]
        for group in pc.unique(positions["group"]).to_pylist():
            changes = positions.filter(pc.equal(positions["group"], group))
            least = _least_open(changes)
            complete = bounds_of_group(changes, watermarks, ranges, then=False, until_ms=self.until_ms)
            if self.visible == "all":
                rows = complete
            elif (stream, group) in self.with_map:
                of_group = updates.filter(pc.equal(updates["group"], group))
                rows = map_bounds_of_group(changes, of_group, self.until_ms)
                reads = tables["reads"].filter(pc.equal(tables["reads"]["group"], group))
                least = _least_unread(read_positions(changes, reads), places)
            else:
                rows = bounds_of_group(changes, watermarks, ranges, then=True, until_ms=self.until_ms)
            of_groups.append(self._complete(rows, complete, least, happened))
        return pa.concat_tables(of_groups)

    def _complete(
        self, rows: pa.Table, complete: pa.Table, perfect: pa.Table, happened: list[dict[str, Any]]
    ) -> pa.Table:
        """The rows of one group with all columns of `_BOUNDS`; `complete` are those of the complete log.

        Each has the last row of `perfect` that is of the same version and not later.
        """
        later = dict(zip(complete["version"].to_pylist(), complete["upper"].to_pylist(), strict=True))
        moments = list(zip(perfect["version"].to_pylist(), perfect["at_ms"].to_pylist(), strict=True))
        least = perfect[_PERFECT.name].to_pylist()
        # What a row shows is what happened since the row before it, so they are put in order.
        rows = rows.sort_by([("version", "ascending"), ("at_ms", "ascending")])
        of_rows = zip(rows["version"].to_pylist(), rows["at_ms"].to_pylist(), strict=True)
        columns = {name: rows[name] for name in rows.schema.names} | {
            "upper_later": [later[version] for version in rows["version"].to_pylist()],
            "visible": [self.visible] * rows.num_rows,
            _PERFECT.name: [least[bisect_right(moments, moment) - 1] for moment in of_rows],
            "incidents": _since_row_before(rows["at_ms"].to_pylist(), happened),
        }
        return pa.table(columns, schema=_BOUNDS)


def _places(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Where something may be still to come: the rows of the positions, then where each read has ended."""
    reads = tables["reads"].rename_columns({"to_offset": "offset"})
    return pa.concat_tables([table.select([*_SEGMENT, "offset"]) for table in (tables["positions"], reads)])


def _offsets(places: pa.Table) -> dict[tuple[Any, ...], Int64Array]:
    """The offsets by stream and segment, ascending and each of them once; negative ones are none."""
    rows = places.filter(pc.greater_equal(places["offset"], 0))
    offsets = int64_column(rows, "offset")
    return {segment: np.unique(offsets[of_segment]) for segment, of_segment in rows_by(rows, *_SEGMENT)}


@dataclass(frozen=True, slots=True)
class _Smallest:
    """Reduces events to the smallest event time of each cell, partition by partition: rows of `_SMALLEST_OF_STREAM`.

    Here the cells of a segment are what lies between neighbouring positions: cell n ends with the position number n,
    from 0, and an event that ends there is in it. `offsets` are those of the positions by stream and segment; streams
    without a position are left out. A value, since Spark sends it to the executors.
    """

    offsets: Mapping[tuple[Any, ...], Int64Array]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the batches of one partition come to."""
        smallest: dict[tuple[Any, ...], Int64Array] = {}
        streams = {stream for stream, _ in self.offsets}
        for batch in batches:
            events = pa.Table.from_batches([batch])
            ends, times = int64_column(events, "offset"), int64_column(events, "event_time")
            for segment, rows in rows_by(events, *_SEGMENT):
                if segment[0] in streams:
                    offsets = self.offsets.get(segment, NO_NUMBERS)
                    least = smallest.setdefault(segment, np.full(len(offsets) + 1, NEVER))
                    np.minimum.at(least, offsets.searchsorted(ends[rows], "left"), times[rows])
        for (stream, number), times in smallest.items():
            cells = np.flatnonzero(times < NEVER)
            columns = [[stream] * len(cells), [number] * len(cells), cells, times[cells]]
            yield pa.RecordBatch.from_arrays([pa.array(values) for values in columns], schema=_SMALLEST_OF_STREAM)


def _still_to_come_at(positions: pa.Table, smallest: pa.Table, ranges: Ranges) -> pa.Array:
    """The perfect watermark at each of these places in one stream."""
    offsets = int64_column(positions, "offset")
    rows_of = {segment: rows[offsets[rows] >= 0] for (segment,), rows in rows_by(positions, "segment_id")}
    ends = {segment: np.unique(offsets[rows]) for segment, rows in rows_of.items()}
    cells = {segment: len(of_segment) + 1 for segment, of_segment in ends.items()}
    after = _after_each_cell(ranges, _minima_of(smallest), cells)
    perfect = np.full(positions.num_rows, None, object)
    for segment in rows_of.keys() & after.keys():
        rows = rows_of[segment]
        perfect[rows] = np.array(after[segment], object)[ends[segment].searchsorted(offsets[rows])]
    return pa.array(perfect, _PERFECT.type)


def _ends(recording: Recording) -> RunEnds:
    """When the run ended, or, if some of its streams were deleted, when each stream did."""
    end = end_ms(recording)
    incidents = recording.table("incidents").select(["stream", "at_ms", "kind", "subject"]).to_pylist()
    deleted = {
        row["stream"]: row["at_ms"] for row in incidents if (row["kind"], row["subject"]) == ("delete", "stream")
    }
    if not deleted:
        return end
    streams = recording.table("segments")["stream"].unique().to_pylist()
    return ({} if end is None else dict.fromkeys(streams, end)) | deleted


def _in_order(happened: pa.Table) -> list[dict[str, Any]]:
    """Incidents by time, those of one millisecond in the order of their other columns; null comes first."""
    rows: list[dict[str, Any]] = happened.to_pylist()
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row.values()])


def _since_row_before(times: Sequence[int], happened: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]] | None]:
    """For each row of a group, by its time, what happened since the row before; null when nothing did."""
    moments = [incident["at_ms"] for incident in happened]
    ends = [bisect_right(moments, at_ms) for at_ms in times]
    if ends:
        ends[-1] = len(happened)
    return [list(happened[start:end]) or None for start, end in pairwise([0, *ends])]
