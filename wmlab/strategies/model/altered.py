"""A strategy around another one: it adds the error of a report to the right rule.

Most reports of bugs say "it was this, it should be that". `Altered` is the first of the two, made of the second by one
line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wmlab.strategies.model.strategy import END, UNKNOWN, Input, Record, Strategy


@dataclass(frozen=True, slots=True)
class Altered(Strategy[tuple[Any, int, int]]):
    """The watermark of `inner`, changed by a function of X, the input and the last X: `error` describes the change.

    `change` is called with the X that a record meets by `inner`, and the record, and with X after each input, and the
    input; not while X is unknown, or at the end. Its third argument is what it returned after the input before
    (`UNKNOWN` at first), so that an error lasts that lasts: `lambda x, item, last: max(last, ...)`. It may return an X
    that falls, as an engine with an error does. Native is that of `inner`.

    >>> from wmlab.strategies.model.bounded import BoundedOutOfOrderness
    >>> from wmlab.strategies.model.strategy import run
    >>> twice = Altered(BoundedOutOfOrderness(5), lambda x, item, last: x - 5, error="the bound is taken off twice")
    >>> [step.x for step in run(twice, [Record(10, 11), Record(20, 21)])]
    [0, 10]
    """

    inner: Strategy[Any]
    change: Callable[[int, Input, int], int] = field(repr=False)
    error: str = "altered"

    @property
    def keyed(self) -> bool:  # type: ignore[override]
        """Whether the strategy within has a watermark for each key."""
        return self.inner.keyed

    def start(self) -> tuple[Any, int, int]:
        return self.inner.start(), UNKNOWN, UNKNOWN

    def met(self, state: tuple[Any, int, int], x: int, record: Record) -> int:
        inner, right, last = state
        return self._changed(self.inner.met(inner, right, record), record, last)

    def step(self, state: tuple[Any, int, int], item: Input) -> tuple[tuple[Any, int, int], int, Any]:
        inner, right, native = self.inner.step(state[0], item)
        x = self._changed(right, item, state[2])
        return (inner, right, x), x, native

    def at_end(self, state: tuple[Any, int, int]) -> tuple[int, Any]:
        return self.inner.at_end(state[0])

    def _changed(self, x: int, item: Input, last: int) -> int:
        return x if x in (UNKNOWN, END) else self.change(x, item, last)
