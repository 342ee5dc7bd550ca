"""Which watermark key is on which column: the planner rule that numbers the scans and follows their columns.

    scan          its watermarked column gets the next number, in the order of the plan
    projection    a column keeps its key if it is the plain column of the input
    union         a column has a key if it has one in every input; the keys become one
    join          of streams: both sides keep theirs; of a stream with a batch: the left ones
    window        the key of its time column, on the window ends
    late drop     as its input
    other         none

A key is a signed byte, so a plan has room for 128 numbered from 0.

Source: "Keyed watermark support", Extending the behavior for multiple keys; upstream class `WatermarkKeysAssigner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import KEYS

Path = tuple[int, ...]
"""A place in a plan: which input to take at every step down from the root."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A source; `watermarked` is the column with its watermarks, None if it has none."""

    watermarked: int | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """Column n of the output is column `columns[n]` of the input, or None for an expression."""

    source: Plan
    columns: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """All inputs together, column by column."""

    sources: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Columns of the left side, `left_width` of them, then those of the right; `batch`: the right side is no stream."""

    left: Plan
    right: Plan
    left_width: int
    batch: bool = False


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """A window over column `time` of the input whose end is in the columns `ends` of the output."""

    source: Plan
    time: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DropLate:
    """A late drop."""

    source: Plan


@dataclass(frozen=True, slots=True)
class Other:
    """Any operator that no watermark passes."""

    sources: tuple[Plan, ...]


Plan = Scan | Project | Union | Join | WindowAggregate | DropLate | Other


@dataclass(frozen=True, slots=True)
class Assignment:
    """For every place in the plan the key of each of its watermarked columns."""

    columns: Mapping[Path, Mapping[int, int]]

    def at(self, *path: int) -> Mapping[int, int]:
        """Column to key at a place; without a path, at the root."""
        return self.columns[path]


@dataclass(slots=True)
class _Walk:
    """The keys given so far, and which of them are one."""

    columns: dict[Path, dict[int, int]] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)

    def visit(self, plan: Plan, path: Path) -> dict[int, int]:
        inputs = [self.visit(source, (*path, number)) for number, source in enumerate(sources_of(plan))]
        self.columns[path] = self._of(plan, inputs)
        return self.columns[path]

    def _of(self, plan: Plan, inputs: list[dict[int, int]]) -> dict[int, int]:
        match plan:
            case Scan(watermarked) if watermarked is not None:
                return {watermarked: self._next()}
            case Project(columns=columns):
                return {place: inputs[0][c] for place, c in enumerate(columns) if c is not None and c in inputs[0]}
            case Union():
                return self._unified(inputs)
            case Join(left_width=width, batch=batch):
                right = {} if batch else {width + column: key for column, key in inputs[1].items()}
                return {**inputs[0], **right}
            case WindowAggregate(time=time, ends=ends):
                return {end: inputs[0][time] for end in ends if time in inputs[0]}
            case DropLate():
                return dict(inputs[0])
        return {}

    def _next(self) -> int:
        key = len(self.same)
        if key not in KEYS:
            raise ModelError(f"The plan has more than {key} watermarked scans.", remedy="Use fewer scans in one plan.")
        self.same[key] = key
        return key

    def _unified(self, inputs: list[dict[int, int]]) -> dict[int, int]:
        shared = [column for column in inputs[0] if all(column in one for one in inputs)] if inputs else []
        for column in shared:
            lowest = min(self.final(one[column]) for one in inputs)
            for one in inputs:
                self.same[self.final(one[column])] = lowest
        return {column: self.final(inputs[0][column]) for column in shared}

    def final(self, key: int) -> int:
        while self.same[key] != key:
            key = self.same[key]
        return key


def sources_of(plan: Plan) -> tuple[Plan, ...]:
    """The inputs of an operator in the order of the plan."""
    match plan:
        case Project(source) | WindowAggregate(source) | DropLate(source):
            return (source,)
        case Join(left, right):
            return (left, right)
        case Union(sources) | Other(sources):
            return sources
    return ()


def assign_keys(plan: Plan) -> Assignment:
    """The keys of a plan. Raises `ModelError` for more scans than there are keys. Source: as the module.

    A join whose sides end up with one key, since a union made them one, is for the join to refuse.
    """
    walk = _Walk()
    walk.visit(plan, ())
    return Assignment(
        {path: {column: walk.final(key) for column, key in keys.items()} for path, keys in walk.columns.items()}
    )
