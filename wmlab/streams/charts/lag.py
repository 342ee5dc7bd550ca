"""Charts of lag and uncertainty, of one run, and of lag against late events over many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from statistics import median
from typing import Any, Final

import pyarrow.compute as pc

from wmlab.core.charts.axis import Axis, Numbers, OverTime, Tick, bulk, bulk_of_curves, nice_step, time_axis
from wmlab.core.charts.chart import SERIES, Chart, columns, faults, one_stream, one_value, plain_columns, the_recording
from wmlab.core.charts.scene import (
    Blocks,
    Box,
    Dots,
    Panel,
    Path,
    Scene,
    Steps,
    Value,
    at_rim,
    behind_clock,
    merge_equal,
    minus,
    thinned,
)
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import grouped, rounded, span
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.history import events_of, late_events, of_stream, without_ends
from wmlab.streams.answers.measures import bounds_of, lags
from wmlab.streams.answers.stragglers import missing_cycles
from wmlab.streams.charts.intervals import Spread, lengths_ms
from wmlab.streams.tables import end_ms

_MOST: Final = 500
_BINS: Final = 40
_RIM_BINS: Final = 2


def lag(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each reader the lag (its clock minus lower bound) and the uncertainty (upper minus lower bound).

    A window holds until the reader's next one, so the lag grows with the clock until then. Four readers at most have
    curves of their own, those with the largest mean lag over time. Raises `ChartError` for what is no recording, if
    there are several streams and none is chosen, or no windows.
    """
    name = one_stream(recording, stream, "windows")
    windows = seen_windows(recording, name)
    order = sorted(windows, key=lambda reader: -(_mean_lag(windows[reader]) or 0))
    shown = {reader: windows[reader] for reader in order[: len(SERIES)]}
    sentence = _sentence(recording, name, windows)
    left_out = f" Of {len(order)} readers the {len(shown)} with most lag are drawn." if len(shown) < len(order) else ""
    lines, curves = list[Path](), list[Steps]()
    lags, widths = dict[str, OverTime](), dict[str, OverTime]()
    for (reader, (at_ms, lower, upper)), role in zip(shown.items(), SERIES, strict=False):
        xs, ys = behind_clock(at_ms, lower)
        lags[f"the lag of {reader}"] = OverTime.line(xs, ys)
        xs, ys = thinned(xs, ys, _MOST)
        lines.append(Path(name=reader, role=role, xs=xs, ys=ys, legend=False, labelled=True))
        apart = minus(upper, lower)
        widths[f"the uncertainty of {reader}"] = OverTime.steps(at_ms, apart)
        xs, ys = thinned(at_ms, apart, _MOST)
        curves.append(Steps(name=reader, role=role, xs=xs, ys=ys))
    up = _from_0("lag", lags)
    panels = [Panel(up=up, layers=at_rim(up, merge_equal(lines)), height=190.0)]
    beyond = [up.said_beyond(lags)]
    if any(curve.pieces for curve in widths.values()):
        up = _from_0("uncertainty", widths)
        panels.append(Panel(up=up, layers=at_rim(up, merge_equal(curves)), height=130.0))
        beyond.append(up.said_beyond(widths))
    scene = Scene(
        title=title or f"How far behind the clock were the bounds of {name}, and how far apart?",
        subtitle=sentence + left_out + "".join(f" {text}" for text in beyond if text),
        across=time_axis("reader's clock", [at for at_ms, _, _ in shown.values() for at in at_ms]),
        panels=panels,
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=_data(windows), scene=scene)


def _from_0(name: str, curves: Mapping[str, OverTime]) -> Axis:
    """An axis from 0 over the bulk of curves, with room for the rim if something is beyond."""
    ends = [0, *bulk_of_curves(curves.values())]
    axis = time_axis(name, ends, pad_percent=5)
    return time_axis(name, ends, pad_percent=12) if axis.said_beyond(curves) else axis


def lag_distribution(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for which share of the time which lag and which uncertainty was there, over all readers.

    A window holds until the reader's next one. Raises `ChartError` for what is no recording, if there are several
    streams and none is chosen, no windows, or no known bound in any of them.
    """
    name = one_stream(recording, stream, "windows")
    windows = seen_windows(recording, name)
    lags, widths = lag_spread(windows), _uncertainty(windows)
    if lags is None:
        raise ChartError(
            f"No reader of {name} ever knew a lower bound.", remedy="Ask recording.explain() what held it back."
        )
    spreads = [("lag", "lower", lags), *([("uncertainty", "upper", widths)] if widths is not None else [])]
    curves = {f"the {what}": spread.over_time for what, _, spread in spreads}
    low, high = bulk_of_curves(curves.values())
    low, high = min(0, low), max(1, high)
    step = nice_step(high - low, _BINS)
    low, high = low // step * step, (high // step + 1) * step
    beyond = [spread.over_time.outside(low, high)[1] for _, _, spread in spreads]
    # Beside the bars there is room for the rim.
    low -= _RIM_BINS * step if any(values and values[0] < low for values in beyond) else 0
    high += _RIM_BINS * step if any(values and values[-1] > high for values in beyond) else 0
    across = time_axis("lag, uncertainty", [low, high])
    sentence = _sentence(recording, name, windows)
    notes = f" {said}" if (said := across.said_beyond(curves)) else ""
    scene = Scene(
        title=title or f"For how long was which lag and uncertainty there in {name}?",
        subtitle=sentence + notes,
        across=across,
        panels=[_histogram(what, role, spread, step, across) for what, role, spread in spreads],
    )
    return Chart(sentence=sentence, data=_data(windows), scene=scene)


SeenWindows = dict[str, tuple[list[int], list[Value], list[Value]]]
"""Of each reader the clock, ascending, and the lower and upper bound that it saw then; None: unknown."""


def seen_windows(recording: Recording, name: str) -> SeenWindows:
    """The windows that the readers of a stream saw."""
    seen = of_stream(recording.table("windows"), name).sort_by([("reader", "ascending"), ("at_ms", "ascending")])
    windows: SeenWindows = {}
    for reader in seen["reader"].unique().to_pylist():
        rows = seen.filter(pc.equal(seen["reader"], reader))
        at_ms, lower, upper = (rows[column].to_pylist() for column in ("at_ms", "lower", "upper"))
        windows[reader] = at_ms, lower, upper
    return windows


def lag_spread(windows: SeenWindows) -> Spread | None:
    """For how long the readers saw a lower bound so far behind their clock; None if they never knew one."""
    pieces = [
        (at - bound, at - bound + length, length)
        for at_ms, lower, _ in windows.values()
        for at, bound, length in zip(at_ms, lower, lengths_ms(at_ms), strict=True)
        if bound is not None
    ]
    return Spread.of(*zip(*pieces, strict=True)) if pieces else None


def _uncertainty(windows: SeenWindows) -> Spread | None:
    """For how long the bounds that the readers saw were so far apart; None if they never knew both."""
    pieces = [
        (width, width, length)
        for at_ms, lower, upper in windows.values()
        for width, length in zip(minus(upper, lower), lengths_ms(at_ms), strict=True)
        if width is not None
    ]
    return Spread.of(*zip(*pieces, strict=True)) if pieces else None


def _mean_lag(seen: tuple[list[int], list[Value], list[Value]]) -> float | None:
    """The mean lag of one reader over time."""
    spread = lag_spread({"": seen})
    if spread is None:
        return None
    return float(((spread.first + spread.last) / 2 * spread.weight).sum() / spread.total_ms)


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
    """The share of the time by value; what is beyond the axis is a triangle at its rim."""

    def share_below(value: int) -> float:
        return 100 * spread.time_below(value) / spread.total_ms

    boxes, lowest = [], max(int(spread.first.min()) // step * step, across.low)
    under = before = share_below(lowest)
    for begin in range(lowest, min(spread.largest + 1, across.high), step):
        until = share_below(begin + step)
        if until > before:
            words = f"{what} from {rounded(begin)} to {rounded(begin + step)}: {until - before:.3g}% of the time"
            boxes.append(Box(begin, begin + step, 0, until - before, "", words))
        before = until
    outside = [(across.low - 1, under)] if under else []
    outside += [(across.high + 1, 100 - before)] if before < 100 and spread.largest >= across.high else []
    rim = Dots(
        name=f"{what} beyond the axis",
        role=role,
        shape="triangle",
        xs=[across.at_rim(value) for value, _ in outside],
        ys=[share for _, share in outside],
        hover=[f"{what} beyond the axis: {share:.3g}% of the time" for _, share in outside],
    )
    blocks = Blocks(name=what, role=role, boxes=boxes, opacity=0.6)
    up = Numbers(f"time by {what} (%)", 0, max([box.y_high for box in boxes] + [share for _, share in outside]))
    return Panel(up=up, layers=[blocks, rim], height=140.0)


def _sentence(recording: Recording, name: str, windows: SeenWindows) -> str:
    lags, widths = lag_spread(windows), _uncertainty(windows)
    if lags is None:
        return f"No reader of {name} ever knew a lower bound."
    text = (
        f"For half of the time the lower bound of {name} stood at most {rounded(lags.median)} behind the clock of its "
        f"readers, and {rounded(lags.largest)} at worst"
    )
    apart = "an upper bound was never known"
    if widths is not None:
        apart = f"where both bounds were known they were at most {rounded(widths.median)} apart for half of the time"
    clock = [at for at_ms, _, _ in windows.values() for at in at_ms]
    stall = missing_cycles(list(Curves(recording, name).spans(LOG, start_ms=min(clock), end_ms=max(clock))))
    return f"{text}; {apart}. {stall}".rstrip()


RunFigures = tuple[Any, int, float]
"""A value or configuration, the mean lag of the lower bound in ms, and the late events, a share of all."""

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
    values = list(dict.fromkeys(value for value, _, _ in runs))
    labels = [_label(by, value) for value in values]
    lag, late = _medians(runs)
    unclean = {value for value, _, share in runs if share}
    clean = [label for value, label in zip(values, labels, strict=True) if value not in unclean]
    without = f"the first at which no run had any is {clean[0]}" if clean else "at every value some run had late events"
    first, last = ((rounded(round(lag[end])), _percent(late[end])) for end in (0, -1))
    sentence = (
        f"From a {_words(by)} of {labels[0]} to {labels[-1]} the mean lag of the median run goes from {first[0]} to "
        f"{last[0]}, and its late events from {first[1]} to {last[1]}; {without}."
    )
    question = title or f"How does the {_words(by)} trade lag against late events?"
    dropped = len(columns[by]) - len(rows)
    note = f" {grouped(dropped)} of {grouped(len(columns[by]))} runs have no lag and are left out." if dropped else ""
    return _chart(question, sentence, note, by, labels, runs)


def replay(watermarks: Any, recording: Recording | None = None, *, title: str | None = None) -> Chart:
    """Draw for every configuration of a replay the mean lag of the lower bound and the events that it made late.

    `watermarks` is the answer of `recording.replay` or a DataFrame with its columns, of one stream; an event is late
    if it was appended after a watermark with a lower bound above its time. Lags are averages until the end of the
    run, of the time in which a bound is known; `writers` tells ends of known time from other watermarks.
    The configurations are in order of their lag. Raises `ChartError` for no table, a missing column, no watermark, no
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
    late, events = dict.fromkeys(logs, 0), 0
    for part in events_of(recording, name, "append_ms", "event_time"):
        events += part.num_rows
        for config, log in logs.items():
            late[config] += late_events(part, log).num_rows
    runs: list[RunFigures] = []
    for config, log in logs.items():
        lag_ms = lags(bounds_of(log, max(end_ms(recording) or 0, log[-1]["emitted_ms"] + 1)))["lag_ms"] or 0
        runs.append((config, round(lag_ms), late[config] / events))
    runs.sort(key=lambda run: (run[1], run[0]))
    safe = [run for run in runs if not run[2]]
    if safe:
        answer = f"With {safe[0][0]} no event would have been late, at a mean lag of {rounded(safe[0][1])}"
        others = [run for run in runs if run[2]]
        sentence = f"{answer}, the least of all."
        if others:
            config, lag_ms, share = others[0]
            sentence = (
                f"{answer}; with {config} the lag would be {rounded(lag_ms)} and {_percent(share)} of the events late."
            )
    else:
        least = min(runs, key=lambda run: run[2])
        sentence = f"Events would have been late with all; fewest, {_percent(least[2])}, with {least[0]}."
    question = title or f"Which configuration would {name} have needed?"
    return _chart(question, sentence, "", "config", [config for config, _, _ in runs], runs)


def _chart(
    question: str, sentence: str, note: str, by: str, labels: Sequence[str], runs: Sequence[RunFigures]
) -> Chart:
    """Two panels over the values side by side: a dot a run, and a line through the medians."""
    indices = {value: index for index, value in enumerate(dict.fromkeys(value for value, _, _ in runs))}
    at = [indices[value] for value, _, _ in runs]
    lag, late = [lag_ms for _, lag_ms, _ in runs], [100 * share for _, _, share in runs]
    middle_lag, middle_late = _medians(runs)
    several, panels = len(runs) > len(indices), []
    lags_axis = time_axis("mean lag", [0, *bulk(lag)], pad_percent=5)
    note += f" {said}" if (said := lags_axis.said_beyond({"run": lag})) else ""
    shares = Numbers("late events (%)", 0, max(1.0, 1.05 * max(late)))
    for role, up, values, words, middle in (
        ("lower", lags_axis, lag, [rounded(lag_ms) for lag_ms in lag], middle_lag),
        ("upper", shares, late, [_percent(share) for _, _, share in runs], [100 * share for share in middle_late]),
    ):
        hover = [f"{labels[index]}: {word}" for index, word in zip(at, words, strict=True)]
        line = Path(name="median of the runs", role=role, xs=list(range(len(middle))), ys=middle, legend=several)
        dots = Dots(name="a run", role=role, shape="circle", xs=at, ys=values, hover=hover, legend=False)
        panels.append(Panel(up=up, layers=at_rim(up, [line, dots]) if up is lags_axis else [line, dots], height=200.0))
    ticks = tuple(Tick(index, label) for index, label in enumerate(labels))
    across = Numbers(_words(by), -0.5, len(labels) - 0.5, marked=ticks)
    scene = Scene(title=question, subtitle=sentence + note, across=across, panels=panels)
    return Chart(sentence=sentence, data=columns(runs, by, "lag_ms", "late_share"), scene=scene)


def _medians(runs: Sequence[RunFigures]) -> tuple[list[float], list[float]]:
    """The medians of both measures by value, in the order of the runs."""
    by_value = [list(same) for _, same in groupby(runs, key=lambda run: run[0])]
    lags = [median(lag for _, lag, _ in same) for same in by_value]
    return lags, [median(share for _, _, share in same) for same in by_value]


def _label(by: str, value: Any) -> str:
    """A value beside its tick: of milliseconds, as seconds where that is shorter."""
    if not (by.endswith("_ms") and isinstance(value, int)):
        return str(value)
    return f"{value // 1_000} s" if value and value % 1_000 == 0 else span(value)


def _words(by: str) -> str:
    """A field in words, without its unit, which its values have."""
    return "configuration" if by == "config" else by.removesuffix("_ms").replace("_", " ")


def _percent(share: float) -> str:
    """A share in words: nothing, or a percentage of two digits, never with an exponent."""
    return f"{Decimal(f'{100 * share:.2g}'):f}%" if share else "none"
