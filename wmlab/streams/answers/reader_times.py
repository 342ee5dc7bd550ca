"""The map from reader to time that a group shares, whose least time is the group's, and who published which segments.

Source: PDP-33, Client Changes (the map, and unassigned segments that every reader counts as its own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wmlab.core.charts.scene import Value
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import rounded
from wmlab.streams.answers.step_curves import lengths_ms
from wmlab.streams.answers.stream_tables import StreamTables

GroupSegments = tuple[int, Mapping[int, TableRow]]
"""When an update was made, and the newest row of each open segment after it."""


class TimesOfReaders(NamedTuple):
    """The map after an update, and the least time: of every reader that has segments; None: it has passed nothing.

    There is no least one while a reader in the map has passed nothing, or nobody is in it.
    """

    at_ms: int
    entries: Mapping[str, Value]
    least: Value


def recorded_maps(recording: Recording, stream: str, group: str) -> list[TimesOfReaders]:
    """The group's own map after each update of its state; empty when it shares none, or no table has it."""
    maps = StreamTables(recording, stream).of_group(group).maps
    return [TimesOfReaders(row["at_ms"], dict(row["lowers"]), row["lower"]) for row in maps]


def stretches_of(reader: str, states: Sequence[GroupSegments]) -> Iterator[tuple[int, int, list[int]]]:
    """From when to when (clock, ms) a reader was the last one to publish which segments."""
    begin, before = states[0][0], list[int]()
    for at_ms, state in [*states, (states[-1][0], {})]:
        owned = sorted(segment for segment, row in state.items() if row["reader"] == reader)
        if owned != before:
            if before and at_ms > begin:
                yield begin, at_ms, before
            begin, before = at_ms, owned


def map_sentences(group: str, rows: Sequence[TimesOfReaders]) -> str:
    """Whose time was that of the group for how long."""
    behind_ms: dict[str, int] = {}
    known_ms = 0
    for (_, entries, time), length in zip(rows, lengths_ms([row.at_ms for row in rows]), strict=True):
        behind = [reader for reader, passed in entries.items() if passed == time]
        known_ms += 0 if time is None else length
        if time is not None and len(behind) < len(entries):
            behind_ms.update({reader: behind_ms.get(reader, 0) + length for reader in behind})
    if not known_ms:
        return f"Group {group} never knew a watermark: not every reader had passed one."
    text = f"Group {group} knew a watermark for {rounded(known_ms)}."
    if not any(behind_ms.values()):
        # Readers that pass a watermark in the same millisecond are behind each other for no time.
        return f"{text} All its readers had passed the same one."
    reader = max(behind_ms, key=lambda name: behind_ms[name])
    return f"{text} For {rounded(behind_ms[reader])} of that it was the one that {reader} had passed, which was behind."
