"""Checkpoints of a reader group, and what a reset to one does to its readers and their windows."""

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from tests.overlaps import without_overlaps
from tests.repetitions import repetitions
from tests.streams.sim.worlds import FOUR, drawn, group, run
from wmlab.core.errors import ScenarioError
from wmlab.streams.model.position import is_valid_cut
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

TAKEN = script.Checkpoint(at_ms=6_200, name="c")
BACK = script.ResetToCheckpoint(at_ms=12_200, checkpoint="c")


def test_a_checkpoint_is_where_all_readers_were_at_their_next_turn():
    world = run(stream=FOUR, readers=group(), script=[TAKEN])
    (row,) = world.rows("checkpoints")
    assert (row["requested_ms"], row["completed_ms"]) == (6_200, 6_500)
    assert row["cut"] == {
        segment: world.column("positions", "offset", -1, 6_500, segment_id=segment)[-1] for segment in range(4)
    }
    assert is_valid_cut(row["cut"], world.stream().history)


@pytest.mark.parametrize(
    ("fault", "completed_ms"),
    [
        (script.PauseReader(at_ms=6_000, reader="readers-1", for_ms=3_000), 9_000),
        (script.CrashReader(at_ms=6_000, reader="readers-1", offline_after_ms=None), None),
        (script.CrashReader(at_ms=6_000, reader="readers-1", offline_after_ms=5_000), 11_000),
    ],
)
def test_a_paused_reader_delays_it_and_a_lost_one_prevents_it_until_it_is_declared_offline(fault, completed_ms):
    (row,) = run(readers=group(), script=[TAKEN, fault]).rows("checkpoints")
    assert (row["completed_ms"], row["cut"] is None, row["marks_offset"]) == (completed_ms, completed_ms is None, None)


def test_who_has_reported_changes_no_segment_until_the_checkpoint_is_complete():
    actions = [
        script.PauseReader(at_ms=6_000, reader="readers-1", for_ms=3_000),
        TAKEN,
        script.Scale(at_ms=7_000, seal=["0@0"]),
    ]
    world = run(readers=group(), script=actions)
    (row,) = world.rows("checkpoints")
    assert set(row["cut"]) == {0, 1}
    assert min(world.column("positions", "at_ms", finished=True)) >= 9_000


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_a_reset_takes_the_group_back_and_everything_after_the_checkpoint_is_read_again(read_side):
    world = run(stream=FOUR, readers=group(), rules=Rules(read_side=read_side), script=[TAKEN, BACK])
    (checkpoint,) = world.rows("checkpoints")
    again = {row["segment_id"]: row["from_offset"] for row in reversed(world.rows("reads", again=True))}
    assert again == checkpoint["cut"]
    world.first_reads_are_complete()
    removed = world.rows("positions", at_ms=12_200)
    assert {row["segment_id"]: row["offset"] for row in removed if not row["finished"]} == checkpoint["cut"]
    assert {row["version"] for row in removed} == {removed[0]["version"]}
    assert {row["version"] for row in world.rows("positions", reset=True)} == {removed[0]["version"]}


def test_a_reset_to_the_last_checkpoint_or_to_one_that_is_missing():
    last = script.ResetToCheckpoint(at_ms=12_200)
    later = script.Checkpoint(at_ms=9_200, name="d")
    world = run(readers=group(), script=[TAKEN, later, last])
    assert world.column("incidents", "detail", kind="reset") == ["back to checkpoint d"]
    none = run(readers=group(), script=[last])
    assert none.column("incidents", "detail") == ["no checkpoint is complete"]
    assert not none.rows("reads", again=True)


def test_a_reset_brings_back_successors_that_wait_for_a_predecessor():
    actions = [
        script.PauseReader(at_ms=5_900, reader="readers-1", for_ms=4_000),
        script.Scale(at_ms=6_000, seal=["0@0", "1@0"], into=1),
        script.Checkpoint(at_ms=8_200, name="c"),
        script.ResetToCheckpoint(at_ms=15_000, checkpoint="c"),
    ]
    world = run(readers=group(), script=actions)
    assert set(world.rows("checkpoints")[0]["cut"]) == {1}
    assert {world.stream().history.segments[s].name for s in world.segment_owners()} == {"2@1"}
    ends = world.first_reads_are_complete()
    assert ends[1] == world.stream().store[1].length


# R11


def two_scales(ranges):
    actions = [
        script.Scale(at_ms=3_000, seal=["0@0"]),
        script.Checkpoint(at_ms=6_600, name="c"),
        script.Scale(at_ms=7_000, seal=["3@1"]),
        script.ResetToCheckpoint(at_ms=12_100, checkpoint="c", ranges=ranges),
    ]
    writers = [EventWriter("w", rate_per_s=100)]
    return run(readers=group(rate_per_s=60), writers=writers, script=actions)


def test_r11_without_ranges_the_window_after_a_reset_is_more_conservative():
    known, unknown = (
        {row["at_ms"]: row for row in two_scales(ranges).rows("windows", reader="readers-0")}
        for ranges in (True, False)
    )
    for at, row in unknown.items():
        left, right = row["lower"], known[at]["lower"]
        assert left is None or (right is not None and left <= right)
        assert row["upper"] is None or known[at]["upper"] is None or row["upper"] >= known[at]["upper"]
    assert any(row["upper"] != known[at]["upper"] for at, row in unknown.items() if at > 12_100)


# The offset in the marks segment


def beginning_at(world, offset):
    """The watermark whose entry begins there."""
    marks = world.rows("watermarks")
    return dict(zip([0, *(mark["revision"] for mark in marks)], marks, strict=False))[offset]


def test_in_the_documents_design_a_checkpoint_carries_the_place_in_the_marks():
    world = run(readers=group(rate_per_s=50), rules=Rules(read_side="document"), script=[TAKEN])
    (row,) = world.rows("checkpoints")
    slowest = beginning_at(world, row["marks_offset"])
    assert slowest["lower"] == world.lower_at(6_500)
    assert slowest["seq"] > 0
    (plain,) = run(readers=group(), script=[TAKEN]).rows("checkpoints")
    assert plain["marks_offset"] is None


def test_after_a_reset_readers_go_on_in_the_marks_where_the_checkpoint_was():
    world = run(readers=group(rate_per_s=50), rules=Rules(read_side="document"), script=[TAKEN, BACK])
    before = world.lower_at(6_500)
    after = [lower for at, lower in world.lowers() if at > 12_200]
    assert after[0] is None or after[0] >= before
    assert next(lower for lower in after if lower is not None) >= before


def test_time_windows_off_leave_the_marks_out_of_a_checkpoint():
    (row,) = run(readers=group(time_windows=False), rules=Rules(read_side="document"), script=[TAKEN]).rows(
        "checkpoints"
    )
    assert row["marks_offset"] is None


# Stream cuts of a group, and groups that begin elsewhere

CUT = script.TakeStreamCut(at_ms=6_200, name="cut", group="readers")


def published(world, at_ms, name="readers"):
    """The offsets of a group's open segments at a moment."""
    found = {}
    for row in world.rows("positions", group=name):
        if row["at_ms"] <= at_ms:
            found[row["segment_id"]] = None if row["finished"] else row["offset"]
    return {segment: offset for segment, offset in found.items() if offset is not None}


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_a_stream_cut_is_what_the_group_has_published_with_its_place_in_the_marks(read_side):
    paused = script.PauseReader(at_ms=3_000, reader="readers-1", for_ms=6_000)
    world = run(stream=FOUR, readers=group(), rules=Rules(read_side=read_side), script=[CUT, paused])
    (row,) = world.rows("checkpoints")
    assert (row["checkpoint"], row["requested_ms"], row["completed_ms"]) == ("cut", 6_200, 6_200)
    assert row["cut"] == published(world, 6_200)
    if read_side == "implementation":
        assert row["marks_offset"] is None
        return
    assert beginning_at(world, row["marks_offset"])["lower"] == world.lower_at(6_200) < world.lower_at(14_000)


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_another_group_begins_at_a_stream_cut_in_the_segments_and_in_the_marks(read_side):
    split = script.Scale(at_ms=4_000, seal=["0@0"])
    one, other = group(rate_per_s=60), group(name="other", starting_checkpoint="cut", starts_ms=9_000)
    world = run(readers=[one, other], rules=Rules(read_side=read_side), script=[CUT, split])
    taken = world.rows("checkpoints", checkpoint="cut", group="readers")[0]
    cut, offset = taken["cut"], taken["marks_offset"]
    assert published(world, 9_000, "other") == cut
    begins = {row["segment_id"]: row["from_offset"] for row in reversed(world.rows("reads", group="other"))}
    assert {segment: begins[segment] for segment in cut} == cut
    assert set(begins) == set(cut) | ({s.id for s in world.stream().history.active.segments})
    assert world.groups["other"].state.streams["stream"].marks_offset == offset
    assert (offset is None) is (read_side == "implementation")
    assert (world.column("windows", "lower", group="other")[0] or 0) >= world.lower_at(6_200)


def test_a_group_can_be_taken_back_to_a_stream_cut():
    back = script.ResetToCheckpoint(at_ms=12_100, checkpoint="cut", group="readers")
    world = run(readers=group(), script=[CUT, back])
    (row,) = world.rows("checkpoints")
    assert published(world, 12_100) == row["cut"]


@pytest.mark.parametrize("read_side", ["implementation", "document"])
@pytest.mark.parametrize("time", [3_000, 8_000, -5])
def test_a_group_that_starts_at_a_time_begins_at_its_cut_and_reads_no_older_mark(time, read_side):
    split = script.Scale(at_ms=6_000, seal=["0@0"])
    late = group(name="late", readers=1, starting_time=time, starts_ms=12_000)
    world = run(readers=[group(), late], rules=Rules(read_side=read_side), script=[split])
    known = [mark for mark in world.rows("watermarks") if mark["lower"] <= time]
    begins = published(world, 12_000, "late")
    assert begins == (known[-1]["cut"] if known else world.stream().head)
    events = world.events
    behind = [events.event_time[(events.segment_id == s) & (events.offset > at)].min() for s, at in begins.items()]
    assert min(behind) >= (known[-1]["lower"] if known else 0)
    offset = world.groups["late"].state.streams["stream"].marks_offset
    revisions = [0, *(mark["revision"] for mark in world.rows("watermarks"))]
    assert offset == (revisions[len(known) - 1] if known else None)
    assert world.column("windows", "lower", group="late")[0] >= time


def test_a_group_of_several_streams_starts_at_a_time_in_each_of_them():
    streams = [Stream("a"), Stream("b", segments=2)]
    writers = [EventWriter(f"w-{stream.name}", rate_per_s=50, stream=stream.name) for stream in streams]
    both = group(streams=["a", "b"], starting_time=5_000, starts_ms=9_000)
    world = run(stream=Stream(), streams=streams, writers=writers, readers=both)
    for name in ("a", "b"):
        marks = [mark for mark in world.rows("watermarks", of=name) if mark["lower"] <= 5_000]
        begun = world.rows("positions", of=name, version=0)
        assert {row["segment_id"]: row["offset"] for row in begun} == marks[-1]["cut"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"starting_checkpoint": "cut", "starting_time": 5}, "does not go with starting_time"),
        ({"starting_checkpoint": "none"}, "no checkpoint of another group is called 'none'"),
        ({"starting_checkpoint": "cut", "starts_ms": 5_000}, "no other group of its streams has come to it by then"),
    ],
)
def test_a_start_that_nothing_gives_is_refused(fields, problem):
    with pytest.raises(ScenarioError, match=problem):
        run(readers=[group(), group(name="other", **fields)], script=[CUT])


# Random lives of a group


AT, READER = st.integers(600, 9_000), [f"readers-{n}" for n in range(3)]
FAULTS = st.one_of(
    drawn(script.CrashReader, at_ms=AT, reader=READER, offline_after_ms=[0, 300, 2_000], restart_after_ms=[100, 1_500]),
    drawn(script.PauseReader, at_ms=AT, reader=READER, for_ms=st.integers(1, 3_000)),
    drawn(script.ReleaseSegment, at_ms=AT, reader=READER, segment=["0@0", "1@0"], keep_free_ms=[0, 900]),
    drawn(script.ResetToCheckpoint, at_ms=AT, ranges=st.booleans()),
)
CHANGES = st.lists(
    st.sampled_from([script.Scale(at_ms=4_000, seal=["0@0"]), script.AddReader(at_ms=5_000, reader="late")]),
    max_size=2,
    unique_by=lambda action: action.kind,
)
LIVES = st.fixed_dictionaries(
    {
        "script": st.tuples(st.lists(FAULTS, max_size=5), CHANGES).map(
            lambda drawn: without_overlaps([*drawn[0], *drawn[1]])
        ),
        "readers": drawn(
            ReaderGroup,
            readers=3,
            publish_every_ms=[200, 500],
            rate_per_s=[None, 80.0],
            state_latency_ms=[0, 7],
            rebalance=["segments", "bytes", "time"],
            tracker_ms=[0, 400],
        ),
        "rules": drawn(Rules, read_side=["implementation", "document"], publish_timer=["fixed", "pravega"]),
        "seed": st.integers(0, 2**20),
    }
)


def test_whatever_befalls_readers_nothing_is_skipped_and_no_bound_is_broken():
    happened, groups = Counter(), Counter()

    @settings(max_examples=repetitions(25, long=60))
    @given(LIVES)
    def holds(life):
        happened.update(action.kind for action in life["script"])
        group, rules = life["readers"], life["rules"]
        groups.update([rules.read_side, rules.publish_timer, group.rebalance, group.tracker_ms, group.rate_per_s])
        assert_nothing_is_skipped(life)

    holds()
    assert happened.keys() == {
        *("crash_reader", "pause_reader", "release_segment", "reset_to_checkpoint", "scale", "add_reader")
    }
    shapes = {"implementation", "document", "fixed", "pravega", "segments", "bytes", "time", 0, 400, None, 80.0}
    assert groups.keys() == shapes
    assert min(groups.values()) > 2


def assert_nothing_is_skipped(life):
    world = run(duration_ms=14_000, **life)
    world.first_reads_are_complete()
    replayed: dict[int, int] = {}
    for row in world.rows("positions"):
        replayed[row["segment_id"]] = row["offset"]
        if row["finished"]:
            del replayed[row["segment_id"]]
    assert replayed == world.group.state.streams["stream"].offsets
    if life["rules"].read_side == "implementation":
        assert world.late_first_reads() == 0
