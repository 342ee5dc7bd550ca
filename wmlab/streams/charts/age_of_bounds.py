"""The chart of how late the readers of one or several runs knew a lower bound, and which part comes from where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wmlab.core.charts.axis import Axis, duration_unit
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Blocks, Box, Layer, Scene, lanes
from wmlab.core.errors import ChartError
from wmlab.core.words import rounded, shown
from wmlab.streams.answers.delays import Delays

_PARTS: Final = {
    "watermark_ms": ("until there is a watermark", "lower"),
    "publish_ms": ("until the group's positions are beyond it", "upper"),
    "poll_ms": ("until a reader looks", "third"),
}
"""The parts of a delay in their order: what each is called, and its role."""


def delays(runs: Delays | Mapping[str, Delays], *, title: str | None = None) -> Chart:
    """Draw how late readers knew the lower bound on average, one bar for each run, with its three parts (ms).

    `runs` is what `recording.delays()` gives, or several of these by the names of their runs. `title` replaces the
    question above the chart. Raises `ChartError` for anything else, and for no run.
    """
    by_name = {runs.group: runs} if isinstance(runs, Delays) else runs
    if not isinstance(by_name, Mapping) or not all(isinstance(run, Delays) for run in by_name.values()):
        raise ChartError(
            f"A chart of delays cannot be drawn from {shown(runs)}.",
            remedy='Pass what recording.delays() gives, or several: {"every second": recording.delays(), ...}.',
        )
    if not by_name:
        raise ChartError("There is no run to draw.", remedy="Pass at least one: recording.delays().")
    by_name = {str(name): run for name, run in by_name.items()}
    ages_ms = [run.age_ms for run in by_name.values()]
    sentence = _sentence(by_name)
    top_ms = max(1, *ages_ms)
    totals = [Box(age_ms, age_ms, row - 0.4, row + 0.4, rounded(age_ms)) for row, age_ms in enumerate(ages_ms)]
    beside = Blocks(name="in all", role="text", boxes=totals, legend=False, beside=True)
    scene = Scene(
        title=title or "How late is the lower bound known, and why?",
        subtitle=sentence,
        across=Axis("late on average by", 0, top_ms, False, duration_unit(top_ms)),
        panels=[lanes(by_name, [*_bars([*by_name.values()]), beside])],
    )
    data: dict[str, list[Any]] = {"run": [*by_name]}
    data |= {part: [getattr(run, part) for run in by_name.values()] for part in _PARTS}
    return Chart(sentence=sentence, data=data, scene=scene)


def _bars(runs: list[Delays]) -> list[Layer]:
    """One layer for each part; the parts of a run stand one after the other."""
    layers: list[Layer] = []
    begins_ms = [0] * len(runs)
    for part, (name, role) in _PARTS.items():
        boxes = []
        for row, run in enumerate(runs):
            begin_ms, length_ms = begins_ms[row], getattr(run, part)
            begins_ms[row] += length_ms
            words = f"{rounded(length_ms)} {name}"
            boxes.append(Box(begin_ms, begins_ms[row], row - 0.4, row + 0.4, rounded(length_ms), words))
        layers.append(Blocks(name=name, role=role, boxes=boxes, opacity=0.45))
    return layers


def _sentence(runs: Mapping[str, Delays]) -> str:
    """The answer: of one run its parts; of several the soonest, the latest, and what makes most of the difference."""
    if len(runs) == 1:
        (only,) = runs.values()
        return only.sentence
    soonest, latest = (end(runs, key=lambda name: runs[name].age_ms) for end in (min, max))
    more_ms = {part: getattr(runs[latest], part) - getattr(runs[soonest], part) for part in _PARTS}
    most = max(more_ms, key=lambda part: more_ms[part])
    said = f"The time is known {rounded(runs[soonest].age_ms)} late with {soonest}"
    if more_ms[most] <= 0:
        return f"{said}, and so it is with the others."
    return (
        f"{said}, and {rounded(runs[latest].age_ms)} late with {latest}: "
        f"{rounded(more_ms[most])} more pass {_PARTS[most][0]}."
    )
