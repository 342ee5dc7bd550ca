"""Who held a watermark over a whole run, why, and for how long: one form of answer in all models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from wmlab.core.answers import Cell, TableAnswer, text_table
from wmlab.core.facts import FactAnswer, Facts, Kind, Value, folded_facts, vocabulary
from wmlab.core.words import as_sentence, grouped, rounded, wrapped


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `from_ms` to `to_ms` (clock) `who` held the watermark by the cause `why`."""

    who: str
    why: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who held the watermark by one cause: `who` is a party or, without one, what held it; `why` the kind of cause.

    `stretches` counts how often it did: a stretch is a period without a break. `held_ms` is the total time.
    """

    who: str
    why: str
    stretches: int
    held_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Holders(FactAnswer, TableAnswer[Holder]):
    """Who held a watermark of `stream` over a run of `run_ms`, those that held it longest first.

    `meanings` explains the causes that a model has a word for.
    """

    stream: str
    run_ms: int
    holders: tuple[Holder, ...]
    facts: Facts
    templates: tuple[str, ...]
    meanings: tuple[tuple[str, str], ...] = ()

    entries = "holders"
    heads = ("holder", "cause", "stretches", "held")
    left = (0, 1)
    schema = pa.schema(
        [(name, pa.string()) for name in ("stream", "who", "why")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("stretches", "held_ms")]
    )

    def __repr__(self) -> str:
        rows = [self.heads, *(tuple(map(str, row)) for row in self._rows())]
        return "\n".join([wrapped(self.sentence), *text_table(rows, right=(2, 3)), *map(wrapped, self._definitions())])

    def _repr_html_(self) -> str:
        return TableAnswer._repr_html_(self) + folded_facts(self.facts)

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for entry in self.holders:
            yield entry.who, entry.why, grouped(entry.stretches), rounded(entry.held_ms)

    def _definitions(self) -> list[str]:
        """What the words of the table mean, as far as it has them."""
        return [_COLUMNS, *(as_sentence(f"{why}: {meaning}") for why, meaning in self.meanings)]


_COLUMNS: Final = "Stretches: how often one cause held the bound. Held: for how long in all."
RUN_LABELS: Final = vocabulary(
    ("bound", Kind.NAME, "the watermark that was held"),
    ("held by", Kind.NAME, "who, or what, held it longest by one cause"),
    ("cause", Kind.WORD, "that cause"),
    ("held for", Kind.LENGTH, "for how long in all they held it so"),
    ("longest stop", Kind.LENGTH, "longest time in which the watermark kept one known value"),
    ("from", Kind.MOMENT, "when that stop began"),
    ("to", Kind.MOMENT, "when it ended, or the run"),
    ("at", Kind.MOMENT, "the value that the watermark kept"),
    ("stop held by", Kind.NAME, "who, or what, held it for longest in that stop"),
    ("stop cause", Kind.WORD, "by what cause they did"),
    ("failed at", Kind.MOMENT, "when the job failed"),
    ("failure", Kind.NAME, "why it failed"),
    ("inputs apart", Kind.NAME, "join whose inputs have no event times in common"),
    ("complete when", Kind.NAME, "when a sequence is complete, if the rule 'literal' counts chunks from 0"),
    ("never happened", Kind.NAME, "whom an act of the script never befell, and why"),
)
"""The labels of answers about a whole run of a dataflow or of a query."""
FAILED: Final = (
    "The job failed at {failed at}: {failure}.",
    "The job failed at {failed at}.",
)
OF_STOP: Final = "The {bound} stood still longest for {longest stop}, held by {stop held by} ({stop cause})."
OF_RUN: Final = (
    "The {bound} was held longest by {held by} ({cause}), for {held for}.",
    "Nothing held the {bound}.",
)
TIMES_APART: Final = "The event times of the inputs of {inputs apart} do not overlap."
_OF_RUN_NEXT: Final = (
    TIMES_APART,
    "By the rule 'literal' a sequence is complete when {complete when}.",
    "An act of the script never happened to {never happened}.",
)


def holders_of(stretches: Iterable[Stretch]) -> tuple[Holder, ...]:
    """The holders of the stretches of a run, each once for a cause: those that held it longest first."""
    by_holder: dict[tuple[str, str], list[Stretch]] = {}
    for stretch in stretches:
        by_holder.setdefault((stretch.who, stretch.why), []).append(stretch)
    holders = [
        Holder(
            who=who,
            why=why,
            stretches=1 + sum(before.to_ms != after.from_ms for before, after in pairwise(mine)),
            held_ms=sum(stretch.to_ms - stretch.from_ms for stretch in mine),
        )
        for (who, why), mine in by_holder.items()
    ]
    return tuple(sorted(holders, key=lambda holder: (-holder.held_ms, holder.why, holder.who)))


def meanings_of(holders: Sequence[Holder], meanings: Mapping[Any, str]) -> tuple[tuple[str, str], ...]:
    """The causes of these holders with their meanings."""
    used = {holder.why for holder in holders}
    return tuple((str(why), meaning) for why, meaning in meanings.items() if why in used)


def of_first(bound: str, holders: Sequence[Holder]) -> dict[str, Value]:
    """The facts about the first holder of a bound, if there is one."""
    facts: dict[str, Value] = {"bound": bound}
    for first in holders[:1]:
        facts |= {"held by": first.who, "cause": first.why, "held for": first.held_ms}
    return facts


def holders_over(
    stretches: Iterable[Stretch],
    *,
    stream: str,
    span: tuple[int, int],
    bound: str,
    also: Mapping[str, Value],
    meanings: Mapping[Any, str] | None = None,
) -> Holders:
    """The answer about a run from one moment to another (clock, ms): the first holder of `bound`, and `also`."""
    holders = holders_of(stretches)
    facts = Facts(RUN_LABELS, {**of_first(bound, holders), **also}, clock_ms=span[0])
    return Holders(
        stream=stream,
        run_ms=span[1] - span[0],
        holders=holders,
        facts=facts,
        templates=facts.chosen(FAILED, (OF_STOP, *OF_RUN), _OF_RUN_NEXT),
        meanings=meanings_of(holders, meanings or {}),
    )
