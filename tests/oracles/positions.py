"""How far a reader group is in the log of watermarks: its published position, followed cut by cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby

from tests.oracles.tables import Row, Run

Keys = Mapping[int, tuple[Fraction, Fraction]]


def is_behind(segment: int, offset: int, cut: Mapping[int, int | None], keys: Keys) -> bool:
    """Whether a segment of a position is before a cut: by its offset, or because a later one has its keys."""
    if segment in cut:
        end = cut[segment]
        return end is None or offset < end
    return any(segment < other and _overlap(segment, other, keys) for other in cut)


def is_beyond(segment: int, offset: int, cut: Mapping[int, int | None], keys: Keys) -> bool:
    """Whether a segment of a position is past a cut."""
    if segment in cut:
        end = cut[segment]
        return end is not None and offset > end
    return any(segment > other and _overlap(segment, other, keys) for other in cut)


def _overlap(one: int, other: int, keys: Keys) -> bool:
    if one not in keys or other not in keys:
        return True
    (low, high), (other_low, other_high) = keys[one], keys[other]
    return low < other_high and other_low < high


@dataclass
class Reading:
    """A group at a moment: the row of each segment of its position, and where it is in the log."""

    at_ms: int
    rows: dict[int, Row]
    passed: int | None = None
    """The last watermark passed (seq); None: none yet."""
    since_ms: int | None = None
    """When the bound at the position began to have its value."""
    ahead: list[int] = field(default_factory=list)
    """The watermarks that it has looked at and not passed (seq), ascending."""
    fetched: int = 0


def followed(run: Run, stream: str, group: str) -> list[Reading]:
    """The group after every change of its position and every watermark, in the order of time."""
    marks = sorted(run.all_rows("watermarks", stream), key=lambda row: row["seq"])
    keys = run.keys(stream)
    rows = sorted(
        (row for row in run.all_rows("positions", stream) if row["group"] == group), key=lambda row: row["version"]
    )
    moves = [list(of_version) for _, of_version in groupby(rows, key=lambda row: row["version"])]
    steps: list[tuple[int, int, list[Row] | None]] = [(max(row["at_ms"] for row in move), 0, move) for move in moves]
    steps += [(row["emitted_ms"], 1, None) for row in marks]
    found: list[Reading] = []
    for at_ms, _, move in sorted(steps, key=lambda step: step[:2]):
        before = found[-1] if found else None
        if move is None and before is None:
            continue
        state = dict(before.rows) if before else {}
        for row in move or ():
            state[row["segment_id"]] = row
        state = {segment: row for segment, row in state.items() if not row["finished"]}
        is_reset = move is not None and all(row["reset"] for row in move)
        known = [row for row in marks if row["emitted_ms"] <= at_ms]
        start = before if before and not is_reset else None
        now = _step(at_ms, state, start, known, keys)
        now.since_ms = _since(before, now, marks)
        found.append(now)
    return found


def _step(at_ms: int, state: dict[int, Row], before: Reading | None, known: list[Row], keys: Keys) -> Reading:
    now = Reading(at_ms, state)
    if before is not None:
        now.passed, now.ahead, now.fetched = before.passed, list(before.ahead), before.fetched
    while now.ahead and not before_cut(state, known[now.ahead[0]], keys):
        now.passed = now.ahead.pop(0)
    while now.fetched < len(known) and not (now.ahead and _is_strictly_before(state, known[now.ahead[-1]], keys)):
        seq = now.fetched
        now.fetched += 1
        if before_cut(state, known[seq], keys):
            now.ahead.append(seq)
        else:
            now.passed = seq
    return now


def _since(before: Reading | None, now: Reading, marks: list[Row]) -> int | None:
    value = value_of(now, marks)
    if value is None:
        return None
    return before.since_ms if before is not None and value_of(before, marks) == value else now.at_ms


def value_of(reading: Reading, marks: list[Row]) -> int | None:
    """The bound at the position; None: no watermark passed, or one that counts no writers."""
    if reading.passed is None or not marks[reading.passed]["writers"]:
        return None
    return int(marks[reading.passed]["lower"])


def before_cut(state: Mapping[int, Row], mark: Row, keys: Keys) -> list[int]:
    """The segments of a position that are before the cut of a watermark, ascending."""
    return [
        segment for segment, row in sorted(state.items()) if is_behind(segment, row["offset"] or 0, mark["cut"], keys)
    ]


def _is_strictly_before(state: Mapping[int, Row], mark: Row, keys: Keys) -> bool:
    beyond: Iterable[bool] = (
        is_beyond(segment, row["offset"] or 0, mark["cut"], keys) for segment, row in state.items()
    )
    return bool(before_cut(state, mark, keys)) and not any(beyond)
