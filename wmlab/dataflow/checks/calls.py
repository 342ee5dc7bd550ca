"""The invariants of the calls that asynchronous steps make for their rows.

They are rules over the rows of one dataflow, which get the calls without the rows that they were made for.

Source: "Keyed watermark support", Changes to async-transform processor; upstream class
`AsyncTransformUsingServiceOrderedP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text
from wmlab.dataflow.checks.channels import Channels
from wmlab.dataflow.sim.rules import DataflowRules

_INSTANCE: Final = ("execution", "vertex", "instance")
_CALL: Final = ("call", "began_ms", "ended_ms", "outcome")
CallsOfInstances = dict[tuple[Any, ...], list[TableRow]]


def calls_of_instances(calls: TableRows) -> CallsOfInstances:
    """The calls of each instance, by execution, vertex and instance."""
    by_instance: CallsOfInstances = {}
    for call in calls:
        by_instance.setdefault(tuple(call[name] for name in _INSTANCE), []).append(call)
    return by_instance


@invariant("every row makes one call, and no more calls are in flight than the capacity", "no call was made")
def calls_consistent(
    calls_of_instances: CallsOfInstances,
    queue_loads: TableRows,
    channels: Channels,
    executions: TableRows,
    rules: DataflowRules,
) -> Iterator[Finding]:
    """K13: calls are numbered without a gap, one per row that was taken, all answered at the end; no more than the
    capacity at once.

    One finding per instance and execution, and one per call. How many calls there are to be is left open for an
    execution that began from a snapshot, because it makes those again that were in flight.
    """
    taken: Counter[tuple[Any, ...]] = Counter()
    for load in queue_loads:
        taken[load["execution"], *channels.target[load["queue"]]] += load["events"]
    by_number = {row["execution"]: row for row in executions}
    for instance, calls in calls_of_instances.items():
        if instance[0] in by_number:
            yield _counted(instance, calls, taken[instance], by_number[instance[0]])
        capacity = rules.capacities.get(instance[1])
        if capacity is not None:
            yield from _at_once(calls, capacity)


def _counted(instance: tuple[Any, ...], calls: Sequence[TableRow], taken: int, execution: TableRow) -> Finding:
    """That an instance made one call per row in an execution, under one number each."""
    numbers = {call["call"] for call in calls}
    answered = sum(call["outcome"] == "answered" for call in calls)
    completed = execution["outcome"] == "completed"
    span = max(numbers) - min(numbers) + 1
    numbered = len(numbers) == span == len(calls) and (not completed or answered == len(calls))
    fresh = execution["snapshot"] is None
    one_each = len(calls) == taken or (not completed and len(calls) < taken) or not fresh
    at_ms = max(call["began_ms"] for call in calls)
    if numbered and one_each:
        return Finding(True, at_ms)
    number, vertex, index = instance
    what = (
        f"{name_text(vertex)} made {len(calls)} calls under {len(numbers)} numbers for {taken} rows, and {answered} "
        "were answered"
    )
    counts = {"calls": len(calls), "numbers": len(numbers), "taken": taken, "answered": answered}
    known = {"vertex": vertex, "instance": index, "execution": number}
    return Finding(False, at_ms, what, [Evidence.of("calls", known, *known, **counts)])


def _at_once(calls: Sequence[TableRow], capacity: int) -> Iterator[Finding]:
    """That never more calls of an instance were in flight than its capacity."""
    began = [(call["began_ms"], 1, call["call"], call) for call in calls]
    # Within a millisecond the ends count first, as a call may begin because another one ended.
    ended = [(call["ended_ms"], -1, call["call"], call) for call in calls if call["ended_ms"] is not None]
    in_flight = 0
    for at_ms, more, _, call in sorted([*began, *ended], key=itemgetter(0, 1, 2)):
        in_flight += more
        if more < 0:
            continue
        if in_flight <= capacity:
            yield Finding(True, at_ms)
            continue
        what = f"{name_text(call['vertex'])} had {in_flight} calls in flight at a capacity of {capacity}"
        also = {"in_flight": in_flight, "capacity": capacity}
        yield Finding(False, at_ms, what, [Evidence.of("calls", call, "vertex", "instance", *_CALL, **also)])


@invariant("an idle message overtakes no call in flight", "no asynchronous vertex became idle")
def idle_overtakes_no_call(
    calls_of_instances: CallsOfInstances, specials: TableRows, channels: Channels, coalescing: TableRows
) -> Iterator[Finding]:
    """K14: an idle message leaves an asynchronous step behind the results of all rows that came before it.

    One finding per idle message that left. The n-th one that left is the n-th that was merged, or a later one.
    """
    merged: dict[tuple[Any, ...], list[TableRow]] = {}
    for step in sorted(coalescing, key=itemgetter("step")):
        if step["level"] == "global" and step["emitted_idle"]:
            merged.setdefault(tuple(step[name] for name in _INSTANCE), []).append(step)
    for instance, items in channels.sent(specials, "idle").items():
        calls = calls_of_instances.get(instance, ())
        queue = min(item["queue"] for item in items)
        left = sorted((item for item in items if item["queue"] == queue), key=itemgetter("sequence"))
        for item, step in zip(left if calls else (), merged.get(instance, ()), strict=False):
            yield _overtaken(item, step["at_ms"], calls)


def _overtaken(item: TableRow, merged_ms: int, calls: Sequence[TableRow]) -> Finding:
    """Whether an idle message that was merged at `merged_ms` left before one of the calls ended."""
    put_ms = item["put_ms"]
    in_flight = [
        call
        for call in calls
        if call["began_ms"] < merged_ms and (call["ended_ms"] is None or call["ended_ms"] > put_ms)
    ]
    if not in_flight:
        return Finding(True, put_ms)
    call = min(in_flight, key=itemgetter("call"))
    what = f"an idle message left {name_text(call['vertex'])} before call {call['call']}, which came before it"
    proof = [
        Evidence.of("items", item, "queue", "sequence", "put_ms", merged_ms=merged_ms),
        Evidence.of("calls", call, "vertex", "instance", *_CALL),
    ]
    return Finding(False, put_ms, what, proof)
