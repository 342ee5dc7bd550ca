"""Which cycle of a stream is planned at a moment, and whether what is said of it fits the cycles that ran.

A plan is in the tables: the `due_ms` of a row of cycles is one until its controller begins a cycle then or later, and
an owner of the bucket that has run no cycle plans its first one. A process that lost its session goes on with its own
until it notices that.
"""

from __future__ import annotations

from typing import Final

from tests.oracles.states import Befallen, state_of
from tests.oracles.tables import Row, Run

SERVICES: Final = ("coordinator", "metadata-store", "segment-store")
"""What a controller needs to run a cycle."""


def of_controllers(run: Run, stream: str) -> list[Befallen]:
    """What keeps controllers from running the cycles of a stream."""
    return [each for each in run.states_of(stream) if each.keeps_from(*SERVICES)]


def ownership(run: Run, stream: str) -> list[Row]:
    """Who owned the bucket of a stream, from when until when."""
    return [row for row in run.owners if stream.split("#")[0] in row["streams"]]


def owner(run: Run, stream: str, at_ms: int) -> tuple[str | None, str | None]:
    """Who owns the bucket of a stream, and who did last; without that table the controller of the last cycle."""
    rows = ownership(run, stream)
    if not rows:
        cycle = run.last_cycle(stream, at_ms)
        name = None if cycle is None else cycle["controller"]
        return name, name
    past = [row for row in rows if row["from_ms"] <= at_ms]
    now = [row for row in past if row["to_ms"] is None or at_ms < row["to_ms"]]
    # One that loses the bucket in the ms in which it gets it stands before the next owner.
    last = max(reversed(past), key=lambda row: row["from_ms"], default=None)
    return (now[-1]["controller"] if now else None), (last["controller"] if last else None)


def first_delay_ms(run: Run, stream: str) -> int:
    """How long after its owner came the first cycle of a stream is due, by the scenario."""
    controllers, name = run.scenario.controllers, stream.split("#")[0]
    own = next(part.start_delay_ms for part in run.scenario.all_streams if part.name == name)
    delays_ms = (own, controllers.start_delay_ms, controllers.period_ms)
    return next(delay_ms for delay_ms in delays_ms if delay_ms is not None)


def next_cycle(run: Run, stream: str, at_ms: int) -> int | None:
    """When the next cycle is due; not known while nobody owns the bucket, or a process without a session has a plan.

    One that is overdue is not the next one: when it runs, nobody knows.
    """
    if owner(run, stream, at_ms)[0] is None or plans_without_session(run, stream, at_ms):
        return None
    due_ms = planned_cycle(run, stream, at_ms)
    return None if due_ms is None or due_ms < at_ms else due_ms


def plans_without_session(run: Run, stream: str, at_ms: int) -> list[int]:
    """What those plan that lost the bucket with their session, and have not noticed it (clock, ms)."""
    name, came_ms = owner(run, stream, at_ms)[1], _came_ms(run, stream, at_ms)
    return [each for other in came_ms.keys() - {name} for each in _plans(run, stream, other, came_ms[other], at_ms)]


def planned_cycle(run: Run, stream: str, at_ms: int) -> int | None:
    """The earliest cycle that the owner of the bucket plans, or its last one, or a process without a session.

    While the owner cannot run cycles, those of such a process come first. None: no cycle has run yet, no writer is on
    record, the stream was deleted, or the tables have no plan.
    """
    last = run.last_cycle(stream, at_ms)
    if last is None or not run.on_record(stream, at_ms) or run.incident(stream, "delete", at_ms) is not None:
        return None
    name, came_ms = owner(run, stream, at_ms)[1], _came_ms(run, stream, at_ms)
    if name is None:
        return None
    others = plans_without_session(run, stream, at_ms)
    if others and state_of(of_controllers(run, stream), name, at_ms) is not None:
        return min(others)
    rows = _of(run.by_then("cycles", stream, at_ms), name, came_ms[name])
    marks = _of(run.by_then("watermarks", stream, at_ms), name, came_ms[name])
    own = _plans(run, stream, name, came_ms[name], at_ms)
    if not rows and not marks and _is_in_bucket(run, stream, last, came_ms[name]):
        own = [came_ms[name] + first_delay_ms(run, stream)]
    if marks and (not rows or marks[-1]["cycle_ms"] > rows[-1]["at_ms"]):
        # It died once it had appended its watermark; the next one would have been due a period later.
        lengths_ms = [row["due_ms"] - row["at_ms"] for row in run.by_then("cycles", stream, at_ms) if row["due_ms"]]
        own = [marks[-1]["emitted_ms"] + length_ms for length_ms in lengths_ms[-1:]]
    return min([*own, *others], default=None)


def _plans(run: Run, stream: str, controller: str, since_ms: int, at_ms: int) -> list[int]:
    """The plans in the rows of a controller since it came: later than the cycle that it began last (clock, ms)."""
    rows = _of(run.by_then("cycles", stream, at_ms), controller, since_ms)
    marks = _of(run.by_then("watermarks", stream, at_ms), controller, since_ms)
    begun_ms = max(map(_begun_ms, (*rows, *marks)), default=0)
    return [row["due_ms"] for row in rows if row["due_ms"] is not None and row["due_ms"] > begun_ms]


def _came_ms(run: Run, stream: str, at_ms: int) -> dict[str, int]:
    """Since when each controller has plans for a stream: its owner, or the last one, and those without a session."""
    rows = [row for row in ownership(run, stream) if row["from_ms"] <= at_ms]
    came_ms = {row["controller"]: row["from_ms"] for row in sorted(rows, key=lambda row: int(row["from_ms"]))}
    states, name = of_controllers(run, stream), owner(run, stream, at_ms)[1]
    found = {} if name is None else {name: came_ms.pop(name, 0)}
    for other, since_ms in came_ms.items():
        state = state_of(states, other, at_ms)
        if state is not None and state.state == "without a session":
            found[other] = since_ms
    return found


def _begun_ms(row: Row) -> int:
    """When the cycle of a row, or of a watermark, began (clock, ms)."""
    return int(row["cycle_ms"] if "cycle_ms" in row else row["at_ms"])


def _of(rows: list[Row], controller: str, since_ms: int) -> list[Row]:
    """The rows of the cycles, or the watermarks, of a controller since it came."""
    return [row for row in rows if row["controller"] == controller and _begun_ms(row) >= since_ms]


def _is_in_bucket(run: Run, stream: str, last: Row, came_ms: int) -> bool:
    """Whether a stream was in its bucket when the owner of that came: a cycle without a writer takes it out.

    A note for it, accepted or not, puts it there again.
    """
    if last["due_ms"] is not None or last["cause"] != "no active writer":
        return True
    notes = run.by_then("writer_marks", stream, came_ms)
    return any(row["received_ms"] > last["at_ms"] for row in notes)


def begun(run: Run, stream: str, at_ms: int, controller: str | None = None) -> set[int]:
    """The cycles that had begun by then, all or those of a controller (clock, ms).

    One that died once it had appended its watermark has no row.
    """
    rows = [*run.by_then("cycles", stream, at_ms), *run.by_then("watermarks", stream, at_ms)]
    return {_begun_ms(row) for row in rows if controller in (None, row["controller"])}
