"""What became of one row: it came out, was dropped or rejected, or where it is and what would let it go on.

A row is found by some of its columns. Behind a vertex that makes other columns of it, it is another row.

Source: "Keyed watermark support", WM rules; "Stream-to-stream join", edge cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from wmlab.core.errors import RecordingError
from wmlab.core.words import grouped, moment
from wmlab.dataflow.answers.explanation import DroppedRow, FlowExplanation, row_words
from wmlab.dataflow.answers.holders import Search
from wmlab.dataflow.answers.rules import FlowRules, WindowRules
from wmlab.dataflow.answers.run import Row, Run, read
from wmlab.dataflow.answers.told import held_by, release_ms, released_by
from wmlab.dataflow.answers.window import explain_window
from wmlab.dataflow.answers.windows import FRAMES, Open, open_windows
from wmlab.dataflow.model.frames import WindowShape


def explain_row(
    run: Run, rules: FlowRules | None, row: Mapping[str, Any], *, at_ms: int, vertex: str | None = None
) -> FlowExplanation:
    """What had become of the row at `at_ms`; with `vertex`, of the row that this source read.

    Raises `RecordingError` if no source had read such a row.
    """
    first = _first(run, row, at_ms, vertex)
    execution = run.execution(at_ms)
    assert execution is not None
    search = Search(run, rules, execution, at_ms)
    found = _Fate(search, read(first["row"]), dict(row), first).told()
    others = found.drop is None and _count(run, row, at_ms, vertex)
    more = f" (the first of {grouped(others)} such rows)" if others and others > 1 else ""
    return replace(found, sentence=f"{row_words(dict(read(first['row'])))}{more} {found.sentence}")


def dropped_rows(run: Run, row: Mapping[str, Any], *, vertex: str | None = None) -> Iterator[DroppedRow]:
    """The rows left out that have the columns of `row`, at all vertices or at one, or at the first of its stages."""
    for drop in run.drops:
        values = read(drop["row"])
        if _has(values, row) and (vertex is None or drop["vertex"] in {vertex, vertex + FRAMES}):
            yield DroppedRow(
                vertex=drop["vertex"],
                instance=drop["instance"],
                at_ms=drop["at_ms"],
                rule=drop["rule"],
                key=drop["key"],
                time=drop["time"],
                limit=drop["limit"],
                margin=drop["margin"],
                passed_ms=_passed_ms(run, drop),
                row=values,
            )


def _passed_ms(run: Run, drop: Row) -> int | None:
    """When the watermark had come by which the row was late."""
    level = "edge" if drop["rule"] == "join" else "global"
    for step in run.steps.get((drop["vertex"], drop["instance"]), ()):
        value = dict(step["emitted"]).get(drop["key"])
        before = step["execution"] == drop["execution"] and step["at_ms"] <= drop["at_ms"]
        if before and step["level"] == level and value is not None and value >= drop["limit"]:
            return int(step["at_ms"])
    return None


def _first(run: Run, row: Mapping[str, Any], at_ms: int, vertex: str | None) -> Row:
    for (name, _), rows in run.source_rows.items():
        for one in rows:
            if vertex in {None, name} and one["at_ms"] <= at_ms and _has(read(one["row"]), row):
                return one
    wanted = ", ".join(f"{name} {value!r}" for name, value in row.items())
    raise RecordingError(
        f"no source of {run.stream!r} had read a row with {wanted or 'no columns'} by {at_ms} ms.",
        remedy="ask for columns that a source has, or later.",
    )


def _count(run: Run, row: Mapping[str, Any], at_ms: int, vertex: str | None) -> int:
    return sum(
        vertex in {None, name} and one["at_ms"] <= at_ms and _has(read(one["row"]), row)
        for (name, _), rows in run.source_rows.items()
        for one in rows
    )


def _has(values: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row has these columns; on the right side of a join some are called `right_NAME`."""
    plain = all(name in values and values[name] == value for name, value in row.items())
    return plain or all(values.get(f"right_{name}", values.get(name, ...)) == value for name, value in row.items())


class _Fate:
    """One row, followed through the dataflow up to the moment of the question."""

    def __init__(self, search: Search, values: dict[str, Any], asked: dict[str, Any], first: Row) -> None:
        self.search, self.run, self.values, self.first = search, search.run, values, first
        self.asked = asked

    def told(self) -> FlowExplanation:
        """Where it is, or what became of it."""
        if not self.first["passed"]:
            at = moment(self.first["at_ms"])
            told = f"was rejected by the filter of source {self.first['vertex']} at {at}"
            return self._fate("rejected", self.first["vertex"], self.first["at_ms"], told)
        drops = (drop for drop in dropped_rows(self.run, self.asked) if drop.at_ms <= self.search.at_ms)
        drop = next((drop for drop in drops if self._is(drop.row)), None)
        if drop is not None:
            return replace(
                self._fate("dropped", drop.vertex, drop.at_ms, f"was {drop.sentence}"), drop=drop, key=drop.key
            )
        for out in self.run.sunk:
            if out["at_ms"] <= self.search.at_ms and self._is(read(out["row"])):
                return self._fate(
                    "came out", out["vertex"], out["at_ms"], f"came out at {out['vertex']} at {moment(out['at_ms'])}"
                )
        return self._on_its_way()

    def _is(self, values: Mapping[str, Any]) -> bool:
        """Whether this is the row: it has the columns asked for, and all others that it shares are the same."""
        shared = {name: value for name, value in self.values.items() if name in values or f"right_{name}" in values}
        return _has(values, self.asked) and _has(values, shared)

    def _on_its_way(self) -> FlowExplanation:
        last = self._last()
        if last is None:
            return self._fate("unknown", self.first["vertex"], None, f"has not left source {self.first['vertex']} yet")
        queue, item = last
        name = queue["target"]
        if item["taken_ms"] is None or item["taken_ms"] > self.search.at_ms:
            told = f"waits on the queue from {queue['source']} to {name} since {moment(item['put_ms'])}"
            return self._fate("on queue", name, item["put_ms"], told)
        kind = self.run.vertices[name]["kind"]
        whole = name.removesuffix(FRAMES)
        if whole in self.search.rules.windows:
            return self._in_window(whole, self.search.rules.windows[whole])
        if name in self.search.rules.joins:
            return self._in_join(name, queue)
        at = f"was taken by {name} at {moment(item['taken_ms'])}"
        what = {"filter": "rejected it", "async map": "has not given its result back"}.get(
            kind, "made another row of it"
        )
        cause = {"filter": "rejected", "async map": "waiting"}.get(kind, "gone")
        return self._fate(cause, name, item["taken_ms"], f"{at}, which {what}")

    def _last(self) -> tuple[Row, Row] | None:
        """The last item that is the row, with its queue, by the order of the flow."""
        place = {name: number for number, name in enumerate(self.run.vertices)}
        found = [
            (place[queue["target"]], item["put_ms"], number, queue, item)
            for number, queue in enumerate(self.run.queues)
            for item in self.run.on_queue(queue, self.search.number, self.search.at_ms)
            if item["kind"] == "event" and self._is(read(item["row"]))
        ]
        return max(found, key=lambda one: one[:3])[3:] if found else None

    def _in_window(self, name: str, rules: WindowRules) -> FlowExplanation:
        """In the first of its windows that has not come out, or in the last one that has."""
        time = self.values[rules.column]
        if rules.slide_ms is None:
            ends = sorted(one.end for one in self._sessions(name, rules) if one.start <= time < one.end)
        else:
            ends = [end for _, end in WindowShape(rules.size_ms, rules.slide_ms).windows_of(time)]
        answers = [
            explain_window(self.run, self.search.rules, end, vertex=name, at_ms=self.search.at_ms) for end in ends
        ]
        waiting = [one for one in answers if one.cause == "waiting"]
        if not answers:
            return self._fate("gone", name, None, f"is part of a session of {name} that has come out")
        chosen = waiting[0] if waiting else answers[-1]
        return replace(chosen, asked="row", sentence=f"went into {name}: {chosen.sentence}")

    def _sessions(self, name: str, rules: WindowRules) -> list[Open]:
        return open_windows(self.search, name, rules)

    def _in_join(self, name: str, queue: Row) -> FlowExplanation:
        """Kept until the limit of its key passes its time."""
        join, edge = self.search.rules.joins[name], queue["edge"]
        source = self.run.vertices[queue["source"]]
        key = next((key for key in join.sides[edge] if source["keys"].get(key) in self.values), None)
        if key is None:
            return self._fate("waiting", name, None, f"is in {name}")
        time = self.values[source["keys"][key]]
        instance, needed = queue["target_instance"], time + 1
        limit = self.search.limit(name, instance, key)
        if limit is not None and time < limit:
            told = f"was in {name} until its limit of key {key} had passed {moment(time)}; it is {moment(limit)} now"
            return replace(self._fate("gone", name, None, told), instance=instance, key=key)
        holders = self.search.at_limit(name, instance, key, needed)
        until = release_ms(holders, self.search.at_ms)
        outer = join.outer == ("left", "right")[edge]
        then = "leaves without a partner" if outer else "is given up"
        parts = [
            f"is kept by {name}, where no partner has come; it {then} when the limit of key {key} passes "
            f"{moment(time)}",
            held_by(self.run, holders),
            released_by(self.run, holders, until),
        ]
        fate = self._fate("waiting", name, None, "; ".join(part for part in parts if part))
        return replace(fate, instance=instance, key=key, needed=needed, holders=holders, release_ms=until)

    def _fate(self, cause: str, vertex: str, since_ms: int | None, told: str) -> FlowExplanation:
        return FlowExplanation(
            at_ms=self.search.at_ms,
            stream=self.run.stream,
            asked="row",
            vertex=vertex,
            cause=cause,
            since_ms=since_ms,
            sentence=told,
        )
