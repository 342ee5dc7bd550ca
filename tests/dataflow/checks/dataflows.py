"""Generated dataflows, many recordings as one set of tables, and tables as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from wmlab import dataflow as flow
from wmlab.core.recording import Recording
from wmlab.core.spark.schemas import dataframe
from wmlab.dataflow.checks import TABLES as CHECKED

TABLES = (*CHECKED, "state", "calls")
"""The tables of a recording that a check takes, or a rule of the tests."""

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def generated(number: int, **fields: Any) -> flow.Dataflow:
    """Up to three sources that pause, are late and end or not, through a merge, a filter and a window."""
    draws = Random(number)
    sources = [_source(name, draws) for name in "abc"[: draws.randint(1, 3)]]
    window = flow.Window(
        "count",
        40,
        column="t",
        aggregates={"n": "count()"},
        parallelism=draws.randint(1, 2),
    )
    middle = [flow.Merge("m", parallelism=draws.randint(1, 2)), flow.Filter("f", where="k > 0")]
    again = (flow.Restart(draws.randint(50, 300)),) if draws.random() < 0.2 else ()
    given: dict[str, Any] = {"duration_ms": 900, "seed": number, "faults": again, "queue_size": draws.choice([4, 64])}
    return flow.Dataflow(
        f"flow {number}",
        vertices=[*sources, *middle, window, flow.Sink("out")],
        edges=["m -> f -> count -> out", *(f"{source.name} -> m" for source in sources)],
        **(given | fields),
    )


def _source(name: str, draws: Random) -> flow.Source:
    rows, arrival = [], 0
    for _ in range(draws.randint(0, 20)):
        arrival += draws.choice([1, 5, 20, 20, 150])
        rows.append(
            [arrival, arrival - draws.choice([0, 0, 3, 40]), arrival + draws.randint(-9, 9), draws.randint(0, 2)]
        )
    times = [flow.EventTime("t", lag_ms=draws.choice([0, 10]))]
    times += [flow.EventTime("u", key=draws.choice([1, 7]))] if draws.random() < 0.6 else []
    copies = draws.randint(1, 2)
    return flow.Source(
        name,
        columns=["arrival", "t", "u", "k"],
        rows=rows,
        arrival="arrival",
        times=times,
        parallelism=copies,
        partitions=copies + draws.randint(0, 1),
        idle_timeout_ms=draws.choice([0, 25, 60]),
        ends=draws.random() < 0.7,
    )


def frames(spark: SparkSession, recordings: Iterable[Recording], names: Sequence[str]) -> list[DataFrame]:
    """The tables of several recordings, whose dataflows have different names, as one DataFrame each."""
    kept = list(recordings)
    return [dataframe(spark, pa.concat_tables([one.table(name) for one in kept]).combine_chunks()) for name in names]


def rows_of(recording: Recording, names: Iterable[str] = TABLES) -> Tables:
    """The tables of a recording as rows, to be changed."""
    return {name: recording.table(name).to_pylist(maps_as_pydicts="strict") for name in names}


def altered(recording: Recording, tables: Tables) -> Recording:
    """The recording with these rows instead of its own."""
    own = {name: recording.table(name) for name in recording.schemas}
    return type(recording).from_tables(own | tables, name=recording.name, scenario=recording.scenario)
