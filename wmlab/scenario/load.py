"""A scenario file of whatever kind, for those who do not know beforehand which it is."""

from __future__ import annotations

from pathlib import Path

from wmlab.scenario.flow_dataflow import Dataflow
from wmlab.scenario.plan_scenario import PlanScenario
from wmlab.scenario.scenario import Scenario
from wmlab.scenario.yaml import parse, read_text


def load_scenario(path: str | Path) -> Scenario | PlanScenario | Dataflow:
    """The scenario in a YAML file: query plans if it has queries, a dataflow if it has vertices, else streams.

    Raises `ScenarioError` with every mistake, its location and line.
    """
    text, source = read_text(path), str(path)
    data, _ = parse(text, source)
    if "vertices" in data:
        return Dataflow.from_yaml(text, source=source)
    return (PlanScenario if "queries" in data else Scenario).from_yaml(text, source=source)
