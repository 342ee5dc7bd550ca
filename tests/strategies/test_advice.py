"""Advice: chosen on the first half of a log, kept on the half that nobody has seen; or a doubt that says why not."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, trace
from wmlab.core.errors import ModelError
from wmlab.core.traces import TRACE_SCHEMA, Trace, load
from wmlab.core.words import grouped
from wmlab.strategies import judging
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.comparison import compare, named
from wmlab.strategies.doubts import Doubt
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.strategy import Record
from wmlab.strategies.model.targets import ConformalWatermark
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, x_of_records

TARGET = 0.01
ROWS = 40_000


def made(delay_ms: Any, *, writers: int = 1, seed: int = 3) -> Trace:
    """A record every 50 ms; `delay_ms` draws how late each arrives, from a generator and the time of each."""
    random = np.random.default_rng(seed)
    event = np.arange(ROWS) * 50 + 10**12
    arrival = event + delay_ms(random, np.arange(ROWS) / ROWS).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    writer = pa.array([f"w{n % writers}" for n in order])
    return Trace("made", pa.table([event[order], arrival[order], writer, writer], TRACE_SCHEMA))


def ordered_writers(random: Any, time: Any) -> Any:
    """Two writers, of which the second is behind by 0 to 20 s in waves: each is in order, both together are not."""
    return np.where(np.arange(ROWS) % 2, 10_000 * (1 + np.sin(150 * time)), 0)


LOGS = {
    "dengue": lambda: load("dengue"),
    "flights": lambda: load("flights").between("2013-01-01", "2013-03-01"),
    "stationary": lambda: made(lambda random, _: random.exponential(5_000, ROWS)),
    "heavy tail": lambda: made(lambda random, _: random.lognormal(8, 1, ROWS)),
    "drift": lambda: made(lambda random, time: random.exponential(2_000 + 10_000 * time)),
    "two writers": lambda: made(ordered_writers, writers=2),
}


def halves(trace: Trace) -> tuple[Trace, Trace]:
    middle = trace.rows // 2
    return Trace(trace.name, trace.table.slice(0, middle)), Trace(trace.name, trace.table.slice(middle))


@pytest.mark.parametrize("name", LOGS)
def test_what_is_advised_of_the_first_half_keeps_its_promise_on_the_second(name: str) -> None:
    trace = LOGS[name]()
    first, second = halves(trace)
    advice = advise(first, TARGET)
    assert advice.supported
    ((met, x),) = x_of_records(trace, [advice.strategy], tick_ms=0)
    event, arrival = (second.table[column].to_numpy() for column in ("event_time", "arrival_ms"))
    assert (event < met[first.rows :]).mean() <= 1.2 * TARGET
    curve = lateness_curve(second)
    assert np.median(arrival - x[first.rows :]) <= 1.15 * curve.lag_ms(curve.bound_ms(TARGET))


def headline(advice: Advice, log: Trace) -> None:
    """Every number of the advice is what `compare` says of the advised strategy, over the whole log or on its half."""
    compared = compare(log, [advice.strategy])
    (outcome,), ((met, x),) = compared, compared.steps
    assert advice.whole == outcome
    unseen = slice(advice.unseen_from - 1, None)
    event, arrival = (log.table[column].to_numpy()[unseen] for column in ("event_time", "arrival_ms"))
    assert advice.unseen_from == log.rows // 2 + 1
    assert advice.late_share == (event < met[unseen]).mean()
    assert advice.lag_ms == np.quantile(arrival - x[unseen], 0.5, method="inverted_cdf")
    assert advice.late_range[0] <= advice.late_share <= advice.late_range[1]
    assert advice.lag_range[0] <= advice.lag_ms <= advice.lag_range[1]
    assert f"{named(advice.strategy)}" in advice.sentence
    assert f"(records {grouped(log.rows // 2 + 1)} to {grouped(log.rows)})" in advice.sentence
    assert f"{advice.late_share:.3%} of the records are late" in advice.sentence
    assert f"on the whole log, {outcome.late_share:.3%}" in advice.sentence


@pytest.mark.parametrize("name", ["dengue", "flights", "quakes"])
@pytest.mark.parametrize("target", [0.05, 0.01, 0.001])
def test_the_headline_is_what_compare_says_of_the_advised_strategy(name: str, target: float) -> None:
    log = LOGS[name]() if name in LOGS else load(name)
    headline(advise(log, target), log)


@given(logs(times=3_000).filter(bool), st.sampled_from([0, 5, 400]), st.sampled_from([0.01, 0.3]))
def test_the_intervals_contain_what_they_are_of(records: list[Record], bound_ms: int, target: float) -> None:
    """Also of a log whose lag drifts or jumps, where the blocks of the half have other medians than the half."""
    log, strategy = trace(records), BoundedOutOfOrderness(bound_ms)
    (steps,) = x_of_records(log, [strategy], tick_ms=0)
    judged = judging.judge((strategy, steps), Log.of(log), log.rows // 2, target, None)
    assert judged.lag_range[0] <= judged.lag_ms <= judged.lag_range[1]
    assert judged.late_range[0] <= judged.unseen.late_share <= judged.late_range[1]


def test_of_blocks_with_other_medians_the_interval_is_around_the_median_of_all() -> None:
    """Of two lags, one twice as usual as the other: all medians are one of them, and their mean is near neither."""
    lags = [0] * 5 + [1_000] * 3
    records = [Record(100_000 * n, 100_000 * n + lag_ms, "a") for n, lag_ms in enumerate(lags * 2)]
    log, strategy = trace(records), BoundedOutOfOrderness(0)
    (steps,) = x_of_records(log, [strategy], tick_ms=0)
    judged = judging.judge((strategy, steps), Log.of(log), log.rows // 2, TARGET, None)
    # The deviations of the blocks are 0, five times, and 1 000, three times.
    half_width_ms = ceil(2.365 * (3 * 1_000**2 / 7 / 8) ** 0.5)
    assert (judged.lag_ms, judged.lag_range) == (0, (-half_width_ms, half_width_ms))


@pytest.mark.parametrize("name", ["stationary", "two writers"])
def test_the_headline_of_made_logs_is_what_compare_says(name: str) -> None:
    headline(advise(LOGS[name](), 0.02), LOGS[name]())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("stationary", BoundedOutOfOrderness), ("drift", ConformalWatermark), ("two writers", PerWriterMinimum)],
)
def test_the_strategy_fits_the_log(name: str, kind: type) -> None:
    advice = advise(LOGS[name](), TARGET, window_ms=60_000)
    assert isinstance(advice.strategy, kind)
    assert advice.assumed
    assert advice.open_windows is not None
    assert advice.late_range[0] <= advice.late_share <= advice.late_range[1]
    assert advice.bound_ms == lateness_curve(LOGS[name]()).bound_ms(TARGET)
    assert repr(advice).startswith(f"Take {kind.__name__}(")
    assert "Flink SQL" in advice._repr_html_()
    assert advice.to_dict()["strategy"] == repr(advice.strategy)


def test_a_log_that_is_too_short_is_said_to_be() -> None:
    advice = advise(load("quakes"), TARGET)
    assert not advice.supported
    text = repr(advice)
    assert "does not support a watermark for 1.000% late: it is too short, 1 707 records where 20 000 are" in text
    assert [doubt.cause for doubt in advice.doubts] == ["few records"]
    assert "The best guess is ConformalWatermark(target=0.01, hold=170): on the unseen half (records 854 to " in text
    assert "0.703% of the records are late (0.000% to 1.524%" in text
    assert "  Flink (a guess): WatermarkStrategy.forGenerator" in text
    assert all(" (a guess): " in line for line in text.splitlines()[1:] if "assumed" not in line)


def test_a_log_that_drifts_is_said_to() -> None:
    doubts = advise(load("quakes"), 0.05).doubts
    assert [doubt.cause for doubt in doubts] == ["few records", "drift"]
    assert str(doubts[1]) == (
        "no strategy chosen on its first half keeps the target on its second and its lateness drifts"
    )


def test_of_no_late_record_the_share_is_not_said_to_be_none() -> None:
    """Of 200 records none is late; so may 1.9% be, at 95%."""
    times = np.arange(200)
    table = pa.table([times, times, pa.array(["w"] * 200), pa.array(["w"] * 200)], TRACE_SCHEMA)
    advice = advise(Trace("in order", table), TARGET)
    assert advice.late_range == (0, pytest.approx(0.037, abs=0.001))
    assert [doubt.cause for doubt in advice.doubts] == ["few records"]
    assert "at the target the second half has about 1 late record to judge by" in advice.sentence


@pytest.mark.parametrize("part", [slice(0, 853), slice(0, None)])
def test_a_share_of_few_records_is_not_promised(part: slice) -> None:
    """A bound for 5% that the first half of quakes bears out loses more than four times that on the second half."""
    quakes = load("quakes")
    (doubt, *_) = advise(Trace("part", quakes.table[part]), 0.05).doubts
    assert doubt.cause == "few records"


def test_one_time_far_ahead_spoils_every_watermark_but_that_behind_a_guard() -> None:
    log = LOGS["stationary"]()
    event = log.table["event_time"].to_numpy().copy()
    event[ROWS * 3 // 4] += 10**9
    advice = advise(Trace("ahead", log.table.set_column(0, TRACE_SCHEMA[0], [event])), TARGET)
    (doubt,) = advice.doubts
    assert (doubt.cause, doubt.rows, doubt.writers) == ("ahead", (ROWS * 3 // 4 + 1,), ("w0",))
    assert (doubt.bound_ms, doubt.without_ms) == (advice.bound_ms, advice.suspects.without_ms)
    assert isinstance(advice.strategy, Guarded)
    assert advice.late_share <= 1.2 * TARGET
    assert "nothing is offered" in advice.settings["Flink SQL"].note
    assert "a WatermarkGenerator of one's own" in advice.settings["Flink"].note


def test_a_share_that_varies_too_much_is_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmlab.strategies.doubts.STEADY", 1.0)
    monkeypatch.setattr(judging, "STEADY", 1.0)
    (doubt,) = advise(LOGS["stationary"](), TARGET).doubts
    assert doubt.cause == "unsteady"
    assert str(doubt).startswith("its late share is unsteady, 0.")


def test_a_watermark_that_keeps_its_target_by_standing_still_is_not_advised() -> None:
    """A burst in seven comes a minute late: conformal inference stops, while a bound of that minute loses nothing."""
    bursts = np.where((np.arange(ROWS) // 2_000) % 7 == 3, 60_000, 0)
    (doubt,) = advise(made(lambda random, _: random.exponential(5_000, ROWS) + bursts), TARGET).doubts
    assert doubt.cause == "stalls"
    assert str(doubt).startswith("ConformalWatermark(target=0.01) stalls: its median lag is")


def test_skewed_clocks_are_named() -> None:
    log = LOGS["stationary"]()
    columns = dict(zip(log.table.column_names, log.table.columns, strict=True))
    columns["arrival_ms"] = pa.chunked_array([columns["arrival_ms"].to_numpy() - 4_000])
    early = pa.table(columns, TRACE_SCHEMA)
    (doubt,) = advise(Trace("early", early), TARGET).doubts
    assert doubt.cause == "early"
    assert "its clocks are skewed" in str(doubt)


def test_a_writer_whose_clock_is_ahead_is_named_with_the_bound_without_it() -> None:
    """The clock of w3, one of twenty, is six seconds ahead, which delays of five seconds would explain."""
    log = made(lambda random, _: random.exponential(5_000, ROWS), writers=20)
    event, writer = log.table["event_time"].to_numpy(), log.table["writer"].to_numpy(zero_copy_only=False)
    skewed = Trace("skewed", log.table.set_column(0, TRACE_SCHEMA[0], [event + 6_000 * (writer == "w3")]))
    advice = advise(skewed, TARGET)
    (doubt,) = advice.doubts
    assert (doubt.cause, doubt.writers) == ("early", ("w3",))
    without = Trace("rest", skewed.table.filter(pa.array(writer != "w3")))
    assert (doubt.bound_ms, doubt.without_ms) == (
        lateness_curve(skewed).bound_ms(TARGET),
        lateness_curve(without).bound_ms(TARGET),
    )
    assert "most of them of w3 (" in str(doubt)


def test_a_lag_whose_interval_is_wider_than_itself_is_not_known() -> None:
    """Half of the time a log of hours comes within a second, else within a minute or an hour, block by block."""
    base = np.repeat([500, 3_600_000, 500, 60_000] * 4, ROWS // 16)
    advice = advise(made(lambda random, _: base + random.exponential(300, ROWS)), 0.2)
    assert "wide lag" in [doubt.cause for doubt in advice.doubts]
    assert not advice.supported


def test_a_bound_that_is_for_a_tail_names_its_writer() -> None:
    """Of w7, one of ten, a fifth of the records comes an hour late; all others within some seconds."""
    number = np.arange(ROWS)
    tail = np.where((number % 10 == 7) & (number // 10 % 5 == 0), 600_000, 0)
    log = made(lambda random, _: random.exponential(1_000, ROWS) + tail, writers=10)
    doubts = {doubt.cause: doubt for doubt in advise(log, TARGET).doubts}
    assert doubts["one tail"].writers == ("w7",)
    assert doubts["one tail"].bound_ms > 60 * doubts["one tail"].without_ms
    assert "most of them of w7" in str(doubts["one tail"])


def test_a_doubt_is_readable_and_data() -> None:
    doubt = Doubt(cause="early", text="its clocks are skewed", rows=(3,), writers=("w",))
    assert str(doubt) == f"{doubt}" == "its clocks are skewed"
    assert doubt.to_dict()["cause"] == "early"


@pytest.mark.parametrize("target", [0, 1, -0.1, None])
def test_a_target_is_a_share_between_none_and_all(target: float) -> None:
    with pytest.raises(ModelError, match="late_share is"):
        advise(LOGS["two writers"](), target)


def test_a_window_has_a_length() -> None:
    with pytest.raises(ModelError, match="window_ms is 0"):
        advise(LOGS["two writers"](), 0.01, window_ms=0)
