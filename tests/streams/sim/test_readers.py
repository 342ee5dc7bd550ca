"""Reader groups: sharing the work, crashes, pauses, timers, both designs of the time window, and their messages."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.streams.sim.worlds import FOUR, clocked, group, run, scenario
from wmlab.core.simulation import Uniform
from wmlab.core.values import Problems
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules, enters_on_passing

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
    world = run(readers=group(), rules=Rules(read_side=read_side), script=[action])
    held = {lower for at, lower in world.lowers() if 9_000 <= at < 14_000}
    assert len(held) == 1
    assert world.lower_at(17_000) > max(held) + 5_000
    assert run(readers=group(), rules=Rules(read_side=read_side)).lower_at(13_500) > max(held) + 4_000
    assert world.segment_owners()[1] == "readers-1"


def test_a_release_of_what_is_not_owned_changes_nothing():
    release = script.ReleaseSegment(at_ms=8_000, reader="readers-0", segment="1@0")
    world = run(script=[release])
    assert world.column("incidents", "detail") == ["readers-0 does not own 1@0"]
    assert world.rows("positions") == run().rows("positions")


# R2


def test_r2_a_crashed_readers_segment_is_read_again_from_the_last_checkpoint():
    actions = [script.Checkpoint(at_ms=5_200, name="c"), script.CrashReader(at_ms=9_700, reader="readers-1")]
    world = run(readers=group(), script=actions)
    (checkpoint,) = world.rows("checkpoints")
    again = world.rows("reads", again=True)
    assert {(row["reader"], row["segment_id"]) for row in again} == {("readers-0", 1)}
    assert again[0]["from_offset"] == checkpoint["cut"][1]
    assert again[-1]["to_offset"] == world.column("reads", "to_offset", 0, 9_701, segment_id=1)[-1]
    world.first_reads_are_complete()


def test_r2_the_other_readers_windows_stay_and_only_repeated_events_are_older():
    world = run(readers=group(), script=[script.CrashReader(at_ms=9_700, reader="readers-1")])
    world.assert_lower_never_falls()
    assert world.late_first_reads() == 0
    events = world.events
    repeated = world.rows("reads", again=True)
    oldest = min(int(events.event_time[events.segment_id == row["segment_id"]].min()) for row in repeated)
    assert oldest < repeated[0]["lower"]


def test_r2_a_crash_that_nobody_reports_holds_the_group():
    crash = script.CrashReader(at_ms=8_000, reader="readers-1", offline_after_ms=None)
    world = run(readers=group(), script=[crash])
    assert world.segment_owners()[1] == "readers-1"
    assert world.lower_at(19_500) == world.lower_at(9_500)


def test_a_crashed_reader_returns_under_its_name_and_gets_its_share():
    crash = script.CrashReader(at_ms=8_000, reader="readers-1", offline_after_ms=None, restart_after_ms=4_000)
    world = run(stream=FOUR, readers=group(), script=[crash])
    assert sorted(world.segment_owners().values()) == ["readers-0", "readers-0", "readers-1", "readers-1"]
    operations = world.column("group_updates", "operation")
    assert [name for name in operations if name in ("offline", "join")] == ["offline", "join"]
    world.first_reads_are_complete()


def test_a_reader_that_leaves_repeats_nothing():
    world = run(stream=FOUR, readers=group(), script=[script.RemoveReader(at_ms=8_000, reader="readers-0")])
    assert not world.rows("reads", again=True)
    assert set(world.segment_owners().values()) == {"readers-1"}
    assert set(world.column("reads", "reader", 8_000)) == {"readers-1"}
    world.first_reads_are_complete()


def test_what_concerns_a_dead_reader_is_written_down_and_does_nothing():
    actions = [
        script.CrashReader(at_ms=5_000, reader="readers-1"),
        script.PauseReader(at_ms=6_000, reader="readers-1"),
        script.RemoveReader(at_ms=7_000, reader="readers-1"),
    ]
    details = run(script=actions).column("incidents", "detail")
    assert details == ["readers-1 crashes", "readers-1 is not running", "readers-1 is not running"]


# R3


def test_r3_a_new_reader_object_starts_from_the_oldest_mark():
    crash = script.CrashReader(at_ms=10_200, reader="readers-1", restart_after_ms=300)
    world = run(stream=FOUR, readers=group(tracker_ms=300), script=[crash])
    returned = [lower for at, lower in world.lowers("readers-1") if at > 10_500]
    assert returned[0] is None
    assert returned[-1] == world.lower_at(20_000)
    world.assert_lower_never_falls()


def test_r3_its_window_may_be_earlier_than_the_one_before():
    actions = [
        script.Checkpoint(at_ms=3_200, name="early"),
        script.CrashReader(at_ms=9_000, reader="readers-1", offline_after_ms=100, restart_after_ms=700),
        script.ReleaseSegment(at_ms=9_200, reader="readers-0", segment="0@0", keep_free_ms=6_000),
    ]
    world = run(readers=group(rate_per_s=80), script=actions)
    old = world.lower_at(8_990, "readers-1")
    new = [lower for at, lower in world.lowers("readers-1") if 9_700 <= at < 10_800]
    assert new[0] < old
    assert world.lower_at(10_500) >= world.lower_at(8_990)


# R4


def test_r4_with_many_readers_windows_are_older_by_the_publish_timer_and_the_refresh():
    readers, refresh, period = 4, 3_000, 500
    fresh = run(stream=FOUR, readers=ReaderGroup(readers=readers, publish_every_ms=100))
    late = run(stream=FOUR, readers=ReaderGroup(readers=readers), rules=Rules(publish_timer="pravega"))
    worst = (readers + 1) * 1_000 + 2 * refresh
    for at in range(14_000, 20_000, 500):
        assert late.lower_at(at) >= fresh.lower_at(at - worst - period)
    assert max(fresh.lower_at(at) - late.lower_at(at) for at in range(14_000, 20_000, 500)) > 3_000
    assert late.late_first_reads() == 0
    updated = late.column("group_updates", "at_ms", reader="readers-2")
    assert max(later - earlier for earlier, later in pairwise(updated)) >= (readers + 1) * 1_000


def test_r4_the_upper_bound_may_be_too_small_for_the_current_event():
    late = run(readers=ReaderGroup(readers=8, publish_every_ms=1_000), rules=Rules(publish_timer="pravega"))
    events, exceeded = late.events, 0
    reads = late.rows("reads", 10_000)
    windows = late.rows("windows", reader=reads[0]["reader"])
    for row in reads:
        known = [seen["upper"] for seen in windows if seen["at_ms"] <= row["at_ms"] and seen["upper"] is not None]
        newest = events.event_time[(events.segment_id == row["segment_id"]) & (events.offset <= row["to_offset"])].max()
        exceeded += bool(known) and int(newest) > known[-1]
    assert exceeded > 0


# R5, R6, R7


def test_r5_before_the_first_mark_lower_is_unknown_and_ahead_of_all_upper_is():
    world = run(readers=group(starts_ms=10_000, rate_per_s=100))
    first = world.rows("windows")[0]
    assert first["lower"] is None
    assert first["upper"] == world.rows("watermarks")[0]["upper"]
    tail = run(writers=[clocked()], readers=group(), script=[script.SilenceWriter(at_ms=8_000, writer="w")])
    last = tail.rows("windows")[-1]
    assert (last["lower"], last["upper"]) == (tail.bounds()[-1][0], None)


@pytest.mark.parametrize("rate_per_s", [30, None])
def test_by_the_design_a_window_has_the_minimum_of_the_map_with_an_upper_bound_or_without(rate_per_s):
    """PDP-33, Client Changes. Ahead of a reader that keeps up there is no watermark, so it has no upper bound."""
    world = run(readers=group(rate_per_s=rate_per_s), rules="design")
    for row in world.rows("group_updates", outcome="applied"):
        times = row["lowers"].values()
        assert row["lower"] == (min(times) if times and None not in times else None)
    lowers, uppers = world.column("windows", "lower"), world.column("windows", "upper")
    known = [lower is not None for lower in lowers]
    assert known == sorted(known)
    assert sum(known) > 60
    assert (uppers.count(None) > 60) == (rate_per_s != 30)
    assert any(upper is not None for upper in uppers) == (rate_per_s == 30)


def test_r6_exactly_at_a_cut_is_passed():
    mark = run().rows("watermarks")[4]
    stop = script.PauseReader(at_ms=6_001, reader="readers-0")
    world = run(readers=group(starting_time=mark["lower"], starts_ms=6_000, readers=1), script=[stop])
    assert not world.rows("reads")
    reader = world.group.readers["readers-0"]
    reader.windows.look(world.group.state, due=True)
    assert reader.windows.last_seen["stream"].lower == mark["lower"]


def test_r7_a_mixed_position_keeps_the_mark_in_flight_and_fetches_the_next():
    world = run(readers=group(), script=[script.PauseReader(at_ms=6_000, reader="readers-1")])
    stuck = world.rows("windows", reader="readers-0")[-1]
    passed, ahead = (world.column("watermarks", "seq", **{bound: stuck[bound]}) for bound in ("lower", "upper"))
    assert min(ahead) > passed[0] + 10


# R8


def test_r8_a_finished_predecessor_counts_at_its_end_until_the_successor_opens():
    actions = [
        script.PauseReader(at_ms=5_900, reader="readers-1", for_ms=6_000),
        script.Scale(at_ms=6_000, seal=["0@0", "1@0"], into=1),
    ]
    world = run(readers=group(), script=actions)
    opened = world.column("positions", "at_ms", segment_id=parse_segment("2@1"))[0]
    (waits,) = world.rows("positions", segment_id=0, waits=True)
    (gone,) = world.rows("positions", segment_id=0, finished=True)
    assert waits["at_ms"] < gone["at_ms"] == opened
    assert waits["offset"] == gone["offset"] == world.stream().store[0].length
    assert (waits["reader"], gone["reader"]) == ("readers-0", None)
    assert len({lower for at, lower in world.lowers() if waits["at_ms"] <= at < opened}) == 1
    assert world.late_first_reads() == 0


# R10


def two_streams(script=(), **fields):
    """The usual writers in `stream`, and the same events in `quiet`, where nobody notes time."""
    loud = EventWriter("w1", rate_per_s=100, stream="stream")
    quiet = EventWriter("q", rate_per_s=100, noting=noting.Never(), stream="quiet")
    both = [FOUR, Stream("quiet", segments=2)]
    readers = group(streams=["stream", "quiet"])
    return run(streams=both, stream=Stream(), writers=[loud, quiet], readers=readers, script=script, **fields)


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_r10_each_stream_has_its_own_window(read_side):
    world = two_streams(rules=Rules(read_side=read_side))
    assert set(world.column("windows", "lower", of="quiet")) == {None}
    assert world.lower_at(20_000) > 15_000
    reader = world.group.readers["readers-0"]
    assert reader.windows.last_seen["quiet"].lower is None
    assert reader.windows.last_seen["stream"].lower == world.lower_at(20_000)


def test_two_streams_share_one_checkpoint_and_the_work():
    world = two_streams(script=[script.Checkpoint(at_ms=at_ms, name=f"c{at_ms}") for at_ms in (4_200, 8_400)])
    assert sorted(len(world.group.state.owned(f"readers-{i}")) for i in range(2)) == [3, 3]
    for name, segments in (("stream", {0, 1, 2, 3}), ("quiet", {0, 1})):
        assert world.column("checkpoints", "completed_ms", of=name) == [4_500, 8_500]
        assert set(world.rows("checkpoints", of=name)[0]["cut"]) == segments


def test_a_stream_that_is_deleted_leaves_the_others_to_be_read():
    assert two_streams([script.DeleteStream(at_ms=8_000, stream="quiet")]).lower_at(20_000) > 15_000


# R12, R13


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_r12_without_time_windows_both_bounds_are_unknown(read_side):
    world = run(readers=group(time_windows=False), rules=Rules(read_side=read_side))
    assert {(row["lower"], row["upper"]) for row in world.rows("windows")} == {(None, None)}
    assert world.rows("positions") == run(readers=group()).rows("positions")


def test_r13_a_busy_tracker_skips_positions_and_ends_with_the_last_one():
    stop = [script.CrashWriter(at_ms=13_000, writer=name) for name in ("w1", "w2")]
    prompt, busy = (
        run(readers=group(publish_every_ms=100, tracker_ms=takes_ms), script=stop, duration_ms=26_000)
        for takes_ms in (0, 1_700)
    )
    assert len({lower for _, lower in busy.lowers()}) < len({lower for _, lower in prompt.lowers()})
    assert busy.lower_at(26_000) == prompt.lower_at(26_000)
    for at in range(6_000, 20_000, 100):
        assert prompt.lower_at(at - 2 * 1_700 - 100) <= busy.lower_at(at) <= prompt.lower_at(at)


# The two designs


def test_the_minimum_of_the_map_is_what_offsets_give_while_nobody_comes_or_goes():
    split = script.Scale(at_ms=6_000, seal=["0@0"])
    shared, mapped = (
        run(readers=group(), rules=Rules(read_side=side), script=[split]) for side in ("implementation", "document")
    )
    for at in range(5_000, 20_000, 500):
        assert mapped.lower_at(at) <= shared.lower_at(at)
    assert mapped.lower_at(20_000) >= shared.lower_at(19_000)
    assert mapped.late_first_reads() == 0


def test_in_the_map_the_upper_bound_is_that_of_the_reader_that_is_farthest():
    """Readers that fall behind have marks ahead of them; as a rule that gives what the group's offsets give."""
    mapped, shared = (
        {row["at_ms"]: row for row in run(readers=group(rate_per_s=30), rules=Rules(read_side=side)).rows("windows")}
        for side in ("document", "implementation")
    )
    pairs = [(row["lower"], row["upper"], shared[at]["upper"]) for at, row in mapped.items() if at > 8_000]
    assert len(pairs) > 20
    assert all(lower <= upper and upper >= offsets for lower, upper, offsets in pairs)
    assert len(pairs) > sum(upper == offsets for _, upper, offsets in pairs) > len(pairs) / 2


def test_a_reader_without_segments_is_not_in_the_map():
    world = run(readers=group(readers=3), rules=Rules(read_side="document"))
    assert set(world.group.state.streams["stream"].times) == {"readers-0", "readers-1"}
    entered = {row["reader"] for row in world.rows("group_updates", operation="time")}
    assert entered == {"readers-0", "readers-1"}
    assert world.lower_at(20_000, "readers-2") is not None


def entries(world, group="readers"):
    """(when, the map from reader to time from then on) after every update of a group."""
    rows = world.rows("group_updates", group=group, outcome="applied")
    return [(row["at_ms"], row["lowers"]) for row in rows]


def test_the_table_has_the_entries_of_the_map_whose_minimum_is_the_window_of_the_group():
    split, crash = script.Scale(at_ms=6_000, seal=["0@0"]), script.CrashReader(at_ms=9_500, reader="readers-1")
    readers = group(readers=3, rate_per_s=50)
    world = run(readers=readers, rules=Rules(read_side="document"), script=[split, crash])
    rows = world.rows("group_updates", group="readers")
    for row in rows:
        known = None not in row["lowers"].values() and row["lowers"]
        assert row["lower"] == (min(row["lowers"].values()) if known else None)
        assert row["lowers"].keys() == row["uppers"].keys()
    uppers = [row for row in rows if row["uppers"] and None not in row["uppers"].values()]
    assert uppers
    assert all(row["upper"] == max(row["uppers"].values()) for row in uppers)
    assert {reader for row in rows for reader in row["lowers"]} == {f"readers-{n}" for n in range(3)}
    assert not any("readers-1" in times for at, times in entries(world) if at > 16_000)
    offsets = run(readers=readers, script=[split, crash]).rows("group_updates")
    assert offsets
    assert all("lowers" not in row for row in offsets)


def passed(world, reader, at_ms):
    """The time that a reader has passed with all that it has read of its segments, which it owns for the whole run."""
    read = {row["segment_id"]: row["to_offset"] for row in world.rows("reads", reader=reader) if row["at_ms"] <= at_ms}
    known = [row for row in world.rows("watermarks") if row["emitted_ms"] <= at_ms]
    return max((row["lower"] for row in known if all(row["cut"][s] <= end for s, end in read.items())), default=None)


@pytest.mark.parametrize("timer", ["fixed", "pravega"])
def test_a_reader_enters_its_time_at_once_when_it_passes_a_cut_or_with_its_next_publication(timer):
    rules = Rules(publish_timer=timer, read_side="document")
    at_once, later = (
        run(
            readers=group(publish_every_ms=2_500),
            rules=replace(rules, enters_time=enters),
            controllers=Controllers(period_ms=500),
        )
        for enters in ("on_passing", "at_publish")
    )
    # Each reader knows then what the other one owns.
    moments = range(6_000, 20_000, 100)
    for reader in ("readers-0", "readers-1"):
        shown = {at: [t for when, t in entries(at_once) if when <= at][-1][reader] for at in moments}
        assert list(shown.values()) == [passed(at_once, reader, at) for at in moments]
        assert len(set(shown.values())) > 12
        assert len({times.get(reader) for _, times in entries(later)}) < 10
    if timer == "fixed":
        published = [world.column("positions", "at_ms", reader="readers-0") for world in (at_once, later)]
        assert published[0] == published[1]
    for at in range(10_000, 20_000, 100):
        assert (at_once.lower_at(at) or 0) >= (later.lower_at(at) or 0)


def test_without_a_map_no_time_can_be_entered():
    blind = group(time_windows=False)
    for part, options in (
        (group(), {}),
        (blind, {"read_side": "document"}),
        ([blind, group(name="b", time_windows=False)], {"read_side": "document"}),
    ):
        for base in ("sound", "implementation"):
            with pytest.raises(Problems, match=r"rules\.enters_time: .*there is no map of times"):
                scenario(readers=part, rules=Rules(base, enters_time="on_passing", **options))
    scenario(readers=[blind, group(name="b")], rules=Rules(enters_time="on_passing", read_side="document"))
    scenario(readers=None, rules=Rules(enters_time="on_passing"))
    for options in ({}, {"enters_time": "on_passing"}, {"read_side": "implementation"}):
        resolved = scenario(readers=group(), rules=Rules("design", **options)).resolved
        assert resolved.rules.enters_time == "on_passing"
        assert enters_on_passing(resolved.readers, resolved.rules) == ("read_side" not in options)
        assert resolved.resolved == resolved


def test_by_the_design_a_time_is_entered_every_time_a_cut_is_passed():
    """PDP-33, Client Changes; without that only when the position is published."""
    worlds = [
        run(readers=ReaderGroup(publish_every_ms=4_000), rules=Rules(base, read_side="document"))
        for base in ("design", "sound")
    ]
    assert [world.scenario.rules.enters_time for world in worlds] == ["on_passing", "at_publish"]
    passing, rare = (world.column("group_updates", "at_ms", operation="time") for world in worlds)
    assert rare == [4_000, 8_000, 12_000, 16_000]
    assert len(passing) > 10


def test_in_the_map_the_time_of_a_crashed_reader_holds_until_its_segments_are_read_on():
    """The others count them only when they next publish; until then its time is theirs."""
    pause = script.PauseReader(at_ms=6_000, reader="readers-1")
    crash = script.CrashReader(at_ms=10_000, reader="readers-1")
    readers = ReaderGroup(readers=3, group_refresh_ms=1_000, rate_per_s=90)
    mapped, shared = (
        run(readers=readers, rules=Rules(publish_timer="pravega", read_side=side), script=[pause, crash])
        for side in ("document", "implementation")
    )
    assert len({lower for at, lower in mapped.lowers() if 9_000 <= at <= 13_000}) == 1
    assert mapped.lowers()[-1][1] > mapped.lower_at(13_000)
    for world in (mapped, shared):
        world.assert_lower_never_falls()
        assert world.late_first_reads() == 0


def mapped(seed, script, readers=1, options=(), **fields):
    """A group with a map of times on a stream of two segments that it reads slowly."""
    part = {"rate_per_s": 40, "publish_every_ms": 300, **fields}
    return run(
        stream=Stream(segments=2),
        writers=[EventWriter("v", rate_per_s=60)],
        controllers=Controllers(period_ms=400, start_delay_ms=1_000),
        readers=ReaderGroup(readers=readers, **part),
        rules=Rules(read_side="document", **dict(options)),
        script=script,
        duration_ms=13_000,
        seed=seed,
    )


COMES_OR_GOES = {
    "crashes": (2, [script.CrashReader(at_ms=6_000, reader="readers-1")]),
    "joins before a merge": (
        1,
        [
            script.Scale(at_ms=6_066, seal=["0@0", "1@0"], into=1),
            script.AddReader(at_ms=5_000, reader="readers-x"),
        ],
    ),
    "joins": (1, [script.AddReader(at_ms=6_000, reader="readers-x")]),
}


@pytest.mark.parametrize("seed", [0, 7, 10])
@pytest.mark.parametrize("latency_ms", [0, 100])
@pytest.mark.parametrize("who", COMES_OR_GOES)
def test_who_comes_or_goes_does_not_take_the_time_of_a_map_back(who, latency_ms, seed):
    """Neither of a reader nor of the group; nothing is read late."""
    readers, steps = COMES_OR_GOES[who]
    world = mapped(seed, steps, readers, state_latency_ms=latency_ms)
    updates = world.rows("group_updates", outcome="applied")
    of_readers = [world.rows("windows", reader=name) for name in world.group.readers]
    for rows in [sorted(updates, key=lambda row: row["revision"]), *of_readers]:
        lowers = [row["lower"] for row in rows]
        first = next(place for place, lower in enumerate(lowers) if lower is not None)
        assert None not in lowers[first:]
        for bound in ("lower", "upper"):
            known = [row[bound] for row in rows if row[bound] is not None]
            assert known == sorted(known)
    assert world.late_first_reads() == 0


# The shared state


def test_with_a_distance_to_the_shared_state_somebody_loses_and_tries_again():
    world = run(stream=FOUR, readers=ReaderGroup(readers=4, publish_every_ms=500, state_latency_ms=20))
    assert set(world.column("group_updates", "outcome")) == {"applied", "conflict"}
    revisions = world.column("group_updates", "revision", outcome="applied")
    assert revisions == list(range(len(revisions)))
    assert sorted(world.segment_owners().values()) == [f"readers-{i}" for i in range(4)]
    world.assert_delivered()


def test_without_distance_nobody_loses():
    assert set(run(stream=FOUR).column("group_updates", "outcome")) == {"applied"}


# Rebalancing


def test_a_reader_that_joins_gets_its_share():
    world = run(stream=FOUR, readers=group(readers=1), script=[script.AddReader(at_ms=8_000, reader="late")])
    assert sorted(world.segment_owners().values()) == ["late", "late", "readers-0", "readers-0"]
    assert not world.rows("reads", again=True)


@pytest.mark.parametrize("by", ["bytes", "time"])
def test_a_reader_that_falls_behind_gives_segments_to_one_that_does_not(by):
    """After a pause readers-0 is behind, and readers-1 has room."""
    slack = {"rebalance_slack_bytes": 3_000, "rebalance_slack_ms": 500}
    part = group(rate_per_s=60, rebalance=by, **slack)
    pause = script.PauseReader(at_ms=5_000, reader="readers-0", for_ms=7_000)
    writers = [EventWriter("w", rate_per_s=100)]
    world = run(stream=FOUR, readers=part, writers=writers, script=[pause], controllers=Controllers(period_ms=200))
    moved = world.rows("group_updates", operation="release", outcome="applied")[0]
    assert moved["reader"] == "readers-0"
    assert moved["at_ms"] >= 12_000
    still = run(stream=FOUR, readers=group(rate_per_s=60), writers=writers, script=[pause])
    assert not still.rows("group_updates", operation="release")
    assert world.lower_at(19_500) > still.lower_at(19_500)
    world.first_reads_are_complete()


@pytest.mark.parametrize(("by", "reader", "segment"), [("bytes", "readers-0", 1), ("time", "readers-1", 3)])
def test_by_time_another_segment_moves_than_by_bytes_where_events_differ_in_size(by, reader, segment):
    """readers-0 has more bytes to read, the large events of three seconds; readers-1 has the small ones of six."""
    writers = [
        EventWriter("large", rate_per_s=4, event_bytes=50_000, keys="0..1/4"),
        EventWriter("small", rate_per_s=80, event_bytes=100, keys="1/4..1"),
    ]
    part = group(rate_per_s=60, rebalance=by, rebalance_slack_bytes=1_000, rebalance_slack_ms=1_000)
    pauses = [
        script.PauseReader(at_ms=5_000, reader="readers-1", for_ms=6_000),
        script.PauseReader(at_ms=8_000, reader="readers-0", for_ms=3_000),
    ]
    world = run(stream=FOUR, readers=part, writers=writers, script=pauses, controllers=Controllers(period_ms=200))
    first = world.rows("group_updates", operation="release", outcome="applied")[0]
    assert (first["reader"], first["at_ms"]) == (reader, 11_000)
    assert world.column("positions", "segment_id", at_ms=11_000, reader=None) == [segment]


def test_what_nobody_takes_is_for_everybody():
    crash = script.CrashReader(at_ms=4_000, reader="readers-1", offline_after_ms=None)
    release = script.ReleaseSegment(at_ms=6_000, reader="readers-0", segment="0@0")
    world = run(stream=FOUR, readers=group(rebalance="bytes"), script=[crash, release])
    assert world.segment_owners()[0] == "readers-0"


def test_updates_are_messages_to_the_segment_store_and_back():
    world = run(stream=FOUR, readers=group(readers=3), network=Network(keep_messages=True), duration_ms=6_000)
    sent = world.rows("messages", sender="readers-1")
    assert {row["receiver"] for row in sent} == {"segment-store"}
    assert {"fetch state", "acquire", "publish"} <= {row["kind"] for row in sent}
    assert all(row["received_ms"] == row["sent_ms"] for row in sent)
    assert {"state", "publish: applied"} <= set(world.column("messages", "kind", receiver="readers-1"))


def test_they_take_what_the_network_takes():
    network = Network(delay=Uniform(1, 60), keep_messages=True)
    world = run(stream=FOUR, readers=group(readers=3, state_latency_ms=None), network=network)
    assert len({row["received_ms"] - row["sent_ms"] for row in world.rows("messages", kind="publish")}) > 20
    assert set(world.column("group_updates", "outcome")) == {"applied", "conflict"}
    world.assert_delivered()


def test_an_update_under_way_when_a_partition_begins_arrives_when_it_ends():
    cut = script.Partition(at_ms=6_050, a="readers-1", b="segment-store", for_ms=4_000)
    world = run(stream=FOUR, readers=group(readers=3, state_latency_ms=100), script=[cut])
    mine = world.column("group_updates", "at_ms", reader="readers-1")
    # The state asked for at 6,000 ms is sent back at 6,100 ms, waits, and arrives at 10,150 ms.
    assert min(at for at in mine if at > 6_050) == 10_250
    world.assert_delivered()
