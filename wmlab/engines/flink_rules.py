"""The rules for a Flink job: which of its sources or subtasks holds the watermark, found by what each has sent.

Flink reports the watermark that each operator has got and sent, so the holder is found and not guessed. Which partition
of a subtask holds it, and how late rows are, is not in its metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from wmlab.core.words import counted, grouped, listed, moment, rounded
from wmlab.engines.causes import (
    BEHIND_MS,
    FUTURE_MS,
    Cause,
    Finding,
    Rule,
    first_late_ms,
    last_reported,
    late_since,
    names_of,
    reported,
)
from wmlab.engines.moments import Instance, Job, Moment, smallest, title_of

_PRESSED: Final = 0.5
_BUSY: Final = 0.9
"""The shares of its time from which on a task counts as back-pressured, and as busy."""


def silent_source(job: Job) -> Finding | None:
    """A source that reads nothing, while another one goes on, holds the watermark at the last one that it gave."""
    side = _holding_side(job)
    others = _others(job, side)
    if not _stands_at_source(job) or not _is_whole(job, side) or not _are_silent(job, side):
        return None
    if not _reads_on(job, others):
        return None
    name = side[0].source
    since_ms = max(each.silent_since_ms or 0 for each in side)
    ahead = [each for each in others if each.last.output_watermark_ms is not None]
    return Finding(
        cause=Cause.SILENT_SOURCE,
        certainty="sure" if ahead else "likely",
        holder=name,
        since_ms=since_ms,
        text=_silence(name, side, since_ms),
        release=f"a row of {name}, its end, or an idle timeout",
        evidence=last_reported([*side, *ahead[:1]], "records", "output_watermark_ms"),
    )


def silent_subtask(job: Job) -> Finding | None:
    """One subtask of a source reads nothing, while others of the same source go on, or have at least a watermark."""
    side = _holding_side(job)
    if not _stands_at_source(job) or not side or _is_whole(job, side) or not _are_silent(job, side):
        return None
    siblings = [each for each in job.tasks[side[0].task] if each not in side]
    others_read = _reads_on(job, siblings)
    if not others_read and not (job.watermark_ms is None and _has_watermark(siblings)):
        return None
    names, source = _subtasks(side), side[0].source
    since_ms = max(each.silent_since_ms or 0 for each in side)
    return Finding(
        cause=Cause.SILENT_SUBTASK,
        certainty="sure",
        holder=f"{names} of {source}",
        since_ms=since_ms,
        text=f"{_silence(f'{names} of {source}', side, since_ms)}, and other subtasks of it "
        + ("do" if others_read else "have a watermark, which counts only with those of all subtasks"),
        release=f"a row for {names}, no more subtasks than partitions with data, or an idle timeout",
        evidence=last_reported([*side, *siblings[:1]], "records", "output_watermark_ms"),
    )


def silent_partition(job: Job) -> Finding | None:
    """A source that reads and whose watermark stands: one of its partitions may be silent, or its rows are no newer."""
    side = _holding_side(job)
    known = [each for each in side if each.last.output_watermark_ms is not None and each.last.records is not None]
    if not job.stands or not side or len(known) < len(side) or _are_silent(job, side):
        return None
    names = f"{_subtasks(side)} of {side[0].source}"
    return Finding(
        cause=Cause.SILENT_SUBTASK,
        certainty="candidates",
        holder=names,
        since_ms=job.stands_since_ms,
        text=f"{names} reads rows and its watermark stands: one of its partitions is silent, or its rows are no newer",
        release=f"look at the newest event time of each partition that {names} reads",
        evidence=last_reported(side, "records", "output_watermark_ms"),
    )


def no_watermark(job: Job) -> Finding | None:
    """A source has read records and has never given a watermark."""
    side = [each for each in _holding_side(job) if each.last.output_watermark_ms is None and each.last.records]
    if job.watermark_ms is not None or not job.stands or not side:
        return None
    name = side[0].source
    return Finding(
        cause=Cause.NO_WATERMARK,
        certainty="sure",
        holder=name,
        since_ms=side[0].moments[0].at_ms,
        text=f"{name} has read {counted(sum(each.last.records or 0 for each in side), 'record')} and has never given a "
        "watermark: none is declared, its event times are null, or a filter before it takes all rows",
        release="look for WATERMARK FOR in its table, or for a watermark strategy behind it",
        evidence=last_reported(side, "records", "output_watermark_ms"),
    )


def source_behind(job: Job) -> Finding | None:
    """A source whose watermark moves, and is far behind that of the other inputs."""
    side = _holding_side(job)
    behind_ms = _behind_ms(job, side, len(side[0].moments) - 1) if side else None
    if behind_ms is None or behind_ms < BEHIND_MS or job.stands or _jumped(job):
        return None
    if all(job.at_ms - (each.silent_since_ms or job.at_ms) >= BEHIND_MS for each in side):
        return None  # it may have stopped just now
    whole = _is_whole(job, side)
    name = side[0].source if whole else f"{_subtasks(side)} of {side[0].source}"
    return Finding(
        cause=Cause.SOURCE_BEHIND,
        certainty="sure",
        holder=name,
        since_ms=side[0].moments[0].at_ms,
        shift_ms=behind_ms,
        text=f"{name} is {rounded(behind_ms)} behind the other inputs{_trend(job, side, behind_ms)}",
        release=f"newer rows of {name}, and nothing else; alignment would only keep the others from going ahead",
        evidence=last_reported([*side, *_others(job, side)[:1]], "records", "output_watermark_ms"),
    )


def restarts(job: Job) -> Finding | None:
    """The job has begun anew while it was looked at: its counters are smaller than they were."""
    falls = [
        (instance, before, after)
        for instances in job.tasks.values()
        for instance in instances
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
        certainty="sure",
        since_ms=after.at_ms,
        text=f"the job has begun anew at least {times} since the log began, last after {moment(before.at_ms)}: "
        f"{instance.source} had read {counted(before.records or 0, 'record')}, and then {grouped(after.records or 0)}",
        release="see the exceptions of the job; without a checkpoint the rows of windows that were open are lost",
        evidence=(reported(instance, before, "records"), reported(instance, after, "records")),
    )


def back_pressure(job: Job) -> Finding | None:
    """A task gets its watermark late, or sources read slowly, because a task is too busy."""
    every = [each for instances in job.tasks.values() for each in instances]
    pressed = [each for each in every if (each.last.back_pressured_share or 0.0) >= _PRESSED]
    busy = [each for each in every if (each.last.busy_share or 0.0) >= _BUSY]
    late_task = _late_task(job)
    if not pressed and late_task is None:
        return None
    lags = [at_ms - value for at_ms, value in job.watermarks if value is not None]
    falls_behind = late_task is not None or (len(lags) > 1 and lags[-1] - lags[0] >= BEHIND_MS)
    texts = []
    if late_task is not None:
        texts.append(f"{title_of(late_task)} has not got the watermark that its inputs have sent")
    if pressed:
        share = pressed[0].last.back_pressured_share
        texts.append(f"{pressed[0].source} waits for the next task in {share:.0%} of its time")
    if busy:
        texts.append(f"{busy[0].source} works in {busy[0].last.busy_share:.0%} of its time")
    holder = busy[0].source if busy else None if late_task is None else title_of(late_task)
    shown = [*pressed[:1], *busy[:1], *(() if late_task is None else job.tasks[late_task][:1])]
    names = ("back_pressured_share", "busy_share", "input_watermark_ms", "output_watermark_ms")
    return Finding(
        cause=Cause.BACK_PRESSURE,
        certainty="likely" if busy and pressed and falls_behind else "candidates",
        holder=holder,
        since_ms=every[0].moments[0].at_ms,
        text=listed(texts),
        release=f"more parallelism or less work for {holder or 'the task behind it'}",
        evidence=last_reported(shown, *names),
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
    is_below = job.watermark_ms is not None and job.watermark_ms < (after.output_watermark_ms or 0)
    where = f"; {job.operator} still has the smaller one of another input" if is_below else ""
    lost = f"; {counted(dropped, 'row')} dropped as late since" if dropped else ""
    return Finding(
        cause=Cause.JUMP,
        certainty="sure",
        holder=name,
        since_ms=after.at_ms,
        shift_ms=rise_ms,
        text=f"the watermark of {name} jumped by {rounded(rise_ms)} ahead of the clock, to "
        f"{moment(after.output_watermark_ms)}{where}{lost}",
        release="no watermark goes back: filter rows ahead of the clock before it, and start again from a savepoint "
        "before the jump",
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
    return Finding(
        cause=Cause.NO_NEW_DATA,
        certainty="sure" if all(count == 0 for count in pending) else "likely",
        since_ms=since_ms,
        text=f"no source has read a record since {moment(since_ms)}",
        release="a newer row of each source; see in the broker whether there is any",
        evidence=last_reported(live, "records", "pending_records", "output_watermark_ms"),
    )


def delay(job: Job) -> Finding | None:
    """The delay of its watermark alone keeps a source back; Flink does not report whether its rows need that."""
    side = _holding_side(job)
    delay_ms = side[0].last.delay_ms if side else None
    if delay_ms is None or delay_ms < FUTURE_MS or job.watermark_ms is None or job.stands:
        return None
    if job.at_ms - job.watermark_ms > delay_ms + BEHIND_MS:
        return None
    return Finding(
        cause=Cause.DELAY_TOO_LARGE,
        certainty="candidates",
        holder=side[0].source,
        since_ms=side[0].moments[0].at_ms,
        shift_ms=delay_ms,
        text=f"{side[0].source} is behind by its delay of {rounded(delay_ms)}, which its rows may or may not need",
        release="measure how late its rows are, in a log of them with wm.strategy.advise",
        evidence=last_reported(side, "delay_ms", "output_watermark_ms"),
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
        text=f"{counted(dropped, 'row')} dropped as late, reported first at {moment(first_late_ms(job))}",
        release="a longer delay keeps such rows, and every window waits for as long; Flink does not report how late "
        "they were",
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
        certainty="sure",
        holder=names,
        since_ms=next(each.at_ms for each in gone[0].moments if each.ended),
        text=f"{names} {verb} ended, and {then}",
        release="nothing is needed",
        evidence=last_reported(gone[:2], "ended", "output_watermark_ms"),
    )


def no_fault(job: Job) -> Finding | None:
    """The watermark moves with all inputs, and a window waits for its end."""
    side = _holding_side(job)
    if job.watermark_ms is None or job.stands or not side or _jumped(job) or len(job.watermarks) < 3:
        return None
    if _late_task(job) is not None:
        return None
    if (_behind_ms(job, side, len(side[0].moments) - 1) or 0) >= BEHIND_MS:
        return None
    delay_ms, lag_ms = side[0].last.delay_ms, job.at_ms - job.watermark_ms
    is_explained = delay_ms is not None and delay_ms < FUTURE_MS and 0 <= lag_ms <= delay_ms + BEHIND_MS
    of_delay = "" if delay_ms is None else f", of which {rounded(delay_ms)} are the delay"
    return Finding(
        cause=Cause.NO_FAULT,
        certainty="sure" if is_explained else "candidates",
        shift_ms=lag_ms,
        text=f"it moves, {rounded(lag_ms)} behind the clock{of_delay}",
        release="a window comes out when the watermark reaches its end",
        evidence=last_reported(job.observed, "records", "input_watermark_ms"),
    )


RULES: Final[tuple[Rule, ...]] = (
    silent_source,
    silent_subtask,
    silent_partition,
    no_watermark,
    source_behind,
    restarts,
    back_pressure,
    jump,
    no_new_data,
    delay,
    late_rows,
    ended,
    no_fault,
)


def _holding_side(job: Job) -> list[Instance]:
    """The subtasks with the smallest watermark, or all of their source if none is behind, or all are silent.

    While there is no watermark at all, those that have never had one are behind the others.
    """
    holders = job.holders()
    if not holders:
        return []
    whole = [each for each in job.tasks[holders[0].task] if not each.last.ended]
    outputs = [each.last.output_watermark_ms for each in whole]
    known = [value for value in outputs if value is not None]
    together = len(known) == len(whole) and max(known) - min(known) < BEHIND_MS
    is_open = job.watermark_ms is None and 0 < len(known) < len(whole)
    return whole if together or (_are_silent(job, whole) and not is_open) else holders


def _late_task(job: Job) -> str | None:
    """A task that is far behind the watermarks that its inputs have sent, so that these do not hold it."""
    for task, instances in job.tasks.items():
        live = [each.last for each in instances if not each.last.ended]
        sent = smallest(each.last.output_watermark_ms for each in job.live_inputs(task))
        got = [each.input_watermark_ms for each in live if each.input_watermark_ms is not None]
        if sent is not None and got and sent - min(got) >= BEHIND_MS:
            return task
    return None


def _stands_at_source(job: Job) -> bool:
    """Whether the watermark stands, and every task has got what its inputs have sent."""
    return job.stands and _late_task(job) is None


def _others(job: Job, side: Sequence[Instance]) -> list[Instance]:
    return [each for each in job.sources if each not in side and not each.last.ended]


def _is_whole(job: Job, side: Sequence[Instance]) -> bool:
    return bool(side) and len(side) == sum(not each.last.ended for each in job.tasks[side[0].task])


def _are_silent(job: Job, instances: Sequence[Instance]) -> bool:
    return bool(instances) and all(each.is_silent(job.at_ms) for each in instances)


def _reads_on(job: Job, instances: Sequence[Instance]) -> bool:
    return any(each.last.records and not each.is_silent(job.at_ms) for each in instances)


def _has_watermark(instances: Sequence[Instance]) -> bool:
    return any(each.last.output_watermark_ms is not None for each in instances)


def _subtasks(side: Sequence[Instance]) -> str:
    numbers = [str(each.subtask) for each in side]
    return f"subtask {numbers[0]}" if len(numbers) == 1 else f"subtasks {listed(numbers)}"


def _silence(name: str, side: Sequence[Instance], since_ms: int) -> str:
    if not any(each.last.records for each in side):
        return f"{name} has never read a record"
    if since_ms == min(each.moments[0].at_ms for each in side):
        return f"{name} has read no record as far as the log goes back"
    return f"{name} has read no record since {moment(since_ms)}"


def _behind_ms(job: Job, side: Sequence[Instance], index: int) -> int | None:
    """By how much some instances are behind the others in the poll of that number; None if one has no watermark."""
    low, high = (
        smallest(each.moments[min(index, len(each.moments) - 1)].output_watermark_ms for each in instances)
        for instances in (side, _others(job, side))
    )
    return None if low is None or high is None else high - low


def _trend(job: Job, side: Sequence[Instance], now_ms: int) -> str:
    gaps = [_behind_ms(job, side, index) for index in range(len(side[0].moments))]
    before_ms = next((gap for gap in gaps if gap is not None), now_ms)
    if now_ms - before_ms > BEHIND_MS:
        return f", {rounded(now_ms - before_ms)} more than when the log began"
    if before_ms - now_ms > BEHIND_MS:
        return f", {rounded(before_ms - now_ms)} less than when the log began"
    return " all the while: its event times are so much older"


def _jumped(job: Job) -> tuple[Instance, Moment, Moment] | None:
    """The source whose watermark has risen from behind the clock to far ahead of it, with the polls around that."""
    for source in job.sources:
        for before, after in pairwise(each for each in source.moments if each.output_watermark_ms is not None):
            ahead_ms = [(each.output_watermark_ms or 0) - each.at_ms for each in (before, after)]
            if ahead_ms[0] <= FUTURE_MS < ahead_ms[1] - max(ahead_ms[0], 0):
                return source, before, after
    return None
