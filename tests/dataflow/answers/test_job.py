"""A job runs again for an answer; where it would not run as it did, the answer is refused."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from simpy import Environment

import wmlab as wm
from tests.dataflow.flows import ROWS, WINDOW, line, source
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording


def test_a_recording_from_files_gives_the_answers_of_the_run(tmp_path: Path) -> None:
    run = line(source("s", ROWS), WINDOW).record(tmp_path / "run")
    again = Recording.read(tmp_path / "run")
    for at_ms in (40, 100, 55):
        assert again.explain(at_ms) == run.explain(at_ms)
    assert again.explain() == run.explain()


def test_functions_are_known_while_the_recording_is_in_memory(tmp_path: Path) -> None:
    same = flow.Map("same", function=lambda row: dict(row))
    run = line(source("s", ROWS), same, WINDOW).record()
    assert run.explain(60).facts["window to"] == 80
    saved = run.save(tmp_path / "run")
    assert saved.explain(60) == run.explain(60)
    with pytest.raises(RecordingError, match="Python functions, which a recording does not keep") as refused:
        Recording.read(tmp_path / "run").explain(60)
    assert "write its functions as expressions" in str(refused.value)


def test_a_run_that_does_not_come_again_is_refused() -> None:
    """As of a recording of another version: it has a row less than the run gives."""
    run = line(source("s", ROWS), WINDOW).record()
    tables = {name: run.table(name) for name in run.schemas}
    other = type(run).from_tables(
        {**tables, "drops": [], "sunk": tables["sunk"][1:]}, name=run.name, scenario=run.scenario, seed=run.seed
    )
    rows = tables["sunk"].num_rows
    with pytest.raises(RecordingError, match=f"sunk: {rows - 1} rows recorded, {rows} now") as refused:
        other.explain(60)
    assert "record the dataflow again" in str(refused.value)
    assert len(other.results()) == rows - 1


def test_a_function_that_does_not_give_the_same_twice_is_refused() -> None:
    calls = count()
    some = flow.Filter("some", where=lambda row: next(calls) < 5)
    run = line(source("s", ROWS), some, WINDOW).record()
    with pytest.raises(RecordingError, match="does not give the recorded run again"):
        run.explain(60)


def test_ten_questions_of_one_recording_run_the_job_once_and_a_chart_of_coalescing_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[Environment] = []
    step = Environment.step
    monkeypatch.setattr(Environment, "step", lambda env: (steps.append(env), step(env)))
    run = line(source("s", ROWS), WINDOW).record()
    of_run = len(steps)
    for at_ms in (*range(200, 2_000, 200), 1_999):
        run.explain(at_ms)
    assert of_run // 2 < len(steps) - of_run <= of_run
    asked = len(steps)
    run.explain(1_999)
    wm.dataflow.chart.coalescing(run, vertex="w")
    assert len(steps) == asked
    run.explain(200)
    run.explain(240)
    assert len(steps) - asked < of_run, "an earlier moment begins again, and a later one goes on from there"
