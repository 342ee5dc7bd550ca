"""Why the watermark had passed a row that was dropped: which input it did not wait for, and why.

The row is followed to the one row of a source with the same columns and values. Its partition was idle, was itself that
far, or was not there yet, when its source let a watermark pass that makes the row late; or, if all partitions of an
instance were idle, when one passed behind it. What is not in the tables is not known, and never guessed.

An idle timeout keeps the row if with it the partition is not idle from then on until the row is read: then the source
waits for it. So it is the longest wait for a row of the partition in that time. One millisecond more is needed where
another row was read before it at the same moment.

Source: "Keyed watermark support", WM generation and Handling of keyed idle messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from wmlab.core.errors import RecordingError
from wmlab.core.facts import Value
from wmlab.core.holders import FAILED
from wmlab.core.words import shown
from wmlab.dataflow.answers.cause_facts import dataflow_facts, of_failure
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, read
from wmlab.dataflow.answers.sentences import row_words
from wmlab.dataflow.answers.values import DroppedRow, Drops
from wmlab.dataflow.answers.vocabulary import DROPS, IDLE_WHEN_PASSED, LostBecause
from wmlab.dataflow.model.items import MIN

_NOT_KNOWN: Final[Mapping[str, Value]] = {"lost because": LostBecause.NOT_KNOWN}


def late_from(run: DataflowRun, drop: RecordedRow) -> int:
    """The lowest watermark by which the vertex of a dropped row does not take it any more."""
    window = run.rules.windows.get(drop["vertex"])
    slide = getattr(getattr(window and window.rule, "shape", None), "slide", 1)
    return int(drop["limit"] - (drop["limit"] - drop["time"] - 1) // slide * slide)


def lost_because(run: DataflowRun, drop: RecordedRow) -> Mapping[str, Value]:
    """What let the watermark pass a dropped row, as facts about the partition that it is from."""
    passing = run.first_step(level_of(drop), late_from(run, drop))
    if passing is None or passing["at_ms"] > drop["at_ms"]:
        return _NOT_KNOWN
    row = _row_of_source(run, drop)
    return _NOT_KNOWN if row is None else _Partition(run, drop, row).facts(passing)


def dropped_rows(run: DataflowRun, row: Mapping[str, Any], *, vertex: str | None = None) -> Iterator[DroppedRow]:
    """The dropped rows that have the columns of `row`, at all vertices or at one."""
    for drop in run.rows("drops"):
        values = read(drop["row"])
        if not _has(values, row) or vertex not in {None, drop["vertex"]}:
            continue
        passing = run.first_step(level_of(drop), drop["limit"])
        facts: dict[str, Value] = {
            "row": row_words(values),
            "dropped by": drop["vertex"],
            "rule": drop["rule"],
            "dropped at": drop["at_ms"],
            "key": drop["key"],
            "time": drop["time"],
            "lowest taken": drop["limit"],
            "late by": drop["margin"],
            "passed at": None if passing is None or passing["at_ms"] > drop["at_ms"] else passing["at_ms"],
            **lost_because(run, drop),
        }
        yield DroppedRow(row=values, facts=dataflow_facts(run, facts))


def drops_of(run: DataflowRun, asked: Mapping[str, Any], vertex: str | None) -> Drops:
    """The answer about several dropped rows: how many, how late, and how many were lost to an idle partition.

    They are those with the columns `asked`. Raises `RecordingError` for anything but a map of columns, and for a column
    that no dropped row has.
    """
    if not isinstance(asked, Mapping):
        raise RecordingError(f"row is {shown(asked)}.", remedy="give some of its columns, as in row={'id': 7}.")
    columns = dict.fromkeys(name.removeprefix("right_") for drop in run.rows("drops") for name in read(drop["row"]))
    if columns and (unknown := [name for name in asked if name.removeprefix("right_") not in columns]):
        raise RecordingError(
            f"no dropped row of {run.stream!r} has a column {unknown[0]!r}.",
            remedy=f"name some of: {', '.join(columns)}.",
        )
    rows = tuple(dropped_rows(run, asked, vertex=vertex))
    idle = [row for row in rows if row.because is LostBecause.IDLE]
    if len(rows) == 1:
        return Drops(rows=rows, facts=rows[0].facts, templates=rows[0].templates)
    values: dict[str, Value] = {"stream": run.stream, "dropped": len(rows), **of_failure(run.end_at())}
    values["row"] = row_words(asked) if asked and not rows else None
    values["late by"] = max((row.number("late by") for row in rows), default=None)
    if idle:
        values |= {
            "idle when passed": len(idle),
            "partition": tuple(dict.fromkeys(str(row.facts["partition"]) for row in idle)),
        }
        values["kept with timeout"] = max(row.number("kept with timeout") for row in idle)
    facts = dataflow_facts(run, values)
    return Drops(rows=rows, facts=facts, templates=facts.chosen(FAILED, DROPS, IDLE_WHEN_PASSED))


def level_of(drop: RecordedRow) -> tuple[int, str, int, str, int]:
    """Which watermark decided: execution, vertex, instance, level of coalescing, and key."""
    level = "edge" if drop["rule"] == "join" else "global"
    return drop["execution"], drop["vertex"], drop["instance"], level, drop["key"]


def _row_of_source(run: DataflowRun, drop: RecordedRow) -> RecordedRow | None:
    """The one row of a source that the dropped one can be; None: there is none, or more than one."""
    rows = [
        row
        for vertex, instance in run.sources_of(drop["vertex"], drop["instance"])
        for row in run.indexed("source_rows", "row").get((drop["execution"], vertex, instance, drop["row"]), ())
        if row["passed"] and row["at_ms"] <= drop["at_ms"]
    ]
    if len(rows) != 1 or (rows[0]["vertex"], drop["key"]) not in run.rules.times:
        return None
    column = run.vertices[rows[0]["vertex"]]["keys"][drop["key"]]
    return rows[0] if read(drop["row"])[column] == drop["time"] else None


class _Partition:
    """The partition of a source that a dropped row is from, and what its instance had read until then."""

    def __init__(self, run: DataflowRun, drop: RecordedRow, row: RecordedRow) -> None:
        self._run, self._drop, self._row, self._key, self._late_from = run, drop, row, drop["key"], late_from(run, drop)
        self._source = run.rules.sources[row["vertex"]]
        self._rule = run.rules.times[row["vertex"], drop["key"]].mapper
        where = drop["execution"], row["vertex"], row["instance"]
        self._steps = [step for step in run.indexed("coalescing").get(where, ()) if step["key"] == self._key]
        silent = self._rule.deviations.rejected_rows_silent
        reads = [each for each in run.indexed("source_rows")[where] if each["passed"] or not silent]
        self._reads = reads[: [each["number"] for each in reads].index(row["number"]) + 1]
        added = (s["at_ms"] for s in self._steps if (s["stimulus"], s["input"]) == ("added", row["partition"]))
        self._begun_ms = next(added, run.executions[drop["execution"] - 1]["started_ms"])

    def facts(self, passing: RecordedRow) -> Mapping[str, Value]:
        """What was the matter with it when the watermark passed the row; `passing` is the step at the vertex."""
        number, at_ms = self._row["partition"], passing["at_ms"]
        mark = self._mark()
        known: dict[str, Value] = {
            "partition": f"partition {number} of {self._source.name}",
            "watermark of partition": mark,
            "lag": self._rule.policy.lag,
        }
        if self._is_so_far(mark):
            # A join sends no watermark above the rows that it keeps, so behind it this lets none pass.
            is_joined = self._is_joined(self._drop["vertex"], self._drop["instance"])
            return _NOT_KNOWN if is_joined else {"lost because": LostBecause.OWN_ROWS, **known}
        from_ms = min([at_ms, *self._passed_ms(self._drop["vertex"], self._drop["instance"])])
        timeout_ms = self._source.idle_timeout_ms
        # A row of it at that moment, behind what let the watermark pass, makes it count again.
        of_moment = [step for step in self._steps if step["at_ms"] == from_ms]
        before = [step for step in self._steps if step["at_ms"] < from_ms][-1:]
        left_out = [step for step in before + of_moment if number not in step["active"]]
        waits = [*self._waits(from_ms)]
        # A row that had been read by then was held back behind its source.
        if not left_out or not waits:
            return _NOT_KNOWN
        if number not in left_out[-1]["idle"]:
            return {"lost because": LostBecause.NOT_THERE, **known}
        reads = [each["at_ms"] for each in self._reads if each["partition"] == number]
        last_ms = max((ms for ms in reads if ms + timeout_ms <= from_ms), default=self._begun_ms)
        return {
            "lost because": LostBecause.IDLE,
            **known,
            "row before at": last_ms,
            "idle since": last_ms + timeout_ms,
            "idle timeout": timeout_ms,
            "kept with timeout": max(waits),
        }

    def _mark(self) -> int | None:
        """The watermark of the partition as the row was read: with those of the moment if a later row came before."""
        row, column = self._row, self._run.vertices[self._row["vertex"]]["keys"][self._key]
        moment = row["partition"], row["at_ms"]
        mine = (each for each in self._reads[:-1] if (each["partition"], each["at_ms"]) == moment)
        until_ms = row["at_ms"] - (not any(read(each["row"])[column] >= self._late_from for each in mine))
        steps = (step for step in self._steps if step["input"] == row["partition"] and step["at_ms"] <= until_ms)
        return next(iter([step["value"] for step in steps if step["value"] is not None][::-1]), None)

    def _is_joined(self, vertex: str, instance: int) -> bool:
        """Whether a join is on the way of the row to an instance."""
        source = self._row["vertex"], self._row["instance"]
        into = [(queue["source"], queue["source_instance"]) for queue in self._run.into(vertex, instance)]
        before = [each for each in into if source in self._run.sources_of(*each)]
        return any(name in self._run.rules.joins or self._is_joined(name, number) for name, number in before)

    def _is_so_far(self, mark: int | None) -> bool:
        """Whether a partition with this watermark lets one leave that makes the row late."""
        frames = self._rule.frames
        return mark is not None and frames is not None and frames.floor(mark) >= self._late_from

    def _passed_ms(self, vertex: str, instance: int) -> Iterator[int]:
        """When a watermark that makes the row late first left each level on the way to an instance (clock, ms)."""
        run, source = self._run, (self._row["vertex"], self._row["instance"])
        levels = [("partition", None)] if (vertex, instance) == source else []
        for queue in run.into(vertex, instance):
            before = queue["source"], queue["source_instance"]
            if source in run.sources_of(*before):
                levels += [("edge", queue["edge"]), ("global", None)]
                yield from self._passed_ms(*before)
        for level in levels:
            where = (self._row["execution"], vertex, instance, *level)
            steps = run.indexed("coalescing", "level", "edge").get(where, ())
            yield from (step["at_ms"] for step in steps if dict(step["emitted"]).get(self._key, MIN) >= self._late_from)

    def _waits(self, from_ms: int) -> Iterator[int]:
        """How long the partition waited for each of its rows from a moment on, until the lost one."""
        last_ms, before = self._begun_ms, -1
        for row in self._reads:
            if row["partition"] == self._row["partition"]:
                if row["at_ms"] >= from_ms:
                    yield row["at_ms"] - last_ms + (row["at_ms"] == before)
                last_ms = row["at_ms"]
            before = row["at_ms"]


def _has(values: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row has these columns; on the right side of a join some are called `right_NAME`."""
    plain = all(name in values and values[name] == value for name, value in row.items())
    return plain or all(values.get(f"right_{name}", values.get(name, ...)) == value for name, value in row.items())
