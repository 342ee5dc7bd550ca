"""The simulator keeps its own books in stored and in generated dataflows."""

from __future__ import annotations

import pytest

from tests.dataflow.checks.dataflows import generated
from tests.dataflow.checks.own_rules import OWN_RULES, check
from tests.scenario_files import FOLDER
from wmlab import dataflow as flow

STORED = sorted(path.stem for path in (FOLDER / "flows").glob("*.yaml"))


@pytest.mark.parametrize("name", STORED)
def test_a_stored_dataflow_keeps_them(name: str) -> None:
    recording = flow.Dataflow.load(FOLDER / "flows" / f"{name}.yaml").replace(rules="sound").record()
    assert {one.invariant: one.what for one in check(recording, *OWN_RULES) if one.verdict == "violated"} == {}


@pytest.mark.parametrize("number", range(20))
def test_a_generated_dataflow_keeps_them(number: int) -> None:
    verdicts = check(generated(number).record(), *OWN_RULES)
    assert {one.invariant: one.what for one in verdicts if one.verdict == "violated"} == {}
