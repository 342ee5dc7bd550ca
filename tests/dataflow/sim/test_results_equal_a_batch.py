"""Whatever the interleaving, what comes out of on-time rows is what a batch over the same rows gives (edge case 46)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.dataflow.sim.flows import count, line, multiset, outcome, recorded, results, rows
from wmlab import dataflow as flow

DISORDER = 40
RUNS = settings(max_examples=25, deadline=None)


@st.composite
def on_time(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Rows (t, k) that are never more than DISORDER behind the highest time before them."""
    steps = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, DISORDER), st.integers(0, 2)), max_size=25))
    found, top = [], 0
    for step, back, key in steps:
        top += step
        found.append((top - back, key))
    return found


def source(name: str, data: list[tuple[int, int]], key: int, **fields: Any) -> flow.Source:
    times = [flow.EventTime("t", key=key, lag_ms=DISORDER)]
    return flow.Source(name, columns=["t", "k"], rows=data, every_ms=3, times=times, ends=True, **fields)


@RUNS
@given(on_time(), on_time(), st.integers(0, 99), st.sampled_from([1, 2]), st.booleans())
def test_windows_over_a_merge(
    a: list[tuple[int, int]], b: list[tuple[int, int]], seed: int, copies: int, hops: bool
) -> None:
    slide = 25 if hops else 50
    window = count(size_ms=50, slide_ms=slide, by="k", parallelism=copies)
    vertices = [source("a", a, 0, parallelism=copies, partitions=copies), source("b", b, 0), flow.Merge("m"), window]
    run = recorded(vertices, ["a -> m -> count -> out", "b -> m"], seed=seed, queue_size=8)
    expected: Counter[tuple[int, int, int]] = Counter()
    for time, key in a + b:
        first = time // slide * slide + slide
        expected.update((end - 50, end, key) for end in range(first, first + 50, slide))
    assert multiset(results(run)) == Counter((*window, n) for window, n in expected.items())
    assert outcome(run) == "completed"
    assert not rows(run, "drops")


@pytest.mark.parametrize("outer", [None, "left", "right"])
@pytest.mark.parametrize("copies", [1, 2])
@RUNS
@given(on_time(), on_time(), st.integers(0, 99), st.integers(0, 60), st.integers(-20, 60))
def test_edge_case_46_joins(
    outer: str | None,
    copies: int,
    left: list[tuple[int, int]],
    right: list[tuple[int, int]],
    seed: int,
    before: int,
    after: int,
) -> None:
    condition = f"left.k == right.k and left.t - {before} <= right.t and right.t <= left.t + {after}"
    join = flow.Join("join", condition, outer=outer, parallelism=copies)  # type: ignore[arg-type]
    vertices = [source("a", left, 0), source("b", right, 1), join]
    run = recorded(vertices, ["a -> join -> out", "b -> join"], seed=seed, queue_size=16)
    pairs = [(one, two) for one in left for two in right if one[1] == two[1] and -before <= two[0] - one[0] <= after]
    expected = Counter(one + two for one, two in pairs)
    if outer == "left":
        expected.update((*one, None, None) for one in left if one not in [one for one, _ in pairs])
    elif outer == "right":
        expected.update((None, None, *two) for two in right if two not in [two for _, two in pairs])
    assert multiset(results(run)) == expected
    assert not rows(run, "drops")


@RUNS
@given(on_time(), st.integers(0, 99), st.booleans())
def test_an_asynchronous_map_loses_nothing_and_no_row_becomes_late(
    data: list[tuple[int, int]], seed: int, ordered: bool
) -> None:
    made = {"t": "t", "k": "k + 1"}
    step = flow.AsyncMap("call", select=made, ordered=ordered, capacity=3, latency=flow.Uniform(0, 60))
    run = line(source("a", data, 0), step, flow.LateDrop("late", "t"), seed=seed, queue_size=4)
    assert multiset(results(run)) == Counter((time, key + 1) for time, key in data)
    assert {row["outcome"] for row in rows(run, "calls")} <= {"answered"}
    if ordered:
        assert [(row["t"], row["k"] - 1) for row in results(run)] == data


@RUNS
@given(on_time(), st.integers(0, 99))
def test_rows_pass_maps_filters_and_flat_maps_as_in_a_list(data: list[tuple[int, int]], seed: int) -> None:
    twice = flow.Map("twice", select={"u": "t * 2", "t": "t", "k": "k"}, parallelism=2)
    some = flow.Filter("some", where="k > 0 and u is not None")
    both = flow.FlatMap("both", select=[{"t": "t", "x": "k"}, {"t": "t", "x": "u"}])
    run = line(source("a", data, 0), twice, some, both, seed=seed)
    assert multiset(results(run)) == Counter((t, x) for t, k in data if k > 0 for x in (k, 2 * t))


@pytest.mark.parametrize(("ttl_ms", "counts"), [(None, [1, 2, 1, 2, 3]), (100, [1, 2, 1, 1, 1])])
def test_a_stateful_map_counts_each_group_as_it_goes_and_forgets_it_in_time(ttl_ms: int | None, counts: list) -> None:
    """The watermark of a row comes before it, so the row that ends the time to live of its group starts again."""
    data = [(0, 1), (10, 1), (20, 2), (300, 2), (310, 1)]
    runs = flow.StatefulMap("runs", "t", by="k", aggregates={"n": "count()"}, ttl_ms=ttl_ms)
    assert [row["n"] for row in results(line(source("a", data, 0), runs))] == counts


def test_sessions_end_where_a_group_pauses() -> None:
    data = [(0, 1), (30, 1), (35, 2), (120, 1), (170, 1)]
    session = flow.SessionWindow("visits", 60, column="t", by="k", aggregates={"n": "count()", "last": "max(t)"})
    assert multiset(results(line(source("a", data, 0), session))) == Counter(
        [(0, 90, 1, 2, 30), (35, 95, 2, 1, 35), (120, 230, 1, 2, 170)]
    )
