"""Steps without a memory, the late drop, what processors do by default, and the stateful map."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.dataflow.model.driving import RULES, SHIPPED, Driven, merge
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.processor import Drop, JobFailedError, Reason
from wmlab.dataflow.model.transform import LateDropProcessor, StatefulMapProcessor, Transform


@pytest.mark.parametrize(
    ("function", "rows"),
    [(lambda row: [(row[0] * 2,)], [(6,), (8,)]), (lambda row: [row, row] if row[0] > 3 else [], [(4,), (4,)])],
    ids=["map", "filter and flat map"],
)
def test_rows_are_mapped_filtered_multiplied_and_merged(function: Any, rows: list) -> None:
    driven = Driven(Transform(function))
    assert driven.row(3) + driven.row(4, edge=1) == rows


@pytest.mark.parametrize("step", [merge(), Transform(lambda row: [])], ids=["merge", "filter"])
def test_watermarks_of_every_key_and_idle_messages_pass_at_once(step: Transform) -> None:
    driven = Driven(step)
    assert driven.wm(5, key=3) == [("wm", 3, 5)]
    assert driven.edge_wm(0, 5, key=3) == []
    assert driven.idle() == ["idle"]
    assert driven.complete() == []
    assert driven.accepted


def test_late_drop_says_by_which_rule_and_how_much() -> None:
    driven = Driven(LateDropProcessor(time=1, key=2))
    driven.wm(100, key=0)
    assert driven.row("a", 9) == [("a", 9)]
    assert driven.wm(10, key=2) == [("wm", 2, 10)]
    assert driven.rows(("b", 10), ("c", 7)) == [("b", 10)]
    assert driven.drops == [Drop(0, ("c", 7), "late drop", 2, 7, 10)]
    assert [driven.restarted(LateDropProcessor(time=1, key=2), others=[other]).state for other in (7, 12)] == [7, 10], (
        "the lowest of all instances"
    )


@pytest.mark.parametrize("row", [(None,), (), ("5",), (True,), (1.5,), (2**63,)])
def test_a_row_without_a_time_is_a_mistake(row: tuple[object, ...]) -> None:
    with pytest.raises(ModelError, match="is not a time"):
        Driven(LateDropProcessor(time=0)).row(*row)


def counting(ttl: int | None = 5, **options: object) -> Driven:
    """Rows (time, group) become (group, how many so far); a group that is removed says (group, count, watermark)."""
    given_options = {
        "on_row": lambda memory, row: (memory + 1, [(row[1], memory + 1)]),
        "on_evict": lambda memory, group, watermark: [(*group, memory, watermark)],
        **options,
    }
    return Driven(StatefulMapProcessor(initial=0, time=0, group=(1,), ttl=ttl, **given_options))


def test_edge_case_24_late_rows_are_dropped_only_with_a_time_to_live(rules: str) -> None:
    for ttl, counted, drops in (
        (5, [1], [Drop(0, (9, "a"), "stateful map", 0, 9, 10)]),
        (None, [1, 2], []),
    ):
        driven = counting(ttl, deviations=RULES[rules])
        driven.wm(10)
        driven.rows((9, "a"), (10, "a"))
        assert (driven.out, driven.drops) == ([("wm", 0, 10), *(("a", count) for count in counted)], drops)


def test_removal_stops_at_the_first_group_that_stays_and_is_silent_without_a_callback() -> None:
    for options, left in (({}, [("b", 1, 13)]), ({"on_evict": None}, [])):
        driven = counting(**options)
        driven.rows((10, "a"), (1, "b"))
        assert driven.wm(12) == [("wm", 0, 12)]
        driven.row(12, "a")
        assert driven.wm(13) == [*left, ("wm", 0, 13)]
        assert driven.size == 1


@pytest.mark.parametrize(("key", "removed", "size"), [(0, [], 1), (1, [("a", 1, 100)], 0)])
def test_watermarks_of_other_keys_pass_and_remove_nothing(key: int, removed: list, size: int) -> None:
    driven = counting(key=key)
    driven.row(1, "a")
    assert driven.wm(100, key=1) == [*removed, ("wm", 1, 100)]
    assert driven.size == size


def test_other_keys_are_refused_as_shipped() -> None:
    with pytest.raises(JobFailedError, match="100 of key 1") as failure:
        counting(deviations=SHIPPED).wm(100, key=1)
    assert failure.value.reason == Reason.UNSUPPORTED_KEY


def test_a_restart_takes_its_own_groups_and_the_lowest_watermark() -> None:
    driven, other = counting(), counting()
    driven.row(10, "a")
    driven.wm(10)
    other.wm(8)
    again = driven.restarted(counting().processor, others=[other.state])
    assert again.rows((8, "a"), (7, "a")) == [("a", 2)]
    assert len(again.drops) == 1


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=20))
def test_without_watermarks_every_row_is_counted_in_its_group(taken: list) -> None:
    groups = [group for _, group in taken]
    assert counting(None).rows(*taken) == [(group, groups[: n + 1].count(group)) for n, group in enumerate(groups)]
