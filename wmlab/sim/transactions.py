"""The controller's side of transactions: what was begun, requested and aborted, and what becomes of it.

Source: PDP-33, "Controller Changes"; upstream classes `StreamTransactionMetadataTasks` and `TxnSweeper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmlab.errors import ModelError
from wmlab.model.position import Position
from wmlab.model.txn import TxnEvent, TxnState, step
from wmlab.sim.commits import CommitHandler
from wmlab.sim.txn_store import StoredTxn

if TYPE_CHECKING:
    from wmlab.sim.txn_writer import TxnWriter
    from wmlab.sim.world import World


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


class Transactions:
    """All transactions of a stream, and those that wait for their commit in the order of the requests."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: list[Txn] = []
        self.waiting: list[Txn] = []
        self.handler = CommitHandler(world, self)

    def begin(self, client: TxnWriter, life: int, name: str) -> None:
        """Begin a transaction in the active epoch and tell its writer."""
        world = self.world
        stored = StoredTxn(client.index, client.part.event_bytes)
        txn = Txn(name, client, world.history.active.number, world.now_ms, stored)
        self.records.append(txn)
        world.later(client.on_begun, life, txn)

    def commit(self, txn: Txn, time: int | None, life: int) -> None:
        """Accept a commit request and say so; the commit itself happens later."""
        self.world.later(txn.client.on_requested, life, txn)
        if not self._step(txn, TxnEvent.COMMIT, "commit") or txn.requested_ms is not None:
            return
        txn.requested_ms = self.world.now_ms
        txn.time = time
        self.waiting.append(txn)
        self.world.after(txn.client.part.commit_latency_ms, self.handler.wake)

    def abort(self, txn: Txn) -> None:
        """Accept an abort; the events are deleted one message later."""
        if self._step(txn, TxnEvent.ABORT, "abort"):
            self.world.later(self._delete, txn)

    def expire(self, txn: Txn) -> None:
        """The lease of a transaction has run out because its writer is gone."""
        if txn.state is TxnState.OPEN:
            self.abort(txn)

    def committed(self, txn: Txn) -> None:
        """Record a transaction as committed."""
        txn.state = step(txn.state, TxnEvent.MERGED)
        txn.committed_ms = self.world.now_ms
        self.world.later(txn.client.on_done, txn)

    def _delete(self, txn: Txn) -> None:
        txn.state = step(txn.state, TxnEvent.DELETED)
        txn.aborted_ms = self.world.now_ms
        txn.stored.delete()
        self.world.later(txn.client.on_done, txn)

    def _step(self, txn: Txn, event: TxnEvent, call: str) -> bool:
        try:
            txn.state = step(txn.state, event)
        except ModelError as error:
            self.world.refuse(txn.client.name, call, f"{txn.name}: {error.problem}")
            return False
        return True

    def write(self) -> None:
        """Write all transactions down as they are now."""
        for txn in self.records:
            self.world.journal.write(
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
