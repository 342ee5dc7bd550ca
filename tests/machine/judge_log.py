"""The second judge on the log and on windows: I1, I2, I7, I8 and I9, one loop each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import Any

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]
Answer = tuple[int, list[int]]


def log_of(rows: Rows) -> list[Row]:
    """The watermarks in the order of the log."""
    return sorted(rows["watermarks"], key=lambda row: (row["seq"], row["revision"], row["emitted_ms"]))


def lower_increases(rows: Rows) -> Answer:
    """I1."""
    pairs = list(pairwise(log_of(rows)))
    return len(pairs), [later["emitted_ms"] for earlier, later in pairs if later["lower"] <= earlier["lower"]]


def upper_never_decreases(rows: Rows) -> Answer:
    """I2: of a stream that was never led by two at a time."""
    led = defaultdict(list)
    for row in rows["cycles"]:
        led[row["controller"]].append(row["at_ms"])
    for row in rows["watermarks"]:
        led[row["controller"]].append(row["emitted_ms"])
    terms = [(min(moments), max(moments)) for moments in led.values()]
    if any(one[0] <= other[1] and other[0] <= one[1] for one, other in combinations(terms, 2)):
        return 0, []
    pairs = list(pairwise(log_of(rows)))
    return len(pairs), [later["emitted_ms"] for earlier, later in pairs if later["upper"] < earlier["upper"]]


def bounds_in_order(rows: Rows) -> Answer:
    """I7, of watermarks and of windows."""
    bounds = [(row["lower"], row["upper"], row["emitted_ms"]) for row in rows["watermarks"]]
    bounds += [(row["lower"], row["upper"], row["at_ms"]) for row in rows["windows"]]
    known = [(lower, upper, at) for lower, upper, at in bounds if lower is not None and upper is not None]
    return len(known), [at for lower, upper, at in known if lower > upper]


def one_winner(rows: Rows) -> Answer:
    """I8: places and revisions strictly increase."""
    log = log_of(rows)
    broken = [
        later["emitted_ms"]
        for earlier, later in pairwise(log)
        if later["seq"] == earlier["seq"] or later["revision"] <= earlier["revision"]
    ]
    return len(log), broken


def windows_monotone(rows: Rows) -> Answer:
    """I9, within each life of each reader."""
    log_falls = any(later["upper"] < earlier["upper"] for earlier, later in pairwise(log_of(rows)))
    lives: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows["windows"]:
        who = (row["group"], row["reader"])
        faults = sum(fault["target"] in who and fault["at_ms"] <= row["at_ms"] for fault in rows["incidents"])
        lives[*who, faults].append(row)
    judged, broken = 0, []
    for seen in lives.values():
        seen.sort(key=lambda row: (row["at_ms"], _nulls_first(row["lower"]), _nulls_first(row["upper"])))
        judged += len(seen) - 1
        last_upper = None
        for place, row in enumerate(seen):
            lower, before = row["lower"], seen[place - 1]["lower"] if place else None
            back = before is not None and (lower is None or lower < before)
            if row["upper"] is not None:
                back |= not log_falls and last_upper is not None and row["upper"] < last_upper
                last_upper = row["upper"]
            if back:
                broken.append(row["at_ms"])
    return judged, broken


def _nulls_first(value: int | None) -> tuple[bool, int]:
    return value is not None, value or 0
