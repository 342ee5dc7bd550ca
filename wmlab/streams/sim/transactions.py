"""The transactions of a stream as the metadata store keeps them, and what a controller does when a writer asks.

Begin, commit and abort may be asked again on another controller when the first one goes down, so each is done once at
most. A commit is only recorded here; carrying it out is the matter of `wmlab.streams.sim.commits`.

Source: PDP-33, "Controller Changes"; upstream classes `StreamTransactionMetadataTasks` and `TxnSweeper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import Position
from wmlab.streams.model.txn import TxnEvent, TxnState, step
from wmlab.streams.scenario.units import METADATA_STORE, SEGMENT_STORE
from wmlab.streams.sim.commits import CommitHandler
from wmlab.streams.sim.txn_store import StoredTxn

if TYPE_CHECKING:
    from wmlab.streams.sim.controller import Controller, Job
    from wmlab.streams.sim.stream import StreamWorld
    from wmlab.streams.sim.txn_writer import TxnWriter


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
