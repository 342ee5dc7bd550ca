"""What a script does to writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.streams.scenario.script import (
    CrashWriter,
    DuplicateWriter,
    MarkIdle,
    NoteTime,
    ShutDownWriter,
    SilenceWriter,
)
from wmlab.streams.sim.writer import Writer

if TYPE_CHECKING:
    from wmlab.streams.sim.world import AnyWriter, World


def running(world: World, kind: str, name: str) -> AnyWriter | None:
    """The writer process of that name, or None and a word about it when it has crashed or has not begun."""
    writer = world.writer(name)
    if writer.life and not writer.client.is_stopped:
        return writer
    writer.world.happened(kind, name, f"{name} is not running")
    return None


def crash_writer(world: World, action: CrashWriter) -> None:
    """Crash a writer, and start it again if the script says so."""
    writer = world.writer(action.writer)
    writer.crash()
    writer.world.happened("crash", action.writer, f"{action.writer} crashes")
    if action.restart_after_ms is not None:
        world.after(action.restart_after_ms, _restart, world, action)


def _restart(world: World, action: CrashWriter | ShutDownWriter) -> None:
    writer = world.writer(action.writer)
    writer.restart(action.backlog)
    writer.world.happened("restart", action.writer, f"{action.writer} restarts")


def silence_writer(world: World, action: SilenceWriter) -> None:
    """A writer notes nothing for a while."""
    writer = world.writer(action.writer)
    writer.silence(_until(world, action.for_ms))
    stream = writer.world
    stream.happened("silence", action.writer, f"{action.writer} falls silent")
    if action.for_ms is not None:
        world.after(action.for_ms, stream.happened, "speak", action.writer, f"{action.writer} speaks again")


def mark_idle(world: World, action: MarkIdle) -> None:
    """A writer says that it is idle, and notes nothing for a while."""
    writer = running(world, "idle", action.writer)
    if writer is None:
        return
    writer.silence(_until(world, action.for_ms))
    writer.say_goodbye("mark idle")
    stream = writer.world
    stream.happened("idle", action.writer, f"{action.writer} is idle")
    if action.for_ms is not None:
        world.after(action.for_ms, stream.happened, "active", action.writer, f"{action.writer} is active again")


def _until(world: World, for_ms: int | None) -> float:
    return float("inf") if for_ms is None else world.now_ms + for_ms


def note_time(world: World, action: NoteTime) -> None:
    """The application notes a time."""
    writer = running(world, "note", action.writer)
    if writer is None:
        return
    writer.world.happened("note", action.writer, f"{action.writer} notes {action.time:,}".replace(",", " "))
    if isinstance(writer, Writer):
        writer.notes.note_explicitly(action.time, None if action.position is None else dict(action.position))


def shut_down_writer(world: World, action: ShutDownWriter) -> None:
    """Close a writer in order, and start it again if the script says so."""
    writer = running(world, "shut_down", action.writer)
    if writer is None:
        return
    writer.world.happened("shut_down", action.writer, f"{action.writer} shuts down")

    def farewell() -> None:
        if action.backlog == "lost":
            writer.backlog.abandon(world.now_ms)
        if action.last_note and isinstance(writer, Writer):
            writer.notes.note_chosen()
        if action.tell_controller:
            writer.say_goodbye("shut down")

    writer.close(farewell)
    if action.restart_after_ms is not None:
        world.after(action.restart_after_ms, _restart, world, action)


def duplicate_writer(world: World, action: DuplicateWriter) -> None:
    """A second process under the same writer id, with a load of its own from now on."""
    writer = world.writer(action.writer)
    if not isinstance(writer, Writer):
        return
    load = writer.backlog.from_now_on(world.now_ms, moves=action.load == "moves")
    twin = Writer(writer.world, writer.part, writer.index, load, world.processes_of(writer.part.name) + 1)
    world.join(twin)
    writer.world.happened("duplicate", twin.party, f"{twin.party} starts beside {writer.party}")
