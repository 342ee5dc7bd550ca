"""The records that a source receives, and the buffers into which it cuts them.

Everything that chance decides about a source is drawn here, in the order of its records. So neither the workers nor the
other sources have a part in it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from wmlab.core import traces
from wmlab.core.simulation import generator
from wmlab.core.values import Problem, Problems
from wmlab.core.words import moment
from wmlab.progress.model.numbers import FIRST_SEQUENCE, INITIAL, TupleBuffer, by_event_time, by_ingestion_time
from wmlab.progress.scenario import ProgressScenario, Source


def target_name(emitter: str, sequence: int, chunk: int | None = None, *, worker: int | None = None) -> str:
    """The target of a fault as incidents name it: "a 20", "a 20 chunk 1", "a 20 on worker 2"."""
    of_chunk = "" if chunk is None else f" chunk {chunk}"
    return f"{emitter} {sequence}{of_chunk}" + ("" if worker is None else f" on worker {worker}")


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The records of a source in the order received: event time and clock time of each in ms, and its key from 0."""

    event_time: NDArray[np.int64]
    received_ms: NDArray[np.int64]
    key: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.received_ms)


ROW: Final = np.dtype([("time", np.int64), ("key", np.int64), ("number", np.uint64)])
"""A record in a buffer: event time in ms, key, and a number, which is another one for every record of a plan."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RecordBuffer(TupleBuffer):
    """A tuple buffer with what it holds.

    `rows` are its records, each a `ROW`; behind the last windows and filters there are none, as only their number
    counts. `size` is how large a record has become, in records as they were at the source; `capacity` is how many of
    these a buffer holds, None: any number.
    """

    created_ms: int
    records: int
    rows: NDArray[np.void] = field(default_factory=lambda: np.empty(0, ROW))
    size: float = 1.0
    capacity: int | None = None


def trace_records(scenario: ProgressScenario) -> dict[str, Records]:
    """The records of every source that replays a trace, in the order of their arrival.

    Raises `Problems` for a source whose name is not a writer of its trace, and if nothing of all arrives in the time.
    """
    logs = traces.logs_of_writers(
        scenario.name,
        (
            (("queries", number, *path, "name"), source.name, source.trace)
            for number, query in enumerate(scenario.queries)
            for path, source in query.sources_by_path
        ),
    )
    start, end = scenario.start_ms, scenario.start_ms + scenario.duration_ms
    arrivals = [log["arrival_ms"] for log in logs.values()]
    if arrivals and not any(((start <= times) & (times < end)).any() for times in arrivals):
        first = moment(int(min(times.min() for times in arrivals)))
        message = f"nothing of its traces arrives from {moment(start)} to {moment(end)}; the first row does at {first}"
        raise Problems(f"the scenario {scenario.name!r}", [Problem(("start_ms",), message)])
    keys = np.unique(np.concatenate([log["key"].astype(str) for log in logs.values()] or [[]]))
    return {
        name: Records(log["event_time"], log["arrival_ms"], np.searchsorted(keys, log["key"].astype(str)))
        for name, log in logs.items()
    }


def received(source: Source, scenario: ProgressScenario, traced: Records | None = None) -> Records:
    """The records of a source before any fault; `traced` holds those of a source that replays a trace."""
    start, end = scenario.start_ms, scenario.start_ms + scenario.duration_ms
    draws = generator(scenario.seed, f"records of {source.name}")
    if traced is not None:
        happens, arrives = traced.event_time, traced.received_ms
    elif source.times_ms is not None:
        happens = start + np.sort(np.array(source.times_ms, np.int64))
        arrives = happens
    elif source.rows is not None:
        columns = np.array(source.rows, np.int64).reshape(len(source.rows), len(source.columns)).T
        named = dict(zip(source.columns, columns, strict=True))
        arrives = named[source.arrival] if source.arrival else named[str(source.event_time)] * source.unit_ms
        happens = named[source.event_time] * source.unit_ms if source.event_time else arrives
        happens, arrives = start + happens, start + arrives
    else:
        count = int(draws.poisson((source.rate_per_s or 0.0) * scenario.duration_ms / 1_000))
        happens = start + np.sort(draws.integers(0, scenario.duration_ms, size=count, dtype=np.int64))
        arrives = happens
    delays = (draws.exponential(size=len(arrives)) * source.delay_mean_ms).astype(np.int64)
    arrives = np.maximum.accumulate(arrives + delays) + source.lag_ms
    if source.rows is not None and source.event_time is None:
        happens = arrives
    if source.disorder_ms:
        happens = np.maximum(0, happens - draws.integers(0, source.disorder_ms + 1, size=len(happens), dtype=np.int64))
    keys = generator(scenario.seed, f"keys of {source.name}").integers(0, source.keys, len(happens), dtype=np.int64)
    inside = (arrives >= start) & (arrives < end)
    return Records(happens[inside], arrives[inside], (keys if traced is None else traced.key)[inside])


def buffers_of_source(
    records: Records,
    source: Source,
    scenario: ProgressScenario,
    *,
    origin: int,
    silent_ms: int | None,
    empty: frozenset[int],
) -> Iterator[tuple[int, RecordBuffer]]:
    """The buffers of a source in order, each with the clock time in ms at which it is sent.

    `silent_ms` is the clock time from which it receives nothing and does not end either; `empty` has the sequences of
    which the first pipeline leaves nothing.
    """
    count = len(records) if silent_ms is None else int(np.searchsorted(records.received_ms, silent_ms))
    first = np.uint64(zlib.crc32(source.name.encode()) << 32)
    rows = np.empty(len(records), ROW)
    rows["time"], rows["key"] = records.event_time, records.key
    rows["number"] = first + np.arange(len(records), dtype=np.uint64)
    end_ms = scenario.start_ms + scenario.duration_ms
    rules = scenario.rules
    flush_ms = source.flush_every_ms or rules.flush_every_ms
    sequence, begin = FIRST_SEQUENCE, 0
    while begin < count:
        created = int(records.received_ms[begin])
        stop, sent = _close(records.received_ms[:count], begin, source.buffer_records, flush_ms)
        if sent is None and silent_ms is not None:
            return
        sent = end_ms if sent is None else min(sent, end_ms)
        inside = rows[begin:stop]
        at_source = rules.stamped == "source"
        watermark = stamped(source, created, inside["time"]) if at_source else INITIAL
        rows_left = inside[:0] if sequence in empty else inside
        yield sent, RecordBuffer(
            origin, sequence, rules.chunk_base, True, watermark,
            created_ms=created, records=len(rows_left), rows=rows_left, capacity=source.buffer_records,
        )  # fmt: skip
        sequence, begin = sequence + 1, stop


def stamped(source: Source, created_ms: int, times: NDArray[np.int64]) -> int:
    """The watermark of a buffer of a source, from its creation or from the event times in it."""
    if source.stamp == "ingestion_time":
        return by_ingestion_time(created_ms)
    return by_event_time(times.tolist(), allowed_lateness=source.allowed_lateness_ms)


def _close(
    received_ms: NDArray[np.int64], begin: int, most_records: int, flush_ms: int | None
) -> tuple[int, int | None]:
    """Where the buffer that begins at a record ends, and when it is sent; None: not before the stream ends."""
    full = begin + most_records
    if flush_ms is None:
        return (full, int(received_ms[full - 1])) if full <= len(received_ms) else (len(received_ms), None)
    due = int(received_ms[begin]) + flush_ms
    before = begin + int(np.searchsorted(received_ms[begin:full], due))
    return (full, int(received_ms[full - 1])) if before == full else (before, due)
