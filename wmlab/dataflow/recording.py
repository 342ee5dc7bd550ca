"""The recording of a dataflow, and the dataflow with its verbs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Never, Self

import pyarrow as pa

from wmlab.core.ablation import ablate
from wmlab.core.invariants import Verdicts
from wmlab.core.recording import Recording, recorded, require_no_fields
from wmlab.core.values import value
from wmlab.core.words import clock_words
from wmlab.dataflow.answers import explain as answers
from wmlab.dataflow.answers.job import Ran
from wmlab.dataflow.answers.permutations import results as permutations
from wmlab.dataflow.answers.results import results
from wmlab.dataflow.answers.run import run_of
from wmlab.dataflow.answers.sentences import failure_of
from wmlab.dataflow.checks.steps import all_steps
from wmlab.dataflow.run_measures import late_in, measures
from wmlab.dataflow.scenario.dataflow import DataflowScenario, dataflow_of
from wmlab.dataflow.simulate import readings_of, simulate
from wmlab.dataflow.tables import DATAFLOW_TABLES


class DataflowRecording(Recording, kind="dataflow", schemas=DATAFLOW_TABLES):
    """Everything that happened in a dataflow."""

    __slots__ = ("_ran", "_run")

    @property
    def dataflow(self) -> Dataflow:
        """The recorded dataflow; raises `RecordingError` for a recording from files if it had Python functions."""
        return dataflow_of(self, Dataflow)

    @property
    def ran(self) -> Ran | None:
        """What was run, while the recording is that of this process; None: it was read from files."""
        return getattr(self, "_ran", None)

    def running(self, ran: Ran | None) -> Self:
        """This recording, which `ran` made."""
        object.__setattr__(self, "_ran", ran)
        return self

    def save(self, path: str | Path) -> Self:
        """As `Recording.save`."""
        return Recording.save(self, path).running(self.ran)

    def complete(self, name: str) -> pa.Table:
        """As `Recording.complete`: of `coalescing` also the steps of the levels with one input."""
        if name != "coalescing":
            return self.table(name)
        names = ("items", "queues", "coalescing")
        steps = all_steps(*(self.table(table).to_pylist(maps_as_pydicts="strict") for table in names))
        return pa.Table.from_pylist(steps, self.schemas[name])

    def _origin(self) -> str:
        """Also that the job failed, and what sources have not read: such a run says little about watermarks."""
        rows = self.table("incidents").to_pylist()
        failed = (f"the job failed at {clock_words(row['at_ms'])}" for row in rows if row["kind"] == "failure")
        unread = (f"{row['target']} has not read {row['detail']}" for row in rows if row["kind"] == "not read")
        return "; ".join([super()._origin(), *failed, *unread])

    explain = answers.explain
    why_dropped = answers.why_dropped
    results = results
    measures = measures

    def check(self, *only: str) -> Verdicts:
        """One verdict per invariant of the dataflow, or of those named in `only`: check("K1", "K3").

        It needs no Spark: the rules run in memory. K16, a liveness invariant about a run at rest, is checked only if it
        is named. A verdict says whether the invariant holds, and has the rows that prove a violation. Without names it
        says what came late, too: `late`. Raises `ModelError` for an unknown name.
        """
        from wmlab.dataflow.checks import in_memory

        verdicts = replace(in_memory(self, *only), failure=failure_of(self))
        if only or len(self.table("vertices")["stream"].unique()) != 1:
            return verdicts
        run = run_of(self)
        return replace(verdicts, late={run.stream: late_in(run)})

    def coalesced(self, spark: Any = None) -> Any:
        """The coalesced watermarks after every step of the coalescers, as a Spark DataFrame.

        Without `spark` it uses the Spark session of the process, which is started if there is none. It applies the
        deviations of the dataflow, so that a recording by any rules is followed correctly.
        """
        from wmlab.core.spark.session import the_session
        from wmlab.dataflow.checks.coalesced import coalesced

        spark = the_session(spark)
        tables = [self.spark(spark, name) for name in ("items", "queues", "coalescing")]
        return coalesced(*tables, deviations=dataflow_of(self, DataflowScenario, stand_ins=True).rules.deviations)


def record(dataflow: DataflowScenario, path: str | Path | None = None, **fields: Never) -> DataflowRecording:
    """Run a dataflow and return a recording of everything that happened; with `path`, save it there."""
    require_no_fields(fields)
    ran = Ran(dataflow, readings_of(dataflow))
    return recorded(DataflowRecording, dataflow, lambda _: simulate(*ran), path).running(ran)


@value
class Dataflow(DataflowScenario):
    """Vertices, the edges between them, and the faults; the fields are those of `DataflowScenario`."""

    record = record
    permutations = permutations
    ablate = ablate
