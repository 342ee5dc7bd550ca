"""What flows through a dataflow: events, keyed watermarks, idle messages, barriers, and the end; which keys flow where.

A watermark `(key, value)` says that no later item on this stream has a time strictly below `value` in the field that
carries `key`; an item at the value is on time. That is already the exclusive normal form. An idle message says that
the stream takes no part in coalescing until its next event or watermark; it belongs to no key.

Which watermark keys leave a vertex, and on which column, is what a dataflow is planned by:

    source        the keys of its times, each on its column
    map           a column keeps its key if it is the plain column of the input; a key whose column is gone still has
                  watermarks, of no column
    merge         the keys of all inputs; the same key has to be on the same column. A key that only some inputs have is
                  stuck: it goes on only while all others are idle or have ended
    join          both sides keep theirs; of a join with a batch the left side, as a batch has none
    window        the key of its time column, on the end of the window; it ends all other keys, but for those of grouped
                  columns where it is told to keep them
    other         as its input

A column that is taken twice keeps its key on the first of its copies. The author of a dataflow chooses the keys, as in
upstream's Core API; in its SQL the planner does (class `WatermarkKeysAssigner`).

Source: "Keyed watermark support", Terminology, Idle message, Extending the behavior for multiple keys, Changes to
union/merge processor and to window aggregation processors; upstream classes `Watermark`, `SnapshotBarrier`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from wmlab.core.errors import ModelError

MIN: Final = -(2**63)
"""The lowest time; no watermark carries it, since it is where a stream without one is."""
MAX: Final = 2**63 - 1
"""The highest time, Java's `Long.MAX_VALUE`; no watermark carries it, since the idle message does."""
IDLE_KEY: Final = 0
"""The key of the watermark instance, with the value `MAX`, that upstream says idle with."""
WATERMARK_KEYS: Final = range(-128, 128)
"""The watermark keys: signed bytes."""

FieldValue = int | float | str | bool | None | tuple["FieldValue", ...]
"""One field of an event; a tuple is a list of values or a partial result on its way between two stages."""
RowValues = tuple[FieldValue, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One row; the dataflow says which column is which, and which of them carry a watermark key."""

    values: RowValues


@dataclass(frozen=True, slots=True)
class Watermark:
    """No later item has a time below `value` in the field of `key`. `value` has the unit of that field."""

    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The stream is left out of coalescing until its next event or watermark.

    In the document it is the watermark instance of key `IDLE_KEY` with the value `MAX`, see `watermark_instance`; "it's
    not really a WM instance", so here it is an item of its own. With a `key`, for that key only; the text
    describes such messages and rejects them.
    """

    key: int | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """What comes before it belongs to the snapshot, what comes behind does not. `terminal`: the job stops there."""

    snapshot: int
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The stream has ended."""


IDLE_MESSAGE: Final = Idle()
DONE: Final = Done()
Item = Event | Watermark | Idle | Barrier | Done


def watermark_instance(key: int, value: int) -> Watermark | Idle:
    """The item that a watermark instance `(key, value)` of the document stands for.

    "The `IDLE_MESSAGE` is implemented as a WM instance with a `Long.MAX_VALUE` value", and there is "only idle message
    with key=0". Raises `ModelError` for that value with another key, a key that is no signed byte, or a value of -2^63
    and below or above 2^63 - 1.
    Source: "Keyed watermark support", Idle message and Handling of keyed idle messages.
    """
    if key not in WATERMARK_KEYS:
        raise ModelError(f"watermark key {key} is no signed byte", remedy="Use a key from -128 to 127.")
    if value == MAX and key == IDLE_KEY:
        return IDLE_MESSAGE
    if value == MAX:
        raise ModelError(
            f"watermark {value} of key {key} is an idle message, and no idle message has a key but {IDLE_KEY}",
            remedy=f"Give it key {IDLE_KEY}: an idle message is about the stream, with all its keys.",
        )
    if not MIN < value < MAX:
        raise ModelError(
            f"watermark {value} of key {key} is outside the times a watermark can carry",
            remedy="Use a time above -2^63 and below 2^63 - 1.",
        )
    return Watermark(key, value)


def row_time(values: RowValues, column: int) -> int:
    """The event time of a row. Raises `ModelError` unless it is an integer of 64 bits."""
    time = values[column] if 0 <= column < len(values) else None
    if type(time) is not int or not MIN <= time <= MAX:
        raise ModelError(
            f"Column {column} of the row {values} is no time: {time!r}.",
            remedy="Name a column that holds an integer time in every row; filter the rows padded by an outer join.",
        )
    return time


@dataclass(frozen=True, slots=True)
class FrameGrid:
    """The times `offset + n * size` for every whole n, in the unit of the times. Exact for negative times.

    Raises `ModelError` for a size below 1 and for an offset outside [0, size).
    """

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ModelError(f"frame size {self.size} is not positive", remedy="Use a frame size of at least 1.")
        if not 0 <= self.offset < self.size:
            raise ModelError(
                f"frame offset {self.offset} is not within a frame of {self.size}",
                remedy="Use an offset from 0 up to the frame size, exclusive.",
            )

    def floor(self, time: int) -> int:
        """The highest time of the grid that is not above `time`; `MIN` if that is below the lowest time."""
        return max(MIN, time - (time - self.offset) % self.size)

    def higher(self, time: int) -> int:
        """The lowest time of the grid above `time`; `MAX` if that is beyond the highest time."""
        return min(MAX, time - (time - self.offset) % self.size + self.size)


K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V]):
    """A map that never changes: every change gives a new one, so that a state which holds it is its own snapshot.

    Iterates in the order in which its keys first came; equal content is equal and hashes alike, whatever the order.
    A map shares with the one that it was made from all entries but the last changes, at most the square root of all:
    `put` costs as much as to copy these, and to iterate costs as much as to copy all.
    """

    __slots__ = ("_changes", "_length", "_shared")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._shared: dict[K, V] = dict(entries)
        self._changes: dict[K, V] = {}
        self._length = len(self._shared)

    def put(self, key: K, value: V) -> FrozenMap[K, V]:
        """The map with `value` under `key`."""
        changes = {**self._changes, key: value}
        if len(changes) ** 2 > self._length:
            return FrozenMap({**self._shared, **changes})
        after: FrozenMap[K, V] = FrozenMap.__new__(FrozenMap)
        after._shared, after._changes = self._shared, changes
        after._length = self._length + (key not in self)
        return after

    def without(self, *keys: K) -> FrozenMap[K, V]:
        """The map without these keys, whether they were there or not."""
        return FrozenMap({key: value for key, value in self._entries.items() if key not in keys})

    @property
    def _entries(self) -> dict[K, V]:
        """All entries, not to be changed."""
        return {**self._shared, **self._changes} if self._changes else self._shared

    def __getitem__(self, key: K) -> V:
        return self._changes[key] if key in self._changes else self._shared[key]

    def __contains__(self, key: object) -> bool:
        return key in self._changes or key in self._shared

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return self._length

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


Keys = tuple[tuple[int, str | None], ...]
"""The watermark keys on an edge, ascending, each with the column that carries it or None."""


@dataclass(frozen=True, slots=True)
class MergedKeys:
    """The keys of several inputs together.

    `conflicts`: (input, key, its column there, its column on the inputs before). `stuck`: (key, inputs without it).
    """

    keys: Keys
    conflicts: tuple[tuple[int, int, str | None, str | None], ...] = ()
    stuck: tuple[tuple[int, tuple[int, ...]], ...] = ()


def keys_of_source(columns: Mapping[int, str]) -> Keys:
    """The keys of a source, from the column of each."""
    return tuple(sorted(columns.items()))


def keys_after_map(keys: Keys, selects: Sequence[Mapping[str, str]]) -> Keys:
    """After a map whose rows are made by `selects`: new column to expression, one select for each row that it makes.

    A column keeps its key if it is that plain column in every select.
    """
    kept: dict[str, str] = {}
    for name, text in selects[0].items():
        if all(select.get(name) == text for select in selects):
            kept.setdefault(text, name)
    return tuple((key, None if column is None else kept.get(column)) for key, column in keys)


def keys_after_merge(inputs: Sequence[Keys]) -> MergedKeys:
    """After a merge of inputs with the same columns."""
    keys: dict[int, str | None] = {}
    conflicts = []
    for number, given in enumerate(inputs):
        for key, column in given:
            if keys.setdefault(key, column) != column:
                conflicts.append((number, key, column, keys[key]))
    without = [(key, tuple(n for n, given in enumerate(inputs) if key not in dict(given))) for key in keys]
    stuck = tuple((key, missing) for key, missing in without if missing)
    return MergedKeys(tuple(sorted(keys.items())), tuple(conflicts), stuck)


def keys_after_join(left: Keys, right: Keys, renamed: Mapping[str, str]) -> Keys:
    """After a join; `renamed` has the output column of every column of the right side."""
    right_keys = {key: None if column is None else renamed[column] for key, column in right}
    return tuple(sorted({**dict(left), **right_keys}.items()))


def keys_after_window(keys: Keys, time: str, end: str, group_columns: Sequence[str] = ()) -> Keys:
    """After a window over column `time` with its end in column `end` that keeps the keys of `group_columns`.

    Empty if the column carries no key.
    """
    key = key_on_column(keys, time)
    others = ((other, column) for other, column in keys if column in group_columns and other != key)
    return () if key is None else tuple(sorted([(key, end), *others]))


def key_on_column(keys: Keys, column: str) -> int | None:
    """The key that a column carries."""
    return next((key for key, carried in keys if carried == column), None)
