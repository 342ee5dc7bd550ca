"""The vertices behind the sources, the edges between all of them, and the plain types that they are made of.

Every vertex has `parallelism` instances. What a vertex makes of a row is an expression per column (`select`) or
a Python `function`, which gets the row as a dict. The documents behind each are named in `wmlab.dataflow.model`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core.durations import duration_text
from wmlab.core.expression import parse
from wmlab.core.simulation import Delay, Fixed
from wmlab.core.values import (
    EACH_ONCE,
    Flag,
    Name,
    Period,
    Problem,
    function_name,
    is_function,
    tagged,
    value,
)
from wmlab.core.words import counted, exactly
from wmlab.dataflow.model.aggregate import AGGREGATE_FUNCTIONS

Column = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\W\d]\w*$")]
"""A column of rows."""
Columns = Annotated[tuple[Column, ...], Field(max_length=1_000), EACH_ONCE]
Key = Annotated[int, Field(ge=-128, le=127, strict=True)]
"""The key of a watermark: a signed byte."""


def _by_number(offered: object) -> object:
    """Columns by key, of which JSON makes a text."""
    if not isinstance(offered, dict):
        return offered
    if names := [key for key in offered if isinstance(key, str) and not key.lstrip("-").isdecimal()]:
        raise ValueError(f"names the column of each key by its number, as in 0: {names[0]!r}")
    return {int(key) if isinstance(key, str) and key.lstrip("-").isdecimal() else key: offered[key] for key in offered}


Copies = Annotated[int, Field(ge=1, le=1_000, strict=True)]
"""How many parallel instances a vertex has, or partitions a source."""
Size = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]
"""How many items a queue holds, or rows a state."""
Function = Callable[..., Any]
"""A Python function; a dataflow with one runs, but cannot be written to a file."""


def arity_problems(field: Sequence[str | int], function: object, takes: Sequence[str]) -> Iterator[Problem]:
    """The problem of a function that cannot be called with these arguments; of one without a signature, none."""
    if not is_function(function):
        return
    try:
        signature = inspect.signature(cast("Callable[..., Any]", function))
        signature.bind(*takes)
    except ValueError:
        return
    except TypeError:
        has = f"{function_name(function)}{signature}"
        yield Problem(tuple(field), f"must take {counted(len(takes), 'argument')}, ({', '.join(takes)}) (got {has})")


def _expression(text: str) -> str:
    parse(text)
    return text.strip()


Expression = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_expression)]
"""An expression over the columns of a row."""
Select = Annotated[dict[Column, Expression], Field(min_length=1)]
"""New columns by name, each with its expression over the columns of the input."""


def _condition(offered: object) -> object:
    if is_function(offered):
        return offered
    if not isinstance(offered, str):
        raise ValueError("give an expression, or a function of a row as a dict")
    return _expression(offered)


Condition = Annotated[Any, BeforeValidator(_condition)]
"""Which rows: an expression, or a function of a row as a dict."""


def _rows(offered: object) -> object:
    """Rows as tuples of plain values."""
    if not isinstance(offered, Sequence) or isinstance(offered, str):
        return offered
    rows = []
    for number, row in enumerate(offered):
        if not isinstance(row, Sequence) or isinstance(row, str):
            raise ValueError(f"row {number} is not a sequence of values (got {row!r})")
        try:
            rows.append(tuple(map(plain_value, row)))
        except ValueError as error:
            raise ValueError(f"row {number} {error}") from None
    return tuple(rows)


def plain_value(field: Any) -> Any:
    """A value as a row holds it: NumPy's scalars as Python's, lists as tuples; raises `ValueError` for any other."""
    if isinstance(field, list | tuple):
        return tuple(map(plain_value, field))
    plain = getattr(field, "item", lambda: field)()
    if not _is_plain(plain):
        raise ValueError(f"holds {field!r}, which is not a number, text, truth value or None")
    return plain


def _is_plain(field: object) -> bool:
    if isinstance(field, float):
        return math.isfinite(field)
    if isinstance(field, int):
        return -(2**63) <= field < 2**63
    return field is None or isinstance(field, str)


SourceRows = Annotated[tuple[tuple[Any, ...], ...], BeforeValidator(_rows), Field(max_length=10_000_000)]
"""Rows in the order in which they arrive, each with one value per column."""


def _one_column(offered: object) -> object:
    return (offered,) if isinstance(offered, str) else offered


Grouping = Annotated[Columns, BeforeValidator(_one_column)]
"""Columns that make a group; one may be given as a text."""


def _aggregate(text: str) -> str:
    name, call, rest = text.strip().partition("(")
    column = rest.removesuffix(")")
    if not call or not rest.endswith(")") or name not in AGGREGATE_FUNCTIONS or (name == "count") is not (column == ""):
        known = ", ".join(f"{known}({'' if known == 'count' else 'column'})" for known in AGGREGATE_FUNCTIONS)
        raise ValueError(f"is not an aggregate; there are {known}")
    return f"{name}({column.strip()})"


Aggregates = Annotated[dict[Column, Annotated[str, AfterValidator(_aggregate)]], Field(min_length=1)]
"""Result columns by name, each with its aggregate: `{"n": "count()", "total": "sum(amount)"}`."""


def aggregate_of(text: str) -> tuple[str, str | None]:
    """The function and the column of an aggregate; `count()` has none."""
    name, _, rest = text.partition("(")
    return name, rest.removesuffix(")") or None


@value
class Vertex:
    """The base of all vertices; each is a value whose `kind` is its class in snake case."""

    kind: ClassVar[str]
    name: Name
    """The vertex's name, which edges, answers and charts use."""
    _: KW_ONLY
    parallelism: Copies = 1

    @property
    def detail(self) -> str:
        """What it does, in one line."""
        match self:
            case Map() | FlatMap():
                return _selected(self)
            case Filter(where=where):
                return f"where {function_name(where) if is_function(where) else where}"
            case AsyncMap():
                return f"{'ordered' if self.ordered else 'unordered'}, {self.capacity} calls at once"
            case LateDrop():
                return f"late by {self.column}"
            case StatefulMap():
                lifetime = "for ever" if self.ttl_ms is None else f"for {exactly(self.ttl_ms)}"
                return f"{', '.join(self.aggregates.values())} by {', '.join(self.by) or 'nothing'}, kept {lifetime}"
            case Window():
                slide = "" if self.slide_ms is None else f" sliding by {exactly(self.slide_ms)}"
                over = f"{exactly(self.size_ms)}{slide} of {self.column}"
                return f"{', '.join(self.aggregates.values())} over {over}"
            case SessionWindow():
                over = f"{exactly(self.timeout_ms)} by {self.column}"
                return f"{', '.join(self.aggregates.values())} per session of {over}"
            case Custom():
                return function_name(self.function)
            case Join() | HashJoin():
                return f"{'inner' if self.outer is None else f'{self.outer} outer'}, {self.condition}"
        return "all inputs" if isinstance(self, Merge) else "results"


@value
class Selecting(Vertex):
    """The base of those that make rows by `select` or by a `function`; `Map` says what the fields mean."""

    _: KW_ONLY
    select: Any = None
    function: Function | None = None
    columns: Columns = ()

    def _problems(self) -> Iterator[Problem]:
        makers = [name for name in ("select", "function") if getattr(self, name) is not None]
        if len(makers) != 1:
            yield Problem(("select",), f"give one of select and function (got {' and '.join(makers) or 'none'})")
        elif self.select is not None and self.columns:
            yield Problem(("columns",), "select has the columns already; leave columns out")
        yield from arity_problems(("function",), self.function, ("row",))


@tagged
class Map(Selecting):
    """Each row becomes one row: with the columns of `select`, or the dict of `columns` that `function` returns.

    A column that `select` only renames keeps its watermark key; with a function, a column keeps it by its name.
    """

    _: KW_ONLY
    select: Select | None = None


@tagged
class Filter(Vertex):
    """Keeps the rows for which `where` holds: an expression, or a function of the row as a dict."""

    where: Condition

    def _problems(self) -> Iterator[Problem]:
        return arity_problems(("where",), self.where, ("row",))


@tagged
class FlatMap(Selecting):
    """Each row becomes any number of rows: one per entry of `select`, or those that `function` returns as a list."""

    _: KW_ONLY
    select: Annotated[tuple[Select, ...] | None, Field(min_length=1)] = None

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.select is not None and any(list(each) != list(self.select[0]) for each in self.select):
            yield Problem(("select",), "its entries must have the same columns")


@tagged
class Merge(Vertex):
    """Forwards the rows of all its inputs, which must have the same columns, and their watermarks coalesced by key."""


@tagged
class AsyncMap(Selecting):
    """Like `Map`, but by a call that takes time: at most `capacity` calls at once, each with a duration from `latency`.

    `ordered` emits results in the order of the rows, otherwise as they arrive. A `function` may return a dict, a list
    of dicts, or None for no row. With `ignores_key` it behaves as before watermarks had keys: if ordered, the last
    watermark on its queue is replaced whatever its key is; if unordered, all watermarks count as one sequence with key
    0.
    Source: upstream classes `AsyncTransformUsingServiceOrderedP`, `...UnorderedP`; "Keyed watermark support", Changes
    to async-transform processor.
    """

    _: KW_ONLY
    select: Select | None = None
    ordered: Flag = True
    ignores_key: Flag = False
    capacity: Size = 4
    latency: Delay = Fixed(10)

    def _problems(self) -> Iterator[Problem]:
        if self.select is not None or self.function is not None or self.columns:
            yield from super()._problems()


@tagged
class Custom(Vertex):
    """A custom processor, which may generate, drop and delay watermarks, and so break every rule about them.

    `function(state, item)` receives a row as a dict, or a `Watermark(key, value)` that is coalesced over all inputs. It
    returns the next state (the first one is `initial`) and a list of rows and watermarks, and must be pure. With a
    third value, `AGAIN`, it says "not now": it is called again with the same item a millisecond later, in the state
    that it returned, and receives nothing else before. Meanwhile its queues fill, as under back pressure. Emitted rows
    have `columns` (none: those of the input); emitted watermarks have the `keys`, each with its column (None: as the
    input).

    "The processor can choose, which method to override": with `by_input` the function is
    `function(state, item, ordinal)`, and receives rows and watermarks with their input edge, from 0. Its watermarks are
    "coalesced from multiple upstream processor instances contributing to the input edge `ordinal`, but multiple input
    edges are not coalesced and are received immediately". Its inputs may have different columns if `columns` names the
    output. In both forms, an idle message is forwarded when all inputs are idle.

    Source: "Keyed watermark support", WM generation, WM rules and Processor API (`tryProcessWatermark`); upstream class
    `Processor`.
    """

    _: KW_ONLY
    function: Function
    initial: int | float | str | None = None
    columns: Columns = ()
    keys: Annotated[dict[Key, Column] | None, BeforeValidator(_by_number)] = None
    by_input: Flag = False

    def _problems(self) -> Iterator[Problem]:
        yield from arity_problems(("function",), self.function, ("state", "item", "ordinal")[: 2 + self.by_input])


@tagged
class LateDrop(Vertex):
    """Drops every row whose time in `column` is below the watermark of that column's key.

    With `ignores_key` it behaves as before watermarks had keys: every watermark counts as one of that key.
    """

    column: Column
    _: KW_ONLY
    ignores_key: Flag = False


@tagged
class StatefulMap(Vertex):
    """Running aggregates per group `by`: each row is emitted with the aggregates up to and including itself.

    With `ttl_ms`, the state of a group expires when no row has touched it for that long, by the watermark of `column`;
    rows below that watermark are then dropped. Source: upstream class `TransformStatefulP`.
    """

    column: Column
    _: KW_ONLY
    by: Grouping = ()
    aggregates: Aggregates
    ttl_ms: Period | None = None


@tagged
class Sink(Vertex):
    """The output of a dataflow."""


@tagged
class Window(Vertex):
    """Aggregates of the rows in windows of `size_ms`, sliding by `slide_ms` (None: tumbling), per group `by`.

    The watermark of `column`'s key closes them; all other watermarks end here. A result has the columns `start`,
    `end`, those of `by`, and the aggregates; the key goes on to `end`. `limit` is the most accumulators it may hold
    (None: any number), one per frame and group. `ignores_key` is as in `LateDrop`.

    `columns` names the time column of each input, in order, if they differ; it begins with `column`. With
    `grouped_times`, the keys of columns in `by` are also forwarded: after each watermark, with the lowest time among
    all groups. The document describes this and rejects it, because every watermark has to read all groups.

    Which watermarks it puts out is the option `bounds_only` of the rules.
    Source: upstream class `SlidingWindowP`; "Keyed watermark support", Changes to window aggregation processors.
    """

    size_ms: Period
    _: KW_ONLY
    column: Column
    slide_ms: Period | None = None
    by: Grouping = ()
    aggregates: Aggregates
    limit: Size | None = None
    ignores_key: Flag = False
    columns: Columns = ()
    grouped_times: Flag = False

    @property
    def step_ms(self) -> int:
        """The distance of two window ends: the slide, or the size of a tumbling window."""
        return self.size_ms if self.slide_ms is None else self.slide_ms

    def _problems(self) -> Iterator[Problem]:
        if self.size_ms % self.step_ms:
            finer_ms = math.gcd(self.size_ms, self.step_ms)
            yield Problem(
                ("slide_ms",),
                f"must divide size_ms, {duration_text(self.size_ms)}, without a rest "
                f"(got {duration_text(self.step_ms)}); slide by {exactly(finer_ms)}, "
                f'which divides both, and let a Filter behind it keep the windows with "start % {self.step_ms} == 0"',
            )
        if self.columns and self.columns[0] != self.column:
            yield Problem(("columns",), f"must begin with column, {self.column!r} (got {self.columns[0]!r})")
        yield from _result_problems(self.by, self.aggregates)


@tagged
class SessionWindow(Vertex):
    """Aggregates the rows of a group that follow each other within less than `timeout_ms`.

    Results, keys and columns as in `Window`. Source: upstream class `SessionWindowP`.
    """

    timeout_ms: Period
    _: KW_ONLY
    column: Column
    by: Grouping = ()
    aggregates: Aggregates

    def _problems(self) -> Iterator[Problem]:
        return _result_problems(self.by, self.aggregates)


@tagged
class Join(Vertex):
    """Rows of the first input (`left`) with rows of the second (`right`) for which `condition` holds.

    It is an expression over `left.column` and `right.column`. Its top-level parts joined by `and` that compare a time
    of the one side with a time of the other, plus or minus a number, are the bounds of the join; it needs one in each
    direction: `left.t - 5000 <= right.t and right.t <= left.t + 5000`. `outer` names the side whose rows are emitted
    even without a match. `limit` is the maximum number of rows it may hold. A column of the right side is called
    `right_NAME` if the left side has the same name. Its output watermark is by the option `emit` of the rules.
    Source: "Stream-to-stream join"; upstream class `StreamToStreamJoinP`.
    """

    condition: Expression
    _: KW_ONLY
    outer: Literal["left", "right"] | None = None
    limit: Size | None = None


@tagged
class HashJoin(Vertex):
    """Rows of the first input (`left`), a stream or a batch, with rows of the second (`right`), a batch.

    "The stream-to-batch or batch-to-batch joins don't use watermarks": the join reads the batch to its end before the
    first row of the left input. Each left row is then emitted at once with every right row for which `condition` holds,
    an expression over `left.column` and `right.column` that need not bound any time; with `outer`, also without a
    match. Watermarks and idle messages of the left input pass through.

    A batch comes from sources that end (`ends=True`) and have no `times`; with `every_ms=0` all their rows are
    available from the start. Each instance has the whole batch, unless its edge routes differently. Columns are named
    as in `Join`.
    Source: "Keyed watermark support", JOIN operator; upstream classes `HashJoinP`, `HashJoinCollectP`.
    """

    condition: Expression
    _: KW_ONLY
    outer: Literal["left"] | None = None


Windowed = Window | SessionWindow
Joining = Join | HashJoin
AnyStep = Map | Filter | FlatMap | Merge | AsyncMap | Custom | LateDrop | StatefulMap | Windowed | Joining | Sink
"""Any vertex behind the sources."""


def _selected(part: Map | FlatMap) -> str:
    if part.function is not None:
        return function_name(part.function)
    if isinstance(part.select, tuple):
        return f"{len(part.select)} rows a row"
    columns = part.select or {}
    return ", ".join(name if text == name else f"{name} = {text}" for name, text in columns.items())


def _result_problems(by: tuple[str, ...], aggregates: dict[str, str]) -> Iterator[Problem]:
    for name in aggregates:
        if name in (*by, "start", "end"):
            yield Problem(("aggregates", name), f"another result column is called {name!r} too")
    for number, name in enumerate(by):
        if name in ("start", "end", *by[:number]):
            yield Problem(("by", number), f"another result column is called {name!r} too")


@value
class Edge:
    """Rows and watermarks flow from `source` to `target`; the order of a target's edges is the order of its inputs.

    `routing` of a row: `round_robin` in turn, `isolated` to the instance with the same number, `broadcast` to all,
    `partitioned` to the instance that the columns `by` choose. None: partitioned if the target groups or joins by
    columns, otherwise round robin. Watermarks and idle messages go to all instances that the edge reaches.
    Source: upstream class `Edge`.
    """

    source: str
    target: str
    _: KW_ONLY
    routing: Literal["round_robin", "isolated", "broadcast", "partitioned"] | None = None
    by: Grouping = ()

    def _problems(self) -> Iterator[Problem]:
        if self.by and self.routing not in {None, "partitioned"}:
            yield Problem(("by",), f"only a partitioned edge has columns (got routing {self.routing!r})")
        elif self.routing == "partitioned" and not self.by:
            yield Problem(("by",), "a partitioned edge needs the columns that choose the instance")

    @property
    def noun(self) -> str:
        """What errors call it."""
        return f"Edge {self.source!r} to {self.target!r}"

    def __repr__(self) -> str:
        marks = [f"routing={self.routing!r}"] if self.routing else []
        marks += [f"by={list(self.by)}"] if self.by else []
        return f"Edge({', '.join([repr(self.source), repr(self.target), *marks])})"


def _edges(offered: object) -> object:
    """Edges among which texts such as `a -> b -> c` stand for plain ones."""
    entries = (offered,) if isinstance(offered, str) else offered
    return tuple(edge for entry in entries for edge in _of(entry)) if isinstance(entries, list | tuple) else offered


def _of(entry: Any) -> list[Any]:
    if not isinstance(entry, str):
        return [entry]
    names = [name.strip() for name in entry.split("->")]
    if len(names) < 2 or not all(names):
        raise ValueError(f"write an edge as 'source -> target' (got {entry!r})")
    return [Edge(source, target) for source, target in pairwise(names)]


Edges = Annotated[tuple[Edge, ...], BeforeValidator(_edges), Field(max_length=10_000)]
"""Edges as values, or as texts such as `orders -> join -> out`."""
