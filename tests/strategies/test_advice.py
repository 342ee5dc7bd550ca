"""Advice: chosen on the first half of a log, kept on the half that nobody has seen; or a doubt that says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wmlab.core.errors import ModelError
from wmlab.core.traces import TRACE_SCHEMA, Trace, load
from wmlab.strategies import advice as of_advice
from wmlab.strategies.advice import advise, settings
from wmlab.strategies.lateness import frontier
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.targets import ConformalWatermark
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import replayed

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
    ((met, x),) = replayed(trace, [advice.strategy], tick_ms=0)
    event, arrival = (second.table[column].to_numpy() for column in ("event_time", "arrival_ms"))
    assert (event < met[first.rows :]).mean() <= 1.2 * TARGET
    curve = frontier(second)
    assert np.median(arrival - x[first.rows :]) <= 1.15 * curve.lag_ms(curve.bound_ms(TARGET))


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
    assert advice.lag_range[0] <= advice.lag_range[1]
    assert advice.bound_ms == frontier(LOGS[name]()).bound_ms(TARGET)
    assert repr(advice).startswith(f"Take {kind.__name__}(")
    assert "Flink SQL" in advice._repr_html_()
    assert advice.to_dict()["strategy"] == repr(advice.strategy)


def test_a_log_that_is_too_short_is_said_to_be() -> None:
    advice = advise(load("quakes"), TARGET)
    assert not advice.supported
    text = repr(advice)
    assert "does not support a watermark for 1.000% late: it is too short, 1 707 records where 20 000 are" in text
    assert "; no strategy chosen on its first half keeps the target on its second and its lateness drifts" in text
    assert "Flink" not in text


@pytest.mark.parametrize("part", [slice(0, 853), slice(0, None)])
def test_a_share_of_few_records_is_not_promised(part: slice) -> None:
    """A bound for 5% that the first half of quakes bears out loses more than four times that on the second half."""
    quakes = load("quakes")
    (doubt, *_) = advise(Trace("part", quakes.table[part]), 0.05).doubts
    assert doubt.startswith("it is too short")


def test_one_time_far_ahead_spoils_every_watermark_and_is_not_promised_away() -> None:
    log = LOGS["stationary"]()
    event = log.table["event_time"].to_numpy().copy()
    event[ROWS * 3 // 4] += 10**9
    advice = advise(Trace("ahead", log.table.set_column(0, TRACE_SCHEMA[0], [event])), TARGET)
    assert advice.doubts == ("no strategy chosen on its first half keeps the target on its second",)


def test_a_share_that_varies_too_much_is_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_advice, "_STEADY", 1.0)
    (doubt,) = advise(LOGS["stationary"](), TARGET).doubts
    assert "its late share is unsteady, up to 1." in doubt


def test_a_watermark_that_keeps_its_target_by_standing_still_is_not_advised() -> None:
    """A burst in seven comes a minute late: conformal inference stops, while a bound of that minute loses nothing."""
    bursts = np.where((np.arange(ROWS) // 2_000) % 7 == 3, 60_000, 0)
    (doubt,) = advise(made(lambda random, _: random.exponential(5_000, ROWS) + bursts), TARGET).doubts
    assert doubt.startswith("ConformalWatermark(target=0.01) stalls: its median lag is")


def test_skewed_clocks_are_named() -> None:
    log = LOGS["stationary"]()
    columns = dict(zip(log.table.column_names, log.table.columns, strict=True))
    columns["arrival_ms"] = pa.chunked_array([columns["arrival_ms"].to_numpy() - 4_000])
    early = pa.table(columns, TRACE_SCHEMA)
    (doubt,) = advise(Trace("early", early), TARGET).doubts
    assert "its clocks are skewed" in doubt


def test_engines_write_a_constant_bound_in_their_words() -> None:
    assert settings(90_061_500) == {
        "Flink SQL": "WATERMARK FOR event_time AS event_time - INTERVAL '1 01:01:01.501' DAY TO SECOND(3)",
        "Spark": '.withWatermark("event_time", "90061500 milliseconds")',
        "Kafka Streams": "TimeWindows.ofSizeAndGrace(size, Duration.ofMillis(90061500L))",
        "Beam": "new CustomTimestampPolicyWithLimitedDelay<>(timestamp, Duration.millis(90061500L), previous)",
    }
    # As Flink documents it, rows in order, also with equal times, ask for INTERVAL '0.001' SECOND.
    assert "INTERVAL '0 00:00:00.001' DAY" in settings(0)["Flink SQL"]
    assert "INTERVAL '175 00:00:00.001' DAY(3) TO SECOND(3)" in settings(175 * 86_400_000)["Flink SQL"]


@pytest.mark.parametrize("target", [0, 1, -0.1, None])
def test_a_target_is_a_share_between_none_and_all(target: float) -> None:
    with pytest.raises(ModelError, match="late_share is"):
        advise(LOGS["two writers"](), target)


def test_a_window_has_a_length() -> None:
    with pytest.raises(ModelError, match="window_ms is 0"):
        advise(LOGS["two writers"](), 0.01, window_ms=0)
