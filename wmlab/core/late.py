"""What came late in a run: one answer with one vocabulary, for events, rows and buffers, and the bounds of all models.

A bound promises that what comes later is not below it. What comes below it all the same is late. Whether anybody
suffers by that is another matter: a reader may not have been shown the bound yet, and a window may still be open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from wmlab.core.facts import FactAnswer, Facts, Kind, Value, vocabulary

Span = tuple[int, int]
"""From when to when (clock, ms)."""
LABELS: Final = vocabulary(
    ("what", Kind.WORD, "what came late: events, rows or buffers"),
    ("bound", Kind.NAME, "the bound below which they came"),
    ("late", Kind.COUNT, "how many came below the bound that had been given before"),
    (
        "late at most by",
        Kind.LENGTH,
        "the most by which the bound was above one of them, or above the end of its window",
    ),
    ("late for", Kind.LENGTH, "how long the bound was above one of them that was still to come"),
    ("late for a reader", Kind.COUNT, "how many a group read first below a bound that it had been shown before"),
    ("left out", Kind.COUNT, "how many are left out: by I6, by the rule of a vertex, or of windows that had fired"),
    ("left out because", Kind.WORD, "why they are left out, the most frequent reason first"),
)
_NONE: Final = "No {what} came below {bound}."
_SOME: Final = "Late {what}: {late}, below {bound} by at most {late at most by}."
_READ: Final = "Late for a reader: {late for a reader}, of which left out: {left out}."
_LEFT_OUT: Final = "Left out: {left out}, {left out because}."
COUNTS: Final = {"late": "Late {what}", "late for a reader": "Late for a reader"}
"""The labels by which something is late, and what stands before their numbers."""
_MEASURED: Final = {Kind.COUNT: "", Kind.LENGTH: " (ms)"}
"""The kinds of facts that are measures of a run, and the unit behind their names."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Late(FactAnswer):
    """What came late in a run, see `LABELS`; a label that says nothing in a model is not there."""

    facts: Facts
    templates: tuple[str, ...]

    @classmethod
    def of(
        cls,
        what: str,
        bound: str,
        *,
        late: int,
        at_most_ms: int | None,
        for_ms: int,
        left_out: Mapping[str, int],
        read: int | None = None,
    ) -> Self:
        """From the figures; `left_out` counts by reasons, `read` is None where no reader is shown a bound."""
        reasons = sorted(left_out, key=lambda reason: (-left_out[reason], reason))
        counted = sum(left_out.values()), tuple(reasons) or None
        values: dict[str, Value] = dict(
            zip(LABELS, (what, bound, late, at_most_ms, for_ms, read, *counted), strict=True)
        )
        second = (_READ,) if read else (_LEFT_OUT,) if left_out else ()
        return cls(facts=Facts(LABELS, values), templates=(_SOME if late else _NONE, *second))

    @property
    def is_any(self) -> bool:
        """Whether anything is late, in any sense."""
        return any(self.count(label) for label in COUNTS)

    def count(self, label: str) -> int:
        """How many are late, by one of `COUNTS`; 0 where the label is not there."""
        number = self.facts.get(label)
        return number if isinstance(number, int) else 0

    @property
    def measures(self) -> dict[str, int]:
        """The numbers among the facts, as measures of a run."""
        kinds = {label: self.facts.label(label).kind for label in self.facts}
        return {
            f"{label}{_MEASURED[kinds[label]]}": value
            for label, value in self.facts.items()
            if kinds[label] in _MEASURED and isinstance(value, int)
        }


def covered_ms(spans: Sequence[Span]) -> int:
    """How long at least one of the spans lasts."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        from_ms = begin if reached is None else max(begin, reached)
        total += max(0, end - from_ms)
        reached = end if reached is None else max(reached, end)
    return total
