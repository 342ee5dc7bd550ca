"""What once ended in a traceback of Python or ran without end, case by case."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wmlab as wm
from tests.fuzz.mutants import SCENARIOS, limited
from wmlab.__main__ import main
from wmlab.core.errors import ModelError, RecordingError, ScenarioError, TraceError, UnknownNameError
from wmlab.core.expression import join_time_bounds
from wmlab.core.simulation import Exponential, Journal, delays_ms
from wmlab.core.storage import PART_FILE
from wmlab.dataflow.recording import Dataflow
from wmlab.open import load_scenario
from wmlab.progress.recording import PlanScenario
from wmlab.progress.scenario import Source
from wmlab.streams.api import Scenario
from wmlab.streams.scenario.parts import Clock, EventWriter, TransactionalWriter
from wmlab.streams.scenario.script import DeleteStream

WRITER = EventWriter("w", rate_per_s=10)


def recorded(tmp_path: Path, name: str = "first_bounds") -> Path:
    load_scenario(SCENARIOS / f"{name}.yaml").record(tmp_path / "run")
    return tmp_path / "run"


def test_a_mean_delay_beyond_the_clock_is_refused_and_the_largest_keeps_order() -> None:
    for made in (EventWriter, TransactionalWriter):
        with pytest.raises(ScenarioError, match="delay_mean_ms"):
            made("w", rate_per_s=1, delay_mean_ms=1e300)
    events = Scenario("late", writers=[EventWriter("w", rate_per_s=9, delay_mean_ms=2.0**43)], duration_ms=9_000)
    table = events.record(progress=False).to_pandas("events")
    assert (table["append_ms"] >= table["event_time"]).all()


def test_a_clock_that_drifts_for_centuries_shows_what_it_should() -> None:
    clock = Clock(skew_ms=-(2**53), drift_ppm=999_999)
    scenario = Scenario(
        "drift",
        writers=[EventWriter("w", rate_per_s=1e-10, clock=clock, note_every_ms=None, batch_ms=2**40)],
        controllers={"period_ms": 2**52, "redistribute_every_ms": 2**52},
        start_ms=2**53,
        duration_ms=2**52,
    )
    events = scenario.record(progress=False).to_pandas("events")
    assert len(events) > 100
    assert events["event_time"].is_monotonic_increasing
    assert events["event_time"].between(0, 2**53).all()


def test_a_stream_that_is_deleted_twice_at_one_moment_is_refused() -> None:
    twice = [DeleteStream(at_ms=1_000), DeleteStream(at_ms=1_000, recreate_after_ms=10)]
    with pytest.raises(ScenarioError, match=r"script\[1\]\.at_ms: the stream 'stream' is not there then"):
        Scenario("twice", writers=[WRITER], script=twice, duration_ms=2_000)


@pytest.mark.parametrize(("aggregate", "values"), [("sum(v)", ["a", "b"]), ("avg(v)", ["a"]), ("max(v)", [1, "a"])])
def test_an_aggregate_of_a_text_fails_the_job(aggregate: str, values: list[object]) -> None:
    rows = [[0, value] for value in values]
    source = {"kind": "source", "name": "s", "columns": ["t", "v"], "times": "t", "rows": rows, "ends": True}
    window = {"kind": "window", "name": "w", "size_ms": 10, "column": "t", "aggregates": {"a": aggregate}}
    vertices: Any = [source, window, {"kind": "sink", "name": "o"}]
    run = Dataflow("text", vertices=vertices, edges=["s -> w -> o"]).record()
    assert "does not admit 'a'" in run.to_pandas("executions")["reason"][0]


def test_a_unit_that_takes_times_beyond_the_clock_is_refused() -> None:
    with pytest.raises(ScenarioError, match="unit_ms: makes the time 1099511627776 longer"):
        Source("s", rows=[[2**40]], columns=["t"], event_time="t", unit_ms=2**40)


def test_only_streams_have_time_bounds() -> None:
    for name in ("flows/jet_1605", "progress_diagram"):
        with pytest.raises(UnknownNameError, match="which has no time_bounds"):
            load_scenario(SCENARIOS / f"{name}.yaml").record().time_bounds(None)


def test_a_service_time_beyond_the_clock_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"workers\.service_mean_ms"):
        PlanScenario.from_yaml(
            "wmlab: 1\nname: x\nduration_ms: 9\nqueries: [{name: q, sources: [{name: s, rate_per_s: 1}]}]\n"
            "workers: {service_mean_ms: 1e20}"
        )


@pytest.mark.parametrize("name", ["first_bounds", "flows/jet_1605", "progress_diagram"])
def test_a_recorded_scenario_that_is_none_is_damage(tmp_path: Path, name: str) -> None:
    file = recorded(tmp_path, name) / "recording.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["scenario"]["duration_ms"] = "long"
    file.write_text(json.dumps(content), encoding="utf-8")
    recording: Any = wm.trace.Recording.read(file.parent)
    with pytest.raises(RecordingError, match=r"damaged.*\s.*duration_ms|damaged"):
        recording.explain(at_ms=5)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, '{"a": ' * 100_000, " " * (64 * 2**20 + 1)])
def test_a_deep_or_huge_manifest_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "recording.json").write_text(text, encoding="utf-8")
    with limited(), pytest.raises(RecordingError, match=r"recording\.json"):
        wm.trace.Recording.read(tmp_path)


def test_every_damaged_byte_of_a_footer_is_damage_or_nothing(tmp_path: Path) -> None:
    file = recorded(tmp_path) / "cycles" / PART_FILE
    whole = file.read_bytes()
    refused = 0
    for place in range(len(whole) - 400, len(whole)):
        file.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            wm.trace.Recording.read(file.parents[1]).table("cycles")
        except RecordingError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("path", ["a\0b", "\ud800", 3, None, b"x", "~no-such-user/x", "x" * 5_000])
def test_what_is_no_path_is_refused(path: Any) -> None:
    for read, error in (
        (Scenario.load, ScenarioError),
        (load_scenario, ScenarioError),
        (wm.trace.Recording.read, RecordingError),
        (wm.trace.load, TraceError),
        (Scenario("x", writers=[WRITER], duration_ms=1).save, ScenarioError),
    ):
        with pytest.raises(error, match="not a path"):
            read(path)
    if path is not None:
        with pytest.raises(RecordingError, match="not a path"):
            Scenario("x", writers=[WRITER], duration_ms=1).record(path, progress=False)


def test_a_moment_beyond_64_bits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(recorded(tmp_path)), "--at-ms", str(2**70)]) == 1
    assert "To repair it" in capsys.readouterr().err
    for bounds in ((2**70, 2**71), (0, 2**63), (-(2**70), 5), ("0001-01-01T00:00:00+23:59", 3)):
        with pytest.raises(TraceError, match=r"64 bits|from .0001"):
            wm.trace.load("flights").between(*bounds)


def test_a_place_that_is_taken_is_refused_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, begun = str(SCENARIOS / "first_bounds.yaml"), []
    for taken in (tmp_path, SCENARIOS / "first_bounds.yaml" / "below"):
        assert main(["record", file, str(taken)]) == 1
        told = capsys.readouterr().err
        assert "To repair it: choose another path" in told or "To repair it: choose a directory" in told
        with pytest.raises(RecordingError):
            Scenario.load(file).record(taken, progress=begun.append)
    assert begun == []


def test_a_number_beyond_64_bits_is_refused_by_the_table_that_it_is_for() -> None:
    journal = Journal()
    journal.write("sizes", bytes=2**63)
    with pytest.raises(ModelError, match="for the table sizes that is beyond 64 bits"):
        journal.tables({"sizes": pa.schema({"bytes": pa.int64()})})


def test_an_unknown_column_in_the_condition_of_a_join_bounds_nothing() -> None:
    places = {"left.t": 0, "right.t": 1}
    assert join_time_bounds("left.t >= lef2.t", places, {0}, {1}) == {}
    assert join_time_bounds("left.t >= right.t - 5", places, {0}, {1}) == {1: {0: 5}}


def test_a_mean_of_minus_zero_is_zero() -> None:
    assert next(delays_ms(Exponential(-0.0, least_ms=3), np.random.default_rng(0))) == 3
    assert str(EventWriter("w", rate_per_s=1, delay_mean_ms=-0.0)) == str(
        EventWriter("w", rate_per_s=1, delay_mean_ms=0.0)
    )
