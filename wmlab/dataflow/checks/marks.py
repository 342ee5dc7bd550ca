"""Invariants of watermarks and idle messages: strictly increasing, merged as designed, said once, and never lost.

Source: "Keyed watermark support", WM rules, Coalescing of WMs with different keys, Handling of keyed idle messages.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.findings import findings, row_of, say
from wmlab.dataflow.checks.coalesced import LANE
from wmlab.dataflow.checks.items import INSTANCE, put_items

FORWARDING: Final = (
    "map", "filter", "flat map", "merge", "late drop", "stateful map", "window", "session window",
)  # fmt: skip
"""Kinds of vertices that hand on every watermark of the keys that can leave them."""
_MERGED: Final = ("vertex", "instance", "level", "edge", "step", "at_ms", "input", "stimulus", "key", "value")


def marks_increase(items: DataFrame, queues: DataFrame) -> DataFrame:
    """K1: on every queue each watermark of a key is above the one before; one finding per pair of neighbours."""
    lane = Window.partitionBy("stream", "execution", "queue", "key").orderBy("sequence")
    earlier = F.lag(F.struct("sequence", "put_ms", "value")).over(lane)
    marks = items.where(F.col("kind") == "watermark").withColumn("before", earlier).where("before is not null")
    named = marks.join(F.broadcast(queues.select("stream", "queue", "source", "target")), ["stream", "queue"])
    place = ("execution", "queue", "source", "target", "key")
    first = [F.col(f"before.{name}").alias(name) for name in ("sequence", "put_ms", "value")]
    what = say(
        "watermark ", F.col("value"), " of key ", F.col("key"), " from ", F.col("source"), " to ", F.col("target"),
        " is not above ", F.col("before.value"), ", which came before it",
    )  # fmt: skip
    rows = [row_of("items", *place, *first), row_of("items", *place, "sequence", "put_ms", "value")]
    ok = F.col("value") > F.col("before.value")
    return findings(named, ok=ok, at_ms=F.col("put_ms"), what=what, evidence=rows)


def idle_once(coalescing: DataFrame) -> DataFrame:
    """K2: merging lets one idle message through until an input is active again; one finding per idle message."""
    steps = _of_merging(coalescing)
    along = Window.partitionBy(*LANE).orderBy("step").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    episode = F.sum((F.size("active") > 0).cast("long")).over(along)
    said = steps.withColumn("_episode", episode).where("emitted_idle")
    before = F.lag(F.struct("step", "at_ms")).over(Window.partitionBy(*LANE, "_episode").orderBy("step"))
    told = said.withColumn("_before", before)
    place = ("vertex", "instance", "level", "edge")
    rows = [
        row_of("coalescing", *place, F.col("_before.step").alias("step"), F.col("_before.at_ms").alias("at_ms")),
        row_of("coalescing", *place, "step", "at_ms", "input", "stimulus", "idle", "done"),
    ]
    what = say(_at(), " says again that it is idle, though no input was active in between")
    return findings(told, ok=F.col("_before").isNull(), at_ms=F.col("at_ms"), what=what, evidence=rows)


def marks_merged(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """K3: merging lets through the lowest watermark of the inputs that count, and never goes back.

    One finding per step. `merged` is what `wmlab.dataflow.checks.coalesced.coalesced` makes of the items, as designed.
    """
    both = _beside(coalescing, merged)
    ok = _entries("emitted") == _entries("due.emitted")
    what = say(_at(), " let ", _marks("emitted"), " through, where merging gives ", _marks("due.emitted"))
    return findings(both, ok=ok, at_ms=F.col("at_ms"), what=what, evidence=_proof("emitted"))


def idle_when_all_are(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """K4: merging says idle when the last input that counts is idle or ends, and only then; one finding per step."""
    both = _beside(coalescing, merged)
    ok = F.col("emitted_idle") == F.col("due.emitted_idle")
    told = F.when(F.col("emitted_idle"), " says that it is idle where it is not to").otherwise(
        " does not say that all its inputs are idle"
    )
    rows = _proof("emitted_idle")
    return findings(both, ok=ok, at_ms=F.col("at_ms"), what=say(_at(), told), evidence=rows)


def reaches_the_instance(coalescing: DataFrame, executions: DataFrame) -> DataFrame:
    """K5: every watermark that an edge lets through reaches the merging of all edges.

    One finding per watermark of an execution that came to its end, or behind which another one got through.
    """
    sent = _let_through(coalescing, "edge")
    came = coalescing.where((F.col("level") == "global") & (F.col("stimulus") == "watermark"))
    heard = came.select(*INSTANCE, F.col("input").alias("edge"), F.col("key").alias("_key"), "value").distinct()
    what = say(
        "watermark ", F.col("value"), " of key ", F.col("_key"), " that input edge ", F.col("edge"), " of ",
        _instance(), " let through never reached it",
    )  # fmt: skip
    return _lost(sent, heard, [*INSTANCE, "edge"], executions, what)


def leaves_the_instance(
    coalescing: DataFrame, items: DataFrame, queues: DataFrame, vertices: DataFrame, executions: DataFrame
) -> DataFrame:
    """K6: every merged watermark leaves a vertex that hands watermarks on, if its key can leave it.

    One finding per watermark of an execution that came to its end, or behind which another one left.
    """
    kinds = vertices.where(F.col("kind").isin(*FORWARDING)).select(
        "stream", "vertex", F.map_keys("keys").alias("_keys")
    )
    sent = _let_through(coalescing, "global").join(F.broadcast(kinds), ["stream", "vertex"])
    left = put_items(items, queues).where(F.col("first") & (F.col("kind") == "watermark"))
    heard = left.select(*INSTANCE, F.col("key").alias("_key"), "value").distinct()
    what = say("merged watermark ", F.col("value"), " of key ", F.col("_key"), " never left ", _instance())
    return _lost(sent.where(F.array_contains("_keys", F.col("_key"))), heard, list(INSTANCE), executions, what)


def _let_through(coalescing: DataFrame, level: str) -> DataFrame:
    """One row per watermark that a level let through: its key as `_key` and `value`."""
    steps = coalescing.where(F.col("level") == level)
    return steps.select(*INSTANCE, "edge", "step", "at_ms", F.explode("emitted").alias("_key", "value"))


def _lost(sent: DataFrame, heard: DataFrame, place: list[str], executions: DataFrame, what: Column) -> DataFrame:
    told = heard.withColumn("_heard", F.lit(True))
    found = sent.join(told, [*place, "_key", "value"], "left").withColumn("_heard", F.coalesce("_heard", F.lit(False)))
    last = F.max(F.when(F.col("_heard"), F.col("step"))).over(Window.partitionBy(*place))
    ended = executions.select("stream", "execution", (F.col("outcome") == "completed").alias("_completed"))
    due = found.withColumn("_last", last).join(F.broadcast(ended), ["stream", "execution"])
    judged = due.where(F.col("_completed") | (F.col("step") <= F.col("_last")))
    proof = row_of("coalescing", "vertex", "instance", "edge", "step", "at_ms", F.col("_key").alias("key"), "value")
    return findings(judged, ok=F.col("_heard"), at_ms=F.col("at_ms"), what=what, evidence=[proof])


def _of_merging(coalescing: DataFrame) -> DataFrame:
    return coalescing.where(F.col("level").isin("edge", "global"))


def _beside(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """The recorded steps at which a watermark, idle message or end came, each with what it should do as `due`."""
    place = F.when(F.col("level") == "edge", F.col("taken") - 1).otherwise(F.col("step"))
    recorded = _of_merging(coalescing).where(F.col("stimulus") != "event")
    lane = [*INSTANCE, "level", "_edge", "_place"]
    edge = F.coalesce("edge", F.lit(-1)).alias("_edge")
    due = merged.where(F.col("stimulus") != "event").select(
        *INSTANCE, "level", edge, F.col("place").alias("_place"), F.struct("emitted", "emitted_idle").alias("due")
    )
    return recorded.select("*", edge, place.alias("_place")).join(due, lane)


def _entries(emitted: str) -> Column:
    return F.sort_array(F.map_entries(emitted))


def _marks(emitted: str) -> Column:
    """Watermarks by key as one reads them: "20 of key 0"."""
    told = F.transform(_entries(emitted), lambda one: F.concat(one["value"], F.lit(" of key "), one["key"]))
    return F.when(F.size(told) == 0, F.lit("no watermark")).otherwise(F.array_join(told, ", "))


def _proof(column: str) -> list[Column]:
    return [row_of("coalescing", *_MERGED, "active", "idle", "done", column)]


def _instance() -> Column:
    return F.concat(F.col("vertex"), F.lit("["), F.col("instance"), F.lit("]"))


def _at() -> Column:
    edge = F.concat(F.lit("input edge "), F.col("edge"), F.lit(" of "), _instance())
    return F.when(F.col("level") == "edge", edge).otherwise(_instance())
