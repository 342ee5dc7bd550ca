"""Who held a bound over a whole run: how long, and how much lag each cost.

A holder's cost is the difference to what the bound would have been without it, averaged over the whole run: by so much
it raised the mean lag of the bound. Those that hold it together share the cost equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from wmlab.core.answers.answer import Cell, TableAnswer
from wmlab.core.words import grouped, listed, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A holder of the bound: `who` is a writer or, without one, what stood in the way; `why` is the cause.

    `stretches` counts how often it held, `held_ms` how long in all, `worst_ms` the most by which it kept the bound
    down, `cost_ms` by how much it raised the run's mean lag. The last two are None if nobody else could be compared.
    """

    who: str
    why: str
    stretches: int
    held_ms: int
    worst_ms: int | None
    cost_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Stragglers(TableAnswer[Straggler]):
    """The stragglers of a stream's lower bound over a run, the most expensive first; `run_ms` is the run's length.

    `bound` says what they held: the lower bound, or the global watermark of a query.
    """

    stream: str
    run_ms: int
    stragglers: tuple[Straggler, ...]
    bound: str = "lower bound"

    entries = "stragglers"
    heads = ("holder", "cause", "stretches", "held", "at worst", "cost in mean lag")
    schema = pa.schema(
        [(name, pa.string()) for name in ("stream", "who", "why")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("stretches", "held_ms")]
        + [("worst_ms", pa.int64()), ("cost_ms", pa.float64())]
    )

    @property
    def sentence(self) -> str:
        """Who cost most, in one sentence."""
        over = f"Over {span(self.run_ms)}"
        priced = [entry for entry in self.stragglers if entry.cost_ms]
        if not priced:
            return f"{over} nobody held the {self.bound} of {self.stream} below what the others had noted."
        first, *rest = priced
        others = f"; next {listed([f'{h.who} ({h.why}, {self._ms(h.cost_ms)})' for h in rest[:2]])}" if rest else ""
        return (
            f"{over} the {self.bound} of {self.stream} was held back most by {first.who} ({first.why}): "
            f"for {self._ms(first.held_ms)}, which cost {self._ms(first.cost_ms)} of mean lag{others}."
        )

    def __repr__(self) -> str:
        width = max((len(h.who) for h in self.stragglers), default=0)
        lines = [
            f"  {h.who:{width}}  {h.why}: {grouped(h.stretches)} × in all {self._ms(h.held_ms)}, "
            f"at worst {self._ms(h.worst_ms)}, cost {self._ms(h.cost_ms)}"
            for h in self.stragglers
        ]
        return "\n".join([self.sentence, *lines])

    def _ms(self, number: float | None) -> str:
        return "unknown" if number is None else span(round(number), beside_ms=self.run_ms)

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for entry in self.stragglers:
            yield entry.who, entry.why, entry.stretches, *map(self._ms, (entry.held_ms, entry.worst_ms, entry.cost_ms))


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `from_ms` to `to_ms` these held the bound down by `by_ms`, `shared` of them in all."""

    who: tuple[str, ...]
    why: str
    from_ms: int
    to_ms: int
    by_ms: int | None
    shared: int


def stragglers_from(
    stretches: Iterable[Stretch],
    *,
    stream: str,
    run_ms: int,
    bound: str = "lower bound",
    kind: type[Stragglers] = Stragglers,
) -> Stragglers:
    """The stragglers of the stretches of a run, the most expensive first; `kind` words the answer."""
    found: dict[tuple[str, str], list[Stretch]] = {}
    for stretch in stretches:
        for who in stretch.who:
            found.setdefault((who, stretch.why), []).append(stretch)
    stragglers = [_straggler(who, why, mine, run_ms) for (who, why), mine in found.items()]
    stragglers.sort(key=lambda h: (-(h.cost_ms or 0), -h.held_ms, h.who, h.why))
    return kind(stream=stream, run_ms=run_ms, stragglers=tuple(stragglers), bound=bound)


def _straggler(who: str, why: str, stretches: list[Stretch], run_ms: int) -> Straggler:
    prices = [(s.by_ms, (s.to_ms - s.from_ms) / s.shared) for s in stretches if s.by_ms is not None]
    joined = sum(1 for n, s in enumerate(stretches) if n == 0 or stretches[n - 1].to_ms != s.from_ms)
    return Straggler(
        who=who,
        why=why,
        stretches=joined,
        held_ms=sum(s.to_ms - s.from_ms for s in stretches),
        worst_ms=max((by for by, _ in prices), default=None),
        cost_ms=round(sum(by * weight for by, weight in prices) / run_ms, 1) if prices else None,
    )
