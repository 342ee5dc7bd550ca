"""The guard: what it keeps from the strategy within, and that it changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import late, logs, mets_and_xs, trace, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, StreamTime
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.engines import Bytewax, LimitedDelay, Quix, RisingWave
from wmlab.strategies.model.flink import Flink
from wmlab.strategies.model.guard import Guarded
from wmlab.strategies.model.percentiles import DelayPercentile, WindowedPercentile
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Strategy, Tick, run
from wmlab.strategies.model.writers import PerWriterMinimum

INNER: list[Strategy[Any]] = [
    BoundedOutOfOrderness(7),
    Bytewax(7),
    ConformalWatermark(0.1, hold=5),
    DelayPercentile(0.9),
    Flink(7, idle_ms=300),
    LimitedDelay(7),
    PerWriterMinimum(7, idle_ms=300),
    Quix(7),
    RisingWave(7, 300),
    StreamTime(7),
    WindowedPercentile(0.9),
]
any_inner = st.sampled_from(INNER)
any_beyond = st.sampled_from(["arrival", "writers"])
near_the_clock = logs(times=2_000, live=True).map(
    lambda records: [r._replace(event_time=r.event_time + 1_000) for r in records]
)


@given(near_the_clock, any_inner)
def test_a_guard_that_nothing_exceeds_changes_nothing(records: list[Record], inner: Strategy[Any]) -> None:
    assert list(run(Guarded(inner, 10**6), records)) == list(run(inner, records))


@given(near_the_clock, any_inner, st.integers(0, 1_000), any_beyond)
def test_the_strategy_within_is_given_the_moment_of_a_guarded_record(
    records: list[Record], inner: Strategy[Any], ahead_ms: int, beyond: Any
) -> None:
    """What each record meets, and X after it, are those of the strategy within over the log of the others and ticks."""
    guarded = Guarded(inner, ahead_ms, beyond)
    far = [_limit(records[:n], record, beyond) + ahead_ms < record.event_time for n, record in enumerate(records)]
    seen = [Tick(r.arrival_ms) if too_far else r for r, too_far in zip(records, far, strict=True)]
    state, x, expected = inner.start(), UNKNOWN, []
    for record, shown in zip(records, seen, strict=True):
        met = inner.met(state, x, record)
        state, x, _ = inner.step(state, shown)
        expected.append((met, inner.met(state, x, record) if inner.keyed and shown is not record else x))
    assert mets_and_xs(guarded, records) == expected


def _limit(before: list[Record], record: Record, beyond: str) -> int:
    if beyond == "arrival":
        return record.arrival_ms
    return max((other.event_time for other in before if other.writer != record.writer), default=UNKNOWN)


@given(logs(times=1_000, live=True), st.integers(0, 60), st.integers(1, 10**6))
def test_one_record_from_the_future_makes_no_other_late(records: list[Record], place: int, ahead: int) -> None:
    arrival = records[min(place, len(records) - 1)].arrival_ms if records else 0
    wrong = Record(arrival + 500 + ahead, arrival, "a", "a")
    dirty = [*records[: place + 1], wrong, *records[place + 1 :]]
    guarded = Guarded(BoundedOutOfOrderness(7), 500)
    assert late(guarded, dirty) == late(BoundedOutOfOrderness(7), records)


def test_the_guard_by_writers_needs_no_clock_of_arrival() -> None:
    """Arrivals are of another clock, a day behind; w3 is an hour ahead of the others."""
    log = [Record(10, 0, "w1"), Record(12, 1, "w2"), Record(3_600_000, 2, "w3"), Record(20, 3, "w1")]
    assert xs(Guarded(StreamTime(0), 100), log) == [10, 12, 12, 20]
    assert xs(Guarded(StreamTime(0), 100, "writers"), log) == [UNKNOWN, 12, 12, 20]
    # The first record of all passes no guard, and one that only the wrong writer is ahead of passes.
    assert xs(Guarded(StreamTime(0), 100, "writers"), [log[2], *log[:2]]) == [UNKNOWN, 10, 12]


def test_a_guard_is_named_with_its_strategy_and_compared() -> None:
    guarded = Guarded(BoundedOutOfOrderness(5), 600_000)
    (outcome,) = compare(trace([Record(10, 10, "a"), Record(10**9, 11, "a"), Record(12, 12, "a")]), [guarded])
    assert outcome.name == "Guarded(inner=BoundedOutOfOrderness(bound=5 ms), ahead=10 min)"
    assert (outcome.late, outcome.lag_p50_ms) == (0, 5)
    assert Guarded(Quix(0), 1).keyed
    assert [step.x for step in run(guarded, [Record(10, 10, "a"), EndOfInput()])] == [5, END]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"inner": 60_000}, "Guarded.inner: .*got 60000"),
        ({"ahead_ms": -1}, "ahead_ms: .*got -1"),
        ({"beyond": "keys"}, "beyond: .*got 'keys'"),
    ],
)
def test_what_is_no_guard_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        Guarded(**{"inner": StreamTime(0), "ahead_ms": 1} | wrong)
