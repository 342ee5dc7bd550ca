"""Every scenario comes back equal from YAML and from another process; the values in it, in `core/test_every_value`."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import wmlab as wm
from tests.scenario_files import FOLDER
from wmlab import dataflow as flow
from wmlab.open import load_scenario
from wmlab.streams.scenario.scenario import StreamScenario


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_a_stored_scenario_comes_back_equal(path: Any) -> None:
    scenario = load_scenario(path)
    again = type(scenario).from_yaml(scenario.to_yaml())
    assert again == scenario == pickle.loads(pickle.dumps(scenario)) != scenario.replace(seed=scenario.seed + 1)
    assert again.resolved == scenario.resolved


def test_a_scenario_within_another_comes_back_equal() -> None:
    written = {"writers": [wm.EventWriter("w", rate_per_s=5)], "duration_ms": 1_000}
    stream, without_verbs = wm.Scenario("s", **written), StreamScenario("s", **written)
    vertices = [flow.Source("log", stream=stream, times="event_time"), flow.Sink("out")]
    dataflow = flow.Dataflow("d", vertices=vertices, edges="log -> out")
    again = flow.Dataflow.from_yaml(dataflow.to_yaml())
    assert again == dataflow
    assert hash(again) == hash(dataflow)
    assert stream == without_verbs
    assert hash(stream) == hash(without_verbs)
    assert stream != dataflow
    assert stream != stream.replace(seed=1)
