"""Answers that follow a moment through a whole run: the sentence of `explain` over time, and when a rule was broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from wmlab.core.answers.verdicts import Verdicts
from wmlab.core.recording import Recording
from wmlab.streams.answers.cause import Cause, hold_of
from wmlab.streams.answers.explain import holding_writer, wrote_without_noting
from wmlab.streams.answers.known import Known, walk
from wmlab.streams.answers.rules import Rules
from wmlab.streams.answers.told import Case, sentence_of

_CLOCK: Final = ("emitted_ms", "received_ms", "append_ms", "at_ms")
"""When a row of evidence came to be, whichever of these columns it has."""


def sentences(
    recording: Recording, moments: Sequence[int], *, stream: str, rules: Rules | None = None
) -> tuple[tuple[int, str], ...]:
    """The sentence of `explain(at_ms=...)` at each of the moments (clock in ms, ascending): (from which on, sentence).

    A sentence that stays is told once. One walk through the recording, however many moments there are.
    """
    found: list[tuple[int, str]] = []
    for known in _known_at_each(recording, stream, moments):
        sentence = _sentence(recording, known, stream, rules)
        if not found or found[-1][1] != sentence:
            found.append((known.at_ms, sentence))
    return tuple(found)


def _known_at_each(recording: Recording, stream: str, moments: Sequence[int]) -> Iterator[Known]:
    steps = chain(walk(recording, stream), [None])
    following = next(steps)
    known = Known(at_ms=0)
    for at_ms in moments:
        while following is not None and following.at_ms <= at_ms:
            known, following = following, next(steps)
        yield replace(known, at_ms=at_ms)


def _sentence(recording: Recording, known: Known, stream: str, rules: Rules | None) -> str:
    hold = hold_of(known)
    case = Case(
        known=known,
        hold=hold,
        writers=tuple(holding_writer(known, writer, rules, hold.cause) for writer in hold.writers),
        wrote=wrote_without_noting(recording, stream, known.at_ms) if hold.cause is Cause.NO_MARK else (),
        rules=rules,
    )
    return sentence_of(case)


def violations(verdicts: Verdicts, *, stream: str) -> tuple[tuple[int, str], ...]:
    """The first violation of each invariant in this stream: (when the last row of its evidence came, in words)."""
    found = []
    for verdict in verdicts:
        rows = [proof.row for proof in verdict.evidence if proof.row.get("stream", stream) == stream]
        clocks = [next((row[name] for name in _CLOCK if row.get(name) is not None), None) for row in rows]
        known = [at_ms for at_ms in clocks if at_ms is not None]
        if verdict.verdict == "violated" and known:
            found.append((max(known), f"{verdict.invariant} violated: {verdict.what or verdict.statement}"))
    return tuple(sorted(found))
