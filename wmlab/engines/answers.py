"""A log of a job, and its two answers: why its watermark stands, and which settings would change that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Answer, Cell, TableAnswer, html_table
from wmlab.core.arguments import the_moment
from wmlab.core.errors import EngineError
from wmlab.core.files import DATA, as_path
from wmlab.core.words import counted, grouped, moment, rounded, shown
from wmlab.engines import flink_rules, spark_rules
from wmlab.engines.causes import Cause, Certainty, Evidence, Finding, findings, grown
from wmlab.engines.moments import Instance, Job, Moment, job_of
from wmlab.engines.reading import Lines, poll, progress_of, read_file
from wmlab.engines.tables import Engine, table_of

DIRECTORY: Final = DATA / "engine_logs"
"""The runs of real engines that come with wmlab; its README says what is wrong in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What waiting costs: rows of state now, how many more since the watermark stands or the log began, rows that came
    out and rows dropped as late since then. None is unknown: Flink reports no rows of state.
    """

    state_rows: int | None
    state_rows_more: int | None
    rows_out: int | None
    late_rows: int | None

    def __str__(self) -> str:
        parts = []
        if self.state_rows is not None:
            more = f", {grouped(self.state_rows_more)} more" if self.state_rows_more else ""
            parts.append(f"{counted(self.state_rows, 'row')} of state{more}")
        if self.rows_out is not None:
            parts.append(f"{counted(self.rows_out, 'row')} out")
        if self.late_rows:
            parts.append(f"{grouped(self.late_rows)} dropped as late")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobExplanation(Answer):
    """Why the watermark of an operator is where it is.

    `cause`, `certainty`, `holder` and `evidence` are those of the first finding; `findings` has all, the first one
    first. `since_ms` is when the watermark became what it is, or the log began. With `certainty` "candidates" the
    evidence does not tell which of the findings it is, and each says what to look at next.
    """

    engine: Engine
    job: str
    operator: str
    at_ms: int
    watermark_ms: int | None
    since_ms: int | None
    stands: bool
    cost: Cost
    findings: tuple[Finding, ...]

    @property
    def cause(self) -> Cause:
        """The code of the first cause."""
        return self.findings[0].cause

    @property
    def certainty(self) -> Certainty:
        """How sure it is."""
        return self.findings[0].certainty

    @property
    def holder(self) -> str | None:
        """What holds the watermark: a source, a subtask or an operator."""
        return self.findings[0].holder

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What was reported, of which the first finding follows."""
        return self.findings[0].evidence

    @property
    def release(self) -> str:
        """What would move the watermark, or what to look at next."""
        return self.findings[0].release

    @property
    def sentence(self) -> str:
        """The answer in a sentence: where the watermark is, since when, why, what it costs, what would move it."""
        first, candidates = self.findings[0], [each for each in self.findings if each.certainty == "candidates"]
        if first.certainty == "candidates":
            reasons = [f"{each.cause}: {each}" for each in candidates]
            many = f"the evidence allows {len(reasons)} causes: " if len(reasons) > 1 else "perhaps "
            why, look = many + "; or ".join(reasons), dict.fromkeys(each.release for each in candidates)
            return f"{self._where}; {why}.{self._meanwhile} Look next: {'; or '.join(look)}."
        why = f"({first.cause}, {first.certainty}): {first}"
        begin = "What would release it: " if first.is_releasable else "Note: "
        return f"{self._where} {why}.{self._meanwhile} {begin}{first.release}."

    @property
    def _where(self) -> str:
        since = "" if self.since_ms is None or not self.stands else f" since {moment(self.since_ms)}"
        if self.watermark_ms is None:
            return f"{self.operator} has had no watermark{since}"
        verb = "stands at" if self.stands else "is"
        return f"The watermark of {self.operator} {verb} {moment(self.watermark_ms)}{since}"

    @property
    def _meanwhile(self) -> str:
        if not str(self.cost):
            return ""
        return f" {'Since then' if self.stands else 'Since the log began'}: {self.cost}."

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists and scalars."""
        first = {"cause": str(self.cause), "certainty": self.certainty, "holder": self.holder}
        return first | asdict(self) | {"sentence": self.sentence}

    def _repr_html_(self) -> str:
        rows: list[tuple[Cell, ...]] = [
            (moment(each.at_ms), each.what) for finding in self.findings for each in finding.evidence
        ]
        return f"<p>{escape(self.sentence)}</p>" + html_table("Evidence", ("at", "reported"), rows, left=(0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting to change, in the engine's own words; `value` is an example where the evidence gives no number."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobAdvice(TableAnswer[Setting]):
    """The settings that the evidence supports; none where nothing is wrong, or where it does not tell."""

    job: str
    settings: tuple[Setting, ...]

    entries = "settings"
    heads = ("setting", "value", "why")
    left = (0, 1, 2)
    schema = pa.schema([(name, pa.string()) for name in ("name", "value", "reason")])

    @property
    def sentence(self) -> str:
        """The advice in words."""
        if not self.settings:
            return "The evidence supports no change of a setting."
        return " ".join(f"{each.name}: {each.value}, because {each.reason}." for each in self.settings)

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        return ((each.name, each.value, each.reason) for each in self.settings)


@dataclass(frozen=True, eq=False)
class EngineLog:
    """What a Flink job or a Spark query reported over a while: `table` has the columns of `ENGINE_TABLE`.

    `source` is where it was read. It needs the engine no more; `save` keeps it as a file, which `read` reads.
    """

    source: str
    reports: Lines

    @property
    def engine(self) -> Engine:
        """Whose job it is: "flink" or "spark"."""
        return self.reports.engine

    @cached_property
    def table(self) -> pa.Table:
        """All that was reported, in the columns of `ENGINE_TABLE`."""
        try:
            made = table_of(self.engine, self.reports.lines)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as wrong:
            raise EngineError(
                f"{self.source} has a line of another form than {self.engine} writes: {type(wrong).__name__} {wrong}.",
                remedy="poll or keep the job again.",
            ) from wrong
        if not made.num_rows:
            raise EngineError(f"{self.source} reports no task.", remedy="poll the job while it runs.")
        return made

    @property
    def begin_ms(self) -> int:
        """When the log begins."""
        return int(pc.min(self.table["at_ms"]).as_py())

    @property
    def until_ms(self) -> int:
        """Until when the job was looked at: its last line, or when the query was asked."""
        return max(int(pc.max(self.table["at_ms"]).as_py()), self.reports.until_ms or 0)

    def explain(self, at_ms: int | None = None) -> JobExplanation:
        """Why the watermark is where it is at a moment, by default at the end of the log, with the evidence.

        Of a plan with several ends it is that of the one furthest behind. A moment after the last line counts as looked
        at without anything reported. Raises `EngineError` for one before the log.
        """
        return explain(job_at(self, at_ms))

    def advise(self, at_ms: int | None = None) -> JobAdvice:
        """Which settings of the engine would change what `explain` finds, where the evidence supports it."""
        return advise(job_at(self, at_ms))

    def save(self, path: str | Path) -> Path:
        """Keep the lines in a new file and return where; raises `EngineError` if it is there or cannot be written."""
        target = as_path(path, EngineError)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(self.reports.text())
        except OSError as wrong:
            raise EngineError(
                f"{str(target)!r} cannot be written: {wrong.strerror}.", remedy="give a path that is free."
            ) from None
        return target

    def __repr__(self) -> str:
        lines = len(self.reports.lines) - (self.engine == "flink")
        what = "poll" if self.engine == "flink" else "batch"
        many = f"{grouped(lines)} {what if lines == 1 else {'poll': 'polls', 'batch': 'batches'}[what]}"
        return (
            f"EngineLog of the {self.engine.capitalize()} {'job' if self.engine == 'flink' else 'query'} "
            f"{self.table['job'][0].as_py()!r}: {many}, {moment(self.begin_ms)} to {moment(self.until_ms)}"
        )


def job_at(log: EngineLog, at_ms: int | str | None = None) -> Job:
    """The job of a log as it was at a moment, by default at the end; raises `EngineError` for one before the log.

    A text such as "90s" is counted from the log's begin.
    """
    if at_ms is None:
        return job_of(log.engine, log.table, log.until_ms, waits=log.reports.waits)
    asked_ms = the_moment(at_ms, EngineError, start_ms=log.begin_ms)
    if asked_ms < log.begin_ms:
        raise EngineError(
            f"at_ms is {shown(at_ms)}, and the log begins at {moment(log.begin_ms)}.",
            remedy=f"give a moment of the log: milliseconds since 1970 from {log.begin_ms} on, or a text such as "
            '"20s", which is counted from its begin.',
        )
    return job_of(log.engine, log.table, asked_ms, waits=None)


def flink(url_or_file: str | Path, *, job: str | None = None, polls: int = 40, every_ms: int = 1_000) -> EngineLog:
    """What a Flink job reports: polled at its REST interface, `http://localhost:8081`, or of a file that `save` wrote.

    It is asked `polls` times, `every_ms` apart, for its plan, the watermarks of its vertices and the metrics of its
    subtasks and operators; at that address only. `job` is the id or name of a job; it may be left out if one runs.
    Raises `EngineError` if it cannot be reached or read, or no or several jobs fit.
    """
    if isinstance(url_or_file, str) and url_or_file.startswith(("http://", "https://")):
        return EngineLog(url_or_file, poll(url_or_file, job=job, polls=polls, every_ms=every_ms))
    return _of_file(url_or_file, "flink")


def spark(progress: Any) -> EngineLog:
    """What a Spark query reports: a StreamingQuery, its `recentProgress`, a listener, or a file of JSON lines.

    A listener is `wm.engine.Listener`, or an object whose `progress` lists the StreamingQueryProgress that it got. The
    progress is that of Spark 4. Raises `EngineError` for anything else, no batch, or several queries.
    """
    if isinstance(progress, str | Path):
        return _of_file(progress, "spark")
    return EngineLog("the progress", progress_of(progress))


def read(url_or_file: str | Path) -> EngineLog:
    """A kept log of either engine, or that of the job at the address of a Flink REST interface."""
    if isinstance(url_or_file, str) and url_or_file.startswith(("http://", "https://")):
        return flink(url_or_file)
    return EngineLog(repr(str(url_or_file)), read_file(url_or_file))


def _of_file(path: str | Path, engine: Engine) -> EngineLog:
    log = read(path)
    if log.engine != engine:
        raise EngineError(f"{log.source} is a log of {log.engine}.", remedy=f"read it with wm.engine.{log.engine}.")
    return log


def explain(job: Job) -> JobExplanation:
    """Why the watermark of a job is where it is; see `EngineLog.explain`."""
    ranked = _findings(job)
    stands = job.stands if job.engine == "flink" else ranked[0].cause not in _MOVES
    since_ms = job.stands_since_ms
    return JobExplanation(
        engine=job.engine,
        job=job.name,
        operator=job.operator,
        at_ms=job.at_ms,
        watermark_ms=job.watermark_ms,
        since_ms=since_ms,
        stands=stands,
        cost=_cost(job, since_ms if stands and since_ms is not None else 0),
        findings=ranked,
    )


_MOVES: Final = (Cause.NO_FAULT, Cause.DELAY_TOO_SMALL, Cause.ENDED, Cause.CANNOT_TELL)
"""The causes with which the watermark of a Spark query, which reports nothing without rows, does not stand."""


def _findings(job: Job) -> tuple[Finding, ...]:
    return findings(job, flink_rules.RULES if job.engine == "flink" else spark_rules.RULES)


def _cost(job: Job, since: int) -> Cost:
    last = [each.last for each in job.observed]
    after = [_moments_from(each, since) for each in job.observed]

    def growth(name: str) -> int | None:
        """Of a counter, all instances together."""
        counts = [[getattr(moment, name) for moment in moments] for moments in after]
        known = [each for each in counts if each[-1] is not None]
        return (
            sum(grown([first or 0, *(c for c in rest if c is not None)]) for first, *rest in known) if known else None
        )

    states = [each.state_rows for each in last if each.state_rows is not None]
    begun = sum(moments[0].state_rows or 0 for moments in after)
    return Cost(
        state_rows=sum(states) if states else None,
        state_rows_more=max(sum(states) - begun, 0) if states else None,
        rows_out=growth("written"),
        late_rows=growth("late_records"),
    )


def _moments_from(instance: Instance, since: int) -> Sequence[Moment]:
    """The last moment up to `since`, or the first of all, and those after it."""
    moments = instance.moments
    begin = max((index for index, moment in enumerate(moments) if moment.at_ms <= since), default=0)
    return moments[begin:]


_IDLE_TABLE: Final = "table.exec.source.idle-timeout"
_IDLE_SCAN: Final = "scan.watermark.idle-timeout"


def advise(job: Job) -> JobAdvice:
    """The settings that would change what is finding; see `EngineLog.advise`."""
    settings: list[Setting] = []
    for finding in _findings(job):
        if finding.certainty != "candidates":
            settings += (_of_flink if job.engine == "flink" else _of_spark)(finding)
    return JobAdvice(job=job.name, settings=tuple(settings))


def _of_flink(finding: Finding) -> list[Setting]:
    if finding.cause in (Cause.SILENT_SOURCE, Cause.SILENT_SUBTASK):
        why = f"{finding.holder} sends nothing, and a source that is marked idle is not waited for"
        return [
            Setting(name=_IDLE_SCAN, value="'30 s', for the table of that source", reason=why),
            Setting(name=_IDLE_TABLE, value="'30 s', for all sources of the job instead", reason=why),
        ]
    if finding.cause is Cause.NO_WATERMARK:
        return [
            Setting(
                name="WATERMARK FOR",
                value="ts AS ts - INTERVAL '5' SECOND, with the time column of the table",
                reason=f"{finding.holder} gives no watermark",
            )
        ]
    if finding.cause is Cause.SOURCE_BEHIND:
        return [
            Setting(
                name="scan.watermark.alignment.group",
                value="one name for both sources, with scan.watermark.alignment.max-drift",
                reason=f"{finding.holder} is {rounded(finding.shift_ms or 0)} behind; this moves no watermark, "
                "it stops the other sources from filling the state meanwhile",
            )
        ]
    return []


def _of_spark(finding: Finding) -> list[Setting]:
    if finding.cause is Cause.NO_WATERMARK:
        return [Setting(name="withWatermark", value="the time column, and how late its rows come", reason=str(finding))]
    if finding.cause is Cause.SILENT_SOURCE:
        return [
            Setting(
                name="spark.sql.streaming.multipleWatermarkPolicy",
                value="max, if rows of the slower source may be dropped",
                reason=f"with min, the default, {finding.holder} holds the watermark of the whole query",
            )
        ]
    if finding.cause in (Cause.DELAY_TOO_LARGE, Cause.DELAY_TOO_SMALL) and finding.needed_ms is not None:
        return [
            Setting(
                name="withWatermark",
                value=f"a delay of {rounded(finding.needed_ms)} or more instead of {rounded(finding.shift_ms or 0)}",
                reason=f"a row was {rounded(finding.needed_ms)} behind the newest one at most"
                if finding.cause is Cause.DELAY_TOO_SMALL
                else str(finding),
            )
        ]
    return []
