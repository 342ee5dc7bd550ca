"""What a script does to transactions and to those who commit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.streams.scenario.script import (
    AbortTransaction,
    CommitTransaction,
    CrashCommitHandler,
    LoseMergeReply,
    SlowTransaction,
    WriteInTransaction,
)
from wmlab.streams.sim.actions.writers import running
from wmlab.streams.sim.txn_writer import TxnWriter

if TYPE_CHECKING:
    from wmlab.streams.sim.world import World


def commit_transaction(world: World, action: CommitTransaction) -> None:
    """Commit a transaction now."""
    writer = running(world, "commit", action.writer)
    if isinstance(writer, TxnWriter):
        what = action.transaction or "its oldest transaction"
        writer.world.happened("commit", action.writer, f"{action.writer} commits {what}")
        writer.commit(action.transaction, action.time)


def abort_transaction(world: World, action: AbortTransaction) -> None:
    """Abort a transaction now."""
    writer = running(world, "abort", action.writer)
    if isinstance(writer, TxnWriter):
        what = action.transaction or "its oldest transaction"
        writer.world.happened("abort", action.writer, f"{action.writer} aborts {what}")
        writer.abort(action.transaction, action.backlog)


def write_in_transaction(world: World, action: WriteInTransaction) -> None:
    """Write in a transaction now."""
    writer = running(world, "write", action.writer)
    if isinstance(writer, TxnWriter):
        what = action.transaction or "its oldest transaction"
        writer.world.happened("write", action.writer, f"{action.writer} writes in {what}")
        writer.write(action.transaction)


def slow_transaction(world: World, action: SlowTransaction) -> None:
    """Hold a transaction open for longer."""
    writer = running(world, "hold", action.writer)
    if isinstance(writer, TxnWriter):
        detail = f"{action.writer} holds its transaction for {action.hold_ms:,} ms"
        writer.world.happened("hold", action.writer, detail)
        writer.hold(action.hold_ms)


def lose_merge_reply(world: World, action: LoseMergeReply) -> None:
    """The next answers to merge requests are lost."""
    stream = world.stream(action.stream)
    stream.transactions.handler.lose_replies(action)
    replies = "merge reply is" if action.count == 1 else f"{action.count} merge replies are"
    stream.happened("lose_merge_reply", "segment store", f"the next {replies} lost")


def crash_commit_handler(world: World, action: CrashCommitHandler) -> None:
    """The commit handler fails when it comes to a point, and writes that down then."""
    world.stream(action.stream).transactions.handler.crash_at(action)
