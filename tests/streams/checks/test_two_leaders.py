"""I2 is judged in every run but those in which a controller ran cycles while another one led."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tests.streams.checks.runs import recorded
from wmlab.core.recording import Recording
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import Controllers

LEADS: dict[str, Any] = {
    "controllers": Controllers(2, period_ms=1_000, session_timeout_ms=2_000),
    "duration_ms": 40_000,
}


def crashes(*at_ms: int) -> list[script.CrashController]:
    return [script.CrashController(at_ms=at, controller="leader", restart_after_ms=4_000) for at in at_ms]


def controllers_of(run: Recording) -> list[str]:
    names = run.table("cycles").sort_by("at_ms")["controller"].to_pylist()
    return [name for name, _ in groupby(names)]


def test_i2_is_judged_where_a_bucket_comes_back() -> None:
    run = recorded("back", **LEADS, script=crashes(6_000, 20_000))
    assert len(controllers_of(run)) == 3
    (verdict,) = run.check("I2")
    assert (verdict.verdict, verdict.judged) == ("ok", run.table("watermarks").num_rows - 1)


def test_i2_is_not_judged_where_a_bucket_may_have_come_back_or_not() -> None:
    run = recorded("back", **LEADS, script=crashes(6_000, 20_000))
    tables = {name: table for name, table in run.tables.items() if name != "ownership"}
    (verdict,) = StreamRecording.from_tables(tables, name="no owners").check("I2")
    assert verdict.verdict == "unknown"
    assert verdict.what == "not promised: controller-0 and controller-1 both led orders for a while"
