"""The judge of progress says ok of a sound run, names every broken promise with its proof, and knows what it cannot."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.progress.sim.plans import growing, query, scenario, source
from tests.spark_jobs import adaptive_planning, jobs_so_far
from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.progress import Aggregate, DuplicateBuffer, Join, LoseBuffer, PlanScenario, Source
from wmlab.progress.checks import INVARIANTS, JUDGED_TABLES, inputs_of
from wmlab.progress.tables import PROGRESS_TABLES

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]


@functools.cache
def recorded(**fields: Any) -> Recording:
    short: PlanScenario = scenario(duration_ms=4_000)
    return short.replace(**fields).record()


def tables_of(recording: Recording) -> Tables:
    return {name: recording.table(name).to_pylist() for name in JUDGED_TABLES}


def judged(spark: SparkSession, name: str, tables: Tables, **options: Any) -> Any:
    frames = {table: pa.Table.from_pylist(rows, schema=PROGRESS_TABLES[table]) for table, rows in tables.items()}
    (row,) = verdict.verdicts(spark, {name: INVARIANTS[name]}, inputs_of(frames, **options))
    return SimpleNamespace(**row)


SOUND = (query(growing("a", 3), source("b"), window=Join(1_000, slide_ms=500)),)


def test_all_is_well_in_a_sound_run(spark: SparkSession) -> None:
    recording = recorded(queries=SOUND, script=(LoseBuffer("a", 60),))
    with pytest.raises(ModelError, match="no invariant 'I1'"):
        recording.check(spark, "I1")
    verdicts = recording.check(spark)
    assert [verdict.invariant for verdict in verdicts] == list(INVARIANTS)
    assert {verdict.invariant: verdict.what for verdict in verdicts if verdict.verdict != "ok"} == {}


@pytest.mark.parametrize(("adaptive", "most"), [("false", 1), ("true", 2)], ids=["plain", "adaptive"])
def test_a_check_is_one_query_of_spark(spark: SparkSession, adaptive: str, most: int) -> None:
    recording = recorded(queries=SOUND)
    with adaptive_planning(spark, adaptive):
        before = jobs_so_far(spark)
        recording.check(spark)
    assert 1 <= jobs_so_far(spark) - before <= most


def plan(*sources: Source, **fields: Any) -> dict[str, Any]:
    return {"queries": (query(*sources, **fields),)}


LARGEST = plan(growing("a", 3), source("b"), window=Join(1_000, slide_ms=500, carries="largest"))
FORGETS = plan(source("a", disorder_ms=2_500), source("b"), window=Aggregate(1_000, forget_fired=True))
HEAD = plan(source("a", disorder_ms=900), source("b")) | {"local": "head"}


@pytest.mark.parametrize(
    ("fields", "local", "told"),
    [
        ({"queries": SOUND, "local": "literal"}, "literal", {"N1": "the prefix of", "N3": "^ok$", "N6": "^ok$"}),
        (LARGEST, "running_max", {"N9": "the window from"}),
        ({"queries": SOUND, "script": (DuplicateBuffer("a", 20, chunk=1),)}, "running_max", {"N10": "has the chunks"}),
        (
            {"queries": SOUND, "complete": "literal"},
            "running_max",
            {"N1": "the prefix of", "N3": "was complete and not seen to be$|too early$", "N6": "^ok$"},
        ),
        (HEAD, "head", {"N1": "^ok$"}),
        (HEAD, "running_max", {"N1": "the prefix of"}),
        (FORGETS, "running_max", {"N8": "fired again$", "N11": "^ok$"}),
    ],
    ids=["literal sentence", "largest", "repeated", "literal rule", "head", "head as maximum", "forgets"],
)
def test_an_option_of_the_text_or_an_engine_is_found_out(spark: SparkSession, fields, local, told) -> None:
    tables = tables_of(recorded(**fields))
    for name, words in told.items():
        row = judged(spark, name, tables, local=local)
        assert re.search(words, row.what or row.verdict)


def at(rows: Rows, number: int = 30, **where: Any) -> dict[str, Any]:
    found = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return found[number]


def _shift(table: str, column: str, by: int, number: int = 30, **where: Any) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        at(tables[table], number, **where)[column] += by

    return change


def _not_complete(tables: Tables) -> None:
    at(tables["buffers"], operator="build", completed=True)["completed"] = False


def _twice(tables: Tables) -> None:
    row = at(tables["buffers"], operator="build", emitter="b")
    tables["buffers"].append(row | {"arrival": 10_000, "completed": False})


def _early(tables: Tables) -> None:
    row = at(tables["windows_fired"], 2, cause="watermark")
    row["reached"] = row["end"] - 1


BROKEN = {
    "N1": (_shift("buffers", "reached_prefix", 1, operator="build"), "the prefix of"),
    "N3": (_not_complete, "was complete and not seen to be"),
    "N6": (_shift("buffers", "reached", 1, operator="build"), "the smallest local one is"),
    "N8": (_early, "fired at"),
    "N9": (_shift("buffers", "watermark", 1, 3, operator="probe"), "goes out with the watermark"),
    "N10": (_twice, "has the chunks 0, 0 and 2 last flags"),
    "N11": (_shift("windows_fired", "records", 1, 2), "its slices have"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_proved(spark: SparkSession, name: str) -> None:
    tables = copy.deepcopy(tables_of(recorded(queries=SOUND)))
    change, words = BROKEN[name]
    change(tables)
    row = judged(spark, name, tables)
    assert (row.invariant, row.verdict) == (name, "violated")
    assert words in row.what
    assert 1 <= row.violations < row.judged
    assert all(proof["table"] in JUDGED_TABLES and proof["row"].startswith("{") for proof in row.evidence)


@pytest.mark.parametrize(
    "change",
    [
        _shift("buffers", "reached_prefix", 1, operator="build", completed=False),
        _shift("buffers", "reached_local", -1, 8, operator="build", emitter="b"),
        _shift("buffers", "reached_local", 9_999, operator="build"),
    ],
    ids=["N2", "N5", "N7"],
)
def test_what_follows_from_the_prefix_is_proved_by_it(spark: SparkSession, change) -> None:
    """A prefix that grew over a gap, and a local watermark that is none of the values that it may be."""
    tables = copy.deepcopy(tables_of(recorded(queries=SOUND)))
    change(tables)
    row = judged(spark, "N1", tables)
    assert (row.verdict, row.violations) == ("violated", 1)


def test_without_buffers_nothing_can_be_judged(spark: SparkSession) -> None:
    row = judged(spark, "N1", {"buffers": [], "windows_fired": []})
    assert (row.verdict, row.what) == ("unknown", "no buffer came to an operator")
