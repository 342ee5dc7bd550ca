"""The base classes of answers, and the stragglers of a run.

The cost of a straggler is the difference to what the bound would have been without it, averaged over the whole run: by
so much it raised the mean lag of the bound. Stragglers that block it together share the cost equally.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar, get_args
from xml.sax.saxutils import quoteattr

import pyarrow as pa

from wmlab.core.errors import unknown_attribute
from wmlab.core.words import (
    as_sentence,
    grouped,
    joined,
    listed,
    rounded,
    unbroken,
    wrapped,
)


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
        return table + (f"<details><summary>What the columns say</summary><ul>{lines}</ul></details>" if lines else "")


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


Against = Literal["the others", "noted times", "the run without it", "the clock", "no bound", "unknown"]
"""What a cost is measured against: what the others, or all writers, had noted by then; another run, in which it did not
hold; the clock, where nobody else was there; or it is not measured, as there was no bound to compare, or for an unknown
reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """What blocked the bound: `who` is a writer or, without one, another cause; `why` is the kind of cause.

    `stretches` counts how often it did: a stretch is a period without a break. `held_ms` is the total time, `worst_ms`
    is the most by which it lowered the bound, and `cost_ms` is how much it raised the run's mean lag. Both are measured
    `against` the notes of the others or, without others, against the clock. They are None if they cannot be measured.
    """

    who: str
    why: str
    stretches: int
    held_ms: int
    worst_ms: int | None
    cost_ms: float | None
    against: Against = "the others"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Stragglers(TableAnswer[Straggler]):
    """The stragglers of a stream's lower bound over a run, the most expensive first; `run_ms` is the run's length.

    `bound` names the blocked bound: the lower bound, or the global watermark of a query. `meanings` explains each
    cause; `stall` is the sentence about its longest stall, `notes` are further sentences.
    """

    stream: str
    run_ms: int
    stragglers: tuple[Straggler, ...]
    bound: str = "lower bound"
    meanings: tuple[tuple[str, str], ...] = ()
    stall: str = ""
    notes: tuple[str, ...] = ()

    entries = "stragglers"
    heads = ("holder", "cause", "stretches", "held", "at worst", "cost in mean lag", "measured against")
    left = (0, 1, 6)
    schema = pa.schema(
        [(name, pa.string()) for name in ("stream", "who", "why")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("stretches", "held_ms")]
        + [("worst_ms", pa.int64()), ("cost_ms", pa.float64()), ("against", pa.string())]
    )

    @property
    def sentence(self) -> str:
        """The most expensive stragglers, in one sentence, with further notes."""
        return joined(self.stall, self._costliest(), *self.notes)

    def _costliest(self) -> str:
        over = f"Over {rounded(self.run_ms)}"
        priced = [entry for entry in self.stragglers if entry.cost_ms]
        if not any(entry.against != "the clock" for entry in priced):
            return f"{over} {self._alone()}"
        first, *rest = priced
        others = f"; next {listed([f'{h.who} ({h.why}, {self._ms(h.cost_ms)})' for h in rest[:2]])}" if rest else ""
        return (
            f"{over} the {self.bound} of {self.stream} was held back most by {first.who} ({first.why}): "
            f"for {self._ms(first.held_ms)}, which cost {self._ms(first.cost_ms)} of mean lag{others}."
        )

    def _alone(self) -> str:
        """Who blocked the bound where nobody was behind others: a single writer itself, or what stood in the way."""
        against_clock = [entry for entry in self.stragglers if entry.cost_ms and entry.against == "the clock"]
        without = [entry for entry in self.stragglers if entry.against == "no bound"]
        if against_clock:
            first = against_clock[0]
            return (
                f"{first.who}, with nobody else to compare, held the {self.bound} of {self.stream} most ({first.why}): "
                f"for {self._ms(first.held_ms)}, at worst {self._ms(first.worst_ms)} behind the clock, which makes "
                f"{self._ms(first.cost_ms)} of mean lag."
            )
        if without and len(without) == len(self.stragglers):
            longest = without[0]
            return f"{self.stream} had no {self.bound}, for {self._ms(longest.held_ms)}: {longest.who}."
        return f"nobody held the {self.bound} of {self.stream} below what the others had noted."

    @property
    def _has_prices(self) -> bool:
        """Whether anything is known of what the entries cost; if not, the table has no columns for it."""
        return any(entry.worst_ms is not None or entry.against == "no bound" for entry in self.stragglers)

    def _heads(self) -> tuple[str, ...]:
        return self.heads if self._has_prices else self.heads[:4]

    def _legend(self) -> list[str]:
        """What the words of the table mean, as far as it has them."""
        used = {entry.why for entry in self.stragglers}
        causes = [as_sentence(f"{why}: {meaning}") for why, meaning in self.meanings if why in used]
        prices = [_PRICES_IN_WORDS] if self._has_prices else []
        return [" ".join([_STRETCH_IN_WORDS, *prices]), *causes] if self.stragglers else []

    def __repr__(self) -> str:
        width = max((len(h.who) for h in self.stragglers), default=0)
        lines = [
            f"  {h.who:{width}}  {h.why}: {grouped(h.stretches)} × in all {self._ms(h.held_ms)}{self._price(h)}"
            for h in self.stragglers
        ]
        return "\n".join([wrapped(self.sentence), *lines, *map(wrapped, self._legend())])

    def _price(self, entry: Straggler) -> str:
        if entry.against == "no bound":
            return f", without a {self.bound}"
        if entry.worst_ms is None and entry.cost_ms is None:
            return ", cost unknown" if self._has_prices else ""
        clock = " behind the clock" if entry.against == "the clock" else ""
        return f", at worst {self._ms(entry.worst_ms)}{clock}, cost {self._ms(entry.cost_ms)}"

    def _definitions(self) -> list[str]:
        return [escape(text) for text in self._legend()]

    def _ms(self, number: float | None) -> str:
        return "unknown" if number is None else rounded(number)

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for entry in self.stragglers:
            numbers = (entry.held_ms, entry.worst_ms, entry.cost_ms)
            length, *prices = map(self._ms, numbers)
            if entry.against == "no bound":
                prices = ["–", "–"]
            row: tuple[Cell, ...] = (entry.who, entry.why, entry.stretches, length, *prices, entry.against)
            yield row if self._has_prices else row[:4]


_STRETCH_IN_WORDS: Final = "Stretches: how often one cause held the bound. Held: for how long in all."
_PRICES_IN_WORDS: Final = (
    "At worst: by how much it kept the bound down at most. Cost: how much less the bound would have lagged on average "
    "without it."
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `from_ms` to `to_ms` these lowered the bound by `by_ms`, `shared` of them in all.

    Against the clock `by_ms` is the amount at the beginning; it grows with the clock.
    """

    who: tuple[str, ...]
    why: str
    from_ms: int
    to_ms: int
    by_ms: int | None
    shared: int
    against: Against = "the others"

    @property
    def worst_ms(self) -> int:
        """The most by which they lowered the bound, not less than 0; by_ms must be known."""
        grown_ms = self.to_ms - self.from_ms if self.against == "the clock" else 0
        return max(0, (self.by_ms or 0) + grown_ms)

    @property
    def area(self) -> float:
        """That amount over the time, in ms times ms, for each of them; by_ms must be known."""
        by_ms, length_ms = self.by_ms or 0, self.to_ms - self.from_ms
        if self.against != "the clock":
            return by_ms * length_ms / self.shared
        # A bound ahead of the clock costs nothing until the clock has come there.
        rising_ms = min(length_ms, max(0, by_ms + length_ms))
        return (max(0, by_ms) + self.worst_ms) / 2 * rising_ms / self.shared


def stragglers_from(
    stretches: Iterable[Stretch],
    *,
    stream: str,
    run_ms: int,
    bound: str = "lower bound",
    meanings: Mapping[str, str] | None = None,
    stall: str = "",
    notes: Sequence[str] = (),
    kind: type[Stragglers] = Stragglers,
) -> Stragglers:
    """The stragglers of the stretches of a run, the most expensive first; `kind` words the answer."""
    by_straggler: dict[tuple[str, str, Against], list[Stretch]] = {}
    for stretch in stretches:
        against = "unknown" if stretch.by_ms is None and stretch.against != "no bound" else stretch.against
        for who in stretch.who:
            by_straggler.setdefault((who, stretch.why, against), []).append(stretch)
    stragglers = []
    for (who, why, against), mine in by_straggler.items():
        priced = [stretch for stretch in mine if stretch.by_ms is not None]
        straggler = Straggler(
            who=who,
            why=why,
            stretches=1 + sum(before.to_ms != s.from_ms for before, s in pairwise(mine)),
            held_ms=sum(s.to_ms - s.from_ms for s in mine),
            worst_ms=max((stretch.worst_ms for stretch in priced), default=None),
            cost_ms=max(0.0, round(sum(stretch.area for stretch in priced) / run_ms, 1)) if priced else None,
            against=against,
        )
        stragglers.append(straggler)
    order = get_args(Against).index
    stragglers.sort(key=lambda h: (-(h.cost_ms or 0), order(h.against), -h.held_ms, h.who, h.why))
    return kind(
        stream=stream,
        run_ms=run_ms,
        stragglers=tuple(stragglers),
        bound=bound,
        meanings=tuple((meanings or {}).items()),
        stall=stall,
        notes=tuple(notes),
    )
