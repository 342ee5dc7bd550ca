"""How far time has come: the local watermark of every origin and the global one, buffer by buffer.

The local watermark is read off the longest complete prefix 1..k of an origin's sequences: the value of k (`head`, as
the engine does) or the largest value in the prefix (`running_max`). They differ only if values go back. The text has
another sentence, `literal`: the value of the largest sequence i for which all chunks of the sequences up to i - 1 have
come. So the first chunk of k + 1 counts before the others are there, and their records can be late.

The global watermark is the smallest local one of the declared origins; it is unknown while one of them has no prefix.
There is no idleness and no timeout: an origin that never sends holds it for ever.

A step costs O(log n) in the number of buffers that wait beyond a gap, and the state holds nothing else.

Source: "Watermarking and Progress", Reasoning about progress; upstream class `MultiOriginWatermarkProcessor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from wmlab.core.errors import ModelError
from wmlab.progress.model.chunks import Breach, Chunks, Completed, CompletenessRule, Effect, Finding, breach
from wmlab.progress.model.numbers import FIRST_ORIGIN, UNBOUNDED, ChunkBase, NumberMap, TupleBuffer

T = TypeVar("T")
LocalRule = Literal["running_max", "head", "literal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRules:
    """How progress is read: the trace's chunk base, when a sequence is complete, and the local watermark."""

    chunk_base: ChunkBase = 0
    complete: CompletenessRule = "set"
    local: LocalRule = "running_max"


@dataclass(frozen=True, slots=True)
class Done:
    """A complete sequence beyond a gap: its watermark and how many buffers it took."""

    watermark: int
    buffers: int


@dataclass(frozen=True, slots=True)
class OriginProgress:
    """One origin: the longest complete prefix, its local watermark, and what has come beyond it.

    `local` is None before the first complete sequence, `waiting` counts the buffers in `beyond`, and `moved_ms` is the
    clock time at which the prefix last grew (None: never, or no clock).
    """

    prefix: int = 0
    local: int | None = None
    beyond: NumberMap[Chunks | Done] = field(default_factory=NumberMap)
    waiting: int = 0
    moved_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress at one operator over its declared origins; `watermark` is the global one, None: unknown.

    `moved_ms` is the clock time at which the global watermark last changed.
    """

    rules: ProgressRules
    origins: tuple[int, ...]
    locals: tuple[OriginProgress, ...]
    watermark: int | None = None
    moved_ms: int | None = None

    @classmethod
    def start(cls, origins: Sequence[int], rules: ProgressRules | None = None) -> Progress:
        """An operator that has seen nothing. Without origins nothing can come and the watermark is unbounded.

        Raises `ModelError` for an origin below 1 or one that is declared twice.
        """
        declared = tuple(origins)
        if len(set(declared)) < len(declared) or any(origin < FIRST_ORIGIN for origin in declared):
            raise ModelError(
                f"The origins {list(declared)} are not distinct numbers from {FIRST_ORIGIN}.",
                remedy="Declare each origin of the plan once.",
            )
        watermark = None if declared else UNBOUNDED
        return cls(rules or ProgressRules(), declared, (OriginProgress(),) * len(declared), watermark)

    def of(self, origin: int) -> OriginProgress:
        """The progress of one declared origin. Raises `ModelError` for any other."""
        return self.locals[self._place(origin)]

    def _place(self, origin: int) -> int:
        try:
            return self.origins.index(origin)
        except ValueError:
            known = ", ".join(map(str, self.origins)) or "none"
            raise ModelError(
                f"Origin {origin} is not declared; declared are: {known}.",
                remedy="Declare all origins of the plan before the first buffer comes.",
            ) from None


def step(state: Progress, buffer: TupleBuffer, at_ms: int | None = None) -> tuple[Progress, tuple[Effect, ...]]:
    """The progress after one buffer, and what it brought about.

    `at_ms` is the clock time of its arrival; None if there is no clock. Raises `ModelError` for an origin that is not
    declared and for a chunk below the base; a buffer that breaks the protocol is a `Finding`.
    """
    if buffer.chunk < state.rules.chunk_base:
        raise ModelError(
            f"Sequence {buffer.sequence} of origin {buffer.origin} has a chunk {buffer.chunk} in a trace "
            f"whose chunks start at {state.rules.chunk_base}.",
            remedy="Give the whole trace one base: chunk_base=0 as documented, or 1 as in the engine.",
        )
    place = state._place(buffer.origin)
    before = state.locals[place]
    after, effects = take(before, buffer, state.rules, at_ms)
    if after is before:
        return state, effects
    local = (*state.locals[:place], after, *state.locals[place + 1 :])
    if after.local == before.local:
        return replace(state, locals=local), effects
    watermark = _watermark(local, state.watermark, before.local, after.local)
    moved_ms = state.moved_ms if watermark == state.watermark else at_ms
    return Progress(state.rules, state.origins, local, watermark, moved_ms), effects


def take(
    state: OriginProgress, buffer: TupleBuffer, rules: ProgressRules, at_ms: int | None = None
) -> tuple[OriginProgress, tuple[Effect, ...]]:
    """The progress of one origin after one of its buffers; see `step`."""
    known = state.beyond.get(buffer.sequence)
    if buffer.sequence <= state.prefix or isinstance(known, Done):
        return state, (Finding(Breach.FINISHED, buffer),)
    chunks = known or Chunks.none(rules.chunk_base)
    broken = breach(chunks, buffer, rules.complete)
    if broken is not None:
        return state, (Finding(broken, buffer),)
    chunks = chunks.add(buffer.chunk, buffer.last, buffer.watermark)
    waiting = state.waiting + 1
    if not chunks.complete(rules.complete):
        opened = replace(state, beyond=state.beyond.put(buffer.sequence, chunks), waiting=waiting)
        return _opened(opened, rules.local), ()
    done = Done(chunks.watermark, chunks.buffers)
    completed = Completed(buffer.origin, buffer.sequence, done.watermark)
    if buffer.sequence != state.prefix + 1:
        return replace(state, beyond=state.beyond.put(buffer.sequence, done), waiting=waiting), (completed,)
    grown = _grow(replace(state, waiting=waiting, moved_ms=at_ms), done, rules.local)
    return _opened(grown, rules.local), (completed,)


def _opened(state: OriginProgress, rule: LocalRule) -> OriginProgress:
    """By the literal rule with the watermark of the sequence behind the prefix, if one of its chunks has come."""
    following = state.beyond.get(state.prefix + 1) if rule == "literal" else None
    return state if following is None else replace(state, local=following.watermark)


def _grow(state: OriginProgress, done: Done, rule: LocalRule) -> OriginProgress:
    """The prefix over the next sequence, which is complete, and over all complete ones that follow it."""
    prefix, local, beyond, waiting = state.prefix, state.local, state.beyond, state.waiting
    following: Chunks | Done | None = done
    while isinstance(following, Done):
        prefix += 1
        beyond = beyond.without(prefix)
        waiting -= following.buffers
        regresses = rule == "running_max" and local is not None and local > following.watermark
        local = local if regresses else following.watermark
        following = beyond.get(prefix + 1) if beyond else None
    return OriginProgress(prefix, local, beyond, waiting, state.moved_ms)


def _watermark(
    states: Sequence[OriginProgress], watermark: int | None, before: int | None, after: int | None
) -> int | None:
    """The smallest local watermark, when one of them has changed from `before` to `after`."""
    if watermark is not None and before != watermark and after is not None:
        return min(watermark, after)
    known = [state.local for state in states if state.local is not None]
    return min(known) if len(known) == len(states) else None


@dataclass(frozen=True, slots=True)
class Cause:
    """An origin at the global watermark, and what has to come before it moves on.

    `sequence` is the first one that is not complete. `chunks` are those of it known to be missing (the first ten);
    `started` tells whether any has come, `ended` whether the last one has. `waiting` counts the buffers that came
    beyond the prefix, `since_ms` is the clock time since which the global watermark stands (None: it never moved).
    """

    origin: int
    watermark: int | None
    sequence: int
    started: bool
    chunks: tuple[int, ...]
    waiting: int
    since_ms: int | None
    ended: bool = False

    @property
    def lack(self) -> str:
        """What the origin lacks, as a phrase that follows its name."""
        if not self.started and not self.waiting:
            return "has sent nothing" if self.sequence == 1 else f"has sent nothing after sequence {self.sequence - 1}"
        if not self.started:
            return f"lacks sequence {self.sequence}"
        if not self.chunks:
            lacking = f"lacks the last chunk of sequence {self.sequence}"
            return f"has all chunks of sequence {self.sequence}, but not by the rule" if self.ended else lacking
        word = "chunk" if len(self.chunks) == 1 else "chunks"
        return f"lacks {word} {', '.join(map(str, self.chunks))} of sequence {self.sequence}"


def explain(state: Progress) -> tuple[Cause, ...]:
    """Every origin that holds the global watermark, in the order declared; empty without origins."""
    local = {origin: known.local for origin, known in zip(state.origins, state.locals, strict=True)}
    return tuple(_cause(state, origin, state.of(origin)) for origin in holding(local, state.watermark))


def holding(local: Mapping[T, int | None], watermark: int | None) -> list[T]:
    """The origins whose local watermark is the global one."""
    return [origin for origin, value in local.items() if value == watermark]


def _cause(state: Progress, origin: int, local: OriginProgress) -> Cause:
    sequence = local.prefix + 1
    chunks = local.beyond.get(sequence)
    known = chunks if isinstance(chunks, Chunks) else None
    return Cause(
        origin,
        state.watermark,
        sequence,
        started=known is not None,
        chunks=() if known is None else known.missing(),
        waiting=local.waiting,
        since_ms=state.moved_ms,
        ended=known is not None and known.last is not None,
    )
