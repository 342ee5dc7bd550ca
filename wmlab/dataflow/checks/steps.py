"""The steps of coalescing of a recorded dataflow, and the result of each.

A level with one input is not recorded by sound rules and by the design: what comes out of it is what came in. Its steps
are those of the items on its queue. The model's own coalescer computes the result for the items of any level, one for
each edge of an instance and one for all its edges.

Source: "Keyed watermark support", Description of current behavior, Coalescing of WMs with different keys;
`wmlab.dataflow.model.coalescer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from operator import itemgetter
from typing import Any, Final

from wmlab.core.grouping import rows_by
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import DONE, MIN, Idle, Item, Watermark
from wmlab.dataflow.model.processor import SOUND, Deviations, JobFailedError

Row = Mapping[str, Any]
_INSTANCE: Final = ("execution", "vertex", "instance")
COALESCER: Final = ("execution", "vertex", "instance", "level", "edge")
"""What is coalesced on its own: an edge of an instance, or all edges of it."""
STEP_INPUTS: Final = ("place", "at_ms", "taken", "input", "stimulus", "key", "value")
_ITEMS: Final[dict[str, Item]] = {"done": DONE, "event": ()}


def all_steps(items: Sequence[Row], queues: Sequence[Row], coalescing: Sequence[Row]) -> Sequence[Row]:
    """The steps at all levels, also those with one input, of one stream; in the order of the clock.

    Maps are dicts. A step of a level with one input has the number that the recorded ones leave free, and happens when
    its item is taken. If such a level is recorded, so are all, and the table is returned as it is.
    """
    of_edge = Counter((queue["target"], queue["target_instance"], queue["edge"]) for queue in queues)
    of_instance = Counter((queue["target"], queue["target_instance"]) for queue in queues)
    alone = {
        queue["queue"]: queue
        for queue in queues
        if of_edge[queue["target"], queue["target_instance"], queue["edge"]] == 1
    }
    edges = {(queue["target"], queue["target_instance"], queue["edge"]) for queue in alone.values()}
    if any(
        step["level"] == "edge" and (step["vertex"], step["instance"], step["edge"]) in edges for step in coalescing
    ):
        return coalescing
    taken = (i for i in items if i["queue"] in alone and i["taken"] is not None and i["kind"] != "barrier")
    steps = rows_by(coalescing, itemgetter(*_INSTANCE))
    derived: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for (execution, number), on_queue in rows_by(taken, itemgetter("execution", "queue")).items():
        queue = alone[number]
        instance = queue["target"], queue["target_instance"]
        where = {"stream": queue["stream"]} | dict(zip(_INSTANCE, (execution, *instance), strict=True))
        in_order = sorted(on_queue, key=itemgetter("taken"))
        made = _of_one_input(where, queue["edge"], in_order, with_global=of_instance[instance] == 1)
        derived.setdefault((execution, *instance), []).extend(made)
    for of, of_one_input in derived.items():
        known = steps.setdefault(of, [])
        numbers = {step["step"] for step in known}
        free = (number for number in count() if number not in numbers)
        known += [step | {"step": next(free)} for step in sorted(of_one_input, key=itemgetter("taken"))]
        known.sort(key=itemgetter("step"))
    return sorted([step for known in steps.values() for step in known], key=itemgetter("execution", "at_ms"))


def _of_one_input(where: Row, edge: int, items: Iterable[Row], *, with_global: bool) -> Iterator[dict[str, Any]]:
    """The steps of an edge with one queue, of the items that were taken from it, and with them those of all edges."""
    coalescer = KeyedCoalescer(1)
    for row in items:
        item = _item_of(row["kind"], row["key"], row["value"])
        emitted: Sequence[Item] = ()
        if type(item) is tuple:
            if not coalescer.wake(0):
                continue
        else:
            with suppress(JobFailedError):
                emitted = coalescer.step(0, item)
        step = {**where, "at_ms": row["taken_ms"], "taken": row["taken"] + 1, "level": "edge", "edge": edge, "input": 0}
        step |= {"stimulus": row["kind"], "key": row["key"], "value": row["value"]} | _inputs(coalescer)
        step |= _emitted(emitted)
        yield step
        if with_global and (emitted or type(item) is tuple or item == DONE):
            yield step | {"level": "global", "edge": None, "input": edge}


def coalesced_steps(
    items: Sequence[Row],
    queues: Sequence[Row],
    coalescing: Sequence[Row],
    deviations: Deviations = SOUND,
) -> list[dict[str, Any]]:
    """The steps of every coalescer, as `wmlab.dataflow.spark.coalesced` describes them, from the rows of one stream."""
    coalescing = all_steps(items, queues, coalescing)
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
            step = {name: row[name] for name in STEP_INPUTS[1:]} | {"place": row["step"]}
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
    """The steps of one coalescer with so many inputs, each with its result."""
    coalescer = KeyedCoalescer(inputs, deviations)
    for step in steps:
        item = _item_of(step["stimulus"], step["key"], step["value"])
        emitted: Sequence[Item] = ()
        with suppress(JobFailedError):
            emitted = coalescer.step(step["input"], item)
        coalesced = {key: of_key.last for key, of_key in coalescer.keys.items() if of_key.last != MIN}
        yield step | _inputs(coalescer) | {"coalesced": coalesced} | _emitted(emitted)


def _item_of(kind: str, key: int | None, value: int | None) -> Item:
    """The item of a row of a table."""
    if kind in _ITEMS:
        return _ITEMS[kind]
    return Idle(key) if kind == "idle" else Watermark(key, value)  # type: ignore[arg-type]


def _inputs(coalescer: KeyedCoalescer) -> dict[str, list[int]]:
    """The inputs that are active, idle and done."""
    return {
        "active": sorted({*range(coalescer.inputs)} - coalescer.idle - coalescer.done),
        "idle": sorted(coalescer.idle - coalescer.done),
        "done": sorted(coalescer.done),
    }


def _emitted(items: Sequence[Item]) -> dict[str, Any]:
    """What a step let through."""
    return {
        "emitted": {item.key: item.value for item in items if isinstance(item, Watermark)},
        "emitted_idle": any(isinstance(item, Idle) for item in items),
    }
