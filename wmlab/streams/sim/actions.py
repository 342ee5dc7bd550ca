"""The actions of a script in a simulated run: a function for each, which also writes its row of `incidents`.

An action that finds nobody to act on, such as a writer that has crashed, writes that down and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import simpy

from wmlab.core.errors import ScenarioError
from wmlab.core.words import grouped
from wmlab.streams.model.position import Position, is_lineage_valid, is_valid_cut
from wmlab.streams.model.segment import parse_segment, segment_name, split_id
from wmlab.streams.scenario import script
from wmlab.streams.scenario.units import COORDINATOR
from wmlab.streams.sim.stream import StreamWorld
from wmlab.streams.sim.txn_writer import TxnWriter
from wmlab.streams.sim.writer import Writer

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller
    from wmlab.streams.sim.group import Group
    from wmlab.streams.sim.reader import Reader
    from wmlab.streams.sim.world import AnyWriter, World


def plan_script(world: World, actions: Iterable[script.Action]) -> None:
    """Carry out all actions of a script, each at its time."""
    for action in actions:
        world.after(action.at_ms, ACTIONS[type(action)], world, action)


def _for_a_while(
    world: World,
    place: World | StreamWorld | Group,
    target: str,
    for_ms: int | None,
    begin: tuple[str, str],
    end: tuple[str, str],
) -> None:
    """Write down that something begins, and after `for_ms`, if ever, that it ends: each a kind and a predicate."""
    place.happened(begin[0], target, f"{target} {begin[1]}")
    if for_ms is not None:
        world.after(for_ms, place.happened, end[0], target, f"{target} {end[1]}")


def _until(world: World, for_ms: int | None) -> float:
    return float("inf") if for_ms is None else world.now_ms + for_ms


# Controllers, and the log they write.


def _controller(world: World, kind: str, role: str, stream: str | None = None) -> Controller | None:
    """The controller of that name or role, or None and an incident that says so."""
    controller = world.fleet.find(role, world.stream(stream).name)
    if controller is None or (kind == "expire" and controller.session is None):
        world.happened(kind, role, f"nobody is {role} now")
        return None
    return controller


def _now_or_at(
    world: World,
    controller: Controller,
    action: script.CrashController | script.PauseController,
    act: Callable[[str], None],
) -> None:
    """Act on a controller now, or at the failpoint of the action; `act` takes the words for that point."""
    if action.point is None:
        act("")
    else:
        words = f" {action.point.replace('_', ' ')}"
        controller.armed.append((action.point, world.stream(action.stream).name, lambda: act(words)))


def crash_controller(world: World, action: script.CrashController) -> None:
    """Crash a controller now, or when its cycle comes to a point."""
    controller = _controller(world, "crash", action.controller, action.stream)
    if controller is None:
        return

    def crash(at: str) -> None:
        controller.crash()
        world.happened("crash", controller.name, f"{controller.name} crashes{at}")
        if action.restart_after_ms is not None:
            world.after(action.restart_after_ms, restart)

    def restart() -> None:
        if not controller.is_running and controller in world.fleet.members:
            controller.start()
            world.happened("restart", controller.name, f"{controller.name} restarts")

    _now_or_at(world, controller, action, crash)


def pause_controller(world: World, action: script.PauseController) -> None:
    """Freeze a controller for a while, now or when its cycle comes to a point."""
    controller = _controller(world, "pause", action.controller, action.stream)
    if controller is None:
        return

    def pause(at: str) -> None:
        controller.pause(action.for_ms)
        _for_a_while(world, world, controller.name, action.for_ms, ("pause", f"pauses{at}"), ("resume", "goes on"))

    _now_or_at(world, controller, action, pause)


def expire_session(world: World, action: script.ExpireSession) -> None:
    """End a controller's session behind its back."""
    controller = _controller(world, "expire", action.controller, action.stream)
    if controller is not None and controller.session is not None:
        world.happened("expire", controller.name, f"session of {controller.name} expires")
        world.coordinator.close(controller.session)
        world.after(action.notice_after_ms, controller.notice_expiry, controller.life)


def lose_bucket_owner(world: World, action: script.LoseBucketOwner) -> None:
    """Leave a stream's bucket without an owner for a while."""
    stream = world.stream(action.stream)
    bucket = world.metadata.bucket(stream.name)
    stream.happened("unowned", f"bucket {bucket}", f"nobody owns bucket {bucket}")
    world.coordinator.hold_back(bucket, action.for_ms)
    world.after(action.for_ms, stream.happened, "ownable", f"bucket {bucket}", f"bucket {bucket} can be owned")


def add_controller(world: World, _: script.AddController) -> None:
    """One more controller."""
    name = world.fleet.add().name
    world.happened("join", name, f"{name} joins")


def remove_controller(world: World, action: script.RemoveController) -> None:
    """A controller leaves in good order."""
    controller = _controller(world, "leave", action.controller)
    if controller is not None:
        world.fleet.remove(controller)
        world.happened("leave", controller.name, f"{controller.name} leaves")


def lose_marks_segment(world: World, action: script.LoseMarksSegment) -> None:
    """The marks segment cannot be found for a while."""
    stream = world.stream(action.stream)

    def set_missing(missing: bool) -> None:
        stream.log_missing = missing
        kind, words = ("lose", "missing") if missing else ("find", "back")
        stream.happened(kind, "marks segment", f"the marks segment is {words}")

    set_missing(True)
    world.after(action.for_ms, set_missing, False)


def truncate_marks(world: World, action: script.TruncateMarks) -> None:
    """Only the newest entries of the marks segment stay."""
    stream = world.stream(action.stream)
    entries = stream.log.entries
    if len(entries) > action.keep:
        stream.log = stream.log.truncate(entries[len(entries) - action.keep - 1][0])
    stream.happened("truncate", "marks segment", f"the marks segment keeps {len(stream.log.entries)} entries")


# The network, the stores and the clocks.


def partition(world: World, action: script.Partition) -> None:
    """Separate two sides for a while; a controller without its coordinator loses its session after the timeout."""
    sides = f"{action.a} and {action.b}"
    cut = world.network.cut(world.parties(action.a), world.parties(action.b), holds_calls=action.calls == "held")
    world.happened("partition", sides, f"{sides} are separated")
    alone = [member for member in world.fleet.members if cut.separates(member.name, COORDINATOR)]

    def expire_if_alone(controller: Controller, life: int) -> None:
        session = controller.session if life == controller.life else None
        if session is not None and world.network.is_cut(controller.name, COORDINATOR):
            world.coordinator.close(session)

    def heal() -> None:
        world.network.heal(cut)
        world.happened("heal", sides, f"{sides} are connected again")
        for controller in alone:
            _reconnect(world, controller)

    for controller in alone:
        world.after(world.scenario.controllers.session_timeout_ms, expire_if_alone, controller, controller.life)
    if action.for_ms is not None:
        world.after(action.for_ms, heal)


def _reconnect(world: World, controller: Controller) -> None:
    """The coordinator can reach a controller again: it learns that its session has ended, or its share."""
    world.coordinator.plan()
    if controller.session is not None and controller.session not in world.coordinator.state.sessions:
        world.later(controller.notice_expiry, controller.life)
    else:
        controller.rebalance_buckets()


def store_unavailable(world: World, action: script.StoreUnavailable) -> None:
    """Let a store refuse everything for a while."""
    store = action.store.replace("_", " ")
    world.metadata.refuse(action.store, action.for_ms)
    begin, end = ("unavailable", "unavailable"), ("available", "available again")
    _for_a_while(world, world, store, action.for_ms, begin, end)


def step_clock(world: World, action: script.StepClock) -> None:
    """The clocks follow the script by themselves; this writes it down."""
    way = "forward" if action.by_ms >= 0 else "back"
    world.happened("clock", action.party, f"clock of {action.party} set {way} by {abs(action.by_ms)} ms")


# Reader groups.


def _group(world: World, name: str | None) -> Group | None:
    """The group called `name`, the only one for None; None when its streams were gone when it was to start."""
    return world.groups.get(world.scenario.groups[0].name if name is None else name)


def _reader(world: World, kind: str, name: str) -> Reader | None:
    """The running reader of that name, or None and an incident that says so."""
    for group in world.groups.values():
        reader = group.readers.get(name)
        if reader is not None and reader.alive:
            return reader
        if reader is not None:
            group.happened(kind, name, f"{name} is not running")
    return None


def add_reader(world: World, action: script.AddReader) -> None:
    """One more reader."""
    group = _group(world, action.group)
    if group is not None:
        group.balance.members_changed = True
        group.add(action.reader, join=True)
        group.happened("join", action.reader, f"{action.reader} joins")


def remove_reader(world: World, action: script.RemoveReader) -> None:
    """A reader closes, and says where it is."""
    reader = _reader(world, "leave", action.reader)
    if reader is not None:
        reader.stop()
        world.env.process(reader.group.remove(reader.name, "leave", reader.places))
        reader.group.happened("leave", reader.name, f"{reader.name} leaves")


def crash_reader(world: World, action: script.CrashReader) -> None:
    """Crash a reader; declare it offline and start it again if the script says so."""
    reader = _reader(world, "crash", action.reader)
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


def pause_reader(world: World, action: script.PauseReader) -> None:
    """A reader does nothing for a while."""
    reader = _reader(world, "pause", action.reader)
    if reader is not None:
        reader.paused_until = _until(world, action.for_ms)
        _for_a_while(world, reader.group, reader.name, action.for_ms, ("pause", "pauses"), ("resume", "goes on"))


def release_segment(world: World, action: script.ReleaseSegment) -> None:
    """A reader gives a segment back, if it owns it."""
    reader = _reader(world, "release", action.reader)
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


def take_checkpoint(world: World, action: script.Checkpoint) -> None:
    """Ask a group for a checkpoint."""
    group = _group(world, action.group)
    if group is not None:
        world.env.process(group.checkpoint(action.name))
        group.happened("checkpoint", group.part.name, f"checkpoint {action.name}")


def reset_to_checkpoint(world: World, action: script.ResetToCheckpoint) -> None:
    """Take a group back to a checkpoint, if it is complete."""
    group = _group(world, action.group)
    if group is None:
        return
    completed = list(group.shared.value.checkpoints)
    name = completed[-1] if action.checkpoint is None and completed else action.checkpoint
    if name is None or name not in completed:
        detail = "no checkpoint is complete" if name is None else f"checkpoint {name} is not complete"
    else:
        steps = group.update(group.shared, None, "reset", lambda value: value.reset(name, ranges=action.ranges))
        world.env.process(steps)
        detail = f"back to checkpoint {name}"
    group.happened("reset", group.part.name, detail)


# Whole streams.


def scale(world: World, action: script.Scale) -> None:
    """Scale, as soon as the commits in work are done."""
    stream = world.stream(action.stream)
    stream.transactions.handler.between_batches(lambda: _scale(stream, action))


def _scale(stream: StreamWorld, action: script.Scale) -> None:
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
    stream.happened("scale", names, f"{names} → {', '.join(segment.name for segment in created)}")


def truncate_stream(world: World, action: script.TruncateStream) -> None:
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


def seal_stream(world: World, action: script.SealStream) -> None:
    """Abort what is open, wait for what is to be committed, and seal all segments; nothing follows them."""
    stream = world.stream(action.stream)

    def seal() -> None:
        # The seals arrive one message later, as those of a scale do.
        for segment in stream.history.active.segments:
            stream.later(stream.seal, segment.id)
        stream.happened("seal", stream.name, f"{stream.name} is sealed")

    stream.transactions.close()
    stream.transactions.handler.between_batches(seal, drained=True)


def delete_stream(world: World, action: script.DeleteStream) -> None:
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


# Writers and their transactions.


def _running(world: World, kind: str, name: str) -> AnyWriter | None:
    """The writer process of that name, or None and an incident when it has crashed or has not begun."""
    writer = world.writer(name)
    if writer.life and not writer.client.is_stopped:
        return writer
    writer.world.happened(kind, name, f"{name} is not running")
    return None


def crash_writer(world: World, action: script.CrashWriter) -> None:
    """Crash a writer, and start it again if the script says so."""
    writer = world.writer(action.writer)
    writer.crash()
    writer.world.happened("crash", action.writer, f"{action.writer} crashes")
    _restart_later(world, action)


def _restart_later(world: World, action: script.CrashWriter | script.ShutDownWriter) -> None:
    def restart() -> None:
        writer = world.writer(action.writer)
        writer.restart(action.backlog)
        writer.world.happened("restart", action.writer, f"{action.writer} restarts")

    if action.restart_after_ms is not None:
        world.after(action.restart_after_ms, restart)


def silence_writer(world: World, action: script.SilenceWriter) -> None:
    """A writer notes nothing for a while."""
    writer = world.writer(action.writer)
    writer.silent_until = _until(world, action.for_ms)
    begin, end = ("silence", "falls silent"), ("speak", "speaks again")
    _for_a_while(world, writer.world, action.writer, action.for_ms, begin, end)


def mark_idle(world: World, action: script.MarkIdle) -> None:
    """A writer says that it is idle, and notes nothing for a while."""
    writer = _running(world, "idle", action.writer)
    if writer is not None:
        writer.silent_until = _until(world, action.for_ms)
        writer.leave("mark idle")
        begin, end = ("idle", "is idle"), ("active", "is active again")
        _for_a_while(world, writer.world, action.writer, action.for_ms, begin, end)


def note_time(world: World, action: script.NoteTime) -> None:
    """The application notes a time."""
    writer = _running(world, "note", action.writer)
    if writer is None:
        return
    writer.world.happened("note", action.writer, f"{action.writer} notes {grouped(action.time)}")
    if isinstance(writer, Writer):
        writer.note_explicitly(action.time, None if action.position is None else dict(action.position))


def shut_down_writer(world: World, action: script.ShutDownWriter) -> None:
    """Close a writer in order, and start it again if the script says so."""
    writer = _running(world, "shut_down", action.writer)
    if writer is None:
        return
    writer.world.happened("shut_down", action.writer, f"{action.writer} shuts down")

    def leave() -> None:
        if action.backlog == "lost":
            writer.backlog.abandon(world.now_ms)
        if action.last_note and isinstance(writer, Writer):
            writer.note_chosen()
        if action.tell_controller:
            writer.leave("shut down")

    writer.close(leave)
    _restart_later(world, action)


def duplicate_writer(world: World, action: script.DuplicateWriter) -> None:
    """A second process under the same writer id, with a load of its own from now on."""
    writer = world.writer(action.writer)
    if not isinstance(writer, Writer):
        return
    load = writer.backlog.from_now_on(world.now_ms, moves=action.load == "moves")
    twin = Writer(writer.world, writer.part, writer.index, load, world.processes_of(writer.part.name) + 1)
    world.join(twin)
    writer.world.happened("duplicate", twin.party, f"{twin.party} starts beside {writer.party}")


def _with_transaction(
    world: World,
    kind: str,
    verb: str,
    action: script.CommitTransaction | script.AbortTransaction | script.WriteInTransaction,
) -> TxnWriter | None:
    """The transactional writer of an action, which is written down, if it is running."""
    writer = _running(world, kind, action.writer)
    if not isinstance(writer, TxnWriter):
        return None
    transaction = action.transaction or "its oldest transaction"
    writer.world.happened(kind, action.writer, f"{action.writer} {verb} {transaction}")
    return writer


def commit_transaction(world: World, action: script.CommitTransaction) -> None:
    """Commit a transaction now."""
    if (writer := _with_transaction(world, "commit", "commits", action)) is not None:
        writer.commit(action.transaction, action.time)


def abort_transaction(world: World, action: script.AbortTransaction) -> None:
    """Abort a transaction now."""
    if (writer := _with_transaction(world, "abort", "aborts", action)) is not None:
        writer.abort(action.transaction, action.backlog)


def write_in_transaction(world: World, action: script.WriteInTransaction) -> None:
    """Write in a transaction now."""
    if (writer := _with_transaction(world, "write", "writes in", action)) is not None:
        writer.write(action.transaction)


def slow_transaction(world: World, action: script.SlowTransaction) -> None:
    """Hold a transaction open for longer."""
    writer = _running(world, "hold", action.writer)
    if isinstance(writer, TxnWriter):
        detail = f"{action.writer} holds its transaction for {action.hold_ms:,} ms"
        writer.world.happened("hold", action.writer, detail)
        writer.hold(action.hold_ms)


def lose_merge_reply(world: World, action: script.LoseMergeReply) -> None:
    """The next answers to merge requests are lost."""
    stream = world.stream(action.stream)
    stream.transactions.handler.lose_replies(action)
    replies = "merge reply is" if action.count == 1 else f"{action.count} merge replies are"
    stream.happened("lose_merge_reply", "segment store", f"the next {replies} lost")


def crash_commit_handler(world: World, action: script.CrashCommitHandler) -> None:
    """The commit handler fails when it comes to a point, and writes that down then."""
    world.stream(action.stream).transactions.handler.crash_at(action)


ACTIONS: Final[Mapping[type, Callable[[World, Any], None]]] = {
    script.AbortTransaction: abort_transaction,
    script.AddController: add_controller,
    script.AddReader: add_reader,
    script.Checkpoint: take_checkpoint,
    script.CommitTransaction: commit_transaction,
    script.CrashCommitHandler: crash_commit_handler,
    script.CrashController: crash_controller,
    script.CrashReader: crash_reader,
    script.CrashWriter: crash_writer,
    script.DeleteStream: delete_stream,
    script.DuplicateWriter: duplicate_writer,
    script.ExpireSession: expire_session,
    script.LoseBucketOwner: lose_bucket_owner,
    script.LoseMarksSegment: lose_marks_segment,
    script.LoseMergeReply: lose_merge_reply,
    script.MarkIdle: mark_idle,
    script.NoteTime: note_time,
    script.Partition: partition,
    script.PauseController: pause_controller,
    script.PauseReader: pause_reader,
    script.ReleaseSegment: release_segment,
    script.RemoveController: remove_controller,
    script.RemoveReader: remove_reader,
    script.ResetToCheckpoint: reset_to_checkpoint,
    script.Scale: scale,
    script.SealStream: seal_stream,
    script.ShutDownWriter: shut_down_writer,
    script.SilenceWriter: silence_writer,
    script.SlowTransaction: slow_transaction,
    script.StepClock: step_clock,
    script.StoreUnavailable: store_unavailable,
    script.TruncateMarks: truncate_marks,
    script.TruncateStream: truncate_stream,
    script.WriteInTransaction: write_in_transaction,
}
"""What is done for each kind of action."""
