"""Planner rules: which key is on which column, and how coarse the watermarks of a source may be."""

from __future__ import annotations

import pytest

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.keys import DropLate, Join, Other, Project, Scan, Union, WindowAggregate, assign_keys
from wmlab.dataflow.model.source import pipeline_frame_ms, sql_frame_ms


def test_scans_are_numbered_in_the_order_of_the_plan() -> None:
    found = assign_keys(Join(Join(Scan(0), Scan(), 2), Join(Scan(1), Scan(0), 2), 3))
    assert found.at() == {0: 0, 4: 1, 5: 2}
    assert (found.at(0), found.at(0, 1), found.at(1), found.at(1, 1)) == ({0: 0}, {}, {1: 1, 2: 2}, {0: 2})


def test_a_projection_keeps_the_key_of_a_plain_column() -> None:
    assert assign_keys(Project(Scan(1), (None, 1, 0, 1))).at() == {1: 0, 3: 0}
    assert assign_keys(Project(Scan(1), (0, None))).at() == {}


def test_a_union_makes_one_key_of_those_of_its_inputs() -> None:
    plan = Union((Scan(0), Project(Scan(1), (1, 0)), DropLate(Scan(0))))
    found = assign_keys(plan)
    assert found.at() == {0: 0}
    assert found.at(1, 0) == {1: 0}
    assert found.at(2) == {0: 0}


def test_a_union_with_an_input_without_watermarks_has_none() -> None:
    assert assign_keys(Union((Scan(0), Scan()))).at() == {}
    assert assign_keys(Union(())).at() == {}


def test_unions_of_unions_end_up_with_one_key() -> None:
    plan = Union((Union((Scan(0), Scan(0))), Union((Scan(0), Scan(0)))))
    assert set(assign_keys(plan).columns) == {(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)}
    assert set(map(tuple, (keys.items() for keys in assign_keys(plan).columns.values()))) == {((0, 0),)}


def test_a_join_with_a_batch_keeps_the_left_keys() -> None:
    assert assign_keys(Join(Scan(0), Scan(0), 2, batch=True)).at() == {0: 0}


def test_a_self_join_has_two_keys() -> None:
    assert assign_keys(Join(Scan(0), Scan(0), 1)).at() == {0: 0, 1: 1}


def test_a_window_has_its_key_on_the_window_ends() -> None:
    plan = WindowAggregate(Join(Scan(0), Scan(0), 1), time=1, ends=(1, 3))
    assert assign_keys(plan).at() == {1: 1, 3: 1}
    assert assign_keys(WindowAggregate(Scan(0), time=1, ends=(1,))).at() == {}


def test_other_operators_break_the_chain() -> None:
    assert assign_keys(Other((Scan(0),))).at() == {}


def test_there_are_128_keys() -> None:
    assert len(assign_keys(Other((Scan(0),) * 128)).columns) == 129
    with pytest.raises(ModelError, match="more than 128"):
        assign_keys(Other((Scan(0),) * 129))


@pytest.mark.parametrize(
    ("slides", "spreads", "frame"),
    [
        ([], [], 100),
        ([3], [], 3),
        ([2, 5], [], 1),
        ([1_000, 400], [], 100),
        ([], [250, 200], 20),
        ([], [5], 1),
        ([], [100_000], 100),
        ([30], [200], 20),
        ([10], [200], 10),
    ],
)
def test_the_frame_of_a_query(slides: list[int], spreads: list[int], frame: int) -> None:
    assert sql_frame_ms(slides, spreads) == frame


@pytest.mark.parametrize(
    ("slides", "timeouts", "frame"),
    [
        ([], [], 1_000),
        ([500, 200], [], 100),
        ([300], [], 300),
        ([1_500], [], 500),
        ([7_000], [], 1_000),
        ([], [50], 1),
        ([], [5_000], 50),
        ([], [60_000], 100),
        ([30], [5_000], 10),
    ],
)
def test_the_frame_of_a_pipeline(slides: list[int], timeouts: list[int], frame: int) -> None:
    assert pipeline_frame_ms(slides, timeouts) == frame
