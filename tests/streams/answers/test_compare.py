"""What differs between runs, for runs with known answers."""

from __future__ import annotations

import pytest

from tests.streams.charts.recordings import recording
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.compare import Difference, differences, run_of

WRITER = {"name": "w1", "rate_per_s": 10}


def of(scenario: dict[str, object] | None) -> Recording:
    return Recording.from_tables({}, name="run", scenario=scenario)


def test_the_measures_of_a_run() -> None:
    run = run_of(recording(), "one", None)
    assert run.bounds == ((2_500, 800, 900), (5_000, 2_800, 3_900), (8_000, 2_800, 3_900))
    assert run.measures == {
        "events": 5,
        "watermarks": 2,
        "held": 2,
        "refused": 1,
        # 2.5 s at a mean lag of 2 950 ms, then 3 s at 3 700 ms.
        "mean_lag_ms": 3_359.1,
        "worst_lag_ms": 5_200,
        # 2.5 s at 100 ms, then 3 s at 1 100 ms.
        "mean_width_ms": 645.5,
        "below": 1,
    }


def test_a_run_without_watermarks_has_no_lag() -> None:
    run = run_of(recording(watermarks=[]), "one", "orders")
    assert (run.bounds, run.measures["mean_lag_ms"], run.measures["below"]) == ((), None, 0)


def test_scenarios_differ_by_value_and_parts_are_found_by_name() -> None:
    one = of({"seed": 1, "writers": [WRITER, {"name": "w2", "rate_per_s": 5}], "segments": [1, 2]})
    other = of({"seed": 1, "writers": [{"name": "w2", "rate_per_s": 7}, WRITER, {"name": "w3"}], "segments": [1]})
    assert differences([one, other]) == (
        Difference("segments", ([1, 2], [1])),
        Difference("writers[w2].rate_per_s", (5, 7)),
        Difference("writers[w3].name", (None, "w3")),
    )
    assert differences([one, one]) == ()


def test_a_log_has_no_scenario_to_compare() -> None:
    with pytest.raises(RecordingError, match="came from a log"):
        differences([of({"seed": 1}), of(None)])
