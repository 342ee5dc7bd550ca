"""The transactions of a stream: their records in the metadata store, their events, and the handler that commits them.

Begin, commit and abort may be asked again on another controller when the first one goes down, so each is done once at
most. The events of open transactions are kept beside the segments, invisible until they are merged. A batch is merged
whole before its marks are noted, and its marks are noted before its transactions are recorded as committed. The state
of a batch is kept in the stores and every step may be done again, so that after a crash the same controller, or
another one, makes a second attempt. A controller whose session has ended may still be at work while its successor is; a
step for a batch that is done finds that out and stops.

Source: PDP-33, "Controller Changes", "Server Changes" and "Writer Marks" (transaction writers); upstream classes
`StreamTransactionMetadataTasks`, `TxnSweeper` and `CommitRequestHandler`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar
from zlib import crc32

import numpy as np

from wmlab.core.errors import ModelError
from wmlab.core.journal import Journal
from wmlab.streams.model.coordination import Session, bucket_of
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.position import Position
from wmlab.streams.model.txn import (
    CommittedTxn,
    TxnEvent,
    TxnState,
    commit_time,
    marks_of,
    needs_rolling,
    next_batch,
    step,
    targets,
)
from wmlab.streams.scenario.script import CrashCommitHandler, LoseMergeReply
from wmlab.streams.scenario.units import METADATA_STORE, SEGMENT_STORE
from wmlab.streams.sim.client import UNAVAILABLE, Note, judge
from wmlab.streams.sim.store import EVENT_HEADER_BYTES, StoredSegment, UnavailableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.streams.sim.controller import Controller, Job
    from wmlab.streams.sim.stream import StreamWorld
    from wmlab.streams.sim.txn_writer import TxnWriter


@dataclass(slots=True)
class StoredTxn:
    """What one transaction of the writer with that index has written, by segment of its epoch."""

    writer: int
    event_bytes: int
    events: int = 0
    _times: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    _merged: set[int] = field(default_factory=set)

    def write(self, segment_id: int, event_times: NDArray[np.int64]) -> None:
        """Add events to the transaction's part of a segment."""
        self._times.setdefault(segment_id, []).append(event_times)
        self.events += len(event_times)

    def delete(self) -> None:
        """Forget the events of an aborted transaction."""
        self._times.clear()

    def merge(self, source_id: int, target_id: int, target: StoredSegment, journal: Journal, now_ms: int) -> bool:
        """Append one part to a segment, all at once; False when that was done before."""
        if source_id in self._merged:
            return False
        self._merged.add(source_id)
        parts = self._times.pop(source_id, [])
        if parts:
            times = np.concatenate(parts)
            size = EVENT_HEADER_BYTES + self.event_bytes
            before = target.append(len(times), size)
            journal.append(target_id, before, size, times, now_ms, self.writer)
        return True


@dataclass(slots=True, eq=False)
class Txn:
    """The metadata record of one transaction; times are ms of the simulated clock, None: not yet."""

    name: str
    client: TxnWriter
    epoch: int
    begun_ms: int
    stored: StoredTxn
    state: TxnState = TxnState.OPEN
    requested_ms: int | None = None
    committed_ms: int | None = None
    aborted_ms: int | None = None
    time: int | None = None
    batch: int | None = None
    position: Position | None = None

    def __str__(self) -> str:
        return self.name


class Transactions:
    """All transactions of a stream, and those that wait for their commit in the order of the requests."""

    def __init__(self, stream: StreamWorld) -> None:
        self.stream = stream
        self.records: dict[str, Txn] = {}
        self.waiting: list[Txn] = []
        self.handler = CommitHandler(stream, self)
        self._closed = False

    def begin(self, controller: Controller, client: TxnWriter, name: str) -> Job[Txn | Literal[False]]:
        """Begin a transaction in the active epoch; False: the stream is sealed or deleted."""
        found: Txn | Literal[False] = yield from controller.ask(
            METADATA_STORE, self.stream, "create transaction", lambda: self._create(client, name)
        )
        return found

    def _create(self, client: TxnWriter, name: str) -> Txn | Literal[False]:
        if name in self.records:
            return self.records[name]
        if self._closed or self.stream.deleted:
            self.stream.refuse(client.party, "begin", f"{name}: {self.stream.name} takes no more transactions.")
            return False
        stored = StoredTxn(client.index, client.part.event_bytes)
        epoch = self.stream.history.active.number
        self.records[name] = Txn(name, client, epoch, self.stream.now_ms, stored)
        return self.records[name]

    def commit(self, controller: Controller, txn: Txn, time: int | None) -> Job[bool]:
        """Accept a commit request and say so; the commit itself happens later."""
        yield from controller.ask(METADATA_STORE, self.stream, "record commit", lambda: self._request(txn, time))
        return True

    def _request(self, txn: Txn, time: int | None) -> None:
        if not self._step(txn, TxnEvent.COMMIT, "commit") or txn.requested_ms is not None:
            return
        txn.requested_ms = self.stream.now_ms
        txn.time = time
        self.waiting.append(txn)
        self.stream.after(txn.client.part.commit_latency_ms, self.handler.wake)

    def abort(self, controller: Controller, txn: Txn) -> Job[bool]:
        """Abort a transaction: record that, delete its events, and record that it is done."""
        stream = self.stream
        accepted = yield from controller.ask(
            METADATA_STORE, stream, "record abort", lambda: self._step(txn, TxnEvent.ABORT, "abort")
        )
        if accepted:
            yield from controller.ask(SEGMENT_STORE, stream, "delete transaction", txn.stored.delete)
            yield from controller.ask(METADATA_STORE, stream, "record aborted", lambda: self._aborted(txn))
        return True

    def _aborted(self, txn: Txn) -> None:
        txn.state = step(txn.state, TxnEvent.DELETED)
        if txn.aborted_ms is None:
            txn.aborted_ms = self.stream.now_ms

    def expire(self, txn: Txn) -> None:
        """The lease of a transaction has run out because its writer is gone: some controller aborts it."""
        if self.stream.deleted or txn.state not in (TxnState.OPEN, TxnState.ABORTING):
            return
        controller = self.handler.committer()
        if controller is None:
            self._expire_later(txn)
        else:
            controller.serve(self.abort(controller, txn), lambda done: None if done else self._expire_later(txn))

    def _expire_later(self, txn: Txn) -> None:
        self.stream.after(self.stream.scenario.controllers.session_timeout_ms, self.expire, txn)

    def close(self) -> None:
        """The stream is about to be sealed: no more transactions begin, and the open ones are aborted."""
        self._closed = True
        for txn in self.records.values():
            self.expire(txn)

    def committed(self, txn: Txn) -> None:
        """Record a transaction as committed."""
        txn.state = step(txn.state, TxnEvent.MERGED)
        txn.committed_ms = self.stream.now_ms

    def _step(self, txn: Txn, event: TxnEvent, call: str) -> bool:
        try:
            txn.state = step(txn.state, event)
        except ModelError as error:
            self.stream.refuse(txn.client.party, call, f"{txn.name}: {error.problem}")
            return False
        return True

    def write(self) -> None:
        """Write all transactions down as they are now."""
        for txn in self.records.values():
            self.stream.journal.write(
                "transactions",
                txn=txn.name,
                writer=txn.client.part.name,
                epoch=txn.epoch,
                state=txn.state.value,
                begun_ms=txn.begun_ms,
                commit_requested_ms=txn.requested_ms,
                committed_ms=txn.committed_ms,
                aborted_ms=txn.aborted_ms,
                time=txn.time,
                batch=txn.batch,
                position=None if txn.position is None else dict(txn.position),
                events=txn.stored.events,
            )


T = TypeVar("T")
_RETRY_MS = 100


@dataclass(slots=True, eq=False)
class _Batch:
    """Transactions that are committed together, the epoch they go into, and how often they were tried."""

    number: int
    txns: tuple[Txn, ...]
    history: StreamHistory | None = None
    into: int = 0
    attempts: int = 0

    def __str__(self) -> str:
        return ", ".join(txn.name for txn in self.txns)


class _FailedError(Exception):
    """The batch has to be tried again after `retry_ms`."""

    def __init__(self, retry_ms: int) -> None:
        self.retry_ms = retry_ms


class _SupersededError(Exception):
    """Another controller has finished the batch, or the stream is gone."""


class CommitHandler:
    """The queue of a stream's commits and whoever works on it; while a batch is in work, scales wait."""

    def __init__(self, stream: StreamWorld, transactions: Transactions) -> None:
        self.stream = stream
        self.transactions = transactions
        self._host: Session | None = None
        self._worker: tuple[str, int] | None = None
        self._batch: _Batch | None = None
        self._batches = 0
        self._crash: CrashCommitHandler | None = None
        self._losses: list[int] = []
        self._changes: list[tuple[bool, Callable[[], None]]] = []

    def committer(self) -> Controller | None:
        """The controller that commits: the same one while its session lasts; None while there is no session."""
        world = self.stream.world
        sessions = world.coordinator.state.sessions
        if self._host not in sessions:
            self._host = (
                sessions[bucket_of(world.metadata.scoped(self.stream.name), len(sessions))] if sessions else None
            )
        return None if self._host is None else world.fleet[self._host.controller]

    def wake(self) -> None:
        """Commit what waits, unless that is being done or nobody can."""
        if self._batch is None and not self.transactions.waiting:
            return
        controller = self.committer()
        # A controller that has come back before its old session ended is not the one that commits.
        if controller is None or not controller.is_running or controller.session != self._host:
            return
        worker = (controller.name, controller.life)
        if self._worker != worker:
            self._worker = worker
            controller.drive(self._run(controller, worker))

    def crash_at(self, action: CrashCommitHandler) -> None:
        """Fail the next time the point of the action is reached."""
        self._crash = action

    def lose_replies(self, action: LoseMergeReply) -> None:
        """Lose the next answers to merge requests."""
        self._losses += [action.noticed_after_ms] * action.count

    def between_batches(self, change: Callable[[], None], *, drained: bool = False) -> None:
        """Change the stream's segments now, or when the batch in work is committed; `drained`: when nothing waits."""
        self._changes.append((drained, change))
        self._make_changes()

    def _make_changes(self) -> None:
        while self._changes and self._batch is None and not (self._changes[0][0] and self.transactions.waiting):
            self._changes.pop(0)[1]()

    def _run(self, controller: Controller, worker: tuple[str, int]) -> Job[None]:
        retry_ms = 0
        while True:
            if retry_ms:
                yield self.stream.env.timeout(retry_ms)
            try:
                batch = yield from controller.ask(METADATA_STORE, self.stream, "next batch", self._take)
                if batch is None:
                    break
                retry_ms = 0
                yield from self._commit(controller, batch)
            except _SupersededError:
                continue
            except _FailedError as failed:
                retry_ms = failed.retry_ms
            except UnavailableError:
                retry_ms = _RETRY_MS
        if self._worker == worker:
            self._worker = None

    def _take(self) -> _Batch | None:
        """The batch in work, or the next one."""
        if self._batch is None and not self.stream.deleted:
            txns = next_batch(self._in_line(), self.stream.part.commit_batch)
            if txns:
                self._batch = _Batch(self._batches, txns)
                self._batches += 1
                for txn in txns:
                    txn.batch = self._batch.number
        return None if self.stream.deleted else self._batch

    def _in_line(self) -> list[Txn]:
        """Those that wait, in the order in which they are committed; ids say nothing about time, as random ones."""
        waiting = self.transactions.waiting
        in_order = self.stream.part.commit_order == "requested"
        return waiting if in_order else sorted(waiting, key=lambda txn: crc32(txn.name.encode()))

    def _ask(self, controller: Controller, batch: _Batch, store: str, what: str, act: Callable[[], T]) -> Job[T]:
        def unless_done() -> T:
            if self._batch is not batch or self.stream.deleted:
                raise _SupersededError
            return act()

        return (yield from controller.ask(store, self.stream, what, unless_done))

    def _commit(self, controller: Controller, batch: _Batch) -> Job[None]:
        batch.attempts += 1
        yield from self._failpoint(controller, "before_merge")
        if batch.history is None:
            yield from self._choose_epoch(controller, batch)
        for txn in batch.txns:
            yield from self._merge(controller, batch, txn)
        if batch.history is not None and batch.history.active.number > batch.into:
            yield from self._finish_rolling(controller, batch, batch.history)
        yield from self._failpoint(controller, "after_merge")
        yield from self._note(controller, batch)
        yield from self._failpoint(controller, "after_noting")
        yield from self._ask(controller, batch, METADATA_STORE, "record committed", lambda: self._record(batch))
        for txn in batch.txns:
            self.stream.send(controller.name, txn.client.party, "committed", txn, txn.client.on_done, txn)

    def _failpoint(self, controller: Controller, point: str) -> Job[None]:
        """A place at which the script may stop this handler, or its controller."""
        if self._crash is not None and self._crash.point == point:
            restart_after_ms, self._crash = self._crash.restart_after_ms, None
            words = point.replace("_", " ")
            self.stream.happened("crash_commit_handler", "commit handler", f"the commit handler crashes {words}")
            raise _FailedError(restart_after_ms)
        yield from controller.failpoint(point, self.stream.name)

    def _choose_epoch(self, controller: Controller, batch: _Batch) -> Job[None]:
        """The active epoch, or a new copy of the transactions' own epoch, whose segments are then created."""
        stream, epoch = self.stream, batch.txns[0].epoch
        history = yield from self._ask(controller, batch, METADATA_STORE, "read epochs", stream.read_history)
        into = history.active.number
        if needs_rolling(history, epoch):
            history = history.roll(epoch)
            copy = history.epochs[-2]
            into = copy.number
            yield from self._ask(
                controller, batch, SEGMENT_STORE, "create segments", lambda: stream.open_segments(copy.segments)
            )

        def choose() -> None:
            batch.history, batch.into = history, into

        yield from self._ask(controller, batch, METADATA_STORE, "record epoch", choose)

    def _merge(self, controller: Controller, batch: _Batch, txn: Txn) -> Job[None]:
        """Merge all parts of a transaction; its position is where the segments end then.

        When an answer is lost the request is made again, and the store says that it is merged already; it does not
        know the offset any more, and an older server never says it. Then the handler asks for the length instead.
        """
        store, history = self.stream.store, batch.history or self.stream.history
        pairs = targets(history, txn.epoch, batch.into)
        merged, lost_ms = True, 0
        while True:
            ends, merged, lost_ms = yield from self._ask(
                controller, batch, SEGMENT_STORE, "merge transaction", lambda: self._merge_parts(txn, pairs.items())
            )
            if not lost_ms:
                break
            yield self.stream.env.timeout(lost_ms)
        if not merged or not self.stream.part.acks_carry_offset:
            ends = yield from self._ask(
                controller, batch, SEGMENT_STORE, "get lengths", lambda: {t: store[t].length for t in pairs.values()}
            )
        again = batch.attempts > 1 and history.active.number > batch.into
        txn.position = Position({} if again and self.stream.part.empty_mark_after_roll else ends)

    def _merge_parts(self, txn: Txn, pairs: Iterable[tuple[int, int]]) -> tuple[dict[int, int], bool, int]:
        """At the segment store: where each segment ends, whether nothing was merged before, when a loss is noticed."""
        stream = self.stream
        done = [txn.stored.merge(s, t, stream.store[t], stream.journal, stream.now_ms) for s, t in pairs]
        merged = all(done)
        return (
            {t: stream.store[t].length for _, t in pairs},
            merged,
            self._losses.pop(0) if merged and self._losses else 0,
        )

    def _finish_rolling(self, controller: Controller, batch: _Batch, rolled: StreamHistory) -> Job[None]:
        """Seal the copy that was merged into, open a copy of the active epoch, and seal what was active.

        The two new epochs become known together, so that readers and writers see one change.
        """
        stream = self.stream
        before, copy, active = rolled.epochs[-3:]

        def turn() -> None:
            for segment in copy.segments:
                stream.seal(segment.id)
            stream.open_segments(active.segments)

        def record() -> None:
            if stream.history is not rolled:
                stream.history = rolled
                stream.write_epoch(copy)
                stream.write_epoch(active)
                detail = f"epoch {copy.reference} again as {copy.number}, then epoch {before.number} as {active.number}"
                stream.happened("roll", f"epoch {copy.reference}", detail)

        def seal() -> None:
            for segment in before.segments:
                stream.seal(segment.id)

        yield from self._ask(controller, batch, SEGMENT_STORE, "turn epochs", turn)
        yield from self._ask(controller, batch, METADATA_STORE, "record epochs", record)
        yield from self._ask(controller, batch, SEGMENT_STORE, "seal segments", seal)

    def _note(self, controller: Controller, batch: _Batch) -> Job[None]:
        """Note the marks of a batch; refusals are ignored, a conflict fails the batch."""
        part = self.stream.part
        known = [(txn, txn.client.part.id, txn.position) for txn in batch.txns]
        noting = [
            (txn, CommittedTxn(writer_id, commit_time(txn.time, part.commit_without_time), position))
            for txn, writer_id, position in known
            if writer_id is not None and position is not None
        ]
        for index, mark in marks_of([committed for _, committed in noting], part.txn_marks):
            txn, committed = noting[index]
            noted_ms = self.stream.now_ms if txn.requested_ms is None else txn.requested_ms
            note = Note(self.stream.name, committed.writer, mark.time, mark.position, noted_ms, txn=txn.name)
            if self._batch is not batch or self.stream.deleted:
                raise _SupersededError
            outcome = yield from judge(controller, note)
            if outcome in (NoteOutcome.WRITE_CONFLICT.value, UNAVAILABLE):
                raise _FailedError(_RETRY_MS)

    def _record(self, batch: _Batch) -> None:
        for txn in batch.txns:
            self.transactions.waiting.remove(txn)
            self.transactions.committed(txn)
        self._batch = None
        self._make_changes()
