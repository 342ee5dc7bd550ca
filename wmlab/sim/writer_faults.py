"""Carries out what a script does to writers and transactions, and starts the processes of a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.scenario.parts import EventWriter
from wmlab.scenario.script import Action
from wmlab.scenario.transactional import TransactionalWriter
from wmlab.scenario.txn_script import (
    AbortTransaction,
    CommitTransaction,
    CrashCommitHandler,
    LoseMergeReply,
    SlowTransaction,
)
from wmlab.scenario.writer_script import DuplicateWriter, MarkIdle, NoteTime, ShutDownWriter
from wmlab.sim.load import Load
from wmlab.sim.txn_writer import TxnWriter
from wmlab.sim.writer import Writer

if TYPE_CHECKING:
    from wmlab.sim.world import World


def processes(
    world: World, part: EventWriter | TransactionalWriter, index: int, load: Load
) -> list[Writer | TxnWriter]:
    """All processes of a writer; several share its load event by event in turn."""
    if isinstance(part, TransactionalWriter):
        return [TxnWriter(world, part, index, load)]
    count = part.processes
    shares = [Load(load.happens_ms[n::count], load.arrives_ms[n::count], load.key[n::count]) for n in range(count)]
    return [Writer(world, part, index, share, number) for number, share in enumerate(shares, start=1)]


def carry_out(world: World, action: Action) -> None:
    """Do what an action of the script says and write it down."""
    match action:
        case NoteTime():
            _note(world, action)
        case ShutDownWriter():
            _shut_down(world, action)
        case MarkIdle():
            _mark_idle(world, action)
        case DuplicateWriter():
            _duplicate(world, action)
        case CommitTransaction() | AbortTransaction() | SlowTransaction():
            _interfere(world, action)
        case LoseMergeReply():
            world.transactions.handler.lose_replies(action)
            replies = "merge reply is" if action.count == 1 else f"{action.count} merge replies are"
            world.happened("lose_merge_reply", "segment store", f"the next {replies} lost")
        case CrashCommitHandler():
            world.transactions.handler.crash_at(action)


def _note(world: World, action: NoteTime) -> None:
    writer = world.writer(action.writer)
    world.happened("note", action.writer, f"{action.writer} notes {action.time:,}".replace(",", " "))
    if isinstance(writer, Writer):
        writer.notes.note_explicitly(action.time, None if action.position is None else dict(action.position))


def _shut_down(world: World, action: ShutDownWriter) -> None:
    writer = world.writer(action.writer)
    world.happened("shut_down", action.writer, f"{action.writer} shuts down")

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


def _restart(world: World, action: ShutDownWriter) -> None:
    world.writer(action.writer).restart(action.backlog)
    world.happened("restart", action.writer, f"{action.writer} restarts")


def _mark_idle(world: World, action: MarkIdle) -> None:
    writer = world.writer(action.writer)
    writer.silence(float("inf") if action.for_ms is None else world.now_ms + action.for_ms)
    writer.say_goodbye("mark idle")
    world.happened("idle", action.writer, f"{action.writer} is idle")
    if action.for_ms is not None:
        world.after(action.for_ms, world.happened, "active", action.writer, f"{action.writer} is active again")


def _duplicate(world: World, action: DuplicateWriter) -> None:
    writer = world.writer(action.writer)
    if not isinstance(writer, Writer):
        return
    load = writer.backlog.from_now_on(world.now_ms, moves=action.load == "moves")
    twin = Writer(world, writer.part, writer.index, load, world.processes_of(writer.part.name) + 1)
    world.join(twin)
    world.happened("duplicate", twin.name, f"{twin.name} starts beside {writer.name}")


def _interfere(world: World, action: CommitTransaction | AbortTransaction | SlowTransaction) -> None:
    writer = world.writer(action.writer)
    if not isinstance(writer, TxnWriter):
        return
    match action:
        case CommitTransaction(transaction=name, time=time):
            world.happened("commit", action.writer, f"{action.writer} commits {name or 'its oldest transaction'}")
            writer.commit(name, time)
        case AbortTransaction(transaction=name, backlog=backlog):
            world.happened("abort", action.writer, f"{action.writer} aborts {name or 'its oldest transaction'}")
            writer.abort(name, backlog)
        case SlowTransaction(hold_ms=hold_ms):
            world.happened("hold", action.writer, f"{action.writer} holds its transaction for {hold_ms} ms")
            writer.hold(hold_ms)
