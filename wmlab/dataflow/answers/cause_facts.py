"""What holds a watermark of a dataflow, as facts: the holders, what else is below, and what would release it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from wmlab.core.facts import Facts, Single, Value
from wmlab.dataflow.answers.cause import IN_FLIGHT, Cause, Holder
from wmlab.dataflow.answers.run import DataflowRun, JobEnd
from wmlab.dataflow.answers.search import Search
from wmlab.dataflow.answers.vocabulary import AT_A_MOMENT, ENDED, LABELS, RELEASE
from wmlab.dataflow.model.join import START


def dataflow_facts(run: DataflowRun, values: Mapping[str, Value]) -> Facts:
    """Facts about a run, whose clock and event times may have different zeros."""
    return Facts(LABELS, values, clock_ms=run.begun_ms, event_ms=run.times_ms)


def of_end(end: JobEnd | None) -> dict[str, Value]:
    """How the job ended, if it did."""
    if end is None:
        return {}
    if not end.is_failure:
        return {"complete at": end.at_ms}
    return {"failed at": end.at_ms, "failure": end.reason.rstrip(".") or None}


def of_failure(end: JobEnd | None) -> dict[str, Value]:
    """That the job failed; nothing if it did not."""
    return of_end(end) if end is not None and end.is_failure else {}


def of_watermark(search: Search, cause: Cause, idle: Mapping[str, int], apart: str) -> tuple[Facts, tuple[str, ...]]:
    """What holds the watermark at an instance, with the templates that say it.

    `idle` are the partitions that it does not wait for, with when they became idle; `apart` is a join whose inputs have
    no event times in common.
    """
    run, execution = search.run, search.execution
    values: dict[str, Value] = {
        **of_end(cause.end),
        "vertex": run.instance_name(cause.vertex, cause.instance),
        "key": cause.key,
        "watermark": cause.watermark,
        "since": cause.since_ms,
        "restarted at": execution["started_ms"] if execution["execution"] > 1 else None,
        "inputs apart": apart or None,
    }
    if cause.end is None:
        if cause.window is not None:
            window = cause.window
            values |= {"window from": window.start, "window to": window.end, "rows": window.rows}
        values |= of_holders(cause.holders, cause.holders_now, cause.needed)
        left_out = {name: ms for name, ms in idle.items() if name not in {holder.name for holder in cause.holders}}
        values |= {"not waited for": tuple(left_out), "not waited for since": tuple(left_out.values())}
        values |= of_release(run, cause.holders, cause.release_ms)
    facts = dataflow_facts(run, values)
    return facts, facts.chosen(AT_A_MOMENT, ENDED if cause.end is not None else RELEASE)


def of_holders(holders: Sequence[Holder], now: Sequence[Holder], needed: int | None) -> dict[str, Value]:
    """Who holds the watermark where it is, `now`, and who else is below the one that is needed."""
    places = {holder.place for holder in now}
    first = [holder for holder in holders if holder.place in places] or list(holders)
    below = {
        (h.name, h.key): h.marks[-1]
        for h in holders
        if h not in first and needed is not None and h.marks and h.marks[-1] < needed
    }
    # What waits for the same instance to go on is named once.
    named = list({name_and_cause(holder): holder for holder in reversed(first)}.items())[::-1]
    of_first = [holder for _, holder in named]
    return {
        "needed": needed,
        "holder": tuple(name for (name, _), _ in named),
        "cause": tuple(kind for (_, kind), _ in named),
        "watermark of holder": tuple(holder.mark for holder in of_first),
        "through": tuple(of_first[0].through) if of_first else None,
        "waits since": tuple(holder.last_ms if holder.partition is None else None for holder in of_first),
        "idle since": tuple(holder.idle_since_ms for holder in of_first),
        "next watermark": tuple(holder.next_mark for holder in of_first),
        "taken by": _different(holder.queue_to for holder in first),
        "fault": tuple(None if holder.fault is None else holder.fault.kind for holder in of_first),
        "fault from": tuple(None if holder.fault is None else holder.fault.since_ms for holder in of_first),
        "fault until": tuple(None if holder.fault is None else holder.fault.until_ms for holder in of_first),
        "also below": tuple(name for name, _ in below),
        "watermark also below": tuple(None if mark == START else mark for mark in below.values()),
    }


def name_and_cause(holder: Holder) -> tuple[str, str]:
    """Who holds, and why; of what waits for an instance that stands still, that one."""
    return (holder.name, holder.kind) if holder.stall is None else (holder.stall.party, "stalled")


def _different(values: Iterable[Single]) -> Value:
    """Each value once."""
    return tuple(dict.fromkeys(value for value in values if value is not None))


def of_release(run: DataflowRun, holders: Sequence[Holder], at_ms: int | None) -> dict[str, Value]:
    """What would release it; nothing where an instance stands still for good."""
    stalls = {holder.stall for holder in holders if holder.stall is not None}
    untils_ms = [stall.until_ms for stall in stalls if stall.until_ms is not None]
    if len(untils_ms) < len(stalls):
        return {}
    untils_ms += [holder.quiet_until_ms for holder in holders if holder.quiet_until_ms is not None]
    rest = [holder for holder in holders if holder.stall is None]
    return {
        "goes on at": max(untils_ms, default=None),
        **_rows(rest),
        "released at": at_ms if rest else None,
        "run ends": run.end_ms if rest and at_ms is not None and at_ms > run.end_ms else None,
        "end of": _different(_ending(rest)),
    }


def _rows(holders: Sequence[Holder]) -> dict[str, Value]:
    """Rows that would release it.

    All of them are needed, and of idle inputs that are coalesced one. Nothing is said where both are so.
    """
    needed = [holder for holder in holders if holder.kind in {"slow", "throttled", "idle", "silent"}]
    if not needed or len(needed) < sum(holder.kind not in IN_FLIGHT for holder in holders):
        return {}
    able: dict[tuple[object, ...], list[Holder]] = {holder.any_of or holder.place: [] for holder in needed}
    for holder in needed:
        if holder.fault is None or not holder.fault.stops_rows:
            able[holder.any_of or holder.place].append(holder)
    most = max(map(len, able.values()))
    if not all(able.values()) or (most > 1 and len(able) > 1):
        return {}
    rows = list(chain.from_iterable(able.values()))
    return {
        f"row in {'any' if most > 1 else 'each'} of": tuple(
            f"{holder.name} past its filter" if holder.is_filtered else holder.name for holder in rows
        ),
        "row of": _of_each(holder.needs_time for holder in rows),
    }


def _of_each(values: Iterable[Single]) -> Value:
    """The value of each, or the one that they have in common."""
    each = tuple(values)
    return each[0] if len(set(each)) == 1 else each


def _ending(holders: Sequence[Holder]) -> list[str]:
    """The inputs whose end would release it."""
    kinds = {holder.kind for holder in holders}
    if kinds & {"no bound", "ended"}:
        return []
    for kind in ("batch", "no key"):
        if kind in kinds:
            return [holder.name for holder in holders if holder.kind == kind]
    waited = {"slow", "throttled", "idle", "clock", "silent"}
    return [holder.vertex for holder in holders if holder.kind in waited] if all(h.end_helps for h in holders) else []
