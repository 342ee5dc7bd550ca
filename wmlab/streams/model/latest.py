"""Latest item only: while one item is being worked on, of those that arrive only the newest is kept.

This is how a reader's position reaches its time window: the tracker works in the background, one position at a time,
and positions that it had no time for are never looked at.

Source: upstream class `LatestItemSequentialProcessor`; PDP-33, Client Changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

T = TypeVar("T")


# Without slots: on Python 3.11 a frozen generic dataclass with slots cannot be made as LatestItem[str]().
@dataclass(frozen=True)
class LatestItem(Generic[T]):
    """What is being worked on, if anything, and what comes next. Source: upstream `LatestItemSequentialProcessor`."""

    working_on: tuple[T, ...] = ()
    waiting: tuple[T, ...] = ()

    def offer(self, item: T) -> LatestItem[T]:
        """A new item: worked on at once, or kept in place of the one that was waiting. Source: as the class."""
        return replace(self, waiting=(item,)) if self.working_on else LatestItem((item,))

    def done(self) -> LatestItem[T]:
        """The present item is done; the waiting one, if any, is worked on next. Source: as the class."""
        return LatestItem(self.waiting)
