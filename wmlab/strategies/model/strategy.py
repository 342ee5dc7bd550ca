"""What every strategy is: a frozen value that turns the inputs of one log, one by one, into watermarks.

A watermark is stated in two ways. X is its exclusive form, in which all strategies are compared: no later record has
an event time before X. `native` is what the engine itself prints, which may be inclusive (Flink: X - 1) or a pair
(Pravega's two bounds). A record is late if its event time is less than the X that it meets when it arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from wmlab.core.errors import ModelError

UNKNOWN: Final = -(2**63)
"""X before anything is known: no record is late."""
END: Final = 2**63 - 1
"""X after the end of the input."""

S = TypeVar("S")


class Record(NamedTuple):
    """A record that arrives; times are integers of the log's unit, milliseconds where it has one."""

    event_time: int
    arrival_ms: int
    writer: str = ""
    key: str = ""


class Tick(NamedTuple):
    """The wall clock, for strategies that look at it: timers, periodic emission, idleness."""

    now_ms: int


class Status(NamedTuple):
    """A writer is idle from now on, or active again; what an engine is told by its source."""

    now_ms: int
    writer: str
    idle: bool


class EndOfInput(NamedTuple):
    """No record follows."""


Input = Record | Tick | Status | EndOfInput


class Strategy(Generic[S]):
    """The base of all strategies, which are frozen dataclasses whose fields are their parameters.

    `S` is the type of the state. A state belongs to one run: `step` may reuse what is inside the state that it is
    given, since a window over thousands of records cannot be copied for each record. What a state holds is bounded by
    the parameters, the writers and the keys, never by the length of the log.
    """

    keyed: ClassVar[bool] = False
    """Whether it has a watermark for each key, so that X holds for records of that key only."""

    def start(self) -> S:
        """The state before the first input."""
        raise NotImplementedError

    def step(self, state: S, given: Input) -> tuple[S, int, Any]:
        """The next state, X and the native watermark after an input; an input that it does not look at changes nothing.

        The X of a strategy with a watermark for each key is that of the record's key; of any other input, the
        least of all keys.
        """
        raise NotImplementedError

    def met(self, state: S, x: int, record: Record) -> int:
        """The X that `record` meets, before its own step; `x` is the X after the last input.

        Strategies with a watermark for each key, or one that moves with the wall clock, say it from the state.
        """
        return x


class Step(NamedTuple):
    """What one input did: the X that it met (of a record, else the X before it), X and the native watermark after."""

    met: int
    x: int
    native: Any


def run(strategy: Strategy[Any], inputs: Iterable[Input]) -> Iterator[Step]:
    """Every step of a strategy over the inputs of one log, in order of arrival.

    >>> from wmlab.strategies.model.bounded import BoundedOutOfOrderness
    >>> [step.x for step in run(BoundedOutOfOrderness(bound=5), [Record(10, 11), Record(7, 12), Record(20, 21)])]
    [5, 5, 15]
    """
    return map(Step._make, steps(strategy, inputs))


def steps(strategy: Strategy[S], inputs: Iterable[Input]) -> Iterator[tuple[int, int, Any]]:
    """What `run` yields, as plain tuples, which take half the time where a strategy is cheap."""
    state, x = strategy.start(), UNKNOWN
    meet, step = strategy.met, strategy.step
    for given in inputs:
        met = meet(state, x, given) if type(given) is Record else x
        state, x, native = step(state, given)
        yield met, x, native


def minus(time: int, amount: int) -> int:
    """`time - amount` within 64 bits: `UNKNOWN` and `END` stay what they are.

    >>> minus(UNKNOWN, 5) == UNKNOWN, minus(7, 5)
    (True, 2)
    """
    left = time - amount
    if UNKNOWN < left < END and UNKNOWN < time < END:
        return left
    return time if time in (UNKNOWN, END) else max(UNKNOWN, min(END, left))


def now_of(given: Input) -> int | None:
    """What an input says of the wall clock in ms: the arrival of a record, or a tick; None: nothing."""
    return given.arrival_ms if isinstance(given, Record) else given.now_ms if isinstance(given, Tick) else None


def require_positive(**given: float | None) -> None:
    """Raise `ModelError` unless each of the named parameters is above 0; None is an option that is not used."""
    for name, value in given.items():
        if value is not None and not value > 0:
            raise ModelError(f"{name} is {value}, which is not positive.", remedy=f"Give a {name} above 0.")


def require_not_negative(**given: float) -> None:
    """Raise `ModelError` unless each of the named parameters is 0 or more."""
    for name, value in given.items():
        if not value >= 0:
            raise ModelError(f"{name} is {value}, which is negative.", remedy=f"Give a {name} of 0 or more.")


def require_shares(**given: float) -> None:
    """Raise `ModelError` unless each of the named parameters is a share above 0 and below 1."""
    for name, value in given.items():
        if not 0 < value < 1:
            raise ModelError(
                f"{name} is {value}, which is no share.", remedy=f"Give a {name} above 0 and below 1, 0.01 for 1 %."
            )
