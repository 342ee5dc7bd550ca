"""PDP-33, Client Changes; upstream `EventStreamWriterImpl`, `CommitRequestHandler`: where positions come from."""

from __future__ import annotations

from uuid import UUID

import pytest

from wmlab.core.errors import ModelError
from wmlab.streams.model.marks import (
    AutomaticNotes,
    WriterMark,
    acknowledge,
    add_segment,
    refuse_explicit_note,
    remove_segment,
)
from wmlab.streams.model.position import Position
from wmlab.streams.model.txn import CommittedTxn, marks_of, txn_epoch
from wmlab.streams.model.window import LatestItem


def test_a_segment_just_opened_has_nothing_acknowledged() -> None:
    position = add_segment(Position({"0@0": 5}), 1)
    assert position == Position({"0@0": 5, "1@0": None})
    assert add_segment(position, 0) is position


def test_an_acknowledgement_never_takes_back() -> None:
    position = acknowledge(Position({"0@0": None}), 0, 8)
    assert acknowledge(position, 0, 4) == position == Position({"0@0": 8})


def test_an_acknowledgement_leaves_the_other_segments_as_they_were() -> None:
    before = Position({"0@0": 3, "1@0": None, "0@1": 7})
    after = acknowledge(before, 1, 9)
    assert after == Position({"0@0": 3, "1@0": 9, "0@1": 7})
    assert (list(after), hash(after)) == (list(before), hash(Position(dict(after))))
    assert before == Position({"0@0": 3, "1@0": None, "0@1": 7})
    with pytest.raises(ModelError, match="negative"):
        acknowledge(before, 1, -1)


def test_a_sealed_segment_goes_when_it_is_dealt_with() -> None:
    assert remove_segment(Position({"0@0": 5, "1@0": None}), 0) == Position({"1@0": None})


def test_a_foreign_acknowledgement_is_refused() -> None:
    with pytest.raises(ModelError, match="does not hold"):
        acknowledge(Position(), 0, 4)


def test_automatic_notes_come_every_five_seconds() -> None:
    assert list(AutomaticNotes().times_ms(1_000, 16_000)) == [6_000, 11_000, 16_000]
    with pytest.raises(ModelError, match="automatically"):
        refuse_explicit_note(AutomaticNotes())
    assert refuse_explicit_note(None) is None


def test_one_mark_per_writer_the_first_with_the_largest_time() -> None:
    at = [Position({"0@0": offset}) for offset in range(5)]
    committed = [
        CommittedTxn("a", 5, at[0]),
        CommittedTxn("b", None, at[1]),
        CommittedTxn("a", 7, at[2]),
        CommittedTxn("a", 7, at[3]),
        CommittedTxn("a", 6, at[4]),
    ]
    assert marks_of(committed) == ((2, WriterMark(7, at[2])),)


def test_the_epoch_of_a_transaction_is_in_its_id() -> None:
    assert txn_epoch(UUID(int=101 << 96 | 5)) == 101


def test_of_the_positions_that_wait_only_the_newest_is_looked_at() -> None:
    worker = LatestItem[str]().offer("a").offer("b").offer("c")
    assert (worker.working_on, worker.waiting) == (("a",), ("c",))
    assert worker.done() == LatestItem(("c",))
    assert worker.done().done() == LatestItem()
