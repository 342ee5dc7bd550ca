"""The facts of a Flink job, one small function each: what holds the watermark, and what plan and values say.

How late rows are is not in Flink's metrics, nor what a source of the DataStream API has as its strategy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from wmlab.core.words import DAY_MS, MINUTE_MS, SECOND_MS
from wmlab.engines.facts import (
    BEHIND_MS,
    CHANGES_MS,
    FAR_MS,
    Functions,
    Holds,
    NotReportedError,
    Table,
    in_state,
    is_the_clock,
    late_since,
    names_of,
    need,
    unit_of,
)
from wmlab.engines.flink_rest import IDLE_TIMEOUT, INTERVAL
from wmlab.engines.flink_view import LEVELS, Level, Part, View, kept_ms
from wmlab.engines.moments import STANDS_MS, Instance, Job, Moment, same_since, smallest, time_of, title_of
from wmlab.engines.tables import NONE_YET

_MOST: Final = 0.5
_ALL: Final = 0.9
"""The shares of its time from which on a task counts as pressed or paused, and as busy."""
_QUARTER_MS: Final = 15 * MINUTE_MS
_FURTHEST_ZONE_MS: Final = 14 * 60 * MINUTE_MS
_SLACK_MS: Final = 25 * SECOND_MS
"""How much older than a whole offset, or a delay, a watermark may be: a metric is ten seconds old, a delay is usual."""
_YEARS_MS: Final = 5 * 365 * DAY_MS
_WELL_MS: Final = 5 * MINUTE_MS
"""A job that has not started again for so long, and for twice as long as between its starts, is well."""
_EVENT_TIME: Final = re.compile(r"EventTime|isRowTime=true|WatermarkAssigner|slice_end|rowtime")
_PROCESSING_TIME: Final = re.compile(r"ProcessingTime|PROCTIME\(\)")
_LOCAL_TIME: Final = re.compile(r"LOCALTIMESTAMP\(\) AS (\w+)(?=.*rowtime=\[\1\])", re.DOTALL)
_IS_DECLARED: Final = re.compile(r"WatermarkAssigner\(|watermark=\[")
_OF_SQL: Final = re.compile(r"\[\d+\]:\w+\(")
_AT_ONCE: Final = re.compile(
    r"[ +:-]*(Source: .*|.*: Writer|Window\(\w+ProcessingTime\w+\(.*\), ProcessingTimeTrigger, .*|"
    r"\[\d+\]:(TableSourceScan|WatermarkAssigner|Calc|Union|Expand|Correlate|Limit|LookupJoin|Join|Rank|"
    r"DropUpdateBefore|ChangelogNormalize|((Local|Global)?Group)Aggregate|"
    r"Sink|SinkMaterializer|ConstraintEnforcer|StreamRecordTimestampInserter)\(.*)?"
)
"""Operators that give their rows at once, or by the clock, whatever the watermark is."""
_OF_CLOCK: Final = r"\[PROCTIME\]|isRowTime=false"
_WAITS: Final = re.compile(r"\[\d+\]:\w+\(|EventTimeTrigger")
"""Of the other operators those that wait for it: a function of the job's own may wait, or may not."""
_RUNNING: Final = (None, "RUNNING", "CREATED", "INITIALIZING", "RECONCILING")
_STATES: Final = {
    "failed": ("FAILED", "FAILING"),
    "cancelled": ("CANCELED", "CANCELLING"),
    "restarting": ("RESTARTING",),
}
_ZERO: Final = re.compile(r" *0+ *(ms|s|min|h|d)? *")
fact: Final = Functions[View]()


def facts_of(job: Job) -> Table:
    """All facts of a Flink job."""
    return fact.table(View(job))


def _state(view: View, states: Sequence[str | None]) -> Holds:
    return in_state(view.job, states, lambda: same_since(view.job.states))


for _name, _those in _STATES.items():
    fact(_name)(partial(_state, states=_those))


@fact("not running")
def _(view: View) -> Holds:
    known = (*_RUNNING, *(state for states in _STATES.values() for state in states))
    return view.job.state not in known and _state(view, [view.job.state])


def _falls(view: View) -> list[tuple[int, str, int, int]]:
    """When a task had read fewer rows than before, its name, and both numbers."""
    return [
        (after.at_ms, instance.source, before.records or 0, after.records or 0)
        for task in view.job.path
        for instance in view.job.tasks[task]
        for before, after in pairwise(each for each in instance.moments if each.records is not None)
        if (after.records or 0) < (before.records or 0)
    ]


@fact("restarted")
def _(view: View) -> Holds:
    at_ms, name, before, after = max(_falls(view), default=(0, "", 0, 0))
    return at_ms > 0 and {"other": name, "rows_before": before, "rows": after, "since": at_ms}


@fact("restarts on")
def _(view: View) -> Holds:
    """It has started again more than once, and lately, or the watermark that it had has not moved since."""
    job, falls = view.job, {at_ms for at_ms, *_ in _falls(view)}
    begun = {at for (_, before), (at, after) in pairwise(job.states) if after == "RESTARTING" != before}
    starts = sorted(falls | begun)
    has_mark = any(time_of(mark) is not None for _, mark in job.watermarks)
    stands = bool(falls) and has_mark and need(job.stands_since_ms) <= max(falls)
    is_loop = len(begun) > 1 or (bool(falls) and max(falls) - min(falls) > CHANGES_MS)
    return stands or (is_loop and job.at_ms - starts[-1] <= max(_WELL_MS, 2 * (starts[-1] - starts[0])))


@fact("needs none")
def _(view: View) -> Holds:
    """Rows come out though there has been no watermark, or nothing in the plan behind what keeps it waits for one.

    A plan of processing time needs none before rows come out. Not known of functions of the job's own out of which
    rows come, though the watermark stands.
    """
    job = view.job
    behind = job.path[: job.path.index(view.keeper[0].task)] if view.keeper else job.path
    plans = [(job.plans or {}).get(task) for task in behind]
    waiting = [line for plan in plans for line in re.split("<br/>|\n", plan or "") if not _is_at_once(line, job.plan)]
    has_mark = need(job.reported_ms) != NONE_YET
    if has_mark and any(map(_WAITS.search, waiting)):
        return False
    rows = sum(need(each.last.written) for each in job.observed)
    is_planned = bool(_PROCESSING_TIME.search(job.plan)) and not _EVENT_TIME.search(job.plan)
    if not (rows or is_planned) or not sum(need(each.last.records) for each in job.sources):
        return False
    if not has_mark or (all(plans) and not waiting):
        return {"rows": rows}
    since_ms = need(job.stands_since_ms) + BEHIND_MS
    come = any(each.since(since_ms)[0].written != each.last.written for each in job.observed)
    if come or not job.stands or not all(plans):
        raise NotReportedError
    return False


def _is_at_once(line: str, plan: str) -> bool:
    """Whether an operator of Flink SQL gives its rows at once, or by processing time."""
    columns = "|".join(re.findall(r"PROCTIME\(\) AS (\w+)", plan))
    of_column = rf"|(?:time_col|orderBy)=\[(?:{columns})\b" if columns else ""
    return bool(_AT_ONCE.fullmatch(line) or re.search(_OF_CLOCK + of_column, line))


@fact("near")
def _(view: View) -> Holds:
    """Near to the clock, and no long delay is stated, with which its newest row would be ahead of the clock."""
    lag_ms = view.job.at_ms - need(view.job.watermark_ms)
    return max(abs(lag_ms), _delay(view) or 0) < FAR_MS and not any(_is_ahead(view, each) for each in view.live)


@fact("far")
def _(view: View) -> Holds:
    """Further behind the clock than the limit; whether a stated delay explains it is another fact."""
    if need(view.job.reported_ms) == NONE_YET:
        return False
    return view.job.at_ms - need(view.job.watermark_ms) >= FAR_MS and _lag(view)


def _lag(view: View) -> Holds:
    return {"behind": view.job.at_ms - need(view.job.watermark_ms), "change": _growth(view)}


def _growth(view: View) -> int:
    return view.lags[-1][1] - view.lags[0][1] if view.lags else 0


@fact("grows")
def _(view: View) -> Holds:
    """It falls behind all the while: what has only just stopped grows at the end of the log alone."""
    need(view.job.reported_ms)
    if len(view.lags) < 3:
        return False
    growth_ms, middle = _growth(view), view.lags[len(view.lags) // 2][1] - view.lags[0][1]
    part, at_ms = view.holding, view.job.at_ms
    moves = part is None or part.mark != part.mark_at(at_ms - CHANGES_MS)
    is_one = growth_ms > CHANGES_MS and middle >= growth_ms // 4 and moves
    name = None if part is None else view.holder
    return is_one and {"behind": view.lags[-1][1], "change": growth_ms, "holder": name}


@fact("queue grows")
def _(view: View) -> Holds:
    """What lies between the watermark that the sources send and that of the operator grows, in the first half, too."""
    need(view.job.reported_ms)
    marks = [(at, mark, [view.sent(each, each.since(at)[0]) for each in view.live]) for at, mark in view.job.watermarks]
    gaps = [low - mark for _, mark, sent in marks if mark and (low := smallest(sent)) and NONE_YET not in (mark, low)]
    if len(gaps) < 3:
        return False
    change_ms, early_ms = gaps[-1] - gaps[0], gaps[len(gaps) // 2] - gaps[0]
    return change_ms > CHANGES_MS and early_ms >= change_ms // 4 and {"behind": gaps[-1], "change": change_ms}


def _of_keeper(view: View, *, moves: bool) -> Holds:
    if view.keeper is None:
        return False
    instance, step = view.keeper
    sent = [(at.at_ms, s.sent_ms) for at in instance.moments for s in at.steps if s.operator == step.operator]
    if (view.job.at_ms - same_since(sent) < STANDS_MS) != moves:
        return False
    values = {
        "holder": f"{step.operator}, subtask {instance.subtask}",
        "got": step.got_ms,
        "sent": time_of(step.sent_ms),
    }
    return values | {"rows": step.records_in, "rows_out": step.records_out, "behind": kept_ms(step)}


fact("operator stands")(partial(_of_keeper, moves=False))
fact("operator later")(partial(_of_keeper, moves=True))


def _first_share(instances: Sequence[Instance], name: str, least: float) -> Holds:
    """The first instance with a share that is as large; raises `NotReportedError` if none of them reports it."""
    shares = [(each, getattr(each.last, name)) for each in instances if getattr(each.last, name) is not None]
    need(shares or None)
    large = [(each.source, share) for each, share in shares if share >= least]
    return bool(large) and {"holder": large[0][0], "share": large[0][1]}


def _path(view: View) -> list[Instance]:
    return [each for task in view.job.path for each in view.job.tasks[task]]


@fact("takes none")
def _(view: View) -> Holds:
    """A subtask has taken no row for long, has not got what its inputs have sent, and waits for nobody behind it."""
    if view.late_task is None:
        return False
    low = min(view.job.tasks[view.late_task], key=lambda each: need(each.last.input_watermark_ms))
    since_ms = need(low.silent_since_ms)
    is_free = need(low.last.back_pressured_share) < _AT_WORK
    is_one = is_free and view.job.at_ms - since_ms >= STANDS_MS
    return is_one and {"holder": f"{low.source}, subtask {low.subtask}", "since": since_ms}


@fact("holder at work")
def _(view: View) -> Holds:
    """It does not wait for rows, so that it reads none for another reason."""
    pressed = any(need(each.last.back_pressured_share) >= _AT_WORK for each in view.side)
    return pressed or any(need(each.last.busy_share) >= _AT_WORK for each in view.side)


_AT_WORK: Final = 0.1
"""The share of its time at work, or pressed, that a source without rows to read has not."""


def _is_paused(instance: Instance) -> bool:
    """Whether alignment pauses the split that decides, the lowest one."""
    low = min(instance.last.splits, key=lambda split: split.watermark_ms or NONE_YET, default=None)
    return low is not None and (low.paused_share or 0.0) >= _MOST


@fact("paused")
def _(view: View) -> Holds:
    """Flink counts the time for which alignment pauses a split; the member with the lowest drift is waited for."""
    if not view.side or not all(map(_is_paused, view.side)):
        return False
    group = [each for every in view.job.tasks.values() for each in every if each.last.drift_ms is not None]
    slowest = min(group, key=lambda each: need(each.last.drift_ms), default=view.side[0])
    share = max(split.paused_share or 0.0 for each in view.side for split in each.last.splits)
    return {"waiting": view.holder, "share": share, "holder": slowest.source}


def _silent(view: View, level: Level) -> Holds:
    """What holds it reads nothing, and others next to it do, or have at least a watermark."""
    beside, at_ms = view.levels(level), view.job.at_ms
    if beside is None:
        return False
    low, others = beside
    if level == "split":
        return low.stands(at_ms) and {"holder": low.name, "other": others[0].name, "since": same_since(low.marks)}
    if not view.job.stands or not low.is_silent(at_ms):
        return False
    read_on = any(each.rows and not each.is_silent(at_ms) for each in others)
    has_mark = level == "subtask" and any(each.mark != NONE_YET for each in others)
    return (read_on or has_mark) and {"holder": low.name, "rows": low.rows, "since": low.silent_since_ms}


def _quiet(view: View, level: Level) -> Holds:
    """It has read nothing of late, not yet for so long that it counts as silent, and another one next to it has."""
    beside, at_ms = view.levels(level), view.job.at_ms
    if beside is None:
        return False
    low, others = beside
    # Polls are not to the millisecond as far apart as was asked for.
    is_one = BEHIND_MS - SECOND_MS <= at_ms - low.silent_since_ms < STANDS_MS
    reads_on = any(each.silent_since_ms > low.silent_since_ms for each in others)
    return is_one and reads_on and {"holder": low.name, "rows": low.rows, "since": low.silent_since_ms}


def _behind(view: View, level: Level) -> Holds:
    """What holds it moves, and is behind those next to it in the last two polls; it is not that they are ahead."""
    beside, at_ms = view.levels(level), view.job.at_ms
    if beside is None or view.job.stands:
        return False
    low, others = beside
    gaps = _gaps(low, others)
    if len(gaps) < 2 or min(gaps[-2:]) < BEHIND_MS or low.mark == low.marks[0][1]:
        return False
    is_at_clock = at_ms - low.mark < FAR_MS and min(each.mark for each in others) > at_ms + FAR_MS
    is_quiet = bool(low.instances) and at_ms - low.silent_since_ms >= BEHIND_MS
    if is_at_clock or is_quiet:
        return False
    return {"holder": low.name, "other": others[0].name, "behind": gaps[-1], "change": gaps[-1] - gaps[0]}


def _gaps(low: Part, others: Sequence[Part]) -> list[int]:
    """How far a part was behind the lowest of the others, at each poll at which all had a watermark."""
    marks = [(mark, smallest(other.mark_at(at) for other in others)) for at, mark in low.marks if mark is not None]
    return [need(high) - mark for mark, high in marks if NONE_YET not in (mark, high)]


for _level in LEVELS:
    fact(f"{_level} silent")(partial(_silent, level=_level))
    fact(f"{_level} behind")(partial(_behind, level=_level))
fact("source quiet")(partial(_quiet, level="source"))
fact("subtask quiet")(partial(_quiet, level="subtask"))


@fact("no split left")
def _(view: View) -> Holds:
    """All its splits have ended or moved away, so nothing comes; Flink never marks a reader without splits as idle."""
    has_splits = any(each.last.splits for each in view.whole)
    had_some = [each for each in view.side if each.gone or (has_splits and each.last.records)]
    if view.holding is None or len(had_some) < len(view.side) or any(each.last.splits for each in view.side):
        return False
    return {"holder": view.holder, "since": same_since(view.holding.marks)}


@fact("all silent")
def _(view: View) -> Holds:
    if not view.origins or not view.job.stands:
        return False
    since_ms = max(need(each.silent_since_ms) for each in view.live or view.origins)
    return view.job.at_ms - since_ms >= STANDS_MS and {"since": since_ms}


@fact("pending")
def _(view: View) -> Holds:
    """More wait than have been read of late: some wait between two reads of every source."""
    rows = sum(need(each.last.pending_records) for each in view.live)
    since_ms = view.job.at_ms - CHANGES_MS
    read = sum(need(each.last.records) - need(each.since(since_ms)[0].records) for each in view.live)
    return rows > max(read, 0) and {"rows": rows}


@fact("none newer")
def _(view: View) -> Holds:
    """It reads, and its watermark stands."""
    low, at_ms = view.holding, view.job.at_ms
    if low is None or not view.job.stands or not low.stands(at_ms) or low.mark == NONE_YET:
        return False
    is_open = low.is_silent(at_ms) or view.levels("split") is not None
    return not is_open and {"holder": low.name, "sent": low.mark, "since": same_since(low.marks)}


@fact("reads without")
def _(view: View) -> Holds:
    low = view.holding
    if low is None or need(view.job.reported_ms) != NONE_YET or not view.job.stands or low.mark != NONE_YET:
        return False
    return low.rows > 0 and view.levels("split") is None and {"holder": low.name, "rows": low.rows}


@fact("rows end")
def _(view: View) -> Holds:
    """An operator in the chain of a source has passed nothing on of what it has got, ever or since it stands."""
    since_ms = (view.job.stands_since_ms or 0) + BEHIND_MS
    for many in (view.job.tasks[task] for task in dict.fromkeys(each.task for each in view.job.sources)):
        for steps in zip(*(each.last.steps for each in many), strict=False):
            earlier = [s for each in many if view.job.stands for s in each.since(since_ms)[0].steps]
            for base in ([], [step for step in earlier if step.operator == steps[0].operator]):
                rows, out = (
                    sum(getattr(step, name) or 0 for step in steps) - sum(getattr(step, name) or 0 for step in base)
                    for name in ("records_in", "records_out")
                )
                if rows > 0 and not out and all(step.records_out is not None for step in steps):
                    return {"holder": steps[0].operator, "rows": rows}
    return False


def _named(instances: Iterable[Instance]) -> Holds:
    names = names_of(instances)
    return bool(names) and {"holder": names}


def _plan_of(view: View) -> str:
    return (view.job.plans or {}).get(view.side[0].task, "") if view.side else ""


@fact("made in scan")
def _(view: View) -> Holds:
    """The plan has the watermark in the scan, or shows neither scan nor assigner."""
    plan = _plan_of(view)
    scan = plan.partition("<br/>")[0]
    is_inside = "watermark=[" in scan if "TableSourceScan(" in scan else "WatermarkAssigner(" not in plan
    return bool(plan and _OF_SQL.search(view.job.plan)) and is_inside


@fact("aligned")
def _(view: View) -> Holds:
    others = [each for each in view.live if each not in view.side]
    quiet = [view.job.at_ms - (each.silent_since_ms or view.job.at_ms) for each in others if each.last.records]
    return any(each >= STANDS_MS for each in quiet) or any(
        at.drift_ms is not None for each in view.origins for at in each.moments
    )


def _delay(view: View) -> int | None:
    return view.side[0].last.delay_ms if view.side else None


@fact("delay explains")
def _(view: View) -> Holds:
    delay_ms = _delay(view)
    if view.holding is None or delay_ms is None or view.job.stands:
        return False
    rest_ms = view.job.at_ms - view.holding.mark - delay_ms
    is_one = delay_ms >= FAR_MS and -BEHIND_MS <= rest_ms <= _SLACK_MS
    return is_one and {"holder": view.holder, "delay": delay_ms}


@fact("whole quarters")
def _(view: View) -> Holds:
    """By what it is behind the clock, or another source, less its stated delay."""
    if view.job.stands or not view.side or len(view.lags) < 3:
        return False
    lags = [lag - (_delay(view) or 0) for _, lag in view.lags]
    offset_ms = round((lags[-1] - _SLACK_MS / 2) / _QUARTER_MS) * _QUARTER_MS
    is_near = 0 <= lags[-1] - offset_ms + SECOND_MS <= _SLACK_MS and max(lags) - min(lags) <= _SLACK_MS
    is_one = is_near and 0 < abs(offset_ms) <= _FURTHEST_ZONE_MS
    return is_one and {"holder": view.holder, "behind": offset_ms}


def _units(view: View) -> list[tuple[Instance, str, list[tuple[int, int]]]]:
    """Those whose times are usual ones in another unit, with that unit and the times of each poll."""
    known = [
        (each, [(at.at_ms, mark) for at in each.moments if (mark := time_of(view.sent(each, at))) is not None])
        for each in view.live
    ]
    return [(each, unit, times) for each, times in known if times and (unit := unit_of(times[-1][1], view.job.at_ms))]


def _of_unit(view: View, *, at_its_speed: bool) -> Holds:
    fitting = [(e, unit) for e, unit, times in _units(view) if not at_its_speed or is_the_clock(unit, times)]
    in_one_unit = [each for each, unit in fitting if (each.task, unit) == (fitting[0][0].task, fitting[0][1])]
    return bool(in_one_unit) and {"holder": view.name_of(in_one_unit), "in_unit": fitting[0][1]}


fact("unit")(partial(_of_unit, at_its_speed=False))
fact("unit and speed")(partial(_of_unit, at_its_speed=True))


@fact("near 1970")
def _(view: View) -> Holds:
    mark = None if view.holding is None else time_of(view.holding.mark)
    if mark is None or not -DAY_MS < mark < _YEARS_MS or unit_of(mark, view.job.at_ms):
        return False
    return {"holder": view.holder, "behind": mark}


def _jump(view: View) -> tuple[Instance, Moment, Moment] | None:
    """The origin whose watermark has risen from behind the clock to far ahead of it, with the polls around that."""
    for each in view.origins:
        for before, after in pairwise(at for at in each.moments if time_of(view.sent(each, at)) is not None):
            ahead_ms = [need(view.sent(each, at)) - at.at_ms for at in (before, after)]
            if ahead_ms[0] <= FAR_MS < ahead_ms[1] - max(ahead_ms[0], 0):
                return each, before, after
    return None


@fact("jumped")
def _(view: View) -> Holds:
    jump = _jump(view)
    if jump is None:
        return False
    each, before, after = jump
    rise_ms = need(view.sent(each, after)) - need(view.sent(each, before)) - (after.at_ms - before.at_ms)
    name = f"subtask {each.subtask} of {each.source}"
    return {"holder": name, "behind": rise_ms, "since": after.at_ms, "rows": late_since(view.job, before.at_ms)}


@fact("jumped, then lost")
def _(view: View) -> Holds:
    """All that was lost in the log was lost after the jump."""
    jump = fact.of["jumped"](view)
    return isinstance(jump, dict) and jump["rows"] > 0 and jump["rows"] == late_since(view.job) and jump


def _is_ahead(view: View, each: Instance) -> bool:
    return (view.sent(each) or NONE_YET) > each.last.at_ms + FAR_MS


def _ahead(view: View, *, stands: bool) -> Holds:
    ahead = [each for each in view.live if _is_ahead(view, each)]
    parts = [view.part("", [each]) for each in ahead]
    at_ms = view.job.at_ms
    fitting = [
        each
        for each, part in zip(ahead, parts, strict=True)
        if (part.stands(at_ms) and not part.is_silent(at_ms)) == stands and each.task == ahead[0].task
    ]
    if not fitting:
        return False
    by_ms = max(need(view.sent(each)) - each.last.at_ms for each in fitting)
    return {"holder": view.name_of(fitting), "behind": by_ms}


fact("stands ahead")(partial(_ahead, stands=True))
fact("ahead")(partial(_ahead, stands=False))


_COMPARISONS: Final[Mapping[str, Callable[[View], Holds]]] = {
    "short log": lambda view: len(view.job.watermarks) < 3,
    "stands": lambda view: need(view.job.reported_ms) is not None and view.job.stands,
    "may stand": lambda view: CHANGES_MS < view.job.at_ms - need(view.job.stands_since_ms) < STANDS_MS,
    "none yet": lambda view: need(view.job.reported_ms) == NONE_YET,
    "moves": lambda view: not view.job.stands and _lag(view),
    "gap changes": lambda view: any(
        isinstance(gap, dict) and abs(gap["change"]) > CHANGES_MS for gap in (_behind(view, level) for level in LEVELS)
    ),
    "distance changes": lambda view: need(view.job.reported_ms) is not None and abs(_growth(view)) > CHANGES_MS,
    # An assigner of mini-batches may send none for as long as a batch is.
    "never sent": lambda view: (
        view.keeper is not None
        and time_of(view.keeper[1].sent_ms) is None
        and "MiniBatchAssigner(" not in view.job.plan
    ),
    "not arrived": lambda view: view.late_task is not None and {"holder": title_of(view.late_task)},
    "late task busy": lambda view: (
        view.late_task is not None and _first_share(view.job.tasks[view.late_task], "busy_share", _ALL)
    ),
    "busy": lambda view: _first_share(_path(view), "busy_share", _ALL),
    "pressed": lambda view: _first_share(_path(view), "back_pressured_share", _MOST),
    "idle": lambda view: _named(each for each in view.origins if not view.job.is_live(each) and not each.last.ended),
    # One that has sent the last watermark of all, and reads on, has not ended.
    "source ended": lambda view: _named(
        each
        for each in view.job.sources
        if all(
            e.last.ended and need(e.silent_since_ms) <= view.job.at_ms - CHANGES_MS for e in view.job.tasks[each.task]
        )
    ),
    "several splits": lambda view: any(len(each.last.splits) != 1 for each in view.side),
    "sibling has one": lambda view: any(
        each.mark != NONE_YET for _, many in [view.levels("subtask") or (None, [])] for each in many
    ),
    "other has one": lambda view: any(map(view.has_sent, view.job.tasks)),
    "late": lambda view: late_since(view.job) > 0 and {"rows": late_since(view.job)},
    "delay small": lambda view: (
        (_delay(view) or 0) < BEHIND_MS and _delay(view) is not None and {"delay": _delay(view)}
    ),
    "several sources": lambda view: len({each.task for each in view.origins}) > 1,
    "of SQL": lambda view: bool(_OF_SQL.search(view.job.plan)),
    "declared": lambda view: bool(_OF_SQL.search(view.job.plan) and _IS_DECLARED.search(_plan_of(view))),
    "undeclared": lambda view: (
        "TableSourceScan(" in _plan_of(view) and not _IS_DECLARED.search(view.job.plan) and {"holder": view.holder}
    ),
    "local time": lambda view: bool(_LOCAL_TIME.search(_plan_of(view))),
    "delay stated": lambda view: _delay(view) is not None,
    "no interval": lambda view: bool(_ZERO.fullmatch(need(view.job.settings.get(INTERVAL)))),
    "idle timeout set": lambda view: not _ZERO.fullmatch(need(view.job.settings.get(IDLE_TIMEOUT))),
}
"""The facts that are one comparison."""
fact.of |= _COMPARISONS
