"""Processors: rules, a state that changes in place, and lists of their outputs; and the named deviations.

An instance calls one method at a time: `row`, `watermark`, `edge_watermark`, `idle`, `complete`, `answer`. What leaves
is appended to `out`. A method that returns False has refused what was offered, which is then offered again before
anything else. A refusal changes nothing but what it appended to `out`, to make room, and the state of a custom
processor.

`SOUND` has none of them, `DESIGN` follows the documents, and `SHIPPED` is what the code of 2026-08 does with assertions
off. Any mixture can be run.

Source: "Keyed watermark support", Processor API; upstream classes `Processor`, `AbstractProcessor`, and for the
deviations `KeyedWatermarkCoalescer`, `ConcurrentInboundEdgeStream`, `ProcessorTasklet`,
`AsyncTransformUsingServiceUnorderedP`, `StreamToStreamJoinP`, `SlidingWindowP`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, Final, Generic, Literal, TypeVar

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Idle, Item, RowValues, Watermark

Mode = Literal["design", "hz", "sound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """In what the documents, or the implementation, depart from sound rules."""

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
    idle_overtakes: bool = False
    """Idle messages pass the work that a processor still holds."""
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
    became idle last. The document has no rule for it, so `design` has none; Hazelcast and Flink let it through. So was
    Flink before FLINK-7728 (apache/flink pull request 4747); not on in `hz`."""
    event_leaves_idle: bool = False
    """An event ends the idleness of its input for the keys that there are, but the input still counts as idle for idle
    messages and for keys that first come. So was Hazelcast before pull request 22440; not on in `hz`."""
    end_counts_as_active: bool = False
    """An input that has ended without being idle keeps idle messages back for ever. So was Hazelcast before pull
    request 22440; not on in `hz`."""

    def __str__(self) -> str:
        """The options that are on."""
        return ", ".join(f.name for f in fields(self) if getattr(self, f.name)) or "no deviation"


SOUND: Final = Deviations()
DESIGN: Final = Deviations(highest_held_back=True)
ONE_IN_ONE_OUT: Final = (SOUND, DESIGN)
"""The rules by which coalescing of one input lets through what comes in."""
BY_NAME: Final = frozenset(
    {
        "end_counts_as_active",
        "event_leaves_idle",
        "highest_held_back",
        "keyed_idle",
    }
)
"""Options that do not belong to `hz`."""
SHIPPED: Final = Deviations(**{f.name: f.name not in BY_NAME for f in fields(Deviations)})


def deviations(mode: Mode) -> Deviations:
    """`sound`: none; `design`: that the highest is held back; `hz`: all of them but those `BY_NAME`."""
    return {"sound": SOUND, "design": DESIGN, "hz": SHIPPED}[mode]


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
