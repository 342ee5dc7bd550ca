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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import ClassVar

from wmlab.dataflow.model.items import MIN, Event, FrozenMap, Idle, Item, RowValues, Watermark
from wmlab.dataflow.model.processor import (
    DESIGN,
    Call,
    Deviations,
    JobFailedError,
    Processor,
    ProcessorState,
    Reason,
    Reply,
    Stimulus,
)

Results = tuple[RowValues, ...]


@dataclass(frozen=True, slots=True)
class _AsyncMap(Processor[ProcessorState]):
    """What both kinds share: at most `capacity` calls at a time, and what is finished leaves at every step."""

    capacity: int = 4
    deviations: Deviations = DESIGN
    ignores_key: bool = False
    """As before there were keys: every watermark takes the place of any other."""

    def step(self, state: ProcessorState, stimulus: Stimulus) -> Reply[ProcessorState]:
        """What the stimulus does, and what is finished then."""
        reply = Processor.step(self, state, stimulus)
        flushed = self.flush(reply.state)
        return replace(reply, state=flushed.state, out=reply.out + flushed.out)

    def watermark(self, state: ProcessorState, watermark: Watermark) -> Reply[ProcessorState]:
        """It waits for the calls before it."""
        return self.put(state, watermark)

    def idle(self, state: ProcessorState, message: Idle) -> Reply[ProcessorState]:
        """The idle message waits for the calls before it."""
        return self.put(state, message)

    def answer(self, state: ProcessorState, call: int, results: Results | None) -> Reply[ProcessorState]:
        """What has waited for it can leave. Raises `JobFailedError` when the call failed."""
        if results is None:
            raise JobFailedError(
                Reason.CALL_FAILED,
                f"The asynchronous call {call} failed.",
                remedy="Catch failures in the function that is called, and return what stands for them.",
            )
        return Reply(self.answered(state, call, results))

    def complete(self, state: ProcessorState) -> Reply[ProcessorState]:
        """Once no call is in flight."""
        return Reply(state, accepted=not self.size(state))

    def put(self, state: ProcessorState, item: Watermark | Idle) -> Reply[ProcessorState]:
        """A watermark or an idle message waits for the calls before it."""
        raise NotImplementedError

    def answered(self, state: ProcessorState, call: int, results: Results) -> ProcessorState:
        """With the results of a call."""
        raise NotImplementedError

    def flush(self, state: ProcessorState) -> Reply[ProcessorState]:
        """Lets out what is finished."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call on the queue; `results` is None until it answers."""

    call: Call
    results: Results | None = None


@dataclass(frozen=True, slots=True)
class OrderedCalls:
    """The queue from its head on, and how many calls were made so far."""

    queue: tuple[Waiting | Watermark | Idle, ...] = ()
    made: int = 0


@dataclass(frozen=True, slots=True)
class AsyncOrdered(_AsyncMap[OrderedCalls]):
    """Results leave in the order of the rows."""

    empty: ClassVar[OrderedCalls] = OrderedCalls()

    def row(self, state: OrderedCalls, edge: int, event: Event) -> Reply[OrderedCalls]:  # noqa: ARG002
        """Its call is made. When full, what is finished leaves first; the row is refused if nothing is."""
        reply = self.flush(state) if self.size(state) >= self.capacity else Reply(state)
        if self.size(reply.state) >= self.capacity:
            return replace(reply, accepted=False)
        call = Call(state.made, event)
        after = OrderedCalls((*reply.state.queue, Waiting(call)), state.made + 1)
        return Reply(after, reply.out, calls=(call,))

    def put(self, state: OrderedCalls, item: Watermark | Idle) -> Reply[OrderedCalls]:
        """The queue with a watermark or idle message at its end, in place of one that it makes superfluous."""
        queue = state.queue
        match queue[-1:], item:
            case ((Watermark(key),), Watermark(again)) if key == again or self.ignores_key:
                queue = queue[:-1]
            case ((Idle() as last,), Idle()) if last == item:
                queue = queue[:-1]
        return Reply(replace(state, queue=(*queue, item)))

    def answered(self, state: OrderedCalls, call: int, results: Results) -> OrderedCalls:
        """The queue with the results of a call."""
        queue = tuple(
            replace(entry, results=results) if isinstance(entry, Waiting) and entry.call.number == call else entry
            for entry in state.queue
        )
        return replace(state, queue=queue)

    def flush(self, state: OrderedCalls) -> Reply[OrderedCalls]:
        """What lies before the first unfinished call leaves."""
        out: list[Item] = []
        unsent = dropwhile(lambda entry: not isinstance(entry, Waiting) or entry.results is not None, state.queue)
        after = replace(state, queue=tuple(unsent))
        for entry in state.queue[: len(state.queue) - len(after.queue)]:
            out += map(Event, entry.results or ()) if isinstance(entry, Waiting) else (entry,)
        return Reply(after, tuple(out))

    def size(self, state: OrderedCalls) -> int:
        """The calls on the queue, answered or not."""
        return sum(isinstance(entry, Waiting) for entry in state.queue)

    def outstanding(self, state: OrderedCalls) -> tuple[Call, ...]:
        """The calls that wait for an answer."""
        return tuple(entry.call for entry in state.queue if isinstance(entry, Waiting) and entry.results is None)

    def may_snapshot(self, state: OrderedCalls) -> bool:
        """Once nothing is in flight."""
        return not state.queue


@dataclass(frozen=True, slots=True)
class Flight:
    """A row in flight and the last watermark of every key when it came."""

    event: Event
    seen: FrozenMap[int, int]


@dataclass(frozen=True, slots=True)
class KeyProgress:
    """One key: its last watermark, the last one that left, and rows in flight by the watermark they came behind.

    `counts` is in ascending order of the watermarks; times have the unit of the key's field.
    """

    received: int = MIN
    emitted: int = MIN
    counts: FrozenMap[int, int] = field(default_factory=FrozenMap)

    def entered(self) -> KeyProgress:
        """With one more row in flight."""
        return replace(self, counts=self.counts.put(self.received, self.counts.get(self.received, 0) + 1))

    def left(self, seen: int) -> tuple[KeyProgress, int | None]:
        """With one row less that came behind `seen`, and the watermark that can leave now."""
        rest = self.counts[seen] - 1
        counts = self.counts.put(seen, rest) if rest else self.counts.without(seen)
        candidate = min(counts, default=self.received)
        if rest or candidate <= self.emitted:
            return replace(self, counts=counts), None
        return replace(self, counts=counts, emitted=candidate), candidate


@dataclass(frozen=True, slots=True)
class UnorderedCalls:
    """What is in flight by call number, answers that have not left, and the keys seen so far.

    `idle`: all inputs are idle; the messages leave once nothing is in flight.
    """

    in_flight: FrozenMap[int, Flight] = field(default_factory=FrozenMap)
    answers: tuple[tuple[int, Results], ...] = ()
    keys: FrozenMap[int, KeyProgress] = field(default_factory=FrozenMap)
    made: int = 0
    idle: tuple[Idle, ...] = ()


@dataclass(frozen=True, slots=True)
class AsyncUnordered(_AsyncMap[UnorderedCalls]):
    """Results leave in the order of the answers.

    With the option `keys_in_order_of_number` keys that do not first appear as 0, 1, 2, ... fail the job.
    """

    empty: ClassVar[UnorderedCalls] = UnorderedCalls()

    def row(self, state: UnorderedCalls, edge: int, event: Event) -> Reply[UnorderedCalls]:  # noqa: ARG002
        """Its call is made. When full, what was answered leaves and the row is refused."""
        if len(state.in_flight) >= self.capacity:
            return replace(self.flush(state), accepted=False)
        call = Call(state.made, event)
        flight = Flight(event, FrozenMap((key, progress.received) for key, progress in state.keys.items()))
        taken = replace(
            state,
            in_flight=state.in_flight.put(call.number, flight),
            keys=FrozenMap((key, progress.entered()) for key, progress in state.keys.items()),
            made=state.made + 1,
            idle=(),
        )
        return Reply(taken, calls=(call,))

    def put(self, state: UnorderedCalls, item: Watermark | Idle) -> Reply[UnorderedCalls]:
        """Notes a watermark, which leaves at once if nothing is in flight; one that goes back is ignored.

        A lower one comes after a restart that guarantees at least once.
        """
        if isinstance(item, Idle):
            return Reply(state if item in state.idle else replace(state, idle=(*state.idle, item)))
        if self.ignores_key:
            item = Watermark(0, item.value)
        key, value = item.key, item.value
        progress = state.keys.get(key) or self._first(state, key)
        state = replace(
            state,
            idle=tuple(i for i in state.idle if i.key not in {None, key}),
            keys=FrozenMap(sorted(state.keys.put(key, progress).items())),
        )
        if value <= progress.received:
            return Reply(state)
        leaves = not state.in_flight
        progress = replace(progress, received=value, emitted=value if leaves else progress.emitted)
        return Reply(replace(state, keys=state.keys.put(key, progress)), (item,) if leaves else ())

    def _first(self, state: UnorderedCalls, key: int) -> KeyProgress:
        if self.deviations.keys_in_order_of_number and key != len(state.keys):
            raise JobFailedError(
                Reason.INDEX_ERROR,
                f"The first watermark of key {key} comes when {len(state.keys)} keys are known.",
                remedy="Let keys first appear as 0, 1, 2, ..., or turn the option keys_in_order_of_number off.",
            )
        return KeyProgress(counts=FrozenMap([(MIN, len(state.in_flight))] if state.in_flight else []))

    def answered(self, state: UnorderedCalls, call: int, results: Results) -> UnorderedCalls:
        """With the results of a call."""
        return replace(state, answers=(*state.answers, (call, results)))

    def flush(self, state: UnorderedCalls) -> Reply[UnorderedCalls]:
        """Results leave in the order of the answers, each followed by the watermarks that it held back."""
        out: list[Item] = []
        in_flight, keys = state.in_flight, state.keys
        for call, results in state.answers:
            out += map(Event, results)
            seen, in_flight = in_flight[call].seen, in_flight.without(call)
            for key, progress in keys.items():
                after, released = progress.left(seen.get(key, MIN))
                keys = keys.put(key, after)
                out += [] if released is None else [Watermark(key, released)]
        out += [] if in_flight else state.idle
        idle = state.idle if in_flight else ()
        done = replace(state, in_flight=in_flight, keys=keys, answers=(), idle=idle)
        return Reply(done, tuple(out))

    def size(self, state: UnorderedCalls) -> int:
        """The calls in flight."""
        return len(state.in_flight)

    def restore(self, snapshots: Sequence[UnorderedCalls]) -> UnorderedCalls:
        """The rows of its own that were in flight are so again, and of every key the lowest watermark was received.

        Their calls are numbered anew from 0 and have to be made again: see `outstanding`. Each row counts as one that
        came before any watermark, since it may have come before the lowest one.
        """
        events = [flight.event for flight in snapshots[0].in_flight.values()]
        known = sorted({key for snapshot in snapshots for key in snapshot.keys})
        received = {key: min(s.keys[key].received for s in snapshots if key in s.keys) for key in known}
        counts = FrozenMap([(MIN, len(events))] if events else [])
        return UnorderedCalls(
            in_flight=FrozenMap((number, Flight(event, FrozenMap())) for number, event in enumerate(events)),
            keys=FrozenMap((key, KeyProgress(value, counts=counts)) for key, value in received.items()),
            made=len(events),
        )

    def outstanding(self, state: UnorderedCalls) -> tuple[Call, ...]:
        """The calls that wait for an answer; after a restart they have to be made again."""
        answered = {number for number, _ in state.answers}
        return tuple(Call(number, flight.event) for number, flight in state.in_flight.items() if number not in answered)
