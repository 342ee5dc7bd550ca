"""Many controllers: rows C1 to C3, C5, C6 and C8 to C12 of the failures, and the index of the marks segment."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.streams.sim.worlds import assert_log_grows, rows, run, scenario
from wmlab.core.errors import ModelError, RecordingError
from wmlab.core.simulation import Fixed
from wmlab.core.values import Problems
from wmlab.streams.model.position import ReaderPosition
from wmlab.streams.model.window import Tracker
from wmlab.streams.scenario import network, noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream

FAST = {"period_ms": 500, "session_timeout_ms": 2_000, "redistribute_every_ms": 1_000}
TWO = Controllers(2, buckets=4, **FAST)


def cycles(world, after_ms=0, **where):
    return [row for row in rows(world, "cycles", **where) if row["at_ms"] > after_ms]


def emitted(world, after_ms=0):
    return [row for row in rows(world, "watermarks") if row["emitted_ms"] > after_ms]


def owners(world):
    return [
        (row["controller"], row["from_ms"], row["to_ms"]) for row in world.shared.rows["ownership"] if row["streams"]
    ]


def test_every_controller_takes_notes_and_one_runs_the_cycle():
    world = run(controllers=Controllers(3, **FAST))
    takers = Counter(row["controller"] for row in rows(world, "writer_marks"))
    assert set(takers) == {"controller-0", "controller-1", "controller-2"}
    assert max(takers.values()) - min(takers.values()) <= 2
    assert len({row["controller"] for row in rows(world, "cycles")}) == 1


def test_the_number_of_controllers_does_not_change_the_bounds():
    one, three = run(), run(controllers=Controllers(3, period_ms=500, contact="random"))
    assert [row["lower"] for row in rows(one, "watermarks")] == [row["lower"] for row in rows(three, "watermarks")]


def test_the_first_cycle_waits_for_the_start_delay():
    world = run(controllers=Controllers(period_ms=500, start_delay_ms=3_000))
    assert cycles(world)[0]["at_ms"] == rows(world, "writer_marks")[0]["received_ms"] + 3_000


@pytest.mark.parametrize("point", ["before_append", "after_append"])
def test_c1_a_leader_crashes_around_its_append(point):
    """Row C1: the entry is there or not, the next leader continues."""
    world = run(controllers=TWO, script=[script.CrashController(at_ms=5_000, point=point)])
    crash = rows(world, "incidents", kind="crash")[0]
    at, victim = crash["at_ms"], crash["target"]
    assert bool([row for row in emitted(world) if row["emitted_ms"] == at]) is (point == "after_append")
    assert not cycles(world, at - 1, controller=victim)
    last_before = [row["lower"] for row in emitted(world) if row["emitted_ms"] <= at][-1]
    heir = next(row for row in cycles(world, at))
    assert heir["controller"] != victim
    assert heir["previous_lower"] == last_before
    assert emitted(world, heir["at_ms"])
    assert_log_grows(world)


def test_c1_the_pointer_stays_one_behind_until_somebody_moves_it():
    crash = script.CrashController(at_ms=5_000, point="after_append")
    world = run(controllers=Controllers(**FAST), script=[crash])
    log = world.stream(None).log
    assert [revision for revision, _ in log.entries].index(log.pointer) == len(log.entries) - 3


def test_a_crashed_controller_refuses_notes_and_the_writers_try_another():
    world = run(controllers=TWO, script=[script.CrashController(at_ms=5_000, controller="controller-1")])
    late = [row for row in rows(world, "writer_marks") if row["received_ms"] > 5_000]
    assert {row["controller"] for row in late} == {"controller-0"}
    assert {row["noted_ms"] for row in late if row["writer"] == "w1"} == set(range(5_000, 20_000, 1_000))


def test_c2_two_leaders_for_a_while_are_safe():
    """Row C2: the session is lost, both work until the old one notices; no lower is emitted twice."""
    world = run(controllers=TWO, script=[script.ExpireSession(at_ms=5_000, notice_after_ms=6_000)])
    both = {row["controller"] for row in cycles(world) if 8_000 < row["at_ms"] < 11_000}
    assert both == {"controller-0", "controller-1"}
    assert len({row["controller"] for row in cycles(world, 14_000)}) == 1
    assert_log_grows(world)


def test_c2_of_two_leaders_one_append_wins_and_the_other_gets_nothing():
    pause = script.PauseController(at_ms=5_000, for_ms=6_000, point="before_append")
    world = run(controllers=TWO, script=[pause])
    paused = rows(world, "incidents", kind="pause")[0]
    lost = rows(world, "cycles", reason="conflict: another leader appended first")
    assert [row["controller"] for row in lost] == [paused["target"]]
    assert lost[0]["outcome"] == "held"
    assert lost[0]["at_ms"] == paused["at_ms"]
    assert emitted(world, 8_000)
    assert_log_grows(world)


def test_c3_a_stale_reader_of_marks_leaves_a_live_writer_out():
    """Row C3: with timeout 0 a watermark can lie above a live writer's time; its mark is kept all the same."""
    fast = EventWriter("fast", rate_per_s=20, noting=noting.WallClock(), clock=Clock(skew_ms=30_000))
    slow = EventWriter("slow", rate_per_s=20, noting=noting.WallClock())
    world = run(
        stream=Stream(timestamp_aggregation_timeout_ms=0),
        writers=[fast, slow],
        controllers=Controllers(2, buckets=4, **{**FAST, "period_ms": 1_500}),
        script=[script.PauseController(at_ms=5_000, for_ms=6_000, point="after_marks")],
    )
    alone = [row for row in rows(world, "watermarks") if set(row["writers"]) == {"fast"}]
    assert [row for row in emitted(world) if set(row["writers"]) == {"fast", "slow"}]
    real = max(
        row["time"] for row in rows(world, "writer_marks", writer="slow") if row["noted_ms"] < alone[0]["emitted_ms"]
    )
    assert alone[0]["lower"] > real
    stale = next(row for row in cycles(world) if row["participating"] == ["fast"])
    assert stale["removed"] == []
    assert_log_grows(world)


def test_c5_a_bucket_without_owner_stops_time_and_loses_no_mark():
    """Row C5: time stands still, then resumes."""
    world = run(controllers=TWO, script=[script.LoseBucketOwner(at_ms=6_000, for_ms=5_000)])
    assert not [row for row in cycles(world) if 6_000 < row["at_ms"] < 11_000]
    first = emitted(world, 6_000)[0]
    assert first["emitted_ms"] == 11_500
    latest = {row["writer"]: row["time"] for row in rows(world, "writer_marks") if row["received_ms"] < 11_500}
    assert first["writers"] == latest
    gap = [(to, later) for (_, _, to), (_, later, _) in pairwise(owners(world))]
    assert gap == [(6_000, 11_000)]


def at(world, moment_ms):
    owned = [r for r in world.shared.rows["ownership"] if r["from_ms"] <= moment_ms < (r["to_ms"] or 10**9)]
    return {name: {r["bucket"] for r in owned if r["controller"] == name} for name in {r["controller"] for r in owned}}


def test_c6_buckets_stay_even_when_controllers_come_and_go():
    """Row C6: difference of one at most, each bucket once, no more moves than needed."""
    world = run(
        controllers=Controllers(2, buckets=11, **FAST),
        script=[
            script.AddController(at_ms=5_000),
            script.AddController(at_ms=9_000),
            script.RemoveController(at_ms=13_000, controller="controller-0"),
        ],
    )
    moments = {1: 2, 7_000: 3, 11_000: 4, 16_000: 3}
    for moment, count in moments.items():
        owned = at(world, moment)
        assert sorted(bucket for buckets in owned.values() for bucket in buckets) == list(range(11))
        sizes = sorted(map(len, owned.values()))
        assert len(sizes) == count
        assert sizes[-1] - sizes[0] <= 1
    before, after = at(world, 1), at(world, 7_000)
    assert all(after[name] <= before[name] for name in before)
    assert "controller-0" not in at(world, 16_000)
    assert emitted(world, 16_000)


CONTEST = Controllers(3, buckets=12, distribution="contest", **FAST)


def loads(world, at_ms):
    """How many buckets each controller owns at a moment."""
    owned = [
        row["controller"]
        for row in world.shared.rows["ownership"]
        if row["from_ms"] <= at_ms and (row["to_ms"] is None or row["to_ms"] > at_ms)
    ]
    return Counter(owned)


def test_in_a_contest_controllers_that_start_together_share_the_buckets_and_a_later_one_gets_none():
    world = run(controllers=CONTEST, script=[script.AddController(at_ms=5_000)])
    shares = loads(world, 15_000)
    assert sum(shares.values()) == 12
    assert set(shares) == {"controller-0", "controller-1", "controller-2"}
    assert "controller-3" in loads(run(controllers=replace(CONTEST, distribution="even"), script=[
        script.AddController(at_ms=5_000)]), 15_000)  # fmt: skip
    assert world.shared.rows["ownership"][0]["from_ms"] == 10
    assert_log_grows(world)


def test_in_a_contest_the_buckets_of_a_crashed_controller_go_to_whoever_is_first():
    world = run(controllers=CONTEST, script=[script.CrashController(at_ms=5_000, restart_after_ms=1_000)])
    victim = rows(world, "incidents", kind="crash")[0]["target"]
    lost = [row for row in world.shared.rows["ownership"] if row["controller"] == victim and row["to_ms"] is not None]
    assert {row["to_ms"] for row in lost} == {7_000}
    heirs = [row for row in world.shared.rows["ownership"] if row["from_ms"] >= 7_000]
    assert {row["bucket"] for row in heirs} == {row["bucket"] for row in lost}
    assert sum(loads(world, 15_000).values()) == 12
    assert emitted(world, 8_000)
    assert_log_grows(world)


def test_a_bucket_that_nobody_may_take_is_contested_again_when_it_can_be_owned():
    world = run(controllers=CONTEST, script=[script.LoseBucketOwner(at_ms=5_000, for_ms=4_000)])
    free, owned = owners(world)[-2:]
    assert (free[2], owned[1]) == (5_000, 9_010)
    assert emitted(world, 9_010)


def test_ownership_says_how_fair_it_is_and_when_nobody_owned_a_bucket():
    crash = script.CrashController(at_ms=5_000, controller="controller-0")
    contest = scenario(controllers=CONTEST, script=[crash, script.AddController(at_ms=5_500)]).record().ownership()
    assert list(contest.share) == [f"controller-{index}" for index in range(4)]
    assert sum(contest.share.values()) == pytest.approx(1)
    assert {(begin, end - begin <= 120) for _, begin, end in contest.gaps} == {(7_000, True)}
    assert f"fairness {contest.fairness:.2f}" in contest.sentence
    even = scenario(controllers=replace(CONTEST, distribution="even"), script=[]).record().ownership()
    assert (even.fairness, even.gaps) == (1.0, ())
    assert "no bucket was without an owner" in even.sentence
    with pytest.raises(RecordingError, match="one controller ran everything"):
        scenario().record().ownership()


def test_one_controller_that_owns_everything_all_the_time_is_not_written_down():
    assert run().shared.rows["ownership"] == []
    crash = script.CrashController(at_ms=5_000)
    assert {row["to_ms"] for row in run(script=[crash]).shared.rows["ownership"]} == {15_000}


def test_buckets_move_at_most_once_in_the_redistribution_period():
    slow = Controllers(1, buckets=8, period_ms=500)
    world = run(controllers=slow, script=[script.AddController(at_ms=1_000), script.AddController(at_ms=2_000)])
    moved = {row["from_ms"] for row in world.shared.rows["ownership"]}
    assert moved == {0, 10_000}


def test_c8_an_unavailable_store_fails_cycles_and_notes_until_it_is_back():
    """Row C8: nothing is lost but time, for writers try again."""
    world = run(script=[script.StoreUnavailable(at_ms=5_000, for_ms=2_200)])
    failed = rows(world, "cycles", reason="cycle failed: writer marks unavailable")
    assert {row["at_ms"] // 1_000 for row in failed} == {5, 6, 7}
    refused = [row for row in rows(world, "writer_marks") if row["outcome"] == "unavailable"]
    assert {row["noted_ms"] for row in refused} == {5_000, 6_000, 7_000}
    by_note = {
        at: [row["outcome"] for row in rows(world, "writer_marks", writer="w1", noted_ms=at)] for at in (6_000, 7_000)
    }
    assert set(by_note[7_000][:-1]) == {"unavailable"}
    assert {outcomes[-1] for outcomes in by_note.values()} <= {"success", "invalid time"}
    assert emitted(world, 7_300)


def test_c8_marks_that_are_read_one_by_one_are_of_different_moments():
    writers = [EventWriter(name, rate_per_s=20, noting=noting.WallClock(), note_every_ms=100) for name in "abc"]
    for span_ms, spread in ((0, {0}), (600, {400})):
        world = run(writers=writers, controllers=Controllers(period_ms=1_000, marks_read_ms=span_ms))
        assert {row["upper"] - row["lower"] for row in rows(world, "watermarks")} == spread
        assert_log_grows(world)


def test_c9_a_writer_that_reports_between_read_and_removal_is_kept():
    """Row C9: the removal is refused, the record stays, the writer is not in this watermark but in a later one."""
    writers = [EventWriter("w1", rate_per_s=50), EventWriter("w2", rate_per_s=50, note_every_ms=100)]

    def case(silent_ms, *more):
        silence = script.SilenceWriter(at_ms=6_000, writer="w2", for_ms=silent_ms)
        return run(writers=writers, controllers=TWO, script=[silence, *more])

    removal = next(row for row in cycles(case(None)) if row["removed"] == ["w2"])["at_ms"]
    pause = script.PauseController(at_ms=removal - 50, for_ms=400, point="before_removal")
    world = case(removal + 50 - 6_000, pause)
    late = next(row for row in cycles(world) if row["at_ms"] == removal)
    assert late["removed"] == []
    assert late["participating"] == ["w1"]
    assert late["outcome"] == "emitted"
    assert not [row for row in cycles(world) if row["removed"]]
    assert [set(row["writers"]) for row in emitted(world, removal)][:2] == [{"w1"}, {"w1", "w2"}]


def test_c10_a_missing_marks_segment_fails_cycles_and_drops_the_clocks():
    """Row C10: the client is built anew, so a lagging writer gets a fresh timeout."""
    lose = script.LoseMarksSegment(at_ms=9_000, for_ms=1_000)
    world = run(script=[script.CrashWriter(at_ms=6_000, writer="w2"), lose])
    failed = rows(world, "cycles", reason="cycle failed: no such marks segment")
    assert {row["at_ms"] // 100 for row in failed} == {90, 95}
    removal = next(row for row in cycles(world) if row["removed"] == ["w2"])
    first_back = next(row for row in cycles(world, 10_000))
    assert removal["at_ms"] - first_back["at_ms"] == 5_000


@pytest.mark.parametrize(("keep", "goes_on"), [(5, True), (1, True), (0, False)])
def test_c10_a_truncated_log_matters_only_beyond_the_mark_pointer(keep, goes_on):
    world = run(script=[script.TruncateMarks(at_ms=9_100, keep=keep)])
    assert bool(emitted(world, 9_200)) is goes_on
    failed = rows(world, "cycles", reason="cycle failed: mark pointer before the start of the marks segment")
    assert bool(failed) is not goes_on
    lowers = [row["lower"] for row in rows(world, "windows", reader="readers-0") if row["lower"] is not None]
    assert lowers == sorted(lowers)
    assert (lowers[-1] > 15_000) is goes_on


@pytest.mark.parametrize("doubled", [False, True])
def test_c11_two_work_entries_of_one_stream_are_safe(doubled):
    """Row C11: the stream leaves its bucket and comes back within a period; with the fault it is worked on twice."""
    part = Controllers(period_ms=1_000, double_work_entry=doubled)
    writer = EventWriter("w", rate_per_s=20, note_every_ms=2_500)
    world = run(writers=[writer], stream=Stream(timestamp_aggregation_timeout_ms=0), controllers=part)
    gaps = [later["at_ms"] - earlier["at_ms"] for earlier, later in pairwise(cycles(world))]
    assert (min(gaps) < 1_000) is doubled
    assert_log_grows(world)


def test_c12_a_new_reader_of_a_long_log_reads_all_of_it():
    """Row C12: start-up is linear in the log, and the late reader ends where the early one is."""
    groups = (ReaderGroup("early"), ReaderGroup("late", starts_ms=17_000))
    world = run(readers=groups, controllers=Controllers(period_ms=20), writers=[
        EventWriter("w", rate_per_s=50, noting=noting.WallClock(), note_every_ms=20)
    ])  # fmt: skip
    assert len(world.stream(None).log.entries) > 800
    last = {row["group"]: (row["lower"], row["upper"]) for row in rows(world, "windows")}
    assert last["early"] == last["late"]
    stream = world.stream(None)
    end = ReaderPosition(finished=stream.history.active.ids)
    tracker = Tracker().advance(end, stream.log, stream.history.segments)
    assert tracker.fetched == len(stream.log.entries)


def test_a_paused_controller_answers_when_it_goes_on():
    world = run(script=[script.PauseController(at_ms=5_500, for_ms=2_000, controller="controller-0")])
    assert not [row for row in rows(world, "writer_marks") if 5_500 < row["received_ms"] < 7_500]
    late = {row["noted_ms"] for row in rows(world, "writer_marks") if row["received_ms"] == 7_500}
    assert late == {6_000, 7_000}
    assert not [row for row in cycles(world) if 5_500 < row["at_ms"] < 7_500]


def test_a_controller_cut_off_from_the_coordinator_is_a_second_leader_until_it_is_back():
    cut = script.Partition(at_ms=5_000, a="controller-0", b="coordinator", for_ms=9_000)
    one = Controllers(2, buckets=1, **FAST)
    world = run(controllers=one, script=[cut])
    assert {row["controller"] for row in cycles(world) if 9_000 < row["at_ms"] < 14_000} == {
        "controller-0",
        "controller-1",
    }
    assert [row[:2] for row in owners(world)][:2] == [("controller-0", 0), ("controller-1", 7_000)]
    assert len({row["controller"] for row in cycles(world, 15_000)}) == 1
    assert_log_grows(world)


def test_a_controller_cut_off_from_the_stores_fails_its_cycles():
    cut = script.Partition(at_ms=5_000, a="controllers", b="segment-store", for_ms=2_000)
    reasons = {row["reason"] for row in cycles(run(script=[cut])) if 5_000 < row["at_ms"] < 7_000}
    assert reasons == {"cycle failed: segment store unavailable"}


def test_a_restarted_controller_waits_for_its_own_old_session_to_end():
    world = run(controllers=Controllers(**FAST), script=[script.CrashController(at_ms=5_000, restart_after_ms=300)])
    assert owners(world) == [("controller-0", 0, 7_000), ("controller-0", 7_000, None)]
    assert not [row for row in cycles(world) if 5_000 < row["at_ms"] < 7_500]
    assert rows(world, "writer_marks", controller="controller-0", noted_ms=6_000)


def test_a_session_that_ends_during_a_pause_is_noticed_after_it():
    actions = [script.PauseController(at_ms=5_000, for_ms=4_000), script.ExpireSession(at_ms=5_500, notice_after_ms=1)]
    world = run(controllers=Controllers(**FAST), script=actions)
    assert [row[1:] for row in owners(world)] == [(0, 5_500), (9_000, None)]
    assert emitted(world, 9_500)


def test_a_controller_that_has_left_does_not_come_back():
    actions = [
        script.CrashController(at_ms=4_000, controller="controller-1", restart_after_ms=4_000),
        script.RemoveController(at_ms=6_000, controller="controller-1"),
    ]
    world = run(controllers=TWO, script=actions)
    assert not rows(world, "incidents", kind="restart")
    assert "controller-1" not in at(world, 12_000)


def test_the_steps_of_a_cycle_are_messages_too():
    world = run(network=Network(inside=Fixed(10), keep_messages=True), controllers=TWO)
    kinds = {row["kind"] for row in world.shared.rows["messages"] if row["receiver"] == "metadata-store"}
    assert kinds == {"join bucket", "read mark", "write mark", "read marks", "read epochs"}
    first = rows(world, "cycles", outcome="emitted")[0]
    assert emitted(world)[0]["emitted_ms"] - first["at_ms"] == 7 * 10


def test_a_fleet_has_no_more_clocks_than_controllers():
    with pytest.raises(Problems, match="2 clocks for 1 controllers"):
        Controllers(clocks=[Clock(), Clock()])


SPLIT = script.Scale(at_ms=6_000, seal=["0@0"])


@pytest.fixture(scope="module")
def recording():
    return scenario(script=[SPLIT]).record(progress=False)


def test_every_watermark_has_a_record_of_where_it_begins():
    world = run(script=[SPLIT])
    marks, records = rows(world, "watermarks"), rows(world, "watermark_index")
    assert [record["time"] for record in records] == [mark["lower"] for mark in marks]
    assert [record["offset"] for record in records] == [0, *(mark["revision"] for mark in marks)][:-1]
    assert not any(record["recovered"] for record in records)
    assert len(world.stream(None).index.content) == 16 * len(marks)


def test_a_crash_between_the_appends_leaves_the_index_short_until_the_next_leader_repairs_it():
    fleet = Controllers(3, period_ms=500, session_timeout_ms=2_000, redistribute_every_ms=500)
    world = run(controllers=fleet, script=[script.CrashController(at_ms=7_000, point="after_append")])
    (crash,) = rows(world, "incidents", kind="crash")
    marks, records = rows(world, "watermarks"), rows(world, "watermark_index")
    (late,) = [record for record in records if record["recovered"]]
    (lost,) = [mark for mark in marks if mark["emitted_ms"] == crash["at_ms"]]
    assert late["time"] == lost["lower"]
    assert late["controller"] != lost["controller"] == crash["target"]
    assert late["appended_ms"] > crash["at_ms"] + 2_000
    assert not [mark for mark in marks if crash["at_ms"] < mark["emitted_ms"] < late["appended_ms"]]
    assert [record["time"] for record in records] == [mark["lower"] for mark in marks]


def test_two_leaders_write_every_record_once():
    expire = script.ExpireSession(at_ms=6_000, notice_after_ms=6_000)
    fleet = Controllers(2, period_ms=500, session_timeout_ms=2_000, redistribute_every_ms=500)
    world = run(controllers=fleet, network=Network(inside=network.Fixed(3)), script=[expire])
    assert len({row["controller"] for row in rows(world, "watermarks")}) == 2
    marks, records = rows(world, "watermarks"), rows(world, "watermark_index")
    assert [record["time"] for record in records] == [mark["lower"] for mark in marks]
    assert [record["place"] for record in records] == list(range(len(marks)))


def test_a_time_gives_the_cut_of_the_last_watermark_not_beyond_it(recording):
    marks = recording.table("watermarks").to_pylist()
    for earlier, later in pairwise(marks):
        for time in (earlier["lower"], later["lower"] - 1):
            assert dict(recording.stream_cut_at(time)) == dict(earlier["cut"])
    assert recording.stream_cut_at(marks[0]["lower"] - 1) is None
    assert dict(recording.stream_cut_at(10**15)) == dict(marks[-1]["cut"])


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
