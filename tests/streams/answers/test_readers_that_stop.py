"""Readers that pause, crash, leave or join, and who holds a run: what `explain`, charts and `compare` say of them."""

from __future__ import annotations

import pytest

import wmlab as wm
from wmlab.core.recording import Recording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import ReaderGroup

FIRST_BOUNDS = wm.Scenario.load("first_bounds").replace(script=[], readers=ReaderGroup("r", readers=2))
STOPS = {
    "pause": (script.PauseReader(at_ms="20 s", reader="r-0"), "paused"),
    "crash": (script.CrashReader(at_ms="20 s", reader="r-0", offline_after_ms="50 s"), "down"),
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


def test_the_whole_run_names_first_a_reader_that_stopped_for_longer_than_the_log(
    stopped: tuple[Recording, str],
) -> None:
    run, state = stopped
    facts, moves = run.explain().facts, run.time_bounds().toPandas().query("lower == lower")
    of_group = moves[moves["lower"] != moves["lower"].shift()]
    assert (facts["curve"], facts["held by"], facts["holder state"]) == (
        "The bound at the position of r",
        "r-0",
        state,
    )
    assert (facts["from"], facts["at"]) == (of_group["at_ms"].iloc[-1], of_group["lower"].iloc[-1])
    assert (facts["to"], facts["longest stop"]) == (60_000, 60_000 - facts["from"])
    assert record().explain().facts["curve"] == "The watermark in the log of orders"


def test_a_comparison_has_how_late_the_readers_of_each_run_were(stopped: tuple[Recording, str]) -> None:
    run, _ = stopped
    calm = record()
    results = dict(wm.compare(calm, run, labels=["calm", "stopped"]).results)
    of_calm, of_stopped = results["worst lag of the lower bound that readers saw (ms)"]
    assert of_stopped > 2 * of_calm > 0


def test_a_reader_that_is_down_or_gone_knows_nothing_any_more() -> None:
    crash = script.CrashReader(at_ms="20 s", reader="r-1", offline_after_ms="50 s")
    for action, state in ((crash, "down"), (script.RemoveReader(at_ms="20 s", reader="r-1"), "gone")):
        run = record(action)
        seen = [row["lower"] for row in run.table("windows").to_pylist() if row["reader"] == "r-1"][-1]
        for at_ms in (20_001, 20_500, 50_000):
            explained = run.explain(at_ms, reader="r-1")
            assert explained.headline.startswith(f"Reader r-1 has been {state} since 20.0")
            assert (explained.facts["saw"], explained.facts["reader state"]) == (seen, state)
        upper = run.explain("50 s", reader="r-1", bound="upper").facts
        assert (upper["reader state"], upper["reader since"]) == (state, 20_000)


def test_who_takes_a_segment_over_is_named_with_the_dead_owner() -> None:
    busy = ReaderGroup("r", readers=2, rate_per_s=200)
    run = record(script.CrashReader(at_ms="20 s", reader="r-0"), readers=busy)
    explained = run.explain("25 s", group="r")
    assert (explained.facts["cause"], explained.facts["read by"]) == ("unread", "r-1")
    assert explained.facts["read before by"] == "r-0"


def test_a_reader_or_group_that_is_not_there_yet_has_its_moment() -> None:
    run = record(script.AddReader(at_ms="20 s", reader="r-2"))
    assert run.explain("10 s", reader="r-2").headline == "Reader r-2 has not polled yet."
    assert run.explain("10 s", reader="r-2").facts["starts at"] == 20_000
    assert "starts at" not in run.explain("30 s", reader="r-2").facts
    late = record(readers=ReaderGroup("r", starts_ms="20 s"))
    for asked in ({"group": "r"}, {"reader": "r-0"}):
        assert late.explain("10 s", **asked).facts["starts at"] == 20_000


def test_a_segment_that_was_given_back_has_no_owner_until_it_is_taken() -> None:
    give = script.ReleaseSegment(at_ms="20 s", reader="r-0", segment="0@0", keep_free_ms="10 s")
    run = record(give)
    rows = [row for row in run.table("positions").to_pylist() if row["segment_id"] == 0]
    assert [row["reader"] for row in rows if 20_000 <= row["at_ms"] < 30_000] == [None]
    facts = run.explain("25 s", group="r").facts
    assert (facts["cause"], facts["segment"], facts["read before by"]) == ("assignment", "0@0", "r-0")
    assert "read by" not in facts
    assert run.explain().facts["cause"] == "assignment"
    assert run.explain("35 s", group="r").facts["cause"] != "assignment"


def test_a_sealed_stream_is_said_to_be_sealed() -> None:
    run = record(script.SealStream(at_ms="40 s"))
    assert run.explain("50 s").facts["sealed at"] == 40_000
    assert "sealed at" not in run.explain("30 s").facts


@pytest.mark.parametrize(
    ("fault", "who", "state"),
    [
        (script.StoreUnavailable(at_ms="20 s", for_ms="15 s"), "writer marks", "unavailable"),
        (script.PauseController(at_ms="20 s", controller="controller-0", for_ms="15 s"), "controller-0", "paused"),
        (
            script.CrashController(at_ms="20 s", controller="controller-0", restart_after_ms="15 s"),
            "controller-0",
            "down",
        ),
        (script.CrashWriter(at_ms="20 s", writer="w1", restart_after_ms="15 s", backlog="kept"), "w1", "down"),
        (script.Partition(at_ms="20 s", a="w1", b="segment-store", for_ms="15 s"), "w1", "cut off"),
    ],
    ids=["store", "pause", "crash", "backlog", "cut off"],
)
def test_the_headline_of_a_run_names_who_held_it_longest_and_what_befell_it(
    fault: script.Action, who: str, state: str
) -> None:
    found = record(fault).explain()
    assert (found.facts["held by"], found.facts["holder state"], found.facts["holder since"]) == (who, state, 20_000)
    assert found.headline.endswith(f"held by {who} ({state}).")


def test_nobody_falls_silent_who_has_shut_down() -> None:
    leave = script.ShutDownWriter(at_ms="10 s", writer="w1")
    run = record(leave, script.SilenceWriter(at_ms="20 s", writer="w1", for_ms="5 s"))
    rows = [row for row in run.table("incidents").to_pylist() if row["at_ms"] >= 20_000]
    assert [(row["kind"], row["outcome"]) for row in rows] == [("silence", "nobody there")]
