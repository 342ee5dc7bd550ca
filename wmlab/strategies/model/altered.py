"""Strategies around another one: with the error of a report next to the right rule, and on a clock that is set.

Most reports of bugs say "it was this, it should be that". `Altered` is the first of the two, made of the second by one
line. `OnClock` is what a strategy does whose clock somebody sets, forward or back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wmlab.strategies.model.strategy import END, UNKNOWN, Input, Record, Strategy


@dataclass(frozen=True, slots=True)
class Altered(Strategy[tuple[Any, int]]):
    """The watermark of `inner`, changed by a function of X and the input: `error` says in words how.

    `change` is given what a record meets by `inner`, with the record, and X after each input, with the input; not where
    X is unknown, or at the end. It may give an X that falls, as an engine with an error does. Native is that of
    `inner`.

    >>> from wmlab.strategies.model.bounded import BoundedOutOfOrderness
    >>> from wmlab.strategies.model.strategy import run
    >>> twice = Altered(BoundedOutOfOrderness(5), lambda x, item: x - 5, error="the bound is taken off twice")
    >>> [step.x for step in run(twice, [Record(10, 11), Record(20, 21)])]
    [0, 10]
    """

    inner: Strategy[Any]
    change: Callable[[int, Input], int] = field(repr=False)
    error: str = "altered"

    @property
    def keyed(self) -> bool:  # type: ignore[override]
        """Whether the strategy within has a watermark for each key."""
        return self.inner.keyed

    def start(self) -> tuple[Any, int]:
        return self.inner.start(), UNKNOWN

    def met(self, state: tuple[Any, int], x: int, record: Record) -> int:
        inner, right = state
        return self._changed(self.inner.met(inner, right, record), record)

    def step(self, state: tuple[Any, int], item: Input) -> tuple[tuple[Any, int], int, Any]:
        inner, x, native = self.inner.step(state[0], item)
        return (inner, x), self._changed(x, item), native

    def at_end(self, state: tuple[Any, int]) -> tuple[int, Any]:
        return self.inner.at_end(state[0])

    def _changed(self, x: int, item: Input) -> int:
        return x if x in (UNKNOWN, END) else self.change(x, item)


@dataclass(frozen=True, slots=True)
class OnClock(Strategy[Any]):
    """The watermark of `inner`, whose wall clock is set: at each moment of `steps`, by so many ms; below 0, back.

    Moments are those of the true clock. `inner` sees arrivals and ticks by its own clock, and X is compared with true
    arrivals. Native is that of `inner`.

    >>> from wmlab.strategies.model.engines import WallClock
    >>> from wmlab.strategies.model.strategy import run
    >>> back = OnClock(WallClock(0), steps=((20, -15),))
    >>> [step.x for step in run(back, [Record(10, 10), Record(20, 20), Record(40, 40)])]
    [10, 10, 25]
    """

    inner: Strategy[Any]
    steps: tuple[tuple[int, int], ...]

    @property
    def keyed(self) -> bool:  # type: ignore[override]
        """Whether the strategy within has a watermark for each key."""
        return self.inner.keyed

    def start(self) -> Any:
        return self.inner.start()

    def met(self, state: Any, x: int, record: Record) -> int:
        return self.inner.met(state, x, self._seen(record))

    def step(self, state: Any, item: Input) -> tuple[Any, int, Any]:
        return self.inner.step(state, self._seen(item))

    def at_end(self, state: Any) -> tuple[int, Any]:
        return self.inner.at_end(state)

    def _seen(self, item: Any) -> Any:
        """An input at the time of the clock that was set."""
        name = "arrival_ms" if isinstance(item, Record) else "now_ms"
        now_ms = getattr(item, name)
        return item._replace(**{name: now_ms + sum(by_ms for at_ms, by_ms in self.steps if at_ms <= now_ms)})
