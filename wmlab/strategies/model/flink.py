"""Flink's watermarks: splits and channels that become idle, and how a task combines them.

Watermarks are Flink's own here, inclusive: W says that nothing with a time of at most W follows. A source emits them
at probes only, which come every `pipeline.auto-watermark-interval`.

What an operator does with a row of time t at W differs, and a strategy knows no operator: X = W + 1 is that of windows
without allowed lateness, which drop a row if its windows have their last instant at or before W. It is also that of
CEP, which drops t <= W. An interval join of DataStreams drops t < W only, so it keeps a row that is late here, at t =
W. A process function drops nothing by itself.

Source: `WatermarksWithIdleness`, `WatermarkOutputMultiplexer` and `StatusWatermarkValve` of Flink 2.3.0;
`WindowOperator.isWindowLate`, `CepOperator.processElement` and `IntervalJoinOperator.isLate`. A rule named
`flink_...` keeps the error of that version or issue; `fixed` has none of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from wmlab.strategies.model.strategy import (
    UNKNOWN,
    Input,
    NotNegativeMs,
    PositiveMs,
    Record,
    Strategy,
    earlier,
    now_of,
)

STATUS_IDLE: Final = "IDLE"
STATUS_ACTIVE: Final = "ACTIVE"
Downstream = list[int | str]
"""What goes downstream, in order: watermarks, `STATUS_IDLE` and `STATUS_ACTIVE`."""

MultiplexerRule = Literal["fixed", "flink_2_3_0", "flink_38454"]
"""`flink_2_3_0`: who resumes below the output stays idle downstream (FLINK-40504), and so does not one whose splits
are all removed become idle (FLINK-39586). `flink_38454`: before 2.2 the largest watermark is not flushed, either."""
FlinkRule = Literal["fixed", "flink_2_3_0", "flink_34252"]
"""`flink_2_3_0` is that of the valve and of the multiplexer. `flink_34252`: of the watermark assigners of
Flink SQL, which noted the time of a row only when it ended a silence. So a writer that sends all the time is idle after
each `idle_ms`, until its next row."""
ValveRule = Literal["fixed", "flush", "flink_2_3_0"]
"""`flink_2_3_0`: FLINK-40475, no minimum is taken when a channel resumes, and the flush is left out if the last channel
to fall idle is not at the output. `flush` mends the second half only."""


class Partial(NamedTuple):
    """One split or channel: its watermark; an aligned channel has caught up with the output."""

    watermark: int = UNKNOWN
    idle: bool = False
    aligned: bool = True


class Combined(NamedTuple):
    """The inputs of a task by name, the last watermark that it has emitted, and whether it has said that it is idle.

    A state belongs to one run: the steps below write to `inputs`.
    """

    inputs: dict[Hashable, Partial]
    out: int = UNKNOWN
    idle: bool = False


def initially_combined(inputs: Iterable[Hashable] = ()) -> Combined:
    """The state before anything arrived."""
    return Combined({name: Partial() for name in inputs})


def combine(state: Combined, rule: MultiplexerRule = "fixed") -> tuple[Combined, Downstream]:
    """The watermark of a source over its splits: the least of those that are not idle, the largest if all are."""
    splits = state.inputs.values()
    active = [split.watermark for split in splits if not split.idle]
    if splits:
        idle = not active
        best = min(active) if active else UNKNOWN if rule == "flink_38454" else max(s.watermark for s in splits)
    else:
        idle, best = (state.out > UNKNOWN if rule == "fixed" else state.idle), UNKNOWN
    rises = best > state.out
    emitted: Downstream = []
    said_idle = state.idle
    if said_idle and (rises or (rule == "fixed" and not idle)):
        emitted, said_idle = [STATUS_ACTIVE], False
    if rises:
        emitted.append(best)
    if idle and not said_idle:
        emitted.append(STATUS_IDLE)
    return Combined(state.inputs, max(best, state.out), said_idle or idle), emitted


def split_watermark(
    state: Combined, split: Hashable, watermark: int, rule: MultiplexerRule = "fixed", *, immediate: bool = False
) -> tuple[Combined, Downstream]:
    """A watermark of a split, which makes it active; a deferred one waits for the next `combine`."""
    before = state.inputs[split].watermark
    state.inputs[split] = Partial(max(before, watermark))
    if immediate and (before < watermark > state.out or (rule == "fixed" and state.idle)):
        return combine(state, rule)
    return state, []


def split_status(
    state: Combined, split: Hashable, idle: bool, rule: MultiplexerRule = "fixed", *, immediate: bool = False
) -> tuple[Combined, Downstream]:
    """A split is idle, or active again."""
    state.inputs[split] = Partial(state.inputs[split].watermark, idle)
    return combine(state, rule) if immediate else (state, [])


def channel_watermark(state: Combined, channel: Hashable, watermark: int) -> tuple[Combined, Downstream]:
    """A watermark arrives at the valve, which ignores those of idle channels and those that do not rise."""
    of = state.inputs[channel]
    if state.idle or of.idle or watermark <= of.watermark:
        return state, []
    state.inputs[channel] = Partial(watermark, False, of.aligned or watermark >= state.out)
    return _least(state)


def channel_status(
    state: Combined, channel: Hashable, idle: bool, rule: ValveRule = "fixed"
) -> tuple[Combined, Downstream]:
    """A channel of the valve falls idle or resumes.

    The output is the least watermark of the aligned channels. An idle one is not aligned; one that resumes is as soon
    as it is not below the output.
    """
    watermark, was_idle, _ = state.inputs[channel]
    if idle == was_idle:
        return state, []
    if not idle:
        state.inputs[channel] = Partial(watermark, False, watermark >= state.out)
        emitted: Downstream = [STATUS_ACTIVE] if state.idle else []
        state = Combined(state.inputs, state.out, False)
        if rule == "fixed":
            state, risen = _least(state)
            emitted += risen
        return state, emitted
    state.inputs[channel] = Partial(watermark, True, False)
    if not all(other.idle for other in state.inputs.values()):
        return _least(state) if watermark == state.out else (state, [])
    emitted = []
    if rule != "flink_2_3_0" or watermark == state.out:
        state, emitted = _rise(state, max(other.watermark for other in state.inputs.values()))
    return Combined(state.inputs, state.out, True), [*emitted, STATUS_IDLE]


def _least(state: Combined) -> tuple[Combined, Downstream]:
    return _rise(state, min((of.watermark for of in state.inputs.values() if of.aligned), default=UNKNOWN))


def _rise(state: Combined, watermark: int) -> tuple[Combined, Downstream]:
    return (Combined(state.inputs, watermark, state.idle), [watermark]) if watermark > state.out else (state, [])


@dataclass(slots=True)
class FlinkState:
    """What a job has seen: the largest time of each writer, who sent since the last probe, when quiet times began.

    `quiet` has the begin of the quiet time of each writer, in that order, `expired` those that the timeout has reached;
    `asked` are the declared writers until the first probe. `holder` is the split that was the least when all were last
    looked at. It is written in place: `met` and `step` both run the probes that are due.
    """

    combined: Combined
    maxima: dict[str, int] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    quiet: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    holder: Hashable = None
    probed: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether the split that was the least still keeps the output where it is, so that no other can move it."""
        holder = self.combined.inputs.get(self.holder)
        return (
            holder is not None and not holder.idle and holder.watermark <= self.combined.out and not self.combined.idle
        )


@dataclass(frozen=True, slots=True)
class Flink(Strategy[FlinkState]):
    """The minimum of the watermarks of the writers, each its largest time minus `bound`; idle ones are left out.

    `inputs`: the writers are the splits of one source, or tasks whose channels meet in a valve. Watermarks move at
    probes, every `interval_ms` of the wall clock; a writer without a record for more than `idle_ms` is idle from the
    probe that notices it (None: never). `writers` exist from the beginning, others from their first record. Native is
    the inclusive watermark, X - 1. Source: Flink 2.3.0; rules as in `combine` and `channel_status`. The idle timeout
    continues to count while a source is paused or blocked.
    """

    bound: NotNegativeMs
    idle_ms: PositiveMs | None = None
    interval_ms: PositiveMs = 200
    inputs: Literal["splits", "channels"] = "splits"
    writers: tuple[str, ...] = ()
    rule: FlinkRule = "fixed"
    """The version of the rule for idle channels, with or without the error of a report."""

    @property
    def _task_rule(self) -> Literal["fixed", "flink_2_3_0"]:
        """The rule of the multiplexer or the valve."""
        return "flink_2_3_0" if self.rule == "flink_2_3_0" else "fixed"

    def start(self) -> FlinkState:
        return FlinkState(initially_combined(self.writers), asked=set(self.writers))

    def met(self, state: FlinkState, x: int, record: Record) -> int:
        self._probe_until(state, record.arrival_ms)
        return earlier(state.combined.out, -1)

    def step(self, state: FlinkState, item: Input) -> tuple[FlinkState, int, int]:
        self._probe_until(state, now_of(item))
        if isinstance(item, Record):
            writer = item.writer
            state.maxima[writer] = max(state.maxima.get(writer, UNKNOWN), item.event_time)
            state.fresh.add(writer)
            if writer not in state.combined.inputs:
                # A channel that joins an idle task has not said yet that it is active, as its first watermark will.
                idle = self.inputs == "channels" and state.combined.idle
                state.combined.inputs[writer] = Partial(idle=idle, aligned=state.combined.out == UNKNOWN)
        return state, earlier(state.combined.out, -1), state.combined.out

    def _probe_until(self, state: FlinkState, now: int) -> None:
        """Runs all probes that are due at `now`, only those in which something can change."""
        last = now // self.interval_ms
        if state.probed is None:
            state.probed = last
        if last <= state.probed:
            return
        first = state.probed + 1
        due = {first: [(writer, False) for writer in state.fresh]} if state.fresh else {}
        if self.idle_ms is not None:
            for writer, number in self._idle_at(state, first, last):
                due.setdefault(number, []).append((writer, True))
        state.fresh.clear()
        state.asked.clear()
        state.probed = last
        for number in sorted(due):
            for writer, idle in sorted(due[number]):
                self._emit(state, writer, idle)
            if self.inputs == "splits" and not state.is_held:
                state.combined, _ = combine(state.combined, self._task_rule)
                active = ((split.watermark, name) for name, split in state.combined.inputs.items() if not split.idle)
                state.holder = min(active, default=(UNKNOWN, None))[1]

    def _idle_at(self, state: FlinkState, first: int, last: int) -> Iterable[tuple[str, int]]:
        """The writers that fall idle at a probe from `first` to `last`, and its number; notes quiet times."""
        every, timeout = self.interval_ms, self.idle_ms or 0
        inputs, quiet, expired = state.combined.inputs, state.quiet, state.expired
        for writer in state.asked - state.fresh - quiet.keys() - expired.keys():
            quiet[writer] = first * every
        for writer in state.fresh:
            is_noted = writer in quiet or writer in expired
            if not is_noted or inputs[writer].idle or self.rule != "flink_34252":
                quiet.pop(writer, None)
                expired.pop(writer, None)
                quiet[writer] = (first + 1) * every
        looked_at = {*state.fresh, *state.asked}
        # Quiet times stand in the order in which they began: the first one is the first that the timeout reaches.
        while quiet and (quiet[writer := next(iter(quiet))] + timeout) // every < last:
            expired[writer] = quiet.pop(writer)
            looked_at.add(writer)
        for writer in looked_at:
            if writer in expired and (writer in state.fresh or not inputs[writer].idle):
                yield writer, max((expired[writer] + timeout) // every + 1, first)

    def _emit(self, state: FlinkState, writer: str, idle: bool) -> None:
        """What the generator of a writer says at a probe, and what its task makes of it."""
        task, rule = state.combined, self._task_rule
        watermark = earlier(state.maxima.get(writer, UNKNOWN), self.bound + 1)
        if self.inputs == "splits":
            change = split_status(task, writer, True) if idle else split_watermark(task, writer, watermark)
        elif idle:
            change = channel_status(task, writer, True, rule)
        else:
            before = task.inputs[writer]
            if before.idle and (rule == "fixed" or watermark > before.watermark):
                task, _ = channel_status(task, writer, False, rule)
            change = channel_watermark(task, writer, watermark)
        state.combined = change[0]
