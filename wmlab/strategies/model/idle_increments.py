"""A watermark that advances by itself, in steps, while no record comes: Numaflow's rule for an idle source.

Elsewhere an idle source is left out, and the watermark of a job with one source stands until it sends again. Here it
rises by a fixed amount after each interval, but never beyond the wall clock minus a delay. What comes back with older
times is late.

Source: `SourceIdleManager` of Numaflow 1.5 (`threshold`, `stepInterval`, `incrementBy`, `maxDelay`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wmlab.core.errors import ModelError
from wmlab.core.words import shown
from wmlab.strategies.model.strategy import UNKNOWN, Input, NotNegativeMs, PositiveMs, Record, Strategy, earlier


@dataclass(slots=True)
class IdleState:
    """The state of the strategy within, X, when the last record came, and when X last rose by itself."""

    inner: Any
    x: int = UNKNOWN
    read_ms: int | None = None
    raised_ms: int | None = None


@dataclass(frozen=True, slots=True)
class IdleIncrements(Strategy[IdleState]):
    """The watermark of `inner`; once no record has come for `threshold_ms`, it rises by `increment_ms` every `step_ms`.

    It never rises by itself beyond now minus `max_delay_ms`, and not before `inner` knows a watermark. A record ends
    the silence, and X does not fall. `inner` must not have a watermark for each key. Native is X. Source: Numaflow 1.5.

    >>> from wmlab.strategies.model.bounded import BoundedOutOfOrderness
    >>> from wmlab.strategies.model.strategy import Tick, run
    >>> idle = IdleIncrements(BoundedOutOfOrderness(0), threshold_ms=5_000, increment_ms=2_000, step_ms=3_000)
    >>> [step.x for step in run(idle, [Record(1_000, 1_000), Tick(5_999), Tick(6_000), Tick(9_000), Tick(12_000)])]
    [1000, 1000, 3000, 5000, 7000]
    """

    inner: Strategy[Any]
    threshold_ms: PositiveMs
    increment_ms: PositiveMs
    step_ms: PositiveMs
    max_delay_ms: NotNegativeMs = 0

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)
        if not isinstance(self.inner, Strategy) or self.inner.keyed:
            raise ModelError(
                f"inner is {shown(self.inner)} in IdleIncrements.",
                remedy="Give a strategy with one watermark, for example BoundedOutOfOrderness(60_000).",
            )

    def start(self) -> IdleState:
        return IdleState(self.inner.start())

    def met(self, state: IdleState, x: int, record: Record) -> int:
        self._rise(state, record.arrival_ms)
        return max(state.x, self.inner.met(state.inner, x, record))

    def step(self, state: IdleState, item: Input) -> tuple[IdleState, int, int]:
        now = item.arrival_ms if isinstance(item, Record) else item.now_ms
        self._rise(state, now)
        state.inner, x, _ = self.inner.step(state.inner, item)
        state.x = max(state.x, x)
        if isinstance(item, Record):
            state.read_ms = now
        return state, state.x, state.x

    def at_end(self, state: IdleState) -> tuple[int, Any]:
        return self.inner.at_end(state.inner)

    def _rise(self, state: IdleState, now: int) -> None:
        """X after all steps that are due at `now`, in one go.

        Each step makes x the smaller of x + increment and its clock minus the delay, which grows with every step. So
        the first steps, whose clock is behind x, change nothing, and what the others come to is least at one of their
        ends.
        """
        if state.read_ms is None or state.x == UNKNOWN:
            return
        first_ms = state.read_ms + self.threshold_ms
        if state.raised_ms is not None:
            first_ms = max(first_ms, state.raised_ms + self.step_ms)
        if now < first_ms:
            return
        last_ms = first_ms + (now - first_ms) // self.step_ms * self.step_ms
        state.raised_ms = last_ms
        behind_ms = max(0, state.x - (first_ms - self.max_delay_ms))
        begin_ms = first_ms + -(-behind_ms // self.step_ms) * self.step_ms
        if begin_ms > last_ms:
            return
        more = (last_ms - begin_ms) // self.step_ms
        by_x, by_clock = state.x + self.increment_ms, begin_ms - self.max_delay_ms
        state.x = min(
            earlier(min(by_x, by_clock), -more * self.increment_ms),
            last_ms - self.max_delay_ms,
        )
