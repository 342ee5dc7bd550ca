"""The facts of a Spark query, one small function for each: what its batches say about its one watermark.

A progress has one watermark for the whole query, the event times of one source alone, and no watermark of a source. A
watermark that changes in a batch comes from the newest row of the previous batch, minus the delay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from statistics import median
from typing import Final

from wmlab.core.facts import Value
from wmlab.core.words import DAY_MS, SECOND_MS
from wmlab.engines.facts import (
    FAR_MS,
    Functions,
    Holds,
    NotReportedError,
    Table,
    in_state,
    late_since,
    names_of,
    need,
    unit_of,
)
from wmlab.engines.moments import STANDS_MS, Instance, Job, Moment, time_of
from wmlab.engines.spark_query import FOR_EVER, KEPT, MODE, NO_DATA, POLICY, WATERMARKS, WITHOUT_WATERMARK
from wmlab.engines.tables import NONE_YET, QUERY

_OWN_STATE: Final = ("applyInPandasWithState", "transformWithState", "flatMapGroupsWithState", "mapGroupsWithState")
"""How the operators begin whose state a function of the query keeps."""
_AT_ONCE: Final = re.compile(f"{QUERY}$|dedupe")
"""The operators that give their rows at once: none with state, and deduplications, which only free it later."""
_MANY: Final = 10
"""How many times what is usual, or needed, is too much."""
_ROW_OF_BATCHES: Final = 3
"""So many batches in a row are not chance."""
_PAUSE_MS: Final = 200
"""What passes at most between two batches of which the second was due already."""
_ENOUGH_BATCHES: Final = 5
"""From so many batches with rows on their lateness says something about the delay that they need."""
_FRESH_MS: Final = 5 * SECOND_MS
_YEARS_MS: Final = 5 * 365 * DAY_MS


@dataclass(frozen=True)
class Batches:
    """The batches of a query."""

    job: Job

    @property
    def every(self) -> tuple[Moment, ...]:
        """All batches."""
        return self.job.observed[0].moments

    @property
    def last(self) -> Moment:
        """The last one."""
        return self.every[-1]

    @cached_property
    def with_rows(self) -> tuple[Moment, ...]:
        """Those that had rows; each counts all records since the log began."""
        counts = [0, *(each.records or 0 for each in self.every)]
        return tuple(each for each, before in zip(self.every, counts, strict=False) if each.records != before)

    @property
    def is_stateless(self) -> bool:
        """Whether no batch had an operator with state."""
        return {step.operator for each in self.every for step in each.steps} == {QUERY}

    @cached_property
    def timed(self) -> list[tuple[Moment, int, int]]:
        """The batches with rows that report event times, with the oldest and the newest one; nulls count as 1970."""
        known = [(each, each.event_min_ms, each.event_max_ms) for each in self.with_rows]
        return [(each, low, high) for each, low, high in known if low is not None and high]

    @cached_property
    def changes(self) -> list[tuple[Moment, Moment]]:
        """The pairs of batches between which the watermark changed, or began."""
        pairs = pairwise(self.every)
        return [(a, b) for a, b in pairs if _mark(b) is not None and b.input_watermark_ms != a.input_watermark_ms]

    @property
    def newest_ms(self) -> int:
        """The latest event time that was reported; raises `NotReportedError`."""
        return need(max((high for _, _, high in self.timed), default=None))

    @cached_property
    def distances(self) -> list[int]:
        """How far the watermark was behind the newest row before each of its changes, of the last run that has some."""
        known = [
            (before.run == after.run == self.last.run, before.event_max_ms - need(_mark(after)))
            for before, after in self.changes
            if before.event_max_ms is not None
        ]
        return [gap for is_last, gap in known if is_last] or [gap for _, gap in known]

    @property
    def delay_ms(self) -> int:
        """The smallest of them: of one source that is its delay; raises `NotReportedError`."""
        return need(min(self.distances, default=None))

    @cached_property
    def needed_ms(self) -> int:
        """The least delay with which none of these rows is late: how far one was behind the batches before its own."""
        newest = [max(high for _, _, high in self.timed[:number]) for number in range(1, len(self.timed))]
        return max([high - low for high, (_, low, _) in zip(newest, self.timed[1:], strict=True)] + [0])

    @property
    def usual_gap_ms(self) -> int:
        """How long after one batch with rows the next one usually begins."""
        return _median([after.at_ms - before.at_ms for before, after in pairwise(self.with_rows)])

    @property
    def held_from_ms(self) -> int:
        """When the batch began with which the watermark became what it is; raises `NotReportedError`."""
        last = need(self.last.input_watermark_ms)
        return next(each.at_ms for each in self.every if each.input_watermark_ms == last)

    @property
    def since(self) -> list[int]:
        """The newest event times of the batches since then."""
        return [high for each, _, high in self.timed if each.at_ms >= self.held_from_ms]

    @property
    def silent(self) -> list[Instance]:
        """The sources without a row since then, while another one had some."""
        since = self.held_from_ms
        quiet = [e for e in self.job.sources if not e.last.records or need(e.silent_since_ms) < since]
        return quiet if len(quiet) < len(self.job.sources) else []

    @property
    def quiet_ms(self) -> int:
        """How long no batch has come."""
        return self.job.at_ms - self.last.end_ms

    def read_by(self, batch: Moment) -> list[str]:
        """The sources of which a batch had rows."""
        index = self.every.index(batch)
        counts = [
            (e.source, e.moments[index].records, e.moments[index - 1].records if index else 0) for e in self.job.sources
        ]
        return [source for source, now, before in counts if now != before]

    @cached_property
    def raised(self) -> tuple[Moment, Moment, int] | None:
        """The batch whose newest row is far ahead of all others, the one after it, and by how much.

        Its own rows lie far further apart than those of the other batches, or the watermark rises far more than usual.
        """
        rises = [(b, need(_mark(b)) - need(_mark(a))) for a, b in self.changes if _mark(a) is not None]
        for before, after in self.changes:
            if before.event_max_ms is None or before.event_min_ms is None or before.run != after.run:
                continue
            spans = [high - low for each, low, high in self.timed if each is not before]
            span = before.event_max_ms - before.event_min_ms
            # It has not risen where it began.
            rise = next((each for batch, each in rises if batch is after), 0)
            is_wide = len(spans) >= 2 and span >= max(FAR_MS, _MANY * _median(spans))
            usual = _median([each for b, each in rises if b is not after])
            is_high = len(rises) > 1 and rise >= max(FAR_MS, _MANY * usual)
            if is_wide or is_high:
                return before, after, max(span if is_wide else 0, rise)
        return None


def _mark(batch: Moment) -> int | None:
    return time_of(batch.input_watermark_ms)


def _median(values: list[int]) -> int:
    return int(median(values or [0]))


fact: Final = Functions[Batches]()


def facts_of(job: Job) -> Table:
    """All facts of a Spark query."""
    return fact.table(Batches(job))


def _state(batches: Batches, state: str) -> Holds:
    return in_state(batches.job, [state], lambda: batches.last.end_ms)


@fact("needs none")
def _(batches: Batches) -> Holds:
    """Each operator with state gives its rows at once: a deduplication, and a count that is not written by append.

    Spark runs no count by append without a watermark, and state that does not grow need not be freed.
    """
    settings = batches.job.settings
    open_ones = {step.operator for each in batches.every for step in each.steps if not _AT_ONCE.match(step.operator)}
    of_own = any(each.startswith(_OWN_STATE) for each in open_ones)
    has_all = len(open_ones) == 1 and bool(settings.get(WITHOUT_WATERMARK))
    sizes = [each.state_rows for each in batches.with_rows]
    no_time = not of_own and _no_times_declared(batches) and len(set(sizes)) == 1
    if not open_ones or has_all or (settings.get(MODE) in ("Complete", "Update") and not of_own) or no_time:
        return len(batches.with_rows) > 1 and {"rows": batches.last.written or batches.last.records}
    if (of_own or settings.get(MODE) is None) and not any("Join" in each for each in open_ones):
        raise NotReportedError
    return False


fact("failed")(partial(_state, state="FAILED"))
fact("not running")(partial(_state, state="ENDED"))


@fact("late")
def _(batches: Batches) -> Holds:
    """Rows were dropped in these batches; not known if none were and batches are missing between them."""
    rows = late_since(batches.job)
    if not rows and any(need(b.batch) > need(a.batch) + 1 for a, b in pairwise(batches.every)):
        raise NotReportedError
    return rows > 0 and {"rows": rows}


@fact("pending")
def _(batches: Batches) -> Holds:
    """More wait than a batch takes, and batch follows batch."""
    rows = sum(need(each.last.pending_records) for each in batches.job.sources)
    return rows > 0 and bool(_back_to_back(batches)) and {"rows": rows}


@fact("back to back")
def _back_to_back(batches: Batches) -> Holds:
    recent = batches.every[-_ROW_OF_BATCHES:]
    if len(recent) < _ROW_OF_BATCHES or any(each not in batches.with_rows for each in recent):
        return False
    lengths = [need(each.duration_ms) for each in recent]
    pauses = [after.at_ms - before.end_ms for before, after in pairwise(recent)]
    waits = batches.job.waits and not any(each.last.pending_records for each in batches.job.sources)
    is_one = max(pauses) <= max(_PAUSE_MS, min(lengths) // 20) and not waits
    return is_one and {"length": _median(lengths), "holder": "the query"}


@fact("backlog not known")
def _(batches: Batches) -> Holds:
    """Batch follows batch, and its rows are not as new as the batch: nothing tells whether rows wait."""
    recent = batches.timed[-_ROW_OF_BATCHES:]
    ages = [(each.at_ms - high, max(_FRESH_MS, 2 * (each.duration_ms or 0))) for each, _, high in recent]
    is_fresh = len(recent) == _ROW_OF_BATCHES and all(-_FRESH_MS <= age <= most for age, most in ages)
    is_known = any(each.last.pending_records is not None for each in batches.job.sources)
    return not is_fresh and not is_known and _back_to_back(batches)


@fact("newer rows")
def _newer_rows(batches: Batches) -> Holds:
    """A batch before the last one with rows should have moved the watermark, and has not."""
    times, last = batches.since, need(batches.last.input_watermark_ms)
    # Spark may take the rows of one source after the other, so that a batch has news of one alone.
    is_enough = len(times) > max(len(batches.job.sources), 1) or (len(times) >= 2 and last == NONE_YET)
    stands = is_enough and (last == NONE_YET or max(times[:-1]) - last > batches.delay_ms)
    return stands and {"rows": len(times), "since": batches.held_from_ms}


@fact("source silent")
def _(batches: Batches) -> Holds:
    if batches.is_stateless or not batches.silent or not _newer_rows(batches):
        return False
    names = tuple(each.source for each in batches.silent)
    return {
        "holder": names,
        "rows": sum(each.last.records or 0 for each in batches.silent),
        "since": batches.held_from_ms,
    }


@fact("new run")
def _(batches: Batches) -> Holds:
    runs = {each.run for each in batches.every if each.run is not None}
    first = next(each for each in batches.every if each.run == batches.last.run)
    is_one = len(runs) > 1 and len(batches.job.sources) == 1 and batches.held_from_ms <= first.at_ms
    return is_one and {"holder": "the delay", "since": first.at_ms}


@fact("distance grows")
def _(batches: Batches) -> Holds:
    """A delay is constant: where the distance grows from change to change, the rows of a source fall behind."""
    gaps = batches.distances
    if len(gaps) <= _ROW_OF_BATCHES or len(batches.job.sources) < 2 or gaps[-1] - gaps[0] < FAR_MS:
        return False
    grows = sum(after >= before for before, after in pairwise(gaps)) >= 0.75 * (len(gaps) - 1)
    return grows and {"behind": gaps[-1], "change": gaps[-1] - gaps[0]}


@fact("alone behind")
def _(batches: Batches) -> Holds:
    """A batch with rows of one source alone reports the event times of that source."""
    newest, last = 0, dict[str, Value]()
    for each, _, high in batches.timed:
        read = batches.read_by(each)
        if len(read) == 1 < len(batches.job.sources) and newest - high >= FAR_MS:
            last = {"holder": read[0], "behind": newest - high}
        newest = max(newest, high)
    return last or False


@fact("far")
def _(batches: Batches) -> Holds:
    """Further behind the newest row all the while than the limit, and than the rows of its one source needed."""
    if len(batches.with_rows) < _ROW_OF_BATCHES or not batches.distances:
        return False
    # Times of another unit are behind the clock themselves.
    age_ms = batches.last.at_ms - batches.newest_ms if unit_of(batches.newest_ms, batches.last.at_ms) else 0
    is_one = batches.delay_ms > FAR_MS and (len(batches.job.sources) > 1 or bool(_needed_less(batches)))
    return (is_one or age_ms > FAR_MS) and {
        "behind": max(age_ms, batches.delay_ms),
        "change": batches.distances[-1] - batches.distances[0],
    }


@fact("needed less")
def _needed_less(batches: Batches) -> Holds:
    if len(batches.with_rows) < _ENOUGH_BATCHES:
        return False
    usual_step_ms = _median([abs(after - before) for (_, _, before), (_, _, after) in pairwise(batches.timed)])
    least_ms = _MANY * max(batches.needed_ms, usual_step_ms, SECOND_MS)
    return batches.delay_ms >= least_ms and {
        "holder": "the delay",
        "delay": batches.delay_ms,
        "needed": batches.needed_ms,
    }


@fact("beyond reported")
def _(batches: Batches) -> Holds:
    """With the policy min no watermark is later than the newest row of any source, less its delay."""
    beyond_ms = need(batches.job.reported_ms) - batches.newest_ms
    return len(batches.job.sources) > 1 and beyond_ms > 0 and {"behind": beyond_ms}


@fact("no times")
def _(batches: Batches) -> Holds:
    """Not known of own state, which may need no watermark."""
    if any(step.operator.startswith(_OWN_STATE) for each in batches.every for step in each.steps):
        raise NotReportedError
    times = [each.event_max_ms for each in batches.every] + [_mark(each) for each in batches.every]
    return len(batches.with_rows) > 1 and all(value is None for value in times)


@fact("null times")
def _(batches: Batches) -> Holds:
    """Spark reports 1970 as the newest and the oldest time of a batch whose rows all have none."""
    nulls = [each for each in batches.with_rows if each.event_max_ms == 0 == each.event_min_ms]
    return bool(nulls) and {"holder": tuple(batches.read_by(nulls[-1]))}


@fact("jumped")
def _(batches: Batches) -> Holds:
    """A batch has raised the watermark far ahead of all rows since, by half of the rise at least, and rows are lost."""
    if batches.raised is None:
        return False
    before, after, rise_ms = batches.raised
    later = [high for each, _, high in batches.timed if each.at_ms >= after.at_ms]
    if not later or max(later) >= need(_mark(after)) - rise_ms // 2:
        return False
    rows = late_since(batches.job, before.at_ms)
    return rows > 0 and {"behind": rise_ms, "since": after.at_ms, "rows": rows, "holder": "the watermark"}


@fact("one far ahead")
def _(batches: Batches) -> Holds:
    need(len(batches.timed) > _ROW_OF_BATCHES or None)
    return batches.raised is not None and {"behind": batches.raised[2]}


@fact("jumped last")
def _(batches: Batches) -> Holds:
    """No row since tells a jump from a pause."""
    if batches.raised is None:
        return False
    _, after, rise_ms = batches.raised
    later = [each for each, _, _ in batches.timed if each.at_ms >= after.at_ms]
    return not later and {"behind": rise_ms, "since": after.at_ms}


def _due(batches: Batches) -> Holds:
    """The newest rows should move the watermark, and a batch without rows, which would do that, has never come.

    Where such batches are on, the state of the query needs none.
    """
    have_all_rows = len(batches.every) >= _ROW_OF_BATCHES and len(batches.every) == len(batches.with_rows)
    are_on = batches.job.settings.get(NO_DATA) == "true"
    if are_on or not have_all_rows or len(batches.job.sources) != 1 or not batches.distances:
        return False
    due_ms = batches.newest_ms - batches.delay_ms
    return due_ms > need(batches.job.reported_ms) and {"holder": NO_DATA, "due": due_ms}


fact("next batch due")(_due)


@fact("batch is due")
def _batch_is_due(batches: Batches) -> Holds:
    least_ms = batches.usual_gap_ms + 2 * SECOND_MS if batches.job.waits else STANDS_MS
    return batches.job.waits is not False and batches.quiet_ms >= least_ms and _due(batches)


@fact("may be due")
def _(batches: Batches) -> Holds:
    """It waits for the first time: all batches before followed each other."""
    pauses = [after.at_ms - before.end_ms for before, after in pairwise(batches.every)]
    is_first = bool(batches.job.waits) and max(pauses, default=0) <= _PAUSE_MS
    return is_first and not _batch_is_due(batches) and _due(batches)


@fact("none newer")
def _(batches: Batches) -> Holds:
    since_ms, after = batches.held_from_ms, batches.since
    before = [high for each, _, high in batches.timed if each.at_ms < since_ms]
    is_one = bool(before) and len(after) >= 2 and max(after) <= max(before) and len(batches.job.sources) == 1
    return is_one and {"holder": batches.job.sources[0].source, "sent": _mark(batches.last), "since": since_ms}


@fact("all silent")
def _all_silent(batches: Batches) -> Holds:
    """Nothing has come for longer than usual, though the query runs and waits."""
    if batches.job.waits is False and batches.job.state != "RUNNING":
        return False
    if not batches.with_rows:
        first_ms = batches.every[0].at_ms
        return batches.job.at_ms - first_ms >= STANDS_MS and {"since": first_ms}
    is_quiet = batches.quiet_ms >= max(STANDS_MS, _MANY * batches.usual_gap_ms)
    return is_quiet and not fact.of["jumped last"](batches) and {"since": batches.with_rows[-1].at_ms}


@fact("offsets go on")
def _(batches: Batches) -> Holds:
    """A source without any row goes on from offset to offset: a filter in its scan takes all, or all is empty."""
    for each in batches.job.sources:
        passed = [after for before, after in pairwise(each.moments) if after.offset != before.offset]
        if len(passed) >= _ROW_OF_BATCHES and not each.last.records:
            return {"holder": each.source, "rows": len(passed)}
    return False


@fact("ahead")
def _ahead(batches: Batches) -> Holds:
    """All newest rows are ahead of the clock."""
    ahead = [high - each.end_ms for each, _, high in batches.timed]
    is_one = len(ahead) >= _ROW_OF_BATCHES and min(ahead) > FAR_MS
    return is_one and {"holder": names_of(batches.job.sources)[0], "behind": min(ahead)}


@fact("not seen since")
def _(batches: Batches) -> Holds:
    last = (batches.with_rows or batches.every)[-1]
    return not batches.job.is_looked_at and {"since": last.at_ms}


@fact("keeps all")
def _(batches: Batches) -> Holds:
    rows, removed = batches.last.state_rows, need(batches.last.removed_rows)
    marks = [mark for each in batches.every if (mark := _mark(each)) is not None]
    if not rows or removed or len(batches.changes) < _ROW_OF_BATCHES:
        return False
    return {"rows": rows, "behind": marks[-1] - marks[0]}


@fact("frees rows")
def _(batches: Batches) -> Holds:
    """A delay alone lets no row go before the watermark has risen by it; rows of before the log may go earlier."""
    marks = [mark for each in batches.every if (mark := _mark(each)) is not None]
    is_early = bool(marks) and marks[-1] - marks[0] < batches.delay_ms
    return bool(need(batches.last.removed_rows)) and _mark(batches.every[0]) is None and is_early


@fact("unit")
def _(batches: Batches) -> Holds:
    unit = unit_of(batches.newest_ms, batches.last.at_ms)
    return unit is not None and {"holder": "its rows", "in_unit": unit}


@fact("near 1970")
def _(batches: Batches) -> Holds:
    newest = batches.newest_ms
    is_one = -DAY_MS < newest < _YEARS_MS and not unit_of(newest, batches.last.at_ms)
    return is_one and {"holder": "its rows", "behind": newest}


@fact("not due")
def _(batches: Batches) -> Holds:
    """The watermark has not passed the oldest row by as much as the plan keeps it."""
    in_plan = need(batches.job.settings.get(KEPT)).split(", ")
    longest_ms = max((int(each) for each in in_plan if each.isdecimal()), default=0)
    oldest_ms = need(min((low for _, low, _ in batches.timed), default=None))
    return need(batches.job.watermark_ms) - oldest_ms < longest_ms and {"length": longest_ms}


def _no_times_declared(batches: Batches) -> bool:
    """Spark reports a watermark, 1970 at first, of each query that declares one."""
    return all(each.input_watermark_ms is None for each in batches.every)


def _is_set(batches: Batches, name: str, value: str) -> bool:
    return need(batches.job.settings.get(name)).lower() == value


_COMPARISONS: Final[Mapping[str, Callable[[Batches], Holds]]] = {
    "of Spark": lambda _: True,
    "short log": lambda batches: len(batches.with_rows) < 2 and not batches.changes and not _all_silent(batches),
    # It is where the newest row and the delay put it.
    "moves": lambda batches: {
        "behind": batches.newest_ms - need(batches.job.watermark_ms),
        "delay": batches.delay_ms,
    },
    "may have ended": lambda batches: (
        batches.job.state is None
        and batches.job.waits is False
        and batches.quiet_ms >= 0
        and {"since": batches.last.end_ms}
    ),
    "none yet": lambda batches: need(batches.job.reported_ms) == NONE_YET,
    "several sources": lambda batches: len(batches.job.sources) > 1,
    # A progress has the event times of one source.
    "times of one": lambda batches: len(batches.job.sources) > 1,
    "no times declared": _no_times_declared,
    # Rows of long ago may be read as they come, or too late.
    "near": lambda batches: (
        bool(batches.distances)
        and not batches.raised
        and not _ahead(batches)
        and batches.last.at_ms - batches.newest_ms < FAR_MS
    ),
    "needed more": lambda batches: (
        batches.needed_ms > batches.delay_ms and {"delay": batches.delay_ms, "needed": batches.needed_ms}
    ),
    "another column": lambda batches: (
        bool(need(batches.job.settings.get(WITHOUT_WATERMARK))) and {"holder": batches.job.settings[WITHOUT_WATERMARK]}
    ),
    "policy max": partial(_is_set, name=POLICY, value="max"),
    "policy min": partial(_is_set, name=POLICY, value="min"),
    "no-data off": partial(_is_set, name=NO_DATA, value="false"),
    "all declare": lambda batches: (
        len(need(batches.job.settings.get(WATERMARKS)).split(", ")) == len(batches.job.sources)
    ),
    "kept for ever": lambda batches: FOR_EVER in need(batches.job.settings.get(KEPT)).split(", "),
}
"""The facts that are one comparison."""
fact.of |= _COMPARISONS
