"""Windows and joins on Spark are those of loops over the same rows, and those that came out, over many recordings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.dataflow.checks.dataflows import frames
from wmlab import dataflow as flow
from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.dataflow.checks.batch import join_of_on_time_rows, windows_of_on_time_rows
from wmlab.dataflow.sim.rules import rules_of

TABLES = ("items", "queues", "drops")
DISORDER = 40
AGGREGATES = {"n": "count()", "sum": "sum(x)", "low": "min(t)", "high": "max(t)", "mean": "avg(t)",
              "all": "list(x)"}  # fmt: skip
Found = Counter[str]
Meets = Callable[[dict[str, Any], dict[str, Any]], bool]


def source(name: str, key: int, draws: Random, lag: int = DISORDER) -> flow.Source:
    """Rows up to DISORDER behind the highest time so far, a few of them with fractions or nothing in x."""
    rows, top = [], -50
    for _ in range(draws.randint(5, 25)):
        top += draws.choice([0, 3, 10, 70])
        rows.append([top - draws.randint(0, DISORDER), draws.randint(0, 1), draws.choice([None, 1, 2, 0.5])])
    times = [flow.EventTime("t", key=key, lag_ms=lag)]
    return flow.Source(
        name, columns=["t", "k", "x"], rows=rows, times=times, ends=True, parallelism=draws.randint(1, 2)
    )


def runs(vertex: Any, *, lag: int = DISORDER) -> dict[str, Recording]:
    """Recordings of dataflows around the same vertex, by name; a join has two sources, all else one."""
    found = {}
    for number in range(6):
        draws = Random(number)
        sources = [source(name, key, draws, lag) for key, name in enumerate("ab" if vertex.kind == "join" else "a")]
        edges = [f"a -> {vertex.name} -> out", *(f"{name.name} -> {vertex.name}" for name in sources[1:])]
        dataflow = flow.Dataflow(
            f"run {number}", vertices=[*sources, vertex, flow.Sink("out")], edges=edges, seed=number, queue_size=16
        )
        found[dataflow.name] = dataflow.record()
    return found


def sunk(recordings: dict[str, Recording]) -> dict[str, Found]:
    return {name: Counter(row["row"] for row in run.table("sunk").to_pylist()) for name, run in recordings.items()}


def asked(spark: SparkSession, question: Any, recordings: dict[str, Recording]) -> dict[str, Found]:
    (rule,) = rules_of(next(iter(recordings.values())).dataflow).results.values()
    found: dict[str, Found] = {name: Counter() for name in recordings}
    for row in question(*frames(spark, recordings.values(), TABLES), rule).collect():
        found[row.stream][row.row] += 1
    return found


def on_time(run: Recording, name: str) -> list[dict[str, Any]]:
    gone = Counter(row["row"] for row in run.table("drops").to_pylist())
    kept = []
    for row in run.table("source_rows").to_pylist():
        if row["vertex"] == name and not gone[row["row"]]:
            kept.append(json.loads(row["row"]))
        elif row["vertex"] == name:
            gone[row["row"]] -= 1
    return kept


def plain(found: dict[str, Found]) -> dict[str, list[Any]]:
    """Results without the order of lists, which instances may take differently."""
    return {
        name: sorted((_plain(json.loads(text)) for text in rows.elements()), key=str) for name, rows in found.items()
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value, key=str) if isinstance(value, list) else value for name, value in row.items()}


def result(start: int, end: int, k: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    known = [row["x"] for row in rows if row["x"] is not None]
    times = [row["t"] for row in rows]
    told = {"start": start, "end": end, "k": k, "n": len(rows), "sum": sum(known) if known else None}
    told |= {"low": min(times), "high": max(times), "mean": sum(times) / len(times)}
    return told | {"all": sorted((row["x"] for row in rows), key=str)}


def windows(rows: Iterable[dict[str, Any]], size: int, slide: int) -> list[dict[str, Any]]:
    found: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        first = row["t"] // slide * slide + slide
        for end in range(first, first + size, slide):
            found[end, row["k"]].append(row)
    return [result(end - size, end, k, held) for (end, k), held in found.items()]


def sessions(rows: list[dict[str, Any]], timeout: int) -> list[dict[str, Any]]:
    found = []
    for k in {row["k"] for row in rows}:
        held: list[dict[str, Any]] = []
        for row in [*sorted((row for row in rows if row["k"] == k), key=lambda row: int(row["t"])), None]:
            if held and (row is None or row["t"] - held[-1]["t"] >= timeout):
                found.append(result(held[0]["t"], held[-1]["t"] + timeout, k, held))
                held = []
            held += [] if row is None else [row]
    return found


SHAPED = {"column": "t", "by": "k", "aggregates": AGGREGATES}


@pytest.mark.parametrize(
    ("vertex", "lag"),
    [
        (flow.Window("w", 90, slide_ms=30, parallelism=2, **SHAPED), 0),
        (flow.Window("w", 50, parallelism=2, stages=2, **SHAPED), DISORDER),
        (flow.SessionWindow("w", 20, parallelism=2, **SHAPED), 10),
    ],
    ids=["sliding, with late rows", "tumbling in two stages", "sessions, with late rows"],
)
def test_the_batch_query_gives_the_windows_of_the_run(spark: SparkSession, vertex: Any, lag: int) -> None:
    recordings = runs(vertex, lag=lag)
    found = plain(asked(spark, windows_of_on_time_rows, recordings))
    assert found == plain(sunk(recordings))
    for name, run in recordings.items():
        rows = on_time(run, "a")
        expected = (
            sessions(rows, 20) if vertex.kind == "session_window" else windows(rows, vertex.size_ms, vertex.step_ms)
        )
        assert found[name] == sorted(expected, key=str)
    assert any(run.counts["drops"] for run in recordings.values()) is (lag < DISORDER)


@pytest.mark.parametrize(
    ("condition", "meets", "outer", "copies"),
    [
        (
            "left.t - 5 <= right.t and right.t <= left.t + 40 and right.t <= left.t + 20 and left.k != 0",
            lambda left, right: -5 <= right["t"] - left["t"] <= 20 and left["k"] != 0,
            "left",
            1,
        ),
        (
            "left.k == right.k and left.t + 5 <= right.t and right.t < left.t + 25",
            lambda left, right: left["k"] == right["k"] and 5 <= right["t"] - left["t"] < 25,
            "right",
            2,
        ),
    ],
    ids=["left outer, several bounds", "right outer, bounds ahead"],
)
def test_the_batch_query_gives_the_pairs_of_the_run(
    spark: SparkSession, condition: str, meets: Meets, outer: Any, copies: int
) -> None:
    recordings = runs(flow.Join("j", condition, outer=outer, parallelism=copies))
    found = asked(spark, join_of_on_time_rows, recordings)
    assert found == sunk(recordings)
    for name, run in recordings.items():
        left, right = on_time(run, "a"), on_time(run, "b")
        pairs = [(a, b) for a, one in enumerate(left) for b, two in enumerate(right) if meets(one, two)]
        joined = [(left[a], right[b]) for a, b in pairs]
        nothing = dict.fromkeys("tkx")
        joined += [(one, nothing) for a, one in enumerate(left) if outer == "left" and a not in {a for a, _ in pairs}]
        joined += [(nothing, two) for b, two in enumerate(right) if outer == "right" and b not in {b for _, b in pairs}]
        expected = Counter(json.dumps(one | {f"right_{c}": value for c, value in two.items()}) for one, two in joined)
        assert found[name] == expected


def test_a_join_is_no_window_and_the_other_way_round(spark: SparkSession) -> None:
    recordings = runs(flow.Join("j", "left.t - 5 <= right.t and right.t <= left.t + 5"))
    with pytest.raises(ModelError, match="'j' is a join"):
        asked(spark, windows_of_on_time_rows, recordings)
    with pytest.raises(ModelError, match="'w' is no join"):
        asked(spark, join_of_on_time_rows, runs(flow.Window("w", 50, **SHAPED)))
