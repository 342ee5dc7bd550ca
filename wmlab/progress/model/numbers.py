"""The numbers on tuple buffers: identifiers, the sequencer that restores their order, and a persistent map from them.

Every source and every blocking operator of a query plan is an origin, numbered from 1 inside its plan, so that other
plans use the same numbers. An origin numbers its buffers from 1 without a gap. A pipeline whose output outgrows its
input keeps origin and sequence and numbers chunks. The design text counts chunks from 0, the engine from 1: the base is
part of a trace, and one trace has one base.

By event time the watermark of a buffer is the largest time among its records, in the unit of the field times a
multiplier. A buffer without a record carries 0, because the engine starts its maximum there; a tracker that reads the
value at the head of the prefix is thrown back by it. By ingestion time it is the creation time of the buffer.

The sequencer releases buffers one at a time, in the order of sequence and chunk. `keep` parks what comes too early;
`drop` parks only the newest and forgets what is older than what was handled, so that a slow operator keeps up.

    call    keep                                   drop
    take    released if it is the next and nobody  released if it is new and nobody is busy, else parked in place
            is busy, else parked                   of an older one
    ack     the next one, if parked, is released   the parked one, if any, is released

The map is persistent: every version stays valid, a change costs O(log n) time and memory. It is a binary radix tree
(Okasaki and Gill, "Fast Mergeable Integer Maps", 1998): a branch holds the bits that its keys share and the first bit
in which they differ. Its shape depends on its content only, so equal maps are equal tuples. The tracker keeps here what
has arrived beyond a gap, and the windows keep their slices.

Source: "Watermarking and Progress", OriginId, SequenceNumber, ChunkNumber and Watermark Timestamp; upstream type
`ChunkNumber` (INITIAL) and classes `EventTimeFunction`, `IngestionTimeFunction` and `Sequencer` (ordering of tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeVar

from wmlab.core.errors import ModelError

ChunkBase = Literal[0, 1]
"""The number of a sequence's first chunk: 0 as documented, 1 as in the engine."""

FIRST_ORIGIN: Final = 1
FIRST_SEQUENCE: Final = 1

INITIAL: Final = 0
"""The watermark that NebulaStream writes while it knows none."""
UNBOUNDED: Final = 2**64 - 1
"""The watermark of an operator that has no origins: nothing can come."""


@dataclass(frozen=True, slots=True)
class TupleBuffer:
    """The identifiers of one buffer; `watermark` is in the unit of the event times.

    Raises `ModelError` for an origin or a sequence below 1, and for a negative chunk.
    """

    origin: int
    sequence: int
    chunk: int
    last: bool
    watermark: int

    def __post_init__(self) -> None:
        if self.origin < FIRST_ORIGIN or self.sequence < FIRST_SEQUENCE or self.chunk < 0:
            raise ModelError(
                f"No buffer has origin {self.origin}, sequence {self.sequence}, chunk {self.chunk}.",
                remedy="Number origins and sequences from 1, chunks from 0 or 1.",
            )


def assign_origins(emitters: Sequence[str]) -> Mapping[str, int]:
    """The origin id of each emitter of one query plan: 1, 2, ... in the order of registration.

    Sources come first, blocking operators after them. Raises `ModelError` if a name occurs twice.
    """
    twice = sorted({name for name in emitters if emitters.count(name) > 1})
    if twice:
        raise ModelError(f"Two emitters are called {twice[0]!r}.", remedy="Give each emitter a name of its own.")
    return {name: FIRST_ORIGIN + place for place, name in enumerate(emitters)}


def by_event_time(times: Iterable[int], *, unit: int = 1, allowed_lateness: int = 0) -> int:
    """The largest of `times` times `unit`, less `allowed_lateness` (same unit as the result), never below 0.

    `unit` is 1 for a field in milliseconds, 1000 for one in seconds. The slack existed until 2025 and is 0 since.
    Raises `ModelError` for a unit below 1 or a negative slack.
    """
    if unit < 1 or allowed_lateness < 0:
        raise ModelError(
            f"A unit of {unit} with a slack of {allowed_lateness} gives no watermark.",
            remedy="Give a unit of at least 1 and a slack of at least 0.",
        )
    return max(INITIAL, max(times, default=INITIAL) * unit - allowed_lateness)


def by_ingestion_time(created: int, carried: int | None = None) -> int:
    """The creation time of the buffer, or what it carries already if that is later."""
    return created if carried is None else max(created, carried)


Policy = Literal["keep", "drop"]
Place = tuple[int, int]
"""Sequence and chunk."""


@dataclass(frozen=True, slots=True)
class Sequencer:
    """Who is next, who is being handled (`busy`), and who is parked, with the last flag of each."""

    policy: Policy = "keep"
    chunk_base: ChunkBase = 1
    expected: Place | None = None
    busy: tuple[Place, bool] | None = None
    parked: tuple[tuple[Place, bool], ...] = ()

    @property
    def next(self) -> Place:
        """The earliest place that is still to be handled."""
        return self.expected or (FIRST_SEQUENCE, self.chunk_base)

    def take(self, place: Place, last: bool) -> tuple[Sequencer, Place | None]:
        """Offer a buffer: its place if it is released now, None if it is parked, known or too old."""
        if place < self.next or (self.busy is not None and place <= self.busy[0] and self.policy == "drop"):
            return self, None
        if self.busy is None and (self.policy == "drop" or place == self.next):
            return replace(self, busy=(place, last)), place
        if self.busy is not None and self.busy[0] == place:
            return self, None
        if self.policy == "drop":
            newest = max((*self.parked, (place, last)), key=lambda entry: entry[0])
            return replace(self, parked=(newest,)), None
        return replace(self, parked=tuple(sorted({**dict(self.parked), place: last}.items()))), None

    def ack(self, place: Place) -> tuple[Sequencer, Place | None]:
        """The buffer in hand is done: the place that is released next, None if there is none.

        Raises `ModelError` if it was not in hand.
        """
        if self.busy is None or self.busy[0] != place:
            held = "nothing" if self.busy is None else f"{self.busy[0]}"
            raise ModelError(f"{place} is not in hand, {held} is.", remedy="Acknowledge what was released.")
        following = (place[0] + 1, self.chunk_base) if self.busy[1] else (place[0], place[1] + 1)
        waiting = tuple(entry for entry in self.parked if entry[0] >= following)
        free = replace(self, expected=following, busy=None, parked=waiting)
        if waiting and (self.policy == "drop" or waiting[0][0] == following):
            return replace(free, busy=waiting[0], parked=waiting[1:]), waiting[0][0]
        return free, None


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
