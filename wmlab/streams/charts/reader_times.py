"""The chart of the map from reader to time that a group shares, and of the least of these times.

Source: PDP-33, Client Changes (the map, and unassigned segments that every reader counts as its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.charts.axis import held, shown_range, time_axis
from wmlab.core.charts.chart import SERIES, Chart, drawn_words, faults, joined, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Panel, Scene, Steps, lanes
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, counted, listed
from wmlab.streams.answers.history import group_states
from wmlab.streams.answers.reader_times import GroupSegments, map_sentences, recorded_maps, stretches_of
from wmlab.streams.model.segment import segment_name

_MOST: Final = 600
"""Updates of the group's state drawn at most."""
_ROLES: Final = ("upper", "third", "fourth", "perfect")


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
    maps = recorded_maps(recording, name, group)
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
    sentence = map_sentences(group, rows)
    fewer = drawn_words((len(rows), len(maps), "updates"))
    curves = [Steps(name="least", role="lower", xs=at_ms, ys=least)]
    if len(readers) <= len(SERIES):
        pairs = zip(readers, _ROLES, strict=False)
        curves += [Steps(name=reader, role=role, xs=at_ms, ys=lines[reader]) for reader, role in pairs]
    ends = shown_range([held(at_ms, curve.ys) for curve in curves], least_ms=at_ms[-1] - at_ms[0])
    up = time_axis("time passed", ends, pad_percent=5, clock=at_ms)
    scene = Scene(
        title=title or f"Whose time is that of the group {group}?",
        subtitle=joined(sentence, fewer),
        across=time_axis("clock", at_ms),
        panels=[
            Panel(up=up, layers=curves, height=220.0),
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


def _owned(readers: Sequence[str], states: Sequence[GroupSegments]) -> Blocks:
    """For how long each reader was the last one to publish which segments."""
    boxes = []
    for lane, reader in enumerate(readers):
        for begin, end, owned in stretches_of(reader, states):
            names = listed([segment_name(segment) for segment in owned])
            words = f"{reader} published {names} from {clock_words(begin)} to {clock_words(end)}"
            boxes.append(Box(begin, end, lane - 0.4, lane + 0.4, names, words))
    return Blocks(name="segments that the reader was the last to publish", role="unknown", boxes=boxes, opacity=0.16)
