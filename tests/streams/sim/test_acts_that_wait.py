"""An act of the script that waits for a moment which never comes says so at the end; it is not lost in silence."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import wmlab as wm
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.streams.scenario.script import CommitPoint, ControllerPoint
from wmlab.streams.tables import TOOK_PLACE

END_MS = 6_000


def recorded(*script: Any, transactional: bool = False) -> Any:
    writers: list[Any] = [wm.EventWriter("w", rate_per_s=5)]
    if transactional:
        writers.append(wm.TransactionalWriter("t", rate_per_s=5, every_ms=2_000, commit_latency_ms=100))
    scenario = wm.Scenario(
        "waiting",
        stream=wm.Stream("orders", segments=2),
        writers=writers,
        controllers=wm.Controllers(period_ms=1_000),
        script=script,
        duration_ms=END_MS,
    )
    return scenario.record(progress=False)


def in_vain(run: Any) -> list[tuple[int, str, str]]:
    rows = run.table("incidents").to_pylist()
    return [(row["at_ms"], row["kind"], row["detail"]) for row in rows if row["outcome"] == NEVER_HAPPENED]


@pytest.mark.parametrize("point", ["between_seals", "before_leave", "after_merge"])
@pytest.mark.parametrize("made", [wm.script.CrashController, wm.script.PauseController])
def test_a_point_that_no_controller_comes_to_is_an_incident(made: Any, point: Any) -> None:
    fields = {"for_ms": 500} if made is wm.script.PauseController else {}
    run = recorded(made(at_ms=1_500, point=point, **fields))
    kind = made.__name__.removesuffix("Controller").lower()
    said = f"controller-0 was to {kind} {point.replace('_', ' ')}, which never came"
    assert in_vain(run) == [(END_MS, kind, said)]
    assert run.explain().facts["never came"] == said
    (last,) = [moment for moment in run.timeline().moments if "never came" in moment.what]
    assert (last.at_ms, last.who) == (END_MS, "controller-0")


def test_a_point_that_comes_is_not() -> None:
    assert set(get_args(CommitPoint)) < set(get_args(ControllerPoint))
    run = recorded(
        wm.script.CrashController(at_ms=1_500, point="after_append", restart_after_ms=500),
        wm.script.Scale(at_ms=4_000, seal=["0@0"]),
        wm.script.ShutDownWriter(at_ms=5_000, writer="w"),
    )
    assert in_vain(run) == []
    assert ("crash", TOOK_PLACE) in [(row["kind"], row["outcome"]) for row in run.table("incidents").to_pylist()]


def test_every_crash_of_the_commit_handler_waits_for_its_own_point() -> None:
    crashes = [wm.script.CrashCommitHandler(at_ms=at_ms, point="after_noting") for at_ms in (10, 20)]
    assert (
        in_vain(recorded(*crashes))
        == [(END_MS, "crash_commit_handler", "the commit handler was to crash after noting, which never came")] * 2
    )
    run = recorded(*crashes, transactional=True)
    assert in_vain(run) == []
    kinds = [row["kind"] for row in run.table("incidents").to_pylist()]
    assert kinds.count("crash_commit_handler") == 2


def test_answers_that_were_to_be_lost_are_counted() -> None:
    (row,) = in_vain(recorded(wm.script.LoseMergeReply(at_ms=10, count=3)))
    assert row == (END_MS, "lose_merge_reply", "3 answers to merge requests to be lost never came")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (wm.script.Scale(at_ms=2_600, seal=["0@0"]), "the scale of 0@0 was to begin when no commit was in work"),
        (wm.script.SealStream(at_ms=2_600), "orders was to be sealed when all was committed"),
        (
            wm.script.ShutDownWriter(at_ms=2_600, writer="t"),
            "t was to leave when all that it wrote was acknowledged",
        ),
    ],
    ids=lambda of: type(of).__name__,
)
def test_a_change_that_waits_for_a_commit_which_never_ends_is_an_incident(act: Any, said: str) -> None:
    outage = wm.script.StoreUnavailable(at_ms=2_005, for_ms=60_000, store="segment_metadata")
    stop = wm.script.PauseController(at_ms=1_900, point="before_merge", for_ms=60_000)
    run = recorded(outage, stop, act, transactional=True)
    assert f"{said}, which never came" in [detail for _, _, detail in in_vain(run)]
    assert any("never came" in moment.what for moment in run.timeline().moments)
