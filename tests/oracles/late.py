"""What a run has late: a second computation, from the tables of a recording and its scenario alone, in plain loops.

It takes nothing of what it judges. `Late` has the same figures in all three models:

- streams: events that were appended below the newest lower bound of the log; those that a group read first below a
  bound that one of its readers had been shown;
- dataflows: rows that a window, join, stateful map or late drop took below a watermark that it had been given;
- plans: buffers that came to windows with records for one that the watermark had closed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.machine.judge import counted_positions, deliveries, overlapping
from wmlab.progress.scenario import ProgressScenario

Row = dict[str, Any]
Span = tuple[int, int]

DROPPED: Final = "of a dropped writer"
NOT_NOTED: Final = "of a writer that had noted no time"
NOTED_MORE: Final = "of a writer that had noted a larger time"
_ACTING: Final = ("window", "session window", "join", "late drop", "stateful map")


@dataclass(frozen=True, kw_only=True)
class Late:
    """How many came late, the most by which one did, and for how long a bound was above one still to come.

    `read` are those that were read below a bound that had been shown, None where nobody is shown one. `left_out`
    counts those that were left out by the reasons.
    """

    late: int
    at_most_ms: int | None
    for_ms: int
    read: int | None
    left_out: Mapping[str, int]


def rows_of(recording: Any, *tables: str) -> dict[str, list[Row]]:
    """The rows of some tables, maps as dicts."""
    return {name: recording.table(name).to_pylist(maps_as_pydicts="strict") for name in tables}


def covered_ms(spans: Iterable[Span]) -> int:
    """How long at least one of the spans lasts."""
    total, reached = 0, None
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        begin = begin if reached is None else max(begin, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


# Streams.


def late_events(recording: Any, stream: str) -> Late:
    """What one stream of a recording has late."""
    rows = rows_of(
        recording, "events", "watermarks", "windows", "reads", "segments", "writer_marks", "cycles", "epochs"
    )
    rows = {name: [row for row in table if row["stream"] == stream] for name, table in rows.items()}
    log = sorted(rows["watermarks"], key=lambda row: row["seq"])
    steps: list[tuple[int, int | None]] = []
    for row in log:
        at_ms = max([row["emitted_ms"], *(steps[-1][:1] if steps else ())])
        steps.append((at_ms, row["lower"] if row["writers"] else None))
    below, spans = [], list[Span]()
    for event in rows["events"]:
        before = [lower for at_ms, lower in steps if at_ms < event["append_ms"]]
        if not before or before[-1] is None or event["event_time"] >= before[-1]:
            continue
        below.append(before[-1] - event["event_time"])
        for (from_ms, lower), (to_ms, _) in zip(steps, [*steps[1:], (event["append_ms"], None)], strict=False):
            if lower is not None and event["event_time"] < lower:
                spans.append((from_ms, min(to_ms, event["append_ms"])))
    overlaps = overlapping(rows)
    why = [
        _excuse(rows, event, shown, overlaps)
        for event, shown, _ in deliveries(rows)
        if event["event_time"] < shown
    ]  # fmt: skip
    return Late(
        late=len(below),
        at_most_ms=max(below, default=None),
        for_ms=covered_ms(spans),
        read=len(why),
        left_out=Counter(reason for reason in why if reason is not None),
    )


def _excuse(rows: Mapping[str, list[Row]], event: Row, shown: int, overlaps: Mapping[int, set[int]]) -> str | None:
    """Why an event that was read below a bound does not count: that of the newest bound above it; None: it counts."""
    writer = event["writer"]
    marks = [row for row in rows["writer_marks"] if (row["writer"], row["outcome"]) == (writer, "success")]
    if not marks:
        return NOT_NOTED
    above = [row for row in rows["watermarks"] if event["event_time"] < row["lower"] <= shown and row["writers"]]
    reasons = [(row["seq"], _reason(rows, event, row, marks, overlaps)) for row in above]
    if not reasons or any(reason is None for _, reason in reasons):
        return None
    return max(reasons)[1]


def _reason(
    rows: Mapping[str, list[Row]], event: Row, bound: Row, marks: Sequence[Row], overlaps: Mapping[int, set[int]]
) -> str | None:
    writer, segment = event["writer"], event["segment_id"]
    if writer in bound["writers"]:
        position = counted_positions(rows, bound, writer)[-1]
        if segment in position:
            covers = position[segment] is not None and position[segment] >= event["offset"]
        else:
            covers = any(other > segment for other in overlaps[segment] & position.keys())
        return None if covers else NOTED_MORE
    begun_ms = bound["emitted_ms"] if bound["cycle_ms"] is None else bound["cycle_ms"]
    noted = [row["received_ms"] for row in marks if row["received_ms"] < begun_ms]
    if not noted:
        return NOT_NOTED
    removed = (writer in row["removed"] and max(noted) <= row["at_ms"] <= bound["emitted_ms"] for row in rows["cycles"])
    return DROPPED if any(removed) else None


# Dataflows.


def late_rows(recording: Any) -> Late:
    """What a dataflow has late, once for each vertex that acts on watermarks."""
    rows = rows_of(recording, "vertices", "queues", "items", "coalescing", "drops", "executions", "snapshots")
    kinds = {row["vertex"]: row["kind"] for row in rows["vertices"]}
    queues = {row["queue"]: row for row in rows["queues"] if kinds[row["target"]] in _ACTING}
    came: dict[tuple[int, str, int], list[Row]] = defaultdict(list)
    for item in rows["items"]:
        if item["queue"] in queues and item["taken"] is not None:
            queue = queues[item["queue"]]
            came[item["execution"], queue["target"], queue["target_instance"]].append(item)
    given: dict[tuple[int, str, int], list[tuple[int, int, int, int]]] = {}
    below, spans = list[int](), list[Span]()
    for execution in sorted({row["execution"] for row in rows["executions"]}):
        begun = next(row for row in rows["executions"] if row["execution"] == execution)
        for _, vertex, instance in [where for where in came if where[0] == execution]:
            into = [row for row in queues.values() if (row["target"], row["target_instance"]) == (vertex, instance)]
            where = (execution, vertex, instance)
            items = sorted(came[where], key=lambda item: item["taken"])
            steps = _restored(rows["snapshots"], given, begun, vertex, instance)
            levels = _levels(rows["coalescing"], into, is_join=kinds[vertex] == "join")
            steps += _coalesced(levels, items, where)
            given[where] = steps
            for item in items:
                if item["kind"] != "event":
                    continue
                row, keys = json.loads(item["row"]), queues[item["queue"]]["keys"]
                times = {key: row[column] for key, column in keys.items() if row.get(column) is not None}
                above = [
                    (value - times[key], at_ms)
                    for taken, at_ms, key, value in steps
                    if taken <= item["taken"] and key in times and value > times[key]
                ]
                if above:
                    below.append(max(above)[0])
                    spans.append((min(at_ms for _, at_ms in above), item["taken_ms"]))
    return Late(
        late=len(below),
        at_most_ms=max(below, default=None),
        for_ms=covered_ms(spans),
        read=None,
        left_out=Counter(f"by the {row['rule']} rule of {row['vertex']}" for row in rows["drops"]),
    )


def _levels(coalescing: Sequence[Row], into: Sequence[Row], *, is_join: bool) -> list[tuple[set[int], list[Row]]]:
    """What coalesces the watermarks of an instance: the queues, and the steps that are recorded of it.

    A join takes the watermarks of each edge; all others those of all edges.
    """
    edges = sorted({queue["edge"] for queue in into})
    of_edge = {edge: {queue["queue"] for queue in into if queue["edge"] == edge} for edge in edges}
    if is_join or len(edges) == 1:
        return [
            (of_edge[edge], [row for row in coalescing if row["level"] == "edge" and row["edge"] == edge])
            for edge in edges
        ]
    return [(set().union(*of_edge.values()), [row for row in coalescing if row["level"] == "global"])]


def _coalesced(
    levels: Sequence[tuple[set[int], list[Row]]], items: Sequence[Row], where: tuple[int, str, int]
) -> Iterator[tuple[int, int, int, int]]:
    """What an instance was given: how many items it had taken, when, the key, and the watermark."""
    for queues, steps in levels:
        recorded = [row for row in steps if (row["execution"], row["vertex"], row["instance"]) == where]
        for row in recorded:
            for key, value in row["emitted"].items():
                yield row["taken"], row["at_ms"], key, value
        for item in items if not recorded and len(queues) == 1 else ():
            if item["kind"] == "watermark" and item["queue"] in queues:
                yield item["taken"] + 1, item["taken_ms"], item["key"], item["value"]


def _restored(
    snapshots: Sequence[Row], given: Mapping[tuple[int, str, int], Sequence[tuple[int, int, int, int]]],
    begun: Row, vertex: str, instance: int,
) -> list[tuple[int, int, int, int]]:  # fmt: skip
    """The watermarks that an instance had when it saved the snapshot from which an execution began."""
    saved = [
        row for row in snapshots
        if (row["snapshot"], row["vertex"], row["instance"]) == (begun["snapshot"], vertex, instance)
        and row["saved_ms"] is not None and row["execution"] < begun["execution"]
    ]  # fmt: skip
    if begun["snapshot"] is None or not saved:
        return []
    steps = given.get((saved[-1]["execution"], vertex, instance), ())
    return [(0, begun["started_ms"], key, value) for _, at_ms, key, value in steps if at_ms <= saved[-1]["saved_ms"]]


# Plans.


def late_buffers(recording: Any, query: str) -> Late:
    """What a query of a plan has late."""
    scenario = recording.scenario_as(ProgressScenario).resolved
    part = next(each for each in scenario.queries if each.name == query)
    rows = rows_of(recording, "buffers")["buffers"]
    below, spans = list[int](), list[Span]()
    for number, windows in enumerate(_windows_in(part), 1):
        operator = "build" if number == 1 else f"build-{number}"
        arrivals = [row for row in rows if (row["stream"], row["operator"]) == (query, operator)]
        size, slide = windows.size_ms, windows.slide_ms or windows.size_ms
        exact, given = scenario.rules.trigger == "exact", list[tuple[int, int]]()
        for row in sorted(arrivals, key=lambda row: row["arrival"]):
            ends = [
                start + size
                for begun in row["slices"]
                for start in range(begun // slide * slide, max(begun - size, -1), -slide)
                if start >= 0
            ]
            closed = [
                (value - end, at_ms)
                for at_ms, value in given for end in ends if (end <= value if exact else end < value)
            ]  # fmt: skip
            if closed:
                below.append(max(closed)[0])
                spans.append((min(at_ms for _, at_ms in closed), row["arrived_ms"]))
            if row["reached"] is not None:
                given.append((row["arrived_ms"], row["reached"]))
    return Late(
        late=len(below),
        at_most_ms=max(below, default=None),
        for_ms=covered_ms(spans),
        read=None,
        left_out=Counter({"of windows that had fired": len(below)} if below else {}),
    )


def _windows_in(part: Any) -> Iterator[Any]:
    """The aggregations and joins of a part of a plan, in the order in which a buffer comes to them."""
    for source in getattr(part, "sources", ()):
        yield from _windows_in(source)
    for operator in getattr(part, "operators", ()):
        if hasattr(operator, "slide_ms"):
            yield operator
