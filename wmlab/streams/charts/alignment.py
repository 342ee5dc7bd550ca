"""Charts of several lower bounds side by side: of streams, of readers, of runs; and of the map that a group shares.

What may use all of them is the smallest one; how far they are apart is for how long the ones ahead have to be kept.

Source: PDP-33, Applications reading from multiple streams; PDP-33, Client Changes (the map from reader to time, its
least time, and unassigned segments that every reader counts as its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wmlab.core.charts.axis import held, shown_range, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    Chart,
    chart_of,
    drawn_words,
    faults,
    one_stream,
    one_value,
    plain_columns,
    share_of,
    stream_rows,
    whole,
)
from wmlab.core.charts.scene import (
    Between,
    Blocks,
    Box,
    Panel,
    Steps,
    Value,
    behind_furthest,
    lanes,
    merge_equal,
    thin,
)
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, counted, listed
from wmlab.streams.answers.alignment import (
    Alignment,
    GroupSegments,
    bounds_by,
    map_head,
    recorded_maps,
    stretches_of,
)
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.history import group_states
from wmlab.streams.model.segment import segment_name

_MOST: Final = 600
"""Points drawn of each curve at most, about, and updates of a group's state."""


_ALIGNED: Final = ("upper", "third", "fourth", "lower")


def alignment(table: Any, *, by: str = "stream", title: str | None = None) -> Chart:
    """Draw a lower bound for each value of the column `by` over the clock, and how far each is behind the furthest.

    `table` is a recording of streams, whose windows are drawn, or a pandas or Spark DataFrame with the columns at_ms
    (clock, ms), lower (event time in ms, null if unknown) and the one that `by` names: "stream", "reader", or a column
    that names the run of a row. A row is valid until the next one with its value. If several readers in a column
    `reader` share a value, their smallest bound counts. The smallest of all bounds is known while every one is known.
    In a recording the bound of a deleted stream ends. Raises `ChartError` for anything else, for a missing column,
    fewer than two values or more than four, readers of several streams, or when no two are ever known at once.
    """
    optional = ["reader"] if by != "reader" else ["stream"]
    columns = plain_columns(
        table,
        ["at_ms", "lower", by],
        optional,
        chart="A chart of aligned bounds",
        example="recording.to_pandas('windows')",
        recorded="windows",
    )
    if by == "reader":
        one_value("stream", columns.get("stream", []))
    at_ms = [whole("at_ms", at) or 0 for at in columns["at_ms"]]
    lowers = [whole("lower", lower, unknown=True) for lower in columns["lower"]]
    bounds = bounds_by(columns[by], columns.get("reader", [None] * len(at_ms)), at_ms, lowers)
    if by == "stream" and isinstance(table, Recording):
        for row in table.table("incidents").to_pylist():
            if row["kind"] == "delete" and row["stream"] in bounds:
                bounds[row["stream"]] = {**bounds[row["stream"]], row["at_ms"]: None}
    if not 2 <= len(bounds) <= len(SERIES):
        raise ChartError(
            f"A chart of aligned bounds shows two to four values of {by!r}; the table has {len(bounds)}.",
            remedy="Choose the column with by=..., or keep some of its values.",
        )
    # A table says nothing of what happened to its streams.
    streams = sorted({*table.table("windows")["stream"].to_pylist()}) if isinstance(table, Recording) else []
    aligned = Alignment.of(bounds)
    head = aligned.head()
    data: dict[str, list[Any]] = {"at_ms": [*aligned.at_ms]}
    data |= {f"lower of {name}": [*lower] for name, lower in aligned.lowers.items()}
    data |= {"aligned": aligned.smallest, "apart_ms": aligned.apart_ms}
    return chart_of(
        head.headline,
        data,
        facts=head.facts,
        title=title or asked("alignment", by=by),
        across=time_axis("clock", aligned.at_ms),
        panels=_panels(aligned),
        rules=list(dict.fromkeys(rule for stream in streams for rule in faults(table, stream))),
    )


def _panels(aligned: Alignment) -> list[Panel]:
    """The bounds, and below them how far each is behind the furthest one."""
    at_ms, lowers = aligned.at_ms, aligned.lowers
    rows = thin([*lowers.values(), aligned.smallest], _MOST, xs=at_ms)
    xs = [at_ms[row] for row in rows]

    def drawn(ys: Sequence[Value]) -> list[Value]:
        return [ys[row] for row in rows]

    curves = [
        Steps(name=name, role=role, xs=xs, ys=drawn(lower))
        for (name, lower), role in zip(lowers.items(), _ALIGNED, strict=False)
    ]
    band = Between(xs=xs, lows=drawn(aligned.smallest), highs=drawn(aligned.largest))
    ends = shown_range([held(at_ms, lower) for lower in lowers.values()], least_ms=at_ms[-1] - at_ms[0])
    up = time_axis("lower bound", ends, pad_percent=5, clock=at_ms)
    below = behind_furthest(at_ms, lowers, _ALIGNED, most=_MOST)
    return [Panel(up=up, layers=[band, *merge_equal(curves)], height=230.0), *below]


_ROLES: Final = ("upper", "third", "fourth", "perfect")


def reader_times(
    recording: Recording, *, stream: str | None = None, group: str | None = None, title: str | None = None
) -> Chart:
    """Draw the time that each reader of a group has passed, and the smallest of these times.

    It is the map that the group shares (`read_side="document"`), after every update of the table `group_updates`. A
    reader without segments is not in it. A group that shares offsets stores no times; the table `windows` shows the
    windows that its readers see.

    If there are at most four readers, each has its own line, and a lane with its segments. By the table `positions`, a
    segment belongs to the reader that published it last, so a release becomes visible when the next owner publishes.
    Raises `ChartError` if there are several streams or groups and none is chosen, or if no reader is ever in the map.
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
    head = map_head(maps)
    fewer = drawn_words((len(rows), len(maps), "updates"))
    curves = [Steps(name="least", role="lower", xs=at_ms, ys=least)]
    if len(readers) <= len(SERIES):
        pairs = zip(readers, _ROLES, strict=False)
        curves += [Steps(name=reader, role=role, xs=at_ms, ys=lines[reader]) for reader, role in pairs]
    ends = shown_range([held(at_ms, curve.ys) for curve in curves], least_ms=at_ms[-1] - at_ms[0])
    up = time_axis("time passed", ends, pad_percent=5, clock=at_ms)
    data: dict[str, list[Any]] = {"at_ms": at_ms} | {f"time of {reader}": lines[reader] for reader in readers}
    return chart_of(
        head.headline,
        data | {"least": least},
        facts=head.facts,
        title=title or asked("map", group=group),
        note=fewer,
        across=time_axis("clock", at_ms),
        panels=[
            Panel(up=up, layers=curves, height=220.0),
            lanes(readers, [_owned(readers, share_of(states, _MOST))]),
        ],
        rules=faults(recording, name),
    )


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
