"""Case `curves`: how time and memory grow with the positions, and with the watermarks of a stream.

The question is that of the case `bounds`. The report is two tables in Markdown; as `benchmarks/README.md` has them,
`python -m benchmarks.pictures` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.bounds import FAST, THREADS, made, peers_of, scan, wmlab
from benchmarks.bounds_data import Shape
from benchmarks.measure import Timing, measured

__all__ = ["ROWS", "THREADS", "run"]

ROWS: Final = 40_000_000
POSITIONS: Final = (1_000, 100, 10, 1)
"""By what the positions are divided."""
WATERMARKS: Final = (50, 500, 5_000, 50_000)
FEWER: Final = 4
"""By what the positions of the curve against the watermarks are divided."""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    largest = Shape(ROWS if rows is None else rows, streams=8, segments=4)
    yield (
        f"against positions: {largest.streams} streams of {largest.segments} segments, "
        f"{largest.watermarks:,} watermarks each"
    )
    yield from _table([replace(largest, positions=largest.positions // part) for part in POSITIONS], runs)
    single = Shape(largest.positions // FEWER, streams=1, segments=16)
    yield f"against watermarks: {single.positions:,} positions, one stream of {single.segments} segments"
    yield from _table([replace(single, watermarks=count) for count in WATERMARKS], runs)


def _table(shapes: Sequence[Shape], runs: int) -> Iterator[str]:
    yield "| positions | watermarks | contender | s | GB |"
    yield "|---|---|---|---|---|"
    for shape in shapes:
        with made(shape) as data:
            for timing in measured([scan(data), wmlab(data), *peers_of(data, FAST)], runs):
                yield _row(shape, timing)


def _row(shape: Shape, timing: Timing) -> str:
    took = f"{timing.median:.2f} | {timing.peak_mb / 1_024:.2f}" if timing.seconds else f"{timing.ended} |"
    name = timing.name.partition(", join")[0].partition(", ASOF")[0]
    return f"| {shape.positions:,} | {shape.watermarks:,} | {name} | {took} |"
