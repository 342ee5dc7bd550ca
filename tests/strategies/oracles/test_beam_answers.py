"""A sample of what Beam's Python SDK answered to random histories: our rules answer the same, record by record.

`make oracles` asks Beam again, about 1,000 histories of each class and pipeline.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.strategies.oracles.beam import KINDS, SEED, WITNESSES, answer, history, limited_delay, partitions
from wmlab.strategies.model.strategy import UNKNOWN

STORED: Final = json.loads(Path(__file__).with_name("beam_2_77_0.json").read_text(encoding="utf-8"))


def asked(kind: str, count: int) -> list[dict[str, Any]]:
    random = Random(f"{SEED}-{kind}")
    return [history(kind, random) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rules_answer_as_beam_did(kind: str) -> None:
    mine = [given for given in STORED["histories"] if given["kind"] == kind]
    assert len(mine) >= 50
    for given, expected in zip(mine, asked(kind, len(mine)), strict=True):
        assert given == {"kind": kind, **expected, "answers": given["answers"]}, "the sample is of other histories"
        assert answer(kind, given) == given["answers"]


@pytest.mark.parametrize(("kind", "differ"), list(zip(KINDS, (False, False, True, True, False), strict=True)))
def test_histories_tell_the_rules_from_those_of_the_python_sdk(kind: str, differ: bool) -> None:
    assert any(answer(kind, given) != answer(kind, given, "fixed") for given in asked(kind, 1_000)) == differ


@pytest.mark.parametrize(
    ("name", "python", "fixed"),
    [
        ("a hold below the output", [[10, 10], [10, 4]], [[10, 10], [10, 10]]),
        ("a waiting element", [[UNKNOWN, UNKNOWN], [6, 6], [10, 10]], [[UNKNOWN, UNKNOWN], [7, 7], [10, 10]]),
        ("a record at the end of the lateness", [[15, 16], [[10, "late", [0]]]], [[15, 16], []]),
        ("beam_40176", [UNKNOWN, UNKNOWN], [900, 4_900]),
    ],
)
def test_where_the_python_sdk_departs_from_the_rule(name: str, python: list[Any], fixed: list[Any]) -> None:
    given = WITNESSES[name]
    assert STORED["witnesses"][name] == answer(given["kind"], given) == python
    assert answer(given["kind"], {**given, "rule": "fixed"}, "fixed") == fixed


def test_the_strategy_is_behind_a_pipeline_only_where_the_watermark_of_a_partition_would_fall() -> None:
    behind = 0
    # No log has arrivals before 1970.
    for given in (given for given in asked("delay", 1_000) if given["steps"][0][2] >= 0):
        mine, marks = limited_delay(given), [UNKNOWN] * given["inputs"]
        falls = False
        for step, source, time in partitions(given):
            if step == "wm":
                falls |= time < marks[source]
                marks[source] = max(marks[source], time)
        beam = answer("delay", given)
        assert all(one <= other for one, other in zip(mine, beam, strict=True))
        assert mine == beam or falls
        behind += mine != beam
    assert behind > 10
