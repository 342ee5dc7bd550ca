"""Carries out what a script does to a reader group, and writes it down."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

from wmlab.model.segment import parse_segment
from wmlab.scenario.reader_script import (
    AddReader,
    Checkpoint,
    CrashReader,
    PauseReader,
    ReaderAction,
    ReleaseSegment,
    RemoveReader,
    ResetToCheckpoint,
)

if TYPE_CHECKING:
    from wmlab.sim.group import Group
    from wmlab.sim.world import World


class ReaderActions:
    """The hands of the script in a group."""

    def __init__(self, world: World, group: Group) -> None:
        self._world = world
        self._group = group

    def carry_out(self, action: ReaderAction) -> None:
        """Do one action now."""
        match action:
            case AddReader(reader=reader):
                self._group.balance.members_changed = True
                self._group.add(reader, join=True)
                self._write(action, reader, f"{reader} joins")
            case Checkpoint(name=name):
                self._world.env.process(self._group.checkpoint(name))
                self._write(action, self._group.part.name, f"checkpoint {name}")
            case ResetToCheckpoint():
                self._reset(action)
            case _:
                self._act_on_reader(action)

    def _act_on_reader(self, action: CrashReader | PauseReader | RemoveReader | ReleaseSegment) -> None:
        reader = self._group.readers.get(action.reader)
        if reader is None or not reader.alive:
            self._write(action, action.reader, f"{action.reader} is not running")
            return
        match action:
            case CrashReader():
                reader.stop()
                self._write(action, action.reader, f"{action.reader} crashes")
                self._after_crash(action)
            case PauseReader(for_ms=for_ms):
                reader.paused_until = float("inf") if for_ms is None else self._world.now_ms + for_ms
                self._write(action, action.reader, f"{action.reader} pauses")
            case RemoveReader():
                reader.stop()
                self._world.env.process(self._group.remove(action.reader, "leave", reader.places))
                self._write(action, action.reader, f"{action.reader} leaves")
            case ReleaseSegment(segment=name):
                self._release(action, name)

    def _release(self, action: ReleaseSegment, name: str) -> None:
        reader, segment = self._group.readers[action.reader], parse_segment(name)
        owned = [place for place in reader.places if place[1] == segment]
        for place in owned:
            self._group.balance.kept_free[place] = self._world.now_ms + action.keep_free_ms
            self._world.env.process(reader.give_back(place))
        what = "releases" if owned else "does not own"
        self._write(action, action.reader, f"{action.reader} {what} {name}")

    def _after_crash(self, action: CrashReader) -> None:
        if action.offline_after_ms is not None:
            self._world.after(action.offline_after_ms, self._begin, self._offline(action.reader))
        if action.restart_after_ms is not None:
            self._world.after(action.restart_after_ms, self._begin, self._restart(action))

    def _begin(self, steps: Generator[simpy.Event]) -> None:
        self._world.env.process(steps)

    def _offline(self, reader: str) -> Generator[simpy.Event]:
        if not self._group.readers[reader].alive:
            yield from self._group.remove(reader, "offline")

    def _restart(self, action: CrashReader) -> Generator[simpy.Event]:
        yield from self._offline(action.reader)
        self._group.add(action.reader, join=True)
        self._write(action, action.reader, f"{action.reader} restarts")

    def _reset(self, action: ResetToCheckpoint) -> None:
        group = self._group
        completed = list(group.shared.value.checkpoints)
        name = completed[-1] if action.checkpoint is None and completed else action.checkpoint
        if name is None or name not in completed:
            self._write(action, group.part.name, f"checkpoint {name or ''} is not completed".replace("  ", " "))
            return
        steps = group.update(group.shared, None, "reset", lambda value: value.reset(name, ranges=action.ranges))
        self._world.env.process(steps)
        self._write(action, group.part.name, f"back to checkpoint {name}")

    def _write(self, action: ReaderAction, target: str, detail: str) -> None:
        self._world.journal.write("faults", at_ms=self._world.now_ms, kind=action.kind, target=target, detail=detail)
