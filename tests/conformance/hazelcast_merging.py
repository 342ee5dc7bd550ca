"""Adapters for merging: one key, all keys, and the queues of one edge."""

from __future__ import annotations

from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError
from tests.conformance.hazelcast_steps import all_written, changed, check, item_of, number, operations, shown
from wmlab.dataflow.model.coalescer import Coalescer, EdgeStream, Keyed, drain
from wmlab.dataflow.model.items import DONE, IDLE, MAX, Event, Item
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
            return IDLE
        case "event":
            return ANY_EVENT
        case "done":
            return DONE
    raise UnknownFormatError(f"unknown operation {op!r}")


def is_idle(state: Coalescer) -> bool:
    """Whether all inputs that have not ended are idle, and there is one."""
    left = {place for place, mark in enumerate(state.marks) if mark < MAX}
    return bool(left) and left <= state.idle


def run_coalescer(case: Fields, deviations: Deviations) -> None:
    """wm, idle, event and done on the inputs of one key; its values in between."""
    state = Coalescer.start(queues_of(case))

    def merged(state: Coalescer, item: Item, queue: int) -> tuple[Coalescer, Any]:
        after, emitted = state.run([(queue, item)])
        return after, emitted[0]

    for op, step in operations(case):
        match op:
            case "idle_pending":
                check(step, lambda s=state: is_idle(s))
            case "top":
                check(step, lambda s=state: shown(s.top))
            case "coalesced":
                check(step, lambda s=state: shown(s.last))
            case _:
                update = item_in(step, op), step.take("queue")
                state = changed(step, state, lambda s=state, u=update: merged(s, *u))


def run_keyed(case: Fields, deviations: Deviations) -> None:
    """wm, idle, event and done on the inputs of all keys, and which keys there are."""
    state = Keyed(queues_of(case))

    def merged(state: Keyed, item: Item, queue: int) -> tuple[Keyed, Any]:
        after, emitted = state.step(queue, item, deviations)
        return after, all_written(emitted)

    for op, step in operations(case):
        if op == "keys":
            check(step, lambda s=state: [key for key, _ in s.keys])
            continue
        update = item_in(step, op), step.take("queue")
        # Upstream gives the watermarks of several keys in the order of a hash map.
        state = changed(step, state, lambda s=state, u=update: merged(s, *u), unordered=op != "event")


def run_edge(case: Fields, deviations: Deviations) -> None:
    """push, drain and sizes of the queues of one edge."""
    with Fields(case.take("config"), "config") as config:
        guarantee = "exactly_once" if config.take("wait_for_all_barriers") else "at_least_once"
        edge = EdgeStream.start(config.take("queues"), guarantee)
    for op, step in operations(case):
        match op:
            case "push":
                edge = edge.push(step.take("queue"), map(item_of, step.take("items")))
            case "sizes":
                check(step, lambda e=edge: [len(queue or ()) for queue in e.queues])
            case "drain":
                edge = changed(step, edge, lambda e=edge: drained(e, deviations))
            case _:
                raise UnknownFormatError(f"unknown operation {op!r}")


def drained(edge: EdgeStream, deviations: Deviations) -> tuple[EdgeStream, Any]:
    result = drain(edge, deviations)
    return result.edge, {"state": result.progress.name, "out": all_written(result.out)}
