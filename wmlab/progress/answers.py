"""Why the global watermark of an operator stands where it does: at a moment, and over a whole run.

At a moment the answer comes from the tracker, replayed up to then: it knows the sequence and the chunks that are
missing. Over a run it comes from what the operator wrote down after each buffer.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

from wmlab.core.answers import Answer, Stragglers, Stretch, stragglers_from
from wmlab.core.arguments import the_moment
from wmlab.core.errors import RecordingError
from wmlab.core.overlap import TimeRange, apart_text, without_common_times
from wmlab.core.recording import Recording, the_only
from wmlab.core.words import counted, listed, moment
from wmlab.progress.model.chunks import MEANING
from wmlab.progress.model.numbers import stamp_of
from wmlab.progress.model.tracker import BlockingOrigin, ProgressRules, ProgressTracker, blocking, supposed_origins
from wmlab.progress.model.windows import SlidingWindows
from wmlab.progress.scenario import (
    BUILD,
    SINK,
    Join,
    Origins,
    ProgressScenario,
    Query,
    origins_of,
    tracker_rules_of,
)

_SILENT: Final = "it had sent nothing complete"
_GAP: Final = "a gap, behind which buffers wait"
_SLOWEST: Final = "nothing newer had come of it"
_OF_CAUSES: Final = ("origin", "sequence", "started", "chunks", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingEmitter:
    """An origin whose local watermark is the global one, and what has to come before it moves.

    `sequence` is the first that is not complete, `chunks` those known to be missing of it (the first ten), `started`
    whether any of it has come, `waiting` how many buffers came beyond the longest consecutive sequence.
    """

    origin: int
    emitter: str
    sequence: int
    started: bool
    chunks: tuple[int, ...]
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgressExplanation(Answer):
    """What holds the global watermark of an operator of a query at `at_ms` (processing time).

    `watermark` is None while it is unknown; `since_ms` is when it last moved, None: never.
    """

    at_ms: int
    stream: str
    operator: str
    watermark: int | None
    since_ms: int | None
    origins: tuple[BlockingEmitter, ...]
    sentence: str

    @classmethod
    def of(
        cls, causes: Sequence[BlockingOrigin], *, at_ms: int, stream: str, operator: str, emitters: Mapping[int, str]
    ) -> ProgressExplanation:
        """From the causes that a tracker gives, at least one; `emitters` names the origins."""
        first = causes[0]
        since = "" if first.since_ms is None else f" since {moment(first.since_ms)}"
        stands = "unknown" if first.watermark is None else f"held at {moment(first.watermark, clock_ms=at_ms)}"
        lacks = [f"{emitters[cause.origin]} (origin {cause.origin}) {cause.lack}" for cause in causes]
        waiting = sum(cause.waiting for cause in causes)
        behind = f"{counted(waiting, 'buffer')} {'waits' if waiting == 1 else 'wait'}" if waiting else "no buffer waits"
        return cls(
            at_ms=at_ms,
            stream=stream,
            operator=operator,
            watermark=first.watermark,
            since_ms=first.since_ms,
            origins=tuple(
                BlockingEmitter(emitter=emitters[cause.origin], **{name: getattr(cause, name) for name in _OF_CAUSES})
                for cause in causes
            ),
            sentence=f"global watermark of {stream} at {operator} {stands}{since}: {listed(lacks)}; {behind} behind it",
        )


def update_beyond(beyond: set[int], sequence: int, before: int, prefix: int) -> None:
    """Bring the sequence numbers beyond the longest consecutive sequence up to date after an arrival.

    By the arrival it grew from `before` to `prefix`.
    """
    if sequence > before:
        beyond.add(sequence)
    beyond.difference_update(range(before + 1, prefix + 1))


def _stretches(rows: Sequence[Mapping[str, Any]], emitters: Mapping[int, str]) -> Iterator[Stretch]:
    """What held the watermark between each arrival and the next."""
    local: dict[int, int | None] = dict.fromkeys(emitters)
    prefix = dict.fromkeys(emitters, 0)
    beyond: dict[int, set[int]] = {origin: set() for origin in emitters}
    for row, following in pairwise(rows):
        origin, reached = row["origin"], row["reached_prefix"]
        local[origin] = row["reached_local"]
        update_beyond(beyond[origin], row["sequence"], prefix[origin], reached)
        prefix[origin] = max(prefix[origin], reached)
        if row["arrived_ms"] == following["arrived_ms"]:
            continue
        blockers = blocking(local, row["reached"])
        others = [value for value in local.values() if value is not None and value != row["reached"]]
        by_ms = min(others) - row["reached"] if others and row["reached"] is not None else None
        for origin in blockers:
            why = _GAP if beyond[origin] else _SILENT if local[origin] is None else _SLOWEST
            yield Stretch((emitters[origin],), why, row["arrived_ms"], following["arrived_ms"], by_ms, len(blockers))


def operator_of(recording: Recording, stream: str | None) -> tuple[str, str, list[dict[str, Any]]]:
    """A query, the operator whose watermark decides, and the buffers that arrived there in their order.

    That is the build of windows or, without windows, the sink. Raises `RecordingError` for a query that is not there,
    and if there are several and none is named.
    """
    plans = _plans(recording)
    buffers = recording.table("buffers").to_pylist()
    query = the_only(recording, stream, sorted({*plans, *(row["stream"] for row in buffers)}), "query", "queries")
    of_query = [row for row in buffers if row["stream"] == query]
    planned = plans.get(query)
    known = {row["operator"] for row in of_query} if planned is None else planned.inputs
    operator = BUILD if BUILD in known else SINK
    arrivals = sorted((row for row in of_query if row["operator"] == operator), key=itemgetter("arrival"))
    return query, operator, arrivals


def explain_plan(
    recording: Recording, at_ms: int | str | None = None, *, reader: str | None = None, stream: str | None = None
) -> ProgressExplanation | Stragglers:
    """What holds the global watermark of a query at `at_ms` (processing time), or who held it over the run.

    It is that at the build of windows or, without windows, at the sink. `stream` names the query and is needed when
    there are several. Raises `RecordingError` for a query that is not there, for a reader, which no query plan has, for
    a moment that is not a whole number, and where nothing had come. Over the run it also says if the times of the sides
    of a join do not overlap.
    """
    if reader is not None:
        raise RecordingError(f"Reader {reader!r} is named; query plans have none.", remedy="leave the reader out.")
    at_ms = None if at_ms is None else the_moment(at_ms, start_ms=recording.start_ms)
    query, operator, arrivals = operator_of(recording, stream)
    planned = _plans(recording).get(query)
    rows = [row for row in recording.table("buffers").to_pylist() if row["stream"] == query]
    emitters = {row["origin"]: row["emitter"] for row in rows} | ({} if planned is None else planned.emitters)
    if at_ms is not None:
        blocking = blocking_origins_at(recording, query=query, at_ms=at_ms, operator=operator)
        named = {cause.origin: emitters.get(cause.origin, "unheard of") for cause in blocking}
        return ProgressExplanation.of(blocking, at_ms=at_ms, stream=query, operator=operator, emitters=named)
    if not arrivals:
        raise RecordingError(f"no buffer of query {query!r} had come.", remedy="ask for a query that has some.")
    declared = {row["origin"] for row in arrivals} if planned is None else planned.inputs[operator]
    stretches = _stretches(arrivals, {origin: emitters[origin] for origin in declared})
    run_ms = arrivals[-1]["arrived_ms"] - arrivals[0]["arrived_ms"]
    notes = [*_literal_note(tracker_rules_of(recording))]
    notes += [sentence for name, sentence in joins_apart(recording).items() if name == query]
    return stragglers_from(stretches, stream=query, run_ms=run_ms, bound="global watermark", notes=notes)


def _literal_note(rules: ProgressRules | None) -> list[str]:
    """What the literal rule does to chunks that are numbered from 0."""
    if rules is None or (rules.complete, rules.chunk_base) != ("literal", 0):
        return []
    return [f"By the rule 'literal' a sequence is complete when {MEANING['literal']}."]


def joins_apart(recording: Recording) -> dict[str, str]:
    """By query, those whose join has sides that no window could bring together, with a sentence of their times.

    Sides count whose buffers came at the same time; their times are those of the slices that hold a record.
    """
    scenario = recording.scenario_as(ProgressScenario)
    answers = {}
    for query in () if scenario is None else scenario.queries:
        if isinstance(query.window, Join):
            size, slide = query.window.size_ms, query.window.slide_ms
            windows = SlidingWindows(size, size if slide is None else slide)
            apart = without_common_times(_sides(recording, query, query.window, windows))
            if apart and windows.windows_of(apart[0].last)[-1] < windows.windows_of(apart[1].first)[0]:
                answers[query.name] = apart_text(f"the sides of the join of {query.name}", apart)
    return answers


def _sides(recording: Recording, query: Query, join: Join, windows: SlidingWindows) -> list[TimeRange]:
    """The times of the records that each side of a join has built, and when their buffers came."""
    sources = {origin: name for name, origin in origins_of(query).at_end.items()}
    left = join.left or (query.sources[0].name,)
    sides: list[list[Mapping[str, Any]]] = [[], []]
    for row in recording.table("buffers").to_pylist():
        if (row["stream"], row["operator"]) == (query.name, BUILD) and row["slices"]:
            sides[sources[row["origin"]] not in left].append(row)
    ranges = []
    for rows in sides:
        if rows:
            slices, arrived_ms = [start for row in rows for start in row["slices"]], [row["arrived_ms"] for row in rows]
            name = listed(list(dict.fromkeys(sources[row["origin"]] for row in rows)))
            last = windows.slice_of(max(slices))[1] - 1
            ranges.append(TimeRange(name, min(slices), last, min(arrived_ms), max(arrived_ms)))
    return ranges


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
    if not rows:
        raise RecordingError(
            f"no buffer of query {query!r} had come to {operator!r} by {moment(at_ms)}.",
            remedy="ask for a query and an operator of the table 'buffers', and a later time.",
        )
    planned = _plans(recording).get(query)
    origins = None if planned is None else planned.inputs.get(operator)
    if origins is None:
        origins = tuple(supposed_origins((row["origin"] for row in arrivals), rows[0]["origins"]))
    rules = rules or tracker_rules_of(recording) or ProgressRules(chunk_base=rows[0]["chunk_base"])
    tracker = ProgressTracker(origins, rules)
    for row in rows:
        tracker.step(stamp_of(row), row["arrived_ms"])
    return tracker.blocking_origins()
