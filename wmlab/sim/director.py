"""Carries out the script of a scenario and writes down what it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wmlab.model.segment import Segment, parse_segment, segment_name
from wmlab.scenario.reader_script import ReaderAction
from wmlab.scenario.script import Action, CrashBeforeIndexAppend, CrashWriter, Scale, SilenceWriter
from wmlab.sim.reader_actions import ReaderActions

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
                self._scale(action)
            case CrashWriter():
                self._crash(action)
            case SilenceWriter():
                self._silence(action)
            case CrashBeforeIndexAppend():
                self.world.controller.takeover_after_ms = action.takeover_after_ms
            case _ if isinstance(action, ReaderAction) and self.world.group is not None:
                ReaderActions(self.world, self.world.group).carry_out(action)

    def _scale(self, action: Scale) -> None:
        """Create the new segments, write the epoch, then seal (upstream `ScaleOperationTask`).

        The seals arrive one message later, so that for a moment predecessors and successors are both open.
        """
        world = self.world
        sealed = [parse_segment(name) for name in action.seal]
        before = {segment.id for segment in world.history.active.segments}
        world.history = world.history.scale(sealed, action.into)
        created = [segment for segment in world.history.active.segments if segment.id not in before]
        world.open_epoch(created)
        for segment_id in sealed:
            world.later(world.seal, segment_id)
        names = ", ".join(segment_name(segment_id) for segment_id in sealed)
        self._write("scale", names, f"{names} → {_names(created)}")

    def _crash(self, action: CrashWriter) -> None:
        writer = self.world.writer(action.writer)
        writer.crash()
        self._write("crash", action.writer, f"{action.writer} crashes")
        if action.restart_after_ms is not None:
            self.world.after(action.restart_after_ms, self._restart, action)

    def _restart(self, action: CrashWriter) -> None:
        self.world.writer(action.writer).restart(action.backlog)
        self._write("restart", action.writer, f"{action.writer} restarts")

    def _silence(self, action: SilenceWriter) -> None:
        until = float("inf") if action.for_ms is None else self.world.now_ms + action.for_ms
        self.world.writer(action.writer).silent_until = until
        self._write("silence", action.writer, f"{action.writer} falls silent")
        if action.for_ms is not None:
            self.world.after(action.for_ms, self._write, "speak", action.writer, f"{action.writer} speaks again")

    def _write(self, kind: str, target: str, detail: str) -> None:
        self.world.journal.write("faults", at_ms=self.world.now_ms, kind=kind, target=target, detail=detail)


def _names(segments: Iterable[Segment]) -> str:
    return ", ".join(segment.name for segment in segments)
