"""Where the rooms meet for query plans: a scenario goes through the simulated engine into a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

import wmlab.traces as traces
from wmlab.errors import RecordingError
from wmlab.model.progress.holding import Hold, explain
from wmlab.model.progress.identifiers import TupleBuffer
from wmlab.model.progress.tracker import Progress, ProgressRules, step
from wmlab.recording import Recording
from wmlab.scenario import Problem, Problems
from wmlab.scenario.plan_scenario import PlanScenario
from wmlab.sim.journal import Journal
from wmlab.sim.pool.records import Records
from wmlab.sim.pool.world import PlanWorld
from wmlab.tables import TABLES
from wmlab.tables_progress import PROGRESS_TABLES

_WRITTEN = {**PROGRESS_TABLES, "faults": TABLES["faults"]}


def record_plan(scenario: PlanScenario, path: str | Path | None = None) -> Recording:
    """Run a scenario of query plans and return everything that happened; with `path`, keep it there."""
    journal = PlanWorld(scenario, trace_records(scenario)).run()
    recording = Recording.from_tables(
        plan_tables(journal), name=scenario.name, scenario=scenario.to_dict(), seed=scenario.seed
    )
    return recording if path is None else recording.save(path)


def plan_tables(journal: Journal) -> dict[str, pa.Table]:
    """The rows of a run as the tables `buffers`, `windows_fired` and `faults`."""
    return {name: pa.Table.from_pylist(journal.rows.get(name, []), schema=schema) for name, schema in _WRITTEN.items()}


def trace_records(scenario: PlanScenario) -> dict[str, Records]:
    """The records of every source that replays a trace, in the order of their arrival.

    Raises `Problems` for a source whose name is no writer of its trace.
    """
    sources = [(n, m, source) for n, q in enumerate(scenario.queries) for m, source in enumerate(q.sources)]
    loaded = {source.trace: traces.load(source.trace) for _, _, source in sources if source.trace is not None}
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
        found[source.name] = Records(columns["event_time"], columns["arrival_ms"])
    if problems:
        raise Problems(f"the scenario {scenario.name!r}", problems)
    return found


def holds(
    recording: Recording, *, query: str, at_ms: int, operator: str = "build", rules: ProgressRules | None = None
) -> tuple[Hold, ...]:
    """What held the global watermark of an operator at a clock time: one `Hold` per origin at its value.

    `rules` are those of the recording's scenario by default. Raises `RecordingError` if nothing had come by then.
    """
    rules = rules or _rules(recording)
    return explain(replay(recording.table("buffers"), query=query, at_ms=at_ms, operator=operator, rules=rules))


def _rules(recording: Recording) -> ProgressRules | None:
    """The rules of the recorded scenario, where the recording tells it; what a scenario leaves out is the default."""
    told = recording.scenario
    if told is None or "queries" not in told:
        return None
    return ProgressRules(**{name: told[name] for name in ("chunk_base", "complete", "local") if name in told})


def replay(
    buffers: pa.Table,
    *,
    query: str,
    at_ms: int | None = None,
    operator: str = "build",
    rules: ProgressRules | None = None,
) -> Progress:
    """The tracker of an operator after the recorded buffers, up to and including `at_ms` (None: all).

    Raises `RecordingError` if there are none.
    """
    rows = [
        row
        for row in buffers.to_pylist()
        if row["stream"] == query and row["operator"] == operator and (at_ms is None or row["arrived_ms"] <= at_ms)
    ]
    if not rows:
        raise RecordingError(
            f"no buffer of query {query!r} had come to {operator!r} by {at_ms} ms.",
            remedy="ask for a query and an operator of the table 'buffers', and a later time.",
        )
    rows.sort(key=lambda row: int(row["arrival"]))
    # Sources are origins 1, 2, ...; a sink behind a windowed operator has that operator's origin alone.
    first, count = rows[0]["origin"], rows[0]["origins"]
    origins = [first] if count == 1 else range(1, count + 1)
    state = Progress.start(origins, rules or ProgressRules(chunk_base=rows[0]["chunk_base"]))
    for row in rows:
        state, _ = step(state, stamp_of(row), row["arrived_ms"])
    return state


def stamp_of(row: Mapping[str, int]) -> TupleBuffer:
    """The identifiers of a row of the table `buffers`."""
    return TupleBuffer(row["origin"], row["sequence"], row["chunk"], bool(row["last"]), row["watermark"])
