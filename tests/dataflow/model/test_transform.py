"""Steps without a memory, the late drop, what processors do by default, and the stateful map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dataflow.model.driving import RULES, Driven
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Event, FrozenMap
from wmlab.dataflow.model.processor import SHIPPED, Drop, EdgeDone, JobFailedError, Mode, Reason
from wmlab.dataflow.model.transform import LateDrop, StatefulMap, Transform


def test_rows_are_mapped_filtered_multiplied_and_merged() -> None:
    assert Driven(Transform(lambda row: [(row[0] * 2,)])).row(3) == [(6,)]
    assert Driven(Transform.filter(lambda row: row[0] > 3)).row(3) == []
    assert Driven(Transform.filter(lambda row: row[0] > 3)).row(4) == [(4,)]
    assert Driven(Transform(lambda row: [row, row])).row(3) == [(3,), (3,)]
    assert Driven(Transform.merge()).row(3, edge=1) == [(3,)]


def test_watermarks_of_every_key_and_idle_messages_pass_at_once() -> None:
    driven = Driven(Transform.merge())
    assert driven.wm(5, key=3) == [("wm", 3, 5)]
    assert driven.edge_wm(0, 5, key=3) == []
    assert driven.idle() == ["idle"]
    assert driven.do(EdgeDone(0)) == []
    assert driven.complete() == []
    assert driven.accepted


def test_an_answer_that_nobody_asked_for_is_a_mistake() -> None:
    with pytest.raises(ModelError, match="no call 0 to answer"):
        Driven(Transform.merge()).answer(0)


def test_a_transform_is_shown_without_its_function() -> None:
    assert repr(Transform.merge()) == "Transform(name='merge')"


def test_late_drop_says_by_which_rule_and_how_much() -> None:
    driven = Driven(LateDrop(time=1, key=2))
    driven.wm(100, key=0)
    assert driven.row("a", 9) == [("a", 9)]
    assert driven.wm(10, key=2) == [("wm", 2, 10)]
    assert driven.row("b", 10) == [("b", 10)]
    assert driven.row("c", 7) == []
    assert driven.drops == [Drop(0, Event(("c", 7)), "late drop", 2, 7, 10)]
    assert driven.drops[0].margin == 3


def test_late_drop_begins_again_at_the_lowest_watermark_of_all_instances() -> None:
    driven = Driven(LateDrop(time=0))
    driven.wm(10)
    assert driven.restarted(others=[7]).state == 7
    assert driven.restarted(others=[12]).state == 10


@pytest.mark.parametrize("row", [(None,), (), ("5",), (True,), (1.5,), (2**63,)])
def test_a_row_without_a_time_is_a_mistake(row: tuple[object, ...]) -> None:
    with pytest.raises(ModelError, match="is no time"):
        Driven(LateDrop(time=0)).row(*row)


def test_a_frozen_map_changes_by_making_another() -> None:
    empty: FrozenMap[str, int] = FrozenMap()
    one = empty.put("a", 1)
    two = one.put("b", 2)
    assert (dict(empty), dict(one), dict(two)) == ({}, {"a": 1}, {"a": 1, "b": 2})
    assert two.without("a", "z") == {"b": 2}
    assert hash(FrozenMap([("b", 2), ("a", 1)])) == hash(two)
    assert repr(two) == "{'a': 1, 'b': 2}"


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


def test_edge_case_24_late_rows_are_dropped_only_with_a_time_to_live(mode: Mode) -> None:
    mortal, immortal = counting(5, deviations=RULES[mode]), counting(deviations=RULES[mode])
    for driven in (mortal, immortal):
        driven.wm(10)
        driven.rows((9, "a"), (10, "a"))
    assert mortal.drops == [Drop(0, Event((9, "a")), "stateful map", 0, 9, 10)]
    assert mortal.out == [("wm", 0, 10), ("a", 1)]
    assert (immortal.drops, immortal.out) == ([], [("wm", 0, 10), ("a", 1), ("a", 2)])


def test_removal_stops_at_the_first_group_that_stays() -> None:
    driven = counting(5)
    driven.rows((10, "a"), (1, "b"))
    assert driven.wm(12) == [("wm", 0, 12)]
    driven.row(12, "a")
    assert driven.wm(13) == [("b", 1, 13), ("wm", 0, 13)]


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


def test_a_time_to_live_keeps_something() -> None:
    with pytest.raises(ModelError, match="time to live of 0"):
        counting(0)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=20))
def test_without_watermarks_every_row_is_counted_in_its_group(taken: list) -> None:
    groups = [group for _, group in taken]
    assert counting().rows(*taken) == [(group, groups[: n + 1].count(group)) for n, group in enumerate(groups)]
