"""The joins of Spark and Kafka Streams: the rows of their reports, and the rule against a count of all pairs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.strategies.model.joins import JoinedRow, JoinRow, spark_join, stream_time_join

SPARK_49829 = [([("a", 1), ("b", 2)], [("b", 2), ("c", 1)]), ([("d", 1)], [])]
"""The rows of the test of the change that repaired it."""
SPARK_45637 = [([("k", 1), ("k", 4)], [("k", 2)]), ([("k", 11)], [("k", 12)]), ([], []), ([], [])]
"""Windows of five on both sides; the third batch has the watermark 11, which closes the first window of each."""
WITHIN = {"before": 100, "after": 100, "grace": 50}
KAFKA_19536 = [("right", "x", 1_000), ("left", "a", 880), ("right", "a", 900)]
"""The window of the left row ends at 980, before stream time, and its grace at 1 030, behind it."""


def test_an_outer_join_of_spark_lost_a_row_that_is_over_when_it_comes() -> None:
    joined = [(0, "b", "b")]
    assert keys(spark_join(SPARK_49829, outer="left", rule="spark_49829")) == [*joined, (1, "a", None)]
    assert keys(spark_join(SPARK_49829, outer="left")) == [*joined, (1, "a", None), (1, "d", None)]


def test_windows_that_end_in_one_batch_found_each_other_only_if_the_state_kept_them() -> None:
    assert spark_join(SPARK_45637, window=5, rule="spark_49829") == []
    assert spark_join(SPARK_45637, window=5) == [JoinedRow(2, JoinRow("k", 5, 2), JoinRow("k", 5, 1))]


def test_a_window_comes_out_with_the_batch_whose_watermark_has_come_to_its_end() -> None:
    with_delay = spark_join([*SPARK_45637, ([("k", 30)], [("k", 30)]), ([], [])], window=5, delay=6)
    assert [(row.at, row.left.time) for row in with_delay if row.left] == [(2, 5), (5, 15)]


def keys(rows: list[JoinedRow]) -> list[tuple[int, Any, Any]]:
    return [(row.at, row.left and row.left.key, row.right and row.right.key) for row in rows]


def test_a_left_row_of_kafka_comes_alone_and_again_with_its_partner() -> None:
    assert keys(stream_time_join(KAFKA_19536, **WITHIN, outer="left", rule="kafka_19536")) == [
        (1, "a", None),
        (2, "a", "a"),
    ]
    assert keys(stream_time_join(KAFKA_19536, **WITHIN, outer="left")) == [(2, "a", "a")]


def test_without_a_partner_it_comes_alone_once_its_window_and_grace_are_over() -> None:
    rows = [*KAFKA_19536[:2], ("right", "x", 1_030), ("right", "x", 1_031)]
    assert keys(stream_time_join(rows, **WITHIN, outer="left")) == [(3, "a", None)]
    late = [("right", "x", 1_000), ("left", "a", 849)]
    assert keys(stream_time_join(late, **WITHIN, outer="left")) == [(1, "a", None)], "at once: it is over"


def test_a_store_gives_rows_up_by_the_time_of_its_own_side() -> None:
    other_side_is_ahead = [("left", "a", 0), ("right", "b", 10_000), ("right", "a", 0)]
    assert keys(stream_time_join(other_side_is_ahead, **WITHIN)) == [(2, "a", "a")], "no row is dropped for being late"
    own_side_is_ahead = [("left", "a", 0), ("left", "b", 250), ("right", "a", 0)]
    assert stream_time_join(own_side_is_ahead, **WITHIN) == []


HISTORIES = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.integers(0, 60)), min_size=1, max_size=25
)


@given(HISTORIES, st.integers(0, 10), st.integers(0, 10), st.integers(0, 20), st.sampled_from(["left", "both"]))
def test_who_has_a_partner_in_time_does_not_come_alone(
    rows: list[Any], before: int, after: int, grace: int, outer: Any
) -> None:
    lengths = {"before": before, "after": after, "grace": grace}
    results = stream_time_join(rows, **lengths, outer=outer)
    alone = [
        (row.left, "left") if row.left else (row.right, "right") for row in results if not (row.left and row.right)
    ]
    for number, (side, key, time) in enumerate(rows):
        end = time + (after if side == "left" else before) + grace
        reach = range(time - before, time + after + 1) if side == "left" else range(time - after, time + before + 1)
        for other, (other_side, other_key, other_time) in enumerate(rows):
            stream_time = max(of_row for *_, of_row in rows[: max(number, other) + 1])
            if other_side != side and other_key == key and other_time in reach and stream_time <= end:
                assert (JoinRow(key, time), side) not in alone
    # Who never had a partner comes alone as often as it was there, once the end is behind stream time.
    after_all = stream_time_join([*rows, ("left", "z", 1_000)], **lengths, outer=outer)
    both = [row for row in after_all if row.left and row.right]
    for side, key, time in {*rows}:
        row = JoinRow(key, time)
        if outer in (side, "both") and not any(row == (pair.left if side == "left" else pair.right) for pair in both):
            lonely = (row, None) if side == "left" else (None, row)
            assert [out[1:] for out in after_all].count(lonely) == rows.count((side, key, time))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: spark_join([], delay=-1), "delay is -1"),
        (lambda: spark_join([], window=0), "window is 0"),
        (lambda: spark_join([], outer="middle"), "outer is 'middle'"),  # type: ignore[arg-type]
        (lambda: spark_join([], rule="spark_1"), "rule is 'spark_1'"),  # type: ignore[arg-type]
        (lambda: stream_time_join([], before=-1, after=0), "before is -1"),
        (lambda: stream_time_join([("up", "a", 1)], before=0, after=0), "the side of a row is 'up'"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_join_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        wrong()
