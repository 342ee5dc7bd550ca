"""Strategies: frozen values that turn the inputs of one log, one by one, into watermarks.

A watermark is stated in two ways. X is its exclusive form, in which all strategies are compared: no later record has
an event time before X. `native` is what the engine itself prints, which may be inclusive (Flink: X - 1) or a pair
(Pravega's two bounds). A record is late if its event time is less than the X that it meets when it arrives.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from numbers import Number
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, WrapValidator

from wmlab.core.durations import Duration, from_text
from wmlab.core.errors import ModelError, complaint, did_you_mean

UNKNOWN: Final = -(2**63)
"""X before anything is known: no record is late."""
END: Final = 2**63 - 1
"""X after the end of the input."""

StrategyState = TypeVar("StrategyState")


_MOST: Final = 2**62
Positive = Annotated[int, Field(gt=0, le=_MOST, strict=True)]
NotNegative = Annotated[int, Field(ge=0, le=_MOST, strict=True)]
if TYPE_CHECKING:
    PositiveMs = Duration
    NotNegativeMs = Duration
else:
    PositiveMs = Annotated[Positive, WrapValidator(from_text)]
    """A duration of ms above 0, or a text such as "35 d"."""
    NotNegativeMs = Annotated[NotNegative, WrapValidator(from_text)]
PositiveReal = Annotated[float, Field(gt=0, le=_MOST, strict=True)]
NotNegativeReal = Annotated[float, Field(ge=0, le=_MOST, strict=True)]
ShareBetween = Annotated[float, Field(gt=0, lt=1, strict=True)]
"""A share above 0 and below 1, 0.01 for 1%."""


class Record(NamedTuple):
    """A record that arrives; times are integers of the log's unit, milliseconds where it has one."""

    event_time: int
    """When it happened, in ms."""
    arrival_ms: int
    """When it arrived, by the clock, in ms."""
    writer: str = ""
    """The writer that sent it."""
    key: str = ""
    """Its key, for strategies with a watermark for each key."""


class Tick(NamedTuple):
    """The wall clock, for strategies that use it: timers, periodic emission, idleness."""

    now_ms: int
    """The clock, in ms."""


class EndOfInput(NamedTuple):
    """No record follows."""


class SourceEnd(NamedTuple):
    """A source, which is a writer, sends nothing from now on: it has read its whole input, or it has `failed`."""

    now_ms: int
    """The clock, in ms."""
    writer: str
    """The writer that ends."""
    failed: bool = False


Input = Record | Tick
"""What a step is given."""


class Strategy(Generic[StrategyState]):
    """The base of all strategies, which are frozen dataclasses whose fields are their parameters.

    Raises `ModelError` for a number, choice or tuple that the annotation of its field does not admit. `StrategyState`
    is the type of the state. A state belongs to one run: `step` may reuse the contents of the state that it receives,
    because a window over thousands of records cannot be copied for each record. The size of a state is bounded by the
    parameters, the writers and the keys, never by the length of the log.
    """

    keyed: ClassVar[bool] = False
    """Whether it has a watermark for each key, so that X holds for records of that key only."""

    def __new__(cls, *_: Any, **parameters: Any) -> Self:
        """Raises `ModelError` for a parameter that the strategy does not have."""
        names = list(getattr(cls, "__dataclass_fields__", parameters))
        for name in parameters.keys() - names:
            problem = f"{cls.__name__}.{name}: no such parameter{did_you_mean(name, names) or '.'}"
            raise ModelError(problem, remedy=f"use some of {', '.join(names)}.")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        require_parameters(self)

    def start(self) -> StrategyState:
        """The state before the first input."""
        raise NotImplementedError

    def step(self, state: StrategyState, item: Input) -> tuple[StrategyState, int, Any]:
        """The next state, X and the native watermark after an input; an ignored input changes nothing.

        If a strategy has a watermark for each key, X is that of the record's key; for any other input, it is the
        smallest of all keys.
        """
        raise NotImplementedError

    def met(self, state: StrategyState, x: int, record: Record) -> int:
        """The X that `record` meets, before its own step; `x` is the X after the last input.

        Strategies with a watermark for each key, or one that moves with the wall clock, compute it from the state.
        """
        return x

    def at_end(self, state: StrategyState) -> tuple[int, Any]:
        """X and the native watermark after the end of the input; no step follows."""
        return END, END


class StrategyStep(NamedTuple):
    """What one input did: the X that it met (of a record, else the X before it), X and the native watermark after."""

    met: int
    x: int
    native: Any


def run(strategy: Strategy[Any], inputs: Iterable[Input | EndOfInput]) -> Iterator[StrategyStep]:
    """Every step of a strategy over the inputs of one log, in order of arrival.

    >>> from wmlab.strategies.model.bounded import BoundedOutOfOrderness
    >>> [step.x for step in run(BoundedOutOfOrderness(bound=5), [Record(10, 11), Record(7, 12), Record(20, 21)])]
    [5, 5, 15]
    """
    return map(StrategyStep._make, steps(strategy, inputs))


def steps(strategy: Strategy[StrategyState], inputs: Iterable[Input | EndOfInput]) -> Iterator[tuple[int, int, Any]]:
    """What `run` yields, as plain tuples, which take half the time where a strategy is cheap."""
    state, x = strategy.start(), UNKNOWN
    meet, step = strategy.met, strategy.step
    for item in inputs:
        met = meet(state, x, item) if type(item) is Record else x
        if isinstance(item, EndOfInput):
            x, native = strategy.at_end(state)
        else:
            state, x, native = step(state, item)
        yield met, x, native


def earlier(time: int, amount: int) -> int:
    """`time - amount` within 64 bits: `UNKNOWN` and `END` stay what they are.

    >>> earlier(UNKNOWN, 5) == UNKNOWN, earlier(7, 5)
    (True, 2)
    """
    left = time - amount
    if UNKNOWN < left < END and UNKNOWN < time < END:
        return left
    return time if time in (UNKNOWN, END) else max(UNKNOWN, min(END, left))


def now_of(item: Input) -> int:
    """What an input says of the wall clock, in ms: the arrival of a record, or a tick."""
    return item.arrival_ms if isinstance(item, Record) else item.now_ms


def require_parameters(owner: Any) -> None:
    """Raise `ModelError` for a field of a frozen dataclass that is not what its annotation admits.

    Numbers of numpy become those of Python first, lists tuples, and texts of durations milliseconds.
    """
    for name, adapter in _adapters(type(owner)).items():  # type: ignore[arg-type]  # a class is hashable
        value = getattr(owner, name)
        if isinstance(value, list) or (isinstance(value, Number) and hasattr(value, "item")):
            value = tuple(value) if isinstance(value, list) else value.item()
        try:
            object.__setattr__(owner, name, adapter.validate_python(value))
        except ValidationError as wrong:
            problem = f"{type(owner).__name__}.{name}: {complaint(wrong.errors(include_url=False))}."
            raise ModelError(problem, remedy="correct that parameter.") from None


def require_argument(name: str, value: object, hint: Any) -> None:
    """Raise `ModelError` for an argument of a function that is not what the annotation admits."""
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError as wrong:
        problem = f"{name}: {complaint(wrong.errors(include_url=False))}."
        raise ModelError(problem, remedy="correct that argument.") from None


@cache
def _adapters(owner: type) -> Mapping[str, TypeAdapter[Any]]:
    """What validates each field of a dataclass."""
    hints, config = typing.get_type_hints(owner, include_extras=True), ConfigDict(arbitrary_types_allowed=True)
    return {field.name: TypeAdapter(hints[field.name], config=config) for field in fields(owner)}
