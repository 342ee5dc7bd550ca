from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from wmlab.streams.charts.bounds_facts import Happening, Pause, describe, find_facts, find_pauses, read_bounds

Bounds = Callable[..., pd.DataFrame]


def sentence(frame: pd.DataFrame) -> str:
    table = read_bounds(frame)
    return describe(table, find_facts(table))


def frame(lower: list[int | None], truth: list[int | None] | None = None) -> pd.DataFrame:
    rows = pd.DataFrame({"stream": "s", "at_ms": range(0, 1_000 * len(lower), 1_000)})
    rows["lower"] = pd.array(lower, dtype="Int64")
    rows["upper"] = rows["at_ms"] + 9_000
    return rows if truth is None else rows.assign(perfect_watermark=pd.array(truth, dtype="Int64"))


def test_a_pause_ends_with_its_own_restart_or_with_the_run() -> None:
    happened = [
        Happening(5, "crash", "w1"),
        Happening(7, "silence", "w2"),
        Happening(8, "restart", "w2"),
        Happening(9, "restart", "w1"),
    ]
    assert find_pauses(happened, 50) == [Pause(5, 9, "w1", "down"), Pause(7, 50, "w2", "silent")]


def test_facts_are_integers_over_all_rows(bounds: Bounds) -> None:
    facts = find_facts(read_bounds(bounds()))
    assert facts.longest is not None
    assert (facts.longest.value, facts.longest.from_ms, facts.longest.to_ms) == (30_000, 32_000, 55_000)
    assert (facts.positions, facts.unknown_lower, facts.unknown_upper) == (61, 3, 2)
    assert (facts.checked, facts.unsafe, facts.first_unsafe_ms, facts.steps_back) == (58, 0, None, 0)
    assert facts.mean_slack_ms == (58 * 1_500 + sum(range(0, 23_000, 1_000)) + 29) // 58


def test_the_mean_is_rounded_half_up() -> None:
    assert find_facts(read_bounds(frame([0, 0], [1, 2]))).mean_slack_ms == 2
    assert find_facts(read_bounds(frame([0, 0, 0], [1, 1, 2]))).mean_slack_ms == 1


def test_the_standstill_is_told_with_who_was_down(bounds: Bounds, happened: list[object]) -> None:
    assert sentence(bounds(happened=happened)) == (
        "The lower bound stood still at 30.0 s for 23.0 s (from 32.0 s to 55.0 s) while w2 was down; it is safe at the "
        "58 positions that can be checked and on average 5.9 s behind the perfect watermark. The lower bound is "
        "unknown at 3 positions, the upper bound at 2."
    )


def test_instants_are_told_as_instants(bounds: Bounds) -> None:
    told = sentence(bounds(start_ms=1_388_757_600_000))
    assert "stood still at Jan 3, 14:00:30 for 23.0 s (from Jan 3, 14:00:32 to Jan 3, 14:00:55)" in told


def test_a_bound_that_rises_steadily_has_no_standstill() -> None:
    assert sentence(frame([0, 1_000, 2_000, 3_000])) == (
        "The lower bound rose from 0 s to 3.0 s and never stood still for more than 1.0 s."
    )


def test_a_standstill_may_last_to_the_end() -> None:
    assert sentence(frame([1, 2, 3, 3, 3, 3])) == (
        "The lower bound stood still at 3 ms for 3.0 s (from 2.0 s to the end at 5.0 s)."
    )


def test_a_broken_promise_is_counted_and_placed() -> None:
    assert sentence(frame([0, 2_000, 3_000, 4_000], [1_000, 1_000, 2_900, 9_000])) == (
        "The lower bound rose from 0 s to 4.0 s and never stood still for more than 1.0 s; it is not safe: above the "
        "perfect watermark at 2 of 4 positions, first at 1.0 s, by up to 1.0 s."
    )


def test_a_bound_that_goes_back_is_told() -> None:
    assert sentence(frame([5_000, 4_000, 6_000])).endswith("than 1.0 s. The lower bound went back once.")


def test_an_upper_bound_below_the_perfect_watermark_is_a_hint_that_was_wrong() -> None:
    told = sentence(frame([0, 1_000], [20_000, 5_000]))
    assert told.endswith("The upper bound, which is a hint, is below the perfect watermark at 1 position.")


@pytest.mark.parametrize(
    ("lower", "truth", "told"),
    [
        (
            [5],
            [9],
            "The lower bound is 5 ms at 0 s; it is safe at the only position that can be checked, 4 ms behind the "
            "perfect watermark.",
        ),
        ([5, 5], [5, 5], "it is safe at all 2 positions and on average at the perfect watermark."),
        ([None, None], [5, 5], "The lower bound is unknown at all 2 positions."),
        ([5, 9], [None, None], "The lower bound rose from 5 ms to 9 ms and never stood still for more than 1.0 s."),
    ],
)
def test_small_tables_are_told_in_whole_sentences(lower: list[int | None], truth: list[int | None], told: str) -> None:
    assert sentence(frame(lower, truth)).endswith(told)


def test_nothing_known_is_said_once(bounds: Bounds) -> None:
    assert sentence(bounds(lower=pd.NA, upper=pd.NA)) == "Both bounds are unknown at all 61 positions."


def test_many_who_were_down_are_counted(bounds: Bounds) -> None:
    down = [{"at_ms": 31_000 + i, "kind": "crash", "what": f"w{i}"} for i in range(5)]
    told = sentence(bounds(happened=[down] * 61))
    assert "while w0, w1 and 3 others were down;" in told
