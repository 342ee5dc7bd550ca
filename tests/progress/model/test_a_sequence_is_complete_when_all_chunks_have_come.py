"""N3, N4: the set rule is right in every order, the count rule unless a chunk repeats, the literal rule never."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from tests.progress.model.streams import origin_buffers, run_origin
from wmlab.progress.model.chunks import Breach, Chunks, Completed, CompletenessRule, Finding, NumberSet
from wmlab.progress.model.numbers import ChunkBase, TupleBuffer
from wmlab.progress.model.tracker import OriginProgress, ProgressRules, take


def complete_at(order, rule: CompletenessRule, base: ChunkBase) -> int | None:
    """After how many arrivals of (chunk, last) the rule first says complete."""
    chunks = Chunks.none(base)
    for place, (chunk, last) in enumerate(order, 1):
        chunks = chunks.add(chunk, last, 0)
        if chunks.complete(rule):
            return place
    return None


def orders(count: int, base: ChunkBase):
    return itertools.permutations([(base + place, place == count - 1) for place in range(count)])


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_set_count_and_balance_agree_on_distinct_chunks(count: int, base: ChunkBase) -> None:
    for order in orders(count, base):
        assert [complete_at(order, rule, base) for rule in ("set", "count", "balance")] == [count] * 3


def test_the_literal_rule_is_right_for_chunks_from_1_only() -> None:
    for count in range(1, 6):
        assert {complete_at(order, "literal", 1) for order in orders(count, 1)} == {count}
        for order in orders(count, 0):
            assert complete_at(order, "literal", 0) == (None if order[-1][1] else count - 1)


@st.composite
def repeated_chunks(draw) -> list[tuple[int, bool]]:
    count = draw(st.integers(1, 4))
    chunks = [(place, place == count - 1) for place in range(count)]
    return draw(st.permutations(chunks + draw(st.lists(st.sampled_from(chunks), max_size=3))))


@given(repeated_chunks())
def test_the_set_rule_is_right_with_repeats(order) -> None:
    wanted = max(order.index(chunk) for chunk in order) + 1
    assert complete_at(order, "set", 0) == wanted


@pytest.mark.parametrize("rule", ["count", "balance"])
def test_a_repeat_misleads_the_counting_rules_and_a_counter_example_is_found(rule: CompletenessRule) -> None:
    found = find(repeated_chunks(), lambda order: complete_at(order, rule, 0) != complete_at(order, "set", 0))
    assert len(found) > len(set(found))


@given(st.data())
def test_repeats_change_nothing_and_are_named(data) -> None:
    buffers = data.draw(origin_buffers().filter(bool))
    repeats = data.draw(st.lists(st.sampled_from(buffers), max_size=6))
    state, findings, completed = OriginProgress(), [], []
    for buffer in data.draw(st.permutations(buffers + repeats)):
        state, effects = take(state, buffer, ProgressRules())
        findings += [effect for effect in effects if isinstance(effect, Finding)]
        completed += [effect.sequence for effect in effects if isinstance(effect, Completed)]
    assert state == run_origin(buffers)
    assert len(findings) == len(repeats)
    assert {finding.breach for finding in findings} <= {Breach.REPEATED, Breach.FINISHED}
    assert sorted(completed) == sorted({buffer.sequence for buffer in buffers})


@pytest.mark.parametrize(
    ("arrivals", "breach"),
    [
        ([(0, False), (0, False)], Breach.REPEATED),
        ([(0, True), (0, True)], Breach.FINISHED),
        ([(2, True), (1, True)], Breach.SECOND_LAST),
        ([(2, False), (1, True)], Breach.SECOND_LAST),
        ([(1, True), (2, False)], Breach.BEYOND_LAST),
    ],
)
def test_a_broken_protocol_is_named_and_left_out(arrivals, breach: Breach) -> None:
    (first, second) = (TupleBuffer(1, 1, chunk, last, 7) for chunk, last in arrivals)
    before, _ = take(OriginProgress(), first, ProgressRules())
    after, effects = take(before, second, ProgressRules())
    assert after is before
    assert effects == (Finding(breach, second),)
    assert effects[0].sentence == f"{breach}: origin 1, sequence 1, chunk {second.chunk}"


@given(st.lists(st.integers(0, 40)))
def test_a_number_set_is_a_set(numbers) -> None:
    found = NumberSet(0)
    for number in numbers:
        found = found.add(number)
    assert [n for n in range(42) if n in found] == sorted(set(numbers))
    assert found.largest == max(numbers, default=None)
    assert found.run == next(n for n in range(42) if n not in numbers)


def test_the_missing_chunks_are_listed() -> None:
    chunks = Chunks.none(1).add(5, True, 0).add(2, False, 0)
    assert chunks.missing() == (1, 3, 4)
    assert Chunks.none(0).add(0, False, 0).missing() == ()
    assert Chunks.none(0).missing() == ()
    assert Chunks.none(0).add(10**9, True, 0).missing() == tuple(range(10))
