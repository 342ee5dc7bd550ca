"""The chart of the map from reader to time that a group shares, and of the least of these times.

Source: PDP-33, Client Changes (the map, and unassigned segments that every reader counts as its own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from wmlab.core.charts.axis import OverTime, bulk_of_curves, time_axis
from wmlab.core.charts.chart import SERIES, Chart, faults, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Panel, Scene, Steps, Value, at_rim, lanes
from wmlab.core.errors import ChartError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import counted, listed, moment, rounded
from wmlab.streams.answers.history import group_states
from wmlab.streams.charts.intervals import lengths_ms
from wmlab.streams.model.segment import segment_name

_MOST: Final = 600
"""Updates of the group's state drawn at most."""
_ROLES: Final = ("upper", "third", "fourth", "perfect")
_State = tuple[int, Mapping[int, TableRow]]
"""When an update was made, and the newest row of each open segment after it."""


class _Times(NamedTuple):
    """The map after an update, and the least time: of every reader that has segments; None: it has passed nothing.

    There is no least one while a reader in the map has passed nothing, or nobody is in it.
    """

    at_ms: int
    entries: Mapping[str, Value]
    least: Value


def reader_times(
    recording: Recording, *, stream: str | None = None, group: str | None = None, title: str | None = None
) -> Chart:
    """Draw the time that each reader of a group has passed, and the least of these times.

    It is the map that the group shares (`read_side="document"`), after every update of the table `group_updates`. A
    reader without segments is not in it. A group that shares offsets keeps no times; what its readers see is in the
    table `windows`.

    Readers have lines of their own if they are at most four, and a lane with their segments. By the table `positions` a
    segment is that of the reader that published it last: a release shows when the next owner publishes. Raises
    `ChartError` if there are several streams or groups and none is chosen, or if nobody is ever in the map.
    """
    name = one_stream(recording, stream, "positions")
    positions = stream_rows(recording, "positions", name)
    group = _the_group(sorted({row["group"] for row in positions}), group)
    states = list(group_states(row for row in positions if row["group"] == group))
    maps = _recorded_maps(recording, name, group)
    rows = share_of(maps, _MOST)
    readers = sorted({reader for row in rows for reader in row.entries})
    if not readers:
        raise ChartError(
            f"The table group_updates has no map of times of group {group} in {name}.",
            remedy='Record a group that shares one, ReaderGroup(read_side="document"), or draw wm.chart.time_bounds.',
        )
    at_ms = [row.at_ms for row in rows]
    lines = {reader: [row.entries.get(reader) for row in rows] for reader in readers}
    least = [row.least for row in rows]
    sentence = _sentence(group, rows)
    fewer = f" Drawn are {len(rows)} of {len(maps)} updates." if len(rows) < len(maps) else ""
    curves = [Steps(name="least", role="lower", xs=at_ms, ys=least)]
    if len(readers) <= len(SERIES):
        pairs = zip(readers, _ROLES, strict=False)
        curves += [Steps(name=reader, role=role, xs=at_ms, ys=lines[reader]) for reader, role in pairs]
    times = [OverTime.steps(at_ms, curve.ys) for curve in curves]
    ends = bulk_of_curves(times, times, least_ms=at_ms[-1] - at_ms[0])
    up = time_axis("time passed", ends, pad_percent=5, clock=at_ms)
    scene = Scene(
        title=title or f"Whose time is that of the group {group}?",
        subtitle=sentence + fewer,
        across=time_axis("clock", at_ms),
        panels=[
            Panel(up=up, layers=at_rim(up, curves), height=220.0),
            lanes(readers, [_owned(readers, share_of(states, _MOST))]),
        ],
        rules=faults(recording, name),
    )
    data: dict[str, list[Any]] = {"at_ms": at_ms} | {f"time of {reader}": lines[reader] for reader in readers}
    return Chart(sentence=sentence, data=data | {"least": least}, scene=scene)


def _the_group(groups: Sequence[str], chosen: str | None) -> str:
    if chosen in groups or (chosen is None and len(groups) == 1):
        return chosen or groups[0]
    raise ChartError(
        f"The recording has {counted(len(groups), 'reader group')}: {listed(groups)}.",
        remedy="Choose one with group=....",
    )


def _recorded_maps(recording: Recording, stream: str, group: str) -> list[_Times]:
    """The group's own map after each update of its state; empty when it shares none, or no table has it."""
    updates = [row for row in stream_rows(recording, "group_updates", stream, by="revision") if row["group"] == group]
    applied = [row for row in updates if row["outcome"] == "applied" and row["lowers"] is not None]
    return [_Times(row["at_ms"], dict(row["lowers"]), row["lower"]) for row in applied]


def _owned(readers: Sequence[str], states: Sequence[_State]) -> Blocks:
    """For how long each reader was the last one to publish which segments."""
    boxes = []
    for lane, reader in enumerate(readers):
        for begin, end, owned in _stretches(reader, states):
            names = listed([segment_name(segment) for segment in owned])
            words = f"{reader} published {names} from {moment(begin)} to {moment(end)}"
            boxes.append(Box(begin, end, lane - 0.4, lane + 0.4, names, words))
    return Blocks(name="segments that the reader was the last to publish", role="unknown", boxes=boxes, opacity=0.16)


def _stretches(reader: str, states: Sequence[_State]) -> Iterator[tuple[int, int, list[int]]]:
    begin, before = states[0][0], list[int]()
    for at_ms, state in [*states, (states[-1][0], {})]:
        owned = sorted(segment for segment, row in state.items() if row["reader"] == reader)
        if owned != before:
            if before and at_ms > begin:
                yield begin, at_ms, before
            begin, before = at_ms, owned


def _sentence(group: str, rows: Sequence[_Times]) -> str:
    """The answer: whose time was that of the group for how long."""
    last: dict[str, int] = {}
    known_ms = 0
    for (_, entries, time), length in zip(rows, lengths_ms([row.at_ms for row in rows]), strict=True):
        behind = [reader for reader, passed in entries.items() if passed == time]
        known_ms += 0 if time is None else length
        if time is not None and len(behind) < len(entries):
            last.update({reader: last.get(reader, 0) + length for reader in behind})
    if not known_ms:
        return f"Group {group} never knew a time: not every reader had passed a watermark."
    text = f"Group {group} knew a time for {rounded(known_ms)}"
    if not last:
        return f"{text}; all its readers had the same one."
    reader = max(last, key=lambda name: last[name])
    return f"{text}; for {rounded(last[reader])} of that it was the time of {reader}, which was behind."
