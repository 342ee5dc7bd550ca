"""What holds the global watermark of an operator: at a moment, and over a whole run.

Both answers come from the tracker, which takes the recorded buffers again in their order: it knows the sequence and the
chunks that are missing.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from wmlab.core.answers import Answer
from wmlab.core.errors import RecordingError
from wmlab.core.holders import Holders, Stretch, holders_over
from wmlab.core.recording import Recording, moment_of_run, never_happened, planned_span, the_only
from wmlab.core.words import clock_words, counted, listed
from wmlab.progress.model.chunks import MEANING
from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import (
    BlockingOrigin,
    ProgressRules,
    ProgressTracker,
    blocking,
    guessed_origins,
)
from wmlab.progress.scenario import (
    BUILD,
    DelayBuffer,
    Origins,
    ProgressScenario,
    StallWorker,
    last_of,
    origins_of,
    tracker_rules,
)
from wmlab.progress.sim.records import target_name

_SILENT: Final = "it had sent nothing complete"
_GAP: Final = "a gap, behind which buffers wait"
_UNHEARD: Final = "unheard of"
_SLOWEST: Final = "nothing newer had come of it"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgressExplanation(Answer):
    """What holds the global watermark of an operator of a query at `at_ms` (processing time).

    `watermark` is None while it is unknown; `since_ms` is when it last moved, None: never. `origins` are those whose
    local watermark is the global one, each with the buffer that must arrive before it moves; `emitters` are their
    names, and `faults` the faults of the script that affect this buffer (None: none). If one of them is an operator
    without further output, `upstream` explains what holds the watermark there.
    """

    at_ms: int
    stream: str
    operator: str
    watermark: int | None
    since_ms: int | None
    origins: tuple[BlockingOrigin, ...]
    emitters: tuple[str, ...]
    faults: tuple[str | None, ...]
    upstream: tuple[ProgressExplanation, ...]
    sentence: str


def _fault_of(
    cause: BlockingOrigin,
    emitter: str,
    at_ms: int,
    incidents: Sequence[Mapping[str, Any]],
    scenario: ProgressScenario | None,
) -> str | None:
    """What the script did to that which an origin lacks, as a phrase that follows it; None: nothing.

    `incidents` are those of the query up to the moment; without the scenario the end of a delay is not known.
    """
    stalled = _stalled_until(scenario, at_ms)
    on_workers = {target_name(emitter, cause.sequence, worker=worker): worker for worker in stalled}
    targets = [emitter, *(target_name(emitter, cause.sequence, chunk) for chunk in (None, *cause.chunks)), *on_workers]
    # The phrase before it names the sequence that is missing, or the one before that.
    which = ", which" if cause.started or cause.waiting else f": sequence {cause.sequence}"
    for row in incidents:
        if row["target"] in targets:
            begun = clock_words(row["at_ms"])
            match row["kind"]:
                case "loss":
                    return f"{which} was lost at {begun} and never comes"
                case "delay":
                    by_ms = _delay_ms(scenario, row["target"])
                    return f"{which} was delayed at {begun}" + (
                        "" if by_ms is None else f" until {clock_words(row['at_ms'] + by_ms)}"
                    )
                case "silence":
                    return f" and is silent from {begun} on"
                case "held":
                    worker = on_workers[row["target"]]
                    return (
                        f"{which} is held by worker {worker}, which stands still until {clock_words(stalled[worker])}"
                    )
    return None


def _stalled_until(scenario: ProgressScenario | None, at_ms: int) -> dict[int, int]:
    """When each worker that stands still at `at_ms` goes on."""
    until: dict[int, int] = {}
    if scenario is None:
        return until
    for action in scenario.script:
        if isinstance(action, StallWorker):
            begin_ms = scenario.start_ms + action.at_ms
            if begin_ms <= at_ms < begin_ms + action.for_ms:
                until[action.worker] = max(until.get(action.worker, 0), begin_ms + action.for_ms)
    return until


def _delay_ms(scenario: ProgressScenario | None, target: str) -> int | None:
    """By how much the script delays the buffer or chunk of this name; None: not known."""
    for action in () if scenario is None else scenario.script:
        if isinstance(action, DelayBuffer) and target_name(action.source, action.sequence, action.chunk) == target:
            return action.by_ms
    return None


class _QueryWalk:
    """The trackers of an operator of a query and of all operators before it, buffer by buffer."""

    def __init__(self, of_query: _RecordedQuery, operator: str) -> None:
        self._query, self._operator = of_query, operator
        self._trackers: dict[str, ProgressTracker] = {}
        operators = [operator]
        for name in operators:
            origins = of_query.origins(name)
            self._trackers[name] = ProgressTracker(origins, of_query.rules_of(name))
            before = [of_query.emitters[origin] for origin in origins if origin in of_query.emitters]
            operators += [other for other in before if of_query.is_operator(other) and other not in operators]

    def stretches(self, begin_ms: int, end_ms: int) -> Iterator[Stretch]:
        """What holds the watermark between each arrival and the next."""
        rows = [row for row in self._query.buffers if row["operator"] in self._trackers]
        from_ms = begin_ms
        for row in sorted(rows, key=itemgetter("arrived_ms", "arrival")):
            if row["arrived_ms"] > from_ms:
                yield from self._stretches(from_ms, row["arrived_ms"])
                from_ms = row["arrived_ms"]
            self._trackers[row["operator"]].step(stamp_of(row), row["arrived_ms"])
        if end_ms > from_ms:
            yield from self._stretches(from_ms, end_ms)

    def _stretches(self, from_ms: int, to_ms: int) -> Iterator[Stretch]:
        for who, why in dict.fromkeys(self._holders(self._operator)):
            yield Stretch(who, why, from_ms, to_ms)

    def _holders(self, operator: str) -> Iterator[tuple[str, str]]:
        """Who holds the watermark of an operator, and why; for an operator that has nothing more, what holds that."""
        tracker = self._trackers[operator]
        local = {origin: progress.local for origin, progress in tracker.origins.items()}
        for origin in blocking(local, tracker.watermark):
            progress, emitter = tracker.origins[origin], self._query.emitters.get(origin, _UNHEARD)
            if not progress.beyond and emitter in self._trackers:
                yield from self._holders(emitter)
            else:
                yield emitter, _GAP if progress.beyond else _SILENT if progress.local is None else _SLOWEST


def operator_of(
    recording: Recording, stream: str | None, operator: str | None = None
) -> tuple[str, str, list[Mapping[str, Any]]]:
    """A query, the operator that is named or whose watermark is the query's, and the buffers that arrived there.

    That is the build of the last windows or, without windows, the sink. Raises `RecordingError` for a query or an
    operator that is not there, and if there are several queries and none is named.
    """
    of_query = _RecordedQuery.of(recording, _the_query(recording, stream))
    operator = of_query.operator(operator)
    return of_query.name, operator, of_query.arrivals(operator)


def _the_query(recording: Recording, stream: str | None) -> str:
    scenario = recording.scenario_as(ProgressScenario)
    planned = () if scenario is None else (query.name for query in scenario.queries)
    arrived = recording.table("buffers")["stream"].unique().to_pylist()
    return the_only(recording, stream, sorted({*planned, *arrived}), "query", "queries")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedQuery:
    """What a recording has of the query called `name`; its plan and its scenario are None where it does not tell."""

    name: str
    buffers: Sequence[Mapping[str, Any]]
    incidents: Sequence[Mapping[str, Any]]
    plan: Origins | None
    scenario: ProgressScenario | None

    @classmethod
    def of(cls, recording: Recording, name: str) -> _RecordedQuery:
        """The rows of a query, empty for one that is not there."""
        scenario = recording.scenario_as(ProgressScenario)
        queries = () if scenario is None else scenario.queries
        buffers, incidents = (
            [row for row in recording.table(table).to_pylist() if row["stream"] == name]
            for table in ("buffers", "incidents")
        )
        plan = next((origins_of(query) for query in queries if query.name == name), None)
        return cls(name=name, buffers=buffers, incidents=incidents, plan=plan, scenario=scenario)

    @property
    def rules(self) -> ProgressRules | None:
        """The rules of the trackers, as far as the scenario tells them."""
        return None if self.scenario is None else tracker_rules(self.scenario.resolved)

    @property
    def emitters(self) -> dict[int, str]:
        """The name of every origin that came or is in the plan."""
        planned = {} if self.plan is None else self.plan.emitters
        return {row["origin"]: row["emitter"] for row in self.buffers} | planned

    def operator(self, named: str | None) -> str:
        """The operator that is named, or the last windows or the sink. Raises `RecordingError` for one that is not."""
        known = dict.fromkeys(row["operator"] for row in self.buffers) if self.plan is None else self.plan.inputs
        if named is None:
            return last_of(known) if self.plan is None else self.plan.last
        if named not in known:
            remedy = f"name one of {', '.join(known)}."
            raise RecordingError(f"query {self.name!r} has no operator {named!r} that follows progress.", remedy=remedy)
        return named

    @property
    def moments(self) -> list[int]:
        """When buffers arrived at any operator (clock, ms)."""
        return [row["arrived_ms"] for row in self.buffers]

    def is_operator(self, emitter: str) -> bool:
        """Whether an emitter is an operator that follows progress itself, and no source."""
        return emitter in ({row["operator"] for row in self.buffers} if self.plan is None else self.plan.inputs)

    def origins(self, operator: str) -> Sequence[int]:
        """The origins that an operator has declared; where no plan tells, as many as it says, those that came first.

        Raises `RecordingError` if neither the plan nor a buffer tells.
        """
        if self.plan is not None and operator in self.plan.inputs:
            return self.plan.inputs[operator]
        arrivals = self.arrivals(operator)
        if not arrivals:
            raise RecordingError(
                f"no buffer of query {self.name!r} had come to {operator!r}.",
                remedy="ask for a query and an operator of the table 'buffers'.",
            )
        return guessed_origins((row["origin"] for row in arrivals), arrivals[0]["origins"])

    def rules_of(self, operator: str) -> ProgressRules:
        """The rules of the tracker of an operator; without a scenario only the base of chunks is known."""
        bases = [row["chunk_base"] for row in self.arrivals(operator)[:1]]
        return self.rules or (ProgressRules(chunk_base=bases[0]) if bases else ProgressRules())

    def arrivals(self, operator: str) -> list[Mapping[str, Any]]:
        """The buffers that arrived at an operator, in their order."""
        return sorted((row for row in self.buffers if row["operator"] == operator), key=itemgetter("arrival"))


def explain_plan(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    reader: str | None = None,
    stream: str | None = None,
    operator: str | None = None,
) -> ProgressExplanation | Holders:
    """Explain what holds the global watermark of a query at `at_ms` (processing time), or what held it over the run.

    It is the watermark at `operator`, by default the build of the last windows or, without windows, the sink. `stream`
    names the query and is needed when there are several. Raises `RecordingError` for a query or an operator that is not
    there, for a reader, which no query plan has, for anything but a moment of the run, and if the origins are unknown.
    Over the whole run it says which faults of the script never happened.
    """
    if reader is not None:
        raise RecordingError(f"Reader {reader!r} is named; query plans have none.", remedy="leave the reader out.")
    of_query = _RecordedQuery.of(recording, _the_query(recording, stream))
    if at_ms is not None:
        at_ms = moment_of_run(recording, at_ms, last_ms=max(of_query.moments, default=None))
    operator = of_query.operator(operator)
    if at_ms is not None:
        return _explained_at(of_query, operator, at_ms)
    begin_ms, end_ms = planned_span(recording) or (min(of_query.moments, default=0), 0)
    end_ms = max([end_ms, *of_query.moments])
    rules = of_query.rules
    is_literal = rules is not None and (rules.complete, rules.chunk_base) == ("literal", 0)
    return holders_over(
        _QueryWalk(of_query, operator).stretches(begin_ms, end_ms),
        stream=of_query.name,
        span=(begin_ms, end_ms),
        bound=f"global watermark of {of_query.name}",
        also={
            "complete when": MEANING["literal"] if is_literal else None,
            "never happened": tuple(never_happened(recording, of_query.name)),
        },
    )


def _waiting(buffers: int) -> str:
    """How many buffers wait behind what is missing."""
    return f"{counted(buffers, 'buffer')} {'waits' if buffers == 1 else 'wait'} behind it"


def _explained_at(of_query: _RecordedQuery, operator: str, at_ms: int) -> ProgressExplanation:
    """What holds the watermark at an operator and, where it waits for other operators, at those."""
    causes, emitters = _blocking_origins(of_query, operator, at_ms), of_query.emitters
    # An operator of which a buffer is on its way has given what it had; one that has given nothing more waits itself.
    silent = [cause.origin for cause in causes if not cause.started and not cause.waiting]
    operators = [emitters[origin] for origin in silent if of_query.is_operator(emitters.get(origin, ""))]
    upstream = tuple(_explained_at(of_query, name, at_ms) for name in operators)
    until = [row for row in of_query.incidents if row["at_ms"] <= at_ms]
    scenario, first = of_query.scenario, causes[0]
    names = tuple(emitters.get(cause.origin, _UNHEARD) for cause in causes)
    faults = tuple(_fault_of(cause, name, at_ms, until, scenario) for cause, name in zip(causes, names, strict=True))
    since = "" if first.since_ms is None else f" since {clock_words(first.since_ms)}"
    stands = "unknown" if first.watermark is None else f"held at {clock_words(first.watermark, clock_ms=at_ms)}"
    lacks = [
        f"{name} (origin {cause.origin}) {cause.lack}{fault or ''}"
        for cause, name, fault in zip(causes, names, faults, strict=True)
    ]
    waiting = sum(cause.waiting for cause in causes)
    behind = _waiting(waiting) if waiting else "No buffer waits behind it"
    where = f"{of_query.name} at {operator}"
    sentence = f"The global watermark of {where} is {stands}{since}: {listed(lacks)}. {behind}."
    return ProgressExplanation(
        at_ms=at_ms,
        stream=of_query.name,
        operator=operator,
        watermark=first.watermark,
        since_ms=first.since_ms,
        origins=causes,
        emitters=names,
        faults=faults,
        upstream=upstream,
        sentence=" ".join([sentence, *(explanation.sentence for explanation in upstream)]),
    )


def blocking_origins_at(
    recording: Recording, *, query: str, at_ms: int | str, operator: str = BUILD, rules: ProgressRules | None = None
) -> tuple[BlockingOrigin, ...]:
    """What held the global watermark of an operator at a processing time: a `BlockingOrigin` for each such origin.

    `rules` are those of the recording's scenario by default. Without a scenario, the declared origins are assumed to be
    those that ever sent a buffer and, up to the number in the table, the smallest others. Raises `RecordingError` for
    anything but a moment of the run, and if the origins are unknown.
    """
    of_query = _RecordedQuery.of(recording, query)
    at_ms = moment_of_run(recording, at_ms, last_ms=max(of_query.moments, default=None))
    return _blocking_origins(of_query, operator, at_ms, rules)


def _blocking_origins(
    of_query: _RecordedQuery, operator: str, at_ms: int, rules: ProgressRules | None = None
) -> tuple[BlockingOrigin, ...]:
    tracker = ProgressTracker(of_query.origins(operator), rules or of_query.rules_of(operator))
    for row in of_query.arrivals(operator):
        if row["arrived_ms"] <= at_ms:
            tracker.step(stamp_of(row), row["arrived_ms"])
    return tracker.blocking_origins()
