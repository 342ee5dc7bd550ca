"""Query plans through the simulated engine: the traces of their sources in, the tables of a recording out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wmlab.core import traces
from wmlab.core.journal import Journal
from wmlab.core.values import Problem, Problems
from wmlab.progress.scenario.scenario import ProgressScenario
from wmlab.progress.sim.records import Records
from wmlab.progress.sim.world import PlanWorld
from wmlab.progress.tables import PROGRESS_TABLES


def simulate(scenario: ProgressScenario) -> dict[str, pa.Table]:
    """Run a scenario of query plans."""
    return plan_tables(PlanWorld(scenario, trace_records(scenario)).run())


def plan_tables(journal: Journal) -> dict[str, pa.Table]:
    """The rows of a run as the tables of `wmlab.progress.tables`."""
    return {
        name: pa.Table.from_pylist(journal.rows.get(name, []), schema=schema)
        for name, schema in PROGRESS_TABLES.items()
    }


def trace_records(scenario: ProgressScenario) -> dict[str, Records]:
    """The records of every source that replays a trace, in the order of their arrival.

    Raises `Problems` for a source whose name is no writer of its trace.
    """
    sources = [(n, m, source) for n, q in enumerate(scenario.queries) for m, source in enumerate(q.sources)]
    loaded = {source.trace: traces.load(source.trace) for _, _, source in sources if source.trace is not None}
    keys = np.unique(np.concatenate([trace.columns()["key"].astype(str) for trace in loaded.values()] or [[]]))
    found: dict[str, Records] = {}
    problems: list[Problem] = []
    for number, place, source in sources:
        if source.trace is None:
            continue
        trace = loaded[source.trace]
        if source.name not in trace.writer_names:
            known = ", ".join(trace.writer_names)
            message = f"trace {source.trace!r} has no writer {source.name!r}; it has: {known}"
            problems.append(Problem(("queries", number, "sources", place, "name"), message))
            continue
        columns = trace.writers(source.name).columns()
        numbers = np.searchsorted(keys, columns["key"].astype(str))
        found[source.name] = Records(columns["event_time"], columns["arrival_ms"], numbers)
    if problems:
        raise Problems(f"the scenario {scenario.name!r}", problems)
    return found
