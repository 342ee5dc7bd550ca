"""Rules over the rows of one stream give the same verdicts in memory as by Spark, those of liveness, too."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import scenario_files
from wmlab.open import load_scenario

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("progress_diagram", {"rules": "design"}),
    ("progress_diagram", {}),
]


@pytest.mark.parametrize(("name", "fields"), RUNS, ids=[f"{name} {fields}" for name, fields in RUNS])
def test_verdicts_in_memory_are_those_of_spark(spark: SparkSession, name: str, fields: dict[str, Any]) -> None:
    recording = load_scenario(scenario_files.FOLDER / f"{name}.yaml").replace(**fields).record()
    checks = import_module(f"wmlab.{recording.kind}.checks")
    here = {verdict.invariant: verdict for verdict in checks.in_memory(recording)}
    here |= {verdict.invariant: verdict for verdict in checks.in_memory(recording, *checks.LIVENESS)}
    there = {verdict.invariant: verdict for verdict in recording.check(spark, *here)}
    assert here == there
