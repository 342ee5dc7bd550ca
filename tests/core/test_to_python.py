"""A scenario as Python code: run, it makes an equal scenario, for each file that is stored, of all three models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wmlab as wm
from wmlab.core.errors import ScenarioError
from wmlab.open import load_scenario

FILES = sorted(Path("data/scenarios").rglob("*.yaml"))
FUNCTION = lambda known: known["clock"]  # noqa: E731


def made_by(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["scenario"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_code_of_a_stored_scenario_makes_an_equal_one(path: Path) -> None:
    scenario = load_scenario(path)
    made = made_by(scenario.to_python())
    assert type(made) is type(scenario)
    assert made == scenario
    assert made.to_yaml() == scenario.to_yaml()


def test_the_code_is_written_as_a_person_would() -> None:
    scenario = wm.Scenario(
        "own",
        writers=[
            wm.EventWriter("w1", rate_per_s=20_000, noting=wm.script.noting.MaxMinusSlack(500)),
            wm.TransactionalWriter("t1", rate_per_s=5, delay_mean_ms=0.5, open_ms=None),
        ],
        network=wm.script.network.Network(delay=wm.script.network.Uniform(1, 2)),
        script=[wm.script.NoteTime(at_ms=5, writer="w1", time=-3, position={"0@0": None})],
        duration_ms=60_000,
    )
    code = scenario.to_python()
    assert made_by(code) == scenario
    assert "wm.script.noting.MaxMinusSlack(slack_ms=500)" in code
    assert "wm.TransactionalWriter('t1', rate_per_s=5.0, delay_mean_ms=0.5)," in code
    assert "duration_ms=60_000" in code
    assert "open_ms" not in code
    assert max(map(len, code.splitlines())) <= 120


def test_a_scenario_inside_another_names_its_own_classes() -> None:
    stream = wm.Scenario(
        "one",
        stream=wm.Stream("a"),
        writers=[wm.EventWriter("w", rate_per_s=5, noting=wm.script.noting.MaxMinusSlack(500))],
        network=wm.script.network.Network(delay=wm.script.network.Fixed(2)),
        script=[wm.script.NoteTime(at_ms=5, writer="w", time=3)],
        duration_ms=3_000,
    )
    flow = wm.dataflow
    dataflow = flow.Dataflow(
        "reads a stream",
        vertices=[flow.Source("s", stream=stream, times="event_time"), flow.Sink("out")],
        edges="s -> out",
        duration_ms=3_000,
    )
    assert made_by(dataflow.to_python()) == dataflow


def test_a_text_with_quotes_and_newlines_stays_a_text() -> None:
    scenario = wm.Scenario("a \"b\" 'c' \\n {x}", writers=[wm.EventWriter("w'1", rate_per_s=1)], duration_ms=1_000)
    assert made_by(scenario.to_python()) == scenario


def test_a_python_function_is_refused() -> None:
    writer = wm.EventWriter("w", rate_per_s=5, event_time=FUNCTION)
    scenario = wm.Scenario("own", writers=[writer], duration_ms=1_000)
    with pytest.raises(ScenarioError, match="Python function"):
        scenario.to_python()
