"""How much a vertex holds, and whether that stays bounded, as far as the run shows it.

    yes          it has stopped growing: for twice the longest time between two peaks, rows came and no new peak
    no           it has reached its limit
    not known    it grew until lately, or for as long as rows came

Nothing is extrapolated. Source: "Stream-to-stream join", memory management.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Final

from wmlab.core.answers import Answer
from wmlab.core.words import clock_words, counted, grouped, rounded
from wmlab.dataflow.answers.run import DataflowRun, RecordedRow, instance_name

_NOUNS: Final = {
    "window": "accumulator",
    "session window": "open session",
    "stateful map": "group",
    "async map": "call",
}
"""What one of the things is called that a vertex of a kind holds; all others hold rows."""
_LONGER: Final = 2
"""So many times the longest time between two new peaks without one: then the state has stopped growing."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldState(Answer):
    """What an instance of a vertex holds at `at_ms`, after `seen_ms` of the run; `noun` is what one of it is called.

    `peak` is the most that it held, since `peak_ms`; `shrank_ms` when it last shrank (None: never), `limit` what it may
    hold, and `grew_until_ms` when the rows ended with which it grew (None: they go on). With `instance` None it is
    about all `parallelism` instances together, each of which has that limit. `bounded` is the verdict, see the module;
    None is not known.
    """

    vertex: str
    instance: int | None
    parallelism: int = 1
    noun: str = "row"
    at_ms: int
    seen_ms: int
    size: int
    peak: int
    peak_ms: int
    shrank_ms: int | None = None
    limit: int | None = None
    grew_until_ms: int | None = None
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
        holds = f"{self.name} holds {counted(self.size, self.noun)}"
        if self.bounded is False:
            return f"{self.name} has reached its limit of {counted(self.limit or 0, self.noun)}."
        if self.bounded:
            return f"{holds}; it stopped growing at {grouped(self.peak)}, at {clock_words(self.peak_ms)}."
        if self.grew_until_ms is not None and self.is_growing:
            return f"{holds}; it grew for as long as rows came, until {clock_words(self.grew_until_ms)}."
        shrank = "has never shrunk" if self.shrank_ms is None else f"last shrank at {clock_words(self.shrank_ms)}"
        limit = f"no limit was seen in {rounded(self.seen_ms)}"
        if self.limit is not None:
            each = (
                f"each of its {self.parallelism} instances" if self.instance is None and self.parallelism > 1 else "it"
            )
            limit = f"{each} may hold {counted(self.limit, self.noun)}"
        most = "" if self.size == self.peak else f", at most {grouped(self.peak)} so far"
        return f"{holds}{most}; it {shrank}, and {limit}."


def held_state(
    run: DataflowRun, execution: RecordedRow, vertex: str, instance: int | None, at_ms: int
) -> HeldState | None:
    """What one instance, or all together, held at a moment of an execution; None if nothing was held by then."""
    copies = run.vertex(vertex)["parallelism"]
    begun_ms = execution["started_ms"]
    instances = range(copies) if instance is None else (instance,)
    points = held_sizes(run, execution, vertex, instances, at_ms)
    if not points:
        return None
    falls = [at for (_, before), (at, after) in pairwise([(begun_ms, 0), *points]) if after < before]
    most_before = accumulate((size for _, size in points), max, initial=-1)
    peaks = [(begun_ms, 0), *(point for point, most in zip(points, most_before, strict=False) if point[1] > most)]
    peak_ms, peak = peaks[-1]
    longest_ms = max(later - earlier for (earlier, _), (later, _) in pairwise(peaks))
    came_ms = _last_row_ms(run, execution, vertex, instances, at_ms)
    bounded = True if came_ms is not None and came_ms - peak_ms > _LONGER * longest_ms else None
    is_over = bounded is None and came_ms is not None and at_ms - came_ms > _LONGER * longest_ms
    result, end = run.rules.results.get(vertex), run.end_at(at_ms)
    limit = None if result is None else result.limit
    if limit is not None:
        # A job fails before a window holds as much as its limit.
        least = limit - 1 if end is not None and end.is_failure else limit
        each = (held_sizes(run, execution, vertex, (number,), at_ms) for number in instances)
        if any(size >= least for of_one in each for _, size in of_one):
            bounded = False
    return HeldState(
        vertex=vertex,
        instance=instance,
        parallelism=copies,
        noun=_NOUNS.get(run.vertex(vertex)["kind"], "row"),
        at_ms=at_ms,
        seen_ms=at_ms - begun_ms,
        size=points[-1][1],
        peak=peak,
        peak_ms=peak_ms,
        shrank_ms=falls[-1] if falls else None,
        limit=limit,
        grew_until_ms=came_ms if is_over else None,
        bounded=bounded,
    )


def _last_row_ms(
    run: DataflowRun, execution: RecordedRow, vertex: str, instances: Iterable[int], at_ms: int
) -> int | None:
    """When these instances last took a row; None: they have taken none."""
    index = run.indexed("items")
    queues = [queue["queue"] for number in instances for queue in run.into(vertex, number)]
    rows = (row for queue in queues for row in index.get((execution["execution"], queue), ()) if row["kind"] == "event")
    return max(
        (row["taken_ms"] for row in rows if row["taken_ms"] is not None and row["taken_ms"] <= at_ms), default=None
    )


def held_sizes(
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
