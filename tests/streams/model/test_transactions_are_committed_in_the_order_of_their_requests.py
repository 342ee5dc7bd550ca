"""A transaction's life, the batches in which commits happen, and the marks a batch notes."""

from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.txn import (
    CommittedTxn,
    TxnEvent,
    TxnState,
    commit_time,
    marks_of,
    needs_rolling,
    next_batch,
    next_state,
    refuse_unless_open,
    targets,
)


@pytest.mark.parametrize(
    ("state", "commit", "abort", "merged", "deleted"),
    [
        ("open", "committing", "aborting", None, None),
        ("committing", "committing", None, "committed", None),
        ("committed", "committed", None, "committed", None),
        ("aborting", None, "aborting", None, "aborted"),
        ("aborted", None, "aborted", None, "aborted"),
    ],
)
def test_every_state_admits_what_the_table_says(state, commit, abort, merged, deleted) -> None:
    wanted = {"commit": commit, "abort": abort, "merged": merged, "deleted": deleted}
    for event in TxnEvent:
        if wanted[event] is None:
            with pytest.raises(ModelError, match=f"Cannot {event} a transaction that is {state}"):
                next_state(TxnState(state), event)
        else:
            assert next_state(TxnState(state), event) == wanted[event]


def test_a_client_uses_open_transactions_only() -> None:
    refuse_unless_open(TxnState.OPEN, "write to")
    for state in set(TxnState) - {TxnState.OPEN}:
        with pytest.raises(ModelError, match=f"Cannot write to a transaction that is {state}"):
            refuse_unless_open(state, "write to")


@dataclass(frozen=True)
class Asked:
    number: int
    epoch: int


@given(st.lists(st.integers(0, 3)), st.integers(1, 5))
def test_batches_keep_the_order_and_take_the_lowest_epoch_first(epochs: list[int], limit: int) -> None:
    waiting = [Asked(number, epoch) for number, epoch in enumerate(epochs)]
    committed: list[Asked] = []
    while batch := next_batch(waiting, limit):
        assert len(batch) <= limit
        assert {txn.epoch for txn in batch} == {min(txn.epoch for txn in waiting)}
        committed += batch
        waiting = [txn for txn in waiting if txn not in batch]
    assert not waiting
    assert committed == sorted(committed, key=lambda txn: (txn.epoch, txn.number))


def test_without_batching_every_transaction_with_a_time_notes_it() -> None:
    batch = [CommittedTxn("a", time, Position({0: 7})) for time in (5, None, 3)]
    assert [(index, mark.time) for index, mark in marks_of(batch, "per_transaction")] == [(0, 5), (2, 3)]


def test_no_time_is_no_mark_unless_an_implementation_says_otherwise() -> None:
    assert [commit_time(None, rule) for rule in ("no_mark", "minimum_long", "zero")] == [None, -(2**63), 0]
    assert commit_time(7, "zero") == 7


def test_a_transaction_is_merged_into_the_segments_of_its_numbers() -> None:
    history = StreamHistory.create(2)
    assert targets(history, 0, 0) == {0: 0, 1: 1}
    assert not needs_rolling(history, 0)
    scaled = history.scale(["0@0"], 2)
    assert needs_rolling(scaled, 0)
    with pytest.raises(ModelError, match="Segment 0@0 has no counterpart in epoch 1"):
        targets(scaled, 0, 1)
    rolled = scaled.roll(0)
    assert targets(rolled, 0, 2) == {0: 2 << 32, 1: (2 << 32) + 1}
    assert not needs_rolling(rolled, 1)
    assert sorted(targets(rolled, 1, 3).values()) == sorted(rolled.active.ids)
