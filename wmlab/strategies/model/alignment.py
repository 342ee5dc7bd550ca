"""Flink's alignment: the sources of a group read only as far as the slowest one and a drift beyond it.

Watermarks are Flink's own here, inclusive. Source: `SourceCoordinator` and `SourceOperator` of Flink 2.3.0. A rule
named `flink_...` keeps the error of that issue; `fixed` has none of them. 2.3.0 has mended all but FLINK-40093.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from wmlab.strategies.model.strategy import (
    END,
    UNKNOWN,
    EndOfInput,
    Input,
    NotNegative,
    NotNegativeMs,
    PositiveMs,
    Record,
    SourceEnd,
    Tick,
    earlier,
    require_parameters,
)

AlignmentRule = Literal[
    "fixed",
    "flink_32414",
    "flink_32496",
    "flink_35157",
    "flink_35886",
    "flink_36751",
    "flink_37670",
    "flink_40093",
    "flink_40505",
]
"""Known errors. In all but two, sources wait for ever at a limit that is behind.

- `flink_32414`: a source without splits reports that it knows no watermark.
- `flink_32496`: an idle source still reports its last watermark.
- `flink_35157`: a source that has read all of its input still counts with its last report.
- `flink_35886`: the clock of idleness runs while a source waits. It falls idle, the watermark passes its records, and
  they are late. `flink_36751`: so it does for a source with a single split only.
- `flink_37670`: a source hears of no limit after all its splits have been assigned.
- `flink_40093`: a split that is found idle when it has to wait is not resumed.
- `flink_40505`: a source that has failed still counts with its last report.
"""


def report(watermark: int, *, idle: bool = False, rule: AlignmentRule = "fixed") -> int:
    """What a source reports to its group: its watermark, and `END` while it holds nobody, idle or without a watermark.

    Flink sends no report without a watermark, which is the same to the group.

    >>> report(7, idle=True) == END, report(7, idle=True, rule="flink_32496")
    (True, 7)
    """
    unknown = watermark == UNKNOWN and rule != "flink_32414"
    return END if unknown or (idle and rule != "flink_32496") else watermark


def limit(reports: Mapping[Hashable, int], drift: int) -> int:
    """How far the sources of a group may read: the least of their latest reports plus `drift`. It may fall."""
    return earlier(min(reports.values(), default=UNKNOWN), -drift)


def counts_after_end(failed: bool, rule: AlignmentRule = "fixed") -> bool:
    """Whether the last report of a source counts after its end, or after its failure.

    >>> [counts_after_end(failed, "flink_40505") for failed in (False, True)]
    [False, True]
    """
    return rule == ("flink_40505" if failed else "flink_35157")


def known_limit(before: int, announced: int, *, assigned: bool = False, rule: AlignmentRule = "fixed") -> int:
    """The limit that a source knows after an announcement; `assigned`: no more splits will be assigned to it."""
    return before if assigned and rule == "flink_37670" else announced


def paused(
    watermark: int, limit: int, *, idle: bool = False, before: bool = False, rule: AlignmentRule = "fixed"
) -> bool:
    """Whether a source or a split waits: its watermark is above the limit.

    An idle split does not begin to wait; one that waited `before` is resumed like any other. A source waits even if it
    is idle, so the last two are not asked of it.
    """
    return (before or not idle) and (watermark > limit or (idle and rule == "flink_40093"))


def clock_runs(waits: bool, splits: int = 1, rule: AlignmentRule = "fixed") -> bool:
    """Whether the time counts towards the idle timeout; `splits` is how many the source has."""
    return not waits or rule == "flink_35886" or (rule == "flink_36751" and splits == 1)


@dataclass(slots=True)
class AlignedSource:
    """One split, or a source with one: what it has read, when it read last, and what is still to be read.

    `samples` are its watermarks at the last announcements, oldest first. `paused_since` is when the split was paused,
    and `active_ms` is moved on by the time for which the clock of idleness stood still. `ended` is set once the source
    sends nothing more; what waits is still read, unless it has `failed`.
    """

    samples: tuple[int, ...] = ()
    watermark: int = UNKNOWN
    limit: int = END
    idle: bool = False
    active_ms: int = 0
    paused_since: int | None = None
    ended: bool = False
    failed: bool = False
    queue: deque[Record] = field(default_factory=deque)

    @property
    def compared(self) -> int:
        """What is compared with the limit: the oldest sample, or the watermark where none are kept."""
        return self.samples[0] if self.samples else self.watermark

    @property
    def is_done(self) -> bool:
        """Whether it reads nothing more: it has failed, or has ended and read all that it had."""
        return self.failed or (self.ended and not self.queue)

    @property
    def waits(self) -> bool:
        """Whether nothing may be read, by the limit of the source or that of its split."""
        return self.paused_since is not None or paused(self.compared, self.limit)


def advance_split(split: AlignedSource, watermark: int, now: int) -> None:
    """A split has read a record, whose watermark this is."""
    split.watermark = max(split.watermark, watermark)
    split.active_ms, split.idle = now, False
    check_split(split, now)


def sample_split(split: AlignedSource) -> None:
    """Keeps the watermark as the last sample, and drops the oldest one."""
    split.samples = (*split.samples, split.watermark)[1:]


def check_split(split: AlignedSource, now: int, rule: AlignmentRule = "fixed") -> None:
    """Pauses or resumes a split; its clock of idleness stands still in between."""
    since = split.paused_since
    waits = paused(split.compared, split.limit, idle=split.idle, before=since is not None, rule=rule)
    if since is not None and not waits and not clock_runs(True, rule=rule):
        split.active_ms += now - since
    split.paused_since = (now if since is None else since) if waits else None


def find_idle(split: AlignedSource, now: int, idle_ms: int | None, rule: AlignmentRule = "fixed") -> None:
    """Finds a split idle if, by its clock, it has read nothing for more than `idle_ms` (None: never)."""
    stopped = None if clock_runs(True, rule=rule) else split.paused_since
    quiet_ms = (now if stopped is None else stopped) - split.active_ms
    split.idle = split.idle or (idle_ms is not None and quiet_ms > idle_ms)


@dataclass(slots=True)
class AlignmentState:
    """The sources by name, the last limit, the watermark over all as X, and when the next announcement is due."""

    sources: dict[str, AlignedSource]
    limit: int = END
    x: int = UNKNOWN
    due: int | None = None
    ended: bool = False


Reads = list[tuple[Record, int]]
"""The records that were read, each with the time at which it was as its arrival, and the X that it met."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """A group of sources, which are the writers, each with one split; a record waits until its source may read it.

    Every `update_ms` of the wall clock, the sources report and receive the limit: the smallest watermark plus `drift`;
    the watermark of a source is its largest time minus `bound`. A source that has read nothing for more than `idle_ms`
    is left out (None: never). `writers` exist from the beginning, without splits until their first record. A source
    that has ended (`SourceEnd`), and each source at the end of the input, is done once it has read everything: the
    group does not wait for it, and it does not hold the watermark. The group does not wait for a failed source, either;
    its unread records are lost until it sends again, and it holds the watermark. `flink_37670` needs splits that are
    assigned later and has no effect here.

    `buffer`: a source compares its watermark of so many announcements ago with the limit. 0 is the latest, as before
    Flink 2.3, whose `pipeline.watermark-alignment.buffer-size` is 3 by default (FLINK-37399). Records that have waited
    are read at once, not at the speed of a source, so with a buffer a source runs further ahead here than in Flink.
    """

    drift: NotNegativeMs
    update_ms: PositiveMs = 1_000
    bound: NotNegativeMs = 0
    idle_ms: PositiveMs | None = None
    buffer: NotNegative = 0
    writers: tuple[str, ...] = ()
    rule: AlignmentRule = "fixed"
    """The version of the rule, with or without the error of a report."""

    def __post_init__(self) -> None:
        require_parameters(self)

    def start(self) -> AlignmentState:
        """The state before the first input."""
        return AlignmentState({})

    def step(self, state: AlignmentState, item: Input | SourceEnd | EndOfInput) -> tuple[AlignmentState, Reads]:
        """The next state, and what was read up to and with an input; a state belongs to one run."""
        read: Reads = []
        if isinstance(item, Record):
            self._announce_until(state, item.arrival_ms, read)
            source = state.sources.setdefault(item.writer, AlignedSource((UNKNOWN,) * self.buffer))
            source.queue.append(item)
            source.ended = source.failed = False
            self._read(state, source, item.arrival_ms, read)
            _advance(state)
        elif isinstance(item, Tick):
            self._announce_until(state, item.now_ms, read)
        elif isinstance(item, SourceEnd):
            self._announce_until(state, item.now_ms, read)
            source = state.sources.setdefault(item.writer, AlignedSource((UNKNOWN,) * self.buffer))
            source.ended, source.failed = True, item.failed
            if item.failed:
                source.queue.clear()
            _advance(state)
        elif isinstance(item, EndOfInput):
            state.ended = True
            self._announce_until(state, END, read)
        return state, read

    def _read(self, state: AlignmentState, source: AlignedSource, now: int, read: Reads) -> None:
        while source.queue and not source.waits:
            record = source.queue.popleft()
            read.append((record._replace(arrival_ms=now), state.x))
            advance_split(source, earlier(record.event_time, self.bound + 1), now)

    def _announce_until(self, state: AlignmentState, now: int, read: Reads) -> None:
        """Makes the announcements that are due at `now`, only those in which something can change."""
        every = self.update_ms
        if state.due is None:
            state.due = (now // every + 1) * every
        while state.due <= now:
            before, count = _moving(state), len(read)
            self._announce(state, state.due, read)
            state.due += every
            if _moving(state) == before and len(read) == count:
                state.due = max(state.due, (min([now, *self._deadlines(state)]) // every + 1) * every)

    def _deadlines(self, state: AlignmentState) -> list[int]:
        """When sources fall idle, if they read nothing until then."""
        if self.idle_ms is None:
            return []
        running = [s for s in state.sources.values() if clock_runs(s.paused_since is not None, rule=self.rule)]
        return [source.active_ms + self.idle_ms for source in running if not source.idle]

    def _announce(self, state: AlignmentState, now: int, read: Reads) -> None:
        """One announcement: samples and reports, the limit, who waits or resumes, who is idle."""
        reports: dict[Hashable, int] = {name: report(UNKNOWN, rule=self.rule) for name in self.writers}
        for name, source in state.sources.items():
            sample_split(source)
            all_read = state.ended and not source.queue
            is_out = source.is_done and not counts_after_end(source.failed, self.rule)
            reports[name] = END if all_read or is_out else report(source.watermark, idle=source.idle, rule=self.rule)
        state.limit = limit(reports, self.drift)
        for source in state.sources.values():
            source.limit = known_limit(source.limit, state.limit, rule=self.rule)
            check_split(source, now, self.rule)
            self._read(state, source, now, read)
        for source in state.sources.values():
            find_idle(source, now, self.idle_ms, self.rule)
        _advance(state)


def _moving(state: AlignmentState) -> tuple[int, list[tuple[tuple[int, ...], bool]]]:
    """What an announcement may change without a record being read."""
    return state.limit, [(source.samples, source.idle) for source in state.sources.values()]


def _advance(state: AlignmentState) -> None:
    """X, which has the least watermark of the sources that are not idle and have not read all of their input."""
    sources = state.sources.values()
    active = [source.watermark for source in sources if not source.idle and (source.failed or not source.is_done)]
    state.x = max(state.x, earlier(min(active, default=UNKNOWN), -1))
