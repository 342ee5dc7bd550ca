"""What a scenario of streams costs to run, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from wmlab.core import traces
from wmlab.core.columns import ROW_GROUP
from wmlab.core.estimate import Cost
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, TransactionalWriter, WriterPart

if TYPE_CHECKING:
    from wmlab.streams.scenario.scenario import StreamScenario

_ROW = 1_000
_PER_SEGMENT = 120


def costs(scenario: StreamScenario) -> Iterator[Cost]:
    """Events, batches, notes, commits, cycles and reads; script and faults are left out."""
    segments = {stream.name: stream.segments for stream in scenario.all_streams}
    logs = traces.load_each(part.trace for part in scenario.writers)
    drawn = sum(_by_rate(part, scenario) for part in scenario.writers if _is_drawn(part))
    for index, writer in enumerate(scenario.writers):
        wide = segments.get(writer.stream or scenario.all_streams[0].name, 1)
        for cost in _of_writer(writer, f"writers[{index}]", scenario, logs, wide):
            leaves = cost.what == "events" and _is_drawn(writer)
            yield replace(cost, bytes_each=_held(cost, drawn)) if leaves else cost
    period_ms = scenario.controllers.period_ms
    cycles = scenario.duration_ms // period_ms
    yield Cost("cycles", "controllers.period_ms", cycles * len(segments), _ROW)
    yield Cost("segments of cycles", "stream.segments", cycles * sum(segments.values()), _PER_SEGMENT)
    for index, group in enumerate(scenario.groups):
        field = f"readers[{index}]" if isinstance(scenario.readers, tuple) else "readers"
        wide = sum(segments.get(name, 1) for name in group.streams or (group.stream or scenario.all_streams[0].name,))
        yield from _of_group(group, field, scenario.duration_ms, wide)


def _is_drawn(writer: WriterPart) -> bool:
    """Whether its events are drawn span by span and leave memory as they are recorded."""
    return isinstance(writer, EventWriter) and writer.trace is None and writer.processes == 1


def _by_rate(writer: WriterPart, scenario: StreamScenario) -> int:
    """How many events its rate makes."""
    return int((writer.rate_per_s or 0) * max(0, scenario.duration_ms - writer.starts_ms) / 1_000)


def _held(cost: Cost, drawn: int) -> int:
    """The bytes of an event, spread over all that are drawn: two row groups of those are in memory at once."""
    return -(-cost.bytes_each * min(drawn, 2 * ROW_GROUP) // max(1, drawn))


def _of_writer(
    writer: EventWriter | TransactionalWriter,
    field: str,
    scenario: StreamScenario,
    logs: dict[str, traces.Trace],
    segments: int,
) -> Iterator[Cost]:
    span_ms = max(0, scenario.duration_ms - writer.starts_ms)
    if writer.trace is None:
        events, source = _by_rate(writer, scenario), "rate_per_s"
    else:
        events, others = _events_of(logs[writer.trace], writer, scenario)
        source = "trace"
        yield Cost.of_left_out(f"{field}.trace", others)
    yield Cost.of_events(f"{field}.{source}", events)
    messages = 2 * 300 if scenario.network.keep_messages else 0
    processes = getattr(writer, "processes", 1)
    batches = min(events, span_ms // writer.batch_ms * processes)
    # A batch leaves memory with its events.
    kept = messages if _is_drawn(writer) else 300 + messages
    yield Cost("batches", f"{field}.batch_ms", min(events, batches * segments), kept)
    width = _ROW + _PER_SEGMENT * segments + messages
    if isinstance(writer, TransactionalWriter):
        yield Cost("transactions", f"{field}.every_ms", span_ms // writer.every_ms, 4 * width)
    elif writer.automatically_note_time:
        notes = span_ms // writer.automatic_note_period_ms
        yield Cost("noted times", f"{field}.automatic_note_period_ms", notes * processes, width)
    elif writer.note_every_ms is not None:
        yield Cost("noted times", f"{field}.note_every_ms", span_ms // writer.note_every_ms * processes, width)


def _events_of(log: traces.Trace, writer: WriterPart, scenario: StreamScenario) -> tuple[int, int]:
    """How many events of a log the writer replays at most, and how many of its own lie outside the run."""
    happens, arrives = (log.table[name].to_numpy() for name in ("event_time", "arrival_ms"))
    own = pc.equal(log.table["writer"], writer.name).to_numpy()
    count = int((own & replayed(scenario, writer, happens, arrives)).sum())
    return count, int(own.sum()) - count


def replayed(
    scenario: StreamScenario, writer: WriterPart, happens: NDArray[np.int64], arrives: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which events of its trace a writer replays: what is under way when it starts or happens before the end."""
    begun = np.minimum(happens, arrives) < scenario.start_ms + scenario.duration_ms
    return begun & (arrives >= scenario.start_ms + writer.starts_ms)


def _of_group(group: ReaderGroup, field: str, duration_ms: int, segments: int) -> Iterator[Cost]:
    """What readers do in regular intervals, whether there is anything to read or not."""
    span_ms = max(0, duration_ms - group.starts_ms)
    published = span_ms // group.publish_every_ms * group.readers
    yield Cost("positions", f"{field}.publish_every_ms", published, 2 * _ROW + _PER_SEGMENT * segments)
    yield Cost("segments of positions", f"{field}.readers", published * -(-segments // group.readers), _PER_SEGMENT)
    if group.publish_timer == "pravega":
        yield Cost("reads", f"{field}.read_every_ms", span_ms // group.read_every_ms * group.readers, _ROW)
        yield Cost("refreshes", f"{field}.group_refresh_ms", span_ms // group.group_refresh_ms * group.readers, _ROW)
    if group.automatic_checkpoint_every_ms is not None:
        count = span_ms // group.automatic_checkpoint_every_ms
        yield Cost("checkpoints", f"{field}.automatic_checkpoint_every_ms", count * group.readers, _ROW)
