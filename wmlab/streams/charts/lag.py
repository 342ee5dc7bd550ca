"""Charts of lag: of events behind their time, of the bounds behind the clock, and of lag against late events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wmlab.core.charts.axis import Axis, Numbers, Piece, Tick, held, nice_step, shown_range, single, sloping, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    Chart,
    chart_of,
    columns,
    columns_of,
    drawn_words,
    faults,
    one_stream,
    one_value,
    plain_columns,
    share_of,
    stream_rows,
    the_recording,
)
from wmlab.core.charts.scene import (
    Blocks,
    Box,
    Dots,
    Layer,
    Panel,
    Path,
    Steps,
    behind_clock,
    dots,
    merge_equal,
    minus,
    thin,
    thinned,
)
from wmlab.core.errors import ChartError
from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording
from wmlab.core.words import percent, rounded
from wmlab.streams.answers.head_labels import asked
from wmlab.streams.answers.history import events_of, late_events, without_ends
from wmlab.streams.answers.lag import (
    Delays,
    RunFigures,
    SeenWindows,
    arrival_head,
    by_mean_lag,
    extremes,
    field_words,
    lag_head,
    lag_spread,
    medians,
    replay_head,
    replayed_figures,
    seen_windows,
    sweep_head,
    uncertainty_spread,
    value_words,
)
from wmlab.streams.answers.measures import bounds_of
from wmlab.streams.answers.step_curves import Spread

_MOST: Final = 500
_BINS: Final = 40


def lag(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each reader the lag (its clock minus lower bound) and the uncertainty (upper minus lower bound).

    A window is valid until the reader's next one, so the lag grows with the clock until then. At most four readers have
    their own curves, those with the largest mean lag over time. Raises `ChartError` for anything but a recording, if
    there are several streams and none is chosen, or no windows.
    """
    name = one_stream(recording, stream, "windows")
    windows = seen_windows(recording, name)
    order = by_mean_lag(windows)
    shown = {reader: windows[reader] for reader in order[: len(SERIES)]}
    head = lag_head(windows)
    most_lag = drawn_words((len(shown), len(order), "readers, those with most lag"))
    lines, curves = list[Path](), list[Steps]()
    lags, widths = list[list[Piece]](), list[list[Piece]]()
    for (reader, (at_ms, lower, upper)), role in zip(shown.items(), SERIES, strict=False):
        xs, ys = behind_clock(at_ms, lower)
        lags.append(sloping(xs, ys))
        xs, ys = thinned(xs, ys, _MOST)
        lines.append(Path(name=reader, role=role, xs=xs, ys=ys))
        apart = minus(upper, lower)
        widths.append(held(at_ms, apart))
        xs, ys = thinned(at_ms, apart, _MOST)
        curves.append(Steps(name=reader, role=role, xs=xs, ys=ys))
    clock = time_axis("reader's clock", [at for at_ms, _, _ in shown.values() for at in at_ms])
    panels = [Panel(up=_from_0("lag", lags, clock.high - clock.low), layers=merge_equal(lines), height=190.0)]
    if any(widths):
        panels.append(
            Panel(up=_from_0("uncertainty", widths, clock.high - clock.low), layers=merge_equal(curves), height=130.0)
        )
    return chart_of(
        head.headline,
        _data(windows),
        facts=head.facts,
        title=title or asked("lag", stream=name),
        note=most_lag,
        across=clock,
        panels=panels,
        rules=faults(recording, name),
    )


def _from_0(name: str, curves: Sequence[Sequence[Piece]], run_ms: int) -> Axis:
    """An axis from 0 over what is shown of the curves; no bound stops for longer than the run."""
    return time_axis(name, [0, *shown_range(curves, least_ms=run_ms)], pad_percent=5)


def lag_distribution(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw the distribution of the lag and of the uncertainty over time, for all readers together.

    A window is valid until the reader's next one. Raises `ChartError` for anything but a recording, if there are
    several streams and none is chosen, no windows, or no known bound in any of them.
    """
    name = one_stream(recording, stream, "windows")
    windows = seen_windows(recording, name)
    lags, widths = lag_spread(windows), uncertainty_spread(windows)
    if lags is None:
        raise ChartError(
            f"No reader of {name} ever saw a lower bound.", remedy="Ask recording.explain() what held it back."
        )
    spreads = [("lag", "lower", lags), *([("uncertainty", "upper", widths)] if widths is not None else [])]
    clock = [at for at_ms, _, _ in windows.values() for at in at_ms]
    low, high = shown_range([spread.pieces for _, _, spread in spreads], least_ms=max(clock) - min(clock))
    low, high = min(0, low), max(1, high)
    step = nice_step(high - low, _BINS)
    low, high = low // step * step, (high // step + 1) * step
    across = time_axis("lag, uncertainty", [low, high])
    head = lag_head(windows)
    return chart_of(
        head.headline,
        _data(windows),
        facts=head.facts,
        title=title or asked("lag distribution", stream=name),
        across=across,
        panels=[_histogram(what, role, spread, step, across) for what, role, spread in spreads],
    )


def _data(windows: SeenWindows) -> dict[str, list[Any]]:
    """What was seen, a row for each window: the lag is that of the moment at which it was looked at."""
    return columns(
        [
            (reader, at, None if low is None else at - low, None if low is None or high is None else high - low)
            for reader, seen in windows.items()
            for at, low, high in zip(*seen, strict=True)
        ],
        "reader",
        "at_ms",
        "lag_ms",
        "uncertainty_ms",
    )


def _histogram(what: str, role: str, spread: Spread, step: int, across: Axis) -> Panel:
    """The share of the time by value."""

    def share_below(value: int) -> float:
        return 100 * spread.time_below(value) / spread.total_ms

    boxes, lowest = [], max(int(spread.first.min()) // step * step, across.low)
    before = share_below(lowest)
    for begin in range(lowest, min(spread.largest + 1, across.high), step):
        until = share_below(begin + step)
        if until > before:
            words = f"{what} from {rounded(begin)} to {rounded(begin + step)}: {until - before:.3g}% of the time"
            boxes.append(Box(begin, begin + step, 0, until - before, "", words))
        before = until
    blocks = Blocks(name=what, role=role, boxes=boxes, opacity=0.6)
    up = Numbers(f"time by {what} (%)", 0, max(box.y_high for box in boxes))
    return Panel(up=up, layers=[blocks], height=140.0)


_REPLAYED: Final = ("stream", "config", "seq", "lower", "upper", "emitted_ms")


def sweep(table: Any, *, by: str | None = None, title: str | None = None) -> Chart:
    """Draw the mean lag and the share of late events of every run of a sweep over the values of one field, `by`.

    `table` is the answer of `scenario.sweep` or a DataFrame with its columns `by`, lag_ms and late_share; runs that
    failed or had no bound are left out. Raises `ChartError` for no table, no `by`, a missing column, or when no run is
    left.
    """
    if by is None:
        raise ChartError(
            "A chart of a sweep shows the runs over the values of one field, and none is given.",
            remedy='Name its column with by, for example by="timeout_ms".',
        )
    columns = plain_columns(
        table, (by, "lag_ms", "late_share"), chart="A chart of a sweep", example="scenario.sweep(...)"
    )
    rows = [row for row in zip(*columns.values(), strict=True) if None not in row[1:]]
    if not rows:
        raise ChartError("No run of the sweep has a lower bound.", remedy="See its column 'error', or record one run.")
    known = ((value, round(lag), share) for value, lag, share in rows)
    runs = sorted(known, key=lambda run: (run[0] is not None, run[0]))
    labels = [value_words(by, value) for value in dict.fromkeys(value for value, _, _ in runs)]
    note = drawn_words((len(rows), len(columns[by]), "runs, those with a lag"))
    return _chart(title or asked("sweep", field=field_words(by)), sweep_head(by, runs), note, by, labels, runs)


def replay(watermarks: Any, recording: Recording | None = None, *, title: str | None = None) -> Chart:
    """Draw, for every configuration of a replay, the mean lag of the lower bound and the number of late events.

    `watermarks` is the answer of `recording.replay` or a DataFrame with its columns, of one stream; an event is late if
    it was appended after a watermark with a lower bound above its time. Lags are averages over the time with a known
    bound, until the end of the run; `writers` distinguishes ends of known time from other watermarks. The
    configurations are in order of their lag. Raises `ChartError` for no table, a missing column, no watermark, no
    events, or without the recording, which has them.
    """
    columns = plain_columns(
        watermarks, _REPLAYED, ("writers",), chart="A chart of a replay", example="recording.replay(...)"
    )
    rows = without_ends(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    if not rows:
        raise ChartError("No configuration gave a watermark.", remedy="Ask recording.explain() what held them back.")
    one_value("stream", columns["stream"])
    recording = the_recording(recording, "events")
    name = one_stream(recording, rows[0]["stream"], "events")
    rows.sort(key=lambda row: (row["config"], row["seq"]))
    logs = {config: list(log) for config, log in groupby(rows, key=lambda row: str(row["config"]))}
    runs = replayed_figures(recording, name, logs)
    labels = [config for config, _, _ in runs]
    return _chart(title or asked("replay", stream=name), replay_head(runs), "", "config", labels, runs)


def _chart(question: str, head: Head, note: str, by: str, labels: Sequence[str], runs: Sequence[RunFigures]) -> Chart:
    """Two panels over the values side by side: a dot a run, and a line through the medians."""
    indices = {value: index for index, value in enumerate(dict.fromkeys(value for value, _, _ in runs))}
    at = [indices[value] for value, _, _ in runs]
    lag, late = [lag_ms for _, lag_ms, _ in runs], [100 * share for _, _, share in runs]
    middle_lag, middle_late = medians(runs)
    several, panels = len(runs) > len(indices), []
    lags_axis = time_axis("mean lag", [0, *shown_range([single(lag)])], pad_percent=5)
    shares = Numbers("late events (%)", 0, 1.05 * max(late) or 1.0)
    for role, up, values, words, middle in (
        ("lower", lags_axis, lag, [rounded(lag_ms) for lag_ms in lag], middle_lag),
        ("upper", shares, late, [percent(share) for _, _, share in runs], [100 * share for share in middle_late]),
    ):
        hover = [f"{labels[index]}: {word}" for index, word in zip(at, words, strict=True)]
        line = Path(name="median of the runs", role=role, xs=list(range(len(middle))), ys=middle, legend=several)
        of_runs = dots("a run", role, "circle", zip(at, values, hover, strict=True), legend=False)
        if role == "lower" or any(late):
            panels.append(Panel(up=up, layers=[line, of_runs], height=200.0))
    ticks = tuple(Tick(index, label) for index, label in enumerate(labels))
    across = Numbers(field_words(by), -0.5, len(labels) - 0.5, marked=ticks)
    data = columns(runs, by, "lag_ms", "late_share")
    return chart_of(head.headline, data, facts=head.facts, title=question, note=note, across=across, panels=panels)


_MOST_EVENTS: Final = 700
_MOST_IN_DATA: Final = 100_000
_MOST_STEPS: Final = 400
_SIDES: Final = ("upper", "lower")


def event_vs_arrival(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw every event at its arrival and its event time, with the bounds of the watermarks emitted so far.

    An event that arrived below the lower bound in the log has a cross. Of many events, 700 are drawn, evenly spread,
    with the slowest and the fastest, and all with a cross; if there are more than 100,000, these and the chart's data
    are an even sample. The axis of event times leaves out a few distant ones, which the chart counts. Events are read
    part by part. Raises `ChartError` if there are several streams and none is chosen, or no events.
    """
    name = one_stream(recording, stream, "events")
    marks = stream_rows(recording, "watermarks", name, by="emitted_ms")

    def parts(*, too_late: bool = False) -> Iterator[pa.Table]:
        for part in events_of(recording, name, "append_ms", "event_time"):
            yield late_events(part, marks) if too_late else part

    delays, lates = Delays.of(parts()), sum(part.num_rows for part in parts(too_late=True))
    events, late = _spread(parts(), delays.count), _spread(parts(too_late=True), lates)
    drawn = share_of(events, _MOST_EVENTS)
    drawn += [row for row in extremes(parts()) if row not in drawn]
    head = arrival_head(delays)
    times = [row["event_time"] for row in (*events, *drawn, *late)]
    bounds = [mark[side] for mark in without_ends(marks) for side in _SIDES]
    arrivals = [*(row["append_ms"] for row in events), *(row["emitted_ms"] for row in marks)]
    ends = shown_range([single(times), single(bounds)], least_ms=max(arrivals) - min(arrivals))
    up = time_axis("event time", ends, pad_percent=4, clock=arrivals)
    layers: list[Layer] = [
        _dots("event", "text", drawn, 1.6),
        *_bounds(marks, events[-1]["append_ms"]),
        _dots("event below the lower bound in the log", "alarm", late, 4.0),
    ]
    return chart_of(
        head.headline,
        columns_of(events, ("append_ms", "event_time")),
        facts=head.facts,
        title=title or asked("arrivals", stream=name),
        note=drawn_words((len(drawn), delays.count, "events")),
        across=time_axis("arrival", arrivals),
        panels=[Panel(up=up, height=320.0, layers=layers)],
        rules=faults(recording, name),
    )


def _dots(name: str, role: str, events: Sequence[TableRow], size: float) -> Dots:
    return Dots(
        name=name,
        role=role,
        shape="cross" if role == "alarm" else "circle",
        xs=[row["append_ms"] for row in events],
        ys=[row["event_time"] for row in events],
        size=size,
    )


def _bounds(marks: Sequence[TableRow], end_ms: int) -> list[Steps]:
    """Both steps, unknown from an end of known time on; the last ones hold to the end of the run."""
    bounds = bounds_of(without_ends(marks), end_ms)
    if not bounds:
        return []
    xs, lower, upper = zip(*bounds, strict=True)
    rows = thin([upper, lower], _MOST_STEPS, xs=xs)
    return [
        Steps(name=f"{side} bound in the log", role=side, xs=[xs[i] for i in rows], ys=[values[i] for i in rows])
        for side, values in (("upper", upper), ("lower", lower))
    ]


def _spread(parts: Iterable[pa.Table], count: int) -> list[TableRow]:
    """The `count` rows of all parts, or `_MOST_IN_DATA` of them as `share_of` chooses, in order of arrival."""
    indices = (np.arange(min(count, _MOST_IN_DATA)) + 1) * count // min(max(count, 1), _MOST_IN_DATA) - 1
    chosen, begin = [], 0
    for part in parts:
        end = begin + part.num_rows
        chosen.append(part.take(indices[(begin <= indices) & (indices < end)] - begin))
        begin = end
    rows: list[TableRow] = pa.concat_tables(chosen).sort_by("append_ms").to_pylist() if chosen else []
    return rows
