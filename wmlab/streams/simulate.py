"""A scenario through the simulator: its writers' traces in, the tables of a recording out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from wmlab.core import traces
from wmlab.core.simulation import EventColumns, Journal
from wmlab.core.storage import GrowingTable, StoredTable
from wmlab.streams.model.segment import key_of
from wmlab.streams.scenario.scenario import StreamScenario, replayed
from wmlab.streams.sim.load import Load
from wmlab.streams.sim.world import World
from wmlab.streams.tables import TABLES

_KEYS = 2**64


def simulate(
    scenario: StreamScenario, progress: Callable[[int], None], place: Path | None = None
) -> dict[str, pa.Table | StoredTable]:
    """Run a scenario; `progress` gets the percentage, and stops the run by raising.

    Events leave memory for a scratch directory on the file system of `place` as they are recorded.
    """
    events = _Events(scenario, place)
    try:
        world = World(scenario, _trace_loads(scenario), events.take)
        world.run(progress=progress)
        return tables_of(scenario, world.journals(), events)
    except BaseException:
        events.discard()
        raise


def tables_of(
    scenario: StreamScenario, journals: Mapping[str | None, Journal], events: _Events | None = None
) -> dict[str, pa.Table | StoredTable]:
    """The rows of a run, given by stream and under None for those of no stream, as the tables of a recording.

    `events` has those that have left the journals.
    """
    schemas = {name: schema for name, schema in TABLES.items() if name != "events"}
    rows = {name: [row for journal in journals.values() for row in journal.rows.get(name, ())] for name in schemas}
    return {"events": (events or _Events(scenario, None)).table(journals), **Journal(rows).tables(schemas)}


class _Events:
    """The events of a run, which leave memory stream by stream."""

    def __init__(self, scenario: StreamScenario, place: Path | None) -> None:
        self._writers = tuple(writer.name for writer in scenario.writers)
        self._place = place
        self._growing: dict[str, GrowingTable] = {}

    def take(self, stream: str, journal: Journal) -> None:
        """Take what the journal of a stream holds."""
        if stream not in self._growing:
            self._growing[stream] = GrowingTable("events", TABLES["events"], self._place)
        self._growing[stream].append(_events(stream, journal.events(self._writers)))

    def table(self, journals: Mapping[str | None, Journal]) -> pa.Table | StoredTable:
        """The events of all streams, in the order of their journals."""
        streams = [stream for stream in journals if stream is not None]
        for stream in streams:
            self.take(stream, journals[stream])
        parts = [self._growing[stream].finish() for stream in streams]
        if len(parts) == 1:
            return parts[0]
        self._growing["all streams"] = whole = GrowingTable("events", TABLES["events"], self._place)
        for part in parts:
            for rows in part.chunks() if isinstance(part, StoredTable) else [part]:
                whole.append(rows)
        return whole.finish()

    def discard(self) -> None:
        """Remove what is on disk."""
        for table in self._growing.values():
            table.discard()


def _events(stream: str, events: EventColumns) -> pa.Table:
    names = pa.array(events.writer_names or [""], pa.string())
    columns = {
        "stream": pa.repeat(pa.scalar(stream, pa.string()), len(events.offset)),
        "segment_id": events.segment_id,
        "offset": events.offset,
        "event_time": events.event_time,
        "append_ms": events.append_ms,
        "writer": pa.DictionaryArray.from_arrays(pa.array(events.writer), names).cast(pa.string()),
    }
    return pa.table([columns[name] for name in TABLES["events"].names], schema=TABLES["events"])


def _trace_loads(scenario: StreamScenario) -> dict[str, Load]:
    """The load of every writer that replays a trace: what is under way at the start or departs until the end."""
    parts = [(("writers", index, "name"), part.name, part.trace) for index, part in enumerate(scenario.writers)]
    logs = traces.logs_of_writers(scenario.name, parts)
    loads: dict[str, Load] = {}
    for part in (part for part in scenario.writers if part.name in logs):
        columns = logs[part.name]
        happens, arrives = columns["event_time"], columns["arrival_ms"]
        inside = replayed(scenario, part, happens, arrives)
        keys, place = np.unique(columns["key"][inside].astype(str), return_inverse=True)
        numbers = np.array([int(key_of(str(key)) * _KEYS) for key in keys], np.uint64)
        loads[part.name] = Load.of(happens[inside], arrives[inside], numbers[place])
    return loads
