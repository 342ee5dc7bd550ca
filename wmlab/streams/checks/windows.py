"""The invariant that holds the windows of readers against the time bounds of their groups (I13).

Both sides come from recorded tables: what a reader saw is a row of `windows`; what it was to see follows from the
positions of its group, the log of watermarks, and the rule of the reader. So `recording.time_bounds(spark)` is what the
readers saw, or this invariant says where not. Which groups are compared, and why others are not, says
`wmlab.streams.checks.compared`.

Readers that share a map of times (`read_side` "document") see the window of that map, which `group_updates` has after
every update. So a window of theirs is to be that of the map at its moment, whatever became of the
marks segment. The map of a group whose readers look at no watermarks (`time_windows` False) is empty, and so is what
they know.

Where a stream cut of the log lies before an earlier one, two trackers that have come to one position on different ways
may stand at different watermarks. So a window that differs there does not count. Nor does one of a reader that has
joined a group whose position has moved back, as it does when a reader crashes and another one reads again: trackers
never move back, and the new reader's tracker has not seen how far the group had been.

Source: PDP-33, Watermarking in the Reader; upstream class `WatermarkReaderImpl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text, time_text
from wmlab.streams.bounds.groups import possible_time_bounds
from wmlab.streams.bounds.log_by_segment import Ranges, WatermarkColumns, moves_back, ranges_of, watermark_columns
from wmlab.streams.checks.log import WINDOW
from wmlab.streams.tables import TABLES

SeenBounds: TypeAlias = tuple[int | None, int | None]
_UNKNOWN: Final[SeenBounds] = (None, None)


class LogOfStream(NamedTuple):
    """The log and the key ranges of a stream as bounds are computed of them, and whether a cut lies before another."""

    watermarks: WatermarkColumns
    ranges: Ranges
    falls: bool


def log_in_columns(watermarks: TableRows, segments: TableRows) -> LogOfStream:
    """The log and the segments of one stream."""
    columns = watermark_columns(pa.Table.from_pylist(list(watermarks), TABLES["watermarks"]))
    ranges = ranges_of(pa.Table.from_pylist(list(segments), TABLES["segments"]))
    return LogOfStream(columns, ranges, moves_back(columns, ranges))


class VisibleState(NamedTuple):
    """What the readers of a group may see from `at_ms` on, with the version of its position or map of times.

    `settled` says whether it is the last state of its millisecond.
    """

    at_ms: int
    version: int
    bounds: SeenBounds
    settled: bool


@invariant(
    "the windows of readers are the time bounds of their group at that moment",
    "no reader looked at its window",
)
def windows_are_bounds(
    windows: TableRows,
    positions: TableRows,
    log_in_columns: LogOfStream,
    group_updates: TableRows,
    compared_groups: TableRows,
    some_are_compared: bool,
) -> Iterator[Finding]:
    """I13: one finding per window of a group that is compared, and one per group that is not, which says why.

    A window is to have the bounds that `recording.time_bounds` gives at its moment. What happened in that millisecond,
    the reader may have known or not: the tables do not say what came first. Beside groups that are compared
    (`some_are_compared`, in any stream) the others are said among what does not count.
    """
    by_group = {name: _by_group(rows) for name, rows in (("windows", windows), ("moves", positions))}
    updates = _by_group(row for row in group_updates if row["outcome"] == "applied")
    for group in compared_groups:
        name, with_map = group["group"], group["with_map"]
        if group["why_not"] is not None:
            what = f"the windows of {name_text(name)} are not compared, because {name_text(group['why_not'])}"
            yield Finding(True, what=what, judged=0) if some_are_compared else Finding.undecided(what)
            continue
        applied = updates.get(name, [])
        moves = [] if with_map else sorted(by_group["moves"].get(name, []), key=lambda row: int(row["version"]))
        states = _states_of_map(applied) if with_map else _states_of_positions(moves, log_in_columns)
        falls, behind_ms = log_in_columns.falls and not with_map, _behind_ms(moves, applied)
        for window, possible, due in _beside(by_group["windows"].get(name, []), states):
            if (window["lower"], window["upper"]) in possible:
                yield Finding(True)
                continue
            # Before the first state of the group nothing depends on the way on which it was reached.
            why = _FALLS if falls and due is not None else _joined_behind(window, behind_ms)
            yield _differs(window, due, why, with_map=with_map)


_FALLS: Final = "a stream cut of this log lies before an earlier one"


def _differs(window: TableRow, due: VisibleState | None, why: str | None, *, with_map: bool) -> Finding:
    """That a window is none that its reader can have seen; `why` this does not count, if it does not."""
    group = name_text(window["group"])
    source = f"the shared times of {group}" if with_map else f"the position of {group} and the log"
    lower, upper = map(time_text, _UNKNOWN if due is None else due.bounds)
    what = (
        f"{name_text(window['reader'])} saw lower {time_text(window['lower'])} and upper {time_text(window['upper'])} "
        f"at {time_text(window['at_ms'])}, where {source} give lower {lower} and upper {upper}"
    )
    version = {"revision" if with_map else "version": None if due is None else due.version}
    proof = [
        Evidence.of("windows", window, *WINDOW),
        Evidence.of("group_updates" if with_map else "positions", window, "stream", "group", **version),
    ]
    return Finding(why is not None, window["at_ms"], what if why is None else f"{what}; {why}", proof)


def _by_group(rows: Iterable[TableRow]) -> dict[str, list[TableRow]]:
    of_groups: dict[str, list[TableRow]] = {}
    for row in rows:
        of_groups.setdefault(row["group"], []).append(row)
    return of_groups


def _behind_ms(moves: TableRows, applied: TableRows) -> dict[str, int]:
    """From when on each reader has joined a group, and the position of the group has moved back."""
    offsets: dict[int, int] = {}
    back: list[int] = []
    for row in moves:
        if row["offset"] < offsets.get(row["segment_id"], row["offset"]) and not row["anew"]:
            back.append(row["at_ms"])
        offsets[row["segment_id"]] = row["offset"]
    if not back:
        return {}
    joined: dict[str, int] = {}
    for row in applied:
        if row["operation"] == "join":
            joined[row["reader"]] = min(joined.get(row["reader"], row["at_ms"]), row["at_ms"])
    return {reader: max(joined_ms, min(back)) for reader, joined_ms in joined.items()}


def _joined_behind(window: TableRow, behind_ms: Mapping[str, int]) -> str | None:
    """That the reader of a window has joined by then, and the group has moved back; else None."""
    if window["at_ms"] < behind_ms.get(window["reader"], window["at_ms"] + 1):
        return None
    return f"{name_text(window['reader'])} has joined, and the position of {name_text(window['group'])} has moved back"


def _states_of_positions(moves: TableRows, log: LogOfStream) -> list[VisibleState]:
    """The states of a group whose readers compare its position with the log."""
    if not moves:
        return []
    changes = pa.Table.from_pylist(list(moves), TABLES["positions"])
    rows = possible_time_bounds(changes, log.watermarks, log.ranges).select(
        ["at_ms", "version", "lower", "upper", "settled"]
    )
    return [
        VisibleState(row["at_ms"], row["version"], (row["lower"], row["upper"]), row["settled"])
        for row in rows.to_pylist()
    ]


def _states_of_map(applied: TableRows) -> list[VisibleState]:
    """The states of a group whose readers see the window of its map of times: after every update, by revision."""
    ordered = sorted(applied, key=lambda row: (row["at_ms"], row["revision"]))
    last = {row["at_ms"]: row["revision"] for row in ordered}
    return [
        VisibleState(row["at_ms"], row["revision"], (row["lower"], row["upper"]), row["revision"] == last[row["at_ms"]])
        for row in ordered
    ]


def _beside(
    windows: TableRows, states: Iterable[VisibleState]
) -> Iterator[tuple[TableRow, set[SeenBounds], VisibleState | None]]:
    """The windows of a group with the bounds that their reader may have seen, and the last state up to that moment."""
    moments: dict[int, list[VisibleState]] = {}
    for state in states:
        moments.setdefault(state.at_ms, []).append(state)
    waiting = sorted(moments, reverse=True)
    before: VisibleState | None = None
    due: VisibleState | None = None
    for window in sorted(windows, key=lambda row: int(row["at_ms"])):
        while waiting and waiting[-1] <= window["at_ms"]:
            before, due = due, next((state for state in moments[waiting.pop()] if state.settled), None)
        possible = {_bounds_of(due)}
        if window["at_ms"] in moments:
            possible = {state.bounds for state in moments[window["at_ms"]]} | {_bounds_of(before)}
        yield window, possible, due


def _bounds_of(state: VisibleState | None) -> SeenBounds:
    return _UNKNOWN if state is None else state.bounds
