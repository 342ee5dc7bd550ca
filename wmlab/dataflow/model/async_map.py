"""The asynchronous step: every row makes a call, and its results leave in the order of the rows or of the answers.

Ordered. A queue holds the calls and, between them, the watermarks. What is finished at its head leaves; the first
unfinished call blocks everything behind it. A watermark that comes right behind one of the same key replaces
it; watermarks of alternating keys all stay. Only calls count against the capacity.

Unordered. A watermark must not overtake the rows that came before it. So for every key it is counted how many rows in
flight came behind which watermark. When a count drops to zero, the newest watermark leaves that no row in flight came
before; the ones in between are skipped. Rows that came before the first watermark of a key count as behind its lowest
time. The sum of the counts of every key is the number of calls in flight.

    a, wm 10, b, wm 20, c, wm 30     in flight: a behind MIN, b behind 10, c behind 20; received 30
    c answers: C                     a is still before 10
    a answers: A, wm 10              b is before 20
    b answers: B, wm 30

Source: "Keyed watermark support", Changes to async-transform processor; upstream classes
`AsyncTransformUsingServiceOrderedP`, `AsyncTransformUsingServiceUnorderedP`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

from wmlab.dataflow.model.items import MIN, Idle, RowValues, Watermark
from wmlab.dataflow.model.processor import Call, JobFailedError, Processor, Reason, Results, State


@dataclass(kw_only=True, eq=False)
class _AsyncMap(Processor[State], Generic[State]):
    """What both kinds share: at most `capacity` calls at a time, and finished results are emitted at every step."""

    capacity: int = 4
    ignores_key: bool = False
    """As before there were keys: every watermark takes the place of any other."""

    def row(self, values: RowValues, edge: int) -> bool:  # noqa: ARG002
        """Its call is made; it is refused at the capacity."""
        accepted = self.call(values)
        self.flush()
        return accepted

    def watermark(self, watermark: Watermark) -> None:
        """It waits for the calls before it."""
        self.put(watermark)
        self.flush()

    def idle(self, message: Idle) -> None:
        """It waits for the calls before it."""
        self.put(message)
        self.flush()

    def answer(self, call: int, results: Results | None) -> None:
        """What has waited for it can leave. Raises `JobFailedError` when the call failed."""
        if results is None:
            raise JobFailedError(
                Reason.CALL_FAILED,
                f"The asynchronous call {call} failed.",
                remedy="Catch failures in the function that is called, and return what stands for them.",
            )
        self.answered(call, results)
        self.flush()

    def complete(self) -> bool:
        """Once no call is in flight."""
        return not self.size

    def call(self, values: RowValues) -> bool:
        """Make the call of a row; False at the capacity."""
        raise NotImplementedError

    def put(self, item: Watermark | Idle) -> None:
        """A watermark or an idle message comes behind the calls before it."""
        raise NotImplementedError

    def answered(self, call: int, results: Results) -> None:
        """Keep the results of a call."""
        raise NotImplementedError

    def flush(self) -> None:
        """What is finished leaves."""
        raise NotImplementedError


@dataclass(slots=True)
class Waiting:
    """A call on the queue; `results` is None until it answers."""

    call: Call
    results: Results | None = None


@dataclass(slots=True)
class OrderedCalls:
    """The queue from its head on, and how many calls were made so far."""

    queue: deque[Waiting | Watermark | Idle] = field(default_factory=deque)
    made: int = 0


@dataclass(kw_only=True, eq=False)
class AsyncOrdered(_AsyncMap[OrderedCalls]):
    """Results leave in the order of the rows."""

    def start(self) -> OrderedCalls:
        """No call was made."""
        return OrderedCalls()

    def call(self, values: RowValues) -> bool:
        """When full, what is finished leaves first; the row is refused if nothing is."""
        if self.size >= self.capacity:
            self.flush()
        if self.size >= self.capacity:
            return False
        call = Call(self.state.made, values)
        self.state.queue.append(Waiting(call))
        self.state.made += 1
        self.calls.append(call)
        return True

    def put(self, item: Watermark | Idle) -> None:
        """At the end of the queue, in place of a watermark or idle message that it makes superfluous."""
        queue = self.state.queue
        match queue[-1] if queue else None, item:
            case Watermark(key), Watermark(again) if key == again or self.ignores_key:
                queue.pop()
            case Idle() as last, Idle() if last == item:
                queue.pop()
        queue.append(item)

    def answered(self, call: int, results: Results) -> None:
        """The call on the queue has its results."""
        for entry in self.state.queue:
            if isinstance(entry, Waiting) and entry.call.number == call:
                entry.results = results

    def flush(self) -> None:
        """What lies before the first unfinished call leaves."""
        queue = self.state.queue
        while queue and not (isinstance(queue[0], Waiting) and queue[0].results is None):
            entry = queue.popleft()
            self.out += (entry.results or ()) if isinstance(entry, Waiting) else (entry,)

    @property
    def size(self) -> int:
        """The calls on the queue, answered or not."""
        return sum(isinstance(entry, Waiting) for entry in self.state.queue)

    @property
    def outstanding(self) -> list[Call]:
        """The calls that wait for an answer."""
        return [e.call for e in self.state.queue if isinstance(e, Waiting) and e.results is None]

    @property
    def may_snapshot(self) -> bool:
        """Once nothing is in flight."""
        return not self.state.queue


@dataclass(slots=True)
class Flight:
    """A row in flight and the last watermark of every key when it came."""

    values: RowValues
    seen: dict[int, int]


@dataclass(slots=True)
class KeyProgress:
    """One key: its last watermark, the last one that left, and rows in flight by the watermark they came behind.

    `counts` is in ascending order of the watermarks; times have the unit of the key's field.
    """

    received: int = MIN
    emitted: int = MIN
    counts: dict[int, int] = field(default_factory=dict)

    def entered(self) -> None:
        """One more row is in flight."""
        self.counts[self.received] = self.counts.get(self.received, 0) + 1

    def left(self, seen: int) -> int | None:
        """One row less is in flight that came behind `seen`; returns the watermark that can leave now."""
        self.counts[seen] -= 1
        if self.counts[seen]:
            return None
        del self.counts[seen]
        candidate = min(self.counts, default=self.received)
        if candidate <= self.emitted:
            return None
        self.emitted = candidate
        return candidate


@dataclass(slots=True)
class UnorderedCalls:
    """What is in flight by call number, answers that have not left, and the keys seen so far.

    `idle`: all inputs are idle; the messages leave once nothing is in flight.
    """

    in_flight: dict[int, Flight] = field(default_factory=dict)
    answers: list[tuple[int, Results]] = field(default_factory=list)
    keys: dict[int, KeyProgress] = field(default_factory=dict)
    made: int = 0
    idle: list[Idle] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class AsyncUnordered(_AsyncMap[UnorderedCalls]):
    """Results leave in the order of the answers."""

    def start(self) -> UnorderedCalls:
        """No call was made."""
        return UnorderedCalls()

    def call(self, values: RowValues) -> bool:
        """When full, what was answered leaves and the row is refused."""
        state = self.state
        if len(state.in_flight) >= self.capacity:
            self.flush()
            return False
        call = Call(state.made, values)
        state.in_flight[call.number] = Flight(values, {key: each.received for key, each in state.keys.items()})
        for progress in state.keys.values():
            progress.entered()
        state.made += 1
        state.idle.clear()
        self.calls.append(call)
        return True

    def put(self, item: Watermark | Idle) -> None:
        """Note a watermark, which leaves at once if nothing is in flight; one that goes back is ignored.

        A lower one comes after a restart that guarantees at least once.
        """
        state = self.state
        if isinstance(item, Idle):
            if item not in state.idle:
                state.idle.append(item)
            return
        if self.ignores_key:
            item = Watermark(0, item.value)
        key, value = item.key, item.value
        if key not in state.keys:
            flying = len(state.in_flight)
            state.keys[key] = KeyProgress(counts={MIN: flying} if flying else {})
            state.keys = dict(sorted(state.keys.items()))
        progress = state.keys[key]
        state.idle = [message for message in state.idle if message.key not in {None, key}]
        if value <= progress.received:
            return
        progress.received = value
        if not state.in_flight:
            progress.emitted = value
            self.out.append(item)

    def answered(self, call: int, results: Results) -> None:
        """The results are kept in the order of the answers."""
        self.state.answers.append((call, results))

    def flush(self) -> None:
        """Results leave in the order of the answers, each followed by the watermarks that it held back."""
        state = self.state
        for call, results in state.answers:
            self.out += results
            seen = state.in_flight.pop(call).seen
            for key, progress in state.keys.items():
                released = progress.left(seen.get(key, MIN))
                if released is not None:
                    self.out.append(Watermark(key, released))
        state.answers.clear()
        if not state.in_flight:
            self.out += state.idle
            state.idle.clear()

    @property
    def size(self) -> int:
        """The calls in flight."""
        return len(self.state.in_flight)

    @property
    def outstanding(self) -> list[Call]:
        """The calls that wait for an answer; after a restart they have to be made again."""
        answered = {number for number, _ in self.state.answers}
        return [Call(n, flight.values) for n, flight in self.state.in_flight.items() if n not in answered]

    def restored(self, snapshots: Sequence[UnorderedCalls]) -> UnorderedCalls:
        """The rows of its own that were in flight are so again, and of every key the lowest watermark was received.

        Their calls are numbered from 0 and have to be made again: see `outstanding`. Each row counts as one that came
        before any watermark, since it may have come before the lowest one.
        """
        flights = [Flight(flight.values, {}) for flight in snapshots[0].in_flight.values()]
        known = sorted({key for snapshot in snapshots for key in snapshot.keys})
        received = {key: min(s.keys[key].received for s in snapshots if key in s.keys) for key in known}
        return UnorderedCalls(
            in_flight=dict(enumerate(flights)),
            keys={k: KeyProgress(v, counts={MIN: len(flights)} if flights else {}) for k, v in received.items()},
            made=len(flights),
        )
