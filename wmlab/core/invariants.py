"""Invariants, the findings on each, and the verdict: what the checks of all models share.

A finding is something about an invariant that could be decided, good (`ok` True) or bad (`ok` False), or for something
that could not (`ok` None). A bad one carries its evidence: the rows of the recording's tables, cut down to the columns
that matter, each as (table, row), the row as JSON. A verdict is "violated" with the first proof, "ok" when everything
that could be decided was in order, or "unknown" when nothing could be. A good finding may have an exemption: it says
what went wrong and why that does not count, and the verdict says how many such things it leaves out.

An `Invariant` is a rule in Python over the rows of one stream, which runs in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from inspect import signature
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Cell, Markup, TableAnswer
from wmlab.core.charts.style import page_colour
from wmlab.core.errors import ModelError
from wmlab.core.late import Late
from wmlab.core.words import (
    TIME_MARK,
    as_sentence,
    clock_words,
    counted,
    exactly,
    grouped,
    joined,
    listed,
    number_at_epoch,
    shown,
    unbroken,
    with_moments,
)

TableRow: TypeAlias = Mapping[str, Any]
TableRows: TypeAlias = Sequence[TableRow]
"""Rows of a table, by column; maps are dicts."""

Inputs: TypeAlias = Mapping[str, Any]
"""What rules take, by name: an Arrow table, of which a rule gets the rows of its stream as a list of dicts, with maps
as dicts; a `Derived`; or any other value, which is handed on."""


Judgement = Literal["ok", "violated", "unknown"]
_OFFSETS: Final = ("cut", "position")
_WRITTEN: Final = ("emitted_ms", "received_ms", "append_ms", "at_ms")
"""When a row of evidence was written, whichever of these columns it has."""


@dataclass(frozen=True, slots=True, repr=False)
class Evidence:
    """A row of a table of the recording, cut down to the columns that matter.

    Offset maps are keyed by segment name, "number@epoch".
    """

    table: str
    row: Mapping[str, Any]

    @classmethod
    def of(cls, table: str, row: TableRow, *columns: str, **others: object) -> Evidence:
        """These columns of a row, and others with a value of their own."""
        chosen = {column: row[column] for column in columns} | others
        return cls(table, {name: _named(name, value) for name, value in chosen.items()})

    @property
    def text(self) -> str:
        """The row as JSON, which puts evidence of one moment in order."""
        return json.dumps(self.row, ensure_ascii=False, separators=(",", ":"))

    def __repr__(self) -> str:
        return f"{self.table}: {', '.join(f'{name} {_shown(name, value)}' for name, value in self.row.items())}"


def _named(column: str, value: Any) -> Any:
    """The value of a column, with the names of segments as the keys of an offset map."""
    if column in _OFFSETS and isinstance(value, Mapping):
        return {number_at_epoch(int(segment)): offset for segment, offset in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found about an invariant.

    `ok` is None where nothing could be decided; `judged` is how many single things the finding stands for; `what` is
    the violation, or why nothing was decided, or, of one that is left out, what went wrong. `exemption` is why that
    does not count, in words that follow the `exempt` of the invariant: "of a dropped writer". `at_ms` is None where the
    finding has no time.
    """

    ok: bool | None
    at_ms: int | None = None
    what: str | None = None
    evidence: Sequence[Evidence] = ()
    judged: int = 1
    exemption: str | None = None

    @classmethod
    def undecided(cls, why: str) -> Finding:
        """That nothing was decided, and why."""
        return cls(None, what=why, judged=0)


@dataclass(frozen=True, slots=True)
class Invariant:
    """One statement, the rule that gives its findings on one stream, and why there may be none, if that is said.

    The parameters of the rule are called as what it takes, see `Inputs`. `title` is its short name, and `exempt` what
    one thing is called that it leaves out: "late event".
    """

    statement: str
    findings: Callable[..., Iterable[Finding]]
    no_data: str
    title: str = ""
    exempt: str = "exception"

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the rule takes, by name."""
        return tuple(signature(self.findings).parameters)


@dataclass(frozen=True, slots=True)
class Derived:
    """An input that is made of others of the same stream; its parameters are called as these.

    It is made once for all rules that take it.
    """

    make: Callable[..., Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it is made of, by name."""
        return tuple(signature(self.make).parameters)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """The verdict on one invariant.

    `judged` counts the items that could be judged, and `violations` those that violate the invariant. `left_out` counts
    problems that violate nothing, and `exceptions` names them: "154 late events of a dropped writer". `what` is the
    first violation, or the reason why nothing could be judged, or the first exception, and None if there is no problem;
    `evidence` proves it. `title` is the short name of the invariant, empty if it has none.
    """

    invariant: str
    statement: str
    verdict: Judgement
    judged: int
    violations: int
    what: str | None
    evidence: tuple[Evidence, ...] = ()
    title: str = ""
    left_out: int = 0
    exceptions: str | None = None

    @property
    def label(self) -> str:
        """Its name in a sentence: "I6 (no event below what was shown)"."""
        return f"{self.invariant} ({self.title})" if self.title else self.invariant

    @property
    def outcome(self) -> str:
        """The verdict in words: "ok, with exceptions" if there are any."""
        return "ok, with exceptions" if self.verdict == "ok" and self.left_out else self.verdict

    @property
    def at_ms(self) -> int | None:
        """When the first violation was complete (clock): when the last row of its evidence was written.

        None if nothing is violated, or if no row of the evidence has a time.
        """
        times = [proof.row[name] for proof in self.evidence for name in _WRITTEN if proof.row.get(name) is not None]
        return max(times, default=None) if self.verdict == "violated" else None

    @property
    def stream(self) -> str | None:
        """The stream that the evidence is from; None where it names none."""
        return next((proof.row["stream"] for proof in self.evidence if "stream" in proof.row), None)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as dicts, lists and scalars, with its moment."""
        return asdict(self) | {"at_ms": self.at_ms}

    def __repr__(self) -> str:
        when = "" if self.at_ms is None else f" at {clock_words(self.at_ms)}"
        lines = [f"{self.invariant} {self.outcome}{when}: {self.title or self.statement} ({self._count()})"]
        lines += [f"    {as_sentence(self.what)}"] if self.what else []
        return "\n".join([*lines, *(f"    {proof!r}" for proof in self.evidence)])

    def _count(self) -> str:
        if self.verdict == "unknown":
            return "nothing to judge"
        judged = grouped(self.judged)
        return f"{grouped(self.violations)} of {judged}" if self.violations else f"{judged} judged"


@dataclass(frozen=True, slots=True, repr=False)
class Verdicts(TableAnswer[Verdict]):
    """One verdict per invariant, in their order; `verdicts["I4"]` is one of them, iteration gives all.

    Two answers with the same verdicts are equal. `failure` says that the run failed, and why; empty if it did not.
    `scrubbed` names the streams of a recording with the verb `scrub`: a violation in one of them has the call that
    draws its moment. `late` is what came late, by stream or query; empty where that was not asked for.
    """

    name: str
    verdicts: tuple[Verdict, ...]
    failure: str = field(default="", compare=False)
    scrubbed: tuple[str, ...] = field(default=(), compare=False)
    late: Mapping[str, Late] = field(default_factory=dict, compare=False)

    entries = "verdicts"
    heads = ("", "verdict", "judged", "what")
    left = (0, 1, 3)
    schema = pa.schema(
        [(name, pa.string()) for name in ("invariant", "title", "statement", "verdict")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("judged", "violations", "left_out")]
        + [("exceptions", pa.string()), ("what", pa.string())]
    )

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the invariants that are violated."""
        return tuple(v.invariant for v in self.verdicts if v.verdict == "violated")

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the invariants that could not be judged."""
        return tuple(v.invariant for v in self.verdicts if v.verdict == "unknown")

    @property
    def with_exceptions(self) -> tuple[str, ...]:
        """The names of the invariants that hold with exceptions."""
        return tuple(v.invariant for v in self.verdicts if v.verdict == "ok" and v.left_out)

    def __getitem__(self, invariant: str) -> Verdict:
        by_name = {verdict.invariant: verdict for verdict in self.verdicts}
        if invariant not in by_name:
            raise unknown_invariant(invariant, by_name)
        return by_name[invariant]

    def to_dict(self) -> dict[str, Any]:
        """The verdicts, and what came late, as dicts, lists and scalars."""
        late = {name: late.to_dict() for name, late in self.late.items()}
        return {"recording": self.name, "verdicts": [verdict.to_dict() for verdict in self.verdicts], "late": late}

    @property
    def sentence(self) -> str:
        """The result in one sentence, and what came late."""
        ok = len(self.verdicts) - len(self.violated) - len(self.unknown)
        parts = [f"{counted(ok, 'invariant')} of {len(self.verdicts)} {'holds' if ok == 1 else 'hold'}"]
        for outcome in ("violated", "unknown"):
            labels = [v.label for v in self.verdicts if v.verdict == outcome]
            parts += [f"{outcome}: {', '.join(labels)}"] if labels else []
        parts += [f"{v.label} leaves out {v.exceptions}" for v in self.verdicts if v.invariant in self.with_exceptions]
        several = len(self.late) > 1
        late = [
            f"{name}: {late.sentence}" if several else late.sentence for name, late in self.late.items() if late.is_any
        ]
        return joined(self.failure, f"{'; '.join(parts)}.", *late)

    def __repr__(self) -> str:
        lines = [f"Check of {self.name!r}: {self.sentence}"]
        for verdict in self.verdicts:
            call = self._scrub_call(verdict)
            lines += [repr(verdict), *([f"    To see it: {call}"] if call else [])]
        return "\n".join(lines)

    def _caption(self) -> str:
        return f"<b>{escape(self.name)}</b>: {escape(unbroken(self.sentence))}"

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for verdict in self.verdicts:
            what = [f"<b>{escape(unbroken(as_sentence(verdict.what)))}</b>"] if verdict.what else []
            said = [] if verdict.statement == verdict.title else [escape(as_sentence(verdict.statement))]
            lines = [*said, *what, *(escape(repr(proof)) for proof in verdict.evidence)]
            if call := self._scrub_call(verdict):
                lines.append(f"To see it at {escape(clock_words(verdict.at_ms))}: <code>{escape(call)}</code>")
            name = " ".join(filter(None, (verdict.invariant, verdict.title)))
            yield name, _coloured(verdict.outcome), verdict._count(), Markup("<br>".join(lines))

    def _scrub_call(self, verdict: Verdict) -> str:
        """The call that draws the moment of a violation; empty where there is no such moment."""
        if verdict.at_ms is None or verdict.stream not in self.scrubbed:
            return ""
        stream = f", stream={verdict.stream!r}" if len(self.scrubbed) > 1 else ""
        return f"recording.scrub(at_ms={verdict.at_ms:_}{stream})"


_ROLES: Final = {"violated": "alarm", "ok, with exceptions": "upper"}
"""The colours of outcomes, as roles of charts: red and amber."""


def _coloured(outcome: str) -> Cell:
    """An outcome as a cell of a table, in its colour if it has one."""
    if outcome not in _ROLES:
        return outcome
    return Markup(f'<b style="color:{page_colour(_ROLES[outcome])}">{outcome}</b>')


def unknown_invariant(name: object, known: Iterable[str], by_name: Iterable[str] = ()) -> ModelError:
    """The error for an unknown invariant; those in `by_name` are judged only when named."""
    at_rest = f", or for {', '.join(by_name)}, which is judged only when it is named" if by_name else ""
    return ModelError(f"There is no invariant {shown(name)}.", remedy=f"Ask for one of {', '.join(known)}{at_rest}.")


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if name == "segment_id":
        return number_at_epoch(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key}: {'end' if item is None else item}" for key, item in value.items())
        return f"{{{inner}}}"
    return str(value)


def invariant(
    statement: str, no_data: str = "", *, title: str = "", exempt: str = "exception"
) -> Callable[[Callable[..., Iterable[Finding]]], Invariant]:
    """Makes the rule that it stands above an invariant."""
    return lambda findings: Invariant(statement, findings, no_data, title, exempt)


def of_one_stream(tables: Mapping[str, pa.Table], stream: str) -> dict[str, pa.Table]:
    """The rows of one stream; a table without the column `stream` is about all of them."""
    return {
        name: table.filter(pc.equal(table["stream"], stream)) if "stream" in table.schema.names else table
        for name, table in tables.items()
    }


def chosen_of(
    invariants: Mapping[str, Invariant], by_name: Mapping[str, Invariant], only: Sequence[object]
) -> dict[str, Invariant]:
    """The invariants that `only` names, in their order; without names all but those that are judged only `by_name`.

    Raises `ModelError` for an unknown name.
    """
    both = {**invariants, **by_name}
    for name in only:
        if not isinstance(name, str) or name not in both:
            raise unknown_invariant(name, invariants, by_name)
    return {name: entry for name, entry in both.items() if name in only} if only else dict(invariants)


def verdicts_of(
    recording: str,
    invariants: Mapping[str, Invariant],
    streams: Iterable[tuple[str, Mapping[str, pa.Table]]],
    values: Inputs,
) -> Verdicts:
    """The verdict on each invariant, in their order, for the recording of that name.

    `streams` are the streams with their tables, of which one is in memory at a time; `values` are all other inputs.
    """
    tallies = {name: _Tally() for name in invariants}
    for stream, tables in streams:
        inputs = _Inputs(tables, values)
        for name, entry in invariants.items():
            taken = {parameter: inputs[parameter] for parameter in entry.inputs}
            for finding in entry.findings(**taken):
                tallies[name].add(stream, finding)
    return Verdicts(recording, tuple(tallies[name].verdict(name, entry) for name, entry in invariants.items()))


@dataclass(slots=True)
class _Tally:
    """What the findings on one invariant come to, of which it keeps only the first that is bad and the first left out.

    The first is the earliest; one without a time comes before.
    """

    judged: int = 0
    violations: int = 0
    good: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    whys: set[str] = field(default_factory=set)
    proof: tuple[tuple[Any, ...], Finding] | None = None
    harm: tuple[tuple[Any, ...], Finding] | None = None

    def add(self, stream: str, finding: Finding) -> None:
        """Count a finding in a stream."""
        self.judged += finding.judged
        self.good += finding.ok is True
        self.violations += finding.ok is False
        if finding.ok is None:
            self.whys.add(finding.what or "")
        elif not finding.ok:
            self.proof = _first(self.proof, stream, finding)
        elif finding.exemption is not None:
            self.left_out[finding.exemption] += 1
            self.harm = _first(self.harm, stream, finding)

    def verdict(self, name: str, entry: Invariant) -> Verdict:
        """The verdict on the invariant of that name."""
        # What was left out, counted: "154 late events of a dropped writer".
        counts = sorted(self.left_out.items())
        exceptions = listed([f"{counted(count, entry.exempt)} {exemption}" for exemption, count in counts]) or None
        what, evidence = None, tuple[Evidence, ...]()
        if first := self.proof or self.harm:
            what, evidence = first[1].what, tuple(first[1].evidence)
            what = what if self.proof else f"left out: {exceptions}; the first: {what}"
        elif not self.good:
            what = min(self.whys, default=entry.no_data) or None
        clocks = [each.row[column] for each in evidence for column in each.row if column.endswith("_ms")]
        return Verdict(
            invariant=name,
            title=entry.title,
            statement=entry.statement,
            verdict="violated" if self.violations else "ok" if self.good else "unknown",
            judged=self.judged,
            violations=self.violations,
            left_out=self.left_out.total(),
            exceptions=exceptions,
            what=what and with_moments(what, clock_ms=max(filter(None, clocks), default=None)),
            evidence=evidence,
        )


def _first(
    known: tuple[tuple[Any, ...], Finding] | None, stream: str, finding: Finding
) -> tuple[tuple[Any, ...], Finding]:
    """The earlier one of a known finding and another, each with what puts them in order."""
    time = (finding.at_ms is not None, finding.at_ms or 0)
    if known is not None and known[0][:2] < time:
        return known
    evidence = [(each.table, each.text) for each in finding.evidence]
    candidate = (*time, stream, finding.what or "", evidence), finding
    return candidate if known is None or candidate[0] < known[0] else known


class _Inputs(dict[str, Any]):
    """The inputs of rules over one stream, each made when it is first asked for."""

    def __init__(self, tables: Mapping[str, pa.Table], values: Inputs) -> None:
        super().__init__()
        self._tables, self._values = tables, values

    def __missing__(self, name: str) -> Any:
        if name in self._tables:
            made = self._tables[name].to_pylist(maps_as_pydicts="strict")
        else:
            made = self._values[name]
            if isinstance(made, Derived):
                made = made.make(**{name: self[name] for name in made.inputs})
        self[name] = made
        return made


def time_text(time_ms: int | None) -> str:
    """A time in a phrase: "29 400 ms" between two marks, by which `words.with_moments` tells it from a name."""
    return "unknown" if time_ms is None else f"{TIME_MARK}{grouped(time_ms)} ms{TIME_MARK}"


def span_text(length_ms: int | None) -> str:
    """A duration in a phrase."""
    return "unknown" if length_ms is None else exactly(length_ms)


def name_text(name: object) -> str:
    """A name, or a number, in a phrase; no name can look like a time."""
    return "unknown" if name is None else str(name).replace(TIME_MARK, "")
