"""Runs without one of their parties: if the bound is higher there, and in no other such run, that party held it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.oracles.runs import ORDERS
from tests.oracles.streams import Oracle
from wmlab.core.errors import WmlabError
from wmlab.streams.api import Scenario

HIGHER_MS: Final = 3_000
"""By how much the bound has to be higher without a party."""
_BEFALLS: Final = ("writer", "reader", "controller", "store")


def without_each(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Each party with the scenario without it: a writer is left out, of all others what the script does to them."""
    for name, acts in _acts(scenario).items():
        remaining = [act for act in scenario.script if act not in acts]
        yield name, scenario.replace(script=remaining)
    for writer in scenario.writers:
        others = [other for other in scenario.writers if other is not writer]
        acts_left = [act for act in scenario.script if writer.name not in _named(act)]
        if any((other.stream or ORDERS) == (writer.stream or ORDERS) for other in others):
            try:
                yield writer.name, scenario.replace(writers=others, script=acts_left)
            except WmlabError:
                continue


def _named(act: Any) -> list[str]:
    """The parties that an act is about, as an answer may call them."""
    named = [getattr(act, field, None) for field in _BEFALLS]
    found = [str(name).replace("_", " ") for name in named if name is not None]
    if act.kind == "partition":
        found += [act.a, act.b]
    if act.kind == "lose_marks_segment":
        found.append("marks segment")
    return found


def _acts(scenario: Scenario) -> Mapping[str, list[Any]]:
    """What the script does to each party that is no writer."""
    writers = {writer.name for writer in scenario.writers}
    found: dict[str, list[Any]] = {}
    for act in scenario.script:
        named = _named(act)
        if named and not set(named) & writers:
            found.setdefault(", ".join(named), []).append(act)
    return found


def the_only_one(scenario: Scenario, group: str | None, moments: list[int]) -> Iterator[tuple[int, str]]:
    """The moments at which the bound is higher without one party, and without no other, and that party."""
    own = Oracle(scenario, scenario.record(progress=False))
    others = [(name, Oracle(changed, changed.record(progress=False))) for name, changed in without_each(scenario)]
    for at_ms in moments:
        bound = _bound(own, group, at_ms)
        higher = {name for name, other in others if _is_higher(_bound(other, group, at_ms), bound)}
        if len(higher) == 1:
            yield at_ms, *higher


def _bound(oracle: Oracle, group: str | None, at_ms: int) -> int | None:
    return oracle.run.lower(ORDERS, at_ms) if group is None else oracle.group(ORDERS, group).bound(at_ms)


def _is_higher(bound: int | None, than: int | None) -> bool:
    return bound is not None and than is not None and bound >= than + HIGHER_MS
