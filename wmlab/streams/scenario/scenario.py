"""The scenario: what to run, as one validated value with YAML both ways; its `rules`, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Self, TypeGuard

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from wmlab.core import traces
from wmlab.core.answers import Cell, as_lines, html_card
from wmlab.core.durations import duration_text
from wmlab.core.estimate import Cost
from wmlab.core.schemas import ROW_GROUP
from wmlab.core.values import (
    Problem,
    value,
)
from wmlab.core.words import counted
from wmlab.streams.scenario.checks import problems_across
from wmlab.streams.scenario.fields import ScenarioFields
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, TransactionalWriter, WriterPart
from wmlab.streams.scenario.rules import Rules, step_ms
from wmlab.streams.scenario.script import Action, Scale, SilenceWriter

NAMESPACES: Final = {
    "wmlab.streams.scenario.script": "wm.script",
    "wmlab.streams.scenario.noting": "wm.script.noting",
    "wmlab.streams.scenario.network": "wm.script.network",
    "wmlab.core.simulation": "wm.script.network",
}
"""Where users find the classes of these modules."""


@value
class StreamScenario(ScenarioFields):
    """One or several streams, their writers and readers, and the faults that happen to them.

    Give `stream` for one or `streams` for several; then every writer and every reader group names its own. `name` is
    the name of the scenario in recordings and tables. `writers` are those of all streams, in the order of the tables;
    `readers` is a reader group, several, or None: nobody reads. `controllers` run the watermark cycles. `script` has
    the actions and faults of the run, each with its time from the start. `duration_ms` is how long the run lasts, in
    simulated time. `start_ms` is the clock at the start, zero or, for a real trace, a moment in milliseconds since
    1970. All randomness comes from `seed`. `latency_ms` is the one-way delay of every message to or from a writer,
    unless `network` has another. `rules` is a set of rules, "design", "implementation" or "sound", or `Rules` with
    other options; `options` shows what is in effect. The same scenario always gives the same recording.
    """

    _namespaces = NAMESPACES

    def _problems(self) -> Iterator[Problem]:
        return problems_across(self)

    def followed_by_quiet(self, quiet_ms: int) -> Self:
        """The same scenario, extended by `quiet_ms` (ms) in which all its writers are silent."""
        if not quiet_ms:
            return self
        # Who is silent by then stays so.
        script: list[Action] = [
            replace(action, for_ms=None) if self._is_silent_after(action) else action for action in self.script
        ]
        silent = {action.writer for action in script if self._is_silent_after(action)}
        others = [name for name in self.process_names if name not in silent]
        script += [SilenceWriter(at_ms=self.duration_ms, writer=process) for process in others]
        return self.replace(duration_ms=self.duration_ms + quiet_ms, script=script)

    def _is_silent_after(self, action: Action) -> TypeGuard[SilenceWriter]:
        """Whether by this action a writer is silent when the scenario ends."""
        if not isinstance(action, SilenceWriter):
            return False
        return action.for_ms is None or action.at_ms + action.for_ms >= self.duration_ms

    def _costs(self) -> Iterator[Cost]:
        return costs(self.resolved)

    def _cycles_in_words(self) -> str:
        """How often a watermark can be made, and where that comes from if nobody chose it."""
        text = f"a cycle every {duration_text(self.controllers.period_ms)}"
        if self.controllers != Controllers():
            return text
        most = self.duration_ms // self.controllers.period_ms
        remedy = "controllers=wm.Controllers(period_ms=1_000) has one a second"
        return f"{text}, Pravega's default: at most {counted(most, 'watermark')} in this run; {remedy}"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Cell]] = [
            ("stream", "; ".join(f"{part.name}, {counted(part.segments, 'segment')}" for part in self.all_streams)),
            ("writers", ", ".join(writer.name for writer in self.writers)),
            ("readers", "; ".join(f"{group.readers} in group {group.name}" for group in self.groups) or "none"),
            ("watermarks", self._cycles_in_words()),
            ("script", as_lines(repr(action) for action in self.script)),
            ("duration", f"{duration_text(self.duration_ms)}, seed {self.seed}"),
        ]
        if self.rules != Rules():
            sound = Rules().options
            others = [f"{name}={option!r}" for name, option in self.options.items() if option != sound[name]]
            rows.append(("rules", f"{self.rules.base}: {', '.join(others) or 'all as sound'}"))
        return html_card(f"Scenario “{self.name}”", rows)


_ROW = 1_000
_PER_SEGMENT = 120


def costs(scenario: StreamScenario) -> Iterator[Cost]:
    """Events, batches, notes, commits, cycles, scales and reads; faults are left out.

    The last number of each is the microseconds that it takes, as the benchmark `growth` measured them.
    """
    segments = {stream.name: stream.segments for stream in scenario.all_streams}
    logs = traces.load_each(part.trace for part in scenario.writers)
    drawn = sum(_by_rate(part, scenario) for part in scenario.writers if _is_drawn(part))
    for index, writer in enumerate(scenario.writers):
        for cost in _of_writer(writer, f"writers[{index}]", scenario, logs):
            if cost.what == "events" and _is_drawn(writer):
                # Two row groups of all the events that are drawn are in memory at once.
                bytes_each_in_memory = -(-cost.bytes_each * min(drawn, 2 * ROW_GROUP) // max(1, drawn))
                cost = replace(cost, bytes_each=bytes_each_in_memory)
            yield cost
    cycles = scenario.duration_ms // scenario.controllers.period_ms
    yield Cost("cycles", "controllers.period_ms", cycles * len(segments), _ROW, 35)
    yield Cost("segments of cycles", "stream.segments", cycles * sum(segments.values()), _PER_SEGMENT, 18)
    scales = sum(isinstance(action, Scale) for action in scenario.script)
    yield Cost("scales", "script", scales, 10 * _ROW, 4_000)
    for index, group in enumerate(scenario.groups):
        field = f"readers[{index}]" if isinstance(scenario.readers, tuple) else "readers"
        wide = sum(segments[name] for name in group.streams or (group.stream or scenario.all_streams[0].name,))
        yield from _of_group(group, field, scenario, wide)


def _is_drawn(writer: WriterPart) -> bool:
    """Whether its events are drawn span by span and leave memory as they are recorded."""
    return isinstance(writer, EventWriter) and writer.trace is None and writer.processes == 1


def _by_rate(writer: WriterPart, scenario: StreamScenario) -> int:
    """How many events its rate makes."""
    return int((writer.rate_per_s or 0) * max(0, scenario.duration_ms - writer.starts_ms) / 1_000)


def _of_writer(
    writer: EventWriter | TransactionalWriter, field: str, scenario: StreamScenario, logs: dict[str, traces.Trace]
) -> Iterator[Cost]:
    span_ms, stream = max(0, scenario.duration_ms - writer.starts_ms), scenario.stream_titled(writer.stream)
    if writer.trace is None:
        events, source = _by_rate(writer, scenario), "rate_per_s"
    else:
        events, others = _events_of(logs[writer.trace], writer, scenario)
        source = "trace"
        yield Cost.of_left_out(f"{field}.trace", others)
    yield Cost.of_events(f"{field}.{source}", events, 0.35)
    messages = 2 * 300 if scenario.network.keep_messages else 0
    processes = getattr(writer, "processes", 1)
    batches = min(events, span_ms // writer.batch_ms * processes)
    # A batch leaves memory with its events.
    bytes_each = messages if _is_drawn(writer) else 300 + messages
    yield Cost("batches", f"{field}.batch_ms", min(events, batches * stream.segments), bytes_each, 18)
    width = _ROW + _PER_SEGMENT * stream.segments + messages
    if isinstance(writer, TransactionalWriter):
        yield Cost("transactions", f"{field}.every_ms", span_ms // writer.every_ms, 4 * width, 130)
    elif writer.automatically_note_time or stream.automatically_note_time:
        notes = span_ms // writer.automatic_note_period_ms
        yield Cost("noted times", f"{field}.automatic_note_period_ms", notes * processes, width, 40)
    elif writer.note_every_ms is not None:
        yield Cost("noted times", f"{field}.note_every_ms", span_ms // writer.note_every_ms * processes, width, 40)


def _events_of(log: traces.Trace, writer: WriterPart, scenario: StreamScenario) -> tuple[int, int]:
    """How many events of a log the writer replays at most, and how many of its own lie outside the run."""
    happens, arrives = (log.table[name].to_numpy() for name in ("event_time", "arrival_ms"))
    own = pc.equal(log.table["writer"], writer.name).to_numpy()
    count = int((own & is_replayed(scenario, writer, happens, arrives)).sum())
    return count, int(own.sum()) - count


def is_replayed(
    scenario: StreamScenario, writer: WriterPart, happens: NDArray[np.int64], arrives: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which events of its trace a writer replays: what is under way when it starts or happens before the end."""
    begun = np.minimum(happens, arrives) < scenario.start_ms + scenario.duration_ms
    return begun & (arrives >= scenario.start_ms + writer.starts_ms)


def _of_group(group: ReaderGroup, field: str, scenario: StreamScenario, segments: int) -> Iterator[Cost]:
    """What readers do in regular intervals, whether there is anything to read or not."""
    span_ms, rules = max(0, scenario.duration_ms - group.starts_ms), scenario.rules
    published = span_ms // group.publish_every_ms * group.readers
    yield Cost("positions", f"{field}.publish_every_ms", published, 2 * _ROW + _PER_SEGMENT * segments, 35)
    own = -(-segments // group.readers)
    yield Cost("segments of positions", f"{field}.readers", published * own, _PER_SEGMENT, 20)
    if step_ms(group, rules) != group.publish_every_ms:
        yield Cost("reads", f"{field}.read_every_ms", span_ms // group.read_every_ms * group.readers, _ROW, 35)
    if rules.publish_timer == "pravega":
        refreshes = span_ms // group.group_refresh_ms * group.readers
        yield Cost("refreshes", f"{field}.group_refresh_ms", refreshes, _ROW, 35)
