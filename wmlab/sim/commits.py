"""The commit handler: merges transactions batch by batch, rolls the stream when needed, and notes their marks.

A batch is merged whole before its marks are noted, and its marks are noted before its transactions are recorded as
committed. What a batch has come to is kept in the metadata store, so that a crash leads to a second attempt.

Source: PDP-33, "Writer Marks" (transaction writers); upstream class `CommitRequestHandler`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

from wmlab.model.history import StreamHistory
from wmlab.model.marks import NoteOutcome
from wmlab.model.position import Position
from wmlab.model.txn import CommittedTxn, commit_time, marks_of, needs_rolling, next_batch, targets
from wmlab.scenario.txn_script import CrashCommitHandler, LoseMergeReply

if TYPE_CHECKING:
    from wmlab.sim.transactions import Transactions, Txn
    from wmlab.sim.world import World

_CONFLICT_RETRY_MS = 100

Steps = Generator[simpy.Event, object, None]


@dataclass(slots=True)
class _Batch:
    """Transactions that are committed together, the epoch they go into, and how often they were tried."""

    number: int
    txns: tuple[Txn, ...]
    into: int | None = None
    rolled: StreamHistory | None = None
    attempts: int = 0


class _FailedError(Exception):
    """The batch has to be tried again after `retry_ms`."""

    def __init__(self, retry_ms: int) -> None:
        self.retry_ms = retry_ms


class CommitHandler:
    """The one commit handler of a stream; while it works on a batch, scales wait."""

    def __init__(self, world: World, transactions: Transactions) -> None:
        self.world = world
        self.transactions = transactions
        self._running = False
        self._batches = 0
        self._crash: CrashCommitHandler | None = None
        self._losses: list[int] = []
        self._scales: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Commit what waits, unless that is being done."""
        if not self._running and self.transactions.waiting:
            self._running = True
            self.world.env.process(self._run())

    def crash_at(self, action: CrashCommitHandler) -> None:
        """Crash the next time the point of the action is reached."""
        self._crash = action

    def lose_replies(self, action: LoseMergeReply) -> None:
        """Lose the next answers to merge requests."""
        self._losses += [action.noticed_after_ms] * action.count

    def between_batches(self, scale: Callable[[], None]) -> None:
        """Scale now, or as soon as the batch in work is committed."""
        if self._running:
            self._scales.append(scale)
        else:
            scale()

    def _run(self) -> Steps:
        waiting = self.transactions.waiting
        while txns := next_batch(waiting, self.world.scenario.stream.commit_batch):
            batch = _Batch(self._batches, txns)
            self._batches += 1
            while not self._is_done(batch):
                try:
                    yield from self._commit(batch)
                except _FailedError as failed:
                    yield self.world.env.timeout(failed.retry_ms)
            while self._scales:
                self._scales.pop(0)()
        self._running = False

    def _is_done(self, batch: _Batch) -> bool:
        return all(txn.committed_ms is not None for txn in batch.txns)

    def _commit(self, batch: _Batch) -> Steps:
        batch.attempts += 1
        self._crash_here("before_merge")
        if batch.into is None:
            yield from self._choose_epoch(batch)
        for txn in batch.txns:
            yield from self._merge(batch, txn)
        if batch.rolled is not None and self.world.history is not batch.rolled:
            yield from self._finish_rolling(batch.rolled)
        self._crash_here("after_merge")
        self._note(batch)
        self._crash_here("after_marks")
        for txn in batch.txns:
            self.transactions.waiting.remove(txn)
            self.transactions.committed(txn)

    def _crash_here(self, point: str) -> None:
        if self._crash is not None and self._crash.point == point:
            restart_after_ms, self._crash = self._crash.restart_after_ms, None
            words = point.replace("_", " ")
            self.world.happened("crash_commit_handler", "commit handler", f"the commit handler crashes {words}")
            raise _FailedError(restart_after_ms)

    def _choose_epoch(self, batch: _Batch) -> Steps:
        """The active epoch, or a new copy of the transactions' own epoch, whose segments are then created."""
        world, epoch = self.world, batch.txns[0].epoch
        if not needs_rolling(world.history, epoch):
            batch.into = world.history.active.number
            return
        batch.rolled = world.history.roll(epoch)
        copy = batch.rolled.epochs[-2]
        batch.into = copy.number
        world.later(world.open_segments, copy.segments)
        yield world.env.timeout(2 * world.scenario.latency_ms)

    def _merge(self, batch: _Batch, txn: Txn) -> Steps:
        """Merge all parts of a transaction; its position is where the segments end then."""
        txn.batch = batch.number
        history = batch.rolled or self.world.history
        pairs = targets(history, txn.epoch, history.active.number if batch.into is None else batch.into)
        ends: dict[int, int] = {}
        done = self.world.env.event()

        def reply(target_id: int, length: int) -> None:
            ends[target_id] = length
            if len(ends) == len(pairs):
                done.succeed()

        for source_id, target_id in pairs.items():
            self.world.later(self._merge_part, txn, source_id, target_id, reply)
        yield done
        again = batch.rolled is not None and batch.attempts > 1
        txn.position = Position({} if again and self.world.scenario.stream.empty_mark_after_roll else ends)

    def _merge_part(self, txn: Txn, source_id: int, target_id: int, reply: Callable[[int, int], None]) -> None:
        """At the segment store: merge and answer with the new length, or say that it is merged already.

        In the second case the offset is not known any more, and an older server never says it: then the handler asks
        for the length instead, which may have grown.
        """
        world, segment = self.world, self.world.store[target_id]
        merged = txn.stored.merge(source_id, target_id, segment, world.journal, world.now_ms)
        if merged and self._losses:
            world.after(self._losses.pop(0), world.later, self._merge_part, txn, source_id, target_id, reply)
        elif merged and world.scenario.stream.acks_carry_offset:
            world.later(reply, target_id, segment.length)
        else:
            world.later(world.later, self._tell_length, target_id, reply)

    def _tell_length(self, target_id: int, reply: Callable[[int, int], None]) -> None:
        self.world.later(reply, target_id, self.world.store[target_id].length)

    def _finish_rolling(self, rolled: StreamHistory) -> Steps:
        """Seal the copy that was merged into, open a copy of the active epoch, and seal what was active.

        The two new epochs become known together, so that readers and writers see one change.
        """
        world = self.world
        before, (copy, active) = world.history.active, rolled.epochs[-2:]
        for segment in copy.segments:
            world.later(world.seal, segment.id)
        yield world.env.timeout(2 * world.scenario.latency_ms)
        world.open_segments(active.segments)
        world.history = rolled
        world.write_epoch(copy)
        world.write_epoch(active)
        for segment in before.segments:
            world.later(world.seal, segment.id)
        detail = f"epoch {copy.reference} again as {copy.number}, then epoch {before.number} as {active.number}"
        world.happened("roll", f"epoch {copy.reference}", detail)
        yield world.env.timeout(2 * world.scenario.latency_ms)

    def _note(self, batch: _Batch) -> None:
        """Note the marks of a batch; refusals are ignored, a conflict fails the batch."""
        stream = self.world.scenario.stream
        known = [(txn, txn.client.part.id, txn.position) for txn in batch.txns]
        noting = [
            (txn, CommittedTxn(writer_id, commit_time(txn.time, stream.commit_without_time), position))
            for txn, writer_id, position in known
            if writer_id is not None and position is not None
        ]
        for index, mark in marks_of([committed for _, committed in noting], stream.txn_marks):
            txn, committed = noting[index]
            noted_ms = self.world.now_ms if txn.requested_ms is None else txn.requested_ms
            outcome = self.world.controller.receive(committed.writer, mark.time, mark.position, noted_ms, txn=txn.name)
            if outcome is NoteOutcome.WRITE_CONFLICT:
                raise _FailedError(_CONFLICT_RETRY_MS)
