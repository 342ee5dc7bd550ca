"""Time windows: what a reader knows about event time from the position of its group.

A watermark is passed when every open segment of the group is at or beyond its cut. The lower bound is that of the last
watermark passed. The upper bound is that of the first one that is ahead everywhere it can be compared. While the log
has none, it is that of the last one that is neither passed nor ahead: upstream takes the last watermark in flight.
Either is None while no such watermark is known, or where it is an end of known time. From such an end to the next
watermark both are None (PDP-33, Config Changes: readers "will receive a null"), whatever is ahead; and while one lies
between the last watermark passed and the one ahead, the upper bound is. The tracker works in the background, one
position at a time: of those that arrive meanwhile only the newest is kept.

Source: PDP-33, Event Reader API Changes, and PDP-33, Client Changes; upstream classes `WatermarkReaderImpl`,
`TimeWindow` and `LatestItemSequentialProcessor`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from wmlab.streams.model.log import MarksLog, Watermark
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import Segment

WorkItem = TypeVar("WorkItem")


# Without slots: on Python 3.11 a frozen generic dataclass with slots cannot be made as LatestItem[str]().
@dataclass(frozen=True)
class LatestItem(Generic[WorkItem]):
    """What is being worked on, if anything, and what comes next."""

    working_on: tuple[WorkItem, ...] = ()
    waiting: tuple[WorkItem, ...] = ()

    def offer(self, item: WorkItem) -> LatestItem[WorkItem]:
        """A new item: worked on at once, or kept in place of the one that was waiting."""
        return replace(self, waiting=(item,)) if self.working_on else LatestItem((item,))

    def done(self) -> LatestItem[WorkItem]:
        """The present item is done; the waiting one, if any, is worked on next."""
        return LatestItem(self.waiting)


def compare_with_cut(position: Position, cut: Position, segments: Mapping[int, Segment]) -> int:
    """1 when the group is at or past the cut, -1 when it is before, 0 when it is past in places and before in others.

    Each segment of the position is compared with the same segment of the cut, or else with all segments of the cut
    over some of its keys: by id, and by offset in the same segment, where the end is beyond every offset. A segment
    whose key range is unknown (not in `segments`) is taken to overlap everything. None in a cut is the end of the
    segment, and in the position its start. Nothing to compare gives 1.
    """
    ahead = behind = False
    ends = cut.offsets
    for segment, offset in position.offsets.items():
        if segment in ends:
            cut_at, reached = ends[segment], offset or 0
            end = _END if cut_at is None else cut_at
            if reached > end:
                ahead = True
            elif reached < end:
                behind = True
        else:
            others = [other for other in ends if _may_overlap(segments.get(segment), segments.get(other))]
            ahead = ahead or any(segment > other for other in others)
            behind = behind or any(segment < other for other in others)
        if ahead and behind:
            return 0
    return -1 if behind else 1


_END: Final = 2**63 - 1
"""The end of a segment: beyond every offset."""


def _may_overlap(segment: Segment | None, other: Segment | None) -> bool:
    """Whether two segments share keys; None is one of which nothing is known."""
    return segment is None or other is None or segment.keys.overlaps(other.keys)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Bounds of event time at a position; None: unknown. `upper` bounds noted times, not events.

    `lower_seq` and `upper_seq` are the indices in the log (from 0) of the watermarks that gave the bounds, where that
    is known, and `passed_seq` is that of the last one passed, which may be an end of known time. They say where the
    bounds come from and are not part of the value: windows with the same bounds are equal.
    """

    lower: int | None
    upper: int | None
    lower_seq: int | None = field(default=None, compare=False, repr=False)
    upper_seq: int | None = field(default=None, compare=False, repr=False)
    passed_seq: int | None = field(default=None, compare=False, repr=False)

    def followed_by(self, window: TimeWindow) -> TimeWindow:
        """The window after a comparison gave `window`: it does not move back in the log of watermarks.

        A reader that takes over a segment at an earlier offset compares from the beginning, and passes the same
        watermarks again. Until then it keeps its window.
        """
        if _order(window.passed_seq) < _order(self.passed_seq):
            return self
        if None in (self.upper, window.upper) or _order(window.upper_seq) >= _order(self.upper_seq):
            return window
        return replace(window, upper=self.upper, upper_seq=self.upper_seq)


def _order(seq: int | None) -> int:
    return -1 if seq is None else seq


UNKNOWN: Final = TimeWindow(None, None)
"""The window of a reader that knows nothing."""


def joint(windows: Collection[TimeWindow]) -> TimeWindow:
    """The window of all together: the least lower bound and the largest upper one, None where one is unknown."""
    lowers = [(window.lower, window.lower_seq) for window in windows if window.lower is not None]
    uppers = [(window.upper, window.upper_seq) for window in windows if window.upper is not None]
    unknown: tuple[None, None] = (None, None)
    lower, lower_seq = min(lowers, key=itemgetter(0)) if lowers and len(lowers) == len(windows) else unknown
    upper, upper_seq = max(uppers, key=itemgetter(0)) if uppers and len(uppers) == len(windows) else unknown
    passed = [window.passed_seq for window in windows if window.passed_seq is not None]
    passed_seq = min(passed) if passed and len(passed) == len(windows) else None
    return TimeWindow(lower, upper, lower_seq, upper_seq, passed_seq)


@dataclass(frozen=True, slots=True)
class Tracker:
    """How far a reader is in the log of watermarks: the last one passed, those in flight, and the read revision.

    It never moves back, even if positions do. `cursor` is None before the first read, which begins at the oldest
    watermark; `fetched` is the index in the log (from 0) of the next watermark to read, `lower_seq` that of the last
    one passed if it is not an end of known time, `passed_seq` that of the last one passed. `ended`: that is an end.
    """

    passed: int | None = None
    lower_seq: int | None = None
    passed_seq: int | None = None
    pending: tuple[tuple[int, Watermark], ...] = ()
    cursor: int | None = None
    fetched: int = 0
    ended: bool = False

    @classmethod
    def resume(cls, log: MarksLog[Watermark], revision: int) -> Tracker:
        """A tracker that will begin with the entry after a revision, as at a checkpoint."""
        following = log.truncated + bisect_right(log.entries, revision, key=lambda entry: entry[0])
        return cls(cursor=revision, fetched=following)

    def advance(
        self,
        position: Position,
        log: MarksLog[Watermark] | Iterable[tuple[int, Watermark]],
        segments: Mapping[int, Segment],
    ) -> Tracker:
        """The tracker after the group has reached `position`.

        `log` is the marks log, or the (revision, watermark) pairs after the cursor. Raises `TruncatedError` when the
        log was truncated past the cursor.
        """
        tracker = self
        while tracker.pending and compare_with_cut(position, tracker.pending[0][1].cut, segments) == 1:
            first, *rest = tracker.pending
            tracker = replace(tracker._passing(*first), pending=tuple(rest))
        if isinstance(log, MarksLog):
            if self.cursor is None:
                tracker = replace(tracker, fetched=log.truncated)
            log = log.read_after(log.oldest if self.cursor is None else self.cursor)
        for revision, watermark in log:
            if tracker.pending and compare_with_cut(position, tracker.pending[-1][1].cut, segments) < 0:
                break
            seq = tracker.fetched
            tracker = replace(tracker, cursor=revision, fetched=seq + 1)
            if compare_with_cut(position, watermark.cut, segments) == 1:
                tracker = tracker._passing(seq, watermark)
            else:
                tracker = replace(tracker, pending=(*tracker.pending, (seq, watermark)))
        return tracker

    def skip_truncated(self, log: MarksLog[Watermark]) -> Tracker:
        """The tracker that goes on at the oldest watermark left, if the log was truncated past its cursor."""
        if self.cursor is None or self.cursor >= log.oldest:
            return self
        return replace(self, cursor=log.oldest, fetched=log.truncated)

    @property
    def window(self) -> TimeWindow:
        """Lower bound of the last watermark passed, upper bound of the last one in flight.

        The upper bound is None if an end is in flight, and both are while the last one passed is an end.
        """
        upper = None if self.upper_seq is None else self.pending[-1][1].upper
        return TimeWindow(self.passed, upper, self.lower_seq, self.upper_seq, self.passed_seq)

    @property
    def upper_seq(self) -> int | None:
        """The index in the log of the watermark that gives the upper bound."""
        if self.ended or not self.pending:
            return None
        (last, ahead), after = self.pending[-1], -1 if self.lower_seq is None else self.lower_seq
        ends = any(not watermark.known for seq, watermark in self.pending if seq > after)
        return last if ahead.known and not ends else None

    def _passing(self, seq: int, watermark: Watermark) -> Tracker:
        if not watermark.known:
            return replace(self, passed=None, lower_seq=None, passed_seq=seq, ended=True)
        return replace(self, passed=watermark.lower, lower_seq=seq, passed_seq=seq, ended=False)


Cause = Literal["position", "watermark"]


class VisibleLog(Protocol):
    """Watermarks by index, each with the clock time in ms from which on it is known, ascending; a list will do."""

    def __len__(self) -> int: ...

    def __getitem__(self, seq: int, /) -> tuple[int, Watermark]: ...


class Move(NamedTuple):
    """A version of a group: from `at_ms` (clock) on it has read up to `position`; `is_reset`: with a new tracker."""

    version: int
    at_ms: int
    position: Position
    is_reset: bool = False


def position_moves(rows: Iterable[Mapping[str, Any]], *, since: Followed | None = None) -> Iterator[Move]:
    """The versions of a group, from rows of the table `positions` in any order; it goes on `since` then.

    The rows of one version are one move, which is a reset if all of them have `reset`. A segment leaves the position
    in a row with `finished`.
    """
    position = Position() if since is None else since.move.position
    ordered = sorted(rows, key=itemgetter("version"))
    for version, of_version in groupby(ordered, key=itemgetter("version")):
        together = list(of_version)
        position = position.moved(
            {row["segment_id"]: None if row["finished"] else row["offset"] or 0 for row in together}
        )
        is_reset = all(row["reset"] for row in together)
        yield Move(version, max(row["at_ms"] for row in together), position, is_reset)


class Followed(NamedTuple):
    """A group that stands at `move`, and what it knows from `at_ms` (clock) on, when `visible` watermarks are visible.

    `cause` is what happened then; `is_change` says whether the row differs from the one before: a watermark that
    becomes visible need not change what the group knows.
    """

    at_ms: int
    cause: Cause
    is_change: bool
    move: Move
    tracker: Tracker
    visible: int


def follow_group(
    moves: Iterable[Move],
    log: VisibleLog,
    segments: Mapping[int, Segment],
    *,
    since: Followed | None = None,
) -> Iterator[Followed]:
    """What a group knows after each of its moves, and at each time at which watermarks become visible to it.

    Who sees a new position knows of the watermarks that become visible in its millisecond.
    `moves` are in the order of their versions, and `log` has all watermarks from the beginning. A group of which all is
    known up to some time goes on `since` then: `moves` are later, and so is what in `log` was not visible.
    """
    visible, group = (0, None) if since is None else (since.visible, since)

    def read(at_ms: int, cause: Cause, move: Move, tracker: Tracker) -> Followed:
        """The group after its tracker has read what is visible."""
        unread = (log[seq] for seq in range(tracker.fetched, visible))
        after = tracker.advance(move.position, unread, segments)
        is_change = cause == "position" or (after.lower_seq, after.upper_seq) != (tracker.lower_seq, tracker.upper_seq)
        return Followed(at_ms, cause, is_change, move, after, visible)

    for move in (*moves, None):
        end_ms = _NEVER if move is None else move.at_ms
        while visible < len(log) and (at_ms := log[visible][0]) < end_ms:
            visible = _visible_at(at_ms, log, visible)
            if group is not None:
                group = read(at_ms, "watermark", group.move, group.tracker)
                yield group
        if move is not None:
            visible = _visible_at(move.at_ms, log, visible)
            group = read(move.at_ms, "position", move, Tracker() if group is None or move.is_reset else group.tracker)
            yield group


_NEVER: Final = float("inf")


def _visible_at(at_ms: int, log: VisibleLog, visible: int) -> int:
    """How many watermarks are visible at a time, of which at least `visible` are."""
    while visible < len(log) and log[visible][0] <= at_ms:
        visible += 1
    return visible
