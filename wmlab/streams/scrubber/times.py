"""Event time at a moment: what each writer has noted, the newest watermark, and the window that each reader sees.

A lane for each writer with its accepted marks, the newest as a diamond, and the refused ones as crosses; below them the
stream's newest watermark and the readers' windows on the same axis. The watermark's bounds run up through the writers'
lanes, where its lower bound meets the slowest writer it counted.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; upstream classes `PeriodicWatermarking` and
`WatermarkReaderImpl`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from wmlab.core.charts.steps import Value
from wmlab.streams.scrubber.board import Board
from wmlab.streams.scrubber.film import Item
from wmlab.streams.scrubber.tables import Row, Run

MOST_WRITERS: Final = 16
"""Writers drawn, the first by name."""

_FAR, _LETTERS = 15, 21
_OPEN_MS: Final = 10**14
_STATES: Final = {"crash": "down", "silence": "silent", "restart": "", "speak": ""}

Words = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Truth:
    """The smallest event time still to come for the group, from each moment on; None is unknown, or nothing to come."""

    at_ms: Sequence[int]
    values: Sequence[Value]

    def at(self, at_ms: int) -> Value:
        """The value at a moment."""
        place = bisect_right(self.at_ms, at_ms) - 1
        return self.values[place] if place >= 0 else None


def lane_names(run: Run) -> list[str]:
    """Writers, "newest watermark", readers: one lane each."""
    return [*run.writers[:MOST_WRITERS], "watermark", *(f"{reader} sees" for reader in readers_of(run))]


def shortened(name: str) -> str:
    """A name as it stands beside its lane: in full, or as much of it as has room."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def readers_of(run: Run) -> list[str]:
    """Everybody who saw a window, by name."""
    return sorted({row["reader"] for row in run.rows["windows"]})


def known_times(run: Run, truth: Truth | None) -> list[int]:
    """Every time that is drawn."""
    times = [row["time"] for row in run.rows["writer_marks"]]
    for row in (*run.rows["watermarks"], *run.rows["windows"]):
        times += [row["lower"], row["upper"]]
    return [time for time in (*times, *(truth.values if truth else ())) if time is not None]


def around_clock(run: Run, truth: Truth | None) -> tuple[int, int]:
    """How far event times lie before and after the clock while they are shown, as a range in ms with room around it.

    A time that stands still far longer than usual may leave the range; it is written beside its lane in any case.
    """
    lags: list[int] = []
    ahead = [0]
    for series in _series(run, truth):
        for (at_ms, times), (following_ms, _) in pairwise([*series, (series[-1][0], [])]):
            lags += [following_ms - time for time in times if time is not None]
            ahead += [time - at_ms for time in times if time is not None]
    if not lags:
        return -1_000, 1_000
    lags.sort()
    behind = max(min(lags[-1], _FAR * max(lags[len(lags) // 2], 1)), 1)
    return -behind - behind // 20, max(ahead) + max(behind, *ahead) // 20


def _series(run: Run, truth: Truth | None) -> Iterator[list[tuple[int, list[Value]]]]:
    """Who shows which times from when on: the watermarks, each reader, each writer, the truth."""
    shown: dict[tuple[str, str], list[tuple[int, list[Value]]]] = {}
    for row in run.rows["watermarks"]:
        shown.setdefault(("watermark", ""), []).append((row["emitted_ms"], [row["lower"], row["upper"]]))
    for row in run.rows["windows"]:
        shown.setdefault(("reader", row["reader"]), []).append((row["at_ms"], [row["lower"], row["upper"]]))
    for row in run.rows["writer_marks"]:
        shown.setdefault(("writer", row["writer"]), []).append((row["received_ms"], [row["time"]]))
    if truth is not None and truth.at_ms:
        shown["truth", ""] = [(at_ms, [value]) for at_ms, value in zip(truth.at_ms, truth.values, strict=True)]
    yield from shown.values()


def time_items(run: Run, low_ms: int, truth: Truth | None, words: Words) -> tuple[Item, ...]:
    """The items of the lanes of `lane_names`, times in `words`."""
    board = Board()
    lanes = {name: lane for lane, name in enumerate(lane_names(run))}
    for name, lane in lanes.items():
        board.put((name, "name"), low_ms, lane, "name", label=shortened(name))
    _marks(run, board, lanes)
    for name in run.writers[:MOST_WRITERS]:
        _writer_values(run, board, name, lanes[name], low_ms, words)
    _watermarks(run, board, lanes["watermark"], low_ms, words)
    for reader in readers_of(run):
        _window(run, board, reader, lanes[f"{reader} sees"], low_ms, words)
        if truth is not None:
            _truth(board, reader, lanes[f"{reader} sees"], truth)
    return board.finish()


def _marks(run: Run, board: Board, lanes: Mapping[str, int]) -> None:
    for number, row in enumerate(run.rows["writer_marks"]):
        lane = lanes.get(row["writer"]) if row["writer"] in run.writers[:MOST_WRITERS] else None
        if lane is None:
            continue
        accepted = row["outcome"] == "success"
        board.put((lane, number), row["received_ms"], lane, "mark" if accepted else "refused", row["time"])
        if accepted:
            board.put((lane, "newest"), row["received_ms"], lane, "newest mark", row["time"])


def _writer_values(run: Run, board: Board, writer: str, lane: int, low_ms: int, words: Words) -> None:
    """What is to be said of a writer: its newest time, what befell it, and whether a cycle waits for it."""
    time, state, awaited = "no mark", "", ""
    board.put((lane, "value"), low_ms, lane, "value", label=time)
    for at_ms, kind, told in sorted(_writer_changes(run, writer, words), key=lambda change: change[0]):
        time = told if kind == "time" else time
        state = told if kind == "state" else state
        awaited = told if kind == "awaited" else awaited
        style = "alarm" if state or awaited else "value"
        said = ", ".join(part for part in (time, state, awaited) if part)
        board.put((lane, "value"), at_ms, lane, style, label=said)


def _writer_changes(run: Run, writer: str, words: Words) -> Iterator[tuple[int, str, str]]:
    for row in run.rows["writer_marks"]:
        if row["writer"] == writer and row["outcome"] == "success":
            yield row["received_ms"], "time", words(row["time"])
    for row in run.rows["cycles"]:
        told = "awaited" if writer in row["lagging"] else "dropped" if writer in row["removed"] else ""
        yield row["at_ms"], "awaited", told
    for row in run.rows["incidents"]:
        if row["target"] == writer:
            yield row["at_ms"], "state", _STATES.get(row["kind"], "")


def _watermarks(run: Run, board: Board, lane: int, low_ms: int, words: Words) -> None:
    board.put((lane, "value"), low_ms, lane, "value", label="none yet")
    for row in run.rows["watermarks"]:
        _interval(board, row["emitted_ms"], lane, row, words)
        for bound, flag in (("lower", "passed"), ("upper", "ahead")):
            board.put((lane, bound, "line"), row["emitted_ms"], None, f"{bound} line", row[bound])
            board.put((lane, bound, "flag"), row["emitted_ms"], lane, flag, row[bound], label=bound)


def _window(run: Run, board: Board, reader: str, lane: int, low_ms: int, words: Words) -> None:
    board.put((lane, "value"), low_ms, lane, "value", label="nothing yet")
    for row in run.rows["windows"]:
        if row["reader"] == reader:
            _interval(board, row["at_ms"], lane, row, words)


def _interval(board: Board, at_ms: int, lane: int, row: Row, words: Words) -> None:
    """A lower and an upper bound, each possibly unknown."""
    lower, upper = row["lower"], row["upper"]
    for bound in ("lower", "upper"):
        if row[bound] is None:
            board.take((lane, bound), at_ms)
        else:
            board.put((lane, bound), at_ms, lane, bound, row[bound])
    if lower is None:
        board.take((lane, "window"), at_ms)
    elif upper is None:
        board.put((lane, "window"), at_ms, lane, "open window", lower, lower + _OPEN_MS)
    else:
        board.put((lane, "window"), at_ms, lane, "window", min(lower, upper), max(lower, upper))
    board.put((lane, "value"), at_ms, lane, "value", label=_told(lower, upper, words))


def _told(lower: Value, upper: Value, words: Words) -> str:
    """Two bounds in words; a day is said once."""
    if lower is None and upper is None:
        return "unknown"
    first, last = ("unknown" if value is None else words(value) for value in (lower, upper))
    day, comma, clock = last.partition(", ")
    return f"{first} to {clock if comma and first.startswith(day + comma) else last}"


def _truth(board: Board, reader: str, lane: int, truth: Truth) -> None:
    for at_ms, value in zip(truth.at_ms, truth.values, strict=True):
        if value is None:
            board.take((reader, "truth"), at_ms)
        else:
            board.put((reader, "truth"), at_ms, lane, "truth", value)
