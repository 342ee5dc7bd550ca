"""The chart of state: how much a vertex held over time, in one run or several, with its limit and a forecast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from wmlab.core.charts.axis import Numbers, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, columns
from wmlab.core.charts.scene import Layer, Panel, Path, Rule, Scene, Steps
from wmlab.core.charts.steps import thinned
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording, the_names
from wmlab.core.words import grouped
from wmlab.dataflow.answers.explain import forecast, standing_of
from wmlab.dataflow.answers.explanation import StateForecast
from wmlab.dataflow.answers.run import Run
from wmlab.dataflow.answers.search import Search
from wmlab.dataflow.charts.facts import clock_of, run_of

_MOST_ROWS: Final = 400
_AHEAD: Final = 2
"""A forecast is drawn up to so many times the length of the runs."""


def state_size(
    recording: Recording,
    *others: Recording,
    vertex: str | None = None,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Chart:
    """Draw how much one vertex held in each of up to four runs, all its instances together.

    `vertex` is by default the one that held most; `labels` name the runs. A limit is a line; where the state grows
    without bound, its forecast goes on from the end of the run. Raises `ChartError` for more runs, a vertex that is not
    there, one that held nothing in any run, or as many labels as there are not runs.
    """
    recordings = (recording, *others)
    if len(recordings) > len(SERIES):
        raise ChartError(f"{len(recordings)} runs are too many for one chart.", remedy=f"Draw at most {len(SERIES)}.")
    names = _labels(recordings, labels)
    runs = [run_of(entry) for entry in recordings]
    name = _the_vertex(runs, vertex)
    ends = [clock_of(run) for run in runs]
    begin, end = min(begun for begun, _ in ends), max(end for _, end in ends)
    curves, layers = list[tuple[list[int], list[int]]](), list[Layer]()
    states, rules = list[StateForecast | None](), list[Rule]()
    for run, label, role, (begun_ms, end_ms) in zip(runs, names, SERIES, ends, strict=False):
        curves.append(_sizes(run, name, begun_ms, end_ms))
        xs, ys = thinned(*curves[-1], _MOST_ROWS)
        layers.append(Steps(name=label, role=role, xs=xs, ys=ys, labelled=len(label) <= 16))
        search = Search(run, end_ms)
        states.append(forecast(search, name, standing_of(search, name, None, None).instance))
        fails = f"{label} fails" if others else "the job fails"
        rules += [Rule(row["ended_ms"], fails, "cross") for row in run.executions if row["outcome"] == "failed"]
    ahead = [(label, *line) for label, state in zip(names, states, strict=True) for line in _ahead(state, begin, end)]
    layers += [Path(name=f"forecast for {label}", role="perfect", xs=xs, ys=ys) for label, xs, ys in ahead]
    last = max([end, *(xs[-1] for _, xs, _ in ahead)])
    limits = [state.limit for state in states if state is not None and state.limit is not None][:1]
    layers += [Path(name=f"limit {grouped(y)}", role="alarm", xs=[begin, last], ys=[y, y]) for y in limits]
    most = max(1, *limits, *(size for _, sizes in curves for size in sizes), *(ys[-1] for _, _, ys in ahead))
    sentence = _sentence(name, names, states)
    scene = Scene(
        title=title or f"Does what {name} holds stay bounded?",
        subtitle=sentence,
        across=time_axis("clock", [begin, last]),
        panels=[Panel(up=Numbers("rows or accumulators held", 0, most + max(most // 12, 1)), layers=layers)],
        rules=sorted(rules, key=lambda rule: rule.x),
    )
    rows = [(label, at, y) for label, curve in zip(names, curves, strict=True) for at, y in zip(*curve, strict=True)]
    return Chart(sentence=sentence, data=columns(rows, "run", "at_ms", "size"), scene=scene)


def _labels(runs: Sequence[Recording], labels: Sequence[str] | None) -> list[str]:
    if labels is None:
        known = [run.name for run in runs]
        return known if len(set(known)) == len(known) else [f"run {number}" for number in range(1, len(runs) + 1)]
    labels = the_names(labels, "labels", ChartError)
    if len(labels) != len(runs):
        raise ChartError(f"There are {len(labels)} labels for {len(runs)} runs.", remedy="Give each run one label.")
    return list(labels)


def _the_vertex(runs: Sequence[Run], vertex: str | None) -> str:
    """The vertex asked for, or the one that held most in any of the runs."""
    if vertex is not None:
        return str(runs[0].vertex(vertex, ChartError)["vertex"])
    peaks: dict[str, int] = {}
    for row in (row for run in runs for row in run.rows("state") if row["buffer"] == "all"):
        peaks[row["vertex"]] = max(peaks.get(row["vertex"], 0), row["size"])
    if not peaks:
        raise ChartError("No vertex of the dataflow held anything.", remedy="Choose one with windows, joins or calls.")
    return max(peaks, key=lambda name: peaks[name])


def _sizes(run: Run, vertex: str, begun_ms: int, end_ms: int) -> tuple[list[int], list[int]]:
    """The size of all instances together over the clock; a restart begins from what it finds."""
    totals: dict[int, int] = {begun_ms: 0}
    sizes: dict[tuple[int, int], int] = {}
    for row in run.rows("state"):
        if row["vertex"] == vertex and row["buffer"] == "all":
            sizes[row["execution"], row["instance"]] = row["size"]
            totals[row["at_ms"]] = sum(size for (number, _), size in sizes.items() if number == row["execution"])
    return [*totals, end_ms], [*totals.values(), list(totals.values())[-1]]


def _ahead(state: StateForecast | None, begin: int, end: int) -> Iterator[tuple[list[int], list[int]]]:
    """The line of a forecast where something grows, to the limit or as far as the chart goes."""
    if state is None or state.bounded is not False or state.rate_per_s <= 0:
        return
    if state.limit is not None and state.size >= state.limit:
        return
    furthest = begin + _AHEAD * (end - begin)
    until = furthest if state.limit_at_ms is None else min(state.limit_at_ms, furthest)
    size = round(state.size + state.rate_per_s * (until - state.at_ms) / 1_000)
    yield [state.at_ms, until], [state.size, size]


def _sentence(vertex: str, names: Sequence[str], states: Sequence[StateForecast | None]) -> str:
    sentences = ["nothing was held" if state is None else state.sentence for state in states]
    if not any(states):
        return f"{vertex} held nothing."
    if len(names) == 1:
        return f"{sentences[0]}."
    return f"{'; '.join(f'{label}: {text}' for label, text in zip(names, sentences, strict=True))}."
