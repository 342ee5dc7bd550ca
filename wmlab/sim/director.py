"""Carries out the script of a scenario and writes down what it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wmlab.model.segment import Segment, parse_segment, segment_name, split_id
from wmlab.scenario.script import Action, CrashWriter, Scale, SilenceWriter, new_ranges
from wmlab.sim import writer_faults

if TYPE_CHECKING:
    from wmlab.sim.world import World


class Director:
    """Waits for the time of each action."""

    def __init__(self, world: World) -> None:
        self.world = world

    def start(self, script: Iterable[Action]) -> None:
        """Plan all actions of a script."""
        for action in script:
            self.world.after(action.at_ms, self._carry_out, action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Scale():
                self.world.transactions.handler.between_batches(lambda: self._scale(action))
            case CrashWriter():
                self._crash(action)
            case SilenceWriter():
                self._silence(action)
            case _:
                writer_faults.carry_out(self.world, action)

    def _scale(self, action: Scale) -> None:
        """Create the new segments, write the epoch, then seal (upstream `ScaleOperationTask`).

        The seals arrive one message later, so that for a moment predecessors and successors are both open.
        """
        world = self.world
        copies = {segment.number: segment.id for segment in world.history.active.segments}
        sealed = [copies[split_id(parse_segment(name))[0]] for name in action.seal]
        before = {segment.id for segment in world.history.active.segments}
        world.history = world.history.scale(sealed, new_ranges(action.into))
        created = [segment for segment in world.history.active.segments if segment.id not in before]
        world.open_epoch(created)
        for segment_id in sealed:
            world.later(world.seal, segment_id)
        names = ", ".join(segment_name(segment_id) for segment_id in sealed)
        self.world.happened("scale", names, f"{names} → {_names(created)}")

    def _crash(self, action: CrashWriter) -> None:
        writer = self.world.writer(action.writer)
        writer.crash()
        self.world.happened("crash", action.writer, f"{action.writer} crashes")
        if action.restart_after_ms is not None:
            self.world.after(action.restart_after_ms, self._restart, action)

    def _restart(self, action: CrashWriter) -> None:
        self.world.writer(action.writer).restart(action.backlog)
        self.world.happened("restart", action.writer, f"{action.writer} restarts")

    def _silence(self, action: SilenceWriter) -> None:
        until = float("inf") if action.for_ms is None else self.world.now_ms + action.for_ms
        self.world.writer(action.writer).silence(until)
        self.world.happened("silence", action.writer, f"{action.writer} falls silent")
        if action.for_ms is not None:
            self.world.after(
                action.for_ms, self.world.happened, "speak", action.writer, f"{action.writer} speaks again"
            )


def _names(segments: Iterable[Segment]) -> str:
    return ", ".join(segment.name for segment in segments)
