"""A log of a job, and its two answers: why its watermark does not advance, and which settings would change that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wmlab.core.answers import Answer, Cell, TableAnswer, html_table
from wmlab.core.arguments import the_duration, the_moment
from wmlab.core.errors import EngineError
from wmlab.core.files import DATA, as_path, write
from wmlab.core.words import clock_words, counted, grouped, moment, shown, unbroken, wrapped, zone_once, zone_once_in
from wmlab.engines import flink_rules, spark_rules
from wmlab.engines.causes import SEVERITY, Cause, Certainty, Evidence, Finding, Verdict, findings, grown
from wmlab.engines.collected import WITHOUT_PLAN
from wmlab.engines.flink_rest import BROKE_OFF
from wmlab.engines.moments import Job, jobs_of
from wmlab.engines.reading import Lines
from wmlab.engines.remedies import Setting, settings_for
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

    `cause`, `certainty`, `whose` and `evidence` are those of the first finding; `findings` has all, the first one
    first. `since_ms` is when the watermark reached its value, or the log began. With `certainty` "candidates", the
    evidence does not show which of the findings is the cause. If a plan has several sinks, it explains the worst one,
    and `others` has the explanations of the others. `note` says that the log ends early.
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
    others: tuple[JobExplanation, ...] = ()
    note: str = ""

    @property
    def cause(self) -> Cause:
        """The code of the first cause."""
        return self.findings[0].cause

    @property
    def certainty(self) -> Certainty:
        """How sure it is."""
        return self.findings[0].certainty

    @property
    def whose(self) -> str | None:
        """What holds the watermark: a source, a subtask, a partition or an operator."""
        return self.findings[0].whose

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The reported values from which the first finding follows."""
        return self.findings[0].evidence

    @property
    def remedy(self) -> str:
        """What would move the watermark, or what to look at next."""
        return self.findings[0].remedy

    @property
    def verdict(self) -> Verdict:
        """The overall result: "no fault", "held", "rows lost", "cannot tell" or "not running", the worst of all."""
        compared = self.findings if self.certainty == "candidates" else self.findings[:1]
        return max((each.verdict for each in compared), key=SEVERITY.index)

    @property
    def sentence(self) -> str:
        """The answer in three lines at most: where the watermark is, since when, why, and what would move it."""
        first = self.findings[0]
        if first.certainty == "candidates":
            if first.cause is Cause.CANNOT_TELL:
                return zone_once(f"{self._where} ({first.cause}): {first}. {first.remedy}")
            others = [str(each.cause) for each in self.findings[1:]]
            either = f"{'either' if others else 'perhaps'} {first.cause}: {first}"
            return zone_once(f"{self._where}; {'; or '.join([either, *others])}. {first.remedy}")
        why = f"({first.cause}, {first.certainty}): {first}. {first.remedy}"
        noun = "job" if self.engine == "flink" else "query"
        return zone_once(f"The {noun} {self.job} {why}" if first.verdict == "not running" else f"{self._where} {why}")

    @property
    def _where(self) -> str:
        since = "" if self.since_ms is None or not self.stands else f" since {clock_words(self.since_ms)}"
        if self.watermark_ms is None:
            return f"{self.operator} has had no watermark{since}"
        verb = "stands at" if self.stands else "is"
        return f"The watermark of {self.operator} {verb} {clock_words(self.watermark_ms)}{since}"

    @property
    def lag_ms(self) -> int | None:
        """How far the watermark is behind the clock; None without a watermark."""
        return None if self.watermark_ms is None else self.at_ms - self.watermark_ms

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentence, its proof, the cost of waiting, the other findings, and the other sinks of the plan."""
        cost = f"{'Since then' if self.stands else 'Since the log began'}: {self.cost}." if str(self.cost) else ""
        proof = self.findings[0].proof
        word = "Or" if self.certainty == "candidates" else "Besides"
        more = [f"{word} ({each.cause}, {each.certainty}): {each}. {each.remedy}" for each in self.findings[1:]]
        ends = [f"Another end: {each.sentence}" for each in self.others]
        return tuple(
            zone_once_in(filter(None, (self.sentence, proof and f"Proof: {proof}.", cost, *more, *ends, self.note)))
        )

    def __repr__(self) -> str:
        return "\n".join(map(wrapped, self.lines))

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists and scalars."""
        first = {"cause": str(self.cause), "certainty": self.certainty, "whose": self.whose, "verdict": self.verdict}
        return first | asdict(self) | {"sentence": self.sentence}

    def _repr_html_(self) -> str:
        rows: list[tuple[Cell, ...]] = [
            (moment(each.at_ms), each.what) for finding in self.findings for each in finding.evidence
        ]
        text = "".join(f"<p>{escape(unbroken(line))}</p>" for line in self.lines)
        return text + html_table("Evidence", ("at", "reported"), rows, left=(0, 1))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobAdvice(TableAnswer[Setting]):
    """The settings that the evidence supports; none if nothing is wrong, or if the evidence is not sufficient."""

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
    """The metrics that a Flink job or a Spark query reported over some time: `table` has the columns of `ENGINE_TABLE`.

    `source` is where it was read from. It no longer needs the engine; `save` writes it to a file, which `read` reads.
    `again` polls the job once more, if it is running, and `watch` does so in a notebook.
    """

    source: str
    reports: Lines
    """The reports of the engine, in the order in which they came."""
    renew: Callable[[Lines], Lines] | None = field(default=None, repr=False)
    """Asks the engine again; None: the log is of a file."""
    view: Callable[[EngineLog, int], Any] | None = field(default=None, repr=False)
    """What `watch` redraws."""

    def again(self) -> EngineLog:
        """The log with the job's current metrics; raises `EngineError` for a log from a file, or without an answer."""
        if self.renew is None:
            raise EngineError(f"{self.source} does not run.", remedy="give the address of a job, or a query that runs.")
        return replace(self, reports=self.renew(self.reports))

    def watch(self, *, every: int | str = "5s") -> Any:
        """A view for a notebook: the watermark of each source and split, and the answer, redrawn `every` so often.

        It asks the job until `stop()` is called, or the kernel ends. Raises `EngineError` as `again`.
        """
        every_ms = the_duration(every, EngineError, name="every")
        return self.again() if self.view is None else self.view(self, every_ms)

    @property
    def engine(self) -> Engine:
        """The engine of the job: "flink" or "spark"."""
        return self.reports.engine

    @cached_property
    def table(self) -> pa.Table:
        """All reported values, in the columns of `ENGINE_TABLE`."""
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
    def broke_off(self) -> str | None:
        """Why polling Flink ended early; None if it did not."""
        return self.reports.lines[0].get(BROKE_OFF)

    @property
    def begin_ms(self) -> int:
        """When the log begins."""
        return int(pc.min(self.table["at_ms"]).as_py())

    @property
    def until_ms(self) -> int:
        """When the job was observed last: its last line, or the moment at which the query was asked."""
        return max(int(pc.max(self.table["at_ms"]).as_py()), self.reports.until_ms or 0)

    def explain(self, at_ms: int | None = None) -> JobExplanation:
        """Explain why the watermark is where it is at a moment, by default at the end of the log, with the evidence.

        For a plan with several sinks, it explains the worst one. A moment after the last line counts as observed
        without a report. Raises `EngineError` for a moment before the log.
        """
        note = f"Flink went away {self.broke_off}" if self.broke_off else ""
        return replace(explain(jobs_at(self, at_ms)), note=note)

    def advise(self, at_ms: int | None = None) -> JobAdvice:
        """The engine settings that would change what `explain` found, if the evidence supports them."""
        return advise(jobs_at(self, at_ms))

    def save(self, path: str | Path) -> Path:
        """Keep the lines in a new file and return where; raises `EngineError` if it is there or cannot be written."""
        return write(as_path(path, EngineError), self.reports.text().encode(), EngineError, is_new=True)

    def __repr__(self) -> str:
        lines = len(self.reports.lines) - (self.engine == "flink")
        what = "poll" if self.engine == "flink" else "batch"
        many = f"{grouped(lines)} {what if lines == 1 else {'poll': 'polls', 'batch': 'batches'}[what]}"
        return (
            f"EngineLog of the {self.engine.capitalize()} {'job' if self.engine == 'flink' else 'query'} "
            f"{self.table['job'][0].as_py()!r}: {many}, {moment(self.begin_ms)} to {moment(self.until_ms)}"
        )


def jobs_at(log: EngineLog, at_ms: int | str | None = None) -> tuple[Job, ...]:
    """The job of a log as it was at a moment, by default at the end, once for each end of its plan.

    A text such as "90s" is counted from the log's begin. Raises `EngineError` for a moment before the log.
    """
    reports = log.reports
    has_plan = not reports.lines[0].get(WITHOUT_PLAN)
    if at_ms is None:
        return jobs_of(
            log.engine,
            log.table,
            log.until_ms,
            has_plan=has_plan,
            is_looked_at=log.engine == "flink" or reports.until_ms is not None,
            waits=reports.waits,
            state=reports.state,
            exception=reports.exception,
        )
    asked_ms = the_moment(at_ms, EngineError, start_ms=log.begin_ms)
    if asked_ms < log.begin_ms:
        raise EngineError(
            f"at_ms is {shown(at_ms)}, and the log begins at {moment(log.begin_ms)}.",
            remedy=f"give a moment of the log: milliseconds since 1970 from {log.begin_ms} on, or a text such as "
            '"20s", which is counted from its begin.',
        )
    return jobs_of(log.engine, log.table, asked_ms, has_plan=has_plan)


def explain(jobs: Sequence[Job]) -> JobExplanation:
    """Why the watermark of a job is where it is, of the end of its plan that is worst; see `EngineLog.explain`."""
    ends = sorted(map(_explain, jobs), key=_urgency, reverse=True)
    if ends[0].verdict == "not running":
        return ends[0]
    return replace(ends[0], others=tuple(ends[1:]))


def _urgency(explanation: JobExplanation) -> tuple[int, int]:
    """How bad an answer is, and of equal ones how far its watermark is behind."""
    watermark_ms = explanation.watermark_ms
    return SEVERITY.index(explanation.verdict), explanation.at_ms - (watermark_ms if watermark_ms is not None else 0)


def _explain(job: Job) -> JobExplanation:
    """The answer for one end of a plan."""
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


_MOVES: Final = (
    *(Cause.NO_FAULT, Cause.DELAY_TOO_SMALL, Cause.FASTEST_DECIDES, Cause.TOO_SLOW, Cause.DELAY_TOO_LARGE),
    *(Cause.SOURCE_BEHIND, Cause.ENDED, Cause.NOT_RUNNING, Cause.FAILED, Cause.CANNOT_TELL),
)
"""The causes with which the watermark of a Spark query, which reports nothing without rows, does not stand."""


def _findings(job: Job) -> tuple[Finding, ...]:
    return findings(job, flink_rules.RULES if job.engine == "flink" else spark_rules.RULES)


def _cost(job: Job, since: int) -> Cost:
    last = [each.last for each in job.observed]
    after = [each.since(since) for each in job.observed]

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


def advise(jobs: Sequence[Job]) -> JobAdvice:
    """The settings that would change what was found; see `EngineLog.advise`."""
    settings = [setting for job in jobs for finding in _findings(job) for setting in settings_for(job, finding)]
    return JobAdvice(job=jobs[0].name, settings=tuple(dict.fromkeys(settings)))
