"""Invariants of what readers see (I6, I9), and of what the document promises of time (I10, I11, I12).

A late event is one that was read first after a window of its group had shown a larger lower bound. An event counts when
a reader of the group first reads it; whatever is read again proves nothing. A bound counts from the window that showed
it, for what is read in a later millisecond: within one millisecond the tables do not say what came first.

A *generation* is a run of cycles of one owner of the bucket that found the same previous lower bound and some writer
beyond it. Whoever was behind in its first cycle has recovered or is removed one timeout later, so a cycle then emits.
Owners lose their clocks with the bucket, so a takeover begins a generation anew; while nobody owns the bucket there are
no cycles, and nothing is judged. What does not count is the writers' doing: one that comes with an old time meanwhile
is waited for anew, and one that notes the smallest time of all, or a position in a segment which the stream never had,
stops every cycle; so do writers of which none notes a position in any segment.

A location of the stream has a time by its events: a noted time is before it if it was accepted before the newest
event there was appended.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`. PDP-33, Periodic Watermark Workflow
("bounded to run and produce a watermark ... within one timeout period"), and PDP-33, Event Reader API Changes
(TimeWindow).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.verdict import BEFORE, SO_FAR, batch_invariant, finding_rows, findings, phrase, previous, row_of
from wmlab.streams.bounds.log_by_segment import is_end
from wmlab.streams.checks.log import EMPTY, accepted, read_at, with_writers
from wmlab.streams.model.cycle import HeldBy

DROPPED: Final = "its writer had been dropped"
NOT_NOTED: Final = "its writer had noted no time yet"
BROKE_ITS_WORD: Final = "its writer had noted a larger time while the event was not acknowledged"

_EVENT: Final = ("stream", "group", "segment_id", "offset")
_WINDOW: Final = ("stream", "group", "reader", "lower", "upper", "at_ms")


@batch_invariant(
    "no event of a well-behaved writer is read behind a lower bound that was shown",
    "nothing was read after a window had shown a lower bound",
)
def nothing_late(
    reads: DataFrame,
    windows: DataFrame,
    events: DataFrame,
    watermarks: DataFrame,
    writer_marks: DataFrame,
    cycles: DataFrame,
    segments: DataFrame,
) -> DataFrame:
    """I6: one finding that stands for all events read, and one per late event: bad, or good with its evidence.

    Only first deliveries count: what is read again after a reset proves nothing. Good are those whose writer had been
    dropped, had noted no time yet, or had noted a larger time without having the event acknowledged; see `late_events`.
    """
    read = delivered(reads, windows, events)
    counts = read.groupBy("stream").agg(F.count("*").alias("count"))
    late = late_events(read, watermarks, writer_marks, cycles, segments)
    what = phrase(
        "an event of {writer} with time {event_time:ms} in {segment_id:segment} is read at {read_ms:ms}, after "
        "{shown_to} saw lower {shown_lower:ms}"
    )
    proof = F.array(
        row_of("windows", "stream", "group", "shown_to as reader", "shown_lower as lower", "shown_ms as at_ms"),
        row_of("events", "stream", "segment_id", "offset", "event_time", "append_ms", "writer"),
        row_of("reads", "stream", "group", "reader", "segment_id", "after as from_offset", "reached as to_offset",
               "read_ms as at_ms"),
    )  # fmt: skip
    blamed = F.col("because").isNull()
    of_late = finding_rows(
        late,
        at_ms=F.col("read_ms"),
        ok=~blamed,
        # The event is judged already, by the finding that stands for all of them.
        judged=F.lit(0),
        what=F.when(blamed, what).otherwise(phrase("{what}; {because}", what=what)),
        evidence=proof,
    )
    return finding_rows(counts, ok=F.lit(True), judged=F.col("count")).unionByName(of_late)


@batch_invariant("the windows of a reader only move forward", "no reader looked at its window twice")
def windows_monotone(windows: DataFrame, watermarks: DataFrame, incidents: DataFrame) -> DataFrame:
    """I9: the lower bound of a reader's windows never goes back, nor becomes unknown; known upper bounds neither.

    It may become unknown in a stream whose log has an end of known time.
    One finding per pair of neighbouring windows of a reader. An incident that befell the reader or its group parts
    them: a new reader object may start earlier. Upper bounds are left out where those of the log go back themselves.
    """
    fell = F.col("upper") < F.lag("upper").over(Window.partitionBy("stream").orderBy("seq"))
    falling = watermarks.select("stream", fell.alias("falls")).where("falls").distinct()
    ending = watermarks.where(is_end(watermarks)).select("stream", F.lit(True).alias("ends")).distinct()
    numbered = _lives(windows, incidents).join(F.broadcast(falling), "stream", "left")
    numbered = numbered.join(F.broadcast(ending), "stream", "left")
    by, order = ("stream", "group", "reader", "life"), ("at_ms", F.asc_nulls_first("lower"), "upper")

    def last_with(bound: str) -> Column:
        known = F.when(F.col(bound).isNotNull(), F.struct(*_WINDOW))
        return F.last(known, ignorenulls=True).over(Window.partitionBy(*by).orderBy(*order).rowsBetween(*BEFORE))

    before = F.when(F.col("ends"), last_with("lower")).otherwise(previous(_WINDOW, by=by, order=order))
    pairs = numbered.select(
        *_WINDOW, "falls", "ends", before.alias("before"), last_with("upper").alias("bounded")
    ).where("before is not null")
    lower_back = F.expr("before.lower is not null and (lower < before.lower or (lower is null and ends is null))")
    lower_back = F.coalesce(lower_back, F.lit(False))
    upper_back = F.expr("falls is null and coalesce(upper < bounded.upper, false)")
    first = F.when(lower_back, F.col("before")).otherwise(F.col("bounded"))
    lower, upper = (
        phrase(f"{bound} of {{reader}} goes from {{first.{bound}:ms}} to {{{bound}:ms}}")
        for bound in ("lower", "upper")
    )
    return findings(
        pairs.withColumn("first", first),
        ok=~(lower_back | upper_back),
        at_ms="at_ms",
        what=F.when(lower_back, lower).otherwise(upper),
        evidence=[row_of("windows", *(f"first.{name}" for name in _WINDOW)), row_of("windows", *_WINDOW)],
    )


def _lives(windows: DataFrame, incidents: DataFrame) -> DataFrame:
    """The windows with `life`: how many incidents had befallen the reader, or its group, by then."""
    reader = ("stream", "group", "reader")
    # What a script asked for in vain changes no reader. Recordings from before these columns tell neither.
    theirs = incidents.where("COALESCE(outcome, 'done') = 'done'")
    befell = (
        windows.select(*reader)
        .distinct()
        .join(F.broadcast(theirs.select("stream", "subject", "target", "at_ms")), "stream")
        .where(
            "(target = reader and COALESCE(subject, 'reader') = 'reader')"
            " or (target = `group` and COALESCE(subject, 'group') = 'group')"
        )
        .select(*reader, "at_ms", F.lit(1).alias("incident"))
    )
    so_far = Window.partitionBy(*reader).orderBy("at_ms").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    rows = windows.unionByName(befell, allowMissingColumns=True)
    return rows.withColumn("life", F.count("incident").over(so_far)).where("incident is null").drop("incident")


def delivered(reads: DataFrame, windows: DataFrame, events: DataFrame) -> DataFrame:
    """The events that a group read while it had a lower bound, one row per group, with that bound.

    Columns: those of `events`, `group`, the `reader` that read it at `read_ms` together with all events between the
    offsets `after` and `reached`, `shown_lower` (the largest lower bound shown before), `shown_to` and `shown_ms`.
    """
    first = _first_reads(reads, _raised(windows))
    groups = F.broadcast(reads.select("stream", "group").distinct())
    by = F.struct("reader", "read_ms", "after", "reached", "shown").alias("by")
    rows = events.join(groups, "stream").unionByName(first.select(*_EVENT, by), allowMissingColumns=True)
    # From the end of a segment to its start: an event belongs to the nearest end of what was read at or beyond it.
    downwards = Window.partitionBy("stream", "group", "segment_id").orderBy(
        F.desc("offset"), F.col("by").isNull(), "event_time"
    )
    reading = F.last("by", ignorenulls=True).over(downwards.rowsBetween(*SO_FAR))
    covered = rows.withColumn("reading", reading).where("event_time is not null and offset > reading.after")
    shown = F.col("reading.shown")
    return covered.where(shown.isNotNull()).select(
        *_EVENT, "event_time", "append_ms", "writer", "reading.reader", "reading.read_ms", "reading.after",
        "reading.reached", shown["lower"].alias("shown_lower"), shown["reader"].alias("shown_to"),
        shown["at_ms"].alias("shown_ms"),
    )  # fmt: skip


def _raised(windows: DataFrame) -> DataFrame:
    """The windows that raised the lower bound of their group: stream, group, at_ms, shown (at_ms, lower, reader)."""
    by_time = Window.partitionBy("stream", "group").orderBy("at_ms", F.desc("lower"), "reader")
    before = F.max("lower").over(by_time.rowsBetween(*BEFORE))
    raised = windows.where("lower is not null").withColumn("before", before)
    kept = raised.where("before is null or lower > before")
    return kept.select("stream", "group", "at_ms", F.struct("at_ms", "lower", "reader").alias("shown"))


def _first_reads(reads: DataFrame, raised: DataFrame) -> DataFrame:
    """What was read for the first time, with the last bound shown before.

    Columns: stream, group, segment_id, offset and reached (the same), after, reader, read_ms, and `shown`.
    """
    first = reads.where("not again").select(
        "stream", "group", "reader", "segment_id", "at_ms", F.col("from_offset").alias("after"),
        F.col("to_offset").alias("offset"),
    )  # fmt: skip
    rows = first.unionByName(raised, allowMissingColumns=True)
    by_time = Window.partitionBy("stream", "group").orderBy("at_ms", F.col("shown").isNotNull())
    last = F.last("shown", ignorenulls=True).over(by_time.rowsBetween(*SO_FAR))
    with_shown = rows.withColumn("shown", last).where("segment_id is not null")
    return with_shown.withColumn("reached", F.col("offset")).withColumnRenamed("at_ms", "read_ms")


def late_events(
    read: DataFrame, watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame, segments: DataFrame
) -> DataFrame:
    """Those of the events `delivered` that lie below the lower bound shown before, with `because`.

    That says why they are their writer's doing or nobody's; it is null if a bound was wrong. A bound above the event is
    right about a writer that it counted if the writer had noted that time without having the event acknowledged; and
    about one that it did not count if that had been removed or had noted nothing. If any of the bounds that were shown
    was wrong about it, `because` is null.
    """
    late_ones = read.where("event_time < shown_lower")
    noted = accepted(writer_marks).select("stream", "writer").distinct().withColumn("noted", F.lit(True))
    event = late_ones.columns
    own = late_ones.join(F.broadcast(_later_segments(segments)), ["stream", "segment_id"], "left")
    shown = own.join(F.broadcast(noted), ["stream", "writer"], "left").alias("late")
    bounds = of_each_writer(watermarks, writer_marks, cycles).alias("log")
    same = (F.col("late.stream") == F.col("log.stream")) & (F.col("late.writer") == F.col("log.writer"))
    above = (F.col("log.lower") > F.col("late.event_time")) & (F.col("log.lower") <= F.col("late.shown_lower"))
    claims = shown.join(F.broadcast(bounds), same & above, "left")
    broke = F.col("position").isNotNull() & ~_covers()
    excuse = F.when(F.col("time").isNotNull(), F.when(broke, F.lit(BROKE_ITS_WORD))).otherwise(F.col("excuse"))
    because = F.when(F.col("noted").isNull(), F.lit(NOT_NOTED)).otherwise(excuse)
    every, last = F.bool_and(F.col("because").isNotNull()), F.max_by("because", F.coalesce("seq", F.lit(0)))
    by_bound = claims.select("late.*", "seq", because.alias("because"))
    return by_bound.groupBy(*event).agg(F.when(every, last).alias("because"))


def _covers() -> Column:
    """Whether `position` covers the event: its segment that far, or only what came after the segment."""
    own = F.try_element_at("position", F.col("segment_id")) >= F.col("offset")
    beyond = F.coalesce(F.arrays_overlap(F.map_keys("position"), F.col("later")), F.lit(False))
    return F.coalesce(own, F.lit(False)) | (~F.map_contains_key("position", F.col("segment_id")) & beyond)


def of_each_writer(watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """Every watermark from the side of every writer that ever noted.

    Columns: stream, seq, lower, emitted_ms, writer, `time` (that it was counted with; null if it was not), `position`
    (of the counted mark), `latest` (the largest time it had noted when the watermark was appended) and `excuse` (why
    it was not counted: NOT_NOTED, DROPPED, or null if it was on record and left out).
    """
    log = read_at(with_writers(watermarks), cycles).select("stream", "seq", "lower", "writers", "emitted_ms", "read_ms")
    time = F.try_element_at("writers", F.col("writer"))
    pairs = log.join(accepted(writer_marks).withColumnRenamed("time", "noted_time"), "stream").withColumn("time", time)
    counted = (F.col("noted_time") == F.col("time")) & (F.col("received_ms") <= F.col("emitted_ms"))
    # A mark of the very millisecond in which the cycle read the marks may have come too late for it.
    seen_ms = F.when(F.col("received_ms") < F.col("read_ms"), F.col("received_ms"))
    facts = pairs.groupBy("stream", "seq", "lower", "writer", "time", "emitted_ms").agg(
        F.max_by("position", F.when(counted, F.col("received_ms"))).alias("position"),
        F.max(seen_ms).alias("last_ms"),
        F.max(F.when(F.col("received_ms") <= F.col("emitted_ms"), F.col("noted_time"))).alias("latest"),
    )
    removals = cycles.select("stream", F.explode("removed").alias("writer"), F.col("at_ms").alias("removed_ms"))
    listed = removals.groupBy("stream", "writer").agg(F.collect_list("removed_ms").alias("removals"))
    gone = F.exists("removals", lambda at: (at >= F.col("last_ms")) & (at <= F.col("emitted_ms")))
    excuse = F.when(F.col("last_ms").isNull(), F.lit(NOT_NOTED)).when(gone, F.lit(DROPPED))
    known = facts.join(F.broadcast(listed), ["stream", "writer"], "left")
    columns = ("stream", "seq", "lower", "emitted_ms", "writer", "time", "position", "latest")
    return known.select(*columns, excuse.alias("excuse"))


def _later_segments(segments: DataFrame) -> DataFrame:
    """Every segment with `later`: the ids of the segments that came after it over some of its keys."""
    columns = ("stream", "segment_id", "low", "high")
    theirs = segments.select(*columns).toDF("stream", "other", "from", "to")
    overlap = (F.col("other") > F.col("segment_id")) & (F.col("from") < F.col("high")) & (F.col("low") < F.col("to"))
    pairs = segments.select(*columns).join(F.broadcast(theirs), "stream").where(overlap)
    return pairs.groupBy("stream", "segment_id").agg(F.collect_list("other").alias("later"))


_CONFLICT: Final = HeldBy.CONFLICT.value
_LOST: Final = [cause.value for cause in (HeldBy.UNKNOWN_SEGMENT, HeldBy.NO_POSITIONS, HeldBy.NOT_ADVANCED)]
"""Why a cycle without lagging writers may emit nothing for longer than a timeout, through the writers' own doing."""
_CYCLE: Final = ("stream", "controller", "at_ms", "previous_lower", "participating", "lagging", "outcome", "reason")


@batch_invariant(
    "the lower bound rises within one timeout of a cycle that found a writer beyond it",
    "no cycle with a recorded timeout found a writer beyond the lower bound",
)
def lower_rises(cycles: DataFrame, ownership: DataFrame) -> DataFrame:
    """I10: a cycle that runs one timeout after its generation began emits a watermark.

    One finding per cycle that found a writer beyond the previous lower bound. The timeout runs from the second cycle
    of the generation: it began when the first had ended. Cycles without a recorded timeout or cause are not judged.
    """
    stands = (F.size("participating") > 0) & (F.col("outcome") == "held") & ~F.col("cause").eqNullSafe(_CONFLICT)
    titles = cycles.select("stream", F.substring_index("stream", "#", 1).alias("name")).distinct()
    taken = ownership.select(F.explode("streams").alias("name"), F.col("from_ms").alias("at_ms")).join(titles, "name")
    rows = cycles.withColumn("stands", stands).unionByName(taken.drop("name"), allowMissingColumns=True)
    by_time = Window.partitionBy("stream").orderBy("at_ms", F.asc_nulls_first("controller"), "outcome", "reason")
    same, lower = (F.lag(column).over(by_time).eqNullSafe(F.col(column)) for column in ("controller", "previous_lower"))
    goes_on = F.coalesce(F.lag("stands").over(by_time), F.lit(False)) & same & lower
    numbered = rows.withColumn("begins", (~goes_on).cast("int"))
    numbered = numbered.withColumn("generation", F.sum("begins").over(by_time)).where("size(participating) > 0")
    within = Window.partitionBy("stream", "generation").orderBy("at_ms", "outcome", "reason").rowsBetween(*SO_FAR)
    judged = numbered.where("timeout_ms is not null and cause is not null").withColumns(
        {
            "first": F.first(F.struct(*_CYCLE)).over(within),
            "since_ms": F.nth_value("at_ms", 2).over(within),
            "gone": F.flatten(F.collect_list("removed").over(within)),
        }
    )
    overdue = F.coalesce(F.col("stands") & (F.col("at_ms") >= F.col("since_ms") + F.col("timeout_ms")), F.lit(False))
    since_then = F.array_except(F.array_intersect("first.lagging", "lagging"), "gone")
    lost = F.col("cause").isin(*_LOST)
    blamed = overdue & F.when(F.size("lagging") == 0, ~lost).otherwise(F.size(since_then) > 0)
    what = phrase(
        "the lower bound stands at {previous_lower:ms} at {at_ms:ms}, more than the timeout of {timeout_ms:span} after "
        "{controller} found a writer beyond it: {reason}"
    )
    joined = phrase("{what}; these came meanwhile with old times", what=what)
    proof = F.array(row_of("cycles", *(f"first.{column}" for column in _CYCLE)), row_of("cycles", *_CYCLE))
    return finding_rows(
        judged,
        at_ms=F.col("at_ms"),
        ok=~blamed,
        judged=F.lit(1),
        what=F.when(overdue, F.when(blamed | lost, what).otherwise(joined)),
        evidence=F.when(overdue, proof),
    )


@batch_invariant(
    "the upper bound is at or above every time noted before an event that the cut covers",
    "nothing was noted before an event that a cut covers",
)
def upper_covers_noted(
    watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame, events: DataFrame
) -> DataFrame:
    """I11: one finding per watermark after a time accepted before the newest event that its cut covers was appended.

    What is accepted while the cycle reads the marks, one after the other, may be missing; so may be what is accepted
    later, even if a writer gave a position that it had not reached. A null in a cut is the end of the segment, so that
    the event may be later (issue 6510 upstream).
    """
    entry = F.struct("seq", "upper", "read_ms", "emitted_ms").alias("entry")
    cuts = read_at(with_writers(watermarks), cycles).select(
        "stream", entry, F.explode("cut").alias("segment_id", "offset")
    )
    reach = cuts.withColumns({"ends": F.col("offset").isNull(), "offset": F.coalesce("offset", F.lit(2**63 - 1))})
    places = events.select("stream", "segment_id", "offset", "append_ms").unionByName(reach, allowMissingColumns=True)
    upwards = Window.partitionBy("stream", "segment_id").orderBy("offset", F.asc_nulls_first("entry.seq"))
    covered = places.withColumn("covered_ms", F.max("append_ms").over(upwards.rowsBetween(*SO_FAR)))
    later = F.col("ends") & (F.col("covered_ms") > F.col("entry.emitted_ms"))
    until_ms = F.when(later, F.col("covered_ms")).otherwise(F.least("covered_ms", "entry.read_ms"))
    known = covered.where("entry is not null and covered_ms is not null").withColumn("until_ms", until_ms)
    limited = known.groupBy("stream", "entry").agg(F.max(F.struct("until_ms", "covered_ms")).alias("newest"))
    mark = F.struct("time", "writer", "received_ms").alias("noted")
    marks = accepted(writer_marks).select("stream", F.col("received_ms").alias("until_ms"), mark)
    before = Window.partitionBy("stream").orderBy("until_ms").rangeBetween(Window.unboundedPreceding, -1)
    both = (
        limited.select("stream", "entry", "newest.*")
        .unionByName(marks, allowMissingColumns=True)
        .withColumn("noted", F.max("noted").over(before))
    )
    pairs = both.where("entry is not null and noted is not null")
    return findings(
        pairs.select("stream", "covered_ms", "entry.*", "noted.*"),
        ok=F.col("upper") >= F.col("time"),
        at_ms="emitted_ms",
        what="watermark {seq} has upper {upper:ms}, but {writer} had noted {time:ms} at {received_ms:ms}, before an "
        "event was appended at {covered_ms:ms} that its cut covers",
        evidence=[
            row_of("watermarks", "stream", "seq", "upper", "emitted_ms"),
            row_of("writer_marks", "stream", "writer", "time", "received_ms"),
            row_of("events", "stream", "covered_ms as append_ms"),
        ],
    )


@batch_invariant("the lower bound is at or below the latest time of every writer on record", EMPTY)
def lower_below_latest(watermarks: DataFrame, writer_marks: DataFrame, cycles: DataFrame) -> DataFrame:
    """I12: one finding per watermark and writer that was on record when it was appended.

    On record is a writer that had noted a time before the cycle began, and that no cycle had removed since.
    """
    latest = F.greatest("time", "latest")
    known = of_each_writer(watermarks, writer_marks, cycles).where("time is not null or excuse is null")
    return findings(
        known.withColumn("latest", latest),
        ok=F.col("lower") <= F.col("latest"),
        at_ms="emitted_ms",
        what="watermark {seq} has lower {lower:ms}, but {writer} had noted {latest:ms} at the latest",
        evidence=[
            row_of("watermarks", "stream", "seq", "lower", "emitted_ms"),
            row_of("writer_marks", "stream", "writer", "latest as time"),
        ],
    )
