"""Runs side by side: their bounds on one axis, what differs in their scenarios, and what in their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from wmlab.core.charts.axis import Number, time_axis
from wmlab.core.charts.chart import Chart, display_forms
from wmlab.core.charts.rows import SERIES
from wmlab.core.charts.scene import Panel, Path, Scene, Steps
from wmlab.core.charts.steps import Value, thin
from wmlab.core.errors import ChartError

Bounds = Sequence[tuple[int, int, int]]

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
    differs: tuple[tuple[str, tuple[Any, ...]], ...]
    results: tuple[tuple[str, tuple[Any, ...]], ...]
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
    data = {name: [row[place] for row in rows] for place, name in enumerate(("run", "at_ms", "lower", "upper"))}
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


def _table(caption: str, labels: Sequence[str], rows: Sequence[tuple[str, tuple[Any, ...]]]) -> str:
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
