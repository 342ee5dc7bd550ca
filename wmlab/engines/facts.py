"""The facts of a job: what follows by arithmetic from what its engine reported, each with the metrics that it reads.

A fact holds, does not hold, or is not known, since a metric of it was not reported. It names no cause: `verdicts` and
`causes` read the facts. `flink_facts` and `spark_facts` have one small function for each, of the fact's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Generic, TypeVar

from wmlab.core.facts import Facts, Kind, Value, vocabulary
from wmlab.core.words import DAY_MS, MINUTE_MS, SECOND_MS, as_sentence
from wmlab.engines.moments import Instance, Job

BEHIND_MS: Final = 10 * SECOND_MS
"""By how much one value has to be behind another one to count as behind: a metric of Flink may be so old."""
CHANGES_MS: Final = 12 * SECOND_MS
"""By how much a distance to the clock has to change to have changed: at both ends a metric may be that old."""
FAR_MS: Final = MINUTE_MS
"""How far from the clock a watermark may be before somebody has to look."""

WORDS: Final[Mapping[str, tuple[str, str]]] = {
    # The state of the job.
    "failed": ("it has failed: {exception}", "state"),
    "cancelled": ("it was cancelled, seen first at {since}", "state"),
    "restarting": ("it has failed and waits to restart: {exception}", "state"),
    "not running": ("it does not run any more, it is {state}", "state"),
    "may have ended": ("nobody knows whether it runs since {since}", "state, status"),
    "restarted": ("{other} had read {rows_before} rows, and then {rows}: it has started again", "numRecordsOut"),
    "restarts on": ("it has started again more than once, or has not moved since", "numRecordsOut"),
    # Where the watermark is.
    "short log": ("fewer than three polls, or two batches with rows, have been reported", "all"),
    "needs none": ("no operator waits for a watermark, and rows come, {rows} so far", "plan, operatorName"),
    "stands": ("the watermark stands", "currentInputWatermark"),
    "may stand": ("the watermark has not moved for a little longer than a metric is old", "currentInputWatermark"),
    "none yet": ("there has been no watermark yet", "currentInputWatermark; eventTime.watermark"),
    "moves": ("it moves, {behind} behind", "currentInputWatermark; eventTime"),
    "near": ("it is as near to the clock as usual", "currentInputWatermark"),
    **dict.fromkeys(
        ("far", "grows"),
        ("it is {behind} behind, {change} of it since the log began", "currentInputWatermark; eventTime"),
    ),
    "queue grows": (
        "it is {behind} behind what the sources send, and {change} of that have come in the log",
        "currentInputWatermark, currentOutputWatermark",
    ),
    "distance changes": ("its distance to the clock changes in the log", "currentInputWatermark"),
    "late": (
        "{rows} rows or groups were dropped as late in the log",
        "numLateRecordsDropped; numRowsDroppedByWatermark",
    ),
    # What holds it: an operator.
    "operator stands": (
        "{holder} has got {got}, and sends {sent} all the while: {rows} rows in, {rows_out} out",
        "currentInputWatermark, currentOutputWatermark",
    ),
    "never sent": ("it has never sent a watermark, and there is no assigner of mini-batches", "currentOutputWatermark"),
    "operator later": ("{holder} sends what it gets {behind} later", "currentInputWatermark, currentOutputWatermark"),
    "not arrived": ("{holder} has not got what its inputs have sent", "currentInputWatermark, currentOutputWatermark"),
    "busy": ("{holder} is at work in {share} of its time", "busyTimeMsPerSecond"),
    "takes none": ("{holder} has taken no row since {since}, and its inputs have sent on", "numRecordsIn"),
    "late task busy": ("{holder}, which has not got it, is at work in {share} of its time", "busyTimeMsPerSecond"),
    "pressed": ("{holder} waits for the next task in {share} of its time", "backPressuredTimeMsPerSecond"),
    "holder at work": ("what holds it reads nothing, and is at work or pressed", "busy-, backPressuredTimeMsPerSecond"),
    "paused": ("alignment pauses {waiting} in {share} of its time, it waits for {holder}", "pausedTimeMsPerSecond"),
    # What holds it: a source, a subtask of it, or a split of that.
    **dict.fromkeys(
        ("source silent", "subtask silent", "source quiet", "subtask quiet"),
        ("{holder} has read {rows} rows, and none since {since}; others do", "numRecordsOut"),
    ),
    "no split left": (
        "{holder} has had no split since {since}: each has ended, or another subtask reads it",
        "split currentWatermark, currentOutputWatermark",
    ),
    "split silent": ("the watermark of {holder} stands, that of {other} is ahead", "split currentWatermark"),
    **dict.fromkeys(
        ("source behind", "subtask behind", "split behind"),
        ("{holder} is {behind} behind {other}, a change of {change} in the log", "currentOutputWatermark; split"),
    ),
    "gap changes": ("that distance changes in the log, which a delay does not", "currentOutputWatermark"),
    "all silent": ("no source has read a row since {since}", "numRecordsOut; numInputRows"),
    "pending": ("{rows} rows wait in the source", "pendingRecords; maxOffsetsBehindLatest"),
    "several splits": ("a subtask may read several splits of which nothing tells", "split currentWatermark"),
    "none newer": ("{holder} reads, and its watermark stays {sent}", "numRecordsOut, currentOutputWatermark"),
    "reads without": ("{holder} has read {rows} rows and given no watermark", "numRecordsOut, currentOutputWatermark"),
    "sibling has one": ("others of its subtasks have a watermark", "currentOutputWatermark"),
    "other has one": ("another task of the job has a watermark", "currentOutputWatermark"),
    "rows end": ("{holder} has got {rows} rows and passed none on", "numRecordsIn, numRecordsOut"),
    "idle": ("{holder} is idle by a timeout, and holds nothing", "split idleTimeMsPerSecond"),
    "source ended": ("{holder} has ended, and nobody waits for it", "status"),
    # What the plan, the settings and the values say.
    "of SQL": ("the job is one of Flink SQL", "plan"),
    "of Spark": ("the engine is Spark", "sources"),
    "several sources": ("it has several sources", "plan; sources"),
    "made in scan": ("the source of the table makes its watermark", "plan"),
    "aligned": ("alignment is set, or sources wait for each other", "watermarkAlignmentDrift, numRecordsOut"),
    "declared": ("the plan declares a watermark by an expression", "plan"),
    "undeclared": ("the plan has no watermark for {holder}", "plan"),
    "delay stated": ("the plan states its delay", "plan"),
    "delay small": ("the plan states a delay of {delay}", "plan"),
    "delay explains": ("{holder} is behind by its delay, {delay}", "plan, currentOutputWatermark"),
    "local time": ("the plan takes LOCALTIMESTAMP for the event time", "plan"),
    "whole quarters": (
        "the times of {holder} are {behind} off the clock in every poll, whole quarters of an hour",
        "currentOutputWatermark",
    ),
    **dict.fromkeys(
        ("unit", "unit and speed"),
        ("the times of {holder} are those of a clock in {in_unit}", "currentOutputWatermark; eventTime.max"),
    ),
    "near 1970": ("the times of {holder} are {behind} after 1970", "currentOutputWatermark; eventTime.max"),
    "jumped": ("{holder} has jumped {behind} ahead; {rows} rows dropped since", "currentOutputWatermark; eventTime"),
    "jumped, then lost": ("no row was dropped before {since}, when {holder} jumped {behind} ahead", "all of both"),
    "stands ahead": ("{holder} stands {behind} ahead of the clock, and rows come", "currentOutputWatermark"),
    "ahead": ("{holder} is {behind} ahead of the clock, and moves", "currentOutputWatermark"),
    "no interval": ("pipeline.auto-watermark-interval is 0 in the configuration", "jobmanager/config"),
    # Of Spark alone.
    "offsets go on": ("{holder} has gone on in {rows} batches, and given no row", "endOffset, numInputRows"),
    "newer rows": ("{rows} batches with newer rows have come, and it stands", "eventTime, numInputRows"),
    "not seen since": ("the log does not say whether a row has come since {since}", "timestamp"),
    "batch is due": ("the newest row moves it to {due}, and no batch without rows comes", "eventTime, status"),
    "next batch due": ("the newest row moves it to {due} in the next batch, each has had rows", "eventTime"),
    "times of one": ("a progress has the event times of one of several sources", "sources"),
    "may be due": ("the newest row moves it to {due} in a batch without rows", "eventTime, status"),
    "back to back": ("one batch with rows follows the other, each takes {length}", "timestamp, durationMs"),
    "backlog not known": ("batch follows batch, each takes {length}, and no source says what waits", "durationMs"),
    "distance grows": ("the distance to the newest row grows from batch to batch, it is {behind}", "eventTime"),
    "alone behind": ("a batch with rows of {holder} alone was {behind} behind those before", "numInputRows, eventTime"),
    "beyond reported": ("the watermark is {behind} later than every reported row", "eventTime"),
    "one far ahead": ("a batch had a row {behind} ahead of the others", "eventTime.min, eventTime.max"),
    "jumped last": ("the last batch with rows has raised it by {behind}", "eventTime"),
    "keeps all": (
        "no row has left the state, {rows} by now, while it rose by {behind}",
        "numRowsRemoved, numRowsTotal",
    ),
    "frees rows": ("rows have left the state before the watermark has risen by its distance", "numRowsRemoved"),
    "needed less": ("the delay is {delay}, and no row was more than {needed} behind", "eventTime.min, eventTime.max"),
    "needed more": ("the delay is {delay}, and a row was {needed} behind", "eventTime.min, eventTime.max"),
    "no times": ("rows have come without any event time", "eventTime"),
    "no times declared": ("the query reports no watermark at all, so it declares none", "eventTime.watermark"),
    "null times": ("a batch of {holder} alone reports 1970 for its times, as of nulls", "eventTime"),
    "new run": ("it was started again at {since}, and has stood since", "runId"),
    "idle timeout set": ("table.exec.source.idle-timeout is set in the configuration", "jobmanager/config"),
    "another column": ("the plan has a state of {holder}, which has no watermark", "plan of the query"),
    "kept for ever": ("the plan has a join that keeps the rows of a side for ever", "plan of the query"),
    "not due": ("no row has to leave the state yet: the plan keeps it for {length}", "plan of the query, eventTime"),
    "policy max": ("multipleWatermarkPolicy of its session is max", "session"),
    "policy min": ("multipleWatermarkPolicy of its session is min", "session"),
    "no-data off": ("noDataMicroBatches of its session is off", "session"),
    "all declare": ("the plan has a watermark for each source", "plan"),
}
"""Each fact in words, a template over the values that it holds with, and the metrics that it is computed from."""

_OF_FACTS: Final = {
    "exception": Kind.NAME,
    "other": Kind.NAME,
    "waiting": Kind.NAME,
    "since": Kind.MOMENT,
    "got": Kind.MOMENT,
    "sent": Kind.MOMENT,
    "due": Kind.MOMENT,
    "behind": Kind.LENGTH,
    "change": Kind.LENGTH,
    "delay": Kind.BOUND,
    "needed": Kind.BOUND,
    "length": Kind.LENGTH,
    "rows": Kind.COUNT,
    "rows_before": Kind.COUNT,
    "rows_out": Kind.COUNT,
    "share": Kind.SHARE,
    "in_unit": Kind.WORD,
}
"""What else a sentence of a fact has; no answer lists it, so it needs no meaning."""
LABELS: Final = vocabulary(
    ("job", Kind.NAME, "the job or query"),
    ("operator", Kind.NAME, "the operator whose watermark is asked for"),
    ("state", Kind.WORD, "the state of the job"),
    ("verdict", Kind.WORD, "what the facts come to"),
    ("because", Kind.WORD, "the facts that the verdict rests on"),
    ("cause", Kind.WORD, "the cause, or the first of the candidates"),
    ("certainty", Kind.WORD, "whether the cause is proved, or one of candidates"),
    ("watermark", Kind.MOMENT, "where the watermark is"),
    ("stands_since", Kind.MOMENT, "since when it has been there, as far as the log goes back"),
    ("lag", Kind.LENGTH, "how far it is behind the clock"),
    ("state_rows", Kind.COUNT, "rows in the state"),
    ("state_rows_more", Kind.COUNT, "how many more since it stands, or since the log began"),
    ("came_out", Kind.COUNT, "rows that came out since then"),
    ("dropped", Kind.COUNT, "rows dropped as late since then"),
    ("holder", Kind.NAME, "what holds it: a source, subtask, partition or operator"),
    ("not known", Kind.WORD, "the facts of which a metric was not reported"),
    *((name, kind, "") for name, kind in _OF_FACTS.items()),
    *((name, Kind.FLAG, words) for name, (words, _) in WORDS.items()),
)
"""The vocabulary of `wm.engine`: the values of an answer, and each fact as a flag."""


class NotReportedError(Exception):
    """A metric that a fact needs was not reported."""


Known = TypeVar("Known")
Seen = TypeVar("Seen")
Holds = Mapping[str, Value] | bool | None
"""What the function of a fact gives: that it does not hold, is not known, or holds, with its values."""


def need(value: Known | None) -> Known:
    """The value of a metric; raises `NotReportedError` if it was not reported."""
    if value is None:
        raise NotReportedError
    return value


@dataclass(frozen=True, slots=True)
class Fact:
    """Whether a fact holds, None if that is not known, and its values by the labels of `LABELS`."""

    name: str
    holds: bool | None
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """The fact in words, with its values."""
        absent = "|".join(f"{{{label}}}" for label, value in self.values.items() if value is None)
        template = re.sub(absent, _ABSENT, WORDS[self.name][0]) if absent else WORDS[self.name][0]
        return Facts(LABELS, self.values).fill(template)

    def __str__(self) -> str:
        return f"{as_sentence(self.what)[:-1]} ({WORDS[self.name][1]})"


_ABSENT: Final = "none yet"
Table = Mapping[str, Fact]
"""All facts of a job that its engine can say."""


def holds(table: Table, name: str) -> bool | None:
    """Whether a fact holds; one that its engine has not does not."""
    return table[name].holds if name in table else False


class Functions(Generic[Seen]):
    """The functions of one engine's facts, registered by their names: `@fact` over `def source_silent`."""

    def __init__(self) -> None:
        self.of: dict[str, Callable[[Seen], Holds]] = {}

    def __call__(self, name: str) -> Callable[[Callable[[Seen], Holds]], Callable[[Seen], Holds]]:
        """Registers the function of the fact with this name."""

        def register(function: Callable[[Seen], Holds]) -> Callable[[Seen], Holds]:
            self.of[name] = function
            return function

        return register

    def table(self, seen: Seen) -> Table:
        """All facts of what was seen."""
        return {name: _fact(name, function, seen) for name, function in self.of.items()}


def _fact(name: str, function: Callable[[Seen], Holds], seen: Seen) -> Fact:
    try:
        values = function(seen)
    except NotReportedError:
        return Fact(name, None)
    return Fact(name, True, values) if isinstance(values, Mapping) else Fact(name, values)


def in_state(job: Job, states: Sequence[str | None], since_ms: Callable[[], int]) -> Holds:
    """That a job is in one of some states, since when, and why; `since_ms` is asked only if it is."""
    reason = job.exception or "no reason is reported"
    return job.state in states and {"state": job.state, "exception": reason, "since": since_ms()}


def late_since(job: Job, at_ms: int | None = None) -> int:
    """How many rows the tasks of the path have dropped as late since a moment; without one since the log began.

    Raises `NotReportedError` if no task counts them.
    """
    instances = [each for task in job.path for each in job.tasks[task] if each.last.late_records is not None]
    need(instances or None)
    return sum(_late_of(each, at_ms, from_zero=job.engine == "spark") for each in instances)


def _late_of(instance: Instance, at_ms: int | None, *, from_zero: bool) -> int:
    known = [(each.at_ms, each.late_records) for each in instance.moments if each.late_records is not None]
    before = [late for moment_ms, late in known if at_ms is not None and moment_ms <= at_ms]
    # Spark's counters begin with the log; a first poll of Flink shows what was dropped before it.
    first = before[-1:] or ([0] if from_zero else [])
    return grown([*first, *(late for moment_ms, late in known if at_ms is None or moment_ms > at_ms)])


def grown(counts: Sequence[int]) -> int:
    """By how much a counter has grown over its reports; one that falls has started again at 0.

    >>> grown([3, 5, 1, 2])
    4
    """
    return sum(after - before if after >= before else after for before, after in pairwise(counts))


_TICKS_MS: Final = {"seconds": 1_000, "microseconds": 1 / 1_000, "nanoseconds": 1 / 1_000_000}
_YEAR_2000_MS: Final = 946_684_800_000


def unit_of(time_ms: int, now_ms: int) -> str | None:
    """The unit in which a time that was read as milliseconds is one from 2000 to next year, if it is not that already.

    >>> unit_of(1_795_915_014, 1_795_915_020_000)
    'seconds'
    """

    def is_usual(value: float) -> bool:
        return _YEAR_2000_MS <= value <= now_ms + 365 * DAY_MS

    fitting = (unit for unit, ticks_ms in _TICKS_MS.items() if is_usual(time_ms * ticks_ms))
    return None if is_usual(time_ms) else next(fitting, None)


def is_the_clock(unit: str, times_ms: Sequence[tuple[int, int]]) -> bool:
    """Whether times in a unit are within a day of the clock, and go about as fast between the first and the last one.

    >>> is_the_clock("seconds", [(1_795_915_020_000, 1_795_915_014), (1_795_915_060_000, 1_795_915_055)])
    True
    >>> is_the_clock("seconds", [(1_795_915_020_000, 1_795_915_014), (1_795_915_060_000, 1_795_955_014)])
    False
    """
    ticks_ms = _TICKS_MS[unit]
    (first_ms, first), (last_ms, last) = times_ms[0], times_ms[-1]
    passed_ms = last_ms - first_ms
    is_as_fast = passed_ms >= BEHIND_MS and passed_ms / 2 <= (last - first) * ticks_ms <= 2 * passed_ms
    return is_as_fast and abs(last_ms - last * ticks_ms) < DAY_MS


def names_of(instances: Iterable[Instance]) -> tuple[str, ...]:
    """The sources of some instances, each once."""
    return tuple(dict.fromkeys(each.source for each in instances))
