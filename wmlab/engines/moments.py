"""The table of a job as its rules look at it: of each task and subtask, what it was at each moment.

Operators that are chained run as one, so the first one's input and the last one's output are those of the task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from wmlab.engines.tables import NONE_YET, QUERY, Engine

STANDS_MS: Final = 20_000
"""How long a metric of Flink has to stay to count as standing: by default Flink renews what it shows every ten seconds
(`metrics.fetcher.update-interval`), so two metrics of one poll may be that far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A split, or partition, of a source at one moment; None is unknown."""

    name: str
    watermark_ms: int | None
    idle_share: float | None
    paused_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operator of a chain at one moment; None is unknown. Its watermarks are of one report."""

    operator: str
    got_ms: int | None
    sent_ms: int | None
    records_in: int | None
    records_out: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A task's subtask, or a source of Spark, at one moment; None is unknown, a watermark may be `NONE_YET`.

    `records` is what a source has read and any other task has received, `written` what has reached the last operator of
    the chain; `delay_ms` is stated by the plan. An operator of two inputs reports the smaller watermark of both, also
    of one that is idle; `input_watermark_ms` is at least what the operator itself has sent.
    """

    at_ms: int
    ended: bool = False
    input_watermark_ms: int | None = None
    output_watermark_ms: int | None = None
    records: int | None = None
    written: int | None = None
    late_records: int | None = None
    state_rows: int | None = None
    removed_rows: int | None = None
    pending_records: int | None = None
    idle_share: float | None = None
    busy_share: float | None = None
    back_pressured_share: float | None = None
    drift_ms: int | None = None
    delay_ms: int | None = None
    event_max_ms: int | None = None
    event_min_ms: int | None = None
    offset: str | None = None
    run: str | None = None
    batch: int | None = None
    duration_ms: int | None = None
    splits: tuple[Split, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def end_ms(self) -> int:
        """When its batch had ended, for Spark."""
        return self.at_ms + (self.duration_ms or 0)


@dataclass(frozen=True, slots=True)
class Instance:
    """One parallel instance of a task, or a source of Spark, with its moments, ascending.

    `gone` are the splits that it has still metrics of, though it reads them no more; its moments leave them out.
    """

    task: str
    subtask: int | None
    moments: tuple[Moment, ...]
    gone: frozenset[str] = frozenset()

    @property
    def last(self) -> Moment:
        """What it was last."""
        return self.moments[-1]

    def since(self, at_ms: int) -> tuple[Moment, ...]:
        """The last moment up to `at_ms`, or the first of all, and those after it."""
        begin = max((index for index, moment in enumerate(self.moments) if moment.at_ms <= at_ms), default=0)
        return self.moments[begin:]

    @property
    def source(self) -> str:
        """The name of the first operator of its chain, without Flink's "Source: "."""
        return title_of(self.task)

    @property
    def silent_since_ms(self) -> int | None:
        """From when on it has read nothing more; None if its records are not reported."""
        known = [(each.at_ms, each.records) for each in self.moments if each.records is not None]
        return same_since(known) if self.last.records is not None else None

    @property
    def splits_are_idle(self) -> bool:
        """Whether all its splits report that an idle timeout has passed."""
        return bool(self.last.splits) and all(split.idle_share for split in self.last.splits)


@dataclass(frozen=True)
class Job:
    """A job up to the moment of the question; `observed_task` is the one whose watermark is asked for.

    `waits` is whether the query is known to run and to have nothing to read at that moment, None if nobody knows.
    `state` is what the engine calls the job's state, None if nobody knows; `plans` has what the plan says of each task,
    `states` the states of the job, and `titles` the names of the observed operators. `is_looked_at` is whether anybody
    looked at that moment, so that what had not been reported by then had not happened; without `has_plan`, who reads
    whom is assumed. `settings` are those that the engine was asked for.
    """

    engine: Engine
    name: str
    at_ms: int
    tasks: dict[str, tuple[Instance, ...]]
    inputs: dict[str, tuple[str, ...]]
    observed_task: str
    operator: str
    waits: bool | None = None
    state: str | None = None
    exception: str | None = None
    plans: dict[str, str] | None = None
    states: tuple[tuple[int, str | None], ...] = ()
    titles: tuple[str, ...] = ()
    is_looked_at: bool = True
    has_plan: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> list[Instance]:
        """All instances of the sources that the observed task reads from, directly or not."""
        return [each for task in self.path if not self.inputs[task] for each in self.tasks[task]]

    @property
    def observed(self) -> tuple[Instance, ...]:
        """The instances of the task whose watermark is asked for."""
        return self.tasks[self.observed_task]

    @cached_property
    def path(self) -> list[str]:
        """The observed task and all tasks from which it gets rows."""
        path, todo = list[str](), [self.observed_task]
        while todo:
            task = todo.pop(0)
            if task not in path and task in self.tasks:
                path.append(task)
                todo += self.inputs[task]
        return path

    @property
    def plan(self) -> str:
        """What the plan says of these tasks."""
        return "\n".join((self.plans or {}).get(task, "") for task in self.path)

    @cached_property
    def watermarks(self) -> list[tuple[int, int | None]]:
        """When the observed task had which watermark: the smallest of its live instances, None if one is unknown."""
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
    def reported_ms(self) -> int | None:
        """The last one of these."""
        return self.watermarks[-1][1] if self.watermarks else None

    @property
    def watermark_ms(self) -> int | None:
        """The last one of these as a time; None if there is none yet, too."""
        return time_of(self.reported_ms)

    @property
    def stands_since_ms(self) -> int | None:
        """From when on it has been this watermark; None if none was reported."""
        return None if self.reported_ms is None else same_since(self.watermarks)

    @property
    def stands(self) -> bool:
        """Whether the observed watermark has stayed for so long that it counts as standing."""
        since = self.stands_since_ms
        return since is not None and self.at_ms - since >= STANDS_MS

    @cached_property
    def idle(self) -> frozenset[tuple[str, int | None]]:
        """The task and number of each instance that nobody waits for, since an idle timeout has passed."""
        return frozenset(
            (each.task, each.subtask)
            for task in self.path
            for input_task in self.inputs[task]
            for each in self.tasks.get(input_task, ())
            if each.splits_are_idle or self._has_passed(task, each)
        )

    def _has_passed(self, task: str, instance: Instance) -> bool:
        """Whether a task had a later watermark than an input has sent since.

        No watermark passes an input that counts. What the input shows now is no older than `STANDS_MS`, so a watermark
        from before that cannot be a newer one of the same input.
        """
        sent = instance.last.output_watermark_ms
        before = [
            each.input_watermark_ms
            for consumer in self.tasks[task]
            for each in consumer.moments
            if each.at_ms <= self.at_ms - STANDS_MS and each.input_watermark_ms is not None
        ]
        return bool(before) and sent is not None and max(before) > sent

    def is_live(self, instance: Instance) -> bool:
        """Whether anybody waits for it: it has not ended, and is not idle."""
        return not instance.last.ended and (instance.task, instance.subtask) not in self.idle

    def live_inputs(self, task: str) -> list[Instance]:
        """The instances that a task reads and waits for."""
        return [each for name in self.inputs[task] for each in self.tasks.get(name, ()) if self.is_live(each)]


def smallest(watermarks: Iterable[int | None]) -> int | None:
    """The smallest watermark; None if one of them is unknown, since nobody may go beyond it."""
    values = list(watermarks)
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def time_of(watermark: int | None) -> int | None:
    """A watermark that is a time; None for none yet."""
    return None if watermark == NONE_YET else watermark


def same_since(values: Sequence[tuple[int, object]]) -> int:
    """Since which moment the last of these values has been what it is."""
    changes = [after[0] for before, after in pairwise(values) if before[1] != after[1]]
    return changes[-1] if changes else values[0][0]


def title_of(task: str) -> str:
    """A task by its first operator: "other[5]" of "Source: other[5] -> Calc[6]"; with its number if it has one."""
    first, arrow, rest = task.partition(" -> ")
    number = _NUMBER.search(rest) if arrow else None
    return first.removeprefix("Source: ") + (number[0] if number else "")


_NUMBER: Final = re.compile(r" \(\d+\)$")
"""What tells tasks of one name apart."""


def jobs_of(engine: Engine, every: Sequence[Mapping[str, Any]], at_ms: int, **facts: Any) -> tuple[Job, ...]:
    """The job in the rows of a table up to a moment, once for each end of its plan; there is a row at least.

    `facts` are fields of `Job` that the table does not have: `waits`, `has_plan`, `is_looked_at`, and for Spark `state`
    and `exception`.
    """
    rows = [row for row in every if row["at_ms"] <= at_ms]
    chains: dict[tuple[str, int | None], dict[int, list[Mapping[str, Any]]]] = {}
    splits: dict[tuple[str, int | None, int], list[Split]] = {}
    inputs: dict[str, tuple[str, ...]] = {}
    plans, states = dict[str, str](), dict[int, str | None]()
    for row in rows:
        inputs[row["task"]] = tuple(row["inputs"])
        plans[row["task"]] = row["plan"] or ""
        states[row["at_ms"]] = row["state"]
        if row["split"] is None:
            chains.setdefault((row["task"], row["subtask"]), {}).setdefault(row["at_ms"], []).append(row)
        else:
            of = splits.setdefault((row["task"], row["subtask"], row["at_ms"]), [])
            shares = {name: row[name] for name in ("idle_share", "paused_share")}
            of.append(Split(name=row["split"], watermark_ms=row["output_watermark_ms"], **shares))
    left = _left(splits, chains)
    tasks: dict[str, tuple[Instance, ...]] = {}
    for (task, subtask), moments in chains.items():
        gone = frozenset(name for *of, name in left if of == [task, subtask])
        known = (
            _moment(chain, [split for split in splits.get((task, subtask, at), ()) if split.name not in gone])
            for at, chain in moments.items()
        )
        tasks[task] = (*tasks.get(task, ()), Instance(task, subtask, tuple(known), gone))
    operators = {task: "the query" if task == QUERY else title_of(task) for task in tasks}
    read = {name for names in inputs.values() for name in names}
    last = [each for task in tasks if task not in read for each in _ends(task, inputs)]
    if engine == "flink":
        facts |= {name: rows[-1][name] for name in ("state", "exception")}
    ends = [task for task in last if inputs[task] or engine == "flink"] or last
    titles = {task: tuple(dict.fromkeys(row["operator"] for row in rows if row["task"] == task)) for task in ends}
    return tuple(
        Job(
            engine=engine,
            name=rows[0]["job"],
            at_ms=at_ms,
            tasks=tasks,
            inputs=inputs,
            observed_task=task,
            operator=operators[task],
            plans=plans,
            states=tuple(states.items()),
            titles=titles[task],
            **facts,
        )
        for task in ends
    )


def _left(
    splits: Mapping[tuple[str, int | None, int], Sequence[Split]],
    chains: Mapping[tuple[str, int | None], Mapping[int, Sequence[Mapping[str, Any]]]],
) -> list[tuple[str, int | None, str]]:
    """The splits that a task's subtask reads no more: their marks stand there, and it sends later ones, or another
    subtask has gone on with them. No source sends a later watermark than a split that it reads and that is not idle.

    The metrics of a split stay with each subtask that has read it.
    """
    marks: dict[tuple[str, str], dict[int | None, dict[int, int | None]]] = {}
    for (task, subtask, at_ms), many in splits.items():
        for each in many:
            own = marks.setdefault((task, each.name), {}).setdefault(subtask, {})
            own[at_ms] = None if each.idle_share else each.watermark_ms
    sent = {of: {at: rows[0]["output_watermark_ms"] for at, rows in chain.items()} for of, chain in chains.items()}
    return [
        (task, subtask, name)
        for (task, name), by_subtask in marks.items()
        for subtask, own in by_subtask.items()
        if any(_goes_on(own, other) for other in (*by_subtask.values(), sent.get((task, subtask), {})))
    ]


def _goes_on(own: Mapping[int, int | None], other: Mapping[int, int | None]) -> bool:
    """Whether other marks have risen beyond the own ones since these stand; some sources never report own ones."""
    since_ms = same_since(list(own.items()))
    later = [mark for at_ms, mark in other.items() if at_ms >= since_ms and mark is not None]
    mark = time_of(list(own.values())[-1])
    return mark is not None and bool(later) and later[-1] > max(mark, later[0])


def _ends(task: str, inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """The task itself, or what several pipelines have before the sink that they share, which waits for nothing."""
    before = [name for name in inputs[task] if inputs.get(name)]
    return before if len(before) > 1 and title_of(task).lower().startswith("sink") else [task]


def _moment(chain: Sequence[Mapping[str, Any]], splits: Sequence[Split]) -> Moment:
    """One moment of a task from the rows of its operators, in the order of their chain, and its splits."""
    first, last = chain[0], chain[-1]
    is_source = not first["inputs"]
    received = [first["input_watermark_ms"], None if is_source else first["output_watermark_ms"]]
    return Moment(
        at_ms=first["at_ms"],
        ended=first["ended"],
        input_watermark_ms=_most(*received),
        output_watermark_ms=last["output_watermark_ms"],
        records=_read(first) if is_source else first["records_in"],
        written=last["records_out"] if last["task"] == QUERY else last["records_in"],
        late_records=_sum(row["late_records"] for row in chain),
        state_rows=_sum(row["state_rows"] for row in chain),
        removed_rows=_sum(row["removed_rows"] for row in chain),
        delay_ms=_most(*(row["delay_ms"] for row in chain)),
        drift_ms=_most(*(row["drift_ms"] for row in chain)),
        splits=tuple(splits),
        steps=tuple(map(_step, chain)),
        **{name: first[name] for name in _OF_FIRST},
    )


def _read(first: Mapping[str, Any]) -> int | None:
    """What a source has read: what it has passed on, or what it has got and dropped."""
    return None if first["records_out"] is None else _most(first["records_out"], first["records_in"])


def _step(row: Mapping[str, Any]) -> Step:
    return Step(
        operator=row["operator"],
        got_ms=row["input_watermark_ms"],
        sent_ms=row["output_watermark_ms"],
        records_in=row["records_in"],
        records_out=row["records_out"],
    )


_OF_FIRST: Final = (
    *("pending_records", "idle_share", "busy_share", "back_pressured_share"),
    *("event_max_ms", "event_min_ms", "offset", "run", "batch", "duration_ms"),
)
"""What a task reports once, so that all rows of its chain have it."""


def _most(*counts: int | None) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
