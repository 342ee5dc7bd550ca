"""Many controllers: rows C1 to C3, C5, C6 and C8 to C12 of the failures, and the index of the marks segment."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.streams.sim.worlds import clocked, run, scenario
from wmlab.core.errors import ModelError, RecordingError
from wmlab.core.simulation import Fixed
from wmlab.core.values import Problems
from wmlab.streams.answers.measures import owner_rows
from wmlab.streams.model.coordination import bucket_of, qualified_name
from wmlab.streams.model.position import Position
from wmlab.streams.model.window import Tracker
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.noting import Never
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

FAST = {"period_ms": 500, "session_timeout_ms": 2_000, "redistribute_every_ms": 1_000}
TWO = Controllers(2, buckets=4, **FAST)


def owners(world):
    return [(row["controller"], row["from_ms"], row["to_ms"]) for row in world.rows("ownership") if row["streams"]]


def owned(world, moment_ms):
    """The buckets of each controller at a moment."""
    found = defaultdict(set)
    for row in world.rows("ownership"):
        if row["from_ms"] <= moment_ms and (row["to_ms"] is None or row["to_ms"] > moment_ms):
            found[row["controller"]].add(row["bucket"])
    return dict(found)


def all_buckets(world, moment_ms):
    return sorted(bucket for buckets in owned(world, moment_ms).values() for bucket in buckets)


def test_every_controller_takes_notes_and_one_runs_the_cycle():
    world = run(controllers=Controllers(3, **FAST))
    takers = Counter(world.column("writer_marks", "controller"))
    assert set(takers) == {"controller-0", "controller-1", "controller-2"}
    assert max(takers.values()) - min(takers.values()) <= 2
    (leader,) = set(world.column("cycles", "controller"))
    assert leader in takers


@pytest.mark.parametrize("contact", ["round_robin", "random", "sticky"])
def test_the_number_of_controllers_does_not_change_the_bounds(contact):
    one, three = run(), run(controllers=Controllers(3, period_ms=500, contact=contact))
    assert one.column("watermarks", "lower") == three.column("watermarks", "lower")


def called(world):
    """The controllers that each process called, in order, each once in a row."""
    calls = defaultdict(list)
    for row in sorted(world.rows("writer_marks"), key=lambda row: row["noted_ms"]):
        if calls[row["process"]][-1:] != [row["controller"]]:
            calls[row["process"]].append(row["controller"])
    return calls


@pytest.mark.parametrize(
    "fault",
    [
        script.CrashController(at_ms=5_000, controller="controller-1"),
        script.RemoveController(at_ms=5_000, controller="controller-1"),
    ],
)
def test_a_sticky_writer_keeps_its_controller_until_that_fails(fault):
    writers = [EventWriter(f"w{n}", rate_per_s=10, note_every_ms=200) for n in range(12)]
    fleet = Controllers(3, buckets=4, contact="sticky", **FAST)
    assert all(len(calls) == 1 for calls in called(run(writers=writers, controllers=fleet)).values())
    world = run(writers=writers, controllers=fleet, script=[fault])
    calls = called(world)
    assert {call for first, *_ in calls.values() for call in [first]} == {f"controller-{n}" for n in range(3)}
    for process, (first, *others) in calls.items():
        assert len(others) == (first == "controller-1"), process
        assert "controller-1" not in others
        last_ms = world.column("writer_marks", "noted_ms", process=process, outcome="success")[-1]
        assert last_ms > 19_000


@pytest.mark.parametrize("point", ["before_append", "after_append"])
def test_c1_a_leader_crashes_around_its_append(point):
    """Row C1: the entry is there or not, the next leader continues."""
    world = run(controllers=TWO, script=[script.CrashController(at_ms=5_000, point=point)])
    crash = world.rows("incidents", kind="crash")[0]
    at, victim = crash["at_ms"], crash["target"]
    assert bool(world.rows("watermarks", emitted_ms=at)) is (point == "after_append")
    assert not world.rows("cycles", at - 1, controller=victim)
    heir = world.rows("cycles", at)[0]
    assert heir["controller"] != victim
    assert heir["previous_lower"] == [lower for emitted_ms, lower in world.emitted() if emitted_ms <= at][-1]
    assert world.rows("watermarks", heir["at_ms"])
    world.assert_log_grows()


def test_c1_the_pointer_stays_one_behind_until_somebody_moves_it():
    crash = script.CrashController(at_ms=5_000, point="after_append")
    world = run(controllers=Controllers(**FAST), script=[crash])
    log = world.stream().log
    assert [revision for revision, _ in log.entries].index(log.pointer) == len(log.entries) - 3


def test_a_crashed_controller_refuses_notes_and_the_writers_try_another():
    world = run(controllers=TWO, script=[script.CrashController(at_ms=5_000, controller="controller-1")])
    late = [row for row in world.rows("writer_marks") if row["received_ms"] > 5_000]
    assert {row["controller"] for row in late} == {"controller-0"}
    assert {row["noted_ms"] for row in late if row["writer"] == "w1"} == set(range(5_000, 20_000, 1_000))


@pytest.mark.parametrize("inside_ms", [0, 3])
def test_c2_two_leaders_for_a_while_are_safe(inside_ms):
    """Row C2: the session is lost, both work until the old one notices; no lower is emitted twice."""
    expire = script.ExpireSession(at_ms=5_000, notice_after_ms=6_000)
    world = run(controllers=TWO, script=[expire], network=Network(inside=Fixed(inside_ms)))
    assert set(world.column("cycles", "controller", 8_000, 11_000)) == {"controller-0", "controller-1"}
    assert len(set(world.column("cycles", "controller", 14_000))) == 1
    world.assert_log_grows()
    assert_indexed(world)


def test_c2_of_two_leaders_one_append_wins_and_the_other_gets_nothing():
    pause = script.PauseController(at_ms=5_000, for_ms=6_000, point="before_append")
    world = run(controllers=TWO, script=[pause])
    paused = world.rows("incidents", kind="pause")[0]
    (lost,) = world.rows("cycles", reason="conflict: another leader appended first")
    assert (lost["controller"], lost["outcome"], lost["at_ms"]) == (paused["target"], "held", paused["at_ms"])
    assert world.rows("watermarks", 8_000)
    world.assert_log_grows()


def test_c3_a_stale_reader_of_marks_leaves_a_live_writer_out():
    """Row C3: with timeout 0 a watermark can lie above a live writer's time; its mark is kept all the same."""
    writers = [clocked("fast", clock=Clock(skew_ms=30_000)), clocked("slow")]
    controllers = Controllers(2, buckets=4, **{**FAST, "period_ms": 1_500})
    pause = script.PauseController(at_ms=5_000, for_ms=6_000, point="after_marks")
    stream = Stream(timestamp_aggregation_timeout_ms=0)
    world = run(stream=stream, writers=writers, controllers=controllers, script=[pause])
    alone = [row for row in world.rows("watermarks") if set(row["writers"]) == {"fast"}]
    assert [row for row in world.rows("watermarks") if set(row["writers"]) == {"fast", "slow"}]
    slow = world.rows("writer_marks", writer="slow")
    assert alone[0]["lower"] > max(row["time"] for row in slow if row["noted_ms"] < alone[0]["emitted_ms"])
    assert world.rows("cycles", participating=["fast"])[0]["removed"] == []
    world.assert_log_grows()


def test_c5_a_bucket_without_owner_stops_time_and_loses_no_mark():
    """Row C5: time stands still, then resumes."""
    world = run(controllers=TWO, script=[script.LoseBucketOwner(at_ms=6_000, for_ms=5_000)])
    assert not world.rows("cycles", 6_000, 11_000)
    first = world.rows("watermarks", 6_000)[0]
    assert first["emitted_ms"] == 11_500
    latest = {row["writer"]: row["time"] for row in world.rows("writer_marks") if row["received_ms"] < 11_500}
    assert first["writers"] == latest
    assert [(to, later) for (_, _, to), (_, later, _) in pairwise(owners(world))] == [(6_000, 11_000)]


def test_c6_buckets_stay_even_when_controllers_come_and_go():
    """Row C6: difference of one at most, each bucket once, no more moves than needed."""
    actions = [script.AddController(at_ms=5_000), script.AddController(at_ms=9_000)]
    actions += [script.RemoveController(at_ms=13_000, controller="controller-0")]
    world = run(controllers=Controllers(2, buckets=11, **FAST), script=actions)
    for moment_ms, count in ((1, 2), (7_000, 3), (11_000, 4), (16_000, 3)):
        assert all_buckets(world, moment_ms) == list(range(11))
        sizes = sorted(map(len, owned(world, moment_ms).values()))
        assert len(sizes) == count
        assert sizes[-1] - sizes[0] <= 1
    before, after = owned(world, 1), owned(world, 7_000)
    assert all(after[name] <= before[name] for name in before)
    assert "controller-0" not in owned(world, 16_000)
    assert world.rows("watermarks", 16_000)


TWELVE = Controllers(3, buckets=12, **FAST)
CONTEST = {"controllers": TWELVE, "rules": Rules(distribution="contest")}


def test_in_a_contest_controllers_that_start_together_share_the_buckets_and_a_later_one_gets_none():
    add = script.AddController(at_ms=5_000)
    contest, even = (run(controllers=TWELVE, rules=Rules(distribution=by), script=[add]) for by in ("contest", "even"))
    assert all_buckets(contest, 15_000) == list(range(12))
    assert set(owned(contest, 15_000)) == {"controller-0", "controller-1", "controller-2"}
    assert "controller-3" in owned(even, 15_000)
    assert contest.rows("ownership")[0]["from_ms"] == 10
    contest.assert_log_grows()


def test_in_a_contest_the_buckets_of_a_crashed_controller_go_to_whoever_is_first():
    world = run(**CONTEST, script=[script.CrashController(at_ms=5_000, restart_after_ms=1_000)])
    victim = world.rows("incidents", kind="crash")[0]["target"]
    assert {row["to_ms"] for row in world.rows("ownership", controller=victim)} - {None} == {7_000}
    heirs = {row["bucket"] for row in world.rows("ownership") if row["from_ms"] >= 7_000}
    assert heirs == set(world.column("ownership", "bucket", to_ms=7_000))
    assert all_buckets(world, 15_000) == list(range(12))
    assert world.rows("watermarks", 8_000)
    world.assert_log_grows()


def test_a_bucket_that_nobody_may_take_is_contested_again_when_it_can_be_owned():
    world = run(**CONTEST, script=[script.LoseBucketOwner(at_ms=5_000, for_ms=4_000)])
    free, owned = owners(world)[-2:]
    assert (free[2], owned[1]) == (5_000, 9_010)
    assert world.rows("watermarks", 9_010)


def test_ownership_says_how_fair_it_is_and_when_nobody_owned_a_bucket():
    crash = script.CrashController(at_ms=5_000, controller="controller-0")
    contest = scenario(**CONTEST, script=[crash, script.AddController(at_ms=5_500)]).record().ownership()
    assert list(contest.share) == [f"controller-{index}" for index in range(4)]
    assert sum(contest.share.values()) == pytest.approx(1)
    assert {(begin, end - begin <= 120) for _, begin, end in contest.gaps} == {(7_000, True)}
    assert contest.fairness < 1
    assert "was without an owner for longest, for" in contest.sentence
    even = scenario(controllers=TWELVE, rules=Rules(distribution="even"), script=[]).record().ownership()
    assert (even.fairness, even.gaps) == (1.0, ())
    assert "No bucket was without an owner" in even.sentence


def test_one_controller_owns_every_bucket_all_the_time():
    """PDP-33: "every Controller instance will be able to acquire ownership for a subset of buckets"."""
    alone = scenario().record()
    assert not alone.table("ownership").num_rows
    owned = alone.ownership()
    assert (owned.buckets, owned.share, owned.fairness, owned.gaps) == (100, {"controller-0": 1.0}, 1.0, ())
    rows = owner_rows(alone)
    assert [row["bucket"] for row in rows] == list(range(100))
    assert {row["bucket"] for row in rows if row["streams"]} == {bucket_of(qualified_name("stream"), 100)}
    assert owned.sentence == "No bucket was without an owner once it had one."


def test_one_controller_that_owns_everything_all_the_time_is_not_written_down():
    assert not run().rows("ownership")
    assert set(run(script=[script.CrashController(at_ms=5_000)]).column("ownership", "to_ms")) == {15_000}


def test_buckets_move_at_most_once_in_the_redistribution_period():
    adds = [script.AddController(at_ms=1_000), script.AddController(at_ms=2_000)]
    world = run(controllers=Controllers(1, buckets=8, period_ms=500), script=adds)
    assert set(world.column("ownership", "from_ms")) == {0, 10_000}


def test_c8_an_unavailable_store_fails_cycles_and_notes_until_it_is_back():
    """Row C8: nothing is lost but time, for writers try again."""
    world = run(script=[script.StoreUnavailable(at_ms=5_000, for_ms=2_200)])
    failed = world.column("cycles", "at_ms", reason="cycle failed: writer marks unavailable")
    assert {at // 1_000 for at in failed} == {5, 6, 7}
    assert set(world.column("writer_marks", "noted_ms", outcome="unavailable")) == {5_000, 6_000, 7_000}
    by_note = {at: world.column("writer_marks", "outcome", writer="w1", noted_ms=at) for at in (6_000, 7_000)}
    assert set(by_note[7_000][:-1]) == {"unavailable"}
    assert {outcomes[-1] for outcomes in by_note.values()} <= {"success", "invalid time"}
    assert world.rows("watermarks", 7_300)


def test_c9_a_writer_that_reports_between_read_and_removal_is_kept():
    """Row C9: the removal is refused, the record stays, the writer is not in this watermark but in a later one."""
    writers = [EventWriter("w1", rate_per_s=50), EventWriter("w2", rate_per_s=50, note_every_ms=100)]

    def case(silent_ms, *more):
        silence = script.SilenceWriter(at_ms=6_000, writer="w2", for_ms=silent_ms)
        return run(writers=writers, controllers=TWO, script=[silence, *more])

    ((removal, _),) = case(None).removals()
    pause = script.PauseController(at_ms=removal - 50, for_ms=400, point="before_removal")
    world = case(removal + 50 - 6_000, pause)
    (late,) = world.rows("cycles", at_ms=removal)
    assert (late["participating"], late["outcome"]) == (["w1"], "emitted")
    assert not world.removals()
    assert [set(row["writers"]) for row in world.rows("watermarks", removal)][:2] == [{"w1"}, {"w1", "w2"}]


def test_a_cycle_that_fails_after_a_removal_says_whom_it_has_removed():
    crash = script.CrashWriter(at_ms=6_000, writer="w2")
    ((removed_ms, _),) = run(script=[crash]).removals()
    pause = script.PauseController(at_ms=removed_ms - 50, for_ms=300, point="before_append")
    gone = script.StoreUnavailable(at_ms=removed_ms + 100, for_ms=1_000, store="marks_segment")
    world = run(script=[crash, pause, gone])
    (failed,) = world.rows("cycles", at_ms=removed_ms)
    assert (failed["removed"], failed["reason"]) == (["w2"], "cycle failed: marks segment unavailable")
    assert list(world.stored_marks()) == ["w1"]
    assert world.removals() == [(removed_ms, ["w2"])]


def test_c10_a_missing_marks_segment_fails_cycles_and_drops_the_clocks():
    """Row C10: the client is built again, so a lagging writer gets a fresh timeout."""
    lose = script.LoseMarksSegment(at_ms=9_000, for_ms=1_000)
    world = run(script=[script.CrashWriter(at_ms=6_000, writer="w2"), lose])
    failed = world.column("cycles", "at_ms", reason="cycle failed: no such marks segment")
    assert {at // 100 for at in failed} == {90, 95}
    assert world.removals() == [(world.column("cycles", "at_ms", 10_000)[0] + 5_000, ["w2"])]


@pytest.mark.parametrize(("keep", "goes_on"), [(5, True), (1, True), (0, False)])
def test_c10_a_truncated_log_matters_only_beyond_the_mark_pointer(keep, goes_on):
    world = run(script=[script.TruncateMarks(at_ms=9_100, keep=keep)])
    assert bool(world.rows("watermarks", 9_200)) is goes_on
    failed = world.rows("cycles", reason="cycle failed: mark pointer before the start of the marks segment")
    assert bool(failed) is not goes_on
    lowers = [lower for _, lower in world.lowers() if lower is not None]
    assert lowers == sorted(lowers)
    assert (lowers[-1] > 15_000) is goes_on


def test_windows_name_the_same_watermarks_after_a_truncation_as_before():
    """A reader that was there goes on with the places it had, and one that comes later has the same ones."""
    groups = (ReaderGroup("early"), ReaderGroup("late", starts_ms=10_000))
    world = run(script=[script.TruncateMarks(at_ms=9_100, keep=2)], readers=groups)
    log = {row["seq"]: row for row in world.rows("watermarks")}
    for group, since_ms in (("early", 0), ("late", 10_000)):
        windows = world.rows("windows", group=group)
        named = [(row["lower_seq"], row["upper_seq"]) for row in windows]
        bounds = [(row["lower"], row["upper"]) for row in windows]
        assert bounds == [
            (None if low is None else log[low]["lower"], None if high is None else log[high]["upper"])
            for low, high in named
        ]
        assert named[-1][0] >= max(log) - 1
        assert windows[0]["at_ms"] >= since_ms


def test_a_watermark_names_its_cycle_and_the_mark_of_each_writer_that_was_read():
    """A request takes 200 ms to the metadata store, and the answer as long: what is noted then is not counted."""
    world = run(network=Network(inside=Fixed(200)), controllers=Controllers(period_ms=3_000))
    ran = {row["at_ms"] for row in world.rows("cycles", outcome="emitted")}
    marks = {(row["writer"], row["received_ms"]): row["time"] for row in world.rows("writer_marks", outcome="success")}
    log = world.rows("watermarks")
    assert len(log) > 2
    for row in log:
        assert row["cycle_ms"] in ran
        assert row["emitted_ms"] - row["cycle_ms"] >= 1_000
        assert {writer: marks[writer, at_ms] for writer, at_ms in row["counted"].items()} == dict(row["writers"])
        assert all(at_ms <= row["cycle_ms"] + 200 for at_ms in row["counted"].values())


@pytest.mark.parametrize("doubled", [False, True])
def test_c11_two_work_entries_of_one_stream_are_safe(doubled):
    """Row C11: the stream leaves its bucket and comes back within a period; with the fault it is worked on twice."""
    part, rules = Controllers(period_ms=1_000), Rules(double_work_entry=doubled)
    writer = EventWriter("w", rate_per_s=20, note_every_ms=2_500)
    world = run(writers=[writer], stream=Stream(timestamp_aggregation_timeout_ms=0), controllers=part, rules=rules)
    gaps = [later - earlier for earlier, later in pairwise(world.column("cycles", "at_ms"))]
    assert (min(gaps) < 1_000) is doubled
    world.assert_log_grows()


def test_c12_a_new_reader_of_a_long_log_reads_all_of_it():
    """Row C12: start-up is linear in the log, and the late reader ends where the early one is."""
    groups = (ReaderGroup("early"), ReaderGroup("late", starts_ms=17_000))
    world = run(readers=groups, controllers=Controllers(period_ms=20), writers=[clocked(note_every_ms=20)])
    stream = world.stream()
    assert len(stream.log.entries) > 800
    last = {row["group"]: (row["lower"], row["upper"]) for row in world.rows("windows")}
    assert last["early"] == last["late"]
    end = Position(dict.fromkeys(stream.history.active.ids, 2**63 - 1))
    assert Tracker().advance(end, stream.log, stream.history.segments).fetched == len(stream.log.entries)


def test_a_paused_controller_answers_when_it_goes_on():
    world = run(script=[script.PauseController(at_ms=5_500, for_ms=2_000, controller="controller-0")])
    assert not [row for row in world.rows("writer_marks") if 5_500 < row["received_ms"] < 7_500]
    assert set(world.column("writer_marks", "noted_ms", received_ms=7_500)) == {6_000, 7_000}
    assert not world.rows("cycles", 5_500, 7_500)


def test_a_controller_cut_off_from_the_coordinator_is_a_second_leader_until_it_is_back():
    cut = script.Partition(at_ms=5_000, a="controller-0", b="coordinator", for_ms=9_000)
    world = run(controllers=Controllers(2, buckets=1, **FAST), script=[cut])
    assert set(world.column("cycles", "controller", 9_000, 14_000)) == {"controller-0", "controller-1"}
    assert [row[:2] for row in owners(world)][:2] == [("controller-0", 0), ("controller-1", 7_000)]
    assert len(set(world.column("cycles", "controller", 15_000))) == 1
    world.assert_log_grows()


def test_a_controller_cut_off_from_the_stores_fails_its_cycles():
    cut = script.Partition(at_ms=5_000, a="controllers", b="segment-store", for_ms=2_000)
    reasons = set(run(script=[cut]).column("cycles", "reason", 5_000, 7_000))
    assert reasons == {"cycle failed: segment store unavailable"}


def test_a_restarted_controller_waits_for_its_own_old_session_to_end():
    world = run(controllers=Controllers(**FAST), script=[script.CrashController(at_ms=5_000, restart_after_ms=300)])
    assert owners(world) == [("controller-0", 0, 7_000), ("controller-0", 7_000, None)]
    assert not world.rows("cycles", 5_000, 7_500)
    assert world.rows("writer_marks", controller="controller-0", noted_ms=6_000)


def test_a_session_that_ends_during_a_pause_is_noticed_after_it():
    actions = [script.PauseController(at_ms=5_000, for_ms=4_000), script.ExpireSession(at_ms=5_500, notice_after_ms=1)]
    world = run(controllers=Controllers(**FAST), script=actions)
    assert [row[1:] for row in owners(world)] == [(0, 5_500), (9_000, None)]
    assert world.rows("watermarks", 9_500)


def test_a_session_that_has_ended_cannot_expire_again():
    actions = [script.ExpireSession(at_ms=at_ms, controller="controller-0") for at_ms in (5_000, 8_000)]
    world = run(controllers=Controllers(**FAST), script=actions)
    assert [row["outcome"] for row in world.rows("incidents", kind="expire")] == ["done", "no effect"]
    assert [row[1:] for row in owners(world)] == [(0, 5_000), (10_000, None)]


def test_a_controller_that_has_left_does_not_come_back():
    actions = [
        script.CrashController(at_ms=4_000, controller="controller-1", restart_after_ms=4_000),
        script.RemoveController(at_ms=6_000, controller="controller-1"),
    ]
    world = run(controllers=TWO, script=actions)
    assert not world.rows("incidents", kind="restart")
    assert "controller-1" not in owned(world, 12_000)


def test_the_steps_of_a_cycle_are_messages_too():
    world = run(network=Network(inside=Fixed(10), keep_messages=True), controllers=TWO)
    kinds = set(world.column("messages", "kind", receiver="metadata-store"))
    assert kinds == {"join bucket", "read mark", "write mark", "read marks", "read epochs"}
    assert world.emitted()[0][0] - world.column("cycles", "at_ms", outcome="emitted")[0] == 7 * 10


def test_a_fleet_has_no_more_clocks_than_controllers():
    with pytest.raises(Problems, match="2 clocks for 1 controllers"):
        Controllers(clocks=[Clock(), Clock()])


SPLIT = script.Scale(at_ms=6_000, seal=["0@0"])


@pytest.fixture(scope="module")
def recording():
    return scenario(script=[SPLIT]).record(progress=False)


def assert_indexed(world):
    """Every watermark has one record, in the order of the log."""
    records = world.rows("watermark_index")
    assert [(record["place"], record["time"]) for record in records] == [
        *enumerate(world.column("watermarks", "lower"))
    ]


def test_every_watermark_has_a_record_of_where_it_begins():
    world = run(script=[SPLIT])
    assert_indexed(world)
    assert world.column("watermark_index", "offset") == [0, *world.column("watermarks", "revision")][:-1]
    assert not any(world.column("watermark_index", "recovered"))
    assert len(world.stream().index) == len(world.rows("watermarks"))


def test_a_crash_between_the_appends_leaves_the_index_short_until_the_next_leader_repairs_it():
    fleet = Controllers(3, period_ms=500, session_timeout_ms=2_000, redistribute_every_ms=500)
    world = run(controllers=fleet, script=[script.CrashController(at_ms=7_000, point="after_append")])
    (crash,) = world.rows("incidents", kind="crash")
    (late,) = world.rows("watermark_index", recovered=True)
    (lost,) = world.rows("watermarks", emitted_ms=crash["at_ms"])
    assert late["time"] == lost["lower"]
    assert late["controller"] != lost["controller"] == crash["target"]
    assert late["appended_ms"] > crash["at_ms"] + 2_000
    assert not world.rows("watermarks", crash["at_ms"], late["appended_ms"])
    assert_indexed(world)


def test_a_time_gives_the_cut_of_the_last_watermark_not_beyond_it(recording):
    marks = recording.table("watermarks").to_pylist()
    for earlier, later in pairwise(marks):
        for time in (earlier["lower"], later["lower"] - 1):
            assert dict(recording.stream_cut_at(time)) == dict(earlier["cut"])
    assert recording.stream_cut_at(marks[0]["lower"] - 1) is None
    assert dict(recording.stream_cut_at(10**15)) == dict(marks[-1]["cut"])


def test_a_stream_is_in_the_bucket_of_its_fully_qualified_name():
    names = ["bank/orders", "shop/orders", "orders"]
    streams, writers = (
        [Stream(name) for name in names],
        [EventWriter(name, rate_per_s=9, stream=name) for name in names],
    )
    world = run(stream=Stream(), streams=streams, writers=writers, readers=[], controllers=Controllers(2))
    owned = {name: row["bucket"] for row in world.rows("ownership") for name in row["streams"]}
    assert owned == {name: bucket_of(qualified_name(name), 100) for name in names}
    assert len(set(owned.values())) == 3
    assert [qualified_name(name) for name in names] == ["bank/orders", "shop/orders", "scope/orders"]


def test_the_closest_cut_may_be_that_of_a_later_watermark_and_before_the_first_it_is_the_first(recording):
    marks = recording.table("watermarks").to_pylist()
    for earlier, later in pairwise(marks):
        middle = (earlier["lower"] + later["lower"]) // 2
        assert dict(recording.stream_cut_at(middle, closest=True)) == dict(earlier["cut"])
        for time in (middle + 1, later["lower"] - 1):
            assert dict(recording.stream_cut_at(time, closest=True)) == dict(later["cut"])
            assert dict(recording.stream_cut_at(time)) == dict(earlier["cut"])
    assert dict(recording.stream_cut_at(-(10**15), closest=True)) == dict(marks[0]["cut"])
    silent = scenario(writers=[EventWriter("w", rate_per_s=10, noting=Never())]).record(progress=False)
    assert silent.stream_cut_at(5_000, closest=True) is None


def test_what_the_index_lacks_is_found_in_the_log():
    crash = script.CrashController(at_ms=7_000, point="after_append")
    recording = scenario(script=[crash]).record(progress=False)
    marks = recording.table("watermarks").to_pylist()
    assert recording.counts["watermark_index"] == len(marks) - 1
    assert dict(recording.stream_cut_at(10**15)) == dict(marks[-1]["cut"])
    assert recording.time_at(dict(marks[-1]["cut"])).lower == marks[-1]["lower"]


@pytest.mark.parametrize("cut", [{}, {"0@0": 5}, {"0@0": 1, "1@0": 1, "2@1": 1}, {"9@9": 1, "1@0": 1}])
def test_a_place_that_is_no_stream_cut_is_refused(recording, cut):
    with pytest.raises(ModelError, match="is not a stream cut"):
        recording.time_at(cut)


def test_an_unknown_stream_is_refused(recording):
    assert recording.stream_cut_at(5_000, stream="stream") == recording.stream_cut_at(5_000)
    with pytest.raises(RecordingError, match="'other'"):
        recording.stream_cut_at(0, stream="other")
