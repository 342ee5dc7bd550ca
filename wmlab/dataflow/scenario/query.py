"""SQL queries over streams as vertices: a window aggregation, a join of two streams, or a selection.

The queries are those of the documents and their variations, in the dialect of Hazelcast. `<...>` may be left out:

    select ITEM <as NAME>, ... from RELATION <where CONDITION> <group by COLUMN or NUMBER, ...>

    RELATION     STREAM, tumble(STREAM, descriptor(TIME), SIZE), hop(STREAM, descriptor(TIME), SIZE, SLIDE), or
                 STREAM <as NAME> <left or right> join STREAM <as NAME> on CONDITION
    SIZE, SLIDE  5 seconds, or interval '5' second
    ITEM         a column, window_start, window_end, an aggregate such as count(*); without windows any expression

Source: "Keyed watermark support", Changes to window aggregation processors; "Stream-to-stream join".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeVar, cast

from wmlab.core.errors import ScenarioError
from wmlab.core.text_reader import TextReader
from wmlab.core.words import listed
from wmlab.dataflow.model.aggregate import AGGREGATE_FUNCTIONS
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AnyStep, Edge, Filter, Join, Map, Sink, Window

_UNITS_MS: Final = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_COMPARISONS: Final = {"=": "==", "<>": "!=", "!=": "!=", "<=": "<=", ">=": ">=", "<": "<", ">": ">"}
_LITERALS: Final = {"true": "True", "false": "False", "null": "None"}
_WINDOW_COLUMNS: Final = {"window_start": "start", "window_end": "end"}
_RESERVED: Final = (
    "and|as|between|by|from|full|group|having|hop|in|inner|interval|is|join|left|limit|not|on|or|order|outer|right"
    "|select|tumble|union|where"
)
"""Words that are not names."""
_BLANKS: Final = r"(?:\s|--[^\n]*)*"
_NAME: Final = rf"(?!(?i:{_RESERVED})\b)[^\W\d]\w*"
_NUMBER: Final = r"\d+(?:\.\d+)?"
_UNIT: Final = rf"(?i:(?:{'|'.join(_UNITS_MS)})s?)\b"
_DURATION: Final = rf"(?i:interval)\b|{_NUMBER}{_BLANKS}{_UNIT}"
_AGGREGATE: Final = rf"(?i:{'|'.join(AGGREGATE_FUNCTIONS)})(?={_BLANKS}\()"
_DEEPEST: Final = 30


def _one_of(*texts: str) -> str:
    """The pattern of these keywords and signs."""
    return "|".join(rf"(?i:{text})\b" if text.isalpha() else re.escape(text) for text in texts)


class Word(NamedTuple):
    """A name or a number of a query, and the index of its first character."""

    text: str
    begin: int


class ColumnName(NamedTuple):
    """A column as the query names it: STREAM.NAME, or the name alone."""

    stream: Word | None
    name: Word


Parts = tuple[str | ColumnName, ...]
"""An expression of wmlab in pieces, whose columns are to be resolved."""
Resolve = Callable[[ColumnName], str]
OuterSide = Literal["left", "right"] | None
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class SelectedItem:
    """What a query selects: an expression or, with `aggregate`, an aggregate of it; `name` is what it is called."""

    parts: Parts
    begin: int
    aggregate: str | None = None
    alias: str | None = None

    @property
    def column(self) -> ColumnName | None:
        """The column that it is; None: it is an aggregate, or an expression of several."""
        (first, *rest) = self.parts or ("",)
        return first if isinstance(first, ColumnName) and not rest and self.aggregate is None else None

    @property
    def name(self) -> str | None:
        """What the result is called; None: an expression without a name."""
        named = [part.name.text for part in self.parts if isinstance(part, ColumnName)]
        if self.alias is not None or self.column is not None:
            return self.alias or named[0]
        return None if self.aggregate is None else "_".join([self.aggregate, *named])


class StreamRead(NamedTuple):
    """A source that a query reads, and what the query calls it."""

    source: Source
    alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRead:
    """The windows over a stream: tumbling, or with a slide; `time` is their column."""

    time: ColumnName
    size_ms: int
    slide_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A query by its parts; `joined` is the condition of a join of its two streams, `outer` its outer side."""

    items: Sequence[SelectedItem]
    streams: Sequence[StreamRead]
    windows: WindowRead | None
    joined: Parts
    outer: OuterSide
    where: Parts
    groups: Sequence[Word]


class QueryReader(TextReader):
    """Reads a query; what it cannot read it reports at its first character."""

    def __init__(self, text: str, sources: Sequence[Source]) -> None:
        super().__init__(text, ignored=_BLANKS, noun="query", error=ScenarioError)
        self._sources = {source.name: source for source in sources}
        self._depth = 0

    def _take_one_of(self, *texts: str) -> str | None:
        """The keyword or sign that comes next, in lower case, if it is one of these."""
        token = self.take_if(_one_of(*texts))
        return None if token is None else token.lower()

    def _require(self, *texts: str) -> None:
        for text in texts:
            self.take(_one_of(text), repr(text))

    def _word(self, expected: str, pattern: str = _NAME) -> Word:
        begin = self.index
        return Word(self.take(pattern, expected), begin)

    def query(self) -> ParsedQuery:
        """The whole query."""
        self._require("select")
        items = [] if self._take_one_of("*") else list(self._list(self._item))
        self._require("from")
        streams, windows, joined, outer = self._relation()
        where = self._condition() if self._take_one_of("where") else ()
        groups: list[Word] = []
        if self._take_one_of("group"):
            self._require("by")
            groups = list(self._list(self._group))
        self._take_one_of(";")
        if not self.at_end:
            raise self.error(self.index, "the query cannot go on here", "leave out the rest")
        return ParsedQuery(
            items=items, streams=streams, windows=windows, joined=joined, outer=outer, where=where, groups=groups
        )

    def _list(self, entry: Callable[[], Entry]) -> Iterator[Entry]:
        yield entry()
        while self._take_one_of(","):
            yield entry()

    def _item(self) -> SelectedItem:
        begin, parts = self.index, Parts()
        aggregate = self.take_if(_AGGREGATE)
        if aggregate is None:
            parts = self._condition()
        else:
            aggregate = aggregate.lower()
            self._require("(")
            if aggregate == "count":
                self._require("*")
            else:
                parts = (self._column(),)
            self._require(")")
        is_named = self._take_one_of("as") or self.is_next(_NAME)
        return SelectedItem(parts, begin, aggregate, self._word("a name").text if is_named else None)

    def _relation(self) -> tuple[list[StreamRead], WindowRead | None, Parts, OuterSide]:
        if self.is_next(_one_of("table", "tumble", "hop")):
            stream, windows = self._windows()
            return [stream], windows, (), None
        streams, joined, outer = [self._stream()], Parts(), cast("OuterSide", None)
        if self.is_next(_one_of("left", "right", "inner", "join")):
            if not self._take_one_of("inner") and (side := self._take_one_of("left", "right")):
                outer = "left" if side == "left" else "right"
                self._take_one_of("outer")
            self._require("join")
            streams.append(self._stream(taken=streams[0].alias))
            self._require("on")
            joined = self._condition()
        return streams, None, joined, outer

    def _windows(self) -> tuple[StreamRead, WindowRead]:
        is_table = self._take_one_of("table") is not None
        if is_table:
            self._require("(")
        function = self.take(_one_of("tumble", "hop"), "tumble or hop").lower()
        self._require("(")
        self._take_one_of("table")
        stream = self._stream(with_alias=False)
        self._require(",", "descriptor", "(")
        time = self._column()
        self._require(")", ",")
        size_ms, slide_ms = self._duration_ms(), None
        if function == "hop":
            self._require(",")
            slide_ms = self._duration_ms()
        self._require(*[")"] * (1 + is_table))
        return stream, WindowRead(time=time, size_ms=size_ms, slide_ms=slide_ms)

    def _stream(self, *, with_alias: bool = True, taken: str | None = None) -> StreamRead:
        name = self._word("the name of a stream")
        if name.text not in self._sources:
            known = listed(list(self._sources)) or "none"
            raise self.error(name.begin, f"no source is called {name.text!r}", f"name one of the sources: {known}")
        alias = name
        if with_alias and (self._take_one_of("as") or self.is_next(_NAME)):
            alias = self._word("a name")
        if alias.text == taken:
            remedy = "give one of them another name, as in orders as o"
            raise self.error(alias.begin, f"both streams are called {taken!r}", remedy)
        return StreamRead(self._sources[name.text], alias.text)

    def _group(self) -> Word:
        return self._word("a column, or the number of a selected one", f"{_NUMBER}|{_NAME}")

    def _duration_ms(self) -> int:
        """A duration: 5 seconds, or interval '5' second."""
        if self._take_one_of("interval"):
            number = self.take(r"'\d+'", "a whole number in quotation marks")
        else:
            number = self.take(r"\d+(?![.\d])", "a duration such as 5 seconds")
        unit = self.take(_UNIT, f"a unit of time, such as {listed(list(_UNITS_MS))},")
        return int(number.strip("'")) * _UNITS_MS[unit.lower().removesuffix("s")]

    def _column(self, expected: str = "a column") -> ColumnName:
        name = self._word(expected)
        return ColumnName(name, self._word("a column")) if self._take_one_of(".") else ColumnName(None, name)

    def _condition(self) -> Parts:
        return self._chain(lambda: self._chain(self._negation, "and"), "or")

    def _chain(self, operand: Callable[[], Parts], *operators: str) -> Parts:
        parts = operand()
        while (operator := self._take_one_of(*operators)) is not None:
            parts = (*parts, f" {operator} ", *operand())
        return parts

    def _negation(self) -> Parts:
        negations = list(iter(lambda: self._take_one_of("not"), None))
        return (*("not " for _ in negations), *self._comparison())

    def _comparison(self) -> Parts:
        left = self._sum()
        if (sign := self._take_one_of(*_COMPARISONS)) is not None:
            return (*left, f" {_COMPARISONS[sign]} ", *self._sum())
        if self._take_one_of("between"):
            low = self._sum()
            self._require("and")
            return (*low, " <= ", *left, " <= ", *self._sum())
        if self._take_one_of("is"):
            is_not = " is not None" if self._take_one_of("not") else " is None"
            self._require("null")
            return (*left, is_not)
        return left

    def _sum(self) -> Parts:
        return self._chain(lambda: self._chain(self._signed, "*"), "+", "-")

    def _signed(self) -> Parts:
        signs = list(iter(lambda: self._take_one_of("-"), None))
        return (*("-" for _ in signs), *self._operand())

    def _operand(self) -> Parts:
        begin = self.index
        if self._take_one_of("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                problem = f"the query is nested deeper than {_DEEPEST} levels"
                raise self.error(begin, problem, "write it with fewer parentheses")
            inner = self._condition()
            self._depth -= 1
            self._require(")")
            return ("(", *inner, ")")
        if (text := self.take_if("'(?:[^']|'')*'")) is not None:
            return (repr(text[1:-1].replace("''", "'")),)
        if (literal := self._take_one_of(*_LITERALS)) is not None:
            return (_LITERALS[literal],)
        if self.is_next(_DURATION):
            return (str(self._duration_ms()),)
        if (number := self.take_if(_NUMBER)) is not None:
            return (number,)
        return (self._column("a column or a value"),)


def vertices_of_query(text: str, sources: Sequence[Source]) -> tuple[list[Source | AnyStep], list[Edge]]:
    """The vertices of a query from its sources to the sink "out", and their edges.

    They are called "where", "join", "window" and "select", as far as there are some. Raises `ScenarioError`, which
    points at the character, for a query that cannot be read, and for streams and columns that are not there.
    """
    reader = QueryReader(text, sources)
    query = reader.query()
    steps: list[AnyStep] = []
    resolve = _resolver(reader, query, joined=True)
    if query.joined:
        condition = _written(query.joined, _resolver(reader, query, joined=False))
        steps.append(Join("join", condition, outer=query.outer))
    if query.where:
        steps.append(Filter("where", _written(query.where, resolve)))
    if query.windows is not None or query.groups or any(item.aggregate for item in query.items):
        steps += _aggregation(reader, query, resolve)
    elif query.items:
        steps.append(Map("select", select=_select(reader, query.items, lambda item: _written(item.parts, resolve))))
    names = [query.streams[0].source.name, *(step.name for step in steps), "out"]
    edges = [Edge(source, target) for source, target in pairwise(names)]
    edges += [Edge(stream.source.name, "join") for stream in query.streams[1:]]
    return [*dict.fromkeys(stream.source for stream in query.streams), *steps, Sink("out")], edges


def _written(parts: Parts, resolve: Resolve) -> str:
    return "".join(resolve(part) if isinstance(part, ColumnName) else part for part in parts)


def _resolver(reader: QueryReader, query: ParsedQuery, *, joined: bool) -> Resolve:
    """What a column is called: in the rows of a stream or, with `joined`, of a join; or in its condition."""
    by_alias = {stream.alias: stream.source.row_columns for stream in query.streams}
    first = next(iter(by_alias.values()))

    def resolve(column: ColumnName) -> str:
        name = column.name.text
        if column.stream is not None and column.stream.text not in by_alias:
            known = listed(list(by_alias))
            problem = f"no stream here is called {column.stream.text!r}"
            raise reader.error(column.stream.begin, problem, f"name one of: {known}")
        aliases = [alias for alias in by_alias if column.stream is None or column.stream.text == alias]
        having = [alias for alias in aliases if name in by_alias[alias]]
        if not having:
            known = listed([each for alias in aliases for each in by_alias[alias]])
            raise reader.error(column.name.begin, f"there is no column {name!r}", f"name one of: {known}")
        if len(having) > 1:
            remedy = f"say which, as in {having[0]}.{name}"
            raise reader.error(column.name.begin, f"both streams have a column {name!r}", remedy)
        is_left = having[0] == query.streams[0].alias
        if query.joined and not joined:
            return f"{'left' if is_left else 'right'}.{name}"
        return name if is_left or name not in first else f"right_{name}"

    return resolve


def _select(
    reader: QueryReader, items: Sequence[SelectedItem], written: Callable[[SelectedItem], str]
) -> dict[str, str]:
    """The columns of the result by name."""
    columns: dict[str, str] = {}
    for item in items:
        if item.name is None:
            raise reader.error(item.begin, "this expression has no name", "name it, as in price * 2 as double")
        expression = written(item)
        if item.name in columns:
            problem = f"another result is called {item.name!r} too"
            raise reader.error(item.begin, problem, "give one of them another name")
        columns[item.name] = expression
    return columns


def _aggregation(reader: QueryReader, query: ParsedQuery, resolve: Resolve) -> list[AnyStep]:
    """The window of a query that groups, and what it selects of the results."""
    windows = query.windows
    aggregates = [item for item in query.items if item.aggregate is not None]
    if windows is None:
        begin = aggregates[0].begin if aggregates else query.groups[0].begin
        remedy = "select from tumble(STREAM, descriptor(TIME), 5 seconds)"
        raise reader.error(begin, "rows of a stream are aggregated in windows only, and the query has none", remedy)
    if not aggregates:
        begin = query.items[0].begin if query.items else reader.index
        remedy = "select one, such as count(*)"
        raise reader.error(begin, "the query has windows and no aggregate of their rows", remedy)
    grouped = _grouped(reader, query, resolve)
    if not grouped.keys() & _WINDOW_COLUMNS.keys():
        begin = query.groups[0].begin if query.groups else reader.index
        remedy = "group by window_start, window_end or their numbers as well"
        raise reader.error(begin, "the query has windows and does not group by them", remedy)
    for item in query.items:
        if item.aggregate is None and (item.column is None or item.column.name.text not in grouped):
            remedy = "select columns that the query groups by, and aggregates"
            raise reader.error(item.begin, "it is neither an aggregate nor a column that the query groups by", remedy)

    def column_of(item: SelectedItem) -> str:
        return str(item.name) if item.column is None else grouped[item.column.name.text]

    select = _select(reader, query.items, column_of)
    window = Window(
        "window",
        windows.size_ms,
        column=resolve(windows.time),
        slide_ms=windows.slide_ms,
        by=tuple(column for name, column in grouped.items() if name not in _WINDOW_COLUMNS),
        aggregates={str(item.name): f"{item.aggregate}({_written(item.parts, resolve)})" for item in aggregates},
    )
    return [window, Map("select", select=select)]


def _grouped(reader: QueryReader, query: ParsedQuery, resolve: Resolve) -> dict[str, str]:
    """The columns that a query groups by, as it names them, and what they are called in the results of the window."""
    grouped: dict[str, str] = {}
    for token in query.groups:
        column: ColumnName | None = ColumnName(None, token)
        if token.text[0].isdecimal():
            number = int(token.text) if token.text.isdecimal() else 0
            if not 1 <= number <= len(query.items):
                remedy = f"count the selected ones, from 1 to {len(query.items)}"
                raise reader.error(token.begin, f"nothing selected has the number {token.text}", remedy)
            column = query.items[number - 1].column
        else:
            aliased = (item.column for item in query.items if item.alias == token.text)
            column = next(aliased, column)
        if column is None:
            remedy = "group by columns; an aggregate is made of the rows of a group"
            raise reader.error(token.begin, "this is not a column", remedy)
        name = column.name.text
        grouped[name] = _WINDOW_COLUMNS.get(name) or resolve(column)
    return grouped
