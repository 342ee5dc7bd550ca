"""A transaction as its writer knows it. Source: PDP-33, "Event Writer API Changes"; upstream `TransactionImpl`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from wmlab.streams.model.txn import TxnState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.streams.sim.routes import Routes
    from wmlab.streams.sim.transactions import Txn

NO_EVENTS: Final = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class TxnHandle:
    """What was written in a transaction, how many writes are not acknowledged, and the time given at its commit."""

    txn: Txn
    routes: Routes
    state: TxnState = TxnState.OPEN
    unanswered: int = 0
    time: int | None = None
    written: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def events(self) -> NDArray[np.int64]:
        """All events written so far, by their index in the writer's load."""
        return np.concatenate([NO_EVENTS, *self.written])
