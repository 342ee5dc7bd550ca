"""The stream cut of positions, on paper: epochs and positions in the notation of PDP-33.

An epoch is a list of segments with their keys, "2 [0-0.6], 3 [0.6-1.0]" as in the document, or "2: 0..3/5, 3: 3/5..1"
as wmlab writes ranges. After an arrow, "->", stand the segments of the next epoch that are new; they replace those with
the same keys. A position is "(1/off1, 2/off2)": segments with offsets in bytes, which are numbers or names.

Source: PDP-33, Watermark Computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from wmlab.core.arguments import the_choice
from wmlab.core.errors import ModelError
from wmlab.core.text_reader import TextReader
from wmlab.core.words import counted
from wmlab.paper.answer import PaperAnswer
from wmlab.streams.answers.stream_cut import cut_head, cut_words
from wmlab.streams.charts.stream_cut import draw_cut, step_name
from wmlab.streams.model.cut import CutAlgorithm, CutRules, CutStep, stream_cut
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, Segment

_ALGORITHMS: Final = ("document", "pravega", "sound")
_BOUND = r"[0-9]+(\.[0-9]+|/[0-9]+)?"


@dataclass(frozen=True, slots=True)
class CutRow:
    """One step to the cut: its name, the segments with offsets, and the key ranges that no segment covers."""

    step: str
    position: str
    missing: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PaperCut(PaperAnswer[CutRow]):
    """The steps to a stream cut: `rows` in the notation of the document, `cut` as a position, `chart` as a picture."""

    cut: Position

    heads: ClassVar[tuple[str, ...]] = ("step", "segments", "missing")
    left: ClassVar[tuple[int, ...]] = (0, 1, 2)
    schema: ClassVar[pa.Schema] = pa.schema([(name, pa.string()) for name in ("step", "position", "missing")])

    def _rows(self) -> Iterable[tuple[str, ...]]:
        return ((row.step, row.position, row.missing) for row in self.rows)


def cut(
    epochs: str,
    *,
    algorithm: CutAlgorithm = "document",
    previous: str | None = None,
    offsets: Mapping[str, int] | None = None,
    **positions: str,
) -> PaperCut:
    """The stream cut of the positions of some writers, step by step, by the pseudo-code of PDP-33 or another algorithm.

    `positions` have one text for each writer, in the order in which the algorithm visits them; `previous` is the
    previous cut, which "document" does not use. `offsets` gives the bytes of named offsets. Raises `ModelError` with
    the character for a text that is no epochs or no position, for ranges that do not cover all keys once, and for a
    name without bytes; `CutError` if there is no cut.

    The example of the document: segments 2 and 3 replace 0 and 1, and a writer is at 1 and 2.

    >>> example = "0 [0.0-0.5], 1 [0.5-1.0] -> 2 [0-0.6], 3 [0.6-1.0]"
    >>> cut(example, w="(1/off1, 2/off2)", offsets={"off1": 972, "off2": 108})
    The stream cut is (2@1/108, 3@1/0).
    step               segments            missing
    w noted            (1@0/972, 2@1/108)
    furthest position  (2@1/108)           3/5..1
    stream cut         (2@1/108, 3@1/0)
    """
    the_choice(algorithm, "algorithm", _ALGORITHMS, ModelError)
    history = _history(epochs)
    if not positions:
        raise ModelError("No position is given.", remedy='give one for each writer, as in w="(1/972, 2/108)".')
    noted = {writer: _position(text, history, offsets or {}) for writer, text in positions.items()}
    before = None if previous is None else _position(previous, history, offsets or {})
    steps: list[CutStep] = []
    cut = stream_cut([*noted.values()], before, history, CutRules(algorithm=algorithm), steps=steps)
    used = {} if before is None or algorithm == "document" else dict(before)
    rows = [CutRow(f"{writer} noted", cut_words(at), "") for writer, at in noted.items()]
    rows += [CutRow("the cut before", cut_words(used), "")] if used else []
    for number, step in enumerate(steps):
        missing = ", ".join(keys.text for keys in history.gaps(step.offsets))
        rows.append(CutRow(step_name(steps, number), cut_words(step.offsets), missing))
    title = f"How does the stream cut of {counted(len(noted), 'position')} come about?"
    head = cut_head(steps)
    chart = draw_cut(noted, used, steps, history, title=title, head=head)
    return PaperCut(rows=tuple(rows), cut=cut, chart=chart)


def _history(text: str) -> StreamHistory:
    """The epochs of a text; raises `ModelError` at the character where an epoch is wrong."""
    reader = TextReader(text)
    history: StreamHistory | None = None
    numbers: set[int] = set()
    while history is None or not reader.at_end:
        if history is not None:
            reader.take("->", 'an arrow "->" or a comma')
        begin, epoch = reader.index, 0 if history is None else history.active.number + 1
        try:
            created = [_segment(reader, epoch, numbers)]
            while reader.take_if(","):
                created.append(_segment(reader, epoch, numbers))
            history = _with_epoch(history, epoch, created)
        except ModelError as wrong:
            if "\n" in wrong.problem:
                raise
            raise reader.error(begin, wrong.problem.rstrip("."), wrong.remedy.rstrip(".")) from None
    return history


def _with_epoch(history: StreamHistory | None, number: int, created: list[Segment]) -> StreamHistory:
    if history is None:
        return StreamHistory((Epoch(number, "create", tuple(created)),))
    replaced = {old.id for new in created for old in history.active.overlapping(new.keys)}
    carried = [segment for segment in history.active.segments if segment.id not in replaced]
    return history.append(Epoch(number, "scale", (*carried, *created)))


def _segment(reader: TextReader, epoch: int, numbers: set[int]) -> Segment:
    """The segment that comes next: "2 [0-0.6]", "2 [0, 0.6)" or "2: 0..3/5"."""
    begin = reader.index
    number = _number(reader)
    if number in numbers:
        raise reader.error(begin, f"segment {number} is there twice", "name each segment once, in its first epoch")
    numbers.add(number)
    bracketed = reader.take("[:[]", 'the keys of the segment, as "[0-0.6]" or ": 0..3/5",') == "["
    keys_begin = reader.index
    low = reader.take(_BOUND, "the lowest key")
    reader.take("-|," if bracketed else r"\.\.", '"-"' if bracketed else '".."')
    high = reader.take(_BOUND, "the highest key")
    if bracketed:
        reader.take(r"[\])]", '"]" or ")"')
    try:
        return Segment(number, epoch, KeyRange.of(low, high))
    except ModelError as wrong:
        raise reader.error(keys_begin, wrong.problem.rstrip("."), wrong.remedy.rstrip(".")) from None


def _number(reader: TextReader) -> int:
    return int(reader.take("[0-9]+", "the number of a segment"))


def _position(text: str, history: StreamHistory, offsets: Mapping[str, int]) -> Position:
    """A position of a text, "(1/972, 2/108)"; raises `ModelError` at the character that is wrong."""
    reader = TextReader(text)
    ids = {segment.number: identifier for identifier, segment in history.segments.items()}
    offset_by_id: dict[int, int | None] = {}
    reader.take(r"\(", 'a position, as "(1/972, 2/108)",')
    while True:
        begin = reader.index
        number = _number(reader)
        reader.take("(@[0-9]+)?/", '"/" and an offset')
        if number not in ids or ids[number] in offset_by_id:
            problem = "is there twice" if number in ids else "is in no epoch"
            known = ", ".join(map(str, sorted(ids)))
            raise reader.error(begin, f"segment {number} {problem}", f"name each of {known} at most once")
        begin = reader.index
        offset = reader.take(r"[0-9]+|[A-Za-z]\w*", "an offset, a number of bytes or a name,")
        if not offset.isdigit() and offset not in offsets:
            raise reader.error(begin, f"the offset {offset} has no bytes", f"give offsets={{{offset!r}: 972}}")
        offset_by_id[ids[number]] = int(offset) if offset.isdigit() else offsets[offset]
        if not reader.take_if(","):
            break
    reader.take(r"\)", 'a comma or ")"')
    if not reader.at_end:
        reader.take("$", "the end")
    return Position(offset_by_id)
