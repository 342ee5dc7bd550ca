"""Every error a user can meet: what was wrong, the offending value, and what to do about it.

All of them derive from `WmlabError`, which is a `ValueError`, so that one `except` catches them all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from types import TracebackType
from typing import Any, Final, Never

from wmlab.core.words import of_type, shown

_REPAIR = "\nTo repair it: "


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_own(frame: TracebackType) -> bool:
    return str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0] == __name__.partition(".")[0]


class WmlabError(ValueError):
    """A mistake that the user can repair; the message always ends with the remedy.

    `problem` says what was wrong and names the value; `remedy` is one imperative sentence.
    """

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        # An error raised again by SimPy, or in another process, is made from its whole message alone.
        if remedy is None:
            problem, _, remedy = problem.partition(_REPAIR)
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}{_REPAIR}{remedy}")

    def _render_traceback_(self) -> Any:
        """What IPython shows: the lines of the user that have led to wmlab, and the message."""
        from IPython.core.getipython import get_ipython

        frames = list(_frames(self.__traceback__))
        inside = next((index for index, frame in enumerate(frames) if _is_own(frame)), len(frames))
        short = None
        for frame in reversed(frames[:inside]):
            short = TracebackType(short, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
        return get_ipython().InteractiveTB.structured_traceback(type(self), self, short, tb_offset=1)  # type: ignore[union-attr]


class ModelError(WmlabError):
    """A value that the watermark rules do not allow: a bad key range, scale, position or cut."""


class ScenarioError(WmlabError):
    """A scenario that cannot be run; gathers all its mistakes, each with its location."""


class FunctionError(ScenarioError):
    """A Python function of a scenario raised an error, which is the cause (`__cause__`) with its traceback."""

    @classmethod
    def of(cls, what: str, error: Exception, item: str) -> FunctionError:
        """The error for a function called `what` that raised `error` for the `item`."""
        raised = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        remedy = "correct the function; the traceback above shows where it stopped."
        return cls(f"{what} raised {raised} for {item}.", remedy=remedy)


class RecordingError(WmlabError):
    """A recording that is truncated, missing, foreign, or written by a newer schema."""


class TraceError(WmlabError):
    """A real log that cannot be read as a stream: columns, types or times are missing."""


class SessionError(WmlabError):
    """Spark cannot be started or reached."""


class EngineError(WmlabError):
    """A job or a query that cannot be reached, or whose metrics cannot be read."""


class UnknownJobError(EngineError):
    """None of the jobs or queries has the id or name that was asked for, or several have."""


class ChartError(WmlabError):
    """A table that does not answer the question of a chart."""


class UnknownNameError(WmlabError, AttributeError):
    """A namespace, a value, a recording or an answer was asked for a name that it does not have."""

    def __init__(self, problem: str, remedy: str | None = None) -> None:
        super().__init__(problem, remedy=remedy)


def closest(name: str, names: Iterable[str]) -> str | None:
    """The one of these names that is most like `name`, or that begins with it; None: none is."""
    lower = {known.lower(): known for known in names}
    begun = sorted((known for known in lower if known.startswith(name.lower())), key=len)
    close = begun[:1] or difflib.get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if name and close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """What follows a name that nothing has: the question whether the one that is like it is meant; or nothing."""
    return f", did you mean {close}?" if (close := closest(name, names)) else ""


def unknown_name(owner: str, name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that `owner` does not have; `names` are those that it has.

    Of names with an underscore, for which Python and IPython look in every object, it is a plain one.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    return UnknownNameError(*_answer(owner, name, tuple(names)))


_LAST_WORD: Final = re.compile(r"(?<=[a-z])[A-Z][a-z]+$")
"""The noun of a name such as `CrashWriter`."""


@cache
def _answer(owner: str, name: str, names: tuple[str, ...]) -> tuple[str, str]:
    """The problem and the remedy of a name that is not there; kept, for code may look for one name many times."""
    known = [known for known in names if not known.startswith("_")]
    close = closest(name, known)
    if close is None:
        return f"{owner} has no attribute {name!r}.", f"use one of {', '.join(known)}."
    word = _LAST_WORD.search(name)
    alike = [other for other in known if word and other.endswith(word[0]) and other != close]
    others = f", or one of {', '.join(alike)}" if alike else ""
    return f"{owner} has no attribute {name!r}; did you mean {close!r}?", f"write {close}{others}."


@cache
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(sorted({*dir(kind), *getattr(kind, "__dataclass_fields__", ())}))


def unknown_attribute(self: object, name: str) -> Never:
    """The `__getattr__` of a class whose values answer a name that they do not have with one that is like it.

    Type checkers must not see it, or every name would be right.
    """
    if hasattr(type(self), name):
        # A property has raised `AttributeError`, which Python has dropped.
        object.__getattribute__(self, name)
    names = _names_of(type(self))  # type: ignore[arg-type]  # a class is hashable
    raise unknown_name(f"{type(self).__name__!r} object", name, names)


def in_words(error: WmlabError) -> str:
    """An error as the message of a problem: what was wrong, and what to do."""
    return f"{error.problem.removesuffix('.')}; {error.remedy[:1].lower()}{error.remedy[1:].removesuffix('.')}"


_TECHNICAL: Final = 2**43
"""A limit of this size is one of numbers in computers, which says nothing to a person."""


def complaint(lines: Iterable[Any]) -> str:
    """What pydantic, or the value itself, says of one field, by each branch of a union, and the value that was given.

    `lines` are those of the field in `ValidationError.errors`.
    """
    lines = list(lines)
    first, *others = dict.fromkeys(map(_text, lines))
    text = ", or ".join([first, *(other.removeprefix("input should be ") for other in others)])
    got = shown_as_data(lines[0]["input"])
    is_shown = "error" in lines[0].get("ctx", {}) and got in text
    return text if is_shown or lines[0]["type"].startswith("missing") else f"{text} (got {got})"


def _text(line: Any) -> str:
    context = line.get("ctx", {})
    own = context.get("error")
    if any(isinstance(limit, int) and abs(limit) >= _TECHNICAL for limit in context.values()):
        return f"input is too {'large' if line['type'].startswith('less') else 'small'}"
    match line["type"], context:
        case "tuple_type" | "list_type", _:
            return "input should be a list; put what is given into one, in brackets"
        case "too_short", {"field_type": "Tuple" | "List", "min_length": least}:
            return f"input should be a list of {least} or more"
        case "less_than" | "less_than_equal", {"lt": 1} | {"le": 1}:
            return f"input should be {line['msg'].partition('should be ')[2]}{_as_share(line['input'])}"
    text = in_words(own) if isinstance(own, WmlabError) else str(own or line["msg"])
    return f"{text[:1].lower()}{text[1:]}"


def _as_share(offered: object) -> str:
    """What a number is that was meant as one of percent: "; 5% is 0.05"."""
    if isinstance(offered, int | float) and 1 < offered <= 100:
        return f"; {offered:g}% is {offered / 100:g}"
    return ""


def shown_as_data(offered: object) -> str:
    """A value as it was given; of one that is not data, what it is."""
    is_data = isinstance(offered, str | int | float | list | tuple | dict | set | None)
    return shown(offered) if is_data else of_type(offered)
