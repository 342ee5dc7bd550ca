"""The slack of a join against a count of the results that are found."""

from __future__ import annotations

from itertools import count, product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import by_writer, latenesses, logs, rising, top
from wmlab.strategies.model.kslack import JoinSlack, join_recall
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run

STREAMS = st.lists(
    st.tuples(st.lists(st.integers(0, 60), min_size=1, max_size=3), st.integers(0, 20)), min_size=2, max_size=3
)


@given(st.integers(0, 50), STREAMS, st.sampled_from([10, 30]))
def test_the_recall_is_the_share_of_results_that_are_found(
    slack: int, streams: list[tuple[list[int], int]], window: int
) -> None:
    # A record meets a partner of each age in each other stream: it must be in time, and they there after their ages.
    until = [slack + ahead for _, ahead in streams]
    found = []
    for own, time in enumerate(until):
        ages = [[0] if stream == own else range(0, window, 10) for stream in range(len(streams))]
        for delays in product(*(delays for delays, _ in streams)):
            for age in product(*ages):
                there = all(delay <= time + a for delay, time, a in zip(delays, until, age, strict=True))
                found.append((there, 1 / prod(map(len, ages))))
    recall = join_recall(slack, [sorted(delays) for delays, _ in streams], [ahead for _, ahead in streams], window, 10)
    assert recall == pytest.approx(sum(there * weight for there, weight in found) / sum(weight for _, weight in found))


def slacks(strategy: JoinSlack, records: list[Record]) -> list[int]:
    """The slack after each record."""
    state, found = strategy.start(), []
    for record in records:
        state, _, _ = strategy.step(state, record)
        found.append(state.slack)
    return found


@given(logs(writers="ab"), st.sampled_from([0.5, 0.9, 0.99]), st.integers(1, 9))
def test_x_is_the_slowest_stream_less_the_least_slack_that_is_enough(
    records: list[Record], recall: float, every: int
) -> None:
    def slack(seen: list[Record]) -> int:
        own = by_writer(seen).values()
        kept = [sorted(latenesses(mine)[-5:]) for mine in own]
        ahead = [top(mine) - min(map(top, own)) for mine in own]
        longest = max(map(max, kept))
        grains = (grains * 700 for grains in count())
        return next(k for k in grains if k >= longest or join_recall(k, kept, ahead, 1_000, 100) >= recall)

    strategy = JoinSlack(recall, window=1_000, basic=100, grain=700, size=5, every=every)
    read = [n // every * every for n in range(1, len(records) + 1)]
    asked = [slack(records[:n]) if n else 0 for n in read]
    assert slacks(strategy, records) == asked
    expected = rising(records, lambda seen: min(map(top, by_writer(seen).values())) - asked[len(seen) - 1])
    inputs = [Tick(0), *records, Tick(10**6), EndOfInput()]
    assert [(step.x, step.native) for step in run(strategy, inputs)] == [
        (x, x) for x in (UNKNOWN, *expected, [UNKNOWN, *expected][-1], END)
    ]


@pytest.mark.parametrize(("rule", "expected"), [("paper", [0, 200]), ("pecj", [200, 200])])
def test_pecj_takes_the_longest_delay_whatever_is_asked_for(rule: Any, expected: list[int]) -> None:
    records = [Record(10 * n - (200 if n % 100 == 50 else 0), 10 * n, "ab"[n % 2]) for n in range(40, 2_000)]
    asked = [JoinSlack(recall, window=100, basic=10, grain=50, every=500, rule=rule) for recall in (0.9, 0.999)]
    assert [slacks(strategy, records)[-1] for strategy in asked] == expected


def test_a_time_far_ahead_in_each_stream_does_not_take_a_step_for_each_grain() -> None:
    log = [Record(10**12, 0, writer) for writer in "ab"] + [Record(at, at, "ab"[at % 2]) for at in range(8)]
    assert 10**12 - 8 <= slacks(JoinSlack(0.9, window=10, basic=5, grain=1, every=10), log)[-1] <= 10**12
