"""The arguments of public functions: a parsed value, or an error that says what to give.

Fields of values are checked by pydantic (`wmlab.core.values`), where `Flag` is to a field what `the_flag` is to an
argument.
"""

from __future__ import annotations

import numbers
from collections.abc import Container, Iterable
from contextlib import suppress
from typing import Final

from wmlab.core.durations import FORM, duration_ms, ms_of_text
from wmlab.core.errors import RecordingError, WmlabError
from wmlab.core.times import moment_ms
from wmlab.core.words import exactly, shown

_DATE: Final = 'a date such as "2013-07-16 09:00"'


def the_moment(
    at_ms: object, error: type[WmlabError] = RecordingError, *, name: str = "at_ms", start_ms: int | None = 0
) -> int:
    """A moment in milliseconds; raises `error` if it is none. `name` is the argument's.

    It is given as a whole number, which may be one of numpy; as a text such as "90s" or "1 h 30 min", counted from
    `start_ms`; or as a date, "2013-07-16 09:00", which is UTC if it names no zone. None as `start_ms`: nobody knows
    when the run began.
    """
    moment = _moment_of(at_ms, start_ms)
    if moment is None or not -(2**63) <= moment < 2**63:
        forms = 'a text such as "90s", counted from the start, or {}.'
        if start_ms is None:
            forms = "or {}; a recorded log has no start from which to count."
        remedy = f"give whole milliseconds of at most 64 bits, {forms.format(_DATE)}"
        raise error(f"{name} is {shown(at_ms)}, which is not a moment.", remedy=remedy)
    return moment


def _moment_of(offered: object, start_ms: int | None) -> int | None:
    if not isinstance(offered, str):
        is_number = isinstance(offered, numbers.Integral) and not isinstance(offered, bool)
        return int(offered) if is_number else None  # type: ignore[call-overload]
    with suppress(ValueError):
        after_ms = ms_of_text(offered)
        return start_ms + after_ms if start_ms is not None and isinstance(after_ms, int) else None
    with suppress(ValueError):
        return moment_ms(offered)
    return None


def require_order(begin_ms: int, end_ms: int, given: tuple[object, object], error: type[WmlabError]) -> None:
    """Raise `error` if a span that was `given` ends before it begins."""
    if end_ms < begin_ms:
        begin, end = map(shown, given)
        raise error(f"{begin} is after {end}: the ends are swapped.", remedy=f"write between({end}, {begin}).")


def the_duration(offered: object, error: type[WmlabError], *, name: str, least_ms: int | None = None) -> int:
    """A length in milliseconds, as a whole number or a text such as "90s".

    Raises `error` for anything else, and for less than `least_ms`.
    """
    try:
        length_ms = duration_ms(offered)
    except ValueError as wrong:
        raise error(f"{name} is {shown(offered)}.", remedy=f"{wrong}.") from None
    if isinstance(length_ms, bool) or not isinstance(length_ms, numbers.Integral):
        raise error(f"{name} is {shown(offered)}.", remedy=f"{FORM}.")
    if least_ms is not None and length_ms < least_ms:
        raise error(f"{name} is {shown(offered)}.", remedy=f"give {exactly(least_ms)} or more.")
    return int(length_ms)


def the_number(offered: object, error: type[WmlabError], *, name: str, least: int, most: int = 2**53) -> int:
    """A whole number, which may be numpy's; raises `error` for anything else, and beyond the limits."""
    if isinstance(offered, bool) or not isinstance(offered, numbers.Integral) or not least <= int(offered) <= most:
        raise error(f"{name} is {shown(offered)}.", remedy=f"give a whole number from {least} to {most}.")
    return int(offered)


def the_names(offered: object, name: str, error: type[WmlabError] = RecordingError) -> tuple[str, ...]:
    """Several names; raises `error` for anything but a series, and for a text, whose letters would be names."""
    if isinstance(offered, str) or not isinstance(offered, Iterable):
        raise error(f"{name} is {shown(offered)}.", remedy=f"give a list of names, {name}=['w1'] for one.")
    return tuple(map(str, offered))


def the_flag(offered: object, name: str, error: type[WmlabError] = RecordingError) -> bool:
    """True or False, which may be numpy's; raises `error` for all else, for "no" would count as true."""
    plain = offered.item() if hasattr(offered, "item") and getattr(offered, "shape", None) == () else offered
    if not isinstance(plain, bool):
        raise error(f"{name} is {shown(offered)}.", remedy="give True or False.")
    return plain


def the_choice(
    offered: object, name: str, choices: Container[object], error: type[WmlabError] = RecordingError
) -> None:
    """Raises `error` for anything but one of the choices."""
    if offered not in choices:
        raise error(f"{name} is {shown(offered)}.", remedy=f"Give one of {choices}.")
