"""Planner rules: which key is on which column, and how coarse the watermarks of a source may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import IDLE_MESSAGE, MAX, MIN, Watermark, watermark_instance
from wmlab.dataflow.model.source import sql_frame_ms
from wmlab.dataflow.scenario.plan import (
    MergedKeys,
    keys_after_join,
    keys_after_map,
    keys_after_merge,
    keys_after_window,
    keys_of_source,
)


def test_a_watermark_instance_is_a_watermark_or_an_idle_message_of_key_0() -> None:
    """Source: "Keyed watermark support", Idle message."""
    assert watermark_instance(0, MAX) == IDLE_MESSAGE
    assert [watermark_instance(key, MAX - 1) for key in (0, -128)] == [Watermark(0, MAX - 1), Watermark(-128, MAX - 1)]
    for key, value in ((1, MAX), (-1, MAX), (0, MAX + 1), (0, MIN), (128, 0), (-129, MAX)):
        with pytest.raises(ModelError, match=r"no idle message has a key but 0|outside the times|not a signed byte"):
            watermark_instance(key, value)


def test_the_keys_of_a_source_ascend() -> None:
    assert keys_of_source({3: "t", -1: "u"}) == ((-1, "u"), (3, "t"))


def test_a_map_keeps_the_key_of_a_column_that_is_plain_in_all_its_rows() -> None:
    keys = ((0, "t"), (1, None))
    assert keys_after_map(keys, [{"x": "t + 1", "when": "t"}]) == ((0, "when"), (1, None))
    assert keys_after_map(keys, [{"t": "t + 0"}]) == ((0, None), (1, None))
    assert keys_after_map(keys, [{"a": "t", "b": "t"}]) == ((0, "a"), (1, None))
    assert keys_after_map(((0, "t"), (1, "u")), [{"a": "t", "b": "u"}, {"a": "t", "b": "t"}]) == ((0, "a"), (1, None))


def test_a_merge_has_the_keys_of_all_inputs_and_those_that_one_has_not_are_stuck() -> None:
    assert keys_after_merge([((0, "t"),), ((0, "t"),)]) == MergedKeys(((0, "t"),))
    assert keys_after_merge([((0, "t"),), ()]) == MergedKeys(((0, "t"),), stuck=((0, (1,)),))
    assert keys_after_merge([((1, "t"),), ((0, "t"),), ()]).stuck == ((1, (1, 2)), (0, (0, 2)))


@pytest.mark.parametrize("before", ["t", None])
def test_a_key_that_is_on_different_columns_of_a_merge_is_in_conflict(before: str | None) -> None:
    assert keys_after_merge([((0, before),), ((0, "u"),)]).conflicts == ((1, 0, "u", before),)


def test_a_join_has_the_keys_of_both_sides() -> None:
    left, right = ((0, "t"), (2, None)), ((-1, "t"), (1, "u"), (3, None))
    renamed = {"t": "right_t", "u": "u"}
    assert keys_after_join(left, right, renamed) == ((-1, "right_t"), (0, "t"), (1, "u"), (2, None), (3, None))


def test_a_window_has_the_key_of_its_time_on_its_end() -> None:
    assert keys_after_window(((0, "t"), (1, "u")), "u", "end") == ((1, "end"),)
    assert keys_after_window(((0, None),), "t", "end") == ()


@pytest.mark.parametrize(
    ("rule", "slides", "others", "frame"),
    [
        (sql_frame_ms, [1_000, 400], [], 100),
        (sql_frame_ms, [], [5], 1),
        (sql_frame_ms, [], [100_000], 100),
        (sql_frame_ms, [30], [200], 20),
        (sql_frame_ms, [10], [200], 10),
    ],
)
def test_the_frame_of_a_query_or_pipeline(
    rule: Callable[..., int], slides: list[int], others: list[int], frame: int
) -> None:
    """The others are the spreads of joins for a query, the timeouts of sessions for a pipeline."""
    assert rule(slides, others) == frame
