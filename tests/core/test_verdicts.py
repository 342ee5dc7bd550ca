from __future__ import annotations

import json
from typing import Any

import pytest

from wmlab.core.answers import Proof, Verdicts
from wmlab.core.errors import ModelError


def row(invariant: str, verdict: str, **columns: Any) -> dict[str, Any]:
    plain = {"invariant": invariant, "statement": f"{invariant} holds", "verdict": verdict, "judged": 36}
    return plain | {"violations": 0, "what": None, "evidence": None} | columns


EVIDENCE = [
    {"table": "watermarks", "row": json.dumps({"seq": 1, "cut": {"4294967297": 7, "0": None}, "writers": {"w1": 5}})},
    {"table": "segments", "row": json.dumps({"segment_id": 2**32 + 1, "keys": "0..1"})},
]


@pytest.fixture
def verdicts() -> Verdicts:
    rows = [
        row("I1", "ok"),
        row("I3", "violated", violations=2, what="the cut moves back", evidence=EVIDENCE),
        row("I6", "unknown", judged=0, what="nothing was read"),
    ]
    return Verdicts.of("a run", rows)


def test_verdicts_say_what_holds_and_what_does_not(verdicts: Verdicts) -> None:
    assert repr(verdicts).splitlines() == [
        "Check of 'a run': 1 invariant of 3 holds; violated: I3; unknown: I6",
        "I1 ok: I1 holds (36 judged)",
        "I3 violated: I3 holds (2 of 36)",
        "    the cut moves back",
        "    watermarks: seq 1, cut {1@1: 7, 0@0: end}, writers {w1: 5}",
        "    segments: segment_id 1@1, keys 0..1",
        "I6 unknown: I6 holds (nothing to judge)",
        "    nothing was read",
    ]
    assert (verdicts.violated, verdicts.unknown, len(verdicts)) == (("I3",), ("I6",), 3)


def test_a_verdict_is_found_by_name(verdicts: Verdicts) -> None:
    assert verdicts["I3"].evidence[0] == Proof(
        "watermarks", {"seq": 1, "cut": {"1@1": 7, "0@0": None}, "writers": {"w1": 5}}
    )
    with pytest.raises(ModelError, match="no invariant 'I9'"):
        verdicts["I9"]


def test_verdicts_are_data_and_html(verdicts: Verdicts) -> None:
    assert json.loads(verdicts.to_json()) == json.loads(json.dumps(verdicts.to_dict()))
    assert [v["verdict"] for v in verdicts.to_dict()["verdicts"]] == ["ok", "violated", "unknown"]
    assert "<b>the cut moves back</b><br>watermarks: seq 1, cut {1@1: 7, 0@0: end}" in verdicts._repr_html_()
