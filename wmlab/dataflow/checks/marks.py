"""Invariants of watermarks and idle messages: strictly increasing, merged as designed, said once, and never lost.

Source: "Keyed watermark support", WM rules, Coalescing of WMs with different keys, Handling of keyed idle messages.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.verdict import SO_FAR, findings, invariant, phrase, previous, row_of
from wmlab.dataflow.checks.coalesced import LANE
from wmlab.dataflow.checks.items import INSTANCE, let_through, put_items

_NO_STEP: Final = "nothing was merged"
FORWARDING: Final = (
    "map", "filter", "flat map", "merge", "late drop", "stateful map", "window", "session window",
)  # fmt: skip
"""Kinds of vertices that hand on every watermark of the keys that can leave them."""
_MERGED: Final = ("vertex", "instance", "level", "edge", "step", "at_ms", "input", "stimulus", "key", "value")


@invariant("the watermarks of a key strictly increase on every queue", "no queue had two watermarks of a key")
def marks_increase(items: DataFrame, queues: DataFrame) -> DataFrame:
    """K1: on every queue each watermark of a key is above the one before; one finding per pair of neighbours."""
    mark = ("sequence", "put_ms", "value")
    before = previous(mark, by=("stream", "execution", "queue", "key"), order=["sequence"])
    marks = items.where("kind = 'watermark'").withColumn("before", before).where("before is not null")
    place = ("execution", "queue", "source", "target", "key")
    return findings(
        marks.join(F.broadcast(queues.select("stream", "queue", "source", "target")), ["stream", "queue"]),
        ok=F.col("value") > F.col("before.value"),
        at_ms="put_ms",
        what="watermark {value} of key {key} from {source} to {target} is not above {before.value}, which came before "
        "it",
        evidence=[row_of("items", *place, *(f"before.{name}" for name in mark)), row_of("items", *place, *mark)],
    )


@invariant("merging lets one idle message through until an input is active again", "no merging became idle")
def idle_once(coalescing: DataFrame) -> DataFrame:
    """K2: merging lets one idle message through until an input is active again; one finding per idle message."""
    along = Window.partitionBy(*LANE).orderBy("step").rowsBetween(*SO_FAR)
    episode = F.sum((F.size("active") > 0).cast("long")).over(along)
    said = _of_merging(coalescing).withColumn("_episode", episode).where("emitted_idle")
    place = ("vertex", "instance", "level", "edge")
    return findings(
        said.withColumn("before", previous(["step", "at_ms"], by=(*LANE, "_episode"), order=["step"])),
        ok=F.col("before").isNull(),
        at_ms="at_ms",
        what=phrase("{at} says again that it is idle, though no input was active in between", at=_at()),
        evidence=[
            row_of("coalescing", *place, "before.step", "before.at_ms"),
            row_of("coalescing", *place, "step", "at_ms", "input", "stimulus", "idle", "done"),
        ],
    )


@invariant("merging lets the lowest watermark of the active inputs through, and never goes back", _NO_STEP)
def marks_merged(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """K3: merging lets through the lowest watermark of the inputs that count, and never goes back.

    One finding per step. `merged` is what `wmlab.dataflow.checks.coalesced.coalesced` makes of the items, as designed.
    """
    what = "{at} let {emitted} through, where merging gives {due}"
    return findings(
        _beside(coalescing, merged),
        ok=_entries("emitted") == _entries("due.emitted"),
        at_ms="at_ms",
        what=phrase(what, at=_at(), emitted=_marks("emitted"), due=_marks("due.emitted")),
        evidence=[row_of("coalescing", *_MERGED, "active", "idle", "done", "emitted")],
    )


@invariant("merging says idle when its last active input is idle or ends, and only then", _NO_STEP)
def idle_when_all_are(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """K4: merging says idle when the last input that counts is idle or ends, and only then; one finding per step."""
    wrong = F.when(F.col("emitted_idle"), "says that it is idle where it is not to").otherwise(
        "does not say that all its inputs are idle"
    )
    return findings(
        _beside(coalescing, merged),
        ok=F.col("emitted_idle") == F.col("due.emitted_idle"),
        at_ms="at_ms",
        what=phrase("{at} {wrong}", at=_at(), wrong=wrong),
        evidence=[row_of("coalescing", *_MERGED, "active", "idle", "done", "emitted_idle")],
    )


@invariant(
    "every watermark that an edge lets through reaches the merging of all edges", "no edge let a watermark through"
)
def reaches_the_instance(coalescing: DataFrame, executions: DataFrame) -> DataFrame:
    """K5: every watermark that an edge lets through reaches the merging of all edges.

    One finding per watermark of an execution that came to its end, or behind which another one got through.
    """
    came = coalescing.where("level = 'global' and stimulus = 'watermark'")
    heard = came.select(*INSTANCE, F.col("input").alias("edge"), "key", "value").distinct()
    what = "watermark {value} of key {key} that input edge {edge} of {vertex}[{instance}] let through never reached it"
    return _lost(_of_level(coalescing, "edge"), heard, [*INSTANCE, "edge"], executions, what)


@invariant("every merged watermark leaves a vertex that hands watermarks on", "no such vertex merged a watermark")
def leaves_the_instance(
    coalescing: DataFrame, items: DataFrame, queues: DataFrame, vertices: DataFrame, executions: DataFrame
) -> DataFrame:
    """K6: every merged watermark leaves a vertex that hands watermarks on, if its key can leave it.

    One finding per watermark of an execution that came to its end, or behind which another one left.
    """
    sent = _to_leave(_of_level(coalescing, "global"), vertices, *FORWARDING)
    heard = _left(items, queues).drop("put_ms").distinct()
    what = "merged watermark {value} of key {key} never left {vertex}[{instance}]"
    return _lost(sent, heard, list(INSTANCE), executions, what)


@invariant(
    "a merged watermark leaves at once where no row is held back",
    "no vertex that hands watermarks on at once merged one",
)
def leaves_at_once(
    coalescing: DataFrame, items: DataFrame, queues: DataFrame, vertices: DataFrame, executions: DataFrame
) -> DataFrame:
    """K15: where nothing is held back, a merged watermark, or a higher one, leaves in the turn in which it was merged.

    One finding per watermark, behind which there was another step or the execution came to its end. Left out are
    asynchronous steps and joins, which hold rows, and instances that wrote to a queue which was full at some time.
    """
    last = F.max("step").over(Window.partitionBy(*INSTANCE))
    steps = coalescing.where("level = 'global'").withColumn("_last", last)
    sent = _to_leave(let_through(steps, "step", "at_ms", "_last"), vertices, *FORWARDING, "custom")
    free = sent.join(_blocked(items, queues), list(INSTANCE), "anti")
    along = Window.partitionBy(*INSTANCE, "key").orderBy(F.desc("value"), F.col("put_ms").isNull())
    both = free.unionByName(_left(items, queues), allowMissingColumns=True)
    found = both.withColumn("left_ms", F.min("put_ms").over(along.rowsBetween(*SO_FAR))).where("step is not null")
    ended = executions.select("stream", "execution", (F.col("outcome") == "completed").alias("_completed"))
    due = found.join(F.broadcast(ended), ["stream", "execution"]).where(
        "_completed or step < _last or left_ms is not null"
    )
    late = F.when(F.col("left_ms").isNull(), F.lit("never left")).otherwise(phrase("left at {left_ms:ms} only"))
    return findings(
        due.withColumn("late", late),
        ok=F.coalesce(F.col("left_ms") <= F.col("at_ms"), F.lit(False)),
        at_ms="at_ms",
        what="watermark {value} of key {key}, merged by {vertex}[{instance}] at {at_ms:ms}, {late}",
        evidence=[row_of("coalescing", "vertex", "instance", "step", "at_ms", "key", "value", "left_ms")],
    )


def _of_level(coalescing: DataFrame, level: str) -> DataFrame:
    """One row per watermark that a level let through."""
    return let_through(coalescing.where(F.col("level") == level), "edge", "step", "at_ms")


def _left(items: DataFrame, queues: DataFrame) -> DataFrame:
    """The watermarks that left each instance, and when."""
    left = put_items(items, queues).where("first and kind = 'watermark'")
    return left.select(*INSTANCE, "key", "value", "put_ms")


def _to_leave(marks: DataFrame, vertices: DataFrame, *kinds: str) -> DataFrame:
    """The watermarks that vertices of these kinds hand on at once; a window holds grouped times."""
    ends = F.col("kind").isin("window", "session window")
    keys = F.map_keys(F.map_filter("keys", lambda _, column: ~ends | (column == "end")))
    named = vertices.where(F.col("kind").isin(*kinds)).select("stream", "vertex", keys.alias("_keys"))
    return marks.join(F.broadcast(named), ["stream", "vertex"]).where("array_contains(_keys, key)").drop("_keys")


def _blocked(items: DataFrame, queues: DataFrame) -> DataFrame:
    """The instances that wrote to a queue which was full at some time."""
    lane = ("stream", "execution", "queue")
    put = items.select(*lane, F.col("put_ms").alias("_at"), F.lit(1).alias("_more"))
    taken = items.where("taken_ms is not null").select(*lane, F.col("taken_ms").alias("_at"), F.lit(-1).alias("_more"))
    along = Window.partitionBy(*lane).orderBy("_at", F.desc("_more")).rowsBetween(*SO_FAR)
    lying = put.unionByName(taken).withColumn("_lying", F.sum("_more").over(along))
    of = queues.selectExpr("stream", "queue", "capacity", "source as vertex", "source_instance as instance")
    return lying.join(F.broadcast(of), ["stream", "queue"]).where("_lying >= capacity").select(*INSTANCE).distinct()


def _lost(sent: DataFrame, heard: DataFrame, place: list[str], executions: DataFrame, what: str) -> DataFrame:
    known = sent.join(heard.withColumn("_heard", F.lit(True)), [*place, "key", "value"], "left")
    found = known.withColumn("_heard", F.coalesce("_heard", F.lit(False)))
    last = F.max(F.when(F.col("_heard"), F.col("step"))).over(Window.partitionBy(*place))
    ended = executions.select("stream", "execution", (F.col("outcome") == "completed").alias("_completed"))
    due = found.withColumn("_last", last).join(F.broadcast(ended), ["stream", "execution"])
    return findings(
        due.where("_completed or step <= _last"),
        ok=F.col("_heard"),
        at_ms="at_ms",
        what=what,
        evidence=[row_of("coalescing", "vertex", "instance", "edge", "step", "at_ms", "key", "value")],
    )


def _of_merging(coalescing: DataFrame) -> DataFrame:
    return coalescing.where(F.col("level").isin("edge", "global"))


def _beside(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """The recorded steps at which a watermark, idle message or end came, each with what it should do as `due`."""
    place = F.when(F.col("level") == "edge", F.col("taken") - 1).otherwise(F.col("step"))
    edge = F.coalesce("edge", F.lit(-1)).alias("_edge")
    recorded = _of_merging(coalescing).where("stimulus != 'event'").select("*", edge, place.alias("_place"))
    due = merged.where("stimulus != 'event'").select(
        *INSTANCE, "level", edge, F.col("place").alias("_place"), F.struct("emitted", "emitted_idle").alias("due")
    )
    return recorded.join(due, [*INSTANCE, "level", "_edge", "_place"])


def _entries(emitted: str) -> Column:
    return F.sort_array(F.map_entries(emitted))


def _marks(emitted: str) -> Column:
    """Watermarks by key as one reads them: "20 of key 0"."""
    texts = F.transform(_entries(emitted), lambda mark: F.concat(mark["value"], F.lit(" of key "), mark["key"]))
    return F.when(F.size(texts) == 0, F.lit("no watermark")).otherwise(F.array_join(texts, ", "))


def _at() -> Column:
    edge = phrase("input edge {edge} of {vertex}[{instance}]")
    return F.when(F.col("level") == "edge", edge).otherwise(phrase("{vertex}[{instance}]"))
