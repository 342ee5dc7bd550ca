"""The invariant that holds the windows of readers against the time bounds of their groups (I13).

Both sides come from recorded tables: what a reader saw is a row of `windows`; what it was to see follows from the
positions of its group, the log of watermarks, and the rule of the reader. So `recording.time_bounds(spark)` is what the
readers saw, or this invariant says where not. It compares the windows of a group that shares its positions and whose
readers know of them, and of the marks, at once. Of the others no table says when they knew what:

- readers that compare what they have read themselves (`own_position`);
- readers that work on what they see in the background (`tracker_ms`, `mark_read_ms`), or learn later of the state of
  the group (`state_latency_ms`, or the delay of the scenario's network);
- readers of a stream whose marks could not be read for a time or were truncated, and of a group that was taken back
  to a checkpoint without key ranges.

Readers that share a map of times (`read_side` "document") see the window of that map, which `group_updates` has after
every update. So a window of theirs is to be that of the map at its moment, whatever became of the marks. It is not
compared where they learn later of the state, or may look at what they knew before (`publish_timer` "pravega", and a
script in which a reader gives a segment back), or where the recording was stored before the table had the window. The
map of a group whose readers look at no marks (`time_windows` False) is empty, and so is what they know.

Where a stream cut of the log lies before an earlier one, two trackers that have come to one position on different ways
may stand at different watermarks. So a window that differs there does not count.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.recording import Recording
from wmlab.core.simulation import Fixed
from wmlab.core.spark.verdict import SO_FAR, batch_invariant, finding_rows, phrase, row_of
from wmlab.streams.bounds.groups import possible_time_bounds
from wmlab.streams.bounds.maps import TIMES, groups_with_map
from wmlab.streams.bounds.recorded import with_resets
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import ReaderGroup
from wmlab.streams.scenario.scenario import StreamScenario

COMPARED: Final = pa.schema(
    [("stream", pa.string()), ("group", pa.string()), ("why_not", pa.string()), ("with_map", pa.bool_())]
)
"""The groups that have windows: why these are not compared; null: they are. `with_map`: with the map of times."""

_NO_SCENARIO: Final = "no scenario says how its readers look"
_UNREADABLE: Final = "its marks could not be read for a time"


@batch_invariant(
    "the windows of readers are the time bounds of their group at that moment",
    "no reader looked at its window",
)
def windows_are_bounds(
    windows: DataFrame,
    positions: DataFrame,
    watermarks: DataFrame,
    segments: DataFrame,
    group_updates: DataFrame,
    compared_groups: DataFrame,
) -> DataFrame:
    """I13: one finding per window of a group that is compared, and one per group that is not, which says why.

    A window is to have the bounds that `recording.time_bounds` gives at its moment. What happened in that millisecond,
    the reader may have known or not: the tables do not say what came first.
    """
    compared = compared_groups.where("why_not IS NULL").select("stream", "group", "with_map")
    seen = windows.join(F.broadcast(compared), ["stream", "group"])
    moves = _of_groups(positions, compared.where("NOT with_map"))
    states = possible_time_bounds(with_resets(moves, group_updates), watermarks, segments)
    states = states.unionByName(_of_maps(_of_groups(group_updates, compared.where("with_map"))))
    judged = _beside(seen, states)
    differs = ~F.array_contains("possible", F.struct("lower", "upper"))
    ok = ~differs | F.coalesce("now.falls", F.lit(False))
    what = phrase(
        "{reader} saw lower {lower:ms} and upper {upper:ms} at {at_ms:ms}, where {source} give lower {due.lower:ms} "
        "and upper {due.upper:ms}",
        source=F.when(F.col("with_map"), phrase("the shared times of {group}")).otherwise(
            phrase("the position of {group} and the log")
        ),
    )
    cause = F.when(F.col("with_map"), row_of("group_updates", "stream", "group", "due.version as revision"))
    proof = F.array(
        row_of("windows", "stream", "group", "reader", "lower", "upper", "at_ms"),
        cause.otherwise(row_of("positions", "stream", "group", "due.version as version")),
    )
    said = F.when(ok, phrase("{what}; a stream cut of this log lies before an earlier one", what=what)).otherwise(what)
    found = finding_rows(
        judged,
        at_ms=F.col("at_ms"),
        ok=ok,
        judged=F.lit(1),
        what=F.when(differs, said),
        evidence=F.when(differs, proof),
    )
    # Beside groups that are compared it is said among what does not count, or else why nothing was decided.
    beside = F.bool_or(F.col("why_not").isNull()).over(Window.partitionBy(F.lit(0)))
    others = compared_groups.withColumn("spared", F.when(beside, F.lit(True))).where("why_not IS NOT NULL")
    why = phrase("the windows of {group} are not compared, because {why_not}")
    return found.unionByName(finding_rows(others, ok=F.col("spared"), judged=F.lit(0), what=why))


def _of_groups(table: DataFrame, groups: DataFrame) -> DataFrame:
    return table.join(F.broadcast(groups.select("stream", "group")), ["stream", "group"], "left_semi")


def _of_maps(group_updates: DataFrame) -> DataFrame:
    """The windows of maps of times after every update, as rows of `possible_time_bounds`; the revision as version."""
    by_time = Window.partitionBy("stream", "group", "at_ms").orderBy(F.desc("revision"))
    return group_updates.where("outcome = 'applied'").select(
        "stream",
        "group",
        F.col("revision").alias("version"),
        "at_ms",
        F.lit(TIMES).alias("change"),
        "lower",
        "upper",
        *(F.lit(None).cast("long").alias(name) for name in ("lower_seq", "upper_seq")),
        (F.row_number().over(by_time) == 1).alias("settled"),
        F.lit(False).alias("falls"),
    )


def _beside(windows: DataFrame, states: DataFrame) -> DataFrame:
    """The windows with the bounds that their reader may have seen, `possible`, and those in force then, `due`."""
    by_group, bounds = ("stream", "group"), F.struct("lower", "upper", "version")
    last = F.first(F.when(F.col("settled"), bounds), ignorenulls=True).alias("last")
    falls = F.bool_or("falls").alias("falls")
    moments = states.groupBy(*by_group, "at_ms").agg(
        F.collect_set(F.struct("lower", "upper")).alias("all"), last, falls
    )
    before = F.lag("last").over(Window.partitionBy(*by_group).orderBy("at_ms")).alias("before")
    state = F.struct(F.col("at_ms").alias("since_ms"), "all", "last", before, "falls").alias("state")
    rows = windows.unionByName(moments.select(*by_group, "at_ms", state), allowMissingColumns=True)
    by_time = Window.partitionBy(*by_group).orderBy("at_ms", F.col("state").isNull()).rowsBetween(*SO_FAR)
    seen = rows.withColumn("now", F.last("state", ignorenulls=True).over(by_time)).where("reader IS NOT NULL")
    unknown = F.struct(F.lit(None).cast("long").alias("lower"), F.lit(None).cast("long").alias("upper"))

    def pair(name: str) -> Column:
        held = F.struct(F.col(f"now.{name}.lower").alias("lower"), F.col(f"now.{name}.upper").alias("upper"))
        return F.when(F.col(f"now.{name}").isNotNull(), held).otherwise(unknown)

    at_once = F.array_append("now.all", pair("before"))
    possible = F.when(F.col("now.since_ms") == F.col("at_ms"), at_once).otherwise(F.array(pair("last")))
    return seen.withColumns({"possible": possible, "due": F.col("now.last")})


def compared_groups(recording: Recording) -> pa.Table:
    """The groups of a recording that have windows, by stream, and why the windows of some are not compared."""
    rows = recording.table("windows").select(["stream", "group"]).group_by(["stream", "group"]).aggregate([])
    scenario, with_map = recording.scenario_as(StreamScenario), set(groups_with_map(recording))
    found = []
    for stream, group in sorted((row["stream"], row["group"]) for row in rows.to_pylist()):
        has_map = (stream, group) in with_map
        why_not = _why_not(scenario, stream, group, has_map=has_map)
        found.append({"stream": stream, "group": group, "why_not": why_not, "with_map": has_map})
    return pa.Table.from_pylist(found, COMPARED)


def _why_not(scenario: StreamScenario | None, stream: str, group: str, *, has_map: bool) -> str | None:
    """Why no table says what the readers of a group could see at the moments at which they looked; None: tables do."""
    whole = None if scenario is None else scenario.resolved
    part = None if whole is None else next((part for part in whole.groups if part.name == group), None)
    if whole is None or part is None:
        return _NO_SCENARIO
    if not part.compares_position:
        return next(_of_map(whole, part, has_map=has_map), None)
    return next(chain(_of_options(whole, part), _of_script(whole, stream, group)), None)


def _of_map(scenario: StreamScenario, part: ReaderGroup, *, has_map: bool) -> Iterator[str]:
    if not has_map:
        yield "its readers share times (read_side is 'document'), and the recording does not have these"
    if part.time_windows:
        yield from _of_latency(scenario, part)
        if part.publish_timer != "fixed" and any(isinstance(act, script.ReleaseSegment) for act in scenario.script):
            yield "a reader gave a segment back, and may have looked at what it knew then (publish_timer is 'pravega')"


def _of_options(scenario: StreamScenario, part: ReaderGroup) -> Iterator[str]:
    if part.own_position:
        yield "its readers compare what they have read, published or not (own_position is True)"
    if part.tracker_ms or part.mark_read_ms:
        yield "its readers work on marks in the background (tracker_ms, mark_read_ms)"
    yield from _of_latency(scenario, part)


def _of_latency(scenario: StreamScenario, part: ReaderGroup) -> Iterator[str]:
    inside = scenario.network.inside
    if part.state_latency_ms or (part.state_latency_ms is None and inside != Fixed(0)):
        yield "its readers learn later of the group's state (state_latency_ms)"


def _of_script(scenario: StreamScenario, stream: str, group: str) -> Iterator[str]:
    name = stream.partition("#")[0]
    for action in scenario.script:
        match action:
            case script.LoseMarksSegment() if action.stream in (None, name):
                yield _UNREADABLE
            case script.StoreUnavailable(store="marks_segment"):
                yield _UNREADABLE
            case script.TruncateMarks() if action.stream in (None, name):
                yield "its marks were truncated"
            case script.ResetToCheckpoint(ranges=False) if action.group in (None, group):
                yield "it was taken back to a checkpoint without key ranges"
