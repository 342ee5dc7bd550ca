"""Processors: rules, a state that changes in place, and lists of their outputs; and the named deviations.

An instance calls one method at a time: `row`, `watermark`, `edge_watermark`, `idle`, `complete`, `answer`. What leaves
is appended to `out`. A method that returns False has refused what was offered, which is then offered again before
anything else. A refusal changes nothing but what it appended to `out`, to make room, and the state of a custom
processor.

`SOUND` has none of them; any mixture can be run.

Source: "Keyed watermark support", Processor API; upstream classes `Processor`, `AbstractProcessor`, and for the
deviations `KeyedWatermarkCoalescer`, `ConcurrentInboundEdgeStream`, `ProcessorTasklet`,
`AsyncTransformUsingServiceUnorderedP`, `StreamToStreamJoinP`, `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Idle, Item, RowValues, Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """In what the documents, or the implementation, depart from sound rules.

    `Rules` of a dataflow has the same names, and says what each means and where it stands. This value is what the model
    takes, also on executors, which have no pydantic.
    """

    watermark_wakes_one_key: bool = False
    idle_repeated: bool = False
    done_hides_idle: bool = False
    late_key_replays_idle: bool = False
    event_after_special: bool = False
    highest_held_back: bool = False
    last_watermark_lost: bool = False
    emission_unchecked: bool = False
    idle_overtakes: bool = False
    rejected_rows_silent: bool = False
    unmatched_lost_at_end: bool = False
    key_zero_only: bool = False
    keyed_idle: bool = False
    event_leaves_idle: bool = False
    end_counts_as_active: bool = False


SOUND: Final = Deviations()
ONE_IN_ONE_OUT: Final = (SOUND, Deviations(highest_held_back=True))
"""The rules by which coalescing of one input lets through what comes in."""


class Reason(StrEnum):
    """Why a job fails."""

    NON_MONOTONIC = "watermark not above the one before"
    DUPLICATE_DONE = "input ended twice"
    LIMIT_EXCEEDED = "state limit exceeded"
    CALL_FAILED = "asynchronous call failed"
    UNSUPPORTED_KEY = "watermark key not supported"
    BEYOND_64_BITS = "time beyond 64 bits"


class JobFailedError(ModelError):
    """A rule of the dataflow was broken, which ends the job; `reason` says which one."""

    def __init__(self, reason: Reason, problem: str, *, remedy: str) -> None:
        self.reason = reason
        super().__init__(problem, remedy=remedy)


@dataclass(frozen=True, slots=True)
class Drop:
    """A row of input `edge` was left out by `rule`: its time `time` is below `limit`, in the unit of the time."""

    edge: int
    values: RowValues
    rule: str
    key: int
    time: int
    limit: int


@dataclass(frozen=True, slots=True)
class Call:
    """An asynchronous call for a row begins; `number` counts the calls of this processor instance from 0."""

    number: int
    values: RowValues


Results = tuple[RowValues, ...]
"""The rows that a call returns."""
State = TypeVar("State")


@dataclass(kw_only=True, eq=False)
class Processor(Generic[State]):
    """A vertex's behaviour: the fields of a class are its rules. One method for each thing that can come.

    `state` is what it remembers. `out`, `drops` and `calls` gather what leaves and what happens; the caller of the
    processor empties them. Methods raise `JobFailedError` if what came ends the job.
    """

    retry_ms: ClassVar[int | None] = None
    """After which time what was refused is offered again; None: when an asynchronous call has returned."""
    state: State = field(init=False, repr=False)
    out: list[Item] = field(init=False, repr=False, default_factory=list)
    drops: list[Drop] = field(init=False, repr=False, default_factory=list)
    calls: list[Call] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.start()

    def start(self) -> State:
        """The state before anything came."""
        raise NotImplementedError

    def row(self, values: RowValues, edge: int) -> bool | None:
        """A row came on input `edge`. Raises `ModelError` for a row without a time."""
        raise NotImplementedError

    def edge_watermark(self, watermark: Watermark, edge: int) -> bool | None:
        """A watermark was coalesced over the queues of input `edge`: nothing."""

    def watermark(self, watermark: Watermark) -> bool | None:
        """A watermark was coalesced over all edges: it is forwarded."""
        self.out.append(watermark)
        return True

    def idle(self, message: Idle) -> bool | None:
        """All inputs are idle: the idle message is forwarded, perhaps behind items in flight."""
        self.out.append(message)
        return True

    def complete(self) -> bool | None:
        """All inputs have ended: nothing. A refusal says that calls are in flight."""

    def answer(self, call: int, results: Results | None) -> None:
        """A call returned these rows; None: it failed. Only asynchronous steps make calls."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many rows or accumulators the state holds: none."""
        return 0

    @property
    def sizes(self) -> dict[str, int]:
        """How much each buffer of the table `state` holds: "all", which is `size`, and parts of it."""
        return {"all": self.size}

    @property
    def may_snapshot(self) -> bool:
        """Whether a snapshot can be taken now: always, except that an ordered asynchronous step waits for its calls."""
        return True

    @property
    def outstanding(self) -> list[Call]:
        """The calls that wait for an answer, which have to be made again after a restart: none."""
        return []

    def snapshot(self) -> State:
        """A copy of the state."""
        return deepcopy(self.state)

    def restore(self, snapshots: Sequence[State]) -> None:
        """Begin again after a restart, from the snapshots of all instances of the vertex, its own first.

        What belongs to rows comes from its own; of the others only the watermarks count, the lowest of which applies.
        """
        self.state = self.restored(deepcopy(snapshots))

    def restored(self, snapshots: Sequence[State]) -> State:  # noqa: ARG002
        """The state after a restart; the snapshots may become part of it."""
        return self.start()
