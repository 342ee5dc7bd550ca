"""Who may note time and when: ids, automatic mode, flushing, older servers, idle marks, several processes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.sim.claims import assert_sound, late_events
from tests.streams.sim.worlds import noted, rows, run, scenario, stored_marks
from wmlab.core.values import Problems
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream
from wmlab.streams.sim.world import World


def writer(**fields):
    return EventWriter("w", **({"rate_per_s": 100} | fields))


def test_noting_without_a_writer_id_is_an_error_and_has_no_effect():
    world = run(writers=[writer(writer_id=None), EventWriter("v", rate_per_s=10)])
    errors = rows(world, "errors")
    assert [row["at_ms"] for row in errors] == list(range(1_000, 20_000, 1_000))
    assert {(row["process"], row["call"]) for row in errors} == {("w", "note time")}
    assert "no id" in errors[0]["problem"]
    assert {row["writer"] for row in rows(world, "writer_marks")} == {"v"}


def test_leaving_without_a_writer_id_is_an_error():
    shut_down = script.ShutDownWriter(at_ms=5_000, writer="w")
    world = run(writers=[writer(writer_id=None, note_every_ms=None)], script=[shut_down])
    assert [(row["call"]) for row in rows(world, "errors")] == ["shut down"]
    assert not rows(world, "writer_shutdowns")


def test_a_scenario_that_asks_a_writer_without_an_id_to_note_is_refused():
    with pytest.raises(Problems, match="no writer_id"):
        run(writers=[writer(writer_id=None)], script=[noted(1_000, "w", 5)])


def test_marks_are_kept_under_the_writer_id():
    world = run(writers=[writer(writer_id="orders"), EventWriter("v", rate_per_s=9, writer_id="{name}.eu")])
    assert {(row["writer"], row["process"]) for row in rows(world, "writer_marks")} == {("orders", "w"), ("v.eu", "v")}
    assert set(rows(world, "watermarks")[-1]["writers"]) == {"orders", "v.eu"}


@pytest.mark.parametrize(("fields", "period_ms"), [({}, 5_000), ({"automatic_note_period_ms": 700}, 700)])
def test_automatic_noting_notes_the_clock_at_its_period(fields, period_ms):
    marks = rows(run(writers=[writer(automatically_note_time=True, **fields)]), "writer_marks")
    assert [row["noted_ms"] for row in marks] == list(range(period_ms, 20_000, period_ms))
    assert all(row["time"] == row["noted_ms"] for row in marks)


def test_an_explicit_note_in_automatic_mode_is_an_error():
    world = run(writers=[writer(automatically_note_time=True)], script=[noted(2_000, "w", 5)])
    (error,) = rows(world, "errors")
    assert (error["at_ms"], error["call"]) == (2_000, "note time")
    assert "automatically" in error["problem"]
    assert 5 not in [row["time"] for row in rows(world, "writer_marks")]


@pytest.mark.parametrize(
    "fields",
    [
        {"automatically_note_time": True, "noting": noting.WallClock()},
        {"automatically_note_time": True, "note_every_ms": 50},
        {"automatic_note_period_ms": 50},
        {"auto_note_survives_close": True},
    ],
)
def test_options_that_contradict_each_other_are_refused(fields):
    with pytest.raises(Problems):
        writer(**fields)


@pytest.mark.parametrize("survives", [True, False])
def test_automatic_noting_ends_with_the_writer_unless_nobody_stops_it(survives):
    auto = writer(automatically_note_time=True, automatic_note_period_ms=1_000, auto_note_survives_close=survives)
    world = run(writers=[auto], script=[script.ShutDownWriter(at_ms=5_500, writer="w")])
    last = rows(world, "writer_marks")[-1]["noted_ms"]
    assert last == (19_000 if survives else 5_000)
    assert not [at for at in world.journal.events(("w",)).append_ms if at > 5_600]


def test_an_older_server_is_noticed_and_asked_for_the_length():
    new, old = (run(stream=Stream(segments=2, acks_carry_offset=carry), latency_ms=20) for carry in (True, False))
    carried, asked = (rows(world, "writer_marks", writer="w1") for world in (new, old))
    assert [row["noted_ms"] for row in asked] == [row["noted_ms"] for row in carried]
    assert all(set(row["position"]) == {0, 1} for row in asked)
    assert late_events(new) == late_events(old) == 0
    assert_sound(old)
    # The answer takes two messages more, so at most as much is covered, and the time waits for it.
    assert all(late["time"] <= soon["time"] for late, soon in zip(asked, carried, strict=True))


def test_a_length_that_is_asked_for_may_cover_more_than_the_writers_own_events():
    fast, slow = EventWriter("fast", rate_per_s=5_000, batch_ms=7), EventWriter("slow", rate_per_s=5)
    worlds = [run(writers=[fast, slow], stream=Stream(acks_carry_offset=carry)) for carry in (True, False)]
    covered = [[row["position"][0] for row in rows(world, "writer_marks", writer="slow")] for world in worlds]
    assert any(asked > carried for carried, asked in zip(*covered, strict=True))


def test_a_flush_covers_what_was_in_flight_and_what_waited_for_its_batch():
    flushing = writer(flush_before_note=True, note_every_ms=730, batch_ms=500)
    world = run(writers=[flushing], stream=Stream(), latency_ms=30)
    events = world.journal.events(("w",))
    for row in rows(world, "writer_marks"):
        handed_over = events.event_time <= row["noted_ms"]
        assert row["position"][0] == events.offset[handed_over].max()
        assert row["received_ms"] - row["noted_ms"] in {30, 90}


def test_an_idle_writer_is_not_waited_for_and_returns_with_its_next_note():
    idle = script.MarkIdle(at_ms=6_100, writer="w2", for_ms=4_000)
    world = run(script=[idle])
    (departure,) = rows(world, "writer_shutdowns")
    assert (departure["writer"], departure["call"], departure["outcome"]) == ("w2", "mark idle", "ok")
    removed = [row["at_ms"] for row in rows(world, "cycles") if "w2" in row["removed"]]
    assert len(removed) == 1
    assert removed[0] < 7_600
    emitted = rows(world, "watermarks")
    assert {tuple(row["writers"]) for row in emitted if 7_600 < row["emitted_ms"] < 11_000} == {("w1",)}
    assert set(emitted[-1]["writers"]) == {"w1", "w2"}


def test_a_graceful_shutdown_writes_what_it_has_notes_once_more_and_may_return():
    actions = [script.ShutDownWriter(at_ms=6_450, writer="w", last_note=True, restart_after_ms=3_000)]
    world = run(writers=[writer(batch_ms=400)], script=actions, latency_ms=20)
    events = world.journal.events(("w",))
    written = [t for t in events.event_time.tolist() if t < 9_450]
    assert 6_400 < max(written) <= 6_450  # The batch of 6,400 ms was not the last one.
    marks = [row for row in rows(world, "writer_marks") if row["noted_ms"] < 9_450]
    assert marks[-1]["noted_ms"] == 6_490
    (departure,) = rows(world, "writer_shutdowns")
    assert departure["received_ms"] == marks[-1]["received_ms"]
    assert rows(world, "writer_marks")[-1]["noted_ms"] > 10_000


def test_processes_of_one_writer_share_its_load_and_its_id():
    world = run(writers=[writer(rate_per_s=300, processes=3)], stream=Stream(segments=2))
    alone = run(writers=[writer(rate_per_s=300)], stream=Stream(segments=2))
    times = [sorted(case.journal.events(("w",)).event_time.tolist()) for case in (world, alone)]
    assert times[0] == times[1]
    assert {row["process"] for row in rows(world, "writer_marks")} == {"w", "w/2", "w/3"}
    assert list(stored_marks(world)) == ["w"]


def test_one_process_of_several_can_be_crashed():
    crash = script.CrashWriter(at_ms=5_000, writer="w/2")
    world = run(writers=[writer(processes=2)], script=[crash])
    assert {row["process"] for row in rows(world, "writer_marks") if row["noted_ms"] > 5_000} == {"w"}


def test_keys_outside_the_range_of_a_load_get_nothing():
    world = run(writers=[writer(keys="1/4..1/2", rate_per_s=500)], stream=Stream(segments=8))
    assert set(world.journal.events(("w",)).segment_id.tolist()) == {2, 3}


def test_processes_of_one_id_speak_only_for_themselves_and_break_each_others_promise():
    one, two = (
        run(writers=[writer(processes=count, delay_mean_ms=800, rate_per_s=20)], stream=Stream()) for count in (1, 2)
    )
    assert late_events(one) == 0
    assert late_events(two) > 0


@st.composite
def runs(draw):
    """Random options of event writers; everybody has noted before the first cycle, and nobody times out."""
    writers = [
        EventWriter(
            name,
            rate_per_s=draw(st.sampled_from([0, 5, 80])),
            delay_mean_ms=draw(st.sampled_from([0, 300])),
            keys=draw(st.sampled_from(["0..1", "0..1/3"])),
            batch_ms=draw(st.sampled_from([1, 100, 900])),
            flush_before_note=draw(st.booleans()),
            note_every_ms=draw(st.sampled_from([200, 900])),
        )
        for name in "ab"
    ]
    at = st.integers(1_100, 9_000)
    possible = [
        script.ShutDownWriter(at_ms=draw(at), writer="a", last_note=True),
        script.SilenceWriter(at_ms=draw(at), writer="b", for_ms=draw(st.integers(1, 3_000))),
        script.Scale(at_ms=draw(at), seal=["0@0"], into=draw(st.integers(1, 3))),
    ]
    return scenario(
        stream=Stream(
            segments=draw(st.integers(1, 3)),
            timestamp_aggregation_timeout_ms=100_000,
            acks_carry_offset=draw(st.booleans()),
        ),
        writers=writers,
        script=draw(st.lists(st.sampled_from(possible), unique=True)),
        controllers=Controllers(period_ms=1_000),
        duration_ms=12_000,
        seed=draw(st.integers(0, 2**32)),
        latency_ms=draw(st.sampled_from([0, 5, 60])),
    )


@settings(max_examples=40, deadline=None)
@given(runs())
def test_no_option_of_a_writer_breaks_the_claims_of_a_watermark(case):
    world = World(case, {})
    world.run()
    assert_sound(world)
    assert late_events(world) == 0


def test_a_writer_that_says_it_is_idle_and_goes_on_writing_is_late():
    assert late_events(run()) == 0
    assert late_events(run(script=[script.MarkIdle(at_ms=5_000, writer="w2", for_ms=8_000)])) > 0


@pytest.mark.parametrize("last_note", [True, False])
def test_what_was_written_after_the_last_note_is_covered_only_if_the_writer_notes_once_more(last_note):
    shut_down = script.ShutDownWriter(at_ms=5_900, writer="w2", last_note=last_note)
    assert (late_events(run(script=[shut_down])) == 0) is last_note
