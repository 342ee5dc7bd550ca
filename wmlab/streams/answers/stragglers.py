"""What held a stream's lower bound over a whole run, and for how long.

Source: PDP-33, Periodic Watermark Workflow; the causes are those of `wmlab.streams.answers.cause`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, get_args

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Against, Cell, Stretch, TableAnswer, text_table
from wmlab.core.facts import FactAnswer, Facts, Value, folded_facts
from wmlab.core.invariants import TableRow
from wmlab.core.recording import Recording, planned_span
from wmlab.core.words import as_sentence, grouped, is_instant, rounded, wrapped
from wmlab.streams.answers import history as recorded
from wmlab.streams.answers.cause import OF_WRITERS, CauseSpan
from wmlab.streams.answers.cause_facts import held_by
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.stops import of_stops
from wmlab.streams.answers.together import streams_apart
from wmlab.streams.answers.vocabulary import LABELS, MEANINGS, OF_RUN, OF_RUN_NEXT, WITHOUT_PARTY
from wmlab.streams.tables import NEVER_CAME

_TIMED: Final = ("segments", "writer_marks", "cycles", "events", "positions", "windows")
_NO_AMOUNT: Final = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who held the lower bound by one cause: `who` is a party or, without one, what held it; `why` the kind of cause.

    `stretches` counts how often it did: a stretch is a period without a break. `held_ms` is the total time, and
    `worst_ms` the most by which it lowered the bound, measured `against` the notes of the others or, without others,
    against the clock; None if that is not known.
    """

    who: str
    why: str
    stretches: int
    held_ms: int
    worst_ms: int | None
    against: Against


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Holders(FactAnswer, TableAnswer[Holder]):
    """Who held the lower bound of a stream's log over a run of `run_ms`: parties first, and those that held it longest.

    The facts are about the longest stop of any curve, refused notes, acts that never came, and streams without common
    times.
    """

    stream: str
    run_ms: int
    holders: tuple[Holder, ...]
    facts: Facts
    templates: tuple[str, ...]

    entries = "holders"
    heads = ("holder", "cause", "stretches", "held", "at worst", "measured against")
    left = (0, 1, 5)
    schema = pa.schema(
        [(name, pa.string()) for name in ("stream", "who", "why")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("stretches", "held_ms")]
        + [("worst_ms", pa.int64()), ("against", pa.string())]
    )

    def __repr__(self) -> str:
        rows = [self.heads, *(tuple(map(str, row)) for row in self._rows())]
        return "\n".join([wrapped(self.sentence), *text_table(rows, right=(2, 3, 4)), *map(wrapped, self._legend())])

    def _repr_html_(self) -> str:
        return TableAnswer._repr_html_(self) + folded_facts(self.facts)

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for entry in self.holders:
            worst = _NO_AMOUNT if entry.worst_ms is None else rounded(entry.worst_ms)
            yield entry.who, entry.why, grouped(entry.stretches), rounded(entry.held_ms), worst, entry.against

    def _definitions(self) -> list[str]:
        return self._legend()

    def _legend(self) -> list[str]:
        """What the words of the table mean, as far as it has them."""
        used = {entry.why for entry in self.holders}
        return [_COLUMNS, *(as_sentence(f"{why}: {meaning}") for why, meaning in MEANINGS.items() if why in used)]


_COLUMNS: Final = (
    "Stretches: how often one cause held the bound. Held: for how long in all. At worst: by how much it kept the bound "
    "down at most."
)


def stragglers_of(recording: Recording, stream: str) -> Holders:
    """Who held the stream's lower bound from its creation to the end of the run, or its deletion.

    At every moment one cause holds the bound; what the bound would have been without it is taken from the times that
    were noted by then. A run ends when its scenario does; one of the outside world, or one that was stopped, with the
    last thing recorded.
    """
    start_ms, end_ms = run_of(recording, stream)
    curves = Curves(recording, stream)
    spans = list(curves.spans(LOG, start_ms=start_ms, end_ms=end_ms))
    of_run = {**of_stops(curves, end_ms), **_refused(curves), **_of_script(recording, curves)}
    facts = Facts(LABELS, of_run, clock_ms=start_ms)
    chosen = (facts.first_of(templates) for templates in (OF_RUN, OF_RUN_NEXT))
    return Holders(
        stream=stream,
        run_ms=end_ms - start_ms,
        holders=tuple(_holders([_stretch(span) for span in spans])),
        facts=facts,
        templates=tuple(template for template in chosen if template is not None),
    )


def _refused(curves: Curves) -> Mapping[str, Value]:
    """Whose notes were refused, how many, and when."""
    refused: dict[str, list[TableRow]] = {}
    for row in sorted(curves.tables.rows("writer_marks"), key=lambda row: int(row["received_ms"])):
        if row["outcome"] != "success":
            refused.setdefault(row["writer"], []).append(row)
    rows = [refused[name] for name in sorted(refused)]
    return {
        "refused": tuple(sorted(refused)),
        "refused as": tuple(of_writer[-1]["outcome"] for of_writer in rows),
        "refused notes": tuple(len(of_writer) for of_writer in rows),
        "refused from": tuple(of_writer[0]["received_ms"] for of_writer in rows),
        "refused to": tuple(of_writer[-1]["received_ms"] for of_writer in rows),
    }


def _of_script(recording: Recording, curves: Curves) -> Mapping[str, Value]:
    """What never came, that no cycle ran, and streams that are read together without common times."""
    planned = planned_span(recording)
    is_without_cycle = planned is not None and not curves.tables.rows("cycles")
    incidents = curves.tables.rows("incidents")
    together = (streams for streams, _ in streams_apart(recording).values() if curves.tables.stream in streams)
    return {
        "no cycle before": planned[1] if planned is not None and is_without_cycle else None,
        "never came": tuple(row["detail"] for row in incidents if row["outcome"] == NEVER_CAME),
        "streams apart": next(together, None),
    }


def _stretch(span: CauseSpan) -> Stretch:
    """A stretch with the amount: against what was noted, or against the clock where nobody else was there."""
    cause, by_ms = span.cause, span.cause.by_ms
    against: Against = "the others" if cause.kind in OF_WRITERS else "noted times"
    if cause.bound is None:
        against = "no bound"
    elif by_ms is None and is_instant([cause.bound], clock=[span.from_ms]) == is_instant([span.from_ms]):
        by_ms, against = span.from_ms - cause.bound, "the clock"
    who = held_by(cause)
    return Stretch(who, cause.kind.value, span.from_ms, span.to_ms, by_ms, len(who), against)


def _holders(stretches: Iterable[Stretch]) -> list[Holder]:
    """The holders of the stretches of a run: parties first, and of them those that held it longest."""
    by_holder: dict[tuple[str, str, Against], list[Stretch]] = {}
    for stretch in stretches:
        against = "unknown" if stretch.by_ms is None and stretch.against != "no bound" else stretch.against
        for who in stretch.who:
            by_holder.setdefault((who, stretch.why, against), []).append(stretch)
    holders = [
        Holder(
            who=who,
            why=why,
            stretches=1 + sum(before.to_ms != after.from_ms for before, after in pairwise(mine)),
            held_ms=sum(stretch.to_ms - stretch.from_ms for stretch in mine),
            worst_ms=max((stretch.worst_ms for stretch in mine if stretch.by_ms is not None), default=None),
            against=against,
        )
        for (who, why, against), mine in by_holder.items()
    ]
    order, nobody = get_args(Against).index, set(WITHOUT_PARTY.values())
    return sorted(holders, key=lambda h: (h.who in nobody, -h.held_ms, order(h.against), h.who, h.why))


def run_of(recording: Recording, stream: str) -> tuple[int, int]:
    """From the creation of the stream to its deletion, the end of its finished scenario, or the last row (clock)."""
    times: list[int] = []
    for name in _TIMED:
        when = recorded.CLOCKS[name]
        for chunk in recording.chunks(name, "stream", when):
            column = recorded.of_stream(chunk, stream)[when]
            times += pc.min_max(column).as_py().values() if len(column) else []
    incidents = recorded.of_stream(recording.table("incidents"), stream)
    end_ms = pc.max(incidents.filter(pc.equal(incidents["kind"], "delete"))["at_ms"]).as_py()
    if end_ms is None and (planned := planned_span(recording)) is not None:
        end_ms = planned[1]
    return min(times, default=0), max(times, default=0) if end_ms is None else end_ms
