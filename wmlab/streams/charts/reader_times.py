"""The chart of the map from reader to time: what the published position of each reader is worth, and the least of all.

Source: PDP-33, Client Changes (the map, and unassigned segments that every reader counts as its own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wmlab.core.charts.axis import OverTime, bulk_of_curves, time_axis
from wmlab.core.charts.chart import SERIES, Chart, faults, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Panel, Scene, Steps, Value, at_rim, lanes
from wmlab.core.errors import ChartError
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import counted, listed, moment, rounded
from wmlab.streams.answers.history import group_states, segments_of, without_ends
from wmlab.streams.charts.intervals import lengths_ms
from wmlab.streams.model.position import Position, ReaderPosition
from wmlab.streams.model.segment import Segment, segment_name
from wmlab.streams.model.window import compare_with_cut

_MOST: Final = 600
"""Updates of the group's state drawn at most."""
_ROLES: Final = ("upper", "third", "fourth", "perfect")
_State = tuple[int, Mapping[int, TableRow]]
"""When an update was made, and the newest row of each open segment after it."""
_Entries = Mapping[str, Value]
"""The time of every reader that has segments; None: it has passed no watermark."""


def reader_times(
    recording: Recording, *, stream: str | None = None, group: str | None = None, title: str | None = None
) -> Chart:
    """Draw the time that each reader of a group had passed when it last published, and the least of these times.

    A reader passes a watermark when its segments, and those that nobody owns, are at or beyond the cut. By the table
    `positions` a segment is that of the reader that published it last: a release shows when the next owner publishes.
    One without segments has no time and does not count. Readers have lines of their own if they are at most four, and a
    lane with their segments. Raises `ChartError` if there are several streams or groups and none is chosen, or if no
    reader of the group published anything.
    """
    name = one_stream(recording, stream, "positions")
    positions = stream_rows(recording, "positions", name)
    group = _the_group(sorted({row["group"] for row in positions}), group)
    states = list(group_states(row for row in positions if row["group"] == group))
    marks = without_ends(stream_rows(recording, "watermarks", name, by="emitted_ms"))
    shown = share_of(list(zip(states, _maps(states, marks, segments_of(recording, name)), strict=True)), _MOST)
    rows = [(at_ms, entries) for (at_ms, _), entries in shown]
    readers = sorted({reader for _, entries in rows for reader in entries})
    if not readers:
        raise ChartError(f"No reader of {group} published a position in {name}.", remedy="Choose another group.")
    at_ms = [at for at, _ in rows]
    lines = {reader: [entries.get(reader) for _, entries in rows] for reader in readers}
    least = [_least(entries) for _, entries in rows]
    sentence = _sentence(group, at_ms, rows, least)
    fewer = f" Drawn are {len(shown)} of {len(states)} updates." if len(shown) < len(states) else ""
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
            lanes(readers, [_owned(readers, [state for state, _ in shown])]),
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


def _maps(states: Sequence[_State], marks: Sequence[TableRow], segments: Mapping[int, Segment]) -> Iterator[_Entries]:
    """The map of times after each update: whoever published has renewed its own entry."""
    times: dict[str, Value] = {}
    for at_ms, state in states:
        owners = {row["reader"] for row in state.values()} - {None}
        version = max((row["version"] for row in state.values()), default=None)
        publishers = {row["reader"] for row in state.values() if row["version"] == version} - {None}
        known = [mark for mark in marks if mark["emitted_ms"] <= at_ms] if publishers else []
        times = times | {reader: _passed(_share(reader, state), known, segments) for reader in publishers}
        times = {reader: time for reader, time in times.items() if reader in owners}
        yield times


def _share(reader: str, state: Mapping[int, TableRow]) -> ReaderPosition:
    """The reader's own segments and those that nobody owns."""
    return ReaderPosition({segment: row["offset"] for segment, row in state.items() if row["reader"] in (reader, None)})


def _passed(position: ReaderPosition, marks: Sequence[TableRow], segments: Mapping[int, Segment]) -> Value:
    for mark in reversed(marks):
        if compare_with_cut(position, Position(dict(mark["cut"])), segments) == 1:
            lower: Value = mark["lower"]
            return lower
    return None


def _least(entries: _Entries) -> Value:
    """The group's time: unknown while a reader in the map has passed nothing, or nobody is in it."""
    known = [time for time in entries.values() if time is not None]
    return min(known) if known and len(known) == len(entries) else None


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


def _sentence(group: str, at_ms: Sequence[int], rows: Sequence[tuple[int, _Entries]], least: Sequence[Value]) -> str:
    """The answer: whose time was that of the group for how long."""
    last: dict[str, int] = {}
    known_ms = 0
    for (_, entries), time, length in zip(rows, least, lengths_ms(at_ms), strict=True):
        behind = [reader for reader, passed in entries.items() if passed == time]
        known_ms += 0 if time is None else length
        if time is not None and len(behind) < len(entries):
            last.update({reader: last.get(reader, 0) + length for reader in behind})
    if not known_ms:
        return f"Group {group} never knew a time: not every reader had passed a watermark."
    text = f"Group {group} knew a time for {rounded(known_ms)}"
    if not last:
        return f"{text}; all its readers had the same one."
    reader = max(last, key=lambda one: last[one])
    return f"{text}; for {rounded(last[reader])} of that it was the time of {reader}, which was behind."
