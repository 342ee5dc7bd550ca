"""The bounds of a group with a map of times, over small tables: what a row has, and when there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from wmlab.streams.bounds.maps import map_bounds_of_group

COLUMNS = ("version", "at_ms", "change", "lower", "upper", "lower_seq", "upper_seq")


def made_at(rows: Iterable[tuple[int, int, str | None]]) -> pa.Table:
    """The versions of one group, each with its time and its reader, in two segments."""
    names = ("version", "at_ms", "reader")
    found = [{"stream": "s", "group": "g", **dict(zip(names, row, strict=True))} for row in rows]
    return pa.Table.from_pylist(found * 2)


def positions_at(*at_ms: int) -> pa.Table:
    """The versions of one group at these times."""
    return made_at((version, at, "r") for version, at in enumerate(at_ms))


def updates_by(
    rows: Iterable[tuple[int, str | None, str, int | None, int | None]], *, outcome: str = "applied"
) -> pa.Table:
    """Updates in the order of their revisions; stored in another order."""
    names = ("at_ms", "reader", "operation", "lower", "upper")
    found = [
        {"revision": number, "outcome": outcome, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(found[::-1])


def updates_of(*rows: tuple[int, int | None, int | None], outcome: str = "applied") -> pa.Table:
    """Updates of the times of one reader from at_ms, lower and upper."""
    return updates_by(((at, "r", "time", *bounds) for at, *bounds in rows), outcome=outcome)


def bounds(positions: pa.Table, updates: pa.Table, until_ms: int | Mapping[str, int] | None = None) -> list[Any]:
    found = map_bounds_of_group(positions, updates, until_ms)
    assert set(found["stream"].to_pylist()) == {"s"}
    assert set(found["group"].to_pylist()) == {"g"}
    return [tuple(row[name] for name in COLUMNS) for row in found.to_pylist()]


def test_a_row_has_the_map_at_the_end_of_its_millisecond() -> None:
    updates = updates_of(
        (10, None, None), (10, 3, None), (15, 3, None), (17, 4, 9), (17, 5, 9), (20, 6, 9), (33, None, None)
    )
    assert bounds(positions_at(0, 10, 20, 20), updates, until_ms=50) == [
        (0, 0, "position", None, None, None, None),
        (1, 10, "position", 3, None, None, None),
        (1, 17, "times", 5, 9, None, None),
        (2, 20, "position", 6, 9, None, None),
        (3, 20, "position", 6, 9, None, None),
        (3, 33, "times", None, None, None, None),
        (3, 50, "end", None, None, None, None),
    ]


def test_versions_of_one_millisecond_have_the_window_of_their_update() -> None:
    """Reader a publishes and shares its time, then b; or the group is taken back, and then both start again."""
    steps = [
        (10, "a", "publish", 1),
        (10, "a", "time", 2),
        (10, "b", "acquire", 2),
        (10, "b", "publish", 3),
        (10, "b", "time", 4),
        (20, "a", "time", 5),
        (20, None, "reset", None),
        (20, "a", "publish", None),
        (20, "a", "time", 1),
    ]
    updates = updates_by((at, who, what, low, None) for at, who, what, low in steps)
    made = [(0, 0, None), (1, 10, "a"), (2, 10, "b"), (2, 10, None), (3, 20, None), (4, 20, "a")]
    assert [row[:4] for row in bounds(made_at(made), updates)] == [
        (0, 0, "position", None),
        (1, 10, "position", 1),
        (2, 10, "position", 4),
        (3, 20, "position", None),
        (4, 20, "position", 1),
    ]


def test_no_row_is_later_than_the_end_of_its_stream() -> None:
    updates, positions = updates_of((17, 4, 9), (33, 6, 9)), positions_at(0, 40)
    rows = bounds(positions, updates, until_ms={"s": 20, "other": 90})
    assert [row[1:4] for row in rows] == [(0, "position", None), (17, "times", 4), (20, "end", 4)]
    assert [row[1] for row in bounds(positions, updates, until_ms={"s": 17})] == [0, 17]
    assert [row[1] for row in bounds(positions, updates, until_ms={"other": 17})] == [0, 17, 33, 40]


def test_what_was_refused_does_not_count() -> None:
    rows = bounds(positions_at(0, 10), updates_of((5, 1, 2), outcome="conflict"))
    assert [row[1:4] for row in rows] == [(0, "position", None), (10, "position", None)]
