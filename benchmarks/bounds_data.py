"""A stream made for measuring: positions in the order they were published, and a log of watermarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.spark.intervals import of_segments
from wmlab.spark.seen import Marks, Ranges

STREAM = "s"
BYTES_PER_POSITION = 100
FILES = 4


@dataclass(frozen=True, slots=True)
class Data:
    """Paths of the Parquet datasets; `intervals` are the watermarks prepared for an as-of join."""

    positions: Path
    watermarks: Path
    segments: Path
    intervals: Path


def written(root: Path, *, rows: int, segments: int, watermarks: int, seed: int) -> Data:
    """Everything of one measurement, below `root`. All segments are open together and every cut names all."""
    data = Data(*(root / name for name in ("positions", "watermarks", "segments", "intervals")))
    random = np.random.default_rng(seed)
    top = rows * BYTES_PER_POSITION // segments
    _write_positions(data.positions, random, rows, segments, top)
    cuts = np.sort(random.integers(0, top + 1, (segments, watermarks)), axis=1)
    marks = _watermarks(cuts)
    keys = pa.table(
        {
            "stream": [STREAM] * segments,
            "segment_id": pa.array(range(segments), pa.int64()),
            "low": np.arange(segments) / segments,
            "high": np.arange(1, segments + 1) / segments,
        }
    )
    for path, rows_of in ((data.watermarks, marks), (data.segments, keys), (data.intervals, _prepared(marks, keys))):
        path.mkdir(parents=True)
        pq.write_table(rows_of, path / "0.parquet")
    return data


def _write_positions(path: Path, random: np.random.Generator, rows: int, segments: int, top: int) -> None:
    """Positions grow along the file, with some disorder, as they do when many readers publish."""
    path.mkdir(parents=True)
    edges = np.linspace(0, rows, FILES + 1).astype(np.int64)
    for number, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        offset = np.arange(begin, end) * top // max(rows, 1) + random.integers(0, max(top // 1000, 1), end - begin)
        columns = {
            "stream": pa.array(np.full(end - begin, STREAM)).dictionary_encode(),
            "segment_id": random.integers(0, segments, end - begin),
            "offset": np.minimum(offset, top),
        }
        pq.write_table(pa.table(columns), path / f"{number}.parquet")


def _watermarks(cuts: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> pa.Table:
    segments, count = cuts.shape
    ends = pa.array(np.arange(count + 1) * segments, pa.int32())
    cut = pa.MapArray.from_arrays(ends, np.tile(np.arange(segments), count), cuts.T.ravel())
    seq = np.arange(count)
    return pa.table(
        {"stream": [STREAM] * count, "seq": seq, "lower": seq * 1000, "upper": seq * 1000 + 700, "cut": cut}
    )


def _prepared(marks: pa.Table, segments: pa.Table) -> pa.Table:
    """One row per segment and interval of offsets: segment_id, start, lower, upper."""
    log = Marks.from_arrow(marks.append_column("emitted_ms", marks["seq"]))
    parts = []
    for segment, found in of_segments(log, Ranges.from_arrow(segments)):
        columns = {"segment_id": np.full(len(found.starts), segment), "start": found.starts}
        for name, values, place in (("lower", log.lower, found.lower), ("upper", log.upper, found.upper)):
            columns[name] = pa.array(values[place], mask=place < 0)
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)
