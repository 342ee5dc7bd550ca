"""The chart of a running job: its watermarks over time, their lag, what holds them, and the dropped rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final

from wmlab.core import namespace
from wmlab.core.charts.axis import Axis, Numbers, duration_unit, held, shown_range, time_axis
from wmlab.core.charts.chart import Chart, chart_of
from wmlab.core.charts.scene import (
    Blocks,
    Box,
    Dots,
    Layer,
    Panel,
    Steps,
    Value,
    lanes,
    merge_equal,
    thinned,
)
from wmlab.core.errors import ChartError
from wmlab.core.words import is_instant, shown
from wmlab.engines.answers import EngineLog, JobExplanation, explain, jobs_at
from wmlab.engines.moments import Instance, Job, time_of

__all__ = ["watermarks"]
namespace(__name__)

_CAP: Final = 600
"""Points drawn at most of each curve, about."""
_HEIGHT: Final = 260.0
_LOW: Final = 130.0
_LONGEST: Final = 24
_OTHERS: Final = ("fourth", "perfect")
"""The looks of what does not hold the watermark, in turn."""


def watermarks(log: EngineLog, *, at_ms: int | None = None, title: str | None = None) -> Chart:
    """Draw the watermark of every operator and source over time, the lag, and the rows dropped as late.

    The watermark in question and what holds it have their own colours and dashes. The lag is relative to the clock for
    Flink, and to the newest event time for Spark. Spark's sources report no watermark, so the chart shows which of
    their batches had rows. The sentence comes from `log.explain(at_ms)`. Raises `ChartError` for anything but a log,
    and `EngineError` as `explain`.
    """
    if not isinstance(log, EngineLog):
        raise ChartError(f"{shown(log)} is not a log of an engine.", remedy="Draw what wm.engine.read gives.")
    jobs = jobs_at(log, at_ms)
    explanation = explain(jobs)
    job = next(each for each in jobs if each.operator == explanation.operator)
    curves = _curves(job, explanation)
    low, high = log.begin_ms, max(job.at_ms, log.begin_ms + 1_000)
    clock = [low, high]
    across = Axis("clock", low, high, is_instant(clock), duration_unit(high - low))
    panels = []
    if curves:
        ends = shown_range([held(curve.xs, curve.ys) for curve in curves], least_ms=high - low)
        up = time_axis("event time", ends, pad_percent=4, clock=clock)
        panels.append(Panel(up=up, layers=merge_equal(curves), height=_HEIGHT))
    else:
        panels.append(Panel(up=Numbers("event time", 0, 1), layers=[], height=_LOW, note="no watermark at all"))
    panels += [
        panel
        for panel in (_without(job, explanation), _lag(job), _rows(job, explanation), _late(job))
        if panel is not None
    ]
    return chart_of(
        explanation.sentence,
        _data(curves),
        title=title or f"Where is the watermark of {job.operator}, and who holds it?",
        across=across,
        panels=panels,
    )


def _curves(job: Job, explanation: JobExplanation) -> list[Steps]:
    """The watermark of each source, of the operators behind them, and of the one that was asked for, on top."""
    curves, others = [], cycle(_OTHERS)
    for task in job.path:
        instances = job.tasks[task]
        if job.engine == "flink" and (task != job.observed_task or not job.inputs[task]):
            for instance in instances:
                name = instance.source if len(instances) == 1 else f"{instance.source}, subtask {instance.subtask}"
                is_holder = _holds(instance, explanation)
                points = [(each.at_ms, time_of(each.output_watermark_ms)) for each in instance.moments]
                curves.append(_steps(name, "upper" if is_holder else next(others), points, job.at_ms))
    if job.engine == "spark":
        curves.append(_steps("newest event time", "perfect", _newest(job), job.at_ms))
    curves.append(_steps(f"{job.operator}: watermark", "lower", _marks(job), job.at_ms))
    return [curve for curve in curves if any(y is not None for y in curve.ys)]


def _newest(job: Job) -> list[tuple[int, Value]]:
    """The newest event time of all batches of a Spark query up to each; None if none had one."""
    every = job.observed[0].moments
    known = [
        [at.event_max_ms for at in every[: number + 1] if at.event_max_ms is not None] for number in range(len(every))
    ]
    return [(at.at_ms, max(times, default=None)) for at, times in zip(every, known, strict=True)]


def _marks(job: Job) -> list[tuple[int, Value]]:
    """The watermark that was asked for, at each moment; None if there was none."""
    return [(at_ms, time_of(mark)) for at_ms, mark in job.watermarks]


def _holds(instance: Instance, explanation: JobExplanation) -> bool:
    """Whether an instance is what holds the watermark, in whole or by one of its partitions."""
    subtask = f"subtask {instance.subtask}"
    whose = explanation.whose or ""
    return whose in (instance.source, f"{subtask} of {instance.source}") or whose.endswith(
        f"{instance.source}, {subtask}"
    )


def _steps(name: str, role: str, points: Sequence[tuple[int, Value]], until_ms: int) -> Steps:
    """A curve through some points, which holds its last value until the end of the log."""
    to_the_end = [*points, (until_ms, points[-1][1])] if points else []
    xs, ys = thinned([x for x, _ in to_the_end], [y for _, y in to_the_end], _CAP) if to_the_end else ([], [])
    return Steps(name=name, role=role, xs=xs, ys=ys)


def _without(job: Job, explanation: JobExplanation) -> Panel | None:
    """The sources, and the operator that was asked for, that have had no watermark at all; what holds it says so."""
    if job.engine == "spark":
        return None
    silent = [each for each in job.sources if all(time_of(at.output_watermark_ms) is None for at in each.moments)]
    names = [f"{each.source}, subtask {each.subtask}" for each in silent]
    holds = [_holds(each, explanation) for each in silent]
    names = [f"holds: {name}" if marked else name for name, marked in zip(names, holds, strict=True)]
    names += [job.operator] if all(value is None for _, value in _marks(job)) else []
    if not names:
        return None
    begin_ms = min(each.moments[0].at_ms for each in job.sources)
    boxes = [Box(begin_ms, job.at_ms, number - 0.3, number + 0.3) for number in range(len(names))]
    return lanes(names, [Blocks(name="no watermark", role="unknown", boxes=boxes)])


def _lag(job: Job) -> Panel | None:
    """How far the watermark is behind the clock, or with Spark behind the newest event time."""
    is_spark = job.engine == "spark"
    marks = [(at.at_ms, time_of(at.input_watermark_ms)) for at in job.observed[0].moments] if is_spark else _marks(job)
    until = [high for _, high in _newest(job)] if is_spark else [at_ms for at_ms, _ in marks]
    points: list[tuple[int, Value]] = [
        (at_ms, None if mark is None or high is None else high - mark)
        for (at_ms, mark), high in zip(marks, until, strict=True)
    ]
    name = "lag behind the newest event time" if is_spark else "lag behind the clock"
    curve = _steps(name, "third", points, job.at_ms)
    known = [y for y in curve.ys if y is not None]
    if not known:
        return None
    return Panel(up=time_axis("lag", [*known, 0, 1_000], pad_percent=8), layers=[curve], height=_LOW)


def _rows(job: Job, explanation: JobExplanation) -> Panel | None:
    """Which batches had rows, of each source of a Spark query; what holds the watermark is named in its lane."""
    if job.engine != "spark":
        return None
    layers: list[Layer] = [
        Dots(
            name="a batch with rows",
            role="perfect",
            shape="circle",
            xs=[at_ms for at_ms, _ in counts],
            ys=[number] * len(counts),
            hover=[f"{source.source}: {gain} rows" for _, gain in counts],
        )
        for number, source in enumerate(job.sources)
        for counts in [[each for each in _gains(source) if each[1]]]
    ]
    # The end of a long name tells sources of one kind apart.
    names = [each.source if len(each.source) <= _LONGEST else f"…{each.source[1 - _LONGEST :]}" for each in job.sources]
    if explanation.whose is not None:
        holding = [each.source in explanation.whose for each in job.sources]
        names = [f"holds: {name}" if holds else name for name, holds in zip(names, holding, strict=True)]
    return lanes(names, layers)


def _gains(source: Instance) -> list[tuple[int, int]]:
    counts = [(each.at_ms, each.records or 0) for each in source.moments]
    return [(at_ms, count - before) for (at_ms, count), (_, before) in zip(counts, [(0, 0), *counts], strict=False)]


def _late(job: Job) -> Panel | None:
    """The rows dropped as late, all tasks together, if there are any."""
    every = [at for instances in job.tasks.values() for instance in instances for at in instance.moments]
    totals = Counter[int]()
    for each in every:
        totals[each.at_ms] += each.late_records or 0
    if not any(totals.values()):
        return None
    curve = _steps("dropped as late", "alarm", sorted(totals.items()), job.at_ms)
    return Panel(up=Numbers("rows", 0, max(totals.values()) + 1), layers=[curve], height=_LOW)


def _data(curves: Sequence[Steps]) -> dict[str, list[Any]]:
    """What is drawn, a row a point."""
    points = [(x, curve.name, y) for curve in curves for x, y in zip(curve.xs, curve.ys, strict=True)]
    return {
        "at_ms": [x for x, _, _ in points],
        "of": [name for _, name, _ in points],
        "watermark_ms": [y for _, _, y in points],
    }
