"""How the times of a source become watermarks: one mapper of `wmlab.dataflow.model.source` per column with a key.

Source: upstream classes `EventTimeMapper`, `WatermarkThrottlingFrameSizeCalculator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wmlab.dataflow.model.frames import Frames
from wmlab.dataflow.model.join import minimum_spread
from wmlab.dataflow.model.source import (
    EventTimeMapper,
    FixedLag,
    LagPolicy,
    RealTimeLag,
    pipeline_frame_ms,
    sql_frame_ms,
)
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.join import rule_of
from wmlab.dataflow.scenario.source import EventTime, Source
from wmlab.dataflow.scenario.vertices import Join, SessionWindow, Window


@dataclass(frozen=True, slots=True)
class Clocked:
    """A column with a key: its place in the row and its mapper.

    `promised`: it follows the lower bound of a stream, less `lag`; `by_clock`: it moves without rows.
    """

    place: int
    mapper: EventTimeMapper[Any]
    promised: bool = False
    by_clock: bool = False
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Promised:
    """A policy whose state is the lower bound promised last; rows do not matter."""

    def start(self) -> int | None:
        """Nothing was promised."""
        return None

    def report(self, state: int | None, time: int) -> int | None:  # noqa: ARG002
        """Rows do not matter."""
        return state

    def current(self, state: int | None, now_ms: int) -> int | None:  # noqa: ARG002
        """The lower bound."""
        return state


def clocked(dataflow: DataflowScenario, source: Source) -> tuple[Clocked, ...]:
    """The columns of a source that carry keys, by ascending key."""
    frame = frame_ms(dataflow, source)
    frames = None if frame == 0 else Frames(frame, source.frame_offset_ms)
    return tuple(
        Clocked(
            place=source.row_columns.index(time.column),
            mapper=EventTimeMapper(
                policy=_policy(time),
                key=time.key,
                frames=frames,
                idle_timeout_ms=source.idle_timeout_ms or None,
                deviations=dataflow.rules,
            ),
            promised=time.policy == "lower_bound",
            by_clock=time.policy == "real_time",
            lag=time.lag_ms,
        )
        for time in sorted(source.times, key=lambda time: time.key)
    )


def frame_ms(dataflow: DataflowScenario, source: Source) -> int:
    """The frame that the watermarks of a source are throttled to; 0: none is sent."""
    if isinstance(source.frame_ms, int):
        return source.frame_ms
    slides = [vertex.step_ms for vertex in dataflow.vertices if isinstance(vertex, Window)]
    if source.frame_ms == "pipeline":
        timeouts = [vertex.timeout_ms for vertex in dataflow.vertices if isinstance(vertex, SessionWindow)]
        return pipeline_frame_ms(slides, timeouts)
    return sql_frame_ms(slides, [spread_ms(dataflow, join) for join in dataflow.vertices if isinstance(join, Join)])


def spread_ms(dataflow: DataflowScenario, join: Join) -> int:
    """The width of the narrowest time range in which rows of a join can match."""
    plan = dataflow.plan
    left, right = (plan.outputs[edge.source] for edge in plan.inputs[join.name])
    return minimum_spread(rule_of(join, left, right).bounds, [key for key, _ in left.keys])


def _policy(time: EventTime) -> LagPolicy[Any]:
    if time.policy == "real_time":
        return RealTimeLag(time.lag_ms)
    return Promised() if time.policy == "lower_bound" else FixedLag(time.lag_ms)
