"""What is to be said of the watermark in the log at a moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from tests.oracles.cycle_plans import begun, next_cycle, of_controllers, owner, ownership, planned_cycle
from tests.oracles.states import Befallen, state_of
from tests.oracles.tables import CLOCKS, SUCCESS, Kept, Row, Run

Fact = tuple[str, Any]
WITHOUT_PARTY: Final = {
    "not there": "no stream yet",
    "deleted": "the deletion",
    "no mark": "no accepted time",
    "first cycle": "no cycle yet",
    "expected": "expected writers",
    "period": "the cycle period",
    "controller": "an overdue cycle",
    "store": "stores",
    "no writer left": "no active writer",
    "cycle failed": "failed cycles",
    "not started": "no position yet",
    "assignment": "segments without an owner",
    "reader": "no reader",
    "unread": "unread segments",
    "publication": "no publication",
}
"""What is said for who holds a curve where no party does."""
KEEPING: Final = ("controller", "store")
"""The causes that keep cycles from running or storing, whatever writers note."""


def cause_of_log(run: Run, stream: str, at_ms: int) -> str:
    """Why the watermark is not higher, by the first reason that holds."""
    record, cycle = run.on_record(stream, at_ms), run.last_cycle(stream, at_ms)
    if at_ms < run.created_ms(stream):
        return "not there"
    if run.incident(stream, "delete", at_ms) is not None:
        return "deleted"
    if not record:
        return "no writer left" if run.accepted(stream, at_ms) else "no mark"
    if cycle is None:
        return "first cycle"
    due_ms = planned_cycle(run, stream, at_ms)
    if due_ms is not None and due_ms < at_ms:
        return "controller"
    behind = run.behind(stream, at_ms)
    if cycle["lagging"]:
        return "lagging" if set(cycle["lagging"]) & set(behind) else "period"
    if cycle["outcome"] == "emitted" or cycle["cause"] == "no active writer":
        return "slowest" if behind else "period"
    if cycle["cause"] == "cycle failed" and failed_store(run, stream, cycle) is not None:
        return "store"
    return "expected" if cycle["cause"] == "expected writers" else "cycle failed"


def failed_store(run: Run, stream: str, cycle: Row) -> Befallen | None:
    """The store, or the partition before it, that the cycle could not use; None: it failed for another reason."""
    name = cycle["reason"].removeprefix("cycle failed: ").removesuffix(" unavailable")
    if name == "no such marks segment":
        mine = [each for each in run.states_of(stream) if each.stream == stream and each.state == "missing"]
        return state_of(mine, "marks segment", cycle["at_ms"])
    if (state := state_of(run.states_of(stream), name, cycle["at_ms"])) is not None:
        return state
    apart = [
        each
        for each in run.states_of(stream)
        if each.party == cycle["controller"]
        and name.replace(" ", "-") in each.apart_from
        and each.is_on(cycle["at_ms"])
    ]
    return next(iter(apart), None)


def log_facts(run: Run, stream: str, at_ms: int) -> Iterator[Fact]:
    """Each label with its value, or with a tuple of values."""
    cause = cause_of_log(run, stream, at_ms)
    newest = run.watermarks(stream, at_ms)[-1:]
    yield "cause", cause
    if cause == "not there":
        yield "starts at", run.created_ms(stream)
        return
    yield "watermark", run.lower(stream, at_ms)
    yield "made at", newest[0]["emitted_ms"] if newest else None
    yield from set_by(run, stream, newest[0] if newest else None, at_ms)
    yield from of_stream(run, stream, at_ms)
    yield from holder_facts(run, stream, at_ms, cause)
    yield from cycle_facts(run, stream, at_ms, cause)
    yield from delay_facts(run, stream, newest[0] if newest else None, at_ms)
    yield from silent_facts(run, stream, at_ms)


def delay_facts(run: Run, stream: str, mark: Row | None, at_ms: int) -> Iterator[Fact]:
    """Who kept cycles from making the watermark after one of the log, or the first one, and no longer does."""
    marks = run.watermarks(stream, at_ms)
    place = 0 if mark is None else marks.index(mark) + 1
    since_ms = 0 if mark is None else mark["emitted_ms"]
    until_ms = marks[place]["emitted_ms"] if place < len(marks) else at_ms
    is_made = place < len(marks)
    still = () if is_made or cause_of_log(run, stream, at_ms) not in KEEPING else log_holders(run, stream, at_ms)
    found = {
        name: kept.to_ms
        for kept in kept_from_cycles(run, stream)
        if kept.from_ms < until_ms and kept.to_ms > since_ms
        if kept.moved_ms is None or kept.moved_ms < until_ms
        for name in kept.names
        if name not in still
    }
    yield "delayed by", tuple(sorted(found))
    yield "delayed until", tuple(found[name] for name in sorted(found))


def kept_from_cycles(run: Run, stream: str) -> list[Kept]:
    """From when until when who kept cycles from running or storing, over the whole run: nobody who is back.

    A bucket that has no owner for a while does so, too, if no cycle ran by when its last owner had planned the next.
    """
    if stream not in run.kept:
        changes = {run.end_ms}
        for table in ("cycles", "watermarks", "writer_marks", "incidents"):
            changes |= {row[CLOCKS[table]] for row in run.all_rows(table, stream)}
        changes |= {at for row in ownership(run, stream) for at in (row["from_ms"], row["to_ms"]) if at is not None}
        changes |= {each.ended_ms for each in run.states_of(stream) if each.ended_ms is not None}
        due = [planned_cycle(run, stream, at) for at in changes]
        changes |= {at + 1 for at in due if at is not None}
        moments = sorted({each for at in changes for each in (at - 1, at)})
        spans = (_kept(run, stream, begin, end) for begin, end in pairwise(moments))
        run.kept[stream] = [kept for kept in spans if kept is not None]
    return run.kept[stream]


def _kept(run: Run, stream: str, from_ms: int, to_ms: int) -> Kept | None:
    cause = cause_of_log(run, stream, from_ms)
    if cause in KEEPING:
        facts = dict(holder_facts(run, stream, from_ms, cause))
        is_back = facts.get("holder back at") is not None
        return None if is_back else Kept(from_ms, to_ms, log_holders(run, stream, from_ms))
    due_ms = planned_cycle(run, stream, from_ms)
    if due_ms is None or owner(run, stream, from_ms)[0] is not None:
        return None
    if any(from_ms < at <= due_ms for at in begun(run, stream, due_ms)):
        return None
    holder = next((value for label, value in overdue_facts(run, stream, from_ms) if label == "holder"), None)
    return None if holder is None else Kept(from_ms, to_ms, (holder,), due_ms)


def kept_until_now(run: Run, stream: str, at_ms: int) -> tuple[str, ...]:
    """Who last kept cycles from running, if no cycle has begun since: what would run next comes late through them."""
    begun_ms = max(begun(run, stream, at_ms), default=0)
    over = [
        kept
        for kept in kept_from_cycles(run, stream)
        if begun_ms < kept.to_ms <= at_ms and kept.names and (kept.moved_ms is None or kept.moved_ms < at_ms)
    ]
    return over[-1].names if over else ()


def silent_facts(run: Run, stream: str, at_ms: int) -> Iterator[Fact]:
    """The replayed writer with the smallest newest event, if it is silent, has noted later times, and holds nothing."""
    replays = {part.name for part in run.scenario.writers if part.trace is not None}
    sent: dict[str, list[Row]] = {}
    for row in run.by_then("events", stream, at_ms):
        if row["writer"] in replays:
            sent.setdefault(row["writer"], []).append(row)
    newest = {name: max(row["event_time"] for row in rows) for name, rows in sent.items()}
    lower = run.lower(stream, at_ms)
    if not newest or lower is None:
        return
    name = min(newest, key=lambda writer: (newest[writer], writer))
    noted = run.on_record(stream, at_ms).get(name)
    appended = [row["append_ms"] for row in sent[name]]
    pause_ms = max((later - earlier for earlier, later in pairwise(appended)), default=0)
    is_silent = at_ms - appended[-1] > pause_ms and newest[name] < lower
    if is_silent and noted is not None and noted["time"] > newest[name] and name not in log_holders(run, stream, at_ms):
        yield "silent writer", name


def set_by(run: Run, stream: str, mark: Row | None, at_ms: int) -> Iterator[Fact]:
    """The counted writers whose time is the lower bound of a watermark."""
    if mark is not None:
        names = sorted(name for name, time in mark["writers"].items() if time == mark["lower"])
        yield "set by", tuple(names)


def state_of_writer(run: Run, stream: str, writer: str, at_ms: int) -> Befallen | None:
    """What has befallen a writer; of several processes that note for it the first one's, if none of them is well."""
    name = run.writer_named(writer)
    seconds = {
        row["target"]
        for row in run.by_then("incidents", stream, at_ms)
        if (row["kind"], row["outcome"]) == ("duplicate", "done") and row["target"].startswith(f"{name}/")
    }
    found = [state_of(run.states_of(stream), process, at_ms) for process in (name, *sorted(seconds))]
    return found[0] if all(found) else None


def of_stream(run: Run, stream: str, at_ms: int) -> Iterator[Fact]:
    """The notes that were refused, and what became of the stream."""
    marks = run.by_then("writer_marks", stream, at_ms)
    last = {row["writer"]: row for row in sorted(marks, key=lambda row: row["noted_ms"])}  # as noted, not as judged
    refused = sorted(name for name, row in last.items() if row["outcome"] != SUCCESS)
    yield "refused", tuple(refused)
    yield "refused as", tuple(last[name]["outcome"] for name in refused)
    yield "sealed at", run.incident(stream, "seal", at_ms)
    yield "deleted at", run.incident(stream, "delete", at_ms)


def holder_facts(run: Run, stream: str, at_ms: int, cause: str) -> Iterator[Fact]:
    """Who holds the watermark, and all that is told of them."""
    record, cycle, behind = run.on_record(stream, at_ms), run.last_cycle(stream, at_ms), run.behind(stream, at_ms)
    if cause in ("lagging", "slowest"):
        assert cycle is not None
        holders = [name for name in behind if cause == "slowest" or name in cycle["lagging"]]
        yield "holder", tuple(holders)
        yield from state_facts("holder", [state_of_writer(run, stream, name, at_ms) for name in holders], until=True)
        yield "last noted", tuple(record[name]["time"] for name in holders)
        yield "noted at", tuple(record[name]["noted_ms"] for name in holders)
        lower = run.watermarks(stream, at_ms)[-1]["lower"]
        others = [row["time"] for name, row in record.items() if name not in holders]
        yield "others ahead by", min(others) - lower if others and min(others) > lower else None
    if cause == "lagging":
        assert cycle is not None
        since = cycle["behind_since_ms"] or {}
        starts = [since.get(name) for name in holders]
        yield "waited for since", tuple(starts)
        yield "given up at", tuple(None if start is None else start + cycle["timeout_ms"] for start in starts)
    if cause == "store":
        assert cycle is not None
        state = failed_store(run, stream, cycle)
        assert state is not None
        yield "holder", cycle["controller"] if state.state == "cut off" else store_named(cycle)
        yield from state_facts("holder", [state], until=True)
        yield "holder back at", state.ended_ms if state.ended_ms is not None and state.ended_ms <= at_ms else None
    if cause == "controller":
        yield from overdue_facts(run, stream, at_ms)


def overdue_facts(run: Run, stream: str, at_ms: int) -> Iterator[Fact]:
    """Who holds the watermark while a cycle is overdue: who is in a state that keeps it from running, or its bucket.

    A bucket without an owner holds it while nobody may own it, or if its last owner could run cycles. An owner that
    could run them holds it only if it was in such a state since the last one, and since it came: its cycle comes late.
    """
    now, last = owner(run, stream, at_ms)
    state = state_of(of_controllers(run, stream), now or last, at_ms)
    held_back = state_of(run.states_of(stream), bucket(run, stream), at_ms)
    if now is None and (state is None or held_back is not None):
        lost = [row["to_ms"] for row in ownership(run, stream) if row["to_ms"] is not None and row["to_ms"] <= at_ms]
        yield "holder", bucket(run, stream)
        yield "holder state", "without an owner"
        yield "holder since", max(lost)
    elif state is not None:
        yield "holder", state.party
        if ownership(run, stream):  # another controller takes over, once the session has ended
            yield from state_facts("holder", [state])
            yield from partition_facts([state])
        else:
            yield from state_facts("holder", [state], until=True)
    else:
        cycle = run.last_cycle(stream, at_ms)
        over = [each.ended_ms for each in of_controllers(run, stream) if each.party == now and each.ended_ms]
        back_ms = max((at for at in over if at <= at_ms), default=None)
        came_ms = [row["from_ms"] for row in ownership(run, stream) if row["from_ms"] <= at_ms]
        if back_ms is not None and cycle is not None and max(cycle["at_ms"], *came_ms) < back_ms:
            yield "holder", now
            yield "holder back at", back_ms


def bucket(run: Run, stream: str) -> str | None:
    """The bucket of a stream, as incidents call it."""
    return next((f"bucket {row['bucket']}" for row in ownership(run, stream)), None)


def parties_of_log(run: Run, stream: str, at_ms: int) -> tuple[str, ...]:
    """Who holds the log, as one label beside another curve: its holders, or words for a cause without a party."""
    return log_holders(run, stream, at_ms) or (WITHOUT_PARTY[cause_of_log(run, stream, at_ms)],)


def log_holders(run: Run, stream: str, at_ms: int) -> tuple[str, ...]:
    """The parties that hold the log; none for some causes."""
    cause = cause_of_log(run, stream, at_ms)
    holders = next((value for label, value in holder_facts(run, stream, at_ms, cause) if label == "holder"), None)
    return (holders,) if isinstance(holders, str) else tuple(holders or ())


def store_named(cycle: Row) -> str:
    """The store that a failed cycle names."""
    name = str(cycle["reason"]).removeprefix("cycle failed: ").removesuffix(" unavailable")
    return "marks segment" if name == "no such marks segment" else name


def cycle_facts(run: Run, stream: str, at_ms: int, cause: str) -> Iterator[Fact]:
    """When the next cycle is due, and who runs it."""
    cycle = run.last_cycle(stream, at_ms)
    yield "next cycle", next_cycle(run, stream, at_ms)
    now, last = owner(run, stream, at_ms)
    party = now or last
    state = state_of(of_controllers(run, stream), party, at_ms)
    is_kept = cause != "deleted" and party is not None and (now is None or state is not None)
    if cause == "cycle failed":
        assert cycle is not None
        yield "reason", cycle["reason"]
    if cause == "controller" or is_kept:
        yield "bucket owner", now or "nobody"
    if cause == "controller" or is_kept:
        yield "controller", party
        yield from state_facts("controller", [state])


def state_facts(label: str, states: Sequence[Befallen | None], *, until: bool = False) -> Iterator[Fact]:
    """The facts about the states of some parties."""
    yield f"{label} state", tuple(each and each.state for each in states)
    yield f"{label} since", tuple(each and each.since_ms for each in states)
    if until:
        yield f"{label} until", tuple(each and each.until_ms for each in states)
        yield from partition_facts(states)


def partition_facts(states: Sequence[Befallen | None]) -> Iterator[Fact]:
    """From which nodes a partition separates each of some holders."""
    yield "cut off from", tuple(", ".join(each.apart_from) or None if each else None for each in states)
