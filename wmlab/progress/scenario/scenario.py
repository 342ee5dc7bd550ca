"""The scenario of query plans: what to run, as one validated value with YAML both ways."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.recording import Recording
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import Period, Problem, Problems, value
from wmlab.progress.model.tracker import ProgressRules
from wmlab.progress.scenario.parts import PlanAction, Query, StallWorker, Workers


@value
class ProgressScenario(ScenarioFile, only_field="queries", users_call_it="wm.progress.PlanScenario"):
    """Queries, the workers that execute them, and what goes wrong.

    `duration_ms` is how long the sources receive records, in simulated time; then they end, the workers finish what
    they have, and `flush_at_end` fires the windows that are left. `start_ms` is the clock at the start, zero or, for a
    real trace, a moment in milliseconds since 1970. `chunk_base` is 0 as documented or 1 as in the engine; `complete`
    and `local` are the rules of the trackers. All randomness comes from `seed`: the same scenario always gives the same
    recording.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    _: dataclasses.KW_ONLY
    queries: Annotated[tuple[Query, ...], Field(min_length=1, max_length=1_000)]
    workers: Workers = Workers()
    script: tuple[PlanAction, ...] = ()
    duration_ms: Period
    start_ms: Annotated[int, Field(ge=0, strict=True)] = 0
    flush_at_end: bool = True
    chunk_base: Literal[0, 1] = 0
    complete: Literal["set", "count", "literal", "balance"] = "set"
    local: Literal["running_max", "head"] = "running_max"
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0

    def __post_init__(self) -> None:
        problems = tuple(_cross_problems(self))
        if problems:
            raise Problems(f"the scenario {self.name!r}", problems)

    def _repr_html_(self) -> str:
        rows = [(query.name, _summary(query)) for query in self.queries]
        rows += [
            ("workers", f"{self.workers.count}, {self.workers.service_mean_ms:g} ms a buffer ({self.workers.service})"),
            ("script", "; ".join(repr(action) for action in self.script) or "nothing"),
            ("duration", f"{self.duration_ms:,} ms, seed {self.seed}"),
        ]
        cells = "".join(f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<table><caption>Scenario “{escape(self.name)}”</caption>{cells}</table>"


def _summary(query: Query) -> str:
    sources = ", ".join(" → ".join([source.name, *map(repr, source.operators)]) for source in query.sources)
    last = "Emit()" if query.window is None else repr(query.window)
    return " → ".join([sources, *map(repr, query.operators), last, *map(repr, query.output)])


def _cross_problems(scenario: ProgressScenario) -> Iterator[Problem]:
    """Mistakes that no single field shows."""
    queries = Counter(query.name for query in scenario.queries)
    sources = Counter(source.name for query in scenario.queries for source in query.sources)
    for number, query in enumerate(scenario.queries):
        if queries[query.name] > 1:
            yield Problem(("queries", number, "name"), f"another query is called {query.name!r} too")
        for place, source in enumerate(query.sources):
            if sources[source.name] > 1:
                message = f"another source is called {source.name!r} too"
                yield Problem(("queries", number, "sources", place, "name"), message)
    for number, action in enumerate(scenario.script):
        if isinstance(action, StallWorker):
            if action.worker > scenario.workers.count:
                message = f"there are workers 1 to {scenario.workers.count} (got {action.worker})"
                yield Problem(("script", number, "worker"), message)
        elif action.source not in sources:
            known = ", ".join(sorted(sources))
            yield Problem(("script", number, "source"), f"no source is called {action.source!r}; there are: {known}")


def rules_of(recording: Recording) -> ProgressRules | None:
    """The rules of the recorded scenario, where the recording tells it; what a scenario leaves out is the default."""
    told = recording.scenario
    if told is None:
        return None
    return ProgressRules(**{name: told[name] for name in ("chunk_base", "complete", "local") if name in told})
