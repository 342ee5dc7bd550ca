"""What holds the global watermark of an operator: at a moment, and over a whole run.

Both answers come from one walk over the recorded buffers, see `wmlab.progress.answers.walk`.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wmlab.core.charts.scene import longest_known
from wmlab.core.errors import RecordingError
from wmlab.core.facts import FactAnswer, Facts, Value
from wmlab.core.holders import Holders, Stretch, holders_of, holders_over
from wmlab.core.recording import Recording, moment_of_run, never_happened
from wmlab.progress.answers.recorded_query import RecordedQuery
from wmlab.progress.answers.vocabulary import LABELS, MEANINGS, OF_STATE, OF_WATERMARK, State
from wmlab.progress.answers.walk import QueryWalk
from wmlab.progress.model.chunks import LITERALLY


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgressExplanation(FactAnswer):
    """What holds the global watermark of an operator of a query at a moment; see `LABELS` of the vocabulary."""

    at_ms: int
    facts: Facts
    templates: tuple[str, ...]


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
    there, for a reader, which no query plan has, and for anything but a moment of the run. `answer.facts` has
    everything that is known as typed values. Over the whole run that is the longest stop of the watermark, and which
    faults of the script never happened.
    """
    if reader is not None:
        raise RecordingError(f"Reader {reader!r} is named; query plans have none.", remedy="leave the reader out.")
    query = RecordedQuery.of(recording, stream)
    if at_ms is not None:
        at_ms = moment_of_run(recording, at_ms, last_ms=query.span[1])
    operator = query.operator(operator)
    walk = QueryWalk(query, operator)
    if at_ms is not None:
        walk.to(at_ms)
        return _explained(query, operator, walk)
    begin_ms, end_ms = query.span
    stretches = list(walk.stretches(begin_ms, end_ms))
    return holders_over(
        stretches,
        stream=query.name,
        span=(begin_ms, end_ms),
        bound=f"global watermark of {query.name}",
        also={
            **_longest_stop(query.arrivals(operator), end_ms, stretches),
            "complete when": LITERALLY if (query.rules.complete, query.rules.chunk_base) == ("literal", 0) else None,
            "never happened": tuple(never_happened(recording, query.name)),
        },
        meanings=MEANINGS,
    )


def _longest_stop(arrivals: Sequence[Mapping[str, Any]], end_ms: int, stretches: Sequence[Stretch]) -> dict[str, Value]:
    """The longest time for which a watermark kept one known value, and who held it longest in that time."""
    at_ms, reached = ([row[name] for row in arrivals] for name in ("arrived_ms", "reached"))
    stop = longest_known([*at_ms, end_ms], [*reached, *reached[-1:]])
    if stop is None:
        return {}
    within = (
        replace(each, from_ms=max(each.from_ms, stop.from_ms), to_ms=min(each.to_ms, stop.to_ms))
        for each in stretches
        if each.from_ms < stop.to_ms and each.to_ms > stop.from_ms
    )
    first = holders_of(within)[0]
    return {
        "longest stop": stop.length_ms,
        "from": stop.from_ms,
        "to": stop.to_ms,
        "at": stop.value,
        "stop held by": first.who,
        "stop cause": first.why,
    }


def _explained(query: RecordedQuery, operator: str, walk: QueryWalk) -> ProgressExplanation:
    """What holds the watermark of an operator where a walk has come to."""
    holders, others, tracker = walk.holders(), walk.others(), walk.tracker
    states = [holding.fate.state for holding in holders]
    facts = Facts(
        LABELS,
        {
            "moment": walk.at_ms,
            "query": query.name,
            "operator": operator,
            "watermark": tracker.watermark,
            "watermark since": tracker.moved_ms,
            "holder": tuple(holding.name for holding in holders),
            "holder state": tuple(state.value for state in states),
            "holder since": tuple(holding.fate.since_ms for holding in holders),
            "holder until": tuple(holding.fate.until_ms for holding in holders),
            "worker": tuple(holding.fate.worker for holding in holders),
            "missing at": tuple(holding.operator for holding in holders),
            "missing sequence": tuple(holding.sequence for holding in holders),
            "missing chunks": tuple(holding.chunks for holding in holders),
            "waiting behind": tuple(holding.waiting for holding in holders),
            "rule": query.rules.complete if State.NOT_COMPLETE in states else None,
            "others": tuple(name for _, name in others),
            "others at": tuple(local for local, _ in others),
        },
        clock_ms=walk.at_ms,
    )
    return ProgressExplanation(at_ms=walk.at_ms, facts=facts, templates=facts.chosen(OF_STATE[states[0]], OF_WATERMARK))
