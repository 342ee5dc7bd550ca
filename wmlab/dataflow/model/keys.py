"""Which watermark keys leave a vertex, and on which column: the rule that a dataflow is planned by.

    source        the keys of its times, each on its column
    map           a column keeps its key if it is the plain column of the input; a key whose column is gone still has
                  watermarks, of no column
    merge         the keys of all inputs; the same key has to be on the same column. A key that only some inputs have is
                  stuck: it goes on only while all others are idle or have ended
    join          both sides keep theirs
    window        the key of its time column, on the end of the window; it ends all other keys, but for those of grouped
                  columns where it is told to keep them
    other         as its input

A column that is taken twice keeps its key on the first of its copies. The author of a dataflow chooses the keys, as in
upstream's Core API; in its SQL the planner does (class `WatermarkKeysAssigner`).

Source: "Keyed watermark support", Extending the behavior for multiple keys, Changes to union/merge processor and to
window aggregation processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Keys = tuple[tuple[int, str | None], ...]
"""The watermark keys on an edge, ascending, each with the column that carries it or None."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The keys of several inputs together.

    `conflicts`: (input, key, its column there, its column on the inputs before). `stuck`: (key, inputs without it).
    """

    keys: Keys
    conflicts: tuple[tuple[int, int, str | None, str | None], ...] = ()
    stuck: tuple[tuple[int, tuple[int, ...]], ...] = ()


def of_source(columns: Mapping[int, str]) -> Keys:
    """The keys of a source, from the column of each."""
    return tuple(sorted(columns.items()))


def selected(keys: Keys, selects: Sequence[Mapping[str, str]]) -> Keys:
    """After a map whose rows are made by `selects`: new column to expression, one select for each row that it makes.

    A column keeps its key if it is that plain column in every select.
    """
    kept: dict[str, str] = {}
    for name, text in selects[0].items():
        if all(select.get(name) == text for select in selects):
            kept.setdefault(text, name)
    return tuple((key, None if column is None else kept.get(column)) for key, column in keys)


def merged(inputs: Sequence[Keys]) -> Merged:
    """After a merge of inputs with the same columns."""
    keys: dict[int, str | None] = {}
    conflicts = []
    for number, given in enumerate(inputs):
        for key, column in given:
            if keys.setdefault(key, column) != column:
                conflicts.append((number, key, column, keys[key]))
    without = [(key, tuple(n for n, given in enumerate(inputs) if key not in dict(given))) for key in keys]
    stuck = tuple((key, missing) for key, missing in without if missing)
    return Merged(tuple(sorted(keys.items())), tuple(conflicts), stuck)


def joined(left: Keys, right: Keys, renamed: Mapping[str, str]) -> Keys:
    """After a join; `renamed` has the output column of every column of the right side."""
    right_keys = {key: None if column is None else renamed[column] for key, column in right}
    return tuple(sorted({**dict(left), **right_keys}.items()))


def windowed(keys: Keys, time: str, end: str, kept: Sequence[str] = ()) -> Keys:
    """After a window over column `time` whose end is in column `end`, and that keeps the keys of columns `kept`.

    Empty if the column carries no key.
    """
    key = key_of(keys, time)
    others = ((other, column) for other, column in keys if column in kept and other != key)
    return () if key is None else tuple(sorted([(key, end), *others]))


def key_of(keys: Keys, column: str) -> int | None:
    """The key that a column carries."""
    return next((key for key, carried in keys if carried == column), None)
