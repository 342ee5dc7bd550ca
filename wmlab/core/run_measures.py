"""What one run came to, in numbers: the bound that it is judged by, its lag behind the clock, and other measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wmlab.core.answers import Answer, html_table, text_table
from wmlab.core.words import grouped, is_instant, is_short, span

BoundSteps = Sequence[tuple[int, int | None]]
"""Clock and bound (ms) by row, None while it is unknown; a row holds to the next, the last one is the end of the run.

The clock ascends; of rows of one moment the last counts.
"""
Number = int | float | None
RunValues = tuple[str, tuple[Any, ...]]
"""A name and one value per run."""
_IN_MS: Final = " (ms)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a bound was behind the clock, in ms, while it was known.

    None: it never was, or it is a date where the clock is none.
    """

    mean_ms: float | None
    worst_ms: int | None

    @classmethod
    def of(cls, steps: BoundSteps) -> Lag:
        """The clock minus the bound, averaged over the time in which the bound is known, and at most."""
        known = [
            (at_ms, until_ms, bound)
            for (at_ms, bound), (until_ms, _) in pairwise(steps)
            if bound is not None and until_ms > at_ms
        ]
        clock, bounds = [at_ms for at_ms, _, _ in known], [bound for *_, bound in known]
        if not known or is_instant([clock[-1]]) != is_instant([bounds[-1]], clock=clock):
            return cls(mean_ms=None, worst_ms=None)
        known_ms = sum(until_ms - at_ms for at_ms, until_ms, _ in known)
        area = sum((until_ms - at_ms) * ((at_ms + until_ms) / 2 - bound) for at_ms, until_ms, bound in known)
        return cls(mean_ms=round(area / known_ms, 1), worst_ms=max(until_ms - bound for _, until_ms, bound in known))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunMeasures(Answer):
    """What one run came to: the bound that it is judged by, over the clock, and its measures by their names.

    `bound` is what the bound is called, for example "lower bound"; `lag_ms` its mean lag, None if it has none. A
    measure that is None is unknown. `settings` is the scenario as plain data with every default and option, None for a
    log.
    """

    name: str
    bound: str
    steps: BoundSteps
    lag_ms: float | None
    measures: Mapping[str, Number]
    settings: Mapping[str, Any] | None = None

    @property
    def sentence(self) -> str:
        """How far the bound lags, in one sentence."""
        if self.lag_ms is None:
            return f"The {self.bound} of {self.name} has no lag: it was never known, or counts from another time."
        return f"The {self.bound} of {self.name} lags {span(round(self.lag_ms))} on average."

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *text_table(self._rows())])

    def _repr_html_(self) -> str:
        return html_table(self.sentence, ("measure", "value"), self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        return measures_as_text([(name, (value,)) for name, value in self.measures.items()])


def with_lag(bound: str, lag: Lag) -> dict[str, Number]:
    """The measures of the lag of a bound, by their names."""
    return {f"mean lag of the {bound} (ms)": lag.mean_ms, f"worst lag of the {bound} (ms)": lag.worst_ms}


def measures_as_text(rows: Sequence[RunValues]) -> list[tuple[str, ...]]:
    """The rows as text; a measure in ms has its unit in its name, or from ten minutes on in its values."""
    written = []
    for name, values in rows:
        known = [round(value) for value in values if name.endswith(_IN_MS) and value is not None]
        if is_short(*known):
            written.append((name, *map(_text, values)))
        else:
            times = ("–" if value is None else span(round(value), beside_ms=max(known)) for value in values)
            written.append((name.removesuffix(_IN_MS), *times))
    return written


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return grouped(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
