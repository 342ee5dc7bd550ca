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
from wmlab.dataflow.answers.run import Row, Run, read
from wmlab.dataflow.answers.search import Search
from wmlab.dataflow.answers.sentences import held_by, release_ms, released_by
from wmlab.dataflow.answers.windows import Windows, explain_window
from wmlab.dataflow.model.window import SessionWindow
from wmlab.dataflow.sim.layout import FRAMES
from wmlab.dataflow.sim.rules import DataflowRules


def explain_row(
    run: Run, rules: DataflowRules, row: Mapping[str, Any], *, at_ms: int, vertex: str | None = None
) -> FlowExplanation:
    """What had become of the row at `at_ms`; with `vertex`, of the row that this source read.

    Raises `RecordingError` if no source had read such a row.
    """
    alike = [
        read_row
        for (name, _), rows in run.indexed("source_rows").items()
        for read_row in rows
        if vertex in {None, name} and read_row["at_ms"] <= at_ms and _has(read(read_row["row"]), row)
    ]
    if not alike:
        wanted = ", ".join(f"{name} {value!r}" for name, value in row.items())
        raise RecordingError(
            f"no source of {run.stream!r} had read a row with {wanted or 'no columns'} by {at_ms} ms.",
            remedy="ask for columns that a source has, or later.",
        )
    execution = run.execution(at_ms)
    assert execution is not None
    values = read(alike[0]["row"])
    fate = _Fate(Search(run, rules, execution, at_ms), values, dict(row), alike[0]).explanation()
    more = f" (the first of {grouped(len(alike))} such rows)" if fate.drop is None and len(alike) > 1 else ""
    return replace(fate, sentence=f"{row_words(values)}{more} {fate.sentence}")


def dropped_rows(run: Run, row: Mapping[str, Any], *, vertex: str | None = None) -> Iterator[DroppedRow]:
    """The rows left out that have the columns of `row`, at all vertices or at one, or at the first of its stages."""
    for drop in run.rows("drops"):
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
    for step in run.steps(drop["vertex"], drop["instance"], drop["execution"], drop["at_ms"]):
        value = dict(step["emitted"]).get(drop["key"])
        if step["level"] == level and value is not None and value >= drop["limit"]:
            return int(step["at_ms"])
    return None


def _has(values: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row has these columns; on the right side of a join some are called `right_NAME`."""
    plain = all(name in values and values[name] == value for name, value in row.items())
    return plain or all(values.get(f"right_{name}", values.get(name, ...)) == value for name, value in row.items())


class _Fate:
    """One row, followed through the dataflow up to the moment of the question."""

    def __init__(self, search: Search, values: dict[str, Any], wanted: dict[str, Any], first: Row) -> None:
        self.search, self.run, self.values, self.first = search, search.run, values, first
        self.wanted = wanted

    def explanation(self) -> FlowExplanation:
        """Where it is, or what became of it."""
        source, read_ms = self.first["vertex"], self.first["at_ms"]
        if not self.first["passed"]:
            sentence = f"was rejected by the filter of source {source} at {moment(read_ms)}"
            return self._fate("rejected", source, read_ms, sentence)
        for drop in dropped_rows(self.run, self.wanted):
            if drop.at_ms <= self.search.at_ms and self._is(drop.row):
                return self._fate("dropped", drop.vertex, drop.at_ms, f"was {drop.sentence}", drop=drop, key=drop.key)
        for out in self.run.rows("sunk"):
            if out["at_ms"] <= self.search.at_ms and self._is(read(out["row"])):
                sentence = f"came out at {out['vertex']} at {moment(out['at_ms'])}"
                return self._fate("came out", out["vertex"], out["at_ms"], sentence)
        return self._on_its_way()

    def _is(self, values: Mapping[str, Any]) -> bool:
        """Whether this is the row: it has the columns asked for, and all others that it shares are the same."""
        shared = {name: value for name, value in self.values.items() if name in values or f"right_{name}" in values}
        return _has(values, self.wanted) and _has(values, shared)

    def _on_its_way(self) -> FlowExplanation:
        last = self._last()
        if last is None:
            return self._fate("unknown", self.first["vertex"], None, f"has not left source {self.first['vertex']} yet")
        queue, item = last
        name = queue["target"]
        if item["taken_ms"] is None or item["taken_ms"] > self.search.at_ms:
            sentence = f"waits on the queue from {queue['source']} to {name} since {moment(item['put_ms'])}"
            return self._fate("on queue", name, item["put_ms"], sentence)
        if name.removesuffix(FRAMES) in self.search.windows:
            return self._in_window(name.removesuffix(FRAMES))
        if name in self.search.joins:
            return self._in_join(name, queue)
        cause, what = {
            "filter": ("rejected", "rejected it"),
            "async map": ("waiting", "has not given its result back"),
        }.get(self.run.vertices[name]["kind"], ("gone", "made another row of it"))
        sentence = f"was taken by {name} at {moment(item['taken_ms'])}, which {what}"
        return self._fate(cause, name, item["taken_ms"], sentence)

    def _last(self) -> tuple[Row, Row] | None:
        """The last item that is the row, with its queue, by the order of the flow."""
        order = {name: number for number, name in enumerate(self.run.vertices)}
        items = [
            (order[queue["target"]], item["put_ms"], number, queue, item)
            for number, queue in enumerate(self.run.queues)
            for item in self.run.on_queue(queue, self.search.number, self.search.at_ms)
            if item["kind"] == "event" and self._is(read(item["row"]))
        ]
        return max(items, key=lambda entry: entry[:3])[3:] if items else None

    def _in_window(self, name: str) -> FlowExplanation:
        """In the first of its windows that has not come out, or in the last one that has."""
        windows = Windows(self.search, name)
        time = self.values[windows.columns[windows.rule.time]]
        if isinstance(windows.rule, SessionWindow):
            ends = sorted(session.end for session in windows.open() if session.start <= time < session.end)
        else:
            ends = [end for _, end in windows.rule.shape.windows_of(time)]
        if not ends:
            return self._fate("gone", name, None, f"is part of a session of {name} that has come out")
        at_ms, rules = self.search.at_ms, self.search.rules
        answers = [explain_window(self.run, rules, end, vertex=name, at_ms=at_ms) for end in ends]
        chosen = next((answer for answer in answers if answer.cause == "waiting"), answers[-1])
        return replace(chosen, asked="row", sentence=f"went into {name}: {chosen.sentence}")

    def _in_join(self, name: str, queue: Row) -> FlowExplanation:
        """Kept until the limit of its key passes its time."""
        join, edge = self.search.joins[name], queue["edge"]
        source = self.run.vertices[queue["source"]]
        key = next((key for key in join.keys[edge] if source["keys"].get(key) in self.values), None)
        if key is None:
            return self._fate("waiting", name, None, f"is in {name}")
        time = self.values[source["keys"][key]]
        instance, needed = queue["target_instance"], time + 1
        limit = self.search.limit(name, instance, key)
        if limit is not None and time < limit:
            sentence = (
                f"was in {name} until its limit of key {key} had passed {moment(time)}; it is {moment(limit)} now"
            )
            return self._fate("gone", name, None, sentence, instance=instance, key=key)
        holders = self.search.at_limit(name, instance, key, needed)
        until = release_ms(holders, self.search.at_ms)
        then = "leaves without a partner" if join.outer == edge else "is given up"
        parts = [
            f"is kept by {name}, where no partner has come; it {then} when the limit of key {key} passes "
            f"{moment(time)}",
            held_by(self.run, holders),
            released_by(self.run, holders, until),
        ]
        sentence = "; ".join(part for part in parts if part)
        about = {"instance": instance, "key": key, "needed": needed, "holders": holders, "release_ms": until}
        return self._fate("waiting", name, None, sentence, **about)

    def _fate(self, cause: str, vertex: str, since_ms: int | None, sentence: str, **about: Any) -> FlowExplanation:
        return FlowExplanation(
            at_ms=self.search.at_ms,
            stream=self.run.stream,
            asked="row",
            vertex=vertex,
            cause=cause,
            since_ms=since_ms,
            sentence=sentence,
            **about,
        )
