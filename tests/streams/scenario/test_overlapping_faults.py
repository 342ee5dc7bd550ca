"""Faults that overlap with an earlier one of the same party are refused with the interval of that."""

from __future__ import annotations

from typing import Any

import pytest

from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script as do
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup

HARD_STOP = {"writer": "w1", "restart_after_ms": 10_000}


def scenario(*script: Any, **fields: Any) -> Scenario:
    given: dict[str, Any] = {
        "writers": [EventWriter("w1", rate_per_s=5), EventWriter("w2", rate_per_s=5)],
        "readers": ReaderGroup(readers=2),
        "duration_ms": 60_000,
    }
    return Scenario("overlaps", script=script, **(given | fields))


REFUSED: dict[str, tuple[list[Any], str]] = {
    "a crash while down": (
        [do.CrashWriter(at_ms=5_000, **HARD_STOP), do.CrashWriter(at_ms=7_250, **HARD_STOP)],
        "script[1]: w1 is down from 5 s to 15 s (got 7.25 s)",
    ),
    "a crash in the millisecond of the restart, which comes after it": (
        [do.CrashWriter(at_ms=5_000, **HARD_STOP), do.CrashWriter(at_ms=15_000, **HARD_STOP)],
        "script[1]: w1 is down from 5 s to 15 s (got 15 s)",
    ),
    "in the order of time, whatever that of the script": (
        [do.CrashWriter(at_ms=900, writer="w1"), do.CrashWriter(at_ms=400, writer="w1")],
        "script[0]: w1 is down from 400 ms on (got 900 ms)",
    ),
    "a crash after a shutdown": (
        [do.ShutDownWriter(at_ms=5_000, writer="w1"), do.CrashWriter(at_ms=9_000, writer="w1")],
        "script[1]: w1 is down from 5 s on (got 9 s)",
    ),
    "silence while silent": (
        [do.SilenceWriter(at_ms=5_000, writer="w1", for_ms=500), do.SilenceWriter(at_ms=5_100, writer="w1")],
        "script[1]: w1 is silent from 5 s to 5.5 s (got 5.1 s)",
    ),
    "idle while idle": (
        [do.MarkIdle(at_ms=5_000, writer="w1"), do.MarkIdle(at_ms=6_000, writer="w1", for_ms=500)],
        "script[1]: w1 is idle from 5 s on (got 6 s)",
    ),
    "a pause while paused": (
        [do.PauseReader(at_ms=5_000, reader="readers-0", for_ms=5), do.PauseReader(at_ms=5_003, reader="readers-0")],
        "script[1]: readers-0 is paused from 5 s to 5.005 s (got 5.003 s)",
    ),
    "a crash of a reader that is down": (
        [do.CrashReader(at_ms=5_000, reader="readers-0"), do.CrashReader(at_ms=6_000, reader="readers-0")],
        "script[1]: readers-0 is down from 5 s on (got 6 s)",
    ),
    "a pause of a controller that is down": (
        [
            do.CrashController(at_ms=5_000, controller="controller-0", restart_after_ms=2_000),
            do.PauseController(at_ms=6_000, controller="controller-0", for_ms=10),
        ],
        "script[1]: controller-0 is down from 5 s to 7 s (got 6 s)",
    ),
    "the only controller, by its roles": (
        [do.CrashController(at_ms=5_000), do.CrashController(at_ms=6_000, controller="committer")],
        "script[1]: controller-0 is down from 5 s on (got 6 s)",
    ),
    "a store twice": (
        [do.StoreUnavailable(at_ms=5_000, for_ms=1_000), do.StoreUnavailable(at_ms=5_500, for_ms=1_000)],
        "script[1]: the store writer_marks is unavailable from 5 s to 6 s (got 5.5 s)",
    ),
    "a marks segment twice": (
        [do.LoseMarksSegment(at_ms=5_000, for_ms=1_000), do.LoseMarksSegment(at_ms=5_500, for_ms=1_000)],
        "script[1]: the marks segment of stream is missing from 5 s to 6 s (got 5.5 s)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_overlapping_fault_is_refused_with_the_interval(name: str) -> None:
    script, message = REFUSED[name]
    with pytest.raises(Problems) as refused:
        scenario(*script)
    assert [str(problem) for problem in refused.value.problems] == [message]


ACCEPTED: dict[str, list[Any]] = {
    "a crash after the restart": [do.CrashWriter(at_ms=5_000, **HARD_STOP), do.CrashWriter(at_ms=15_001, **HARD_STOP)],
    "another party": [do.CrashWriter(at_ms=5_000, writer="w1"), do.CrashWriter(at_ms=6_000, writer="w2")],
    "a crash while silent": [do.SilenceWriter(at_ms=5_000, writer="w1"), do.CrashWriter(at_ms=6_000, writer="w1")],
    "a crash while paused, which ends the pause": [
        do.PauseReader(at_ms=5_000, reader="readers-0"),
        do.CrashReader(at_ms=6_000, reader="readers-0", restart_after_ms=100),
        do.PauseReader(at_ms=7_000, reader="readers-0"),
    ],
    "a writer that its stream has started again": [
        do.CrashWriter(at_ms=5_000, writer="w1"),
        do.DeleteStream(at_ms=6_000, recreate_after_ms=1_000),
        do.CrashWriter(at_ms=8_000, writer="w1"),
    ],
    "another store": [
        do.StoreUnavailable(at_ms=5_000, for_ms=1_000),
        do.StoreUnavailable(at_ms=5_500, for_ms=1_000, store="marks_segment"),
    ],
    "points, which have no moment": [
        do.CrashController(at_ms=5_000, point="after_marks"),
        do.PauseController(at_ms=6_000, for_ms=10, point="after_log"),
    ],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_does_not_overlap_is_accepted(name: str) -> None:
    assert len(scenario(*ACCEPTED[name]).script) == len(ACCEPTED[name])


def test_who_has_a_role_among_several_controllers_is_known_only_in_the_run() -> None:
    crashes = [do.CrashController(at_ms=5_000), do.CrashController(at_ms=6_000)]
    assert len(scenario(*crashes, controllers=Controllers(2)).script) == 2


def test_in_the_quiet_after_a_scenario_who_is_silent_stays_so() -> None:
    silences = [
        do.SilenceWriter(at_ms=5_000, writer="w2", for_ms=1_000),
        do.SilenceWriter(at_ms=50_000, writer="w1", for_ms=20_000),
    ]
    followed = scenario(*silences).followed_by_quiet(30_000)
    assert followed.duration_ms == 90_000
    assert followed.script == (
        silences[0],
        do.SilenceWriter(at_ms=50_000, writer="w1"),
        do.SilenceWriter(at_ms=60_000, writer="w2"),
    )
