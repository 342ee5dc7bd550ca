"""What a processor is: a frozen description with a pure `step(state, stimulus) -> Reply`.

The tasklet calls it with one stimulus at a time. A processor that cannot take it replies `accepted=False` and an
otherwise usable reply (it may have emitted something to make room); the same stimulus is then repeated before anything
else reaches it. Everything that leaves the processor is in the reply; the state is frozen, so it is its own snapshot.

A processor that does nothing special with a stimulus replies `by_default`:

    watermark of one edge             nothing
    watermark over all edges          the same watermark
    all inputs idle                   an idle message
    an edge, or all of them, ended    nothing

Source: "Keyed watermark support", Processor API; upstream classes `Processor`, `AbstractProcessor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar, runtime_checkable

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import IDLE, MAX, MIN, Event, Item, Value, Watermark


class Reason(StrEnum):
    """Why a job fails."""

    NON_MONOTONIC = "watermark not above the one before"
    DUPLICATE_DONE = "input ended twice"
    LIMIT_EXCEEDED = "state limit exceeded"
    CALL_FAILED = "asynchronous call failed"
    UNSUPPORTED_KEY = "watermark key not supported"
    INDEX_ERROR = "key index out of range"


class JobFailedError(ModelError):
    """A rule of the dataflow was broken, which ends the job; `reason` says which one."""

    def __init__(self, reason: Reason, problem: str, *, remedy: str) -> None:
        self.reason = reason
        super().__init__(problem, remedy=remedy)

    def at(self, place: str) -> JobFailedError:
        """The same failure with the place where it happened in front: a vertex, an edge."""
        return JobFailedError(self.reason, f"{place}: {self.problem}", remedy=self.remedy)


@dataclass(frozen=True, slots=True)
class Row:
    """Stimulus: an event on input `edge` (from 0). `retry`: it was offered before and its output did not fit."""

    edge: int
    event: Event
    retry: bool = False


@dataclass(frozen=True, slots=True)
class EdgeWatermark:
    """Stimulus: a watermark coalesced over the queues of one input edge."""

    edge: int
    watermark: Watermark


@dataclass(frozen=True, slots=True)
class GlobalWatermark:
    """Stimulus: a watermark coalesced over all input edges."""

    watermark: Watermark


@dataclass(frozen=True, slots=True)
class InputIdle:
    """Stimulus: all inputs are idle. Whatever holds items in flight may hold the message back behind them."""


@dataclass(frozen=True, slots=True)
class EdgeDone:
    """Stimulus: input `edge` has ended and everything on it was processed."""

    edge: int


@dataclass(frozen=True, slots=True)
class Complete:
    """Stimulus: all inputs have ended. A reply with `accepted=False` asks for it again (calls are in flight)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Stimulus: an asynchronous call returned the rows `results`; None: it failed."""

    call: int
    results: tuple[tuple[Value, ...], ...] | None


Stimulus = Row | EdgeWatermark | GlobalWatermark | InputIdle | EdgeDone | Complete | Answer


@dataclass(frozen=True, slots=True)
class Drop:
    """Effect: `event` was left out by `rule`, because its time `time` is below `limit` (margin: `limit - time`)."""

    edge: int
    event: Event
    rule: str
    key: int
    time: int
    limit: int

    @property
    def margin(self) -> int:
        """By how much the event was late, in the unit of its time."""
        return self.limit - self.time


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: an asynchronous call for `event` begins; `number` counts the calls of this processor instance from 0."""

    number: int
    event: Event


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Reply(Generic[S_co]):
    """What a step does: the new state, what leaves in this order, and what happened besides."""

    state: S_co
    out: tuple[Item, ...] = ()
    accepted: bool = True
    drops: tuple[Drop, ...] = ()
    calls: tuple[Call, ...] = ()


class Processor(Protocol[S]):
    """A vertex's behaviour. `S` is its frozen state."""

    def start(self) -> S:
        """The state before anything came."""

    def step(self, state: S, stimulus: Stimulus) -> Reply[S]:
        """What the stimulus does. Raises `JobFailedError` if it ends the job."""

    def size(self, state: S) -> int:
        """How many rows or accumulators the state holds."""

    def may_snapshot(self, state: S) -> bool:  # noqa: ARG002
        """Whether a snapshot can be taken now: always, except that an ordered asynchronous step waits for its calls."""
        return True

    def restore(self, snapshots: Sequence[S]) -> S:
        """The state of an instance after a restart, from the snapshots of all instances of the vertex, its own first.

        What belongs to rows comes from its own; of the others only the watermarks count, the lowest of which applies.
        """


@runtime_checkable
class CountsRetries(Protocol):
    """A processor that has to be told when a row is offered again because its output did not fit (`Row.retry`).

    It has taken the row in by then, and replies without output. Others are never offered a row twice.
    Source: upstream class `StreamToStreamJoinP`.
    """

    def counts_retries(self) -> bool:
        """Whether it wants to be told."""


Values = tuple[Value, ...]


def by_default(state: S, stimulus: Stimulus) -> Reply[S]:
    """The reply of a processor that does nothing special with the stimulus.

    Raises `ModelError` for a row or an answer, which every processor has to know about itself.
    """
    match stimulus:
        case GlobalWatermark(watermark):
            return Reply(state, (watermark,))
        case InputIdle():
            return Reply(state, (IDLE,))
        case EdgeWatermark() | EdgeDone() | Complete():
            return Reply(state)
    raise ModelError(f"This processor cannot take {stimulus}.", remedy="Answer only the processor that made the call.")


def time_of(values: Values, column: int) -> int:
    """The event time of a row. Raises `ModelError` unless it is an integer of 64 bits."""
    time = values[column] if 0 <= column < len(values) else None
    if type(time) is not int or not MIN <= time <= MAX:
        raise ModelError(
            f"Column {column} of the row {values} is no time: {time!r}.",
            remedy="Name a column that holds an integer time in every row; filter the rows padded by an outer join.",
        )
    return time
