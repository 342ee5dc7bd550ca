"""Where rows come from: a list, a real trace, or a recorded stream; and how a source makes watermarks of their times.

Names and defaults follow upstream class `EventTimeMapper`. Durations are in milliseconds; so are event times, in all
that wmlab brings with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Tag

from wmlab.core.durations import duration_text
from wmlab.core.expression import columns_read
from wmlab.core.values import EACH_ONCE, AnyName, Flag, Ms, Period, Problem, branch, tagged, unknown, value
from wmlab.core.words import counted, exactly
from wmlab.dataflow.model.source import IDLE_TIMEOUT_MS
from wmlab.dataflow.scenario.vertices import (
    Column,
    Columns,
    Condition,
    Copies,
    Function,
    Key,
    SourceRows,
    Vertex,
    arity_problems,
)
from wmlab.streams.scenario.parts import ReaderGroup
from wmlab.streams.scenario.scenario import StreamScenario

TRACE_COLUMNS: Final = ("event_time", "writer", "key")
"""The columns of a source that replays a trace."""
STREAM_COLUMNS: Final = ("event_time", "writer", "segment", "offset")
"""The columns of a source that reads a recorded stream; the segment is written as `number@epoch`."""


@value
class EventTime:
    """The column that carries watermark key `key`, and how the watermark follows it.

    `lag`: the highest time seen so far minus `lag_ms`. `real_time`: the clock minus `lag_ms`, regardless of rows.
    `lower_bound`: the lower bound that a recorded Pravega stream promised its readers, minus `lag_ms`. Your own
    function `policy(memory, time)` is called for every row of a partition; it returns the next memory, which is None at
    first, and the watermark of the partition or None, and must be pure; `lag_ms` is subtracted.
    Source: upstream class `WatermarkPolicy`; "Stream-to-stream join", on lag.
    """

    column: Column
    """The column that has the event time, in ms."""
    _: KW_ONLY
    key: Key = 0
    policy: Literal["lag", "real_time", "lower_bound"] | Function = "lag"
    """How watermarks are made of the event times."""
    lag_ms: Ms = 0

    def _problems(self) -> Iterator[Problem]:
        return arity_problems(("policy",), self.policy, ("memory", "time"))


def _times(offered: object) -> object:
    """A column alone, or in a list, stands for its key 0 without a lag."""
    entries = (offered,) if isinstance(offered, str | EventTime | Mapping) else offered
    if not isinstance(entries, list | tuple):
        return entries
    return tuple({"column": entry} if isinstance(entry, str) else entry for entry in entries)


def _stream(offered: Any) -> Any:
    """A recording as the directory it was kept in, or as the scenario that makes it again."""
    if isinstance(offered, Path):
        return str(offered)
    kind = type(offered)  # A DataFrame of Spark Connect answers to any name.
    if not isinstance(offered, StreamScenario) and hasattr(kind, "scenario") and hasattr(kind, "path"):
        return str(offered.path) if offered.path is not None else offered.scenario
    if not isinstance(offered, StreamScenario | Mapping | str | None):
        raise ValueError("give a Scenario, a Recording, or the directory of a recording")
    return offered


_NO_STREAM, _DIRECTORY, _SCENARIO = branch("no stream"), branch("directory"), branch("scenario")


def _stream_kind(offered: object) -> str:
    return _NO_STREAM if offered is None else _DIRECTORY if isinstance(offered, str) else _SCENARIO


StreamReference = Annotated[
    Annotated[StreamScenario, Tag(_SCENARIO)] | Annotated[str, Tag(_DIRECTORY)] | Annotated[None, Tag(_NO_STREAM)],
    Discriminator(_stream_kind),
    BeforeValidator(_stream),
]
"""A recorded stream: the scenario that makes it, or the directory of its recording."""


@tagged
class Source(Vertex):
    """Rows in the order of their arrival, in `partitions` that are dealt out to `parallelism` instances.

    One of `rows` (with `columns`), `trace` (a name or a file; columns event_time, writer, key) and `stream` (a
    StreamScenario, or the directory of a Recording; columns event_time, writer, segment, offset) says what they are.
    Listed rows arrive `every_ms` apart from `starts_ms` on, or when their column `arrival` says, in milliseconds after
    the start of the dataflow. `partition_by` chooses the partition: an integer is its number, anything else is hashed;
    None: in turn. The writers of a trace, or only the given `writers`, are distributed over the partitions; a stream
    that a reader group read has one partition per reader. `stream_name` names the stream, and is needed when there are
    several; `group` is needed when several reader groups read it.

    `times` are the columns that carry watermarks; a column alone has key 0. Each partition has its own watermark; the
    source emits their minimum, before the row that raised it. A partition without rows for `idle_timeout_ms` is
    excluded (0: never), by default after a minute. With `api="pipeline"` that cannot be changed: "The timeout is
    configurable in Core API, but in Pipeline API it's hard-coded to 60 seconds" (Handling of keyed idle messages;
    upstream has let partitioned sources set it since, `setPartitionIdleTimeout`).

    Watermarks are throttled to multiples of `frame_ms`: with 1 each is emitted, with 0 none. `where` is a filter pushed
    into the source. With `ends` the source ends after its last row.
    """

    _: KW_ONLY
    columns: Columns = ()
    rows: SourceRows | None = None
    trace: str | None = None
    writers: Annotated[tuple[str, ...], EACH_ONCE] = ()
    stream: StreamReference = None
    stream_name: AnyName | None = None
    group: AnyName | None = None
    times: Annotated[tuple[EventTime, ...], BeforeValidator(_times)] = ()
    partitions: Copies = 1
    partition_by: Column | None = None
    arrival: Column | None = None
    every_ms: Ms = 10
    starts_ms: Ms = 0
    where: Condition | None = None
    api: Literal["core", "pipeline"] = "core"
    idle_timeout_ms: Ms = IDLE_TIMEOUT_MS
    frame_ms: Ms = 1
    poll_ms: Period = 100
    """How often an instance looks for new rows, in ms."""
    ends: Flag = False

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of its rows, wherever they come from."""
        if self.trace is not None:
            return TRACE_COLUMNS
        return STREAM_COLUMNS if self.stream is not None else self.columns

    @property
    def detail(self) -> str:
        """What it reads, in one line."""
        if self.trace is not None:
            return f"trace {self.trace}"
        if self.stream is not None:
            kept = self.stream if isinstance(self.stream, str) else self.stream.name
            return f"stream {kept}" if self.stream_name is None else f"stream {self.stream_name} of {kept}"
        return counted(len(self.rows or ()), "row")

    def __repr__(self) -> str:
        times = ", ".join(f"{time.column} (key {time.key})" for time in self.times) or "no event time"
        return f"Source({self.name!r}: {self.detail}, {times}, {counted(self.partitions, 'partition')})"

    def _problems(self) -> Iterator[Problem]:
        origins = [name for name in ("rows", "trace", "stream") if getattr(self, name) is not None]
        if len(origins) != 1:
            yield Problem(("rows",), f"give one of rows, trace and stream (got {' and '.join(origins) or 'none'})")
            return
        if self.rows is None and self.columns:
            message = f"a {origins[0]} has columns of its own: {', '.join(self.row_columns)}; leave columns out"
            yield Problem(("columns",), message)
        if self.trace is None and self.writers:
            yield Problem(("writers",), "only a trace has writers to choose from")
        if self.rows is None and self.arrival is not None:
            yield Problem(("arrival",), f"a {origins[0]} has its own arrivals; leave arrival out")
        yield from arity_problems(("where",), self.where, ("row",))
        yield from self._stream_problems()
        yield from self._column_problems()
        if self.api == "pipeline" and self.idle_timeout_ms != IDLE_TIMEOUT_MS:
            message = (
                f"is {exactly(IDLE_TIMEOUT_MS)} in the Pipeline API; leave it out, or take api='core', "
                f"which lets it be set (got {duration_text(self.idle_timeout_ms)})"
            )
            yield Problem(("idle_timeout_ms",), message)
        yield from islice(self._row_problems(), 1)

    @property
    def groups_read(self) -> tuple[ReaderGroup, ...]:
        """The reader groups of a `stream` given as a scenario through which it may be read: those asked for, or all."""
        if not isinstance(self.stream, StreamScenario):
            return ()
        groups = self.stream.groups_of(self.stream.stream_titled(self.stream_name))
        return tuple(group for group in groups if self.group in {None, group.name})

    def _stream_problems(self) -> Iterator[Problem]:
        """A choice among several streams or reader groups that is missing, or that names an unknown one."""
        scenario = self.stream
        for name in ("stream_name", "group"):
            if scenario is None and getattr(self, name) is not None:
                yield Problem((name,), "only a stream is chosen from several; give stream=, or leave it out")
        if not isinstance(scenario, StreamScenario):
            return
        streams = [stream.name for stream in scenario.all_streams]
        if self.stream_name is None and len(streams) > 1:
            yield Problem(("stream_name",), f"{scenario.name!r} has several streams; name one of: {', '.join(streams)}")
            return
        named = None if self.stream_name is None else self.stream_name.partition("#")[0]
        yield from unknown(("stream_name",), "stream", named, streams)
        groups = [group.name for group in scenario.groups_of(scenario.stream_titled(self.stream_name))]
        if self.group is None and len(groups) > 1:
            yield Problem(("group",), f"several reader groups read that stream; name one of: {', '.join(groups)}")
        yield from unknown(("group",), "reader group", self.group, groups)

    def _column_problems(self) -> Iterator[Problem]:
        known = self.row_columns
        named: list[tuple[tuple[str | int, ...], str | None]] = [
            (("partition_by",), self.partition_by),
            (("arrival",), self.arrival),
            *((("times", number, "column"), time.column) for number, time in enumerate(self.times)),
            *((("where",), column) for column in (columns_read(self.where) if isinstance(self.where, str) else ())),
        ]
        for location, column in named:
            yield from unknown(location, "column", column, known)
        for number, time in enumerate(self.times):
            if any(time.key == other.key for other in self.times[:number]):
                yield Problem(("times", number, "key"), f"another column has watermark key {time.key} too")
            if time.policy == "lower_bound" and self.stream is None:
                message = "only a stream has a lower bound; give stream=, or use 'lag'"
                yield Problem(("times", number, "policy"), message)

    def _row_problems(self) -> Iterator[Problem]:
        timed = dict.fromkeys((*(time.column for time in self.times), self.arrival))
        indices = [(column, self.columns.index(column)) for column in timed if column in self.columns]
        for number, row in enumerate(self.rows or ()):
            if len(row) != len(self.columns):
                message = f"has {len(row)} values for {len(self.columns)} columns (got {row!r})"
                yield Problem(("rows", number), message)
            for column, index in indices:
                if type(row[index]) is not int:
                    yield Problem(("rows", number), f"has no whole number as {column!r} (got {row[index]!r})")


def share(source: Source, instance: int, partitions: int) -> range:
    """Which of so many partitions an instance reads: p belongs to instance p modulo the parallelism."""
    return range(instance, partitions, source.parallelism)
