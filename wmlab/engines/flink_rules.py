"""The rules for a Flink job: which of its sources, subtasks or partitions holds the watermark, by what each has sent.

Flink reports the watermark that each operator has received and sent, and that of each split of a source. So the holder
is found and not guessed. How late rows are is not in its metrics. An instance that is idle by a timeout, or has ended,
holds nothing and is left out everywhere (`Job.is_live`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from wmlab.core.words import MINUTE_MS, SECOND_MS, clock_words, counted, grouped, listed, rounded
from wmlab.engines.causes import (
    BEHIND_MS,
    FUTURE_MS,
    Cause,
    Evidence,
    Finding,
    Rule,
    first_late_ms,
    last_reported,
    late_since,
    names_of,
    reported,
)
from wmlab.engines.moments import STANDS_MS, Instance, Job, Moment, Split, smallest, title_of

_PRESSED: Final = 0.5
_BUSY: Final = 0.9
"""The shares of its time from which on a task counts as back-pressured, and as busy."""
_QUARTER_MS: Final = 15 * MINUTE_MS
_FURTHEST_ZONE_MS: Final = 14 * 60 * MINUTE_MS
_ZONE_SLACK_MS: Final = 25 * SECOND_MS
"""How much older than a whole offset a watermark may be: a metric is up to ten seconds old, a delay is usual."""
_EVENT_TIME: Final = re.compile(r"EventTime|isRowTime=true|WatermarkAssigner|slice_end|rowtime")
_PROCESSING_TIME: Final = re.compile(r"ProcessingTime|PROCTIME\(\)")
_LOCAL_TIME: Final = re.compile(r"LOCALTIMESTAMP\(\) AS (\w+)(?=.*rowtime=\[\1\])", re.DOTALL)
_RUNNING: Final = (None, "RUNNING", "CREATED", "INITIALIZING", "RECONCILING")
_STATES: Final = {
    "FAILED": (Cause.FAILED, "it has failed", "See its exceptions, and start it again from a checkpoint."),
    "FAILING": (Cause.FAILED, "it is failing", "See its exceptions."),
    "CANCELED": (Cause.CANCELLED, "it was cancelled", "Start it again from a savepoint or checkpoint."),
    "CANCELLING": (Cause.CANCELLED, "it is being cancelled", "Start it again from a savepoint or checkpoint."),
    "RESTARTING": (Cause.RESTARTING, "it has failed and waits to restart", "See its exceptions."),
    "FINISHED": (
        Cause.NOT_RUNNING,
        "it has finished: its sources have ended, or it was stopped with a savepoint",
        "Nothing more comes of it.",
    ),
}


@dataclass(frozen=True, slots=True)
class Side:
    """What holds the watermark of a job: the subtasks of a source with the smallest one, and the inputs next to them.

    It is the whole source if none of its subtasks is behind the others, or all are silent. While there is no watermark
    at all, those that have never had one are behind the others. Without instances nothing holds it.
    """

    job: Job
    instances: tuple[Instance, ...]

    @classmethod
    def of(cls, job: Job) -> Side:
        """What holds the watermark of a job."""
        holders = job.holders()
        if not holders:
            return cls(job, ())
        whole = cls(job, tuple(each for each in job.tasks[holders[0].task] if job.is_live(each)))
        outputs = [each.last.output_watermark_ms for each in whole.instances]
        known = [value for value in outputs if value is not None]
        together = len(known) == len(outputs) and max(known) - min(known) < BEHIND_MS
        is_open = job.watermark_ms is None and 0 < len(known) < len(outputs)
        return whole if together or (whole.is_silent and not is_open) else cls(job, tuple(holders))

    @property
    def source(self) -> str:
        """The name of its source."""
        return self.instances[0].source

    @property
    def name(self) -> str:
        """Its source, or the subtasks of it."""
        return self.source if self.is_whole else f"{_subtasks(self.instances)} of {self.source}"

    @property
    def since_ms(self) -> int:
        """When the log of it begins."""
        return self.instances[0].moments[0].at_ms

    @property
    def silent_since_ms(self) -> int:
        """From when on it has read nothing more."""
        return max(each.silent_since_ms or 0 for each in self.instances)

    @property
    def is_silent(self) -> bool:
        """Whether all of it has read nothing for so long that it counts as standing."""
        return _are_silent(self.job, self.instances)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a source that anybody waits for."""
        task = self.instances[0].task if self.instances else ""
        return bool(task) and len(self.instances) == sum(map(self.job.is_live, self.job.tasks[task]))

    @property
    def others(self) -> list[Instance]:
        """The inputs next to it that anybody waits for."""
        return [each for each in self.job.sources if each not in self.instances and self.job.is_live(each)]

    @property
    def delay_ms(self) -> int | None:
        """The delay of its watermark, where the plan states it."""
        return self.instances[0].last.delay_ms if self.instances else None

    def behind_ms(self, at_ms: int | None = None) -> int | None:
        """By how much it is behind the others in the last poll up to a moment; None without watermarks."""
        until_ms = self.job.at_ms if at_ms is None else at_ms
        low, high = (
            smallest(each.since(until_ms)[0].output_watermark_ms for each in instances)
            for instances in (self.instances, self.others)
        )
        return None if low is None or high is None else high - low

    @property
    def is_behind(self) -> bool:
        """Whether it is behind the others, by more than the age of a metric."""
        return (self.behind_ms() or 0) >= BEHIND_MS

    @property
    def is_at_the_clock(self) -> bool:
        """Whether it is at the clock, so that those beyond it are ahead of the clock."""
        known = [each.last.output_watermark_ms for each in self.others if each.last.output_watermark_ms is not None]
        watermark_ms, now_ms = self.job.watermark_ms, self.job.at_ms
        if watermark_ms is None or not known or now_ms - watermark_ms >= FUTURE_MS:
            return False
        return min(known) > now_ms + FUTURE_MS

    def silence(self, name: str) -> str:
        """Since when it reads nothing, as a clause about `name`."""
        if not any(each.last.records for each in self.instances):
            return f"{name} has never read a record"
        if self.silent_since_ms == min(each.moments[0].at_ms for each in self.instances):
            return f"{name} has read no record as far as the log goes back"
        return f"{name} has read no record since {clock_words(self.silent_since_ms)}"

    def trend(self, now_ms: int) -> str:
        """How the distance to the others has changed in the log, as the end of a clause."""
        gaps = [self.behind_ms(each.at_ms) for each in self.instances[0].moments]
        return _change(now_ms - next((gap for gap in gaps if gap is not None), now_ms)) or " all the while"

    @property
    def paused(self) -> str:
        """Which sources wait for it: by alignment, or as if by one; as the end of a clause."""
        waiting = [each for each in self.others if each.last.records and each.is_silent(self.job.at_ms)]
        if not waiting:
            return ""
        is_aligned = any(at.drift_ms is not None for each in waiting for at in each.moments)
        how = "is paused by alignment" if is_aligned else "reads nothing meanwhile, as if paused by alignment"
        return f"; {listed(names_of(waiting))} {how}"


def not_running(job: Job) -> Finding | None:
    """The job is in a state in which no watermark moves."""
    if job.state in _RUNNING:
        return None
    cause, what, remedy = _STATES.get(
        str(job.state), (Cause.NOT_RUNNING, f"it is {job.state}", "See the log of the job manager.")
    )
    earlier = [at_ms for at_ms, state in job.states if state != job.state]
    since_ms = min(at_ms for at_ms, _ in job.states if not earlier or at_ms > max(earlier))
    why = f": {job.exception}" if job.exception else ""
    return Finding(
        cause=cause,
        proof="Flink reports this state of the job",
        since_ms=since_ms,
        what=f"{what}, seen first at {clock_words(since_ms)}{why}",
        remedy=remedy,
        evidence=last_reported(job.observed[:1], "records", "input_watermark_ms"),
    )


def silent_source(job: Job) -> Finding | None:
    """A source that reads nothing, while another one goes on, holds the watermark at the last one that it gave."""
    side = Side.of(job)
    if not _stands_at_source(job) or not side.is_whole or not side.is_silent:
        return None
    if not _reads_on(job, side.others):
        return None
    name, ahead = side.source, [each for each in side.others if each.last.output_watermark_ms is not None]
    return Finding(
        cause=Cause.SILENT_SOURCE,
        certainty="likely",
        proof=f"{ahead[0].source} reads on and is ahead, and every task has got what was sent" if ahead else "",
        whose=name,
        since_ms=side.silent_since_ms,
        what=side.silence(name),
        remedy=f"A row of {name}, its end, or an idle timeout would release it.",
        evidence=last_reported([*side.instances, *ahead[:1]], "records", "output_watermark_ms"),
    )


def silent_subtask(job: Job) -> Finding | None:
    """One subtask of a source reads nothing, while others of the same source go on, or have at least a watermark."""
    side = Side.of(job)
    if not _stands_at_source(job) or not side.instances or side.is_whole or not side.is_silent:
        return None
    siblings = [each for each in job.tasks[side.instances[0].task] if each not in side.instances and job.is_live(each)]
    others_read = _reads_on(job, siblings)
    if not others_read and not (job.watermark_ms is None and _has_watermark(siblings)):
        return None
    names = _subtasks(side.instances)
    partitions = listed([split.name for each in side.instances for split in each.last.splits], most=3)
    what = side.silence(f"{side.name}{f' (partition {partitions})' if partitions else ''}")
    return Finding(
        cause=Cause.SILENT_SUBTASK,
        proof="other subtasks of it are ahead, and every task has got what was sent",
        whose=side.name,
        since_ms=side.silent_since_ms,
        what=f"{what}, others {'do' if others_read else 'have a watermark'}",
        remedy=f"A row for {names}, fewer subtasks, or an idle timeout would release it.",
        evidence=last_reported([*side.instances, *siblings[:1]], "records", "output_watermark_ms"),
    )


def silent_partition(job: Job) -> Finding | None:
    """A source that reads and whose watermark stands: one of its partitions gives no newer rows."""
    side = Side.of(job)
    outputs = [None if each.last.records is None else each.last.output_watermark_ms for each in side.instances]
    lowest = smallest(outputs)
    if not job.stands or lowest is None or side.is_silent:
        return None
    lowest_ones = [each for each in side.instances if each.last.output_watermark_ms == lowest]
    names = f"{_subtasks(lowest_ones)} of {side.source}"
    verb = "reads and its watermark stands" if len(lowest_ones) == 1 else "read and their watermarks stand"
    evidence = last_reported(lowest_ones, "records", "output_watermark_ms")
    for each in lowest_ones:
        low, rest = _lowest_split(each)
        before = next((at for at in reversed(each.moments) if at.at_ms <= job.at_ms - STANDS_MS), None)
        if low is not None and _split_at(each.last, low.name) == (before and _split_at(before, low.name)):
            whose = f"partition {low.name} of {each.source}, subtask {each.subtask}"
            since = "since the log began" if job.stands_since_ms == each.moments[0].at_ms else "since then"
            return Finding(
                cause=Cause.SILENT_SUBTASK,
                proof=f"partition {rest[0].name} of the same subtask is ahead, and {low.name} is not idle",
                whose=whose,
                what=f"{whose} has given no newer row {since}",
                remedy=f"A newer row of partition {low.name}, or an idle timeout would release it.",
                since_ms=job.stands_since_ms,
                evidence=(*evidence, *(_reported_split(each, split) for split in (low, rest[0]))),
            )
    partitions = [split.name for each in lowest_ones for split in each.last.splits]
    one_of = f"one of {listed(partitions, most=4)}" if len(partitions) > 1 else "a partition"
    return Finding(
        cause=Cause.SILENT_SUBTASK,
        since_ms=job.stands_since_ms,
        whose=names,
        what=f"{names} {verb}: {one_of} is silent, or its rows are no newer",
        remedy="Compare the newest event time of each partition.",
        evidence=evidence,
    )


def partition_behind(job: Job) -> Finding | None:
    """A partition whose watermark moves, and is far behind that of the others of the same subtask."""
    if job.stands or job.watermark_ms is None:
        return None
    for each in Side.of(job).instances:
        gaps = [gap for at in each.moments if at.at_ms > job.at_ms - 2 * STANDS_MS if (gap := _gap_of_splits(at))]
        low, rest = _lowest_split(each)
        if low is None or len(gaps) < 2 or min(gaps) < BEHIND_MS:
            continue
        if next(_split_at(at, low.name) for at in each.moments if at.splits) == low.watermark_ms:
            continue  # it has not moved in the log: it may be silent
        if (rest[0].watermark_ms or 0) > job.at_ms + FUTURE_MS and job.at_ms - (low.watermark_ms or 0) < FUTURE_MS:
            continue
        whose = f"partition {low.name} of {each.source}, subtask {each.subtask}"
        return Finding(
            cause=Cause.SOURCE_BEHIND,
            proof=f"partition {rest[0].name} of the same subtask is ahead in every poll",
            whose=whose,
            since_ms=each.moments[0].at_ms,
            shift_ms=gaps[-1],
            what=f"{whose} is {rounded(gaps[-1])} behind partition {rest[0].name}",
            remedy=f"Only newer rows of partition {low.name} help.",
            evidence=tuple(_reported_split(each, split) for split in (low, rest[0])),
        )
    return None


def no_watermark(job: Job) -> Finding | None:
    """A source has read records and has never given a watermark, though something waits for event time."""
    side = Side.of(job)
    without = [each for each in side.instances if each.last.output_watermark_ms is None and each.last.records]
    if job.watermark_ms is not None or not job.stands or not without or _PROCESSING_TIME.search(job.plan):
        return None
    if any(each.last.written for each in job.observed):
        return None
    name, is_planned = side.source, bool(_EVENT_TIME.search(job.plan))
    read = sum(each.last.records or 0 for each in without)
    return Finding(
        cause=Cause.NO_WATERMARK,
        certainty="likely",
        proof="the plan has an operator of event time, and no row has come out of the job" if is_planned else "",
        whose=name,
        since_ms=side.since_ms,
        what=f"{name} has read {counted(read, 'record')} and given no watermark: "
        "none is declared, all times are null, or a filter takes all rows",
        remedy="See WATERMARK FOR in its table, or its watermark strategy.",
        evidence=last_reported(without, "records", "output_watermark_ms"),
    )


def no_event_time(job: Job) -> Finding | None:
    """Rows come out without any watermark: the job, or this part of it, goes by processing time."""
    written = sum(each.last.written or 0 for each in job.observed)
    is_planned = bool(_PROCESSING_TIME.search(job.plan)) and not _EVENT_TIME.search(job.plan)
    if job.watermark_ms is not None or not job.sources or not (is_planned or written):
        return None
    if not any(each.last.records for each in job.sources):
        return None
    why = "its windows go by processing time" if is_planned else "no operator before its end waits for one"
    return Finding(
        cause=Cause.NO_FAULT,
        certainty="likely",
        proof="the plan names processing time, and no operator of event time" if is_planned else "",
        what=f"{job.operator} needs no watermark: {why}",
        remedy=f"{counted(written, 'row')} came out so far.",
        evidence=last_reported(job.observed, "records", "written"),
    )


def source_behind(job: Job) -> Finding | None:
    """A source whose watermark moves, and is far behind that of the other inputs."""
    side = Side.of(job)
    behind_ms = side.behind_ms()
    if behind_ms is None or not side.is_behind or job.stands or _jumped(job) or side.is_at_the_clock:
        return None
    if all(job.at_ms - (each.silent_since_ms or job.at_ms) >= BEHIND_MS for each in side.instances):
        return None  # it may have stopped just now
    name, moments = side.name, side.instances[0].moments
    earlier = [side.behind_ms(at.at_ms) for at in moments if at.at_ms > job.at_ms - 2 * STANDS_MS]
    known = [gap for gap in earlier if gap is not None]
    # One that has fallen silent lags behind by the clock; one that is behind keeps its distance.
    passed_ms = min(job.at_ms - side.since_ms, 2 * STANDS_MS)
    keeps_up = len(known) > 1 and 2 * (known[-1] - known[0]) < passed_ms
    moves = any(each.moments[0].output_watermark_ms != each.last.output_watermark_ms for each in side.instances)
    is_steady = moves and keeps_up and min(known) >= BEHIND_MS and _late_task(job) is None
    ahead = side.others[0]
    zone = ", in whole quarters of an hour, as by another time zone" if _zone_ms(behind_ms, BEHIND_MS) else ""
    return Finding(
        cause=Cause.SOURCE_BEHIND,
        certainty="likely",
        proof=f"its watermark moves and is the smallest in every poll, and {ahead.source} is ahead"
        if is_steady
        else "",
        whose=name,
        since_ms=side.since_ms,
        shift_ms=behind_ms,
        what=f"{name} is {rounded(behind_ms)} behind the other inputs{side.trend(behind_ms)}{zone}{side.paused}",
        remedy=f"Only newer rows of {name} help.",
        evidence=last_reported([*side.instances, ahead], "records", "output_watermark_ms", "drift_ms"),
    )


def ahead_of_clock(job: Job) -> Finding | None:
    """A source whose watermark is ahead of the clock: of several, the one at the clock holds nothing back."""
    side = Side.of(job)
    live = [each for each in job.sources if job.is_live(each) and each.last.output_watermark_ms is not None]
    ahead = [each for each in live if (each.last.output_watermark_ms or 0) > each.last.at_ms + FUTURE_MS]
    if not ahead or not side.instances or _jumped(job):
        return None
    name = Side(job, tuple(each for each in ahead if each.task == ahead[0].task)).name
    ahead_ms = max((each.last.output_watermark_ms or 0) - each.last.at_ms for each in ahead)
    is_zone = bool(_zone_ms(-ahead_ms, _ZONE_SLACK_MS))
    return Finding(
        cause=Cause.AHEAD,
        certainty="likely",
        proof="" if is_zone else "its own watermark is later than the clock, and by no offset of a time zone",
        whose=name,
        since_ms=ahead[0].moments[0].at_ms,
        shift_ms=ahead_ms,
        what=f"the event times of {name} are {rounded(ahead_ms)} ahead of the clock"
        + ("" if len(ahead) == len(live) else ", and wait for those of the others"),
        remedy="Check the clock of their writer, and the time zone of the column.",
        evidence=last_reported(ahead[:2], "output_watermark_ms"),
    )


def time_zone(job: Job) -> Finding | None:
    """The watermark is off by whole quarters of an hour all the while, as local times read as UTC are."""
    side = Side.of(job)
    if job.watermark_ms is None or job.stands or not side.instances or side.is_behind:
        return None
    lags = [at_ms - value - (side.delay_ms or 0) for at_ms, value in job.watermarks if value is not None]
    offset_ms = _zone_ms(lags[-1], _ZONE_SLACK_MS)
    if len(lags) < 3 or not offset_ms or max(lags) - min(lags) > _ZONE_SLACK_MS:
        return None
    is_local = bool(_LOCAL_TIME.search(job.plan))
    direction = "behind" if offset_ms > 0 else "ahead of"
    return Finding(
        cause=Cause.TIME_ZONE,
        proof="the plan takes LOCALTIMESTAMP for the event time, which is the clock in local time" if is_local else "",
        whose=side.source,
        since_ms=side.since_ms,
        shift_ms=offset_ms,
        what=f"event times are {rounded(abs(offset_ms))} {direction} the clock in every poll, as local times are",
        remedy="Use TIMESTAMP_LTZ for the column, or UTC as the zone.",
        evidence=last_reported(side.instances, "output_watermark_ms", "delay_ms"),
    )


def restarts(job: Job) -> Finding | None:
    """The job has started again while it was looked at: its counters are smaller than they were."""
    falls = [
        (instance, before, after)
        for task in job.path
        for instance in job.tasks[task]
        for before, after in pairwise(each for each in instance.moments if each.records is not None)
        if (after.records or 0) < (before.records or 0)
    ]
    if not falls:
        return None
    count = len({after.at_ms for _, _, after in falls})
    instance, before, after = max(falls, key=lambda fall: fall[2].at_ms)
    times = "once" if count == 1 else f"{count} times"
    return Finding(
        cause=Cause.RESTARTS,
        proof="counters only fall when a task starts again",
        since_ms=after.at_ms,
        what=f"the job started again at least {times}, last after {clock_words(before.at_ms)}: {instance.source} had "
        f"read {counted(before.records or 0, 'record')}, and then {grouped(after.records or 0)}",
        remedy="See its exceptions; without a checkpoint open windows are lost.",
        evidence=(reported(instance, before, "records"), reported(instance, after, "records")),
    )


def back_pressure(job: Job) -> Finding | None:
    """A task gets its watermark late, or sources read slowly, because a task is too busy."""
    every = [each for task in job.path for each in job.tasks[task]]
    pressed = [each for each in every if (each.last.back_pressured_share or 0.0) >= _PRESSED]
    busy = [each for each in every if (each.last.busy_share or 0.0) >= _BUSY]
    late_task = _late_task(job)
    if not pressed and late_task is None:
        return None
    lags = [at_ms - value for at_ms, value in job.watermarks if value is not None]
    falls_behind = late_task is not None or (len(lags) > 1 and lags[-1] - lags[0] >= BEHIND_MS)
    whats = []
    if late_task is not None:
        whats.append(f"{title_of(late_task)} has not got the watermark that its inputs have sent")
    if pressed:
        share = pressed[0].last.back_pressured_share
        whats.append(f"{pressed[0].source} waits for the next task in {share:.0%} of its time")
    if busy:
        whats.append(f"{busy[0].source} works in {busy[0].last.busy_share:.0%} of its time")
    whose = busy[0].source if busy else None if late_task is None else title_of(late_task)
    instances = [*pressed[:1], *busy[:1], *(() if late_task is None else job.tasks[late_task][:1])]
    names = ("back_pressured_share", "busy_share", "input_watermark_ms", "output_watermark_ms")
    return Finding(
        cause=Cause.BACK_PRESSURE,
        certainty="likely" if busy and pressed and falls_behind else "candidates",
        whose=whose,
        since_ms=every[0].moments[0].at_ms,
        what=listed(whats),
        remedy=f"Give {whose or 'the task behind it'} more subtasks, or less work.",
        evidence=last_reported(instances, *names),
    )


def jump(job: Job) -> Finding | None:
    """A row ahead of the clock has raised the watermark of a source, and the rows after it are late."""
    jumped = _jumped(job)
    if jumped is None:
        return None
    source, before, after = jumped
    rise_ms = (after.output_watermark_ms or 0) - (before.output_watermark_ms or 0) - (after.at_ms - before.at_ms)
    dropped = late_since(job, before.at_ms)
    name = f"subtask {source.subtask} of {source.source}"
    lost = f", {counted(dropped, 'row')} dropped as late since" if dropped else ""
    return Finding(
        cause=Cause.JUMP,
        proof="the watermark was behind the clock in one poll, and is far ahead of it in the next",
        whose=name,
        since_ms=after.at_ms,
        shift_ms=rise_ms,
        what=f"that of {name} jumped {rounded(rise_ms)} ahead of the clock{lost}",
        remedy="Filter such rows, and start again from a savepoint before the jump.",
        evidence=(
            reported(source, before, "output_watermark_ms", "records"),
            reported(source, after, "output_watermark_ms", "records"),
            *last_reported(job.observed, "late_records"),
        ),
    )


def no_new_data(job: Job) -> Finding | None:
    """No source has read anything for a while."""
    live = [each for each in job.sources if not each.last.ended]
    pending = [each.last.pending_records for each in live]
    if not live or not _stands_at_source(job) or not _are_silent(job, live) or any(pending):
        return None
    since_ms = max(each.silent_since_ms or 0 for each in live)
    is_empty = all(count == 0 for count in pending)
    return Finding(
        cause=Cause.NO_NEW_DATA,
        certainty="likely",
        proof="each source reports that nothing is pending" if is_empty else "",
        since_ms=since_ms,
        what=f"no source has read a record since {clock_words(since_ms)}",
        remedy="A newer row of each would release it; see in the broker.",
        evidence=last_reported(live, "records", "pending_records", "output_watermark_ms"),
    )


def delay(job: Job) -> Finding | None:
    """The delay of its watermark alone keeps a source back; Flink does not report whether its rows need that."""
    side = Side.of(job)
    delay_ms = side.delay_ms
    if delay_ms is None or delay_ms < FUTURE_MS or job.watermark_ms is None or job.stands:
        return None
    if job.at_ms - job.watermark_ms > delay_ms + STANDS_MS:
        return None
    return Finding(
        cause=Cause.DELAY_TOO_LARGE,
        whose=side.source,
        since_ms=side.since_ms,
        shift_ms=delay_ms,
        what=f"{side.source} is behind by its delay, {rounded(delay_ms)}, which its rows may need",
        remedy="Measure how late its rows are with wm.strategy.advise.",
        evidence=last_reported(side.instances, "delay_ms", "output_watermark_ms"),
    )


def late_rows(job: Job) -> Finding | None:
    """Rows came after the watermark had passed them."""
    dropped = late_since(job, None)
    if not dropped:
        return None
    return Finding(
        cause=Cause.DELAY_TOO_SMALL,
        certainty="likely",
        since_ms=first_late_ms(job),
        what=f"{counted(dropped, 'row')} dropped as late, seen first at {clock_words(first_late_ms(job))}",
        remedy="A longer delay keeps them, and all windows wait for it; if they are of one device, mend its clock.",
        evidence=last_reported(job.observed, "late_records"),
    )


def ended(job: Job) -> Finding | None:
    """A source that has ended holds nothing: nobody waits for it."""
    gone = [each for each in job.sources if each.last.ended]
    if not gone:
        return None
    names = listed(names_of(gone))
    verb = "has" if len(names_of(gone)) == 1 else "have"
    then = "nothing more will come" if len(gone) == len(job.sources) else "nobody waits for it; the other inputs count"
    return Finding(
        cause=Cause.ENDED,
        proof="Flink reports the task as finished",
        whose=names,
        since_ms=next(each.at_ms for each in gone[0].moments if each.ended),
        what=f"{names} {verb} ended, and {then}",
        remedy="Nothing is needed.",
        evidence=last_reported(gone[:2], "ended", "output_watermark_ms"),
    )


def no_fault(job: Job) -> Finding | None:
    """The watermark moves with all inputs, and a window waits for its end."""
    side = Side.of(job)
    if job.watermark_ms is None or job.stands or not side.instances or _jumped(job) or len(job.watermarks) < 3:
        return None
    if _late_task(job) is not None or (side.is_behind and not side.is_at_the_clock):
        return None
    delay_ms, lag_ms = side.delay_ms, job.at_ms - job.watermark_ms
    is_explained = delay_ms is not None and delay_ms < FUTURE_MS and 0 <= lag_ms <= delay_ms + BEHIND_MS
    is_near = -FUTURE_MS < lag_ms < FUTURE_MS
    of_delay = "" if delay_ms is None else f", of which {rounded(delay_ms)} are the delay"
    idle = listed(names_of([each for each in job.sources if not job.is_live(each) and not each.last.ended]))
    of_idle = f"; {idle} is idle by its timeout, in part or whole, and holds nothing" if idle else ""
    finding = Finding(
        cause=Cause.NO_FAULT,
        certainty="likely" if is_near else "candidates",
        proof="it moves with all inputs, and the delay and the age of a metric explain its distance" * is_explained,
        shift_ms=lag_ms,
        what=f"it moves, {_distance(lag_ms)} the clock{of_delay}{of_idle}",
        remedy="A window comes out when the watermark reaches its end.",
        evidence=last_reported(job.observed, "records", "input_watermark_ms"),
    )
    if is_near or lag_ms < 0 or (delay_ms or 0) >= FUTURE_MS:
        return finding
    lags = [at_ms - value for at_ms, value in job.watermarks if value is not None]
    what = f"all inputs are {_distance(lag_ms)} the clock{_change(lags[-1] - lags[0])}, by old rows or a backlog"
    remedy = "See in the broker how much is not read yet, and how old its rows are."
    return replace(finding, cause=Cause.SOURCE_BEHIND, what=what, remedy=remedy)


RULES: Final[tuple[Rule, ...]] = (
    not_running,
    silent_source,
    silent_subtask,
    silent_partition,
    partition_behind,
    no_watermark,
    no_event_time,
    time_zone,
    source_behind,
    restarts,
    back_pressure,
    jump,
    ahead_of_clock,
    no_new_data,
    delay,
    late_rows,
    ended,
    no_fault,
)


def _late_task(job: Job) -> str | None:
    """A task that is far behind the watermarks that its inputs have sent, so that these do not hold it."""
    for task in job.path:
        live = [each.last for each in job.tasks[task] if not each.last.ended]
        sent = smallest(each.last.output_watermark_ms for each in job.live_inputs(task))
        got = [each.input_watermark_ms for each in live if each.input_watermark_ms is not None]
        if sent is not None and got and sent - min(got) >= STANDS_MS:
            return task
    return None


def _stands_at_source(job: Job) -> bool:
    """Whether the watermark stands, and every task has got what its inputs have sent."""
    return job.stands and _late_task(job) is None


def _are_silent(job: Job, instances: Sequence[Instance]) -> bool:
    return bool(instances) and all(each.is_silent(job.at_ms) for each in instances)


def _reads_on(job: Job, instances: Sequence[Instance]) -> bool:
    return any(each.last.records and not each.is_silent(job.at_ms) for each in instances)


def _has_watermark(instances: Sequence[Instance]) -> bool:
    return any(each.last.output_watermark_ms is not None for each in instances)


def _subtasks(side: Sequence[Instance]) -> str:
    numbers = [str(each.subtask) for each in side]
    return f"subtask {numbers[0]}" if len(numbers) == 1 else f"subtasks {listed(numbers)}"


def _zone_ms(off_ms: int, slack_ms: int) -> int:
    """The offset of a zone that a difference to the clock may be, 0 if it is none."""
    offset_ms = round((off_ms - slack_ms / 2) / _QUARTER_MS) * _QUARTER_MS
    return offset_ms if abs(offset_ms) <= _FURTHEST_ZONE_MS and 0 <= off_ms - offset_ms + SECOND_MS <= slack_ms else 0


def _change(more_ms: int) -> str:
    """How a distance has changed in the log, as the end of a clause; empty if it has not."""
    if abs(more_ms) <= BEHIND_MS:
        return ""
    return f", {rounded(abs(more_ms))} {'more' if more_ms > 0 else 'less'} than when the log began"


def _distance(lag_ms: int) -> str:
    return f"{rounded(lag_ms)} behind" if lag_ms >= 0 else f"{rounded(-lag_ms)} ahead of"


def _lowest_split(instance: Instance) -> tuple[Split | None, list[Split]]:
    """The split with the smallest watermark of several, and those that are ahead of it; None if none is ahead."""
    live = [split for split in instance.last.splits if not split.idle_share]
    if len(live) < 2:
        return None, []
    low = min(live, key=lambda split: (split.watermark_ms is not None, split.watermark_ms or 0))
    rest = [
        each
        for each in live
        if each.watermark_ms is not None and each.watermark_ms - (low.watermark_ms or 0) >= BEHIND_MS
    ]
    return (low, rest) if rest else (None, [])


def _split_at(at: Moment, name: str) -> int | None:
    return next((split.watermark_ms for split in at.splits if split.name == name), None)


def _gap_of_splits(at: Moment) -> int | None:
    """How far the splits of a subtask were apart at a moment."""
    known = [split.watermark_ms for split in at.splits if split.watermark_ms is not None and not split.idle_share]
    return max(known) - min(known) if len(known) > 1 else None


def _reported_split(instance: Instance, split: Split) -> Evidence:
    values = (("watermark_ms", split.watermark_ms), ("idle_share", split.idle_share))
    return Evidence(
        at_ms=instance.last.at_ms,
        task=f"{instance.source}, partition {split.name}",
        subtask=instance.subtask,
        values=values,
    )


def _jumped(job: Job) -> tuple[Instance, Moment, Moment] | None:
    """The source whose watermark has risen from behind the clock to far ahead of it, with the polls around that."""
    for source in job.sources:
        for before, after in pairwise(each for each in source.moments if each.output_watermark_ms is not None):
            ahead_ms = [(each.output_watermark_ms or 0) - each.at_ms for each in (before, after)]
            if ahead_ms[0] <= FUTURE_MS < ahead_ms[1] - max(ahead_ms[0], 0):
                return source, before, after
    return None
