"""What a processor is: a frozen description whose `step(state, stimulus) -> Reply` is pure; and the named deviations.

An instance calls it with one stimulus at a time. A processor that cannot take it replies `accepted=False` and an
otherwise usable reply (it may have emitted something to make room); the same stimulus is then repeated before anything
else reaches it. Everything that leaves the processor is in the reply; the state is frozen, so it is its own snapshot.

`DESIGN` follows the documents; `SHIPPED` is what the code of 2026-08 does with assertions off. Any mixture can be run.

Source: "Keyed watermark support", Processor API; upstream classes `Processor`, `AbstractProcessor`, and for the
deviations `KeyedWatermarkCoalescer`, `ConcurrentInboundEdgeStream`, `ProcessorTasklet`,
`AsyncTransformUsingServiceUnorderedP`, `StreamToStreamJoinP`, `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Event, Idle, Item, RowValues, Watermark

Mode = Literal["design", "hz"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """Which defects of the implementation are on."""

    watermark_wakes_one_key: bool = False
    """A watermark ends the idleness of its own key only."""
    idle_repeated: bool = False
    """An idle message is sent again for every repeated one while all inputs are idle."""
    done_hides_idle: bool = False
    """When the end of an input leaves only idle ones, no idle message is sent."""
    late_key_replays_idle: bool = False
    """A key that first comes after an input was idle and then ended fails the job."""
    event_after_special: bool = False
    """An event and an idle message drained together are reported in the wrong order."""
    last_watermark_lost: bool = False
    """Watermarks released by the end of inputs are not delivered."""
    emission_unchecked: bool = False
    """Only the receiver of a watermark notices that it went back; what a sink or nobody receives is never checked."""
    keys_in_order_of_number: bool = False
    """The unordered asynchronous step expects keys to appear as 0, 1, 2, ...; not on in `hz`, where it keeps its
    contract."""
    idle_overtakes: bool = False
    """Idle messages pass the work that a processor still holds."""
    retry_counts_as_row: bool = False
    """A row whose output did not fit is counted again against the limit of a join."""
    limit_when_exceeded: bool = False
    """State limits fail when a count would exceed the limit. Without it a window fails when the count would equal it,
    and a join, once it holds as many rows, at the next row of any kind; upstream does so, and it is not on in `hz`."""
    every_boundary: bool = False
    """A window visits every frame of a gap without data."""
    rejected_rows_silent: bool = False
    """Rows that a source's filter rejects neither advance its watermark nor count against idleness."""
    unmatched_lost_at_end: bool = False
    """Outer rows without a partner that are still buffered when both inputs end are not emitted."""
    key_zero_only: bool = False
    """A stateful map refuses watermarks of keys other than 0."""

    keyed_idle: bool = False
    """Idle messages are about one key, so that an input is partially idle, until its next event or watermark of that
    key. Described and rejected by the text; not on in `hz`."""
    highest_held_back: bool = False
    """When no input is active, the highest watermark is not let through, so that what comes out depends on which input
    became idle last. So was Flink before FLINK-7728 (apache/flink pull request 4747); not on in `hz`."""
    event_leaves_idle: bool = False
    """An event ends the idleness of its input for the keys that there are, but the input still counts as idle for idle
    messages and for keys that first come. So was Hazelcast before pull request 22440; not on in `hz`."""
    end_counts_as_active: bool = False
    """An input that has ended without being idle keeps idle messages back for ever. So was Hazelcast before pull
    request 22440; not on in `hz`."""

    def __str__(self) -> str:
        """The options that are on."""
        return ", ".join(f.name for f in fields(self) if getattr(self, f.name)) or "as designed"


DESIGN: Final = Deviations()
BY_NAME: Final = frozenset(
    {
        "end_counts_as_active",
        "event_leaves_idle",
        "highest_held_back",
        "keyed_idle",
        "keys_in_order_of_number",
        "limit_when_exceeded",
    }
)
"""Options that belong to neither mode."""
SHIPPED: Final = Deviations(**{f.name: f.name not in BY_NAME for f in fields(Deviations)})


def deviations(mode: Mode) -> Deviations:
    """`design`: none; `hz`: all of them but those `BY_NAME`."""
    return SHIPPED if mode == "hz" else DESIGN


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


@dataclass(frozen=True, slots=True)
class EdgeRow:
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
class EdgeDone:
    """Stimulus: input `edge` has ended and everything on it was processed."""

    edge: int


@dataclass(frozen=True, slots=True)
class Complete:
    """Stimulus: all inputs have ended. A reply with `accepted=False` asks for it again (calls are in flight)."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """Stimulus: an asynchronous call returned the rows `results`; None: it failed."""

    call: int
    results: tuple[RowValues, ...] | None


Stimulus = EdgeRow | EdgeWatermark | Watermark | Idle | EdgeDone | Complete | CallAnswer
"""A watermark as such is coalesced over all input edges. An idle message: all inputs are idle; whatever holds items in
flight may hold the message back behind them."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Effect: `event` was left out by `rule`, because its time `time` is below `limit`, in the unit of the time."""

    edge: int
    event: Event
    rule: str
    key: int
    time: int
    limit: int


@dataclass(frozen=True, slots=True)
class Call:
    """Effect: an asynchronous call for `event` begins; `number` counts the calls of this processor instance from 0."""

    number: int
    event: Event


ProcessorState = TypeVar("ProcessorState")
ProcessorState_co = TypeVar("ProcessorState_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Reply(Generic[ProcessorState_co]):
    """What a step does: the new state, what leaves in this order, and what happened besides."""

    state: ProcessorState_co
    out: tuple[Item, ...] = ()
    accepted: bool = True
    drops: tuple[Drop, ...] = ()
    calls: tuple[Call, ...] = ()


class Processor(Generic[ProcessorState]):
    """A vertex's behaviour; `ProcessorState` is its frozen state. One method for each stimulus, here with its default.

    Methods raise `JobFailedError` if the stimulus ends the job.
    """

    empty: ClassVar[Any] = None
    """The state to start with, where it is the same for all of a kind."""
    counts_retries: ClassVar[bool] = False
    """Whether a row is offered again (`EdgeRow.retry`) when its output did not fit. It has taken the row in by then,
    and replies without output. Source: upstream class `StreamToStreamJoinP`."""

    def step(self, state: ProcessorState, stimulus: Stimulus) -> Reply[ProcessorState]:
        """What the stimulus does."""
        match stimulus:
            case EdgeRow(edge, event, retry):
                return self.row_again(state) if retry else self.row(state, edge, event)
            case Watermark():
                return self.watermark(state, stimulus)
            case EdgeWatermark(edge, watermark):
                return self.edge_watermark(state, edge, watermark)
            case Idle():
                return self.idle(state, stimulus)
            case EdgeDone(edge):
                return self.complete_edge(state, edge)
            case Complete():
                return self.complete(state)
            case CallAnswer(call, results):
                return self.answer(state, call, results)

    def start(self) -> ProcessorState:
        """The state before anything came."""
        state: ProcessorState = self.empty
        return state

    def row(self, state: ProcessorState, edge: int, event: Event) -> Reply[ProcessorState]:
        """An event came on input `edge`. Raises `ModelError` for a row without a time."""
        raise NotImplementedError

    def row_again(self, state: ProcessorState) -> Reply[ProcessorState]:
        """A row was offered again, see `counts_retries`: nothing."""
        return Reply(state)

    def edge_watermark(
        self,
        state: ProcessorState,
        edge: int,  # noqa: ARG002
        watermark: Watermark,  # noqa: ARG002
    ) -> Reply[ProcessorState]:
        """A watermark was coalesced over the queues of input `edge`: nothing."""
        return Reply(state)

    def watermark(self, state: ProcessorState, watermark: Watermark) -> Reply[ProcessorState]:
        """A watermark was coalesced over all edges: the same watermark leaves."""
        return Reply(state, (watermark,))

    def idle(self, state: ProcessorState, message: Idle) -> Reply[ProcessorState]:
        """All inputs are idle: the idle message leaves."""
        return Reply(state, (message,))

    def complete_edge(self, state: ProcessorState, edge: int) -> Reply[ProcessorState]:  # noqa: ARG002
        """Input `edge` has ended: nothing."""
        return Reply(state)

    def complete(self, state: ProcessorState) -> Reply[ProcessorState]:
        """All inputs have ended: nothing."""
        return Reply(state)

    def answer(self, state: ProcessorState, call: int, results: tuple[RowValues, ...] | None) -> Reply[ProcessorState]:
        """A call returned, which only asynchronous steps make."""
        raise NotImplementedError

    def size(self, state: ProcessorState) -> int:  # noqa: ARG002
        """How many rows or accumulators the state holds: none."""
        return 0

    def sizes(self, state: ProcessorState) -> dict[str, int]:
        """How much each buffer of the table `state` holds: "all", which is `size`, and parts of it."""
        return {"all": self.size(state)}

    def may_snapshot(self, state: ProcessorState) -> bool:  # noqa: ARG002
        """Whether a snapshot can be taken now: always, except that an ordered asynchronous step waits for its calls."""
        return True

    def outstanding(self, state: ProcessorState) -> tuple[Call, ...]:  # noqa: ARG002
        """The calls that wait for an answer, which have to be made again after a restart: none."""
        return ()

    def restore(self, snapshots: Sequence[ProcessorState]) -> ProcessorState:  # noqa: ARG002
        """The state of an instance after a restart, from the snapshots of all instances of the vertex, its own first.

        What belongs to rows comes from its own; of the others only the watermarks count, the lowest of which applies.
        """
        return self.start()
