"""The permutation explorer as a user meets it: of one merging, and of a whole dataflow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wmlab import dataflow as flow
from wmlab.core.errors import WmlabError
from wmlab.dataflow.answers.permutations import Permutations

IDLE_LAST = [[10, "idle"], [20, "idle"]]


def single(name: str, value: int, **fields: Any) -> flow.Source:
    """A source of one row, at once."""
    return flow.Source(name, columns=["t"], rows=[[value]], every_ms=0, **fields)


def test_the_order_of_idle_messages_in_three_rules() -> None:
    designed = flow.permutations(IDLE_LAST)
    assert designed.finals == ("20, idle",)
    assert designed.sentence == (
        "Merging 2 inputs (sound): 6 interleavings (all) give 2 distinct outputs and 1 final value. "
        "The steps differ, the end does not: 20, idle."
    )
    before = flow.permutations(IDLE_LAST, rules=flow.Rules(highest_held_back=True))
    counts = {("10", "idle"): 3, ("10", "20", "idle"): 2, ("20", "idle"): 1}
    assert {entry.output: entry.count for entry in before} == counts
    assert before.finals == ("10, idle", "20, idle")
    assert "depends on the order: 10, idle or 20, idle" in before.sentence
    done = [[10, "idle"], [20, "done"]]
    assert len(flow.permutations(done, rules="implementation").finals) == 2
    assert len(flow.permutations(done, rules=flow.Rules(done_hides_idle=True)).finals) == 2
    assert len(flow.permutations(done).finals) == 1
    assert flow.permutations([["idle"], []]).finals == ("no watermark",)
    assert flow.permutations([["idle"], ["idle"]]).finals == ("no watermark, idle",)


def test_without_the_flush_an_event_lets_nothing_through_nor_does_a_watermark_of_another_key() -> None:
    quiet = flow.permutations({"a": [6, "idle", "event"], "b": ["idle"]}, rules=flow.Rules(highest_held_back=True))
    assert {entry.output for entry in quiet} == {("6", "idle"), ("6",), ("idle",), ()} - {
        output for output in (("6",), ()) if output not in {entry.output for entry in quiet}
    }
    assert ("idle", "6") not in {entry.output for entry in quiet}
    keyed = flow.permutations({"a": [6, "idle", (1, 3)], "b": ["idle"]}, rules=flow.Rules(highest_held_back=True))
    after_both = next(entry for entry in keyed if entry.example == ("a", "a", "b", "a"))
    assert after_both.output == ("idle", "1:3")


def test_the_two_defects_that_pull_request_22440_mended() -> None:
    woken = {"a": [1, "idle", "event"], "b": [1, "idle"]}
    before = flow.permutations(woken, rules=flow.Rules(event_leaves_idle=True))
    assert ("1", "idle") in {entry.output for entry in before if entry.example[-1] == "b"}, "a is active"
    mended = flow.permutations(woken)
    assert all("idle" not in entry.output for entry in mended if entry.example == ("a", "b", "a", "a", "b"))
    ended = {"a": [1, "done"], "b": [1, 5, "idle"]}
    assert flow.permutations(ended).finals == ("5, idle",)
    assert flow.permutations(ended, rules=flow.Rules(end_counts_as_active=True)).finals == ("5",)


def test_failing_orders_are_counted() -> None:
    answer = flow.permutations({"x": [1, "idle", "done"], "y": [(1, 5), "done"]}, rules="implementation")
    failed = [entry for entry in answer if entry.failure is not None]
    assert failed
    assert {entry.final for entry in failed} == {"fails"}
    assert f"; {sum(entry.count for entry in failed)} of them fail" in answer.sentence
    assert set(failed[0].example) <= {"x", "y"}


def test_more_states_than_the_limit_are_refused() -> None:
    inputs = [[1, 4, 7, 10, 13], [2, 5, 8, 11, 14], [3, 6, 9, 12]]
    with pytest.raises(WmlabError, match="lead to more than 10 states at once") as refused:
        flow.permutations(inputs, limit=10)
    assert "a higher limit" in str(refused.value)


def test_no_run_shows_nothing() -> None:
    tiny = flow.Dataflow("tiny", vertices=[single("a", 10), flow.Sink("out")], edges=["a -> out"])
    with pytest.raises(WmlabError, match="0 runs"):
        tiny.permutations(0)


def test_a_dataflow_whose_result_depends_on_the_order() -> None:
    racing = flow.Dataflow(
        "race",
        vertices=[
            single("a", 10, times="t", ends=True),
            single("b", 60, times=(), ends=True),
            flow.Merge("merge"),
            flow.StatefulMap("seen", column="t", aggregates={"n": "count()"}),
            flow.Sink("out"),
        ],
        edges=["a -> merge -> seen -> out", "b -> merge"],
    )
    answer = racing.permutations(30)
    assert (len(answer), answer.finals, answer.exact) == (2, ("result 1", "result 2"), False)
    assert sum(entry.count for entry in answer) == 30
    other = answer.outcomes[1]
    seed = int(other.example[0].removeprefix("seed="))
    again = racing.replace(seed=seed).record().table("sunk").to_pylist()
    assert tuple(sorted(row["row"] for row in again)) == other.output


def test_the_answer_is_a_value_with_a_table() -> None:
    answer = flow.permutations(IDLE_LAST, rules=flow.Rules(highest_held_back=True))
    assert isinstance(answer, Permutations)
    assert json.loads(answer.to_json())["sentence"] == answer.sentence
    assert answer.to_pandas()["count"].tolist() == [3, 2, 1]
    lines = repr(answer).splitlines()
    assert lines[0] == answer.sentence
    assert lines[2].split() == ["3", "10,", "idle", "10,", "idle", "a", "b", "b", "a"]
    assert answer._repr_html_().count("<tr>") == 4


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ([["soon"]], {}),
        ([[True]], {}),
        ([[(200, 1)]], {}),
        ([[1]], {"rules": "x"}),
    ],
)
def test_items_that_cannot_come_are_refused(inputs: Any, options: dict[str, Any]) -> None:
    with pytest.raises(WmlabError):
        flow.permutations(inputs, **options)
