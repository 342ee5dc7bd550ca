"""Reader groups: sharing the work, crashes, pauses, timers, both designs of the time window, and their messages."""

from itertools import pairwise

import pytest

from tests.streams.sim.worlds import (
    FOUR,
    first_reads_are_complete,
    group,
    late_first_reads,
    lower_at,
    lowers,
    only,
    rows,
    run,
    scenario,
    segment_owners,
)
from wmlab.core.errors import ScenarioError
from wmlab.core.simulation import Uniform
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

# R1


@pytest.mark.parametrize("read_side", ["implementation", "document"])
@pytest.mark.parametrize(
    "action",
    [
        script.PauseReader(at_ms=8_000, reader="readers-1", for_ms=6_000),
        script.ReleaseSegment(at_ms=8_000, reader="readers-1", segment="1@0", keep_free_ms=6_000),
        script.Partition(at_ms=8_000, a="readers-1", b="segment-store", for_ms=6_000),
    ],
    ids=["paused", "segment nobody owns", "cut off"],
)
def test_r1_a_segment_that_nobody_reads_holds_the_lower_bound_of_the_whole_group(action, read_side):
    world = run(readers=group(read_side=read_side), script=[action])
    held = {lower for at, lower in lowers(world) if 9_000 <= at < 14_000}
    assert len(held) == 1
    assert lower_at(world, 17_000) > max(held) + 5_000
    assert lower_at(run(readers=group(read_side=read_side)), 13_500) > max(held) + 4_000
    assert segment_owners(world)[1] == "readers-1"


def test_a_release_of_what_is_not_owned_changes_nothing():
    release = script.ReleaseSegment(at_ms=8_000, reader="readers-0", segment="1@0")
    world = run(script=[release])
    assert [row["detail"] for row in rows(world, "incidents")] == ["readers-0 does not own 1@0"]
    assert rows(world, "positions") == rows(run(), "positions")


# R2


def test_r2_a_crashed_readers_segment_is_read_again_from_the_last_checkpoint():
    actions = [script.Checkpoint(at_ms=5_200, name="c"), script.CrashReader(at_ms=9_700, reader="readers-1")]
    world = run(readers=group(), script=actions)
    (checkpoint,) = rows(world, "checkpoints")
    again = rows(world, "reads", again=True)
    assert {row["reader"] for row in again} == {"readers-0"}
    assert {row["segment_id"] for row in again} == {1}
    assert again[0]["from_offset"] == checkpoint["cut"][1]
    before = [row for row in rows(world, "reads", segment_id=1) if row["at_ms"] <= 9_700]
    assert again[-1]["to_offset"] == before[-1]["to_offset"]
    first_reads_are_complete(world)


def test_r2_the_other_readers_windows_stay_and_only_repeated_events_are_older():
    world = run(readers=group(), script=[script.CrashReader(at_ms=9_700, reader="readers-1")])
    seen = [lower for _, lower in lowers(world) if lower is not None]
    assert seen == sorted(seen)
    assert late_first_reads(world) == 0
    events = world.stream().journal.events(("w1", "w2"))
    repeated = rows(world, "reads", again=True)
    oldest = min(int(events.event_time[events.segment_id == row["segment_id"]].min()) for row in repeated)
    assert oldest < repeated[0]["lower"]


def test_r2_a_crash_that_nobody_reports_holds_the_group():
    crash = script.CrashReader(at_ms=8_000, reader="readers-1", offline_after_ms=None)
    world = run(readers=group(), script=[crash])
    assert segment_owners(world)[1] == "readers-1"
    assert lower_at(world, 19_500) == lower_at(world, 9_500)


def test_a_crashed_reader_returns_under_its_name_and_gets_its_share():
    crash = script.CrashReader(at_ms=8_000, reader="readers-1", offline_after_ms=None, restart_after_ms=4_000)
    world = run(stream=FOUR, readers=group(), script=[crash])
    assert sorted(segment_owners(world).values()) == ["readers-0", "readers-0", "readers-1", "readers-1"]
    assert [row["operation"] for row in rows(world, "group_updates") if row["operation"] in ("offline", "join")] == [
        "offline",
        "join",
    ]
    first_reads_are_complete(world)


def test_a_reader_that_leaves_repeats_nothing():
    world = run(stream=FOUR, readers=group(), script=[script.RemoveReader(at_ms=8_000, reader="readers-0")])
    assert not rows(world, "reads", again=True)
    assert set(segment_owners(world).values()) == {"readers-1"}
    assert {row["reader"] for row in rows(world, "reads") if row["at_ms"] > 8_000} == {"readers-1"}
    first_reads_are_complete(world)


def test_what_concerns_a_dead_reader_is_written_down_and_does_nothing():
    actions = [
        script.CrashReader(at_ms=5_000, reader="readers-1"),
        script.PauseReader(at_ms=6_000, reader="readers-1"),
        script.RemoveReader(at_ms=7_000, reader="readers-1"),
    ]
    details = [row["detail"] for row in rows(run(script=actions), "incidents")]
    assert details == ["readers-1 crashes", "readers-1 is not running", "readers-1 is not running"]


# R3


def test_r3_a_new_reader_object_starts_from_the_oldest_mark():
    crash = script.CrashReader(at_ms=10_200, reader="readers-1", restart_after_ms=300)
    world = run(stream=FOUR, readers=group(mark_read_ms=150.0), script=[crash])
    returned = [lower for at, lower in lowers(world, "readers-1") if at > 10_500]
    assert returned[0] is None
    assert returned[-1] == lower_at(world, 20_000)
    other = [lower for _, lower in lowers(world) if lower is not None]
    assert other == sorted(other)


def test_r3_its_window_may_be_earlier_than_the_one_before():
    release = script.ReleaseSegment(at_ms=9_200, reader="readers-0", segment="0@0", keep_free_ms=6_000)
    actions = [
        script.Checkpoint(at_ms=3_200, name="early"),
        script.CrashReader(at_ms=9_000, reader="readers-1", offline_after_ms=100, restart_after_ms=700),
        release,
    ]
    world = run(readers=group(rate_per_s=80), script=actions)
    old = lower_at(world, 8_990, "readers-1")
    new = [lower for at, lower in lowers(world, "readers-1") if 9_700 <= at < 10_800]
    assert new[0] < old
    assert lower_at(world, 10_500) >= lower_at(world, 8_990)


# R4


def test_r4_with_many_readers_windows_are_older_by_the_publish_timer_and_the_refresh():
    readers, refresh, period = 4, 3_000, 500
    fresh = run(stream=FOUR, readers=ReaderGroup(readers=readers, publish_every_ms=100))
    late = run(stream=FOUR, readers=ReaderGroup(readers=readers, publish_timer="pravega"))
    worst = (readers + 1) * 1_000 + 2 * refresh
    for at in range(14_000, 20_000, 500):
        assert lower_at(late, at) >= lower_at(fresh, at - worst - period)
    assert max(lower_at(fresh, at) - lower_at(late, at) for at in range(14_000, 20_000, 500)) > 3_000
    assert late_first_reads(late) == 0
    gaps = [b["at_ms"] - a["at_ms"] for a, b in pairwise(rows(late, "group_updates", reader="readers-2"))]
    assert max(gaps) >= (readers + 1) * 1_000


def test_r4_the_upper_bound_may_be_too_small_for_the_current_event():
    late = run(readers=ReaderGroup(readers=8, publish_timer="pravega", publish_every_ms=1_000))
    events = late.stream().journal.events(("w1", "w2"))
    reads = [row for row in rows(late, "reads") if row["at_ms"] > 10_000]
    window = {row["at_ms"]: row for row in rows(late, "windows", reader=reads[0]["reader"])}
    exceeded = 0
    for row in reads:
        known = [w["upper"] for at, w in window.items() if at <= row["at_ms"] and w["upper"] is not None]
        newest = events.event_time[(events.segment_id == row["segment_id"]) & (events.offset <= row["to_offset"])].max()
        exceeded += bool(known) and int(newest) > known[-1]
    assert exceeded > 0


def test_issue_4308_the_readers_own_position_makes_windows_younger():
    slow = {"readers": 1, "publish_timer": "pravega", "publish_every_ms": 4_000, "group_refresh_ms": 1_000}
    shared = run(readers=ReaderGroup(**slow))
    own = run(readers=ReaderGroup(own_position=True, **slow))
    gain = [lower_at(own, at) - lower_at(shared, at) for at in range(14_000, 20_000, 250)]
    assert min(gain) >= 0
    assert max(gain) > 3_000
    assert late_first_reads(own) == 0


# R5, R6, R7


def test_r5_before_the_first_mark_lower_is_unknown_and_ahead_of_all_upper_is():
    world = run(readers=group(starts_ms=10_000, rate_per_s=100))
    first = rows(world, "windows")[0]
    assert first["lower"] is None
    assert first["upper"] == rows(world, "watermarks")[0]["upper"]
    writers = [EventWriter("w", rate_per_s=100, noting=noting.WallClock())]
    tail = run(writers=writers, readers=group(), script=[script.SilenceWriter(at_ms=8_000, writer="w")])
    last = rows(tail, "windows")[-1]
    assert (last["lower"], last["upper"]) == (rows(tail, "watermarks")[-1]["lower"], None)


def test_r6_exactly_at_a_cut_is_passed():
    mark = rows(run(), "watermarks")[5]
    stop = script.PauseReader(at_ms=6_001, reader="readers-0")
    world = run(readers=group(starting_cut=mark["cut"], starts_ms=6_000, readers=1), script=[stop])
    assert not rows(world, "reads")
    reader = only(world).readers["readers-0"]
    reader.windows.look(only(world).shared.value, reader.places, due=True)
    assert reader.windows.shown["stream"].lower == mark["lower"]


def test_r7_a_mixed_position_keeps_the_mark_in_flight_and_fetches_the_next():
    pause = script.PauseReader(at_ms=6_000, reader="readers-1")
    world = run(readers=group(), script=[pause])
    stuck = rows(world, "windows", reader="readers-0")[-1]
    seq = {mark["lower"]: mark["seq"] for mark in rows(world, "watermarks")}
    ahead = [mark["seq"] for mark in rows(world, "watermarks") if mark["upper"] == stuck["upper"]]
    assert min(ahead) > seq[stuck["lower"]] + 10


# R8


def test_r8_the_keys_of_a_finished_predecessor_are_not_compared_until_the_successor_opens():
    actions = [
        script.PauseReader(at_ms=5_900, reader="readers-1", for_ms=6_000),
        script.Scale(at_ms=6_000, seal=["0@0", "1@0"], into=1),
    ]
    world = run(readers=group(), script=actions)
    opened = next(row["at_ms"] for row in rows(world, "positions", segment_id=parse_segment("2@1")))
    finished = next(row["at_ms"] for row in rows(world, "positions", segment_id=0, finished=True))
    assert finished < opened
    waiting = [lower for at, lower in lowers(world) if finished <= at < opened]
    assert len(set(waiting)) == 1
    assert late_first_reads(world) == 0


# R9, S10


def test_r9_a_bounded_group_at_its_end_passes_every_mark_even_beyond_the_ending_cut():
    marks = rows(run(), "watermarks")
    world = run(readers=group(ending_cut=marks[10]["cut"]))
    assert not only(world).shared.value.streams["stream"].offsets
    ends = {row["segment_id"]: row["offset"] for row in rows(world, "positions", finished=True)}
    assert ends == marks[10]["cut"]
    assert {row["segment_id"]: row["to_offset"] for row in rows(world, "reads")} == marks[10]["cut"]
    last = rows(world, "windows")[-1]
    known = [mark for mark in rows(world, "watermarks") if mark["emitted_ms"] <= last["at_ms"]]
    assert (last["lower"], last["upper"]) == (known[-1]["lower"], None)
    assert last["lower"] > marks[10]["lower"]


def test_a_group_between_two_cuts_reads_what_lies_between():
    split = script.Scale(at_ms=6_000, seal=["0@0"])
    recording = scenario(script=[split]).record(progress=False)
    start, end = recording.stream_cut_at(3_000), recording.stream_cut_at(12_000)
    world = run(readers=group(starting_cut=start, ending_cut=end, starts_ms=5_000), script=[split])
    read = {}
    for row in rows(world, "reads"):
        read.setdefault(row["segment_id"], row["from_offset"])
        read[row["segment_id"], "to"] = row["to_offset"]
    assert {segment: read[segment] for segment in start if segment in read} == dict(start)
    assert {segment: read[segment, "to"] for segment in end} == dict(end)
    assert read[0, "to"] == world.stream(None).store[0].length


def test_a_start_that_is_no_stream_cut_is_refused():
    for cut, starts_ms in (({"0@0": 5}, 9_000), ({"0@0": 5, "1@0": 5}, 0), ({"0@0": 0, "9@9": 0}, 9_000)):
        with pytest.raises(ScenarioError, match="cannot start"):
            run(readers=group(starting_cut=cut, starts_ms=starts_ms))


# R10


def two_streams(**fields):
    """The usual writers in `stream`, and the same events in `quiet`, where nobody notes time."""
    loud = [EventWriter("w1", rate_per_s=100, stream="stream")]
    quiet = [EventWriter("q", rate_per_s=100, noting=noting.Never(), stream="quiet")]
    return run(
        streams=[FOUR, Stream("quiet", segments=2)],
        stream=Stream(),
        writers=loud + quiet,
        readers=group(streams=["stream", "quiet"], **fields),
    )


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_r10_each_stream_has_its_own_window(read_side):
    world = two_streams(read_side=read_side)
    assert {row["lower"] for row in world.stream("quiet").journal.rows["windows"]} == {None}
    assert lower_at(world, 20_000) > 15_000
    reader = only(world).readers["readers-0"]
    assert reader.windows.shown["quiet"].lower is None
    assert reader.windows.shown["stream"].lower == lower_at(world, 20_000)


def test_two_streams_share_one_checkpoint_and_the_work():
    world = two_streams(automatic_checkpoint_every_ms=4_200)
    assert sorted(len(only(world).shared.value.owned(f"readers-{i}")) for i in range(2)) == [3, 3]
    found = [world.stream(name).journal.rows["checkpoints"] for name in ("stream", "quiet")]
    assert [[row["completed_ms"] for row in part] for part in found] == [[4_500, 8_500, 13_000, 17_000]] * 2
    assert [set(part[0]["cut"]) for part in found] == [{0, 1, 2, 3}, {0, 1}]


def test_a_stream_that_is_deleted_leaves_the_others_to_be_read():
    world = run(
        streams=[FOUR, Stream("quiet", segments=2)],
        stream=Stream(),
        writers=[EventWriter("w1", rate_per_s=100, stream="stream"), EventWriter("q", rate_per_s=9, stream="quiet")],
        readers=group(streams=["stream", "quiet"]),
        script=[script.DeleteStream(at_ms=8_000, stream="quiet")],
    )
    assert lower_at(world, 20_000) > 15_000


# R12, R13


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_r12_without_time_windows_both_bounds_are_unknown(read_side):
    world = run(readers=group(time_windows=False, read_side=read_side))
    assert {(row["lower"], row["upper"]) for row in rows(world, "windows")} == {(None, None)}
    assert rows(world, "positions") == rows(run(readers=group()), "positions")


def test_r13_a_busy_tracker_skips_positions_and_ends_with_the_last_one():
    stop = [script.CrashWriter(at_ms=13_000, writer=name) for name in ("w1", "w2")]
    prompt = run(readers=group(publish_every_ms=100), script=stop, duration_ms=26_000)
    busy = run(readers=group(publish_every_ms=100, tracker_ms=1_700), script=stop, duration_ms=26_000)
    assert len({lower for _, lower in lowers(busy)}) < len({lower for _, lower in lowers(prompt)})
    assert lower_at(busy, 26_000) == lower_at(prompt, 26_000)
    for at in range(6_000, 20_000, 100):
        assert lower_at(prompt, at - 2 * 1_700 - 100) <= lower_at(busy, at) <= lower_at(prompt, at)


# The two designs


def test_the_minimum_of_the_map_is_what_offsets_give_while_nobody_comes_or_goes():
    split = script.Scale(at_ms=6_000, seal=["0@0"])
    shared = run(readers=group(), script=[split])
    mapped = run(readers=group(read_side="document"), script=[split])
    for at in range(5_000, 20_000, 500):
        assert lower_at(mapped, at) <= lower_at(shared, at)
    assert lower_at(mapped, 20_000) >= lower_at(shared, 19_000)
    assert late_first_reads(mapped) == 0


def test_in_the_map_the_upper_bound_is_that_of_the_reader_that_is_farthest():
    """Readers that fall behind have marks ahead of them; as a rule that gives what the group's offsets give."""
    mapped, shared = (
        {row["at_ms"]: row for row in rows(run(readers=group(read_side=side, rate_per_s=30)), "windows")}
        for side in ("document", "implementation")
    )
    pairs = [(row["lower"], row["upper"], shared[at]["upper"]) for at, row in mapped.items() if at > 8_000]
    assert len(pairs) > 20
    assert all(lower <= upper and upper >= offsets for lower, upper, offsets in pairs)
    assert sum(upper == offsets for _, upper, offsets in pairs) > len(pairs) / 2


def test_a_reader_without_segments_is_not_in_the_map():
    world = run(readers=group(readers=3, read_side="document"))
    assert set(only(world).shared.value.streams["stream"].times) == {"readers-0", "readers-1"}
    assert lower_at(world, 20_000, "readers-2") is not None


def test_in_the_map_a_crash_lets_the_bound_jump_and_fall_back():
    """A crashed reader takes its time with it, and the others count its segments only when they next publish."""
    pause = script.PauseReader(at_ms=6_000, reader="readers-1")
    crash = script.CrashReader(at_ms=10_000, reader="readers-1")
    timers = {"readers": 3, "publish_timer": "pravega", "group_refresh_ms": 1_000, "rate_per_s": 90}
    mapped = run(readers=ReaderGroup(read_side="document", **timers), script=[pause, crash])
    shared = run(readers=ReaderGroup(**timers), script=[pause, crash])
    held, jumped, *later = [lower for at, lower in lowers(mapped) if 9_000 <= at <= 13_000]
    assert jumped > held + 3_000
    assert later[0] is None or later[0] < held
    seen = [lower for _, lower in lowers(shared) if lower is not None]
    assert seen == sorted(seen)


# The shared state


def test_with_a_distance_to_the_shared_state_somebody_loses_and_tries_again():
    world = run(stream=FOUR, readers=ReaderGroup(readers=4, publish_every_ms=500, state_latency_ms=20))
    updates = rows(world, "group_updates")
    assert {row["outcome"] for row in updates} == {"applied", "conflict"}
    revisions = [row["revision"] for row in updates if row["outcome"] == "applied"]
    assert revisions == list(range(len(revisions)))
    assert sorted(segment_owners(world).values()) == [f"readers-{i}" for i in range(4)]
    first_reads_are_complete(world)
    assert late_first_reads(world) == 0


def test_without_distance_nobody_loses():
    assert {row["outcome"] for row in rows(run(stream=FOUR), "group_updates")} == {"applied"}


# Rebalancing


def test_a_reader_that_joins_gets_its_share():
    world = run(stream=FOUR, readers=group(readers=1), script=[script.AddReader(at_ms=8_000, reader="late")])
    assert sorted(segment_owners(world).values()) == ["late", "late", "readers-0", "readers-0"]
    assert not rows(world, "reads", again=True)


@pytest.mark.parametrize("by", ["bytes", "time"])
def test_a_reader_that_falls_behind_gives_segments_to_one_that_does_not(by):
    """After a pause readers-0 is behind, and readers-1 has room."""
    slack = {"rebalance_slack_bytes": 3_000, "rebalance_slack_ms": 500}
    part = group(rate_per_s=60, rebalance=by, **slack)
    pause = script.PauseReader(at_ms=5_000, reader="readers-0", for_ms=7_000)
    writers = [EventWriter("w", rate_per_s=100)]
    world = run(stream=FOUR, readers=part, writers=writers, script=[pause], controllers=Controllers(period_ms=200))
    moved = rows(world, "group_updates", operation="release", outcome="applied")
    assert moved
    assert moved[0]["reader"] == "readers-0"
    assert moved[0]["at_ms"] >= 12_000
    still = run(stream=FOUR, readers=group(rate_per_s=60), writers=writers, script=[pause])
    assert not rows(still, "group_updates", operation="release")
    assert lower_at(world, 19_500) > lower_at(still, 19_500)
    first_reads_are_complete(world)


def test_what_nobody_takes_is_for_everybody():
    part = group(rebalance="bytes", readers=2)
    crash = script.CrashReader(at_ms=4_000, reader="readers-1", offline_after_ms=None)
    release = script.ReleaseSegment(at_ms=6_000, reader="readers-0", segment="0@0")
    world = run(stream=FOUR, readers=part, script=[crash, release])
    assert segment_owners(world)[0] == "readers-0"


def test_updates_are_messages_to_the_segment_store_and_back():
    world = run(stream=FOUR, readers=group(readers=3), network=Network(keep_messages=True), duration_ms=6_000)
    sent = [row for row in world.shared.rows["messages"] if row["sender"] == "readers-1"]
    assert {row["receiver"] for row in sent} == {"segment-store"}
    assert {"fetch state", "acquire", "publish"} <= {row["kind"] for row in sent}
    assert all(row["received_ms"] == row["sent_ms"] for row in sent)
    answers = {row["kind"] for row in world.shared.rows["messages"] if row["receiver"] == "readers-1"}
    assert {"state", "publish: applied"} <= answers


def test_they_take_what_the_network_takes():
    network = Network(delay=Uniform(1, 60), keep_messages=True)
    world = run(stream=FOUR, readers=group(readers=3, state_latency_ms=None), network=network)
    took = {r["received_ms"] - r["sent_ms"] for r in world.shared.rows["messages"] if r["kind"] == "publish"}
    assert len(took) > 20
    assert {row["outcome"] for row in rows(world, "group_updates")} == {"applied", "conflict"}
    first_reads_are_complete(world)
    assert late_first_reads(world) == 0


def test_an_update_under_way_when_a_partition_begins_arrives_when_it_ends():
    cut = script.Partition(at_ms=6_050, a="readers-1", b="segment-store", for_ms=4_000)
    world = run(stream=FOUR, readers=group(readers=3, state_latency_ms=100), script=[cut])
    mine = [row["at_ms"] for row in rows(world, "group_updates", reader="readers-1")]
    # The state asked for at 6,000 ms is sent back at 6,100 ms, waits, and arrives at 10,150 ms.
    assert min(at for at in mine if at > 6_050) == 10_250
    first_reads_are_complete(world)
    assert late_first_reads(world) == 0
