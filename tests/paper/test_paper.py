"""The documents' own notation as text: their examples give what they say, and mistakes are found at their character."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable

import pytest

import wmlab as wm
from wmlab import paper
from wmlab.core.errors import ModelError

MODULES = [
    "wmlab.core.text_reader",
    *(f"wmlab.paper.{module.name}" for module in pkgutil.iter_modules(paper.__path__) if module.name != "answer"),
]
SPLIT = "0 [0.0, 0.5], 1 [0.5, 1.0] -> 2 [0-0.6], 3 [0.6-1.0]"


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_documents_give_what_they_say(name: str) -> None:
    examples = doctest.testmod(importlib.import_module(name))
    assert examples.attempted > 0
    assert examples.failed == 0


def test_the_two_notations_of_ranges_mean_the_same() -> None:
    ours = wm.paper.cut("0: 0..1/2, 1: 1/2..1 -> 2: 0..3/5, 3: 3/5..1", w="(1/972, 2/108)")
    theirs = wm.paper.cut(SPLIT, w="(1@0/972, 2@1/108)")
    assert ours.cut == theirs.cut == {2 + (1 << 32): 108, 3 + (1 << 32): 0}
    assert ours.to_dict() == theirs.to_dict()


def test_ranges_may_be_half_open_as_the_wiki_of_pravega_has_them() -> None:
    closed = wm.paper.cut("0 [0.0-0.5], 1 [0.5-1.0] -> 2 [0-0.6], 3 [0.6-1.0]", w="(1/9, 2/5)")
    half_open = wm.paper.cut("0 [0.0, 0.5), 1 [0.5-1.0) -> 2 [0-0.6), 3 [0.6-1.0)", w="(1/9, 2/5)")
    assert half_open.to_dict() == closed.to_dict()


def test_siblings_that_replace_a_segment_are_completed_in_their_turn() -> None:
    """The cascade of the text: y is replaced by x and z, and z covers more than was missing and replaces another."""
    epochs = "0 [0-0.25], 1 [0.25-0.5], 2 [0.5-1] -> 3 [0-0.1], 4 [0.1-0.7], 5 [0.7-1]"
    answer = wm.paper.cut(epochs, w="(3/7, 1/9, 2/5)")
    assert [row.missing for row in answer] == ["", "1/10..1/4", "7/10..1", ""]
    assert answer.rows[-1].position == "(3@1/7, 4@1/0, 5@1/0)"


def test_only_the_other_algorithms_look_at_the_cut_before() -> None:
    ahead = {"previous": "(2/500, 3/9)", "w": "(1/972, 2/108)"}
    assert wm.paper.cut(SPLIT, algorithm="document", **ahead).rows[-1].position == "(2@1/108, 3@1/0)"  # type: ignore[arg-type]
    assert wm.paper.cut(SPLIT, algorithm="sound", **ahead).rows[-1].position == "(2@1/500, 3@1/9)"  # type: ignore[arg-type]


def test_a_watermark_of_another_key_waits_for_both_inputs() -> None:
    answer = wm.paper.coalesce("in: wm(0, 5, key=1) in: wm(1, 9) in: wm(1, 6, key=1)")
    assert [row.out for row in answer] == ["", "", "out: wm(5, key=1)"]


def test_what_the_text_has_otherwise_is_named() -> None:
    answer = wm.paper.coalesce("in: wm(0, 10) in: wm(1, 12) out: wm(12) in: idle(0) in: idle(1) out: idle")
    assert [row.as_expected for row in answer] == [True, False, False, True]
    assert answer.sentence.endswith("unlike the text at items 2 and 3.")
    assert "out: wm(10), but the text has out: wm(12)" in repr(answer)


def test_an_idle_message_counts_for_all_keys() -> None:
    answer = wm.paper.coalesce("in: wm(0, 5)  in: wm(0, 6, key=1)  in: idle(1)")
    assert [row.out for row in answer] == ["", "", "out: wm(5)  out: wm(6, key=1)"]


def test_a_watermark_ends_the_idleness_for_all_keys_by_the_document_and_for_its_own_as_implemented() -> None:
    text = "in: wm(0, 5)  in: wm(1, 9)  in: idle(0)  in: wm(0, 6, key=1)  in: wm(1, 12)"
    assert [row.out for row in wm.paper.coalesce(text)] == ["", "out: wm(5)", "out: wm(9)", "", ""]
    shipped = wm.paper.coalesce(text, rules="implementation")
    assert [row.out for row in shipped] == ["", "out: wm(5)", "out: wm(9)", "", "out: wm(12)"]


def test_more_inputs_than_the_text_names_hold_the_watermark() -> None:
    assert [row.out for row in wm.paper.coalesce("in: wm(0, 10)", inputs=2)] == [""]
    assert [row.out for row in wm.paper.coalesce("in: wm(0, 10)")] == ["out: wm(10)"]


def test_each_rule_has_its_own_prefix() -> None:
    answer = wm.paper.sequences("1{0, 2 last, 2 last, 1}, 2")
    assert answer.to_pandas().iloc[:, 1:].to_numpy().tolist() == [
        [0, 0, 0, 0],
        [0, 0, 1, 0],
        [0, 1, 1, 0],
        [1, 1, 1, 0],
        [2, 2, 1, 0],
    ]


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: paper.cut("0 [0-0.5], 1 [0.5-x]", w="(0/1)"), "Character 19 of the text"),
    (lambda: paper.cut("0 [0-0.5], 1 [0.6-1]", w="(0/1)"), "Character 1 of the text"),
    (lambda: paper.cut("0 [0-1] -> 1 [0-0.5]", w="(0/1)"), "Character 12 of the text"),
    (lambda: paper.cut("0 [0-1] -> 0 [0-1]", w="(0/1)"), "Character 12 of the text"),
    (lambda: paper.cut("0 [1-0]", w="(0/1)"), "Character 4 of the text"),
    (lambda: paper.cut("0 [0-1]", w="(7/1)"), "Character 2 of the text"),
    (lambda: paper.cut("0 [0-1]", w="(0/off)"), "the offset off has no bytes"),
    (lambda: paper.cut("0 [0-1]", w="(0/1) and"), "Character 7 of the text"),
    (lambda: paper.cut("0 [0-1]"), "No position"),
    (lambda: paper.cut("0 [0-1]", w=3), "3 is not text"),  # type: ignore[arg-type]
    (lambda: paper.coalesce("in: wm(0, 10)\nin: wn(1, 3)"), "Character 5 in line 2"),
    (lambda: paper.coalesce("in: wm(0, 10) in: wm(0, 9)"), "Character 15 of the text"),
    (lambda: paper.coalesce("in: wm(0, 9, key=300)"), "Character 11 of the text"),
    (lambda: paper.coalesce("## nothing"), "the end"),
    (lambda: paper.coalesce("in: idle(3)", inputs=2), "give 4 or more"),
    (lambda: paper.sequences("1, 2,"), "Character 6 of the text"),
    (lambda: paper.sequences("0"), "Character 1 of the text"),
    (lambda: paper.sequences("1{0}", chunk_base=1), "Character 3 of the text"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_a_mistake_is_found_at_its_character(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ModelError) as raised:
        call()
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "answer", [paper.cut(SPLIT, w="(1/972, 2/108)"), paper.coalesce("in: wm(0, 1)"), paper.sequences("1, 3")]
)
def test_an_answer_has_a_picture_and_a_table(answer: object) -> None:
    page = answer._repr_html_()  # type: ignore[attr-defined]
    assert "<svg" in page
    assert "<table>" in page


def test_the_table_of_sequence_numbers_is_a_picture() -> None:
    """Watermarking and Progress, SequenceNumber: 5 (Seen all), 3 (Missing 4), 1 (Missing 2)."""
    rows = ("1, 2, 3, 4, 5", "1, 2, 3, 5, 6", "1, 3, 4, 6")
    chart = paper.sequence_table(*rows)
    assert [f"{row}: {wm.paper.sequences(row).sentence.split('. ')[0]}" for row in rows] == (
        chart.sentence.removesuffix(".").split(". ")
    )
    states = {row: [] for row in rows}
    for row, state in zip(chart.data["row"], chart.data["state"], strict=True):
        states[row].append(state)
    inside, behind = "in the longest consecutive sequence", "waits behind a gap"
    assert states[rows[1]] == [inside, inside, inside, "missing", behind, behind]
    assert states[rows[2]] == [inside, "missing", behind, behind, "missing", behind]
    with pytest.raises(ModelError, match="has no row"):
        paper.sequence_table()
