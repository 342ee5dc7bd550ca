"""The sentences of an explanation: who holds a watermark, and what would release it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wmlab.core.words import counted, grouped, listed, moment, span
from wmlab.dataflow.answers.explanation import FlowHolder
from wmlab.dataflow.answers.run import Run

_MOST: Final = 3


def held_by(run: Run, holders: Sequence[FlowHolder]) -> str:
    """Who holds it, in one phrase; empty without holders."""
    if not holders:
        return ""
    texts = []
    for holder in holders[:_MOST]:
        through = f" (through {listed(holder.through)})" if holder.through else ""
        texts.append(f"{holder.name}{through}: {_why(run, holder)}")
    left = len(holders) - _MOST
    return "held by " + "; and by ".join(texts) + (f"; and by {grouped(left)} more" if left > 0 else "")


def released_by(run: Run, holders: Sequence[FlowHolder], release_ms: int | None) -> str:
    """What would release it, in one phrase; empty if nothing can be said."""
    ways = [way for way in (_events(run, holders), _left_out(holders, release_ms), _end(holders)) if way]
    return f"released {', or '.join(ways)}" if ways else ""


def release_ms(holders: Sequence[FlowHolder], at_ms: int) -> int | None:
    """When it is released if nothing else happens: when the last holder is left out; None if one never is."""
    known = [holder.idle_at_ms for holder in holders if holder.idle_at_ms is not None]
    return max(max(known), at_ms) if known and len(known) == len(holders) else None


def _why(run: Run, holder: FlowHolder) -> str:
    if holder.kind == "inside":
        return _inside(run, holder)
    mark = "it has no watermark yet" if holder.mark is None else f"its watermark is {moment(holder.mark)}"
    idle_at = "without a watermark" if holder.mark is None else f"at watermark {moment(holder.mark)}"
    ended_at = "without a watermark" if holder.mark is None else f"at {moment(holder.mark)}"
    behind = f", {span(holder.behind_by)} behind the next" if holder.behind_by else ""
    return {
        "slow": f"{mark}{behind}, {_last(holder)}",
        "mute": f"{_last(holder)}, and it sends neither watermarks nor that it is idle",
        "idle": f"it is idle {idle_at}, {_last(holder)}",
        "ended": f"it has ended {ended_at}, and nothing more comes",
        "no key": f"it brings no watermarks of key {holder.key}, so the key is stuck while this input is neither idle "
        "nor done",
        "on queue": f"what would release it left at {moment(holder.last_ms)} and waits on a queue to be taken",
        "no bound": f"nothing of the other side bounds key {holder.key}, so the join never lets it through",
        "no watermark": "it sends no watermarks at all, its frame being 0",
        "clock": f"its watermark follows the clock and is {moment(holder.mark)}",
    }[holder.kind]


def _inside(run: Run, holder: FlowHolder) -> str:
    if holder.last_ms is not None:
        return f"the watermark has come, but a call that began at {moment(holder.last_ms)} is in flight"
    if run.vertices[holder.vertex]["kind"] == "source":
        return "its partitions are there, but it has not sent the watermark yet"
    return "the watermark has come and is still inside"


def _last(holder: FlowHolder) -> str:
    """When a row last came, and how many came since that the filter of the source rejected."""
    if holder.last_ms is None:
        return (
            f"its filter has rejected all {counted(holder.rejected, 'row')}" if holder.rejected else "no row has come"
        )
    rejected = f", {counted(holder.rejected, 'row')} since were rejected by its filter" if holder.rejected else ""
    return f"its last row came at {moment(holder.last_ms)}{rejected}"


def _events(run: Run, holders: Sequence[FlowHolder]) -> str:
    """Rows that would do it, one for each holder.

    All of them are needed, unless they are merely idle inputs of one merge: a join needs both of its sides.
    """
    needed = [holder for holder in holders if holder.kind in {"slow", "idle", "mute"}]
    if not needed or len(needed) < sum(holder.kind not in {"on queue", "inside"} for holder in holders):
        return ""
    names: dict[str, list[str]] = {}
    for holder in needed:
        names.setdefault(_row(run, holder), []).append(holder.name)
    idle = all(holder.kind != "slow" and holder.end_helps for holder in needed)
    texts = [f"{row} in {_among(those, idle)}" for row, those in list(names.items())[:_MOST]]
    return "by " + (" or " if idle else " and ").join(texts)


def _among(names: Sequence[str], idle: bool) -> str:
    if len(names) == 1:
        return names[0]
    known = list(names[:_MOST])
    more = len(names) - len(known)
    return f"{'any' if idle else 'each'} of {listed([*known, *([f'{grouped(more)} more'] if more else [])])}"


def _row(run: Run, holder: FlowHolder) -> str:
    column = run.vertices[holder.vertex]["keys"].get(holder.key)
    if holder.needs_time is None or column is None:
        return "a row"
    return f"a row with {column} ≥ {moment(holder.needs_time)}"


def _left_out(holders: Sequence[FlowHolder], at_ms: int | None) -> str:
    if at_ms is None:
        return ""
    if all(holder.kind == "clock" for holder in holders):
        return f"by the clock at {moment(at_ms)}"
    who = "it is" if len(holders) == 1 else "the last of them is"
    return f"at {moment(at_ms)} when {who} left out as idle"


def _end(holders: Sequence[FlowHolder]) -> str:
    if any(holder.kind in {"no bound", "ended"} for holder in holders):
        return ""
    if any(holder.kind == "no key" for holder in holders):
        names = list(dict.fromkeys(holder.name for holder in holders if holder.kind == "no key"))
        return f"by {listed(names)} being idle or ending"
    if not all(holder.end_helps for holder in holders):
        return ""
    names = list(dict.fromkeys(holder.vertex for holder in holders if holder.kind in {"slow", "idle", "clock", "mute"}))
    return f"by the end of {listed(names)}" if names else ""
