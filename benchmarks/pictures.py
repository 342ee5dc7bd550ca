"""Draws the curves of the benchmark as they stand in `benchmarks/README.md`: `python -m benchmarks.pictures`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import log10
from pathlib import Path
from typing import Final, NamedTuple

from wmlab.core.charts.axis import Numbers, Tick
from wmlab.core.charts.scene import Panel, Path as Line, Scene
from wmlab.core.charts.svg import draw_svg
from wmlab.core.words import grouped

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "benchmarks" / "README.md"
PICTURES: Final = ROOT / "docs" / "images"
_ROW: Final = re.compile(r"^\| ([\d,]+) \| ([\d,]+) \| ([\w, ]+) \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
_SHORT: Final = 2.5
"""Powers of ten."""
_ROLES: Final = {"wmlab": "lower", "Spark, reading only": "perfect", "Polars": "upper", "DuckDB": "third"}


class Measurement(NamedTuple):
    """What one contender took of one question."""

    positions: int
    watermarks: int
    contender: str
    seconds: float
    memory_gb: float


def measurements(section: str) -> list[Measurement]:
    """The rows of a table of the case `curves`, which begins with `section`."""
    text = README.read_text(encoding="utf-8").partition(f"\n{section}")[2].partition("\n\nagainst ")[0]
    return [
        Measurement(int(positions.replace(",", "")), int(marks.replace(",", "")), name, float(seconds), float(memory))
        for positions, marks, name, seconds, memory in _ROW.findall(text)
    ]


def picture(section: str, across: str) -> str:
    """Time and memory of all contenders against "positions" or "watermarks", as SVG; both axes by powers of ten."""
    rows = measurements(section)
    xs = sorted({getattr(row, across) for row in rows})
    last = {row.contender: row for row in rows if getattr(row, across) == xs[-1]}
    words = ", ".join(f"{name} {row.seconds:.1f} s and {row.memory_gb:.1f} GB" for name, row in last.items())
    scene = Scene(
        title=f"What do time bounds cost with more {across}?",
        subtitle=f"With {grouped(xs[-1])} {across}: {words}. Both axes by powers of ten.",
        across=_by_tens(across, xs),
        panels=[
            _panel("time (s)", across, rows, [row.seconds for row in rows]),
            _panel("memory (GB)", across, rows, [row.memory_gb for row in rows]),
        ],
    )
    return draw_svg(scene)


def _panel(title: str, across: str, rows: Sequence[Measurement], values: Sequence[float]) -> Panel:
    lines = []
    for contender in dict.fromkeys(row.contender for row in rows):
        points = [
            (log10(getattr(row, across)), log10(value))
            for row, value in zip(rows, values, strict=True)
            if row.contender == contender
        ]
        xs, ys = zip(*points, strict=True)
        role = _ROLES[contender]
        lines.append(Line(name=contender, role=role, xs=xs, ys=ys))
    return Panel(up=_by_tens(title, values), layers=lines, height=190.0)


def _by_tens(title: str, values: Iterable[float]) -> Numbers:
    """An axis over the logarithms of values, with a tick at each power of ten; on a short one at 2 and 5 of each."""
    known = [log10(value) for value in values]
    low, high = min(known), max(known)
    ends = low - 0.05 * (high - low), high + 0.05 * (high - low)
    digits = (1, 2, 5) if high - low < _SHORT else (1,)
    rounds = [digit * Decimal(10) ** power for power in range(int(low) - 1, int(high) + 2) for digit in digits]
    ticks = (Tick(log10(number), grouped(int(number)) if number >= 1 else f"{number:f}") for number in rounds)
    return Numbers(title, *ends, tuple(tick for tick in ticks if ends[0] <= tick.value <= ends[1]))


DRAWN: Final = {
    "benchmark_positions.svg": ("against positions", "positions"),
    "benchmark_watermarks.svg": ("against watermarks", "watermarks"),
}
"""File, beginning of its table in the README, and what is on its x axis."""


def main() -> None:
    """Write the pictures."""
    for name, (section, across) in DRAWN.items():
        (PICTURES / name).write_text(picture(section, across) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
