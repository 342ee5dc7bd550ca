"""What holds the watermark of a Flink job, found by walking from the last operator to where watermarks begin.

Flink reports the watermark that each operator has got and sent, and that of each split of a source. At a task with
several inputs the smallest one decides. The walk ends at an operator that sends less than it has got, at a task that
has not got what was sent, or where watermarks begin: at a source, or at the first operator that has one while nothing
above it has. What is idle by a timeout, or has ended, holds nothing and is left out (`Job.is_live`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from wmlab.core.words import listed
from wmlab.engines.facts import BEHIND_MS, FAR_MS, need
from wmlab.engines.moments import STANDS_MS, Instance, Job, Moment, Step, same_since, smallest, time_of
from wmlab.engines.tables import NONE_YET

Level = Literal["source", "subtask", "split"]
LEVELS: Final[tuple[Level, ...]] = ("source", "subtask", "split")


@dataclass(frozen=True)
class Part:
    """A source, subtasks of one, or a split: its name, and its watermark at each poll.

    `instances` are the subtasks that it is, none for a split, whose rows are not counted.
    """

    name: str
    marks: tuple[tuple[int, int | None], ...]
    instances: tuple[Instance, ...] = ()

    @property
    def mark(self) -> int:
        """Its watermark now, or `NONE_YET`; raises `NotReportedError`."""
        return need(self.marks[-1][1])

    def mark_at(self, at_ms: int) -> int:
        """Its watermark in the last poll up to a moment; raises `NotReportedError`."""
        return need(next((mark for at, mark in reversed(self.marks) if at <= at_ms), self.marks[0][1]))

    def stands(self, at_ms: int) -> bool:
        """Whether its watermark has been the same for so long that it counts as standing."""
        need(self.mark)
        return at_ms - same_since(self.marks) >= STANDS_MS

    @property
    def rows(self) -> int:
        """How many rows it has read; raises `NotReportedError`."""
        return sum(need(each.last.records) for each in self.instances)

    @property
    def silent_since_ms(self) -> int:
        """From when on it has read nothing; raises `NotReportedError`."""
        return max(need(each.silent_since_ms) for each in self.instances)

    def is_silent(self, at_ms: int) -> bool:
        """Whether it has read nothing for so long that it counts; raises `NotReportedError`."""
        return at_ms - self.silent_since_ms >= STANDS_MS


@dataclass(frozen=True)
class View:
    """A job, and what the walk finds in it: `keeper`, the operator that keeps the watermark, or `late_task`, the task
    that it has not reached, or `holders`, the origin's subtasks with the smallest one.
    """

    job: Job

    def sent(self, instance: Instance, at: Moment | None = None) -> int | None:
        """The watermark that a chain begins with, whatever its later operators do with it."""
        moment = at or instance.last
        return max((s.sent_ms for s in moment.steps if s.sent_ms is not None), default=moment.output_watermark_ms)

    def begins_at(self, task: str) -> bool:
        """Whether watermarks begin at a task: nothing that it reads has ever sent one, and it has."""
        inputs = self.job.inputs[task]
        return not inputs or (self.has_sent(task) and not any(map(self.has_sent, inputs)))

    def has_sent(self, task: str) -> bool:
        """Whether a task has ever sent a watermark."""
        every = [self.sent(each, at) for each in self.job.tasks.get(task, ()) for at in each.moments]
        return any(time_of(mark) is not None for mark in every)

    @cached_property
    def origins(self) -> list[Instance]:
        """Where the watermarks of the observed task begin."""
        begins, todo = list[str](), [self.job.observed_task]
        while todo:
            task = todo.pop(0)
            if task in self.job.tasks and task not in begins:
                is_origin = self.begins_at(task)
                begins += [task] if is_origin else []
                todo += [] if is_origin else self.job.inputs[task]
        return [each for task in begins for each in self.job.tasks[task]]

    @cached_property
    def live(self) -> list[Instance]:
        """Those of them that anybody waits for."""
        return [each for each in self.origins if self.job.is_live(each)]

    @cached_property
    def walk(self) -> tuple[tuple[Instance, Step] | None, str | None, list[Instance]]:
        """The operator that keeps the watermark, the task that it has not reached, or those that hold it."""
        job, task, seen = self.job, self.job.observed_task, set[str]()
        while task not in seen:
            seen.add(task)
            live = [each for each in job.tasks[task] if job.is_live(each) and each.last.records is not None]
            low = smallest(each.last.output_watermark_ms for each in live)
            lowest = [each for each in live if each.last.output_watermark_ms == low and low is not None]
            kept = [(each, step) for each in lowest for step in reversed(each.last.steps) if self._keeps(each, step)]
            if kept and task != job.observed_task:
                return kept[0], None, []
            if self.begins_at(task):
                return None, None, _lowest(live, [self.sent(each) for each in live])
            inputs = [each for each in job.live_inputs(task) if each.last.records is not None]
            sent = smallest(each.last.output_watermark_ms for each in inputs)
            got = smallest(each.last.input_watermark_ms for each in live)
            if sent is not None and got is not None and sent - got >= STANDS_MS:
                return None, task, []
            holders = _lowest(inputs, [each.last.output_watermark_ms for each in inputs])
            if not holders:
                break
            task = holders[0].task
        return None, None, []

    def _keeps(self, instance: Instance, step: Step) -> bool:
        """Whether an operator has sent nothing more for long though it has got more, or sends it far later.

        Both are of one report, so that no metric is older than the other one. What is itself far from the clock when
        the operator gets it is held further up.
        """
        same = [(at.at_ms, s) for at in instance.moments for s in at.steps if s.operator == step.operator]
        if step.sent_ms is None or time_of(step.got_ms) is None or kept_ms(step) <= 0:
            return False
        since_ms = same_since([(at_ms, each.sent_ms) for at_ms, each in same])
        first = next(each for at_ms, each in same if at_ms == since_ms)
        if self.job.at_ms - since_ms >= STANDS_MS:
            return first.got_ms is not None and need(step.got_ms) > max(first.got_ms, step.sent_ms)
        return kept_ms(step) >= FAR_MS > self.job.at_ms - need(step.got_ms)

    @property
    def keeper(self) -> tuple[Instance, Step] | None:
        """The operator that keeps the watermark, in the subtask that keeps it."""
        return self.walk[0]

    @property
    def late_task(self) -> str | None:
        """The task that has not got what its inputs have sent."""
        return self.walk[1]

    @cached_property
    def whole(self) -> tuple[Instance, ...]:
        """All live subtasks of the origin that holds it."""
        holders = self.walk[2]
        return tuple(each for each in self.live if holders and each.task == holders[0].task)

    @cached_property
    def side(self) -> tuple[Instance, ...]:
        """What of it holds the watermark: all, if none of its subtasks is behind the others, or all are silent."""
        marks = [self.sent(each) for each in self.whole]
        known = [mark for mark in marks if mark is not None]
        if not known or len(known) < len(marks) or max(known) - min(known) < BEHIND_MS:
            return self.whole
        are_silent = all(each.silent_since_ms is not None for each in self.whole) and self.part("", self.whole)
        if are_silent and are_silent.is_silent(self.job.at_ms) and min(known) != NONE_YET:
            return self.whole
        return tuple(self.walk[2])

    @property
    def holder(self) -> str:
        """What holds it: a source, or subtasks of it."""
        return self.name_of(self.side)

    def name_of(self, instances: Sequence[Instance]) -> str:
        """Subtasks of one origin by their numbers; by its name alone, if they are all of it that are live."""
        first = instances[0]
        if len(instances) == sum(each.task == first.task for each in self.live):
            return first.source
        numbers = [str(each.subtask) for each in instances]
        return f"subtask{'s' * (len(numbers) > 1)} {listed(numbers)} of {first.source}"

    def part(self, name: str, instances: Sequence[Instance]) -> Part:
        """Some subtasks as one part, with the smallest of their watermarks at each poll."""
        moments = [(at.at_ms, [each.since(at.at_ms)[0] for each in instances]) for at in instances[0].moments]
        marks = ((at_ms, smallest(map(self.sent, instances, many))) for at_ms, many in moments)
        return Part(name, tuple(marks), tuple(instances))

    @cached_property
    def holding(self) -> Part | None:
        """What holds it, as one part; None if nothing does."""
        return self.part(self.holder, self.side) if self.side else None

    def levels(self, level: Level) -> tuple[Part, list[Part]] | None:
        """At a level, what holds the watermark, and those next to it that anybody waits for; None without either."""
        if not self.side:
            return None
        is_whole = len(self.side) == len(self.whole)
        if level == "split":
            return self._splits()
        if (level == "source") != is_whole:
            return None
        tasks = dict.fromkeys(each.task for each in self.live if is_whole and each not in self.whole)
        groups = [[each for each in self.live if each.task == task] for task in tasks]
        groups += [[each] for each in self.whole if each not in self.side]
        others = [self.part(self.name_of(group), group) for group in groups]
        return (self.part(self.holder, self.side), others) if others else None

    def _splits(self) -> tuple[Part, list[Part]] | None:
        """The lowest split of the lowest subtasks, and those of the same subtask that are ahead of it."""
        lowest = smallest(map(self.sent, self.side))
        for each in self.side:
            names = [split.name for split in each.last.splits if not split.idle_share]
            parts = [
                Part(
                    f"partition {name} of {each.source}, subtask {each.subtask}",
                    tuple((at.at_ms, s.watermark_ms) for at in each.moments for s in at.splits if s.name == name),
                )
                for name in names
            ]
            if self.sent(each) == lowest and len(parts) > 1 and all(p.marks[-1][1] is not None for p in parts):
                low, *rest = sorted(parts, key=lambda part: part.mark)
                ahead = [part for part in rest if part.mark - low.mark >= BEHIND_MS]
                if ahead:
                    return low, ahead
        return None

    @cached_property
    def lags(self) -> list[tuple[int, int]]:
        """How far what holds it, or else the watermark in question, was behind the clock at each poll.

        An operator with two inputs reports now what it has got, now what it has sent, which a join keeps back.
        """
        of_holder = self.holding.marks if self.holding else ()
        known = [
            [(at, at - mark) for at, mark in marks if mark is not None and mark != NONE_YET]
            for marks in (of_holder, self.job.watermarks)
        ]
        return known[0] or known[1]


def kept_ms(step: Step) -> int:
    """By how much the watermark that an operator sends is behind the one that it has got."""
    return need(step.got_ms) - need(step.sent_ms)


def _lowest(instances: Sequence[Instance], marks: Sequence[int | None]) -> list[Instance]:
    """Those of one task with the smallest watermark; none if one of them is unknown."""
    low = smallest(marks)
    lowest = [each for each, mark in zip(instances, marks, strict=True) if mark == low and low is not None]
    return [each for each in lowest if each.task == lowest[0].task]
