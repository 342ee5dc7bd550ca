"""Reading a conformance case so that nothing in it goes unnoticed.

A `Fields` hands out the values of a JSON object one by one. Leaving its `with` block complains about every field that
was not asked for, so a format that the adapter does not know can never pass by accident.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

from wmlab.core.errors import ModelError
from wmlab.streams.model.history import Epoch, StreamHistory
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import KeyRange, Segment, parse_segment, segment_name, split_id

T = TypeVar("T")
MISSING: Any = object()
DESCRIBED: Final = ("id", "name", "source", "origin", "note", "notes")


class UnknownFormatError(AssertionError):
    """A kind, operation, field or text that the adapter does not know."""


class Fields:
    """The fields of one JSON object; all of them have to be taken before the `with` block ends."""

    def __init__(self, values: Mapping[str, Any], what: str) -> None:
        if not isinstance(values, Mapping):
            raise UnknownFormatError(f"{what}: {values!r} is not an object")
        self._left = dict(values)
        self.what = what

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._left:
            raise UnknownFormatError(f"{self.what}: unknown fields {sorted(self._left)}")

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, default: Any = MISSING) -> Any:
        """The value of a field; required unless a default is given."""
        if name not in self._left and default is MISSING:
            raise UnknownFormatError(f"{self.what}: field {name!r} is missing")
        return self._left.pop(name, default)

    def rest(self) -> dict[str, Any]:
        """All fields not taken yet, for objects whose field names are data."""
        left, self._left = self._left, {}
        return left


Operations: TypeAlias = Mapping[str, Callable[[Fields], Any]]
"""What each operation does with the fields of a step, and answers."""


def undescribed(case: Mapping[str, Any], what: str) -> Fields:
    """The fields of a case without those that only describe it, any of which may be missing."""
    return Fields({name: value for name, value in case.items() if name not in DESCRIBED}, what)


def each(entries: Iterable[Any], what: str) -> Iterator[Fields]:
    """The objects of a list one by one; all fields of each have to be taken before the next."""
    for number, entry in enumerate(entries):
        with Fields(entry, f"{what} {number}") as fields:
            yield fields


def steps_of(case: Fields) -> Iterator[Fields]:
    """The steps of a case one by one, any of which may have a note."""
    for fields in each(case.take("steps"), f"{case.what} step"):
        fields.take("note", None)
        yield fields


def answer_to(step: Fields, operations: Operations) -> Any:
    """What the operation of a step answers."""
    return lookup(f"{step.what}: unknown operation", step.take("op"), operations)(step)


def expect(what: str, found: object, expected: object) -> None:
    """Fail unless both are equal and of one type, so that 1 does not pass for true."""
    message = f"{what}: expected {expected!r}, found {found!r}"
    assert type(found) is type(expected), message
    assert found == expected, message


def expect_if(fields: Fields, **found: object) -> None:
    """Compare what was found with the expectations of the same names; those that are missing assert nothing."""
    for name, value in found.items():
        if name in fields:
            expect(f"{fields.what}: {name}", value, fields.take(name))


def known(what: str, value: T, among: Container[T]) -> T:
    """The value, which has to be one that the adapter knows."""
    if value not in among:
        raise UnknownFormatError(f"{what} {value!r}")
    return value


def lookup(what: str, name: Any, among: Mapping[Any, T]) -> T:
    """What a name stands for, which has to be one that the adapter knows."""
    return among[known(what, name, among)]


def matched(what: str, text: str, form: str) -> re.Match[str]:
    """The match of a text that has to have this form."""
    match = re.fullmatch(form, text)
    if match is None:
        raise UnknownFormatError(f"{what} {text!r}")
    return match


def interpreted(what: str, text: str, forms: Mapping[str, Callable[..., T]], *arguments: Any) -> T:
    """What a text says: the function of the first form that it has, called with arguments and the form's groups."""
    for form, function in forms.items():
        if match := re.fullmatch(form, text):
            return function(*arguments, *match.groups())
    raise UnknownFormatError(f"{what} {text!r}")


def constant(text: str) -> str:
    """An outcome in the words of the cases: "write conflict" is WRITE_CONFLICT."""
    return text.upper().replace(" ", "_")


def accepted(make: Callable[[], object]) -> bool:
    """Whether the model does something without refusing it."""
    try:
        make()
    except ModelError:
        return False
    return True


def segment_of(record: Mapping[str, Any]) -> Segment:
    """{"id": "n@e", "low": , "high": } with doubles taken exactly."""
    with Fields(record, "segment") as fields:
        number, epoch = split_id(parse_segment(fields.take("id")))
        return Segment(number, epoch, KeyRange.of(fields.take("low"), fields.take("high")))


def epoch_of(record: Mapping[str, Any]) -> Epoch:
    """{"epoch": , "segments": [...]}, with "reference_epoch" for a duplicate of a rolling transaction."""
    with Fields(record, "epoch") as fields:
        number = fields.take("epoch")
        reference = fields.take("reference_epoch", None)
        kind = "rolling" if reference is not None else "scale" if number else "create"
        return Epoch(number, kind, tuple(segment_of(s) for s in fields.take("segments")), reference)


def history_of(records: Iterable[Mapping[str, Any]]) -> StreamHistory:
    """The history that the epoch records are."""
    return StreamHistory(tuple(epoch_of(record) for record in records))


def position_of(offsets: Mapping[str, int]) -> Position:
    """A writer's position or a cut, in which a negative offset is unknown."""
    return Position({segment: None if offset < 0 else offset for segment, offset in offsets.items()})


def reader_position_of(offsets: Mapping[str, int]) -> Position:
    """A group's position, in which a negative offset is a finished segment: it is beyond every offset."""
    return Position({segment: offset if offset >= 0 else 2**63 - 1 for segment, offset in offsets.items()})


def written(offsets: Mapping[int, int | None]) -> dict[str, int]:
    """A position as the cases write it."""
    return {segment_name(segment): -1 if offset is None else offset for segment, offset in offsets.items()}
