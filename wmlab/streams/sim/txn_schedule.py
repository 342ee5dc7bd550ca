"""When a transactional writer begins and commits: at its period, and one transaction at a time unless they overlap."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

from wmlab.streams.model.txn import TxnState

if TYPE_CHECKING:
    from wmlab.streams.sim.txn_writer import TxnWriter


class Schedule:
    """The plan of one life of a writer; `planned_ms` says when each transaction is to be committed."""

    def __init__(self, writer: TxnWriter) -> None:
        self._writer = writer
        self._life: int = writer.life
        self.planned_ms: dict[str, int] = {}

    @property
    def _runs(self) -> bool:
        return self._life == self._writer.life and not self._writer.closed

    def working(self) -> Generator[simpy.Event]:
        """Begin a transaction every period; one that is late delays the next."""
        env, part = self._writer.world.env, self._writer.part
        open_ms = part.every_ms if part.open_ms is None else part.open_ms
        planned_ms = int(env.now)
        while self._runs:
            name = self._writer.begin()
            self.planned_ms[name] = planned_ms + open_ms
            if open_ms <= part.every_ms:
                yield from self._committing(name)
            else:
                env.process(self._committing(name))
            planned_ms += part.every_ms
            while planned_ms + open_ms <= env.now:
                planned_ms += part.every_ms
            yield env.timeout(max(0, planned_ms - int(env.now)))

    def _committing(self, name: str) -> Generator[simpy.Event]:
        """Commit a transaction when its time has come, and wait until the controller has heard of it."""
        writer, env = self._writer, self._writer.world.env
        while env.now < self.planned_ms[name] or name not in writer.handles:
            yield env.timeout(max(1, self.planned_ms[name] - int(env.now)))
            if not self._runs:
                return
        handle = writer.handles[name]
        if handle.state is TxnState.OPEN:
            writer.commit_open(handle)
        yield writer.requested[name]

    def hold(self, name: str, hold_ms: int) -> None:
        """Commit a transaction that much later than planned."""
        if name in self.planned_ms:
            self.planned_ms[name] += hold_ms
