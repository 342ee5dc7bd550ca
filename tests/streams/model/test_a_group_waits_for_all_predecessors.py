"""PDP-33, Client Changes; upstream class `ReaderGroupState`: what a reader group shares."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from wmlab.streams.model.group import GroupState, StreamReading, fair_share, is_least_loaded, to_release
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.model.window import TimeWindow

MERGED = parse_segment("2@1")
BOTH = {MERGED: frozenset({0, 1})}


def state_of(readers: str, **offsets: dict[int, int]) -> GroupState:
    """A group of these readers over streams with these offsets."""
    state = GroupState({stream: StreamReading.begin(mine) for stream, mine in offsets.items()})
    for reader in readers:
        state.add_reader(reader)
    return state


def group() -> GroupState:
    """One reader that owns both segments of a stream."""
    state = state_of("r", x={1: 20, 0: 10})
    state.acquire("r", ("x", 0))
    state.acquire("r", ("x", 1))
    return state


def begun(readers: str = "ab") -> GroupState:
    """Two streams, nothing owned."""
    return state_of(readers, x={0: 0, 1: 0}, y={0: 5})


def done() -> GroupState:
    """A group without readers, and with a checkpoint."""
    state = begun("")
    state.begin_checkpoint("c")
    return state


def test_a_successor_appears_at_its_start_when_no_predecessor_is_left() -> None:
    state = group()
    reading = state.streams["x"]
    state.complete("r", ("x", 0), BOTH, end=12)
    assert (reading.offsets, reading.pending) == ({1: 20}, BOTH)
    state.complete("r", ("x", 1), BOTH, end=20)
    assert (reading.offsets, reading.owners, reading.pending) == ({MERGED: 0}, {MERGED: None}, {})


def test_a_segment_that_appears_stands_among_the_others_in_ascending_order() -> None:
    state = state_of("r", x={0: 10, 7: 3})
    state.acquire("r", ("x", 0))
    state.complete("r", ("x", 0), {2: frozenset({0})}, end=10)
    assert list(state.streams["x"].offsets.items()) == [(2, 0), (7, 3)]


def test_publishing_never_adds_a_segment_and_is_only_for_ones_own() -> None:
    state = group()
    assert state.publish("r", {("x", 0): 50, ("x", 9): 1})
    assert state.streams["x"].offsets == {0: 50, 1: 20}
    moved = begun()
    moved.acquire("a", ("x", 0))
    assert moved.publish("a", {("x", 0): 7, ("x", 1): 8, ("y", 0): 9})
    assert (moved.streams["x"].offsets, moved.streams["y"].offsets) == ({0: 7, 1: 0}, {0: 5})
    assert not moved.publish("a", {("x", 0): 7})
    assert not moved.publish("nobody", {("x", 0): 8})


def test_unassigned_segments_count_in_the_position_and_as_ones_own() -> None:
    state = state_of("ab", x={0: 1, 1: 2, 2: 3})
    state.acquire("a", ("x", 0))
    state.acquire("b", ("x", 1))
    assert state.streams["x"].position == Position({0: 1, 1: 2, 2: 3})
    assert state.streams["x"].share_of("a") == Position({0: 1, 2: 3})


@pytest.mark.parametrize(
    ("state", "change"),
    [
        (group, lambda s: s.add_reader("r")),
        (group, lambda s: s.remove_reader("x")),
        (group, lambda s: s.acquire("x", ("x", 0))),
        (group, lambda s: s.acquire("r", ("x", 0))),
        (group, lambda s: s.acquire("r", ("x", 9))),
        (group, lambda s: s.release("r", ("x", 9), 0)),
        (group, lambda s: s.complete("r", ("x", 9), {}, end=0)),
        (group, lambda s: s.note_time("x", "x", TimeWindow(1, 2))),
        (begun, lambda s: s.release("a", ("x", 0), 1)),
        (done, lambda s: s.report("a", {})),
        (done, lambda s: s.begin_checkpoint("c")),
        (done, lambda s: s.take_cut("c", {})),
        (done, lambda s: s.reset("d", ranges=True)),
    ],
)
def test_what_a_reader_may_not_do_changes_nothing(state, change) -> None:
    before, after = state(), state()
    assert change(after) is False
    assert after == before


def test_a_checkpoint_begins_when_no_other_is_under_way() -> None:
    state = begun()
    assert state.begin_checkpoint("d")
    assert not state.begin_checkpoint("c")
    assert state.pending is not None
    assert state.pending.name == "d"


def changed_in_every_way(state: GroupState) -> None:
    """All that can happen to a group in which `a` owns a segment."""
    state.add_reader("c")
    state.acquire("b", ("x", 1))
    state.publish("a", {("x", 0): 30})
    state.note_time("a", "x", TimeWindow(1, 2))
    state.begin_checkpoint("c1")
    state.report("a", {("x", 0): 40}, {"x": 3})
    state.complete("a", ("x", 0), {9: frozenset({0}), 8: frozenset({0, 1})}, end=40)
    state.remove_reader("b", {("x", 1): 5})
    state.remove_reader("c")
    state.reset("c1", ranges=False)


def test_a_change_of_a_copy_leaves_the_older_state_as_somebody_has_seen_it() -> None:
    seen = begun()
    seen.acquire("a", ("x", 0))
    before, newer = seen.copy(), seen.copy()
    changed_in_every_way(newer)
    assert seen == before != newer


def test_a_checkpoint_under_way_is_copied_too() -> None:
    seen = begun()
    seen.begin_checkpoint("c")
    newer = seen.copy()
    newer.report("a", {}, {"x": 1})
    assert seen.pending is not None
    assert newer.pending is not None
    assert (seen.pending.waiting, newer.pending.waiting) == ({"a", "b"}, {"b"})
    assert (seen.pending.marks_offsets, newer.pending.marks_offsets) == ({}, {"x": 1})


def test_a_checkpoint_counts_reports_and_where_free_segments_would_be_taken_up() -> None:
    state = begun()
    state.acquire("a", ("x", 0))
    state.acquire("b", ("y", 0))
    state.begin_checkpoint("c")
    state.report("a", {("x", 0): 30, ("x", 1): 99}, {"x": 7})
    state.report("a", {("x", 0): 40})
    assert state.pending is not None
    state.report("b", {("y", 0): 9}, {"x": 3})
    found = state.checkpoints["c"]
    assert state.pending is None
    assert {name: dict(position.offsets) for name, position in found.items()} == {"x": {0: 30, 1: 0}, "y": {0: 9}}
    assert (found["x"].marks_offset, found["y"].marks_offset) == (3, None)
    assert state.streams["x"].resume == {0: 30, 1: 0}


def test_a_checkpoint_does_not_wait_for_who_leaves() -> None:
    assert set(done().checkpoints) == {"c"}
    state = begun()
    state.acquire("a", ("x", 0))
    state.begin_checkpoint("c")
    state.report("b", {})
    state.remove_reader("a", {("x", 0): 12})
    assert dict(state.checkpoints["c"]["x"].offsets) == {0: 12, 1: 0}
    assert state.unassigned == (("x", 0), ("x", 1), ("y", 0))


def test_a_reset_frees_everything_and_counts_generations() -> None:
    state = begun()
    state.begin_checkpoint("c")
    state.report("a", {})
    state.report("b", {})
    state.acquire("a", ("x", 0))
    state.publish("a", {("x", 0): 50})
    state.complete("a", ("x", 0), {9: frozenset({0})}, end=40)
    state.reset("c", ranges=False)
    assert state.streams["x"].offsets == {0: 0, 1: 0}
    assert state.streams["x"].rangeless == {0, 1}
    assert (state.generation, state.readers, state.owned("a")) == (1, {"a", "b"}, ())


def test_the_map_of_times_holds_owners_only_and_who_comes_begins_with_the_time_of_the_group() -> None:
    state = state_of("abc", x={0: 0, 1: 0})
    reading = state.streams["x"]
    state.acquire("a", ("x", 0))
    assert (set(reading.times), reading.window.lower) == ({"a"}, None)
    state.note_time("a", "x", TimeWindow(30, 50))
    state.note_time("c", "x", TimeWindow(10, 20))
    assert (set(reading.times), reading.window) == ({"a"}, TimeWindow(30, 50))
    state.acquire("b", ("x", 1))
    assert reading.times["b"] == reading.window == TimeWindow(30, 50)
    state.note_time("b", "x", TimeWindow(40, None))
    assert reading.window == TimeWindow(30, None)
    finished, released = state.copy(), state.copy()
    finished.complete("b", ("x", 1), {}, end=0)
    released.release("b", ("x", 1), 4)
    assert set(finished.streams["x"].times) == set(released.streams["x"].times) == {"a"}


def passed(seq: int) -> TimeWindow:
    """The window of a reader that has passed the watermark with that index and has the next one ahead."""
    return TimeWindow(10 * seq, 10 * seq + 10, seq, seq + 1, seq)


GOES: dict[str, Callable[[GroupState], object]] = {
    "is gone": lambda state: state.remove_reader("b"),
    "gives it back": lambda state: state.release("b", ("x", 1), 4),
    "reads it to its end": lambda state: state.complete("b", ("x", 1), {9: frozenset({1})}, end=9),
}


@pytest.mark.parametrize("goes", GOES)
def test_what_nobody_owns_holds_the_time_of_the_group_until_it_is_counted(goes: str) -> None:
    state = state_of("abc", x={0: 0, 1: 0})
    reading = state.streams["x"]
    state.acquire("a", ("x", 0))
    state.acquire("b", ("x", 1))
    assert state.note_time("a", "x", passed(5))
    assert state.note_time("b", "x", passed(3))
    GOES[goes](state)
    assert reading.times == {"a": TimeWindow(30, 60)}
    state.acquire("c", ("x", reading.unassigned[0]))
    assert (reading.window, reading.times["c"]) == (TimeWindow(30, 60), TimeWindow(30, 60))
    assert not state.note_time("c", "x", passed(1))
    assert state.note_time("a", "x", passed(5))
    assert state.note_time("c", "x", passed(4))
    assert reading.window == TimeWindow(40, 60)


def test_a_group_whose_only_reader_gives_back_its_last_segment_keeps_its_time() -> None:
    state = state_of("ab", x={0: 0})
    reading = state.streams["x"]
    state.acquire("a", ("x", 0))
    state.note_time("a", "x", passed(5))
    state.release("a", ("x", 0), 7)
    assert (reading.times, reading.window) == ({}, TimeWindow(50, 60))
    state.acquire("b", ("x", 0))
    assert reading.window == TimeWindow(50, 60)


def test_an_end_of_known_time_counts_when_it_is_passed_for_the_first_time() -> None:
    end = TimeWindow(None, None, passed_seq=4)
    assert passed(3).followed_by(end) == TimeWindow(None, None)
    assert passed(5).followed_by(end) == passed(5)
    assert end.followed_by(passed(3)) == TimeWindow(None, None)
    assert end.followed_by(passed(5)) == passed(5)
    assert TimeWindow(None, 20, None, 1).followed_by(TimeWindow(None, 10, None, 0)) == TimeWindow(None, 20)


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


def test_a_finished_segment_counts_until_its_successors_can_be_read() -> None:
    state = group()
    reading = state.streams["x"]
    state.complete("r", ("x", 0), BOTH, end=12)
    assert reading.position == Position({0: 12, 1: 20})
    assert reading.share_of("another") == Position({0: 12})
    state.begin_checkpoint("c")
    state.report("r", {("x", 1): 25})
    state.complete("r", ("x", 1), BOTH, end=30)
    assert reading.position == Position({MERGED: 0})
    state.reset("c", ranges=True)
    assert state.streams["x"].position == Position({0: 12, 1: 25})


def test_it_counts_where_only_some_of_its_successors_can_be_read() -> None:
    """0@0 gives its keys to 2@1 and 3@1, and 3@1 has some of those of 1@0, too."""
    state = group()
    reading = state.streams["x"]
    first, second = parse_segment("2@1"), parse_segment("3@1")
    state.complete("r", ("x", 0), {first: frozenset({0}), second: frozenset({0, 1})}, end=12)
    assert reading.position == Position({0: 12, 1: 20, first: 0})
    state.complete("r", ("x", 1), {second: frozenset({0, 1})}, end=30)
    assert reading.position == Position({first: 0, second: 0})


def test_the_last_segments_of_a_sealed_stream_count_for_ever() -> None:
    state = group()
    state.complete("r", ("x", 0), {}, end=12)
    state.complete("r", ("x", 1), {}, end=30)
    assert state.streams["x"].position == Position({0: 12, 1: 30})
    assert state.unassigned == ()
