"""Windows and joins on Spark are those that came out, over many recordings.

That those are what loops over the same rows give is tested with the rules, in `tests/dataflow/model`.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from wmlab import dataflow as flow
from wmlab.core.recording import Recording
from wmlab.dataflow.checks.batch import pairs_of, taken_rows, windows_of
from wmlab.dataflow.checks.channels import Channels
from wmlab.dataflow.sim.rules import rules_of

TABLES = ("items", "queues", "drops")
DISORDER = 40
AGGREGATES = {"n": "count()", "sum": "sum(x)", "low": "min(t)", "high": "max(t)", "mean": "avg(t)",
              "all": "list(x)"}  # fmt: skip
Found = Counter[str]


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


def asked(question: Any, recordings: dict[str, Recording]) -> dict[str, Found]:
    (rule,) = rules_of(next(iter(recordings.values())).dataflow).results.values()
    found: dict[str, Found] = {name: Counter() for name in recordings}
    for name, run in recordings.items():
        items, queues, drops = (run.table(table).to_pylist(maps_as_pydicts="strict") for table in TABLES)
        for rows in taken_rows(items, drops, Channels.of(queues), rules_of(run.dataflow)).values():
            found[name].update(result.row for result in question(rule, rows, None))
    return found


def plain(found: dict[str, Found]) -> dict[str, list[Any]]:
    """Results without the order of lists, which instances may take differently."""
    return {
        name: sorted((_plain(json.loads(text)) for text in rows.elements()), key=str) for name, rows in found.items()
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value, key=str) if isinstance(value, list) else value for name, value in row.items()}


SHAPED = {"column": "t", "by": "k", "aggregates": AGGREGATES}


@pytest.mark.parametrize(
    ("vertex", "lag"),
    [
        (flow.Window("w", 90, slide_ms=30, parallelism=2, **SHAPED), 0),
        (flow.SessionWindow("w", 20, parallelism=2, **SHAPED), 10),
    ],
    ids=["sliding, with late rows", "sessions, with late rows"],
)
def test_the_batch_query_gives_the_windows_of_the_run(vertex: Any, lag: int) -> None:
    recordings = runs(vertex, lag=lag)
    assert plain(asked(windows_of, recordings)) == plain(sunk(recordings))
    assert any(run.counts["drops"] for run in recordings.values()) is (lag < DISORDER)


@pytest.mark.parametrize(
    ("condition", "outer", "copies"),
    [
        (
            "left.t - 5 <= right.t and right.t <= left.t + 40 and right.t <= left.t + 20 and left.k != 0",
            "left",
            1,
        ),
        ("left.k == right.k and left.t + 5 <= right.t and right.t < left.t + 25", "right", 2),
    ],
    ids=["left outer, several bounds", "right outer, bounds ahead"],
)
def test_the_batch_query_gives_the_pairs_of_the_run(condition: str, outer: Any, copies: int) -> None:
    recordings = runs(flow.Join("j", condition, outer=outer, parallelism=copies))
    found = asked(pairs_of, recordings)
    assert found == sunk(recordings)
    assert sum(row.count("null") < 3 for rows in found.values() for row in rows) > 10
