"""Who held the lower bound over a whole run: how long, and how much lag each cost.

At every moment of the run one cause holds the bound (`wmlab.answers.cause`). It is taken from the last cycle; what the
bound would have been without its writers is taken from the times the others had noted by that cycle. A holder's cost
is that difference, averaged over the whole run: by so much it raised the mean lag of the bound. Writers that hold
it together share the cost equally.

Source: PDP-33, Periodic Watermark Workflow; upstream class `PeriodicWatermarking`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.answers.cause import Cause, Hold, hold_of
from wmlab.answers.known import Known, of_stream, the_stream, walk
from wmlab.answers.words import grouped, listed, span
from wmlab.recording import Recording

_WHO = {
    Cause.NO_MARK: "nobody had noted a time",
    Cause.FIRST_CYCLE: "the first cycle had not run",
    Cause.NOBODY_LEFT: "no active writer was left",
}


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


def holders_of(recording: Recording, *, stream: str | None = None) -> Holders:
    """The holders of the stream's lower bound from the stream's creation to the end of the run, or its deletion.

    A run ends when its scenario does; one of the outside world, or one that was stopped, with the last thing recorded.

    Raises `RecordingError` for a stream that the recording does not have, or when it has several and none is named.
    """
    name = the_stream(recording, stream)
    start_ms, end_ms = _run(recording, name)
    return holders_from(_stretches(recording, name, start_ms, end_ms), stream=name, run_ms=end_ms - start_ms)


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


def _run(recording: Recording, stream: str) -> tuple[int, int]:
    """From the creation of the stream to its deletion, or else the end of the run."""
    times: list[int] = []
    for name, when in _TIMED.items():
        found = of_stream(recording.table(name), stream, when)[when]
        times += [pc.min(found).as_py(), pc.max(found).as_py()] if len(found) else []
    faults = of_stream(recording.table("faults"), stream, "at_ms")
    deleted_ms = pc.max(faults.filter(pc.equal(faults["kind"], "delete"))["at_ms"]).as_py()
    ends = (deleted_ms, _planned_end_ms(recording), max(times, default=0))
    return min(times, default=0), next(at for at in ends if at is not None)


def _planned_end_ms(recording: Recording) -> int | None:
    """When the scenario of a finished run ends; None when the run was stopped or has no scenario."""
    scenario = recording.scenario
    if scenario is None or "duration_ms" not in scenario or not recording.manifest.finished:
        return None
    return int(scenario.get("start_ms", 0)) + int(scenario["duration_ms"])


_TIMED = {
    "segments": "created_ms",
    "marks": "received_ms",
    "cycles": "at_ms",
    "events": "append_ms",
    "positions": "at_ms",
    "windows": "at_ms",
}


def _stretches(recording: Recording, stream: str, start_ms: int, end_ms: int) -> Iterator[Stretch]:
    before = Known(at_ms=start_ms)
    for known in walk(recording, stream):
        if known.cycle is before.cycle and known.bound is before.bound and before.on_record:
            continue
        yield from _stretch(before, known.at_ms)
        before = known
    yield from _stretch(before, end_ms)


def _stretch(known: Known, to_ms: int) -> Iterator[Stretch]:
    if known.at_ms < to_ms:
        hold = hold_of(known)
        who = _who(known, hold)
        yield Stretch(who, hold.cause.value, known.at_ms, to_ms, hold.by_ms, len(who))


def _who(known: Known, hold: Hold) -> tuple[str, ...]:
    if hold.writers:
        return hold.writers
    if hold.cause is Cause.FAILED:
        return (known.cycle["reason"] or "the watermark was not appended",) if known.cycle is not None else ()
    return (_WHO[hold.cause],)


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
