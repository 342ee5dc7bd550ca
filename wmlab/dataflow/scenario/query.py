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
from typing import Final, Literal, NamedTuple, NoReturn, TypeVar, cast

from wmlab.core.errors import ScenarioError
from wmlab.core.words import listed, shown
from wmlab.dataflow.model.aggregate import AGGREGATE_FUNCTIONS
from wmlab.dataflow.scenario.source import Source
from wmlab.dataflow.scenario.vertices import AnyStep, Edge, Filter, Join, Map, Sink, Window

_TOKENS: Final = re.compile(
    r"(?P<blank>\s+|--[^\n]*)|(?P<text>'(?:[^']|'')*')|(?P<number>\d+(?:\.\d+)?)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|[-+*(),.=<>;])|(?P<unknown>.)"
)
_UNITS_MS: Final = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_COMPARISONS: Final = {"=": "==", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LITERALS: Final = {"true": "True", "false": "False", "null": "None"}
_WINDOW_COLUMNS: Final = {"window_start": "start", "window_end": "end"}
_RESERVED: Final = re.compile(
    r"(?i:and|as|between|by|from|full|group|having|hop|in|inner|interval|is|join|left|limit|not|on|or|order|outer|right"
    r"|select|tumble|union|where)"
)
"""Words that are no names."""
_DEEPEST: Final = 30


class Token(NamedTuple):
    """A word, number, text or sign of a query: its characters, and the index of the first one in the query."""

    kind: str
    lexeme: str
    begin: int

    def is_one_of(self, *texts: str) -> bool:
        """Whether it is one of these keywords or signs."""
        return self.kind in {"word", "sign"} and self.lexeme.lower() in texts

    @property
    def is_name(self) -> bool:
        """Whether it can be the name of a stream, a column or a result."""
        return self.kind == "word" and _RESERVED.fullmatch(self.lexeme) is None


class ColumnName(NamedTuple):
    """A column as the query names it: STREAM.NAME, or the name alone."""

    stream: Token | None
    name: Token


Parts = tuple[str | ColumnName, ...]
"""An expression of wmlab in pieces, whose columns are to be resolved."""
Resolve = Callable[[ColumnName], str]
OuterSide = Literal["left", "right"] | None
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class SelectedItem:
    """What a query selects: an expression or, with `aggregate`, an aggregate of it; `name` is what it is called."""

    parts: Parts
    token: Token
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
        named = [part.name.lexeme for part in self.parts if isinstance(part, ColumnName)]
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
    groups: Sequence[Token]


class QueryReader:
    """Reads a query token by token; what it cannot read it reports at its first character."""

    def __init__(self, text: str, sources: Sequence[Source]) -> None:
        if not isinstance(text, str):
            raise ScenarioError(f"{shown(text)} is no query.", remedy="give the SQL of the query as text.")
        self.sql = text
        self._sources = {source.name: source for source in sources}
        matches = (match for match in _TOKENS.finditer(text) if match.lastgroup != "blank")
        self._tokens = [Token(str(match.lastgroup), match[0], match.start()) for match in matches]
        self._tokens.append(Token("end", "", len(text.rstrip())))
        self._number = self._depth = 0

    @property
    def end(self) -> Token:
        """The end of the query, where something may be missing."""
        return self._tokens[-1]

    def fail(self, token: Token, problem: str, remedy: str) -> NoReturn:
        """Raises `ScenarioError` with the line of the token and a mark under its first character."""
        begin = self.sql.rfind("\n", 0, token.begin) + 1
        line = self.sql[begin:].partition("\n")[0]
        number = self.sql.count("\n", 0, token.begin) + 1
        in_line = f" in line {number}" if "\n" in self.sql.strip() else ""
        mark = " " * (token.begin - begin) + "^"
        raise ScenarioError(
            f"Character {token.begin - begin + 1}{in_line} of the query is wrong: {problem}.\n    {line}\n    {mark}",
            remedy=remedy,
        )

    def _fail_expected(self, expected: str) -> NoReturn:
        instead = f"not {self._next.lexeme!r}" if self._next.lexeme else "but the query ends"
        self.fail(self._next, f"{expected} is expected, {instead}", f"write {expected} there.")

    @property
    def _next(self) -> Token:
        return self._tokens[self._number]

    def _take(self) -> Token:
        token = self._next
        self._number += 1
        return token

    def _take_if(self, *texts: str) -> Token | None:
        return self._take() if self._next.is_one_of(*texts) else None

    def _require(self, text: str) -> Token:
        return self._take_if(text) or self._fail_expected(repr(text))

    def _word(self, expected: str) -> Token:
        if not self._next.is_name:
            self._fail_expected(expected)
        return self._take()

    def query(self) -> ParsedQuery:
        """The whole query."""
        self._require("select")
        items = [] if self._take_if("*") else list(self._list(self._item))
        self._require("from")
        streams, windows, joined, outer = self._relation()
        where = self._condition() if self._take_if("where") else ()
        groups: list[Token] = []
        if self._take_if("group"):
            self._require("by")
            groups = list(self._list(self._group))
        self._take_if(";")
        if self._next.kind != "end":
            self.fail(self._next, f"the query cannot go on with {self._next.lexeme!r}", "leave out the rest.")
        return ParsedQuery(
            items=items, streams=streams, windows=windows, joined=joined, outer=outer, where=where, groups=groups
        )

    def _list(self, entry: Callable[[], Entry]) -> Iterator[Entry]:
        yield entry()
        while self._take_if(","):
            yield entry()

    def _item(self) -> SelectedItem:
        token, aggregate, parts = self._next, None, Parts()
        if token.lexeme.lower() in AGGREGATE_FUNCTIONS and self._tokens[self._number + 1].lexeme == "(":
            aggregate = self._take().lexeme.lower()
            self._require("(")
            if aggregate == "count":
                self._require("*")
            else:
                parts = (self._column(),)
            self._require(")")
        else:
            parts = self._condition()
        if self._take_if("as") or self._next.is_name:
            return SelectedItem(parts, token, aggregate, self._word("a name").lexeme)
        return SelectedItem(parts, token, aggregate)

    def _relation(self) -> tuple[list[StreamRead], WindowRead | None, Parts, OuterSide]:
        if self._next.is_one_of("table", "tumble", "hop"):
            stream, windows = self._windows()
            return [stream], windows, (), None
        streams, joined, outer = [self._stream()], Parts(), cast("OuterSide", None)
        if self._next.is_one_of("left", "right", "inner", "join"):
            if not self._take_if("inner") and (side := self._take_if("left", "right")):
                outer = "left" if side.is_one_of("left") else "right"
                self._take_if("outer")
            self._require("join")
            streams.append(self._stream(taken=streams[0].alias))
            self._require("on")
            joined = self._condition()
        return streams, None, joined, outer

    def _windows(self) -> tuple[StreamRead, WindowRead]:
        is_table = self._take_if("table") is not None
        if is_table:
            self._require("(")
        function = self._take_if("tumble", "hop") or self._fail_expected("tumble or hop")
        self._require("(")
        self._take_if("table")
        stream = self._stream(with_alias=False)
        self._require(",")
        self._require("descriptor")
        self._require("(")
        time = self._column()
        self._require(")")
        self._require(",")
        size_ms, slide_ms = self._duration_ms(), None
        if function.is_one_of("hop"):
            self._require(",")
            slide_ms = self._duration_ms()
        for _ in range(1 + is_table):
            self._require(")")
        return stream, WindowRead(time=time, size_ms=size_ms, slide_ms=slide_ms)

    def _stream(self, *, with_alias: bool = True, taken: str | None = None) -> StreamRead:
        name = self._word("the name of a stream")
        if name.lexeme not in self._sources:
            known = listed(list(self._sources)) or "none"
            self.fail(name, f"no source is called {name.lexeme!r}", f"name one of the sources: {known}.")
        alias = name
        if with_alias and (self._take_if("as") or self._next.is_name):
            alias = self._word("a name")
        if alias.lexeme == taken:
            self.fail(alias, f"both streams are called {taken!r}", "give one of them another name, as in orders as o.")
        return StreamRead(self._sources[name.lexeme], alias.lexeme)

    def _group(self) -> Token:
        return self._take() if self._next.kind == "number" else self._word("a column, or the number of a selected one")

    def _duration_ms(self) -> int:
        """A duration: 5 seconds, or interval '5' second."""
        is_interval = self._take_if("interval") is not None
        number = self._next
        if number.kind not in ({"text"} if is_interval else {"number"}) or not number.lexeme.strip("'").isdecimal():
            self._fail_expected("a whole number in quotation marks" if is_interval else "a duration such as 5 seconds")
        self._take()
        unit = self._next.lexeme.lower().removesuffix("s")
        if unit not in _UNITS_MS:
            self._fail_expected(f"a unit of time, such as {listed(list(_UNITS_MS))},")
        self._take()
        return int(number.lexeme.strip("'")) * _UNITS_MS[unit]

    def _column(self) -> ColumnName:
        name = self._word("a column")
        return ColumnName(name, self._word("a column")) if self._take_if(".") else ColumnName(None, name)

    def _condition(self) -> Parts:
        return self._chain(lambda: self._chain(self._negation, {"and": "and"}), {"or": "or"})

    def _chain(self, operand: Callable[[], Parts], operators: dict[str, str]) -> Parts:
        parts = operand()
        while (token := self._take_if(*operators)) is not None:
            parts = (*parts, f" {operators[token.lexeme.lower()]} ", *operand())
        return parts

    def _negation(self) -> Parts:
        negations = list(iter(lambda: self._take_if("not"), None))
        return (*("not " for _ in negations), *self._comparison())

    def _comparison(self) -> Parts:
        left = self._sum()
        if (sign := self._take_if(*_COMPARISONS)) is not None:
            return (*left, f" {_COMPARISONS[sign.lexeme]} ", *self._sum())
        if self._take_if("between"):
            low = self._sum()
            self._require("and")
            return (*low, " <= ", *left, " <= ", *self._sum())
        if self._take_if("is"):
            is_not = " is not None" if self._take_if("not") else " is None"
            self._require("null")
            return (*left, is_not)
        return left

    def _sum(self) -> Parts:
        return self._chain(lambda: self._chain(self._signed, {"*": "*"}), {"+": "+", "-": "-"})

    def _signed(self) -> Parts:
        signs = list(iter(lambda: self._take_if("-"), None))
        return (*("-" for _ in signs), *self._operand())

    def _operand(self) -> Parts:
        token = self._next
        if self._take_if("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                self.fail(
                    token, f"the query is nested deeper than {_DEEPEST} levels", "write it with fewer parentheses."
                )
            inner = self._condition()
            self._depth -= 1
            self._require(")")
            return ("(", *inner, ")")
        if token.kind == "text":
            return (repr(self._take().lexeme[1:-1].replace("''", "'")),)
        if token.is_one_of(*_LITERALS):
            return (_LITERALS[self._take().lexeme.lower()],)
        unit = self._tokens[min(self._number + 1, len(self._tokens) - 1)].lexeme.lower().removesuffix("s")
        if token.is_one_of("interval") or (token.kind == "number" and unit in _UNITS_MS):
            return (str(self._duration_ms()),)
        if token.kind == "number":
            return (self._take().lexeme,)
        if not token.is_name:
            self._fail_expected("a column or a value")
        return (self._column(),)


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
        name = column.name.lexeme
        if column.stream is not None and column.stream.lexeme not in by_alias:
            known = listed(list(by_alias))
            reader.fail(column.stream, f"no stream here is called {column.stream.lexeme!r}", f"name one of: {known}.")
        asked = [alias for alias in by_alias if column.stream is None or column.stream.lexeme == alias]
        having = [alias for alias in asked if name in by_alias[alias]]
        if not having:
            known = listed([each for alias in asked for each in by_alias[alias]])
            reader.fail(column.name, f"there is no column {name!r}", f"name one of: {known}.")
        if len(having) > 1:
            reader.fail(column.name, f"both streams have a column {name!r}", f"say which, as in {having[0]}.{name}.")
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
            reader.fail(item.token, "this expression has no name", "name it, as in price * 2 as double.")
        expression = written(item)
        if item.name in columns:
            reader.fail(item.token, f"another result is called {item.name!r} too", "give one of them another name.")
        columns[item.name] = expression
    return columns


def _aggregation(reader: QueryReader, query: ParsedQuery, resolve: Resolve) -> list[AnyStep]:
    """The window of a query that groups, and what it selects of the results."""
    end = reader.end
    windows = query.windows
    aggregates = [item for item in query.items if item.aggregate is not None]
    if windows is None:
        token = next((item.token for item in aggregates), query.groups[0] if query.groups else end)
        remedy = "select from tumble(STREAM, descriptor(TIME), 5 seconds)."
        reader.fail(token, "rows of a stream are aggregated in windows only, and the query has none", remedy)
    if not aggregates:
        token = query.items[0].token if query.items else end
        reader.fail(token, "the query has windows and no aggregate of their rows", "select one, such as count(*).")
    grouped = _grouped(reader, query, resolve)
    if not grouped.keys() & _WINDOW_COLUMNS.keys():
        remedy = "group by window_start, window_end or their numbers as well."
        reader.fail(
            query.groups[0] if query.groups else end, "the query has windows and does not group by them", remedy
        )
    for item in query.items:
        if item.aggregate is None and (item.column is None or item.column.name.lexeme not in grouped):
            remedy = "select columns that the query groups by, and aggregates."
            reader.fail(item.token, "it is neither an aggregate nor a column that the query groups by", remedy)

    def column_of(item: SelectedItem) -> str:
        return str(item.name) if item.column is None else grouped[item.column.name.lexeme]

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
        if token.kind == "number":
            number = int(token.lexeme) if token.lexeme.isdecimal() else 0
            if not 1 <= number <= len(query.items):
                remedy = f"count the selected ones, from 1 to {len(query.items)}."
                reader.fail(token, f"nothing selected has the number {token.lexeme}", remedy)
            column = query.items[number - 1].column
        else:
            aliased = (item.column for item in query.items if item.alias == token.lexeme)
            column = next(aliased, column)
        if column is None:
            reader.fail(token, "this is no column", "group by columns; an aggregate is made of the rows of a group.")
        name = column.name.lexeme
        grouped[name] = _WINDOW_COLUMNS.get(name) or resolve(column)
    return grouped
