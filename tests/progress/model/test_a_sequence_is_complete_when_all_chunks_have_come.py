"""N3: the set rule is right in every order, the count rule unless a chunk repeats, the literal rule never."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import find, given, strategies as st

from tests.progress.model.streams import origin_buffers, run_origin
from wmlab.progress.model.chunks import Chunks, Completed, CompletenessRule, ProtocolViolation, ViolationKind
from wmlab.progress.model.numbers import ChunkBase, TupleBuffer
from wmlab.progress.model.tracker import OriginProgress


def complete_at(order, rule: CompletenessRule, base: ChunkBase) -> int | None:
    """After how many arrivals of (chunk, last) the rule first says complete."""
    chunks = Chunks(base)
    for arrival, (chunk, last) in enumerate(order, 1):
        chunks.add(chunk, last, 0)
        if chunks.complete(rule):
            return arrival
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
    origin, findings, completed = OriginProgress(), [], []
    for buffer in data.draw(st.permutations(buffers + repeats)):
        effects = origin.step(buffer)
        findings += [effect for effect in effects if isinstance(effect, ProtocolViolation)]
        completed += [effect.sequence for effect in effects if isinstance(effect, Completed)]
    assert origin == run_origin(buffers)
    assert len(findings) == len(repeats)
    assert {finding.kind for finding in findings} <= {ViolationKind.REPEATED, ViolationKind.FINISHED}
    assert sorted(completed) == sorted({buffer.sequence for buffer in buffers})


@pytest.mark.parametrize(
    ("arrivals", "breach"),
    [
        ([(0, False), (0, False)], ViolationKind.REPEATED),
        ([(0, True), (0, True)], ViolationKind.FINISHED),
        ([(2, True), (1, True)], ViolationKind.SECOND_LAST),
        ([(2, False), (1, True)], ViolationKind.SECOND_LAST),
        ([(1, True), (2, False)], ViolationKind.BEYOND_LAST),
    ],
)
def test_a_broken_protocol_is_named_and_left_out(arrivals, breach: ViolationKind) -> None:
    (first, second) = (TupleBuffer(1, 1, chunk, last, 7) for chunk, last in arrivals)
    origin = run_origin([first])
    effects = origin.step(second)
    assert origin == run_origin([first])
    assert effects == (ProtocolViolation(breach, second),)
    assert effects[0].sentence == f"{breach}: origin 1, sequence 1, chunk {second.chunk}"


@pytest.mark.parametrize(
    ("base", "arrivals", "missing"),
    [
        (1, [(5, True), (2, False)], (1, 3, 4)),
        (0, [(0, False)], ()),
        (0, [(3, False)], (0, 1, 2)),
        (0, [], ()),
        (0, [(10**9, True)], tuple(range(10))),
    ],
)
def test_the_missing_chunks_are_listed(base, arrivals, missing) -> None:
    chunks = Chunks(base)
    for chunk, last in arrivals:
        chunks.add(chunk, last, 0)
    assert chunks.missing() == missing
