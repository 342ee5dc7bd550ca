"""The bounds that one reader or group saw over its clock: how they moved and stopped, whether they were safe.

The lower bound says that no event with a smaller time is still to come; the perfect watermark is the smallest time
that really was still to come. A lower bound above it is not safe. The upper bound is the largest time a writer had
noted ahead of the reader; it is a hint and says nothing certain about events (pravega/pravega#4182).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median_low
from typing import Final

from wmlab.core.charts.axis import time_words
from wmlab.core.charts.chart import incident_words
from wmlab.core.charts.scene import ConstantSpan, Value, constant_spans, minus
from wmlab.core.words import grouped, joined, rounded
from wmlab.streams.answers.step_curves import how_long, lengths_ms, mean_of, time_of

CauseWords = Callable[[int, int], str]
"""What held the curve from one moment to another (clock, ms), as a clause; "" if it is not known."""
_VERBS: Final = {
    "crash": "crashes",
    "restart": "restarts",
    "silence": "falls silent",
    "speak": "speaks again",
    "idle": "is idle",
    "active": "is active again",
    "shut_down": "shuts down",
    "upgrade": "runs with another client",
}
_NOTABLE: Final = 3
"""A stop is worth a sentence if it is so many times as long as the usual step."""


@dataclass(frozen=True, slots=True, order=True)
class Incident:
    """What happened to the stream: when (clock, ms), of which kind (scale, crash, silence and so on), and in words.

    `target` is to whom or what it happened; without it `what` is the name of that for a crash and the like.
    """

    at_ms: int
    kind: str
    what: str
    target: str = ""

    @property
    def label(self) -> str:
        """What a chart writes next to its line: "w2 crashes", "scale 0@0 → 2@1, 3@1", "payments aborts"."""
        if self.kind in _VERBS and self.what and not self.target:
            return f"{self.what} {_VERBS[self.kind]}"
        return incident_words(self.kind, self.what)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsTable:
    """The bounds that one reader or group saw, ascending by `at_ms`; None is unknown.

    `perfect_watermark` and `upper_later` are None as a whole if the table has no such column. `complete_log`:
    watermarks counted before they were emitted.
    """

    stream: str
    group: str | None
    reader: str | None
    at_ms: list[int]
    lower: list[Value]
    upper: list[Value]
    perfect_watermark: list[Value] | None
    incidents: list[Incident]
    complete_log: bool = False
    upper_later: list[Value] | None = None

    @property
    def later(self) -> list[Value]:
        """The upper bound that became known later, where none was known then."""
        later = self.upper_later or [None] * len(self.at_ms)
        return [later if upper is None else None for upper, later in zip(self.upper, later, strict=True)]

    @property
    def perfect(self) -> list[Value]:
        """The perfect watermark, unknown throughout if there is no such column."""
        return self.perfect_watermark or [None] * len(self.at_ms)

    @property
    def longest_stop(self) -> ConstantSpan | None:
        """The longest time in which the lower bound kept one known value; None if it never did for any time."""
        return max(_steps(self.at_ms, self.lower), key=lambda step: step.length_ms, default=None)

    def until(self, end_ms: int) -> BoundsTable:
        """The table with the bounds of its last row until `end_ms` (clock), where it ends before."""
        if self.at_ms[-1] >= end_ms:
            return self
        return replace(
            self,
            at_ms=[*self.at_ms, end_ms],
            lower=[*self.lower, self.lower[-1]],
            upper=[*self.upper, self.upper[-1]],
            perfect_watermark=None if self.perfect_watermark is None else [*self.perfect_watermark, None],
            upper_later=None if self.upper_later is None else [*self.upper_later, None],
        )

    @property
    def breaches(self) -> list[tuple[int, int, int]]:
        """Where every stretch begins with a lower bound above the perfect watermark: clock, lower, by how much."""
        excess = minus(self.lower, self.perfect)
        rows = zip(self.at_ms, self.lower, excess, [None, *excess[:-1]], strict=True)
        return [
            (at, lower, above)
            for at, lower, above, before in rows
            if lower is not None and above is not None and above > 0 >= (before or 0)
        ]

    @property
    def is_unsafe(self) -> list[bool]:
        """Of each row whether the lower bound is above the perfect watermark."""
        return [slack is not None and slack < 0 for slack in minus(self.perfect, self.lower)]


def _steps(at_ms: Sequence[int], lower: Sequence[Value]) -> list[ConstantSpan]:
    """The stretches in which a lower bound kept one known value for some time."""
    return [span for span in constant_spans(at_ms, lower) if span.value is not None and span.length_ms]


def notable_stop(at_ms: Sequence[int], lower: Sequence[Value]) -> ConstantSpan | None:
    """The longest stop of a lower bound, if it is much longer than the usual step, or the only one; else None."""
    steps = _steps(at_ms, lower)
    longest = max(steps, key=lambda step: step.length_ms, default=None)
    if longest is None or len(steps) == 1 or longest.length_ms >= _NOTABLE * median_low(s.length_ms for s in steps):
        return longest
    return None


def bounds_sentences(table: BoundsTable, cause_words: CauseWords = lambda *_: "") -> str:
    """How the lower bound moved, when it stopped for longest and why, and whether it was safe.

    It is computed in integers from all rows and the time for which each holds.
    """
    known = [value for value in table.lower if value is not None]
    texts = [_movement(table, known), _stop(table, cause_words), _safety(table)] if known else [_unknown(table)]
    return joined(*texts)


def _unknown(table: BoundsTable) -> str:
    upper = "" if any(value is not None for value in table.upper) else ", and neither was an upper bound"
    return f"{_subject(table)} was never known{upper}."


def _subject(table: BoundsTable) -> str:
    """What the lower bound is: a watermark as somebody sees it, which is not always the newest one."""
    seen = f"that group {table.group} knew" if table.group is not None else "(lower bound)"
    if table.reader is not None:
        seen = f"that {table.reader} saw"
    hindsight = "In hindsight, the" if table.complete_log else "The"
    return f"{hindsight} watermark {seen}"


def _movement(table: BoundsTable, known: Sequence[int]) -> str:
    event = time_words([*table.lower, *table.upper, *table.perfect], clock=table.at_ms)
    lower = _subject(table)
    missing = how_long(lengths_ms(table.at_ms), [value is None for value in table.lower])
    unknown = f", and was unknown {missing}" if missing else ""
    if table.longest_stop is None:
        return f"{lower} is {event(known[-1])} at {time_words(table.at_ms)(table.at_ms[-1])}{unknown}."
    if len(set(known)) == 1:
        return f"{lower} stayed at {event(known[0])}{unknown}."
    back = sum(later < earlier for earlier, later in pairwise(known))
    times = "once" if back == 1 else f"{grouped(back)} times"
    moved = f"rose from {event(known[0])} to {event(known[-1])}"
    if back:
        moved = f"went back {times} between {event(known[0])} and {event(known[-1])}"
    return f"{lower} {moved}{unknown}."


def _stop(table: BoundsTable, cause_words: CauseWords) -> str:
    stop = table.longest_stop
    if stop is None:
        return ""
    lasted = rounded(stop.length_ms)
    if notable_stop(table.at_ms, table.lower) is None:
        return f"It never stopped for longer than {lasted}."
    clock = time_words(table.at_ms)
    until = "" if stop.ended else "the end at "
    cause = cause_words(stop.from_ms, stop.to_ms)
    why = f": {cause}" if cause else ""
    return f"It stopped for {lasted}, from {clock(stop.from_ms)} to {until}{clock(stop.to_ms)}{why}."


def _safety(table: BoundsTable) -> str:
    """For how long the lower bound is above the perfect watermark; empty if that cannot be checked anywhere."""
    behind, lengths, unsafe = minus(table.perfect, table.lower), lengths_ms(table.at_ms), table.is_unsafe
    checked = [slack is not None for slack in behind]
    checked_ms = time_of(lengths, checked)
    if not any(checked):
        return ""
    if any(unsafe):
        of_all = f" of {rounded(checked_ms)}" if time_of(lengths, unsafe) else f" of {grouped(sum(checked))}"
        first_ms, most = table.at_ms[unsafe.index(True)], -min(slack for slack in behind if slack is not None)
        return (
            f"It was unsafe {how_long(lengths, unsafe)}{of_all}, from {time_words(table.at_ms)(first_ms)} on: "
            f"above the perfect watermark by up to {rounded(most)}."
        )
    mean_ms = mean_of(behind, lengths)
    distance = f"on average {rounded(mean_ms)} behind the perfect watermark"
    if not mean_ms:
        distance = "at the perfect watermark"
    where = "all the time" if all(checked) and checked_ms else "wherever that can be checked"
    return f"It was safe {where}, {distance}."


UPPER_BOUND: Final = "What is an upper bound?"
"""The question under which a chart folds what there is to say of the upper bound."""


def upper_bound_sentences(table: BoundsTable) -> str:
    """What an upper bound is, and for how long there was none, or a wrong one."""
    lengths = lengths_ms(table.at_ms)
    texts = [
        "It is the latest time that a writer had noted ahead of the reader.",
        "It is a hint: it says nothing certain about events.",
    ]
    missing = [value is None for value in table.upper]
    if all(missing):
        texts.append("It was never known here.")
    elif any(missing):
        texts.append(f"It was unknown {how_long(lengths, missing)}.")
    if table.complete_log:
        texts.append("In hindsight, a watermark counts before it was emitted.")
    elif any(missing):
        texts.append("It is known only while a watermark is ahead of the reader.")
    below = how_long(lengths, [width is not None and width < 0 for width in minus(table.upper, table.perfect)])
    return " ".join([*texts, *([f"It was below the perfect watermark {below}."] if below else [])])
