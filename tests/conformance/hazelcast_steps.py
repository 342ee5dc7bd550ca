"""What the adapters for cases on keyed watermarks share: items as the cases write them, steps, and expected errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tests.conformance.fields import Fields, Operations, UnknownFormatError, answer_to, each, expect, lookup
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, MAX, MIN, Barrier, Item, Watermark
from wmlab.dataflow.model.processor import Deviations, JobFailedError, Reason

NAMED: Final = {"MIN": MIN, "MIN+1": MIN + 1, "MAX": MAX}
ERRORS: Final = {
    "NonMonotonic": Reason.NON_MONOTONIC,
    "DuplicateDone": Reason.DUPLICATE_DONE,
    "LimitExceeded": Reason.LIMIT_EXCEEDED,
}
NO_ANSWER: Final = object()
"""What an operation returns that has no answer; a step with it can expect none."""


class Unordered(list[Any]):
    """An answer whose order does not matter, only which entries there are and how often."""


def in_steps(
    system: Callable[[Fields, Deviations], Operations],
) -> Callable[[Fields, Fields, Deviations], None]:
    """What runs a case whose steps act on a system: it is made from the configuration, and has operations."""
    return lambda config, case, deviations: run_steps(case, system(config, deviations))


def run_steps(case: Fields, operations: Operations) -> None:
    """Do each step and compare with its `expect` or `expect_error`; with neither, nothing is asserted."""
    steps = case.take("steps")
    if not isinstance(steps, list) or not steps:
        raise UnknownFormatError("a case without steps")
    for step in each(steps, "step"):
        error = lookup("error", step.take("expect_error"), ERRORS) if "expect_error" in step else None
        try:
            answer = answer_to(step, operations)
        except JobFailedError as failure:
            if error is None:
                raise
            expect("error", failure.reason, error)
            continue
        assert error is None, f"expected {error}, found {answer!r}"
        if answer is not NO_ANSWER and "expect" in step:
            expect_answer(answer, step.take("expect"))


def without_answer(act: Callable[[Fields], object]) -> Callable[[Fields], object]:
    """An operation that does something and answers nothing."""

    def operation(step: Fields) -> object:
        act(step)
        return NO_ANSWER

    return operation


def expect_answer(answer: Any, expected: Any) -> None:
    if isinstance(answer, Unordered):
        answer, expected = in_any_order(list(answer)), in_any_order(expected)
    expect("step", answer, expected)


def in_any_order(outputs: Any) -> Any:
    """A list sorted by how its entries look, so that only which there are and how often matters."""
    return sorted(outputs, key=repr) if isinstance(outputs, list) else outputs


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


def watermark_in(step: Fields) -> Watermark:
    """The watermark of a step, of key 0 unless it says otherwise."""
    return Watermark(step.take("key", 0), number(step.take("value")))


def item_of(written: Sequence[Any]) -> Item:
    """An item from ["ev", x], ["wm", key, value], ["idle"], ["done"] or ["barrier", id, terminal?]."""
    match written:
        case ["ev", value]:
            return (value,)
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
        case tuple():
            return ["ev", *item] if len(item) == 1 else list(item)
        case Watermark(key, value):
            return ["wm", key, shown(value)]
        case Barrier(snapshot, terminal):
            return ["barrier", snapshot, True] if terminal else ["barrier", snapshot]
    return ["idle"] if item == IDLE_MESSAGE else ["done"]


def all_written(items: Iterable[Item]) -> list[list[Any]]:
    return [written(item) for item in items]
