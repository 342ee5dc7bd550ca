"""A board on which items are put, replaced and taken off as a run is told; what lay there when is a film."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from wmlab.streams.scrubber.film import STYLES, Happened, Item

_Lying = tuple[int | None, str, int, int, str]
"""Lane, style, low, high and label of what lies under a key."""


@dataclass(slots=True)
class Board:
    """Items in the making: under each key lies one item at a time, until something else is put there."""

    items: list[Item] = field(default_factory=list)
    _lying: dict[Hashable, tuple[int, _Lying]] = field(default_factory=dict)

    def put(
        self,
        key: Hashable,
        at_ms: int,
        lane: int | None,
        style: str,
        low: int = 0,
        high: int | None = None,
        label: str = "",
    ) -> None:
        """From `at_ms` on this lies under the key, and what lay there before does not; moments of a key ascend.

        An equal item lies on. `high` is `low` if not given.
        """
        new = (lane, style, low, low if high is None else high, label)
        before = self._lying.get(key)
        if before is None or before[1] != new:
            self.take(key, at_ms)
            self._lying[key] = at_ms, new

    def take(self, key: Hashable, at_ms: int) -> None:
        """From `at_ms` on nothing lies under the key."""
        before = self._lying.pop(key, None)
        if before is not None and before[0] < at_ms:
            self.items.append(_item(*before, at_ms))

    def lying(self) -> list[Hashable]:
        """The keys under which something lies."""
        return list(self._lying)

    def finish(self) -> tuple[Item, ...]:
        """All items: areas first, points and words on top of them, each by when it came."""
        everything = [*self.items, *(_item(*lying, None) for lying in self._lying.values())]
        order = ("origin", "bar", "block", "line", "tick", "flag")
        rank = {shape: place for place, shape in enumerate(order)}
        return tuple(sorted(everything, key=lambda i: (rank.get(STYLES[i.style].shape, len(order)), i.from_ms)))


def _item(from_ms: int, lying: _Lying, to_ms: int | None) -> Item:
    lane, style, low, high, label = lying
    return Item(lane=lane, from_ms=from_ms, to_ms=to_ms, low=low, high=high, style=style, label=label)


def changes_of(panels: Iterable[Iterable[Item]], happened: Iterable[Happened], low_ms: int) -> tuple[int, ...]:
    """The moments at which an item comes or goes or something happens, ascending, beginning with the first one."""
    times = {low_ms} | {h.at_ms for h in happened}
    for items in panels:
        for item in items:
            times |= {max(item.from_ms, low_ms)} if item.to_ms is None else {max(item.from_ms, low_ms), item.to_ms}
    return tuple(sorted(times))
