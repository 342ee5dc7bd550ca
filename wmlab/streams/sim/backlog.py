"""What a writer has been given and what has become of it: waiting, sent, or settled.

An event waits until the tick of its batch; it is settled once it is acknowledged (or, in a transaction, once its
commit was requested), and nothing is promised about it any more. Whole arrays move, never single events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wmlab.streams.sim.clock import LocalClock
from wmlab.streams.sim.load import Load
from wmlab.streams.sim.noting import WriterView

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SCAN = 4_096


@dataclass(frozen=True, slots=True)
class _View:
    """What is known of a backlog at a moment; see `WriterView`."""

    backlog: Backlog
    now_ms: int

    @property
    def clock_ms(self) -> int:
        return self.backlog.clock.read(self.now_ms)

    @property
    def earliest_open(self) -> int | None:
        return self.backlog.earliest_open(self.now_ms)

    @property
    def last_event_time(self) -> int | None:
        return self.backlog.last_event_time

    @property
    def max_event_time(self) -> int | None:
        return self.backlog.max_event_time


class Backlog:
    """The load of one process, its events named by their index; times are ms of the simulated clock.

    `event_time` is what the writer's clock showed when an event happened.
    """

    def __init__(self, load: Load, clock: LocalClock, *, start_ms: int, batch_ms: int) -> None:
        self.event_time = clock.read_all(load.happens_ms)
        self.key = load.key
        self._load = load
        ticks = start_ms + -(-(load.arrives_ms - start_ms) // batch_ms) * batch_ms
        self._queue = np.argsort(ticks, kind="stable")
        self._queue_ticks = ticks[self._queue]
        self._sent = 0
        self._answered = 0
        self._settled_bytes = bytearray(len(load))
        self._settled: NDArray[np.bool_] = np.frombuffer(self._settled_bytes, bool)
        self._first_open = 0
        self._has_gaps = False
        self.clock = clock
        self._acknowledged: list[NDArray[np.int64]] = []

    @property
    def next_tick(self) -> int | None:
        """When the next batch is due; None when there is none left."""
        return int(self._queue_ticks[self._sent]) if self._sent < len(self._queue) else None

    def take(self, until_ms: int) -> NDArray[np.int64]:
        """The events whose batch is due by then, to be sent now."""
        end = max(self._sent, int(self._queue_ticks.searchsorted(until_ms, side="right")))
        batch = self._queue[self._sent : end]
        self._sent = end
        return self._sendable(batch)

    def _sendable(self, batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """The events of a batch that were not given up before their turn."""
        return batch[~self._settled[batch]] if self._has_gaps else batch

    def take_arrived(self, now_ms: int) -> NDArray[np.int64]:
        """The events that the writer was given by now, without waiting for the tick of their batch."""
        due = int(np.searchsorted(self._queue_ticks, now_ms, side="right"))
        end = due
        if due < len(self._queue):
            end = int(np.searchsorted(self._queue_ticks, self._queue_ticks[due], side="right"))
        window = self._queue[self._sent : end]
        here = self._load.arrives_ms[window] <= now_ms
        batch = window[here]
        self._queue[self._sent : end] = np.concatenate([batch, window[~here]])
        self._sent += len(batch)
        return self._sendable(batch)

    def settle(self, events: NDArray[np.int64]) -> None:
        """Nothing can happen to these events any more."""
        self._settled[events] = True

    def acknowledge(self, events: NDArray[np.int64]) -> None:
        """These events are in the stream, or will be when their transaction is committed."""
        if len(events):
            self.settle(events)
            self._acknowledged.append(events)
            if len(self._acknowledged) == _SCAN:
                self._condense()

    def _condense(self) -> None:
        """Keep of the acknowledged events the one with the highest time and the last one, which are asked for."""
        known = np.concatenate(self._acknowledged)
        highest = int(self.event_time[known].argmax())
        self._acknowledged = [known[[highest]], known[[-1]]]

    def view(self, now_ms: int) -> WriterView:
        """What the writer knows now when it chooses a time to note."""
        return _View(self, now_ms)

    @property
    def last_event_time(self) -> int | None:
        """Time of the event that was acknowledged last, None while there is none."""
        return int(self.event_time[self._acknowledged[-1][-1]]) if self._acknowledged else None

    @property
    def max_event_time(self) -> int | None:
        """The highest time of an acknowledged event, None while there is none."""
        if not self._acknowledged:
            return None
        self._condense()
        return int(self.event_time[self._acknowledged[0][0]])

    def reopen(self, events: NDArray[np.int64]) -> None:
        """These events were settled too early: somebody will send them once more."""
        if len(events):
            self._settled[events] = False
            self._first_open = min(self._first_open, int(events.min()))

    def unanswered(self) -> NDArray[np.int64]:
        """The events that were sent and are not settled."""
        while self._answered < self._sent:
            window = self._settled[self._queue[self._answered : min(self._sent, self._answered + _SCAN)]]
            place = int(window.argmin())
            if not window[place]:
                self._answered += place
                break
            self._answered += len(window)
        sent = self._queue[self._answered : self._sent]
        return sent[~self._settled[sent]]

    def all_settled(self, events: NDArray[np.int64]) -> bool:
        """Whether all of these are settled."""
        return bool(self._settled[events].all())

    def earliest_open(self, now_ms: int) -> int | None:
        """Time of the earliest event that has happened and is not settled."""
        first = self._settled_bytes.find(0, self._first_open)
        if first < 0:
            return None
        self._first_open = first
        return int(self.event_time[first]) if self._load.happens_ms[first] <= now_ms else None

    def start_over(self, now_ms: int, *, keep: bool) -> None:
        """The process died: what it sent is out of its hands; what it had not sent it loses, or keeps."""
        self._settled[self._queue[: self._sent]] = True
        self._acknowledged.clear()
        if not keep:
            self.abandon(now_ms)

    def abandon(self, now_ms: int) -> None:
        """What has happened and was not sent will never be."""
        self._has_gaps = True
        waiting = self._queue[self._sent :]
        self._settled[waiting[self._load.happens_ms[waiting] < now_ms]] = True

    def from_now_on(self, now_ms: int, *, moves: bool) -> Load:
        """The load that happens from now on, for another process; with `moves` this one does without it."""
        later = np.flatnonzero(self._load.happens_ms > now_ms)
        if moves:
            self._has_gaps = True
            self._settled[later] = True
        return Load(self._load.happens_ms[later], self._load.arrives_ms[later], self._load.key[later])
