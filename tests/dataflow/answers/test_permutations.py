"""The permutation explorer as a user meets it: of one merging, and of a whole dataflow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmlab import dataflow as flow
from wmlab.core.errors import WmlabError
from wmlab.dataflow.answers.permutations import Permutations

IDLE_LAST = [[10, "idle"], [20, "idle"]]
SMALL = flow.Dataflow(
    "small",
    vertices=[
        flow.Source("a", columns=["t"], rows=[[10], [120]], times="t", every_ms=0, ends=True),
        flow.Source("b", columns=["t"], rows=[[60]], times="t", every_ms=0, ends=True),
        flow.Merge("merge"),
        flow.Sink("out"),
    ],
    edges=["a -> merge -> out", "b -> merge"],
)


def test_the_order_of_idle_messages_in_three_rules() -> None:
    designed = flow.permutations(IDLE_LAST)
    assert designed.finals == ("20, idle",)
    assert designed.sentence == (
        "merging 2 inputs (design): 6 interleavings (all) give 2 distinct outputs and 1 final value. "
        "The steps differ, the end does not: 20, idle."
    )
    before = flow.permutations(IDLE_LAST, rule="no flush")
    assert [(one.output, one.count) for one in before] == [
        (("10", "idle"), 3),
        (("10", "20", "idle"), 2),
        (("20", "idle"), 1),
    ]
    assert before.finals == ("10, idle", "20, idle")
    assert "depends on the order: 10, idle or 20, idle" in before.sentence
    assert len(flow.permutations([[10, "idle"], [20, "done"]], mode="hz").finals) == 2
    assert len(flow.permutations([[10, "idle"], [20, "done"]], deviations=["done_hides_idle"]).finals) == 2
    assert len(flow.permutations([[10, "idle"], [20, "done"]]).finals) == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 30), unique=True, max_size=3).map(sorted), min_size=2, max_size=3))
def test_the_final_value_is_the_highest_whatever_the_order(marks: list[list[int]]) -> None:
    found = flow.permutations([[*values, "idle"] for values in marks])
    highest = max((value for values in marks for value in values), default=None)
    assert found.finals == (f"{highest}, idle" if highest is not None else "no watermark, idle",)
    assert sum(one.count for one in found) == found.tried == found.total


def test_failing_orders_are_counted() -> None:
    found = flow.permutations({"x": [1, "idle", "done"], "y": [(1, 5), "done"]}, mode="hz")
    failed = [one for one in found if one.failure is not None]
    assert failed
    assert {one.final for one in failed} == {"fails"}
    assert f"; {sum(one.count for one in failed)} of them fail" in found.sentence
    assert set(failed[0].example) <= {"x", "y"}


def test_beyond_the_limit_orders_are_drawn() -> None:
    inputs = [[3 * n + place for n in range(1, 6)] for place in range(3)]
    found = flow.permutations(inputs, limit=10, samples=300, seed=2)
    assert (found.exact, found.tried, found.total) == (False, 300, 756_756)
    assert "300 interleavings (drawn of 756 756)" in found.sentence
    assert found == flow.permutations(inputs, limit=10, samples=300, seed=2)


def test_a_dataflow_in_every_order_of_turns() -> None:
    tiny = flow.Dataflow(
        "tiny",
        vertices=[
            flow.Source("a", columns=["t"], rows=[[10]], every_ms=0),
            flow.Source("b", columns=["t"], rows=[[60]], every_ms=0),
            flow.Sink("out"),
        ],
        edges=["a -> out", "b -> out"],
    )
    found = tiny.permutations(400, exhaustive=True)
    assert (found.exact, found.tried, len(found)) == (True, 12, 1)
    assert found.outcomes[0].output == ('{"t": 10}', '{"t": 60}')
    assert found.sentence.endswith("The order does not matter.")
    assert tiny.permutations(3, exhaustive=True).exact is False


def test_a_dataflow_whose_result_depends_on_the_order() -> None:
    racing = flow.Dataflow(
        "race",
        vertices=[
            flow.Source("a", columns=["t"], rows=[[10]], times="t", every_ms=0, ends=True),
            flow.Source("b", columns=["t"], rows=[[60]], times=(), every_ms=0, ends=True),
            flow.Merge("merge"),
            flow.StatefulMap("seen", column="t", aggregates={"n": "count()"}),
            flow.Sink("out"),
        ],
        edges=["a -> merge -> seen -> out", "b -> merge"],
    )
    found = racing.permutations(30)
    assert len(found) == 2
    assert found.finals == ("result 1", "result 2")
    assert sum(one.count for one in found) == 30
    assert found.exact is False
    other = found.outcomes[1]
    seed = int(other.example[0].removeprefix("seed="))
    again = racing.replace(seed=seed).record().table("sunk").to_pylist()
    assert tuple(sorted(row["row"] for row in again)) == other.output


def test_the_answer_is_a_value_with_a_table() -> None:
    found = flow.permutations(IDLE_LAST, rule="no flush")
    assert isinstance(found, Permutations)
    assert json.loads(found.to_json())["sentence"] == found.sentence
    assert found.to_pandas()["count"].tolist() == [3, 2, 1]
    lines = repr(found).splitlines()
    assert lines[0] == found.sentence
    assert lines[2].split() == ["3", "10,", "idle", "10,", "idle", "a", "b", "b", "a"]
    assert found._repr_html_().count("<tr>") == 4


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ([["soon"]], {}),
        ([[True]], {}),
        ([[(200, 1)]], {}),
        ([[1]], {"deviations": ["nothing"]}),
    ],
)
def test_items_that_cannot_come_are_refused(inputs: Any, options: dict[str, Any]) -> None:
    with pytest.raises(WmlabError):
        flow.permutations(inputs, **options)


def test_no_run_shows_nothing() -> None:
    with pytest.raises(WmlabError, match="0 runs"):
        SMALL.permutations(0)
