"""Charts of lag and uncertainty, of one run, and of lag against late events over many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from wmlab.core.charts.axis import Axis, Numbers, Piece, Tick, held, nice_step, shown_range, single, sloping, time_axis
from wmlab.core.charts.chart import (
    SERIES,
    Chart,
    columns,
    drawn_words,
    faults,
    joined,
    one_stream,
    one_value,
    plain_columns,
    the_recording,
)
from wmlab.core.charts.scene import (
    Blocks,
    Box,
    Dots,
    Panel,
    Path,
    Scene,
    Steps,
    behind_clock,
    merge_equal,
    minus,
    thinned,
)
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.core.words import rounded
from wmlab.streams.answers.history import without_ends
from wmlab.streams.answers.lag import (
    SeenWindows,
    beyond_sentence,
    by_mean_lag,
    lag_sentences,
    lag_spread,
    seen_windows,
    uncertainty_spread,
)
from wmlab.streams.answers.step_curves import Spread
from wmlab.streams.answers.trade_off import (
    RunFigures,
    field_words,
    medians,
    percent,
    replay_sentences,
    replayed_figures,
    sweep_sentences,
    value_words,
)

_MOST: Final = 500
_BINS: Final = 40


def lag(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for each reader the lag (its clock minus lower bound) and the uncertainty (upper minus lower bound).

    A window holds until the reader's next one, so the lag grows with the clock until then. Four readers at most have
    curves of their own, those with the largest mean lag over time. Raises `ChartError` for what is no recording, if
    there are several streams and none is chosen, or no windows.
    """
    name = one_stream(recording, stream, "windows")
    windows = seen_windows(recording, name)
    order = by_mean_lag(windows)
    shown = {reader: windows[reader] for reader in order[: len(SERIES)]}
    sentence = lag_sentences(recording, name, windows)
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
    scene = Scene(
        title=title or f"How far behind the clock were the bounds of {name}, and how far apart?",
        subtitle=joined(sentence, most_lag),
        across=clock,
        panels=panels,
        rules=faults(recording, name),
    )
    return Chart(sentence=sentence, data=_data(windows), scene=scene)


def _from_0(name: str, curves: Sequence[Sequence[Piece]], run_ms: int) -> Axis:
    """An axis from 0 over what is shown of the curves; no bound stops for longer than the run."""
    return time_axis(name, [0, *shown_range(curves, least_ms=run_ms)], pad_percent=5)


def lag_distribution(recording: Recording, *, stream: str | None = None, title: str | None = None) -> Chart:
    """Draw for which share of the time which lag and which uncertainty was there, over all readers.

    A window holds until the reader's next one. Raises `ChartError` for what is no recording, if there are several
    streams and none is chosen, no windows, or no known bound in any of them.
    """
    name = one_stream(recording, stream, "windows")
    windows = seen_windows(recording, name)
    lags, widths = lag_spread(windows), uncertainty_spread(windows)
    if lags is None:
        raise ChartError(
            f"No reader of {name} ever knew a lower bound.", remedy="Ask recording.explain() what held it back."
        )
    spreads = [("lag", "lower", lags), *([("uncertainty", "upper", widths)] if widths is not None else [])]
    clock = [at for at_ms, _, _ in windows.values() for at in at_ms]
    low, high = shown_range([spread.pieces for _, _, spread in spreads], least_ms=max(clock) - min(clock))
    low, high = min(0, low), max(1, high)
    step = nice_step(high - low, _BINS)
    low, high = low // step * step, (high // step + 1) * step
    across = time_axis("lag, uncertainty", [low, high])
    sentence = lag_sentences(recording, name, windows)
    scene = Scene(
        title=title or f"For how long was which lag and uncertainty there in {name}?",
        subtitle=joined(sentence, *(beyond_sentence(what, spread, low, high) for what, _, spread in spreads)),
        across=across,
        panels=[_histogram(what, role, spread, step, across) for what, role, spread in spreads],
    )
    return Chart(sentence=sentence, data=_data(windows), scene=scene)


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
    question = title or f"How does the {field_words(by)} trade lag against late events?"
    note = drawn_words((len(rows), len(columns[by]), "runs, those with a lag"))
    return _chart(question, sweep_sentences(by, runs), note, by, labels, runs)


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
    runs = replayed_figures(recording, name, logs)
    question = title or f"Which configuration would {name} have needed?"
    return _chart(question, replay_sentences(runs), "", "config", [config for config, _, _ in runs], runs)


def _chart(
    question: str, sentence: str, note: str, by: str, labels: Sequence[str], runs: Sequence[RunFigures]
) -> Chart:
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
        dots = Dots(name="a run", role=role, shape="circle", xs=at, ys=values, hover=hover, legend=False)
        panels.append(Panel(up=up, layers=[line, dots], height=200.0))
    ticks = tuple(Tick(index, label) for index, label in enumerate(labels))
    across = Numbers(field_words(by), -0.5, len(labels) - 0.5, marked=ticks)
    scene = Scene(title=question, subtitle=joined(sentence, note), across=across, panels=panels)
    return Chart(sentence=sentence, data=columns(runs, by, "lag_ms", "late_share"), scene=scene)
