"""The chart of state: how much a vertex held over time, in one run or several, with its limit and a forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.charts.axis import Numbers, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.rows import SERIES, stream_rows
from wmlab.core.charts.scene import Layer, Panel, Path, Rule, Scene, Steps
from wmlab.core.charts.steps import Value, thin
from wmlab.core.errors import ChartError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.explain import explain
from wmlab.dataflow.answers.explanation import FlowExplanation, StateForecast
from wmlab.dataflow.charts.facts import chosen, clock_of, the_dataflow

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
    runs = (recording, *others)
    if len(runs) > len(SERIES):
        raise ChartError(f"{len(runs)} runs are too many for one chart.", remedy=f"Draw at most {len(SERIES)}.")
    names = _labels(runs, labels)
    name = _the_vertex(runs, vertex)
    curves = [_curve(run, name, label, role) for run, label, role in zip(runs, names, SERIES, strict=False)]
    ends = [clock_of(run, the_dataflow(run)) for run in runs]
    told = [_state_at(run, end_ms, name) for run, (_, end_ms) in zip(runs, ends, strict=True)]
    begin, end = min(begun for begun, _ in ends), max(end for _, end in ends)
    found = [_ahead(state, begin, end, label) for state, label in zip(told, names, strict=True)]
    ahead = [one for one in found if one is not None]
    limit = next((state.limit for state in told if state is not None and state.limit is not None), None)
    last = max([end, *(one.until_ms for one in ahead)])
    sentence = _sentence(name, names, told)
    layers: list[Layer] = [*curves, *(one.path for one in ahead)]
    if limit is not None:
        layers.append(Path(name=f"limit {limit:,}", role="alarm", xs=[begin, last], ys=[limit, limit]))
    sizes = [y for curve in curves for y in curve.ys if y is not None]
    most = max([limit or 1, *sizes, *(one.size for one in ahead)])
    scene = Scene(
        title=title or f"Does what {name} holds stay bounded?",
        subtitle=sentence,
        across=time_axis("clock", [begin, last]),
        panels=[Panel(up=Numbers("rows or accumulators held", 0, most + max(most // 12, 1)), layers=layers)],
        rules=_failures(runs, names),
    )
    rows = [
        (label, at, y)
        for label, curve in zip(names, curves, strict=True)
        for at, y in zip(curve.xs, curve.ys, strict=True)
    ]
    data: dict[str, list[Any]] = {n: [row[i] for row in rows] for i, n in enumerate(("run", "at_ms", "size"))}
    return Chart(sentence=sentence, data=data, scene=scene)


def _state_at(run: Recording, at_ms: int, vertex: str) -> StateForecast | None:
    explained = explain(run, at_ms=at_ms, vertex=vertex)
    return explained.state if isinstance(explained, FlowExplanation) else None


def _labels(runs: Sequence[Recording], labels: Sequence[str] | None) -> list[str]:
    if labels is None:
        known = [run.name for run in runs]
        return known if len(set(known)) == len(known) else [f"run {number}" for number in range(1, len(runs) + 1)]
    if len(labels) != len(runs):
        raise ChartError(f"There are {len(labels)} labels for {len(runs)} runs.", remedy="Give each run one label.")
    return list(labels)


def _the_vertex(runs: Sequence[Recording], vertex: str | None) -> str:
    """The vertex asked for, or the one that held most in any of the runs."""
    stream = the_dataflow(runs[0])
    vertices = {row["vertex"]: row for row in stream_rows(runs[0], "vertices", stream)}
    if vertex is not None:
        return chosen(vertices, vertex)
    peaks: dict[str, int] = {}
    for run in runs:
        for row in stream_rows(run, "state", the_dataflow(run)):
            if row["buffer"] == "all":
                peaks[row["vertex"]] = max(peaks.get(row["vertex"], 0), row["size"])
    if not peaks:
        raise ChartError("No vertex of the dataflow held anything.", remedy="Choose one with windows, joins or calls.")
    return max(peaks, key=lambda name: peaks[name])


def _curve(run: Recording, vertex: str, label: str, role: str) -> Steps:
    """The size of all instances together; a restart begins from what it finds."""
    stream = the_dataflow(run)
    begun_ms, end_ms = clock_of(run, stream)
    sizes: dict[int, int] = {}
    xs, ys = [begun_ms], list[Value]([0])
    execution = None
    for row in stream_rows(run, "state", stream):
        if row["vertex"] != vertex or row["buffer"] != "all":
            continue
        if row["execution"] != execution:
            execution, sizes = row["execution"], {}
        sizes[row["instance"]] = row["size"]
        if row["at_ms"] == xs[-1]:
            ys[-1] = sum(sizes.values())
        else:
            xs.append(row["at_ms"])
            ys.append(sum(sizes.values()))
    xs.append(end_ms)
    ys.append(ys[-1])
    kept = thin([ys], _MOST_ROWS)
    return Steps(name=label, role=role, xs=[xs[i] for i in kept], ys=[ys[i] for i in kept], labelled=len(label) <= 16)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A forecast: from the end of the run on to the moment `until_ms`, when the size is `size`."""

    path: Path
    until_ms: int
    size: int


def _ahead(state: Any, begin: int, end: int, label: str) -> _Ahead | None:
    """From the size at the end to the limit, or as far as the chart goes; None where nothing grows."""
    if state is None or state.bounded is not False or state.rate_per_s <= 0:
        return None
    if state.limit is not None and state.size >= state.limit:
        return None
    furthest = begin + _AHEAD * (end - begin)
    until = furthest if state.limit_at_ms is None else min(state.limit_at_ms, furthest)
    size = round(state.size + state.rate_per_s * (until - state.at_ms) / 1_000)
    path = Path(name=f"forecast for {label}", role="perfect", xs=[state.at_ms, until], ys=[state.size, size])
    return _Ahead(path, until, size)


def _failures(runs: Sequence[Recording], names: Sequence[str]) -> list[Rule]:
    found = []
    for run, label in zip(runs, names, strict=True):
        for row in stream_rows(run, "executions", the_dataflow(run)):
            if row["outcome"] == "failed":
                found.append(Rule(row["ended_ms"], f"{label} fails" if len(runs) > 1 else "the job fails", "cross"))
    return sorted(found, key=lambda rule: rule.x)


def _sentence(vertex: str, names: Sequence[str], told: Sequence[Any]) -> str:
    if all(state is None for state in told):
        return f"{vertex} held nothing."
    if len(names) == 1:
        return f"{told[0].sentence}."
    parts = [
        f"{label}: {'nothing was held' if state is None else state.sentence}"
        for label, state in zip(names, told, strict=True)
    ]
    return f"{'; '.join(parts)}."
