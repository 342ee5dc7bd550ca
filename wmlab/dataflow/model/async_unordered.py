"""The unordered asynchronous step: results leave in the order in which calls answer.

A watermark must not overtake the rows that came before it. So for every key it is counted how many rows in flight came
behind which watermark. When a count drops to zero, the newest watermark leaves that no row in flight came before; the
ones in between are skipped. Rows that came before the first watermark of a key count as behind its lowest time. The
sum of the counts of every key is the number of calls in flight.

    a, wm 10, b, wm 20, c, wm 30     in flight: a behind MIN, b behind 10, c behind 20; received 30
    c answers: C                     a is still before 10
    a answers: A, wm 10              b is before 20
    b answers: B, wm 30

Source: "Keyed watermark support", Changes to async-transform processor (Unordered); upstream class
`AsyncTransformUsingServiceUnorderedP`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wmlab.dataflow.model.async_ordered import Results, require_answer, require_capacity
from wmlab.dataflow.model.defaults import Values, by_default
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.frozen_map import FrozenMap
from wmlab.dataflow.model.items import IDLE, MIN, Event, Item, Watermark
from wmlab.dataflow.model.processor import (
    Answer,
    Call,
    Complete,
    GlobalWatermark,
    InputIdle,
    JobFailedError,
    Reason,
    Reply,
    Row,
    Stimulus,
)


@dataclass(frozen=True, slots=True)
class Flight:
    """A row in flight and the last watermark of every key when it came. Source: as the module."""

    event: Event
    seen: FrozenMap[int, int]


@dataclass(frozen=True, slots=True)
class KeyProgress:
    """One key: its last watermark, the last one that left, and rows in flight by the watermark they came behind.

    `counts` is in ascending order of the watermarks; times have the unit of the key's field. Source: as the module.
    """

    received: int = MIN
    emitted: int = MIN
    counts: FrozenMap[int, int] = field(default_factory=FrozenMap)

    def entered(self) -> KeyProgress:
        """With one more row in flight. Source: as the module."""
        return replace(self, counts=self.counts.put(self.received, self.counts.get(self.received, 0) + 1))

    def left(self, seen: int) -> tuple[KeyProgress, int | None]:
        """With one row less that came behind `seen`, and the watermark that can leave now. Source: as the module."""
        rest = self.counts[seen] - 1
        if rest:
            return replace(self, counts=self.counts.put(seen, rest)), None
        counts = self.counts.without(seen)
        candidate = min(counts, default=self.received)
        if candidate <= self.emitted:
            return replace(self, counts=counts), None
        return replace(self, counts=counts, emitted=candidate), candidate


@dataclass(frozen=True, slots=True)
class UnorderedCalls:
    """What is in flight by call number, answers that have not left, and the keys seen so far.

    `idle`: all inputs are idle, which is said once nothing is in flight. Source: as the module.
    """

    in_flight: FrozenMap[int, Flight] = field(default_factory=FrozenMap)
    answers: tuple[tuple[int, Results], ...] = ()
    keys: FrozenMap[int, KeyProgress] = field(default_factory=FrozenMap)
    made: int = 0
    idle: bool = False


@dataclass(frozen=True, slots=True)
class AsyncUnordered:
    """At most `capacity` calls at a time; a row that `wanted` turns down makes none and is left out.

    Raises `ModelError` for a capacity below 1. Source: as the module.
    """

    capacity: int = 4
    wanted: Callable[[Values], bool] | None = field(default=None, repr=False)
    deviations: Deviations = DESIGN

    def __post_init__(self) -> None:
        require_capacity(self.capacity)

    def start(self) -> UnorderedCalls:
        """No call was made. Source: as the module."""
        return UnorderedCalls()

    def step(self, state: UnorderedCalls, stimulus: Stimulus) -> Reply[UnorderedCalls]:
        """Takes the stimulus, then lets out what was answered.

        Raises `JobFailedError` when a call failed, and with the option `keys_in_order_of_number` when the keys do not
        first appear as 0, 1, 2, ... Source: as the module.
        """
        match stimulus:
            case Row(event=event):
                reply = self.take(state, event)
            case GlobalWatermark(watermark):
                reply = self.put(state, watermark)
            case InputIdle() if not self.deviations.idle_overtakes:
                reply = Reply(replace(state, idle=True))
            case Answer(call, results):
                reply = Reply(self.answered(state, call, results))
            case Complete():
                return Reply(state, accepted=not state.in_flight)
            case _:
                return by_default(state, stimulus)
        flushed = self.flush(reply.state)
        return replace(reply, state=flushed.state, out=reply.out + flushed.out)

    def take(self, state: UnorderedCalls, event: Event) -> Reply[UnorderedCalls]:
        """Makes the call for a row. When full, what was answered leaves and the row is refused. Source: as above."""
        if self.wanted is not None and not self.wanted(event.values):
            return Reply(state)
        if len(state.in_flight) >= self.capacity:
            return replace(self.flush(state), accepted=False)
        call = Call(state.made, event)
        flight = Flight(event, FrozenMap((key, progress.received) for key, progress in state.keys.items()))
        taken = replace(
            state,
            in_flight=state.in_flight.put(call.number, flight),
            keys=FrozenMap((key, progress.entered()) for key, progress in state.keys.items()),
            made=state.made + 1,
            idle=False,
        )
        return Reply(taken, calls=(call,))

    def put(self, state: UnorderedCalls, watermark: Watermark) -> Reply[UnorderedCalls]:
        """Notes a watermark, which leaves at once if nothing is in flight; one that goes back is ignored.

        Source: as the module; a lower one comes after a restart that guarantees at least once.
        """
        key, value = watermark.key, watermark.value
        progress = state.keys.get(key) or self._first(state, key)
        state = replace(state, idle=False, keys=_sorted(state.keys.put(key, progress)))
        if value <= progress.received:
            return Reply(state)
        leaves = not state.in_flight
        progress = replace(progress, received=value, emitted=value if leaves else progress.emitted)
        return Reply(replace(state, keys=state.keys.put(key, progress)), (watermark,) if leaves else ())

    def _first(self, state: UnorderedCalls, key: int) -> KeyProgress:
        if self.deviations.keys_in_order_of_number and key != len(state.keys):
            raise JobFailedError(
                Reason.INDEX_ERROR,
                f"The first watermark of key {key} comes when {len(state.keys)} keys are known.",
                remedy="Let keys first appear as 0, 1, 2, ..., or turn the option keys_in_order_of_number off.",
            )
        return KeyProgress(counts=FrozenMap([(MIN, len(state.in_flight))] if state.in_flight else []))

    def answered(self, state: UnorderedCalls, call: int, results: Results | None) -> UnorderedCalls:
        """With the results of a call. Raises `JobFailedError` if it failed. Source: as the module."""
        waiting = set(state.in_flight) - {number for number, _ in state.answers}
        return replace(state, answers=(*state.answers, (call, require_answer(call, results, waiting))))

    def flush(self, state: UnorderedCalls) -> Reply[UnorderedCalls]:
        """Results leave in the order of the answers, each followed by the watermarks that it held back.

        Source: as the module.
        """
        out: list[Item] = []
        in_flight, keys = state.in_flight, state.keys
        for call, results in state.answers:
            out += map(Event, results)
            seen, in_flight = in_flight[call].seen, in_flight.without(call)
            for key, progress in keys.items():
                after, released = progress.left(seen.get(key, MIN))
                keys = keys.put(key, after)
                out += [] if released is None else [Watermark(key, released)]
        if idle := state.idle and not in_flight:
            out.append(IDLE)
        done = replace(state, in_flight=in_flight, keys=keys, answers=(), idle=state.idle and not idle)
        return Reply(done, tuple(out))

    def size(self, state: UnorderedCalls) -> int:
        """The calls in flight. Source: as the module."""
        return len(state.in_flight)

    def may_snapshot(self, state: UnorderedCalls) -> bool:  # noqa: ARG002
        """Always: rows in flight are part of the snapshot. Source: as the module."""
        return True

    def restore(self, snapshots: Sequence[UnorderedCalls]) -> UnorderedCalls:
        """The rows of its own that were in flight are so again, and of every key the lowest watermark was received.

        Their calls are numbered anew from 0 and have to be made again: see `outstanding`. Each row counts as one that
        came before any watermark, since it may have come before the lowest one. Source: as the module (snapshot).
        """
        events = [flight.event for flight in snapshots[0].in_flight.values()] if snapshots else []
        received: dict[int, int] = {}
        for snapshot in snapshots:
            for key, progress in snapshot.keys.items():
                received[key] = min(received.get(key, progress.received), progress.received)
        counts = FrozenMap([(MIN, len(events))] if events else [])
        return UnorderedCalls(
            in_flight=FrozenMap((number, Flight(event, FrozenMap())) for number, event in enumerate(events)),
            keys=_sorted(FrozenMap((key, KeyProgress(value, counts=counts)) for key, value in received.items())),
            made=len(events),
        )

    def outstanding(self, state: UnorderedCalls) -> tuple[Call, ...]:
        """The calls that wait for an answer; after a restart they have to be made again. Source: as the module."""
        answered = {number for number, _ in state.answers}
        return tuple(Call(number, flight.event) for number, flight in state.in_flight.items() if number not in answered)


def _sorted(keys: FrozenMap[int, KeyProgress]) -> FrozenMap[int, KeyProgress]:
    return FrozenMap(sorted(keys.items()))
