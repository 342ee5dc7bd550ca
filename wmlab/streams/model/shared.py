"""A value that several parties change by compare-and-set.

Each change names the revision of the value it was made from, and is refused when somebody else was faster; the loser
reads again and decides anew.

Source: PDP-33, Client Changes (reader group state); upstream classes `StateSynchronizerImpl` and
`RevisionedStreamClientImpl`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shared(Generic[T]):
    """A value and its revision, which grows by one with every change. Source: upstream `StateSynchronizerImpl`."""

    value: T
    revision: int = 0

    def replace_if(self, revision: int, value: T) -> tuple[Shared[T], bool]:
        """The new value if the revision is still the present one; else the same as before, and False.

        Source: upstream class `StateSynchronizerImpl` (conditionallyWrite).
        """
        return (Shared(value, revision + 1), True) if revision == self.revision else (self, False)
