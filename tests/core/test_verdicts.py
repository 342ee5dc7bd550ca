from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from wmlab.core.answers import html_table
from wmlab.core.charts.style import page_colour
from wmlab.core.errors import ModelError
from wmlab.core.invariants import Evidence, Finding, Invariant, Verdict, Verdicts, verdicts_of


def one(invariant: str, verdict: Any, **fields: Any) -> Verdict:
    plain = {"statement": f"{invariant} holds", "judged": 36, "violations": 0, "what": None}
    return Verdict(invariant=invariant, verdict=verdict, **plain | fields)


EVIDENCE = (
    Evidence.of("watermarks", {"cut": {2**32 + 1: 7, 0: None}, "seq": 1}, "seq", "cut", writers={"w1": 5}),
    Evidence.of("segments", {"segment_id": 2**32 + 1, "keys": "0..1"}, "segment_id", "keys"),
)


@pytest.fixture
def verdicts() -> Verdicts:
    verdicts = (
        one("I1", "ok"),
        one("I3", "violated", violations=2, what="the cut moves back", evidence=EVIDENCE),
        one("I6", "unknown", judged=0, what="nothing was read"),
    )
    return Verdicts("a run", verdicts)


def test_verdicts_say_what_holds_and_what_does_not(verdicts: Verdicts) -> None:
    assert repr(verdicts).splitlines() == [
        "Check of 'a run': 1 invariant of 3 holds; violated: I3; unknown: I6.",
        "I1 ok: I1 holds (36 judged)",
        "I3 violated: I3 holds (2 of 36)",
        "    The cut moves back.",
        "    watermarks: seq 1, cut {1@1: 7, 0@0: end}, writers {w1: 5}",
        "    segments: segment_id 1@1, keys 0..1",
        "I6 unknown: I6 holds (nothing to judge)",
        "    Nothing was read.",
    ]
    assert (verdicts.violated, verdicts.unknown, len(verdicts)) == (("I3",), ("I6",), 3)


def test_a_verdict_is_found_by_name(verdicts: Verdicts) -> None:
    assert verdicts["I3"].evidence[0] == Evidence(
        "watermarks", {"seq": 1, "cut": {"1@1": 7, "0@0": None}, "writers": {"w1": 5}}
    )
    with pytest.raises(ModelError, match="no invariant 'I9'"):
        verdicts["I9"]


def test_verdicts_are_data_and_html(verdicts: Verdicts) -> None:
    assert json.loads(verdicts.to_json()) == json.loads(json.dumps(verdicts.to_dict()))
    assert [v["verdict"] for v in verdicts.to_dict()["verdicts"]] == ["ok", "violated", "unknown"]
    assert "<b>The cut moves back.</b><br>watermarks: seq 1, cut {1@1: 7, 0@0: end}" in verdicts._repr_html_()


@pytest.fixture
def with_exceptions() -> Verdicts:
    left_out = {"left_out": 154, "exceptions": "154 late events of a dropped writer"}
    verdicts = (
        one("I1", "ok", title="the lower bound rises"),
        one("I6", "ok", title="no event below", what="left out: one", **left_out),
        one("I7", "violated", title="in order", violations=1, what="it is not"),
    )
    return Verdicts("a run", verdicts)


def test_what_is_left_out_is_in_the_headline_and_invariants_have_names(with_exceptions: Verdicts) -> None:
    assert repr(with_exceptions).splitlines() == [
        "Check of 'a run': 2 invariants of 3 hold; violated: I7 (in order); "
        "I6 (no event below) leaves out 154 late events of a dropped writer.",
        "I1 ok: the lower bound rises (36 judged)",
        "I6 ok, with exceptions: no event below (36 judged)",
        "    Left out: one.",
        "I7 violated: in order (1 of 36)",
        "    It is not.",
    ]
    assert with_exceptions.with_exceptions == ("I6",)
    frame = with_exceptions.to_pandas().set_index("invariant")
    assert frame["left_out"].to_dict() == {"I1": 0, "I6": 154, "I7": 0}
    assert frame.loc["I6", ["title", "exceptions"]].tolist() == [
        "no event below",
        "154 late events of a dropped writer",
    ]


def test_exceptions_are_amber_and_violations_red(with_exceptions: Verdicts) -> None:
    page = with_exceptions._repr_html_()
    assert f'<b style="color:{page_colour("upper")}">ok, with exceptions</b>' in page
    assert f'<b style="color:{page_colour("alarm")}">violated</b>' in page
    assert "<td style='text-align:left'>I1 the lower bound rises</td><td style='text-align:left'>ok</td>" in page


def test_the_exceptions_of_several_streams_are_counted_by_their_reasons() -> None:
    findings = {
        stream: [Finding(True, at_ms, "it is late", exemption=exemption) for at_ms, exemption in enumerate(exemptions)]
        for stream, exemptions in {"a": ["of x", "of y", "of x"], "b": ["of x"], "c": [None]}.items()
    }
    rule = Invariant("s", lambda marks: findings[marks[0]["n"]], "no data", title="t", exempt="late event")
    streams = [(stream, {"marks": pa.table({"n": [stream]})}) for stream in findings]
    (verdict,) = verdicts_of("a run", {"I1": rule}, streams, {})
    assert (verdict.left_out, verdict.exceptions) == (4, "3 late events of x and 1 late event of y")
    assert verdict.what == "left out: 3 late events of x and 1 late event of y; the first: it is late"
    assert (verdict.outcome, verdict.label) == ("ok, with exceptions", "I1 (t)")


def test_a_violation_has_its_moment_and_the_call_that_draws_it() -> None:
    proofs = (
        Evidence("windows", {"stream": "o'er <s>", "at_ms": 7_000}),
        Evidence("events", {"stream": "o'er <s>", "append_ms": 8_040}),
    )
    both = one("I6", "violated", violations=1, evidence=proofs), one("I7", "ok", left_out=1, evidence=proofs)
    verdicts = Verdicts("a run", both)
    assert [verdict.at_ms for verdict in verdicts] == [8_040, None]
    assert [verdict["at_ms"] for verdict in verdicts.to_dict()["verdicts"]] == [8_040, None]
    assert repr(verdicts["I6"]).startswith("I6 violated at 8.0 s: I6 holds (1 of 36)")
    assert "scrub" not in verdicts._repr_html_()
    page = replace(verdicts, scrubbed=("o'er <s>",))._repr_html_()
    assert page.count("To see it at 8.0 s: <code>recording.scrub(at_ms=8_040)</code>") == page.count("scrub") == 1
    several = replace(verdicts, scrubbed=("o'er <s>", "b"))._repr_html_()
    assert "<code>recording.scrub(at_ms=8_040, stream=&quot;o&#x27;er &lt;s&gt;&quot;)</code>" in several


def test_numbers_in_a_table_are_never_broken() -> None:
    page = html_table("a", ("name", "n", "time", "text"), [("1 234 of x", 12_345, "2 h 5 min", "8 of 9 in 1 200 ms")])
    no_wrap = "<td style='white-space:nowrap'>"
    assert "<td style='text-align:left'>1\u202f234 of x</td>" in page
    assert f"{no_wrap}12\u202f345</td>{no_wrap}2\u00a0h\u00a05\u00a0min</td>" in page
    assert "<td>8 of 9 in 1\u202f200\u00a0ms</td>" in page
