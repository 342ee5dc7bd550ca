"""The merged watermark at every recorded step of a dataflow, and the invariants of watermarks and idle messages.

Of one key, an input asks for the highest watermark it brought, and for nothing while it is idle or after its end. The
lowest of what the inputs ask for is let through, or the highest watermark of all when none of them asks. What was let
through never goes back, so the merged watermark is the running maximum of that. An event can only lower it, so it does
not matter that upstream looks at the inputs only when a watermark, an idle message or an end comes. So windows of two
kinds answer for all keys and instances together: along the steps of each input, and along the steps of each key.

There are two levels: the queues of an edge are merged first, and the edges of an instance then.

Source: "Keyed watermark support", Description of current behavior, WM rules, Coalescing of WMs with different keys,
Handling of keyed idle messages; `wmlab.dataflow.model.coalescer`, which merges the same.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from wmlab.core.spark.schemas import typed
from wmlab.core.spark.verdict import BEFORE, SO_FAR, batch_invariant, findings, phrase, previous, row_of
from wmlab.dataflow.checks.rows import INSTANCE, let_through, outcomes, put_items
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
_FLAGS: Final = (*_STATUS, "all_idle")
"""What all inputs are together; `all_idle` counts those that have ended, too."""


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
    came = _recorded(coalescing, "edge") if deviations.event_after_special else _taken(items, queues, deviations)
    of_edges = came.join(F.broadcast(inputs), [*instance, "edge"])
    of_instances = _recorded(coalescing, "global").join(F.broadcast(edges), instance)
    return _merged(of_edges.unionByName(of_instances), deviations)


def _recorded(coalescing: DataFrame, level: str) -> DataFrame:
    """What came on the inputs of a level, by the steps that were recorded."""
    steps = coalescing.where(F.col("level") == level)
    return steps.select(*LANE, F.col("step").alias("place"), "at_ms", "taken", "input", "stimulus", "key", "value")


def _taken(items: DataFrame, queues: DataFrame, deviations: Deviations) -> DataFrame:
    """What came on the queues, by the items that were taken.

    Of an unbroken run of events only the first can end an idleness, and only behind something else; of inputs that
    events leave idle each one counts.
    """
    taken = items.where(F.col("taken").isNotNull() & F.col("kind").isin("event", *_SPECIAL))
    along = Window.partitionBy("stream", "execution", "queue").orderBy("taken")
    run = taken.withColumn("_before", F.lag("kind").over(along))
    counts = (F.col("kind") != "event") | F.col("_before").isin("idle", "watermark")
    steps = run if deviations.event_leaves_idle else run.where(counts)
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
        F.min("_idle").alias("all_idle"),
    )
    quiet = F.col("_low").isNull()
    highest = F.lit(None) if deviations.highest_held_back else F.col("_top")
    lowest = F.when(quiet, highest).when(F.col("_low") > MIN, F.col("_low"))
    if deviations.highest_held_back:
        # Then an event can raise what is due, which leaves with the next item that merging looks at.
        looks = F.col("stimulus").isin("idle", "done") | F.col("key").eqNullSafe(F.col("_key"))
        lowest = F.when(looks & (F.col("stimulus") != "event"), lowest)
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
        *(F.first(F.when(F.col("_key").isNull(), F.col(name)), ignorenulls=True).alias(name) for name in _FLAGS),
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
    one_key = deviations.watermark_wakes_one_key or deviations.keyed_idle
    if one_key or deviations.event_leaves_idle:
        # A key that appears knows which inputs are idle by then, whoever woke them; later only its own wake them.
        first = F.min(F.when(own, F.col("place"))).over(Window.partitionBy(*LANE, "_key"))
        steps = steps.withColumn("_first", first)
        early = F.col("_key").isNull() | (F.col("place") < F.col("_first"))
        events = (F.col("stimulus") == "event") & (~early if deviations.event_leaves_idle else F.lit(True))
        wakes = events | ((F.col("stimulus") == "watermark") & (own | early if one_key else F.lit(True)))
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
    if deviations.end_counts_as_active:
        quiet = quiet & F.col("all_idle")
    along = Window.partitionBy(*LANE).orderBy("place")
    goes_on = quiet & (F.col("stimulus") != "event") if deviations.event_leaves_idle else quiet
    episode = F.sum(F.when(goes_on, 0).otherwise(1)).over(along.rowsBetween(*SO_FAR))
    says = F.col("stimulus").isin(["idle"] if deviations.done_hides_idle else ["idle", "done"]) & F.col("key").isNull()
    within = Window.partitionBy(*LANE, "_episode").orderBy("place").rowsBetween(*BEFORE)
    numbered = steps.withColumns({"_episode": episode, "_says": quiet & says})
    first = ~F.coalesce(F.max("_says").over(within), F.lit(False))
    again = F.lit(deviations.idle_repeated) & (F.col("stimulus") == "idle")
    told = (F.col("_says") & (first | again)) | F.col("_of_key")
    return numbered.withColumn("emitted_idle", told).drop("_episode", "_says", "_of_key", "all_idle")


_NO_STEP: Final = "nothing was merged"
FORWARDING: Final = (
    "map", "filter", "flat map", "merge", "late drop", "stateful map", "window", "session window",
)  # fmt: skip
"""Kinds of vertices that hand on every watermark of the keys that can leave them."""
_MERGED: Final = ("vertex", "instance", "level", "edge", "step", "at_ms", "input", "stimulus", "key", "value")


@batch_invariant("the watermarks of a key strictly increase on every queue", "no queue had two watermarks of a key")
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


@batch_invariant("merging lets one idle message through until an input is active again", "no merging became idle")
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


@batch_invariant("merging lets the lowest watermark of the active inputs through, and never goes back", _NO_STEP)
def marks_merged(coalescing: DataFrame, merged: DataFrame) -> DataFrame:
    """K3: merging lets through the lowest watermark of the inputs that count, and never goes back.

    One finding per step. `merged` is what `wmlab.dataflow.checks.watermarks.coalesced` makes of the items, as designed.
    """
    what = "{at} let {emitted} through, where merging gives {due}"
    return findings(
        _beside(coalescing, merged),
        ok=_entries("emitted") == _entries("due.emitted"),
        at_ms="at_ms",
        what=phrase(what, at=_at(), emitted=_marks("emitted"), due=_marks("due.emitted")),
        evidence=[row_of("coalescing", *_MERGED, "active", "idle", "done", "emitted")],
    )


@batch_invariant("merging says idle when its last active input is idle or ends, and only then", _NO_STEP)
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


@batch_invariant(
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


@batch_invariant("every merged watermark leaves a vertex that hands watermarks on", "no such vertex merged a watermark")
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


@batch_invariant(
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
    ended = found.join(outcomes(executions), ["stream", "execution"])
    due = ended.where("completed or step < _last or left_ms is not null")
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
    due = found.withColumn("_last", last).join(outcomes(executions), ["stream", "execution"])
    return findings(
        due.where("completed or step <= _last"),
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
