"""A clean log against the same log with one kind of dirt: the bound is about the same, or a doubt names the cause."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest

from tests.repetitions import Count, repetitions
from tests.strategies.logs import DIRT, changed, duplicates, exponential, flights, kept, sent, stamped, times
from wmlab.core.traces import Trace, load
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.findings import Finding
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.guard import Guarded

TARGET = 0.01


@cache
def sensors() -> Trace:
    """Five sensors for a week, a record each 24 s; it takes a minute in the mean, from sensor to sensor 2 s more."""
    delays = exponential(60_000)
    return sent(24_000, lambda random, n: delays(random, n) + 2_000 * (n % 5), writers=5, every_ms=24_000, seed=3)


@cache
def dengue() -> Trace:
    """The first half of the log by default; each key is a writer."""
    log = changed(load("dengue"), writer=load("dengue").table["key"].to_numpy())
    return repetitions(Trace("log", log.table[: log.rows // 2]), long=log)


LOGS: dict[str, Callable[[], Trace]] = {
    "sensors": sensors,
    "flights": lambda: flights("2013-02-01"),
    "dengue": dengue,
}
CASES = repetitions(
    [
        (dirt, name)
        for index, dirt in enumerate(DIRT)
        for name in (LOGS if dirt in ("copies", "ties") else [[*LOGS][index % len(LOGS)]])
    ],
    long=[*product(DIRT, LOGS)],
)


@cache
def dirty(dirt: str, name: str) -> Trace:
    return DIRT[dirt](LOGS[name]())


@cache
def advice_of(name: str, dirt: str | None = None) -> Advice:
    return advise(LOGS[name]() if dirt is None else dirty(dirt, name), TARGET)


def doubt_of(advice: Advice, kind: str) -> Finding:
    return next(doubt for doubt in advice.doubts if doubt.kind == kind)


@pytest.mark.parametrize(("dirt", "name"), CASES)
def test_the_bound_is_that_of_the_clean_log_or_a_doubt_names_the_cause(dirt: str, name: str) -> None:
    clean, advice = advice_of(name), advice_of(name, dirt)
    assert clean.supported
    if advice.supported:
        assert advice.bound_ms == pytest.approx(clean.bound_ms, rel=0.1)
        assert advice.lag_ms == pytest.approx(clean.lag_ms, rel=0.1)
    else:
        assert doubt_of(advice, dirt.split(",")[0]).bound_ms in (advice.bound_ms, None)


def test_every_kind_of_dirt_and_every_log_is_tried_with_and_without_a_doubt(count: Count) -> None:
    assert {dirt for dirt, _ in CASES} == set(DIRT)
    assert {name for _, name in CASES} == set(LOGS)
    assert {advice_of(name, dirt).supported for dirt, name in CASES} == {False, True}
    count(len(CASES), "dirty logs against clean ones")


@pytest.mark.parametrize("name", ["sensors", "flights"])
def test_copies_that_come_much_later_are_said_to_be_copies(name: str) -> None:
    """Each record has an id of its own, as key."""
    event, arrival = times(LOGS[name]())
    numbered = changed(LOGS[name](), key=[f"r{n}" for n in range(len(event))])
    log = duplicates(numbered, later_ms=200 * int(np.median(np.maximum(arrival - event, 1))))
    advice = advise(log, TARGET)
    doubt = doubt_of(advice, "copies")
    assert len(doubt.rows) == pytest.approx(log.rows / 101, rel=0.01)
    assert doubt.bound_ms == advice.bound_ms
    assert doubt.without_ms == pytest.approx(advice_of(name).bound_ms, rel=0.01)


@pytest.mark.parametrize("dirt", ["wrong times", "wrong times, by steps", *repetitions([], long=["wrong times, too"])])
def test_records_ahead_of_a_log_of_short_delays_are_named_with_both_bounds(dirt: str) -> None:
    log, clean, advice = dirty(dirt, "sensors"), advice_of("sensors"), advice_of("sensors", dirt)
    doubt = doubt_of(advice, "wrong times")
    event, arrival = times(log)
    assert doubt.rows == tuple(1 + np.flatnonzero(event > arrival))
    assert doubt.writers == tuple(sorted({log.table["writer"][row - 1].as_py() for row in doubt.rows}))
    assert (doubt.bound_ms, doubt.without_ms) == (
        lateness_curve(log).bound_ms(TARGET),
        lateness_curve(kept(log, event <= arrival)).bound_ms(TARGET),
    )
    assert doubt.without_ms == pytest.approx(clean.bound_ms, rel=0.3)
    assert doubt.bound_ms > 10 * doubt.without_ms
    # The best guess does not follow them.
    assert isinstance(advice.strategy, Guarded)
    assert advice.lag_ms == pytest.approx(clean.lag_ms, rel=0.3)


def test_three_rows_of_1970_are_said_not_to_be_of_the_log() -> None:
    """They are late for any bound, so that they matter where no record may be."""
    log = stamped(sensors(), {100: 0, 5_000: 1_000, 9_000: 60_000})
    advice = advise(log, TARGET)
    assert advice.supported
    assert [each.facts["older"] for each in advice.findings if each.kind == "wrong times"] == [3]
    assert advice.bound_ms == pytest.approx(advice_of("sensors").bound_ms, rel=0.01)
    doubt = doubt_of(advise(log, 0.00005), "wrong times")
    assert doubt.rows == (101, 5_001, 9_001)
    assert doubt.bound_ms is not None
    assert doubt.without_ms is not None
    assert doubt.bound_ms > 1_000 * doubt.without_ms
