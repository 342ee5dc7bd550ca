"""Who may note time and when, and notes on their way to the store: rows W17 to W19 and W21 of the failures."""

from dataclasses import replace

import pytest

from tests.streams.sim.worlds import clocked, commit, noted, run, run_of, scenario, scripted, txn_writer
from wmlab.core.errors import ScenarioError
from wmlab.core.simulation import Fixed, Uniform
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules


def writer(**fields):
    return EventWriter("w", **({"rate_per_s": 100} | fields))


LEAVES = [script.ShutDownWriter(at_ms=5_000, writer="w")]


@pytest.mark.parametrize(
    ("fields", "actions", "times_ms", "call", "problem"),
    [
        ({"writer_id": None}, [], range(1_000, 20_000, 1_000), "note time", "no id"),
        ({"writer_id": None, "note_every_ms": None}, LEAVES, [5_010], "shut down", "no id"),
        ({"automatically_note_time": True}, [noted(2_000, "w", 5)], [2_000], "note time", "automatically"),
    ],
    ids=["notes without an id", "leaves without an id", "notes explicitly in automatic mode"],
)
def test_a_call_that_a_writer_cannot_make_is_an_error_and_has_no_effect(fields, actions, times_ms, call, problem):
    world = run(writers=[writer(**fields), EventWriter("v", rate_per_s=10)], script=actions)
    errors = world.rows("errors")
    assert [(row["at_ms"], row["process"], row["call"]) for row in errors] == [(at, "w", call) for at in times_ms]
    assert problem in errors[0]["problem"]
    assert not world.rows("writer_shutdowns")
    assert not world.rows("writer_marks", writer="w", time=5)
    assert bool(world.rows("writer_marks", writer="w")) is (problem == "automatically")


def test_a_scenario_that_asks_a_writer_without_an_id_to_note_is_refused():
    with pytest.raises(Problems, match="no writer_id"):
        run(writers=[writer(writer_id=None)], script=[noted(1_000, "w", 5)])


def test_marks_are_kept_under_the_writer_id():
    world = run(writers=[writer(writer_id="orders"), EventWriter("v", rate_per_s=9, writer_id="{name}.eu")])
    assert {(row["writer"], row["process"]) for row in world.rows("writer_marks")} == {("orders", "w"), ("v.eu", "v")}
    assert set(world.rows("watermarks")[-1]["writers"]) == {"orders", "v.eu"}


@pytest.mark.parametrize(("fields", "period_ms"), [({}, 5_000), ({"automatic_note_period_ms": 700}, 700)])
def test_automatic_noting_notes_the_clock_at_its_period(fields, period_ms):
    world = run(writers=[writer(automatically_note_time=True, **fields)])
    expected = list(range(period_ms, 20_000, period_ms))
    assert world.column("writer_marks", "noted_ms") == world.column("writer_marks", "time") == expected


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


def test_a_pair_of_counter_and_node_is_mapped_to_a_long_and_bounds_are_read_back_as_pairs():
    """PDP-33, Disadvantages, "Ties time/progress to a long": another order is mapped so that it stays."""
    nodes = {"a": 1, "b": 2}
    writers = [
        EventWriter(name, rate_per_s=50, delay_mean_ms=100.0, event_time=f"clock // 250 * 1_000 + {node}")
        for name, node in nodes.items()
    ]
    world = run(writers=writers)
    pairs = {name: {divmod(time, 1_000) for time, _ in world.events_of(name)} for name in nodes}
    assert {node for found in pairs.values() for _, node in found} == {1, 2}
    for at_ms, lower in world.emitted():
        bound = divmod(lower, 1_000)
        later = {divmod(time, 1_000) for name in nodes for time, sent_ms in world.events_of(name) if sent_ms > at_ms}
        assert all(pair >= bound for pair in later)
    assert len(world.emitted()) > 15


def test_automatic_noting_as_a_switch_of_the_stream_holds_for_all_its_writers():
    stream = Stream(automatically_note_time=True)
    plain, own = EventWriter("w", rate_per_s=50), EventWriter("v", rate_per_s=50, automatic_note_period_ms=2_000)
    world = run(stream=stream, writers=[plain, own], script=[noted(7_000, "w", 5)])
    for name, period_ms in (("w", 5_000), ("v", 2_000)):
        expected = list(range(period_ms, 20_000, period_ms))
        assert [world.column("writer_marks", column, writer=name) for column in ("noted_ms", "time")] == [expected] * 2
    assert [(row["process"], row["call"]) for row in world.rows("errors")] == [("w", "note time")]
    with pytest.raises(Problems, match="leave noting out"):
        run(stream=stream, writers=[writer(noting=noting.WallClock())])


@pytest.mark.parametrize("where", ["stream", "writer"])
def test_a_transactional_writer_that_notes_automatically_notes_its_clock_at_every_commit(where):
    automatic = {"automatically_note_time": True}
    on_stream, on_writer = (automatic if where == place else {} for place in ("stream", "writer"))
    world = run(
        stream=Stream(**on_stream),
        writers=[txn_writer(clock=Clock(skew_ms=-300), open_ms=1_000, **on_writer)],
        script=[commit(4_200, time=5), commit(6_200, time=None)],
    )
    assert [time for time in world.column("transactions", "time") if time is not None][:4] == [700, 2_700, 4_700, 5_900]
    assert [(row["at_ms"], row["call"]) for row in world.rows("errors")] == [(4_200, "commit")]
    assert world.outcomes()[:4] == ["success"] * 4


@pytest.mark.parametrize("survives", [True, False])
def test_automatic_noting_ends_with_the_writer_unless_nobody_stops_it(survives):
    auto = writer(automatically_note_time=True, automatic_note_period_ms=1_000)
    rules = Rules(auto_note_survives_close=survives)
    world = run(writers=[auto], rules=rules, script=[script.ShutDownWriter(at_ms=5_500, writer="w")])
    assert world.column("writer_marks", "noted_ms")[-1] == (19_000 if survives else 5_000)
    assert max(world.events.append_ms) <= 5_600


def test_an_older_server_is_noticed_and_asked_for_the_length():
    new, old = (run(stream=Stream(segments=2, acks_carry_offset=carry), latency_ms=20) for carry in (True, False))
    carried, asked = (world.rows("writer_marks", writer="w1") for world in (new, old))
    assert [row["noted_ms"] for row in asked] == [row["noted_ms"] for row in carried]
    assert all(set(row["position"]) == {0, 1} for row in asked)
    assert new.late_events() == old.late_events() == 0
    old.assert_sound()
    # The answer takes two messages more, so at most as much is covered, and the time waits for it.
    assert all(late["time"] <= soon["time"] for late, soon in zip(asked, carried, strict=True))
    old_fleet = run(stream=Stream(acks_carry_offset=False), network=Network(keep_messages=True), duration_ms=4_000)
    assert "get length" in old_fleet.column("messages", "kind")


def test_a_length_that_is_asked_for_may_cover_more_than_the_writers_own_events():
    fast, slow = EventWriter("fast", rate_per_s=5_000, batch_ms=7), EventWriter("slow", rate_per_s=5)
    worlds = [run(writers=[fast, slow], stream=Stream(acks_carry_offset=carry)) for carry in (True, False)]
    covered = [[row["position"][0] for row in world.rows("writer_marks", writer="slow")] for world in worlds]
    assert any(asked > carried for carried, asked in zip(*covered, strict=True))


def test_a_flush_covers_what_was_in_flight_and_what_waited_for_its_batch():
    flushing = writer(flush_before_note=True, note_every_ms=730, batch_ms=500)
    world = run(writers=[flushing], stream=Stream(), latency_ms=30)
    events = world.events
    for row in world.rows("writer_marks"):
        handed_over = events.event_time <= row["noted_ms"]
        assert row["position"][0] == events.offset[handed_over].max()
        assert row["received_ms"] - row["noted_ms"] in {30, 90}


def test_an_idle_writer_is_not_waited_for_and_returns_with_its_next_note():
    idle = script.MarkIdle(at_ms=6_100, writer="w2", for_ms=4_000)
    world = run(script=[idle])
    (departure,) = world.rows("writer_shutdowns")
    assert (departure["writer"], departure["call"], departure["outcome"]) == ("w2", "mark idle", "ok")
    ((removed_ms, whom),) = world.removals()
    assert (removed_ms < 7_600, whom) == (True, ["w2"])
    emitted = world.rows("watermarks", 7_600)
    assert {tuple(row["writers"]) for row in emitted if row["emitted_ms"] < 11_000} == {("w1",)}
    assert set(emitted[-1]["writers"]) == {"w1", "w2"}


def test_a_graceful_shutdown_writes_what_it_has_notes_once_more_and_may_return():
    shut_down = script.ShutDownWriter(at_ms=6_450, writer="w", last_note=True, restart_after_ms=3_000)
    world = run(writers=[writer(batch_ms=400)], script=[shut_down], latency_ms=20)
    written = [time for time in world.times_of("w") if time < 9_450]
    assert 6_400 < max(written) <= 6_450  # The batch of 6,400 ms was not the last one.
    marks = [row for row in world.rows("writer_marks") if row["noted_ms"] < 9_450]
    assert marks[-1]["noted_ms"] == 6_490
    (departure,) = world.rows("writer_shutdowns")
    assert departure["received_ms"] == marks[-1]["received_ms"]
    assert world.rows("writer_marks")[-1]["noted_ms"] > 10_000


def test_processes_of_one_writer_share_its_load_and_its_id():
    many, alone = (run(writers=[writer(rate_per_s=300, processes=count)]) for count in (3, 1))
    assert many.times_of("w") == alone.times_of("w")
    assert set(many.column("writer_marks", "process")) == {"w", "w/2", "w/3"}
    assert list(many.stored_marks()) == ["w"]


def test_one_process_of_several_can_be_crashed():
    world = run(writers=[writer(processes=2)], script=[script.CrashWriter(at_ms=5_000, writer="w/2")])
    assert {row["process"] for row in world.rows("writer_marks") if row["noted_ms"] > 5_000} == {"w"}


def test_keys_outside_the_range_of_a_load_get_nothing():
    world = run(writers=[writer(keys="1/4..1/2", rate_per_s=500)], stream=Stream(segments=8))
    assert set(world.events.segment_id.tolist()) == {2, 3}


LAST_NOTE = script.ShutDownWriter(at_ms=5_900, writer="w2", last_note=True)
SLOW = {"delay_mean_ms": 800, "rate_per_s": 20}


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        ({"writers": [writer(**SLOW)]}, {"writers": [writer(processes=2, **SLOW)]}),
        ({}, {"script": [script.MarkIdle(at_ms=5_000, writer="w2", for_ms=8_000)]}),
        ({"script": [LAST_NOTE]}, {"script": [replace(LAST_NOTE, last_note=False)]}),
    ],
    ids=["processes of one id, which speak for themselves only", "idle and writing", "no note for what came last"],
)
def test_a_promise_that_a_writer_does_not_keep_makes_late_events(kept, broken):
    assert run(**kept).late_events() == 0
    assert run(**broken).late_events() > 0


WALL = clocked()


def test_a_time_that_does_not_advance_is_refused_by_the_document_and_stored_as_implemented():
    """PDP-33, "Metadata": "updated only if a new update strictly advances time"."""
    outcomes = {}
    for rule in ("design", "implementation"):
        notes = [noted(1_000, "a", 10), noted(2_000, "a", 10), noted(3_000, "a", 9), noted(4_000, "a", 11)]
        world = scripted(*notes, writers="a", timeout_ms=9_000, rules=Rules(note_rule=rule))
        outcomes[rule] = world.column("writer_marks", "outcome")
    assert outcomes == {
        "design": ["success", "invalid time", "invalid time", "success"],
        "implementation": ["success", "success", "invalid time", "success"],
    }


def test_w17_of_two_processes_with_one_id_the_one_behind_is_refused():
    """Row W17: partitioned, replaced, and back: its old notes are refused, and every mark is of one process whole."""
    cut = script.Partition(at_ms=5_500, a="w", b="controllers", for_ms=6_000, calls="held")
    world = run(writers=[WALL], script=[cut, script.DuplicateWriter(at_ms=7_250, writer="w")])
    stale = [row for row in world.rows("writer_marks") if row["noted_ms"] <= 11_000 and row["received_ms"] > 11_000]
    assert [row["outcome"] for row in stale] == ["invalid time"] * 6
    accepted = world.rows("writer_marks", outcome="success")
    assert [row["time"] for row in accepted] == sorted(row["time"] for row in accepted)
    for watermark in world.rows("watermarks"):
        latest = [row for row in accepted if row["received_ms"] <= watermark["emitted_ms"]][-1]
        assert watermark["writers"] == {"w": latest["time"]}
        assert watermark["cut"] == {s: offset or 0 for s, offset in latest["position"].items()}
    assert world.bounds()[-1][0] > 18_000


def test_w18_notes_over_two_controllers_may_overtake_each_other():
    """Row W18: a lost note is as if never called, a doubled one succeeds again, an older one is refused."""
    case = {"writers": [clocked(note_every_ms=50)], "controllers": Controllers(2, period_ms=500)}
    assert set(run(**case).outcomes()) == {"success"}
    racing = run(network=Network(delay=Uniform(1, 400)), **case)
    assert racing.outcomes().count("invalid time") > 20
    judged = racing.column("writer_marks", "time", outcome="success")
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
    assert ("write conflict" in world.outcomes()) is conflicts
    for conflict in world.rows("writer_marks", outcome="write conflict"):
        again = [row for row in world.rows("writer_marks", noted_ms=conflict["noted_ms"]) if row is not conflict]
        assert [row for row in again if row["received_ms"] > conflict["received_ms"]]
    noted = set(world.column("writer_marks", "noted_ms", outcome="success"))
    assert set(range(1_000, 19_000, 1_000)) <= noted


def test_w21_all_that_join_before_the_first_watermark_count_at_the_first_cycle():
    writers = [clocked(f"w{i}", clock=Clock(skew_ms=-900 * i)) for i in range(9)]
    world = run(writers=writers, controllers=Controllers(period_ms=2_000))
    first = world.rows("watermarks")[0]
    assert set(first["writers"]) == {writer.name for writer in writers}
    assert first["lower"] == first["writers"]["w8"] < 0
    emitting = world.rows("cycles", outcome="emitted")[0]
    assert emitting["participating"] == [writer.name for writer in writers]


def test_w21_old_times_that_join_later_hold_the_stream_until_they_time_out():
    old = [clocked(f"old{i}", clock=Clock(skew_ms=-60_000), starts_ms=6_000) for i in range(3)]
    world = run(writers=[WALL, *old], readers=ReaderGroup())
    held = [row for row in world.rows("cycles") if row["reason"].startswith("waits for old0")]
    assert held[0]["lagging"] == ["old0", "old1", "old2"]
    removed_ms, removed = world.removals()[0]
    assert (removed_ms - held[0]["at_ms"], removed) == (5_000, ["old0", "old1", "old2"])
    assert not [at for at, _ in world.emitted() if held[0]["at_ms"] <= at < removed_ms]
    # They note again, and hold the stream again.
    assert held[-1]["at_ms"] > removed_ms


def test_old_times_that_join_later_are_left_out_until_they_have_caught_up():
    """PDP-33, "Periodic Watermark Workflow", case b: waited for up to the timeout, and then left out of the time."""
    others = [noted(2_600 + 500 * n, "a", 300 + n) for n in range(12)]
    world = scripted(
        noted(1_000, "a", 100), noted(1_600, "a", 200), noted(2_100, "b", 50), *others, noted(6_200, "b", 900)
    )
    assert (3_505, ["b"]) in world.removals()
    watermarks = world.rows("watermarks", 2_500)
    without = [row for row in watermarks if set(row["writers"]) == {"a"}]
    assert [row["lower"] > 50 for row in without] == [True] * 6
    assert watermarks[: len(without)] == without
    assert [set(row["writers"]) for row in watermarks[len(without) :]] == [{"a", "b"}] * 5
    assert watermarks[len(without)]["writers"]["b"] == 900


def test_a_time_that_the_application_computes_is_noted():
    slack = run(writers=[writer(noting=noting.MaxMinusSlack(slack_ms=700))])
    for rule in ("max_event_time - 700", lambda known: known["max_event_time"] and known["max_event_time"] - 700):
        world = run(writers=[writer(noting=noting.Compute(time=rule))])
        assert world.rows("writer_marks") == slack.rows("writer_marks")


@pytest.mark.parametrize("rule", ["7 + clock // 1_000", lambda known: 7 + known["clock"] // 1_000])
def test_times_are_the_applications_in_any_unit(rule):
    seconds, plain = run(writers=[writer(event_time=rule)]), run(writers=[writer()])
    times, clock = (world.events.event_time for world in (seconds, plain))
    assert times.tolist() == (7 + clock // 1_000).tolist()
    seconds.assert_sound()
    assert not seconds.late_events()
    assert set(seconds.column("writer_marks", "time")) <= set(range(7, 28))
    assert 20 < seconds.rows("windows")[-1]["lower"] < 28


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
