"""Adapters for merging: one key, all keys, and the queues of one edge."""

from __future__ import annotations

from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError
from tests.conformance.hazelcast_steps import all_written, check, item_of, number, operations, shown
from tests.dataflow.model.driving import Edge
from wmlab.dataflow.model.coalescer import Coalescer, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MAX, Event, Item
from wmlab.dataflow.model.processor import Deviations

ANY_EVENT = Event(())


def queues_of(case: Fields) -> int:
    with Fields(case.take("config"), "config") as config:
        queues: int = config.take("queues")
        return queues


def item_in(step: Fields, op: str) -> Item:
    """What comes on an input, from the operation and its arguments."""
    match op:
        case "wm":
            return item_of(["wm", step.take("key", 0), number(step.take("value"))])
        case "idle":
            return IDLE_MESSAGE
        case "event":
            return ANY_EVENT
        case "done":
            return DONE
    raise UnknownFormatError(f"unknown operation {op!r}")


def is_idle(coalescer: Coalescer) -> bool:
    """Whether all inputs that have not ended are idle, and there is one."""
    left = {index for index, mark in enumerate(coalescer.marks) if mark < MAX}
    return bool(left) and left <= coalescer.idle


def run_coalescer(case: Fields, deviations: Deviations) -> None:
    """wm, idle, event and done on the inputs of one key; its values in between."""
    coalescer = Coalescer(queues_of(case))
    for op, step in operations(case):
        match op:
            case "idle_pending":
                check(step, lambda: is_idle(coalescer))
            case "top":
                check(step, lambda: shown(coalescer.highest))
            case "coalesced":
                check(step, lambda: shown(coalescer.last))
            case _:
                item, queue = item_in(step, op), step.take("queue")
                check(step, lambda i=item, q=queue: coalescer.step(q, i))


def run_keyed(case: Fields, deviations: Deviations) -> None:
    """wm, idle, event and done on the inputs of all keys, and which keys there are."""
    coalescer = KeyedCoalescer(queues_of(case), deviations)
    for op, step in operations(case):
        if op == "keys":
            check(step, lambda: sorted(coalescer.keys))
            continue
        item, queue = item_in(step, op), step.take("queue")
        # Upstream gives the watermarks of several keys in the order of a hash map.
        check(step, lambda i=item, q=queue: all_written(coalescer.step(q, i)), unordered=op != "event")


def run_edge(case: Fields, deviations: Deviations) -> None:
    """push, drain and sizes of the queues of one edge."""
    with Fields(case.take("config"), "config") as config:
        guarantee = "exactly_once" if config.take("wait_for_all_barriers") else "at_least_once"
        edge = Edge(config.take("queues"), guarantee=guarantee, deviations=deviations)
    for op, step in operations(case):
        match op:
            case "push":
                edge.push(step.take("queue"), *map(item_of, step.take("items")))
            case "sizes":
                check(step, lambda: [len(queue) for queue in edge.queues.items])
            case "drain":
                check(step, lambda: drained(edge))
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")


def drained(edge: Edge) -> dict[str, Any]:
    result = edge.drain()
    return {"state": result.progress.name, "out": all_written(result.out)}
