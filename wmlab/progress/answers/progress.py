"""Why the global watermark of an operator stands where it does: at a moment, and over a whole run.

At a moment the answer comes from the tracker, replayed up to then: it knows the sequence and the chunks that are
missing. Over a run it comes from what the operator wrote down after each buffer.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wmlab.core.answers.answer import Answer
from wmlab.core.answers.stragglers import Stragglers, Stretch, stragglers_from
from wmlab.core.words import counted, listed, moment
from wmlab.progress.model.holding import Hold

_SILENT: Final = "it had sent nothing complete"
_GAP: Final = "a gap, behind which buffers wait"
_SLOWEST: Final = "nothing newer had come of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingOrigin:
    """An origin whose local watermark is the global one, and what has to come before it moves.

    `sequence` is the first that is not complete, `chunks` those known to be missing of it (the first ten), `started`
    whether any of it has come, `waiting` how many buffers came beyond the prefix.
    """

    origin: int
    emitter: str
    sequence: int
    started: bool
    chunks: tuple[int, ...]
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgressExplanation(Answer):
    """What holds the global watermark of an operator of a query at `at_ms` (clock, ms).

    `watermark` is None while it is unknown; `since_ms` is when it last moved, None: never.
    """

    at_ms: int
    stream: str
    operator: str
    watermark: int | None
    since_ms: int | None
    origins: tuple[HoldingOrigin, ...]
    sentence: str

    @classmethod
    def of(
        cls, holds: Sequence[Hold], *, at_ms: int, stream: str, operator: str, emitters: Mapping[int, str]
    ) -> ProgressExplanation:
        """From the holds of a tracker, at least one; `emitters` names the origins."""
        first = holds[0]
        since = "" if first.since_ms is None else f" since {moment(first.since_ms)}"
        stands = "unknown" if first.watermark is None else f"held at {moment(first.watermark)}"
        told = [f"{emitters[hold.origin]} (origin {hold.origin}) {hold.cause}" for hold in holds]
        waiting = sum(hold.waiting for hold in holds)
        behind = f"{counted(waiting, 'buffer')} {'waits' if waiting == 1 else 'wait'}" if waiting else "no buffer waits"
        return cls(
            at_ms=at_ms,
            stream=stream,
            operator=operator,
            watermark=first.watermark,
            since_ms=first.since_ms,
            origins=tuple(_origin(hold, emitters) for hold in holds),
            sentence=f"global watermark of {stream} at {operator} {stands}{since}: {listed(told)}; {behind} behind it",
        )


def _origin(hold: Hold, emitters: Mapping[int, str]) -> HoldingOrigin:
    return HoldingOrigin(
        origin=hold.origin,
        emitter=emitters[hold.origin],
        sequence=hold.sequence,
        started=hold.started,
        chunks=hold.chunks,
        waiting=hold.waiting,
    )


def progress_holders(rows: Sequence[Mapping[str, Any]], *, stream: str, emitters: Mapping[int, str]) -> Stragglers:
    """Who held the global watermark of one operator from the first buffer to the last, the most expensive first.

    `rows` are those of the table `buffers` at the operator, at least one; `emitters` names its declared origins.
    """
    ordered = sorted(rows, key=lambda row: int(row["arrival"]))
    run_ms = ordered[-1]["arrived_ms"] - ordered[0]["arrived_ms"]
    return stragglers_from(_stretches(ordered, emitters), stream=stream, run_ms=run_ms, bound="global watermark")


def _stretches(rows: Sequence[Mapping[str, Any]], emitters: Mapping[int, str]) -> Iterator[Stretch]:
    """What held the watermark between each arrival and the next."""
    local: dict[int, int | None] = dict.fromkeys(emitters)
    prefix = dict.fromkeys(emitters, 0)
    beyond: dict[int, Counter[int]] = {origin: Counter() for origin in emitters}
    for row, following in itertools.pairwise(rows):
        origin, reached = row["origin"], row["reached_prefix"]
        local[origin] = row["reached_local"]
        if row["sequence"] > prefix[origin]:
            beyond[origin][row["sequence"]] += 1
        for number in range(prefix[origin] + 1, reached + 1):
            beyond[origin].pop(number, None)
        prefix[origin] = max(prefix[origin], reached)
        if row["arrived_ms"] == following["arrived_ms"]:
            continue
        holding = [one for one, value in local.items() if value == row["reached"]]
        others = [value for value in local.values() if value is not None and value != row["reached"]]
        by_ms = min(others) - row["reached"] if others and row["reached"] is not None else None
        for one in holding:
            why = _GAP if beyond[one] else _SILENT if local[one] is None else _SLOWEST
            yield Stretch((emitters[one],), why, row["arrived_ms"], following["arrived_ms"], by_ms, len(holding))
