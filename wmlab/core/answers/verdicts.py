"""The verdicts of a check as one value: what holds in a recording, what does not, and the rows that prove it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Final, Literal

import pyarrow as pa

from wmlab.core.answers.answer import Cell, Markup, TableAnswer
from wmlab.core.errors import ModelError
from wmlab.core.words import counted, grouped, segment_name, with_moments

Judgement = Literal["ok", "violated", "unknown"]
_OFFSETS: Final = ("cut", "position")


@dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """One row that proves a violation: the table it stands in, and its columns that matter.

    Offset maps are keyed by segment name, "number@epoch".
    """

    table: str
    row: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.table}: {', '.join(f'{name} {_shown(name, value)}' for name, value in self.row.items())}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """The verdict on one invariant.

    `judged` counts the single things that could be judged and `violations` those found wrong; `what` is the first
    violation, or why nothing could be judged, and None when all is well; `evidence` proves the first violation.
    """

    invariant: str
    statement: str
    verdict: Judgement
    judged: int
    violations: int
    what: str | None
    evidence: tuple[Proof, ...] = ()

    def __repr__(self) -> str:
        lines = [f"{self.invariant} {self.verdict}: {self.statement} ({self._count()})"]
        lines += [f"    {self.what}"] if self.what else []
        return "\n".join([*lines, *(f"    {proof!r}" for proof in self.evidence)])

    def _count(self) -> str:
        if self.verdict == "unknown":
            return "nothing to judge"
        judged = grouped(self.judged)
        return f"{grouped(self.violations)} of {judged}" if self.violations else f"{judged} judged"


@dataclass(frozen=True, slots=True, repr=False)
class Verdicts(TableAnswer[Verdict]):
    """One verdict per invariant, in their order; `verdicts["I4"]` is one of them, iteration gives all."""

    name: str
    verdicts: tuple[Verdict, ...]

    entries = "verdicts"
    heads = ("", "verdict", "judged", "what")
    left = left_heads = (3,)
    schema = pa.schema(
        [(name, pa.string()) for name in ("invariant", "statement", "verdict")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("judged", "violations")]
        + [("what", pa.string())]
    )

    @classmethod
    def of(cls, name: str, rows: Iterable[Mapping[str, Any]]) -> Verdicts:
        """From the rows of `wmlab.core.spark.verdict.verdict` for the recording called `name`."""
        verdicts = []
        for row in rows:
            proofs = tuple(Proof(proof["table"], _columns(json.loads(proof["row"]))) for proof in row["evidence"] or ())
            given = {column: row[column] for column in cls.schema.names}
            given["what"] = with_moments(row["what"]) if row["what"] else row["what"]
            verdicts.append(Verdict(**given, evidence=proofs))
        return cls(name, tuple(verdicts))

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the invariants that are violated."""
        return tuple(v.invariant for v in self.verdicts if v.verdict == "violated")

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the invariants that could not be judged."""
        return tuple(v.invariant for v in self.verdicts if v.verdict == "unknown")

    def __getitem__(self, invariant: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.invariant == invariant:
                return verdict
        raise unknown_invariant(invariant, [v.invariant for v in self.verdicts])

    def to_dict(self) -> dict[str, Any]:
        """The verdicts as dicts, lists and scalars."""
        return {"recording": self.name, "verdicts": [asdict(verdict) for verdict in self.verdicts]}

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        ok = len(self.verdicts) - len(self.violated) - len(self.unknown)
        parts = [f"{counted(ok, 'invariant')} of {len(self.verdicts)} {'holds' if ok == 1 else 'hold'}"]
        parts += [f"violated: {', '.join(self.violated)}"] if self.violated else []
        parts += [f"unknown: {', '.join(self.unknown)}"] if self.unknown else []
        return "; ".join(parts)

    def __repr__(self) -> str:
        return "\n".join([f"Check of {self.name!r}: {self.sentence}", *(repr(v) for v in self.verdicts)])

    def _caption(self) -> str:
        return f"<b>{escape(self.name)}</b>: {escape(self.sentence)}"

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        for verdict in self.verdicts:
            what = [f"<b>{escape(verdict.what)}</b>"] if verdict.what else []
            lines = [escape(verdict.statement), *what, *(escape(repr(proof)) for proof in verdict.evidence)]
            yield verdict.invariant, verdict.verdict, verdict._count(), Markup("<br>".join(lines))


def unknown_invariant(name: str, known: Iterable[str]) -> ModelError:
    """The error for an invariant that is none of the known ones."""
    return ModelError(f"There is no invariant {name!r}.", remedy=f"Ask for one of {', '.join(known)}.")


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {segment_name(int(segment)): offset for segment, offset in value.items()} if name in _OFFSETS else value
        for name, value in row.items()
    }


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if name == "segment_id":
        return segment_name(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key}: {'end' if item is None else item}" for key, item in value.items())
        return f"{{{inner}}}"
    return str(value)
