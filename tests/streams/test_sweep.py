"""A sweep has one row for every run of its grid, the same whoever runs it, and goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems
from wmlab.streams import sweep as sweeping
from wmlab.streams.scenario import script

SCENARIOS = Path(__file__).parents[2] / "data" / "scenarios"
SCENARIO = wm.Scenario(
    "swept",
    stream=wm.Stream(timestamp_aggregation_timeout_ms=5_000),
    writers=[wm.EventWriter("w1", rate_per_s=20), wm.EventWriter("w2", rate_per_s=20, delay_mean_ms=400)],
    controllers=wm.Controllers(period_ms=1_000),
    script=[script.SilenceWriter(at_ms=3_000, writer="w2", for_ms=5_000)],
    duration_ms=12_000,
)


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_every_combination_is_a_row_whose_figures_are_those_of_its_run(spark: SparkSession) -> None:
    found = rows(SCENARIO.sweep(spark, seeds=iter([3, 1]), timeout_ms=[1_000, 60_000], progress=False))
    assert [(row["timeout_ms"], row["seed"]) for row in found] == [(1_000, 3), (1_000, 1), (60_000, 3), (60_000, 1)]
    for row in found:
        stream = wm.Stream(timestamp_aggregation_timeout_ms=row["timeout_ms"])
        recording = SCENARIO.replace(stream=stream, seed=row["seed"]).record(progress=False)
        assert row["events"] == recording.counts["events"]
        assert row["watermarks"] == recording.counts["watermarks"]
        first, *_ = recording.explain()
        assert (row["held_by"], row["held_ms"]) == (first.who, first.held_ms)
        assert row["late_share"] == row["late"] / row["events"]
        assert row["error"] is None
    hasty, patient = found[0], found[2]
    assert hasty["lag_ms"] < patient["lag_ms"]
    assert hasty["late"] > patient["late"] == 0
    assert hasty["slack_ms"] < patient["slack_ms"]


def test_rows_do_not_depend_on_who_runs_them_or_when(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    grid: dict[str, Any] = {"seeds": range(2), "period_ms": [500, 2_000]}
    together = rows(SCENARIO.sweep(spark, progress=False, **grid))
    monkeypatch.setattr(sweeping, "_BATCH", 3)
    assert rows(SCENARIO.sweep(spark, progress=False, **grid)) == together
    cases = [SCENARIO.replace(controllers=wm.Controllers(period_ms=row["period_ms"])) for row in together]
    alone = [sweeping.figures_of(case.replace(seed=row["seed"])) for case, row in zip(cases, together, strict=True)]
    assert [{name: row[name] for name in sweeping.FIGURES.names} for row in together] == alone


def test_a_function_gets_the_progress_and_stops_the_sweep(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "_BATCH", 2)
    percents: list[int] = []

    def stop(percent: int) -> None:
        percents.append(percent)
        if len(percents) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SCENARIO.sweep(spark, seeds=np.arange(5), progress=stop)
    assert percents == [40, 80]


def test_a_failed_run_is_a_row_with_its_error(spark: SparkSession) -> None:
    two = SCENARIO.replace(
        stream=wm.Stream(),
        streams=[wm.Stream("s"), wm.Stream("t")],
        writers=[wm.EventWriter("w1", rate_per_s=1, stream="s"), wm.EventWriter("w2", rate_per_s=1, stream="t")],
    )
    (row,) = rows(two.sweep(spark, progress=False))
    assert row["error"].startswith("RecordingError: The recording 'swept' has several streams")
    assert row["lag_ms"] is None
    (row,) = rows(two.sweep(spark, stream="s", progress=False))
    assert row["error"] is None


def test_violations_are_those_that_the_check_of_a_run_finds(spark: SparkSession) -> None:
    shipped = wm.Scenario.load(SCENARIOS / "reports" / "cut_order.yaml")
    grid = {"cut_algorithm": ["sound", "pravega"]}
    found = rows(shipped.sweep(spark, check=True, progress=False, **grid))
    verdicts = shipped.record(progress=False).check()
    assert [row["violations"] for row in found] == [0, sum(verdict.violations for verdict in verdicts)]
    assert verdicts.violated


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("timeout_ms", ("stream", "timestamp_aggregation_timeout_ms")),
        ("stream.segments", ("stream", "segments")),
        ("segments", ("stream", "segments")),
        ("writers.w2.rate_per_s", ("writers", 1, "rate_per_s")),
        ("script.0.for_ms", ("script", 0, "for_ms")),
        ("duration_ms", ("duration_ms",)),
    ],
)
def test_a_field_is_named_by_its_path_or_by_its_last_part(name: str, path: tuple[str | int, ...]) -> None:
    assert sweeping.field_named(SCENARIO, name) == path


def test_a_name_that_means_no_field_or_several_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"several fields.*\n.*writers\.w1\.rate_per_s"):
        sweeping.field_named(SCENARIO, "rate_per_s")
    with pytest.raises(ScenarioError, match="'pace' is not a field"):
        sweeping.field_named(SCENARIO, "pace")
    with pytest.raises(Problems, match=r"^scenario '[^']+' has 1 mistake:\n  controllers\.period_ms: "):
        SCENARIO.sweep(object(), period_ms=[0])
    with pytest.raises(ScenarioError, match="give its values as seeds="):
        SCENARIO.sweep(object(), seed=[1, 2])
    with pytest.raises(ScenarioError, match="timeout_ms and timestamp_aggregation_timeout_ms name the same field"):
        SCENARIO.sweep(object(), timeout_ms=[5], timestamp_aggregation_timeout_ms=[6])
    with pytest.raises(ScenarioError, match="timeout_ms is 5"):
        SCENARIO.sweep(object(), timeout_ms=5)
