"""The recording of a dataflow, and the dataflow with its verbs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wmlab.core.answers.stragglers import Stragglers
from wmlab.core.recording import Recording
from wmlab.core.values import value
from wmlab.dataflow.answers.ask import flow_drops
from wmlab.dataflow.answers.every_order import results
from wmlab.dataflow.answers.explanation import Drops, FlowExplanation
from wmlab.dataflow.answers.recorded import explain_dataflow
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.dataflow.scenario.recorded import dataflow_of
from wmlab.dataflow.sim.world import Choose
from wmlab.dataflow.simulate import simulate
from wmlab.dataflow.tables import DATAFLOW_TABLES


class DataflowRecording(Recording, kind="dataflow", schemas=DATAFLOW_TABLES):
    """Everything that happened in a dataflow."""

    __slots__ = ()

    @property
    def dataflow(self) -> Dataflow:
        """The dataflow that was recorded; raises `RecordingError` if it had Python functions."""
        return dataflow_of(self, Dataflow)

    def explain(self, **options: Any) -> FlowExplanation | Stragglers:
        """Why a vertex, a window or a row waits, or who held the run; see `explain_dataflow`."""
        return explain_dataflow(self, **options)

    def why_dropped(self, row: Mapping[str, Any] | None = None, *, vertex: str | None = None) -> Drops:
        """The rows that were left out, by which rule, by how much; see `wmlab.dataflow.answers.ask.flow_drops`."""
        return flow_drops(self, row, vertex=vertex)

    def check(self, spark: Any) -> Any:
        """One verdict per invariant, K1 to K14; see `wmlab.dataflow.checks.recorded.check`."""
        from wmlab.dataflow.checks.recorded import check

        return check(self, spark)

    def coalesced(self, spark: Any) -> Any:
        """The merged watermarks after every step, as a Spark DataFrame; see `wmlab.dataflow.checks.recorded`."""
        from wmlab.dataflow.checks.recorded import coalesced

        return coalesced(self, spark)


def record(
    dataflow: DataflowScenario, path: str | Path | None = None, *, choose: Choose | None = None
) -> DataflowRecording:
    """Run a dataflow and return everything that happened; with `path`, keep it there.

    `choose` replaces chance in who takes the next turn: it gets the names of those that are due, and returns a place.
    """
    recording = DataflowRecording.from_tables(
        simulate(dataflow, choose), name=dataflow.name, scenario=dataflow.to_dict(), seed=dataflow.seed
    )
    return recording if path is None else recording.save(path)


@value
class Dataflow(DataflowScenario):
    """Vertices, the edges between them, and what goes wrong; the fields are those of `DataflowScenario`."""

    record = record
    permutations = results
