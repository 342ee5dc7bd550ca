"""What befell a party is known for as long as it lasts."""

from __future__ import annotations

import pytest

from tests.streams.answers.runs import fault, written
from wmlab.core.recording import Recording
from wmlab.streams.answers.history import StreamTables
from wmlab.streams.answers.run_state import Fault, RunWalk
from wmlab.streams.answers.vocabulary import State
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.tables import Subject


def fault_at(recording: Recording, at_ms: int, party: str = "w", subject: Subject = "writer") -> Fault | None:
    return RunWalk(StreamTables(recording, "orders")).at(at_ms).faults.of(subject, party, at_ms=at_ms)


def kind_at(recording: Recording, at_ms: int, party: str = "w", subject: Subject = "writer") -> State | None:
    active = fault_at(recording, at_ms, party, subject)
    return None if active is None else active.kind


def test_a_fault_lasts_until_the_incident_that_ends_it_and_a_changed_clock_is_none() -> None:
    incidents = [fault(kind, "w", at_ms) for kind, at_ms in (("clock", 50), ("silence", 100), ("speak", 300))]
    incidents += [fault("crash", "w", 400), fault("restart", "w", 500)]
    recording = written(incidents=incidents)
    assert [kind_at(recording, at_ms) for at_ms in (49, 50, 100, 299, 300, 400, 500)] == [
        None,
        None,
        State.SILENT,
        State.SILENT,
        None,
        State.DOWN,
        None,
    ]


def test_of_several_faults_the_first_of_the_table_is_named() -> None:
    incidents = [fault("silence", "w", 100), fault("idle", "w", 150), fault("crash", "w", 200)]
    assert [kind_at(written(incidents=incidents), at_ms) for at_ms in (100, 150, 200)] == [
        State.SILENT,
        State.IDLE,
        State.DOWN,
    ]


def test_a_crash_ends_a_pause() -> None:
    incidents = [
        fault(kind, "r", at_ms, subject="reader") for kind, at_ms in (("pause", 1), ("crash", 2), ("restart", 3))
    ]
    recording = written(incidents=incidents)
    kinds = [kind_at(recording, at_ms, "r", "reader") for at_ms in (1, 2, 3)]
    assert kinds == [State.PAUSED, State.DOWN, None]


@pytest.mark.parametrize("outcome", ["nobody there", "no effect", "never happened"])
def test_what_a_script_asks_of_somebody_that_is_not_there_changes_nothing(outcome: str) -> None:
    asked = fault("idle", "w", 200, "w is not running", outcome=outcome)
    recording = written(incidents=[fault("crash", "w", 100), asked, fault("restart", "w", 300)])
    assert [kind_at(recording, at_ms) for at_ms in (250, 350)] == [State.DOWN, None]


def test_a_partition_cuts_off_the_nodes_of_both_sides_until_it_heals() -> None:
    sides = [["w", "x"], ["c1", "segment-store"]]
    begin = fault("partition", "w and c", 100, subject="network", sides=sides, until_ms=400)
    recording = written(incidents=[begin, fault("heal", "w and c", 400, subject="network")])
    active = fault_at(recording, 200)
    assert active is not None
    assert (active.kind, active.since_ms, active.until_ms) == (State.CUT_OFF, 100, 400)
    assert active.apart_from == ("c1", "segment-store")
    faults = RunWalk(StreamTables(recording, "orders")).at(200).faults
    assert faults.of("controller", "c1", at_ms=200, needs=("metadata-store",)) is None
    assert faults.of("writer", "w", at_ms=200, needs=("segment-store",)) is not None
    assert kind_at(recording, 400) is None


def test_all_that_a_script_does_has_its_planned_end_and_ends_then() -> None:
    actions = [
        script.SilenceWriter(at_ms=1_000, writer="w", for_ms=500),
        script.MarkIdle(at_ms=2_000, writer="w", for_ms=500),
        script.CrashWriter(at_ms=3_000, writer="w", restart_after_ms=500),
        script.NoteTime(at_ms=4_000, writer="w", time=4_000),
        script.ShutDownWriter(at_ms=5_000, writer="w", restart_after_ms=500),
        script.UpgradeWriter(at_ms=5_800, writer="w"),
        script.DuplicateWriter(at_ms=6_000, writer="w"),
        script.PauseReader(at_ms=1_000, reader="readers-0", for_ms=500),
        script.CrashReader(at_ms=2_000, reader="readers-0", restart_after_ms=500),
        script.PauseController(at_ms=1_000, for_ms=500),
        script.CrashController(at_ms=2_000, controller="controller-0", restart_after_ms=500),
    ]
    writers = [EventWriter("w", rate_per_s=50)]
    scenario = Scenario(
        "states", stream=Stream("orders"), writers=writers, readers=ReaderGroup(), script=actions, duration_ms=7_000
    )
    recording = scenario.record(progress=False)
    kinds = State
    for party, subject, expected in (
        ("w", "writer", {1_200: kinds.SILENT, 2_200: kinds.IDLE, 3_200: kinds.DOWN, 5_200: kinds.SHUT_DOWN}),
        ("readers-0", "reader", {1_200: kinds.PAUSED, 2_200: kinds.DOWN}),
        ("controller-0", "controller", {1_200: kinds.PAUSED, 2_200: kinds.DOWN}),
    ):
        active = {at_ms: fault_at(recording, at_ms, party, subject) for at_ms in range(1_200, 7_000, 500)}  # type: ignore[arg-type]
        assert {at_ms: state.kind for at_ms, state in active.items() if state is not None} == expected
        assert all(state.until_ms == state.since_ms + 500 for state in active.values() if state is not None)


def test_a_transaction_explains_a_silence_until_it_is_to_end_and_one_that_was_aborted_until_the_next_note() -> None:
    actions = [
        script.SlowTransaction(at_ms=1_000, writer="t", hold_ms=900),
        script.CommitTransaction(at_ms=2_000, writer="t"),
        script.AbortTransaction(at_ms=3_000, writer="t"),
        script.WriteInTransaction(at_ms=4_000, writer="t"),
    ]
    writer = TransactionalWriter("t", rate_per_s=50, every_ms=900, open_ms=600)
    scenario = Scenario("states", stream=Stream("orders"), writers=[writer], script=actions, duration_ms=7_000)
    recording = scenario.record(progress=False)
    heard = [row["received_ms"] for row in recording.table("writer_marks").to_pylist()]
    open_at_1_s = [row for row in recording.table("transactions").to_pylist() if row["begun_ms"] <= 1_000]
    (held,) = (row for row in open_at_1_s if row["commit_requested_ms"] > 1_000)
    for expected, since_ms, over_ms in (
        (State.IN_TRANSACTION, held["begun_ms"], held["commit_requested_ms"]),
        (State.WITHOUT_COMMIT, 3_000, min(at_ms for at_ms in heard if at_ms > 3_000)),
    ):
        fault = fault_at(recording, over_ms - 1, "t", "writer")
        assert fault is not None
        assert (fault.kind, fault.since_ms) == (expected, since_ms)
        assert kind_at(recording, over_ms, "t") is None
    assert kind_at(recording, 2_100, "t") is None, "a commit explains no silence"
