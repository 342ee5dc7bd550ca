"""The minimum over writers: a watermark that waits for the slowest of them, with or without an idle timeout.

Where each writer sends its records in order of event time, this watermark needs no parameter and loses nothing. A
silent writer stalls it, for ever or until the idle timeout; with the timeout what the writer sends afterwards may be
late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wmlab.strategies.model.strategy import (
    UNKNOWN,
    Input,
    NotNegativeMs,
    PositiveMs,
    Record,
    Strategy,
    earlier,
    now_of,
)


class Minimum:
    """One value a writer, the least of those that are not idle, and `x`, the largest that this least has been.

    A writer is idle if nothing of it came for more than `idle_ms`, as seen at the next input.
    `declared` writers hold the minimum at `UNKNOWN` before their first record. When all are idle, `x` stays, or comes
    to the largest value with `flush`.
    """

    __slots__ = ("_active", "_declared", "_flush", "_idle_ms", "_least", "values", "x")

    def __init__(self, idle_ms: int | None = None, declared: Iterable[str] = (), *, flush: bool = False) -> None:
        self._idle_ms, self._flush = idle_ms, flush
        self._declared = tuple(declared)
        self._active: dict[str, int] = {}
        self._least = self.x = UNKNOWN
        self.values: dict[str, int] = {}

    def put(self, writer: str, value: int, now_ms: int) -> int:
        """`x` after a record of `writer` at `now_ms`, whose value becomes `value` unless it is larger already."""
        self._declare(now_ms)
        resumes, before = self._active.pop(writer, None) is None, self.values.get(writer, UNKNOWN)
        # The active writers stand in the order of their last records: the first one is the first to turn idle.
        self._active[writer] = now_ms
        self.values[writer] = max(before, value)
        if self._drop(now_ms) or len(self._active) == 1 or (before == self._least and not resumes):
            self._lowest()
        elif resumes:
            self._least = min(self._least, self.values[writer])
        return self.x

    def advance(self, now_ms: int) -> int:
        """`x` when the clock has reached `now_ms`."""
        self._declare(now_ms)
        if self._drop(now_ms):
            self._lowest()
        return self.x

    def _declare(self, now_ms: int) -> None:
        if self._declared:
            self.values = dict.fromkeys(self._declared, UNKNOWN)
            self._active = dict.fromkeys(self._declared, now_ms)
            self._declared = ()

    def _drop(self, now_ms: int) -> bool:
        if self._idle_ms is None:
            return False
        before = len(self._active)
        while self._active and now_ms - self._active[first := next(iter(self._active))] > self._idle_ms:
            del self._active[first]
        return len(self._active) < before

    def _lowest(self) -> None:
        silent = max(self.values.values(), default=UNKNOWN) if self._flush and not self._active else UNKNOWN
        self._least = min(map(self.values.__getitem__, self._active), default=silent)
        self.x = max(self.x, self._least)


@dataclass(frozen=True, slots=True)
class PerWriterMinimum(Strategy[Minimum]):
    """X = min over the writers w that are not idle of m_w - `bound`, m_w the largest event time of w; also native.

    `bound` is in units of event time, `idle_ms` is arrival time (None: no writer is ever idle). `writers` are those
    that X waits for before their first record; others count from their first record on. Source: the minimum over
    inputs of "Watermarks in Stream Processing Systems" (VLDB 2021), with a writer as an input; the exclusion of
    silent ones as in Samza (SAMZA-2801).
    """

    bound: NotNegativeMs = 0
    idle_ms: PositiveMs | None = None
    writers: tuple[str, ...] = ()

    def start(self) -> Minimum:
        return Minimum(self.idle_ms, self.writers)

    def step(self, state: Minimum, item: Input) -> tuple[Minimum, int, int]:
        if isinstance(item, Record):
            x = state.put(item.writer, earlier(item.event_time, self.bound), item.arrival_ms)
        else:
            x = state.advance(now_of(item))
        return state, x, x
