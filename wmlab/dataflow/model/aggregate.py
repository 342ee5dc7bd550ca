"""Aggregations as values: count, sum, min, max, avg, list.

An accumulator is itself a value of a row, so that partial results can travel between two stages. Nulls are left out, as
SQL does, except that a count without a column counts rows and a list keeps them. Without any value the result is null,
of a count 0, and of a list the empty one.

Source: "Keyed watermark support", Changes to window aggregation processors; upstream class `AggregateOperations`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from wmlab.core.errors import ModelError
from wmlab.dataflow.model.items import FieldValue

AggregateFunction = Literal["count", "sum", "min", "max", "avg", "list"]
AGGREGATE_FUNCTIONS: Final[tuple[str, ...]] = get_args(AggregateFunction)
Accumulators = tuple[FieldValue, ...]


class _Rule(NamedTuple):
    """The accumulator without a value and of one value, and how two are merged that are not null."""

    empty: FieldValue
    single: Callable[[Any], FieldValue]
    merge: Callable[[Any, Any], FieldValue]


def _of_both(merge: Callable[[Any, Any], FieldValue], first: FieldValue, second: FieldValue) -> FieldValue:
    return second if first is None else first if second is None else merge(first, second)


def _sums(first: Accumulators, second: Accumulators) -> FieldValue:
    (total, count), (more, again) = first, second
    return _of_both(add, total, more), add(count, again)


_RULES: Final[dict[str, _Rule]] = {
    "count": _Rule(0, lambda _: 1, add),
    "sum": _Rule(None, lambda value: value, add),
    "min": _Rule(None, lambda value: value, min),
    "max": _Rule(None, lambda value: value, max),
    "avg": _Rule((None, 0), lambda value: (value, 1), _sums),
    "list": _Rule((), lambda value: (value,), add),
    "distinct": _Rule((), lambda value: (value,), lambda first, second: tuple(dict.fromkeys(first + second))),
}


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One aggregation of a column, or a count of rows without one; `distinct` counts equal values once."""

    function: AggregateFunction
    column: int | None = None
    distinct: bool = False

    @property
    def _rule(self) -> _Rule:
        return _RULES["distinct" if self.distinct else self.function]

    def create(self) -> FieldValue:
        """The accumulator of no row."""
        return self._rule.empty

    def accumulate(self, accumulator: FieldValue, values: tuple[FieldValue, ...]) -> FieldValue:
        """The accumulator after one more row. Raises `ModelError` for a value that the function does not admit."""
        value: FieldValue = 1 if self.column is None else values[self.column]
        if value is None and (self.distinct or self.function != "list"):
            return accumulator
        if self.function in ("sum", "avg") and not isinstance(value, int | float):
            raise _wrong_value(self.function, value)
        return self.combine(accumulator, self._rule.single(value))

    def combine(self, first: FieldValue, second: FieldValue) -> FieldValue:
        """The accumulator of the rows of both, those of `first` before those of `second`."""
        try:
            return _of_both(self._rule.merge, first, second)
        except TypeError:
            raise _wrong_value(self.function, second) from None

    def finish(self, accumulator: FieldValue) -> FieldValue:
        """The result."""
        if self.distinct:
            plain = Aggregation(self.function, 0)
            rows = ((value,) for value in cast(Accumulators, accumulator))
            return plain.finish(reduce(plain.accumulate, rows, plain.create()))
        if self.function == "avg":
            total, count = cast(Any, accumulator)
            return None if count == 0 else total / count
        return accumulator


def _wrong_value(function: AggregateFunction, value: FieldValue) -> ModelError:
    return ModelError(
        f"The aggregation {function} does not admit {value!r} here.",
        remedy="Aggregate a column of numbers; minimum and maximum also take texts, but not both in one column.",
    )


def created(aggregates: Sequence[Aggregation]) -> Accumulators:
    """The accumulators of no row."""
    return tuple(aggregate.create() for aggregate in aggregates)


def accumulated(
    aggregates: Sequence[Aggregation], accumulators: Accumulators, values: tuple[FieldValue, ...]
) -> Accumulators:
    """The accumulators after one more row."""
    return tuple([each.accumulate(part, values) for each, part in zip(aggregates, accumulators, strict=True)])


def combined_accumulators(aggregates: Sequence[Aggregation], first: Accumulators, second: Accumulators) -> Accumulators:
    """The accumulators of the rows of both."""
    return tuple(each.combine(*parts) for each, *parts in zip(aggregates, first, second, strict=True))


def finished(aggregates: Sequence[Aggregation], accumulators: Accumulators) -> Accumulators:
    """The results."""
    return tuple([each.finish(part) for each, part in zip(aggregates, accumulators, strict=True)])


def group_of(values: tuple[FieldValue, ...], columns: Sequence[int]) -> tuple[FieldValue, ...]:
    """The group that a row belongs to: its values in these columns."""
    return tuple([values[column] for column in columns])


def group_order(group: tuple[FieldValue, ...]) -> tuple[Any, ...]:
    """Sorts groups of any values, nulls first, so that the order of results says nothing of the order of rows.

    Source: "Keyed watermark support", Changes to window aggregation processors (a set of keys, in no order).
    """
    return tuple((value is not None, type(value).__name__, 0 if value is None else value) for value in group)
