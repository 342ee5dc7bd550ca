"""Session windows: edge cases 26 and 27, and equality with a batch query."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.driving import Driven, rows
from tests.dataflow.model.test_window import HISTORIES
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.aggregate import Aggregate
from wmlab.dataflow.model.items import Event
from wmlab.dataflow.model.processor import Drop
from wmlab.dataflow.model.session import SessionWindow


def sessions(timeout: int = 10, **options: object) -> Driven:
    """Counts of rows (time, group)."""
    given_options = {"group": (1,), "aggregates": (Aggregate("count"),), **options}
    return Driven(SessionWindow(timeout=timeout, time=0, **given_options))


def test_edge_case_26_a_session_that_ends_at_the_watermark_stays() -> None:
    driven = sessions()
    driven.row(0, "a")
    assert driven.wm(10) == [("wm", 0, 10)]
    assert driven.wm(11) == [(0, 10, "a", 1), ("wm", 0, 11)]


def test_edge_case_27_touching_sessions_stay_apart() -> None:
    driven = sessions()
    driven.row(0, "a")
    driven.row(10, "a")
    assert driven.size == 2
    assert driven.complete() == [(0, 10, "a", 1), (10, 20, "a", 1)]


def test_edge_case_27_one_row_joins_two_sessions() -> None:
    driven = sessions(aggregates=(Aggregate("list", 0),))
    driven.row(15, "a")
    driven.row(0, "a")
    assert driven.size == 2
    driven.row(8, "a")
    assert driven.size == 1
    assert driven.complete() == [(0, 25, "a", (0, 15, 8))]


def test_edge_case_24_a_row_below_the_watermark_is_late_whatever_is_open() -> None:
    driven = sessions()
    driven.row(0, "a")
    driven.wm(5)
    driven.row(4, "a")
    driven.row(5, "a")
    assert driven.drops == [Drop(0, Event((4, "a")), "session", 0, 4, 5)]
    assert driven.complete() == [(0, 15, "a", 2)]


def test_only_one_key_closes_sessions() -> None:
    driven = sessions(key=1)
    driven.row(0, "a")
    assert driven.wm(50, key=0) == []
    assert driven.wm(50, key=1) == [(0, 10, "a", 1), ("wm", 1, 50)]


def test_a_restart_takes_its_own_sessions_and_the_lowest_watermark() -> None:
    driven, other = sessions(), sessions()
    driven.row(20, "a")
    driven.wm(12)
    other.row(3, "b")
    other.wm(2)
    again = driven.restarted(others=[other.state])
    again.row(2, "a")
    assert again.drops == []
    assert again.complete() == [(2, 12, "a", 1), (20, 30, "a", 1)]
    assert driven.processor.restore([]) == driven.processor.start()
    assert driven.processor.may_snapshot(driven.state)


def test_a_session_needs_a_timeout() -> None:
    with pytest.raises(ModelError, match="timeout of 0"):
        sessions(0)


def batch(taken: list[tuple[int, str]], timeout: int) -> Counter:
    """Sessions as a scan over the sorted times of every group finds them."""
    found: Counter = Counter()
    for group in "ab":
        times = sorted(time for time, one in taken if one == group)
        gaps = [0, *(n for n in range(1, len(times)) if times[n] - times[n - 1] >= timeout), len(times)]
        for low, high in itertools.pairwise(gaps):
            if high > low:
                found[(times[low], times[high - 1] + timeout, group, high - low)] += 1
    return found


@given(st.lists(st.tuples(st.integers(-12, 30), st.sampled_from("ab")), max_size=20), st.integers(1, 8))
def test_sessions_equal_a_batch_query(taken: list, timeout: int) -> None:
    driven = sessions(timeout)
    for row in taken:
        driven.row(*row)
    assert Counter(driven.complete()) == batch(taken, timeout)


@given(HISTORIES, st.integers(1, 8))
def test_a_session_that_left_is_never_touched_again(history: list, timeout: int) -> None:
    driven, watermark, taken = sessions(timeout), -15, []
    for stimulus in history:
        if stimulus[0] == "wm":
            watermark += stimulus[1]
            driven.wm(watermark)
        else:
            driven.row(*stimulus[1:])
            taken += [stimulus[1:]] if stimulus[1] >= watermark else []
    driven.complete()
    assert len(taken) == sum(row[3] for row in rows(driven.out))
    assert Counter(rows(driven.out)) == batch(taken, timeout)
