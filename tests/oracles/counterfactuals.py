"""Runs without what befell one of the parties: if a bound is higher there, and in no other such run, it held the bound.

The population is every drawn moment, of the log and of the first group, for which these hold:

    a party has faults      acts of the script that keep a party from doing something, as `_STOPS` lists them; those of
                            one party are left out together, and nothing else is
    the bound is higher     by 3 s or more at that moment in the run without them, and known in both runs
    nobody else             in the run without the faults of any other party it is not
    the fault matters yet   the bound has not moved since the last of these faults was over; once it has, what remains
                            of a fault is only that all cycles run at other times
    a cycle is missing      of controllers and buckets: one was due by then, as the last one said. Before that the other
                            run is higher only because its cycles run at other times

A writer that is slow by itself, without whom each later bound is higher, is no fault. The party is named if any fact of
the answer at that moment has its name; which facts those may be, the other tests say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

import wmlab as wm
from tests.oracles.runs import ORDERS
from tests.oracles.streams import Oracle
from wmlab.streams.api import Scenario
from wmlab.streams.model.coordination import bucket_of, qualified_name

HIGHER_MS: Final = 3_000
"""By how much the bound has to be higher without the fault."""
_BEFALLS: Final = ("writer", "reader", "controller", "store", "party")
_STOPS: Final = (
    "crash_writer",
    "silence_writer",
    "shut_down_writer",
    "mark_idle",
    "slow_transaction",
    "abort_transaction",
    "crash_controller",
    "pause_controller",
    "remove_controller",
    "expire_session",
    "lose_bucket_owner",
    "lose_marks_segment",
    "store_unavailable",
    "partition",
    "crash_reader",
    "pause_reader",
    "remove_reader",
    "release_segment",
)
"""Acts that keep a party from doing something."""
_LASTS: Final = ("for_ms", "restart_after_ms", "notice_after_ms", "hold_ms", "keep_free_ms")
"""For how long they do; without any of these for good."""


def without_each(scenario: Scenario) -> Iterator[tuple[tuple[str, ...], Scenario]]:
    """The names of each party with the scenario without what stops it."""
    for names, acts in _faults(scenario).items():
        yield names, scenario.replace(script=[act for act in scenario.script if act not in acts])


def _faults(scenario: Scenario) -> Mapping[tuple[str, ...], list[Any]]:
    found: dict[tuple[str, ...], list[Any]] = {}
    acts: tuple[Any, ...] = tuple(scenario.script)
    for act in acts:
        if act.kind in _STOPS:
            found.setdefault(_named(act), []).append(act)
    return found


def _named(act: Any) -> tuple[str, ...]:
    """The parties that an act is about, as an answer may call them; of a role all of that kind."""
    if act.kind == "partition":
        return act.a, act.b
    if act.kind == "lose_marks_segment":
        return ("marks segment",)
    if act.kind == "lose_bucket_owner":
        return (f"bucket {bucket_of(qualified_name(ORDERS), wm.Controllers().buckets)}",)
    name = next(str(value) for field in _BEFALLS if (value := getattr(act, field, None)) is not None)
    return ("controllers",) if name in ("leader", "committer", "distributor") else (name.replace("_", " "),)


def the_only_one(
    scenario: Scenario, own: Oracle, groups: Iterable[str | None], moments: list[int]
) -> Iterator[tuple[str | None, int, tuple[str, ...]]]:
    """The moments at which a bound is higher without the faults of one party, and of no other, with its names.

    The bounds are those at the positions of these groups; of None the one in the log.
    """
    others = [(names, Oracle(changed, changed.record(progress=False))) for names, changed in without_each(scenario)]
    if not others:
        return
    ends = {names: max(map(_end_ms, acts)) for names, acts in _faults(scenario).items()}
    for group, at_ms in product(groups, moments):
        bound, since_ms = _bound(own, group, at_ms)
        higher = {names for names, other in others if _is_higher(_bound(other, group, at_ms)[0], bound)}
        if len(higher) != 1 or since_ms is None:
            continue
        (names,) = higher
        if since_ms <= ends[names] and (not _runs_cycles(names) or _is_missing(own, at_ms)):
            yield group, at_ms, names


def _runs_cycles(names: tuple[str, ...]) -> bool:
    return names[0].startswith(("controller", "bucket"))


def _is_missing(own: Oracle, at_ms: int) -> bool:
    """Whether a cycle was due by then that has not run."""
    cycle = own.run.last_cycle(ORDERS, at_ms)
    return cycle is None or cycle["due_ms"] <= at_ms


def _end_ms(act: Any) -> float:
    """When a fault is over; infinite if it never is."""
    lengths_ms = (getattr(act, name, None) for name in _LASTS)
    return next((float(act.at_ms + length_ms) for length_ms in lengths_ms if length_ms is not None), float("inf"))


def _bound(oracle: Oracle, group: str | None, at_ms: int) -> tuple[int | None, int | None]:
    """The bound of a curve, and since when it has that value."""
    if group is not None:
        return oracle.group(ORDERS, group).bound_since(at_ms)
    marks = oracle.run.watermarks(ORDERS, at_ms)
    return oracle.run.lower(ORDERS, at_ms), marks[-1]["emitted_ms"] if marks else None


def _is_higher(bound: int | None, than: int | None) -> bool:
    return bound is not None and than is not None and bound >= than + HIGHER_MS
