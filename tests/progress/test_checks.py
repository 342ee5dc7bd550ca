"""The judge of progress says ok of a sound run, names every broken promise with its proof, and knows what it cannot."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

from tests.progress.sim.plans import growing, query, scenario, source
from wmlab.core.errors import ModelError
from wmlab.core.invariants import verdicts_of
from wmlab.core.recording import Recording
from wmlab.progress import DuplicateBuffer, Join, LoseBuffer, PlanScenario, Source
from wmlab.progress.checks import INVARIANTS, LIVENESS, inputs_of
from wmlab.progress.model.tracker import ProgressRules
from wmlab.progress.rules import Rules
from wmlab.progress.tables import PROGRESS_TABLES

Rows = list[dict[str, Any]]


@functools.cache
def recorded(**fields: Any) -> Recording:
    short: PlanScenario = scenario(duration_ms=4_000)
    return short.replace(**fields).record()


def buffers_of(recording: Recording) -> Rows:
    return recording.table("buffers").to_pylist()


def judged(name: str, buffers: Rows, **rules: Any) -> Any:
    chosen = {name: (INVARIANTS | LIVENESS)[name]}
    table = pa.Table.from_pylist(buffers, schema=PROGRESS_TABLES["buffers"])
    return verdicts_of("", chosen, [("q", {"buffers": table})], inputs_of(ProgressRules(**rules)))[name]


SOUND = (query(growing("a", 3), source("b"), window=Join(1_000, slide_ms=500)),)


def test_all_is_well_in_a_sound_run() -> None:
    recording = recorded(queries=SOUND, script=(LoseBuffer("a", 60),))
    with pytest.raises(ModelError, match="no invariant 'I1'"):
        recording.check("I1")
    verdicts = recording.check()
    assert [verdict.invariant for verdict in verdicts] == list(INVARIANTS)
    assert {verdict.invariant: verdict.what for verdict in verdicts if verdict.verdict != "ok"} == {}


def plan(*sources: Source, **fields: Any) -> dict[str, Any]:
    return {"queries": (query(*sources, **fields),)}


HEAD = plan(source("a", disorder_ms=900), source("b")) | {"rules": Rules(local="head")}


@pytest.mark.parametrize(
    ("fields", "local", "verdicts"),
    [
        (
            {"queries": SOUND, "rules": Rules(local="literal")},
            "literal",
            {"N1": "taken to be complete up to", "N3": "^ok$", "N6": "^ok$"},
        ),
        ({"queries": SOUND, "script": (DuplicateBuffer("a", 20, chunk=1),)}, "running_max", {"N10": "has the chunks"}),
        (
            {"queries": SOUND, "rules": Rules(complete="literal")},
            "running_max",
            {
                "N1": "taken to be complete up to",
                "N3": "was complete unnoticed$|was complete too early$",
                "N6": "^ok$",
            },
        ),
        (HEAD, "head", {"N1": "^ok$"}),
        (HEAD, "running_max", {"N1": "taken to be complete up to"}),
    ],
    ids=["literal sentence", "repeated", "literal rule", "head", "head as maximum"],
)
def test_an_option_of_the_text_or_an_engine_is_found_out(fields, local, verdicts) -> None:
    buffers = buffers_of(recorded(**fields))
    for name, words in verdicts.items():
        row = judged(name, buffers, local=local)
        assert re.search(words, row.what or row.verdict)


def at(rows: Rows, number: int = 30, **where: Any) -> dict[str, Any]:
    return [row for row in rows if all(row[name] == value for name, value in where.items())][number]


def _shift(column: str, by: int, number: int = 30, **where: Any) -> Callable[[Rows], None]:
    def change(buffers: Rows) -> None:
        at(buffers, number, **where)[column] += by

    return change


def _not_complete(buffers: Rows) -> None:
    at(buffers, operator="build", completed=True)["completed"] = False


def _twice(buffers: Rows) -> None:
    row = at(buffers, operator="build", emitter="b")
    buffers.append(row | {"arrival": 10_000, "completed": False})


BROKEN = {
    "N1": (_shift("reached_prefix", 1, operator="build"), "taken to be complete up to"),
    "N3": (_not_complete, "was complete unnoticed"),
    "N6": (_shift("reached", 1, operator="build"), "the smallest local one is"),
    "N10": (_twice, "has the chunks 0, 0 and 2 last flags"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_proved(name: str) -> None:
    buffers = copy.deepcopy(buffers_of(recorded(queries=SOUND)))
    change, words = BROKEN[name]
    change(buffers)
    row = judged(name, buffers)
    assert (row.invariant, row.verdict) == (name, "violated")
    assert words in row.what
    assert 1 <= row.violations < row.judged
    assert all(proof.table == "buffers" and proof.row for proof in row.evidence)


@pytest.mark.parametrize(
    "change",
    [
        _shift("reached_prefix", 1, operator="build", completed=False),
        _shift("reached_local", -1, 8, operator="build", emitter="b"),
        _shift("reached_local", 9_999, operator="build"),
    ],
    ids=["N2", "N5", "N7"],
)
def test_what_follows_from_the_prefix_is_proved_by_it(change) -> None:
    """A prefix that grew over a gap, and a local watermark that is none of the values that it may be."""
    buffers = copy.deepcopy(buffers_of(recorded(queries=SOUND)))
    change(buffers)
    row = judged("N1", buffers)
    assert (row.verdict, row.violations) == ("violated", 1)


def test_an_origin_that_stays_before_a_whole_sequence_is_named() -> None:
    """N12: the last arrival of an origin leaves its prefix one short of what has come."""
    buffers = buffers_of(recorded(queries=SOUND))
    assert judged("N12", buffers).verdict == "ok"
    last = max(
        (row for row in buffers if (row["operator"], row["emitter"]) == ("build", "b")), key=itemgetter("arrival")
    )
    prefix = last["reached_prefix"]
    row = judged("N12", [buffer | {"reached_prefix": prefix - 1} if buffer is last else buffer for buffer in buffers])
    assert (row.verdict, row.violations) == ("violated", 1)
    assert f"stands still before sequence {prefix}, which has come whole" in row.what


def test_without_buffers_nothing_can_be_judged() -> None:
    row = judged("N1", [])
    assert (row.verdict, row.what) == ("unknown", None)
