"""Segments over the same keys are found by the order of ranges: the same ones as by comparing all with all."""

import random
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from wmlab.streams.api import Scenario
from wmlab.streams.model import cut as cuts
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.position import (
    Position,
    behind_at_a_key,
    first_unpassed_ancestor,
    floored,
    is_less,
    segments_between,
)
from wmlab.streams.model.segment import Segment
from wmlab.streams.scenario.parts import EventWriter, Stream

SEEDS = range(60)


def history_of(draws: random.Random) -> StreamHistory:
    """Splits, merges, both at once, and copies by rolling transactions."""
    history = StreamHistory.create(draws.randint(1, 6))
    for _ in range(draws.randint(0, 6)):
        active = sorted(history.active.segments, key=lambda segment: segment.keys)
        first = draws.randrange(len(active))
        sealed = [segment.id for segment in active[first : first + draws.randint(1, 3)]]
        history = history.scale(sealed, draws.randint(1, 4))
        older = draws.randrange(len(history.epochs))
        if draws.random() < 0.2 and history.origin(older) != history.origin(history.active.number):
            history = history.roll(older)
    return history


def position_of(draws: random.Random, history: StreamHistory) -> Position:
    """Some segments of all epochs, so that keys are covered twice, once or not at all."""
    ids = draws.sample(list(history.segments), draws.randint(1, len(history.segments)))
    return Position({segment: draws.choice([None, 0, 1, 2]) for segment in ids})


def over(segment: Segment, history: StreamHistory) -> set[int]:
    return {other.id for other in history.segments.values() if other.keys.overlaps(segment.keys)}


def is_behind(first: Position, second: Position, segments: Mapping[int, Segment]) -> bool:
    """The rule as its docstring says it, key by key over all members."""

    def latest(position: Position, key: Fraction) -> int | None:
        return max((s for s in position if segments[s].keys.low <= key < segments[s].keys.high), default=None)

    for key in {segments[s].keys.low for s in (*first, *second)}:
        before, after = latest(first, key), latest(second, key)
        if before is None or after is None:
            continue
        if after < before or (after == before and is_less(second[after], first[before])):
            return True
    return False


def unpassed(cut: Position, history: StreamHistory) -> Segment | None:
    """The latest ancestor of a member that has not ended, at a key of its own, before the cut."""
    ancestors = {ancestor.id: ancestor for segment in cut for ancestor in history.ancestors(segment)}
    for identifier in sorted(ancestors, reverse=True):
        if any(member <= identifier and member in over(ancestors[identifier], history) for member in cut):
            return ancestors[identifier]
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_found_by_order_is_what_comparing_all_with_all_finds(seed: int, monkeypatch: Any) -> None:
    draws = random.Random(seed)
    history = history_of(draws)
    for segment in history.segments.values():
        assert history.over_keys_of(segment.id) == over(segment, history)
        for epoch in history.epochs:
            assert set(epoch.overlapping(segment.keys)) == {
                other for other in epoch.segments if other.keys.overlaps(segment.keys)
            }
    assert StreamHistory.of(history.segments.values()).segments == history.segments
    positions = [position_of(draws, history) for _ in range(4)]
    for first in positions:
        assert first_unpassed_ancestor(first, history) == unpassed(first, history)
        for second in positions:
            assert behind_at_a_key(first, second, history.segments) == is_behind(first, second, history.segments)
    start, end = (
        dict.fromkeys(history.epochs[n].ids, 0) for n in sorted(draws.choices(range(len(history.epochs)), k=2))
    )
    assert segments_between(start, end, history) == tuple(
        segment
        for segment in history.segments.values()
        if any(
            left <= segment.id <= right and {left, right} <= over(segment, history)
            for left in start
            for right in end
            if right in over(history.segments[left], history)
        )
    )
    made = [cut_steps(positions, history, order) for order in ("as_noted", "newest_first", "oldest_first")]
    monkeypatch.setattr(StreamHistory, "over_keys_of", lambda history, segment: over_by_comparing_all(history, segment))
    assert made == [cut_steps(positions, history, order) for order in ("as_noted", "newest_first", "oldest_first")]


def cut_steps(positions: list[Position], history: StreamHistory, order: cuts.VisitOrder) -> list[Any]:
    previous = floored(positions[-1])
    algorithms: list[cuts.CutAlgorithm] = ["sound", "pravega"]
    steps: list[cuts.CutStep] = []
    for algorithm in algorithms:
        rules = cuts.CutRules(algorithm=algorithm, visit_order=order)
        cuts.stream_cut(positions[:-1], previous, history, rules, steps=steps)
    return steps


def over_by_comparing_all(history: StreamHistory, segment: int) -> frozenset[int]:
    return frozenset(over(history.segments[segment], history))


def comparisons(segments: int) -> int:
    """How many comparisons of fractions a run makes."""
    writers = [EventWriter(name, rate_per_s=10) for name in ("a", "b")]
    scenario = Scenario("s", stream=Stream(segments=segments), writers=writers, duration_ms=30_000)
    calls = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is Fraction._richcmp.__code__  # type: ignore[attr-defined]

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        scenario.record(progress=False)
    finally:
        sys.setprofile(before)
    return calls


def test_ten_times_the_segments_take_at_most_thirteen_times_the_comparisons() -> None:
    assert comparisons(500) <= 13 * comparisons(50)
