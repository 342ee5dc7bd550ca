"""A sample of what Flink 2.3.0's own classes answered to random histories: our rules answer the same, step by step.

`make oracles` asks Flink again, about 10,000 histories of each class.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.strategies.oracles.flink import KINDS, SEED, WITNESSES, answer, history

STORED: Final = json.loads(Path(__file__).with_name("flink_2_3_0.json").read_text(encoding="utf-8"))
HISTORIES: Final[list[dict[str, Any]]] = STORED["histories"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rules_answer_as_flink_did(kind: str) -> None:
    random, mine = Random(f"{SEED}-{kind}"), [given for given in HISTORIES if given["kind"] == kind]
    assert len(mine) >= 50
    for given in mine:
        asked = history(kind, random)
        assert given == {"kind": kind, **asked, "answers": given["answers"]}, "the sample is of other histories"
        assert answer(kind, given) == given["answers"]


@pytest.mark.parametrize(("kind", "differ"), list(zip(KINDS, (False, False, True, True, False, True), strict=True)))
def test_histories_tell_the_fixed_rules_from_those_of_flink(kind: str, differ: bool) -> None:
    random = Random(f"{SEED}-{kind}")
    asked = [history(kind, random) for _ in range(3_000)]
    assert any(answer(kind, given) != answer(kind, given, "fixed") for given in asked) == differ


@pytest.mark.parametrize(
    ("issue", "flink", "fixed"),
    [
        ("FLINK-40475", [["IDLE"], ["ACTIVE"], [], [31]], [[30, "IDLE"], ["ACTIVE"], [], [31]]),
        ("FLINK-40504", [[], [], [], ["ACTIVE", 11]], [["ACTIVE"], [], [], [11]]),
        (
            "FLINK-40093",
            [[[99], False, []], [[], True, [0]], [["IDLE"], True, [0]], [[], False, [0]]],
            [[[99], False, []], [[], True, [0]], [["IDLE"], True, [0]], [[], False, []]],
        ),
    ],
)
def test_an_error_comes_out_of_flink_and_of_its_rule_and_not_of_the_fixed_one(
    issue: str, flink: list[Any], fixed: list[Any]
) -> None:
    given = WITNESSES[issue]
    assert STORED["witnesses"][issue] == answer(given["kind"], given)
    assert answer(given["kind"], given)[-4:] == flink
    assert answer(given["kind"], given, "fixed")[-4:] == fixed
