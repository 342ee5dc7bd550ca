"""The marks segment: the log of watermarks that controllers append to and readers follow.

A revision is the number of bytes up to the END of an entry, so reading "from" a revision gives the entries after it.
A conditional append names the revision it expects at the end. One more revision, the mark pointer, is kept next to the
log and moved by compare-and-set only; it tells the next cycle where to start reading.

Source: PDP-33, Internal Changes (marks segment); upstream classes `Watermark`, `RevisionedStreamClientImpl`,
`TruncatedDataException`, `NoSuchSegmentException` and `WatermarkClient` (reinitialize, completeIteration).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, Generic, TypeVar

from wmlab.core.errors import ModelError
from wmlab.streams.model.position import Position
from wmlab.streams.model.wire import text_bytes

LogEntry = TypeVar("LogEntry")
_FIXED_BYTES = 16
_BYTES_PER_SEGMENT = 16


@dataclass(frozen=True, slots=True)
class Watermark:
    """An entry of the log: time bounds, stream cut, and the counted writers with the time each had noted.

    If not `known`, it is an end of known time: from its cut to that of the next entry no writer is known, and a reader
    there knows no bound; it counts no writers, and has the bounds of the entry before. Raises `ModelError` when lower >
    upper. Pravega stores no writers; the design has them.
    """

    lower: int
    upper: int
    cut: Position
    writers: Mapping[str, int] = field(default_factory=dict, hash=False)
    known: bool = True

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ModelError(
                f"A watermark cannot have lower {self.lower} above upper {self.upper}.",
                remedy="Give the smaller time first.",
            )


ALWAYS: Final = -(2**63)
"""From when on (clock, ms) a watermark is known if all of them are known from the beginning."""


def known_from(emitted_ms: Iterable[int]) -> list[int]:
    """From when on a reader of the log can know each watermark: when it and all before it have been emitted.

    `emitted_ms` is in the order of the log. In a log of the outside world, whose clocks differ, it may fall.
    """
    return list(accumulate(emitted_ms, max))


class TruncatedError(ModelError):
    """Reading from before the start of a truncated log."""


class NoSuchLogError(ModelError):
    """Using the marks segment of a stream that was deleted."""


# Without slots: on Python 3.11 a frozen generic dataclass with slots cannot be made as MarksLog[Watermark]().
@dataclass(frozen=True)
class MarksLog(Generic[LogEntry]):
    """An append-only log with end-of-entry revisions, immutable: every change returns a new log.

    `number` is that of its only segment; a stream that is deleted and created again gets a log with the next number.
    `truncated` counts the entries before the first that is left, so it is the index of that one in the log.
    """

    entries: tuple[tuple[int, LogEntry], ...] = ()
    oldest: int = 0
    end: int = 0
    pointer: int | None = None
    number: int = 0
    truncated: int = 0

    def append(self, entry: LogEntry) -> tuple[MarksLog[LogEntry], int]:
        """The log with one more entry, and the entry's revision."""
        revision = self.end + entry_bytes(entry)
        return replace(self, entries=(*self.entries, (revision, entry)), end=revision), revision

    def append_if(self, expected: int, entry: LogEntry) -> tuple[MarksLog[LogEntry], int | None]:
        """Append only if the log still ends at `expected`; else the same log and None."""
        return self.append(entry) if expected == self.end else (self, None)

    def read_after(self, revision: int) -> tuple[tuple[int, LogEntry], ...]:
        """The entries after a revision, each with its own revision.

        Raises `TruncatedError` before the start, `ModelError` inside an entry or beyond the end.
        """
        return self.entries[self._index(revision) :]

    def first_after(self, revision: int) -> tuple[int, LogEntry]:
        """The entry right after a revision, with its own revision.

        Raises `ModelError` at the end of the log, and as `read_after`.
        """
        index = self._index(revision)
        if index == len(self.entries):
            raise ModelError(f"Nothing follows revision {revision}.", remedy="Give a revision before the end.")
        return self.entries[index]

    def read_range(self, start: int, stop: int) -> tuple[tuple[int, LogEntry], ...]:
        """The entries after `start` up to and including the one that ends at `stop`.

        Raises `ModelError` when `stop` < `start`, and as `read_after`.
        """
        if stop < start:
            raise ModelError(f"Revision {stop} lies before {start}.", remedy="Give the earlier revision first.")
        return self.entries[self._index(start) : self._index(stop)]

    def truncate(self, revision: int) -> MarksLog[LogEntry]:
        """The log without the entries up to a revision; never moves the start back.

        Raises `ModelError` inside an entry.
        """
        if revision <= self.oldest:
            return self
        index = self._index(revision)
        return replace(self, entries=self.entries[index:], oldest=revision, truncated=self.truncated + index)

    def move_pointer(self, expected: int | None, new: int | None) -> tuple[MarksLog[LogEntry], bool]:
        """Set the mark pointer if it still is `expected`: forward, back, or to None."""
        return (replace(self, pointer=new), True) if self.pointer == expected else (self, False)

    def _index(self, revision: int) -> int:
        if revision < self.oldest:
            raise TruncatedError(
                f"Revision {revision} lies before the start of the log, {self.oldest}.",
                remedy="Start reading at the oldest revision.",
            )
        index = bisect_right(self.entries, revision, key=lambda entry: entry[0])
        if revision != self.oldest and (index == 0 or self.entries[index - 1][0] != revision):
            raise ModelError(
                f"{revision} is not a revision of this log.", remedy="Use revisions that the log returned."
            )
        return index


@dataclass(frozen=True)
class LeaderView(Generic[LogEntry]):
    """The log as one cycle of a leader sees it: mark pointer, last entry after it, expected end."""

    pointer: int
    previous: tuple[int, LogEntry] | None

    @property
    def expected_end(self) -> int:
        """The revision at which the cycle may append."""
        return self.pointer if self.previous is None else self.previous[0]


def open_view(log: MarksLog[LogEntry], *, number: int | None = None) -> tuple[MarksLog[LogEntry], LeaderView[LogEntry]]:
    """What a cycle reads first: sets an unset mark pointer to the oldest revision, reads the entries after it.

    `number` is the marks segment that the leader remembers. Raises `NoSuchLogError` when that was deleted, and
    `TruncatedError` when the pointer lies before the start.
    """
    if number is not None and number != log.number:
        raise NoSuchLogError(
            f"Marks segment {number} was deleted.", remedy=f"Forget it and start again with segment {log.number}."
        )
    pointer = log.oldest if log.pointer is None else log.pointer
    after = log.read_after(pointer)
    return replace(log, pointer=pointer), LeaderView(pointer, after[-1] if after else None)


def settle_pointer(log: MarksLog[LogEntry], view: LeaderView[LogEntry]) -> MarksLog[LogEntry]:
    """The log after a leader that has appended moved the mark pointer to the entry before; the same if another did.

    The pointer may be left behind: then the next cycle reads a few more entries.
    """
    return log if view.previous is None else log.move_pointer(view.pointer, view.previous[0])[0]


def entry_bytes(entry: object) -> int:
    """Length of an entry in the log: 16 bytes, for a watermark 16 for each segment of the cut, and its writers' ids.

    A record has "a timestamp, a set of writer ids, a streamCut" (PDP-33, Internal Changes); an id is a text as in
    messages. Source: wmlab's own figure; upstream serialises a `Watermark` in a variable-length format, and without
    writers.
    """
    if not isinstance(entry, Watermark):
        return _FIXED_BYTES
    return _FIXED_BYTES + _BYTES_PER_SEGMENT * len(entry.cut) + sum(map(text_bytes, entry.writers))
