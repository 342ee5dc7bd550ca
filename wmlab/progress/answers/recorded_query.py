"""What a recording has of one query: its buffers, its plan, and what its script did to buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, the_only
from wmlab.progress.answers.vocabulary import State
from wmlab.progress.model.tracker import ProgressRules, guessed_origins
from wmlab.progress.scenario import (
    SCAN,
    DelayBuffer,
    Origins,
    ProgressScenario,
    StallWorker,
    last_of,
    origins_of,
)
from wmlab.progress.sim.records import target_name

_ITSELF: Final = 0
"""Stands for a source itself where its sequences are numbered."""
_ORDER: Final = tuple(State)


class Fate(NamedTuple):
    """What has become of a sequence: since when and until when (clock, None: not known), and who has it in hand."""

    state: State
    since_ms: int | None = None
    until_ms: int | None = None
    worker: int | None = None

    def lasts(self, at_ms: int) -> bool:
        """Whether it has begun and is not over at a moment."""
        return (self.since_ms or 0) <= at_ms and (self.until_ms is None or at_ms < self.until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQuery:
    """What a recording has of the query called `name`; its plan and its scenario are None where it does not tell.

    `faults` are what befell the sequences of a source, and under number 0 the source itself; `sent` says when each of
    them came to the workers, and when each window fired. Both are by name and number.
    """

    name: str
    buffers: Sequence[Mapping[str, Any]]
    faults: Mapping[tuple[str, int], Sequence[Fate]]
    sent: Mapping[tuple[str, int], int]
    plan: Origins | None
    scenario: ProgressScenario | None

    @classmethod
    def of(cls, recording: Recording, name: str | None) -> RecordedQuery:
        """The query of this name, None: the only one. Raises `RecordingError` for one that is not there."""
        scenario = recording.scenario_as(ProgressScenario)
        plans = {} if scenario is None else {query.name: origins_of(query) for query in scenario.queries}
        every = sorted({*plans, *recording.table("buffers")["stream"].unique().to_pylist()})
        name = the_only(recording, name, every, "query", "queries")
        buffers, fired, incidents = (
            [row for row in recording.table(table).to_pylist() if row["stream"] == name]
            for table in ("buffers", "windows_fired", "incidents")
        )
        sent = {(row["operator"], row["sequence"]): row["fired_ms"] for row in fired}
        for row in buffers:
            if row["operator"] == SCAN:
                sent.setdefault((row["emitter"], row["sequence"]), row["arrived_ms"])
        return cls(
            name=name,
            buffers=sorted(buffers, key=itemgetter("arrived_ms", "arrival")),
            faults=_faults(incidents, scenario),
            sent=sent,
            plan=plans.get(name),
            scenario=scenario,
        )

    @property
    def rules(self) -> ProgressRules:
        """The rules of the trackers; without a scenario only the base of chunks is known."""
        if self.scenario is not None:
            return self.scenario.rules.trackers
        return ProgressRules(chunk_base=self.buffers[0]["chunk_base"]) if self.buffers else ProgressRules()

    @property
    def emitters(self) -> dict[int, str]:
        """The name of every origin that came or is in the plan."""
        return {row["origin"]: row["emitter"] for row in self.buffers} | (
            {} if self.plan is None else self.plan.emitters
        )

    @property
    def end_ms(self) -> int | None:
        """When its sources were to end (clock); None: not known."""
        return None if self.scenario is None else self.scenario.start_ms + self.scenario.duration_ms

    @property
    def span(self) -> tuple[int, int]:
        """From when to when the run lasts (clock): as planned, or to the last buffer if that is later."""
        begin_ms = self.buffers[0]["arrived_ms"] if self.scenario is None else self.scenario.start_ms
        return begin_ms, max(begin_ms, self.end_ms or begin_ms, *(row["arrived_ms"] for row in self.buffers[-1:]))

    @property
    def operators(self) -> Iterable[str]:
        """The operators that follow progress."""
        return dict.fromkeys(row["operator"] for row in self.buffers) if self.plan is None else self.plan.inputs

    def operator(self, named: str | None) -> str:
        """The operator that is named, or the last windows or the sink. Raises `RecordingError` for one that is not."""
        if named is None:
            return last_of(self.operators) if self.plan is None else self.plan.last
        if named not in self.operators:
            raise RecordingError(
                f"query {self.name!r} has no operator {named!r} that follows progress.",
                remedy=f"name one of {', '.join(self.operators)}.",
            )
        return named

    def origins(self, operator: str) -> Sequence[int]:
        """The origins that an operator has declared; where no plan tells, as many as it says, those that came first."""
        if self.plan is not None:
            return self.plan.inputs[operator]
        arrivals = self.arrivals(operator)
        return guessed_origins((row["origin"] for row in arrivals), arrivals[0]["origins"])

    def arrivals(self, operator: str) -> list[Mapping[str, Any]]:
        """The buffers that arrived at an operator, in their order."""
        return [row for row in self.buffers if row["operator"] == operator]

    def fate(self, source: str, sequence: int, at_ms: int) -> Fate:
        """What has become of a sequence of a source at a moment; of several faults it is a loss, or what ends last."""
        faults = [fate for fate in self.faults.get((source, sequence), ()) if fate.lasts(at_ms)]
        if faults:
            return min(faults, key=lambda fate: (_ORDER.index(fate.state), -(fate.until_ms or 0), fate.since_ms))
        sent_ms = self.sent.get((source, sequence))
        if sent_ms is not None and sent_ms <= at_ms:
            return Fate(State.ON_ITS_WAY, sent_ms)
        # A buffer that had begun before a silence is flushed in it: what is ever sent, or lost then, is not held by it.
        for silence in self.faults.get((source, _ITSELF), ()):
            if silence.lasts(at_ms) and sent_ms is None and (source, sequence) not in self.faults:
                return silence
        if self.end_ms is None:
            return Fate(State.MISSING)
        return Fate(State.ENDED, self.end_ms) if at_ms >= self.end_ms else Fate(State.NOT_SENT)


def _faults(
    incidents: Sequence[Mapping[str, Any]], scenario: ProgressScenario | None
) -> dict[tuple[str, int], list[Fate]]:
    """What the script did that keeps sequences back; without it nobody knows until when one is delayed, or held."""
    faults: dict[tuple[str, int], list[Fate]] = defaultdict(list)
    for row in incidents:
        (source, *numbers), at_ms = row["target"].split(" "), row["at_ms"]
        match row["kind"]:
            case "silence":
                faults[source, _ITSELF].append(Fate(State.SILENT, at_ms))
            case "loss":
                faults[source, int(numbers[0])].append(Fate(State.LOST, at_ms))
            case "delay" if scenario is not None:
                by_ms = next(
                    act.by_ms
                    for act in scenario.script
                    if isinstance(act, DelayBuffer)
                    and target_name(act.source, act.sequence, act.chunk) == row["target"]
                )
                faults[source, int(numbers[0])].append(Fate(State.DELAYED, at_ms, at_ms + by_ms))
            case "held" if scenario is not None:
                worker = int(numbers[-1])
                stalls = [act for act in scenario.script if isinstance(act, StallWorker) and act.worker == worker]
                begun = [act for act in stalls if scenario.start_ms + act.at_ms <= at_ms]
                until_ms = scenario.start_ms + max(act.at_ms + act.for_ms for act in begun)
                faults[source, int(numbers[0])].append(Fate(State.STALLED, at_ms, until_ms, worker))
    return faults
