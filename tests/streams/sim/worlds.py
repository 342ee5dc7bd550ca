"""Small scenarios for the tests of the simulator, what their runs have written, and what every run must keep."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from wmlab.streams.api import Scenario
from wmlab.streams.model.position import behind_at_a_key, is_lineage_valid, is_valid_cut
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.sim.group import Group
from wmlab.streams.sim.world import World

FOUR = Stream(segments=4, timestamp_aggregation_timeout_ms=5_000)


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


def run(traces: Mapping[str, Any] | None = None, **fields: Any) -> World:
    return run_of(scenario(**fields), traces)


def run_of(case: Scenario, traces: Mapping[str, Any] | None = None) -> World:
    world = World(case, traces or {})
    world.run()
    return world


def noted(at_ms: int, writer: str, time: int, position: Mapping[str, int | None] | None = None) -> script.NoteTime:
    """A note with a position that grows with the clock, unless another one is given."""
    return script.NoteTime(
        at_ms=at_ms, writer=writer, time=time, position={"0@0": at_ms} if position is None else position
    )


def scripted(*actions: Any, writers: str = "ab", timeout_ms: int = 1_000, **fields: Any) -> World:
    """A run in which the writers write nothing and note only what the script says; cycles 505, 1,005 ... ms later."""
    stream = {"segments": 1, "timestamp_aggregation_timeout_ms": timeout_ms} | fields.pop("stream", {})
    quiet = [EventWriter(name, rate_per_s=0, note_every_ms=None) for name in writers]
    return run(**({"writers": quiet, "stream": Stream(**stream), "script": actions, "duration_ms": 9_000} | fields))


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


# What a run has written.


def only(world: World) -> Group:
    """The only reader group."""
    (group,) = world.groups.values()
    return group


def rows(world: World, table: str, **where: object) -> list[Mapping[str, Any]]:
    written = world.stream().journal.rows.get(table, [])
    return [row for row in written if all(row[name] == value for name, value in where.items())]


def txns(world: World, **where: object) -> dict[str, Mapping[str, Any]]:
    return {row["txn"]: row for row in rows(world, "transactions", **where)}


def stored_marks(world: World, stream: str = "stream") -> Mapping[str, Any]:
    """The writer marks that the metadata store holds now."""
    return world.metadata.record(stream).marks.marks


def events_of(world: World, writer: str) -> list[tuple[int, int]]:
    """(event time, append time) of a writer's events."""
    names = tuple(part.name for part in world.scenario.writers)
    events = world.stream().journal.events(names)
    mine = events.writer == names.index(writer)
    return list(zip(events.event_time[mine].tolist(), events.append_ms[mine].tolist(), strict=True))


def times_of(world: World, writer: str) -> list[int]:
    """The times of a writer's events, ascending."""
    return sorted(time for time, _ in events_of(world, writer))


def bounds(world: World) -> list[tuple[int, int]]:
    """(lower, upper) of every watermark."""
    return [(row["lower"], row["upper"]) for row in rows(world, "watermarks")]


def outcomes(world: World, **where: object) -> list[str]:
    """What became of every mark."""
    return [row["outcome"] for row in rows(world, "writer_marks", **where)]


def held(world: World) -> list[str]:
    """Why cycles emitted nothing, in order."""
    return [row["reason"] for row in rows(world, "cycles", outcome="held")]


def cut_of(**names: int | None) -> dict[int, int | None]:
    """A cut from offsets by segment, `_1_2=5` for `1@2`."""
    return {parse_segment(name[1:].replace("_", "@")): offset for name, offset in names.items()}


def lowers(world: World, reader: str = "readers-0") -> list[tuple[int, int | None]]:
    return [(row["at_ms"], row["lower"]) for row in rows(world, "windows", reader=reader)]


def lower_at(world: World, at_ms: int, reader: str = "readers-0") -> int | None:
    return [lower for at, lower in lowers(world, reader) if at <= at_ms][-1]


def segment_owners(world: World) -> dict[int, str | None]:
    return {
        place: owner for state in only(world).shared.value.streams.values() for place, owner in state.owners.items()
    }


# What every run must keep.


def late_events(world: World) -> int:
    """How many events lie beyond some watermark's cut though they are older than its lower bound."""
    events = world.stream().journal.events(tuple(part.name for part in world.scenario.writers))
    late = np.zeros(len(events.offset), bool)
    for watermark in rows(world, "watermarks"):
        cut = watermark["cut"]
        passed = list(
            {ancestor.id for segment in cut for ancestor in world.stream().history.ancestors(segment)} - set(cut)
        )
        limit = np.array([cut.get(int(segment_id)) or 0 for segment_id in events.segment_id], np.int64)
        late |= (events.offset > limit) & ~np.isin(events.segment_id, passed) & (events.event_time < watermark["lower"])
    return int(late.sum())


def assert_log_grows(world: World) -> None:
    """I1, I7 and I8: lower grows, lower <= upper, one winner per revision."""
    watermarks = rows(world, "watermarks")
    assert all(watermark["lower"] <= watermark["upper"] for watermark in watermarks)
    for earlier, later in pairwise(watermarks):
        assert earlier["lower"] < later["lower"]
        assert earlier["revision"] < later["revision"]


def assert_sound(world: World) -> None:
    """The invariants of the log: bounds in order, cuts that cover all keys, can be passed, and never move back."""
    assert_log_grows(world)
    watermarks = rows(world, "watermarks")
    for watermark in watermarks:
        assert is_valid_cut(watermark["cut"], world.stream().history)
        assert is_lineage_valid(watermark["cut"], world.stream().history)
        assert watermark["lower"] == min(watermark["writers"].values())
    for earlier, later in pairwise(watermarks):
        assert earlier["upper"] <= later["upper"]
        assert not behind_at_a_key(earlier["cut"], later["cut"], world.stream().history.segments)


def first_reads_are_complete(world: World) -> dict[int, int]:
    """Every event of every segment is read for the first time once, by somebody."""
    ends: dict[int, int] = {}
    for row in rows(world, "reads", again=False):
        assert row["from_offset"] == ends.get(row["segment_id"], 0)
        ends[row["segment_id"]] = row["to_offset"]
    return ends


def late_first_reads(world: World) -> int:
    """Events read for the first time after the reader knew a lower bound above their time (I6)."""
    names = tuple(writer.part.name for writer in world.writers.values())
    events = world.stream().journal.events(names)
    late = 0
    for row in rows(world, "reads", again=False):
        if row["lower"] is not None:
            inside = (events.segment_id == row["segment_id"]) & (events.offset > row["from_offset"])
            late += int((inside & (events.offset <= row["to_offset"]) & (events.event_time < row["lower"])).sum())
    return late
