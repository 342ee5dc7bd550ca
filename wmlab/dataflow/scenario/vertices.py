"""The vertices behind the sources: maps, filters, merges, calls, late drop, state, windows, joins and sinks.

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
    Expression,
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


@value
class Window:
    """Aggregates of the rows in windows of `size_ms`, sliding by `slide_ms` (None: tumbling), per group `by`.

    The watermark of `column`'s key closes them; all other watermarks end here. A result has the columns `start`,
    `end`, those of `by`, and the aggregates; the key goes on to `end`. `limit` is the most accumulators it may hold
    (None: any number), one per frame and group. With two `stages` the first collects frames where the rows are, the
    second combines them per group.
    Source: upstream class `SlidingWindowP`.
    """

    name: Name
    size_ms: Period
    _: KW_ONLY
    column: Column
    slide_ms: Period | None = None
    by: Grouping = ()
    aggregates: Aggregates
    stages: Literal[1, 2] = 1
    limit: Size | None = None
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["window"] = "window"

    def __post_init__(self) -> None:
        problems = tuple(_window_problems(self))
        if problems:
            raise Problems(f"Window {self.name!r}", problems)

    @property
    def step_ms(self) -> int:
        """The distance of two window ends: the slide, or the size of a tumbling window."""
        return self.size_ms if self.slide_ms is None else self.slide_ms

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        slide = "" if self.slide_ms is None else f" sliding by {self.slide_ms} ms"
        stages = ", two stages" if self.stages == 2 else ""
        return f"{', '.join(self.aggregates.values())} over {self.size_ms} ms{slide} of {self.column}{stages}"


@value
class SessionWindow:
    """Aggregates of the rows of a group that follow each other within less than `timeout_ms`.

    Results, keys and columns as in `Window`. Source: upstream class `SessionWindowP`.
    """

    name: Name
    timeout_ms: Period
    _: KW_ONLY
    column: Column
    by: Grouping = ()
    aggregates: Aggregates
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["session_window"] = "session_window"

    def __post_init__(self) -> None:
        problems = tuple(_result_problems(self.by, self.aggregates))
        if problems:
            raise Problems(f"SessionWindow {self.name!r}", problems)

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"{', '.join(self.aggregates.values())} per session of {self.timeout_ms} ms by {self.column}"


@value
class Join:
    """Rows of the first input (`left`) with rows of the second (`right`) for which `condition` holds.

    It is an expression over `left.column` and `right.column`. Its top-level parts joined by `and` that compare a
    time of the one side with a time of the other, plus or minus a number, are the bounds of the join; it needs one in
    each direction: `left.t - 5000 <= right.t and right.t <= left.t + 5000`. `outer` names the side whose rows come out
    without a partner too. `emit` chooses the output watermark, `state` as in 5.3 and later or `buffer` as in the
    design text; `limit` is the most rows it may hold. Columns of the right side whose name the left side has too are
    called `right_NAME`. Source: "Stream-to-stream join"; upstream class `StreamToStreamJoinP`.
    """

    name: Name
    condition: Expression
    _: KW_ONLY
    outer: Literal["left", "right"] | None = None
    emit: Literal["state", "buffer"] = "state"
    limit: Size | None = None
    parallelism: Copies = 1
    turn_ms: Ms = 0
    kind: Literal["join"] = "join"

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        return f"{'inner' if self.outer is None else f'{self.outer} outer'}, {self.condition}"


def _window_problems(window: Window) -> Iterator[Problem]:
    if window.slide_ms is not None and window.size_ms % window.slide_ms:
        message = f"must divide size_ms, {window.size_ms}, without a rest (got {window.slide_ms})"
        yield Problem(("slide_ms",), message)
    yield from _result_problems(window.by, window.aggregates)


def _result_problems(by: tuple[str, ...], aggregates: dict[str, str]) -> Iterator[Problem]:
    taken = [*by, "start", "end"]
    for name in aggregates:
        if name in taken:
            yield Problem(("aggregates", name), f"another result column is called {name!r} too")
    for number, name in enumerate(by):
        if name in {"start", "end"} or name in by[:number]:
            yield Problem(("by", number), f"another result column is called {name!r} too")
