"""Step curves with unknown stretches, as drawn: a value holds until the next row replaces it.

A curve is two lists of one length: `xs` ascending integers and `ys` integers or None (unknown). A value known at
row i is drawn from xs[i] to xs[i + 1], also when row i + 1 is unknown; there the curve has a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Value = int | None
Point = tuple[int, int]


def hold(xs: Sequence[int], ys: Sequence[Value]) -> tuple[list[int], list[Value]]:
    """The curve with each known value repeated where the unknown begins.

    A plotting library that draws "hv" steps ends a line at the last known point; the added point makes it end
    where the value really stopped to be known.
    """
    held_xs: list[int] = []
    held_ys: list[Value] = []
    previous: Value = None
    for x, y in zip(xs, ys, strict=True):
        if y is None and previous is not None:
            held_xs.append(x)
            held_ys.append(previous)
        held_xs.append(x)
        held_ys.append(y)
        previous = y
    return held_xs, held_ys


def staircases(xs: Sequence[int], ys: Sequence[Value]) -> list[list[Point]]:
    """One polyline for each stretch in which the value is known, with the corners of its steps."""
    lines: list[list[Point]] = []
    line: list[Point] = []
    for x, y in zip(xs, ys, strict=True):
        if line and y != line[-1][1]:
            _extend(line, x, line[-1][1])
        if y is not None:
            _extend(line, x, y)
        elif line:
            lines.append(line)
            line = []
    return [*lines, line] if line else lines


def _extend(line: list[Point], x: int, y: int) -> None:
    if len(line) > 1 and line[-1][1] == line[-2][1] == y:
        line[-1] = (x, y)
    elif not line or line[-1] != (x, y):
        line.append((x, y))


def bands(xs: Sequence[int], lows: Sequence[Value], highs: Sequence[Value]) -> list[list[Point]]:
    """One closed polygon for each stretch in which both curves are known, along `lows` and back along `highs`."""
    floors = staircases(xs, [None if high is None else low for low, high in zip(lows, highs, strict=True)])
    ceilings = staircases(xs, [None if low is None else high for low, high in zip(lows, highs, strict=True)])
    sides = zip(floors, ceilings, strict=True)
    return [[*floor, *reversed(ceiling)] for floor, ceiling in sides if floor[0][0] < floor[-1][0]]


@dataclass(frozen=True, slots=True)
class Standstill:
    """A stretch of the clock (ms) in which a value did not change, and its rows; at its end it changed if `ended`."""

    value: Value
    from_ms: int
    to_ms: int
    rows: range
    ended: bool

    @property
    def length_ms(self) -> int:
        """How long it lasted."""
        return self.to_ms - self.from_ms


def standstills(at_ms: Sequence[int], values: Sequence[Value]) -> list[Standstill]:
    """The stretches of equal values, one after the other; each lasts until the row that changes it, or to the end."""
    begins = [row for row in range(len(values)) if row == 0 or values[row] != values[row - 1]]
    return [
        Standstill(values[begin], at_ms[begin], at_ms[min(end, len(values) - 1)], range(begin, end), end < len(values))
        for begin, end in pairwise([*begins, len(values)])
    ]


def unknown_spans(xs: Sequence[int], ys: Sequence[Value]) -> list[tuple[int, int]]:
    """The stretches (from, to) in which the value is unknown; the last one ends at the last row."""
    stretches = standstills(xs, [y is None for y in ys])
    return [(s.from_ms, s.to_ms) for s in stretches if s.value and (s.ended or s.length_ms)]


def minus(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """The difference row by row; unknown where either side is."""
    return [None if a is None or b is None else a - b for a, b in zip(left, right, strict=True)]


def thin(columns: Sequence[Sequence[Value]], cap: int) -> list[int]:
    """Row numbers, ascending, that are enough to draw all `columns` over the same rows with about `cap` points.

    All rows if there are at most `cap`. Otherwise rows that repeat the row before them go first. If that is not
    enough, the rest is cut into stretches of equal row count; each keeps its ends, and of every column the row
    of its minimum, of its maximum and of its first unknown value, so no peak, dip or gap disappears. The stretches
    are as short as the cap allows.
    """
    count = len(columns[0])
    if count <= cap:
        return list(range(count))
    changed = (i for i in range(1, count - 1) if any(column[i] != column[i - 1] for column in columns))
    rows = [0, *changed, count - 1]
    if len(rows) <= cap:
        return rows
    fewest = max(cap // (2 + 3 * len(columns)), 1)
    stretches = max(cap // 2, 1)
    while len(kept := _thin_evenly(columns, rows, stretches)) > cap and stretches > fewest:
        stretches = max(stretches * 4 // 5, fewest)
    return kept


def thinned(xs: Sequence[int], ys: Sequence[Value], cap: int) -> tuple[list[int], list[Value]]:
    """The points of one curve that `thin` keeps."""
    kept = thin([ys], cap)
    return [xs[i] for i in kept], [ys[i] for i in kept]


def _thin_evenly(columns: Sequence[Sequence[Value]], rows: Sequence[int], stretches: int) -> list[int]:
    kept: set[int] = set()
    for number in range(stretches):
        stretch = rows[number * len(rows) // stretches : (number + 1) * len(rows) // stretches]
        kept.update((stretch[0], stretch[-1]))
        for column in columns:
            known = [(value, i) for i in stretch if (value := column[i]) is not None]
            kept.update([min(known)[1], max(known)[1]] if known else [])
            kept.update([i for i in stretch if column[i] is None][:1])
    return sorted(kept)
