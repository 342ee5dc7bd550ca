"""What befell a writer is told for as long as it lasts."""

from __future__ import annotations

from tests.streams.answers.runs import fault, written
from wmlab.streams.answers.history import history_at
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, Stream, TransactionalWriter

Fault = tuple[str, int] | tuple[str, int, str]


def state(at_ms: int, *faults: Fault) -> str:
    told = [fault(kind, "w", when, *detail) for kind, when, *detail in faults]
    return history_at(written(incidents=told), "orders", at_ms).state_of("w")


def test_a_state_lasts_from_its_fault_to_the_one_that_ends_it_and_the_worst_of_several_is_told() -> None:
    faults = [("silence", 100), ("crash", 200), ("speak", 300), ("restart", 400)]
    told = [state(at_ms, *faults) for at_ms in (99, 100, 199, 200, 300, 399, 400)]
    assert told == ["", "silent", "silent", "crashed", "crashed", "crashed", ""]
    faults = [("silence", 100), ("crash", 200), ("restart", 300), ("speak", 400)]
    assert [state(at_ms, *faults) for at_ms in (299, 300, 399, 400)] == ["crashed", "silent", "silent", ""]


def test_what_a_script_asks_of_a_writer_that_is_not_there_changes_nothing() -> None:
    crashed, restarted = fault("crash", "w", 100), fault("restart", "w", 300)
    asked = fault("idle", "w", 200, "w is not running", outcome="nobody there")
    recording = written(incidents=[crashed, asked, restarted])
    assert [history_at(recording, "orders", at_ms).state_of("w") for at_ms in (250, 350)] == ["crashed", ""]


def test_who_asks_a_crashed_controller_for_something_does_not_bring_it_back() -> None:
    asked = fault("expire", "c1", 200, "nobody is c1 now", outcome="nobody there", subject="controller")
    faults = [fault("crash", "c1", 100, subject="controller"), asked]
    assert history_at(written(incidents=faults), "orders", 300).controllers == {"c1": ("crash", 100)}


def test_of_other_faults_the_detail_is_told() -> None:
    step = ("clock", 100, "clock of w set back by 500 ms")
    assert state(200, step) == "clock of w set back by 500 ms"
    assert state(200, step, ("crash", 150)) == "crashed"
    assert state(200, step, ("note", 150, "w notes 7")) == "clock of w set back by 500 ms"


def test_all_that_a_script_does_to_writers_ends_when_it_ends() -> None:
    actions = [
        script.SilenceWriter(at_ms=1_000, writer="w", for_ms=500),
        script.MarkIdle(at_ms=2_000, writer="w", for_ms=500),
        script.CrashWriter(at_ms=3_000, writer="w", restart_after_ms=500),
        script.NoteTime(at_ms=4_000, writer="w", time=4_000),
        script.ShutDownWriter(at_ms=5_000, writer="w", restart_after_ms=500),
        script.UpgradeWriter(at_ms=5_800, writer="w"),
        script.DuplicateWriter(at_ms=6_000, writer="w"),
        script.SlowTransaction(at_ms=1_000, writer="t", hold_ms=900),
        script.CommitTransaction(at_ms=2_000, writer="t"),
        script.AbortTransaction(at_ms=3_000, writer="t"),
        script.WriteInTransaction(at_ms=4_000, writer="t"),
    ]
    writers = [EventWriter("w", rate_per_s=50), TransactionalWriter("t", rate_per_s=50, every_ms=900, open_ms=600)]
    scenario = Scenario("states", stream=Stream("orders"), writers=writers, script=actions, duration_ms=7_000)
    recording = scenario.record(progress=False)
    states = {at_ms: history_at(recording, "orders", at_ms).state_of("w") for at_ms in range(1_200, 7_000, 500)}
    assert {at_ms: told for at_ms, told in states.items() if told} == {
        1_200: "silent",
        2_200: "idle",
        3_200: "crashed",
        5_200: "shut down",
    }
    kinds = {row["kind"] for row in recording.table("incidents").to_pylist() if row["target"] == "t"}
    assert kinds == {"hold", "commit", "abort", "write"}
    heard = [row["received_ms"] for row in recording.table("writer_marks").to_pylist() if row["writer"] == "t"]
    for row in recording.table("incidents").to_pylist():
        if row["kind"] in {"hold", "abort"}:
            again_ms = min(at_ms for at_ms in heard if at_ms > row["at_ms"])
            assert history_at(recording, "orders", again_ms - 1).state_of("t") == row["detail"]
            assert history_at(recording, "orders", again_ms).state_of("t") == ""
    assert history_at(recording, "orders", 2_100).state_of("t") == "", "a commit explains no silence"
