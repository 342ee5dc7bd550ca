"""Steps without a memory, the late drop, and what processors do by default."""

from __future__ import annotations

import pickle

import pytest

from tests.dataflow.model.driving import Driven
from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Event, FrozenMap
from wmlab.dataflow.model.processor import Drop, EdgeDone
from wmlab.dataflow.model.transform import LateDrop, Transform


def test_rows_are_mapped_filtered_multiplied_and_merged() -> None:
    assert Driven(Transform.map(lambda row: (row[0] * 2,))).row(3) == [(6,)]
    assert Driven(Transform.map(lambda row: None)).row(3) == []
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
    with pytest.raises(ModelError, match="cannot take"):
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
    assert pickle.loads(pickle.dumps(two)) == two
    assert repr(two) == "{'a': 1, 'b': 2}"
