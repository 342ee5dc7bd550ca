"""Durations as text: every field and argument of milliseconds takes them, and shows them as they were given."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from typing import Any

import pytest
import yaml

import wmlab as wm
from wmlab.core.arguments import the_duration, the_moment
from wmlab.core.durations import GivenDuration, duration_ms
from wmlab.core.errors import ModelError, RecordingError, ScenarioError


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250ms", 250),
        ("10s", 10_000),
        (" 10 s ", 10_000),
        ("1.5s", 1_500),
        ("5 min", 300_000),
        ("1 h 30 min", 5_400_000),
        ("1h30min", 5_400_000),
        ("2 d", 172_800_000),
        ("1 d 2 h 3 min 4 s 5 ms", 93_784_005),
        ("-300ms", -300),
        ("\N{MINUS SIGN}2 s", -2_000),
        ("0s", 0),
    ],
)
def test_a_text_is_its_milliseconds_and_keeps_its_words(text: str, ms: int) -> None:
    duration = duration_ms(text)
    assert duration == ms
    assert isinstance(duration, GivenDuration)
    assert repr(duration) == repr(text.strip())
    assert (str(duration), f"{duration}", f"{duration:_}") == (str(ms), str(ms), f"{ms:_}")
    assert type(duration + 0) is int
    assert hash(duration) == hash(ms)
    assert json.dumps([duration]) == f"[{ms}]"
    again = pickle.loads(pickle.dumps(duration))
    assert (again, again.given) == (ms, text.strip())


@pytest.mark.parametrize(
    "text",
    ["", "10", "s", "10 sec", "5m", "5 M", "1s 1h", "1s 1s", "1 h -3 min", "1,5 s", "1e3 s", "10s.", "ten s"],
)
def test_another_text_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match='such as "250ms", "10s", "5 min"'):
        duration_ms(text)


def test_what_is_not_of_whole_milliseconds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'0\.5ms' is not a whole number of milliseconds"):
        duration_ms("0.5ms")
    with pytest.raises(ValueError, match="not a whole number"):
        duration_ms(timedelta(microseconds=1))
    assert duration_ms(timedelta(minutes=2)) == 120_000
    assert duration_ms(7.5) == 7.5, "other values are left to the check of numbers"


IN_TEXT = wm.Scenario(
    "texts",
    stream=wm.Stream("orders", timestamp_aggregation_timeout_ms="10s"),  # type: ignore[arg-type]
    writers=[wm.EventWriter("w", rate_per_s=5, delay_mean_ms="1.5 s", note_every_ms="500ms")],  # type: ignore[arg-type]
    script=[wm.script.CrashWriter(at_ms="20s", writer="w")],  # type: ignore[arg-type]
    duration_ms="1 min",  # type: ignore[arg-type]
)
IN_MS = wm.Scenario(
    "texts",
    stream=wm.Stream("orders", timestamp_aggregation_timeout_ms=10_000),
    writers=[wm.EventWriter("w", rate_per_s=5, delay_mean_ms=1_500, note_every_ms=500)],
    script=[wm.script.CrashWriter(at_ms=20_000, writer="w")],
    duration_ms=60_000,
)


def test_a_scenario_in_texts_is_the_one_in_milliseconds_and_shows_the_texts() -> None:
    assert IN_TEXT == IN_MS
    written = yaml.safe_load(IN_TEXT.to_yaml())
    assert written["duration_ms"] == "1 min"
    assert written["script"][0]["at_ms"] == "20s"
    assert written["writers"][0]["delay_mean_ms"] == "1.5 s"
    assert wm.Scenario.from_yaml(IN_TEXT.to_yaml()).to_yaml() == IN_TEXT.to_yaml()
    assert "duration_ms='1 min'" in repr(IN_TEXT)
    assert pickle.loads(pickle.dumps(IN_TEXT)).to_yaml() == IN_TEXT.to_yaml()
    first, second = IN_TEXT.record(), IN_MS.record()
    assert first.scenario == second.scenario
    assert all(first.table(name) == second.table(name) for name in first.schemas)
    with pytest.raises(ScenarioError, match=r"duration_ms: give whole milliseconds or a text such as .* \(got '60'\)"):
        wm.Scenario("bad", writers=[wm.EventWriter("w", rate_per_s=1)], duration_ms="60")  # type: ignore[arg-type]


def test_the_other_models_and_strategies_take_texts_too() -> None:
    in_text: Any = "35 d"
    assert wm.strategy.BoundedOutOfOrderness(in_text) == wm.strategy.BoundedOutOfOrderness(35 * 86_400_000)
    assert repr(wm.strategy.BoundedOutOfOrderness(in_text)) == "BoundedOutOfOrderness(bound='35 d')"
    time = wm.dataflow.EventTime("t", lag_ms="5 s")
    assert time.lag_ms == 5_000
    assert wm.hunt(IN_MS, quiet_ms="5 s").runs == wm.hunt(IN_MS, quiet_ms=5_000).runs
    stall = wm.progress.StallWorker(at_ms="1s", worker=1, for_ms="2s")
    assert (stall.at_ms, stall.for_ms) == (1_000, 2_000)
    with pytest.raises(ModelError, match=r"BoundedOutOfOrderness.bound: .*\(got '35 days'\)"):
        wm.strategy.BoundedOutOfOrderness("35 days")


def test_a_moment_is_a_number_a_text_from_the_start_or_a_date() -> None:
    assert the_moment(5) == 5
    assert the_moment("90s", start_ms=1_000) == 91_000
    assert the_moment("2013-07-16 09:00") == 1_373_965_200_000
    assert the_moment("2013-07-16T09:00:00+02:00") == 1_373_958_000_000
    with pytest.raises(RecordingError, match=r"a recorded log has no start"):
        the_moment("90s", start_ms=None)
    with pytest.raises(RecordingError, match=r"at_ms is 'noon', which is not a moment"):
        the_moment("noon")
    with pytest.raises(RecordingError, match="whole milliseconds"):
        the_moment("0.5ms")
    assert the_duration("5 s", ModelError, name="every_ms") == 5_000
    with pytest.raises(ModelError, match="every_ms is True"):
        the_duration(True, ModelError, name="every_ms")


def test_explain_and_scrub_take_the_moment_as_text() -> None:
    recording = IN_MS.replace(start_ms=1_000_000).record()
    assert str(recording.explain("36 s")) == str(recording.explain(1_036_000))
    assert recording.scrub(at_ms="36 s").at_ms == 1_036_000
    with pytest.raises(RecordingError, match="outside the run"):
        recording.explain("2 min")
