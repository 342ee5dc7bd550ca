"""The tape: every segment that a group reads runs through under the group's position, with the stream cuts on it.

Places count from the position that the group has published, so a cut left of the middle is passed in this segment. The
group has passed a watermark when its cut is passed in all open segments; the cuts of its present window are marked.

Source: PDP-33, Watermarking in the Reader; upstream classes `WatermarkReaderImpl` and `ReaderGroupState`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from wmlab.core.charts.axis import nice_step
from wmlab.streams.scrubber.board import Board
from wmlab.streams.scrubber.film import Item
from wmlab.streams.scrubber.tables import Row, Run

MOST_LANES: Final = 10
"""Segments drawn at a time."""

_CUTS, _LEAST = 6, 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stay:
    """A segment in the group's state: in which lane, from when to when (None: to the end), and its positions."""

    segment_id: int
    lane: int
    from_ms: int
    to_ms: int | None
    positions: list[tuple[int, int]] = field(default_factory=list)

    def position(self, at_ms: int) -> int:
        """The group's published offset at a moment of the stay."""
        place = bisect_right(self.positions, at_ms, key=lambda position: position[0])
        return self.positions[place - 1][1] if place else 0


def stays_of(run: Run) -> list[Stay]:
    """Where each segment has its lane: the first free one when it comes, until the group has finished it."""
    stays: dict[int, Stay] = {}
    done: list[Stay] = []
    for row in sorted(run.rows["positions"], key=lambda row: _order(run, row)):
        segment = row["segment_id"]
        if row["finished"]:
            if segment in stays:
                done.append(replace(stays.pop(segment), to_ms=row["at_ms"]))
            continue
        if segment not in stays:
            taken = {stay.lane for stay in stays.values()}
            lane = next(lane for lane in range(len(taken) + 1) if lane not in taken)
            stays[segment] = Stay(segment_id=segment, lane=lane, from_ms=row["at_ms"], to_ms=None)
        stays[segment].positions.append((row["at_ms"], row["offset"]))
    return [*done, *stays.values()]


def _order(run: Run, row: Row) -> tuple[Any, ...]:
    """What leaves in an update goes first, so that what comes can have its lane; what comes goes by its keys."""
    return row["at_ms"], row["version"], not row["finished"], run.keys(row["segment_id"])


def reach(run: Run, stays: Sequence[Stay]) -> tuple[int, int]:
    """How many bytes are shown before and after the position: a few cuts before it, and what is unread as a rule."""
    unread = sorted(
        run.length(stay.segment_id, at_ms) - before
        for stay in stays
        for (_, before), (at_ms, _) in pairwise(stay.positions)
    )
    gaps = sorted(
        later["cut"][segment] - earlier["cut"][segment]
        for earlier, later in pairwise(run.rows["watermarks"])
        for segment in later["cut"]
        if None not in (earlier["cut"].get(segment), later["cut"][segment])
    )
    usual = unread[len(unread) * 9 // 10] if unread else 0
    before = nice_step(max(_CUTS * gaps[len(gaps) // 2] if gaps else usual, _LEAST), 1)
    return before, nice_step(min(max(usual, before // 4), 2 * before), 1)


def tape_items(
    run: Run, stays: Sequence[Stay], moments: Sequence[int], words: Callable[[int], str]
) -> tuple[Item, ...]:
    """The items of the lanes; how far a segment was written is told at `moments` (ascending), times in `words`."""
    board = Board()
    windows = _windows(run)
    for stay in stays:
        if stay.lane >= MOST_LANES:
            continue
        board.put((stay, "name"), stay.from_ms, stay.lane, "name", label=run.name(stay.segment_id))
        _cuts(run, board, stay)
        _flags(board, stay, windows, words)
        _bars(run, board, stay, moments)
        if stay.to_ms is not None:
            for key in board.lying():
                if isinstance(key, tuple) and key[0] is stay:
                    board.take(key, stay.to_ms)
    return board.finish()


def _bars(run: Run, board: Board, stay: Stay, moments: Sequence[int]) -> None:
    """What the group has read of the segment, what not yet, and how much that is."""
    inside = moments[bisect_left(moments, stay.from_ms) : _end(moments, stay.to_ms)]
    for at_ms in sorted({*inside, *(at for at, _ in stay.positions)}):
        here, written = stay.position(at_ms), run.length(stay.segment_id, at_ms)
        board.put((stay, "origin"), at_ms, stay.lane, "origin", here)
        board.put((stay, "read"), at_ms, stay.lane, "read", 0, here)
        board.put((stay, "unread"), at_ms, stay.lane, "unread", here, max(written, here))
        board.put((stay, "value"), at_ms, stay.lane, "value", label=_amount(max(written - here, 0)))


def _end(moments: Sequence[int], to_ms: int | None) -> int:
    return len(moments) if to_ms is None else bisect_left(moments, to_ms)


def _cuts(run: Run, board: Board, stay: Stay) -> None:
    for mark in run.rows["watermarks"]:
        offset = mark["cut"].get(stay.segment_id)
        if offset is not None and (stay.to_ms is None or mark["emitted_ms"] < stay.to_ms):
            since_ms = max(mark["emitted_ms"], stay.from_ms)
            board.put((stay, "cut", mark["seq"]), since_ms, stay.lane, "cut", offset)


@dataclass(frozen=True, slots=True)
class Window:
    """What a reader of the group saw last: the newest watermark passed and the first one ahead, as rows."""

    at_ms: int
    passed: Row | None
    ahead: Row | None


def _windows(run: Run) -> list[Window]:
    """The watermarks behind each window that was seen, found by their bounds."""
    log = run.rows["watermarks"]
    by_lower = {mark["lower"]: mark for mark in log}
    by_upper: dict[int, list[Row]] = {}
    for mark in log:
        by_upper.setdefault(mark["upper"], []).append(mark)
    found = []
    for row in run.rows["windows"]:
        passed = by_lower.get(row["lower"])
        after = -1 if passed is None else passed["seq"]
        ahead = next((mark for mark in by_upper.get(row["upper"], ()) if mark["seq"] > after), None)
        found.append(Window(row["at_ms"], passed, ahead))
    return found


def _flags(board: Board, stay: Stay, windows: Sequence[Window], words: Callable[[int], str]) -> None:
    """The cuts of the group's window, as long as the window lasts."""
    for window, following in zip(windows, [*windows[1:], None], strict=True):
        over = following is not None and following.at_ms <= stay.from_ms
        if over or (stay.to_ms is not None and window.at_ms >= stay.to_ms):
            continue
        at_ms = max(window.at_ms, stay.from_ms)
        for style, mark, bound in (("passed", window.passed, "lower"), ("ahead", window.ahead, "upper")):
            offset = None if mark is None else mark["cut"].get(stay.segment_id)
            if mark is None or offset is None:
                board.take((stay, style), at_ms)
            else:
                board.put((stay, style), at_ms, stay.lane, style, offset, label=f"{bound} {words(mark[bound])}")


def _amount(size: int) -> str:
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name} unread"
    return f"{size} B unread"
