"""A stream made for measuring: positions in the order they were published, and a log of watermarks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.streams.bounds.bounds import BOUND_COLUMNS
from wmlab.streams.bounds.log_by_segment import WatermarkColumns, bounds_at, of_segments

STREAM = "s"
BYTES_PER_POSITION = 100
FILES = 4


@dataclass(frozen=True, slots=True)
class Data:
    """Paths of the Parquet datasets; `intervals` are the watermarks prepared for an as-of join. `asked` are bounds."""

    positions: Path
    watermarks: Path
    segments: Path
    intervals: Path
    asked: tuple[str, ...]


def with_log(
    positions: Path,
    root: Path,
    *,
    rows: int,
    segments: int,
    watermarks: int,
    seed: int,
    asked: tuple[str, ...] = BOUND_COLUMNS,
) -> Data:
    """A log over positions that are written already, below `root`. Every cut names all segments."""
    data = Data(positions, *(root / name for name in ("watermarks", "segments", "intervals")), asked)
    random = np.random.default_rng(seed)
    top = _top(rows, segments)
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


def write_positions(path: Path, *, rows: int, segments: int, seed: int, ordered: bool = True) -> None:
    """Positions that grow along the files, with some disorder, as they do when many readers publish; or in no order."""
    path.mkdir(parents=True)
    random = np.random.default_rng(seed)
    top = _top(rows, segments)
    for number in range(FILES):
        begin, end = number * rows // FILES, (number + 1) * rows // FILES
        disorder = random.integers(0, top // 1000 + 1 if ordered else top, end - begin)
        offset = np.arange(begin, end) * top // rows * ordered + disorder
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


def _top(rows: int, segments: int) -> int:
    """Where the segments end, in bytes."""
    return rows * BYTES_PER_POSITION // segments


def _prepared(marks: pa.Table, segments: pa.Table) -> pa.Table:
    """One row per segment and interval of offsets: segment_id, start and the bounds."""
    no_end = pa.array(np.zeros(len(marks), np.bool_))
    log = WatermarkColumns.from_arrow(marks.append_column("emitted_ms", marks["seq"]).append_column("is_end", no_end))
    parts = []
    ranges = {row["segment_id"]: (row["low"], row["high"]) for row in segments.to_pylist()}
    for segment, found in of_segments(log, ranges):
        columns = {"segment_id": np.full(len(found.starts), segment), "start": found.starts}
        parts.append(pa.table(columns | bounds_at(log, found.lower, found.upper)))
    return pa.concat_tables(parts)
