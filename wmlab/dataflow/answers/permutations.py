"""What came out of the same inputs in different orders: the distinct outputs, how often, and an example of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Final

import pyarrow as pa

from wmlab.core.words import counted, grouped
from wmlab.dataflow.model.items import Idle, Watermark
from wmlab.dataflow.model.permute import Outcome

_MOST: Final = 20
_NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permuted:
    """One distinct output: what left in its order (of a dataflow, the rows of its sinks, sorted), what it ends with,
    the number of orders that give it, and one of them: the inputs in the order of their items, or how to run it again.

    `failure` says why it ended early; None: it did not.
    """

    output: tuple[str, ...]
    final: str
    count: int
    example: tuple[str, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Permutations:
    """The distinct outputs, the most frequent first. `of` names what was run, `tried` counts the orders behind them,
    `total` all there are (None: unknown); `exact` says that none is missing.
    """

    of: str
    outcomes: tuple[Permuted, ...]
    tried: int
    total: int | None
    exact: bool
    ends: str = "final value"

    @property
    def finals(self) -> tuple[str, ...]:
        """The distinct ends of the outputs, the most frequent first."""
        found: Counter[str] = Counter()
        for one in self.outcomes:
            found[one.final] += one.count
        return tuple(final for final, _ in found.most_common())

    @property
    def sentence(self) -> str:
        """What the orders say in one sentence."""
        which = "all" if self.exact else "drawn" if self.total is None else f"drawn of {grouped(self.total)}"
        kinds = f"{counted(len(self.outcomes), 'distinct output')} and {counted(len(self.finals), self.ends)}"
        failed = sum(one.count for one in self.outcomes if one.failure is not None)
        fails = f"; {grouped(failed)} of them fail" if failed else ""
        depends = self._verdict()
        return f"{self.of}: {counted(self.tried, 'interleaving')} ({which}) give {kinds}{fails}. {depends}"

    def _verdict(self) -> str:
        if len(self.finals) > 1:
            return f"What comes out depends on the order: {' or '.join(self.finals[:4])}."
        so_far = "" if self.exact else " in what was drawn"
        if len(self.outcomes) > 1:
            return f"The steps differ, the end does not{so_far}: {self.finals[0]}."
        return f"The order does not matter{so_far}."

    def __iter__(self) -> Iterator[Permuted]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """The outputs as dicts, lists and scalars."""
        return asdict(self) | {"sentence": self.sentence}

    def to_json(self) -> str:
        """The outputs as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"

    def to_pandas(self) -> Any:
        """One row per distinct output as a pandas DataFrame: count, output, final, failure, example."""
        columns = {
            "count": pa.array([one.count for one in self.outcomes], pa.int64()),
            "output": pa.array([list(one.output) for one in self.outcomes], pa.list_(pa.string())),
            "final": pa.array([one.final for one in self.outcomes], pa.string()),
            "failure": pa.array([one.failure for one in self.outcomes], pa.string()),
            "example": pa.array([list(one.example) for one in self.outcomes], pa.list_(pa.string())),
        }
        return pa.table(columns).to_pandas()

    def __repr__(self) -> str:
        rows = [("orders", "output", self.ends, "for example"), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"  {row[0]:>{widths[0]}}  {row[1]:{widths[1]}}  {row[2]:{widths[2]}}  {row[3]}".rstrip() for row in rows
        ]
        return "\n".join([self.sentence, *lines, *self._more()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in ("orders", "output", self.ends, "for example"))
        body = "".join(
            f"<tr><td>{row[0]}</td>"
            + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self._rows()
        )
        more = "".join(f"<p>{escape(line.strip())}</p>" for line in self._more())
        return f"<table><caption>{escape(self.sentence)}</caption><tr>{head}</tr>{body}</table>{more}"

    def shown(self, one: Permuted) -> str:
        """The output in one line; what all outputs have in common is left out of rows, which have no order."""
        failed = f"fails: {one.failure}" if one.failure is not None else ""
        if self.total is not None:
            told = ", ".join(one.output) or _NOTHING
            return f"{told}, then {failed}" if failed else told
        common = Counter(self.outcomes[0].output)
        for other in self.outcomes[1:]:
            common &= Counter(other.output)
        own = sorted((Counter(one.output) - common).elements())
        shared = f"{counted(common.total(), 'row')} that all have" if common else ""
        return "; ".join(part for part in (shared, *own[:3], _rest(len(own) - 3), failed) if part) or _NOTHING

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (grouped(one.count), self.shown(one), one.final, " ".join(one.example)) for one in self.outcomes[:_MOST]
        ]

    def _more(self) -> list[str]:
        left = len(self.outcomes) - _MOST
        return [f"  {grouped(left)} more, less frequent"] if left > 0 else []


def _rest(count: int) -> str:
    return f"{grouped(count)} more" if count > 0 else ""


def permuted(outcome: Outcome, names: Sequence[str]) -> Permuted:
    """An outcome of merging in words; `names` are those of the inputs."""
    final = ", ".join(_mark(key, value, len(outcome.final) > 1 or key != 0) for key, value in outcome.final)
    end = (final or "no watermark") + (", idle" if outcome.idle else "")
    keyed = any(isinstance(item, Watermark) and item.key != 0 for item in outcome.output)
    told = tuple("idle" if isinstance(item, Idle) else _mark(item.key, item.value, keyed) for item in outcome.output)
    return Permuted(
        output=told,
        final="fails" if outcome.failure is not None else end,
        count=outcome.count,
        example=tuple(names[place] for place in outcome.example),
        failure=outcome.failure,
    )


def _mark(key: int, value: int, keyed: bool) -> str:
    return f"{key}:{grouped(value)}" if keyed else grouped(value)
