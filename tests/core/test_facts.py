"""Facts: typed values by labels, one way to write them, and sentences that say nothing else."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass

import pytest

from wmlab.core.facts import FactAnswer, Facts, Kind, Value, vocabulary

LABELS = vocabulary(
    ("watermark", Kind.MOMENT, "the event time that is said to be complete"),
    ("made at", Kind.MOMENT, "when it was made"),
    ("holder", Kind.NAME, "who is waited for"),
    ("last noted", Kind.MOMENT, "the time that each holder noted last"),
    ("held for", Kind.LENGTH, "for how long"),
    ("cycles", Kind.COUNT, "how many cycles there were"),
    ("unread", Kind.SIZE, "what is still to be read"),
    ("late share", Kind.SHARE, "the part that is late"),
    ("sealed", Kind.FLAG, "whether the stream is sealed"),
    ("state", Kind.WORD, "what has happened to the holder"),
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Said(FactAnswer):
    """An answer with a field of its own."""

    facts: Facts
    templates: tuple[str, ...]
    at_ms: int = 36_000


def test_facts_are_a_mapping_from_label_to_typed_value() -> None:
    facts = Facts(LABELS, {"watermark": 25_240, "holder": ("w1", "w2"), "last noted": (25_240, None)})
    assert facts == {"watermark": 25_240, "holder": ("w1", "w2"), "last noted": (25_240, None)}
    assert list(facts) == ["watermark", "holder", "last noted"]
    assert facts.label("holder").meaning == "who is waited for"


@pytest.mark.parametrize("absent", [None, (), (None, None)])
def test_a_fact_without_a_value_is_not_there(absent: Value) -> None:
    assert dict(Facts(LABELS, {"watermark": absent, "cycles": 0})) == {"cycles": 0}


def test_one_party_is_no_tuple() -> None:
    assert Facts(LABELS, {"holder": ("w2",)})["holder"] == "w2"


def test_a_label_without_a_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="'guess' is no label"):
        Facts(LABELS, {"guess": 1})
    with pytest.raises(ValueError, match="twice"):
        vocabulary(("watermark", Kind.MOMENT, "one"), ("watermark", Kind.LENGTH, "another"))


def test_text_has_a_row_for_each_fact_in_aligned_columns() -> None:
    facts = Facts(
        LABELS,
        {
            "watermark": 127_881,
            "holder": ("w1", "w2"),
            "last noted": (127_881, None),
            "held for": 168_240,
            "cycles": 1_200,
            "unread": 0,
            "late share": 0.0004,
            "sealed": False,
            "state": "down",
        },
    )
    assert repr(facts).splitlines() == [
        "watermark   2 min 7.9 s",
        "holder      w1            w2",
        "last noted  2 min 7.9 s   –",
        "held for    2 min 48.2 s",
        "cycles      1 200",
        "unread      0 bytes",
        "late share  < 0.1%",
        "sealed      no",
        "state       down",
    ]


def test_two_moments_that_differ_never_look_the_same() -> None:
    assert repr(Facts(LABELS, {"watermark": 25_240, "made at": 25_230})) == "watermark  25.240 s\nmade at    25.230 s"


def test_a_time_that_is_needed_is_never_rounded_to_less() -> None:
    needed = vocabulary(("row of", Kind.NEEDED_TIME, "the lowest time that is enough"))
    said = {
        ms: Facts(needed, {"row of": ms}).fill("{row of}") for ms in (14_000, 14_001, 14_050, 14_100, 340, 3_600_300)
    }
    assert [*said.values()] == ["14.0 s", "14.001 s", "14.05 s", "14.1 s", "340 ms", "1 h 0.3 s"]


def test_instants_say_their_day_and_zone_once() -> None:
    facts = Facts(LABELS, {"watermark": 1_373_866_200_000, "made at": 1_373_866_205_000})
    assert repr(facts).split() == ["watermark", "2013-07-15", "05:30:00", "UTC", "made", "at", "05:30:05"]
    early = Facts(LABELS, {"watermark": 0}, clock_ms=1_373_866_205_000)
    assert repr(early) == "watermark  1970-01-01 00:00:00 UTC"


def test_a_sentence_is_a_template_over_labels() -> None:
    facts = Facts(LABELS, {"holder": ("w1", "w2", "w3", "w4"), "watermark": 25_240})
    answer = Said(facts=facts, templates=("The watermark waits for {holder}.", "It is {watermark}."))
    assert answer.headline == "The watermark waits for w1, w2 and 2 more."
    assert answer.sentence == f"{answer.headline} It is 25.2 s."
    with pytest.raises(KeyError, match="made at"):
        Said(facts=facts, templates=("It was made at {made at}.",)).sentence  # noqa: B018


def test_of_each_choice_the_first_template_is_said_whose_labels_are_there_and_of_which_one_has_several_values() -> None:
    both = Facts(LABELS, {"holder": ("w1", "w2"), "last noted": (1, 2), "cycles": 3})
    waits = ("{holder} noted {last noted}.", "It waits for {holder}.", "It waits.")
    assert both.chosen(waits, ["It was made at {made at}."], ["Cycles: {cycles}."]) == (
        "It waits for {holder}.",
        "Cycles: {cycles}.",
    )
    assert both.chosen(waits, ["Cycles: {cycles}."], waits) == ("It waits for {holder}.", "Cycles: {cycles}.")
    assert Facts(LABELS, {"holder": ("w1",), "last noted": (1,)}).chosen(waits) == waits[:1]
    assert Facts(LABELS, {"sealed": True}).chosen(waits[:2], ()) == ()


def test_a_page_has_the_sentence_and_the_facts_folded_with_their_meanings() -> None:
    answer = Said(facts=Facts(LABELS, {"holder": "<w1>"}), templates=("It waits for {holder}.",))
    html = answer._repr_html_()
    assert html.startswith("<p>It waits for &lt;w1&gt;.</p><details>")
    assert 'title="who is waited for"' in html
    assert "<w1>" not in html
    assert "<details>" not in Said(facts=Facts(LABELS), templates=("Nothing is known.",))._repr_html_()


def test_json_has_headline_sentence_facts_and_the_other_fields() -> None:
    facts = Facts(LABELS, {"holder": ("w1", "w2"), "watermark": 25_240})
    answer = Said(facts=facts, templates=("It waits for {holder}.",))
    assert json.loads(answer.to_json()) == {
        "headline": "It waits for w1 and w2.",
        "sentence": "It waits for w1 and w2.",
        "facts": {"holder": ["w1", "w2"], "watermark": 25_240},
        "at_ms": 36_000,
    }


def test_facts_are_values_that_can_be_sent_to_another_process() -> None:
    facts = Facts(LABELS, {"holder": ("w1", "w2")})
    for other in (copy.deepcopy(facts), pickle.loads(pickle.dumps(facts))):
        assert other["holder"] == ("w1", "w2")
