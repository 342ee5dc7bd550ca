"""An explanation as a value: what holds a lower bound, since when, by how much, and what will release it."""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.core.answers.answer import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingWriter:
    """A writer that holds the bound: what befell it ("crashed", "" for nothing known), its last accepted mark, since
    when the leader has found it behind, and the cycle that drops it if it notes nothing newer.

    Times in ms, None if unknown; `refused` is the outcome of a later note that was not accepted.
    """

    writer: str
    state: str
    time: int | None
    noted_ms: int | None
    behind_since_ms: int | None
    dropped_ms: int | None
    refused: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingSegment:
    """A segment whose position holds a group before a cut: `offset` read of `needed` bytes, by `reader` if any.

    `needed` is None when the group has to reach a later segment first.
    """

    segment: str
    reader: str | None
    offset: int
    needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Answer):
    """What holds a lower bound at `at_ms`.

    `lower` is the bound, None if none is known; `cause` names what holds it; `since_ms` when that began; `by_ms` how
    much higher the bound would be otherwise; `release_ms` when it is released if nothing else happens. Each is None
    if unknown. `log` explains the stream's own bound when a reader waits for its next watermark.
    """

    at_ms: int
    stream: str
    reader: str | None = None
    lower: int | None
    cause: str
    writers: tuple[HoldingWriter, ...] = ()
    segments: tuple[HoldingSegment, ...] = ()
    since_ms: int | None = None
    by_ms: int | None = None
    release_ms: int | None = None
    sentence: str
    log: Explanation | None = None
