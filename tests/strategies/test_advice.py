"""Advice: chosen on the first half of a log, kept on the half that nobody has seen; or a doubt that says why not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from math import ceil

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.repetitions import repetitions
from tests.strategies.logs import (
    DAY_MS,
    START_MS,
    Delays,
    ahead,
    changed,
    exponential,
    flights,
    kept,
    ordered,
    sent,
    shifted,
    times,
)
from tests.strategies.model.logs import logs, trace
from wmlab.core.errors import ModelError
from wmlab.core.traces import Trace, load
from wmlab.core.words import exactly
from wmlab.strategies import judging
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.candidates import Candidate
from wmlab.strategies.comparison import compare, short_name
from wmlab.strategies.judging import JudgedCandidate
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, x_of_records
from wmlab.strategies.windows import LogWindows, windows_of

TARGET = 0.01
ROWS = 24_000


def generated(delays: Delays, writers: int = 1, rows: int = ROWS) -> Trace:
    """A record every 50 ms."""
    return sent(rows, delays, writers=writers, every_ms=50, seed=3)


FIVE_SECONDS = exponential(5_000)
GENERATED: dict[str, tuple[Delays, int]] = {
    "stationary": (FIVE_SECONDS, 1),
    "heavy tail": (lambda random, number: random.lognormal(8, 1, len(number)), 1),
    "drift": (lambda random, number: random.exponential(2_000 + number / 4), 1),
    # The second writer is behind by 0 to 20 s in waves: each is in order, both together are not.
    "two writers": (lambda _, number: np.where(number % 2, 10_000 * (1 + np.sin(number / 267)), 0), 2),
}
"""How late records are, and of how many writers."""


@cache
def log_of(name: str, rows: int = ROWS) -> Trace:
    if name in GENERATED:
        return generated(*GENERATED[name], rows)
    return flights("2013-03-01") if name == "flights" else load(name)


@cache
def advice_of(name: str, target: float) -> Advice:
    return advise(log_of(name), target)


@pytest.mark.parametrize("name", ["dengue", "flights", *GENERATED])
def test_what_is_advised_of_the_first_half_keeps_its_promise_on_the_second(name: str) -> None:
    log = log_of(name, rows=40_000)
    first, second = (Trace(name, log.table[half]) for half in (slice(log.rows // 2), slice(log.rows // 2, None)))
    advice = advise(first, TARGET)
    assert advice.supported
    ((met, x),) = x_of_records(log, [advice.strategy], tick_ms=0)
    event, arrival = times(second)
    assert (event < met[first.rows :]).mean() <= 1.2 * TARGET
    curve = lateness_curve(second)
    assert np.median(arrival - x[first.rows :]) <= 1.15 * curve.lag_ms(curve.bound_ms(TARGET))


HEADLINES = repetitions(
    [("dengue", 0.05), ("flights", 0.01), ("quakes", 0.001)],
    long=[*product(("dengue", "flights", "quakes"), (0.05, 0.01, 0.001))],
)


@pytest.mark.parametrize(("name", "target"), [*HEADLINES, ("stationary", TARGET), ("two writers", TARGET)])
def test_the_headline_is_what_compare_says_of_the_advised_strategy(name: str, target: float) -> None:
    """Every number of the advice is that of `compare`, over the whole log or on its second half."""
    log, advice = log_of(name), advice_of(name, target)
    compared = compare(log, [advice.strategy])
    (outcome,), ((met, x, *_),) = compared, compared.paths
    assert advice.whole == outcome
    unseen = slice(advice.unseen_from - 1, None)
    event, arrival = (column[unseen] for column in times(log))
    assert advice.unseen_from == log.rows // 2 + 1
    assert advice.missed_share == (event < met[unseen]).mean()
    assert advice.lag_ms == np.quantile(arrival - x[unseen], 0.5, method="inverted_cdf")
    assert advice.missed_range[0] <= advice.missed_share <= advice.missed_range[1]
    assert advice.lag_range[0] <= advice.lag_ms <= advice.lag_range[1]
    assert f"{short_name(advice.strategy)}" in advice.headline
    assert f"On the unseen half {advice.missed_share:.3%} of the records are late" in advice.sentence


def judged(records: list[Record], bound_ms: int, target: float) -> JudgedCandidate:
    """A constant bound as it is judged on the second half of a log."""
    log, strategy = trace(records), BoundedOutOfOrderness(bound_ms)
    (steps,) = x_of_records(log, [strategy], tick_ms=0)
    return judging.judge(Candidate(strategy, *steps), Log.of(log), log.rows // 2, None)


@given(logs(times=3_000).filter(bool), st.sampled_from([0, 5, 400]), st.sampled_from([0.01, 0.3]))
def test_the_intervals_contain_what_they_are_of(records: list[Record], bound_ms: int, target: float) -> None:
    """Also of a log whose lag drifts or jumps, where the blocks of the half have other medians than the half."""
    of_half = judged(records, bound_ms, target)
    assert of_half.lag_range[0] <= of_half.lag_ms <= of_half.lag_range[1]
    assert of_half.missed_range[0] <= of_half.unseen.late_share <= of_half.missed_range[1]


def test_what_just_misses_the_target_keeps_it_and_a_miss_of_the_first_half_counts() -> None:
    late = [Record(100, 100, "a"), Record(50, 101, "a"), Record(200, 200, "a"), Record(300, 300, "a")]
    first_only, second_too = (
        judged(late, 0, 0.01),
        judged([*late, Record(250, 301, "a"), Record(400, 400, "a")], 0, 0.5),
    )
    assert (first_only.unseen.missed, first_only.misses_none, judged(late, 50, 0.01).misses_none) == (0, False, True)
    share = second_too.unseen.missed_share
    assert (share, second_too.keeps(share), second_too.keeps(share - 1e-9)) == (1 / 3, True, False)


def test_a_session_of_the_first_half_takes_records_of_the_second() -> None:
    """A record at 89 is lost alone at the watermark 100, and taken by the session that began at 95."""
    log, strategy = trace([Record(time, n, "a") for n, time in enumerate([95, 100, 89, 120])]), BoundedOutOfOrderness(0)
    windows = windows_of(None, None, 10, 0)
    assert windows is not None
    (steps,) = x_of_records(log, [strategy], tick_ms=0)
    half = LogWindows.of(Log.of(log).of_rows(slice(2, None)), windows)
    assert judging.judge(Candidate(strategy, *steps), Log.of(log), 2, half).unseen.lost == 0


def test_of_blocks_with_other_medians_the_interval_is_around_the_median_of_all() -> None:
    """Of two lags, one twice as usual as the other: all medians are one of them, and their mean is near neither."""
    lags = [0] * 5 + [1_000] * 3
    records = [Record(100_000 * n, 100_000 * n + lag_ms, "a") for n, lag_ms in enumerate(lags * 2)]
    of_half = judged(records, 0, TARGET)
    # The deviations of the blocks are 0, five times, and 1 000, three times.
    half_width_ms = ceil(2.365 * (3 * 1_000**2 / 7 / 8) ** 0.5)
    assert (of_half.lag_ms, of_half.lag_range) == (0, (-half_width_ms, half_width_ms))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("stationary", BoundedOutOfOrderness), ("drift", ConformalWatermark), ("two writers", PerWriterMinimum)],
)
def test_the_strategy_fits_the_log(name: str, kind: type) -> None:
    advice = advice_of(name, TARGET)
    assert isinstance(advice.strategy, kind)
    assert advice.missed_range[0] <= advice.missed_share <= advice.missed_range[1]
    assert advice.bound_ms == lateness_curve(log_of(name)).bound_ms(TARGET)
    assert repr(advice).startswith(f"Take {kind.__name__}(")
    assert "Flink SQL" in advice._repr_html_()
    assert advice.to_dict()["strategy"] == repr(advice.strategy)


def test_a_log_that_is_too_short_is_said_to_be() -> None:
    advice = advise(load("quakes"), TARGET)
    assert not advice.supported
    text = repr(advice)
    assert [doubt.kind for doubt in advice.doubts] == ["few records", "target missed"]
    assert text.startswith(
        "The log quakes does not support a watermark for 1.000% (few records and target missed); the best\nguess is "
    )
    assert advice.facts["missed"] == pytest.approx(0.29977, abs=1e-5)
    assert "- The target of 1.000% is missed by 28.977% on the unseen half. A constant bound of 5 d 14 h 27 min" in text
    assert "- The log is too short: it has 1 707 records, and 20 000 are needed." in text
    assert text.count("too short") == 1
    assert "  Flink (a guess): WatermarkStrategy" in text


def test_a_target_that_is_missed_by_far_is_said_to_be() -> None:
    doubts = advise(load("quakes"), 0.05).doubts
    assert [doubt.kind for doubt in doubts] == ["few records", "target missed"]
    assert str(doubts[1]).startswith("The target of 5.000% is missed by 25.094% on")


def test_of_no_late_record_the_share_is_not_said_to_be_none() -> None:
    """Of 200 records none is late; so may 1.9% be, at 95%."""
    advice = advise(sent(200, lambda _, number: 0), TARGET)
    assert advice.missed_range == (0, pytest.approx(0.037, abs=0.001))
    assert [doubt.kind for doubt in advice.doubts] == ["few records"]


@pytest.mark.parametrize("part", [slice(0, 853), slice(0, None)])
def test_a_share_of_few_records_is_not_promised(part: slice) -> None:
    """A bound for 5% that the first half of quakes bears out loses more than four times that on the second half."""
    quakes = load("quakes")
    (doubt, *_) = advise(Trace("part", quakes.table[part]), 0.05).doubts
    assert doubt.kind == "few records"


def test_one_time_a_day_ahead_spoils_every_watermark_but_that_behind_a_guard() -> None:
    log = ahead(sent(20_000, exponential(3_000), writers=3, seed=3), 9_000, DAY_MS)
    advice = advise(log, TARGET)
    doubt = advice.doubts[0]
    assert (doubt.kind, doubt.rows, doubt.writers) == ("wrong times", (9_001,), (log.table["writer"][9_000].as_py(),))
    assert (doubt.bound_ms, doubt.count) == (advice.bound_ms, 1)
    assert doubt.without_ms is not None
    assert doubt.bound_ms > 0.9 * DAY_MS
    assert doubt.without_ms < 15_000
    bounds = exactly(doubt.bound_ms), exactly(doubt.without_ms)
    assert "The constant bound is {} with them, and {} without.".format(*bounds) in str(doubt)
    assert isinstance(advice.strategy, Guarded)
    assert advice.missed_share <= 1.2 * TARGET
    assert "nothing is offered" in advice.settings["Flink SQL"].note
    assert "your own WatermarkGenerator" in advice.settings["Flink"].note


def test_a_share_that_varies_too_much_is_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmlab.strategies.doubts.STEADY", 1.0)
    (doubt,) = advise(log_of("stationary"), TARGET).doubts
    assert doubt.kind == "not sure"
    assert str(doubt).startswith("The target of 1.000% is kept, but up to 1.1")


def bursts() -> Trace:
    """A burst in seven comes a minute late: conformal inference stops, while a bound of that minute loses nothing."""
    late = np.where((np.arange(ROWS) // 2_000) % 7 == 3, 60_000, 0)
    return generated(lambda random, number: FIVE_SECONDS(random, number) + late)


def test_a_watermark_that_keeps_its_target_by_standing_still_is_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = advise(bursts(), TARGET)
    assert not advice.supported
    assert isinstance(advice.strategy, BoundedOutOfOrderness), "the best guess, which lags by a seventh"
    monkeypatch.setattr(
        "wmlab.strategies.advice.chosen",
        lambda judged, _: next(each for each in judged if isinstance(each.strategy, ConformalWatermark)),
    )
    (doubt,) = advise(bursts(), TARGET).doubts
    assert doubt.kind == "stands still"
    assert doubt.facts["lag"] == advise(bursts(), TARGET).lag_ms


def test_skewed_clocks_are_named() -> None:
    log = log_of("stationary")
    doubt = advise(changed(log, arrival_ms=times(log)[1] - 4_000), TARGET).doubts[0]
    assert doubt.kind == "early"
    assert doubt.facts["early share"] > 0.5


def test_a_writer_whose_clock_is_ahead_is_named_with_the_bound_without_it() -> None:
    """The clock of w3, one of twenty, is six seconds ahead, which delays of five seconds would explain."""
    log = shifted(generated(FIVE_SECONDS, writers=20), 6_000, "w3")
    advice = advise(log, TARGET)
    (doubt,) = advice.doubts
    assert (doubt.kind, doubt.writers) == ("early", ("w3",))
    without = kept(log, log.table["writer"].to_numpy() != "w3")
    assert (doubt.bound_ms, doubt.without_ms) == (
        lateness_curve(log).bound_ms(TARGET),
        lateness_curve(without).bound_ms(TARGET),
    )
    assert doubt.facts["clock off"] == pytest.approx(6_000, abs=300)


def test_a_lag_whose_interval_is_wider_than_itself_is_not_known() -> None:
    """Half of the time a log of hours comes within a second, else within a minute or an hour, block by block."""
    base = np.repeat([500, 3_600_000, 500, 60_000] * 4, ROWS // 16)
    advice = advise(generated(lambda random, _: base + random.exponential(300, ROWS)), 0.2)
    assert "wide lag" in [doubt.kind for doubt in advice.doubts]
    assert not advice.supported


def test_a_bound_that_is_for_a_tail_names_its_writer() -> None:
    """Of w7, one of ten, a fifth of the records comes ten minutes late; all others within some seconds."""
    number = np.arange(ROWS)
    tail = np.where((number % 10 == 7) & (number // 10 % 5 == 0), 600_000, 0)
    log = generated(lambda random, _: random.exponential(1_000, ROWS) + tail, writers=10)
    doubts = {doubt.kind: doubt for doubt in advise(log, TARGET).doubts}
    assert doubts["one tail"].writers == ("w7",)
    assert doubts["one tail"].bound_ms > 50 * doubts["one tail"].without_ms


def test_a_log_in_order_gets_the_bound_0_however_its_lag_varies() -> None:
    event = START_MS + 10_000 * np.arange(40_000)
    delay = np.where((np.arange(40_000) // 2_500) % 2, 50, 650)
    advice = advise(ordered(event, event + delay, ["a"] * 40_000), TARGET)
    assert advice.supported
    assert (advice.strategy, advice.unseen.late) == (BoundedOutOfOrderness(0), 0)


def candidate(name: int, missed: float, lag_ms: int) -> JudgedCandidate:
    """A candidate that does not keep a target of 1%."""
    of_half = judged([Record(n, n, "a") for n in range(20)], name, TARGET)
    unseen = replace(of_half.unseen, rows=10_000, late=round(10_000 * missed), lag_p50_ms=lag_ms)
    return replace(of_half, unseen=unseen)


@pytest.mark.parametrize(
    ("losses_and_lags", "best"),
    [
        ([(0.0263, 60 * DAY_MS), (0.0277, 237)], 1),
        ([(0.02, 242 * DAY_MS), (0.03, 206)], 1),
        ([(0.013, 5_000), (0.5, 7)], 0),
        ([(0.02, 4_000), (0.02, 5_000)], 0),
    ],
)
def test_the_best_guess_weighs_loss_and_lag(losses_and_lags: list[tuple[float, int]], best: int) -> None:
    of = [candidate(name, missed, lag_ms) for name, (missed, lag_ms) in enumerate(losses_and_lags)]
    assert judging.chosen(of, TARGET) is of[best]


def test_an_interval_that_crosses_the_target_is_said() -> None:
    said = []
    for name in ("stationary", "two writers", "heavy tail"):
        advice = advice_of(name, TARGET)
        assert advice.supported
        said.append("not sure" in [finding.kind for finding in advice.findings])
        assert said[-1] == (advice.missed_range[1] > TARGET)
        assert (f"up to {advice.missed_range[1]:.3%} may be missed" in repr(advice)) == said[-1]
    assert any(said)


@pytest.mark.parametrize("target", [0, 1, -0.1, None])
def test_a_target_is_a_share_between_none_and_all(target: float) -> None:
    with pytest.raises(ModelError, match="late_share: input should be"):
        advise(log_of("two writers"), target)


def test_a_window_has_a_length() -> None:
    with pytest.raises(ModelError, match="window_ms is 0"):
        advise(log_of("two writers"), 0.01, window_ms=0)
