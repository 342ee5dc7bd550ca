"""What held a stream's lower bound over a whole run, and for how long.

Source: PDP-33, Periodic Watermark Workflow; the causes are those of `wmlab.streams.answers.cause`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow.compute as pc

from wmlab.core.facts import Facts, Value
from wmlab.core.holders import Holders, Stretch, holders_of, meanings_of
from wmlab.core.recording import Recording, planned_span
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.cause import CauseSpan, held_by
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.stops import of_stops
from wmlab.streams.answers.together import streams_apart
from wmlab.streams.answers.vocabulary import LABELS, MEANINGS, OF_RUN, OF_RUN_NEXT, CauseKind

_TIMED: Final = ("segments", "writer_marks", "cycles", "events", "positions", "windows")


def stragglers_of(recording: Recording, stream: str) -> Holders:
    """Who held the stream's lower bound from its creation to the end of the run, or its deletion.

    At every moment one cause holds the bound. A run ends when its scenario does; one of the outside world, or one that
    was stopped, with the last thing recorded.
    """
    start_ms, end_ms = run_of(recording, stream)
    curves = Curves(recording, stream)
    longest_first = holders_of(_stretches(curves.spans(LOG, start_ms=start_ms, end_ms=end_ms)))
    # That the next cycle is awaited is what a healthy run is held by.
    holders = tuple(sorted(longest_first, key=lambda holder: holder.why == CauseKind.PERIOD))
    at_end = curves.state_at(end_ms)
    fate = {"sealed at": at_end.sealed_ms, "deleted at": at_end.deleted_ms}
    of_run = {**of_stops(curves, end_ms), **_refused(curves), **_of_script(recording, curves), **fate}
    facts = Facts(LABELS, of_run, clock_ms=start_ms)
    return Holders(
        stream=stream,
        run_ms=end_ms - start_ms,
        holders=holders,
        facts=facts,
        templates=facts.chosen(OF_RUN, OF_RUN_NEXT),
        meanings=meanings_of(holders, MEANINGS),
    )


def _refused(curves: Curves) -> Mapping[str, Value]:
    """Whose notes were refused, and why the last one of each was."""
    rows = sorted(curves.tables.rows("writer_marks"), key=lambda row: int(row["received_ms"]))
    refused = dict(sorted({row["writer"]: row["outcome"] for row in rows if row["outcome"] != "success"}.items()))
    return {"refused": tuple(refused), "refused as": tuple(refused.values())}


def _of_script(recording: Recording, curves: Curves) -> Mapping[str, Value]:
    """What never came, and streams that are read together without common times."""
    incidents = curves.tables.rows("incidents")
    together = (streams for streams, _ in streams_apart(recording).values() if curves.tables.stream in streams)
    return {
        "never came": tuple(row["detail"] for row in incidents if row["outcome"] == NEVER_HAPPENED),
        "streams apart": next(together, None),
    }


def _stretches(spans: Iterable[CauseSpan]) -> Iterator[Stretch]:
    """A stretch for each party of each span."""
    for span in spans:
        for who in held_by(span.cause):
            yield Stretch(who, span.cause.kind.value, span.from_ms, span.to_ms)


def run_of(recording: Recording, stream: str) -> tuple[int, int]:
    """From the creation of the stream to its deletion, the end of its finished scenario, or the last row (clock)."""
    times: list[int] = []
    for name in _TIMED:
        when = recorded.CLOCKS[name]
        for chunk in recording.chunks(name, "stream", when):
            column = recorded.of_stream(chunk, stream)[when]
            times += pc.min_max(column).as_py().values() if len(column) else []
    end_ms = recorded.deleted_ms(recording, stream)
    if end_ms is None and (planned := planned_span(recording)) is not None:
        end_ms = planned[1]
    return min(times, default=0), max(times, default=0) if end_ms is None else end_ms
