"""Who held the watermark at a vertex of a dataflow over a run, for how long, and what that cost.

At every moment the holders are those that keep the watermark where it is (`Cause.holders_now`). What one of them costs
is by how much further the watermark would be without it:

    an input that is behind another   so far as the next input is ahead of it
    one that a fault makes hold       where the watermark is in a run without that fault
    anything else that waits          where it is in a run in which nothing waits: every queue has room, no vertex
                                      stands still, and calls answer at once

The other runs are those of the same dataflow and seed. A cost is not known while there is no watermark, or where a
single input is slow without a fault.

Source: "Keyed watermark support", Coalescing of WMs with different keys.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from wmlab.core.answers import Against, Straggler, Stragglers, Stretch, stragglers_from
from wmlab.core.words import joined, listed, rounded
from wmlab.dataflow.answers.cause import Cause, Holder
from wmlab.dataflow.answers.job import FaultInForce
from wmlab.dataflow.answers.run import DataflowRun
from wmlab.dataflow.answers.sentences import failure_sentence, past_fault

_NEXT_NAMED: Final = 2
_LEAST_MS: Final = 1
"""A lower cost is none: the turns of two runs begin at other moments."""
MEANINGS: Final[Mapping[str, str]] = {
    "stalled": "the instance stood still: it took nothing and, as a source, read nothing",
    "slow": "no row of the partition had come that far",
    "throttled": "the partition had come that far, but its source lets watermarks through by frames only",
    "clock": "the watermark of the partition follows the clock, which was not that far",
    "idle": "the partition was idle, and so was every other input",
    "silent": "the partition was idle, and its source had not sent that",
    "ended": "the input had ended",
    "no key": "the input brings no watermarks of the key, and was neither idle nor done",
    "no watermark": "the source sends no watermarks at all",
    "no bound": "nothing of the other side of the join bounds the key",
    "batch": "the join reads this side to its end first",
    "on queue": "a watermark of the vertex waited on a queue to be taken",
    "behind rows": "the instance had taken the watermark, and was not done with rows that it took before",
    "no room": "a queue out of the instance was full",
    "inside": "the instance had the watermark, and had not sent it: a call was in flight, or its function kept it",
}
"""What each cause means."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VertexStragglers(Stragglers):
    """The holders of the watermark at a vertex over a run, the most expensive first.

    `fault` says, as a clause that follows the name of the first of them, which fault made it hold; empty if none did.
    """

    fault: str = ""

    def _costliest(self) -> str:
        """Who cost most and, if it is another one, who held it for longest at an unknown cost."""
        over, bound = f"Over {rounded(self.run_ms)}", f"the {self.bound} in {self.stream}"
        if not self.stragglers:
            return f"{over} nothing held {bound}."
        priced = [entry for entry in self.stragglers if entry.cost_ms and entry.cost_ms >= _LEAST_MS]
        unpriced = [entry for entry in self.stragglers if entry.cost_ms is None]
        longest = max(unpriced, key=lambda entry: entry.held_ms, default=None)
        if not priced:
            first = longest or self.stragglers[0]
            return f"{over} {bound} was held longest by {self._who(first)}: for {rounded(first.held_ms)}."
        first, *rest = priced
        next_ones = [f"{entry.who} ({entry.why}, {self._ms(entry.cost_ms)})" for entry in rest[:_NEXT_NAMED]]
        most = (
            f"{over} {bound} was held back most by {self._who(first)}: for {rounded(first.held_ms)} in all, which cost "
            f"{self._ms(first.cost_ms)} of mean lag{f'; next {listed(next_ones)}' if next_ones else ''}."
        )
        if longest is None or longest.held_ms <= first.held_ms:
            return most
        why = "there was no watermark" if longest.against == "no bound" else "at an unknown cost"
        return joined(
            most, f"It was held longest by {longest.who} ({longest.why}): for {rounded(longest.held_ms)}, {why}."
        )

    def _who(self, entry: Straggler) -> str:
        has_fault = entry == self.stragglers[0] and self.fault
        return f"{entry.who}, {self.fault}" if has_fault else f"{entry.who} ({entry.why})"


@dataclass(frozen=True, slots=True)
class Span:
    """A cause that held from one moment to the next (clock, ms)."""

    from_ms: int
    to_ms: int
    cause: Cause


def vertex_stragglers(run: DataflowRun, spans: Sequence[Span], bound: str) -> VertexStragglers:
    """The holders of all spans of a run with what they cost; `bound` says of which watermark."""
    prices = _Prices(run)
    priced = [(stretch, holder) for span in spans for stretch, holder in prices.stretches(span)]
    begun, end_ms = run.clock_ms()
    answer = stragglers_from(
        [stretch for stretch, _ in priced],
        stream=run.stream,
        run_ms=end_ms - begun,
        bound=bound,
        meanings=MEANINGS,
        stall=failure_sentence(run.end),
        kind=VertexStragglers,
    )
    assert isinstance(answer, VertexStragglers)
    if not answer.stragglers:
        return answer
    first = answer.stragglers[0]
    if first.cost_ms is not None and first.cost_ms < _LEAST_MS:
        return answer
    mine = [(stretch, holder) for stretch, holder in priced if (stretch.who, stretch.why) == ((first.who,), first.why)]
    return replace(answer, fault=_fault_of(first, mine))


def _fault_of(entry: Straggler, stretches: Sequence[tuple[Stretch, Holder]]) -> str:
    """The fault that held for more than half of what an entry cost, or of its time if that is unknown; or nothing."""
    amounts: dict[FaultInForce | None, float] = {}
    for stretch, holder in stretches:
        amount = stretch.to_ms - stretch.from_ms if entry.cost_ms is None else stretch.area
        amounts[holder.fault] = amounts.get(holder.fault, 0) + amount
    fault = max(amounts, key=lambda fault: amounts[fault])
    return past_fault(fault, entry.who) if fault is not None and 2 * amounts[fault] > sum(amounts.values()) else ""


def _named(holder: Holder) -> tuple[str, str]:
    """Who holds, and why, as a table of the run has it: of what waits for an instance that stands still, that one."""
    return (holder.name, holder.kind) if holder.stall is None else (holder.stall.party, "stalled")


class _Prices:
    """What holders cost in a run; the runs without them are made when they are first needed."""

    def __init__(self, run: DataflowRun) -> None:
        self._run = run
        self._runs: dict[int | None, DataflowRun] = {}
        self._curves: dict[tuple[Any, ...], _Curve] = {}

    def stretches(self, span: Span) -> Iterator[tuple[Stretch, Holder]]:
        """What each holder of a span costs there, once, with the holder; joint holders share it."""
        cause, holders = span.cause, {_named(holder): holder for holder in span.cause.holders_now[::-1]}
        measures = {named: _measure(holder, cause) for named, holder in holders.items()}
        for (who, why), holder in holders.items():
            against, without = measures[who, why]
            shared = [*measures.values()].count((against, without))
            pieces: Iterable[tuple[int, int, int | None]] = [(span.from_ms, span.to_ms, None)]
            if against == "the others":
                pieces = [(span.from_ms, span.to_ms, holder.behind_by)]
            elif against == "the run without it":
                pieces = self._ahead(cause, without, span)
            for from_ms, to_ms, by_ms in pieces:
                yield Stretch((who,), why, from_ms, to_ms, by_ms, shared, against), holder

    def _ahead(self, cause: Cause, without: int | None, span: Span) -> Iterator[tuple[int, int, int | None]]:
        """By how much the watermark is higher in the run without a fault (None: without waiting), piece by piece.

        Turns begin at other moments in the other run, so that it may be behind for some milliseconds.
        """
        other = self._curve(without, cause, lambda: self._run_without(without))
        for from_ms, to_ms, value in self._curve("this run", cause, lambda: self._run).pieces(span.from_ms, span.to_ms):
            for piece in other.pieces(from_ms, to_ms):
                yield *piece[:2], None if value is None or piece[2] is None else piece[2] - value

    def _curve(self, name: Any, cause: Cause, run: Callable[[], DataflowRun]) -> _Curve:
        of_curve = name, cause.vertex, cause.instance, cause.key
        if of_curve not in self._curves:
            self._curves[of_curve] = _curve(run(), cause, is_sent=self._run.is_outwards(cause.vertex))
        return self._curves[of_curve]

    def _run_without(self, fault: int | None) -> DataflowRun:
        if fault not in self._runs:
            job = self._run.job
            tables = job.without_waiting() if fault is None else job.without_fault(fault)
            self._runs[fault] = self._run.with_tables(tables)
        return self._runs[fault]


def _measure(holder: Holder, cause: Cause) -> tuple[Against, int | None]:
    """What the cost of a holder is measured against: of a run without a fault, the number of the fault."""
    if cause.watermark is None:
        return "no bound", None
    if holder.behind_by and not holder.is_waiting:
        return "the others", None
    if holder.fault is not None:
        return "the run without it", holder.fault.index
    return ("the run without it" if holder.is_waiting else "unknown"), None


@dataclass(frozen=True, slots=True)
class _Curve:
    """A watermark over the clock: `values` from `at_ms` on, None while there is none."""

    at_ms: Sequence[int]
    values: Sequence[int | None]

    def pieces(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int | None]]:
        """Its values between two moments, each from when to when."""
        index = bisect_right(self.at_ms, from_ms)
        while from_ms < to_ms:
            until_ms = min(to_ms, self.at_ms[index]) if index < len(self.at_ms) else to_ms
            yield from_ms, until_ms, self.values[index - 1] if index else None
            from_ms, index = until_ms, index + 1


def _curve(run: DataflowRun, cause: Cause, *, is_sent: bool) -> _Curve:
    """The watermark of a cause in another run: the one that is coalesced of all inputs, or the one that leaves."""
    points: list[tuple[int, int, int | None]] = [(row["execution"], row["started_ms"], None) for row in run.executions]
    if is_sent:
        queues = [queue["queue"] for queue in run.out_of(cause.vertex, cause.instance)][:1]
        items = [row for row in run.rows("items") if row["queue"] in queues and row["key"] == cause.key]
        points += [(r["execution"], r["put_ms"], r["value"]) for r in items if r["kind"] == "watermark"]
    else:
        for step in run.rows("coalescing"):
            emitted = dict(step["emitted"])
            of_instance = (step["vertex"], step["instance"], step["level"]) == (cause.vertex, cause.instance, "global")
            if of_instance and cause.key in emitted:
                points.append((step["execution"], step["at_ms"], emitted[cause.key]))
    points.sort(key=itemgetter(0, 1))
    return _Curve([at_ms for _, at_ms, _ in points], [value for *_, value in points])
