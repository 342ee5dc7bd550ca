"""Who held a bound over a whole run: how long, and how much lag each cost.

A holder's cost is the difference to what the bound would have been without it, averaged over the whole run: by so much
it raised the mean lag of the bound. Those that hold it together share the cost equally.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import pyarrow as pa

from wmlab.core.words import grouped, listed, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
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
class Holders:
    """The holders of a stream's lower bound over a run, the most expensive first; `run_ms` is the run's length.

    `bound` says what they held: the lower bound, or the global watermark of a query.
    """

    stream: str
    run_ms: int
    holders: tuple[Holder, ...]
    bound: str = "lower bound"

    def __iter__(self) -> Iterator[Holder]:
        return iter(self.holders)

    def __len__(self) -> int:
        return len(self.holders)

    @property
    def sentence(self) -> str:
        """Who cost most, in one sentence."""
        over = f"Over {span(self.run_ms)}"
        priced = [holder for holder in self.holders if holder.cost_ms]
        if not priced:
            return f"{over} nobody held the {self.bound} of {self.stream} below what the others had noted."
        first, *rest = priced
        others = f"; next {listed([f'{h.who} ({h.why}, {_ms(h.cost_ms)})' for h in rest[:2]])}" if rest else ""
        return (
            f"{over} the {self.bound} of {self.stream} was held back most by {first.who} ({first.why}): "
            f"for {span(first.held_ms)}, which cost {_ms(first.cost_ms)} of mean lag{others}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The holders as dicts, lists and scalars."""
        return asdict(self)

    def to_json(self) -> str:
        """The holders as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"

    def to_pandas(self) -> Any:
        """One row per holder as a pandas DataFrame, with the columns of `Holder` and `stream`."""
        columns = {
            "stream": pa.array([self.stream] * len(self.holders), pa.string()),
            "who": pa.array([h.who for h in self.holders], pa.string()),
            "why": pa.array([h.why for h in self.holders], pa.string()),
            "stretches": pa.array([h.stretches for h in self.holders], pa.int64()),
            "held_ms": pa.array([h.held_ms for h in self.holders], pa.int64()),
            "worst_ms": pa.array([h.worst_ms for h in self.holders], pa.int64()),
            "cost_ms": pa.array([h.cost_ms for h in self.holders], pa.float64()),
        }
        return pa.table(columns).to_pandas(integer_object_nulls=True).astype({"worst_ms": "Int64"})

    def __repr__(self) -> str:
        width = max((len(h.who) for h in self.holders), default=0)
        lines = [
            f"  {h.who:{width}}  {h.why}: {grouped(h.stretches)} × in all {span(h.held_ms)}, "
            f"at worst {_ms(h.worst_ms)}, cost {_ms(h.cost_ms)}"
            for h in self.holders
        ]
        return "\n".join([self.sentence, *lines])

    def _repr_html_(self) -> str:
        names = ("holder", "cause", "stretches", "held (ms)", "at worst (ms)", "cost (ms of mean lag)")
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = "".join(_html_row(holder) for holder in self.holders)
        return f"<table><caption>{escape(self.sentence)}</caption><tr>{head}</tr>{rows}</table>"


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `from_ms` to `to_ms` these held the bound down by `by_ms`, `shared` of them in all."""

    who: tuple[str, ...]
    why: str
    from_ms: int
    to_ms: int
    by_ms: int | None
    shared: int


def holders_from(stretches: Iterable[Stretch], *, stream: str, run_ms: int, bound: str = "lower bound") -> Holders:
    """The holders that stretches of a run tell, the most expensive first."""
    found: dict[tuple[str, str], list[Stretch]] = {}
    for stretch in stretches:
        for who in stretch.who:
            found.setdefault((who, stretch.why), []).append(stretch)
    holders = [_holder(who, why, mine, run_ms) for (who, why), mine in found.items()]
    holders.sort(key=lambda h: (-(h.cost_ms or 0), -h.held_ms, h.who, h.why))
    return Holders(stream=stream, run_ms=run_ms, holders=tuple(holders), bound=bound)


def _holder(who: str, why: str, stretches: list[Stretch], run_ms: int) -> Holder:
    prices = [(s.by_ms, (s.to_ms - s.from_ms) / s.shared) for s in stretches if s.by_ms is not None]
    joined = sum(1 for n, s in enumerate(stretches) if n == 0 or stretches[n - 1].to_ms != s.from_ms)
    return Holder(
        who=who,
        why=why,
        stretches=joined,
        held_ms=sum(s.to_ms - s.from_ms for s in stretches),
        worst_ms=max((by for by, _ in prices), default=None),
        cost_ms=round(sum(by * weight for by, weight in prices) / run_ms, 1) if prices else None,
    )


def _ms(number: float | None) -> str:
    return "unknown" if number is None else span(round(number))


def _html_row(holder: Holder) -> str:
    texts = f"<td style='text-align:left'>{escape(holder.who)}</td><td>{escape(holder.why)}</td>"
    numbers = (holder.stretches, holder.held_ms, holder.worst_ms, holder.cost_ms)
    shown = ["unknown" if n is None else grouped(round(n)) for n in numbers]
    return f"<tr>{texts}{''.join(f'<td>{n}</td>' for n in shown)}</tr>"
