"""What a script does to reader groups."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import simpy

from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario.script import (
    AddReader,
    Checkpoint,
    CrashReader,
    PauseReader,
    ReleaseSegment,
    RemoveReader,
    ResetToCheckpoint,
)

if TYPE_CHECKING:
    from wmlab.streams.sim.group import Group
    from wmlab.streams.sim.reader import Reader
    from wmlab.streams.sim.world import World


def add_reader(world: World, action: AddReader) -> None:
    """One more reader."""
    group = _group(world, action.group)
    if group is not None:
        group.balance.members_changed = True
        group.add(action.reader, join=True)
        group.happened("join", action.reader, f"{action.reader} joins")


def remove_reader(world: World, action: RemoveReader) -> None:
    """A reader closes, and says where it is."""
    reader = _running(world, "leave", action.reader)
    if reader is not None:
        reader.stop()
        world.env.process(reader.group.remove(reader.name, "leave", reader.places))
        reader.group.happened("leave", reader.name, f"{reader.name} leaves")


def crash_reader(world: World, action: CrashReader) -> None:
    """Crash a reader; declare it offline and start it again if the script says so."""
    reader = _running(world, "crash", action.reader)
    if reader is None:
        return
    group = reader.group
    reader.stop()
    group.happened("crash", reader.name, f"{reader.name} crashes")

    def offline() -> Generator[simpy.Event]:
        if not group.readers[action.reader].alive:
            yield from group.remove(action.reader, "offline")

    def restart() -> Generator[simpy.Event]:
        yield from offline()
        group.add(action.reader, join=True)
        group.happened("restart", action.reader, f"{action.reader} restarts")

    def begin(steps: Callable[[], Generator[simpy.Event]]) -> None:
        world.env.process(steps())

    if action.offline_after_ms is not None:
        world.after(action.offline_after_ms, begin, offline)
    if action.restart_after_ms is not None:
        world.after(action.restart_after_ms, begin, restart)


def pause_reader(world: World, action: PauseReader) -> None:
    """A reader does nothing for a while."""
    reader = _running(world, "pause", action.reader)
    if reader is None:
        return
    reader.paused_until = float("inf") if action.for_ms is None else world.now_ms + action.for_ms
    reader.group.happened("pause", reader.name, f"{reader.name} pauses")
    if action.for_ms is not None:
        world.after(action.for_ms, reader.group.happened, "resume", reader.name, f"{reader.name} goes on")


def release_segment(world: World, action: ReleaseSegment) -> None:
    """A reader gives a segment back, if it owns it."""
    reader = _running(world, "release", action.reader)
    if reader is None:
        return
    group = reader.group
    place = (action.stream or next(iter(group.feeds)), parse_segment(action.segment))
    owned = place in reader.places
    if owned:
        group.balance.kept_free[place] = world.now_ms + action.keep_free_ms
        world.env.process(reader.give_back(place))
    what = "releases" if owned else "does not own"
    group.happened("release", reader.name, f"{reader.name} {what} {action.segment}")


def take_checkpoint(world: World, action: Checkpoint) -> None:
    """Ask a group for a checkpoint."""
    group = _group(world, action.group)
    if group is not None:
        world.env.process(group.checkpoint(action.name))
        group.happened("checkpoint", group.part.name, f"checkpoint {action.name}")


def reset_to_checkpoint(world: World, action: ResetToCheckpoint) -> None:
    """Take a group back to a checkpoint, if it is complete."""
    group = _group(world, action.group)
    if group is None:
        return
    completed = list(group.shared.value.checkpoints)
    name = completed[-1] if action.checkpoint is None and completed else action.checkpoint
    if name is None or name not in completed:
        which = "no checkpoint" if name is None else f"checkpoint {name}"
        group.happened("reset", group.part.name, f"{which} is {'' if name is None else 'not '}complete")
        return
    steps = group.update(group.shared, None, "reset", lambda value: value.reset(name, ranges=action.ranges))
    world.env.process(steps)
    group.happened("reset", group.part.name, f"back to checkpoint {name}")


def _group(world: World, name: str | None) -> Group | None:
    """The group called `name`, the only one for None; None when its streams were gone when it was to start."""
    return world.groups.get(world.scenario.groups[0].name if name is None else name)


def _running(world: World, kind: str, name: str) -> Reader | None:
    """The running reader of that name, or None and a word about it."""
    for group in world.groups.values():
        reader = group.readers.get(name)
        if reader is not None and reader.alive:
            return reader
        if reader is not None:
            group.happened(kind, name, f"{name} is not running")
    return None
