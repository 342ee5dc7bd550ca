"""Rules by which the simulator of dataflows keeps its own books, over the tables of a recording.

They say nothing about watermarks that a user would ask, and so are no invariants of `check`: that each watermark gets
from one level of coalescing to the next, that late rows stay late, that a row is dropped only below its limit, that
limits and capacities are kept, and that calls are counted.

Source: "Keyed watermark support"; "Stream-to-stream join", on memory; upstream class
`AsyncTransformUsingServiceOrderedP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from operator import itemgetter
from typing import Any

from wmlab.core.invariants import (
    Derived,
    Evidence,
    Finding,
    TableRow,
    TableRows,
    Verdicts,
    invariant,
    name_text,
    verdicts_of,
)
from wmlab.core.recording import Recording
from wmlab.dataflow.checks import DERIVED, INVARIANTS, TABLES
from wmlab.dataflow.checks.channels import Channels
from wmlab.dataflow.checks.rows import NONE_SO_FAR, STATELESS, HighestSoFar, TimedRows, judged
from wmlab.dataflow.checks.watermarks import FORWARDING, emitted_watermarks, keys_forwarded, on_grids
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.rules import DataflowRules, rules_of

_INSTANCE = ("execution", "vertex", "instance")
_CALL = ("call", "began_ms", "ended_ms", "outcome")


@invariant(
    "every watermark that an edge lets through reaches the coalescing of all edges", "no edge let a watermark through"
)
def reaches_the_instance(steps: TableRows, executions: TableRows) -> Iterator[Finding]:
    """K5: every watermark that an edge lets through reaches the coalescing of all edges.

    One finding per watermark of an execution that came to its end, or behind which another one got through.
    """
    received = {
        (*(step[name] for name in _INSTANCE), step["input"], step["key"], step["value"])
        for step in steps
        if (step["level"], step["stimulus"]) == ("global", "watermark")
    }
    yield from _reach(
        emitted_watermarks(steps, "edge"),
        received,
        executions,
        "that input edge {edge} of {at} let through never reached it",
    )


@invariant("every coalesced watermark leaves a vertex that forwards watermarks", "no such vertex coalesced a watermark")
def leaves_the_instance(
    steps: TableRows,
    specials: TableRows,
    queues: TableRows,
    vertices: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K6: every coalesced watermark leaves a vertex that forwards watermarks, if its key can leave it.

    One finding per watermark of an execution that came to its end, or behind which another one left.
    """
    keys = keys_forwarded(vertices, {*FORWARDING})
    merged = on_grids(emitted_watermarks(steps, "global"), vertices)
    sent = [entry for entry in merged if entry["key"] in keys.get(entry["vertex"], ())]
    sources = {queue["queue"]: (queue["source"], queue["source_instance"]) for queue in queues}
    left = {
        (item["execution"], *sources[item["queue"]], None, item["key"], item["value"])
        for item in specials
        if item["kind"] == "watermark"
    }
    yield from _reach(sent, left, executions, "never left {at}")


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


@invariant("a row that is late on input is late on output", "no row came in late")
def late_stays_late(timed_rows: TimedRows, steps: TableRows, vertices: TableRows) -> Iterator[Finding]:
    """K8: a row that is late on input is late on output; one finding per row that left.

    Rows are known by their time. Decided are those with a time at which every row came in late, by a watermark of an
    earlier millisecond, at vertices that pass rows on at once.
    """
    at_once = {row["vertex"] for row in vertices if row["kind"] in STATELESS}
    coalesced: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for step in steps:
        for key, value in step["emitted"].items() if step["level"] == "global" else ():
            instance = tuple(step[name] for name in _INSTANCE)
            coalesced.setdefault((*instance, key), []).append((step["at_ms"], value))
    so_far = {where: HighestSoFar(watermarks) for where, watermarks in coalesced.items()}
    for (execution, vertex, instance, key, time), rows in timed_rows.items():
        of_key = so_far.get((execution, vertex, instance, key), NONE_SO_FAR)
        earlier = {row: of_key.before(row.taken_ms) for row in rows.came}
        came_late = all(watermark is not None and time < watermark for watermark in earlier.values())
        if vertex in at_once and rows.came and came_late:
            first = min(rows.came, key=lambda row: row.taken_ms)
            for out in rows.left:
                early = out.watermark is None or time >= out.watermark
                what = f"a row at {time} left {name_text(vertex)} on time, though it had come late"
                yield judged(out, first, earlier[first], what if early else None, vertex=vertex, instance=instance)


@invariant("a row is dropped only when it is below the watermark", "no row was dropped")
def drops_by_rule(
    drops: TableRows,
    steps: TableRows,
    executions: TableRows,
) -> Iterator[Finding]:
    """K9: a row is dropped only below its limit, which is not beyond the watermark its instance had; one finding each.

    A join has the watermarks of each edge, all others those coalesced over the edges. Executions that began from a
    snapshot are left out, since it held watermarks of the one before.
    """
    fresh = {row["execution"] for row in executions if row["snapshot"] is None}
    watermarks: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for step in steps:
        edge = step["edge"] if step["level"] == "edge" else None
        for key, value in step["emitted"].items() if step["level"] != "partition" else ():
            scope = step["execution"], step["vertex"], step["instance"], edge, key
            watermarks.setdefault(scope, []).append((step["at_ms"], value))
    risen = {scope: HighestSoFar(entries) for scope, entries in watermarks.items()}
    for drop in drops:
        if drop["execution"] not in fresh:
            continue
        edge = drop["edge"] if drop["rule"] == "join" else None
        scope = drop["execution"], drop["vertex"], drop["instance"], edge, drop["key"]
        # Those of the same millisecond count.
        watermark = risen.get(scope, NONE_SO_FAR).before(drop["at_ms"], with_equal=True)
        below = drop["margin"] == drop["limit"] - drop["time"] and drop["margin"] > 0
        if below and watermark is not None and drop["limit"] <= watermark:
            yield Finding(True, drop["at_ms"])
            continue
        what = (
            f"{name_text(drop['vertex'])} dropped a row at {drop['time']} below {drop['limit']} by the rule "
            f"'{drop['rule']}', when its watermark of key {drop['key']} was {name_text(watermark)}"
        )
        columns = ("vertex", "instance", "at_ms", "edge", "rule", "key", "time", "limit", "margin", "row")
        yield Finding(False, drop["at_ms"], what, [Evidence.of("drops", drop, *columns)])


@invariant("no window or join holds more than its limit", "nothing with a limit held rows")
def within_limits(state: TableRows, rules: DataflowRules) -> Iterator[Finding]:
    """K12: a window or join never holds more than its limit; one finding per change of its size."""
    limits = {name: rule.limit for name, rule in rules.results.items() if rule.limit is not None}
    for row in state:
        if row["buffer"] != "all" or row["vertex"] not in limits:
            continue
        limit = limits[row["vertex"]]
        if row["size"] <= limit:
            yield Finding(True)
            continue
        what = f"{name_text(row['vertex'])} held {row['size']} at a limit of {limit}"
        proof = Evidence.of("state", row, "vertex", "instance", "at_ms", "size", limit=limit)
        yield Finding(False, row["at_ms"], what, [proof])


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
    calls_of_instances: CallsOfInstances, specials: TableRows, channels: Channels, steps: TableRows
) -> Iterator[Finding]:
    """K14: an idle message leaves an asynchronous step behind the results of all rows that came before it.

    One finding per idle message that left. The n-th one that left is the n-th that was merged, or a later one.
    """
    merged: dict[tuple[Any, ...], list[TableRow]] = {}
    for step in sorted(steps, key=itemgetter("step")):
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


OWN_RULES = {
    "K5": reaches_the_instance,
    "K6": leaves_the_instance,
    "K8": late_stays_late,
    "K9": drops_by_rule,
    "K12": within_limits,
    "K13": calls_consistent,
    "K14": idle_overtakes_no_call,
}


def check(recording: Recording, *only: str) -> Verdicts:
    """One verdict for each invariant that `only` names, among those of the package and these."""
    chosen = {name: entry for name, entry in (INVARIANTS | OWN_RULES).items() if name in only}
    rules = rules_of(dataflow_of(recording, DataflowScenario, stand_ins=True))
    tables = {name: recording.table(name) for name in (*TABLES, "state", "calls")}
    values = {**DERIVED, "calls_of_instances": Derived(calls_of_instances), "rules": rules}
    return verdicts_of(recording.name, chosen, [(recording.name, tables)], values)
