"""Runs side by side: their bounds on one axis, and the differences in their scenarios and results.

Each model says by which bound its runs are judged and what it measures besides its lag: `measures` of its recordings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from wmlab.core.answers import Answer, html_table, terminal_width, text_table
from wmlab.core.arguments import the_names
from wmlab.core.charts.axis import Piece, held, shown_range, sloping, time_axis
from wmlab.core.charts.chart import SERIES, Chart, chart_of, columns, drawn_words
from wmlab.core.charts.scene import Panel, Path, Steps, behind_clock, merge_equal, thinned
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.late import COUNTS
from wmlab.core.recording import Recording, of_one_kind
from wmlab.core.run_measures import RunMeasures, RunValues, measures_as_text, without_lag
from wmlab.core.scenario_words import ScenarioWords, differences, names_of_runs
from wmlab.core.words import grouped, joined, listed, rounded, wrapped

_MOST_ROWS: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunComparison(Answer):
    """Two or more runs. `differs` has a row per value of the scenarios that is not the same, `results` one per measure.

    Each row is a name and one value per run, in the order of `labels`: of `differs` in words, "–" where a scenario has
    none, of `results` as numbers, None if unknown. `chart` shows the bounds by which the runs are judged, and their lag
    behind the clock, on one axis.
    """

    labels: tuple[str, ...]
    differs: tuple[tuple[str, tuple[str, ...]], ...]
    results: tuple[RunValues, ...]
    chart: Chart

    @property
    def sentence(self) -> str:
        """Which runs failed, had no bound or had something late, and which bound lags most."""
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
        between = " → " if len(self.labels) == 2 else ", "
        changes = [wrapped(f"{name}: {between.join(values)}.") for name, values in self.differs]
        rows = measures_as_text([("", self.labels), *self.results])
        table = text_table(rows, right=range(1, len(rows[0])), width=terminal_width()) if self.results else []
        return "\n".join([wrapped(self.sentence), *changes, *table])

    def _repr_html_(self) -> str:
        """The still picture and both tables."""
        page = self.chart.html
        for part, rows in (("scenario", self.differs), ("result", self.results)):
            table = html_table(f"What differs in the {part}s:", ("", *self.labels), measures_as_text(rows))
            page += table if rows else f"<p>Nothing differs in the {part}s.</p>"
        return page


def compare(*recordings: Recording, labels: Sequence[str] | None = None, stream: str | None = None) -> RunComparison:
    """Compare two or more runs: their bounds on one axis, and the differences in their scenarios and results.

    That is the lower bound of a stream, the global watermark of a query plan, the coalesced watermark of a dataflow;
    `measures` of a recording says at which operator. `labels` names the runs, by default by what differs in their
    scenarios. `stream` chooses one of several streams or queries. Raises `RecordingError` for fewer
    than two recordings, recordings of different kinds, labels that do not fit, a recording without scenario, or a
    stream that one of them does not have.
    """
    if len(recordings) < 2:
        raise RecordingError(
            f"{'one recording' if recordings else 'no recording'} is given; a comparison needs two.",
            remedy="give two or more, as in compare(one, other); of one run ask measures().",
        )
    of_one_kind(recordings, remedy="compare recordings of one kind with each other.")
    the_labels = None if labels is None else _given_labels(recordings, labels)
    offered: Any = recordings
    runs: list[RunMeasures] = [recording.measures(stream) for recording in offered]
    scenarios = _scenarios_of(recordings, runs)
    names = names_of_runs(scenarios) if the_labels is None else the_labels
    measures = dict.fromkeys(name for run in runs for name in run.measures)
    results = [(name, tuple(run.measures.get(name) for run in runs)) for name in measures]
    return RunComparison(
        labels=names,
        differs=differences(scenarios),
        results=tuple(row for row in results if len(set(row[1])) > 1),
        chart=draw_comparison(dict(zip(names, runs, strict=True))),
    )


def _given_labels(recordings: Sequence[Recording], labels: Sequence[str]) -> tuple[str, ...]:
    labels = the_names(labels, "labels")
    if len(labels) != len(recordings) or len(set(labels)) != len(labels):
        raise RecordingError(
            f"the labels {', '.join(map(repr, labels)) or 'given'} do not name {len(recordings)} recordings.",
            remedy="give every recording a label of its own.",
        )
    return tuple(labels)


def _scenarios_of(recordings: Sequence[Recording], runs: Sequence[RunMeasures]) -> list[ScenarioWords]:
    """The scenarios of the runs in words; raises `RecordingError` for a recording without one."""
    scenarios = []
    for recording, run in zip(recordings, runs, strict=True):
        if run.scenario is None:
            raise RecordingError(
                f"recording {recording.name!r} has no scenario: it came from a log.",
                remedy="compare recordings of scenarios, or only their tables.",
            )
        scenarios.append(run.scenario)
    return scenarios


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
    sentence = joined(_failures(runs), _late(runs), _lags(bound, runs))
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
        note=drawn_words((len(shown), len(known), "runs")),
        across=time_axis("clock", clock),
        panels=panels if has_lag else panels[:1],
    )


def _failures(runs: Mapping[str, RunMeasures]) -> str:
    """Which runs failed or never had a bound, so that results are missing; nothing if none did."""
    failed = [f"{label}: {run.failure}" for label, run in runs.items() if run.failure]
    without = [without_lag(run, label) for label, run in runs.items() if not run.has_bound]
    return " ".join([*failed, *without])


def _late(runs: Mapping[str, RunMeasures]) -> str:
    """What came late in which run, by each of the two counts; nothing if nothing did."""
    known = {label: run.late for label, run in runs.items() if run.late is not None}
    sentences = []
    for count, head in COUNTS.items():
        numbers = {label: late.count(count) for label, late in known.items()}
        if any(numbers.values()):
            of_runs = listed([f"{grouped(number)} in {label}" for label, number in numbers.items()])
            sentences.append(f"{next(iter(known.values())).facts.fill(head)}: {of_runs}.")
    return " ".join(sentences)


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
