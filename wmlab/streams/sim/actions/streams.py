"""What a script does to whole streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wmlab.core.errors import ScenarioError
from wmlab.streams.model.position import Position, is_lineage_valid, is_valid_cut
from wmlab.streams.model.segment import Segment, parse_segment, segment_name, split_id
from wmlab.streams.scenario.script import DeleteStream, Scale, SealStream, TruncateStream
from wmlab.streams.sim.stream import StreamWorld

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World


def scale(world: World, action: Scale) -> None:
    """Scale, as soon as the commits in work are done."""
    stream = world.stream(action.stream)
    stream.transactions.handler.between_batches(lambda: _scale(stream, action))


def _scale(stream: StreamWorld, action: Scale) -> None:
    """Create the new segments, write the epoch, then seal (upstream `ScaleOperationTask`).

    The seals arrive one message later, so that for a moment predecessors and successors are both open.
    """
    if stream.deleted:
        return
    active = stream.history.active.segments
    copies = {segment.number: segment.id for segment in active}
    sealed = [copies[split_id(parse_segment(name))[0]] for name in action.seal]
    stream.history = stream.history.scale(sealed, action.ranges)
    created = [segment for segment in stream.history.active.segments if segment not in active]
    stream.open_epoch(created)
    for segment_id in sealed:
        stream.later(stream.seal, segment_id)
    names = ", ".join(segment_name(segment_id) for segment_id in sealed)
    stream.happened("scale", names, f"{names} → {_names(created)}")


def _names(segments: Iterable[Segment]) -> str:
    return ", ".join(segment.name for segment in segments)


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
    """Abort what is open, wait for what is to be committed, and seal all segments; nothing follows them."""
    stream = world.stream(action.stream)
    stream.transactions.close()
    stream.transactions.handler.between_batches(lambda: _seal(stream), drained=True)


def _seal(stream: StreamWorld) -> None:
    """The seals arrive one message later, as those of a scale do."""
    for segment in stream.history.active.segments:
        stream.later(stream.seal, segment.id)
    stream.happened("seal", stream.name, f"{stream.name} is sealed")


def delete_stream(world: World, action: DeleteStream) -> None:
    """Delete a stream; its writers and readers stop, and start again when it is created anew."""
    old = world.stream(action.stream)
    old.happened("delete", old.name, f"{old.name} is deleted")
    writers = [writer for writer in world.writers if writer.world is old]
    for writer in writers:
        if writer.life:
            writer.crash()
    old.delete()

    def recreate() -> None:
        first_number = 1 + max(segment.number for segment in old.history.segments.values())
        new = StreamWorld(world, old.part, generation=old.generation + 1, first_number=first_number)
        world.streams[old.name] = new
        new.open()
        new.happened("create", new.name, f"{new.name} is created again")
        since_ms = world.now_ms - world.scenario.start_ms
        for writer in writers:
            if writer.life or writer.part.starts_ms < since_ms:
                writer.move(new)
            else:
                writer.world = new
        for group in world.scenario.groups:
            if not group.streams and world.stream(group.stream) is new and group.starts_ms < since_ms:
                world.start_group(group)

    if action.recreate_after_ms is not None:
        world.after(action.recreate_after_ms, recreate)
