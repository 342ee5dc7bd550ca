"""What public functions are given: a value as it is meant, or an error that says what to give.

Fields of values are checked by pydantic (`wmlab.core.values`), where `Flag` is to a field what `the_flag` is to an
argument.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable

from wmlab.core.errors import RecordingError, WmlabError
from wmlab.core.words import shown


def the_moment(at_ms: object, error: type[WmlabError] = RecordingError, *, name: str = "at_ms") -> int:
    """A moment, which may be a number of numpy; raises `error` if it is no whole number. `name` is the argument's."""
    if isinstance(at_ms, bool) or not isinstance(at_ms, numbers.Integral):
        raise error(f"{name} is {shown(at_ms)}, which is no moment.", remedy="give whole milliseconds.")
    return int(at_ms)


def the_names(offered: object, name: str, error: type[WmlabError] = RecordingError) -> tuple[str, ...]:
    """Several names; raises `error` for what is no series, and for one text, which would be read letter by letter."""
    if isinstance(offered, str) or not isinstance(offered, Iterable):
        raise error(f"{name} is {shown(offered)}.", remedy=f"give a list of names, {name}=['w1'] for one.")
    return tuple(map(str, offered))


def the_flag(offered: object, name: str, error: type[WmlabError] = RecordingError) -> bool:
    """True or False, which may be numpy's; raises `error` for all else, for "no" would count as true."""
    plain = offered.item() if hasattr(offered, "item") and getattr(offered, "shape", None) == () else offered
    if not isinstance(plain, bool):
        raise error(f"{name} is {shown(offered)}.", remedy="give True or False.")
    return plain
