"""How far the lower bound of a stream was behind the clock, computed a second time from the tables alone.

A stream that was deleted has no bound from then on.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.oracles.tables import SUCCESS, Run

Lag = tuple[float | None, int | None]


def measures(run: Run, stream: str) -> dict[str, Any]:
    """The measures of a stream by their names, without those of what is late."""
    marks = sorted(run.all_rows("watermarks", stream), key=lambda row: row["seq"])
    cycles = run.all_rows("cycles", stream)
    ends_ms = [*(row["emitted_ms"] for row in marks[1:]), run.ends(stream)]
    known = [(row, end_ms) for row, end_ms in zip(marks, ends_ms, strict=False) if row["writers"]]
    lags = [(row["emitted_ms"] - row["lower"], end_ms - row["emitted_ms"]) for row, end_ms in known]
    widths = [(row["upper"] - row["lower"], length) for (row, _), (_, length) in zip(known, lags, strict=True)]
    whole_ms = sum(length for _, length in lags)
    area = sum(Fraction(2 * lag + length, 2) * length for lag, length in lags)
    wide = sum(width * length for width, length in widths)
    return {
        "events": len(run.all_rows("events", stream)),
        "watermarks": len(marks),
        "cycles that were held": sum(row["outcome"] != "emitted" for row in cycles),
        "refused marks": sum(row["outcome"] != SUCCESS for row in run.all_rows("writer_marks", stream)),
        "mean lag of the lower bound (ms)": float(area / whole_ms) if whole_ms else None,
        "worst lag of the lower bound (ms)": max((lag + length for lag, length in lags if length), default=None),
        "worst lag of the lower bound that readers saw (ms)": worst_seen(run, stream),
        "mean upper − lower (ms)": wide / whole_ms if whole_ms else None,
    }


def worst_seen(run: Run, stream: str) -> int | None:
    """The largest lag of what a reader saw, up to its last poll before the stream was deleted (ms)."""
    windows = [row for row in run.all_rows("windows", stream) if row["at_ms"] <= run.ends(stream)]
    lags: list[int] = []
    for name in {row["reader"] for row in windows}:
        mine = [row for row in windows if row["reader"] == name]
        for row, after in zip(mine, [*mine[1:], mine[-1]], strict=True):
            lags += [] if row["lower"] is None else [after["at_ms"] - row["lower"]]
    return max(lags, default=None)
