"""Coalescing on paper: watermarks and idle messages of some inputs, in the notation of "Keyed watermark support".

`in: wm(N, M)` is a watermark M from input N, `in: wm(N, M, key=K)` one of another key than 0; `in: idle(N)` an idle
message, `in: event(N)` an event, `in: done(N)` the end of an input. What is behind `##` up to the end of its line is a
comment. Lines with `out:` give the expected output; you can paste an example of the document unchanged.

Source: "Keyed watermark support", Description of current behavior and Handling of keyed idle messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from wmlab.core.answers import text_table
from wmlab.core.charts.axis import Numbers, Tick
from wmlab.core.charts.chart import Chart, chart_of, columns
from wmlab.core.charts.scene import Blocks, Box, Panel, Steps, Value, known_spans, lanes
from wmlab.core.errors import ModelError
from wmlab.core.text_reader import TextReader
from wmlab.core.words import counted, listed
from wmlab.dataflow.model.coalescer import EmittedItems, KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Idle, Item, Watermark, watermark_instance
from wmlab.dataflow.model.processor import JobFailedError
from wmlab.dataflow.rules import Rules
from wmlab.paper.answer import PaperAnswer

_BLANKS_AND_COMMENTS = r"(\s|##[^\n]*)*"
_ROLES: Final = ("upper", "third", "fourth", "perfect")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoalescedItem:
    """An item on an input, what came out, and the inputs that are idle after it.

    `expected` is the output according to the text, None if it has no `out:` at all; `index` is the character at which
    the item stands.
    """

    item: str
    out: str
    expected: str | None
    idle: tuple[int, ...]
    index: int

    @property
    def as_expected(self) -> bool:
        """Whether the output is the one in the text."""
        return self.expected in (None, self.out)

    @property
    def idle_inputs(self) -> str:
        """The idle inputs as text."""
        return ", ".join(map(str, self.idle))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PaperCoalescing(PaperAnswer[CoalescedItem]):
    """Items one after the other, and the `chart` of the watermarks over them."""

    heads: ClassVar[tuple[str, ...]] = ("in", "out", "idle inputs")
    left: ClassVar[tuple[int, ...]] = (0, 1, 2)
    schema: ClassVar[pa.Schema] = pa.schema(
        [(name, pa.string()) for name in ("item", "out", "expected", "idle_inputs")]
        + [pa.field("as_expected", pa.bool_(), nullable=False)]
    )

    def __repr__(self) -> str:
        lines = text_table([tuple(map(str, row)) for row in self._rows()])
        return "\n".join([self.sentence, *lines])

    def _rows(self) -> Iterable[tuple[str, ...]]:
        for row in self.rows:
            out = row.out or "no new output"
            wrong = "" if row.as_expected else f", but the text has {row.expected or 'no output'}"
            yield row.item, out + wrong, f"idle: {row.idle_inputs}" if row.idle else ""


def coalesce(
    text: str, *, inputs: int | None = None, rules: Literal["design", "implementation"] = "design"
) -> PaperCoalescing:
    """Coalesce items on several inputs, item by item, by the rules of the document or of the implementation.

    `inputs` is the number of inputs; None: those that the text names. Raises `ModelError` that names the character, for
    an invalid text and for an item that fails the job; also for fewer inputs than the text names.

    The example of the document:

    >>> coalesce(\"\"\"
    ... in: wm(0, 10)
    ... in: wm(1, 12)
    ... out: wm(10)
    ... in: wm(0, 11)
    ... out: wm(11)
    ... in: wm(1, 13)
    ... ## no new output now as the minimum is still 11
    ... in: wm(0, 14)
    ... out: wm(13)
    ... \"\"\")
    Of 5 items on 2 inputs 3 let a watermark out, as the text says.
    in: wm(0, 10)  no new output
    in: wm(1, 12)  out: wm(10)
    in: wm(0, 11)  out: wm(11)
    in: wm(1, 13)  no new output
    in: wm(0, 14)  out: wm(13)

    An idle input is excluded, for all keys:

    >>> coalesce("in: wm(0, 10)  in: wm(1, 12)  in: idle(1)  in: wm(0, 14)")
    Of 4 items on 2 inputs 2 let a watermark out.
    in: wm(0, 10)  no new output
    in: wm(1, 12)  out: wm(10)
    in: idle(1)    no new output  idle: 1
    in: wm(0, 14)  out: wm(14)    idle: 1
    """
    reader = TextReader(text, ignored=_BLANKS_AND_COMMENTS)
    entries = [_entry(reader)]
    while not reader.at_end:
        entries.append(_entry(reader))
    highest = max(number for _, number, _, _ in entries)
    if inputs is not None and (type(inputs) is not int or inputs <= highest):
        raise ModelError(f"inputs is {inputs!r}.", remedy=f"give {highest + 1} or more, as the text has {highest}.")
    count = highest + 1 if inputs is None else inputs
    coalescer = KeyedCoalescer(count, Rules(rules).deviations)
    expects = any(expected for _, _, _, expected in entries)
    rows: list[CoalescedItem] = []
    emitted: list[EmittedItems] = []
    for (item, number, index, expected), written in zip(entries, map(_written, entries), strict=True):
        try:
            emitted.append(coalescer.step(number, item))
        except JobFailedError as failed:
            raise reader.error(index, f"the job fails there: {failed.problem}", failed.remedy.rstrip(".")) from None
        out = "  ".join(map(_out, emitted[-1]))
        idle = tuple(sorted(coalescer.idle))
        text_has = "  ".join(expected) if expects else None
        rows.append(CoalescedItem(item=written, out=out, expected=text_has, idle=idle, index=index))
    return PaperCoalescing(rows=tuple(rows), chart=_draw(rows, entries, emitted, count))


_Entry = tuple[Item, int, int, list[str]]
"""An item, its input, its character, and what the text says that comes out."""


def _entry(reader: TextReader) -> _Entry:
    """The item that comes next, with the `out:` behind it."""
    begin = reader.index
    reader.take("in:", '"in:"')
    kind = reader.take(r"(wm|idle|event|done)\b", "wm, idle, event or done")
    reader.take(r"\(", '"("')
    number = int(reader.take("[0-9]+", "the number of an input, from 0,"))
    item: Item = IDLE_MESSAGE if kind == "idle" else DONE if kind == "done" else ()
    if kind == "wm":
        reader.take(",", "a comma")
        item = _watermark(reader)
    reader.take(r"\)", '")"')
    expected = []
    while reader.take_if("out:"):
        expected.append(_expected(reader))
    return item, number, begin, expected


def _watermark(reader: TextReader) -> Watermark | Idle:
    """The value and the key of a watermark; raises `ModelError` at the value if none can carry it."""
    begin = reader.index
    value, key = reader.integer("a watermark, a whole number,"), 0
    if reader.take_if(","):
        reader.take("key=", '"key="')
        key = reader.integer("a key")
    try:
        return watermark_instance(key, value)
    except ModelError as wrong:
        raise reader.error(begin, wrong.problem.rstrip("."), wrong.remedy.rstrip(".")) from None


def _expected(reader: TextReader) -> str:
    """The output according to the text, as `_out` writes it."""
    if reader.take_if(r"idle\b(\(\s*\))?"):
        return _out(IDLE_MESSAGE)
    reader.take(r"wm\(", "wm(…) or idle")
    item = _watermark(reader)
    reader.take(r"\)", '")"')
    return _out(item)


def _written(entry: _Entry) -> str:
    """An item as the document writes it."""
    item, number, *_ = entry
    if isinstance(item, Watermark):
        return f"in: wm({number}, {item.value}{_key(item)})"
    return f"in: {'event' if item == () else 'idle' if isinstance(item, Idle) else 'done'}({number})"


def _out(item: Watermark | Idle) -> str:
    return f"out: wm({item.value}{_key(item)})" if isinstance(item, Watermark) else "out: idle"


def _key(item: Watermark) -> str:
    return f", key={item.key}" if item.key else ""


def _draw(
    rows: Sequence[CoalescedItem], entries: Sequence[_Entry], emitted: Sequence[EmittedItems], count: int
) -> Chart:
    """Each input's watermark and the coalesced one over the items, a panel for each key, and who was idle when."""
    keys = sorted({item.key for item, *_ in entries if isinstance(item, Watermark)})
    names = [f"input {number}" for number in range(count)]
    marked = tuple(Tick(n, str(n)) for n in range(1, len(rows) + 1, max(1, len(rows) // 20)))
    across = Numbers("item", 1, len(rows) + 1, marked)
    panels, table = [], list[tuple[Any, ...]]()
    for key in keys:
        curves: dict[str, list[tuple[int, int]]] = {name: [] for name in (*names, "coalesced")}
        for at, ((item, number, *_), out) in enumerate(zip(entries, emitted, strict=True), start=1):
            if isinstance(item, Watermark) and item.key == key:
                curves[names[number]].append((at, item.value))
            curves["coalesced"] += [(at, item.value) for item in out if isinstance(item, Watermark) and item.key == key]
        table += [(name, key, at, value) for name, points in curves.items() for at, value in points]
        panels.append(_watermarks(curves, key, len(rows) + 1, several=len(keys) > 1))
    panels.append(lanes(names, [_idle(rows, count)]))
    sentence = _sentence(rows, emitted, count)
    return chart_of(
        sentence,
        columns(table, "input", "key", "item", "watermark"),
        title="What comes out of the coalesced inputs?",
        across=across,
        panels=panels,
    )


def _watermarks(curves: Mapping[str, Sequence[tuple[int, int]]], key: int, end: int, *, several: bool) -> Panel:
    values = [value for points in curves.values() for _, value in points]
    margin = max(1, (max(values) - min(values)) // 8)
    layers = []
    for (name, points), role in zip(
        curves.items(), (*islice(cycle(_ROLES), len(curves) - 1), "coalesced"), strict=True
    ):
        if points:
            xs, ys = [at for at, _ in points], list[Value](value for _, value in points)
            layers.append(Steps(name=name, role=role, xs=[*xs, end], ys=[*ys, ys[-1]], legend=True))
    title = f"watermark of key {key}" if several else "watermark"
    return Panel(up=Numbers(title, min(values) - margin, max(values) + margin), layers=layers)


def _idle(rows: Sequence[CoalescedItem], count: int) -> Blocks:
    steps = range(1, len(rows) + 2)
    boxes = [
        Box(begin, end, number - 0.32, number + 0.32, "idle", f"input {number} is idle after {rows[begin - 1].item}")
        for number in range(count)
        for begin, end in known_spans(steps, [1 if number in row.idle else None for row in (*rows, rows[-1])])
    ]
    return Blocks(name="idle", role="unknown", boxes=boxes, opacity=0.4)


def _sentence(rows: Sequence[CoalescedItem], emitted: Sequence[EmittedItems], count: int) -> str:
    let_out = sum(any(isinstance(item, Watermark) for item in out) for out in emitted)
    text = f"Of {counted(len(rows), 'item')} on {counted(count, 'input')} {let_out or 'none'} let a watermark out"
    if rows[0].expected is None:
        return f"{text}."
    wrong = [str(number) for number, row in enumerate(rows, start=1) if not row.as_expected]
    items = "item" if len(wrong) == 1 else "items"
    return f"{text}, {f'unlike the text at {items} {listed(wrong)}' if wrong else 'as the text says'}."
