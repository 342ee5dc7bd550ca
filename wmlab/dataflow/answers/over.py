"""Who held the watermark of a vertex over a whole run, for how long, and by how much.

Source: "Keyed watermark support", Description of current behavior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from wmlab.core.answers.stragglers import Straggler, Stragglers, Stretch, stragglers_from
from wmlab.core.words import span
from wmlab.dataflow.answers.explanation import FlowHolder
from wmlab.dataflow.answers.holders import Search
from wmlab.dataflow.answers.rules import FlowRules
from wmlab.dataflow.answers.run import Run
from wmlab.dataflow.answers.vertex import standing_of

_MOMENTS = 200
"""The most moments at which a run is looked at; between two of them what held at the first is taken to hold."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FlowHolders(Stragglers):
    """The holders of the watermark at a vertex over a run. Until every input has one, what it costs is unknown."""

    @property
    def sentence(self) -> str:
        """Who held it longest, in one sentence."""
        if not self.stragglers:
            return f"Over {span(self.run_ms)} nobody held the {self.bound} in {self.stream}."
        first, *_ = self.longest
        cost = "" if not first.cost_ms else f", which cost {span(round(first.cost_ms))} of mean lag"
        return (
            f"Over {span(self.run_ms)} the {self.bound} in {self.stream} was held longest by {first.who} "
            f"({first.why}): for {span(first.held_ms)}{cost}."
        )

    @property
    def longest(self) -> tuple[Straggler, ...]:
        """The holders, the longest first; those that still could go on before those that were all idle."""
        return tuple(sorted(self.stragglers, key=lambda one: (one.why == "idle", -one.held_ms, one.who)))


def flow_holders(
    run: Run, rules: FlowRules | None, *, vertex: str, key: int | None, instance: int | None
) -> Stragglers:
    """The holders of the watermark of `vertex` from the first execution to the end, the most expensive first."""
    begun = run.executions[0]["started_ms"] if run.executions else 0
    end_ms = max(run.end_ms, begun) if rules is None or rules.end_ms is None else rules.end_ms
    last = run.executions[-1] if run.executions else None
    if last is not None and last["ended_ms"] is not None:
        end_ms = last["ended_ms"]
    stretches = list(_stretches(run, rules, vertex, key, instance, (begun, end_ms)))
    run_ms = max(end_ms - begun, 1)
    found = stragglers_from(stretches, stream=run.stream, run_ms=run_ms)
    return FlowHolders(stream=run.stream, run_ms=run_ms, stragglers=found.stragglers, bound=f"watermark at {vertex}")


def _stretches(
    run: Run, rules: FlowRules | None, vertex: str, key: int | None, instance: int | None, span: tuple[int, int]
) -> Iterator[Stretch]:
    for from_ms, to_ms in pairwise(_moments(run, span)):
        execution = run.execution(from_ms)
        if execution is None:
            continue
        search = Search(run, rules, execution, from_ms)
        for holder in (held := standing_of(search, vertex, key, instance).holders):
            yield Stretch((_who(holder),), holder.kind, from_ms, to_ms, holder.behind_by, len(held))


def _moments(run: Run, span: tuple[int, int]) -> list[int]:
    """The moments at which some watermark moved, thinned, with both ends."""
    begun, end_ms = span
    found = sorted({row["at_ms"] for rows in run.steps.values() for row in rows if begun < row["at_ms"] < end_ms})
    if len(found) > _MOMENTS:
        found = [found[(n + 1) * len(found) // _MOMENTS - 1] for n in range(_MOMENTS)]
    return [begun, *found, end_ms]


def _who(holder: FlowHolder) -> str:
    return holder.name
