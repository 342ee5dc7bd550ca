"""The slack of a join against a count of the results that are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import logs, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.kslack import Joined, JoinSlack, join_recall
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick

DELAYS = st.lists(st.integers(0, 60), min_size=1, max_size=4)


@given(st.integers(0, 50), DELAYS, DELAYS, st.integers(0, 20), st.sampled_from([10, 40]))
def test_the_recall_is_the_share_of_pairs_that_are_found(
    slack: int, left: list[int], right: list[int], ahead: int, window: int
) -> None:
    # Each record meets one partner of each age: it must be in time, and the partner there after slack, lead and age.
    pairs = found = 0
    for own, more, other, lead in ((left, 0, right, ahead), (right, ahead, left, 0)):
        for delay in own:
            for partner in other:
                for age in range(0, window, 10):
                    pairs += len(left) * len(right) // len(own) // len(other)
                    found += delay <= slack + more and partner <= slack + lead + age
    recall = join_recall(slack, [sorted(left), sorted(right)], [0, ahead], window, basic=10)
    assert recall == pytest.approx(found / pairs)


def test_three_streams_need_partners_in_both_others() -> None:
    late = [0, 30]
    assert join_recall(0, [[0], [0], late], [0, 0, 0], window=10, basic=10) == 0.5
    assert join_recall(0, [[0], late, late], [0, 0, 0], window=10, basic=10) == 0.25
    assert join_recall(30, [[0], late, late], [0, 0, 0], window=10, basic=10) == 1


@given(logs(writers="ab"), st.sampled_from([0.5, 0.9, 0.99]), st.integers(1, 9))
def test_x_is_the_slowest_stream_less_the_least_slack_that_is_enough(
    records: list[Record], recall: float, every: int
) -> None:
    strategy = JoinSlack(recall, window=1_000, basic=100, grain=700, size=5, every=every)
    state, x, slack = strategy.start(), UNKNOWN, 0
    own: dict[str, list[int]] = {}
    late: dict[str, list[int]] = {}
    for count, record in enumerate(records, start=1):
        times = own.setdefault(record.writer, [])
        times.append(record.event_time)
        late.setdefault(record.writer, []).append(max(times) - record.event_time)
        slowest = min(max(times) for times in own.values())
        if count % every == 0:
            kept = [sorted(delays[-5:]) for delays in late.values()]
            ahead = [max(times) - slowest for times in own.values()]
            enough = [
                k
                for k in range(0, max(map(max, kept)) + 700, 700)
                if k >= max(map(max, kept)) or join_recall(k, kept, ahead, 1_000, 100) >= recall
            ]
            slack = enough[0]
        x = max(x, slowest - slack)
        state, found, native = strategy.step(state, record)
        assert (found, native, state.slack) == (x, x, slack)


def test_pecj_takes_the_longest_delay_whatever_is_asked_for() -> None:
    records = [Record(10 * n - (200 if n % 100 == 50 else 0), 10 * n, "ab"[n % 2]) for n in range(40, 2_000)]

    def slack(recall: float, **rule: str) -> int:
        strategy = JoinSlack(recall, window=100, basic=10, grain=50, every=500, **rule)  # type: ignore[arg-type]
        state: Joined = strategy.start()
        for record in records:
            state, _, _ = strategy.step(state, record)
        return state.slack

    assert [slack(0.9), slack(0.999)] == [0, 200]
    assert [slack(0.9, rule="pecj"), slack(0.999, rule="pecj")] == [200, 200]


def test_a_time_far_ahead_in_each_stream_does_not_take_a_step_for_each_grain() -> None:
    log = [Record(10**12, 0, writer) for writer in "ab"] + [Record(at, at, "ab"[at % 2]) for at in range(8)]
    strategy = JoinSlack(0.9, window=10, basic=5, grain=1, every=10)
    state = strategy.start()
    for record in log:
        state, _, _ = strategy.step(state, record)
    assert 10**12 - 8 <= state.slack <= 10**12


def test_only_the_end_moves_it_without_a_record_and_parameters_are_checked() -> None:
    strategy = JoinSlack(0.9, window=10, basic=5, grain=1)
    assert xs(strategy, [Tick(5), Record(7, 8), Tick(9), EndOfInput()]) == [UNKNOWN, 7, 7, END]
    with pytest.raises(ModelError, match="recall is 1"):
        JoinSlack(1, window=10, basic=5, grain=1)
    with pytest.raises(ModelError, match="grain is 0"):
        JoinSlack(0.9, window=10, basic=5, grain=0)
