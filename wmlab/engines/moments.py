"""The table of a job as its rules look at it: of each task and subtask, what it was at each moment.

Operators that are chained run as one, so the first one's input and the last one's output are those of the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from wmlab.engines.tables import QUERY, Engine

STANDS_MS: Final = 20_000
"""How long a metric of Flink has to stay to count as standing: by default Flink renews what it shows every ten seconds
(`metrics.fetcher.update-interval`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A task's subtask, or a source of Spark, at one moment; None is unknown.

    `records` is what a source has read and any other task has received, `written` what has reached the last operator of
    the chain; `delay_ms` is stated by the plan.
    """

    at_ms: int
    ended: bool
    input_watermark_ms: int | None
    output_watermark_ms: int | None
    records: int | None
    written: int | None
    late_records: int | None
    state_rows: int | None
    pending_records: int | None
    idle_share: float | None
    busy_share: float | None
    back_pressured_share: float | None
    delay_ms: int | None
    event_max_ms: int | None
    event_min_ms: int | None


@dataclass(frozen=True, slots=True)
class Instance:
    """One parallel instance of a task, or a source of Spark, with its moments, ascending."""

    task: str
    subtask: int | None
    moments: tuple[Moment, ...]

    @property
    def last(self) -> Moment:
        """What it was last."""
        return self.moments[-1]

    @property
    def source(self) -> str:
        """The name of the first operator of its chain, without Flink's "Source: "."""
        return title_of(self.task)

    @property
    def silent_since_ms(self) -> int | None:
        """From when on it has read nothing more; None if it reads still, or if its records are not reported."""
        last = self.last.records
        if last is None:
            return None
        return next(each.at_ms for each in self.moments if each.records == last)

    def is_silent(self, at_ms: int) -> bool:
        """Whether it has read nothing for so long that it counts as standing."""
        since = self.silent_since_ms
        return since is not None and at_ms - since >= STANDS_MS


@dataclass(frozen=True, slots=True)
class Job:
    """A job up to the moment of the question; `observed_task` is the one whose watermark is asked for.

    `waits` is whether the query is known to run and to have nothing to read at that moment, None if nobody knows.
    """

    engine: Engine
    name: str
    at_ms: int
    tasks: dict[str, tuple[Instance, ...]]
    inputs: dict[str, tuple[str, ...]]
    observed_task: str
    operator: str
    waits: bool | None = None

    @property
    def sources(self) -> list[Instance]:
        """All instances of all sources."""
        return [each for task, instances in self.tasks.items() if not self.inputs[task] for each in instances]

    @property
    def observed(self) -> tuple[Instance, ...]:
        """The instances of the task whose watermark is asked for."""
        return self.tasks[self.observed_task]

    @property
    def watermarks(self) -> list[tuple[int, int | None]]:
        """When the observed task had which watermark: the smallest of its live instances, None before they have one."""
        by_moment: dict[int, list[int | None]] = {}
        for instance in self.observed:
            for moment in instance.moments:
                if not moment.ended and moment.records is not None:
                    watermark = (
                        moment.input_watermark_ms if self.inputs[self.observed_task] else moment.output_watermark_ms
                    )
                    by_moment.setdefault(moment.at_ms, []).append(watermark)
        return [(at_ms, smallest(values)) for at_ms, values in sorted(by_moment.items())]

    @property
    def watermark_ms(self) -> int | None:
        """The last one of these."""
        return self.watermarks[-1][1] if self.watermarks else None

    @property
    def stands_since_ms(self) -> int | None:
        """From when on it has been this watermark; None without any moment at which the job reported."""
        values = self.watermarks
        changes = [after[0] for before, after in pairwise(values) if before[1] != after[1]]
        return changes[-1] if changes else values[0][0] if values else None

    @property
    def stands(self) -> bool:
        """Whether the observed watermark has stayed for so long that it counts as standing."""
        since = self.stands_since_ms
        return since is not None and self.at_ms - since >= STANDS_MS

    def live_inputs(self, task: str) -> list[Instance]:
        """The instances that a task reads, without those that have ended: nobody waits for them."""
        return [each for name in self.inputs[task] for each in self.tasks.get(name, ()) if not each.last.ended]

    def holders(self) -> list[Instance]:
        """The instances of a source with the smallest watermark, found from the observed task on along its inputs.

        None of them counts before it has reported. Empty if all have ended, and for Spark, which reports no watermark
        of a source.
        """
        if self.engine == "spark":
            return []
        task, seen = self.observed_task, set[str]()
        smallest_of = [each for each in self.observed if not each.last.ended] if not self.inputs[task] else []
        while self.inputs[task] and task not in seen:
            seen.add(task)
            smallest_of = _smallest([each for each in self.live_inputs(task) if each.last.records is not None])
            if not smallest_of:
                break
            task = smallest_of[0].task
        return smallest_of


def _smallest(instances: Sequence[Instance]) -> list[Instance]:
    """Those of one task that have the smallest output, where none is the smallest."""
    if not instances:
        return []
    lowest = smallest(each.last.output_watermark_ms for each in instances)
    lowest_ones = [each for each in instances if each.last.output_watermark_ms == lowest]
    return [each for each in lowest_ones if each.task == lowest_ones[0].task]


def smallest(watermarks: Iterable[int | None]) -> int | None:
    """The smallest watermark; None if one of them is unknown, since nobody may go beyond it."""
    values = list(watermarks)
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def title_of(task: str) -> str:
    """A task by its first operator: "other[5]" of "Source: other[5] -> Calc[6]"."""
    return task.partition(" -> ")[0].removeprefix("Source: ")


def job_of(engine: Engine, table: pa.Table, at_ms: int, *, waits: bool | None = None) -> Job:
    """The job in a table, up to a moment; `table` has a row at least."""
    rows = [row for row in table.to_pylist() if row["at_ms"] <= at_ms]
    chains: dict[tuple[str, int | None], dict[int, list[dict[str, Any]]]] = {}
    inputs: dict[str, tuple[str, ...]] = {}
    for row in rows:
        inputs[row["task"]] = tuple(row["inputs"])
        chains.setdefault((row["task"], row["subtask"]), {}).setdefault(row["at_ms"], []).append(row)
    tasks: dict[str, tuple[Instance, ...]] = {}
    for (task, subtask), moments in chains.items():
        instance = Instance(task, subtask, tuple(_moment(chain) for chain in moments.values()))
        tasks[task] = (*tasks.get(task, ()), instance)
    operators = {row["task"]: row["operator"] if row["task"] == QUERY else title_of(row["task"]) for row in rows}
    read = {name for names in inputs.values() for name in names}
    last = [task for task in tasks if task not in read]
    jobs = [
        Job(engine, rows[0]["job"], at_ms, tasks, inputs, task, operators[task], waits)
        for task in [task for task in last if inputs[task]] or last
    ]
    # Of several ends of a plan the one that is furthest behind is asked for.
    return min(jobs, key=lambda job: (job.watermark_ms is not None, job.watermark_ms or 0))


def _moment(chain: Sequence[dict[str, Any]]) -> Moment:
    """One moment of a task from the rows of its operators, in the order of their chain."""
    first, last = chain[0], chain[-1]
    is_source = not first["inputs"]
    return Moment(
        at_ms=first["at_ms"],
        ended=first["ended"],
        input_watermark_ms=first["input_watermark_ms"],
        output_watermark_ms=last["output_watermark_ms"],
        records=first["records_out"] if is_source else first["records_in"],
        written=last["records_in"] if len(chain) > 1 and last["task"] != QUERY else last["records_out"],
        late_records=_sum(row["late_records"] for row in chain),
        state_rows=_sum(row["state_rows"] for row in chain),
        pending_records=first["pending_records"],
        idle_share=first["idle_share"],
        busy_share=first["busy_share"],
        back_pressured_share=first["back_pressured_share"],
        delay_ms=max((row["delay_ms"] for row in chain if row["delay_ms"] is not None), default=None),
        event_max_ms=first["event_max_ms"],
        event_min_ms=first["event_min_ms"],
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
