"""The merged watermark of every key at every recorded step of a dataflow, from what came on every input.

Of one key, an input asks for the highest watermark it brought, and for nothing while it is idle or after its end. The
lowest of what the inputs ask for is let through, or the highest watermark of all when none of them asks. What was let
through never goes back, so the merged watermark is the running maximum of that. An event can only lower it, so it does
not matter that upstream looks at the inputs only when a watermark, an idle message or an end comes. So windows of two
kinds answer for all keys and instances together: along the steps of each input, and along the steps of each key.

There are two levels: the queues of an edge are merged first, and the edges of an instance then.

Source: "Keyed watermark support", Description of current behavior and Handling of keyed idle messages;
`wmlab.dataflow.model.coalescer`, which gives the same.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import typed
from wmlab.core.spark.verdict import BEFORE, SO_FAR
from wmlab.dataflow.model.items import MIN
from wmlab.dataflow.model.processor import DESIGN, Deviations
from wmlab.dataflow.tables import DATAFLOW_TABLES

ITEM_COLUMNS: Final = ("stream", "execution", "queue", "taken_ms", "taken", "kind", "key", "value")
QUEUE_COLUMNS: Final = ("stream", "queue", "target", "target_instance", "edge", "input")
STEP_COLUMNS: Final = (
    "stream", "execution", "vertex", "instance", "step", "at_ms", "taken", "level", "edge", "input", "stimulus", "key",
    "value",
)  # fmt: skip
LANE: Final = ("stream", "execution", "vertex", "instance", "level", "edge")
"""What merges on its own: an edge of an instance, or all edges of it."""
_STEP: Final = (*LANE, "place", "at_ms", "taken", "input", "stimulus", "key", "value")
_SPECIAL: Final = ("watermark", "idle", "done")
_STATUS: Final = ("active", "idle", "done")


def coalesced(
    items: DataFrame, queues: DataFrame, coalescing: DataFrame, *, deviations: Deviations = DESIGN
) -> DataFrame:
    """What merging has come to after every step of every instance, at the levels "edge" and "global".

    Takes the tables of a recording. At level edge a step is an item that was taken, in the order in which the instance
    took them: every watermark, idle message and end, and the events that may end an idleness. What an edge lets through
    can wait while other edges are drained, so the steps at level global are those that `coalescing` lists, of which
    only the stimulus is looked at. With the deviation `event_after_special` that holds at level edge, too, because no
    table says which items were drained together.

    Returns one row per step with stream, execution, vertex, instance, level, edge (null at level global), place (orders
    the steps of a level: `items.taken` at level edge, `coalescing.step` otherwise), at_ms, taken, input, stimulus, key
    and value as in the table `coalescing`, then active, idle and done: the inputs after the step, ascending; coalesced:
    the merged watermark of every key that has one, by key; emitted: those that this step let through; and emitted_idle:
    whether it let an idle message through.

    Nothing is executed here. Raises `ModelError` for a column that is missing or of another type.
    Source: "Keyed watermark support", Coalescing of WMs with different keys; upstream class `KeyedWatermarkCoalescer`.
    """
    items = typed(items, "items", ITEM_COLUMNS, DATAFLOW_TABLES["items"])
    queues = typed(queues, "queues", QUEUE_COLUMNS, DATAFLOW_TABLES["queues"])
    coalescing = typed(coalescing, "coalescing", STEP_COLUMNS, DATAFLOW_TABLES["coalescing"])
    named = queues.withColumnsRenamed({"target": "vertex", "target_instance": "instance"})
    instance = ["stream", "vertex", "instance"]
    edges = named.groupBy(*instance).agg(F.collect_set("edge").alias("inputs"))
    inputs = named.groupBy(*instance, "edge").agg(F.collect_set("input").alias("inputs"))
    came = _recorded(coalescing, "edge") if deviations.event_after_special else _taken(items, queues)
    of_edges = came.join(F.broadcast(inputs), [*instance, "edge"])
    of_instances = _recorded(coalescing, "global").join(F.broadcast(edges), instance)
    return _merged(of_edges.unionByName(of_instances), deviations)


def _recorded(coalescing: DataFrame, level: str) -> DataFrame:
    """What came on the inputs of a level, by the steps that were recorded."""
    steps = coalescing.where(F.col("level") == level)
    return steps.select(*LANE, F.col("step").alias("place"), "at_ms", "taken", "input", "stimulus", "key", "value")


def _taken(items: DataFrame, queues: DataFrame) -> DataFrame:
    """What came on the queues, by the items that were taken.

    Of an unbroken run of events only the first can end an idleness, and only behind something else.
    """
    taken = items.where(F.col("taken").isNotNull() & F.col("kind").isin("event", *_SPECIAL))
    along = Window.partitionBy("stream", "execution", "queue").orderBy("taken")
    run = taken.withColumn("_before", F.lag("kind").over(along))
    steps = run.where((F.col("kind") != "event") | F.col("_before").isin("idle", "watermark"))
    return steps.join(F.broadcast(queues.select(*QUEUE_COLUMNS)), ["stream", "queue"]).selectExpr(
        "stream", "execution", "target as vertex", "target_instance as instance", "'edge' as level", "edge",
        "taken as place", "taken_ms as at_ms", "taken + 1 as taken", "input", "kind as stimulus", "key", "value",
    )  # fmt: skip


def _merged(steps: DataFrame, deviations: Deviations) -> DataFrame:
    """The rule: from what came (`_STEP`, and the `inputs` of the lane) to what is let through."""
    keys = F.collect_set("key").over(Window.partitionBy(*LANE))
    # The key null stands for none: it says which inputs are idle, also where no key has come.
    every = steps.withColumn("_keys", F.concat(keys, F.array(F.lit(None).cast("long"))))
    for_key = every.withColumn("_key", F.explode("_keys")).withColumn("_place", F.explode("inputs"))
    inputs = _each_input(for_key, deviations)
    counts = ~F.col("_idle") & ~F.col("_done")
    wanted = inputs.groupBy(*_STEP, "_key").agg(
        F.min(F.when(counts, F.coalesce("_mark", F.lit(MIN)))).alias("_low"),
        F.max("_mark").alias("_top"),
        _listed(counts).alias("active"),
        _listed(F.col("_idle") & ~F.col("_done")).alias("idle"),
        _listed(F.col("_done")).alias("done"),
    )
    quiet = F.col("_low").isNull()
    lowest = F.when(quiet, F.col("_top")).when(F.col("_low") > MIN, F.col("_low"))
    by_key = Window.partitionBy(*LANE, "_key").orderBy("place")
    through = wanted.withColumn("_due", lowest).withColumns(
        {
            "_merged": F.max("_due").over(by_key.rowsBetween(*SO_FAR)),
            "_was": F.max("_due").over(by_key.rowsBetween(*BEFORE)),
            "_silenced": quiet & ~F.lag(quiet, 1, False).over(by_key),
        }
    )
    of_key = (F.col("stimulus") == "idle") & (F.col("key") == F.col("_key")) & F.col("_silenced")
    moved = F.col("_merged").isNotNull() & ~F.col("_merged").eqNullSafe(F.col("_was"))
    whole = through.groupBy(*_STEP).agg(
        *(F.first(F.when(F.col("_key").isNull(), F.col(name)), ignorenulls=True).alias(name) for name in _STATUS),
        _by_key(F.col("_merged").isNotNull()).alias("coalesced"),
        _by_key(moved).alias("emitted"),
        F.coalesce(F.max(of_key), F.lit(False)).alias("_of_key"),
    )
    return _with_idle(whole, deviations)


def _each_input(steps: DataFrame, deviations: Deviations) -> DataFrame:
    """Adds what input `_place` is for key `_key` after the step: `_idle`, `_done`, and its last watermark `_mark`."""
    mine = F.col("input") == F.col("_place")
    own = F.col("key").eqNullSafe(F.col("_key"))
    wakes = (F.col("stimulus") == "event") | (F.col("stimulus") == "watermark")
    if deviations.watermark_wakes_one_key or deviations.keyed_idle:
        # A key that appears knows which inputs are idle by then, whoever woke them; later only its own wake them.
        first = F.min(F.when(own, F.col("place"))).over(Window.partitionBy(*LANE, "_key"))
        steps = steps.withColumn("_first", first)
        early = F.col("_key").isNull() | (F.col("place") < F.col("_first"))
        wakes = (F.col("stimulus") == "event") | ((F.col("stimulus") == "watermark") & (own | early))
    idles = (F.col("stimulus") == "idle") & (F.col("key").isNull() | own)
    says = F.when(mine & idles, F.lit(True)).when(mine & wakes, F.lit(False))
    so_far = Window.partitionBy(*LANE, "_key", "_place").orderBy("place").rowsBetween(*SO_FAR)
    return steps.withColumns(
        {
            "_idle": F.coalesce(F.last(says, ignorenulls=True).over(so_far), F.lit(False)),
            "_done": F.max(mine & (F.col("stimulus") == "done")).over(so_far),
            "_mark": F.max(F.when(mine & (F.col("stimulus") == "watermark") & own, F.col("value"))).over(so_far),
        }
    )


def _listed(which: Column) -> Column:
    return F.sort_array(F.collect_list(F.when(which, F.col("_place"))))


def _by_key(which: Column) -> Column:
    """A map from key to merged watermark, of the keys for which `which` holds, ascending."""
    entry = F.struct(F.col("_key").alias("key"), F.col("_merged").alias("value"))
    return F.map_from_entries(F.sort_array(F.collect_list(F.when(F.col("_key").isNotNull() & which, entry))))


def _with_idle(steps: DataFrame, deviations: Deviations) -> DataFrame:
    """Adds `emitted_idle`: an idle message or an end has left only idle inputs, which was not said since they are.

    The idle message of a key goes on when it leaves no input that counts for that key.
    """
    quiet = (F.size("active") == 0) & (F.size("idle") > 0)
    along = Window.partitionBy(*LANE).orderBy("place")
    episode = F.sum(F.when(quiet, 0).otherwise(1)).over(along.rowsBetween(*SO_FAR))
    says = F.col("stimulus").isin(["idle"] if deviations.done_hides_idle else ["idle", "done"]) & F.col("key").isNull()
    within = Window.partitionBy(*LANE, "_episode").orderBy("place").rowsBetween(*BEFORE)
    numbered = steps.withColumns({"_episode": episode, "_says": quiet & says})
    first = ~F.coalesce(F.max("_says").over(within), F.lit(False))
    again = F.lit(deviations.idle_repeated) & (F.col("stimulus") == "idle")
    told = (F.col("_says") & (first | again)) | F.col("_of_key")
    return numbered.withColumn("emitted_idle", told).drop("_episode", "_says", "_of_key")
