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

from wmlab.core.answers import Answer, Stragglers, Stretch, stragglers_from
from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording, the_only
from wmlab.core.words import clock_words, counted, listed, moment
from wmlab.progress.model.chunks import MEANING
from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import BlockingOrigin, ProgressRules, ProgressTracker, blocking, guessed_origins
from wmlab.progress.scenario import (
    BUILD,
    SCAN,
    DelayBuffer,
    Origins,
    ProgressScenario,
    StallWorker,
    last_of,
    origins_of,
    tracker_rules_of,
)
from wmlab.progress.sim.records import target_name

_SILENT: Final = "it had sent nothing complete"
_GAP: Final = "a gap, behind which buffers wait"
_SLOWEST: Final = "nothing newer had come of it"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgressExplanation(Answer):
    """What holds the global watermark of an operator of a query at `at_ms` (processing time).

    `watermark` is None while it is unknown; `since_ms` is when it last moved, None: never. `origins` are those whose
    local watermark is the global one, each with what has to come before it moves; `emitters` are their names, and
    `faults` what the script did to that (None: nothing). Where one of them is an operator that has nothing more to
    give, `upstream` has what holds the watermark there.
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
    for row in incidents:
        if row["target"] in targets:
            begun = clock_words(row["at_ms"])
            match row["kind"]:
                case "loss":
                    return f", which was lost at {begun} and never comes"
                case "delay":
                    by_ms = _delay_ms(scenario, row["target"])
                    return f", which was delayed at {begun}" + (
                        "" if by_ms is None else f" until {clock_words(row['at_ms'] + by_ms)}"
                    )
                case "silence":
                    return f" and is silent from {begun} on"
                case "held":
                    worker = on_workers[row["target"]]
                    return f", held by worker {worker}, which stands still until {clock_words(stalled[worker])}"
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


def _stretches(
    rows: Sequence[Mapping[str, Any]], rules: ProgressRules, emitters: Mapping[int, str]
) -> Iterator[Stretch]:
    """What held the watermark between each arrival and the next."""
    ends_ms = [row["arrived_ms"] for row in rows[1:]]
    tracker = ProgressTracker(list(emitters), rules)
    for row, end_ms in zip(rows, ends_ms, strict=False):
        tracker.step(stamp_of(row), row["arrived_ms"])
        if row["arrived_ms"] == end_ms:
            continue
        local = {origin: progress.local for origin, progress in tracker.origins.items()}
        blockers = blocking(local, tracker.watermark)
        others = [value for value in local.values() if value is not None and value != tracker.watermark]
        by_ms = min(others) - tracker.watermark if others and tracker.watermark is not None else None
        for origin in blockers:
            why = _GAP if tracker.origins[origin].beyond else _SILENT if local[origin] is None else _SLOWEST
            yield Stretch((emitters[origin],), why, row["arrived_ms"], end_ms, by_ms, len(blockers))


def operator_of(
    recording: Recording, stream: str | None, operator: str | None = None
) -> tuple[str, str, list[dict[str, Any]]]:
    """A query, the operator that is named or whose watermark is the query's, and the buffers that arrived there.

    That is the build of the last windows or, without windows, the sink. Raises `RecordingError` for a query or an
    operator that is not there, and if there are several queries and none is named.
    """
    plans = _plans(recording)
    buffers = recording.table("buffers").to_pylist()
    query = the_only(recording, stream, sorted({*plans, *(row["stream"] for row in buffers)}), "query", "queries")
    of_query = [row for row in buffers if row["stream"] == query]
    planned = plans.get(query)
    known = dict.fromkeys(row["operator"] for row in of_query) if planned is None else planned.inputs
    if operator is None:
        operator = last_of(known) if planned is None else planned.last
    elif operator not in known:
        remedy = f"name one of {', '.join(known)}."
        raise RecordingError(f"query {query!r} has no operator {operator!r} that follows progress.", remedy=remedy)
    arrivals = sorted((row for row in of_query if row["operator"] == operator), key=itemgetter("arrival"))
    return query, operator, arrivals


def explain_plan(
    recording: Recording,
    at_ms: int | str | None = None,
    *,
    reader: str | None = None,
    stream: str | None = None,
    operator: str | None = None,
) -> ProgressExplanation | Stragglers:
    """What holds the global watermark of a query at `at_ms` (processing time), or who held it over the run.

    It is that at `operator`, by default the build of the last windows or, without windows, the sink. `stream` names the
    query and is needed when there are several. Raises `RecordingError` for a query or an operator that is not there,
    for a reader, which no query plan has, for a moment that is not a whole number, and where nothing had come.
    """
    if reader is not None:
        raise RecordingError(f"Reader {reader!r} is named; query plans have none.", remedy="leave the reader out.")
    at_ms = None if at_ms is None else the_moment(at_ms, start_ms=recording.start_ms)
    query, operator, arrivals = operator_of(recording, stream, operator)
    planned = _plans(recording).get(query)
    rows = [row for row in recording.table("buffers").to_pylist() if row["stream"] == query]
    emitters = {row["origin"]: row["emitter"] for row in rows} | ({} if planned is None else planned.emitters)
    if at_ms is not None:
        return _explained_at(recording, query, operator, at_ms, emitters)
    if not arrivals:
        raise RecordingError(f"no buffer of query {query!r} had come.", remedy="ask for a query that has some.")
    declared = {row["origin"] for row in arrivals} if planned is None else planned.inputs[operator]
    rules = tracker_rules_of(recording) or ProgressRules(chunk_base=arrivals[0]["chunk_base"])
    stretches = _stretches(arrivals, rules, {origin: emitters[origin] for origin in declared})
    run_ms = arrivals[-1]["arrived_ms"] - arrivals[0]["arrived_ms"]
    notes = _literal_note(tracker_rules_of(recording))
    return stragglers_from(stretches, stream=query, run_ms=run_ms, bound="global watermark", notes=notes)


def _explained_at(
    recording: Recording, query: str, operator: str, at_ms: int, emitters: Mapping[int, str]
) -> ProgressExplanation:
    """What holds the watermark at an operator and, where it waits for other operators, at those."""
    causes = blocking_origins_at(recording, query=query, at_ms=at_ms, operator=operator)
    buffers = recording.table("buffers").to_pylist()
    come = {row["operator"] for row in buffers if row["stream"] == query and row["arrived_ms"] <= at_ms}
    # An operator of which a buffer is on its way has given what it had; one that has given nothing more waits itself.
    silent = [cause.origin for cause in causes if not cause.started and not cause.waiting]
    operators = [emitters[origin] for origin in silent if emitters.get(origin) in come]
    upstream = tuple(_explained_at(recording, query, name, at_ms, emitters) for name in operators)
    incidents = [row for row in recording.table("incidents").to_pylist() if row["stream"] == query]
    until = [row for row in incidents if row["at_ms"] <= at_ms]
    scenario, first = recording.scenario_as(ProgressScenario), causes[0]
    names = tuple(emitters.get(cause.origin, "unheard of") for cause in causes)
    faults = tuple(_fault_of(cause, name, at_ms, until, scenario) for cause, name in zip(causes, names, strict=True))
    since = "" if first.since_ms is None else f" since {clock_words(first.since_ms)}"
    stands = "unknown" if first.watermark is None else f"held at {clock_words(first.watermark, clock_ms=at_ms)}"
    lacks = [
        f"{name} (origin {cause.origin}) {cause.lack}{fault or ''}"
        for cause, name, fault in zip(causes, names, faults, strict=True)
    ]
    waiting = sum(cause.waiting for cause in causes)
    behind = f"{counted(waiting, 'buffer')} {'waits' if waiting == 1 else 'wait'}" if waiting else "No buffer waits"
    sentence = f"The global watermark of {query} at {operator} is {stands}{since}: {listed(lacks)}. {behind} behind it."
    return ProgressExplanation(
        at_ms=at_ms,
        stream=query,
        operator=operator,
        watermark=first.watermark,
        since_ms=first.since_ms,
        origins=causes,
        emitters=names,
        faults=faults,
        upstream=upstream,
        sentence=" ".join([sentence, *(explanation.sentence for explanation in upstream)]),
    )


def _literal_note(rules: ProgressRules | None) -> list[str]:
    """What the literal rule does to chunks that are numbered from 0."""
    if rules is None or (rules.complete, rules.chunk_base) != ("literal", 0):
        return []
    return [f"By the rule 'literal' a sequence is complete when {MEANING['literal']}."]


def _plans(recording: Recording) -> dict[str, Origins]:
    """The origins of each query of the recorded scenario; none where the recording does not tell it."""
    scenario = recording.scenario_as(ProgressScenario)
    return {} if scenario is None else {query.name: origins_of(query) for query in scenario.queries}


def blocking_origins_at(
    recording: Recording, *, query: str, at_ms: int | str, operator: str = BUILD, rules: ProgressRules | None = None
) -> tuple[BlockingOrigin, ...]:
    """What held the global watermark of an operator at a processing time: one `BlockingOrigin` per origin at its value.

    `rules` are those of the recording's scenario by default. Where no scenario tells the declared origins, they are
    taken to be those that ever came and, up to as many as the table says, the smallest others. Raises `RecordingError`
    if nothing had come by then.
    """
    at_ms = the_moment(at_ms, start_ms=recording.start_ms)
    buffers = recording.table("buffers").to_pylist()
    arrivals = [row for row in buffers if row["stream"] == query and row["operator"] == operator]
    rows = sorted((row for row in arrivals if row["arrived_ms"] <= at_ms), key=lambda row: int(row["arrival"]))
    planned = _plans(recording).get(query)
    origins = None if planned is None else planned.inputs.get(operator)
    # Behind operators to which something has come, an operator to which nothing has waits for them.
    at_others = [row for row in buffers if row["stream"] == query and row["operator"] != SCAN]
    if not rows and (origins is None or all(row["arrived_ms"] > at_ms for row in at_others)):
        raise RecordingError(
            f"no buffer of query {query!r} had come to {operator!r} by {moment(at_ms)}.",
            remedy="ask for a query and an operator of the table 'buffers', and a later time.",
        )
    if origins is None:
        origins = tuple(guessed_origins((row["origin"] for row in arrivals), rows[0]["origins"]))
    rules = rules or tracker_rules_of(recording) or ProgressRules(chunk_base=rows[0]["chunk_base"])
    tracker = ProgressTracker(origins, rules)
    for row in rows:
        tracker.step(stamp_of(row), row["arrived_ms"])
    return tracker.blocking_origins()
