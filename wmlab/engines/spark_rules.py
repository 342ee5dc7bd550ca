"""The rules for a Spark query: what its batches say about its one watermark.

A progress has one watermark for the whole query, the newest event time of one `withWatermark` alone, and no watermark
of a source. So what one source of several does is likely at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final

from wmlab.core.words import SECOND_MS, clock_words, counted, listed, rounded
from wmlab.engines.causes import (
    FUTURE_MS,
    Cause,
    Evidence,
    Finding,
    Rule,
    first_late_ms,
    last_reported,
    late_since,
    reported,
)
from wmlab.engines.moments import STANDS_MS, Instance, Job, Moment

_MANY: Final = 10
"""How many times what is usual, or needed, is too much."""
_SLOW_BATCHES: Final = 3
"""So many batches in a row are not chance."""
_STEPS: Final = 3
"""By so many usual steps the watermark has to rise, to tell that no row near it has come."""
_PAUSE_MS: Final = 200
"""What passes at most between two batches of which the second was due already."""
_ENOUGH_BATCHES: Final = 5
"""From so many batches with rows on their lateness says something about the delay that they need."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a query, `with_rows` those that had some, and what they say about its watermark.

    A watermark that changes in a batch comes from the newest row of the previous batch, minus the delay.
    """

    query: Instance
    with_rows: tuple[Moment, ...]

    @classmethod
    def of(cls, job: Job) -> Batches:
        """Those of a query; each counts all records since the log began."""
        query = job.observed[0]
        counts = [0, *(each.records or 0 for each in query.moments)]
        return cls(
            query, tuple(each for each, before in zip(query.moments, counts, strict=False) if each.records != before)
        )

    @property
    def every(self) -> tuple[Moment, ...]:
        """All batches."""
        return self.query.moments

    @property
    def changes(self) -> list[tuple[Moment, Moment]]:
        """The pairs of batches between which the watermark changed, or began."""
        pairs = pairwise(self.every)
        return [
            (before, after)
            for before, after in pairs
            if after.input_watermark_ms not in (None, before.input_watermark_ms)
        ]

    @property
    def newest_ms(self) -> int | None:
        """The latest event time that was reported."""
        return max((each.event_max_ms for each in self.every if each.event_max_ms is not None), default=None)

    @property
    def delay_ms(self) -> int | None:
        """The delay, by the changes of the watermark since the last start, or by those before; None without any."""
        gaps = [
            (before.run == after.run == self.every[-1].run, before.event_max_ms - after.input_watermark_ms)
            for before, after in self.changes
            if before.event_max_ms is not None and after.input_watermark_ms is not None
        ]
        return min([gap for is_last, gap in gaps if is_last] or [gap for _, gap in gaps], default=None)

    @property
    def needed_ms(self) -> int:
        """The least delay with which none of these rows is late: how far one was behind the batches before its own."""
        times = [(e.event_max_ms, e.event_min_ms) for e in self.with_rows]
        known = [(high, low) for high, low in times if high is not None and low is not None]
        newest = [max(high for high, _ in known[:number]) for number in range(1, len(known))]
        return max((high - low for high, (_, low) in zip(newest, known[1:], strict=True) if high > low), default=0)

    @property
    def usual_step_ms(self) -> int:
        """By how much the newest event time usually changes from one batch with rows to the next."""
        times = [each.event_max_ms for each in self.with_rows if each.event_max_ms is not None]
        return int(median([abs(after - before) for before, after in pairwise(times)] or [0]))

    @property
    def usual_gap_ms(self) -> int:
        """How long after one batch with rows the next one usually begins."""
        return int(median([after.at_ms - before.at_ms for before, after in pairwise(self.with_rows)] or [0]))

    @property
    def held_from_ms(self) -> int:
        """When the batch began with which the watermark became what it is."""
        last = self.every[-1].input_watermark_ms
        return next(each.at_ms for each in self.every if each.input_watermark_ms == last)

    @property
    def since(self) -> tuple[Moment, ...]:
        """The batches with rows from then on."""
        return tuple(each for each in self.with_rows if each.at_ms >= self.held_from_ms)

    @property
    def are_newer_than_watermark(self) -> bool:
        """Whether a batch before the last one with rows should have moved the watermark, and has not."""
        times = [each.event_max_ms for each in self.since if each.event_max_ms is not None]
        last = self.every[-1].input_watermark_ms
        if len(times) < 2 or last is None:
            return len(times) >= 2
        return self.delay_ms is not None and max(times[:-1]) - last > self.delay_ms

    @property
    def is_far_behind(self) -> bool:
        """Whether the watermark is further behind the newest row all the while than one would choose."""
        is_known = len(self.with_rows) >= _SLOW_BATCHES
        return is_known and (self.delay_ms or 0) >= _MANY * max(self.usual_step_ms, SECOND_MS)

    @property
    def risen_ms(self) -> int:
        """By how much the watermark has risen since its first value."""
        values = [each.input_watermark_ms for each in self.every if each.input_watermark_ms is not None]
        return values[-1] - values[0] if values else 0

    @property
    def finishes_rows(self) -> bool:
        """Whether rows have left the state, because the watermark has passed them."""
        return bool(self.every[-1].removed_rows)

    def is_quiet(self, job: Job) -> bool:
        """Whether no batch has come for longer than is usual."""
        return job.at_ms - self.every[-1].end_ms >= max(STANDS_MS, _MANY * self.usual_gap_ms)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The last batch with rows, and the last batch."""
        ends = dict.fromkeys((*self.with_rows[-1:], self.every[-1]))
        return tuple(reported(self.query, each, "records", "input_watermark_ms", "event_max_ms") for each in ends)


def not_active(job: Job) -> Finding | None:
    """The query has failed with an exception, was stopped, or has finished its work."""
    if job.state not in ("FAILED", "ENDED"):
        return None
    batches, has_failed = Batches.of(job), job.state == "FAILED"
    ended = "has ended: it was stopped, or had a trigger that takes what there is"
    return Finding(
        cause=Cause.FAILED if has_failed else Cause.NOT_RUNNING,
        proof="Spark says that the query is not active",
        since_ms=batches.every[-1].end_ms,
        what=f"it has died: {job.exception}" if has_failed else ended,
        remedy=f"{'Repair that, and start' if has_failed else 'Start'} it again from its checkpoint.",
        evidence=batches.evidence,
    )


def perhaps_not_active(job: Job) -> Finding | None:
    """The query is known not to wait for data, and its last batch has ended: it may be at work, or not run any more."""
    batches = Batches.of(job)
    last_ms = batches.every[-1].end_ms
    if job.state is not None or job.waits is not False or job.at_ms < last_ms:
        return None
    return Finding(
        cause=Cause.NOT_RUNNING,
        since_ms=last_ms,
        what=f"since {clock_words(last_ms)} it works, or has ended or died",
        remedy="Look at query.isActive and query.exception().",
        evidence=batches.evidence,
    )


def too_slow(job: Job) -> Finding | None:
    """One batch after the other, each with rows: the query takes longer than its source."""
    batches = Batches.of(job)
    recent = batches.every[-_SLOW_BATCHES:]
    lengths = [each.duration_ms for each in recent if each.duration_ms]
    if len(lengths) < _SLOW_BATCHES or any(each not in batches.with_rows for each in recent):
        return None
    gaps = [after.at_ms - before.end_ms for before, after in pairwise(recent)]
    pending = [each.last.pending_records for each in job.sources if each.last.pending_records]
    if max(gaps) > max(_PAUSE_MS, min(lengths) // 20) or (job.waits and not pending):
        return None
    usual_ms = int(median(lengths))
    is_long = bool(pending) or usual_ms >= SECOND_MS
    waiting = f", and {counted(sum(pending), 'record')} wait in the source" if pending else ""
    return Finding(
        cause=Cause.TOO_SLOW,
        certainty="likely" if is_long else "candidates",
        whose="the query",
        since_ms=recent[0].at_ms,
        what=f"one batch with rows begins as soon as the one before has ended, each takes {rounded(usual_ms)}{waiting}",
        remedy="See the slowest step in durationMs; give it more partitions, or less work.",
        evidence=tuple(reported(batches.query, each, "duration_ms", "records") for each in recent[-2:]),
    )


def silent_source(job: Job) -> Finding | None:
    """Newer rows have come, but none from one source, so that the smallest watermark of all stands."""
    batches = Batches.of(job)
    silent = _silent(job, batches)
    if not silent or not batches.are_newer_than_watermark:
        return None
    names = listed([each.source for each in silent])
    return Finding(
        cause=Cause.SILENT_SOURCE,
        certainty="likely" if len(silent) == 1 else "candidates",
        whose=names,
        since_ms=batches.held_from_ms,
        what=f"{len(batches.since)} batches with newer rows have come since, and no row of {names}",
        remedy="A row of it with a newer event time would release it.",
        evidence=(*last_reported(silent, "records"), *batches.evidence),
    )


def longer_delay(job: Job) -> Finding | None:
    """Since a new start of the query the watermark stands though newer rows come: the delay is longer than before."""
    batches = Batches.of(job)
    runs = {each.run for each in batches.every if each.run is not None}
    first = next(each for each in batches.every if each.run == batches.every[-1].run)
    if len(runs) < 2 or len(job.sources) != 1 or not batches.are_newer_than_watermark:
        return None
    if batches.held_from_ms > first.at_ms:
        return None
    return Finding(
        cause=Cause.DELAY_TOO_LARGE,
        certainty="likely",
        whose="the delay",
        since_ms=first.at_ms,
        what=f"the query was started again, and {counted(len(batches.since), 'batch')} with newer rows have not moved "
        "it since: the new delay is longer",
        remedy="It moves once the rows are newer by the difference; or set the delay back.",
        evidence=batches.evidence,
    )


def source_behind(job: Job) -> Finding | None:
    """All sources have rows, and the watermark stands, or is further behind the newest row than one would choose.

    Where a source is behind, its rows near the watermark leave the state as that moves; where a delay holds it, none.
    """
    batches = Batches.of(job)
    is_far, stands = batches.is_far_behind, batches.are_newer_than_watermark
    if len(job.sources) < 2 or not (stands or is_far) or _silent(job, batches):
        return None
    gap_ms = batches.delay_ms or 0
    what = "all sources have rows, and the event times of one are behind"
    if not stands:
        what = f"the rows of one source are up to {rounded(gap_ms)} older than those of another"
    return Finding(
        cause=Cause.SOURCE_BEHIND,
        certainty="likely" if is_far and not stands and batches.finishes_rows else "candidates",
        since_ms=batches.held_from_ms,
        shift_ms=gap_ms or None,
        what=f"{what}; Spark does not report which",
        remedy="Compare the newest event time of each source.",
        evidence=batches.evidence,
    )


def delay_of_one(job: Job) -> Finding | None:
    """Of several watermarks that one query declares, the one of the longest delay holds all."""
    batches = Batches.of(job)
    if len(job.sources) < 2 or not batches.is_far_behind or batches.are_newer_than_watermark or batches.finishes_rows:
        return None
    gap_ms, risen_ms = batches.delay_ms or 0, batches.risen_ms
    is_clear = risen_ms >= _STEPS * max(batches.usual_step_ms, SECOND_MS)
    return Finding(
        cause=Cause.DELAY_TOO_LARGE,
        certainty="likely" if is_clear and not late_since(job, None) else "candidates",
        whose="the longest delay",
        since_ms=batches.with_rows[0].at_ms,
        shift_ms=gap_ms,
        what=f"it is {rounded(gap_ms)} behind the newest row in every batch, and no row left the state while it rose "
        f"by {rounded(risen_ms)}: the longest delay holds it",
        remedy="Shorten that delay, of withWatermark.",
        evidence=batches.evidence,
    )


def no_watermark(job: Job) -> Finding | None:
    """Rows have come, and the query reports no event time of any."""
    batches = Batches.of(job)
    times = [each.event_max_ms for each in batches.every] + [each.input_watermark_ms for each in batches.every]
    if len(batches.every) < 2 or not batches.with_rows or any(value is not None for value in times):
        return None
    silent = [each for each in job.sources if not each.last.records]
    return Finding(
        cause=Cause.NO_WATERMARK,
        proof="" if silent else "every source has given rows, and no batch reports an event time",
        since_ms=batches.with_rows[0].at_ms,
        what="rows have come without event time: the query has no withWatermark for them, or all times are null",
        remedy="Look at withWatermark in the query, and for nulls in its column.",
        evidence=batches.evidence,
    )


def jump(job: Job) -> Finding | None:
    """One batch has raised the watermark far beyond all other rows, which are late from then on."""
    batches = Batches.of(job)
    rises = [
        (after.input_watermark_ms - before.input_watermark_ms, before, after)
        for before, after in batches.changes
        if before.input_watermark_ms is not None and after.input_watermark_ms is not None and before.run == after.run
    ]
    if len(rises) < 2:
        return None
    rise_ms, before, after = max(rises, key=lambda each: each[0])
    usual_ms = median(each[0] for each in rises if each[2] is not after)
    times = [each.event_max_ms for each in batches.with_rows if each.at_ms >= after.at_ms]
    is_older = [time is not None and time < (after.input_watermark_ms or 0) - rise_ms // 2 for time in times]
    if rise_ms < max(FUTURE_MS, _MANY * usual_ms) or not all(is_older):
        return None
    dropped = late_since(job, before.at_ms)
    raised = f"one batch raised it by {rounded(rise_ms)}"
    is_older_and_late = bool(times) and dropped > 0
    is_sure = is_older_and_late and len(times) > 1
    return Finding(
        cause=Cause.JUMP,
        certainty="likely" if is_older_and_late else "candidates",
        proof="all rows of every batch since are older than the watermark, by half of the jump or more" * is_sure,
        since_ms=after.at_ms,
        shift_ms=rise_ms,
        what=f"{raised}, all rows since are older: {counted(dropped, 'row')} or groups dropped"
        if is_older_and_late
        else f"{raised}, and no row since tells a jump from a pause",
        remedy="Filter such rows before withWatermark, and start again with a new checkpoint."
        if is_older_and_late
        else "Look at the newest rows of that batch.",
        evidence=(
            reported(batches.query, before, "input_watermark_ms", "event_max_ms"),
            reported(batches.query, after, "input_watermark_ms", "event_max_ms"),
            *last_reported([batches.query], "event_max_ms", "late_records"),
        ),
    )


def no_data_batches(job: Job) -> Finding | None:
    """The newest rows have moved the watermark, and the batch that would apply it has not come."""
    batches = Batches.of(job)
    if batches.delay_ms is None or batches.newest_ms is None or job.watermark_ms is None or len(job.sources) != 1:
        return None
    due_ms = batches.newest_ms - batches.delay_ms
    is_last = batches.every[-1] in batches.with_rows and all(each in batches.with_rows for each in batches.every)
    quiet_ms = job.at_ms - batches.every[-1].end_ms
    is_due = job.waits or (job.waits is None and quiet_ms >= STANDS_MS)
    if due_ms <= job.watermark_ms or not is_last or len(batches.every) < _SLOW_BATCHES or not is_due:
        return None
    is_sure = job.waits is True and quiet_ms >= 2 * SECOND_MS
    return Finding(
        cause=Cause.NO_DATA_BATCHES,
        certainty="likely",
        proof="the query waits for data, and Spark would run a batch without rows at once" if is_sure else "",
        whose="spark.sql.streaming.noDataMicroBatches.enabled",
        since_ms=batches.every[-1].at_ms,
        shift_ms=due_ms - job.watermark_ms,
        what=f"the newest row moves it to {clock_words(due_ms)} in the next batch, and no batch comes without rows",
        remedy="Any row moves it, or that setting.",
        evidence=batches.evidence,
    )


def no_newer_rows(job: Job) -> Finding | None:
    """Rows come, and none is newer than those before, so that the watermark of Spark stands."""
    batches = Batches.of(job)
    if job.watermark_ms is None or batches.newest_ms is None or len(job.sources) != 1 or not _none_newer(batches):
        return None
    if batches.are_newer_than_watermark:
        return None
    return Finding(
        cause=Cause.NO_NEW_DATA,
        proof="every batch since reports its newest event time, and none is later",
        since_ms=batches.held_from_ms,
        what=f"rows come, and none is later than {clock_words(batches.newest_ms)}",
        remedy=f"A row later than {clock_words(batches.newest_ms)} would release it.",
        evidence=batches.evidence,
    )


def delay_too_large(job: Job) -> Finding | None:
    """The delay keeps the watermark back, and the rows that came needed far less."""
    batches = Batches.of(job)
    delay_ms, needed_ms = batches.delay_ms, batches.needed_ms
    if delay_ms is None or len(batches.with_rows) < _ENOUGH_BATCHES or len(job.sources) != 1:
        return None
    if delay_ms < _MANY * max(needed_ms, batches.usual_step_ms, SECOND_MS) or job.watermark_ms is None:
        return None
    return Finding(
        cause=Cause.DELAY_TOO_LARGE,
        certainty="likely",
        whose="the delay",
        since_ms=batches.with_rows[0].at_ms,
        shift_ms=delay_ms,
        needed_ms=needed_ms,
        what=f"the delay is {rounded(delay_ms)}, and no row of {len(batches.with_rows)} batches was more than "
        f"{rounded(needed_ms)} behind the batches before",
        remedy="Shorten the delay, or wait for rows later than the end of a window by it.",
        evidence=batches.evidence,
    )


def fastest_decides(job: Job) -> Finding | None:
    """Batch after batch rows are late, those of another source than the newest: the policy is max."""
    batches = Batches.of(job)
    dropping = [
        after for before, after in pairwise(batches.every) if (after.late_records or 0) > (before.late_records or 0)
    ]
    if len(job.sources) < 2 or len(dropping) < _SLOW_BATCHES or 2 * len(dropping) < len(batches.with_rows):
        return None
    if batches.delay_ms is None or batches.needed_ms > batches.delay_ms:
        return None
    return Finding(
        cause=Cause.FASTEST_DECIDES,
        certainty="likely",
        since_ms=dropping[0].at_ms,
        shift_ms=batches.delay_ms,
        what=f"{counted(late_since(job, None), 'row')} or groups of another source dropped in {len(dropping)} batches: "
        f"the newest source, delay {rounded(batches.delay_ms)}, decides for both (policy max)",
        remedy="Set multipleWatermarkPolicy to min, or lengthen that delay.",
        evidence=last_reported([batches.query], "late_records", "input_watermark_ms", "event_max_ms"),
    )


def late_rows(job: Job) -> Finding | None:
    """Rows came after the watermark had passed them: their lateness is larger than the delay."""
    dropped = late_since(job, None)
    if not dropped:
        return None
    batches = Batches.of(job)
    delay_ms, needed_ms = batches.delay_ms, batches.needed_ms
    is_exact = len(job.sources) == 1 and delay_ms is not None and needed_ms > delay_ms
    lateness = f": a row was {rounded(needed_ms)} behind the newest one, the delay is {rounded(delay_ms or 0)}"
    return Finding(
        cause=Cause.DELAY_TOO_SMALL,
        certainty="likely",
        proof="the batches report the oldest row, the newest row before it, and the rows dropped" * is_exact,
        since_ms=first_late_ms(job),
        shift_ms=delay_ms if is_exact else None,
        needed_ms=needed_ms if is_exact else None,
        what=f"{counted(dropped, 'row')} or groups dropped as late, first at {clock_words(first_late_ms(job))}"
        + (lateness if is_exact else ""),
        remedy="A longer delay keeps such rows, and every window waits for as long.",
        evidence=last_reported([batches.query], "late_records", "input_watermark_ms"),
    )


def no_fault(job: Job) -> Finding | None:
    """The watermark is where the newest row and the delay put it, and a window waits for its end."""
    batches = Batches.of(job)
    if batches.delay_ms is None or batches.newest_ms is None or batches.are_newer_than_watermark:
        return None
    if job.watermark_ms is None:
        return None
    behind_ms = batches.newest_ms - job.watermark_ms
    rest_ms = behind_ms - batches.delay_ms
    of_batch = f": {rounded(batches.delay_ms)} of delay and {rounded(rest_ms)} of the last batch" if rest_ms else ""
    in_session = any("session" in title.lower() for title in (job.titles or ()))
    is_moving = len(batches.changes) >= _SLOW_BATCHES and not batches.is_quiet(job)
    return Finding(
        cause=Cause.NO_FAULT,
        certainty="likely" if is_moving and job.is_looked_at and job.waits is not False else "candidates",
        shift_ms=batches.delay_ms,
        what=f"it is {rounded(behind_ms)} behind the newest row{of_batch or ', by its delay'}",
        remedy="A session comes out when its gap has passed without a row of its key, by event time."
        if in_session
        else "A window comes out with a row later than its end by the delay.",
        evidence=batches.evidence,
    )


def no_new_data(job: Job) -> Finding | None:
    """Nothing has come for longer than usual, and a watermark of Spark moves only with newer rows."""
    batches = Batches.of(job)
    if (
        job.watermark_ms is None
        or batches.newest_ms is None
        or batches.are_newer_than_watermark
        or _none_newer(batches)
    ):
        return None
    if any(each.last.pending_records for each in job.sources) or too_slow(job):
        return None
    last_ms, is_quiet = batches.with_rows[-1].at_ms, batches.is_quiet(job)
    if job.is_looked_at and not is_quiet:
        return None
    is_sure = is_quiet and bool(job.waits)
    common: dict[str, Any] = {"cause": Cause.NO_NEW_DATA, "evidence": batches.evidence, "since_ms": last_ms}
    if not is_quiet:
        what = f"the log does not say whether a row has come since {clock_words(last_ms)}"
        return Finding(what=what, remedy="Ask again later, or look whether the source has more.", **common)
    return Finding(
        certainty="likely",
        proof="the query runs, waits for data, and has waited for longer than ten usual batches" if is_sure else "",
        what=f"no batch with rows has begun since {clock_words(last_ms)}",
        remedy=f"A row later than {clock_words(batches.newest_ms)} from each source would release it"
        + ("." if is_sure else "; see in query.status whether the query runs."),
        **common,
    )


RULES: Final[tuple[Rule, ...]] = (
    not_active,
    too_slow,
    silent_source,
    longer_delay,
    delay_of_one,
    source_behind,
    no_watermark,
    jump,
    no_data_batches,
    no_newer_rows,
    delay_too_large,
    fastest_decides,
    late_rows,
    no_fault,
    perhaps_not_active,
    no_new_data,
)


def _silent(job: Job, batches: Batches) -> list[Instance]:
    """The sources without a row since the watermark became what it is, while another one had some."""
    since = batches.held_from_ms
    silent = [each for each in job.sources if not each.last.records or (each.silent_since_ms or since) < since]
    return silent if len(silent) < len(job.sources) else []


def _none_newer(batches: Batches) -> bool:
    """Whether two batches with rows or more have come, none with a later event time than those before."""
    since = batches.since
    before = [each.event_max_ms for each in batches.with_rows if each not in since and each.event_max_ms is not None]
    after = [each.event_max_ms for each in since if each.event_max_ms is not None]
    return bool(before) and len(after) >= 2 and max(after) <= max(before)
