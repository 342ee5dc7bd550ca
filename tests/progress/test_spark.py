"""Progress and fired windows on Spark are those that the operators of recorded plans wrote down."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, functions as F

from tests.progress.sim.plans import growing, query, rows, run, source
from wmlab.core.errors import ModelError
from wmlab.core.spark.schemas import dataframe
from wmlab.progress.rules import Rules
from wmlab.progress.scenario import (
    Aggregate,
    DelayBuffer,
    DuplicateBuffer,
    Emit,
    EmptyBuffer,
    Join,
    LoseBuffer,
    Renumber,
    SilenceSource,
    Windowing,
    windows_of,
)
from wmlab.progress.sim.world import PlanWorld
from wmlab.progress.spark import PROGRESS_COLUMNS, fired_windows, progress
from wmlab.progress.tables import PROGRESS_TABLES

RUNS: dict[str, Any] = {
    "plain": {},
    "delayed, joined": {
        "queries": [query(growing("a", 3), source("b"), window=Join(1_000, slide_ms=500))],
        "script": [DelayBuffer("a", 20, 2_000)],
    },
    "lost": {"script": [LoseBuffer("a", 100)]},
    "repeated": {"script": [DuplicateBuffer("a", 20, after_ms=50)], "rules": Rules(complete="count", local="literal")},
    "silent": {"script": [SilenceSource("b", at_ms=3_000)]},
    "disordered": {"queries": [query(source("a", disorder_ms=2_500), source("b"))]},
    "exact": {"queries": [query(window=Aggregate(300, slide_ms=1_000))]},
    "strict": {"queries": [query(window=Aggregate(300, slide_ms=1_000))], "rules": Rules(trigger="strict")},
    "literal": {"queries": [query(growing("a", 3), source("b"))], "rules": Rules(complete="literal")},
    "renumbered": {"queries": [query(growing("a", 3), source("b"), operators=[Renumber("r")])]},
    "a join that feeds windows": {
        "queries": [query(source("a"), source("b"), operators=[Join(500), Emit()], window=Aggregate(2_000))],
        "script": [DelayBuffer("a", 20, 2_000)],
    },
    "short slides": {"queries": [query(window=Aggregate(700, slide_ms=300))]},
    "head": {
        "script": [EmptyBuffer("a", 40)],
        "rules": Rules(stamped="filter", local="head"),
    },
}


@cache
def world_of(name: str) -> PlanWorld:
    return run(**RUNS[name])


def buffers_of(spark, name: str, **where: object) -> DataFrame:
    """The arrivals of a run, the last one first."""
    recorded = rows(world_of(name), "buffers", **where)
    return dataframe(spark, pa.Table.from_pylist([dict(row) for row in recorded[::-1]], PROGRESS_TABLES["buffers"]))


def reached(spark, name: str, **where: object) -> dict[tuple[str, int], tuple[Any, ...]]:
    """What Spark says after each arrival of a run, by the rules of the run."""
    rules = world_of(name).scenario.rules
    answer = progress(buffers_of(spark, name, **where), local=rules.local, complete=rules.complete)
    return {
        (row["operator"], row["arrival"]): tuple(row[name] for name in PROGRESS_COLUMNS) for row in answer.collect()
    }


@pytest.mark.parametrize("name", RUNS)
def test_every_arrival_brings_what_the_operator_wrote_down(spark, name) -> None:
    noted = ("completed", "reached_prefix", "reached_local", "reached")
    assert reached(spark, name) == {
        (row["operator"], row["arrival"]): tuple(row[column] for column in noted)
        for row in rows(world_of(name), "buffers")
    }


def test_the_runs_have_what_they_are_to_test() -> None:
    arrivals = [row for name in RUNS for row in rows(world_of(name), "buffers")]
    assert {row["completed"] for row in arrivals} == {True, False}
    assert None in {row["reached"] for row in arrivals}
    assert {world_of(name).scenario.rules.local for name in RUNS} == {"running_max", "head", "literal"}
    assert "breach" in {row["kind"] for row in rows(world_of("repeated"), "incidents")}


def test_columns_and_rows_are_kept_and_names_found_whatever_their_case(spark) -> None:
    mine = [f"arrival * 7 as {name}" for name in ("before", "place", "Records_Before")]
    given = buffers_of(spark, "lost").selectExpr("*", *mine).withColumnsRenamed({"arrival": "Arrival", "last": "LAST"})
    answer = progress(given)
    assert answer.columns == [*given.columns, *PROGRESS_COLUMNS]
    kept = sorted(tuple(map(str, row))[: -len(PROGRESS_COLUMNS)] for row in answer.collect())
    assert kept == sorted(tuple(map(str, row)) for row in given.collect())


def test_arrivals_may_begin_anywhere_and_numbers_be_short(spark) -> None:
    """The largest arrivals are nanoseconds since 1970."""
    given, began = buffers_of(spark, "lost", operator="build"), 1_700_000_000_000_000_000
    short = dict.fromkeys(("origins", "origin", "sequence", "chunk", "chunk_base", "watermark"), "int")
    other = given.withColumn("arrival", given.arrival + began)
    other = other.withColumns({name: other[name].cast(kind) for name, kind in short.items()})
    answer = progress(other).collect()
    found = {("build", row["arrival"] - began): tuple(row[name] for name in PROGRESS_COLUMNS) for row in answer}
    assert found == reached(spark, "lost", operator="build")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"chunk_base": "if(arrival > 9, 1, 0)", "chunk": "1"},
            "no single chunk base: operator build of q has 0 and 1",
        ),
        ({"chunk_base": "1"}, "has a chunk 0 in a trace whose chunks start at 1"),
    ],
    ids=["two bases", "below the base"],
)
def test_chunks_that_do_not_fit_their_base_are_refused_when_the_answer_is_asked_for(spark, change, message) -> None:
    arrivals = buffers_of(spark, "lost", operator="build")
    columns = {name: F.expr(value).cast("long") for name, value in change.items()}
    with pytest.raises(Exception, match=message):
        progress(arrivals.withColumns(columns)).collect()


@pytest.mark.parametrize("name", RUNS)
def test_the_fired_windows_are_those_of_the_run(spark, name) -> None:
    scenario = world_of(name).scenario
    (query,), rules = scenario.queries, scenario.rules
    parts = [part for part in query.operators if isinstance(part, Windowing)]
    for operator, window in zip(windows_of(query), parts, strict=True):
        arrivals = buffers_of(spark, name, operator=operator)
        found = fired_windows(
            progress(arrivals, local=rules.local, complete=rules.complete),
            size=window.size_ms,
            slide=window.slide_ms,
            trigger=rules.trigger,
            flush=name != "silent",
        )
        columns = ("stream", "operator", "sequence", "start", "end", "records", "arrival", "reached")
        # At the end of the stream there is no arrival, and Spark says nothing of the watermark.
        fired = [
            row | ({"reached": None} if row["arrival"] is None else {})
            for row in rows(world_of(name), "windows_fired", operator=operator)
        ]
        wanted = [tuple(row[column] for column in columns) for row in fired]
        assert found.columns == [*columns]
        assert sorted(map(tuple, found.collect())) == sorted(wanted)
        assert wanted


def test_windows_of_another_size_than_the_recorded_slices(spark) -> None:
    """The run has windows of 1,000 ms; two of them make one of 2,000 ms."""
    answer = fired_windows(progress(buffers_of(spark, "plain", operator="build")), size=2_000).collect()
    single = {row["start"]: row["records"] for row in rows(world_of("plain"), "windows_fired")}
    assert [(row["start"], row["records"]) for row in answer] == [
        (start, single[start] + single[start + 1_000]) for start in range(0, 10_000, 2_000)
    ]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda frame: progress(frame.drop("origins")), "no column 'origins'"),
        (lambda frame: progress(frame.withColumnRenamed("slices", "prefix")), "already has a column 'prefix'"),
        (lambda frame: progress(frame.withColumn("watermark", frame.watermark.cast("string"))), "has string as 'water"),
        (lambda frame: progress(frame, local="middle"), "local is 'middle'"),
        (lambda frame: progress(frame, complete="all"), "complete is 'all'"),
        (lambda frame: fired_windows(progress(frame), size=0), "No window has size 0"),
        (lambda frame: fired_windows(progress(frame), size=2.5), "No window has size 2.5"),
        (lambda frame: fired_windows(progress(frame), size=5, trigger="soon"), "trigger is 'soon'"),
        (lambda frame: fired_windows(frame, size=5), "no column 'global_watermark'"),
        (lambda frame: fired_windows(progress(frame).withColumn("slices", F.lit("0")), size=5), "string as 'slices'"),
    ],
)
def test_what_makes_no_sense_is_refused(spark, ask, message) -> None:
    with pytest.raises(ModelError, match=message):
        ask(buffers_of(spark, "lost"))
