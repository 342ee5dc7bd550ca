"""The measures of one run: the bound by which it is judged, the lag of this bound, what is late, and other numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wmlab.core.answers import Answer, html_table, text_table
from wmlab.core.charts.axis import Piece
from wmlab.core.late import Late
from wmlab.core.scenario_words import ScenarioWords
from wmlab.core.words import grouped, is_instant, is_short, joined, rounded

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
        pieces = [piece for piece in lag_pieces(steps) if piece[-1]]
        clock, bounds = [at_ms for at_ms, _ in steps], [bound for _, bound in steps if bound is not None]
        if not pieces or is_instant([clock[-1]]) != is_instant([bounds[-1]], clock=clock):
            return cls(mean_ms=None, worst_ms=None)
        known_ms = sum(length for *_, length in pieces)
        area = sum((first + last) / 2 * length for first, last, length in pieces)
        return cls(mean_ms=round(area / known_ms, 1), worst_ms=max(last for _, last, _ in pieces))


def lag_pieces(steps: BoundSteps) -> list[Piece]:
    """The lag of a bound while it is known, row by row: it grows with the clock until the next row.

    From which lag to which, and for how long, all in ms.
    """
    return [
        (at_ms - bound, until_ms - bound, until_ms - at_ms)
        for (at_ms, bound), (until_ms, _) in pairwise(steps)
        if bound is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunMeasures(Answer):
    """The measures of one run: the bound by which it is judged, over the clock, and its measures by name.

    `bound` is the name of the bound, for example "lower bound"; `lag_ms` is its mean lag, None if it has none; `late`
    is what came late, None if unknown. A measure that is None is unknown. `width_ms` is the mean distance of upper and
    lower bound, None without an upper bound. `scenario` is what was run, in words, None for a log. `failure` says why
    the run failed; empty if it did not. `results` counts the results, None if the run has none.
    """

    name: str
    bound: str
    steps: BoundSteps
    lag_ms: float | None
    measures: Mapping[str, Number]
    scenario: ScenarioWords | None = None
    late: Late | None = None
    failure: str = ""
    results: int | None = None
    width_ms: float | None = None

    @property
    def has_bound(self) -> bool:
        """Whether the bound was ever known."""
        return any(bound is not None for _, bound in self.steps)

    @property
    def sentence(self) -> str:
        """Whether the run failed, what came late, and how far the bound lags."""
        late = self.late.sentence if self.late is not None and self.late.is_any else ""
        lag = without_lag(self, self.name)
        if self.lag_ms is not None:
            lag = f"The {self.bound} of {self.name} lags {rounded(round(self.lag_ms))} on average."
        return joined(self.failure, late, lag)

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *text_table(self._rows())])

    def _repr_html_(self) -> str:
        return html_table(self.sentence, ("measure", "value"), self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        return measures_as_text([(name, (value,)) for name, value in self.measures.items()])


def without_lag(run: RunMeasures, name: str) -> str:
    """Why the bound of a run called `name` has no lag, in one sentence."""
    if run.has_bound:
        return f"The {run.bound} of {name} has no lag: it counts from another time than the clock."
    return f"{name} never had a {run.bound}."


def with_lag(bound: str, lag: Lag) -> dict[str, Number]:
    """The measures of the lag of a bound, by their names."""
    return {f"mean lag of the {bound} (ms)": lag.mean_ms, f"worst lag of the {bound} (ms)": lag.worst_ms}


def measures_as_text(rows: Sequence[RunValues]) -> list[tuple[str, ...]]:
    """The rows as text; a measure in ms has its unit in its name, or from 100 s on in its values."""
    written = []
    for name, values in rows:
        known = [round(value) for value in values if name.endswith(_IN_MS) and value is not None]
        if is_short(*known):
            written.append((name, *map(_text, values)))
        else:
            times = ("–" if value is None else rounded(value) for value in values)
            written.append((name.removesuffix(_IN_MS), *times))
    return written


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return grouped(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
