"""A moment outside of the run has no answer: one rule for recordings of all models."""

from __future__ import annotations

from typing import Any

import pytest

import wmlab as wm
from tests.dataflow.flows import line, source
from tests.progress.sim import plans
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.recording import moment_of_run

COUNT = flow.Window("count", 40, column="t", aggregates={"n": "count()"})
RUNS: dict[str, Any] = {
    "streams": lambda: wm.Scenario.load("first_bounds").replace(duration_ms=10_000, script=[]).record(),
    "dataflow": lambda: line(source("s"), COUNT, duration_ms=10_000).record(),
    "dataflow that is complete early": lambda: line(source("s", ends=True), COUNT, duration_ms=10_000).record(),
    "progress": lambda: plans.scenario().record(),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_moment_outside_of_the_run_is_refused(name: str) -> None:
    run = RUNS[name]()
    for outside in ("-1 s", "41 s", "10 min"):
        with pytest.raises(RecordingError, match="is outside the run, which lasts from 0 ms to 10") as refused:
            run.explain(at_ms=outside)
        assert refused.value.remedy == "give a moment of the run."
    for inside in ("0 s", "5 s", "10 s"):
        assert run.explain(at_ms=inside).at_ms == int(inside.removesuffix(" s")) * 1_000


def test_a_run_that_was_complete_early_answers_to_its_planned_end() -> None:
    run = RUNS["dataflow that is complete early"]()
    answer = run.explain(at_ms=10_000)
    assert (answer.cause, answer.sentence.count("The job was complete at ")) == ("completed", 1)
    assert "The last watermark of key 0 at count was 390 ms, from " in answer.sentence


def test_what_goes_on_after_the_planned_end_is_part_of_the_run() -> None:
    run = plans.scenario().record()
    last_ms = max(row["arrived_ms"] for row in run.table("buffers").to_pylist())
    assert run.explain(at_ms=last_ms).at_ms == last_ms > 10_000
    with pytest.raises(RecordingError, match="outside the run"):
        run.explain(at_ms=last_ms + 1)
    assert moment_of_run(run, 10_500, last_ms=11_000) == 10_500
    with pytest.raises(RecordingError, match="from 0 ms to 10 s"):
        moment_of_run(run, 10_500, last_ms=9_000)
