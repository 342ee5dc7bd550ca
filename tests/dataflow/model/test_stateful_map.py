"""The stateful map: time to live, order of use, and which keys it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.driving import MODES, Driven, rows
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.deviations import SHIPPED, deviations
from wmlab.dataflow.model.items import MAX, Event
from wmlab.dataflow.model.processor import Drop, JobFailedError, Reason
from wmlab.dataflow.model.transform import StatefulMap


def counting(ttl: int | None = None, **options: object) -> Driven:
    """Rows (time, group) become (group, how many so far); a group that is removed says (group, count, watermark)."""
    return Driven(
        StatefulMap(
            on_row=lambda memory, row: (memory + 1, [(row[1], memory + 1)]),
            initial=0,
            time=0,
            group=(1,),
            ttl=ttl,
            on_evict=lambda memory, group, watermark: [(*group, memory, watermark)],
            **options,
        )
    )


@pytest.mark.parametrize("mode", MODES)
def test_edge_case_24_late_rows_are_dropped_only_with_a_time_to_live(mode: str) -> None:
    mortal, immortal = counting(5, deviations=deviations(mode)), counting(deviations=deviations(mode))
    for driven in (mortal, immortal):
        driven.wm(10)
        driven.row(9, "a")
        driven.row(10, "a")
    assert mortal.drops == [Drop(0, Event((9, "a")), "stateful map", 0, 9, 10)]
    assert mortal.out == [("wm", 0, 10), ("a", 1)]
    assert (immortal.drops, immortal.out) == ([], [("wm", 0, 10), ("a", 1), ("a", 2)])


def test_a_group_lives_until_the_watermark_is_past_its_time_to_live() -> None:
    driven = counting(5)
    driven.row(10, "a")
    assert driven.wm(15) == [("wm", 0, 15)]
    assert driven.wm(16) == [("a", 1, 16), ("wm", 0, 16)]
    assert driven.size == 0


def test_removal_stops_at_the_first_group_that_stays() -> None:
    driven = counting(5)
    driven.row(10, "a")
    driven.row(1, "b")
    assert driven.wm(12) == [("wm", 0, 12)]
    driven.row(12, "a")
    assert driven.wm(13) == [("b", 1, 13), ("wm", 0, 13)]


def test_a_group_is_touched_at_its_highest_time() -> None:
    driven = counting(5)
    driven.row(10, "a")
    driven.row(1, "a")
    assert driven.wm(15) == [("wm", 0, 15)]


def test_the_end_removes_all_groups() -> None:
    driven = counting()
    driven.row(1, "a")
    driven.row(1, "b")
    assert driven.complete() == [("a", 1, MAX), ("b", 1, MAX)]


def test_without_a_callback_groups_go_silently() -> None:
    silent = Driven(StatefulMap(on_row=lambda memory, row: (memory, []), initial=0, time=0, ttl=1))
    silent.row(1)
    assert (silent.wm(9), silent.size) == ([("wm", 0, 9)], 0)


def test_other_keys_pass_or_are_refused() -> None:
    driven = counting(5)
    driven.row(1, "a")
    assert driven.wm(100, key=1) == [("wm", 1, 100)]
    assert driven.size == 1
    with pytest.raises(JobFailedError, match="100 of key 1") as failure:
        counting(5, deviations=SHIPPED).wm(100, key=1)
    assert failure.value.reason == Reason.UNSUPPORTED_KEY
    driven = counting(5, key=1)
    driven.row(1, "a")
    assert driven.wm(100, key=1) == [("a", 1, 100), ("wm", 1, 100)]


def test_a_restart_takes_its_own_groups_and_the_lowest_watermark() -> None:
    driven, other = counting(5), counting(5)
    driven.row(10, "a")
    driven.wm(10)
    other.wm(8)
    again = driven.restarted(others=[other.state])
    assert again.row(8, "a") == [("a", 2)]
    again.row(7, "a")
    assert len(again.drops) == 1
    assert driven.processor.restore([]) == driven.processor.start()
    assert driven.processor.may_snapshot(driven.state)


def test_a_time_to_live_keeps_something() -> None:
    with pytest.raises(ModelError, match="time to live of 0"):
        counting(0)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=20))
def test_without_watermarks_every_row_is_counted_in_its_group(taken: list) -> None:
    driven = counting()
    for row in taken:
        driven.row(*row)
    expected, counts = [], dict.fromkeys("abc", 0)
    for _, group in taken:
        counts[group] += 1
        expected.append((group, counts[group]))
    assert rows(driven.out) == expected
