"""Small scenarios for the tests of the simulator, what their runs have written, and what every run must keep."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.machine import judge
from wmlab.core.simulation import EventColumns
from wmlab.streams.api import Scenario
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.scenario import StreamScenario
from wmlab.streams.sim.parties import Parties
from wmlab.streams.sim.reader import RunningGroup
from wmlab.streams.sim.run import journals_of, run_to_end
from wmlab.streams.sim.world import World

FOUR = Stream(segments=4, timestamp_aggregation_timeout_ms=5_000)


class Run(Parties):
    """A run with questions to what it has written, in its first stream unless another one is named."""

    def __init__(self, case: Scenario, traces: Mapping[str, Any] | None = None) -> None:
        super().__init__(World(case), traces or {})

    def to_end(self) -> Run:
        """The run after its end."""
        run_to_end(self)
        return self

    @property
    def scenario(self) -> StreamScenario:
        """The scenario, with all that was left to its rules filled in."""
        return self.world.scenario

    @property
    def group(self) -> RunningGroup:
        """The only reader group."""
        (group,) = self.groups.values()
        return group

    @property
    def events(self) -> EventColumns:
        return self.stream().journal.events(tuple(part.name for part in self.scenario.writers))

    def rows(self, table: str, *span_ms: int, of: str | None = None, **where: object) -> list[Mapping[str, Any]]:
        """The rows with the given values, after a time, or between two; `of` a stream, by its title."""
        titled = None if table in ("messages", "ownership") else of or self.stream().title
        journal = journals_of(self)[titled]
        found = [row for row in journal.rows.get(table, []) if all(row[name] == where[name] for name in where)]
        at = "emitted_ms" if table == "watermarks" else "at_ms"
        after_ms, before_ms = (*span_ms, None, None)[:2]
        return [
            row
            for row in found
            if (after_ms is None or row[at] > after_ms) and (before_ms is None or row[at] < before_ms)
        ]

    def column(self, table: str, name: str, *span_ms: int, **where: Any) -> list[Any]:
        """One column of these rows."""
        return [row[name] for row in self.rows(table, *span_ms, **where)]

    def txns(self, **where: object) -> dict[str, Mapping[str, Any]]:
        return {row["txn"]: row for row in self.rows("transactions", **where)}

    def stored_marks(self) -> Mapping[str, Any]:
        """The writer marks that the metadata store holds now."""
        marks = self.metadata.marks(self.stream().name)
        return {} if marks is None else marks.table.marks

    def events_of(self, writer: str) -> list[tuple[int, int]]:
        """(event time, append time) of a writer's events."""
        mine = self.events.writer == [part.name for part in self.scenario.writers].index(writer)
        return list(zip(self.events.event_time[mine].tolist(), self.events.append_ms[mine].tolist(), strict=True))

    def times_of(self, writer: str) -> list[int]:
        """The times of a writer's events, ascending."""
        return sorted(time for time, _ in self.events_of(writer))

    def bounds(self) -> list[tuple[int, int]]:
        """(lower, upper) of every watermark."""
        return [(row["lower"], row["upper"]) for row in self.rows("watermarks")]

    def emitted(self) -> list[tuple[int, int]]:
        """(when, lower) of every watermark."""
        return [(row["emitted_ms"], row["lower"]) for row in self.rows("watermarks")]

    def removals(self) -> list[tuple[int, list[str]]]:
        """(when, whom) a cycle removed."""
        return [(row["at_ms"], row["removed"]) for row in self.rows("cycles") if row["removed"]]

    def outcomes(self, **where: object) -> list[str]:
        """What became of every mark."""
        return self.column("writer_marks", "outcome", **where)

    def held(self) -> list[str]:
        """Why cycles emitted nothing, in order."""
        return self.column("cycles", "reason", outcome="held")

    def lowers(self, reader: str = "readers-0") -> list[tuple[int, int | None]]:
        return [(row["at_ms"], row["lower"]) for row in self.rows("windows", reader=reader)]

    def lower_at(self, at_ms: int, reader: str = "readers-0") -> int | None:
        return [lower for at, lower in self.lowers(reader) if at <= at_ms][-1]

    def segment_owners(self) -> dict[int, str | None]:
        streams = self.group.state.streams.values()
        return {place: owner for state in streams for place, owner in state.owners.items()}

    # What every run must keep.

    def late_events(self) -> int:
        """How many events lie beyond some watermark's cut though they are older than its lower bound."""
        events = self.events
        late = np.zeros(len(events.offset), bool)
        for watermark in self.rows("watermarks"):
            cut = watermark["cut"]
            ancestors = {ancestor.id for segment in cut for ancestor in self.stream().history.ancestors(segment)}
            limit = np.array([cut.get(int(segment_id)) or 0 for segment_id in events.segment_id], np.int64)
            beyond = (events.offset > limit) & ~np.isin(events.segment_id, list(ancestors - set(cut)))
            late |= beyond & (events.event_time < watermark["lower"])
        return int(late.sum())

    def assert_log_grows(self) -> None:
        """I1, I7 and I8: lower grows, lower <= upper, one winner per revision."""
        self._assert_kept(judge.lower_increases, judge.bounds_in_order, judge.one_winner)

    def assert_sound(self) -> None:
        """The invariants of the log: bounds in order, cuts that cover all keys, can be passed, and never move back."""
        self.assert_log_grows()
        self._assert_kept(judge.cut_complete, judge.cut_never_moves_back)
        assert all(row["lower"] == min(row["writers"].values()) for row in self.rows("watermarks"))
        assert all(earlier[1] <= later[1] for earlier, later in pairwise(self.bounds()))

    def _assert_kept(self, *rules: Any) -> None:
        tables = {name: self.rows(name) for name in judge.TABLES if name != "events"}
        for rule in rules:
            assert (rule.__name__, rule(tables)[1]) == (rule.__name__, [])

    def assert_merged_once(self) -> None:
        """Every event of a committed transaction is in the stream, and none of them twice."""
        for part in self.scenario.writers:
            if isinstance(part, TransactionalWriter):
                done, late = (
                    sum(self.column("transactions", "events", writer=part.name, state=state))
                    for state in ("committed", "committing")
                )
                assert done <= len(self.events_of(part.name)) <= done + late

    def assert_lower_never_falls(self, reader: str = "readers-0") -> None:
        """I9, of one life of a reader."""
        lowers = [lower for _, lower in self.lowers(reader) if lower is not None]
        assert lowers == sorted(lowers)

    def assert_delivered(self) -> None:
        """Every event is read for the first time once, and before a bound above its time is known."""
        self.first_reads_are_complete()
        assert self.late_first_reads() == 0

    def first_reads_are_complete(self) -> dict[int, int]:
        """Every event of every segment is read for the first time once, by somebody."""
        ends: dict[int, int] = {}
        for row in self.rows("reads", again=False):
            assert row["from_offset"] == ends.get(row["segment_id"], 0)
            ends[row["segment_id"]] = row["to_offset"]
        return ends

    def late_first_reads(self) -> int:
        """Events read for the first time after the reader knew a lower bound above their time (I6)."""
        events, late = self.events, 0
        for row in self.rows("reads", again=False):
            if row["lower"] is not None:
                inside = (events.segment_id == row["segment_id"]) & (events.offset > row["from_offset"])
                late += int((inside & (events.offset <= row["to_offset"]) & (events.event_time < row["lower"])).sum())
        return late


def scenario(**fields: Any) -> Scenario:
    given = {
        "stream": Stream(segments=2, timestamp_aggregation_timeout_ms=5_000),
        "writers": [EventWriter("w1", rate_per_s=100), EventWriter("w2", rate_per_s=40, delay_mean_ms=150)],
        "readers": ReaderGroup(readers=2),
        "controllers": Controllers(period_ms=500),
        "duration_ms": 20_000,
        "seed": 3,
    }
    return Scenario("test", **(given | fields))


def run(traces: Mapping[str, Any] | None = None, **fields: Any) -> Run:
    return run_of(scenario(**fields), traces)


def run_of(case: Scenario, traces: Mapping[str, Any] | None = None) -> Run:
    return Run(case, traces).to_end()


def noted(at_ms: int, writer: str, time: int, position: Mapping[str, int | None] | None = None) -> script.NoteTime:
    """A note with a position that grows with the clock, unless another one is given."""
    return script.NoteTime(
        at_ms=at_ms, writer=writer, time=time, position={"0@0": at_ms} if position is None else position
    )


def scripted(*actions: Any, writers: str = "ab", timeout_ms: int = 1_000, **fields: Any) -> Run:
    """A run in which the writers write nothing and note only what the script says; cycles 505, 1,005 ... ms later."""
    stream = {"segments": 1, "timestamp_aggregation_timeout_ms": timeout_ms} | fields.pop("stream", {})
    quiet = [EventWriter(name, rate_per_s=0, note_every_ms=None) for name in writers]
    return run(**({"writers": quiet, "stream": Stream(**stream), "script": actions, "duration_ms": 9_000} | fields))


def clocked(name: str = "w", **fields: Any) -> EventWriter:
    """A writer that notes its clock."""
    return EventWriter(name, **({"rate_per_s": 50, "noting": noting.WallClock()} | fields))


def txn_writer(name: str = "t", **fields: Any) -> TransactionalWriter:
    return TransactionalWriter(name, **({"rate_per_s": 50} | fields))


def group(**fields: Any) -> ReaderGroup:
    return ReaderGroup(**({"readers": 2, "publish_every_ms": 500} | fields))


def commit(at_ms: int, transaction: str | None = None, time: Any = "policy") -> script.CommitTransaction:
    return script.CommitTransaction(at_ms=at_ms, writer="t", transaction=transaction, time=time)


def drawn(kind: Any, **fields: Any) -> st.SearchStrategy[Any]:
    """Things of a kind, whose fields are strategies, lists to draw from, or values."""

    def strategy(field: Any) -> st.SearchStrategy[Any]:
        if isinstance(field, st.SearchStrategy):
            return field
        return st.sampled_from(field) if isinstance(field, list) else st.just(field)

    return st.builds(kind, **{name: strategy(field) for name, field in fields.items()})


def cut_of(**names: int | None) -> dict[int, int | None]:
    """A cut from offsets by segment, `_1_2=5` for `1@2`."""
    return {parse_segment(name[1:].replace("_", "@")): offset for name, offset in names.items()}
