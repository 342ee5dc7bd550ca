"""What a script does to streams and their writers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wmlab.errors import ScenarioError
from wmlab.model.position import Position, is_lineage_valid, is_valid_cut
from wmlab.model.segment import Segment, parse_segment, segment_name
from wmlab.scenario.script import (
    CrashWriter,
    DeleteStream,
    ReplaceWriter,
    Scale,
    SealStream,
    SilenceWriter,
    TruncateStream,
)
from wmlab.sim.load import synthetic
from wmlab.sim.stream import StreamWorld
from wmlab.sim.writer import Writer

if TYPE_CHECKING:
    from wmlab.sim.world import World


def scale(world: World, action: Scale) -> None:
    """Create the new segments, write the epoch, then seal (upstream `ScaleOperationTask`).

    The seals arrive one message later, so that for a moment predecessors and successors are both open.
    """
    stream = world.stream(action.stream)
    sealed = [parse_segment(name) for name in action.seal]
    before = {segment.id for segment in stream.history.active.segments}
    stream.history = stream.history.scale(sealed, action.into)
    created = [segment for segment in stream.history.active.segments if segment.id not in before]
    stream.open_epoch(created)
    for segment_id in sealed:
        world.later(stream.seal, segment_id)
    names = ", ".join(segment_name(segment_id) for segment_id in sealed)
    stream.happened("scale", names, f"{names} → {_names(created)}")


def _names(segments: Iterable[Segment]) -> str:
    return ", ".join(segment.name for segment in segments)


def crash_writer(world: World, action: CrashWriter) -> None:
    """Crash a writer, and start it again if the script says so."""
    writer = world.writer(action.writer)
    writer.crash()
    writer.world.happened("crash", action.writer, f"{action.writer} crashes")

    def restart() -> None:
        writer.restart(action.backlog)
        writer.world.happened("restart", action.writer, f"{action.writer} restarts")

    if action.restart_after_ms is not None:
        world.after(action.restart_after_ms, restart)


def silence_writer(world: World, action: SilenceWriter) -> None:
    """A writer notes nothing for a while."""
    writer = world.writer(action.writer)
    writer.silent_until = float("inf") if action.for_ms is None else world.now_ms + action.for_ms
    stream = writer.world
    stream.happened("silence", action.writer, f"{action.writer} falls silent")
    if action.for_ms is not None:
        world.after(action.for_ms, stream.happened, "speak", action.writer, f"{action.writer} speaks again")


def replace_writer(world: World, action: ReplaceWriter) -> None:
    """A second process under the same writer id, with a load of its own from now on."""
    first = world.writer(action.writer)
    process = f"{action.writer} (replacement)"
    load = synthetic(first.part, world.scenario, name=process, from_ms=world.now_ms)
    Writer(first.world, first.part, first.index, load, process=process).start()
    first.world.happened("replace", action.writer, f"a second process of {action.writer} starts")


def truncate_stream(world: World, action: TruncateStream) -> None:
    """Drop what lies before a cut; a new reader group starts there."""
    stream = world.stream(action.stream)
    cut = (
        {segment.id: stream.store[segment.id].length for segment in stream.history.active.segments}
        if action.cut is None
        else {parse_segment(name): offset for name, offset in action.cut.items()}
    )
    if not is_valid_cut(cut, stream.history) or not is_lineage_valid(cut, stream.history):
        raise ScenarioError(
            f"The cut {Position(cut)} that {stream.name} is to be truncated at is no stream cut of it then.",
            remedy="Name segments that cover the key space once, each readable when the others are.",
        )
    stream.truncate(cut)
    stream.happened("truncate", stream.name, f"{stream.name} is truncated")


def seal_stream(world: World, action: SealStream) -> None:
    """Seal all segments, one message later, as a scale does; nothing follows them."""
    stream = world.stream(action.stream)
    for segment in stream.history.active.segments:
        world.later(stream.seal, segment.id)
    stream.happened("seal", stream.name, f"{stream.name} is sealed")


def delete_stream(world: World, action: DeleteStream) -> None:
    """Delete a stream; its writers and readers stop, and start again when it is created anew."""
    old = world.stream(action.stream)
    old.happened("delete", old.name, f"{old.name} is deleted")
    writers = [writer for writer in world.writers if writer.world is old]
    for writer in writers:
        writer.crash()
    old.delete()

    def recreate() -> None:
        first_number = 1 + max(segment.number for segment in old.history.segments.values())
        new = StreamWorld(world, old.part, generation=old.generation + 1, first_number=first_number)
        world.streams[old.name] = new
        new.open()
        new.happened("create", new.name, f"{new.name} is created again")
        for writer in writers:
            writer.move(new)
        for group in world.scenario.groups:
            if not group.streams and world.stream(group.stream) is new:
                world.start_group(group)

    if action.recreate_after_ms is not None:
        world.after(action.recreate_after_ms, recreate)
