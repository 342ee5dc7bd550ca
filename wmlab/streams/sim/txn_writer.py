"""A transactional writer: begin, write, commit with or without a time, abort, crash and close.

Source: PDP-33, "Event Writer API Changes"; upstream classes `TransactionalEventStreamWriterImpl` and
`TransactionImpl`. A commit first waits until everything written in the transaction is acknowledged, as the client's
flush does. Nothing is promised any more about the events of a transaction once its commit is called, since commits
happen in the order of their requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from wmlab.core.errors import ModelError
from wmlab.streams.model.marks import EXPLICIT_NOTE
from wmlab.streams.model.txn import TxnState, refuse_unless_open
from wmlab.streams.model.wire import EVENT_HEADER_BYTES, AppendRequest, CommitRequest, DataAppended
from wmlab.streams.scenario.parts import TransactionalWriter
from wmlab.streams.scenario.script import CommitTime
from wmlab.streams.sim.controller import Controllers
from wmlab.streams.sim.load import Load, Routes, time_to_note
from wmlab.streams.sim.stores import StreamWorld
from wmlab.streams.sim.transactions import Transactions, Txn
from wmlab.streams.sim.world import Reply, Signal, Steps
from wmlab.streams.sim.writer import NO_EVENTS, WriterProcess


@dataclass(slots=True, eq=False)
class TxnHandle:
    """What was written in a transaction, how many writes are not acknowledged, and the time given at its commit."""

    txn: Txn
    routes: Routes
    state: TxnState = TxnState.OPEN
    unanswered: int = 0
    time: int | None = None
    written: list[NDArray[np.int64]] = field(default_factory=list)
    numbers: Counter[int] = field(default_factory=Counter)

    @property
    def events(self) -> NDArray[np.int64]:
        """All events written so far, by their index in the writer's load."""
        return np.concatenate([NO_EVENTS, *self.written])


class TxnWriter(WriterProcess):
    """One transactional writer process; `transactions` are those of every stream by its title."""

    part: TransactionalWriter

    def __init__(
        self,
        stream: StreamWorld,
        controllers: Controllers,
        transactions: Mapping[str, Transactions],
        part: TransactionalWriter,
        index: int,
        load: Load,
    ) -> None:
        super().__init__(stream, controllers, part, index, (load,))
        self._all_transactions = transactions
        self._begun = 0
        self._pending: list[NDArray[np.int64]] = []

    def _reset(self) -> None:
        super()._reset()
        self.handles: dict[str, TxnHandle] = {}
        self._open: list[TxnHandle] = []
        self._to_request: list[TxnHandle] = []
        self._is_requesting = False
        self._planned_ms: dict[str, int] = {}
        self._requested: dict[str, simpy.Event] = {}
        self._unfinished: dict[str, None] = {}
        self._all_finished = Signal(self.world.env)

    @property
    def _transactions(self) -> Transactions:
        return self._all_transactions[self.stream.title]

    def _work(self) -> None:
        """Begin and commit transactions."""
        self.do(self._working())

    def _working(self) -> Steps[None]:
        """Begin a transaction every period; one that is late delays the next."""
        env, part = self.world.env, self.part
        open_ms = part.every_ms if part.open_ms is None else part.open_ms
        planned_ms = int(env.now)
        while not self.closed:
            name = self.begin()
            self._planned_ms[name] = planned_ms + open_ms
            if open_ms <= part.every_ms:
                yield from self._committing(name)
            else:
                self.do(self._committing(name))
            planned_ms += part.every_ms
            while planned_ms + open_ms <= env.now:
                planned_ms += part.every_ms
            yield env.timeout(max(0, planned_ms - int(env.now)))

    def _committing(self, name: str) -> Steps[None]:
        """Commit a transaction when its time has come, and wait until the controller has the request."""
        env = self.world.env
        while env.now < self._planned_ms[name] or name not in self.handles:
            yield env.timeout(max(1, self._planned_ms[name] - int(env.now)))
            if self.closed:
                return
        if self.handles[name].state is TxnState.OPEN:
            self.commit_open(self.handles[name])
        yield self._requested[name]

    def crash(self) -> None:
        """End at once; nobody keeps the open transactions alive any more."""
        super().crash()
        for name in self._unfinished:
            if name in self.handles:
                self._let_expire(self.handles[name].txn)

    def _let_expire(self, txn: Txn) -> None:
        self.world.after(self.part.lease_ms, self._transactions.expire, txn)

    def restart(self, backlog: str) -> None:
        """Begin again; what was not committed is lost, or kept to be written once more."""
        keep = backlog == "kept"
        never_seen = [*self._pending, *(handle.events for handle in (*self._open, *self._to_request))]
        self._pending = []
        self.backlog.start_over(self.world.now_ms, keep=keep)
        for events in never_seen if keep else ():
            self.backlog.reopen(events)
            self._pending.append(events)
        self.start()

    def close(self) -> Steps[None]:
        """Commit what is open, and wait until all commits are done."""
        self.closed = True
        self._send(self.backlog.pop_ready(self.world.now_ms))
        beginning = any(name not in self.handles for name in self._unfinished)
        if any(map(len, self._pending)) and not beginning:
            self.begin()
        for handle in list(self._open):
            self.commit_open(handle)
        if self._unfinished:
            yield self._all_finished
            yield from self.ready()

    def _send(self, events: NDArray[np.int64], into: TxnHandle | None = None) -> None:
        """Write a batch in a given or the newest open transaction, or keep it until there is one."""
        self._pending.append(events)
        if not self._open:
            return
        handle, events = into or self._open[-1], np.concatenate(self._pending)
        self._pending = []
        handle.written.append(events)
        for segment_id, part in handle.routes.split(self.backlog.keys_of(events), events) if len(events) else ():
            handle.unanswered += 1
            handle.numbers[segment_id] += len(part)
            append = AppendRequest(
                segment_id, len(part), self.part.event_bytes, handle.numbers[segment_id], txn=handle.txn.name
            )
            self._append(handle, append, self.backlog.times_of(part))

    def _append(self, handle: TxnHandle, append: AppendRequest, times: NDArray[np.int64]) -> None:
        """Write a batch in a transaction; at the segment store it is kept next to the segment until that is merged."""

        def store() -> Reply | None:
            if self.stream.deleted:
                return None
            handle.txn.write(append.segment, times)
            # Each part of a transaction is a segment of its own until it is merged, and its events have one size.
            length = append.last * (EVENT_HEADER_BYTES + append.event_bytes)
            carried = length if self.stream.part.acks_carry_offset else None
            return Reply("acknowledge", DataAppended(append, carried), carried)

        def on_answer(_: object) -> None:
            handle.unanswered -= 1
            self._request_next()

        self.ask_store("append", append, store, on_answer)

    def begin(self) -> str:
        """Ask for a new transaction; returns its name."""
        self._begun += 1
        name = f"{self.part.name}-{self._begun}"
        self._unfinished[name] = None
        self._requested[name] = self.world.env.event()
        self.do(self._beginning(name))
        return name

    def _beginning(self, name: str) -> Steps[None]:
        """Ask for a transaction, and write in it what waits; False: the stream takes none any more."""
        transactions = self._transactions
        txn: Txn | Literal[False] = yield from self.ask_controller(
            "begin transaction",
            name,
            lambda controller: transactions.begin(controller, self, name),
            unheard=lambda txn: self._let_expire(txn) if txn else None,
        )
        if not txn:
            self.crash()
            return
        handle = TxnHandle(txn, Routes.of(self.stream.history.epoch(txn.epoch).segments))
        self.handles[txn.name] = handle
        self._open.append(handle)
        if self._pending:
            self._send(NO_EVENTS)
        if self.closed:
            self.commit_open(handle)

    def on_done(self, txn: Txn) -> None:
        """The controller says that a transaction is committed or aborted."""
        self._unfinished.pop(txn.name, None)
        if txn.name in self.handles:
            self.handles[txn.name].state = txn.state
        if self.closed and not self._unfinished:
            self._all_finished.send()

    def hold(self, hold_ms: int) -> None:
        """Hold the oldest open transaction for longer than planned."""
        if self._open and self._open[0].txn.name in self._planned_ms:
            self._planned_ms[self._open[0].txn.name] += hold_ms

    def commit(self, name: str | None, time: CommitTime) -> None:
        """Commit the named or the oldest open transaction, if that is open; with a given time, if it may have one."""
        if isinstance(time, int) and self.notes_automatically:
            self.refuse("commit", EXPLICIT_NOTE)
        elif (handle := self._named(name, "commit")) is not None:
            self.commit_open(handle, time)

    def write(self, name: str | None) -> None:
        """Write what was given so far in the named or the oldest open transaction, if that is open."""
        if (handle := self._named(name, "write in")) is not None:
            self._send(self.backlog.pop_ready(self.world.now_ms), handle)

    def abort(self, name: str | None, backlog: str) -> None:
        """Abort the named or the oldest open transaction, if that is open."""
        handle = self._named(name, "abort")
        if handle is None:
            return
        handle.state = TxnState.ABORTING
        self._open.remove(handle)
        self._requested[handle.txn.name].succeed()
        events = handle.events
        self.backlog.finish(events)
        self.do(self._aborting(handle.txn))
        if backlog == "kept":
            self.backlog.reopen(events)
            self._send(events)

    def _aborting(self, txn: Txn) -> Steps[None]:
        transactions = self._transactions
        yield from self.ask_controller("abort transaction", txn, lambda controller: transactions.abort(controller, txn))
        self.on_done(txn)

    def _named(self, name: str | None, call: str) -> TxnHandle | None:
        handle = self.handles.get(name) if name is not None else next(iter(self._open), None)
        if handle is None:
            self.refuse(call, "No transaction is open." if name is None else f"There is no transaction {name}.")
            return None
        try:
            refuse_unless_open(handle.state, call)
        except ModelError as error:
            self.refuse(call, f"{handle.txn.name}: {error.problem}")
            return None
        return handle

    def commit_open(self, handle: TxnHandle, time: CommitTime = "policy") -> None:
        """Settle the events, choose the time, and queue the request behind those of earlier commits."""
        handle.state = TxnState.COMMITTING
        self._open.remove(handle)
        self._to_request.append(handle)
        self.backlog.acknowledge(handle.events)
        now_ms = self.world.now_ms
        if self.notes_automatically:
            time = self.clock.read(now_ms)
        elif time == "policy":
            silent = now_ms < self.silent_until
            time = None if silent else time_to_note(self.part.noting, self.backlog, now_ms)
        handle.time = time
        if handle.time is not None and self.part.id is None:
            self.refuse("commit")
            handle.time = None
        self._request_next()

    def _request_next(self) -> None:
        """Ask for the earliest commit that was called, once its writes are acknowledged; one request at a time."""
        if self._to_request and not self._is_requesting and self._to_request[0].unanswered == 0:
            self._is_requesting = True
            self.do(self._requesting(self._to_request[0].txn, self._to_request[0].time))

    def _requesting(self, txn: Txn, time: int | None) -> Steps[None]:
        """Have a controller record that a transaction is to be committed: then `commit` returns."""
        transactions = self._transactions
        request = CommitRequest(self.stream.name, self.part.id, time, txn.name)
        yield from self.ask_controller(
            "commit transaction", txn, lambda controller: transactions.commit(controller, txn, time), request
        )
        self._to_request.pop(0).written.clear()
        self._is_requesting = False
        self._requested[txn.name].succeed()
        self._request_next()
