"""Runs side by side: their bounds on one axis, what differs in their scenarios, and what in their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

from wmlab.core.charts.axis import Number, time_axis
from wmlab.core.charts.chart import Chart, display_forms
from wmlab.core.charts.rows import SERIES
from wmlab.core.charts.scene import Panel, Path, Scene, Steps
from wmlab.core.charts.steps import Value, thin
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.recording import Recording
from wmlab.streams.answers.history import late_events, of_stream, the_stream

Bounds = Sequence[tuple[int, int, int]]
"""Clock, lower and upper bound by row; the last row is the end of the run."""
Measures = dict[str, int | float | None]
Row = tuple[str, tuple[Any, ...]]
"""A name and one value per run."""

MEASURES: Final = {
    "events": "events",
    "watermarks": "watermarks",
    "held": "cycles that were held",
    "refused": "refused marks",
    "mean_lag_ms": "mean lag of the lower bound (ms)",
    "worst_lag_ms": "worst lag of the lower bound (ms)",
    "mean_width_ms": "mean upper − lower (ms)",
    "below": "events below a lower bound given before",
}
"""The measures of a run and how they are written. Lag is clock minus lower bound, averaged over the time from the first
watermark to the last thing recorded; upper minus lower is averaged over the same time."""
_MOST_ROWS: Final = 400
_SHORT: Final = 16
"""Characters of a label that fit beside the end of a curve; the legend has room for any."""
MOST_CURVES: Final = len(SERIES)
"""More runs than that are compared in the tables and not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """Two or more runs. `differs` has a row per value of the scenarios that is not the same, `results` one per measure.

    Each row is a name and one value per run, in the order of `labels`; None is unknown or absent. `chart` shows the
    lower bounds, and the lag behind the clock, on one axis.
    """

    labels: tuple[str, ...]
    differs: tuple[Row, ...]
    results: tuple[Row, ...]
    chart: Chart

    @property
    def sentence(self) -> str:
        """What the comparison says in one sentence."""
        return self.chart.sentence

    def to_pandas(self) -> Any:
        """Both tables as one pandas DataFrame: part (scenario or result), name, and a column per run, as text."""
        import pyarrow as pa

        rows = [("scenario", *row) for row in self.differs] + [("result", *row) for row in self.results]
        columns = {"part": [part for part, _, _ in rows], "name": [name for _, name, _ in rows]}
        columns |= {label: [_shown(values[n]) for _, _, values in rows] for n, label in enumerate(self.labels)}
        return pa.table(columns).to_pandas()

    def __repr__(self) -> str:
        rows = [("", self.labels), *self.differs, *self.results]
        shown = [[name, *(str(_shown(value)) for value in values)] for name, values in rows]
        widths = [max(len(row[column]) for row in shown) for column in range(len(self.labels) + 1)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
        return "\n".join([self.sentence, *(line.rstrip() for line in lines)])

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Tables and still picture as one page, and the text."""
        page = f"{self.chart.svg}{_table('differs in the scenario', self.labels, self.differs)}"
        page += _table("differs in the result", self.labels, self.results)
        bundle = {"text/html": page, "text/plain": repr(self)}
        return display_forms(bundle, include, exclude)


def compare(*recordings: Recording, labels: Sequence[str] | None = None, stream: str | None = None) -> Comparison:
    """Two or more runs on one axis: their lower bounds, what differs in their scenarios, and what in their results.

    `labels` names the runs, by default as their scenarios are named, numbered where names repeat. `stream` chooses one
    of several streams. Raises `RecordingError` for fewer than two recordings, labels that do not fit, a recording
    without scenario, or a stream that one of them does not have.
    """
    if len(recordings) < 2:
        raise RecordingError(
            f"{len(recordings)} recordings cannot be compared.", remedy="give two or more, as in compare(one, other)."
        )
    names = _labels(recordings, labels)
    runs = [run_of(recording, stream) for recording in recordings]
    results = [(words, tuple(measures[key] for _, measures in runs)) for key, words in MEASURES.items()]
    return Comparison(
        labels=names,
        differs=tuple(row for row in differences(recordings) if row[0] != "name"),
        results=tuple(row for row in results if len(set(row[1])) > 1),
        chart=draw_comparison(
            {name: bounds for name, (bounds, _) in zip(names, runs, strict=True)},
            {name: measures["mean_lag_ms"] for name, (_, measures) in zip(names, runs, strict=True)},
        ),
    )


def _labels(recordings: Sequence[Recording], labels: Sequence[str] | None) -> tuple[str, ...]:
    if labels is None:
        names = [recording.name for recording in recordings]
        return tuple(f"{name} ({n})" if names.count(name) > 1 else name for n, name in enumerate(names, start=1))
    if len(labels) != len(recordings) or len(set(labels)) != len(labels):
        raise RecordingError(
            f"the labels {', '.join(map(repr, labels)) or 'given'} do not name {len(recordings)} recordings.",
            remedy="give every recording a label of its own.",
        )
    return tuple(labels)


def run_of(recording: Recording, stream: str | None) -> tuple[Bounds, Measures]:
    """The bounds of one stream of a recording, and its measures by the keys of `MEASURES`.

    Raises `RecordingError` if the stream is unknown, or there are several and none is named.
    """
    name = the_stream(recording, stream)
    marks = of_stream(recording.table("watermarks"), name, "emitted_ms").to_pylist()
    events = of_stream(recording.table("events"), name, "append_ms")
    cycles = of_stream(recording.table("cycles"), name, "at_ms").to_pylist()
    outcomes = of_stream(recording.table("writer_marks"), name, "received_ms")["outcome"].to_pylist()
    ends = [mark["emitted_ms"] for mark in marks] + events["append_ms"].to_pylist()[-1:]
    ends += [row["at_ms"] for row in cycles[-1:]]
    bounds = [(mark["emitted_ms"], mark["lower"], mark["upper"]) for mark in marks]
    if bounds:
        bounds.append((max(ends), *bounds[-1][1:]))
    counts: Measures = {
        "events": len(events),
        "watermarks": len(marks),
        "held": sum(row["outcome"] != "emitted" for row in cycles),
        "refused": sum(outcome != "success" for outcome in outcomes),
    }
    return bounds, counts | _lags(bounds) | {"below": len(late_events(events.to_pylist(), marks))}


def _lags(bounds: Bounds) -> Measures:
    """Averages over time: between two rows the lower bound stands still and the clock goes on."""
    area = width = 0.0
    worst: int | None = None
    for (at_ms, lower, upper), (until_ms, _, _) in pairwise(bounds):
        length = until_ms - at_ms
        area += length * ((at_ms + until_ms) / 2 - lower)
        width += length * (upper - lower)
        worst = max(until_ms - lower, worst if worst is not None else until_ms - lower)
    run_ms = bounds[-1][0] - bounds[0][0] if bounds else 0
    if not run_ms:
        return {"mean_lag_ms": None, "worst_lag_ms": None, "mean_width_ms": None}
    return {"mean_lag_ms": round(area / run_ms, 1), "worst_lag_ms": worst, "mean_width_ms": round(width / run_ms, 1)}


def differences(recordings: Sequence[Recording]) -> tuple[Row, ...]:
    """Every value in which the scenarios differ: its dotted path and the value in each run, None where there is none.

    A part with a name is found by it, so order does not matter. Raises `RecordingError` for a recording without a
    scenario.
    """
    flat = []
    for recording in recordings:
        if recording.scenario is None:
            raise RecordingError(
                f"recording {recording.name!r} has no scenario: it came from a log.",
                remedy="compare recordings of scenarios, or only their tables.",
            )
        flat.append(dict(_leaves(recording.scenario, "")))
    paths = sorted({path for values in flat for path in values})
    rows = [(path, tuple(values.get(path) for values in flat)) for path in paths]
    return tuple(row for row in rows if len(set(map(repr, row[1]))) > 1)


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        below = {f"{path}.{key}" if path else str(key): entry for key, entry in value.items()}
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        below = {f"{path}[{_name(entry, index)}]": entry for index, entry in enumerate(value)}
    else:
        return [(path, value)]
    return [leaf for key, entry in below.items() for leaf in _leaves(entry, key)]


def _name(entry: Any, index: int) -> str:
    return str(entry["name"]) if isinstance(entry, Mapping) and "name" in entry else str(index)


def draw_comparison(bounds: Mapping[str, Bounds], lags_ms: Mapping[str, float | None]) -> Chart:
    """The lower bounds of several runs, and their lag behind the clock, over one clock.

    `bounds` has (clock, lower, upper) by label, the last row being the end of the run; `lags_ms` the mean lags. Raises
    `ChartError` if no run has a bound.
    """
    known = [label for label, rows in bounds.items() if rows]
    if not known:
        raise ChartError("None of the runs has a watermark.", remedy="Ask explain() of each what held it back.")
    shown = known[:MOST_CURVES]
    sentence = _sentence(lags_ms)
    left_out = f" Of {len(known)} runs the first {len(shown)} are drawn." if len(shown) < len(known) else ""
    short = all(len(label) <= _SHORT for label in shown)
    lower = [_lower(label, role, bounds[label], labelled=short) for label, role in zip(shown, SERIES, strict=False)]
    behind = [_behind(label, role, bounds[label]) for label, role in zip(shown, SERIES, strict=False)]
    lags = [round(lag) for curve in behind for lag in curve.ys if lag is not None]
    scene = Scene(
        title="How do the lower bounds of the runs differ?",
        subtitle=sentence + left_out,
        across=time_axis("clock", [at for label in shown for at, _, _ in bounds[label]]),
        panels=[
            Panel(up=time_axis("lower bound", [y for c in lower for y in c.ys], pad_percent=4), layers=lower),
            Panel(up=time_axis("clock − lower", [0, *lags], pad_percent=4), layers=behind, height=130.0),
        ],
    )
    rows = [(label, *row) for label in bounds for row in bounds[label]]
    data = {name: [row[column] for row in rows] for column, name in enumerate(("run", "at_ms", "lower", "upper"))}
    return Chart(sentence=sentence, data=data, scene=scene)


def _lower(label: str, role: str, rows: Bounds, *, labelled: bool) -> Steps:
    values: list[Value] = [lower for _, lower, _ in rows]
    kept = thin([values], _MOST_ROWS)
    return Steps(name=label, role=role, xs=[rows[i][0] for i in kept], ys=[values[i] for i in kept], labelled=labelled)


def _behind(label: str, role: str, rows: Bounds) -> Path:
    """The lag: it grows with the clock while the bound stands still, and falls when it moves."""
    moved = [row for n, row in enumerate(rows) if n == 0 or row[1] != rows[n - 1][1]]
    step = -(-len(moved) // _MOST_ROWS)
    kept = moved[::step]
    xs: list[Number | None] = []
    ys: list[Number | None] = []
    for (at_ms, lower, _), until_ms in zip(kept, [*(row[0] for row in kept[1:]), rows[-1][0]], strict=True):
        xs += [at_ms, until_ms]
        ys += [at_ms - lower, until_ms - lower]
    return Path(name=label, role=role, xs=xs, ys=ys)


def _sentence(lags_ms: Mapping[str, float | None]) -> str:
    known = sorted((lag, label) for label, lag in lags_ms.items() if lag is not None)
    if len(known) < 2:
        return "Fewer than two of the runs have a lag to compare."
    (least, first), (most, last) = known[0], known[-1]
    if least == most:
        return f"The lower bounds of all runs lag equally, {most:,.0f} ms on average."
    return (
        f"The lower bound of {last} lags most, {most:,.0f} ms on average, "
        f"{most - least:,.0f} ms more than that of {first}."
    )


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _table(caption: str, labels: Sequence[str], rows: Sequence[Row]) -> str:
    if not rows:
        return f"<p>Nothing {caption}.</p>"
    head = "".join(f"<th>{escape(label)}</th>" for label in ("", *labels))
    body = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td>"
        + "".join(f"<td>{escape(_shown(value))}</td>" for value in values)
        + "</tr>"
        for name, values in rows
    )
    return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>"
