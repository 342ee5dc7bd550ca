"""An immutable map: every change gives a new one, so that a state which holds it is its own snapshot.

A change copies, which is cheap for the thousands of entries that a processor of a bench holds. Equal content is equal
and hashes alike, whatever the order it came in.

Source: "Keyed watermark support", WM generation (the state that processors keep until a watermark removes it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V]):
    """A map that never changes; iterates in the order in which its keys first came. Source: as the module."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._entries: dict[K, V] = dict(entries)

    def put(self, key: K, value: V) -> FrozenMap[K, V]:
        """The map with `value` under `key`. Source: as the module."""
        return FrozenMap({**self._entries, key: value})

    def without(self, *keys: K) -> FrozenMap[K, V]:
        """The map without these keys, whether they were there or not. Source: as the module."""
        return FrozenMap({key: value for key, value in self._entries.items() if key not in keys})

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)

    def __getstate__(self) -> dict[K, V]:
        return self._entries

    def __setstate__(self, entries: dict[K, V]) -> None:
        self._entries = entries
