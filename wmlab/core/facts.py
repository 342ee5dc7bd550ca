"""Facts: what an answer knows, as labels with typed values. A sentence is a template over labels.

So a sentence says nothing that no fact says, and a test compares values with the tables of a recording, not with words.
A label means one thing in a model: a table of `Label` is the model's vocabulary, and has one line for each, which hover
and docs show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from html import escape
from string import Formatter
from typing import Any, Final

from wmlab.core.answers import Answer, folded, html_rows, text_table
from wmlab.core.words import (
    HOUR_MS,
    SECOND_MS,
    clock_words,
    exactly,
    grouped,
    is_instant,
    joined,
    listed,
    percent,
    rounded,
    to_the_ms,
    unbroken,
    zone_once_in,
)

_NAMED: Final = 3
_ABSENT: Final = "–"


class Kind(StrEnum):
    """What the value of a label is, and so how it is written."""

    MOMENT = "moment"
    """A time of the clock or, where both are one, of an event, int ms."""
    EVENT_TIME = "event time"
    """A time of an event or a watermark, int ms, where the clock of the run may have another zero."""
    NEEDED_TIME = "needed time"
    """An event time that is needed or more, so that no ms of it may be rounded away, int ms."""
    LENGTH = "length"
    """A duration, int ms."""
    BOUND = "bound"
    """A duration that is to be set somewhere, so that none of it may be rounded away, int ms."""
    COUNT = "count"
    """A number of things, int."""
    SIZE = "size"
    """A number of bytes, int."""
    SHARE = "share"
    """A part of a whole, float from 0 to 1."""
    SMALL_SHARE = "small share"
    """The same where a thousandth of it counts, as the share of late records."""
    NAME = "name"
    """The name of a party, segment, input, ..., str."""
    WORD = "word"
    """A word of a fixed set: a state, a cause, an outcome, str."""
    FLAG = "flag"
    """That something is so, or is not, bool."""


Single = int | float | str | bool | None
Value = Single | tuple[Single, ...]
"""One value, or one for each party that the fact is about, in the order in which the answer names them."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a vocabulary: its name, what its values are, and its meaning in one line."""

    name: str
    kind: Kind
    meaning: str


Vocabulary = Mapping[str, Label]
"""All labels of a model by their names."""


def vocabulary(*rows: tuple[str, Kind, str]) -> Vocabulary:
    """The vocabulary of these rows of name, kind and meaning; raises `ValueError` for a name that is there twice."""
    labels = {name: Label(name, kind, meaning) for name, kind, meaning in rows}
    if len(labels) < len(rows):
        raise ValueError("a label is there twice")
    return labels


class Facts(Mapping[str, Value]):
    """The facts of one answer, a mapping from label to typed value; in text, rows in aligned columns.

    Times and lengths are int ms, names are str, or a tuple where several parties are meant. A fact without a value is
    not there. `clock_ms` is a time of the clock of the run: if that is an instant, all moments are; `event_ms` is an
    event time of it likewise. Raises `ValueError` for a label that the vocabulary does not have.
    """

    __slots__ = ("_labels", "_values", "_zeros")

    def __init__(
        self,
        labels: Vocabulary,
        values: Mapping[str, Value] | None = None,
        *,
        clock_ms: int | None = None,
        event_ms: int | None = None,
    ) -> None:
        single = {label: _single(value) for label, value in (values or {}).items()}
        unknown = [label for label in single if label not in labels]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no label of this vocabulary")
        self._labels = labels
        self._values = {label: value for label, value in single.items() if value is not None}
        self._zeros = {Kind.MOMENT: clock_ms, Kind.EVENT_TIME: event_ms, Kind.NEEDED_TIME: event_ms}

    def __getitem__(self, label: str) -> Value:
        return self._values[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def label(self, name: str) -> Label:
        """The label of this name, with its meaning; raises `KeyError` if the vocabulary has none."""
        return self._labels[name]

    def fill(self, template: str) -> str:
        """A template such as "The watermark waits for {holder}." with the values of its labels in words."""
        names = _labels_in(template)
        times = self._times(names)
        return template.format_map({name: listed(self._texts(name, times), most=_NAMED) for name in names})

    def chosen(self, *choices: Iterable[str]) -> tuple[str, ...]:
        """Of each choice the first template that fits, if one does; two at most, as an answer has no more.

        A template fits if its labels are all there, and at most one of them has several values.
        """
        fitting = (next(filter(self._fits, templates), None) for templates in choices)
        return tuple(template for template in fitting if template is not None)[:2]

    def rows(self) -> list[tuple[Label, list[str]]]:
        """Each label with its values in words; the first moment alone says its day and the zone."""
        times = self._times(self._values)
        texts = [self._texts(name, times) for name in self._values]
        once = iter(zone_once_in(text for each in texts for text in each))
        return [
            (self._labels[name], [next(once) for _ in each]) for name, each in zip(self._values, texts, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The facts as scalars and lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self._values.items()}

    def __repr__(self) -> str:
        rows = [[label.name, *texts] for label, texts in self.rows()]
        width = max(map(len, rows), default=0)
        return "\n".join(text_table([row + [""] * (width - len(row)) for row in rows])) if rows else "no facts"

    def _repr_html_(self) -> str:
        return html_rows((label.name, texts, label.meaning) for label, texts in self.rows())

    def _fits(self, template: str) -> bool:
        names = _labels_in(template)
        return names <= self._values.keys() and sum(isinstance(self._values[name], tuple) for name in names) <= 1

    def _times(self, names: Iterable[str]) -> Mapping[tuple[Kind, int], str]:
        """How the times of some labels are written: in tenths, or all in ms if two of them would look the same."""
        moments = {
            (self._labels[name].kind, each)
            for name in names
            if self._labels[name].kind in self._zeros
            for each in _each(self._values[name])
            if isinstance(each, int)
        }
        zeros = {
            kind: next((ms for ms in (zero, *(ms for of, ms in moments if of is kind)) if is_instant([ms])), None)
            for kind, zero in self._zeros.items()
        }
        words = {(kind, ms): _in_words(kind, ms, zeros[kind]) for kind, ms in moments}
        if len(set(words.values())) < len({ms for _, ms in moments}):
            words = {(kind, ms): to_the_ms(ms, clock_ms=zeros[kind]) for kind, ms in moments}
        return words

    def _texts(self, name: str, times: Mapping[tuple[Kind, int], str]) -> list[str]:
        kind = self._labels[name].kind
        return [_text(kind, each, times) for each in _each(self._values[name])]


class FactAnswer(Answer):
    """Base of the answers that are facts and a sentence over them; a subclass has `facts` and `templates`.

    The first template is the headline, and there is at most one more.
    """

    __slots__ = ()
    facts: Facts
    templates: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The answer in one short sentence."""
        return joined(self.facts.fill(self.templates[0]))

    @property
    def sentence(self) -> str:
        """The headline, with a second sentence where one is needed."""
        return joined(*map(self.facts.fill, self.templates))

    def to_dict(self) -> dict[str, Any]:
        """Headline, sentence and facts, and the other fields of the answer, as dicts, lists and scalars."""
        said = {"headline": self.headline, "sentence": self.sentence, "facts": self.facts.to_dict()}
        others = {each.name for each in fields(self)} - {"facts", "templates"}  # type: ignore[arg-type]
        return said | {name: value for name, value in super().to_dict().items() if name in others}

    def _repr_html_(self) -> str:
        return f"<p>{escape(unbroken(self.sentence))}</p>{folded_facts(self.facts)}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Head(FactAnswer):
    """What stands above a picture: the headline, and the facts that are folded below it."""

    facts: Facts
    templates: tuple[str, ...]


NO_FACTS: Final = Facts({})


def folded_facts(facts: Facts, below: str = "") -> str:
    """The facts as HTML that a reader opens, with further HTML `below` them; nothing if there is neither."""
    return folded("Facts", f"{facts._repr_html_() if facts else ''}{below}")


def _labels_in(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def _in_words(kind: Kind, time_ms: int, clock_ms: int | None) -> str:
    """A time in a sentence: in tenths, beyond an hour in seconds, and with all digits if it is needed."""
    if kind is Kind.NEEDED_TIME and time_ms % (100 if abs(time_ms) < HOUR_MS else SECOND_MS):
        return exactly(time_ms) if clock_ms is None else to_the_ms(time_ms, clock_ms=clock_ms)
    return clock_words(time_ms, clock_ms=clock_ms)


def _single(value: Value) -> Value:
    """A tuple of one as its value, one without any value as None."""
    if not isinstance(value, tuple):
        return value
    if all(each is None for each in value):
        return None
    return value[0] if len(value) == 1 else value


def _each(value: Value) -> Iterable[Single]:
    return value if isinstance(value, tuple) else (value,)


def _text(kind: Kind, value: Single, times: Mapping[tuple[Kind, int], str]) -> str:
    if value is None:
        return _ABSENT
    match kind:
        case Kind.FLAG:
            return "yes" if value else "no"
        case Kind.NAME | Kind.WORD:
            return str(value)
    assert not isinstance(value, str)
    match kind:
        case Kind.MOMENT | Kind.EVENT_TIME | Kind.NEEDED_TIME:
            return times[kind, int(value)]
        case Kind.LENGTH:
            return rounded(value)
        case Kind.BOUND:
            return exactly(int(value))
        case Kind.SIZE:
            return f"{grouped(value)} bytes"
        case Kind.SHARE:
            return percent(value)
        case Kind.SMALL_SHARE:
            return f"{value:.3%}"
    return grouped(value)
