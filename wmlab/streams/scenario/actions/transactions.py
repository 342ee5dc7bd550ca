"""What can happen to transactions: explicit commits, writes and aborts, delays, lost replies, a failure in between.

A transaction is named after its writer and counted from 1: `t1-1`, `t1-2`. Where a name may be left out, the
writer's oldest open transaction is meant. Source: PDP-33, "Controller Changes"; upstream `CommitRequestHandler`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from wmlab.core.units import Ms, Period
from wmlab.core.values import value
from wmlab.streams.scenario.actions.controllers import CommitPoint

Count = Annotated[int, Field(gt=0, strict=True)]


def _time_or_policy(offered: object) -> object:
    if offered in (None, "policy") or (type(offered) is int and -(2**63) <= offered < 2**63):
        return offered
    raise ValueError('give "policy", a 64-bit integer, or nothing for a commit without a time')


CommitTime = Annotated[int | Literal["policy"] | None, BeforeValidator(_time_or_policy)]


@value
class CommitTransaction:
    """Commit a transaction now, whatever its writer had planned.

    `time` is the time of `commit(time)`: what the writer's noting policy says, a given time, or None for `commit()`.
    Committing one that is not open is an error, which is recorded.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    transaction: str | None = None
    time: CommitTime = "policy"
    kind: Literal["commit_transaction"] = "commit_transaction"


@value
class AbortTransaction:
    """Abort a transaction now; nobody ever sees its events.

    `backlog` says what becomes of them: `lost`, or `kept` by their source and written in the next transaction.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    transaction: str | None = None
    backlog: Literal["lost", "kept"] = "lost"
    kind: Literal["abort_transaction"] = "abort_transaction"


@value
class WriteInTransaction:
    """Write in a transaction now what the writer was given so far, without waiting for its batch.

    Writing in one that is not open is an error, which is recorded; what was to be written goes into the next open one.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    transaction: str | None = None
    kind: Literal["write_in_transaction"] = "write_in_transaction"


@value
class SlowTransaction:
    """Hold the writer's oldest open transaction open for `hold_ms` longer than planned."""

    _: KW_ONLY
    at_ms: Ms
    writer: str
    hold_ms: Period
    kind: Literal["slow_transaction"] = "slow_transaction"


@value
class LoseMergeReply:
    """Lose the next `count` answers of the segment store to merge requests.

    `noticed_after_ms` later the controller asks again, hears that the transaction is merged already, and takes the
    segment's length instead of the offset (PDP-33, "Server Changes").
    """

    _: KW_ONLY
    at_ms: Ms
    count: Count = 1
    noticed_after_ms: Period = 1_000
    stream: str | None = None
    kind: Literal["lose_merge_reply"] = "lose_merge_reply"


@value
class CrashCommitHandler:
    """The handler of a stream's commits fails the next time it comes to `point`; the batch is tried again later.

    Its controller goes on: `CrashController(controller="committer", point=...)` takes that down too, and another one
    commits once the session has ended.
    """

    _: KW_ONLY
    at_ms: Ms
    point: CommitPoint = "after_merge"
    restart_after_ms: Period = 1_000
    stream: str | None = None
    kind: Literal["crash_commit_handler"] = "crash_commit_handler"
