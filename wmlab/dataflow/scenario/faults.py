"""What can go wrong in a dataflow, as values. Times are ms after its start; without `for_ms` it lasts to the end."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.values import Ms, Period, value

Number = Annotated[int, Field(ge=0, lt=1_000, strict=True)]
"""A partition or an instance, from 0."""


@value
class SilentPartition:
    """Rows of a partition that would arrive in that time never do."""

    source: str
    partition: Number
    _: KW_ONLY
    at_ms: Ms = 0
    for_ms: Period | None = None
    kind: Literal["silent_partition"] = "silent_partition"


@value
class LatePartition:
    """Rows of a partition that would arrive in that time do so `by_ms` later, and those behind them not before."""

    source: str
    partition: Number
    _: KW_ONLY
    by_ms: Period
    at_ms: Ms = 0
    for_ms: Period | None = None
    kind: Literal["late_partition"] = "late_partition"


@value
class AddPartition:
    """A partition that its source does not know before `at_ms`; rows of it that came before arrive then."""

    source: str
    partition: Number
    _: KW_ONLY
    at_ms: Period
    kind: Literal["add_partition"] = "add_partition"


@value
class RemovePartition:
    """A partition that is gone from `at_ms` on, with all its rows to come."""

    source: str
    partition: Number
    _: KW_ONLY
    at_ms: Period
    kind: Literal["remove_partition"] = "remove_partition"


@value
class Disorder:
    """Rows of a source that would arrive in that time do so up to `by_ms` later, each by its own draw."""

    source: str
    _: KW_ONLY
    by_ms: Period
    at_ms: Ms = 0
    for_ms: Period | None = None
    kind: Literal["disorder"] = "disorder"


@value
class SlowCalls:
    """Calls that an asynchronous vertex makes in that time take `by_ms` longer; `first` of them only, if given."""

    vertex: str
    _: KW_ONLY
    by_ms: Period
    first: Annotated[int, Field(ge=1, strict=True)] | None = None
    at_ms: Ms = 0
    for_ms: Period | None = None
    kind: Literal["slow_calls"] = "slow_calls"


@value
class FailCall:
    """The first call that an asynchronous vertex makes from `at_ms` on fails when it returns, and the job with it."""

    vertex: str
    _: KW_ONLY
    at_ms: Ms = 0
    kind: Literal["fail_call"] = "fail_call"


@value
class Stall:
    """A vertex, or one instance of it, stands still: it takes nothing, and a source reads nothing."""

    vertex: str
    _: KW_ONLY
    instance: Number | None = None
    at_ms: Ms = 0
    for_ms: Period | None = None
    kind: Literal["stall"] = "stall"


@value
class SwallowAll:
    """A filter, or the filter of a source, lets no row pass."""

    vertex: str
    _: KW_ONLY
    at_ms: Ms = 0
    for_ms: Period | None = None
    kind: Literal["swallow_all"] = "swallow_all"


@value
class Restart:
    """The job is stopped at once and begins again from its last complete snapshot; sources read again from there.

    With `after_snapshot` a terminal snapshot is taken first, and the job restarts from that when it is complete.
    """

    at_ms: Period
    _: KW_ONLY
    after_snapshot: bool = False
    kind: Literal["restart"] = "restart"


Fault = Annotated[
    SilentPartition
    | LatePartition
    | AddPartition
    | RemovePartition
    | Disorder
    | SlowCalls
    | FailCall
    | Stall
    | SwallowAll
    | Restart,
    Field(discriminator="kind"),
]
"""Any entry of a dataflow's `faults`."""
