"""Adapters for merging: one key, all keys, and the queues of one edge."""

from __future__ import annotations

from typing import Any

from tests.conformance.fields import Fields, UnknownFormatError
from tests.conformance.hazelcast_steps import all_written, check, item_of, number, shown, steps_of
from wmlab.dataflow.model.coalescer import Coalescer, EdgeStream, Keyed, drain
from wmlab.dataflow.model.deviations import Deviations
from wmlab.dataflow.model.items import DONE, IDLE, Event, Item, Watermark

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


def run_coalescer(case: Fields, deviations: Deviations) -> None:
    """wm, event and done on the inputs of one key; its values in between."""
    state = Coalescer.start(queues_of(case))
    for step in steps_of(case):
        with step:
            match step.take("op"):
                case "idle_pending":
                    check(step, lambda s=state: s.idle_pending)
                case "top":
                    check(step, lambda s=state: shown(s.top_observed))
                case "coalesced":
                    check(step, lambda s=state: shown(s.coalesced))
                case op:
                    state = merge_one(step, op, state)


def merge_one(step: Fields, op: str, state: Coalescer) -> Coalescer:
    item, place, after = item_in(step, op), step.take("queue"), state

    def act() -> Any:
        nonlocal after
        after, found = state.step(place, item)
        return found

    check(step, act)
    return after


def run_keyed(case: Fields, deviations: Deviations) -> None:
    """wm, idle, event and done on the inputs of all keys, and which keys there are."""
    state = Keyed.start(queues_of(case))
    for step in steps_of(case):
        with step:
            op = step.take("op")
            if op == "keys":
                check(step, lambda s=state: [key for key, _ in s.keys])
            else:
                state = merge_keyed(step, op, state, deviations)


def merge_keyed(step: Fields, op: str, state: Keyed, deviations: Deviations) -> Keyed:
    item, place, after = item_in(step, op), step.take("queue"), state

    def act() -> Any:
        nonlocal after
        after, found = state.step(place, item, deviations)
        return all_written(found)

    # Upstream gives the watermarks of several keys in the order of a hash map.
    check(step, act, unordered=isinstance(item, Watermark) or item in (IDLE, DONE))
    return after


def run_edge(case: Fields, deviations: Deviations) -> None:
    """push, drain and sizes of the queues of one edge."""
    with Fields(case.take("config"), "config") as config:
        guarantee = "exactly_once" if config.take("wait_for_all_barriers") else "at_least_once"
        edge = EdgeStream.start(config.take("queues"), guarantee)
    for step in steps_of(case):
        with step:
            match step.take("op"):
                case "push":
                    edge = edge.push(step.take("queue"), map(item_of, step.take("items")))
                case "sizes":
                    check(step, lambda e=edge: list(e.sizes))
                case "drain":
                    edge = drain_one(step, edge, deviations)
                case op:
                    raise UnknownFormatError(f"unknown operation {op!r}")


def drain_one(step: Fields, edge: EdgeStream, deviations: Deviations) -> EdgeStream:
    after = edge

    def act() -> Any:
        nonlocal after
        drained = drain(edge, deviations)
        after = drained.edge
        return {"state": drained.progress.name, "out": all_written(drained.out)}

    check(step, act)
    return after
