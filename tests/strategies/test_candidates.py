"""Nothing that `compare` can build of the families of `advise` has clearly less lag than what it advises."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.repetitions import Count, repetitions
from tests.strategies.logs import DAY_MS, START_MS, Times, ahead, changed, flights, kept, ordered, times
from tests.strategies.model.logs import trace
from wmlab.core.traces import Trace, load
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.candidates import Candidates, OpenBound
from wmlab.strategies.clocks import in_two_digits
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.percentiles import DelayPercentile, WindowedPercentile
from wmlab.strategies.model.strategy import UNKNOWN, Record, Strategy
from wmlab.strategies.model.writers import PerWriterMinimum
from wmlab.strategies.replay import Log, x_of_records

ROWS = 20_000


def devices(seed: int) -> Trace:
    """Devices that each send in order, over ways of their own; some fall silent for minutes and then send on."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 12))
    device = np.arange(ROWS) % count
    event = np.arange(ROWS) * 1_000 // count + START_MS
    way_ms = random.choice([200, 2_000, 30_000], count)
    jitter_ms = random.choice([0, 500, 5_000], count)
    arrival = event + (way_ms[device] + random.exponential(1 + jitter_ms[device])).astype(np.int64)
    if random.random() < 0.5:
        away = random.random((count, ROWS // 2_000)) < 0.1
        keep = ~away[device, np.arange(ROWS) // 2_000] | (device == 0)
        event, arrival, device = event[keep], arrival[keep], device[keep]
    if random.random() < 0.5:
        arrival = one_after_another(arrival, device)
    return ordered(event, arrival, [f"d{n}" for n in device])


def one_after_another(arrival: Times, device: Times) -> Times:
    """The arrivals where each device sends its records in turn, so that none overtakes another one."""
    arrival = arrival.copy()
    for name in np.unique(device):
        arrival[device == name] = np.maximum.accumulate(arrival[device == name])
    return arrival


def open_bounds(log: Trace) -> Iterator[Strategy[Any]]:
    """The families with a bound, at bound 0: for the least over writers with a grid of timeouts of its own."""
    yield BoundedOutOfOrderness(0)
    if len(log.writer_names) > 1:
        yield PerWriterMinimum()
        first, last = log.span_ms
        for n in range(2, 14):
            yield PerWriterMinimum(idle_ms=max(1, (last - first) // 3**n))


def best_lag_ms(log: Trace, target: float) -> int:
    """The least median lag on the second half of any member that keeps the target there, with the best of bounds."""
    middle = log.rows // 2
    event, arrival = (column[middle:] for column in times(log))
    lags_ms = []
    strategies = list(open_bounds(log))
    for met, x in x_of_records(log, strategies):
        lateness = np.sort(np.where(met[middle:] == UNKNOWN, 0, np.maximum(met[middle:] - event, 0)))
        bound_ms = lateness[len(lateness) - 1 - int(target * len(lateness))]
        known = x[middle:] != UNKNOWN
        assert np.mean(event < met[middle:] - bound_ms) <= target
        lags_ms.append(np.quantile((arrival - x[middle:])[known], 0.5, method="inverted_cdf") + bound_ms)
    steering = [ConformalWatermark(target), WindowedPercentile(1 - target, hold=1_000), DelayPercentile(1 - target)]
    for met, x in x_of_records(log, steering):
        if np.mean(event < met[middle:]) <= target:
            lags_ms.append(np.quantile(arrival - x[middle:], 0.5, method="inverted_cdf"))
    return int(min(lags_ms))


CASES: list[tuple[int | str, float]] = repetitions(
    [(0, 0.05), (1, 0.01), (3, 0.01), ("dengue", 0.05)],
    long=[
        *product(range(4), (0.05, 0.01)),
        *product(["dengue"], (0.05, 0.01)),
        *product(["flights"], (0.01, 0.001)),
    ],
)
"""A log of devices by its seed, or a real one by its name; and the target."""


@cache
def log_of(name: int | str) -> Trace:
    if isinstance(name, int):
        return devices(name)
    return flights("2013-03-01") if name == "flights" else load(name)


@cache
def advice_of(name: int | str, target: float) -> Advice:
    return advise(log_of(name), target)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_no_member_of_its_families_has_clearly_less_lag(name: int | str, target: float) -> None:
    advice = advice_of(name, target)
    assert (advice.missed_share <= target) == ("is missed by" not in repr(advice))
    # The margin that keeps the target on a half that nobody has seen costs lag.
    assert advice.lag_ms <= 1.2 * best_lag_ms(log_of(name), target)


def test_each_family_is_the_best_of_some_log(count: Count) -> None:
    families = {type(advice_of(name, target).strategy) for name, target in CASES}
    assert families == {BoundedOutOfOrderness, PerWriterMinimum, ConformalWatermark}
    assert {0.05, 0.01} <= {target for _, target in CASES}
    # Where devices fall silent, records are missing.
    assert {log_of(seed).rows < ROWS for seed, _ in CASES if isinstance(seed, int)} == {False, True}
    count(len(CASES), "logs whose advice is compared with every member of its families")


def cut_off_presses() -> Trace:
    """Twenty presses in order; each is cut off for twenty seconds now and then and sends what it has afterwards.

    One stops for good after a quarter of the log.
    """
    random = np.random.default_rng(5)
    rows, count = 40_000, 20
    press, second = np.arange(rows) % count, np.arange(rows) // count
    event = np.arange(rows) * 50 + START_MS
    arrival = event + random.integers(100, 2_000, rows)
    for name in range(count):
        for start in random.choice(rows // count // 20, 2, replace=False) * 20:
            cut_off = (press == name) & (second >= start) & (second < start + 20)
            arrival[cut_off] = np.maximum(arrival[cut_off], event[cut_off].max() + 1_000)
    log = ordered(event, one_after_another(arrival, press), [f"press-{n:02}" for n in press])
    stopped = log.table["writer"].to_numpy() == "press-07"
    return kept(log, ~(stopped & (times(log)[0] > START_MS + 50 * rows // 4)))


def test_of_devices_that_are_cut_off_now_and_then_the_least_over_them_is_advised_with_a_timeout() -> None:
    """One stops for good, so that without a timeout there is no watermark behind it."""
    log = cut_off_presses()
    advice = advise(log, 0.01)
    assert isinstance(advice.strategy, PerWriterMinimum)
    idle_ms = advice.strategy.idle_ms
    assert idle_ms is not None
    constant = advice.judged[0]
    assert isinstance(constant.strategy, BoundedOutOfOrderness)
    assert constant.lag_p50_ms is not None
    assert 2 * advice.lag_ms < constant.lag_p50_ms
    assert f"withIdleness(Duration.ofMillis({idle_ms}L))" in str(advice.settings["Flink"])
    assert "the alternative is a constant bound" in str(advice.settings["Spark"])
    assert not advice.settings["Spark"].possible


def test_the_curve_of_an_open_bound_is_that_of_each_strategy_run_by_itself() -> None:
    part = Trace("part", devices(3).table[:3_000])
    for strategy in (BoundedOutOfOrderness(0), PerWriterMinimum(), PerWriterMinimum(idle_ms=2_000)):
        ((met, x),) = x_of_records(part, [strategy])
        found = OpenBound(lambda bound_ms, of=strategy: type(of)(bound_ms), Log.of(part), met, x)  # type: ignore[misc]
        for bound_ms in (0, 700, 40_000):
            made = (
                BoundedOutOfOrderness(bound_ms)
                if isinstance(strategy, BoundedOutOfOrderness)
                else PerWriterMinimum(bound_ms, strategy.idle_ms)
            )
            (outcome,) = compared = compare(part, [made])
            assert found.curve(slice(None)).late(bound_ms) == outcome.late
            assert found.curve(slice(None)).lag_ms(bound_ms) == outcome.lag_p50_ms
            candidate = found.with_bound(bound_ms)
            assert [candidate.met.tolist(), candidate.x.tolist()] == [times.tolist() for times in compared.paths[0][:2]]


def test_all_candidates_are_what_compare_runs() -> None:
    """Of those whose X is not replayed but computed: constant, guarded."""
    log = Trace("part", devices(1).table[:4_000])
    dirty = changed(ahead(log, 500, DAY_MS), key=[f"k{n % 3}" for n in range(log.rows)])
    candidates = Candidates(dirty, 0.01, guard=True)
    found = candidates.all()
    kinds = {type(each.strategy) for each in found}
    assert kinds >= {BoundedOutOfOrderness, Guarded, PerWriterMinimum, ConformalWatermark}
    compared = compare(dirty, [each.strategy for each in found])
    for each, expected in zip(found, compared.paths, strict=True):
        assert [each.met.tolist(), each.x.tolist()] == [times.tolist() for times in expected[:2]]


def test_one_record_is_a_log() -> None:
    single = advise(trace([Record(10, 20, "a")]), 0.01)
    assert [doubt.kind for doubt in single.doubts] == ["few records", "stands still"]


def test_timeouts_have_two_digits() -> None:
    assert [in_two_digits(length) for length in (0, 7, 99, 101, 8_119_554)] == [0, 7, 99, 110, 8_200_000]
