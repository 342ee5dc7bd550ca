"""The one writer of sentences about what holds a watermark of a dataflow, from the values of `cause`.

Every sentence of `explain`, and what a chart, a check or the measures say of causes, is made here. Each begins with a
capital and ends with a full stop. Moments of the clock are rounded; watermarks, and times that a row needs, are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmlab.core.recording import Recording
from wmlab.core.words import clock_words, counted, grouped, joined, listed, moment, rounded
from wmlab.dataflow.answers.cause import IN_FLIGHT, Cause, CauseKind, Holder
from wmlab.dataflow.answers.job import FaultInForce
from wmlab.dataflow.answers.run import DataflowRun, JobEnd
from wmlab.dataflow.answers.state import HeldState
from wmlab.dataflow.model.join import START
from wmlab.dataflow.sim.layout import OWN_BY_INPUT

_HOLDERS_NAMED: Final = 3


def end_sentence(end: JobEnd | None) -> str:
    """How and when the job ended: "The job failed at 52 ms: ...."; empty while it runs."""
    if end is None:
        return ""
    reason = f": {end.reason.rstrip('.')}" if end.reason else ""
    return f"The job {'failed' if end.is_failure else 'was complete'} at {clock_words(end.at_ms)}{reason}."


def failure_sentence(end: JobEnd | None) -> str:
    """That the job failed, and why; empty if it did not."""
    return end_sentence(end) if end is not None and end.is_failure else ""


def failure_of(recording: Recording) -> str:
    """That the job of a recording failed, and why; empty if it did not, or if it has none."""
    return failure_sentence(DataflowRun(recording).end) if recording.counts["vertices"] else ""


def watermark_sentences(run: DataflowRun, cause: Cause, state: HeldState | None) -> str:
    """What holds the watermark at an instance, and what releases it."""
    at_ms, instance = clock_words(cause.at_ms), run.instance_name(cause.vertex, cause.instance)
    if cause.end is not None:
        growth = state.sentence if state is not None and cause.end.is_failure and state.bounded is False else ""
        return joined(end_sentence(cause.end), _last_watermark(run, cause, instance), growth)
    free = "" if cause.kind is not CauseKind.MOVING else "Nothing holds it back."
    return joined(
        _watermark(run, cause, at_ms, instance),
        _window(run, cause),
        held_sentences(run, cause.holders, cause.holders_now, cause.needed) or free,
        release_sentence(run, cause.holders, cause.release_ms),
        state.sentence if state is not None and _may_grow(state) else "",
    )


def _may_grow(state: HeldState) -> bool:
    """Whether what a vertex holds grows and may go on to, as far as is known: its rows have not ended."""
    return state.bounded is not True and state.is_growing and state.grew_until_ms is None


def _watermark(run: DataflowRun, cause: Cause, at_ms: str, instance: str) -> str:
    """What the watermark is, and since when."""
    if cause.watermark is None:
        return f"At {at_ms} no watermark of key {cause.key} has come at {instance}."
    value, since = run.time(cause.watermark), clock_words(cause.since_ms)
    return f"At {at_ms} the watermark of key {cause.key} at {instance} is {value} since {since}."


def _last_watermark(run: DataflowRun, cause: Cause, instance: str) -> str:
    """What the watermark was when the job ended, and since when."""
    if cause.watermark is None:
        return f"No watermark of key {cause.key} had come at {instance}."
    value, since = run.time(cause.watermark), clock_words(cause.since_ms)
    return f"The last watermark of key {cause.key} at {instance} was {value}, from {since} on."


def _window(run: DataflowRun, cause: Cause) -> str:
    """The window that waits for it, or nothing."""
    window = cause.window
    if window is None:
        return ""
    return (
        f"The window from {run.time(window.start)} to {run.time(window.end)} with {counted(window.rows, 'row')} waits "
        f"for {run.time(cause.needed)}."
    )


def held_sentences(run: DataflowRun, holders: Sequence[Holder], now: Sequence[Holder], needed: int | None) -> str:
    """Who holds the watermark where it is, `now`, and who else is below the one that is needed; empty if nobody is."""
    places = {holder.place for holder in now}
    first = [holder for holder in holders if holder.place in places] or holders
    below = [holder for holder in holders if holder not in first and needed is not None and holder.is_below(needed)]
    others = [f"{holder.name} ({_mark(run, holder)})" for holder in below]
    also = f"Also below {run.time(needed)}: {listed(others, most=_HOLDERS_NAMED + 1)}." if others else ""
    return joined(held_sentence(run, first), also)


def _mark(run: DataflowRun, holder: Holder) -> str:
    """The watermark of a holder as the vertex has it that takes it."""
    mark = holder.marks[-1]
    return "no watermark yet" if mark == START else run.time(mark)


def held_sentence(run: DataflowRun, holders: Sequence[Holder]) -> str:
    """Who holds it, and why; empty if nobody does."""
    if not holders:
        return ""
    # What waits for the same instance to go on is named once.
    stalled = {holder.stall.party: holder for holder in holders[::-1] if holder.stall is not None}
    texts = [f"because {_stall_clause(run, holder)}" for holder in list(stalled.values())[::-1]]
    for holder in holders:
        if holder.stall is None:
            through = f" (through {listed(holder.through)})" if holder.through else ""
            texts.append(f"by {holder.name}{through}: {_why(run, holder)}{_fault(holder)}")
    left = len(texts) - _HOLDERS_NAMED
    texts = texts[:_HOLDERS_NAMED]
    more = f"; and by {grouped(left)} more" if left > 0 else ""
    return f"It is held {'; and '.join(texts)}{more}."


def _why(run: DataflowRun, holder: Holder) -> str:
    mark = "it has no watermark yet" if holder.mark is None else f"its watermark is {run.time(holder.mark)}"
    at_mark = idle_at = "without a watermark"
    if holder.mark is not None:
        at_mark, idle_at = f"at {run.time(holder.mark)}", f"at watermark {run.time(holder.mark)}"
    if holder.idle_since_ms is not None:
        idle_at = f"since {clock_words(holder.idle_since_ms)} {idle_at}"
    behind = f", {rounded(holder.behind_by)} behind the next" if holder.behind_by else ""
    since = clock_words(holder.last_ms)
    kind = run.vertices[holder.vertex]["kind"]
    inside = "the watermark has come and is still inside"
    if holder.last_ms is not None:
        inside = f"the watermark has come, but a call that began at {since} is in flight"
    elif kind == "source":
        inside = "its partitions are there, but it has not sent the watermark yet"
    elif kind == OWN_BY_INPUT:
        inside = "its inputs are there, but its function has not sent the watermark yet"
    return {
        "stalled": "" if holder.last_ms is None else f"what it has to take waits since {since}",
        "slow": f"{mark}{behind}, {_last(holder)}",
        "throttled": f"{mark}, but the source lets watermarks through by frames, and {run.time(holder.next_mark)} is "
        "the next",
        "silent": f"{_last(holder)}, and it sends neither watermarks nor that it is idle",
        "idle": f"it is idle {idle_at}, {_last(holder)}",
        "ended": f"it has ended {at_mark}, and nothing more comes",
        "no key": f"it brings no watermarks of key {holder.key}, so the key is stuck while this input is neither idle "
        "nor done",
        "batch": "it is a batch, which the join reads to its end first, and it has not ended",
        "on queue": f"what would release it waits since {since} on its queue to {holder.queue_to}, {_before(holder)}",
        "behind rows": f"the watermark came at {since} and waits for rows that were taken before it",
        "no room": f"the watermark has come, but its queue to {holder.queue_to} is full with "
        f"{counted(holder.items_before or 0, 'item')} since {since}",
        "inside": inside,
        "no bound": f"nothing of the other side bounds key {holder.key}, so the join never lets it through",
        "no watermark": "it sends no watermarks at all, its frame being 0",
        "clock": f"its watermark follows the clock and is {run.time(holder.mark)}",
    }[holder.kind]


def _stall_clause(run: DataflowRun, holder: Holder) -> str:
    """Which instance stands still and, as far as that is known, what waits for it."""
    assert holder.stall is not None
    clause, why = f"{holder.stall.party} stands still {_during(holder.stall)}", _why(run, holder)
    if holder.kind != "stalled":
        return f"{clause} ({holder.name}: {why})"
    return f"{clause}, and {why}" if why else clause


def _during(fault: FaultInForce) -> str:
    """From when to when a fault happens."""
    return f"from {moment(fault.since_ms)} {'on' if fault.until_ms is None else f'to {moment(fault.until_ms)}'}"


def _fault(holder: Holder) -> str:
    """The fault that makes it hold, and is no stall, as a clause; empty without one."""
    fault = holder.fault
    if fault is None or holder.stall is not None:
        return ""
    during = _during(fault)
    calls = "calls" if fault.party == holder.name else f"calls of {fault.party}"
    return {
        "slowed": f"; {calls} that begin {during} take {moment(fault.by_ms)} longer",
        "silenced": f"; rows that would arrive {during} never do",
        "delayed": f"; rows that would arrive {during} come {moment(fault.by_ms)} later",
        "disordered": f"; rows that would arrive {during} come up to {moment(fault.by_ms)} later",
        "swallowed": f"; its filter rejects every row {during}",
    }[fault.kind]


def _before(holder: Holder) -> str:
    """Where on its queue it is."""
    return f"behind {counted(holder.items_before, 'item')}" if holder.items_before else "the next to be taken"


def _last(holder: Holder) -> str:
    """When a row last came, and how many came since that the filter of the source rejected."""
    rows = counted(holder.rejected, "row")
    if holder.last_ms is None:
        return f"its filter has rejected all {rows}" if holder.rejected else "no row has come"
    rejected = f", {rows} since were rejected by its filter" if holder.rejected else ""
    return f"its last row came at {clock_words(holder.last_ms)}{rejected}"


def release_sentence(run: DataflowRun, holders: Sequence[Holder], at_ms: int | None) -> str:
    """What would release it; empty if nothing can be said, as where an instance stands still for good."""
    stalls = {holder.stall.party: holder.stall for holder in holders if holder.stall is not None}
    untils_ms = [stall.until_ms for stall in stalls.values() if stall.until_ms is not None]
    if len(untils_ms) < len(stalls):
        return ""
    later = ""
    if stalls:
        names, goes = listed(list(stalls), most=_HOLDERS_NAMED, rest="others"), "goes" if len(stalls) == 1 else "go"
        later = f"{names} {goes} on"
        holders = [holder for holder in holders if holder.stall is None]
        if not holders:
            return f"It is released when {later}, at {moment(max(untils_ms))} at the earliest."
        later = f", but not before {later} at {moment(max(untils_ms))}"
    idle = ""
    if at_ms is not None:
        becomes = "it is" if len(holders) == 1 else "the last of them is"
        by_clock = all(holder.kind == "clock" for holder in holders)
        idle = f"by the clock at {clock_words(at_ms)}" if by_clock else f"at {clock_words(at_ms)} when {becomes} idle"
    ways = [way for way in (_taken(holders), _events(run, holders), idle, _end(holders)) if way]
    return f"It is released {', or '.join(ways)}{later}." if ways else ""


def _taken(holders: Sequence[Holder]) -> str:
    """Who has to take what lies on a queue, where that is all that is missing."""
    if not holders or any(holder.kind not in {"on queue", "no room"} for holder in holders):
        return ""
    takers = list(dict.fromkeys(holder.queue_to or "" for holder in holders))
    verb = "takes" if len(takers) == 1 else "take"
    return f"when {listed(takers, most=_HOLDERS_NAMED, rest='others')} {verb} what is on the queue"


def _events(run: DataflowRun, holders: Sequence[Holder]) -> str:
    """Rows that would do it, one for each holder.

    All of them are needed, unless they are merely idle inputs that are coalesced: a join needs both of its sides.
    """
    needed = [holder for holder in holders if holder.kind in {"slow", "throttled", "idle", "silent"}]
    if not needed or len(needed) < sum(holder.kind not in IN_FLIGHT for holder in holders):
        return ""
    any_helps = all(holder.kind in {"idle", "silent"} and holder.end_helps for holder in needed)
    able = [holder for holder in needed if holder.fault is None or not holder.fault.stops_rows]
    if not able or (len(able) < len(needed) and not any_helps):
        return ""
    names: dict[str, list[str]] = {}
    for holder in able:
        column = run.vertices[holder.vertex]["keys"].get(holder.key)
        row = "a row"
        if holder.needs_time is not None and column is not None:
            row = f"a row with {column} ≥ {run.time(holder.needs_time)}"
        elif holder.row_after_ms is not None:
            row = f"a row after {moment(holder.row_after_ms)}"
        names.setdefault(row, []).append(holder.name)
    texts = []
    for row, senders in list(names.items())[:_HOLDERS_NAMED]:
        more = [f"{grouped(len(senders) - _HOLDERS_NAMED)} more"] if len(senders) > _HOLDERS_NAMED else []
        among = f"{'any' if any_helps else 'each'} of " if len(senders) > 1 else ""
        texts.append(f"{row} in {among}{listed([*senders[:_HOLDERS_NAMED], *more])}")
    return "by " + (" or " if any_helps else " and ").join(texts)


def _end(holders: Sequence[Holder]) -> str:
    """The inputs whose end would do it."""
    kinds = {holder.kind for holder in holders}
    if kinds & {"no bound", "ended"}:
        return ""
    if "batch" in kinds:
        return f"by the end of {listed(list(dict.fromkeys(h.name for h in holders if h.kind == 'batch')))}"
    if "no key" in kinds:
        stuck = dict.fromkeys(holder.name for holder in holders if holder.kind == "no key")
        return f"by {listed(list(stuck))} being idle or ending"
    waited = {"slow", "throttled", "idle", "clock", "silent"}
    sources = dict.fromkeys(holder.vertex for holder in holders if holder.kind in waited)
    return f"by the end of {listed(list(sources))}" if sources and all(holder.end_helps for holder in holders) else ""


def coalescing_sentence(run: DataflowRun, *, held: str, last: int | None, late: int) -> str:
    """What a chart of coalescing shows: who held the watermark longest, the last watermark, and dropped rows."""
    ended = "There never was a watermark." if last is None else f"The last watermark was {run.time(last)}."
    dropped = f"Dropped: {counted(late, 'row')}." if late else ""
    return joined(held, ended, dropped)


def row_words(values: Mapping[str, Any]) -> str:
    """A row as one reads it: "id 1, t 10"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
