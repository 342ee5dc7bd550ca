"""What writers can do wrong, and what becomes of the bounds: one test for each known failure of a writer.

In the scripted runs the first note arrives at 1,005 ms, so that cycles run at 1,505, 2,005, 2,505 ms and so on.
"""

from itertools import pairwise

import pytest

from tests.streams.sim.worlds import FOUR, clocked, cut_of, noted, run, scripted
from wmlab.streams.model.marks import positions_ordered
from wmlab.streams.model.position import Position
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

MAX, MIN = 2**63 - 1, -(2**63)
BOTH_AT_10 = (noted(1_000, "a", 10, {"0@0": 5}), noted(1_000, "b", 10, {"0@0": 6}))


def test_w1_a_crashed_writer_blocks_until_its_timeout_counted_from_the_first_cycle_that_missed_it():
    world = run(script=[script.CrashWriter(at_ms=8_000, writer="w2")])
    waits_ms = next(row["at_ms"] for row in world.rows("cycles", 7_999) if "w2" in row["lagging"])
    assert world.removals() == [(waits_ms + 5_000, ["w2"])]
    assert world.rows("watermarks", waits_ms - 1)[0]["emitted_ms"] >= waits_ms + 5_000


@pytest.mark.parametrize(
    ("timeout_from", "removed_ms"),
    [("first_behind", 2_005 + 3_000), ("last_note", 1_005 + 3_000), ("earlier", 1_005 + 3_000)],
)
def test_a_writer_behind_is_forgotten_one_timeout_after_its_last_note_or_after_it_was_first_found_behind(
    timeout_from, removed_ms
):
    others = [noted(1_600 + 500 * n, "a", 20 + n) for n in range(12)]
    world = scripted(*BOTH_AT_10, *others, timeout_ms=3_000, rules=Rules(timeout_from=timeout_from))
    assert world.removals()[0] == (removed_ms, ["b"])
    assert "b" not in world.rows("watermarks", removed_ms - 1)[0]["writers"]


@pytest.mark.parametrize("timeout_from", ["first_behind", "last_note", "earlier"])
def test_a_writer_ahead_of_the_lower_bound_is_not_forgotten_before_that_has_passed_it(timeout_from):
    others = [noted(2_000 + 500 * n, "a", 20 + n) for n in range(12)]
    ahead = noted(1_000, "b", 1_000)
    world = scripted(noted(1_000, "a", 10), ahead, *others, timeout_ms=2_000, rules=Rules(timeout_from=timeout_from))
    assert world.removals() == []
    assert {row["writers"]["b"] for row in world.rows("watermarks")} == {1_000}


@pytest.mark.parametrize("timeout_from", ["first_behind", "last_note", "earlier"])
@pytest.mark.parametrize("goes", [None, script.ShutDownWriter(at_ms=1_800, writer="b")])
def test_in_the_document_a_writer_is_forgotten_though_it_is_ahead_and_the_upper_bound_falls(timeout_from, goes):
    """PDP-33, Config Changes ("will be forgotten") and Internal Changes ("no longer needs to be considered")."""
    others = [noted(1_600 + 500 * n, "a", 20 + n) for n in range(12)]
    gone = [] if goes is None else [goes]
    rules = Rules(timeout_from=timeout_from, forgets="all")
    world = scripted(noted(1_000, "a", 10), noted(1_000, "b", 1_000), *others, *gone, timeout_ms=2_000, rules=rules)
    # Its note was received at 1 005 ms; the cycle of 3 005 ms is the first one after the timeout.
    forgotten_ms = 3_005 if goes is None else 2_005
    assert world.removals()[0] == (forgotten_ms, ["b"])
    for row in world.rows("watermarks"):
        counts = row["emitted_ms"] < forgotten_ms
        assert (row["upper"] == 1_000, "b" in row["writers"]) == (counts, counts)
    assert world.rows("watermarks")[-1]["upper"] < 100


@pytest.mark.parametrize("noted_ms", [1_700, 2_600])
def test_in_the_document_the_last_writers_of_a_generation_make_its_watermark_and_are_then_forgotten(noted_ms):
    """PDP-33, Periodic Watermark Workflow ("within one timeout period"), where both fall silent, together or not."""
    silent = [noted(1_000, "a", 10), noted(1_000, "b", 20), noted(1_600, "a", 40), noted(noted_ms, "b", 30)]
    world = scripted(*silent, timeout_ms=2_000, rules=Rules(timeout_from="earlier", forgets="all"))
    assert [time for _, time in world.emitted()] == ([10, 30, 40] if noted_ms == 1_700 else [10, 20, 30, 40])
    (last_ms, _), *_ = world.emitted()[::-1]
    assert world.removals() == [(last_ms, ["a", "b"])]
    assert last_ms < noted_ms + 2_000 + 600


def test_the_rules_of_the_design_forget_all_and_the_others_those_behind():
    chosen = {rules: run(rules=rules, duration_ms=100).scenario.options["forgets"] for rules in Rules.sets}
    assert chosen == {"design": "all", "implementation": "behind", "sound": "behind"}


def test_w2_a_pause_below_the_timeout_costs_a_wait_and_then_all_count():
    world = scripted(*BOTH_AT_10, noted(1_600, "a", 30), noted(2_700, "b", 20), timeout_ms=2_000)
    assert world.held()[:2] == ["waits for b (last noted 10 ms, previous lower bound 10 ms)"] * 2
    assert world.emitted()[:2] == [(1_505, 10), (3_005, 20)]
    assert world.rows("watermarks")[1]["writers"] == {"a": 30, "b": 20}


def test_w3_a_writer_that_shuts_down_beyond_the_previous_bound_counts_once_more_and_is_removed():
    shut_down = script.ShutDownWriter(at_ms=1_800, writer="b")
    world = scripted(*BOTH_AT_10, noted(1_600, "a", 30), noted(1_600, "b", 20), shut_down, noted(2_100, "a", 40))
    assert world.emitted()[:3] == [(1_505, 10), (2_005, 20), (2_505, 40)]
    assert world.rows("watermarks")[1]["writers"] == {"a": 30, "b": 20}
    assert world.removals()[0] == (2_505, ["b"])
    assert world.column("writer_shutdowns", "outcome") == ["ok"]


def test_w3_a_writer_that_shuts_down_behind_the_previous_bound_is_removed_without_a_wait():
    world = scripted(*BOTH_AT_10, script.ShutDownWriter(at_ms=1_600, writer="b"), noted(1_700, "a", 20))
    assert world.removals()[0] == (2_005, ["b"])
    assert world.emitted()[:2] == [(1_505, 10), (2_005, 20)]


def test_w4_shutting_down_an_unknown_writer_changes_nothing():
    world = scripted(script.ShutDownWriter(at_ms=500, writer="b"), noted(1_000, "a", 10))
    assert world.column("writer_shutdowns", "outcome") == ["unknown writer"]
    assert list(world.rows("watermarks")[0]["writers"]) == ["a"]


def test_w5_a_dropped_writer_that_goes_on_writing_makes_late_events():
    stream = Stream(segments=2, timestamp_aggregation_timeout_ms=2_000)
    calm, silent = (run(stream=stream, script=it) for it in ([], [script.SilenceWriter(at_ms=3_000, writer="w2")]))
    assert calm.late_events() == 0
    assert silent.late_events() > 50


def test_w6_a_dropped_writer_that_returns_behind_the_previous_bound_blocks_for_one_timeout():
    world = scripted(*BOTH_AT_10, noted(1_600, "a", 20), noted(4_000, "b", 15), noted(4_100, "a", 30))
    assert world.outcomes(writer="b") == ["success", "success"]
    assert [(at, who) for at, who in world.removals() if "b" in who] == [(3_005, ["b"]), (5_505, ["b"])]
    assert world.emitted() == [(1_505, 10), (3_005, 20), (5_505, 30)]


def test_w7_a_dropped_writer_that_returns_beyond_the_previous_bound_takes_part_even_with_a_smaller_position():
    world = scripted(*BOTH_AT_10, noted(1_600, "a", 20), noted(4_000, "b", 25, {"0@0": 1}), noted(4_000, "a", 30))
    assert world.outcomes(writer="b") == ["success", "success"]
    assert {"a": 30, "b": 25} in world.column("watermarks", "writers")
    world.assert_sound()


def test_w8_a_time_that_goes_back_is_refused_one_that_stays_is_not_and_one_far_ahead_shows_in_the_upper_bound():
    notes = noted(1_600, "a", 9), noted(1_700, "a", 10), noted(2_600, "a", 10**12), noted(2_600, "b", 20)
    world = scripted(*BOTH_AT_10, *notes)
    assert world.column("writer_marks", "outcome", writer="a") == ["success", "invalid time", "success", "success"]
    assert not world.rows("errors")
    assert world.held()[0].startswith("waits for a (last noted 10 ms, previous lower bound 10 ms)")
    assert world.bounds()[:2] == [(10, 10), (20, 10**12)]


def test_w9_the_largest_time_as_lower_bound_ends_all_watermarks():
    top = (noted(1_000, "a", MAX), noted(1_000, "b", MAX))
    world = scripted(*top, noted(1_600, "a", 100), noted(6_000, "a", 100), noted(6_000, "b", 200))
    assert world.outcomes(writer="a") == ["success", "invalid time", "success"]
    assert world.column("watermarks", "lower") == world.column("watermarks", "upper") == [MAX]


@pytest.mark.parametrize("time", [0, -5])
def test_w10_zero_and_negative_times_are_times(time):
    assert scripted(noted(1_000, "a", time), noted(1_000, "b", 10)).bounds()[0] == (time, 10)


def test_w10_the_smallest_time_blocks_the_first_watermark_for_ever():
    world = scripted(noted(1_000, "a", MIN), *(noted(at, "b", at) for at in range(1_000, 9_000, 500)))
    assert not world.bounds()
    assert set(world.held()) == {"time not advanced"}
    assert not world.removals()


def test_w11_a_position_that_goes_back_is_refused_where_it_can_be_compared():
    world = scripted(*BOTH_AT_10, noted(1_600, "a", 20, {"0@0": 4}))
    assert world.outcomes(writer="a") == ["success", "invalid position"]


def test_w11_a_position_without_a_common_segment_is_accepted_and_the_cut_does_not_go_back():
    split = script.Scale(at_ms=100, seal=["0@0"])
    marks = (noted(1_000, "a", 10, {"1@1": 50, "2@1": 60}), noted(1_600, "a", 20, {"0@0": 5}))
    world = scripted(split, *marks, writers="a")
    assert world.outcomes(writer="a") == ["success", "success"]
    assert world.rows("watermarks")[1]["cut"] == cut_of(_1_1=50, _2_1=60)
    world.assert_sound()


def test_w12_an_empty_position_alone_makes_the_cycle_fail():
    world = scripted(noted(1_000, "a", 10, {}), writers="a")
    assert not world.bounds()
    assert set(world.held()) == {"cut failed: no positions"}


def test_w12_an_empty_position_beside_others_counts_with_its_time():
    world = scripted(noted(1_000, "a", 10, {}), noted(1_000, "b", 20, {"0@0": 7}))
    assert world.bounds()[0] == (10, 20)
    assert world.rows("watermarks")[0]["cut"] == {0: 7}


def test_w13_an_unknown_segment_makes_every_cycle_fail_until_the_mark_is_replaced():
    marks = (noted(1_000, "a", 10, {"9@9": 5}), noted(1_000, "b", 10, {"0@0": 5}), noted(4_000, "a", 20, {"0@0": 5}))
    world = scripted(*marks)
    assert world.held()[:6] == ["cut failed: unknown segment 9@9"] * 6
    assert world.emitted()[0] == (4_505, 10)


HISTORY = (script.Scale(at_ms=100, seal=["0@0", "1@0"], into=1), script.Scale(at_ms=200, seal=["2@1"], into=2))


@pytest.mark.parametrize("algorithm", ["sound", "pravega"])
def test_w14_gaps_are_filled_at_the_start_from_the_newest_epoch(algorithm):
    case = {"stream": {"segments": 2}, "rules": Rules(cut_algorithm=algorithm)}
    world = scripted(*HISTORY, noted(1_000, "a", 10, {"4@2": 5}), writers="a", **case)
    assert world.rows("watermarks")[0]["cut"] == cut_of(_3_2=0, _4_2=5)


@pytest.mark.parametrize(("bug", "offset", "lower"), [(True, None, {None}), (False, 0, {None, 10})])
def test_w15_a_segment_without_acknowledgement_is_its_start_or_with_the_bug_its_end(bug, offset, lower):
    world = scripted(noted(1_000, "a", 10, {"0@0": None}), writers="a", rules=Rules(bug_6510=bug))
    assert world.rows("watermarks")[0]["cut"] == {0: offset}
    assert set(world.column("windows", "lower")) == lower


@pytest.mark.parametrize("flush", [True, False])
def test_w16_noting_the_clock_without_a_flush_leaves_events_in_flight_behind_the_cut(flush):
    writer = clocked(rate_per_s=200, flush_before_note=flush, note_every_ms=730)
    world = run(writers=[writer], latency_ms=40)
    assert (world.late_events() == 0) is flush
    assert len(world.bounds()) > 20


@pytest.mark.parametrize("load", ["moves", "copied"])
def test_w17_of_two_processes_with_one_id_the_one_behind_is_refused_and_no_mark_mixes_them(load):
    twin = script.DuplicateWriter(at_ms=5_000, writer="w1", load=load)
    world = run(writers=[EventWriter("w1", rate_per_s=80), EventWriter("w2", rate_per_s=80)], script=[twin])
    marks = world.rows("writer_marks", writer="w1")
    after = {(row["process"], row["outcome"]) for row in marks if row["noted_ms"] > 5_000}
    assert {process for process, _ in after} == {"w1", "w1/2"}
    assert ("w1", "invalid position") in after or load == "copied"
    for earlier, later in pairwise(world.rows("writer_marks", writer="w1", outcome="success")):
        assert earlier["time"] <= later["time"]
        assert positions_ordered(Position(earlier["position"]), Position(later["position"]))
    world.assert_sound()


@pytest.mark.parametrize("silent", [{"note_every_ms": None}, {"noting": noting.Never()}], ids=["no period", "no time"])
def test_w22_when_nobody_notes_there_is_nothing(silent):
    world = run(writers=[EventWriter(name, rate_per_s=50, **silent) for name in "ab"])
    assert not world.rows("cycles")
    assert not world.bounds()
    assert {(row["lower"], row["upper"]) for row in world.rows("windows")} == {(None, None)}


def widest(timeout_ms):
    """The widest window of readers while a writer goes on writing and notes nothing any more."""
    silent = script.SilenceWriter(at_ms=5_000, writer="b")
    stream = Stream(segments=1, timestamp_aggregation_timeout_ms=timeout_ms)
    readers = ReaderGroup(rate_per_s=80.0)
    world = run(
        stream=stream, writers=[clocked("a"), clocked("b")], readers=readers, script=[silent], duration_ms=30_000
    )
    known = [row for row in world.rows("windows") if None not in (row["lower"], row["upper"])]
    return max(row["upper"] - row["lower"] for row in known)


def test_the_larger_the_timeout_the_wider_is_the_widest_window():
    """PDP-33, "Event Reader API Changes": the timeout decides how conservative an application is."""
    widths = [widest(timeout_ms) for timeout_ms in (2_000, 4_000, 8_000)]
    assert widths == [1_000, 4_000, 8_000]


def test_the_upper_bound_is_loose_while_a_writer_does_not_note():
    """PDP-33, "Time window bounds may not be tight"."""

    def uncertainties(*actions):
        world = run(
            stream=FOUR, writers=[clocked("a"), clocked("b")], readers=ReaderGroup(rate_per_s=80.0), script=actions
        )
        known = [row for row in world.rows("windows", 8_000, 17_000) if None not in (row["lower"], row["upper"])]
        return [row["upper"] - row["lower"] for row in known]

    silent = script.SilenceWriter(at_ms=8_000, writer="b", for_ms=4_000)
    assert max(uncertainties()) == 2_000
    assert max(uncertainties(silent)) == 6_000
    assert uncertainties(silent)[-1] == 2_000
