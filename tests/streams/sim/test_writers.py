"""Writers: batched appends, positions from acknowledgements, noting, seals, crashes, silence."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.streams.sim.worlds import events_of, rows, run
from wmlab.streams.model.position import Position
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Clock, EventWriter, Stream
from wmlab.streams.sim.load import Load, LocalClock, time_to_note
from wmlab.streams.sim.store import StoredSegment

CLOCK = LocalClock(0, Clock(skew_ms=50))
ALL = SimpleNamespace(clock=CLOCK, earliest_open=lambda now_ms: now_ms + 20, last_event_time=80, max_event_time=90)
NOTHING = SimpleNamespace(clock=CLOCK, earliest_open=lambda _: None, last_event_time=None, max_event_time=None)


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


def test_an_event_occupies_its_header_and_its_payload():
    world = run(writers=[EventWriter("w", rate_per_s=50, event_bytes=92)], stream=Stream())
    offsets = world.journal.events(("w",)).offset
    assert (np.diff(offsets) == 100).all()
    assert offsets[0] == 100


def test_offsets_of_a_segment_grow_without_gaps():
    world = run()
    events = world.journal.events(("w1", "w2"))
    for segment_id in np.unique(events.segment_id):
        offsets = events.offset[events.segment_id == segment_id]
        assert (np.diff(offsets) == 108).all()
        assert offsets[-1] == world.stream(None).store[int(segment_id)].length


def trace(*events):
    happens, arrives = zip(*events, strict=True)
    return Load.of(np.array(happens, np.int64), np.array(arrives, np.int64), np.zeros(len(events), np.uint64))


def replay(load, *actions, latency_ms=5, **fields):
    writer = EventWriter("w", trace="log", batch_ms=1, note_every_ms=1_000, **fields)
    world = run({"w": load}, writers=[writer], stream=Stream(), script=actions, latency_ms=latency_ms)
    return world, {row["noted_ms"]: row for row in rows(world, "writer_marks")}


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
    assert rows(world, "writer_marks")[0]["time"] == 1_000 - 700
    assert min(time for time, _ in events_of(world, "w")) < 0


def test_a_seal_is_met_by_an_append_and_both_sides_stand_in_the_position_meanwhile():
    split = script.Scale(at_ms=5_000, seal=["0@0"])
    world = run(script=[split], writers=[EventWriter("w", rate_per_s=500, note_every_ms=5)])
    held = [set(mark["position"]) for mark in rows(world, "writer_marks")]
    assert held[0] == {0, 1}
    new = {segment.id for segment in world.history.active.segments} - {0, 1}
    assert {0, 1} | new in held
    assert held[-1] == {1} | new


def test_no_event_is_lost_or_written_twice_by_scaling():
    actions = [
        script.Scale(at_ms=4_000, seal=["0@0", "1@0"], into=1),
        script.Scale(at_ms=4_003, seal=["2@1"], into=5),
        script.Scale(at_ms=9_000, seal=["3@2", "4@2"], into=3),
    ]
    calm, scaled = run(), run(script=actions)
    for writer in ("w1", "w2"):
        before, after = events_of(calm, writer), events_of(scaled, writer)
        settled = 19_000
        assert sorted(t for t, at in before if at < settled) == sorted(t for t, at in after if at < settled)


def test_a_crashed_writer_writes_and_notes_nothing_and_loses_its_backlog():
    crash = script.CrashWriter(at_ms=5_000, writer="w1", restart_after_ms=4_000)
    world = run(script=[crash])
    assert not [at for _, at in events_of(world, "w1") if 5_010 < at < 9_000]
    assert not [t for t, _ in events_of(world, "w1") if 5_000 < t < 8_900]
    assert not [row for row in rows(world, "writer_marks", writer="w1") if 5_000 < row["noted_ms"] < 10_000]
    assert [row for row in rows(world, "writer_marks", writer="w1") if row["noted_ms"] >= 10_000]


def test_a_kept_backlog_is_written_late():
    crash = script.CrashWriter(at_ms=5_000, writer="w1", restart_after_ms=4_000, backlog="kept")
    late = [t for t, at in events_of(run(script=[crash]), "w1") if at >= 9_000 and t < 8_900]
    assert min(late) < 5_200
    assert len(late) > 300


def test_a_silent_writer_goes_on_writing():
    world = run(script=[script.SilenceWriter(at_ms=5_000, writer="w1", for_ms=4_000)])
    assert [at for _, at in events_of(world, "w1") if 5_100 < at < 8_900]
    noted = [row["noted_ms"] for row in rows(world, "writer_marks", writer="w1")]
    assert not [at for at in noted if 5_000 < at < 9_000]
    assert 9_000 in noted


def test_a_segment_knows_where_its_events_end():
    stored = StoredSegment()
    stored.append(3, 100)
    stored.append(2, 10)
    assert [stored.end_of(events) for events in range(6)] == [0, 100, 200, 300, 310, 320]


def test_positions_are_frozen_copies():
    world = run()
    assert all(isinstance(row["position"], dict) for row in rows(world, "writer_marks"))
    assert isinstance(world.stream(None).log.entries[0][1].cut, Position)
