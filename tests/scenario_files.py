"""The scenario files of the project, recorded once each, and questions to their tables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import wmlab as wm
from wmlab.streams.model.segment import segment_name

FOLDER = Path(__file__).resolve().parents[1] / "data" / "scenarios"
Row = dict[str, Any]


def files(*folders: str) -> list[str]:
    """The names of all scenario files there, as `reports/pravega_4233`."""
    found = [path for folder in folders for path in sorted((FOLDER / folder).glob("*.yaml"))]
    return [str(path.relative_to(FOLDER).with_suffix("")) for path in found]


def recording(name: str, **changed: Mapping[str, Any]) -> wm.trace.Recording:
    """The recording of a file, with fields of its parts or rules changed: `rules={"bug_6510": False}`."""
    return _recorded(name, tuple((part, tuple(fields.items())) for part, fields in changed.items()))


@functools.cache
def _recorded(name: str, changed: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]) -> wm.trace.Recording:
    scenario = wm.Scenario.load(FOLDER / f"{name}.yaml")
    parts = {part: dataclasses.replace(getattr(scenario, part), **dict(fields)) for part, fields in changed}
    return scenario.replace(**parts).record(progress=False)


def rows(run: wm.trace.Recording, table: str, **where: object) -> list[Row]:
    """The rows of a table that have the given values."""
    return [row for row in run.table(table).to_pylist() if all(row[name] == value for name, value in where.items())]


def lowers(run: wm.trace.Recording, **where: object) -> list[int | None]:
    """The lower bounds of all windows, in order."""
    return [row["lower"] for row in rows(run, "windows", **where)]


def known(window: Row) -> bool:
    """Whether both bounds of a window are known."""
    return window["lower"] is not None and window["upper"] is not None


def named(cut: Iterable[tuple[int, int | None]]) -> dict[str, int | None]:
    """A recorded cut or position by segment name."""
    return {segment_name(segment): offset for segment, offset in cut}


def late_reads(run: wm.trace.Recording) -> int:
    """How many events were first read by a reader that knew a lower bound above their time."""
    events: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in rows(run, "events"):
        events.setdefault((row["stream"], row["segment_id"]), []).append((row["offset"], row["event_time"]))
    return sum(
        read["from_offset"] < offset <= read["to_offset"] and time < read["lower"]
        for read in rows(run, "reads", again=False)
        if read["lower"] is not None
        for offset, time in events.get((read["stream"], read["segment_id"]), [])
    )
