"""Transactions: the writer marks that committing them produces.

A transaction is invisible until it is committed. Its position lists every segment of the epoch it was merged into,
with the length of the segment after the merge. Of the transactions that are committed together only one per writer
gives a mark: the one with the largest time, the first such one in commit order. A transaction that was committed
without a time gives none.

Source: PDP-33, Writer Marks (transaction writers); upstream class `CommitRequestHandler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from wmlab.model.marks import WriterMark
from wmlab.model.position import Position


@dataclass(frozen=True, slots=True)
class CommittedTxn:
    """A merged transaction: its writer, the time given at commit (None: none) and where the merge ended.

    Source: PDP-33, Writer Marks; upstream class `CommitRequestHandler`.
    """

    writer: str
    time: int | None
    position: Position


def batch_marks(committed: Sequence[CommittedTxn]) -> Mapping[str, WriterMark]:
    """The mark of each writer for the transactions of one batch, given in commit order.

    Source: upstream class `PersistentStreamBase` (generateMarksForTransactions).
    """
    marks: dict[str, WriterMark] = {}
    for txn in committed:
        if txn.time is not None and (txn.writer not in marks or txn.time > marks[txn.writer].time):
            marks[txn.writer] = WriterMark(txn.time, txn.position)
    return marks


def txn_epoch(txn: UUID) -> int:
    """The epoch in which a transaction began: the top 32 bits of its id. Source: upstream class `RecordHelper`."""
    return txn.int >> 96
