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

from wmlab.core.answers import Cell, TableAnswer
from wmlab.core.arguments import the_duration, the_moment
from wmlab.core.errors import EngineError
from wmlab.core.facts import FactAnswer, Facts, folded_facts
from wmlab.core.files import DATA, as_path, write
from wmlab.core.words import as_sentence, grouped, joined, moment, shown, unbroken, wrapped, zone_once_in
from wmlab.engines import flink_facts, spark_facts
from wmlab.engines.cause_table import Candidate, Certainty, Setting, candidates
from wmlab.engines.collected import WITHOUT_PLAN
from wmlab.engines.facts import LABELS, WORDS, Fact, grown, holds
from wmlab.engines.flink_rest import BROKE_OFF
from wmlab.engines.moments import Job, jobs_of
from wmlab.engines.reading import Lines
from wmlab.engines.tables import ENGINE_TABLE, Engine, rows_of
from wmlab.engines.verdicts import SEVERITY, Verdict, verdict_of

DIRECTORY: Final = DATA / "engine_logs"
"""The runs of real engines that come with wmlab; its README says what is wrong in each."""


_LEADS: Final = {
    "no fault": "No fault",
    "held": "Held",
    "rows lost": "Rows are lost",
    "cannot tell": "The reports do not tell",
}
_WITH: Final = "the watermark of {operator} is {watermark}."
_STANDING: Final = "the watermark of {operator} stands at {watermark} since {stands_since}."
_WITHOUT: Final = "{operator} has had no watermark."
_NOT_RUNNING: Final = "Not running: {job}."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobExplanation(FactAnswer):
    """Why the watermark of an operator is where it is: facts, the verdict that follows from them, and the causes.

    `facts` has the values of the answer, and each fact by its name as a flag; those of which a metric was not reported
    are in `facts["not known"]`. `because` are the facts that the verdict rests on. With `certainty` "sure" the facts
    prove each of the `candidates`; otherwise they do not show which one it is. `since_ms` is when the watermark reached
    its value, or the log began. If a plan has several sinks, it explains the worst one, and `others` has the
    explanations of the others. `note` says that the log ends early.
    """

    facts: Facts
    templates: tuple[str, ...]
    engine: Engine
    job: str
    operator: str
    at_ms: int
    watermark_ms: int | None
    since_ms: int | None
    stands: bool
    verdict: Verdict
    because: tuple[Fact, ...]
    certainty: Certainty
    candidates: tuple[Candidate, ...]
    others: tuple[JobExplanation, ...] = ()
    note: str = ""

    @property
    def cause(self) -> str:
        """The cause, or the first of the candidates: the name of a row of `CAUSES`."""
        return self.candidates[0].cause

    @property
    def whose(self) -> str | None:
        """What holds the watermark: a source, a subtask, a partition or an operator."""
        return self.candidates[0].whose

    @property
    def remedy(self) -> str:
        """What would move the watermark, or what to look at next."""
        return self.candidates[0].remedy

    @property
    def sentence(self) -> str:
        """The headline and the cause, or the first of the candidates."""
        return joined(self.headline, _told(self.candidates[0], self.certainty))

    @property
    def lag_ms(self) -> int | None:
        """How far the watermark is behind the clock; None without a watermark."""
        return None if self.watermark_ms is None else self.at_ms - self.watermark_ms

    @property
    def lines(self) -> tuple[str, ...]:
        """The headline, the facts that the verdict rests on, the causes, and the other sinks of the plan."""
        said = {each.what for each in self.candidates}
        because = dict.fromkeys(f"Because: {each}." for each in self.because if each.what not in said)
        causes = [_told(each, self.certainty) for each in self.candidates]
        ends = [f"Another end: {each.sentence}" for each in self.others]
        return tuple(zone_once_in(filter(None, (self.headline, *because, *causes, *ends, self.note))))

    def __repr__(self) -> str:
        return "\n".join(map(wrapped, self.lines))

    def to_dict(self) -> dict[str, Any]:
        """The answer as dicts, lists and scalars: verdict, facts and cause first."""
        said = {name: getattr(self, name) for name in ("verdict", "headline", "cause", "certainty", "whose")}
        return {
            **said,
            "facts": self.facts.to_dict(),
            "because": [_of_fact(each) for each in self.because],
            "candidates": [_of_candidate(each) for each in self.candidates],
            **{name: getattr(self, name) for name in _PLAIN},
            "others": [each.to_dict() for each in self.others],
        }

    def _repr_html_(self) -> str:
        text = "".join(f"<p>{escape(unbroken(line))}</p>" for line in self.lines)
        return f"{text}{folded_facts(self.facts)}"


_PLAIN: Final = ("engine", "job", "operator", "at_ms", "watermark_ms", "since_ms", "stands", "sentence", "note")


def _of_fact(fact: Fact) -> dict[str, Any]:
    return {"name": fact.name, "what": fact.what, "metrics": WORDS[fact.name][1], **fact.values}


def _of_candidate(each: Candidate) -> dict[str, Any]:
    """A candidate as plain data."""
    return {
        **{name: getattr(each, name) for name in ("cause", "what", "whose", "remedy", "apart")},
        "facts": [_of_fact(fact) for fact in each.facts],
        "settings": [asdict(setting) for setting in each.settings],
    }


def _told(candidate: Candidate, certainty: Certainty) -> str:
    """A candidate in words, with what would tell it from the others."""
    if certainty == "sure" or not candidate.apart:
        return f"{as_sentence(candidate.cause)[:-1]}, {certainty}: {candidate.what}. {candidate.remedy}"
    return f"Perhaps {candidate.cause}: {candidate.what}. It is, if {candidate.apart}. {candidate.remedy}"


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

    @property
    def table(self) -> pa.Table:
        """All reported values, in the columns of `ENGINE_TABLE`."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[list[dict[str, Any]], pa.Table]:
        """All reported values as rows, and as the table that they make."""
        try:
            rows = rows_of(self.engine, self.reports.lines)
            table = pa.Table.from_pylist(rows, ENGINE_TABLE)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as wrong:
            raise EngineError(
                f"{self.source} has a line of another form than {self.engine} writes: {type(wrong).__name__} {wrong}.",
                remedy="poll or keep the job again.",
            ) from wrong
        if not rows:
            raise EngineError(f"{self.source} reports no task.", remedy="poll the job while it runs.")
        return rows, table

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
    known = {"has_plan": not reports.lines[0].get(WITHOUT_PLAN), "settings": reports.settings_known}
    if at_ms is None:
        return jobs_of(
            log.engine,
            log._read[0],
            log.until_ms,
            **known,
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
    return jobs_of(log.engine, log._read[0], asked_ms, **known)


def explain(jobs: Sequence[Job]) -> JobExplanation:
    """Why the watermark of a job is where it is, of the end of its plan that is worst; see `EngineLog.explain`."""
    ends = sorted(map(_explain, jobs), key=_urgency, reverse=True)
    if ends[0].verdict == "not running":
        return ends[0]
    return replace(ends[0], others=tuple(ends[1:]))


def _urgency(explanation: JobExplanation) -> tuple[int, bool, int]:
    """How bad an answer is; of equal faults the one that is sure, of others the one that is not; then the lag."""
    is_sure = explanation.certainty == "sure"
    return (
        SEVERITY.index(explanation.verdict),
        is_sure != (explanation.verdict == "no fault"),
        explanation.lag_ms or explanation.at_ms,
    )


def _explain(job: Job) -> JobExplanation:
    """The answer for one end of a plan."""
    table = flink_facts.facts_of(job) if job.engine == "flink" else spark_facts.facts_of(job)
    verdict, because = verdict_of(table)
    certainty, causes = candidates(table, verdict, because, has_plan=job.has_plan)
    stands = any(holds(table, name) for name in _STAND)
    where = _WITHOUT if job.watermark_ms is None else _STANDING if verdict == "held" and stands else _WITH
    values = {
        "verdict": verdict,
        "because": because,
        "cause": causes[0].cause,
        "certainty": certainty,
        "job": job.name,
        "operator": job.operator,
        "state": job.state,
        "watermark": job.watermark_ms,
        "stands_since": job.stands_since_ms,
        "lag": None if job.watermark_ms is None else job.at_ms - job.watermark_ms,
        **_cost(job, (job.stands_since_ms or 0) if stands else 0),
        "holder": causes[0].whose,
        **{name: fact.holds for name, fact in table.items()},
        "not known": tuple(name for name, fact in table.items() if fact.holds is None),
    }
    return JobExplanation(
        facts=Facts(LABELS, values, clock_ms=job.at_ms),
        templates=(f"{_LEADS[verdict]}: {where}" if verdict in _LEADS else _NOT_RUNNING,),
        engine=job.engine,
        job=job.name,
        operator=job.operator,
        at_ms=job.at_ms,
        watermark_ms=job.watermark_ms,
        since_ms=job.stands_since_ms,
        stands=stands,
        verdict=verdict,
        because=tuple(table[name] for name in because),
        certainty=certainty,
        candidates=causes,
    )


_STAND: Final = ("stands", "newer rows", "none newer", "batch is due", "all silent")
"""The facts that say that a watermark stands."""


def _cost(job: Job, since_ms: int) -> dict[str, int | None]:
    """What waiting costs, since a moment: rows of state, that came out, and dropped. Flink reports no rows of state."""
    after = [each.since(since_ms) for each in job.observed]

    def growth(name: str) -> int | None:
        counts = [[c for moment in moments if (c := getattr(moment, name)) is not None] for moments in after]
        return sum(map(grown, counts)) if any(counts) else None

    rows = [moments[-1].state_rows for moments in after if moments[-1].state_rows is not None]
    begun = sum(moments[0].state_rows or 0 for moments in after)
    return {
        "state_rows": sum(rows) if rows else None,
        "state_rows_more": max(sum(rows) - begun, 0) if rows else None,
        "came_out": growth("written"),
        "dropped": growth("late_records"),
    }


def advise(jobs: Sequence[Job]) -> JobAdvice:
    """The settings that would change what was found; see `EngineLog.advise`."""
    settings = [setting for job in jobs for each in _explain(job).candidates for setting in each.settings]
    return JobAdvice(job=jobs[0].name, settings=tuple(dict.fromkeys(settings)))
