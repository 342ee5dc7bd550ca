"""What every answer is: a sentence, its fields as dicts and JSON and, if it has several entries, a table of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from wmlab.core.words import grouped


class Answer:
    """Base of the frozen dataclasses that answer a question; in text it is its `sentence`, as HTML a paragraph."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def sentence(self) -> str:
            """The answer in one sentence."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists and scalars."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    def to_json(self) -> str:
        """The answer as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.sentence)}</p>"


@dataclass(frozen=True, slots=True)
class Markup:
    """A cell of a table that is HTML already."""

    html: str


Cell = str | int | None | Markup


Entry = TypeVar("Entry")


class TableAnswer(Answer, Generic[Entry]):
    """Base of the answers with several entries, over which it iterates; `entries` names the field that has them.

    A subclass gives the `heads` of its HTML table and the cells of each row (`_rows`); `left` are the columns whose
    cells stand on the left, `left_heads` those whose heads do. `schema` has the columns of the pandas DataFrame, which
    are attributes of the entries or of the answer.
    """

    __slots__ = ()

    entries: ClassVar[str]
    heads: ClassVar[tuple[str, ...]]
    left: ClassVar[tuple[int, ...]] = (0,)
    left_heads: ClassVar[tuple[int, ...]] = ()
    schema: ClassVar[pa.Schema]

    def _rows(self) -> Iterable[Sequence[Cell]]:
        raise NotImplementedError

    def _heads(self) -> tuple[str, ...]:
        return self.heads

    def _caption(self) -> str:
        """The caption of the HTML table, as HTML."""
        return escape(self.sentence)

    def __iter__(self) -> Iterator[Entry]:
        return iter(getattr(self, self.entries))

    def __len__(self) -> int:
        return len(getattr(self, self.entries))

    def to_pandas(self) -> Any:
        """One row per entry as a pandas DataFrame."""
        names = self.schema.names
        columns = {name: [getattr(one if hasattr(one, name) else self, name) for one in self] for name in names}
        return pandas_frame(pa.table(columns, self.schema))

    def _repr_html_(self) -> str:
        return html_table(self._caption(), self._heads(), self._rows(), left=self.left, left_heads=self.left_heads)


def html_table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    left: Sequence[int] = (0,),
    left_heads: Sequence[int] = (),
) -> str:
    """A table as HTML; the caption is HTML already. `left` and `left_heads` are as those of `TableAnswer`."""
    head = [_tag("th", escape(text), left=n in left_heads) for n, text in enumerate(heads)]
    body = [[_tag("td", _html(cell), left=n in left) for n, cell in enumerate(row)] for row in rows]
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in [head, *body] if cells)
    return f"<table><caption>{caption}</caption>{lines}</table>"


def text_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """The rows as lines, in columns two spaces apart; `right` are the columns whose cells stand on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if column in right else str.ljust for column in range(len(widths))]
    lines = ("  ".join(side(cell, n) for side, cell, n in zip(sides, row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in lines]


def pandas_frame(table: pa.Table) -> Any:
    """The table as a pandas DataFrame: offset maps as dicts, nullable integers as `Int64`."""
    frame = table.to_pandas(maps_as_pydicts="strict", integer_object_nulls=True)
    # Without this a null would turn the whole column into doubles, which round times beyond 2^53.
    return frame.astype({c.name: "Int64" for c in table.schema if c.nullable and c.type == pa.int64()})


def _tag(name: str, html: str, *, left: bool) -> str:
    return f"<{name} style='text-align:left'>{html}</{name}>" if left else f"<{name}>{html}</{name}>"


def _html(cell: Cell) -> str:
    if isinstance(cell, Markup):
        return cell.html
    if cell is None:
        return "unknown"
    return escape(cell) if isinstance(cell, str) else grouped(cell)
