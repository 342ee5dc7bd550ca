"""Progress on Spark is that of the pure tracker, arrival by arrival, over many generated plans in one call."""

from __future__ import annotations

import random
import sys
from functools import cache
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.progress.sim.plans import growing, query, rows, run, source
from wmlab.core.errors import ModelError
from wmlab.progress.checks.progress import PROGRESS_COLUMNS, fired_windows, progress
from wmlab.progress.model.chunks import Completed
from wmlab.progress.model.numbers import TupleBuffer
from wmlab.progress.model.tracker import ProgressRules, ProgressTracker
from wmlab.progress.scenario import Aggregate, DelayBuffer, EmptyBuffer, Join, LoseBuffer, Renumber, SilenceSource
from wmlab.progress.sim.world import PlanWorld

SCHEMA = (
    "stream string, operator string, arrival long, origins long, origin long, sequence long, chunk long,"
    "last boolean, chunk_base long, watermark long, slices array<long>, slice_records array<long>"
)
NAMES = [column.split()[0] for column in SCHEMA.split(",")]
Row = dict[str, Any]


def plan(number: int) -> list[Row]:
    """The arrivals at one operator: shuffled, with losses, repeats, gaps, silent origins and values that fall."""
    draws = random.Random(number)
    origins, base = draws.randint(1, 4), number % 2
    buffers = []
    for origin in range(1, origins + 1):
        for sequence in range(1, draws.randint(0, 9)):
            count = draws.choice([1, 1, 2, 3])
            floor = 10 * sequence if number % 3 else 0
            buffers += [
                (origin, sequence, base + chunk, chunk == count - 1, floor + draws.randint(0, 30))
                for chunk in range(count)
            ]
    lost = draws.choice([0.0, 0.0, 0.1])
    buffers = [buffer for buffer in buffers if draws.random() >= lost]
    buffers += draws.sample(buffers, k=min(len(buffers), draws.choice([0, 0, 3])))
    # Workers overtake each other a little, or wholly.
    spread = draws.choice([2, 8, 100])
    order = sorted(range(len(buffers)), key=lambda place: place % 12 + draws.uniform(0, spread))
    taken = enumerate((buffers[place] for place in order), 1)
    return [
        dict(
            zip(
                NAMES,
                (f"plan {number}", "build", place, origins, *numbers, base, mark, [mark // 5 * 5], [1]),
                strict=True,
            )
        )
        for place, (*numbers, mark) in taken
    ]


def tracked(plan: list[Row], local: Any, complete: Any = "set") -> dict[tuple[str, int], tuple[Any, ...]]:
    """What the pure tracker says after each arrival."""
    if not plan:
        return {}
    rules = ProgressRules(chunk_base=plan[0]["chunk_base"], local=local, complete=complete)
    tracker, found = ProgressTracker(range(1, plan[0]["origins"] + 1), rules), {}
    for row in plan:
        buffer = TupleBuffer(row["origin"], row["sequence"], row["chunk"], row["last"], row["watermark"])
        effects = tracker.step(buffer)
        mine = tracker.origins[buffer.origin]
        completes = any(isinstance(effect, Completed) for effect in effects)
        found[row["stream"], row["arrival"]] = (completes, mine.prefix, mine.local, tracker.watermark)
    return found


PLANS = [plan(number) for number in range(120)]


def frame(spark, plans) -> Any:
    shuffled = [row for rows_of_plan in plans for row in rows_of_plan]
    random.Random(0).shuffle(shuffled)
    return spark.createDataFrame([tuple(row.values()) for row in shuffled], SCHEMA)


def all_tracked(local: Any, complete: Any = "set") -> dict[tuple[str, int], tuple[Any, ...]]:
    return {key: value for one in PLANS for key, value in tracked(one, local, complete).items()}


def all_found(spark, local: Any, complete: Any = "set") -> dict[tuple[str, int], tuple[Any, ...]]:
    """What Spark says after each arrival."""
    rows_found = progress(frame(spark, PLANS), local=local, complete=complete).collect()
    return {(row["stream"], row["arrival"]): tuple(row[name] for name in PROGRESS_COLUMNS) for row in rows_found}


@pytest.mark.parametrize(
    ("local", "bits"), [("running_max", 16), ("running_max", 2), ("head", 8), ("head", 1), ("literal", 2)]
)
def test_every_arrival_is_that_of_the_pure_tracker(spark, monkeypatch, local, bits) -> None:
    monkeypatch.setattr(sys.modules[progress.__module__], "_BLOCK_BITS", bits)
    wanted = all_tracked(local)
    assert len(wanted) > 1_500
    assert all_found(spark, local) == wanted


@pytest.mark.parametrize(
    ("complete", "local"), [("count", "running_max"), ("literal", "head"), ("balance", "head"), ("count", "literal")]
)
def test_the_rules_that_count_are_those_of_the_pure_tracker(spark, complete, local) -> None:
    wanted = all_tracked(local, complete)
    assert all_found(spark, local, complete) == wanted != all_tracked(local)


def test_two_chunk_bases_are_refused_when_the_answer_is_asked_for(spark) -> None:
    rows_of_plan = [dict(row) for row in PLANS[0]]
    rows_of_plan[-1] |= {"chunk_base": 1, "chunk": 1}
    for local in ("running_max", "head"):
        with pytest.raises(Exception, match="no single chunk base: operator build of plan 0 has 0 and 1"):
            progress(frame(spark, [rows_of_plan]), local=local).collect()


def test_a_chunk_below_the_base_is_refused_when_the_answer_is_asked_for(spark) -> None:
    below = [row | {"chunk_base": 1} for row in PLANS[0]]
    with pytest.raises(Exception, match="has a chunk 0 in a trace whose chunks start at 1"):
        progress(frame(spark, [below])).collect()


def test_the_plans_hold_what_they_are_to_test() -> None:
    states = [value for one in PLANS for value in tracked(one, "head").values()]
    assert {completes for completes, *_ in states} == {True, False}
    assert any(value is None for *_, value in states)
    assert any(value is not None and value > 50 for *_, value in states)
    assert any(one and len({row["origin"] for row in one}) < one[0]["origins"] for one in PLANS)
    keys = [(r["stream"], r["origin"], r["sequence"], r["chunk"]) for one in PLANS for r in one]
    assert len(set(keys)) < len(keys)


@pytest.mark.parametrize("local", ["running_max", "head"])
def test_all_columns_and_rows_are_kept(spark, local) -> None:
    mine = [f"arrival * 7 as {name}" for name in ("before", "after", "next", "begins", "start", "end", "heard")]
    given = frame(spark, PLANS[:5]).selectExpr("*", *mine)
    answer = progress(given, local=local)
    assert answer.columns == [*given.columns, *PROGRESS_COLUMNS]
    kept = sorted(tuple(map(str, row))[:-4] for row in answer.collect())
    assert kept == sorted(tuple(map(str, row)) for row in given.collect())


@pytest.mark.parametrize("local", ["running_max", "head"])
def test_arrivals_may_begin_anywhere_and_numbers_be_short(spark, local) -> None:
    """The largest arrivals are nanoseconds since 1970."""
    given, began = frame(spark, PLANS[:5]), 1_700_000_000_000_000_000
    short = dict.fromkeys(("origins", "origin", "sequence", "chunk", "chunk_base", "watermark"), "int")
    other = given.withColumn("arrival", given.arrival + began)
    other = other.withColumns({name: other[name].cast(kind) for name, kind in short.items()})
    found = [
        sorted((row["stream"], row["arrival"] % began, *(row[name] for name in PROGRESS_COLUMNS)) for row in rows)
        for rows in (progress(one, local=local).collect() for one in (given, other))
    ]
    assert found[0] == found[1]


RUNS: dict[str, Any] = {
    "plain": {},
    "delayed, joined": {
        "queries": [query(growing("a", 3), source("b"), window=Join(1_000, slide_ms=500))],
        "script": [DelayBuffer("a", 20, 2_000)],
    },
    "lost": {"script": [LoseBuffer("a", 100)]},
    "silent": {"script": [SilenceSource("b", at_ms=3_000)]},
    "disordered": {"queries": [query(source("a", disorder_ms=2_500), source("b"))]},
    "exact": {"queries": [query(window=Aggregate(300, slide_ms=1_000, trigger="exact"))]},
    "strict": {"queries": [query(window=Aggregate(300, slide_ms=1_000, trigger="strict"))]},
    "forgets": {
        "queries": [query(source("a", disorder_ms=2_500), source("b"), window=Aggregate(1_000, forget_fired=True))]
    },
    "forgets sliding ones": {
        "queries": [query(source("a", disorder_ms=4_000), window=Aggregate(900, slide_ms=400, forget_fired=True))]
    },
    "literal": {"queries": [query(growing("a", 3), source("b"))], "complete": "literal"},
    "renumbered": {"queries": [query(growing("a", 3), source("b"), operators=[Renumber("r")])]},
    "short slides": {"queries": [query(window=Aggregate(700, slide_ms=300))]},
    "head": {
        "queries": [query(source("a", stamped="filter"), source("b"))],
        "script": [EmptyBuffer("a", 40)],
        "local": "head",
    },
}


@cache
def world_of(name: str) -> PlanWorld:
    return run(**RUNS[name])


def recorded(spark, name: str) -> Any:
    buffers = [tuple(row[column] for column in NAMES) for row in rows(world_of(name), "buffers", operator="build")]
    return spark.createDataFrame(buffers, SCHEMA)


@pytest.mark.parametrize("name", RUNS)
def test_the_fired_windows_are_those_of_the_run(spark, name) -> None:
    world = world_of(name)
    window = world.scenario.queries[0].window
    found = fired_windows(
        progress(recorded(spark, name), local=world.scenario.local, complete=world.scenario.complete),
        size=window.size_ms,
        slide=window.slide_ms,
        trigger=window.trigger,
        flush=name != "silent",
        forget_fired=window.forget_fired,
    )
    columns = ("sequence", "start", "end", "records", "arrival", "again")
    wanted = [tuple(row[column] for column in columns) for row in rows(world, "windows_fired")]
    assert sorted(tuple(row[column] for column in columns) for row in found.collect()) == sorted(wanted)
    assert wanted
    assert any(again for *_, again in wanted) == name.startswith("forgets")


def test_what_the_watermark_had_reached_is_told(spark) -> None:
    found = fired_windows(progress(recorded(spark, "plain")), size=1_000)
    reached = {row["sequence"]: row["reached"] for row in found.collect() if row["arrival"] is not None}
    wanted = {row["sequence"]: row["reached"] for row in rows(world_of("plain"), "windows_fired", cause="watermark")}
    assert reached == wanted


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
        ask(frame(spark, PLANS[:1]))
