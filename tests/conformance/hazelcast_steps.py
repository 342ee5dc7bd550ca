"""What the adapters for cases on keyed watermarks share: items as the cases write them, steps, and expected errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from tests.conformance.fields import Fields, UnknownFormatError, expect, known
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MAX, MIN, Barrier, Event, Item, Watermark
from wmlab.dataflow.model.processor import JobFailedError, Reason

S = TypeVar("S")
NAMED: Final = {"MIN": MIN, "MIN+1": MIN + 1, "MAX": MAX}
ERRORS: Final = {
    "NonMonotonic": Reason.NON_MONOTONIC,
    "DuplicateDone": Reason.DUPLICATE_DONE,
    "LimitExceeded": Reason.LIMIT_EXCEEDED,
}


def number(written: Any) -> int:
    """A time, which may be written by name."""
    value = NAMED[written] if isinstance(written, str) else written
    if type(value) is not int:
        raise UnknownFormatError(f"number {written!r}")
    return value


def shown(value: int | None) -> int | str:
    """A time as the cases write it; None is a watermark that has not come."""
    names = {known: name for name, known in NAMED.items()}
    return "MIN" if value is None else names.get(value, value)


def item_of(written: Sequence[Any]) -> Item:
    """An item from ["ev", x], ["wm", key, value], ["idle"], ["done"] or ["barrier", id, terminal?]."""
    match written:
        case ["ev", value]:
            return Event((value,))
        case ["wm", key, value]:
            return IDLE_MESSAGE if number(value) == MAX else Watermark(key, number(value))
        case ["idle"]:
            return IDLE_MESSAGE
        case ["done"]:
            return DONE
        case ["barrier", snapshot, *terminal] if len(terminal) <= 1:
            return Barrier(snapshot, *terminal)
    raise UnknownFormatError(f"item {written!r}")


def written(item: Item) -> list[Any]:
    """An item as the cases write it; an event of several values is written as these."""
    match item:
        case Event(values):
            return ["ev", *values] if len(values) == 1 else list(values)
        case Watermark(key, value):
            return ["wm", key, shown(value)]
        case Barrier(snapshot, terminal):
            return ["barrier", snapshot, True] if terminal else ["barrier", snapshot]
    return ["idle"] if item == IDLE_MESSAGE else ["done"]


def all_written(items: Iterable[Item]) -> list[list[Any]]:
    return [written(item) for item in items]


def check(step: Fields, act: Callable[[], Any], *, unordered: bool = False) -> None:
    """Do what a step says and compare with its `expect` or `expect_error`; with neither, nothing is asserted."""
    if "expect_error" in step:
        error = known("error", step.take("expect_error"), ERRORS)
        try:
            found = act()
        except JobFailedError as failure:
            expect("error", failure.reason, ERRORS[error])
            return
        raise AssertionError(f"expected {error}, found {found!r}")
    found = act()
    if "expect" in step:
        expected = step.take("expect")
        expect("step", in_any_order(found) if unordered else found, in_any_order(expected) if unordered else expected)


def in_any_order(outputs: Any) -> Any:
    """A list sorted by how its entries look, so that only which there are and how often matters."""
    return sorted(outputs, key=repr) if isinstance(outputs, list) else outputs


def operations(case: Fields) -> Iterator[tuple[str, Fields]]:
    """Each step of a case with its operation; all its fields have to be taken before the next."""
    steps = case.take("steps")
    if not isinstance(steps, list) or not steps:
        raise UnknownFormatError("a case without steps")
    for place, entry in enumerate(steps):
        with Fields(entry, f"step {place}") as step:
            yield step.take("op"), step
