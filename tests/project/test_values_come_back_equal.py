"""Every value of the scenarios of the three models comes back equal from YAML and from another process."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

import wmlab as wm
from tests.scenario_files import FOLDER
from wmlab import dataflow as flow
from wmlab.core.values import is_function, plain
from wmlab.open import load_scenario
from wmlab.streams.scenario.scenario import StreamScenario

REQUIRED: dict[str, Any] = {
    "a": "w",
    "aggregates": {"n": "count()"},
    "at_ms": 5,
    "b": "reader-1",
    "by_ms": 7,
    "checkpoint": "c",
    "column": "t",
    "columns": ["t"],
    "condition": "left.t <= right.t",
    "controller": "leader",
    "duration_ms": 1_000,
    "edges": "s -> out",
    "event_time": 3,
    "fault": "lose",
    "for_ms": 5,
    "function": len,
    "growth": 2.0,
    "high_ms": 9,
    "hold_ms": 5,
    "instance": 0,
    "keep": 0.5,
    "low_ms": 3,
    "mean_ms": 4.0,
    "median_ms": 3.0,
    "ms": 3,
    "name": "n",
    "operators": [],
    "partition": 0,
    "party": "w",
    "queries": [wm.progress.Query("q", sources=[wm.progress.Source("s", rate_per_s=5)])],
    "reader": "reader-1",
    "rows": [[1]],
    "seal": ["0"],
    "segment": 0,
    "sequence": 1,
    "sigma": 0.5,
    "size_ms": 10,
    "slack_ms": 5,
    "source": "s",
    "sources": [wm.progress.Source("s", rate_per_s=5)],
    "stream": "stream",
    "target": "out",
    "time": 4,
    "timeout_ms": 10,
    "transaction": 1,
    "vertex": "s",
    "vertices": [flow.Source("s", columns=["t"], rows=[[1]]), flow.Sink("out")],
    "where": "t > 1",
    "worker": 1,
    "writer": "w",
    "writers": [wm.EventWriter("w", rate_per_s=5)],
}
"""What a field holds that has to be given, by its name."""

BESIDE: dict[str, dict[str, Any]] = {
    "dataflow.scenario.source.Source": {"columns": ["t"], "rows": [[1], [2]], "times": "t"},
    "dataflow.scenario.vertices.Custom": {"function": divmod},
    "dataflow.scenario.vertices.Selecting": {"function": len},
    "dataflow.scenario.vertices.Map": {"select": {"t": "t"}},
    "dataflow.scenario.vertices.FlatMap": {"select": [{"t": "t"}, {"t": "t + 1"}]},
    "progress.scenario.Source": {"rate_per_s": 5},
    "streams.scenario.noting.Compute": {"time": "clock"},
    "streams.scenario.parts.EventWriter": {"rate_per_s": 5},
    "streams.scenario.parts.TransactionalWriter": {"rate_per_s": 5},
    "streams.scenario.parts.WriterPart": {"rate_per_s": 5},
    "streams.scenario.script.ReleaseSegment": {"segment": "0"},
}
"""Of a class that needs one of several fields, or another value, what is given beside."""


def value_classes() -> Iterator[type]:
    """The classes of all values that a scenario is made of."""
    for name, module in sorted(sys.modules.items()):
        if name == "wmlab.core.simulation" or (name.startswith("wmlab.") and ".scenario" in name):
            for made in vars(module).values():
                if hasattr(made, "__pydantic_validator__") and made.__module__ == name:
                    yield made


@pytest.mark.parametrize("made", list(value_classes()), ids=lambda made: f"{made.__module__}.{made.__name__}")
def test_a_value_comes_back_equal(made: type) -> None:
    value = made(**required(made) | BESIDE.get(f"{made.__module__}.{made.__name__}".removeprefix("wmlab."), {}))
    assert pickle.loads(pickle.dumps(value)) == value
    data = plain(value)
    if not any(is_function(getattr(value, field.name)) for field in dataclasses.fields(value)):
        assert TypeAdapter(made).validate_python(yaml.safe_load(yaml.safe_dump(data))) == value


def required(made: Any) -> dict[str, Any]:
    """The fields of a class that have to be given."""
    fields = dataclasses.fields(made)
    missing = dataclasses.MISSING
    return {f.name: REQUIRED[f.name] for f in fields if f.default is missing and f.default_factory is missing}


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
