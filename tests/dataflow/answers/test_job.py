"""A job runs again for an answer; where it would not run as it did, the answer is refused."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import pytest
from simpy import Environment

import wmlab as wm
from tests.dataflow.flows import ROWS, WINDOW, line, source
from tests.oracles.random_dataflows import shaped
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers import job


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


def test_moments_in_any_order_have_the_answers_that_each_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_ITEMS_APART", 15)
    calling = flow.Source(
        "web", columns=["t", "u"], rows=[(t, t % 3) for t in range(0, 11_000, 90)], arrival="t", times="t"
    )
    faults = [
        flow.SwallowAll("some", at_ms=3_000, for_ms=2_000),
        flow.SlowCalls("ask", at_ms=2_000, for_ms=5_000, by_ms=300, first=4),
    ]
    vertices = [calling, flow.AsyncMap("ask"), flow.Filter("some", where="u < 2")]
    calls = flow.Dataflow(
        "calls",
        vertices=[*vertices, flow.Window("count", 500, column="t", aggregates={"n": "count()"}), flow.Sink("out")],
        edges=["web -> ask -> some -> count -> out"],
        duration_ms=12_000,
        faults=faults,
    )
    for seed, dataflow in enumerate([calls, *map(shaped, range(1, 8, 2))]):
        run, moments = dataflow.record(), Random(seed).sample(range(200, 12_000), 5)
        alone = {at_ms: dataflow.record().explain(at_ms) for at_ms in moments}
        for at_ms in [*moments, *reversed(moments)]:
            assert run.explain(at_ms) == alone[at_ms], (seed, at_ms)


def test_ten_moments_in_any_order_run_the_job_less_than_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_ITEMS_APART", 15)
    steps: list[Environment] = []
    step = Environment.step
    monkeypatch.setattr(Environment, "step", lambda env: (steps.append(env), step(env)))
    run = shaped(0).record()
    of_run = len(steps)
    for at_ms in Random(0).sample(range(1_000, 12_000, 1_000), 10):
        run.explain(at_ms)
    assert len(steps) - of_run < 2 * of_run


def test_a_long_chain_of_vertices_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_ITEMS_APART", 15)
    names = [f"m{number}" for number in range(150)]
    maps = [flow.Map(name, select={"t": "t"}) for name in names]
    web = flow.Source("web", columns=["t"], rows=[(t,) for t in range(0, 1_000, 250)], arrival="t", times="t")
    vertices = [web, *maps, flow.Sink("out")]
    run = flow.Dataflow(
        "chain", vertices=vertices, edges=[" -> ".join(["web", *names, "out"])], duration_ms=2_000
    ).record()
    assert run.explain(900).watermark == run.explain(900).watermark
    assert [run.explain(at_ms).watermark for at_ms in (1_900, 700, 1_200)] == [750, 500, 750]
