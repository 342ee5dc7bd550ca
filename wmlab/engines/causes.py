"""Why a watermark does not advance or is behind: the causes, and how each is found in the reports of a job.

The rules of each engine are in `flink_rules` and `spark_rules`, pure functions over a `Job`, which find their cause or
nothing. A finding is `sure` where the job reported what excludes the other causes, which its `proof` states; `likely`
where another explanation would need a coincidence; and one of the `candidates` where the report does not tell. Then it
says what to look at next. The state of the job comes first, what holds the watermark before what only costs rows, and
candidates last, in the order of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, Literal

from wmlab.core.words import SECOND_MS, moment
from wmlab.engines.moments import Instance, Job, Moment

Certainty = Literal["sure", "likely", "candidates"]
"""How sure a finding is; of candidates the evidence does not tell which one it is."""


class Cause(StrEnum):
    """Why a watermark does not advance, is behind, or drops rows; `cannot tell` if the job has not reported enough."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    RESTARTING = "restarting"
    NOT_RUNNING = "not running"
    SILENT_SOURCE = "silent source"
    SILENT_SUBTASK = "silent subtask or partition"
    NO_WATERMARK = "source without watermark"
    SOURCE_BEHIND = "source behind"
    RESTARTS = "restarts"
    BACK_PRESSURE = "back pressure"
    TOO_SLOW = "query too slow for its source"
    JUMP = "jump into the future"
    AHEAD = "ahead of the clock"
    TIME_ZONE = "time zone"
    DELAY_TOO_LARGE = "delay larger than needed"
    NO_DATA_BATCHES = "no batches without rows"
    DELAY_TOO_SMALL = "delay smaller than the lateness"
    FASTEST_DECIDES = "watermark of the fastest source"
    ENDED = "ended"
    NO_FAULT = "no fault"
    NO_NEW_DATA = "no new data"
    CANNOT_TELL = "cannot tell"


Verdict = Literal["no fault", "held", "rows lost", "cannot tell", "not running"]
"""What a cause comes to, for somebody who has to be woken or not."""
SEVERITY: Final[tuple[Verdict, ...]] = ("no fault", "cannot tell", "rows lost", "held", "not running")
"""The verdicts, the worst one last."""

_NOT_RUNNING: Final = frozenset({Cause.FAILED, Cause.CANCELLED, Cause.RESTARTING, Cause.NOT_RUNNING})
_LOSING: Final = frozenset({Cause.JUMP, Cause.DELAY_TOO_SMALL, Cause.FASTEST_DECIDES})
_FINE: Final = frozenset({Cause.ENDED, Cause.NO_FAULT})
_HOLDING: Final = frozenset(Cause) - _NOT_RUNNING - _LOSING - _FINE - {Cause.CANNOT_TELL} | {Cause.JUMP}
"""The causes for which a window has to wait."""
_FOLLOW: Final = {
    **dict.fromkeys(_NOT_RUNNING, frozenset(Cause) - _NOT_RUNNING),
    Cause.JUMP: frozenset({Cause.DELAY_TOO_SMALL, Cause.NO_NEW_DATA, Cause.AHEAD}),
    Cause.TIME_ZONE: frozenset({Cause.NO_FAULT, Cause.SOURCE_BEHIND, Cause.AHEAD}),
    Cause.NO_DATA_BATCHES: frozenset({Cause.NO_FAULT, Cause.NO_NEW_DATA}),
    Cause.FASTEST_DECIDES: frozenset({Cause.DELAY_TOO_SMALL}),
}
"""Findings that are consequences of another cause: behind a jump rows are late, and none is newer."""
MOST_CANDIDATES: Final = 3

Reported = bool | int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evidence:
    """The values that a task or a source reported at one moment, as evidence for a finding; each with its name."""

    at_ms: int
    task: str
    subtask: int | None
    values: tuple[tuple[str, Reported], ...]

    @property
    def what(self) -> str:
        """The task and its values in words."""
        where = self.task if self.subtask is None else f"{self.task}, subtask {self.subtask}"
        return f"{where}: {', '.join(f'{name} {_shown(name, value)}' for name, value in self.values)}"

    def __repr__(self) -> str:
        return f"{moment(self.at_ms)}, {self.what}"


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return moment(value) if name.endswith("_ms") else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause: `what` was found, `whose` it is, since when, the evidence, and the remedy or what to look at next.

    `whose` is the source, subtask, partition or operator that holds the watermark, if known. `proof` is the evidence
    that excludes the other causes: only a finding with a proof is sure. `since_ms` is when it began, as far as the log
    goes back. `shift_ms` is how far the source is behind or has jumped, or the configured delay, and `needed_ms` is the
    delay that the rows would have needed.
    """

    cause: Cause
    what: str
    remedy: str
    certainty: Certainty = "candidates"
    proof: str = ""
    whose: str | None = None
    since_ms: int | None = None
    shift_ms: int | None = None
    needed_ms: int | None = None
    evidence: tuple[Evidence, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.proof:
            object.__setattr__(self, "certainty", "sure")

    @property
    def verdict(self) -> Verdict:
        """The result of the finding; for a candidate for a fault, it is "cannot tell"."""
        if self.cause in _NOT_RUNNING and self.certainty != "candidates":
            return "not running"
        if self.cause in _FINE:
            return "no fault"
        if self.certainty == "candidates" or self.cause is Cause.CANNOT_TELL:
            return "cannot tell"
        return "rows lost" if self.cause in _LOSING else "held"

    def __str__(self) -> str:
        return self.what


Rule = Callable[[Job], Finding | None]
"""Finds its cause, or nothing."""

BEHIND_MS: Final = 10 * SECOND_MS
"""By how much an input has to be behind another one to count as behind: a metric of Flink may be so old."""
FUTURE_MS: Final = 60 * SECOND_MS
"""How far beyond the clock, or beyond what is usual, a watermark has to rise to have jumped."""


def findings(job: Job, rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """What the rules find, the first one first, with three candidates at most; `cannot tell` if that is nothing."""
    of_rules = [each for rule in rules if (each := rule(job)) is not None]
    if not job.has_plan:
        of_rules = [replace(each, certainty="likely", proof="") if each.proof else each for each in of_rules]
    known = [each for each in of_rules if each.certainty != "candidates"]
    follow = {cause for each in known for cause in _FOLLOW.get(each.cause, ())}
    if any(each.cause in _HOLDING | _LOSING for each in known):
        follow.add(Cause.NO_FAULT)
        of_rules = [each for each in of_rules if each.certainty != "candidates" or each.cause is not Cause.NO_NEW_DATA]
    ranks = {cause: rank for rank, cause in enumerate(Cause)}
    own = [each for each in of_rules if each.cause not in follow]
    own.sort(key=lambda each: (_order(each), ranks[each.cause] if each.certainty != "candidates" else 0))
    certain = [each for each in own if each.certainty != "candidates"]
    causes = {each.cause for each in certain}
    if own:
        return (*certain, *[each for each in own if each.cause not in causes][:MOST_CANDIDATES])
    more = "for a minute or longer" if job.engine == "flink" else "until some batches with rows have come"
    why = "what was reported does not tell whether anything holds it"
    return (Finding(cause=Cause.CANNOT_TELL, what=why, remedy=f"Look {more}."),)


def _order(finding: Finding) -> int:
    if finding.certainty == "candidates":
        return 3
    return 0 if finding.cause in _NOT_RUNNING else 1 if finding.cause in _HOLDING else 2


def reported(instance: Instance, at: Moment, *names: str) -> Evidence:
    """What an instance reported at a moment, of the fields of `Moment` with these names."""
    values = tuple((name, getattr(at, name)) for name in names)
    return Evidence(at_ms=at.at_ms, task=instance.source, subtask=instance.subtask, values=values)


def last_reported(instances: Iterable[Instance], *names: str) -> tuple[Evidence, ...]:
    """What some instances reported last."""
    return tuple(reported(each, each.last, *names) for each in instances)


def late_since(job: Job, at_ms: int | None) -> int:
    """How many rows the tasks of the path have dropped as late since a moment; without one since the job began."""
    return sum(_late_of(instance, at_ms) for task in job.path for instance in job.tasks[task])


def _late_of(instance: Instance, at_ms: int | None) -> int:
    known = [(each.at_ms, each.late_records) for each in instance.moments if each.late_records is not None]
    before = [late for moment_ms, late in known if at_ms is not None and moment_ms <= at_ms]
    return grown([*(before[-1:] or [0]), *(late for moment_ms, late in known if at_ms is None or moment_ms > at_ms)])


def grown(counts: Sequence[int]) -> int:
    """By how much a counter has grown over its reports; one that falls has started again at 0.

    >>> grown([3, 5, 1, 2])
    4
    """
    return sum(after - before if after >= before else after for before, after in pairwise(counts))


def first_late_ms(job: Job) -> int:
    """When rows were first reported as dropped."""
    moments = sorted(
        each.at_ms
        for task in job.path
        for instance in job.tasks[task]
        for each in instance.moments
        if each.late_records
    )
    return moments[0]


def names_of(instances: Sequence[Instance]) -> list[str]:
    """The sources of some instances, each once."""
    return list(dict.fromkeys(each.source for each in instances))
