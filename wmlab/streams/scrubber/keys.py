"""The key space of a moment: the segments that writers append to, that the newest stream cut runs through, and that the
group reads, each as blocks over the keys. A scale passes through the three rows one after the other.

Source: PDP-33, Stream Cuts and Watermarking in the Reader; upstream class `ReaderGroupState`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from wmlab.streams.scrubber.board import Board
from wmlab.streams.scrubber.film import Item
from wmlab.streams.scrubber.tables import Row, Run

KEYS: Final = 1_000_000
"""The key space in the axis' unit."""

_WRITERS, _CUT, _READERS = range(3)


def key_items(run: Run, low_ms: int) -> tuple[Item, ...]:
    """The items of three lanes: append, newest cut, and read; the last stays empty if nobody read."""
    board = Board()
    for lane, name in ((_WRITERS, "append to"), (_CUT, "newest cut"), (_READERS, "read")):
        if lane != _READERS or run.group is not None:
            board.put(name, low_ms, lane, "name", label=name)
    for epoch in run.rows["epochs"]:
        _lay(run, board, epoch["at_ms"], _WRITERS, epoch["segment_ids"])
    for mark in run.rows["watermarks"]:
        _lay(run, board, mark["emitted_ms"], _CUT, mark["cut"])
    for row in run.rows["positions"]:
        _read(run, board, row)
    return board.finish()


def _lay(run: Run, board: Board, at_ms: int, lane: int, segments: Iterable[int]) -> None:
    """From `at_ms` on these segments lie in the lane, and no others."""
    wanted: dict[Hashable, int] = {(lane, segment): segment for segment in segments}
    for key in board.lying():
        if isinstance(key, tuple) and key[0] == lane and key not in wanted:
            board.take(key, at_ms)
    for key, segment in wanted.items():
        board.put(key, at_ms, lane, "segment", *run.keys(segment), run.name(segment))


def _read(run: Run, board: Board, row: Row) -> None:
    segment, key = row["segment_id"], (_READERS, row["segment_id"])
    if row["finished"]:
        board.take(key, row["at_ms"])
        return
    reader = row["reader"]
    style, who = ("unowned", "nobody") if reader is None else ("segment", str(reader))
    board.put(key, row["at_ms"], _READERS, style, *run.keys(segment), f"{run.name(segment)} {who}")
