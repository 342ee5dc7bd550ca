"""PDP-33, Client Changes; upstream class `ReaderGroupState`: what a reader group shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmlab.core.errors import ModelError
from wmlab.streams.model.group import GroupState, Membership, Shared, fair_share, is_least_loaded, to_release
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.model.window import TimeWindow

MERGED = parse_segment("2@1")
BOTH = {MERGED: frozenset({0, 1})}


def group() -> GroupState:
    state = GroupState.create({1: 20, 0: 10}).add_reader("r")
    return state.acquire("r", 0).acquire("r", 1)


def begun(readers: str = "ab") -> Membership:
    state = Membership({"x": GroupState.create({0: 0, 1: 0}), "y": GroupState.create({0: 5})})
    for reader in readers:
        state = state.add_reader(reader)
    return state


DONE = begun("").begin_checkpoint("c")


def test_a_successor_appears_at_its_start_when_no_predecessor_is_left() -> None:
    once = group().complete("r", 0, BOTH)
    assert (dict(once.offsets), once.pending) == ({1: 20}, {MERGED: frozenset({1})})
    twice = once.complete("r", 1, BOTH)
    assert (dict(twice.offsets), twice.owners, twice.pending) == ({MERGED: 0}, {MERGED: None}, {})


def test_a_bounded_group_has_no_successors_at_its_end() -> None:
    state = GroupState.create({0: 0}, ends={0: 40}).add_reader("a").acquire("a", 0)
    state = state.complete("a", 0, {1: frozenset({0})})
    assert (state.offsets, state.pending) == ({}, {})


def test_publishing_never_adds_a_segment_and_is_only_for_ones_own() -> None:
    assert dict(group().publish("r", {0: 50, 9: 1}).offsets) == {0: 50, 1: 20}
    moved = begun().acquire("a", ("x", 0)).publish("a", {("x", 0): 7, ("x", 1): 8, ("y", 0): 9})
    assert (moved.streams["x"].offsets, moved.streams["y"].offsets) == ({0: 7, 1: 0}, {0: 5})
    assert moved.publish("a", {("x", 0): 7}) is moved


def test_unassigned_segments_count_in_the_position_and_as_ones_own() -> None:
    state = GroupState.create({0: 1, 1: 2, 2: 3}).add_reader("a").add_reader("b").acquire("a", 0).acquire("b", 1)
    assert state.position == ReaderPosition({0: 1, 1: 2, 2: 3})
    assert state.share_of("a") == ReaderPosition({0: 1, 2: 3})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: s.add_reader("r"), "in the group already"),
        (lambda s: s.remove_reader("x"), "not in the group"),
        (lambda s: s.acquire("x", 0), "not in the group"),
        (lambda s: s.acquire("r", 0), "0@0 is not free"),
        (lambda s: s.acquire("r", 9), "9@0 is not free"),
        (lambda s: s.release("r", 9, 0), "does not own segment 9@0"),
        (lambda s: s.release("r", 0, -1), "negative"),
        (lambda s: s.add_reader("x").release("x", 0, 1), "does not own segment 0@0"),
        (lambda s: s.publish("x", {0: 1}), "not in the group"),
        (lambda s: s.publish("r", {0: -1}), "negative"),
        (lambda s: s.complete("r", 9, {}), "does not own"),
        (lambda _: DONE.report("a", {}), "No checkpoint"),
        (lambda _: DONE.begin_checkpoint("c"), "cannot begin"),
        (lambda _: begun().begin_checkpoint("d").begin_checkpoint("c"), "cannot begin"),
        (lambda _: DONE.reset("d"), "no checkpoint d"),
    ],
)
def test_what_a_reader_may_not_do_is_refused(change, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        change(group())


def test_of_two_changes_to_one_revision_the_second_is_refused() -> None:
    first, won = Shared("a").replace_if(0, "b")
    second, also = first.replace_if(0, "c")
    assert (won, also) == (True, False)
    assert second == first == Shared("b", 1)


def test_a_checkpoint_counts_reports_and_where_free_segments_would_be_taken_up() -> None:
    state = begun().acquire("a", ("x", 0)).acquire("b", ("y", 0)).begin_checkpoint("c")
    state = state.report("a", {("x", 0): 30, ("x", 1): 99}, {"x": 7}).report("a", {("x", 0): 40})
    assert state.pending is not None
    state = state.report("b", {("y", 0): 9}, {"x": 3})
    found = state.checkpoints["c"]
    assert state.pending is None
    assert {name: dict(place.offsets) for name, place in found.items()} == {"x": {0: 30, 1: 0}, "y": {0: 9}}
    assert (found["x"].marks_offset, found["y"].marks_offset) == (3, None)
    assert state.streams["x"].resume == {0: 30, 1: 0}


def test_a_checkpoint_does_not_wait_for_who_leaves() -> None:
    assert set(DONE.checkpoints) == {"c"}
    state = begun().acquire("a", ("x", 0)).begin_checkpoint("c").report("b", {})
    state = state.remove_reader("a", {("x", 0): 12})
    assert dict(state.checkpoints["c"]["x"].offsets) == {0: 12, 1: 0}
    assert state.unassigned == (("x", 0), ("x", 1), ("y", 0))


def test_a_reset_frees_everything_and_counts_generations() -> None:
    state = begun().begin_checkpoint("c").report("a", {}).report("b", {})
    state = state.acquire("a", ("x", 0)).publish("a", {("x", 0): 50}).complete("a", ("x", 0), {9: frozenset({0})})
    back = state.reset("c", ranges=False)
    assert back.streams["x"].offsets == {0: 0, 1: 0}
    assert back.streams["x"].rangeless == {0, 1}
    assert (back.generation, back.readers, back.owned("a")) == (1, {"a", "b"}, ())


def test_the_map_of_times_holds_owners_only_and_is_unknown_while_one_of_them_is() -> None:
    state = GroupState.create({0: 0, 1: 0}).add_reader("a").add_reader("b").add_reader("c").acquire("a", 0)
    assert (set(state.times), state.time) == ({"a"}, None)
    state = state.note_time("a", TimeWindow(30, 50)).note_time("c", TimeWindow(10, 20))
    assert (set(state.times), state.window) == ({"a"}, TimeWindow(30, 50))
    state = state.acquire("b", 1)
    assert state.window == TimeWindow(None, None)
    state = state.note_time("b", TimeWindow(20, 70))
    assert state.window == TimeWindow(20, 70)
    assert state.note_time("b", TimeWindow(20, None)).window == TimeWindow(20, None)
    assert set(state.release("b", 1, 4).times) == {"a"}
    assert state.remove_reader("a").window == TimeWindow(20, 70)
    assert set(state.complete("b", 1, {}).times) == {"a"}


@pytest.mark.parametrize(
    ("loads", "gain", "released"),
    [
        ({"a": {1: 1, 2: 1, 3: 1}, "b": {4: 1}}, 1, 1),
        ({"a": {1: 1, 2: 1}, "b": {4: 1}}, 1, None),
        ({"a": {1: 1, 2: 1}, "b": {}}, 1, 1),
        ({"a": {1: 9}, "b": {}}, 1, None),
        ({"a": {1: 9, 2: 2}, "b": {}}, 1, 2),
        ({"a": {1: 9, 2: 2}, "b": {}}, 3, None),
        ({"a": {1: 5, 2: 6, 3: 7}, "b": {}}, 1, 3),
        ({"a": {1: 5, 2: 5}}, 1, None),
    ],
)
def test_what_is_given_back(loads: dict[str, dict[int, int]], gain: int, released: int | None) -> None:
    placed = {reader: {("x", s): weight for s, weight in mine.items()} for reader, mine in loads.items()}
    found = to_release(placed, "a", gain=gain)
    assert (None if found is None else found[1]) == released


@given(st.dictionaries(st.integers(0, 9), st.sampled_from(["a", "b", "c"])), st.data())
def test_giving_back_comes_to_an_end_with_no_one_much_better_off(owners: dict[int, str], data: st.DataObject) -> None:
    weights = {segment: data.draw(st.integers(1, 20)) for segment in owners}
    for _ in range(200):
        loads = {r: {("x", s): weights[s] for s, o in owners.items() if o == r} for r in "abc"}
        moved = next(((r, p) for r in "abc" if (p := to_release(loads, r)) is not None), None)
        if moved is None:
            break
        rest = {r: {p: w for p, w in mine.items() if p != moved[1]} for r, mine in loads.items()}
        owners[moved[1][1]] = next(r for r in "abc" if is_least_loaded(rest, r))
    assert moved is None


def test_a_share_is_rounded_up() -> None:
    assert [fair_share(n, 2) for n in range(5)] == [0, 1, 1, 2, 2]
    assert fair_share(3, 0) == 3
