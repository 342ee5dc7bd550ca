"""Transactions: their life, the order in which they are committed, and the writer marks that this produces.

A transaction is invisible until it is committed:

    state       commit      abort      merged and recorded   segments deleted
    open        committing  aborting   -                     -
    committing  committing  refused    committed             -
    committed   committed   refused    committed             -
    aborting    refused     aborting   -                     aborted
    aborted     refused     aborted    -                     aborted

Its position lists every segment of the epoch it was merged into, with the length of the segment after the merge. Of
the transactions that are committed together only one per writer gives a mark: the one with the largest time, the
first such one in commit order. A transaction that was committed without a time gives none.

Source: PDP-33, Writer Marks (transaction writers) and Event Writer API Changes; upstream classes `TxnStatus`,
`TransactionImpl`, `TxnFailedException`, `CommitRequestHandler`, `RecordHelper`, `CommittingTransactionsRecord` and
`PersistentStreamBase` (generateMarksForTransactions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Protocol, TypeVar
from uuid import UUID

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.marks import WriterMark
from wmlab.streams.model.position import Position

TimelessRule = Literal["no_mark", "minimum_long", "zero"]
MarksRule = Literal["per_batch", "per_transaction"]

_TIMELESS: Final = {"no_mark": None, "minimum_long": -(2**63), "zero": 0}


class TxnState(StrEnum):
    """Where a transaction is in its life."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTING = "aborting"
    ABORTED = "aborted"


class TxnEvent(StrEnum):
    """What happens to a transaction; the last two are the controller's own doing."""

    COMMIT = "commit"
    ABORT = "abort"
    MERGED = "merged"
    DELETED = "deleted"


_STEPS: Final = {
    TxnState.OPEN: {TxnEvent.COMMIT: TxnState.COMMITTING, TxnEvent.ABORT: TxnState.ABORTING},
    TxnState.COMMITTING: {TxnEvent.COMMIT: TxnState.COMMITTING, TxnEvent.MERGED: TxnState.COMMITTED},
    TxnState.COMMITTED: {TxnEvent.COMMIT: TxnState.COMMITTED, TxnEvent.MERGED: TxnState.COMMITTED},
    TxnState.ABORTING: {TxnEvent.ABORT: TxnState.ABORTING, TxnEvent.DELETED: TxnState.ABORTED},
    TxnState.ABORTED: {TxnEvent.ABORT: TxnState.ABORTED, TxnEvent.DELETED: TxnState.ABORTED},
}


def next_state(state: TxnState, event: TxnEvent) -> TxnState:
    """The next state by the table above; repeating what was done is not an error.

    Raises `ModelError` for what the table refuses.
    """
    if event not in _STEPS[state]:
        raise ModelError(f"Cannot {event} a transaction that is {state}.", remedy="Begin a new transaction.")
    return _STEPS[state][event]


def refuse_unless_open(state: TxnState, call: str) -> None:
    """Nothing, or `ModelError`: a client writes, commits and aborts open transactions only."""
    if state is not TxnState.OPEN:
        raise ModelError(f"Cannot {call} a transaction that is {state}.", remedy="Begin a new transaction.")


class WaitingTxn(Protocol):
    """A transaction whose commit was requested."""

    @property
    def epoch(self) -> int:
        """The epoch in which it began."""


AnyTxn = TypeVar("AnyTxn", bound=WaitingTxn)


def next_batch(waiting: Sequence[AnyTxn], limit: int = 100) -> tuple[AnyTxn, ...]:
    """The transactions that are committed together next: of the lowest epoch that has any, in the order given.

    `waiting` is in the order of the commit requests, so non-overlapping transactions of one writer stay in order.
    """
    lowest = min((txn.epoch for txn in waiting), default=0)
    return tuple(txn for txn in waiting if txn.epoch == lowest)[:limit]


def targets(history: StreamHistory, txn_epoch: int, into_epoch: int) -> Mapping[int, int]:
    """For every segment of the transaction's epoch the segment it is merged into: that of the same number.

    `into_epoch` is the active epoch when that has the same ranges, else the transaction epoch's new duplicate. Raises
    `ModelError` when the ranges differ.
    """
    into = {segment.number: segment for segment in history.epoch(into_epoch).segments}
    pairs = {}
    for segment in history.epoch(txn_epoch).segments:
        target = into.get(segment.number)
        if target is None or target.keys != segment.keys:
            raise ModelError(
                f"Segment {segment.name} has no counterpart in epoch {into_epoch}.",
                remedy="Roll the transaction: merge it into a duplicate of its own epoch.",
            )
        pairs[segment.id] = target.id
    return pairs


def needs_rolling(history: StreamHistory, txn_epoch: int) -> bool:
    """Whether the active epoch has other segments than the transaction's, so that two duplicates have to be added."""
    return history.origin(txn_epoch) != history.origin(history.active.number)


@dataclass(frozen=True, slots=True)
class CommittedTxn:
    """A merged transaction: its writer, the time given at commit (None: none) and where the merge ended."""

    writer: str
    time: int | None
    position: Position


def commit_time(time: int | None, rule: TimelessRule = "no_mark") -> int | None:
    """The time that a commit carries when its writer gave `time`; `rule` says what becomes of None.

    Source: PDP-33, Internal Changes (null); upstream PR 6283 (the minimum long) and issue 4291 (zero).
    """
    return _TIMELESS[rule] if time is None else time


def marks_of(committed: Sequence[CommittedTxn], rule: MarksRule = "per_batch") -> tuple[tuple[int, WriterMark], ...]:
    """The marks to note for one batch, each with the index of its transaction in `committed`.

    "per_batch": one for each writer, its largest time, the first such, writers in the order of their first time.
    "per_transaction": one for every transaction that has a time, in commit order (upstream issue 4357).
    """
    chosen: dict[object, tuple[int, WriterMark]] = {}
    for index, txn in enumerate(committed):
        key = txn.writer if rule == "per_batch" else index
        if txn.time is not None and (key not in chosen or txn.time > chosen[key][1].time):
            chosen[key] = index, WriterMark(txn.time, txn.position)
    return tuple(chosen.values())


def txn_epoch(txn: UUID) -> int:
    """The epoch in which a transaction began: the top 32 bits of its id."""
    return txn.int >> 96
