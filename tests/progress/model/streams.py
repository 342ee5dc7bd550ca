"""Generated origins: gapless sequences cut into chunks, and the orders in which workers may hand them on."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from hypothesis import strategies as st

from wmlab.progress.model.numbers import TupleBuffer
from wmlab.progress.model.tracker import OriginProgress, ProgressRules, ProgressTracker


@st.composite
def origin_buffers(draw, origin: int = 1, base: int = 0, most: int = 8, ordered: bool = False) -> list[TupleBuffer]:
    """All buffers of one origin; with `ordered` the largest watermark of a sequence never falls."""
    counts = draw(st.lists(st.integers(1, 4), max_size=most))
    buffers = []
    floor = 0
    for sequence, count in enumerate(counts, 1):
        watermarks = draw(st.lists(st.integers(floor, floor + 50), min_size=count, max_size=count))
        floor = max(watermarks) if ordered else 0
        buffers += [
            TupleBuffer(origin, sequence, base + place, place == count - 1, watermark)
            for place, watermark in enumerate(watermarks)
        ]
    return buffers


@st.composite
def several_origins(draw, most: int = 3, ordered: bool = False) -> tuple[list[int], list[TupleBuffer]]:
    """Declared origins and the buffers of all of them in any order; some origins may be silent."""
    origins = list(range(1, draw(st.integers(1, most)) + 1))
    buffers = [b for origin in origins for b in draw(origin_buffers(origin=origin, most=4, ordered=ordered))]
    return origins, draw(st.permutations(buffers))


def run_origin(buffers: Sequence[TupleBuffer], rules: ProgressRules | None = None) -> OriginProgress:
    origin = OriginProgress(rules or ProgressRules())
    for buffer in buffers:
        origin.step(buffer)
    return origin


def run(
    origins: Sequence[int], buffers: Sequence[TupleBuffer], rules: ProgressRules | None = None
) -> list[ProgressTracker]:
    """The tracker before the first buffer and after each."""
    states = [ProgressTracker(origins, rules)]
    for number, buffer in enumerate(buffers):
        states.append(copy.deepcopy(states[-1]))
        states[-1].step(buffer, at_ms=10 * number)
    return states


def values(buffers: Sequence[TupleBuffer]) -> dict[int, int]:
    """The largest watermark of each complete sequence, by the definition."""
    chunks: dict[int, dict[int, TupleBuffer]] = {}
    for buffer in buffers:
        chunks.setdefault(buffer.sequence, {})[buffer.chunk] = buffer
    found = {}
    for sequence, mine in chunks.items():
        last = [chunk for chunk, buffer in mine.items() if buffer.last]
        if last and set(mine) == set(range(last[0] + 1)):
            found[sequence] = max(buffer.watermark for buffer in mine.values())
    return found


def prefix(complete: dict[int, int]) -> list[int]:
    """The values of the longest complete prefix, by the definition."""
    found: list[int] = []
    while len(found) + 1 in complete:
        found.append(complete[len(found) + 1])
    return found
