"""The ordered asynchronous step: calls run side by side, results leave in the order of their rows.

A queue holds the calls and, between them, the watermarks. Whatever stands at its head and is finished leaves; the
first unfinished call blocks everything behind it. A watermark that comes right behind one of the same key replaces it;
watermarks of alternating keys all stay. Only calls count against the capacity.

Source: "Keyed watermark support", Changes to async-transform processor (Ordered); upstream class
`AsyncTransformUsingServiceOrderedP`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.defaults import Values, by_default
from wmlab.dataflow.model.deviations import DESIGN, Deviations
from wmlab.dataflow.model.items import IDLE, Event, Idle, Item, Watermark
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

Results = tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call on the queue; `results` is None until it answers. Source: as the module."""

    call: int
    event: Event
    results: Results | None = None


Place = Waiting | Watermark | Idle


@dataclass(frozen=True, slots=True)
class OrderedCalls:
    """The queue from its head on, and how many calls were made so far. Source: as the module."""

    queue: tuple[Place, ...] = ()
    made: int = 0

    @property
    def in_flight(self) -> int:
        """The calls on the queue, answered or not. Source: as the module."""
        return sum(isinstance(place, Waiting) for place in self.queue)


@dataclass(frozen=True, slots=True)
class AsyncOrdered:
    """At most `capacity` calls at a time; a row that `wanted` turns down makes none and is left out.

    Raises `ModelError` for a capacity below 1. Source: as the module.
    """

    capacity: int = 4
    wanted: Callable[[Values], bool] | None = field(default=None, repr=False)
    deviations: Deviations = DESIGN

    def __post_init__(self) -> None:
        require_capacity(self.capacity)

    def start(self) -> OrderedCalls:
        """No call was made. Source: as the module."""
        return OrderedCalls()

    def step(self, state: OrderedCalls, stimulus: Stimulus) -> Reply[OrderedCalls]:
        """Takes the stimulus, then lets out what is finished. Raises `JobFailedError` when a call failed.

        Source: as the module.
        """
        match stimulus:
            case Row(event=event):
                reply = self.take(state, event)
            case GlobalWatermark(watermark):
                reply = Reply(self.put(state, watermark))
            case InputIdle() if not self.deviations.idle_overtakes:
                reply = Reply(self.put(state, IDLE))
            case Answer(call, results):
                reply = Reply(self.answered(state, call, results))
            case Complete():
                return Reply(state, accepted=not state.queue)
            case _:
                return by_default(state, stimulus)
        flushed = self.flush(reply.state)
        return replace(reply, state=flushed.state, out=reply.out + flushed.out)

    def take(self, state: OrderedCalls, event: Event) -> Reply[OrderedCalls]:
        """Makes the call for a row. When full, what is finished leaves first; the row is refused if nothing is.

        Source: as the module.
        """
        if self.wanted is not None and not self.wanted(event.values):
            return Reply(state)
        out: tuple[Item, ...] = ()
        if state.in_flight >= self.capacity:
            flushed = self.flush(state)
            state, out = flushed.state, flushed.out
        if state.in_flight >= self.capacity:
            return Reply(state, out, accepted=False)
        call = Call(state.made, event)
        queue = (*state.queue, Waiting(call.number, event))
        return Reply(OrderedCalls(queue, state.made + 1), out, calls=(call,))

    def put(self, state: OrderedCalls, place: Watermark | Idle) -> OrderedCalls:
        """The queue with a watermark or idle message at its end, in place of one that it makes superfluous.

        Source: "Keyed watermark support", Changes to async-transform processor (Ordered).
        """
        last = state.queue[-1] if state.queue else None
        match last, place:
            case (Watermark(key), Watermark(again)) if key == again:
                kept = state.queue[:-1]
            case (Idle(), Idle()):
                kept = state.queue[:-1]
            case _:
                kept = state.queue
        return replace(state, queue=(*kept, place))

    def answered(self, state: OrderedCalls, call: int, results: Results | None) -> OrderedCalls:
        """The queue with the results of a call. Raises `JobFailedError` if it failed. Source: as the module."""
        waiting = {place.call for place in state.queue if isinstance(place, Waiting) and place.results is None}
        found = require_answer(call, results, waiting)
        return replace(
            state,
            queue=tuple(
                replace(place, results=found) if isinstance(place, Waiting) and place.call == call else place
                for place in state.queue
            ),
        )

    def flush(self, state: OrderedCalls) -> Reply[OrderedCalls]:
        """What stands before the first unfinished call leaves. Source: as the module."""
        out: list[Item] = []
        for number, place in enumerate(state.queue):
            if not isinstance(place, Waiting):
                out.append(place)
            elif place.results is None:
                return Reply(replace(state, queue=state.queue[number:]), tuple(out))
            else:
                out += map(Event, place.results)
        return Reply(replace(state, queue=()), tuple(out))

    def size(self, state: OrderedCalls) -> int:
        """The calls in flight. Source: as the module."""
        return state.in_flight

    def may_snapshot(self, state: OrderedCalls) -> bool:
        """Once nothing is in flight: everything stops for a snapshot. Source: as the module."""
        return not state.queue

    def restore(self, snapshots: Sequence[OrderedCalls]) -> OrderedCalls:  # noqa: ARG002
        """Nothing was in flight. Source: as the module."""
        return self.start()


def require_capacity(capacity: int) -> None:
    """Raises `ModelError` unless a call can be made at all. Source: as the module."""
    if capacity < 1:
        raise ModelError(f"No call fits into a capacity of {capacity}.", remedy="Admit at least one call at a time.")


def require_answer(call: int, results: Results | None, waiting: set[int]) -> Results:
    """The results of an answer. Raises `JobFailedError` if the call failed, `ModelError` if nobody waits for it.

    Source: upstream class `AsyncTransformUsingServiceOrderedP`.
    """
    if call not in waiting:
        raise ModelError(f"No answer to call {call} is expected.", remedy="Answer every call once.")
    if results is None:
        raise JobFailedError(
            Reason.CALL_FAILED,
            f"The asynchronous call {call} failed.",
            remedy="Catch failures in the function that is called, and return what stands for them.",
        )
    return results
