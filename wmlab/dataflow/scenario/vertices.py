"""What stands between sources and sinks, without windows and joins: maps, filters, merges, calls, late drop, state.

Every vertex has `parallelism` instances. With `turn_ms` each turn of an instance takes that long and one row at most;
otherwise it takes no time and all that has come. What a vertex makes of a row is an expression per column (`select`) or
a Python `function`, which gets the row as a dict. The documents behind each are named in `wmlab.dataflow.model`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from pydantic import Field

from wmlab.core.delays import Delay, Fixed
from wmlab.core.values import Ms, Name, Period, Problem, Problems, value
from wmlab.dataflow.scenario.parts import (
    Aggregates,
    Column,
    Columns,
    Condition,
    Copies,
    Function,
    Grouping,
    Select,
    Size,
    function_name,
    is_function,
)


@value
class Map:
    """Each row becomes one row: of the columns of `select`, or what `function` returns, a dict of `columns`.

    A column that `select` only renames keeps its watermark key; with a function, a column keeps it by its name.
    """

    name: Name
    _: KW_ONLY
    select: Select | None = None
    function: Function | None = None
    columns: Columns = ()
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["map"] = "map"

    def __post_init__(self) -> None:
        _require_one(self)

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return _selected(self)


@value
class Filter:
    """Keeps the rows for which `where` holds: an expression, or a function of the row as a dict."""

    name: Name
    where: Condition
    _: KW_ONLY
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["filter"] = "filter"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"where {condition_text(self.where)}"


@value
class FlatMap:
    """Each row becomes any number of rows: one per entry of `select`, or those that `function` returns as a list."""

    name: Name
    _: KW_ONLY
    select: Annotated[tuple[Select, ...] | None, Field(min_length=1)] = None
    function: Function | None = None
    columns: Columns = ()
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["flat_map"] = "flat_map"

    def __post_init__(self) -> None:
        _require_one(self)
        if self.select is not None and any(list(each) != list(self.select[0]) for each in self.select):
            raise Problems(f"FlatMap {self.name!r}", [Problem(("select",), "its entries must have the same columns")])

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"{len(self.select)} rows a row" if self.select is not None else _selected(self)


@value
class Merge:
    """Hands on the rows of all its inputs, which must have the same columns, and their watermarks merged by key."""

    name: Name
    _: KW_ONLY
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["merge"] = "merge"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return "all inputs"


@value
class AsyncMap:
    """As `Map`, by a call that takes time: at most `capacity` at once, each as long as `latency` draws.

    `ordered` hands results on in the order of the rows, otherwise as they come. A `function` may return a dict, a list
    of dicts, or None for no row. Source: upstream classes `AsyncTransformUsingServiceOrderedP`, `...UnorderedP`.
    """

    name: Name
    _: KW_ONLY
    select: Select | None = None
    function: Function | None = None
    columns: Columns = ()
    ordered: bool = True
    capacity: Size = 4
    latency: Delay = Fixed(10)
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["async_map"] = "async_map"

    def __post_init__(self) -> None:
        if self.select is not None or self.function is not None:
            _require_one(self)

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        order = "ordered" if self.ordered else "unordered"
        return f"{order}, {self.capacity} calls at once"


@value
class LateDrop:
    """Leaves out every row whose time in `column` is below the watermark of that column's key."""

    name: Name
    column: Column
    _: KW_ONLY
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["late_drop"] = "late_drop"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"late by {self.column}"


@value
class StatefulMap:
    """Running aggregates per group `by`: each row goes on with the aggregates up to and including itself.

    With `ttl_ms` the state of a group goes when no row touched it for that long, by the watermark of `column`; rows
    below that watermark are then dropped. Source: upstream class `TransformStatefulP`.
    """

    name: Name
    column: Column
    _: KW_ONLY
    by: Grouping = ()
    aggregates: Aggregates
    ttl_ms: Period | None = None
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["stateful_map"] = "stateful_map"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        kept = "for ever" if self.ttl_ms is None else f"for {self.ttl_ms} ms"
        return f"{', '.join(self.aggregates.values())} by {', '.join(self.by) or 'nothing'}, kept {kept}"


@value
class Sink:
    """Where rows come out."""

    name: Name
    _: KW_ONLY
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["sink"] = "sink"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return "results"


def condition_text(condition: Any) -> str:
    """A condition as one reads it: its expression, or the name of its function."""
    return function_name(condition) if is_function(condition) else str(condition)


def _selected(part: Map | FlatMap) -> str:
    if part.function is not None:
        return function_name(part.function)
    assert isinstance(part.select, dict)
    return ", ".join(name if text == name else f"{name} = {text}" for name, text in part.select.items())


def _require_one(part: Map | FlatMap | AsyncMap) -> None:
    problems = tuple(_select_problems(part))
    if problems:
        raise Problems(f"{type(part).__name__} {part.name!r}", problems)


def _select_problems(part: Map | FlatMap | AsyncMap) -> Iterator[Problem]:
    given = [name for name in ("select", "function") if getattr(part, name) is not None]
    if len(given) != 1:
        yield Problem(("select",), f"give one of select and function (got {' and '.join(given) or 'none'})")
    elif part.select is not None and part.columns:
        yield Problem(("columns",), "select has the columns already; leave columns out")
