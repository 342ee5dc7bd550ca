"""The rules for a Spark query: what its batches say about its one watermark.

A progress has one watermark for the whole query, the newest event time of one `withWatermark` alone, and no watermark
of a source. So what one source of several does is likely at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final

from wmlab.core.words import SECOND_MS, counted, listed, moment, rounded
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
_ENOUGH_BATCHES: Final = 5
"""From so many batches with rows on their lateness says something about the delay that they need."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a query, `with_rows` those that had some, and what they say about its watermark.

    A watermark that changes in a batch comes of the newest row of the batch before, less the delay.
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
        """The delay, as the changes of the watermark show it; None before the first."""
        gaps = [
            before.event_max_ms - after.input_watermark_ms
            for before, after in self.changes
            if before.event_max_ms is not None and after.input_watermark_ms is not None
        ]
        return min(gaps, default=None)

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
    def evidence(self) -> tuple[Evidence, ...]:
        """The last batch with rows, and the last batch."""
        ends = dict.fromkeys((*self.with_rows[-1:], self.every[-1]))
        return tuple(reported(self.query, each, "records", "input_watermark_ms", "event_max_ms") for each in ends)


def silent_source(job: Job) -> Finding | None:
    """Newer rows have come, but none from one source, so that the smallest watermark of all stands."""
    batches = Batches.of(job)
    silent = _silent(job, batches)
    if not silent or not batches.are_newer_than_watermark:
        return None
    names = listed([each.source for each in silent])
    many = f"{len(batches.since)} batches"
    return Finding(
        cause=Cause.SILENT_SOURCE,
        certainty="likely" if len(silent) == 1 else "candidates",
        holder=names,
        since_ms=batches.held_from_ms,
        text=f"{many} with newer rows have come since, and no row of {names}",
        release=f"a row of {names} with a newer event time",
        evidence=(*last_reported(silent, "records"), *batches.evidence),
    )


def source_behind(job: Job) -> Finding | None:
    """All sources have rows, and the watermark stands, or is further behind the newest row than one would choose."""
    batches = Batches.of(job)
    gap_ms = batches.delay_ms or 0
    is_far = gap_ms >= _MANY * max(batches.usual_step_ms, SECOND_MS)
    stands = batches.are_newer_than_watermark
    if len(job.sources) < 2 or not (stands or is_far) or _silent(job, batches):
        return None
    text = "all sources have rows, and the event times of one are behind"
    if not stands:
        text = (
            f"it is {rounded(gap_ms)} behind the newest row all the while: if the delay is less, one source is behind"
        )
    return Finding(
        cause=Cause.SOURCE_BEHIND,
        certainty="candidates",
        since_ms=batches.held_from_ms,
        text=f"{text}; Spark does not report which",
        release="compare the newest event time of each source",
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
        certainty="candidates" if silent else "sure",
        since_ms=batches.with_rows[0].at_ms,
        text="rows have come without event time: the query has no withWatermark for them, or all times are null",
        release="look at withWatermark in the query, and for nulls in its column",
        evidence=batches.evidence,
    )


def jump(job: Job) -> Finding | None:
    """One batch has raised the watermark far beyond all other rows, which are late from then on."""
    batches = Batches.of(job)
    rises = [
        (after.input_watermark_ms - before.input_watermark_ms, before, after)
        for before, after in batches.changes
        if before.input_watermark_ms is not None and after.input_watermark_ms is not None
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
    raised = f"one batch raised the watermark by {rounded(rise_ms)} to {moment(after.input_watermark_ms)}"
    is_older_and_late = bool(times) and dropped > 0
    return Finding(
        cause=Cause.JUMP,
        certainty=("sure" if len(times) > 1 else "likely") if is_older_and_late else "candidates",
        since_ms=after.at_ms,
        shift_ms=rise_ms,
        text=f"{raised}, and all rows since are older: {counted(dropped, 'row')} or groups dropped as late"
        if is_older_and_late
        else f"{raised}, and no row since tells whether that is a jump or a pause in the data",
        release="no watermark goes back: filter rows ahead of the clock before withWatermark, and start again with a "
        "new checkpoint"
        if is_older_and_late
        else "look at the newest rows of that batch",
        evidence=(
            reported(batches.query, before, "input_watermark_ms", "event_max_ms"),
            reported(batches.query, after, "input_watermark_ms", "event_max_ms"),
            *last_reported([batches.query], "event_max_ms", "late_records"),
        ),
    )


def no_new_data(job: Job) -> Finding | None:
    """Nothing has come, or nothing newer, and a watermark of Spark moves only with newer rows."""
    batches = Batches.of(job)
    if job.watermark_ms is None or batches.newest_ms is None or batches.are_newer_than_watermark:
        return None
    if any(each.last.pending_records for each in job.sources):
        return None
    release = f"a row later than {moment(batches.newest_ms)} from each source"
    common: dict[str, Any] = {"cause": Cause.NO_NEW_DATA, "evidence": batches.evidence}
    if len(job.sources) == 1 and _none_newer(batches):
        text = f"rows come, and none is later than {moment(batches.newest_ms)}"
        return Finding(certainty="sure", since_ms=batches.held_from_ms, text=text, release=release, **common)
    last_ms = batches.with_rows[-1].at_ms
    text = f"no batch with rows has begun since {moment(last_ms)}, and a watermark moves only with newer rows"
    quiet_ms = job.at_ms - batches.every[-1].at_ms
    if job.waits:
        return Finding(certainty="sure", since_ms=last_ms, text=text, release=release, **common)
    if quiet_ms >= max(STANDS_MS, _MANY * batches.usual_gap_ms):
        release += "; see in query.status whether the query runs and waits for data"
        return Finding(certainty="likely", since_ms=last_ms, text=text, release=release, **common)
    return Finding(
        certainty="candidates",
        since_ms=last_ms,
        text=f"whether a row has come since {moment(last_ms)} is not in the log",
        release="ask with a later at_ms, or look whether the source has more",
        **common,
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
        holder="the delay",
        since_ms=batches.with_rows[0].at_ms,
        shift_ms=delay_ms,
        needed_ms=needed_ms,
        text=f"the delay is {rounded(delay_ms)}, and no row of {len(batches.with_rows)} batches was more than "
        f"{rounded(needed_ms)} behind the batches before",
        release="a row later than the end of a window by the delay, or a shorter delay",
        evidence=batches.evidence,
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
        certainty="sure" if is_exact else "likely",
        since_ms=first_late_ms(job),
        shift_ms=delay_ms if is_exact else None,
        needed_ms=needed_ms if is_exact else None,
        text=f"{counted(dropped, 'row')} or groups dropped as late, first at {moment(first_late_ms(job))}"
        + (lateness if is_exact else ""),
        release="a longer delay keeps such rows, and every window waits for as long",
        evidence=last_reported([batches.query], "late_records", "input_watermark_ms"),
    )


def no_fault(job: Job) -> Finding | None:
    """The watermark is where the newest row and the delay put it, and a window waits for its end."""
    batches = Batches.of(job)
    if batches.delay_ms is None or batches.newest_ms is None or batches.are_newer_than_watermark:
        return None
    return Finding(
        cause=Cause.NO_FAULT,
        certainty="candidates",
        shift_ms=batches.delay_ms,
        text=f"it is {rounded(batches.delay_ms)} behind the newest row, {moment(batches.newest_ms)}, by its delay",
        release="a window comes out with the first row that is later than its end by the delay",
        evidence=batches.evidence,
    )


RULES: Final[tuple[Rule, ...]] = (
    silent_source,
    source_behind,
    no_watermark,
    jump,
    no_new_data,
    delay_too_large,
    late_rows,
    no_fault,
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
