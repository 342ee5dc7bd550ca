"""Readers that pause, crash, leave or join: what `explain`, the chart of a reader and `compare` say of them."""

from __future__ import annotations

import pytest

import wmlab as wm
from wmlab.core.recording import Recording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import ReaderGroup

FIRST_BOUNDS = wm.Scenario.load("first_bounds").replace(script=[], readers=ReaderGroup("r", readers=2))
STOPS = {
    "pause": (script.PauseReader(at_ms="20 s", reader="r-0"), "was paused"),
    "crash": (script.CrashReader(at_ms="20 s", reader="r-0", offline_after_ms="50 s"), "was down"),
}


def record(*actions: script.Action, **fields: object) -> Recording:
    return FIRST_BOUNDS.replace(script=[*actions], **fields).record(progress=False)


@pytest.fixture(scope="module", params=STOPS)
def stopped(request: pytest.FixtureRequest) -> tuple[Recording, str]:
    action, words = STOPS[request.param]
    return record(action), words


def test_the_chart_of_a_reader_goes_on_to_the_end_of_the_run(stopped: tuple[Recording, str]) -> None:
    run, _ = stopped
    windows = run.to_pandas("windows").query("reader == 'r-0'")
    chart = wm.chart.time_bounds(windows, recording=run)
    assert (chart.facts["longest stop"], chart.facts["to"], chart.facts["held by"]) == (41_000, 60_000, "r-0")
    last = windows.iloc[-1]
    assert (chart.data["at_ms"][-1], chart.data["lower"][-1]) == (60_000, last.lower)
    alone = wm.chart.time_bounds(windows)
    assert alone.data["at_ms"][-1] == last.at_ms, "without a recording nobody knows when the run ended"


def test_the_whole_run_names_readers_that_stopped_for_longer_than_the_log(stopped: tuple[Recording, str]) -> None:
    run, words = stopped
    stop = wm.chart.time_bounds(run.time_bounds(), recording=run).sentence
    value, length = run.explain("59 s", group="r").value, "for 40.0 s from 20.0 s to 60.0 s"
    assert f"The readers of r knew no watermark above {value / 1_000:.1f} s {length}: r-0 {words}." in str(
        run.explain()
    ).replace("\n", " ")
    assert stop == "The lower bound at the position of r stood still for 40.0 s from 20.0 s, held by r-0."
    assert "The readers of" not in str(record().explain())


def test_a_comparison_names_the_run_whose_readers_were_late(stopped: tuple[Recording, str]) -> None:
    run, _ = stopped
    calm = record()
    sentence = wm.compare(calm, run, labels=["calm", "stopped"]).sentence
    assert "Readers saw it up to" in sentence
    assert "late in stopped, and up to" in sentence
    assert "Readers saw" not in wm.compare(calm, record(seed=8), labels=["calm", "other"]).sentence


def test_a_reader_that_is_down_or_gone_knows_nothing_any_more() -> None:
    crash = script.CrashReader(at_ms="20 s", reader="r-1", offline_after_ms="50 s")
    for action, state in ((crash, "down"), (script.RemoveReader(at_ms="20 s", reader="r-1"), "gone")):
        run = record(action)
        seen = [row["lower"] for row in run.table("windows").to_pylist() if row["reader"] == "r-1"][-1]
        for at_ms in (20_001, 20_500, 50_000):
            sentence = run.explain(at_ms, reader="r-1").sentence
            expected = f"r-1 has been {state} since 20.0 s. The last watermark that it saw is {seen / 1_000:.1f} s."
            assert sentence.startswith(expected)
        upper = run.explain("50 s", reader="r-1", bound="upper").sentence
        assert upper.startswith(f"r-1 has been {state} since 20.0 s. At its last poll it saw ")


def test_who_takes_a_segment_over_is_named_with_the_dead_owner() -> None:
    busy = ReaderGroup("r", readers=2, rate_per_s=200)
    run = record(script.CrashReader(at_ms="20 s", reader="r-0"), readers=busy)
    explained = run.explain("25 s", reader="r-1")
    assert "must be read, by r-1. r-0 owned it before and has been down since 20.0 s." in explained.sentence


def test_a_reader_or_group_that_is_not_there_yet_has_its_moment() -> None:
    run = record(script.AddReader(at_ms="20 s", reader="r-2"))
    assert run.explain("10 s", reader="r-2").sentence.startswith("r-2 joins at 20.0 s. The newest watermark is ")
    assert "joins" not in run.explain("30 s", reader="r-2").sentence
    late = record(readers=ReaderGroup("r", starts_ms="20 s"))
    assert late.explain("10 s", group="r").sentence.startswith("The readers start at 20.0 s. ")
    assert late.explain("10 s", reader="r-0").sentence.startswith("r-0 joins at 20.0 s. ")


def test_a_segment_that_was_given_back_has_no_owner_until_it_is_taken() -> None:
    give = script.ReleaseSegment(at_ms="20 s", reader="r-0", segment="0@0", keep_free_ms="10 s")
    run = record(give)
    rows = [row for row in run.table("positions").to_pylist() if row["segment_id"] == 0]
    assert [row["reader"] for row in rows if 20_000 <= row["at_ms"] < 30_000] == [None]
    sentence = run.explain("25 s", reader="r-1").sentence
    assert "Segment 0@0 has been without an owner since 20.0 s." in sentence
    assert "segment 0@0 had no owner." in str(run.explain()).replace("\n", " ")
    assert "without an owner" not in run.explain("35 s", reader="r-1").sentence


def test_a_sealed_stream_is_said_to_be_sealed() -> None:
    run = record(script.SealStream(at_ms="40 s"))
    assert run.explain("50 s").sentence.endswith(
        "The stream has been sealed since 40.0 s: nothing more can be written."
    )
    assert "sealed" not in run.explain("30 s").sentence


@pytest.mark.parametrize(
    "fault",
    [
        script.StoreUnavailable(at_ms="20 s", for_ms="15 s"),
        script.PauseController(at_ms="20 s", controller="controller-0", for_ms="15 s"),
        script.CrashController(at_ms="20 s", controller="controller-0", restart_after_ms="15 s"),
    ],
    ids=lambda fault: fault.kind,
)
def test_what_keeps_cycles_back_costs_what_the_run_without_it_gains(fault: script.Action) -> None:
    run, calm = record(fault), record()
    key = "mean lag of the lower bound (ms)"
    measured = run.measures().measures[key] - calm.measures().measures[key]
    stragglers = run.explain()
    costs = [row.cost_ms for row in stragglers.stragglers if row.why in ("store", "controller")]
    assert sum(costs) == pytest.approx(measured, rel=0.2)
    assert stragglers.stragglers[0].why in ("store", "controller"), "the headline names what cost most"


def test_nobody_falls_silent_who_has_shut_down() -> None:
    leave = script.ShutDownWriter(at_ms="10 s", writer="w1")
    run = record(leave, script.SilenceWriter(at_ms="20 s", writer="w1", for_ms="5 s"))
    rows = [row for row in run.table("incidents").to_pylist() if row["at_ms"] >= 20_000]
    assert [(row["kind"], row["outcome"]) for row in rows] == [("silence", "nobody there")]
