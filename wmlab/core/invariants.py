"""Invariants, the findings on each, and the verdict: what the checks of all models share.

A finding stands for something about an invariant that could be decided, good (`ok` True) or bad (`ok` False), or for
something that could not (`ok` None). A bad one carries its evidence: the rows of the recording's tables, cut down to
the columns that matter, each as (table, row), the row as JSON. A verdict is "violated" with the first proof, "ok" when
everything that could be decided was in order, or "unknown" when nothing could be. A good finding may have an exemption:
it says what went wrong and why that does not count, and the verdict says how many such things it leaves out.

An `Invariant` is a rule in Python over the rows of one stream, which runs in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Verdicts, unknown_invariant
from wmlab.core.words import TIME_MARK, counted, exactly, grouped, listed

Entry = TypeVar("Entry")
"""What is asked of a recording."""
Totals: TypeAlias = dict[str, Any]
"""What the findings on one invariant in one stream come to, by name: invariant and stream; judged, violations and good
(how many single things, bad findings, and good ones); left_out (how many good ones are left out, by their `exemption`);
the first bad one (proof) and the first one left out (harm), each with at_ms, stream, what and evidence, or None; and
the first reason (why) that something was not decided."""

TableRow: TypeAlias = Mapping[str, Any]
TableRows: TypeAlias = Sequence[TableRow]
"""Rows of a table, by column; maps are dicts."""

Inputs: TypeAlias = Mapping[str, Any]
"""What rules take, by name: an Arrow table, of which a rule gets the rows of its stream as a list of dicts, with maps
as dicts; a `Derived`; or any other value, which is handed on."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row of a table of the recording, cut down to the columns that matter, as JSON."""

    table: str
    row: str

    @classmethod
    def of(cls, table: str, row: TableRow, *columns: str, **others: object) -> Evidence:
        """These columns of a row, and others with a value of their own; a segment id in a map is a text, as in JSON."""
        chosen = {column: row[column] for column in columns} | others
        return cls(table, json.dumps(chosen, ensure_ascii=False, separators=(",", ":")))


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
    """One statement, the rule that gives its findings on one stream, and why there may be none.

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


def invariant(
    statement: str, no_data: str, *, title: str = "", exempt: str = "exception"
) -> Callable[[Callable[..., Iterable[Finding]]], Invariant]:
    """Makes the rule that it stands above an invariant."""
    return lambda findings: Invariant(statement, findings, no_data, title, exempt)


def totals_of(
    invariants: Mapping[str, Invariant], tables: Mapping[str, pa.Table], values: Inputs, stream: str
) -> list[dict[str, Any]]:
    """The `Totals` of each invariant, from the tables of one stream; `values` are all other inputs."""
    inputs = _OfStream(tables, values)
    rows = []
    for name, entry in invariants.items():
        findings = entry.findings(**{parameter: inputs[parameter] for parameter in entry.inputs})
        rows.append({"invariant": name, "stream": stream} | _totals(findings, stream))
    return rows


def of_one_stream(tables: Mapping[str, pa.Table], stream: str) -> dict[str, pa.Table]:
    """The rows of one stream; a table without the column `stream` is about all of them."""
    return {
        name: table.filter(pc.equal(table["stream"], stream)) if "stream" in table.schema.names else table
        for name, table in tables.items()
    }


def judged_in_memory(
    recording: str,
    invariants: Mapping[str, Invariant],
    totals: Callable[[Mapping[str, Invariant]], Iterable[TableRow]],
    only: Sequence[str],
) -> Verdicts:
    """The verdicts on a recording; `totals` makes the `Totals` of the rules that are chosen.

    `only` names those that are judged; without names, all are. Raises `ModelError` for a name that is none.
    """
    chosen = chosen_of(invariants, only)
    return Verdicts.of(recording, verdicts_of(chosen, list(totals(chosen))))


def with_liveness(
    invariants: Mapping[str, Entry], liveness: Mapping[str, Entry], only: Sequence[str]
) -> Mapping[str, Entry]:
    """Those among which `only` chooses; without names, the ones that can be judged of every run.

    Raises `ModelError` for a name that is none.
    """
    require_known(only, invariants, liveness)
    return {**invariants, **liveness} if only else invariants


def chosen_of(invariants: Mapping[str, Entry], only: Sequence[str]) -> dict[str, Entry]:
    """Those that `only` names, in their order; without names, all. Raises `ModelError` for a name that is none."""
    require_known(only, invariants)
    return {name: entry for name, entry in invariants.items() if name in only or not only}


def require_known(only: Sequence[object], invariants: Collection[str], by_name: Collection[str] = ()) -> None:
    """Raise `ModelError` for a name of no invariant; those in `by_name` are judged only when they are named."""
    for name in only:
        if not isinstance(name, str) or name not in {*invariants, *by_name}:
            raise unknown_invariant(name, invariants, by_name)


def verdicts_of(invariants: Mapping[str, Any], totals: TableRows) -> list[dict[str, Any]]:
    """The verdict on each invariant, in their order, from `Totals`."""
    return [
        verdict_of(name, entry, [row for row in totals if row["invariant"] == name])
        for name, entry in invariants.items()
    ]


def _totals(findings: Iterable[Finding], stream: str) -> dict[str, Any]:
    """What the findings on one stream come to, see `Totals`."""
    totals: dict[str, Any] = dict.fromkeys(("judged", "violations", "good"), 0)
    left_out = Counter[str]()
    first: dict[str, dict[str, Any] | None] = {"proof": None, "harm": None}
    whys = []
    for finding in findings:
        totals["judged"] += finding.judged
        totals["good"] += finding.ok is True
        totals["violations"] += finding.ok is False
        if finding.ok is None:
            whys.append(finding.what or "")
        elif not finding.ok or finding.exemption is not None:
            kind = "harm" if finding.ok else "proof"
            left_out.update([finding.exemption] if finding.ok and finding.exemption is not None else [])
            evidence = [{"table": proof.table, "row": proof.row} for proof in finding.evidence]
            proof = {"at_ms": finding.at_ms, "stream": stream, "what": finding.what, "evidence": evidence}
            first[kind] = min(filter(None, (first[kind], proof)), key=_order)
    return totals | first | {"left_out": sorted(left_out.items()), "why": min(whys, default=None)}


def _order(proof: TableRow) -> tuple[Any, ...]:
    """The first proof is the earliest one; one without a time comes before."""
    rows = [(evidence["table"], evidence["row"]) for evidence in proof["evidence"] or ()]
    time = (proof["at_ms"] is not None, proof["at_ms"] or 0)
    return *time, proof["stream"] or "", proof["what"] or "", rows


def verdict_of(name: str, entry: Any, totals: TableRows) -> dict[str, Any]:
    """The verdict on one invariant from its `Totals`."""
    judged, violations, good = (sum(row[column] for row in totals) for column in ("judged", "violations", "good"))
    proof = min((row["proof"] for row in totals if row["proof"] is not None), key=_order, default=None)
    harm = min((row["harm"] for row in totals if row["harm"] is not None), key=_order, default=None)
    why = min((row["why"] for row in totals if row["why"] is not None), default=entry.no_data)
    left_out = Counter[str]()
    for row in totals:
        left_out.update(dict(row["left_out"]))
    exceptions = _exceptions(getattr(entry, "exempt", ""), left_out)
    what = None
    if proof is not None:
        what = proof["what"]
    elif harm is not None:
        what = f"left out: {exceptions}; the first: {harm['what']}"
    elif not good:
        what = why
    first = proof or harm
    return {
        "invariant": name,
        "title": getattr(entry, "title", ""),
        "statement": entry.statement,
        "verdict": "violated" if violations else "ok" if good else "unknown",
        "judged": judged,
        "violations": violations,
        "left_out": left_out.total(),
        "exceptions": exceptions,
        "what": what,
        "evidence": None if first is None else first["evidence"],
    }


def _exceptions(exempt: str, left_out: Mapping[str, int]) -> str | None:
    """What was left out, counted: "154 late events of a dropped writer"; None: nothing was."""
    if not left_out:
        return None
    return listed([f"{counted(count, exempt)} {exemption}" for exemption, count in sorted(left_out.items())])


class _OfStream:
    """The inputs of rules over one stream: rows of tables, what is made of them, and other values."""

    def __init__(self, tables: Mapping[str, pa.Table], values: Inputs) -> None:
        self.tables, self.values = tables, values
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def _make(self, name: str) -> Any:
        if name in self.tables:
            return self.tables[name].to_pylist(maps_as_pydicts="strict")
        value = self.values[name]
        if isinstance(value, Derived):
            return value.make(**{name: self[name] for name in value.inputs})
        return value


def time_text(time_ms: int | None) -> str:
    """A time in a phrase: "29 400 ms" between two marks, by which `words.with_moments` tells it from a name."""
    return "unknown" if time_ms is None else f"{TIME_MARK}{grouped(time_ms)} ms{TIME_MARK}"


def span_text(length_ms: int | None) -> str:
    """A duration in a phrase."""
    return "unknown" if length_ms is None else exactly(length_ms)


def name_text(name: object) -> str:
    """A name, or a number, in a phrase; no name can look like a time."""
    return "unknown" if name is None else str(name).replace(TIME_MARK, "")
