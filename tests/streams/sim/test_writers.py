"""Writers: their clocks and loads, batched appends, positions from acknowledgements, seals, crashes, silence."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.streams.sim.worlds import run, scenario
from wmlab.streams.model.segment import KeyRange, Segment
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.clocks import LocalClock
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, Stream
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.sim.load import Backlog, Load, Routes, time_to_note
from wmlab.streams.sim.stores import StoredSegment

MANY = 10_000


def backlog(happens):
    load = Load.of(np.array(happens, np.int64), np.array(happens, np.int64), np.zeros(len(happens), np.uint64))
    # At 500 ms the clock is set back, so that later events have smaller times.
    return Backlog((load,), LocalClock(0, Clock(), ((500, -400),)), start_ms=0, batch_ms=1)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 1_000), max_size=30), st.data())
def test_the_times_are_those_of_the_events_however_often_they_are_asked_for(happens, data):
    found = backlog(happens)
    sizes = sorted(data.draw(st.sets(st.integers(0, len(happens)))) | {0})
    taken = found.take(2_000)
    times = found.times_of(np.arange(len(happens)))
    for begin, end in pairwise([0, *sizes]):
        found.acknowledge(taken[begin:end])
        if data.draw(st.booleans()):
            known, open_events = times[taken[:end]].tolist(), times[end:].tolist()
            assert found.acknowledged_times == ((known[-1], max(known)) if known else (None, None))
            assert found.earliest_open(1_000) == (open_events[0] if open_events else None)


def test_the_times_of_many_acknowledgements_are_kept_though_nobody_asks():
    found = backlog(np.arange(MANY))
    for event in found.take(MANY):
        found.acknowledge(np.array([event]))
    assert found.acknowledged_times == (MANY - 401, MANY - 401)
    assert found.earliest_open(MANY) is None


@pytest.mark.parametrize("segments", [1, 2, 3, 300])
def test_a_batch_is_split_by_key_and_keeps_its_order(segments):
    parts = [Segment(n, 0, KeyRange.parse(f"{n}/{segments}..{n + 1}/{segments}")) for n in range(segments)]
    keys = np.random.default_rng(1).integers(0, 2**64, 1_000, dtype=np.uint64)
    events = np.arange(5_000, 6_000)
    split = dict(Routes.of(parts).split(keys, events))
    expected = {n: events[[int(key) * segments >> 64 == n for key in keys]].tolist() for n in range(segments)}
    assert {segment_id: part.tolist() for segment_id, part in split.items()} == {n: e for n, e in expected.items() if e}
    assert list(split) == sorted(split)


def test_a_segment_that_is_reached_by_several_routes_gets_one_batch_in_order():
    left, right = (Segment(n, 0, KeyRange.parse(keys)) for n, keys in enumerate(("0..1/2", "1/2..1")))
    merged = Segment(2, 1, KeyRange.parse("0..1"))
    routes = Routes.of([left, right]).replace(0, [merged]).replace(1, [merged])
    keys = np.array([2**63 + 1, 5, 2**63 + 2, 7], np.uint64)
    ((segment_id, events),) = routes.split(keys, np.arange(4))
    assert (segment_id, events.tolist()) == (merged.id, [0, 1, 2, 3])


STEPS = [script.StepClock(at_ms=400, party="w1", by_ms=-50), script.StepClock(at_ms=200, party="w1", by_ms=1_000)]


def test_a_clock_shows_time_plus_skew_drift_and_steps():
    case = scenario(start_ms=10_000, script=[*STEPS, script.StepClock(at_ms=1, party="w2", by_ms=7)])
    clock = LocalClock.of(case, "w1", Clock(skew_ms=5, drift_ppm=10_000))
    expected = {10_000: 10_005, 10_199: 10_205, 10_200: 11_207, 10_399: 11_407, 10_400: 11_359, 11_000: 11_965}
    assert {now: clock.read(now) for now in expected} == expected
    assert clock.read_all(np.array(list(expected), np.int64)).tolist() == list(expected.values())


@pytest.mark.parametrize("ppm", [-300, 0, 1_000_000])
def test_many_times_are_read_like_one(ppm):
    clock = LocalClock.of(scenario(script=STEPS), "w1", Clock(skew_ms=-3, drift_ppm=ppm))
    times = np.arange(0, 5_000, 7, dtype=np.int64)
    assert clock.read_all(times).tolist() == [clock.read(int(now)) for now in times]


def test_w20_the_slowest_clock_gives_the_lower_bound():
    """Row W20: in automatic mode lower is the slowest clock's; the slack is its lag plus the noting period."""
    writers = [
        EventWriter("fast", rate_per_s=100, noting=noting.WallClock(), clock=Clock(skew_ms=800)),
        EventWriter("slow", rate_per_s=100, noting=noting.WallClock(), clock=Clock(skew_ms=-700)),
    ]
    for watermark in run(writers=writers).rows("watermarks"):
        assert watermark["lower"] == watermark["writers"]["slow"]
        assert watermark["upper"] - watermark["lower"] == 1_500
        assert 700 <= watermark["emitted_ms"] - watermark["lower"] <= 700 + 1_000 + 500


def test_a_writer_whose_clock_is_set_back_is_refused_until_it_has_caught_up():
    writer = EventWriter("w", rate_per_s=10, noting=noting.WallClock())
    world = run(writers=[writer], script=[script.StepClock(at_ms=5_500, party="w", by_ms=-3_000)])
    assert world.column("writer_marks", "noted_ms", outcome="invalid time") == [6_000, 7_000]
    assert world.rows("incidents")[0]["detail"] == "clock of w set back by 3 s"


@pytest.mark.parametrize(("by_ms", "waited_ms"), [(0, 5_000), (2_500, 2_500), (-6_000, 11_000)])
def test_c7_a_controllers_clock_measures_the_timeout(by_ms, waited_ms):
    """Row C7: a wall clock set forward times a writer out early, one set back late."""
    steps = [script.StepClock(at_ms=5_800, party="controller-0", by_ms=by_ms)] if by_ms else []
    world = run(
        stream=Stream(timestamp_aggregation_timeout_ms=5_000),
        controllers=Controllers(period_ms=500, clocks=[Clock(skew_ms=123)]),
        script=[script.CrashWriter(at_ms=4_000, writer="w2"), *steps],
    )
    waits = world.column("cycles", "at_ms", 4_000, lagging=["w2"])
    removal = next(row["at_ms"] for row in world.rows("cycles") if row["removed"] == ["w2"])
    assert waits[0] < 5_800
    assert removal - waits[0] == waited_ms


def test_c7_periods_jitter_within_their_limit():
    world = run(controllers=Controllers(period_ms=500, period_jitter_ms=300))
    gaps = {later - earlier for earlier, later in pairwise(world.column("cycles", "at_ms"))}
    assert len(gaps) > 10
    assert 500 <= min(gaps) <= max(gaps) <= 800


CLOCK = LocalClock(0, Clock(skew_ms=50))
KNOWN = {"clock": CLOCK, "time_of": lambda shown: shown}
ALL = SimpleNamespace(**KNOWN, earliest_open=lambda now_ms: now_ms + 20, acknowledged_times=(80, 90))
NOTHING = SimpleNamespace(**KNOWN, earliest_open=lambda _: None, acknowledged_times=(None, None))


@pytest.mark.parametrize(
    ("policy", "knows_all", "knows_nothing"),
    [
        (noting.EarliestOpen(), 70, 100),
        (noting.WallClock(), 100, 100),
        (noting.LastEventTime(), 80, None),
        (noting.MaxMinusSlack(15), 75, None),
        (noting.Never(), None, None),
    ],
)
def test_a_policy_chooses_the_time_to_note(policy, knows_all, knows_nothing):
    assert time_to_note(policy, ALL, 50) == knows_all
    assert time_to_note(policy, NOTHING, 50) == knows_nothing


def test_an_event_occupies_its_header_and_its_payload_and_there_are_no_gaps():
    world = run(writers=[EventWriter("w", rate_per_s=50, event_bytes=92)])
    for segment_id, stored in world.stream().store.items():
        offsets = world.events.offset[world.events.segment_id == segment_id]
        assert offsets.tolist() == list(range(100, stored.length + 1, 100))


def trace(*events):
    happens, arrives = zip(*events, strict=True)
    return Load.of(np.array(happens, np.int64), np.array(arrives, np.int64), np.zeros(len(events), np.uint64))


def replay(load, *actions, latency_ms=5, **fields):
    writer = EventWriter("w", trace="log", batch_ms=1, note_every_ms=1_000, **fields)
    world = run({"w": load}, writers=[writer], stream=Stream(), script=actions, latency_ms=latency_ms)
    return world, {row["noted_ms"]: row for row in world.rows("writer_marks")}


def test_a_position_covers_only_what_is_acknowledged():
    # The event that arrives at 995 is stored at 1,015 and acknowledged at 1,035: in flight when the time is noted.
    _, marks = replay(trace((100, 200), (900, 995)), latency_ms=20)
    assert marks[1_000]["position"] == {0: 108}
    assert marks[2_000]["position"] == {0: 216}


def test_the_earliest_open_event_holds_the_noted_time_until_it_is_acknowledged():
    _, marks = replay(trace((100, 200), (900, 2_990), (1_500, 1_600)), latency_ms=20)
    assert {at: mark["time"] for at, mark in marks.items() if at <= 4_000} == {
        1_000: 900,
        2_000: 900,
        3_000: 900,
        4_000: 4_000,
    }


def test_nothing_acknowledged_is_unknown_not_zero():
    _, marks = replay(trace((100, 5_000)))
    assert marks[1_000]["position"] == {0: None}


def test_a_skewed_clock_stamps_events_and_notes():
    world = run(writers=[EventWriter("w", rate_per_s=100, clock=Clock(skew_ms=-700), noting=noting.WallClock())])
    assert world.rows("writer_marks")[0]["time"] == 1_000 - 700
    assert min(time for time, _ in world.events_of("w")) < 0


def test_a_seal_is_met_by_an_append_and_both_sides_stand_in_the_position_meanwhile():
    split = script.Scale(at_ms=5_000, seal=["0@0"])
    world = run(script=[split], writers=[EventWriter("w", rate_per_s=500, note_every_ms=5)])
    held = [set(mark["position"]) for mark in world.rows("writer_marks")]
    assert held[0] == {0, 1}
    new = {segment.id for segment in world.stream().history.active.segments} - {0, 1}
    assert {0, 1} | new in held
    assert held[-1] == {1} | new


@pytest.mark.parametrize("keys", ["0..1", "0..1/2"])
def test_a_writer_that_does_not_probe_stays_in_a_sealed_segment_until_it_writes_there(keys):
    """PDP-33, "Watermark Computation": the position (1/off1, 2/off2), which is not a stream cut."""
    case = {
        "stream": Stream(segments=2),
        "writers": [EventWriter("w", rate_per_s=100, keys=keys, note_every_ms=500, batch_ms=50)],
        "script": [script.Scale(at_ms=5_000, seal=["0@0", "1@0"], into=["0..3/5", "3/5..1"])],
        "duration_ms": 8_000,
    }
    probing, waiting = run(**case), run(**case, rules=Rules(probe_on_seal=False))
    two, three = (segment.id for segment in probing.stream().history.active.segments)
    assert set(probing.rows("writer_marks")[-1]["position"]) == {two, three}
    assert set(waiting.rows("writer_marks")[-1]["position"]) == ({1, two} if keys == "0..1/2" else {two, three})
    assert waiting.rows("watermarks")[-1]["cut"].keys() == {two, three}
    waiting.assert_sound()
    assert waiting.late_events() == 0


@pytest.mark.parametrize("backlog", ["lost", "kept"])
def test_a_crashed_writer_writes_and_notes_nothing_and_loses_its_backlog_or_writes_it_late(backlog):
    crash = script.CrashWriter(at_ms=5_000, writer="w1", restart_after_ms=4_000, backlog=backlog)
    world = run(script=[crash])
    assert not [at for _, at in world.events_of("w1") if 5_010 < at < 9_000]
    late = [time for time, _ in world.events_of("w1") if 5_000 < time < 8_900]
    assert (len(late) > 300 and min(late) < 5_200) if backlog == "kept" else late == []
    noted = world.column("writer_marks", "noted_ms", writer="w1")
    assert min(at for at in noted if at > 5_000) == 10_000


def test_a_segment_knows_where_its_events_end():
    stored = StoredSegment(0)
    stored.append(3, 100)
    stored.append(2, 10)
    assert [stored.end_of(events) for events in range(6)] == [0, 100, 200, 300, 310, 320]


def test_a_cut_is_at_the_end_of_an_event_in_every_segment():
    """PDP-33, "Overview": a stream cut is at an event boundary; 0 is the start of a segment."""
    world = run(script=[script.Scale(at_ms=8_000, seal=["0@0"], into=2)])
    ends = set(zip(world.events.segment_id.tolist(), world.events.offset.tolist(), strict=True))
    places = {place for cut in world.column("watermarks", "cut") for place in cut.items()}
    assert len({segment for segment, _ in places}) == 4
    assert {place for place in places if place[1]} <= ends
