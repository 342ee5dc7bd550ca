"""Runs a scenario in the simulator: streams and parties begin, the clock advances, the rows become tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from wmlab.core import traces
from wmlab.core.simulation import EventColumns, Journal
from wmlab.core.storage import GrowingTable, StoredTable
from wmlab.streams.model.segment import key_of
from wmlab.streams.scenario.scenario import StreamScenario, is_replayed
from wmlab.streams.sim.actions import Actions
from wmlab.streams.sim.load import Load
from wmlab.streams.sim.parties import Parties
from wmlab.streams.sim.world import World
from wmlab.streams.tables import TABLES

_STEPS: Final = 100
_KEYS: Final = 2**64


def simulate(
    scenario: StreamScenario, progress: Callable[[int], None], beside: Path | None
) -> dict[str, pa.Table | StoredTable]:
    """Run a scenario; `progress` gets the percentage, and stops the run by raising.

    Events leave memory for a scratch directory on the file system of `beside` as they are recorded.
    """
    growing: defaultdict[str | None, GrowingTable] = defaultdict(
        lambda: GrowingTable("events", TABLES["events"], beside)
    )

    def take(stream: str, journal: Journal) -> None:
        growing[stream].append(_events(stream, journal.events(tuple(writer.name for writer in scenario.writers))))

    try:
        parties = Parties(World(scenario, take), _trace_loads(scenario))
        run_to_end(parties, progress)
        journals = journals_of(parties)
        schemas = {name: schema for name, schema in TABLES.items() if name != "events"}
        rows = {name: [row for journal in journals.values() for row in journal.rows.get(name, ())] for name in schemas}
        for stream, journal in journals.items():
            if stream is not None:
                take(stream, journal)
        parts = [growing[stream].finish() for stream in journals if stream is not None]
        events = parts[0] if len(parts) == 1 else _joined(parts, growing[None])
        return {"events": events, **Journal(rows).tables(schemas)}
    except BaseException:
        for table in growing.values():
            table.discard()
        raise


def run_to_end(parties: Parties, progress: Callable[[int], None] = lambda _: None) -> None:
    """Run to the end of the scenario; `progress` gets the percentage done."""
    world, scenario = parties.world, parties.world.scenario
    for stream in parties.all_streams():
        parties.open_stream(stream)
    for controller in parties.controllers.members:
        controller.start()
    actions = Actions(parties)
    actions.plan(scenario.script)
    for writer in parties.writers.values():
        world.after(writer.part.starts_ms, writer.start)
    for group in scenario.groups:
        world.after(group.starts_ms, parties.start_group, group)
    for step in range(1, _STEPS + 1):
        until = scenario.start_ms + scenario.duration_ms * step // _STEPS
        if until > world.env.now:
            world.env.run(until=until)
        progress(step)
    parties.coordinator.finish()
    actions.write_pending_actions()
    for stream in parties.all_streams():
        stream.write_segments()
        parties.transactions[stream.title].write()
    for begun in parties.begun_groups:
        begun.write_checkpoints()


def journals_of(parties: Parties) -> dict[str | None, Journal]:
    """The rows of each stream by its title, deleted streams first, and under None those of no stream."""
    return {**{stream.title: stream.journal for stream in parties.all_streams()}, None: parties.world.shared}


def _events(stream: str, events: EventColumns) -> pa.Table:
    columns = {
        "stream": pa.repeat(pa.scalar(stream, pa.string()), len(events.offset)),
        "segment_id": events.segment_id,
        "offset": events.offset,
        "event_time": events.event_time,
        "append_ms": events.append_ms,
        "writer": pa.array(events.writer_names, pa.string()).take(pa.array(events.writer)),
    }
    return pa.table(columns, schema=TABLES["events"])


def _joined(parts: Iterable[pa.Table | StoredTable], whole: GrowingTable) -> pa.Table | StoredTable:
    """The events of all streams, in the order of their journals."""
    for part in parts:
        for rows in part.chunks() if isinstance(part, StoredTable) else [part]:
            whole.append(rows)
    return whole.finish()


def _trace_loads(scenario: StreamScenario) -> dict[str, Load]:
    """The load of every writer that replays a trace: what is under way at the start or departs until the end."""
    writers = {writer.name: writer for writer in scenario.writers}
    parts = [(("writers", index, "name"), name, writer.trace) for index, (name, writer) in enumerate(writers.items())]
    loads: dict[str, Load] = {}
    for name, columns in traces.logs_of_writers(scenario.name, parts).items():
        happens, arrives = columns["event_time"], columns["arrival_ms"]
        inside = is_replayed(scenario, writers[name], happens, arrives)
        keys, index = np.unique(columns["key"][inside].astype(str), return_inverse=True)
        numbers = np.array([int(key_of(str(key)) * _KEYS) for key in keys], np.uint64)
        loads[name] = Load.of(happens[inside], arrives[inside], numbers[index])
    return loads
