"""A second judge: I1 to I9 from the rows of a recording in plain Python, with loops where Spark has windows and joins.

It shares no code with the simulator, with the model, or with Spark's checks; what they have in common is the recording
and the words of the invariants. `Found` is what can be compared: how much was judged, and when something was broken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tests.machine.judge_cuts import cut_beyond_writers, cut_complete, cut_never_moves_back
from tests.machine.judge_late import nothing_late
from tests.machine.judge_log import (
    bounds_in_order,
    lower_increases,
    one_winner,
    upper_never_decreases,
    windows_monotone,
)

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]
"""The rows of one stream, by table."""

RULES: Final[Mapping[str, Callable[[Rows], tuple[int, list[int]]]]] = {
    "I1": lower_increases,
    "I2": upper_never_decreases,
    "I3": cut_never_moves_back,
    "I4": cut_beyond_writers,
    "I5": cut_complete,
    "I6": nothing_late,
    "I7": bounds_in_order,
    "I8": one_winner,
    "I9": windows_monotone,
}
"""Each gives how many single things it judged, and at which ms each violation happened."""

TABLES: Final = (
    "segments",
    "epochs",
    "events",
    "writer_marks",
    "cycles",
    "watermarks",
    "windows",
    "reads",
    "incidents",
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one rule says about one stream: `judged` single things, and when (ms) it was broken, ascending."""

    judged: int
    broken: tuple[int, ...] = ()


Findings = dict[tuple[str, str], Found]
"""By stream and invariant; what was neither judged nor broken is left out."""


def judge(tables: Mapping[str, pa.Table]) -> Findings:
    """All rules over all streams of a recording."""
    streams: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {name: [] for name in TABLES})
    for name in TABLES:
        for row in tables[name].to_pylist(maps_as_pydicts="strict"):
            streams[row["stream"]][name].append(row)
    found = {}
    for stream, rows in streams.items():
        for invariant, rule in RULES.items():
            judged, broken = rule(rows)
            if judged or broken:
                found[stream, invariant] = Found(judged, tuple(sorted(broken)))
    return found


def violated(found: Findings) -> set[str]:
    """The invariants that are violated somewhere."""
    return {invariant for (_, invariant), one in found.items() if one.broken}
