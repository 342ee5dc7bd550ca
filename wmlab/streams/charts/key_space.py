"""The chart of the key space over time: segments as blocks, stream cuts as lines across them, where readers stood.

A cut names an offset in every segment it crosses. The chart puts it where the segment stood at that offset, that is
when the event that ends there was appended; so a cut is a line that crosses all keys once, and it lies left of the
moment at which it was emitted by as much as the watermark lagged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa

from wmlab.core.charts.axis import Coordinate, Numbers, Tick, time_axis
from wmlab.core.charts.chart import Chart, columns_of, one_stream, share_of, stream_rows
from wmlab.core.charts.scene import Blocks, Box, Dots, Panel, Path, Rule, Scene
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import counted, grouped, listed, moment, rounded
from wmlab.streams.answers.history import events_of, group_states
from wmlab.streams.model.segment import segment_name

_MOST_CUTS: Final = 8
_MOST_FRONTS: Final = 6
_QUARTERS: Final = tuple(Tick(quarter / 4, str(Fraction(quarter, 4))) for quarter in range(5))


GroupOffsets = tuple[int, Mapping[int, int | None]]
"""When it was published, and the offset in each segment that it crosses; None: the end."""
Front = tuple[int, dict[int, int]]
"""When it was published, and of each segment that it crosses the clock time at which the segment was that long."""


def key_space(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw which keys each segment held and when, with stream cuts across them and the reader's positions.

    `stream` chooses one of several. Of many cuts and positions, 8 and 6 are drawn, evenly spread over the run. Raises
    `ChartError` if the recording has several streams and none is chosen, or no segments.
    """
    name = one_stream(recording, stream, "segments")
    segments = stream_rows(recording, "segments", name)
    marks = stream_rows(recording, "watermarks", name)
    positions = _group_offsets(stream_rows(recording, "positions", name))
    chosen = [(row["emitted_ms"], dict(row["cut"])) for row in share_of(marks, _MOST_CUTS)]
    standing = share_of(positions, _MOST_FRONTS)
    lengths = _Lengths(segments, [*chosen, *standing], events_of(recording, name, "segment_id", "offset", "append_ms"))
    times = [lengths.last_ms, *(row["emitted_ms"] for row in marks)]
    end_ms = max([*times, *(row["sealed_ms"] or row["created_ms"] for row in segments)])
    cuts, drawn = [lengths.front(*cut) for cut in chosen], [lengths.front(*position) for position in standing]
    sentence = _sentence(name, segments, len(marks), cuts, end_ms)
    counts = ((_MOST_CUTS, len(marks), "cuts"), (_MOST_FRONTS, len(positions), "positions"))
    shares = [f"{most} of {grouped(count)} {what}" for most, count, what in counts if most < count]
    fewer = f" Drawn are {listed(shares)}." if shares else ""
    scene = Scene(
        title=title or f"Which segment held which keys of {name}, and where did the cuts pass?",
        subtitle=sentence + fewer,
        across=time_axis("clock", [*(row["created_ms"] for row in segments), end_ms]),
        panels=[
            Panel(
                up=Numbers("key space", 0.0, 1.0, _QUARTERS),
                height=300.0,
                layers=[
                    _blocks(segments, end_ms),
                    _lines("stream cut of a watermark", "lower", cuts, segments),
                    _lines("position of the readers", "upper", drawn, segments),
                    _middles(drawn, segments),
                ],
            )
        ],
        rules=list(
            dict.fromkeys(  # the two epochs of a rolling transaction are one change
                Rule(row["at_ms"], row["kind"], "diamond")
                for row in stream_rows(recording, "epochs", name)
                if row["kind"] != "create"
            )
        ),
    )
    data = columns_of(segments, ("segment_id", "keys", "created_ms", "sealed_ms"))
    return Chart(sentence=sentence, data=data, scene=scene)


class _Lengths:
    """How long segments were when: for each offset in `positions` the last event that ends there or before.

    `events` are parts in any order, of which nothing else is kept; `last_ms` is when the last one was appended.
    """

    def __init__(
        self, segments: Sequence[TableRow], positions: Iterable[GroupOffsets], events: Iterable[pa.Table]
    ) -> None:
        self._created = {row["segment_id"]: row["created_ms"] for row in segments}
        wanted: dict[int, set[int]] = {}
        for _, offsets in positions:
            for segment, offset in offsets.items():
                wanted.setdefault(segment, set()).update([] if offset is None else [offset])
        self._wanted = {segment: np.array(sorted(offsets), np.int64) for segment, offsets in wanted.items()}
        self._last_events = {segment: np.full((2, len(offsets)), -1) for segment, offsets in self._wanted.items()}
        self.last_ms = min(self._created.values())
        for part in events:
            self._look(part.sort_by("offset"))

    def _look(self, part: pa.Table) -> None:
        ids, ends, appended = (part[name].to_numpy() for name in ("segment_id", "offset", "append_ms"))
        self.last_ms = int(appended.max(initial=self.last_ms))
        for segment, offsets in self._wanted.items():
            rows = np.flatnonzero(ids == segment)
            last = ends[rows].searchsorted(offsets, side="right") - 1
            with_event = np.flatnonzero(last >= 0)
            mine = rows[last[with_event]]
            further = ends[mine] > self._last_events[segment][0, with_event]
            self._last_events[segment][:, with_event[further]] = ends[mine[further]], appended[mine[further]]

    def front(self, at_ms: int, offsets: Mapping[int, int | None]) -> Front:
        """One of the positions as the times at which its segments were that long."""
        reached = {}
        for segment, offset in offsets.items():
            ends, appended = self._last_events[segment][:, self._wanted[segment] == offset]
            reached[segment] = int(appended[0]) if (ends >= 0).any() else self._created.get(segment, at_ms)
        return at_ms, reached


def _group_offsets(rows: Sequence[TableRow]) -> list[GroupOffsets]:
    """Where the groups stood after each of their updates."""
    positions: list[GroupOffsets] = [
        (at_ms, {segment: row["offset"] for segment, row in state.items()})
        for group in sorted({row["group"] for row in rows})
        for at_ms, state in group_states([row for row in rows if row["group"] == group])
    ]
    return sorted(positions, key=lambda position: position[0])


def _blocks(segments: Sequence[TableRow], end_ms: int) -> Blocks:
    boxes = []
    for row in segments:
        name, until_ms = segment_name(row["segment_id"]), row["sealed_ms"]
        until = "open" if until_ms is None else f"sealed at {moment(until_ms)}"
        words = f"segment {name}, keys {row['keys']}, from {moment(row['created_ms'])}, {until}"
        shown_ms = end_ms if until_ms is None else until_ms
        boxes.append(Box(row["created_ms"], shown_ms, row["low"], row["high"], name, words))
    return Blocks(name="segment", role="unknown", boxes=boxes, opacity=0.22)


def _lines(name: str, role: str, fronts: Sequence[Front], segments: Sequence[TableRow]) -> Path:
    """One line for each front, up through the segments it crosses in the order of their keys."""
    xs: list[Coordinate | None] = []
    ys: list[Coordinate | None] = []
    by_keys = sorted((row["low"], row["high"], row["segment_id"]) for row in segments)
    for _, reached in fronts:
        for low, high, segment in by_keys:
            if segment in reached:
                xs += [reached[segment]] * 2
                ys += [low, high]
        xs.append(None)
        ys.append(None)
    return Path(name=name, role=role, xs=xs, ys=ys)


def _middles(fronts: Sequence[Front], segments: Sequence[TableRow]) -> Dots:
    middle = {row["segment_id"]: (row["low"] + row["high"]) / 2 for row in segments}
    points = [(*point, at_ms) for at_ms, reached in fronts for point in reached.items() if point[0] in middle]
    return Dots(
        name="position of the readers",
        role="upper",
        shape="triangle",
        xs=[at for _, at, _ in points],
        ys=[middle[segment] for segment, _, _ in points],
        hover=[
            f"published at {moment(at_ms)}: read what segment {segment_name(segment)} held then"
            for segment, _, at_ms in points
        ],
        legend=False,
    )


def _sentence(name: str, segments: Sequence[TableRow], emitted: int, cuts: Sequence[Front], end_ms: int) -> str:
    still_open = sum(row["sealed_ms"] is None for row in segments)
    text = f"Stream {name} had {counted(len(segments), 'segment')}, {still_open} of them open at the end"
    if not cuts:
        return f"{text}; no watermark was emitted, so there is no cut."
    behind = end_ms - min(cuts[-1][1].values(), default=end_ms)
    cuts_of = f"{counted(emitted, 'cut')} {'was' if emitted == 1 else 'were'} emitted"
    return f"{text}; {cuts_of}, and the last one stood {rounded(behind)} of writing behind the end."
