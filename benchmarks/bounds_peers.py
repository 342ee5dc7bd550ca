"""The question of the case `bounds` for the peers: each takes the same three tables and gives the same answer.

For a stream whose cuts name all of its segments and never move back, a position has passed those watermarks whose
offset for its segment is at or below its own. So the cuts are taken apart into entries (stream, segment, offset,
watermark), entries of one offset are one step, and each step begins an interval: its lower bound is that of the last
watermark of the step, its upper bound that of the first watermark of the next one. An interval without a lower bound
begins below all offsets. Then each position looks for the last interval that begins at or before it: an as-of join.

wmlab answers for all cuts: those that leave out segments, that move back, or that name segments of several epochs. The
peers need not know that segments have key ranges, and do not read that table.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.bounds_data import Data
from benchmarks.measure import MEMORY_GB, Answer

if TYPE_CHECKING:
    import daft
    import polars as pl

THREADS: Final = 2
_LANE: Final = ["stream", "segment_id"]
_NEXT: Final = {"upper": "first_upper", "upper_seq": "first_seq"}

_INTERVALS: Final = """
WITH entries AS (
  SELECT stream, unnest(map_keys(cut)) AS segment_id, unnest(map_values(cut)) AS start, seq, lower, upper
  FROM read_parquet($watermarks)
), steps AS (
  SELECT stream, segment_id, start, arg_max(lower, seq) AS lower, max(seq) AS lower_seq,
    arg_min(upper, seq) AS first_upper, min(seq) AS first_seq
  FROM entries GROUP BY ALL
), intervals AS (
  SELECT stream, segment_id, start, lower, lower_seq,
    lead(first_upper) OVER lane AS upper, lead(first_seq) OVER lane AS upper_seq
  FROM steps WINDOW lane AS (PARTITION BY stream, segment_id ORDER BY start)
  UNION ALL
  SELECT stream, segment_id, -1, NULL, NULL, arg_min(first_upper, start), arg_min(first_seq, start)
  FROM steps GROUP BY stream, segment_id
)
"""
_JOINED: Final = (
    "FROM read_parquet($positions) AS p ASOF LEFT JOIN intervals AS i "
    'ON p.stream = i.stream AND p.segment_id = i.segment_id AND p."offset" >= i.start'
)
_PREPARED: Final = (
    "FROM read_parquet($positions) AS p ASOF LEFT JOIN read_parquet($intervals) AS i "
    'ON p.segment_id = i.segment_id AND p."offset" >= i.start'
)


def duckdb(data: Data) -> Answer:
    """DuckDB: the cuts by SQL, then ASOF LEFT JOIN."""
    return _duckdb(
        f"{_INTERVALS} SELECT {_totals(data)} {_JOINED}", positions=data.positions, watermarks=data.watermarks
    )


def duckdb_prepared(data: Data, intervals: Path) -> Answer:
    """DuckDB over prepared intervals of one stream: the join alone."""
    return _duckdb(f"SELECT {_totals(data)} {_PREPARED}", positions=data.positions, intervals=intervals)


def duckdb_copies(data: Data, file: Path) -> int:
    """DuckDB: positions and their bounds written to one file of Parquet; returns the number of rows."""
    import duckdb

    query = f'{_INTERVALS} SELECT p.stream, p.segment_id, p."offset", {", ".join(data.asked)} {_JOINED}'
    with duckdb.connect(config={"threads": THREADS, "memory_limit": f"{MEMORY_GB - 2}GiB"}) as database:
        folders = {"positions": f"{data.positions}/*.parquet", "watermarks": f"{data.watermarks}/*.parquet"}
        (count,) = database.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)", folders).fetchone()
    return int(count)


def _duckdb(query: str, **folders: Path) -> Answer:
    import duckdb

    with duckdb.connect(config={"threads": THREADS, "memory_limit": f"{MEMORY_GB - 2}GiB"}) as database:
        totals = database.execute(query, {name: f"{folder}/*.parquet" for name, folder in folders.items()})
        names = [column[0] for column in totals.description]
        return dict(zip(names, map(int, totals.fetchall()[0]), strict=True))


def _totals(data: Data) -> str:
    sums = (f"sum({name}) AS sum_{name}, count({name}) AS known_{name}" for name in data.asked)
    return ", ".join(["count(*) AS rows", *sums])


def polars(data: Data) -> Answer:
    """Polars: the cuts by expressions, then join_asof."""
    import polars as pl

    entry = pl.Struct({"key": pl.Int64, "value": pl.Int64})
    marks = pl.scan_parquet(data.watermarks / "*.parquet").with_columns(pl.col("cut").cast(pl.List(entry)))
    entries = marks.explode("cut").unnest("cut").rename({"key": "segment_id", "value": "start"})
    in_order = entries.sort(*_LANE, "start", "seq")
    steps = in_order.group_by(*_LANE, "start", maintain_order=True).agg(
        pl.col("lower").last(),
        pl.col("seq").last().alias("lower_seq"),
        pl.col("upper").first().alias("first_upper"),
        pl.col("seq").first().alias("first_seq"),
    )
    following = {name: pl.col(first).shift(-1).over(_LANE) for name, first in _NEXT.items()}
    intervals = steps.with_columns(**following).select(*_LANE, "start", "lower", "lower_seq", "upper", "upper_seq")
    begins = steps.group_by(_LANE).agg(pl.col(first).first().alias(name) for name, first in _NEXT.items())
    begins = begins.with_columns(start=pl.lit(-1, pl.Int64))
    intervals = pl.concat([intervals, begins], how="diagonal").select(*_LANE, "start", *data.asked)
    return _polars(data, intervals, _LANE)


def polars_prepared(data: Data, intervals: Path) -> Answer:
    """Polars over prepared intervals of one stream: the join alone."""
    import polars as pl

    return _polars(data, pl.scan_parquet(intervals / "*.parquet"), ["segment_id"])


def _polars(data: Data, intervals: pl.LazyFrame, lane: list[str]) -> Answer:
    import polars as pl

    positions = pl.scan_parquet(data.positions / "*.parquet").select(*lane, "offset").sort("offset")
    positions = positions.cast({"stream": pl.String}) if "stream" in lane else positions
    # Both are sorted; Polars cannot see that within groups, and says so unless told not to look.
    bounds = positions.join_asof(
        intervals.sort("start"), left_on="offset", right_on="start", by=lane, check_sortedness=False
    )
    totals = bounds.select(
        pl.len().alias("rows"),
        *(pl.col(name).sum().alias(f"sum_{name}") for name in data.asked),
        *(pl.col(name).count().alias(f"known_{name}") for name in data.asked),
    ).collect()
    return {name: int(value) for name, value in totals.row(0, named=True).items()}


def daft(data: Data) -> Answer:
    """Daft: the cuts by expressions and windows, then join_asof."""
    import daft as df
    from daft import DataType, Window, col

    entry = DataType.struct({"key": DataType.int64(), "value": DataType.int64()})
    marks = df.read_parquet(f"{data.watermarks}/*.parquet")
    entries = marks.with_column("cut", col("cut").cast(DataType.list(entry))).explode("cut")
    entries = entries.select(
        "stream", col("cut")["key"].alias("segment_id"), col("cut")["value"].alias("start"), "seq", "lower", "upper"
    )
    # Bounds grow along a log, so the last of a step is the largest.
    steps = entries.groupby(*_LANE, "start").agg(
        col("lower").max(),
        col("seq").max().alias("lower_seq"),
        col("upper").min().alias("first_upper"),
        col("seq").min().alias("first_seq"),
    )
    lane = Window().partition_by(*_LANE).order_by("start")
    following = {name: col(first).lead(1).over(lane) for name, first in _NEXT.items()}
    begins = steps.groupby(*_LANE).agg(*(col(first).min().alias(name) for name, first in _NEXT.items()))
    nothing = df.lit(None).cast(DataType.int64())
    begins = begins.with_columns({"start": df.lit(-1), "lower": nothing, "lower_seq": nothing})
    columns = [*_LANE, "start", *data.asked]
    intervals = steps.with_columns(following).select(*columns).union_all(begins.select(*columns))
    positions = df.read_parquet(f"{data.positions}/*.parquet").select(*_LANE, "offset")
    bounds = positions.join_asof(intervals, left_on="offset", right_on="start", by=_LANE)
    totals = bounds.agg(
        col("offset").count().alias("rows"),
        *(col(name).sum().alias(f"sum_{name}") for name in data.asked),
        *(col(name).count().alias(f"known_{name}") for name in data.asked),
    ).to_pydict()
    return {name: int(values[0]) for name, values in totals.items()}


def pandas(data: Data) -> Answer:
    """pandas: the cuts by explode, then merge_asof."""
    import pandas as pd

    marks = pd.read_parquet(data.watermarks)
    entries = marks.explode("cut", ignore_index=True)
    entries[["segment_id", "start"]] = pd.DataFrame(entries.pop("cut").tolist(), dtype="int64")
    entries = entries.sort_values([*_LANE, "start", "seq"])
    steps = entries.groupby([*_LANE, "start"], as_index=False).agg(
        lower=("lower", "last"), lower_seq=("seq", "last"), first_upper=("upper", "first"), first_seq=("seq", "first")
    )
    lanes = steps.groupby(_LANE)
    following = {name: lanes[first].shift(-1).astype("Int64") for name, first in _NEXT.items()}
    begins = lanes[list(_NEXT.values())].first().reset_index().rename(columns={v: k for k, v in _NEXT.items()})
    intervals = pd.concat([steps.assign(**following), begins.assign(start=-1)]).astype(
        dict.fromkeys(data.asked, "Int64")
    )
    intervals = intervals[[*_LANE, "start", *data.asked]].sort_values("start")
    positions = pd.read_parquet(data.positions, columns=[*_LANE, "offset"]).sort_values("offset")
    names = pd.CategoricalDtype(marks["stream"].unique())
    bounds = pd.merge_asof(
        positions.astype({"stream": names}),
        intervals.astype({"stream": names}),
        left_on="offset",
        right_on="start",
        by=_LANE,
    )
    sums = {f"sum_{name}": int(bounds[name].sum()) for name in data.asked}
    return {"rows": len(bounds)} | sums | {f"known_{name}": int(bounds[name].count()) for name in data.asked}


DAFT: Final = "Daft, join_asof"
PEERS: Final[dict[str, Callable[[Data], Answer]]] = {
    "Polars, join_asof": polars,
    "DuckDB, ASOF JOIN": duckdb,
    "pandas, merge_asof": pandas,
} | ({DAFT: daft} if find_spec("daft") else {})
"""The peers that are installed. Daft asks for older versions of what wmlab uses, so it is not among the pins."""
