"""Sequence and chunk numbers on paper, in the notation of "Watermarking and Progress".

"1, 2, 3, 5, 6" are buffers of one origin in the order in which they come. A number alone is the only chunk of its
sequence; "5{0, 1, 2 last}" are chunks of sequence 5, of which the last one has the flag.

Source: "Watermarking and Progress", SequenceNumber and ChunkNumber.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, get_args

import pyarrow as pa

from wmlab.core.arguments import the_choice
from wmlab.core.charts.axis import Numbers, Tick
from wmlab.core.charts.chart import Chart, chart_of, columns
from wmlab.core.charts.scene import Blocks, Box, lanes
from wmlab.core.errors import ModelError
from wmlab.core.text_reader import TextReader
from wmlab.core.words import counted, listed
from wmlab.paper.answer import PaperAnswer
from wmlab.progress.model.chunks import CompletenessRule
from wmlab.progress.model.numbers import ChunkBase, TupleBuffer
from wmlab.progress.model.tracker import ProgressRules, follow_buffers

_RULES: Final[tuple[CompletenessRule, ...]] = get_args(CompletenessRule)
_MOST_SEQUENCES: Final = 10_000


@dataclass(frozen=True, slots=True)
class SequencePrefix:
    """A buffer, and the longest consecutive sequence after it by each rule of completeness."""

    buffer: str
    set: int
    count: int
    literal: int
    balance: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PaperSequences(PaperAnswer[SequencePrefix]):
    """The longest consecutive sequence of some buffers, one after the other.

    `prefix` is that of the rule "set" at the end, `missing` the sequences up to the highest that are not complete.
    """

    missing: tuple[int, ...]

    heads: ClassVar[tuple[str, ...]] = ("buffer", *_RULES)
    schema: ClassVar[pa.Schema] = pa.schema(
        [("buffer", pa.string()), *(pa.field(rule, pa.int64(), nullable=False) for rule in _RULES)]
    )

    @property
    def prefix(self) -> int:
        """The longest consecutive sequence after the last buffer."""
        return self.rows[-1].set

    def _rows(self) -> Iterable[tuple[str | int, ...]]:
        return ((row.buffer, *(getattr(row, rule) for rule in _RULES)) for row in self.rows)


def sequences(text: str, *, chunk_base: ChunkBase = 0) -> PaperSequences:
    """The longest consecutive sequence of buffers in the order of their arrival, by each rule of completeness.

    `chunk_base` is the number of the first chunk: 0 as in the document's text, 1 as in its code snippet. Raises
    `ModelError` with the character for a text that is no such list, and for a chunk below the base.

    The table of the document; its snippet ("literal") never completes a sequence of one chunk that has the number 0:

    >>> for row in ("1, 2, 3, 4, 5", "1, 2, 3, 5, 6", "1, 3, 4, 6"):
    ...     print(sequences(row).sentence)
    5 (Seen all). The rule literal gives 0.
    3 (Missing 4). The rule literal gives 0.
    1 (Missing 2). The rule literal gives 0.

    The example in its snippet, which counts chunks from 1:

    >>> sequences("1{1, 2, 3, 4 last}", chunk_base=1)
    1 (Seen all).
    buffer      set  count  literal  balance
    1, chunk 1    0      0        0        0
    1, chunk 2    0      0        0        0
    1, chunk 3    0      0        0        0
    1, last 4     1      1        1        1
    """
    the_choice(chunk_base, "chunk_base", (0, 1), ModelError)
    buffers = _buffers(text, chunk_base)
    prefixes = {
        rule: [
            reached.prefix
            for reached in follow_buffers(buffers, [1], ProgressRules(chunk_base=chunk_base, complete=rule))
        ]
        for rule in _RULES
    }
    rows = [
        SequencePrefix(_written(buffer, chunk_base), *(prefixes[rule][number] for rule in _RULES))
        for number, buffer in enumerate(buffers)
    ]
    whole = {rule: _complete(buffers, chunk_base, rule) for rule in _RULES}
    highest = max(buffer.sequence for buffer in buffers)
    missing = tuple(number for number in range(1, highest + 1) if number not in whole["set"])
    come = {buffer.sequence for buffer in buffers}
    chart = _draw(
        [_Lane(rule, getattr(rows[-1], rule), whole[rule], come) for rule in _RULES],
        "rule",
        _sentence(rows[-1], missing),
        f"How far is the longest consecutive sequence of {counted(len(buffers), 'buffer')}?",
    )
    return PaperSequences(rows=tuple(rows), missing=missing, chart=chart)


def sequence_table(*texts: str, chunk_base: ChunkBase = 0) -> Chart:
    """Draw several rows of buffers, each with its longest consecutive sequence, as the table of the document.

    A sequence is complete by the rule "set". `chunk_base` is that of `sequences`, which also says what is raised;
    `ModelError` without a row.

    >>> sequence_table("1, 2, 3, 4, 5", "1, 2, 3, 5, 6", "1, 3, 4, 6")
    1, 2, 3, 4, 5: 5 (Seen all). 1, 2, 3, 5, 6: 3 (Missing 4). 1, 3, 4, 6: 1 (Missing 2).
    """
    if not texts:
        raise ModelError("A table of sequence numbers has no row.", remedy='Give one, for example "1, 2, 3, 5, 6".')
    rows, sentences = [], []
    for text in texts:
        buffers, answer = _buffers(text, chunk_base), sequences(text, chunk_base=chunk_base)
        complete = _complete(buffers, chunk_base, "set")
        rows.append(_Lane(text, answer.prefix, complete, {buffer.sequence for buffer in buffers}))
        sentences.append(f"{text}: {_reached(answer.prefix, answer.missing)}")
    return _draw(rows, "row", " ".join(sentences), "How far is the longest consecutive sequence of each row?")


def _buffers(text: str, base: ChunkBase) -> list[TupleBuffer]:
    reader = TextReader(text)
    buffers = _of_sequence(reader, base)
    while not reader.at_end:
        reader.take(",", "a comma")
        buffers += _of_sequence(reader, base)
    return buffers


def _of_sequence(reader: TextReader, base: ChunkBase) -> list[TupleBuffer]:
    """The buffers of the sequence that comes next; raises `ModelError` at the number that is wrong."""
    begin = reader.index
    sequence = int(reader.take("[0-9]+", "a sequence number"))
    if not 1 <= sequence <= _MOST_SEQUENCES:
        raise reader.error(begin, f"{sequence} is not a sequence number here", f"write one from 1 to {_MOST_SEQUENCES}")
    if not reader.take_if(r"\{"):
        return [TupleBuffer(1, sequence, base, last=True, watermark=0)]
    buffers: list[TupleBuffer] = []
    while not buffers or reader.take_if(","):
        begin = reader.index
        chunk = int(reader.take("[0-9]+", "a chunk number"))
        if chunk < base:
            raise reader.error(begin, f"chunk {chunk} is below the first one", f"number chunks from {base}")
        buffers.append(TupleBuffer(1, sequence, chunk, last=bool(reader.take_if(r"last\b")), watermark=0))
    reader.take(r"\}", 'a comma, "last" or "}"')
    return buffers


def _written(buffer: TupleBuffer, base: ChunkBase) -> str:
    if buffer.chunk == base and buffer.last:
        return str(buffer.sequence)
    return f"{buffer.sequence}, {'last' if buffer.last else 'chunk'} {buffer.chunk}"


def _complete(buffers: Sequence[TupleBuffer], base: ChunkBase, rule: CompletenessRule) -> set[int]:
    """The sequences that are complete by a rule, wherever they stand."""
    rules = ProgressRules(chunk_base=base, complete=rule)
    return {b.sequence for b, at in zip(buffers, follow_buffers(buffers, [1], rules), strict=True) if at.completes}


def _reached(prefix: int, missing: Sequence[int]) -> str:
    """A longest consecutive sequence as the document writes it."""
    return f"{prefix} ({f'Missing {missing[0]}' if missing else 'Seen all'})."


def _sentence(last: SequencePrefix, missing: Sequence[int]) -> str:
    others = [f"the rule {rule} gives {getattr(last, rule)}" for rule in _RULES if getattr(last, rule) != last.set]
    text = _reached(last.set, missing)
    return f"{text} T{listed(others).removeprefix('t')}." if others else text


_KINDS: Final[dict[str, str]] = {
    "in the longest consecutive sequence": "lower",
    "waits behind a gap": "perfect",
    "missing or not complete": "alarm",
}
"""What a sequence can be in a picture, with the role of its boxes."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """A row of the picture: how far its longest consecutive sequence goes, what is complete, and what has come."""

    name: str
    prefix: int
    complete: set[int]
    come: set[int]

    def kind(self, number: int) -> str:
        """What a sequence is, of the kinds of the legend."""
        inside, behind, outside = _KINDS
        return inside if number <= self.prefix else behind if number in self.complete else outside

    def state(self, number: int) -> str:
        """The same, and whether anything of it has come."""
        return self.kind(number) if number in self.complete else "not complete" if number in self.come else "missing"


def _draw(rows: Sequence[_Lane], of: str, sentence: str, title: str) -> Chart:
    """A lane for each row with a box for each sequence; `of` is what the rows differ in."""
    highest = max(max(row.come) for row in rows)
    boxes: dict[str, list[Box]] = {kind: [] for kind in _KINDS}
    table = []
    for lane, row in enumerate(rows):
        for number in range(1, max(row.come) + 1):
            words = f"{row.name}: sequence {number}: {row.state(number)}"
            box = Box(2 * number - 1, 2 * number + 1, lane - 0.36, lane + 0.36, str(number), words)
            boxes[row.kind(number)].append(box)
            table.append((row.name, number, row.state(number)))
    marked = tuple(Tick(2 * number, str(number)) for number in range(1, highest + 1, max(1, highest // 20)))
    layers = [Blocks(name=kind, role=role, boxes=boxes[kind]) for kind, role in _KINDS.items()]
    return chart_of(
        sentence,
        columns(table, of, "sequence", "state"),
        title=title,
        across=Numbers("sequence number", 1, 2 * highest + 1, marked),
        panels=[lanes([row.name for row in rows], layers)],
    )
