"""The coalesced watermark at every recorded step of a dataflow, and the invariants of watermarks and idle messages.

What the items on the queues come to is asked of the model's own coalescer, one for each edge of an instance and one for
all its edges. The invariants are rules over the rows of one dataflow; of the items they get only those that can move
what is coalesced, see `channels.specials_of`.

Source: "Keyed watermark support", Description of current behavior, WM rules, Coalescing of WMs with different keys,
Handling of keyed idle messages; `wmlab.dataflow.model.coalescer`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text, time_text
from wmlab.core.spark.grouped import Reduced, TablesOfStream, by_stream
from wmlab.core.spark.schemas import typed
from wmlab.dataflow.checks.channels import Channels, specials_of
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import DONE, MIN, Event, FrameGrid, Idle, Item, Watermark
from wmlab.dataflow.model.processor import DESIGN, Deviations, JobFailedError
from wmlab.dataflow.tables import DATAFLOW_TABLES

ITEM_COLUMNS: Final = ("stream", "execution", "queue", "sequence", "taken_ms", "taken", "kind", "key", "value")
QUEUE_COLUMNS: Final = ("stream", "queue", "target", "target_instance", "edge", "input")
STEP_COLUMNS: Final = (
    "stream", "execution", "vertex", "instance", "step", "at_ms", "taken", "level", "edge", "input", "stimulus", "key",
    "value",
)  # fmt: skip
COALESCER: Final = ("execution", "vertex", "instance", "level", "edge")
"""What is coalesced on its own: an edge of an instance, or all edges of it."""
_INPUTS: Final = ("place", "at_ms", "taken", "input", "stimulus", "key", "value")
_COALESCED: Final = pa.schema(
    {
        name: (pa.string() if name in {"stream", "vertex", "level", "stimulus"} else pa.int64())
        for name in ("stream", *COALESCER, *_INPUTS)
    }
    | {name: pa.list_(pa.int64()) for name in ("active", "idle", "done")}
    | {name: pa.map_(pa.int64(), pa.int64()) for name in ("coalesced", "emitted")}
    | {"emitted_idle": pa.bool_()}
)
_ITEMS: Final[dict[str, Item]] = {"done": DONE, "event": Event(())}


def coalesced(
    items: DataFrame, queues: DataFrame, coalescing: DataFrame, *, deviations: Deviations = DESIGN
) -> DataFrame:
    """What coalescing has come to after every step of every instance, at the levels "edge" and "global".

    Takes the tables of a recording. At level edge a step is an item that was taken, in the order in which the instance
    took them: every watermark, idle message and end, and the events that may end an idleness. What an edge lets through
    can wait while other edges are drained, so the steps at level global are those that `coalescing` lists, of which
    only the stimulus is looked at. With the deviation `event_after_special` that holds at level edge, too, because no
    table says which items were drained together. An item that the rule refuses changes nothing.

    Returns one row per step with stream, execution, vertex, instance, level, edge (null at level global), place (orders
    the steps of a level: `items.taken` at level edge, `coalescing.step` otherwise), at_ms, taken, input, stimulus, key
    and value as in the table `coalescing`, then active, idle and done: the inputs after the step, ascending; coalesced:
    the coalesced watermark of every key that has one, by key; emitted: those that this step let through; and
    emitted_idle: whether it let an idle message through.

    Nothing is executed here. Raises `ModelError` for a column that is missing or of another type.
    Source: "Keyed watermark support", Coalescing of WMs with different keys; upstream class `KeyedWatermarkCoalescer`.
    """
    items = typed(items, "items", ITEM_COLUMNS, DATAFLOW_TABLES["items"])
    items = items.select(*ITEM_COLUMNS)
    tables: dict[str, DataFrame | Reduced] = {
        # Where rows leave an input idle, each one counts.
        "items": items if deviations.event_leaves_idle else specials_of(items),
        "queues": typed(queues, "queues", QUEUE_COLUMNS, DATAFLOW_TABLES["queues"]).select(*QUEUE_COLUMNS),
        "coalescing": typed(coalescing, "coalescing", STEP_COLUMNS, DATAFLOW_TABLES["coalescing"]).select(
            *STEP_COLUMNS
        ),
    }
    return by_stream(items.sparkSession, tables, partial(_coalesced_of_stream, deviations), _COALESCED)


def _coalesced_of_stream(deviations: Deviations, stream: str, tables: TablesOfStream) -> pa.Table:
    """As `coalesced`, of one stream; runs on an executor."""
    rows = {name: table.to_pylist() for name, table in tables.items()}
    steps = coalesced_steps(rows["items"], rows["queues"], rows["coalescing"], deviations)
    return pa.Table.from_pylist([{"stream": stream, **step} for step in steps], schema=_COALESCED)


def coalesced_steps(
    items: TableRows,
    queues: TableRows,
    coalescing: TableRows,
    deviations: Deviations = DESIGN,
) -> list[dict[str, Any]]:
    """As `coalesced`, from the rows of one stream; of the items it takes those of `specials_of`."""
    inputs: dict[tuple[Any, ...], set[int]] = {}
    targets = {}
    for queue in queues:
        instance = targets[queue["queue"]] = queue["target"], queue["target_instance"]
        inputs.setdefault((*instance, "edge", queue["edge"]), set()).add(queue["input"])
        inputs.setdefault((*instance, "global", None), set()).add(queue["edge"])
    levels = ("edge", "global") if deviations.event_after_special else ("global",)
    came: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in coalescing:
        if row["level"] in levels:
            step = {name: row[name] for name in _INPUTS[1:]} | {"place": row["step"]}
            came.setdefault(tuple(row[name] for name in COALESCER), []).append(step)
    edges = {queue["queue"]: (queue["edge"], queue["input"]) for queue in queues}
    for item in items if "edge" not in levels else ():
        if item["taken"] is not None and item["kind"] != "barrier":
            edge, number = edges[item["queue"]]
            step = {"place": item["taken"], "at_ms": item["taken_ms"], "taken": item["taken"] + 1, "input": number}
            step |= {"stimulus": item["kind"], "key": item["key"], "value": item["value"]}
            came.setdefault((item["execution"], *targets[item["queue"]], "edge", edge), []).append(step)
    return [
        dict(zip(COALESCER, coalescer_key, strict=True)) | step
        for coalescer_key, steps in came.items()
        for step in _followed(sorted(steps, key=itemgetter("place")), len(inputs[coalescer_key[1:]]), deviations)
    ]


def _followed(steps: Iterable[dict[str, Any]], inputs: int, deviations: Deviations) -> Iterator[dict[str, Any]]:
    """The steps of one coalescer of so many inputs, each with what it comes to."""
    coalescer = KeyedCoalescer(inputs, deviations)
    for step in steps:
        item = _ITEMS.get(step["stimulus"])
        if item is None:
            key = step["key"]
            item = Idle(key) if step["stimulus"] == "idle" else Watermark(key, step["value"])
        emitted: Sequence[Item] = ()
        with suppress(JobFailedError):
            emitted = coalescer.step(step["input"], item)
        yield step | {
            "active": sorted({*range(inputs)} - coalescer.idle - coalescer.done),
            "idle": sorted(coalescer.idle - coalescer.done),
            "done": sorted(coalescer.done),
            "coalesced": {key: of_key.last for key, of_key in coalescer.keys.items() if of_key.last != MIN},
            "emitted": {item.key: item.value for item in emitted if isinstance(item, Watermark)},
            "emitted_idle": any(isinstance(item, Idle) for item in emitted),
        }


_NO_STEP: Final = "nothing was merged"
FORWARDING: Final = (
    "map", "filter", "flat map", "merge", "late drop", "stateful map", "window", "session window", "hash join",
)  # fmt: skip
"""Kinds of vertices that hand on every watermark of the keys that can leave them."""
_INSTANCE: Final = ("execution", "vertex", "instance")
_STEP: Final = ("vertex", "instance", "level", "edge", "step", "at_ms", "input", "stimulus", "key", "value")


@invariant("the watermarks of a key strictly increase on every queue", "no queue had two watermarks of a key")
def watermarks_increase(specials: TableRows, queues: TableRows) -> Iterator[Finding]:
    """K1: on every queue each watermark of a key is above the one before; one finding per pair of neighbours."""
    ends = {queue["queue"]: {name: queue[name] for name in ("source", "target")} for queue in queues}
    watermarks: dict[tuple[int, ...], list[TableRow]] = {}
    for item in sorted(specials, key=itemgetter("sequence")):
        if item["kind"] == "watermark":
            where = item["execution"], item["queue"], item["key"]
            watermarks.setdefault(where, []).append({**item, **ends[item["queue"]]})
    for along in watermarks.values():
        for before, item in pairwise(along):
            if item["value"] > before["value"]:
                yield Finding(True, item["put_ms"])
                continue
            what = (
                f"watermark {item['value']} of key {item['key']} from {name_text(item['source'])} to "
                f"{name_text(item['target'])} is not above {before['value']}, which came before it"
            )
            columns = ("execution", "queue", "source", "target", "key", "sequence", "put_ms", "value")
            proof = [Evidence.of("items", row, *columns) for row in (before, item)]
            yield Finding(False, item["put_ms"], what, proof)


@invariant("merging lets one idle message through until an input is active again", "no merging became idle")
def idle_once(coalescing: TableRows) -> Iterator[Finding]:
    """K2: merging lets one idle message through until an input is active again; one finding per idle message."""
    said: dict[tuple[Any, ...], TableRow] = {}
    for step in sorted(_of_queues_and_edges(coalescing), key=itemgetter("step")):
        coalescer_key = tuple(step[name] for name in COALESCER)
        if step["active"]:
            said.pop(coalescer_key, None)
        if not step["emitted_idle"]:
            continue
        before, said[coalescer_key] = said.get(coalescer_key), step
        if before is None:
            yield Finding(True, step["at_ms"])
            continue
        where = ("vertex", "instance", "level", "edge")
        proof = [
            Evidence.of("coalescing", before, *where, "step", "at_ms"),
            Evidence.of("coalescing", step, *where, "step", "at_ms", "input", "stimulus", "idle", "done"),
        ]
        what = f"{_at(step)} says again that it is idle, though no input was active in between"
        yield Finding(False, step["at_ms"], what, proof)


@invariant("merging lets the lowest watermark of the active inputs through, and never goes back", _NO_STEP)
def watermarks_coalesced(coalescing: TableRows, due: TableRows) -> Iterator[Finding]:
    """K3: merging lets through the lowest watermark of the inputs that count, and never goes back.

    One finding per step. `due` is what `coalesced_steps` makes of the items, as designed.
    """
    for step, designed in _beside(coalescing, due):
        if step["emitted"] == designed["emitted"]:
            yield Finding(True, step["at_ms"])
            continue
        what = f"{_at(step)} let {_text(step['emitted'])} through, where merging gives {_text(designed['emitted'])}"
        proof = [Evidence.of("coalescing", step, *_STEP, "active", "idle", "done", "emitted")]
        yield Finding(False, step["at_ms"], what, proof)


@invariant("merging says idle when its last active input is idle or ends, and only then", _NO_STEP)
def idle_when_all_are(coalescing: TableRows, due: TableRows) -> Iterator[Finding]:
    """K4: merging says idle when the last input that counts is idle or ends, and only then; one finding per step."""
    for step, designed in _beside(coalescing, due):
        if step["emitted_idle"] == designed["emitted_idle"]:
            yield Finding(True, step["at_ms"])
            continue
        early = "says that it is idle where it is not to"
        wrong = early if step["emitted_idle"] else "does not say that all its inputs are idle"
        proof = [Evidence.of("coalescing", step, *_STEP, "active", "idle", "done", "emitted_idle")]
        yield Finding(False, step["at_ms"], f"{_at(step)} {wrong}", proof)


@invariant(
    "every watermark that an edge lets through reaches the merging of all edges", "no edge let a watermark through"
)
def reaches_the_instance(coalescing: TableRows, executions: TableRows) -> Iterator[Finding]:
    """K5: every watermark that an edge lets through reaches the merging of all edges.

    One finding per watermark of an execution that came to its end, or behind which another one got through.
    """
    received = {
        (*(step[name] for name in _INSTANCE), step["input"], step["key"], step["value"])
        for step in coalescing
        if (step["level"], step["stimulus"]) == ("global", "watermark")
    }
    yield from _reach(
        _emitted(coalescing, "edge"),
        received,
        executions,
        "that input edge {edge} of {at} let through never reached it",
    )


@invariant("every merged watermark leaves a vertex that hands watermarks on", "no such vertex merged a watermark")
def leaves_the_instance(
    coalescing: TableRows,
    specials: TableRows,
    queues: TableRows,
    vertices: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K6: every merged watermark leaves a vertex that hands watermarks on, if its key can leave it.

    One finding per watermark of an execution that came to its end, or behind which another one left.
    """
    keys = _keys_handed_on(vertices, {*FORWARDING})
    merged = _on_grids(_emitted(coalescing, "global"), vertices)
    sent = [entry for entry in merged if entry["key"] in keys.get(entry["vertex"], ())]
    sources = {queue["queue"]: (queue["source"], queue["source_instance"]) for queue in queues}
    left = {
        (item["execution"], *sources[item["queue"]], None, item["key"], item["value"])
        for item in specials
        if item["kind"] == "watermark"
    }
    yield from _reach(sent, left, executions, "never left {at}")


def _emitted(coalescing: TableRows, level: str) -> list[dict[str, Any]]:
    """Each watermark that a level let through, with the columns of its step."""
    return [
        {**step, "key": key, "value": value}
        for step in coalescing
        if step["level"] == level
        for key, value in step["emitted"].items()
    ]


def _on_grids(merged: Iterable[dict[str, Any]], vertices: TableRows) -> list[dict[str, Any]]:
    """Merged watermarks with the value that may leave their vertex, which is the last one of its grid."""
    grids = {row["vertex"]: FrameGrid(row["grid"]) for row in vertices if row.get("grid") is not None}
    return [
        {**entry, "value": grids[entry["vertex"]].floor(entry["value"])} if entry["vertex"] in grids else entry
        for entry in merged
    ]


def _reach(sent: TableRows, received: Set[tuple[Any, ...]], executions: TableRows, what: str) -> Iterator[Finding]:
    """A finding for each watermark that had to get further; `received` are those that did."""
    completed = {row["execution"] for row in executions if row["outcome"] == "completed"}
    known = {row["execution"] for row in executions}
    ways: dict[tuple[Any, ...], list[tuple[TableRow, bool]]] = {}
    for entry in sent:
        way = (*(entry[name] for name in _INSTANCE), entry["edge"])
        ways.setdefault(way, []).append((entry, (*way, entry["key"], entry["value"]) in received))
    for entries in ways.values():
        last = max((entry["step"] for entry, reached in entries if reached), default=-1)
        for entry, reached in entries:
            if entry["execution"] not in known or (entry["execution"] not in completed and entry["step"] > last):
                continue
            if reached:
                yield Finding(True, entry["at_ms"])
                continue
            where = what.format(edge=entry["edge"], at=f"{name_text(entry['vertex'])}[{entry['instance']}]")
            verb = f"watermark {entry['value']} of key {entry['key']} {where}"
            columns = ("vertex", "instance", "edge", "step", "at_ms", "key", "value")
            said = verb if entry["edge"] is not None else f"merged {verb}"
            yield Finding(False, entry["at_ms"], said, [Evidence.of("coalescing", entry, *columns)])


def _of_queues_and_edges(coalescing: TableRows) -> Iterator[TableRow]:
    return (step for step in coalescing if step["level"] != "partition")


def _beside(coalescing: TableRows, due: TableRows) -> Iterator[tuple[TableRow, TableRow]]:
    """The recorded steps at which a watermark, idle message or end came, each with what it should do."""
    designed = {
        (*(step[name] for name in COALESCER), step["place"]): step for step in due if step["stimulus"] != "event"
    }
    for step in _of_queues_and_edges(coalescing):
        position = step["taken"] - 1 if step["level"] == "edge" else step["step"]
        known = designed.get((*(step[name] for name in COALESCER), position))
        if step["stimulus"] != "event" and known is not None:
            yield step, known


def _text(watermarks: Mapping[int, int]) -> str:
    """Watermarks by key as one reads them: "20 of key 0"."""
    return ", ".join(f"{value} of key {key}" for key, value in sorted(watermarks.items())) or "no watermark"


def _at(step: TableRow) -> str:
    instance = f"{name_text(step['vertex'])}[{step['instance']}]"
    return f"input edge {step['edge']} of {instance}" if step["level"] == "edge" else instance


@invariant(
    "a merged watermark leaves at once where no row is held back",
    "no vertex that hands watermarks on at once merged one",
)
def leaves_at_once(
    coalescing: TableRows,
    specials: TableRows,
    channels: Channels,
    queue_loads: TableRows,
    queues: TableRows,
    vertices: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K15: where nothing is held back, a merged watermark, or a higher one, leaves in the turn in which it was merged.

    One finding per watermark, behind which there was another step or the execution came to its end. Left out are
    asynchronous steps and joins, which hold rows, processors of one's own that get the watermarks of each input, and
    instances that wrote to a queue which was full at some time.
    """
    completed = {row["execution"]: row["outcome"] == "completed" for row in executions}
    capacity = {queue["queue"]: queue["capacity"] for queue in queues}
    blocked = {
        (load["execution"], *channels.source[load["queue"]])
        for load in queue_loads
        if load["most"] >= capacity[load["queue"]]
    }
    keys = _keys_handed_on(vertices, {*FORWARDING, "custom"})
    last: dict[tuple[Any, ...], int] = {}
    for step in coalescing:
        if step["level"] == "global":
            instance = tuple(step[name] for name in _INSTANCE)
            last[instance] = max(last.get(instance, step["step"]), step["step"])
    departures = {instance: _Departures(items) for instance, items in channels.sent(specials, "watermark").items()}
    for entry in _on_grids(_emitted(coalescing, "global"), vertices):
        instance = tuple(entry[name] for name in _INSTANCE)
        handed_on = entry["key"] in keys.get(entry["vertex"], ()) and instance not in blocked
        if not handed_on or entry["execution"] not in completed:
            continue
        left_ms = departures[instance].at_least(entry["key"], entry["value"]) if instance in departures else None
        if completed[entry["execution"]] or entry["step"] < last[instance] or left_ms is not None:
            yield _left_at_once(entry, left_ms)


def _left_at_once(entry: TableRow, left_ms: int | None) -> Finding:
    """Whether a merged watermark, or a higher one, left in the millisecond in which it was merged."""
    if left_ms is not None and left_ms <= entry["at_ms"]:
        return Finding(True, entry["at_ms"])
    late = "never left" if left_ms is None else f"left at {time_text(left_ms)} only"
    what = (
        f"watermark {entry['value']} of key {entry['key']}, merged by {name_text(entry['vertex'])}"
        f"[{entry['instance']}] at {time_text(entry['at_ms'])}, {late}"
    )
    columns = ("vertex", "instance", "step", "at_ms", "key", "value")
    return Finding(False, entry["at_ms"], what, [Evidence.of("coalescing", entry, *columns, left_ms=left_ms)])


class _Departures:
    """When the watermarks of one instance left it."""

    def __init__(self, items: TableRows) -> None:
        by_key: dict[int, list[tuple[int, int]]] = {}
        for item in items:
            by_key.setdefault(item["key"], []).append((item["value"], item["put_ms"]))
        self.values: dict[int, list[int]] = {}
        self.earliest_ms: dict[int, list[int]] = {}
        for key, sent in by_key.items():
            ordered = sorted(sent)
            self.values[key] = [value for value, _ in ordered]
            self.earliest_ms[key] = [*accumulate((put_ms for _, put_ms in reversed(ordered)), min)][::-1]

    def at_least(self, key: int, value: int) -> int | None:
        """When the first watermark of a key left that has this value or a higher one (ms); None: none did."""
        index = bisect_left(self.values.get(key, []), value)
        earliest_ms = self.earliest_ms.get(key, [])
        return earliest_ms[index] if index < len(earliest_ms) else None


def _keys_handed_on(vertices: TableRows, kinds: Set[str]) -> dict[str, set[int]]:
    """The keys whose watermarks vertices of these kinds hand on at once; a window holds grouped times."""
    return {
        row["vertex"]: {key for key, column in row["keys"].items() if column == "end" or "window" not in row["kind"]}
        for row in vertices
        if row["kind"] in kinds
    }
