"""Whether what is said of the next cycle is true: by the cycles that really ran, and by what struck in between.

A cycle that is said to come did begin then. Else the bucket changed its owner before that, its owner came into a state
that keeps it from running cycles, or the stream or the run ended. None of the past is said. A cycle that began as a
row or its owner had planned it, with nothing in between, was said, unless a controller without a session went on with
cycles of its own.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tests.oracles.cycle_plans import begun, first_delay_ms, of_controllers, owner, ownership, plans_without_session
from tests.oracles.tables import Run


def moments_between(run: Run, stream: str, seed: object, count: int) -> list[int]:
    """Some moments of a stream just after, between and just before its cycles and the changes of its owner."""
    changes = sorted({0, *begun(run, stream, run.end_ms), *_owners_change(run, stream), run.ends(stream)})
    found = {
        at for begin, end in pairwise(changes) for at in (begin + 1, (begin + end) // 2, end - 1) if begin <= at < end
    }
    return sorted(Random(f"between {seed} {stream}").sample(sorted(found), min(count, len(found))))


def objection(run: Run, stream: str, at_ms: int, said: int | None) -> str:
    """What is wrong with saying that the next cycle is due then, or with saying nothing; empty if nothing is."""
    ran = sorted(begun(run, stream, run.end_ms))
    following = next((each for each in ran if each > at_ms), None)
    if said is None:
        is_wrong = following is not None and _has_to_be_said(run, stream, at_ms, following)
        return f"the cycle of {following} was planned" if is_wrong else ""
    if owner(run, stream, at_ms)[0] is None:
        return "nobody owned the bucket"
    if said < at_ms:
        return "it is of the past"
    if said == at_ms:
        return "it had run" if said in begun(run, stream, at_ms, owner(run, stream, at_ms)[0]) else ""
    if following == said:
        return ""
    if following is not None and following < said:
        is_known = not _is_of_second_loop(run, stream, following)
        return f"one ran at {following}" if is_known and not _struck(run, stream, at_ms, following) else ""
    return "" if _struck(run, stream, at_ms, said) else "it did not run"


def _owners_change(run: Run, stream: str) -> set[int]:
    times = (at for row in ownership(run, stream) for at in (row["from_ms"], row["to_ms"]))
    return {at for at in times if at is not None}


def _slack_ms(run: Run, stream: str) -> int:
    """How long a cycle takes at most: until its row is written it may still die, or the run end."""
    period_ms = run.scenario.controllers.period_ms
    rows = (row for row in run.all_rows("cycles", stream) if row["due_ms"] is not None)
    return max((row["due_ms"] - row["at_ms"] - period_ms for row in rows), default=0)


def _struck(run: Run, stream: str, from_ms: int, to_ms: int) -> bool:
    """Whether the owner changed or was in a state that keeps it from running cycles, or the stream or the run ended."""
    end_ms = to_ms + _slack_ms(run, stream)
    if end_ms >= run.ends(stream) or any(from_ms < at <= to_ms for at in _owners_change(run, stream)):
        return True
    return any(
        each.party == owner(run, stream, from_ms)[1]
        and each.since_ms <= end_ms
        and (each.ended_ms is None or each.ended_ms > from_ms)
        for each in of_controllers(run, stream)
    )


def _is_of_second_loop(run: Run, stream: str, following: int) -> bool:
    """Whether a cycle is the first of a second loop, which the fault of two entries makes: no table has its plan."""
    has_fault = run.scenario.rules.in_effect.double_work_entry
    return has_fault and following not in {row["due_ms"] for row in run.all_rows("cycles", stream)}


def _has_to_be_said(run: Run, stream: str, at_ms: int, following: int) -> bool:
    """Whether the cycle that began next was in the tables at a moment at which some writer was on record."""
    name = owner(run, stream, at_ms)[0]
    cycles = run.by_then("cycles", stream, at_ms)
    if name is None or not cycles or not run.on_record(stream, at_ms) or plans_without_session(run, stream, at_ms):
        return False
    came_ms = [row["from_ms"] for row in ownership(run, stream) if row["from_ms"] <= at_ms]
    first = [max(came_ms) + first_delay_ms(run, stream)] if came_ms and max(came_ms) > cycles[-1]["at_ms"] else []
    planned = [*(row["due_ms"] for row in cycles), *first]
    return following in planned and not _struck(run, stream, at_ms, following)
