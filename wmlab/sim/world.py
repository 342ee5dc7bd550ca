"""The simulated world: a clock, the parties of a scenario, and the messages between them.

SimPy holds the clock and the queue of what is to come; the rules are in `wmlab.model`, the parties carry them
out. Every message takes the scenario's latency. Nothing here depends on wall time or on hash order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import simpy

from wmlab.model.history import StreamHistory
from wmlab.model.segment import Segment
from wmlab.scenario import Scenario
from wmlab.sim.controller import Controller
from wmlab.sim.director import Director
from wmlab.sim.group import Group
from wmlab.sim.journal import Journal
from wmlab.sim.load import Load, synthetic
from wmlab.sim.store import SegmentStore
from wmlab.sim.writer import Writer

_STEPS = 100


class World:
    """One run of one scenario; `traces` gives the load of every writer that replays a real trace."""

    def __init__(self, scenario: Scenario, traces: Mapping[str, Load]) -> None:
        stream = scenario.stream
        self.scenario = scenario
        self.env = simpy.Environment(initial_time=scenario.start_ms)
        self.end_ms = scenario.start_ms + scenario.duration_ms
        self.journal = Journal()
        self.store = SegmentStore()
        # Pravega computes even ranges in doubles, which is what makes 49 segments fail there.
        doubles = stream.cut_algorithm == "pravega"
        self.history = StreamHistory.create(stream.segments, arithmetic="double" if doubles else "exact")
        self.controller = Controller(self)
        self.writers = [
            Writer(self, part, index, traces[part.name] if part.trace is not None else synthetic(part, scenario))
            for index, part in enumerate(scenario.writers)
        ]
        self._created_ms: dict[int, int] = {}
        self._sealed_ms: dict[int, int] = {}
        self.group = Group(self, scenario.readers) if scenario.readers is not None else None
        self._by_name = {writer.part.name: writer for writer in self.writers}

    @property
    def now_ms(self) -> int:
        """The simulated clock."""
        return int(self.env.now)

    def writer(self, name: str) -> Writer:
        """The writer called `name`."""
        return self._by_name[name]

    def after(self, delay_ms: int, act: Callable[..., None], *args: object) -> None:
        """Call `act` after a delay."""
        self.env.timeout(delay_ms).callbacks.append(lambda _: act(*args))

    def later(self, act: Callable[..., None], *args: object) -> None:
        """Call `act` one message later."""
        self.after(self.scenario.latency_ms, act, *args)

    def open_epoch(self, created: Iterable[Segment]) -> None:
        """Open the new segments of the active epoch and write both down."""
        for segment in created:
            self.store.open(segment.id)
            self._created_ms[segment.id] = self.now_ms
        epoch = self.history.active
        self.journal.write(
            "epochs",
            epoch=epoch.number,
            kind=epoch.kind,
            at_ms=self.now_ms,
            segment_ids=sorted(segment.id for segment in epoch.segments),
        )

    def seal(self, segment_id: int) -> None:
        """Seal a segment in the store."""
        self.store.seal(segment_id)
        self._sealed_ms[segment_id] = self.now_ms

    def run(self, progress: Callable[[int], None] | None = None) -> Journal:
        """Run to the end of the scenario; `progress` hears the percentage done. Returns what happened."""
        self.open_epoch(self.history.active.segments)
        Director(self).start(self.scenario.script)
        for writer in self.writers:
            self.after(writer.part.starts_ms, writer.start)
        if self.group is not None:
            self.after(self.group.part.starts_ms, self.group.start)
        for step in range(1, _STEPS + 1):
            until = self.scenario.start_ms + self.scenario.duration_ms * step // _STEPS
            if until > self.env.now:
                self.env.run(until=until)
            if progress is not None:
                progress(step)
        self._write_segments()
        if self.group is not None:
            self.group.write_checkpoints()
        return self.journal

    def _write_segments(self) -> None:
        for segment in sorted(self.history.segments.values(), key=lambda segment: segment.id):
            self.journal.write(
                "segments",
                segment_id=segment.id,
                number=segment.number,
                epoch=segment.epoch,
                low=float(segment.keys.low),
                high=float(segment.keys.high),
                keys=segment.keys.text,
                created_ms=self._created_ms[segment.id],
                sealed_ms=self._sealed_ms.get(segment.id),
            )
