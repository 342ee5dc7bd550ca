"""One share of late records for all writers, spent where it shortens the lag most.

Each writer has a bound of its own, and the watermark is the least over writers. A punctual writer needs a short bound,
an erratic one a long one; one share p for each of them is not the best. The budgets p_w with sum n_w p_w = p N, which
minimise the sum of n_w B_w, are those at which one more late record of any writer would shorten that sum equally. That
sum is not the lag of the minimum, which the writer with the longest bound decides: one bound for all can lag less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge

from wmlab.strategies.model.percentiles import Seen
from wmlab.strategies.model.strategy import UNKNOWN, Input, Positive, Record, Share, Strategy, minus
from wmlab.strategies.model.writers import Minimum


def budgets(largest: Mapping[str, Sequence[int]], counts: Mapping[str, int], late: int) -> dict[str, int]:
    """The bound B_w of each writer, so that at most `late` latenesses of all are above their bounds.

    `largest` has the largest latenesses of each writer in descending order, late + 1 of them or all, `counts` how many
    it has. Of all bounds that leave out as many, none has a smaller sum of counts times bounds; up to `late` some may
    be left over, since the steps of a writer that save equally are taken together (its lower convex hull).
    """
    taken = dict.fromkeys(largest, 0)
    for _, writer, last, records in merge(*(_sides(name, own, counts[name]) for name, own in largest.items())):
        late -= records
        if late < 0:
            break
        taken[writer] = last
    return {writer: values[taken[writer]] for writer, values in largest.items()}


def _sides(writer: str, values: Sequence[int], count: int) -> Iterator[tuple[float, str, int, int]]:
    """The sides of the lower convex hull of (place, value) for values that descend, from the steepest on, made as far
    as asked for: by how much a record of it changes the sum, the writer, the last place and the number of places."""
    corner, end = 0, len(values) - 1
    while corner < end:
        top, fall, length = values[corner], 0, 1
        place, reach = corner, end
        while place < reach:
            place += 1
            if (top - values[place]) * length >= fall * (place - corner):
                fall, length = top - values[place], place - corner
                if fall:
                    reach = min(end, corner + (top - values[end]) * length // fall)  # Farther ones are flatter.
        corner += length
        yield -count * fall / length, writer, corner, length


class Plan:
    """The records of each writer and of all, the bounds (none before the first plan), and the least watermark."""

    __slots__ = ("bounds", "count", "minimum", "of")

    def __init__(self, minimum: Minimum, size: int) -> None:
        self.of = defaultdict[str, Seen](lambda: Seen(size))
        self.bounds: dict[str, int] = {}
        self.minimum = minimum
        self.count = 0


@dataclass(frozen=True, slots=True)
class BudgetedMinimum(Strategy[Plan]):
    """X = min over the writers w that are not idle of m_w - B_w, with bounds of `budgets` for a late share of `share`.

    The bounds are made anew after each `every` records, from the last `size` latenesses of each writer, counted against
    its own maximum; before that there is no watermark. A writer that is not in the plan has the largest bound of it.
    A writer is idle after `idle_ms` of arrival time (None: never). Native is X.
    """

    share: Share
    size: Positive = 2_000
    every: Positive = 1_000
    idle_ms: Positive | None = None

    def start(self) -> Plan:
        return Plan(Minimum(self.idle_ms), self.size)

    def step(self, state: Plan, given: Input) -> tuple[Plan, int, int]:
        if not isinstance(given, Record):
            x = state.minimum.tell(given)
            return state, x, x
        writer, own = given.writer, state.of[given.writer]
        own.add(given.event_time)
        state.count += 1
        if state.count % self.every == 0:
            counts = {name: len(seen.window) for name, seen in state.of.items()}
            late = int(self.share * sum(counts.values()) + 1e-9)
            largest = {name: seen.window.largest(late + 1) for name, seen in state.of.items()}
            state.bounds = budgets(largest, counts, late)
        value = UNKNOWN
        if state.bounds:
            bound = state.bounds.get(writer)
            value = minus(own.top, max(state.bounds.values()) if bound is None else bound)
        x = state.minimum.put(writer, value, given.arrival_ms)
        return state, x, x
