"""How much a vertex holds, and whether that stays bounded, as far as the run shows it.

    yes          it has stopped growing: no new peak came for more than twice the longest time between two
    no           it has reached its limit
    not known    it grew until lately

Nothing is extrapolated. Source: "Stream-to-stream join", memory management.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Final

from wmlab.core.answers import Answer
from wmlab.core.words import grouped, moment
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, instance_name

_LONGER: Final = 2
"""So many times the longest time between two new peaks without one: then the state has stopped growing."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldState(Answer):
    """What an instance of a vertex holds at `at_ms`, in rows or accumulators, after `seen_ms` of the run.

    `peak` is the most that it held, since `peak_ms`; `shrank_ms` when it last shrank (None: never), `limit` what it may
    hold. With `instance` None it is about all `parallelism` instances together, each of which has that limit.
    `bounded` is the verdict, see the module; None is not known.
    """

    vertex: str
    instance: int | None
    parallelism: int = 1
    at_ms: int
    seen_ms: int
    size: int
    peak: int
    peak_ms: int
    shrank_ms: int | None = None
    limit: int | None = None
    bounded: bool | None = None

    @property
    def is_growing(self) -> bool:
        """Whether it holds as much as ever, and has not shrunk since it first did."""
        return self.size == self.peak and (self.shrank_ms is None or self.shrank_ms < self.peak_ms)

    @property
    def name(self) -> str:
        """What holds it, in words."""
        return instance_name(self.vertex, self.instance, self.parallelism)

    @property
    def sentence(self) -> str:
        """The verdict with its evidence, in one sentence."""
        holds = f"{self.name} holds {grouped(self.size)}"
        if self.bounded is False:
            return f"{self.name} has reached its limit of {grouped(self.limit or 0)}."
        if self.bounded:
            return f"{holds}; it stopped growing at {grouped(self.peak)}, at {moment(self.peak_ms)}."
        shrank = "has never shrunk" if self.shrank_ms is None else f"last shrank at {moment(self.shrank_ms)}"
        limit = f"no limit was seen in {moment(self.seen_ms)}"
        if self.limit is not None:
            each = (
                f"each of its {self.parallelism} instances" if self.instance is None and self.parallelism > 1 else "it"
            )
            limit = f"{each} may hold {grouped(self.limit)}"
        most = "" if self.size == self.peak else f", at most {grouped(self.peak)} so far"
        return f"{holds}{most}; it {shrank}, and {limit}."


def held_state(
    run: DataflowRun, execution: RecordedRow, vertex: str, instance: int | None, at_ms: int
) -> HeldState | None:
    """What one instance, or all together, held at a moment of an execution; None if nothing was held by then."""
    copies = run.vertex(vertex)["parallelism"]
    begun_ms = execution["started_ms"]
    points = _sizes(run, execution, vertex, range(copies) if instance is None else (instance,), at_ms)
    if not points:
        return None
    falls = [at for (_, before), (at, after) in pairwise([(begun_ms, 0), *points]) if after < before]
    peak = max(size for _, size in points)
    peak_ms = next(at for at, size in points if size == peak)
    result = run.rules.results.get(vertex)
    limit = None if result is None else result.limit
    peaks_ms = [begun_ms, *_peaks_ms(points)]
    longest_ms = max(later - earlier for earlier, later in pairwise(peaks_ms))
    bounded = True if at_ms - peak_ms > _LONGER * longest_ms else None
    if limit is not None and _is_full(run, execution, vertex, limit, points, copies, instance, at_ms):
        bounded = False
    return HeldState(
        vertex=vertex,
        instance=instance,
        parallelism=copies,
        at_ms=at_ms,
        seen_ms=at_ms - begun_ms,
        size=points[-1][1],
        peak=peak,
        peak_ms=peak_ms,
        shrank_ms=falls[-1] if falls else None,
        limit=limit,
        bounded=bounded,
    )


def _peaks_ms(points: list[tuple[int, int]]) -> list[int]:
    """When each new peak came; at least the first size is one."""
    moments, peak = list[int](), -1
    for at_ms, size in points:
        if size > peak:
            moments.append(at_ms)
            peak = size
    return moments


def _is_full(
    run: DataflowRun,
    execution: RecordedRow,
    vertex: str,
    limit: int,
    points: list[tuple[int, int]],
    copies: int,
    instance: int | None,
    at_ms: int,
) -> bool:
    """Whether an instance had reached its limit."""
    end = run.end_at(at_ms)
    # A job fails before a window holds as much as its limit.
    least = limit - 1 if end is not None and end.is_failure else limit
    if instance is not None or copies == 1:
        return max(size for _, size in points) >= least
    each = (_sizes(run, execution, vertex, (number,), at_ms) for number in range(copies))
    return any(size >= least for of_one in each for _, size in of_one)


def _sizes(
    run: DataflowRun, execution: RecordedRow, vertex: str, instances: Iterable[int], at_ms: int
) -> list[tuple[int, int]]:
    """When what these instances hold together changed, and its size from then on."""
    index = run.indexed("state")
    rows = [
        row
        for number in instances
        for row in index.get((execution["execution"], vertex, number), ())
        if row["buffer"] == "all" and row["at_ms"] <= at_ms
    ]
    sizes: dict[int, int] = {}
    totals: list[tuple[int, int]] = []
    for row in sorted(rows, key=itemgetter("at_ms")):
        sizes[row["instance"]] = row["size"]
        totals.append((row["at_ms"], sum(sizes.values())))
    return totals
