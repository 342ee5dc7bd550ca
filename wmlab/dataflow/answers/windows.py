"""The windows of a vertex at a moment: which are open and hold rows, and which came out and what let them.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream classes `SlidingWindowP`,
`SessionWindowP`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.dataflow.answers.holders import Search
from wmlab.dataflow.answers.rules import WindowRules
from wmlab.dataflow.answers.run import Row, read
from wmlab.dataflow.model.frames import WindowShape

FRAMES: Final = ".frames"
"""How the name of the first of two stages ends."""


@dataclass(frozen=True, slots=True)
class Open:
    """A window [start, end) that holds `rows` rows and has not come out, and the instances that hold them."""

    start: int
    end: int
    rows: int
    instances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fired:
    """A result of a window: when it left, from which instance, and the step of merging that let it (None: the end)."""

    at_ms: int
    instance: int
    row: dict[str, Any]
    step: Row | None


def base(search: Search, vertex: str) -> str:
    """The node that takes the rows: the first of two stages, or the vertex itself."""
    return vertex + FRAMES if vertex + FRAMES in search.run.vertices else vertex


def taken(search: Search, vertex: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows that the instances of a vertex had taken and not dropped, each with the instance."""
    dropped = Counter(
        (drop["instance"], drop["row"])
        for drop in search.run.drops
        if drop["vertex"] == vertex and drop["execution"] == search.number and drop["at_ms"] <= search.at_ms
    )
    for instance in range(search.run.vertex(vertex)["parallelism"]):
        for queue in search.run.into(vertex, instance):
            for item in search.run.on_queue(queue, search.number, search.at_ms):
                if item["kind"] != "event" or item["taken_ms"] is None or item["taken_ms"] > search.at_ms:
                    continue
                if dropped[instance, item["row"]]:
                    dropped[instance, item["row"]] -= 1
                else:
                    yield instance, read(item["row"])


def open_windows(search: Search, vertex: str, rules: WindowRules) -> list[Open]:
    """The windows that hold rows and have not come out, by their end."""
    rows = list(taken(search, base(search, vertex)))
    found = _sessions(rows, rules) if rules.slide_ms is None else _windows(rows, rules)
    closed = [search.merged(vertex, n, "global").emitted.get(rules.key) for n in _instances(search, vertex)]
    upto = min((mark[0] for mark in closed if mark is not None), default=None) if None not in closed else None
    ended = (
        {(row["start"], row["end"]) for _, _, row in results(search, vertex)} if _complete(search, vertex) else set()
    )
    return [one for one in found if (upto is None or rules.needs(one.end) > upto) and (one.start, one.end) not in ended]


def results(search: Search, vertex: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The results that had left a vertex, as (clock ms, instance, row)."""
    for instance in _instances(search, vertex):
        seen: set[tuple[int, str]] = set()
        for queue in search.run.out_of(vertex, instance):
            for item in search.run.on_queue(queue, search.number, search.at_ms):
                if item["kind"] == "event" and (item["put_ms"], item["row"]) not in seen:
                    seen.add((item["put_ms"], item["row"]))
                    yield item["put_ms"], instance, read(item["row"])


def fired(search: Search, vertex: str, rules: WindowRules, end: int, start: int | None) -> list[Fired]:
    """The results of one window, in the order they left."""
    found = []
    for at_ms, instance, row in results(search, vertex):
        if row["end"] == end and start in {None, row["start"]}:
            found.append(Fired(at_ms, instance, row, _let_by(search, vertex, instance, rules, end)))
    return sorted(found, key=lambda one: one.at_ms)


def _let_by(search: Search, vertex: str, instance: int, rules: WindowRules, end: int) -> Row | None:
    """The first step that merged a watermark which closes the window; None: there was none by now."""
    for row in search.run.steps.get((vertex, instance), ()):
        value = dict(row["emitted"]).get(rules.key)
        mine = row["execution"] == search.number and row["level"] == "global" and row["at_ms"] <= search.at_ms
        if mine and value is not None and value >= rules.needs(end):
            return row
    return None


def _instances(search: Search, vertex: str) -> range:
    return range(search.run.vertex(vertex)["parallelism"])


def _complete(search: Search, vertex: str) -> bool:
    """Whether some instance has come to the end of its inputs, where all windows come out."""
    return any(
        not (level := search.merged(vertex, n, "global")).active and not level.idle for n in _instances(search, vertex)
    )


def _windows(rows: Sequence[tuple[int, dict[str, Any]]], rules: WindowRules) -> list[Open]:
    shape = WindowShape(rules.size_ms, rules.slide_ms or rules.size_ms)
    held: dict[tuple[int, int], list[int]] = {}
    for instance, row in rows:
        for window in shape.windows_of(row[rules.column]):
            held.setdefault(window, []).append(instance)
    return [Open(s, e, len(n), tuple(sorted(set(n)))) for (s, e), n in sorted(held.items(), key=lambda one: one[0][1])]


def _sessions(rows: Sequence[tuple[int, dict[str, Any]]], rules: WindowRules) -> list[Open]:
    groups: dict[tuple[int, tuple[Any, ...]], list[int]] = {}
    for instance, row in rows:
        groups.setdefault((instance, tuple(row[name] for name in rules.by)), []).append(row[rules.column])
    found = []
    for (instance, _), times in groups.items():
        start = last = None
        count = 0
        for time in [*sorted(times), None]:
            if start is not None and last is not None and (time is None or time >= last + rules.size_ms):
                found.append(Open(start, last + rules.size_ms, count, (instance,)))
                start, count = None, 0
            start = time if start is None else start
            last, count = time, count + 1
    return sorted(found, key=lambda one: one.end)
