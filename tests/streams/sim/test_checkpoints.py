"""Checkpoints of a reader group, and what a reset to one does to its readers and their windows."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.sim.worlds import (
    FOUR,
    drawn,
    first_reads_are_complete,
    group,
    late_first_reads,
    lower_at,
    lowers,
    only,
    rows,
    run,
    segment_owners,
)
from wmlab.core.errors import ScenarioError
from wmlab.streams.model.position import is_valid_cut
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream

TAKEN = script.Checkpoint(at_ms=6_200, name="c")
BACK = script.ResetToCheckpoint(at_ms=12_200, checkpoint="c")


def test_a_checkpoint_is_where_all_readers_were_at_their_next_turn():
    world = run(stream=FOUR, readers=group(), script=[TAKEN])
    (row,) = rows(world, "checkpoints")
    assert (row["requested_ms"], row["completed_ms"]) == (6_200, 6_500)
    assert row["cut"] == {
        segment: [r["offset"] for r in rows(world, "positions", segment_id=segment) if r["at_ms"] < 6_500][-1]
        for segment in range(4)
    }
    assert is_valid_cut(row["cut"], world.stream().history)


def test_a_paused_reader_delays_it_and_a_lost_one_prevents_it_until_it_is_declared_offline():
    pause = script.PauseReader(at_ms=6_000, reader="readers-1", for_ms=3_000)
    assert rows(run(readers=group(), script=[TAKEN, pause]), "checkpoints")[0]["completed_ms"] == 9_000
    lost = script.CrashReader(at_ms=6_000, reader="readers-1", offline_after_ms=None)
    (row,) = rows(run(readers=group(), script=[TAKEN, lost]), "checkpoints")
    assert (row["completed_ms"], row["cut"], row["marks_offset"]) == (None, None, None)
    late = script.CrashReader(at_ms=6_000, reader="readers-1", offline_after_ms=5_000)
    assert rows(run(readers=group(), script=[TAKEN, late]), "checkpoints")[0]["completed_ms"] == 11_000


def test_who_has_reported_changes_no_segment_until_the_checkpoint_is_complete():
    actions = [
        script.PauseReader(at_ms=6_000, reader="readers-1", for_ms=3_000),
        TAKEN,
        script.Scale(at_ms=7_000, seal=["0@0"]),
    ]
    world = run(readers=group(), script=actions)
    (row,) = rows(world, "checkpoints")
    assert set(row["cut"]) == {0, 1}
    assert min(r["at_ms"] for r in rows(world, "positions", finished=True)) >= 9_000


def test_automatic_checkpoints_come_at_their_period():
    world = run(readers=group(automatic_checkpoint_every_ms=4_200))
    assert [row["checkpoint"] for row in rows(world, "checkpoints")] == [f"automatic {n}" for n in range(1, 5)]
    assert [row["completed_ms"] for row in rows(world, "checkpoints")] == [4_500, 8_500, 13_000, 17_000]


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_a_reset_takes_the_group_back_and_everything_after_the_checkpoint_is_read_again(read_side):
    world = run(stream=FOUR, readers=group(read_side=read_side), script=[TAKEN, BACK])
    (checkpoint,) = rows(world, "checkpoints")
    again = defaultdict(list)
    for row in rows(world, "reads", again=True):
        again[row["segment_id"]].append(row)
    assert {segment: part[0]["from_offset"] for segment, part in again.items()} == checkpoint["cut"]
    first_reads_are_complete(world)
    removed = [r for r in rows(world, "positions") if r["at_ms"] == 12_200]
    assert {r["segment_id"]: r["offset"] for r in removed if not r["finished"]} == checkpoint["cut"]
    assert {r["version"] for r in removed} == {removed[0]["version"]}


def test_a_reset_to_the_last_checkpoint_or_to_one_that_is_missing():
    last = script.ResetToCheckpoint(at_ms=12_200)
    later = script.Checkpoint(at_ms=9_200, name="d")
    world = run(readers=group(), script=[TAKEN, later, last])
    assert rows(world, "incidents", kind="reset")[-1]["detail"] == "back to checkpoint d"
    none = run(readers=group(), script=[last])
    assert rows(none, "incidents")[-1]["detail"] == "no checkpoint is complete"
    assert not rows(none, "reads", again=True)


def test_a_reset_brings_back_successors_that_wait_for_a_predecessor():
    actions = [
        script.PauseReader(at_ms=5_900, reader="readers-1", for_ms=4_000),
        script.Scale(at_ms=6_000, seal=["0@0", "1@0"], into=1),
        script.Checkpoint(at_ms=8_200, name="c"),
        script.ResetToCheckpoint(at_ms=15_000, checkpoint="c"),
    ]
    world = run(readers=group(), script=actions)
    assert set(rows(world, "checkpoints")[0]["cut"]) == {1}
    assert {world.stream().history.segments[s].name for s in segment_owners(world)} == {"2@1"}
    ends = first_reads_are_complete(world)
    assert ends[1] == world.stream(None).store[1].length


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
        {row["at_ms"]: row for row in rows(two_scales(r), "windows", reader="readers-0")} for r in (True, False)
    )
    wider = 0
    for at, row in unknown.items():
        left, right = row["lower"], known[at]["lower"]
        assert left is None or (right is not None and left <= right)
        assert row["upper"] is None or known[at]["upper"] is None or row["upper"] >= known[at]["upper"]
        wider += row["upper"] != known[at]["upper"] and at > 12_100
    assert wider > 0


# The offset in the marks segment


def test_in_the_documents_design_a_checkpoint_carries_the_place_in_the_marks():
    world = run(readers=group(read_side="document", rate_per_s=50), script=[TAKEN])
    (row,) = rows(world, "checkpoints")
    marks = rows(world, "watermarks")
    begins = dict(zip([0, *(mark["revision"] for mark in marks)], marks, strict=False))
    slowest = begins[row["marks_offset"]]
    assert slowest["lower"] == lower_at(world, 6_500)
    assert slowest["seq"] > 0
    (plain,) = rows(run(readers=group(), script=[TAKEN]), "checkpoints")
    assert plain["marks_offset"] is None


def test_after_a_reset_readers_go_on_in_the_marks_where_the_checkpoint_was():
    world = run(readers=group(read_side="document", rate_per_s=50), script=[TAKEN, BACK])
    before = lower_at(world, 6_500)
    after = [lower for at, lower in lowers(world) if at > 12_200]
    assert after[0] is None or after[0] >= before
    assert next(lower for lower in after if lower is not None) >= before


def test_time_windows_off_leave_the_marks_out_of_a_checkpoint():
    (row,) = rows(run(readers=group(read_side="document", time_windows=False), script=[TAKEN]), "checkpoints")
    assert row["marks_offset"] is None


# Stream cuts of a group, and groups that begin elsewhere

CUT = script.TakeStreamCut(at_ms=6_200, name="cut", group="readers")


def published(world, at_ms, name="readers"):
    """The offsets of a group's open segments at a moment."""
    found = {}
    for row in rows(world, "positions", group=name):
        if row["at_ms"] <= at_ms:
            found[row["segment_id"]] = None if row["finished"] else row["offset"]
    return {segment: offset for segment, offset in found.items() if offset is not None}


def only_origin(world, name):
    """Where a group of one stream began."""
    return world.groups[name].shared.value.origin["stream"]


def first_of(world, table, name):
    return next(row for row in rows(world, table, group=name))


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_a_stream_cut_is_what_the_group_has_published_with_its_place_in_the_marks(read_side):
    paused = script.PauseReader(at_ms=3_000, reader="readers-1", for_ms=6_000)
    world = run(stream=FOUR, readers=group(read_side=read_side), script=[CUT, paused])
    (row,) = rows(world, "checkpoints")
    assert (row["checkpoint"], row["requested_ms"], row["completed_ms"]) == ("cut", 6_200, 6_200)
    assert row["cut"] == published(world, 6_200)
    if read_side == "implementation":
        assert row["marks_offset"] is None
        return
    marks = rows(world, "watermarks")
    begins = dict(zip([0, *(mark["revision"] for mark in marks)], marks, strict=False))
    assert begins[row["marks_offset"]]["lower"] == lower_at(world, 6_200) < lower_at(world, 14_000)


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_another_group_begins_at_a_stream_cut_in_the_segments_and_in_the_marks(read_side):
    split = script.Scale(at_ms=4_000, seal=["0@0"])
    one = group(read_side=read_side, rate_per_s=60)
    other = group(name="other", read_side=read_side, starting_checkpoint="cut", starts_ms=9_000)
    world = run(readers=[one, other], script=[CUT, split])
    cut = rows(world, "checkpoints", checkpoint="cut", group="readers")[0]["cut"]
    assert published(world, 9_000, "other") == cut
    begins = {row["segment_id"]: row["from_offset"] for row in reversed(rows(world, "reads", group="other"))}
    assert {segment: begins[segment] for segment in cut} == cut
    assert set(begins) == set(cut) | ({s.id for s in world.stream().history.active.segments})
    offset = rows(world, "checkpoints", checkpoint="cut", group="readers")[0]["marks_offset"]
    assert only_origin(world, "other").marks_offset == offset
    assert (offset is None) is (read_side == "implementation")
    assert (first_of(world, "windows", "other")["lower"] or 0) >= lower_at(world, 6_200)


def test_a_group_can_be_taken_back_to_a_stream_cut():
    back = script.ResetToCheckpoint(at_ms=12_100, checkpoint="cut", group="readers")
    world = run(readers=group(), script=[CUT, back])
    (row,) = rows(world, "checkpoints")
    assert published(world, 12_100) == row["cut"]


@pytest.mark.parametrize("read_side", ["implementation", "document"])
@pytest.mark.parametrize("time", [3_000, 8_000, -5])
def test_a_group_that_starts_at_a_time_begins_at_its_cut_and_reads_no_older_mark(time, read_side):
    split = script.Scale(at_ms=6_000, seal=["0@0"])
    late = group(name="late", readers=1, starting_time=time, starts_ms=12_000, read_side=read_side)
    world = run(readers=[group(), late], script=[split])
    known = [mark for mark in rows(world, "watermarks") if mark["lower"] <= time]
    begins = published(world, 12_000, "late")
    assert begins == (known[-1]["cut"] if known else world.stream(None).head)
    events = world.stream().journal.events(("w1", "w2"))
    behind = [events.event_time[(events.segment_id == s) & (events.offset > at)].min() for s, at in begins.items()]
    assert min(behind) >= (known[-1]["lower"] if known else 0)
    offset = only_origin(world, "late").marks_offset
    revisions = [0, *(mark["revision"] for mark in rows(world, "watermarks"))]
    assert offset == (revisions[len(known) - 1] if known else None)
    assert first_of(world, "windows", "late")["lower"] >= time


def test_a_group_of_several_streams_starts_at_a_time_in_each_of_them():
    streams = [Stream("a"), Stream("b", segments=2)]
    writers = [EventWriter(f"w-{stream.name}", rate_per_s=50, stream=stream.name) for stream in streams]
    both = group(streams=["a", "b"], starting_time=5_000, starts_ms=9_000)
    world = run(stream=Stream(), streams=streams, writers=writers, readers=both)
    for name in ("a", "b"):
        marks = [mark for mark in world.streams[name].journal.rows["watermarks"] if mark["lower"] <= 5_000]
        begun = [row for row in world.streams[name].journal.rows["positions"] if row["version"] == 0]
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


@st.composite
def lives(draw):
    names = st.sampled_from(["readers-0", "readers-1", "readers-2"])
    at = st.integers(600, 9_000)
    actions = draw(
        st.lists(
            st.one_of(
                drawn(
                    script.CrashReader,
                    at_ms=at,
                    reader=names,
                    offline_after_ms=[0, 300, 2_000],
                    restart_after_ms=[100, 1_500],
                ),
                drawn(script.PauseReader, at_ms=at, reader=names, for_ms=st.integers(1, 3_000)),
                drawn(script.ReleaseSegment, at_ms=at, reader=names, segment=["0@0", "1@0"], keep_free_ms=[0, 900]),
                drawn(script.ResetToCheckpoint, at_ms=at, ranges=st.booleans()),
                st.just(script.Scale(at_ms=4_000, seal=["0@0"], into=2)),
                st.just(script.AddReader(at_ms=5_000, reader="late")),
            ),
            max_size=6,
            unique_by=lambda action: (action.kind, action.at_ms),
        )
    )
    kinds = [action.kind for action in actions]
    return {
        "script": [
            a for i, a in enumerate(actions) if a.kind not in ("scale", "add_reader") or kinds.index(a.kind) == i
        ],
        "readers": ReaderGroup(
            readers=3,
            publish_every_ms=draw(st.sampled_from([200, 500])),
            rate_per_s=draw(st.sampled_from([None, 80.0])),
            read_side=draw(st.sampled_from(["implementation", "document"])),
            publish_timer=draw(st.sampled_from(["fixed", "pravega"])),
            state_latency_ms=draw(st.sampled_from([0, 7])),
            rebalance=draw(st.sampled_from(["segments", "bytes", "time"])),
            own_position=draw(st.booleans()),
            tracker_ms=draw(st.sampled_from([0, 400])),
            automatic_checkpoint_every_ms=draw(st.sampled_from([None, 1_300])),
        ),
        "seed": draw(st.integers(0, 2**20)),
        "duration_ms": 14_000,
    }


@settings(max_examples=60)
@given(lives())
def test_whatever_befalls_readers_nothing_is_skipped_and_no_bound_is_broken(life):
    world = run(**life)
    first_reads_are_complete(world)
    replayed: dict[int, int] = {}
    for row in rows(world, "positions"):
        if row["finished"]:
            del replayed[row["segment_id"]]
        else:
            replayed[row["segment_id"]] = row["offset"]
    assert replayed == only(world).shared.value.streams["stream"].offsets
    if life["readers"].read_side == "implementation":
        assert late_first_reads(world) == 0
