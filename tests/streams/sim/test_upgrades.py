"""Old clients next to new ones while a fleet migrates: PDP-33, "Compatibility and Migration"."""

from dataclasses import replace

import pytest

from tests.streams.sim.worlds import noted, run, run_of, scenario
from wmlab.core.values import Problems
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter

OLD = {"writer_id": None, "note_every_ms": None}
FLEET = [EventWriter(name, rate_per_s=50, delay_mean_ms=300.0, **OLD) for name in ("a", "b")]


def migration(*upgrades, writers=FLEET, **fields):
    """Two old writers; each upgrade is a writer and the moment in ms."""
    acts = [script.UpgradeWriter(at_ms=at_ms, writer=name) for name, at_ms in upgrades]
    return scenario(writers=writers, script=acts, controllers=Controllers(period_ms=500), **fields)


@pytest.mark.parametrize("rules", ["design", "implementation", "sound"])
def test_while_old_writers_are_left_the_bound_says_nothing_of_them_and_before_there_is_none(rules):
    world = run_of(migration(("a", 5_000), ("b", 12_000), rules=rules))
    marks = world.rows("watermarks")
    assert not world.rows("errors")
    assert min(row["emitted_ms"] for row in marks) > 6_000
    assert [set(row["writers"]) for row in marks if row["emitted_ms"] < 12_000][-1] == {"a"}
    assert set(marks[-1]["writers"]) == {"a", "b"}
    assert {lower for at_ms, lower in world.lowers() if at_ms < 6_000} == {None}
    late = [
        any(mark["lower"] > time and mark["emitted_ms"] < append_ms for mark in marks if mark["emitted_ms"] < 12_000)
        for name in ("a", "b")
        for time, append_ms in world.events_of(name)
        if append_ms < 12_000
    ]
    assert any(late), "an old writer promises nothing"


def test_an_upgrade_loses_and_repeats_no_event():
    before, after = run_of(migration()), run_of(migration(("a", 5_000), ("b", 12_000)))
    assert [before.times_of(name) for name in ("a", "b")] == [after.times_of(name) for name in ("a", "b")]
    assert not before.rows("watermarks")
    kinds = [(row["kind"], row["target"]) for row in after.rows("incidents")]
    assert kinds == [("upgrade", "a"), ("upgrade", "b")]


def test_the_whole_fleet_is_upgraded_and_no_event_comes_behind_a_bound():
    world = run_of(migration(("a", 5_000), ("b", 12_000), stream=Stream(expected_writers=2)))
    assert min(row["emitted_ms"] for row in world.rows("watermarks")) > 12_000
    assert world.late_events() == 0
    world.assert_sound()


def test_an_old_client_may_come_back_and_its_last_mark_is_there_until_the_timeout():
    back = script.UpgradeWriter(at_ms=5_000, writer="a", **OLD)
    writers = [EventWriter(name, rate_per_s=50) for name in ("a", "b")]
    world = run(
        writers=writers,
        script=[back],
        stream=Stream(timestamp_aggregation_timeout_ms=4_000),
        controllers=Controllers(period_ms=500),
    )
    assert max(world.column("writer_marks", "noted_ms", process="a")) <= 5_000
    (removed,) = world.removals()
    assert removed[1] == ["a"]
    assert removed[0] >= 9_000
    assert not world.rows("writer_shutdowns")


def test_a_transactional_writer_is_upgraded_and_its_commits_note_a_time_from_then_on():
    writer = TransactionalWriter("t", rate_per_s=50, every_ms=1_000, commit_latency_ms=50, noting=noting.Never())
    world = run(writers=[writer], script=[script.UpgradeWriter(at_ms=6_300, writer="t")])
    asked = [row for row in world.rows("transactions") if row["commit_requested_ms"] is not None]
    assert len(asked) > 15
    assert [row["time"] is None for row in asked] == [row["commit_requested_ms"] < 6_400 for row in asked]
    world.assert_merged_once()


def test_automatic_notes_begin_with_the_client_that_has_them():
    act = script.UpgradeWriter(at_ms=6_300, writer="a", automatically_note_time=True)
    world = run(writers=FLEET, script=[act, noted(7_000, "a", 5)])
    first = world.rows("writer_marks")[0]
    assert 11_300 <= first["noted_ms"] == first["time"] <= 11_400
    assert [row["at_ms"] for row in world.rows("errors")] == [7_000]


def test_a_note_is_refused_as_long_as_the_writer_has_no_id():
    upgrade = script.UpgradeWriter(at_ms=5_000, writer="a")
    run(writers=FLEET, script=[upgrade, noted(6_000, "a", 5)], duration_ms=7_000)
    with pytest.raises(Problems, match=r"script\[1\]\.writer: 'a' has no writer_id"):
        run(writers=FLEET, script=[upgrade, noted(4_000, "a", 5)])
    with pytest.raises(Problems, match=r"script\[0\]\.noting: .*leave noting out"):
        run(
            writers=FLEET,
            script=[replace(upgrade, automatically_note_time=True, noting=noting.WallClock())],
        )


def test_nobody_is_upgraded_who_does_not_run():
    acts = [script.CrashWriter(at_ms=4_000, writer="a"), script.UpgradeWriter(at_ms=5_000, writer="a")]
    world = run(writers=FLEET, script=acts)
    assert world.rows("incidents")[-1]["detail"] == "a is not running"
    assert not world.rows("writer_marks")


def test_a_reader_that_does_not_know_of_marks_sees_no_window_and_reads_on():
    old = ReaderGroup("old", time_windows=False)
    world = run_of(migration(("a", 5_000), ("b", 12_000), readers=[ReaderGroup("new"), old]))
    assert world.column("windows", "lower", group="new")[-1] is not None
    assert {(row["lower"], row["upper"]) for row in world.rows("windows", group="old")} == {(None, None)}
    positions = {name: world.rows("positions", group=name)[-1]["offset"] for name in ("new", "old")}
    assert positions["new"] == positions["old"] > 0
