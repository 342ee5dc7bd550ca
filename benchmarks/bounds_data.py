"""Streams made for measuring: positions in the order they were published, and a log of watermarks, as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.streams.bounds.bounds import BOUND_COLUMNS
from wmlab.streams.bounds.log_by_segment import WatermarkColumns, bounds_at, intervals_by_segment

BYTES_PER_POSITION = 100
FILES = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """How much there is of everything: `positions` in all, `watermarks` of each stream; `ordered` as published."""

    positions: int
    streams: int = 1
    segments: int = 16
    watermarks: int = 5_000
    ordered: bool = True

    def __str__(self) -> str:
        order = "" if self.ordered else " in no order"
        streams = "one stream" if self.streams == 1 else f"{self.streams:,} streams"
        return (
            f"{self.positions:,} positions{order}, {streams} of {self.segments} segments, "
            f"{self.watermarks:,} watermarks each"
        )

    @property
    def end(self) -> int:
        """Where each segment ends, in bytes."""
        return max(1, self.positions * BYTES_PER_POSITION // (self.streams * self.segments))


@dataclass(frozen=True, slots=True)
class Data:
    """Folders of Parquet: the three tables that `time_bounds` takes. `asked` are the bounds that are asked for."""

    positions: Path
    watermarks: Path
    segments: Path
    asked: tuple[str, ...]


def write_data(root: Path, shape: Shape, *, asked: tuple[str, ...] = BOUND_COLUMNS[:2], seed: int = 1) -> Data:
    """The three tables below `root`. Every cut names all segments of its stream, and no cut moves back."""
    data = Data(root / "positions", root / "watermarks", root / "segments", asked)
    random = np.random.default_rng(seed)
    _write_positions(data.positions, shape, random)
    _write_watermarks(data.watermarks, shape, random)
    names = np.repeat(_names(shape), shape.segments)
    number = np.tile(np.arange(shape.segments), shape.streams)
    segments = {"segment_id": number, "low": number / shape.segments, "high": (number + 1) / shape.segments}
    data.segments.mkdir(parents=True)
    pq.write_table(pa.table({"stream": names} | segments), data.segments / "0.parquet")
    return data


def write_intervals(data: Data, path: Path) -> Path:
    """The watermarks of one stream prepared for an as-of join: segment_id, start (an offset) and the bounds from it."""
    marks = pq.read_table(data.watermarks)
    no_end = pa.array(np.zeros(len(marks), np.bool_))
    log = WatermarkColumns.from_arrow(marks.append_column("emitted_ms", marks["seq"]).append_column("is_end", no_end))
    ranges = {row["segment_id"]: (row["low"], row["high"]) for row in pq.read_table(data.segments).to_pylist()}
    parts = []
    for segment, intervals in intervals_by_segment(log, ranges):
        columns = {"segment_id": np.full(len(intervals.starts), segment), "start": intervals.starts}
        parts.append(pa.table(columns | bounds_at(log, intervals.lower, intervals.upper)))
    path.mkdir(parents=True)
    pq.write_table(pa.concat_tables(parts), path / "0.parquet")
    return path


def _names(shape: Shape) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    return np.array([f"s{number}" for number in range(shape.streams)])


def _write_positions(path: Path, shape: Shape, random: np.random.Generator) -> None:
    """Positions that grow along the files, with some disorder, as they do when many readers publish; or in no order."""
    path.mkdir(parents=True)
    names, end = pa.array(_names(shape)), shape.end
    for number in range(FILES):
        first, last = number * shape.positions // FILES, (number + 1) * shape.positions // FILES
        disorder = random.integers(0, end // 1000 + 1 if shape.ordered else end, last - first)
        offset = np.arange(first, last) * end // shape.positions * shape.ordered + disorder
        stream = pa.array(random.integers(0, shape.streams, last - first, dtype=np.int32))
        columns = {
            "stream": pa.DictionaryArray.from_arrays(stream, names),
            "segment_id": random.integers(0, shape.segments, last - first),
            "offset": np.minimum(offset, end),
        }
        pq.write_table(pa.table(columns), path / f"{number}.parquet")


def _write_watermarks(path: Path, shape: Shape, random: np.random.Generator) -> None:
    """The logs of all streams in one file, a group of rows for each stream."""
    path.mkdir(parents=True)
    count, seq = shape.watermarks, np.arange(shape.watermarks)
    ends = pa.array(np.arange(count + 1) * shape.segments, pa.int32())
    keys = np.tile(np.arange(shape.segments), count)
    writer = None
    for name in _names(shape):
        offsets = np.sort(random.integers(0, shape.end + 1, (shape.segments, count)), axis=1)
        cut = pa.MapArray.from_arrays(ends, keys, offsets.T.ravel())
        stream = pa.array(np.full(count, name))
        marks = pa.table({"stream": stream, "seq": seq, "lower": seq * 1000, "upper": seq * 1000 + 700, "cut": cut})
        writer = writer or pq.ParquetWriter(path / "0.parquet", marks.schema)
        writer.write_table(marks)
    if writer is not None:
        writer.close()
