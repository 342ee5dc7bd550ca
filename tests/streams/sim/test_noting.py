"""Who may note time and when, and notes on their way to the store: rows W17 to W19 and W21 of the failures."""

import pytest

from tests.streams.sim.worlds import (
    assert_sound,
    commit,
    late_events,
    noted,
    outcomes,
    rows,
    run,
    run_of,
    scenario,
    stored_marks,
    txn_writer,
    txns,
)
from wmlab.core.errors import ScenarioError
from wmlab.core.simulation import Fixed, Uniform
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream


def writer(**fields):
    return EventWriter("w", **({"rate_per_s": 100} | fields))


@pytest.mark.parametrize(
    ("fields", "actions", "times_ms", "call", "problem"),
    [
        ({"writer_id": None}, [], range(1_000, 20_000, 1_000), "note time", "no id"),
        (
            {"writer_id": None, "note_every_ms": None},
            [script.ShutDownWriter(at_ms=5_000, writer="w")],
            [5_010],
            "shut down",
            "no id",
        ),
        ({"automatically_note_time": True}, [noted(2_000, "w", 5)], [2_000], "note time", "automatically"),
    ],
    ids=["notes without an id", "leaves without an id", "notes explicitly in automatic mode"],
)
def test_a_call_that_a_writer_cannot_make_is_an_error_and_has_no_effect(fields, actions, times_ms, call, problem):
    world = run(writers=[writer(**fields), EventWriter("v", rate_per_s=10)], script=actions)
    errors = rows(world, "errors")
    assert [row["at_ms"] for row in errors] == list(times_ms)
    assert {(row["process"], row["call"]) for row in errors} == {("w", call)}
    assert problem in errors[0]["problem"]
    assert not rows(world, "writer_shutdowns")
    assert not rows(world, "writer_marks", writer="w", time=5)
    assert bool(rows(world, "writer_marks", writer="w")) is (problem == "automatically")


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


@pytest.mark.parametrize(
    "fields",
    [
        {"automatically_note_time": True, "noting": noting.WallClock()},
        {"automatically_note_time": True, "note_every_ms": 50},
        {"automatic_note_period_ms": 50},
    ],
)
def test_options_that_contradict_each_other_are_refused(fields):
    with pytest.raises(Problems, match=r"writers\[0\]"):
        run(writers=[writer(**fields)])


def test_automatic_noting_as_a_switch_of_the_stream_holds_for_all_its_writers():
    stream = Stream(automatically_note_time=True)
    plain, own = EventWriter("w", rate_per_s=50), EventWriter("v", rate_per_s=50, automatic_note_period_ms=2_000)
    world = run(stream=stream, writers=[plain, own], script=[noted(7_000, "w", 5)])
    for name, period_ms in (("w", 5_000), ("v", 2_000)):
        marks = rows(world, "writer_marks", writer=name)
        assert [(row["noted_ms"], row["time"]) for row in marks] == [
            (at, at) for at in range(period_ms, 20_000, period_ms)
        ]
    assert [(row["process"], row["call"]) for row in rows(world, "errors")] == [("w", "note time")]
    with pytest.raises(Problems, match="leave noting out"):
        run(stream=stream, writers=[writer(noting=noting.WallClock())])


@pytest.mark.parametrize("where", ["stream", "writer"])
def test_a_transactional_writer_that_notes_automatically_notes_its_clock_at_every_commit(where):
    fields = {"automatically_note_time": True}
    world = run(
        stream=Stream(**(fields if where == "stream" else {})),
        writers=[txn_writer(clock=Clock(skew_ms=-300), open_ms=1_000, **(fields if where == "writer" else {}))],
        script=[commit(4_200, time=5), commit(6_200, time=None)],
    )
    requested = {name: row["time"] for name, row in txns(world).items() if row["time"] is not None}
    assert list(requested.values())[:4] == [700, 2_700, 4_700, 5_900]
    assert [(row["at_ms"], row["call"]) for row in rows(world, "errors")] == [(4_200, "commit")]
    assert outcomes(world)[:4] == ["success"] * 4


@pytest.mark.parametrize("survives", [True, False])
def test_automatic_noting_ends_with_the_writer_unless_nobody_stops_it(survives):
    auto = writer(automatically_note_time=True, automatic_note_period_ms=1_000, auto_note_survives_close=survives)
    world = run(writers=[auto], script=[script.ShutDownWriter(at_ms=5_500, writer="w")])
    last = rows(world, "writer_marks")[-1]["noted_ms"]
    assert last == (19_000 if survives else 5_000)
    assert not [at for at in world.stream().journal.events(("w",)).append_ms if at > 5_600]


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
    events = world.stream().journal.events(("w",))
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
    events = world.stream().journal.events(("w",))
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
    times = [sorted(case.stream().journal.events(("w",)).event_time.tolist()) for case in (world, alone)]
    assert times[0] == times[1]
    assert {row["process"] for row in rows(world, "writer_marks")} == {"w", "w/2", "w/3"}
    assert list(stored_marks(world)) == ["w"]


def test_one_process_of_several_can_be_crashed():
    crash = script.CrashWriter(at_ms=5_000, writer="w/2")
    world = run(writers=[writer(processes=2)], script=[crash])
    assert {row["process"] for row in rows(world, "writer_marks") if row["noted_ms"] > 5_000} == {"w"}


def test_keys_outside_the_range_of_a_load_get_nothing():
    world = run(writers=[writer(keys="1/4..1/2", rate_per_s=500)], stream=Stream(segments=8))
    assert set(world.stream().journal.events(("w",)).segment_id.tolist()) == {2, 3}


def test_processes_of_one_id_speak_only_for_themselves_and_break_each_others_promise():
    one, two = (
        run(writers=[writer(processes=count, delay_mean_ms=800, rate_per_s=20)], stream=Stream()) for count in (1, 2)
    )
    assert late_events(one) == 0
    assert late_events(two) > 0


def test_a_writer_that_says_it_is_idle_and_goes_on_writing_is_late():
    assert late_events(run()) == 0
    assert late_events(run(script=[script.MarkIdle(at_ms=5_000, writer="w2", for_ms=8_000)])) > 0


@pytest.mark.parametrize("last_note", [True, False])
def test_what_was_written_after_the_last_note_is_covered_only_if_the_writer_notes_once_more(last_note):
    shut_down = script.ShutDownWriter(at_ms=5_900, writer="w2", last_note=last_note)
    assert (late_events(run(script=[shut_down])) == 0) is last_note


WALL = EventWriter("w", rate_per_s=50, noting=noting.WallClock())


def test_w17_of_two_processes_with_one_id_the_one_behind_is_refused():
    """Row W17: partitioned, replaced, and back: its old notes are refused, and every mark is of one process whole."""
    world = run(
        writers=[WALL],
        script=[
            script.Partition(at_ms=5_500, a="w", b="controllers", for_ms=6_000, calls="held"),
            script.DuplicateWriter(at_ms=7_250, writer="w"),
        ],
    )
    stale = [row for row in rows(world, "writer_marks") if row["noted_ms"] <= 11_000 and row["received_ms"] > 11_000]
    assert len(stale) == 6
    assert {row["outcome"] for row in stale} == {"invalid time"}
    accepted = rows(world, "writer_marks", outcome="success")
    assert [row["time"] for row in accepted] == sorted(row["time"] for row in accepted)
    for watermark in rows(world, "watermarks"):
        latest = [row for row in accepted if row["received_ms"] <= watermark["emitted_ms"]][-1]
        assert watermark["writers"] == {"w": latest["time"]}
        assert watermark["cut"] == {s: offset or 0 for s, offset in latest["position"].items()}
    assert rows(world, "watermarks")[-1]["lower"] > 18_000


def test_w17_a_process_whose_position_is_behind_is_refused_too():
    ahead = EventWriter("w", rate_per_s=5, noting=noting.WallClock(), note_every_ms=1_000)
    world = run(
        writers=[ahead],
        stream=Stream(),
        script=[
            script.Partition(at_ms=4_000, a="w", b="segment-store", for_ms=9_000),
            script.DuplicateWriter(at_ms=5_500, writer="w"),
        ],
    )
    assert "invalid position" in outcomes(world)
    accepted = [row["position"][0] or 0 for row in rows(world, "writer_marks", outcome="success")]
    assert accepted == sorted(accepted)


def test_w18_notes_over_two_controllers_may_overtake_each_other():
    """Row W18: a lost note is as if never called, a doubled one succeeds again, an older one is refused."""
    writer = EventWriter("w", rate_per_s=50, noting=noting.WallClock(), note_every_ms=50)
    controllers = Controllers(2, period_ms=500)
    calm = run(writers=[writer], controllers=controllers)
    assert set(outcomes(calm)) == {"success"}
    racing = run(writers=[writer], controllers=controllers, network=Network(delay=Uniform(1, 400)))
    refused = rows(racing, "writer_marks", outcome="invalid time")
    assert len(refused) > 20
    judged = [row["time"] for row in rows(racing, "writer_marks", outcome="success")]
    assert judged == sorted(judged)


@pytest.mark.parametrize(("inside_ms", "conflicts"), [(0, False), (40, True)])
def test_w19_a_conflict_of_compare_and_set_is_repeated_by_the_client(inside_ms, conflicts):
    """Row W19: the caller gets an error, and its client tries again."""
    world = run(
        writers=[WALL],
        controllers=Controllers(2, period_ms=500),
        network=Network(inside=Fixed(inside_ms)),
        script=[script.DuplicateWriter(at_ms=5_000, writer="w")],
    )
    assert ("write conflict" in outcomes(world)) is conflicts
    for conflict in rows(world, "writer_marks", outcome="write conflict"):
        again = [row for row in rows(world, "writer_marks", noted_ms=conflict["noted_ms"]) if row is not conflict]
        assert [row for row in again if row["received_ms"] > conflict["received_ms"]]
    noted = {row["noted_ms"] for row in rows(world, "writer_marks", outcome="success")}
    assert set(range(1_000, 19_000, 1_000)) <= noted


def test_w21_all_that_join_before_the_first_watermark_count_at_the_first_cycle():
    writers = [
        EventWriter(f"w{i}", rate_per_s=5, noting=noting.WallClock(), clock=Clock(skew_ms=-900 * i)) for i in range(9)
    ]
    world = run(writers=writers, controllers=Controllers(period_ms=2_000))
    first = rows(world, "watermarks")[0]
    assert set(first["writers"]) == {writer.name for writer in writers}
    assert first["lower"] == first["writers"]["w8"] < 0


def test_w21_old_times_that_join_later_hold_the_stream_until_they_time_out():
    old = [
        EventWriter(f"old{i}", rate_per_s=5, noting=noting.WallClock(), clock=Clock(skew_ms=-60_000), starts_ms=6_000)
        for i in range(3)
    ]
    world = run(writers=[WALL, *old], readers=ReaderGroup())
    held = [row for row in rows(world, "cycles") if row["reason"].startswith("waits for old0")]
    assert held[0]["lagging"] == ["old0", "old1", "old2"]
    removal = next(row for row in rows(world, "cycles") if row["removed"])
    assert removal["removed"] == ["old0", "old1", "old2"]
    assert removal["at_ms"] - held[0]["at_ms"] == 5_000
    assert not [r for r in rows(world, "watermarks") if held[0]["at_ms"] <= r["emitted_ms"] < removal["at_ms"]]
    again = [row for row in held if row["at_ms"] > removal["at_ms"]]
    assert again, "they note again, and hold the stream again"


def test_a_time_that_the_application_computes_is_noted():
    slack = run(writers=[writer(noting=noting.MaxMinusSlack(slack_ms=700))])
    for rule in ("max_event_time - 700", lambda known: known["max_event_time"] and known["max_event_time"] - 700):
        world = run(writers=[writer(noting=noting.Compute(time=rule))])
        assert rows(world, "writer_marks") == rows(slack, "writer_marks")


@pytest.mark.parametrize("rule", ["7 + clock // 1_000", lambda known: 7 + known["clock"] // 1_000])
def test_times_are_the_applications_in_any_unit(rule):
    seconds, plain = run(writers=[writer(event_time=rule)]), run(writers=[writer()])
    times, clock = (world.stream().journal.events(("w",)).event_time for world in (seconds, plain))
    assert times.tolist() == (7 + clock // 1_000).tolist()
    assert_sound(seconds)
    assert not late_events(seconds)
    assert {row["time"] for row in rows(seconds, "writer_marks")} <= set(range(7, 28))
    assert 20 < rows(seconds, "windows")[-1]["lower"] < 28


@pytest.mark.parametrize("rule", ["clock / 7", lambda _: "noon"])
def test_a_time_that_is_no_whole_number_is_refused_when_it_comes_up(rule):
    with pytest.raises(ScenarioError, match="no 64-bit integer") as raised:
        run(writers=[writer(noting=noting.Compute(time=rule))])
    assert raised.value.remedy.startswith("round it")
    with pytest.raises(ScenarioError, match="64-bit integer"):
        run(writers=[writer(event_time=rule)])


@pytest.mark.parametrize("rule", ["clock +", "noon", "__import__('os')", 5])
def test_a_rule_that_cannot_be_read_is_refused_at_once(rule):
    with pytest.raises(Problems, match=r"noting|time"):
        noting.Compute(time=rule)


def test_an_expression_is_kept_in_a_file_and_a_function_is_not():
    one = scenario(writers=[writer(noting=noting.Compute(time="clock - 5"), event_time="clock // 10")])
    assert Scenario.from_yaml(one.to_yaml()) == one
    other = scenario(writers=[writer(noting=noting.Compute(time=max))])
    with pytest.raises(ScenarioError, match="Python function"):
        other.to_yaml()
    assert repr(other.writers[0].noting) == "Compute(time='function max')"
    lost = Scenario.from_yaml(one.to_yaml().replace("clock - 5", "function max"))
    with pytest.raises(ScenarioError, match="not kept"):
        run_of(lost)
