"""A persistent map from natural numbers: every version stays valid, a change costs O(log n) time and memory.

It is a binary radix tree (Okasaki and Gill, "Fast Mergeable Integer Maps", 1998): a branch holds the bits that its
keys share and the first bit in which they differ. Its shape depends on its content only, so equal maps are equal
tuples. The tracker keeps here what has arrived beyond a gap, and the windows keep their slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from wmlab.core.errors import ModelError

V = TypeVar("V")

_KEY: Final = 0
_BIT: Final = 1
_LOW: Final = 2
_HIGH: Final = 3
_LEAF: Final = 2
"""A leaf is (key, value), a branch is (shared bits, first differing bit, low side, high side)."""


@dataclass(frozen=True, slots=True, repr=False)
class NumberMap(Generic[V]):
    """An immutable map from integers of at least 0, in ascending order. Make one with `of` or from the empty one."""

    root: tuple[Any, ...] | None = None
    size: int = 0

    def get(self, key: int) -> V | None:
        """The value under `key`, None if there is none."""
        leaf = self._leaf(key)
        return None if leaf is None else leaf[1]

    def put(self, key: int, value: V) -> NumberMap[V]:
        """The map with `value` under `key`. Raises `ModelError` for a negative key."""
        if key < 0:
            raise ModelError(f"{key} is negative.", remedy="Number from 0 or 1.")
        return NumberMap(_put(self.root, key, value), self.size + (key not in self))

    def without(self, key: int) -> NumberMap[V]:
        """The map without `key`; the same map if it was not there."""
        if key not in self:
            return self
        return NumberMap(_without(self.root, key), self.size - 1)

    def first(self) -> tuple[int, V] | None:
        """The entry with the smallest key, None if the map is empty."""
        return self._end(_LOW)

    def last(self) -> tuple[int, V] | None:
        """The entry with the largest key, None if the map is empty."""
        return self._end(_HIGH)

    def __contains__(self, key: int) -> bool:
        return self._leaf(key) is not None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[tuple[int, V]]:
        waiting = [self.root] if self.root is not None else []
        while waiting:
            node = waiting.pop()
            if len(node) == _LEAF:
                yield node[0], node[1]
            else:
                waiting += [node[_HIGH], node[_LOW]]

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key}: {value!r}" for key, value in self) + "}"

    def _leaf(self, key: int) -> tuple[Any, ...] | None:
        node = self.root
        while node is not None and len(node) != _LEAF:
            node = node[_HIGH] if key & node[_BIT] else node[_LOW]
        return node if node is not None and node[_KEY] == key else None

    def _end(self, side: int) -> tuple[int, V] | None:
        node = self.root
        while node is not None and len(node) != _LEAF:
            node = node[side]
        return None if node is None else (node[0], node[1])


def _put(node: tuple[Any, ...] | None, key: int, value: object) -> tuple[Any, ...]:
    leaf = (key, value)
    if node is None:
        return leaf
    if len(node) == _LEAF:
        return leaf if node[_KEY] == key else _branch(leaf, node)
    shared, bit, low, high = node
    if key & -(bit << 1) != shared:
        return _branch(leaf, node)
    return (shared, bit, low, _put(high, key, value)) if key & bit else (shared, bit, _put(low, key, value), high)


def _branch(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """The two trees, whose keys differ, under a new branch at the first bit in which they do."""
    bit = 1 << (one[_KEY] ^ other[_KEY]).bit_length() - 1
    shared = one[_KEY] & -(bit << 1)
    return (shared, bit, other, one) if one[_KEY] & bit else (shared, bit, one, other)


def _without(node: tuple[Any, ...] | None, key: int) -> tuple[Any, ...] | None:
    if node is None or len(node) == _LEAF:
        return None
    shared, bit, low, high = node
    if key & bit:
        rest = _without(high, key)
        return low if rest is None else (shared, bit, low, rest)
    rest = _without(low, key)
    return high if rest is None else (shared, bit, rest, high)
