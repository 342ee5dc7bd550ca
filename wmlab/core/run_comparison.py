"""Runs side by side: their bounds on one axis, what differs in their scenarios, and what in their results.

Each model says by which bound its runs are judged and what it measures besides its lag: `measures` of its recordings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from wmlab.core.answers import Answer, html_table, text_table
from wmlab.core.arguments import the_names
from wmlab.core.charts.axis import Piece, held, shown_range, sloping, time_axis
from wmlab.core.charts.chart import SERIES, Chart, chart_of, columns
from wmlab.core.charts.scene import Panel, Path, Steps, behind_clock, merge_equal, thinned
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.recording import Recording, of_one_kind
from wmlab.core.run_measures import RunMeasures, RunValues, measures_as_text, without_lag
from wmlab.core.words import counted, grouped, joined, listed, rounded

_MOST_ROWS: Final = 400
_SHORT: Final = 16
"""Characters of a label that fit next to the end of a curve; the legend has room for any."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunComparison(Answer):
    """Two or more runs. `differs` has a row per value of the scenarios that is not the same, `results` one per measure.

    Each row is a name and one value per run, in the order of `labels`; None is unknown or absent. `chart` shows the
    bounds by which the runs are judged, and their lag behind the clock, on one axis.
    """

    labels: tuple[str, ...]
    differs: tuple[RunValues, ...]
    results: tuple[RunValues, ...]
    chart: Chart

    @property
    def sentence(self) -> str:
        """Which runs failed, had no bound, gave fewer results or broke promises, and then whose bound lags most."""
        return self.chart.sentence

    def to_dict(self) -> dict[str, Any]:
        """The sentence and both tables as dicts, lists and scalars."""
        tables = {"differs": dict(self.differs), "results": dict(self.results)}
        return {"sentence": self.sentence, "labels": self.labels} | tables

    def to_pandas(self) -> Any:
        """Both tables as one pandas DataFrame: part (scenario or result), name, and a column per run, as text."""
        parts = {"scenario": self.differs, "result": self.results}
        rows = [(part, *row) for part, rows in parts.items() for row in measures_as_text(rows)]
        return pa.table(columns(rows, "part", "name", *self.labels)).to_pandas()

    def __repr__(self) -> str:
        rows = measures_as_text([("", self.labels), *self.differs, *self.results])
        return "\n".join([self.sentence, *text_table(rows)])

    def _repr_html_(self) -> str:
        """The still picture and both tables."""
        page = self.chart.html
        for part, rows in (("scenario", self.differs), ("result", self.results)):
            caption = f"differs in the {part}"
            table = html_table(caption, ("", *self.labels), measures_as_text(rows))
            page += table if rows else f"<p>Nothing {caption}.</p>"
        return page


def compare(*recordings: Recording, labels: Sequence[str] | None = None, stream: str | None = None) -> RunComparison:
    """Two or more runs on one axis: their bounds, what differs in their scenarios, and what in their results.

    That is the lower bound of a stream, the global watermark of a query plan, the coalesced watermark of a dataflow;
    `measures` of a recording says at which operator. `labels` names the runs, by default as their scenarios are named,
    numbered where names repeat. `stream` chooses one of several streams or queries. Raises `RecordingError` for fewer
    than two recordings, recordings of different kinds, labels that do not fit, a recording without scenario, or a
    stream that one of them does not have.
    """
    if len(recordings) < 2:
        raise RecordingError(
            f"{len(recordings)} recordings cannot be compared.", remedy="give two or more, as in compare(one, other)."
        )
    of_one_kind(recordings, remedy="compare recordings of one kind with each other.")
    names = _labels(recordings, labels)
    offered: Any = recordings
    runs: list[RunMeasures] = [recording.measures(stream) for recording in offered]
    measures = dict.fromkeys(name for run in runs for name in run.measures)
    results = [(name, tuple(run.measures.get(name) for run in runs)) for name in measures]
    return RunComparison(
        labels=names,
        differs=tuple(row for row in differences(recordings, runs) if row[0] != "name"),
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


def differences(recordings: Sequence[Recording], runs: Sequence[RunMeasures]) -> tuple[RunValues, ...]:
    """Every value in which the scenarios differ: its dotted path and the value in each run, None where there is none.

    What a scenario does not say is as the settings of its run have it. A part with a name of its own is found by it, so
    order does not matter; any other by its index, from 0. Raises `RecordingError` for a recording without a scenario.
    """
    flat, settings = [], [dict(_leaves(run.settings or {}, "")) for run in runs]
    for recording in recordings:
        if recording.scenario is None:
            raise RecordingError(
                f"recording {recording.name!r} has no scenario: it came from a log.",
                remedy="compare recordings of scenarios, or only their tables.",
            )
        flat.append(dict(_leaves(recording.scenario, "")))
    paths = sorted({path for values in flat for path in values})
    both = list(zip(flat, settings, strict=True))
    rows = [(path, tuple(values.get(path, in_effect.get(path)) for values, in_effect in both)) for path in paths]
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


def draw_comparison(runs: Mapping[str, RunMeasures]) -> Chart:
    """The bounds of several runs of one kind, and their lag behind the clock, over one clock.

    `runs` are what they came to by label; more than there are colours are not drawn. Raises `ChartError` if no run has
    a bound.
    """
    bound = next(iter(runs.values())).bound
    known = [label for label, run in runs.items() if run.steps]
    if not known:
        raise ChartError("None of the runs has a watermark.", remedy="Ask explain() of each what held it back.")
    shown = known[: len(SERIES)]
    sentence = joined(_failures(runs), _fewer_results(runs), _promises(runs), _lags(bound, runs))
    left_out = f"Of {len(known)} runs the first {len(shown)} are drawn." if len(shown) < len(known) else ""
    curves: list[Steps] = []
    behind: list[Path] = []
    times, lags = list[list[Piece]](), list[list[Piece]]()
    for label, role in zip(shown, SERIES, strict=False):
        at_ms, bounds = [at for at, _ in runs[label].steps], [value for _, value in runs[label].steps]
        times.append(held(at_ms, bounds))
        xs, ys = thinned(at_ms, bounds, _MOST_ROWS)
        curves.append(Steps(name=label, role=role, xs=xs, ys=ys))
        xs, behind_ms = behind_clock(at_ms, bounds)
        lags.append(sloping(xs, behind_ms))
        xs, behind_ms = thinned(xs, behind_ms, _MOST_ROWS)
        behind.append(Path(name=label, role=role, xs=xs, ys=behind_ms))
    clock = [at for label in shown for at, _ in runs[label].steps]
    span_ms = max(clock) - min(clock)
    time = time_axis(bound, shown_range(times, least_ms=span_ms), pad_percent=4, clock=clock)
    lag = time_axis("lag", [0, *shown_range(lags, least_ms=span_ms)], pad_percent=4)
    has_lag = any(runs[label].lag_ms is not None for label in shown)
    panels = [
        Panel(up=time, layers=merge_equal(curves)),
        Panel(up=lag, layers=merge_equal(behind), height=130.0),
    ]
    data = columns(
        [(label, *row) for label, run in runs.items() for row in run.steps], "run", "at_ms", bound.replace(" ", "_")
    )
    return chart_of(
        sentence,
        data,
        title=f"How do the {bound}s of the runs differ?",
        note=left_out,
        across=time_axis("clock", clock),
        panels=panels if has_lag else panels[:1],
    )


def _failures(runs: Mapping[str, RunMeasures]) -> str:
    """Which runs failed or never had a bound, so that results are missing; nothing if none did."""
    failed = [f"{label}: {run.failure}" for label, run in runs.items() if run.failure]
    without = [without_lag(run, label) for label, run in runs.items() if not run.has_bound]
    return " ".join([*failed, *without])


def _fewer_results(runs: Mapping[str, RunMeasures]) -> str:
    """Which runs gave fewer results than the one with the most; nothing if none did."""
    results = {label: run.results for label, run in runs.items() if run.results is not None}
    if len(set(results.values())) < 2:
        return ""
    first, most = max(results.items(), key=itemgetter(1))
    fewer = [
        f"{label} gave {counted(number, runs[label].result_noun)}" for label, number in results.items() if number < most
    ]
    return f"{listed(fewer)}, fewer than {first} with {grouped(most)}."


def _promises(runs: Mapping[str, RunMeasures]) -> str:
    """Which runs broke promises; nothing if none did."""
    broken = {label: run.broken for label, run in runs.items() if run.broken is not None and run.broken.count}
    if not broken:
        return ""
    kept = [label for label, run in runs.items() if run.broken is not None and label not in broken]
    by = [f"{label} ({promises.text})" for label, promises in broken.items()]
    return f"Promises were broken by {listed(by)}{f'; by {listed(kept)} none' if kept else ''}."


def _lags(bound: str, runs: Mapping[str, RunMeasures]) -> str:
    """Whose bound lags most, by how much, and who has no lag."""
    known = sorted((run.lag_ms, label) for label, run in runs.items() if run.lag_ms is not None)
    without = [without_lag(run, label) for label, run in runs.items() if run.lag_ms is None and run.has_bound]
    if len(known) < 2:
        return " ".join(["Fewer than two of the runs have a lag to compare.", *without])
    (least, first), (most, last) = known[0], known[-1]
    if least == most:
        equal = (
            "all runs"
            if len(known) == len(runs)
            else listed([label for label in runs if runs[label].lag_ms is not None])
        )
        return " ".join([f"The {bound}s of {equal} lag equally, {rounded(round(most))} on average.", *without])
    more = f"{rounded(round(most - least))} more than that of {first}"
    return " ".join([f"The {bound} of {last} lags most, {rounded(round(most))} on average, {more}.", *without])
