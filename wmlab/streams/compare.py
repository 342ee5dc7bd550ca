"""Runs side by side: their bounds on one axis, what differs in their scenarios, and what in their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from wmlab.core.answers import Answer, html_table, text_table
from wmlab.core.arguments import the_names
from wmlab.core.charts.axis import OverTime, bulk_of_curves, time_axis
from wmlab.core.charts.chart import SERIES, Chart, columns
from wmlab.core.charts.scene import Panel, Path, Scene, Steps, at_rim, merge_equal, thinned
from wmlab.core.charts.style import jupyter_style
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.recording import Recording
from wmlab.core.words import grouped, is_short, shown, span
from wmlab.streams.answers.history import events_of, late_events, of_stream, rows_of_stream, the_stream, without_ends
from wmlab.streams.answers.measures import BoundSteps, Measures, bounds_of, lags
from wmlab.streams.charts.intervals import behind_clock
from wmlab.streams.charts.lag import lag_spread, seen_windows
from wmlab.streams.tables import end_ms

RunValues = tuple[str, tuple[Any, ...]]
"""A name and one value per run."""

MEASURES: Final = {
    "events": "events",
    "watermarks": "watermarks",
    "stalls": "cycles that were held",
    "refused": "refused marks",
    "lag_ms": "mean lag of the lower bound (ms)",
    "worst_lag_ms": "worst lag of the lower bound (ms)",
    "seen_worst_lag_ms": "worst lag of the lower bound that readers saw (ms)",
    "uncertainty_ms": "mean upper − lower (ms)",
    "late": "events below a lower bound given before",
}
"""The measures of a run and how they are written. Lag is clock minus lower bound of the newest watermark, averaged over
the time from the first watermark to the end of the run in which a bound is known; upper minus lower is averaged over
the same time. What readers saw is behind that by what they had still to read, and by the time between two of their
looks; it is the lag that `wm.chart.lag` draws."""
_IN_MS: Final = " (ms)"
_MOST_ROWS: Final = 400
_SHORT: Final = 16
"""Characters of a label that fit beside the end of a curve; the legend has room for any."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunComparison(Answer):
    """Two or more runs. `differs` has a row per value of the scenarios that is not the same, `results` one per measure.

    Each row is a name and one value per run, in the order of `labels`; None is unknown or absent. `chart` shows the
    lower bounds, and the lag behind the clock, on one axis.
    """

    labels: tuple[str, ...]
    differs: tuple[RunValues, ...]
    results: tuple[RunValues, ...]
    chart: Chart

    @property
    def sentence(self) -> str:
        """What the comparison says in one sentence."""
        return self.chart.sentence

    def to_dict(self) -> dict[str, Any]:
        """The sentence and both tables as dicts, lists and scalars."""
        tables = {"differs": dict(self.differs), "results": dict(self.results)}
        return {"sentence": self.sentence, "labels": self.labels} | tables

    def to_pandas(self) -> Any:
        """Both tables as one pandas DataFrame: part (scenario or result), name, and a column per run, as text."""
        rows = [("scenario", *row) for row in _shown(self.differs)] + [("result", *row) for row in _shown(self.results)]
        return pa.table(columns(rows, "part", "name", *self.labels)).to_pandas()

    def __repr__(self) -> str:
        rows = _shown([("", self.labels), *self.differs, *self.results])
        return "\n".join([self.sentence, *text_table(rows)])

    def _repr_html_(self) -> str:
        """The still picture and both tables."""
        page = (
            f"<div class='wmlab-comparison'><style>{jupyter_style('.wmlab-comparison')}</style>{self.chart.html}</div>"
        )
        for part, rows in (("scenario", self.differs), ("result", self.results)):
            caption = f"differs in the {part}"
            page += html_table(caption, ("", *self.labels), _shown(rows)) if rows else f"<p>Nothing {caption}.</p>"
        return page


def compare(*recordings: Recording, labels: Sequence[str] | None = None, stream: str | None = None) -> RunComparison:
    """Two or more runs on one axis: their lower bounds, what differs in their scenarios, and what in their results.

    `labels` names the runs, by default as their scenarios are named, numbered where names repeat. `stream` chooses one
    of several streams. Raises `RecordingError` for fewer than two recordings, labels that do not fit, a recording
    without scenario, or a stream that one of them does not have.
    """
    if len(recordings) < 2:
        raise RecordingError(
            f"{len(recordings)} recordings cannot be compared.", remedy="give two or more, as in compare(one, other)."
        )
    if wrong := [offered for offered in recordings if not isinstance(offered, Recording)]:
        raise RecordingError(f"{shown(wrong[0])} is no recording.", remedy="give what scenario.record() returns.")
    names = _labels(recordings, labels)
    runs = [measured_run(recording, stream) for recording in recordings]
    results = [(words, tuple(measures[key] for _, measures in runs)) for key, words in MEASURES.items()]
    return RunComparison(
        labels=names,
        differs=tuple(row for row in differences(recordings) if row[0] != "name"),
        results=tuple(row for row in results if len(set(row[1])) > 1),
        chart=draw_comparison(dict(zip(names, runs, strict=True))),
    )


def _labels(recordings: Sequence[Recording], labels: Sequence[str] | None) -> tuple[str, ...]:
    if labels is None:
        names = [recording.name for recording in recordings]
        return tuple(f"{name} ({n})" if names.count(name) > 1 else name for n, name in enumerate(names, start=1))
    labels = the_names(labels, "labels")
    if len(labels) != len(recordings) or len(set(labels)) != len(labels):
        raise RecordingError(
            f"the labels {', '.join(map(repr, labels)) or 'given'} do not name {len(recordings)} recordings.",
            remedy="give every recording a label of its own.",
        )
    return tuple(labels)


def measured_run(recording: Recording, stream: str | None) -> tuple[BoundSteps, Measures]:
    """The bounds of one stream of a recording, and its measures by the keys of `MEASURES`.

    Raises `RecordingError` if the stream is unknown, or there are several and none is named.
    """
    name = the_stream(recording, stream)
    marks = without_ends(rows_of_stream(recording, "watermarks", name))
    cycles = rows_of_stream(recording, "cycles", name)
    outcomes = of_stream(recording.table("writer_marks"), name)["outcome"].to_pylist()
    events = late = 0
    for part in events_of(recording, name, "append_ms", "event_time"):
        events += part.num_rows
        late += late_events(part, marks).num_rows
    bounds = bounds_of(marks, end_ms(recording) or 0)
    seen = lag_spread(seen_windows(recording, name))
    return bounds, {
        "events": events,
        "watermarks": len(marks),
        "stalls": sum(row["outcome"] != "emitted" for row in cycles),
        "refused": sum(outcome != "success" for outcome in outcomes),
        **lags(bounds),
        "seen_worst_lag_ms": None if seen is None else seen.largest,
        "late": late,
    }


def differences(recordings: Sequence[Recording]) -> tuple[RunValues, ...]:
    """Every value in which the scenarios differ: its dotted path and the value in each run, None where there is none.

    A part with a name of its own is found by it, so order does not matter; any other by its index, from 0. Raises
    `RecordingError` for a recording without a scenario.
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
        names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in value]
        titles = (n if name is None or names.count(name) > 1 else name for n, name in enumerate(names))
        below = {f"{path}[{title}]": entry for title, entry in zip(titles, value, strict=True)}
    else:
        return [(path, value)]
    return [leaf for key, entry in below.items() for leaf in _leaves(entry, key)]


def draw_comparison(runs: Mapping[str, tuple[BoundSteps, Measures]]) -> Chart:
    """The lower bounds of several runs, and their lag behind the clock, over one clock.

    `runs` has by label what `run_of` gives; more than there are colours are not drawn. Raises `ChartError` if no run
    has a bound.
    """
    bounds = {label: rows for label, (rows, _) in runs.items()}
    known = [label for label, rows in bounds.items() if rows]
    if not known:
        raise ChartError("None of the runs has a watermark.", remedy="Ask explain() of each what held it back.")
    shown = known[: len(SERIES)]
    sentence = _sentence({label: measures["lag_ms"] for label, (_, measures) in runs.items()})
    left_out = f" Of {len(known)} runs the first {len(shown)} are drawn." if len(shown) < len(known) else ""
    short = all(len(label) <= _SHORT for label in shown)
    lower: list[Steps] = []
    behind: list[Path] = []
    times, lags = dict[str, OverTime](), dict[str, OverTime]()
    for label, role in zip(shown, SERIES, strict=False):
        at_ms, bound = [at for at, _, _ in bounds[label]], [low for _, low, _ in bounds[label]]
        times[f"the lower bound of {label}"] = OverTime.steps(at_ms, bound)
        xs, ys = thinned(at_ms, bound, _MOST_ROWS)
        lower.append(Steps(name=label, role=role, xs=xs, ys=ys, labelled=short))
        xs, behind_ms = behind_clock(at_ms, bound)
        lags[f"the lag of {label}"] = OverTime.line(xs, behind_ms)
        xs, behind_ms = thinned(xs, behind_ms, _MOST_ROWS)
        behind.append(Path(name=label, role=role, xs=xs, ys=behind_ms))
    clock = [at for label in shown for at, _, _ in bounds[label]]
    span_ms = max(clock) - min(clock)
    time = time_axis("lower bound", bulk_of_curves(times.values(), least_ms=span_ms), pad_percent=4, clock=clock)
    lag = time_axis("clock − lower", [0, *bulk_of_curves(lags.values())], pad_percent=4)
    beyond = "".join(f" {text}" for text in (time.said_beyond(times), lag.said_beyond(lags)) if text)
    scene = Scene(
        title="How do the lower bounds of the runs differ?",
        subtitle=sentence + left_out + beyond,
        across=time_axis("clock", clock),
        panels=[
            Panel(up=time, layers=at_rim(time, merge_equal(lower))),
            Panel(up=lag, layers=at_rim(lag, merge_equal(behind)), height=130.0),
        ],
    )
    data = columns([(label, *row) for label in bounds for row in bounds[label]], "run", "at_ms", "lower", "upper")
    return Chart(sentence=sentence, data=data, scene=scene)


def _sentence(lags_ms: Mapping[str, float | None]) -> str:
    known = sorted((lag, label) for label, lag in lags_ms.items() if lag is not None)
    if len(known) < 2:
        return "Fewer than two of the runs have a lag to compare."
    (least, first), (most, last) = known[0], known[-1]
    if least == most:
        return f"The lower bounds of all runs lag equally, {span(round(most))} on average."
    return (
        f"The lower bound of {last} lags most, {span(round(most))} on average, "
        f"{span(round(most - least), beside_ms=round(most))} more than that of {first}."
    )


def _shown(rows: Sequence[RunValues]) -> list[tuple[str, ...]]:
    """The rows as text; a measure in ms has its unit in its name, or from ten minutes on in its values."""
    written = []
    for name, values in rows:
        known = [round(value) for value in values if name.endswith(_IN_MS) and value is not None]
        if is_short(*known):
            written.append((name, *map(_text, values)))
        else:
            times = ("–" if value is None else span(round(value), beside_ms=max(known)) for value in values)
            written.append((name.removesuffix(_IN_MS), *times))
    return written


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return grouped(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
