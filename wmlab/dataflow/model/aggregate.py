"""Aggregations as values: count, sum, min, max, avg, list.

An accumulator is itself a value of a row, so that partial results can travel between two stages. It is made by
`create`, grown by `accumulate`, merged by `combine` and turned into the result by `finish`. Nulls are left out, as SQL
does, except that a count without a column counts rows and a list keeps them. Without any value the result is null, of
a count 0, and of a list the empty one.

    function   accumulator
    count      the number
    sum        the sum, null before the first value
    min, max   the extreme, null before the first value
    avg        (sum, count)
    list       the values in the order in which they came
    distinct   the distinct values in the order in which they first came, whatever the function

Source: "Keyed watermark support", Changes to window aggregation processors; upstream class `AggregateOperations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import Value

Function = Literal["count", "sum", "min", "max", "avg", "list"]
FUNCTIONS: Final[tuple[str, ...]] = get_args(Function)
Accumulators = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregation of a column; `distinct` counts equal values once.

    Raises `ModelError` for an unknown function, and for one that needs a column and has none.
    Source: upstream class `AggregateOperations`.
    """

    function: Function
    column: int | None = None
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ModelError(
                f"There is no aggregation {self.function!r}.", remedy=f"Use one of {', '.join(FUNCTIONS)}."
            )
        if self.column is None and (self.function != "count" or self.distinct):
            what = f"distinct {self.function}" if self.distinct else self.function
            raise ModelError(f"The aggregation {what} has no column.", remedy="Name the column it aggregates.")

    def create(self) -> Value:
        """The accumulator of no row."""
        if self.distinct or self.function == "list":
            return ()
        return 0 if self.function == "count" else (None, 0) if self.function == "avg" else None

    def accumulate(self, accumulator: Value, values: tuple[Value, ...]) -> Value:
        """The accumulator after one more row."""
        value: Value = 1 if self.column is None else values[self.column]
        if value is None and (self.distinct or self.function != "list"):
            return accumulator
        return self.combine(accumulator, self._single(value))

    def combine(self, one: Value, other: Value) -> Value:
        """The accumulator of the rows of both, those of `one` first."""
        if self.distinct:
            return tuple(dict.fromkeys((*_parts(one), *_parts(other))))
        if self.function == "list":
            return (*_parts(one), *_parts(other))
        if self.function == "avg":
            (total, count), (more, again) = _parts(one), _parts(other)
            return (_merge("sum", total, more), cast(int, count) + cast(int, again))
        return _merge(self.function, one, other)

    def finish(self, accumulator: Value) -> Value:
        """The result."""
        if self.distinct:
            plain = Aggregate(self.function, 0)
            found: Value = plain.create()
            for value in _parts(accumulator):
                found = plain.accumulate(found, (value,))
            return plain.finish(found)
        if self.function == "avg":
            total, count = cast(Any, accumulator)
            return None if count == 0 else total / count
        return accumulator

    def _single(self, value: Value) -> Value:
        if self.distinct or self.function == "list":
            return (value,)
        return 1 if self.function == "count" else (value, 1) if self.function == "avg" else value


def _parts(accumulator: Value) -> tuple[Value, ...]:
    return cast(tuple[Value, ...], accumulator)


def _merge(function: str, one: Any, other: Any) -> Value:
    if one is None or other is None:
        return cast(Value, other if one is None else one)
    if function in ("min", "max"):
        return cast(Value, (min if function == "min" else max)(one, other))
    return cast(Value, one + other)


def created(aggregates: Sequence[Aggregate]) -> Accumulators:
    """The accumulators of no row."""
    return tuple(aggregate.create() for aggregate in aggregates)


def accumulated(aggregates: Sequence[Aggregate], accumulators: Accumulators, values: tuple[Value, ...]) -> Accumulators:
    """The accumulators after one more row."""
    pairs = zip(aggregates, accumulators, strict=True)
    return tuple(aggregate.accumulate(accumulator, values) for aggregate, accumulator in pairs)


def combined(aggregates: Sequence[Aggregate], one: Accumulators, other: Accumulators) -> Accumulators:
    """The accumulators of the rows of both."""
    triples = zip(aggregates, one, other, strict=True)
    return tuple(aggregate.combine(first, second) for aggregate, first, second in triples)


def finished(aggregates: Sequence[Aggregate], accumulators: Accumulators) -> Accumulators:
    """The results."""
    pairs = zip(aggregates, accumulators, strict=True)
    return tuple(aggregate.finish(accumulator) for aggregate, accumulator in pairs)


def group_of(values: tuple[Value, ...], columns: Sequence[int]) -> tuple[Value, ...]:
    """The group that a row belongs to: its values in these columns."""
    return tuple(values[column] for column in columns)


def group_order(group: tuple[Value, ...]) -> tuple[Any, ...]:
    """Sorts groups of any values, nulls first, so that the order of results says nothing of the order of rows.

    Source: "Keyed watermark support", Changes to window aggregation processors (a set of keys, in no order).
    """
    return tuple((value is not None, type(value).__name__, 0 if value is None else value) for value in group)
