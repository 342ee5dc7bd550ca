"""Small scenarios for the tests of the simulator."""

from collections.abc import Mapping
from typing import Any

from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.sim.group import Group
from wmlab.streams.sim.world import World


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
    world = World(scenario(**fields), traces or {})
    world.run()
    return world


def only(world: World) -> Group:
    """The only reader group."""
    (group,) = world.groups.values()
    return group


def rows(world: World, table: str, **where: object) -> list[Mapping[str, Any]]:
    found = world.journal.rows.get(table, [])
    return [row for row in found if all(row[name] == value for name, value in where.items())]


def stored_marks(world: World, stream: str = "stream") -> Mapping[str, Any]:
    """The writer marks that the metadata store holds now."""
    return world.metadata.record(stream).marks.marks


def events_of(world: World, writer: str) -> list[tuple[int, int]]:
    """(event time, append time) of a writer's events."""
    names = tuple(part.name for part in world.scenario.writers)
    events = world.journal.events(names)
    mine = events.writer == names.index(writer)
    return list(zip(events.event_time[mine].tolist(), events.append_ms[mine].tolist(), strict=True))


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
