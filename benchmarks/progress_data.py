"""Recorded buffers made for measuring: many origins, a pool of workers that lets them overtake each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 4
SLOTS = 8
"""Of this many buffers of an origin the first two are the chunks of one sequence."""
BUSY_BUFFERS_PER_ORIGIN = 6
"""How far a buffer is overtaken, on average, in buffers of its own origin."""


def write_buffers(path: Path, *, rows: int, origins: int, seed: int) -> None:
    """One arrival per row, at one operator, in the order of arrival."""
    path.mkdir(parents=True)
    random = np.random.default_rng(seed)
    place = np.arange(rows)
    number, slot = np.divmod(place // origins, SLOTS)
    sequence = number * (SLOTS - 1) + np.maximum(slot, 1)
    # The step is smaller than the spread, so that the value at the head of the prefix falls now and then.
    watermark = 10 * sequence + random.integers(0, 25, rows)
    order = np.argsort(place + random.exponential(origins * BUSY_BUFFERS_PER_ORIGIN, rows), kind="stable")
    for file in range(FILES):
        begin, end = file * rows // FILES, (file + 1) * rows // FILES
        taken = order[begin:end]
        columns = {
            "stream": pa.array(np.full(end - begin, "q")).dictionary_encode(),
            "operator": pa.array(np.full(end - begin, "build")).dictionary_encode(),
            "arrival": np.arange(begin + 1, end + 1),
            "origins": np.full(end - begin, origins),
            "origin": taken % origins + 1,
            "sequence": sequence[taken],
            "chunk": (slot[taken] == 1).astype(np.int64),
            "last": slot[taken] != 0,
            "chunk_base": np.zeros(end - begin, np.int64),
            "watermark": watermark[taken],
        }
        pq.write_table(pa.table(columns), path / f"{file}.parquet")
