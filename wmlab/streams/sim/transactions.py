"""The transactions of a stream: their records in the metadata store, their events, and the handler that commits them.

Begin, commit and abort may be asked again on another controller when the first one goes down, so each is done once at
most. Events of open transactions are kept with the segments, invisible until they are merged. A batch is merged whole
before its marks are noted, and its marks are noted before its transactions are recorded as committed. Its state is in
the stores and every step may be done again: after a crash, by the same controller or another one. One whose session has
ended may still be at work while its successor is; a step for a batch that is done finds that out and stops.

A scale in steps is done here, too: the old segments are sealed one after the other, while the new ones are open. Its
state is in the stores, as that of a batch: the new epoch is written, and each segment is sealed or not. Sealing a
sealed segment changes nothing. So a controller that fails between two seals leaves the scale half done. It, or the one
that takes over, begins with the first segment again. Until then no transactions are committed, and no other change of
the segments begins.

Source: PDP-33, "Controller Changes", "Server Changes" and "Writer Marks" (transaction writers); upstream classes
`StreamTransactionMetadataTasks`, `TxnSweeper` and `CommitRequestHandler`. Of scales: PDP-33, "Watermark Computation"
("Segment 2, 3 are created and 0 is sealed but 1 may still be open"); upstream classes `ScaleOperationTask` (run again
by the event processor after a failure) and `StreamMetadataTasks` (notifySealedSegments, which tries each segment again
until the store has sealed it; it does not wait in between).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wmlab.core.errors import ModelError
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.core.words import counted
from wmlab.streams.model import txn as rules
from wmlab.streams.model.coordination import Session, bucket_of, qualified_name
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import NoteOutcome
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import segment_name
from wmlab.streams.model.txn import CommittedTxn, TxnEvent, TxnState
from wmlab.streams.model.wire import EVENT_HEADER_BYTES, Lengths, Note
from wmlab.streams.scenario.parts import METADATA_STORE, SEGMENT_STORE, TransactionalWriter
from wmlab.streams.scenario.script import CrashCommitHandler
from wmlab.streams.sim.controller import Controller, Controllers
from wmlab.streams.sim.network import Message
from wmlab.streams.sim.stores import StreamWorld
from wmlab.streams.sim.world import UNAVAILABLE, Incident, Steps, UnavailableError


class TxnClient(Protocol):
    """The writer of a transaction, as its stream knows it."""

    name: str
    index: int
    part: TransactionalWriter

    def on_done(self, txn: Txn) -> None:
        """A transaction is committed or aborted."""


@dataclass(slots=True, eq=False)
class Txn:
    """One transaction: its metadata record, and what it has written by segment of its epoch.

    Times are ms of the simulated clock, None: not yet.
    """

    name: str
    client: TxnClient
    epoch: int
    begun_ms: int
    state: TxnState = TxnState.OPEN
    commit_requested_ms: int | None = None
    committed_ms: int | None = None
    aborted_ms: int | None = None
    time: int | None = None
    batch: int | None = None
    position: Position | None = None
    events: int = 0
    _times: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    _merged: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        return self.name

    def write(self, segment_id: int, event_times: NDArray[np.int64]) -> None:
        """Add events to the transaction's part of a segment."""
        self._times.setdefault(segment_id, []).append(event_times)
        self.events += len(event_times)

    def delete(self) -> None:
        """Forget the events of an aborted transaction."""
        self._times.clear()

    def merge(self, source_id: int, target_id: int, stream: StreamWorld) -> bool:
        """Append one part to a segment, all at once; False when that was done before."""
        if source_id in self._merged:
            return False
        self._merged.add(source_id)
        parts = self._times.pop(source_id, [])
        if parts:
            times, size = np.concatenate(parts), EVENT_HEADER_BYTES + self.client.part.event_bytes
            before = stream.store[target_id].append(len(times), size)
            stream.journal.append(target_id, before, size, times, stream.world.now_ms, self.client.index)
        return True


CommitStepResult = TypeVar("CommitStepResult")
_Ask = Callable[..., Steps[Any]]
"""Asks a store for a batch or a scale: which store, the name of the request, what it does, and its content."""
_RETRY_MS = 100
_COLUMNS = ("epoch", "begun_ms", "commit_requested_ms", "committed_ms", "aborted_ms", "time", "batch", "events")


@dataclass(slots=True, eq=False)
class _Batch:
    """Transactions that are committed together, the epoch they go into, and how often they were tried."""

    number: int
    txns: tuple[Txn, ...]
    history: StreamHistory | None = None
    into: int = 0
    attempts: int = 0


class _FailedError(Exception):
    """The batch has to be tried again after `retry_ms`."""

    def __init__(self, retry_ms: int) -> None:
        self.retry_ms = retry_ms


class _SupersededError(Exception):
    """Another controller has finished the batch or the scale, or the stream is gone."""


_SEALED: Final = "sealed"
_WAS_SEALED: Final = "was sealed before"


@dataclass(frozen=True, slots=True, eq=False)
class SteppedScale:
    """The segments that a scale seals, in that order, and how many ms lie between two seals."""

    segments: tuple[int, ...]
    every_ms: int


class Transactions:
    """All transactions of a stream, those that wait for their commit in the order of the requests, and their handler.

    While a batch is in work, scales wait, and while a scale in steps is in work, batches do. `lost_replies` says when
    the loss of each of the next answers to merge requests is noticed; the handler fails when it comes to the point of
    an action in `armed`, and calls what is next to it.
    """

    def __init__(self, stream: StreamWorld, controllers: Controllers) -> None:
        self.stream = stream
        self._controllers = controllers
        self.records: dict[str, Txn] = {}
        self.armed: list[tuple[CrashCommitHandler, Callable[[], None]]] = []
        self.lost_replies: list[int] = []
        self._waiting: list[Txn] = []
        self._closed = False
        self._host: Session | None = None
        self._worker: Session | None = None
        self._batch: _Batch | None = None
        self._batches = 0
        self._scale: SteppedScale | None = None
        self._changes: list[tuple[bool, Callable[[], None]]] = []

    def begin(self, controller: Controller, client: TxnClient, name: str) -> Steps[Txn | Literal[False]]:
        """Begin a transaction in the active epoch; False: the stream is sealed or deleted."""
        stream = self.stream

        def create() -> Txn | Literal[False]:
            if name not in self.records:
                if self._closed or stream.deleted:
                    stream.refuse(client.name, "begin", f"{name}: {stream.name} takes no more transactions.")
                    return False
                self.records[name] = Txn(name, client, stream.history.active.number, stream.world.now_ms)
            return self.records[name]

        return (yield from controller.ask_at(METADATA_STORE, stream, "create transaction", create))

    def commit(self, controller: Controller, txn: Txn, time: int | None) -> Steps[bool]:
        """Accept a commit request and say so; the commit itself happens later."""

        def request() -> None:
            if self._step(txn, TxnEvent.COMMIT, "commit") and txn.commit_requested_ms is None:
                txn.commit_requested_ms, txn.time = self.stream.world.now_ms, time
                self._waiting.append(txn)
                self.stream.world.after(txn.client.part.commit_latency_ms, self.wake)

        yield from controller.ask_at(METADATA_STORE, self.stream, "record commit", request)
        return True

    def abort(self, controller: Controller, txn: Txn) -> Steps[bool]:
        """Abort a transaction: record that, delete its events, and record that it is done."""
        stream = self.stream

        def aborted() -> None:
            txn.state = rules.next_state(txn.state, TxnEvent.DELETED)
            if txn.aborted_ms is None:
                txn.aborted_ms = stream.world.now_ms

        def accept() -> bool:
            return self._step(txn, TxnEvent.ABORT, "abort")

        if (yield from controller.ask_at(METADATA_STORE, stream, "record abort", accept)):
            yield from controller.ask_at(SEGMENT_STORE, stream, "delete transaction", txn.delete)
            yield from controller.ask_at(METADATA_STORE, stream, "record aborted", aborted)
        return True

    def expire(self, txn: Txn) -> None:
        """The lease of a transaction has run out because its writer is gone: some controller aborts it."""
        if self.stream.deleted or txn.state not in (TxnState.OPEN, TxnState.ABORTING):
            return

        def try_again_unless(done: bool | None) -> None:
            if not done:
                self.stream.world.after(self.stream.world.scenario.controllers.session_timeout_ms, self.expire, txn)

        controller = self.committer()
        if controller is None:
            try_again_unless(False)
        else:
            controller.serve(self.abort(controller, txn), try_again_unless)

    def close(self) -> None:
        """The stream is about to be sealed: no more transactions begin, and the open ones are aborted."""
        self._closed = True
        for txn in self.records.values():
            self.expire(txn)

    def _step(self, txn: Txn, event: TxnEvent, call: str) -> bool:
        try:
            txn.state = rules.next_state(txn.state, event)
        except ModelError as error:
            self.stream.refuse(txn.client.name, call, f"{txn.name}: {error.problem}")
            return False
        return True

    def write_lost_replies(self) -> None:
        """Write down, at the end of the run, how many answers were to be lost and never came."""
        if self.lost_replies:
            answers = f"{counted(len(self.lost_replies), 'answer')} to merge requests to be lost never came"
            incident = Incident("lose_merge_reply", "store", "segment store", answers, outcome=NEVER_HAPPENED)
            self.stream.world.record_incident(incident, self.stream.journal)

    def write(self) -> None:
        """Write all transactions down as they are now."""
        for txn in self.records.values():
            self.stream.journal.write(
                "transactions",
                txn=txn.name,
                writer=txn.client.part.name,
                state=txn.state.value,
                position=None if txn.position is None else dict(txn.position),
                **{name: getattr(txn, name) for name in _COLUMNS},
            )

    @property
    def follows_leader(self) -> bool:
        """Whether the controller that owns the stream's bucket commits; otherwise one drawn by the stream's name."""
        return self.stream.world.rules.committer == "leader"

    def committer(self) -> Controller | None:
        """The controller that commits: the stream's leader, or the same one while its session lasts; None: nobody."""
        state = self._controllers.coordinator.state
        if self.follows_leader:
            self._host = state.nodes.get(self.stream.bucket)
        elif self._host not in state.sessions:
            sessions, name = state.sessions, qualified_name(self.stream.name)
            self._host = sessions[bucket_of(name, len(sessions))] if sessions else None
        return None if self._host is None else self._controllers[self._host.controller]

    def wake(self) -> None:
        """Commit what waits, or go on with the scale, unless that is being done or nobody can."""
        if not self._has_work:
            return
        controller, host = self.committer(), self._host
        # A controller that has come back before its old session ended is not the one that commits.
        if controller is None or host is None or not controller.is_running or controller.session != host:
            return
        if self._worker != host:
            self._worker = host
            controller.do(self._run(controller, host))

    @property
    def _has_work(self) -> bool:
        return self._batch is not None or self._scale is not None or bool(self._waiting)

    def when_idle(self, change: Callable[[], None], *, drained: bool = False) -> None:
        """Change the stream's segments now, or when the batch in work is committed; `drained`: when nothing waits."""
        self._changes.append((drained, change))
        self._make_changes()

    def scale_in_steps(self, scale: SteppedScale) -> None:
        """Seal the segments of a scale one by one; the first seal is sent one message later, as those at once are."""
        self._scale = scale
        self.stream.world.later(self.wake)

    def after_scale(self, change: Callable[[], None]) -> None:
        """Make a change now, or when the scale in work is done."""
        if self._scale is None:
            change()
        else:
            self.when_idle(change)

    def _make_changes(self) -> None:
        while (
            self._changes
            and self._batch is None
            and self._scale is None
            and not (self._changes[0][0] and self._waiting)
        ):
            self._changes.pop(0)[1]()

    def _run(self, controller: Controller, worker: Session) -> Steps[None]:
        retry_ms = 0
        yield from controller.ready()
        # A leader goes on until it knows that another one commits; one whose session has ended unnoticed does not know.
        while not (self.follows_leader and self.stream.bucket not in controller.buckets):
            if retry_ms:
                yield from controller.sleep(retry_ms)
            try:
                if self._scale is not None and not self.stream.deleted:
                    retry_ms = 0
                    yield from self.seal_in_steps(controller, self._scale)
                    continue
                batch = yield from controller.ask_at(METADATA_STORE, self.stream, "next batch", self._take)
                if batch is None:
                    # What came while the answer was under way is done by this loop, for nobody else was woken up.
                    if self._has_work and not self.stream.deleted:
                        continue
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
        """The batch in work, or the next one; ids say nothing about time, as if they were random."""
        part = self.stream.part
        if self._batch is None and self._scale is None and not self.stream.deleted:
            line = self._waiting
            if part.commit_order == "by_id":
                line = sorted(line, key=lambda txn: crc32(txn.name.encode()))
            if txns := rules.next_batch(line, part.commit_batch):
                self._batch = _Batch(self._batches, txns)
                self._batches += 1
                for txn in txns:
                    txn.batch = self._batch.number
        return None if self.stream.deleted else self._batch

    def _ask(
        self,
        controller: Controller,
        work: _Batch | SteppedScale,
        store: str,
        kind: str,
        act: Callable[[], CommitStepResult],
        content: object = "",
    ) -> Steps[CommitStepResult]:
        def unless_done() -> CommitStepResult:
            if work not in (self._batch, self._scale) or self.stream.deleted:
                raise _SupersededError
            return act()

        return (yield from controller.ask_at(store, self.stream, kind, unless_done, content))

    def _commit(self, controller: Controller, batch: _Batch) -> Steps[None]:
        def record() -> None:
            for txn in batch.txns:
                self._waiting.remove(txn)
                txn.state = rules.next_state(txn.state, TxnEvent.MERGED)
                txn.committed_ms = self.stream.world.now_ms
            self._batch = None
            self._make_changes()

        batch.attempts += 1
        ask: _Ask = partial(self._ask, controller, batch)
        yield from self._failpoint(controller, "before_merge")
        if batch.history is None:
            yield from self._choose_epoch(ask, batch)
        for txn in batch.txns:
            yield from self._merge(controller, ask, batch, txn)
        if batch.history is not None and batch.history.active.number > batch.into:
            yield from self._finish_rolling(ask, batch.history)
        yield from self._failpoint(controller, "after_merge")
        yield from self._note(controller, batch)
        yield from self._failpoint(controller, "after_noting")
        yield from ask(METADATA_STORE, "record committed", record)
        for txn in batch.txns:
            news = Message(self.stream.title, controller.name, txn.client.name, "committed", txn)
            self.stream.world.network.carry(news, txn.client.on_done, txn)

    def seal_in_steps(self, controller: Controller, scale: SteppedScale) -> Steps[None]:
        """What a controller does for a scale, from its beginning or after a failure."""
        stream = self.stream
        ask: _Ask = partial(self._ask, controller, scale)

        def seal(segment: int) -> str:
            was_open = stream.store[segment].sealed_ms is None
            stream.seal([segment])
            return _SEALED if was_open else _WAS_SEALED

        def finish() -> None:
            stream.read_history()
            self._scale = None
            self._make_changes()

        yield from ask(METADATA_STORE, "read epochs", stream.read_history)
        for segment in scale.segments:
            answer = yield from ask(SEGMENT_STORE, "seal segment", partial(seal, segment), segment_name(segment))
            if answer == _SEALED and segment != scale.segments[-1]:
                yield from controller.failpoint("between_seals", stream.name)
                yield from controller.sleep(scale.every_ms)
        yield from ask(METADATA_STORE, "complete scale", finish)

    def _failpoint(self, controller: Controller, point: str) -> Steps[None]:
        """A step at which the script may stop this handler, or its controller."""
        armed = next((entry for entry in self.armed if entry[0].point == point), None)
        if armed is not None:
            self.armed.remove(armed)
            armed[1]()
            raise _FailedError(armed[0].restart_after_ms)
        yield from controller.failpoint(point, self.stream.name)

    def _choose_epoch(self, ask: _Ask, batch: _Batch) -> Steps[None]:
        """The active epoch, or a new copy of the transactions' own epoch, whose segments are then created."""
        stream, epoch = self.stream, batch.txns[0].epoch
        history: StreamHistory = yield from ask(METADATA_STORE, "read epochs", stream.read_history)
        into = history.active.number
        if rules.needs_rolling(history, epoch):
            history = history.roll(epoch)
            copy = history.epochs[-2]
            into = copy.number
            yield from ask(SEGMENT_STORE, "create segments", lambda: stream.open_segments(copy.segments))

        def choose() -> None:
            batch.history, batch.into = history, into

        yield from ask(METADATA_STORE, "record epoch", choose)

    def _merge(self, controller: Controller, ask: _Ask, batch: _Batch, txn: Txn) -> Steps[None]:
        """Merge all parts of a transaction; its position is where the segments end then.

        When an answer is lost the request is made again, and the store says that it is merged already; it does not
        know the offset any more, and an older server never says it. Then the handler asks for the length instead.
        """
        history = batch.history or self.stream.history
        pairs = rules.targets(history, txn.epoch, batch.into)
        unknown = dict.fromkeys(pairs.values())
        merge = partial(ask, SEGMENT_STORE, "merge transaction")
        request = Lengths(unknown, txn.name)
        while (answer := (yield from merge(lambda: self._merge_parts(txn, pairs), request))).lost_ms:
            yield from controller.sleep(answer.lost_ms)
        if None in answer.offsets.values():
            measured = partial(self.stream.lengths, unknown)
            answer = yield from ask(SEGMENT_STORE, "get lengths", measured, Lengths(unknown))
        again = batch.attempts > 1 and history.active.number > batch.into
        txn.position = Position({} if again and self.stream.world.rules.empty_mark_after_roll else answer.offsets)

    def _merge_parts(self, txn: Txn, pairs: Mapping[int, int]) -> Lengths:
        """At the segment store: where each segment ends, unless a part was merged before or the store does not say."""
        parts = [txn.merge(source_id, target_id, self.stream) for source_id, target_id in pairs.items()]
        merged = all(parts)
        lost_ms = self.lost_replies.pop(0) if merged and self.lost_replies else 0
        known = merged and self.stream.part.acks_carry_offset
        ends = self.stream.lengths(pairs.values()).offsets if known else dict.fromkeys(pairs.values())
        return Lengths(ends, txn.name, not merged, lost_ms)

    def _finish_rolling(self, ask: _Ask, rolled: StreamHistory) -> Steps[None]:
        """Seal the copy that was merged into, open a copy of the active epoch, and seal what was active.

        The two new epochs become known together, so that readers and writers see one change.
        """
        stream = self.stream
        before, copy, active = rolled.epochs[-3:]

        def open_and_seal() -> None:
            stream.seal(copy.ids)
            stream.open_segments(active.segments)

        def record() -> None:
            if stream.history is not rolled:
                stream.history = rolled
                stream.write_epoch(copy)
                stream.write_epoch(active)
                detail = f"epoch {copy.reference} again as {copy.number}, then epoch {before.number} as {active.number}"
                incident = Incident("roll", "epoch", f"epoch {copy.reference}", detail)
                stream.world.record_incident(incident, stream.journal)

        yield from ask(SEGMENT_STORE, "turn epochs", open_and_seal)
        yield from ask(METADATA_STORE, "record epochs", record)
        yield from ask(SEGMENT_STORE, "seal segments", lambda: stream.seal(before.ids))

    def _note(self, controller: Controller, batch: _Batch) -> Steps[None]:
        """Note the marks of a batch; refusals are ignored, a conflict fails the batch."""
        options = self.stream.world.rules
        noting = [
            (
                txn,
                CommittedTxn(
                    txn.client.part.id, rules.commit_time(txn.time, options.commit_without_time), txn.position
                ),
            )
            for txn in batch.txns
            if txn.client.part.id is not None and txn.position is not None
        ]
        for index, mark in rules.marks_of([committed for _, committed in noting], options.txn_marks):
            txn, committed = noting[index]
            noted_ms = self.stream.world.now_ms if txn.commit_requested_ms is None else txn.commit_requested_ms
            note = Note(self.stream.name, committed.writer, mark.time, mark.position, noted_ms, txn=txn.name)
            if self._batch is not batch or self.stream.deleted:
                raise _SupersededError
            outcome = yield from controller.judge(note)
            if outcome in (NoteOutcome.WRITE_CONFLICT.value, UNAVAILABLE):
                raise _FailedError(_RETRY_MS)
