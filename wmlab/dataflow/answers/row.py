"""What became of one row: it came out, was dropped or rejected, or where it is and what would let it go on.

A row is found by some of its columns. Behind a vertex that makes other columns of it, it is another row.

Source: "Keyed watermark support", WM rules; "Stream-to-stream join", edge cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from wmlab.core.errors import RecordingError
from wmlab.core.words import grouped, moment, shown
from wmlab.dataflow.answers.explanation import DroppedRow, Explanation, waiting
from wmlab.dataflow.answers.run import Row, Run, listing, read
from wmlab.dataflow.answers.search import Search
from wmlab.dataflow.answers.windows import Windows
from wmlab.dataflow.model.items import MIN
from wmlab.dataflow.model.window import SessionWindow
from wmlab.dataflow.sim.layout import FRAMES


def explain_row(run: Run, row: Mapping[str, Any], *, at_ms: int, vertex: str | None = None) -> Explanation:
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
            f"no source of {run.stream!r} had read a row with {wanted or 'no columns'} by {moment(at_ms)}.",
            remedy="ask for columns that a source has, or later.",
        )
    fate = _Fate(Search(run, at_ms), dict(row), alike[0])
    answer = fate.explanation()
    more = f" (the first of {grouped(len(alike))} such rows)" if answer.drop is None and len(alike) > 1 else ""
    return replace(answer, sentence=f"row ({listing(fate.values)}){more} {answer.sentence}")


def dropped_rows(run: Run, row: Mapping[str, Any], *, vertex: str | None = None) -> Iterator[DroppedRow]:
    """The rows left out that have the columns of `row`, at all vertices or at one, or at the first of its stages."""
    for drop in run.rows("drops"):
        values = read(drop["row"])
        if _has(values, row) and (vertex is None or drop["vertex"] in {vertex, vertex + FRAMES}):
            plain = {
                name: drop[name] for name in ("vertex", "instance", "at_ms", "rule", "key", "time", "limit", "margin")
            }
            yield DroppedRow(**plain, passed_ms=_passed_ms(run, drop), row=values)


def _passed_ms(run: Run, drop: Row) -> int | None:
    """When the watermark had come by which the row was late."""
    level = "edge" if drop["rule"] == "join" else "global"
    for step in run.indexed("coalescing").get((drop["vertex"], drop["instance"]), ()):
        known = step["execution"] == drop["execution"] and step["at_ms"] <= drop["at_ms"] and step["level"] == level
        if known and dict(step["emitted"]).get(drop["key"], MIN) >= drop["limit"]:
            return int(step["at_ms"])
    return None


def _has(values: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row has these columns; on the right side of a join some are called `right_NAME`.

    Raises `RecordingError` for what is no map of columns.
    """
    if not isinstance(row, Mapping):
        raise RecordingError(f"row is {shown(row)}.", remedy="give some of its columns, as in row={'id': 7}.")
    plain = all(name in values and values[name] == value for name, value in row.items())
    return plain or all(values.get(f"right_{name}", values.get(name, ...)) == value for name, value in row.items())


class _Fate:
    """One row, followed through the dataflow up to the moment of the question."""

    def __init__(self, search: Search, wanted: Mapping[str, Any], first: Row) -> None:
        self.search, self.run, self.wanted, self.first = search, search.run, wanted, first
        self.values = read(first["row"])

    def explanation(self) -> Explanation:
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

    def _on_its_way(self) -> Explanation:
        """By the last item that is the row, in the order of the flow."""
        at_ms, order = self.search.at_ms, list(self.run.vertices)
        items = [
            (order.index(queue["target"]), item["put_ms"], number, queue, item)
            for number, queue in enumerate(self.run.queues)
            for item in self.search.rows("items", queue["queue"])
            if item["kind"] == "event" and self._is(read(item["row"]))
        ]
        if not items:
            return self._fate("unknown", self.first["vertex"], None, f"has not left source {self.first['vertex']} yet")
        *_, queue, item = max(items, key=lambda entry: entry[:3])
        name = queue["target"]
        if item["taken_ms"] is None or item["taken_ms"] > at_ms:
            sentence = f"waits on the queue from {queue['source']} to {name} since {moment(item['put_ms'])}"
            return self._fate("on queue", name, item["put_ms"], sentence)
        if name.removesuffix(FRAMES) in self.search.windows:
            return self._in_window(name.removesuffix(FRAMES), queue["edge"])
        if name in self.search.joins:
            return self._in_join(name, queue)
        cause, what = _TAKEN.get(self.run.vertices[name]["kind"], ("gone", "made another row of it"))
        sentence = f"was taken by {name} at {moment(item['taken_ms'])}, which {what}"
        return self._fate(cause, name, item["taken_ms"], sentence)

    def _in_window(self, name: str, edge: int) -> Explanation:
        """In the first of its windows that has not come out, or in the last one that has."""
        windows = Windows(self.search, name)
        time = windows.time(self.values, edge)
        if isinstance(windows.rule, SessionWindow):
            ends = sorted(session.end for session in windows.open() if session.start <= time < session.end)
        else:
            ends = [end for _, end in windows.rule.shape.windows_of(time)]
        if not ends:
            return self._fate("gone", name, None, f"is part of a session of {name} that has come out")
        answers = [windows.explanation(None, end) for end in ends]
        answer = next((answer for answer in answers if answer.cause == "waiting"), answers[-1])
        return replace(answer, asked="row", sentence=f"went into {name}: {answer.sentence}")

    def _in_join(self, name: str, queue: Row) -> Explanation:
        """Kept until the limit of its key passes its time."""
        join, edge = self.search.joins[name], queue["edge"]
        columns = self.run.vertices[queue["source"]]["keys"]
        key = next((key for key in join.keys[edge] if columns.get(key) in self.values), None)
        if key is None:
            return self._fate("waiting", name, None, f"is in {name}")
        time, instance = self.values[columns[key]], queue["target_instance"]
        limit = self.search.limit(name, instance, key)
        if limit is not None and time < limit:
            sentence = (
                f"was in {name} until its limit of key {key} had passed {moment(time)}; it is {moment(limit)} now"
            )
            return self._fate("gone", name, None, sentence, instance=instance, key=key)
        holders = self.search.holders(name, instance, key, time + 1, at="limit")
        then = "leaves without a partner" if join.outer == edge else "is given up"
        text = (
            f"is kept by {name}, where no partner has come; it {then} when the limit of key {key} passes {moment(time)}"
        )
        text, release_ms = waiting(self.run, text, holders, self.search.at_ms)
        about = {"instance": instance, "key": key, "needed": time + 1, "holders": holders, "release_ms": release_ms}
        return self._fate("waiting", name, None, text, **about)

    def _fate(self, cause: str, vertex: str, since_ms: int | None, sentence: str, **about: Any) -> Explanation:
        about |= {"cause": cause, "vertex": vertex, "since_ms": since_ms, "sentence": sentence}
        return self.search.explanation("row", **about)


_TAKEN: Final = {
    "filter": ("rejected", "rejected it"),
    "async map": ("waiting", "has not given its result back"),
}
"""What became of a row that a vertex of this kind took and did not pass on: in one word, and in a phrase."""
