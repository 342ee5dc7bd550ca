"""The base classes of answers, and their tables as HTML and text."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar
from xml.sax.saxutils import quoteattr

import pyarrow as pa

from wmlab.core.errors import unknown_attribute
from wmlab.core.words import grouped, unbroken, wrapped


class Answer:
    """Base of the frozen dataclasses that answer a question; in text it is its `sentence`, as HTML a paragraph."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def sentence(self) -> str:
            """The answer in one sentence."""

    else:
        __getattr__ = unknown_attribute

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists and scalars."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    def to_json(self) -> str:
        """The answer as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"

    def __repr__(self) -> str:
        return wrapped(self.sentence)

    def _repr_html_(self) -> str:
        return f"<p>{escape(unbroken(self.sentence))}</p>"


@dataclass(frozen=True, slots=True)
class Markup:
    """A cell of a table that is HTML already."""

    html: str


Cell = str | int | None | Markup


AnswerEntry = TypeVar("AnswerEntry")

COLUMNS_HINT: Final = "What each column says: .columns"
"""The line beneath a table in text whose answer has `columns`."""


class TableAnswer(Answer, Generic[AnswerEntry]):
    """Base of the answers with several entries, over which it iterates; `entries` names the field that has them.

    A subclass gives the `heads` of its HTML table and the cells of each row (`_rows`); `left` are the columns that
    stand on the left, with their heads. `schema` has the columns of the pandas DataFrame, which are attributes of the
    entries or of the answer. `columns` says what heads mean that do not say it themselves: as HTML beneath the table
    and where the pointer is on the head.
    """

    __slots__ = ()

    entries: ClassVar[str]
    heads: ClassVar[tuple[str, ...]]
    left: ClassVar[tuple[int, ...]] = (0,)
    columns: ClassVar[Mapping[str, str]] = {}
    schema: ClassVar[pa.Schema]

    def _rows(self) -> Iterable[Sequence[Cell]]:
        raise NotImplementedError

    def _heads(self) -> tuple[str, ...]:
        return self.heads

    def _caption(self) -> str:
        """What stands above the HTML table, as HTML."""
        return escape(unbroken(self.sentence))

    def _definitions(self) -> list[str]:
        """What the words of the table mean, each as HTML; a page shows them when a reader opens them."""
        return [f"<b>{escape(head)}</b>: {escape(text)}" for head, text in self.columns.items()]

    def __iter__(self) -> Iterator[AnswerEntry]:
        return iter(getattr(self, self.entries))

    def __len__(self) -> int:
        return len(getattr(self, self.entries))

    def to_pandas(self) -> Any:
        """One row per entry as a pandas DataFrame."""
        names = self.schema.names
        columns = {name: [getattr(entry if hasattr(entry, name) else self, name) for entry in self] for name in names}
        return pandas_frame(pa.table(columns, self.schema))

    def _repr_html_(self) -> str:
        table = html_table(
            self._caption(),
            self._heads(),
            self._rows(),
            left=self.left,
            columns=self.columns,
        )
        lines = "".join(f"<li>{line}</li>" for line in self._definitions())
        return table + folded("What the columns say", f"<ul>{lines}</ul>" if lines else "")


def folded(head: str, html: str) -> str:
    """HTML below a head that a reader opens; nothing if there is none."""
    return f"<details><summary>{head}</summary>{html}</details>" if html else ""


def html_table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    left: Sequence[int] = (0,),
    columns: Mapping[str, str] | None = None,
) -> str:
    """A table as HTML below its caption, which is HTML already and as wide as the page; empty: there is none.

    The other arguments are what `TableAnswer` has of these names.
    """
    head = [
        _tag("th", escape(text), left=n in left, title=(columns or {}).get(text, "")) for n, text in enumerate(heads)
    ]
    body = [
        [_tag("td", _html(cell), left=n in left, is_number=_is_number(cell)) for n, cell in enumerate(row)]
        for row in rows
    ]
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in [head, *body] if cells)
    above = f"<p style='text-align:left'>{caption}</p>" if caption else ""
    return f"{above}<table>{lines}</table>"


def html_card(title: str, rows: Iterable[tuple[str, Cell]]) -> str:
    """What there is to say of one thing, as an HTML table of names and texts."""
    named = [(Markup(f"<strong>{escape(name)}</strong>"), cell) for name, cell in rows]
    return html_table(escape(title), (), named, left=(0, 1))


def html_rows(rows: Iterable[tuple[str, Sequence[str], str]]) -> str:
    """Rows of a label, its values and its meaning as an HTML table; the meaning shows where the pointer is."""
    lines = (
        _tag("th", escape(label), left=True, title=meaning)
        + "".join(_tag("td", _html(value), left=True, is_number=_is_number(value)) for value in values)
        for label, values, meaning in rows
    )
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def as_lines(texts: Iterable[str]) -> Markup:
    """The texts one below the other, as a cell of a table."""
    return Markup("<br>".join(map(escape, texts)) or "nothing")


def text_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), width: int | None = None) -> list[str]:
    """The rows as lines, in columns two spaces apart; `right` are the columns whose cells stand on the right.

    Columns that do not fit into `width` go on in another block below, with the first column again.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    blocks: list[list[int]] = [[0]]
    for column in range(1, len(widths)):
        taken = sum(widths[each] + 2 for each in blocks[-1]) + widths[column]
        if width is not None and taken > width and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(column)
    lines: list[str] = []
    for block in blocks:
        lines += [""] if lines else []
        for row in rows:
            cells = [row[n].rjust(widths[n]) if n in right else row[n].ljust(widths[n]) for n in block]
            lines.append("  ".join(cells).rstrip())
    return lines


def terminal_width() -> int:
    """How many characters a line of a table in text may have: those of the terminal, or else 100."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else _LINE_WIDTH
    except (OSError, ValueError):
        return _LINE_WIDTH


_LINE_WIDTH: Final = 100


def pandas_frame(table: pa.Table) -> Any:
    """The table as a pandas DataFrame: offset maps as dicts, nullable integers as `Int64`."""
    frame = table.to_pandas(maps_as_pydicts="strict", integer_object_nulls=True)
    # Without this a null would turn the whole column into doubles, which round times beyond 2^53.
    return frame.astype({c.name: "Int64" for c in table.schema if c.nullable and c.type == pa.int64()})


def _tag(name: str, html: str, *, left: bool, is_number: bool = False, title: str = "") -> str:
    rules = [*(["text-align:left"] if left else []), *(["white-space:nowrap"] if is_number else [])]
    style = f" style='{';'.join(rules)}'" if rules else ""
    return f"<{name}{style}{f' title={quoteattr(title)}' if title else ''}>{html}</{name}>"


def _html(cell: Cell) -> str:
    if isinstance(cell, Markup):
        return cell.html
    if cell is None:
        return "unknown"
    return escape(unbroken(cell if isinstance(cell, str) else grouped(cell)))


_QUANTITY: Final = r"[−-]?\d[\d ,.]*(?: ?(?:ms|s|min|h|d|B|kB|MB|%))?"
_NUMBER: Final = re.compile(rf"{_QUANTITY}(?: {_QUANTITY})*")


def _is_number(cell: Cell) -> bool:
    """Whether a cell is a number, with or without a unit: a table does not break it."""
    return isinstance(cell, int) or (isinstance(cell, str) and _NUMBER.fullmatch(cell) is not None)
