"""The recording of query plans, and their scenario with its verbs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Never

from wmlab.core.ablation import ablate
from wmlab.core.invariants import Verdicts
from wmlab.core.recording import Recording, recorded, require_no_fields
from wmlab.core.values import value
from wmlab.progress.answers.explain import explain_plan
from wmlab.progress.diagram import plan_as_mermaid
from wmlab.progress.run_measures import late_in, measures
from wmlab.progress.scenario import ProgressScenario
from wmlab.progress.sim.query import simulate
from wmlab.progress.tables import PROGRESS_TABLES


class ProgressRecording(Recording, kind="progress", schemas=PROGRESS_TABLES):
    """Everything that happened to the buffers of query plans."""

    __slots__ = ()

    explain = explain_plan
    measures = measures

    def check(self, *only: str) -> Verdicts:
        """One verdict per invariant (N1, N3, N6, N10), or of those named in `only`: check("N1").

        It needs no Spark: the rules run in memory. N12, a liveness invariant about a run at rest, is checked only if
        named. A verdict says whether the invariant holds, and has the rows that prove a violation. Without names it
        says what came late, too: `late`, by query. Raises `ModelError` for an unknown name.
        """
        from wmlab.progress.checks import in_memory

        scenario = None if only else self.scenario_as(ProgressScenario)
        late = {query.name: late_in(self, query.name) for query in (scenario.queries if scenario else ())}
        return replace(in_memory(self, *only), late={name: known for name, known in late.items() if known is not None})


def record(scenario: ProgressScenario, path: str | Path | None = None, **fields: Never) -> ProgressRecording:
    """Run a scenario of query plans and return a recording of everything that happened; with `path`, save it there."""
    require_no_fields(fields)
    return recorded(ProgressRecording, scenario, lambda _: simulate(scenario), path)


@value
class PlanScenario(ProgressScenario):
    """Queries, the workers that execute them, and the faults; the fields are those of `ProgressScenario`."""

    record = record
    mermaid = plan_as_mermaid
    ablate = ablate
