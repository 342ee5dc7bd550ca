"""Case `memory`: ten times the positions of the case `bounds`, each contender alone, and once.

What counts is the most memory that each needs, and whether it ends for want of it: see `MEMORY_GB` of `measure.py`. The
times are those of a process that has just begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.bounds import FAST, THREADS, made, peers_of, scan, wmlab
from benchmarks.bounds_data import Shape
from benchmarks.bounds_peers import DAFT
from benchmarks.measure import measured, table

__all__ = ["ROWS", "THREADS", "run"]

ROWS: Final = 400_000_000


def run(rows: int | None, _runs: int) -> Iterator[str]:
    """The lines of the report; nothing is run twice."""
    shape = Shape(ROWS if rows is None else rows, streams=8, segments=4)
    with made(shape) as data:
        yield str(shape)
        contenders = [scan(data), wmlab(data), *peers_of(data, (*FAST, DAFT))]
        yield table(measured(contenders, 1, warm_up=False), "wmlab")
