"""The questions "why?" and "why dropped?" about a dataflow: of a vertex at a moment, of a window, of a row.

What an answer says comes from the tables up to that moment; only what would release it is a prediction, by the rules.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmlab.core.answers.stragglers import Stragglers
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.dataflow.answers.explanation import Drops, FlowExplanation
from wmlab.dataflow.answers.row import dropped_rows, explain_row
from wmlab.dataflow.answers.run import WAITING, Run
from wmlab.dataflow.answers.vertex import explain_vertex, stragglers_at
from wmlab.dataflow.answers.windows import explain_window
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.sim.rules import DataflowRules, rules_of


def explain(
    recording: Recording,
    *,
    at_ms: int | None = None,
    vertex: str | None = None,
    key: int | None = None,
    instance: int | None = None,
    window: int | tuple[int, int] | None = None,
    row: Mapping[str, Any] | None = None,
    reader: str | None = None,
    stream: str | None = None,
) -> FlowExplanation | Stragglers:
    """Why a vertex, a window or a row of a dataflow waits; without all of these and `at_ms`, who held it over the run.

    `vertex` is by default the last one that waits for watermarks, or else the sink; `key` its own, or else the one
    that is held. `window` is its end, or (start, end). `row` has some columns of the row. `at_ms` is the clock, for a
    window or a row by default the end of the recording. `reader` and `stream` are for other recordings. Raises
    `RecordingError` for what the recording does not have, and for several questions at once.
    """
    for name, option in (("reader", reader), ("stream", stream)):
        if option is not None:
            raise RecordingError(f"a {name} is named; dataflows have none.", remedy=f"leave the {name} out.")
    run = Run(recording)
    if at_ms is not None and (isinstance(at_ms, bool) or not isinstance(at_ms, int)):
        raise RecordingError(f"at_ms is {at_ms!r}, which is no moment.", remedy="give whole milliseconds of the clock.")
    if window is not None and row is not None:
        raise RecordingError("a window and a row are asked for at once.", remedy="ask for one of them.")
    rules = DataflowRules()
    if recording.scenario is not None:
        rules = rules_of(dataflow_of(recording, DataflowScenario, stand_ins=True))
    moment = _end_ms(run, rules) if at_ms is None else at_ms
    if window is not None:
        return explain_window(run, rules, window, vertex=vertex, at_ms=moment)
    if row is not None:
        return explain_row(run, rules, row, at_ms=moment, vertex=vertex)
    name = _the_vertex(run, vertex)
    if at_ms is None:
        return stragglers_at(run, rules, vertex=name, key=key, instance=instance)
    return explain_vertex(run, rules, vertex=name, key=key, instance=instance, at_ms=at_ms)


def why_dropped(recording: Recording, row: Mapping[str, Any] | None = None, *, vertex: str | None = None) -> Drops:
    """The rows that were left out, by which rule, by how much: all or those that have the columns of `row`.

    Raises `RecordingError` for a vertex that the recording does not have.
    """
    run = Run(recording)
    if vertex is not None:
        run.vertex(vertex)
    return Drops(stream=run.stream, rows=tuple(dropped_rows(run, row or {}, vertex=vertex)))


def _end_ms(run: Run, rules: DataflowRules) -> int:
    """The end of the run: of its duration, if it was running then, otherwise the last moment recorded."""
    running = bool(run.executions) and run.executions[-1]["ended_ms"] is None
    return max(run.end_ms, rules.end_ms) if running and rules.end_ms is not None else run.end_ms


def _the_vertex(run: Run, vertex: str | None) -> str:
    """The vertex asked for, or the last one that waits for watermarks, or the last one at all."""
    if vertex is not None:
        return str(run.vertex(vertex)["vertex"])
    waiting = [name for name, row in run.vertices.items() if row["kind"] in WAITING]
    return waiting[-1] if waiting else list(run.vertices)[-1]
