"""K7: the rows of a recorded dataflow that came into its instances and left them, and which of them were on time.

When an instance forwarded a watermark is not recorded to the step, only when it coalesced it. So a row counts as on
time on input only if no watermark that was coalesced before it was above its time.

Source: "Keyed watermark support", WM rules (No overtaking); wmlab's own reading of a recording.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

from wmlab.core.invariants import Evidence, Finding, TableRow, TableRows, invariant, name_text
from wmlab.dataflow.checks.channels import Channels, time_key
from wmlab.dataflow.sim.layout import OWN_BY_INPUT

STATELESS: Final = ("map", "filter", "flat map", "merge", "late drop", "hash join")
"""Kinds of vertices that pass rows on at once."""
_KEEPS_THE_TIME: Final = (*STATELESS, "async map", "custom", OWN_BY_INPUT, "stateful map")
"""Kinds of vertices whose rows keep the time that they came with."""


class HighestSoFar:
    """The highest of some watermarks so far, in an order."""

    def __init__(self, watermarks: Iterable[tuple[int, int]]) -> None:
        """Of (position in the order, watermark)."""
        ordered = sorted(watermarks)
        self._order = [position for position, _ in ordered]
        self._highest = [*accumulate((value for _, value in ordered), max)]

    def before(self, position: int, *, with_equal: bool = False) -> int | None:
        """The highest one before a position in the order, or up to it; None without any."""
        count = (bisect_right if with_equal else bisect_left)(self._order, position)
        return self._highest[count - 1] if count else None


NONE_SO_FAR: Final = HighestSoFar(())


class CameIn(NamedTuple):
    """A row that came into an instance: when it was taken (ms), and the watermark that had been coalesced before it.

    That is the one of the time's key, over all inputs or over the input that it came on, as its vertex gets them; None:
    none was.
    """

    taken_ms: int
    coalesced: int | None
    row: str


class WentOut(NamedTuple):
    """A row that left an instance: an item, and the last watermark of the time's key before it on its queue."""

    item: TableRow
    watermark: int | None


@dataclass(slots=True)
class OfOneTime:
    """The rows of one time that came into an instance in an execution, and those that left it."""

    came: list[CameIn] = field(default_factory=list)
    left: list[WentOut] = field(default_factory=list)


TimedRows = dict[tuple[int, str, int, int, int], OfOneTime]
"""By execution, vertex, instance, key and time."""


def timed_rows(
    items: TableRows, queues: TableRows, vertices: TableRows, steps: TableRows, channels: Channels
) -> TimedRows:
    """The rows with a time that came into the instances of vertices that keep it, and those that left them."""
    kinds = {row["vertex"]: row["kind"] for row in vertices if row["kind"] in _KEEPS_THE_TIME}
    keys = {queue["queue"]: time_key(queue) for queue in queues}
    by_taken: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for step in steps:
        if step["level"] == ("edge" if kinds.get(step["vertex"]) == OWN_BY_INPUT else "global"):
            for key, value in step["emitted"].items():
                coalescer = step["execution"], step["vertex"], step["instance"], step["edge"], key
                by_taken.setdefault(coalescer, []).append((step["taken"], value))
    on_queue: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for item in items:
        if item["kind"] == "watermark" and item["key"] == keys[item["queue"]]:
            on_queue.setdefault((item["execution"], item["queue"]), []).append((item["sequence"], item["value"]))
    coalesced, before = ({where: HighestSoFar(w) for where, w in ways.items()} for ways in (by_taken, on_queue))
    timed: TimedRows = {}
    for item in items:
        key = keys[item["queue"]]
        if item["kind"] != "event" or item["time"] is None or key is None:
            continue
        vertex, instance = channels.target[item["queue"]]
        if item["taken"] is not None and vertex in kinds:
            edge = channels.edge[item["queue"]] if kinds[vertex] == OWN_BY_INPUT else None
            coalescer = item["execution"], vertex, instance, edge, key
            watermark = coalesced.get(coalescer, NONE_SO_FAR).before(item["taken"], with_equal=True)
            row = CameIn(item["taken_ms"], watermark, item["row"])
            timed.setdefault((item["execution"], vertex, instance, key, item["time"]), OfOneTime()).came.append(row)
        vertex, instance = channels.source[item["queue"]]
        if vertex in kinds:
            out = WentOut(item, before.get((item["execution"], item["queue"]), NONE_SO_FAR).before(item["sequence"]))
            timed.setdefault((item["execution"], vertex, instance, key, item["time"]), OfOneTime()).left.append(out)
    return timed


@invariant(
    "a row that is on time on input is on time on output",
    title="rows stay on time",
)
def on_time_stays_on_time(timed_rows: TimedRows) -> Iterator[Finding]:
    """K7: a row that is on time on input is on time on output; one finding per row that left.

    Rows are known by their time. Decided are those with a time at which every row came in on time.
    """
    for (_, vertex, instance, _, time), rows in timed_rows.items():
        if rows.came and all(row.coalesced is None or time >= row.coalesced for row in rows.came):
            first = min(rows.came, key=lambda row: row.taken_ms)
            for out in rows.left:
                late = out.watermark is not None and time < out.watermark
                what = f"a row at {time} left {name_text(vertex)} late, though it had come on time"
                yield judged(out, first, first.coalesced, what if late else None, vertex=vertex, instance=instance)


def judged(out: WentOut, came: CameIn, coalesced: int | None, what: str | None, **where: object) -> Finding:
    """A finding about a row that left, next to the first one that came with its time."""
    if what is None:
        return Finding(True, out.item["put_ms"])
    taken = {"taken_ms": came.taken_ms, "time": out.item["time"], "coalesced": coalesced, "row": came.row}
    columns = ("queue", "sequence", "put_ms", "time", "row")
    proof = [
        Evidence.of("items", taken, *taken, **where),
        Evidence.of("items", out.item, *columns, watermark=out.watermark),
    ]
    return Finding(False, out.item["put_ms"], what, proof)
