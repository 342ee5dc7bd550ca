"""The smallest scenario that still shows something: parts are left out, and fields set back, while it does.

What a scenario is made of is found by its fields, so one mechanism does for every kind of scenario. It tries halves
before single entries, and goes on until nothing more can be left out. It draws nothing, so it gives the same each time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from wmlab.core.errors import WmlabError
from wmlab.core.values import value_at

S = TypeVar("S")

Path = tuple[str | int, ...]
"""Where a part stands: names of fields, and indices in tuples."""
_KEPT: Final = frozenset({"name", "seed", "kind", "_"})
"""Fields that make a scenario no smaller."""
_FIRST: Final = ("script", "faults")
"""What is left out first: without a fault the rest says more."""


@dataclass(frozen=True, slots=True)
class Smallest(Generic[S]):
    """What shrinking came to, after how many runs; `minimal` unless it was stopped before it had tried everything."""

    scenario: S
    runs: int
    minimal: bool


class _OutOfRunsError(Exception):
    """No more runs are allowed."""


def smallest(scenario: S, shows: Callable[[S], bool], *, most_runs: int) -> Smallest[S]:
    """The smallest scenario for which `shows` is still true, as it is for this one.

    No part of it can be left out alone, and no field set back to its default alone. `shows` is called at most
    `most_runs` times; where it, or the scenario itself, raises an error of wmlab, that scenario is passed over.
    """
    runs = 0

    def still_shows(make: Callable[[], S]) -> S | None:
        nonlocal runs
        try:
            candidate = make()
            if runs >= most_runs:
                raise _OutOfRunsError
            runs += 1
            return candidate if shows(candidate) else None
        except WmlabError:
            return None

    try:
        while True:
            before = scenario
            # Where entries may be left out: those of faults first, the inner ones last.
            for path in sorted(_tuples(scenario, ()), key=lambda path: (path[0] not in _FIRST, len(path))):
                scenario = _with_fewer_entries(scenario, path, still_shows)
            for path in _paths_of_fields(scenario):
                scenario = still_shows(lambda path=path, now=scenario: _set_back(now, path)) or scenario  # type: ignore[misc]
            scenario = _shortened(scenario, still_shows)
            if scenario == before:
                return Smallest(scenario, runs, True)
    except _OutOfRunsError:
        return Smallest(scenario, runs, False)


def _with_fewer_entries(scenario: S, path: Path, still_shows: Callable[[Callable[[], S]], S | None]) -> S:
    """The scenario with as few entries at a path as still show it."""
    try:
        count = len(value_at(scenario, path))
    except (AttributeError, IndexError, TypeError):  # the part that it stood in has been left out
        return scenario
    width = count
    while width:
        first = count - width
        while first >= 0:

            def without(scenario: S = scenario, first: int = first, width: int = width) -> S:
                entries = value_at(scenario, path)
                return cast("S", _put(scenario, path, (*entries[:first], *entries[first + width :])))

            if (smaller := still_shows(without)) is not None:
                scenario, count = smaller, count - width
            first -= width
        width //= 2
    return scenario


def _shortened(scenario: S, still_shows: Callable[[Callable[[], S]], S | None]) -> S:
    """The scenario with half the duration, as often as that still shows it."""
    while (half_ms := scenario.duration_ms // 2) and (  # type: ignore[attr-defined]
        shorter := still_shows(lambda now=scenario, half_ms=half_ms: dataclasses.replace(now, duration_ms=half_ms))  # type: ignore[misc]
    ):
        scenario = shorter
    return scenario


def _tuples(part: Any, path: Path) -> Iterator[Path]:
    for name, entry in _fields(part):
        if isinstance(entry, tuple) and entry:
            yield (*path, name)
            for index, inner in enumerate(entry):
                yield from _tuples(inner, (*path, name, index))
        else:
            yield from _tuples(entry, (*path, name))


def _paths_of_fields(part: Any, path: Path = ()) -> Iterator[Path]:
    """Where a field is not its default."""
    if not dataclasses.is_dataclass(part):
        return
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    for name, entry in _fields(part):
        if defaults[name] is not dataclasses.MISSING and entry != defaults[name]:
            yield (*path, name)
        inner = enumerate(entry) if isinstance(entry, tuple) else ((None, entry),)
        for index, inner_part in inner:
            yield from _paths_of_fields(inner_part, (*path, name) if index is None else (*path, name, index))


def _fields(part: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            if field.init and field.name not in _KEPT:
                yield field.name, getattr(part, field.name)


def _put(part: Any, path: Path, entry: Any) -> Any:
    """The part with another entry at a path."""
    if not path:
        return entry
    step, *rest = path
    if isinstance(step, int):
        return (*part[:step], _put(part[step], tuple(rest), entry), *part[step + 1 :])
    return dataclasses.replace(part, **{step: _put(getattr(part, step), tuple(rest), entry)})


def _set_back(scenario: Any, path: Path) -> Any:
    """The scenario with the default of a field."""
    try:
        part = value_at(scenario, path[:-1])
        (default,) = [field.default for field in dataclasses.fields(part) if field.name == path[-1]]
    except (AttributeError, IndexError, TypeError, ValueError):  # the part that it stood in has been set back
        return scenario
    return _put(scenario, path, default)
