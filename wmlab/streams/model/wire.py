"""The content and the size of messages that PDP-33 changes.

An acknowledgement and the answer to a merge carry the length of the segment, 8 bytes more than before; without it a
client has to ask for the length, with a message and its answer. Events of a writer are numbered from 1 in each segment;
an acknowledgement names the last one that is stored, and the last one acknowledged before.

A message has 8 bytes for its type and length, a number 8, the id of a writer's connection 16, a text 2 and its UTF-8,
an event 8 and its payload. Requests, noted times, commits and shutdowns are counted by the same rule, which is wmlab's.
Of other messages the bytes are unknown.

Source: PDP-33, Internal Changes (noteTimestampFromWriter, writerShutdown, commitTransaction), Controller Changes
(DataAppended, SegmentsMerged) and Server Changes (getSegmentLength); upstream class `WireCommands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from wmlab.core.words import counted
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import segment_name

EVENT_HEADER_BYTES: Final = 8
_HEADER: Final = 8
_NUMBER: Final = 8
_CONNECTION: Final = 16


class AppendRequest(NamedTuple):
    """Events for a segment; `last` is the number of the last event, `txn` the transaction they are written in."""

    segment: int
    events: int
    event_bytes: int
    last: int
    txn: str | None = None

    @property
    def wire_bytes(self) -> int:
        """The events, their writer, and the number of the last."""
        return _HEADER + _CONNECTION + _NUMBER + self.events * (EVENT_HEADER_BYTES + self.event_bytes)

    def __str__(self) -> str:
        within = "" if self.txn is None else f"{self.txn}: "
        return f"{within}{counted(self.events, 'event')} for {segment_name(self.segment)}"


class DataAppended(NamedTuple):
    """The acknowledgement of an append; `offset` is the length of the segment in bytes, None: not carried."""

    append: AppendRequest
    offset: int | None

    @property
    def wire_bytes(self) -> int:
        """The writer, two event numbers, and the length if it is carried."""
        return _HEADER + _CONNECTION + 2 * _NUMBER + _carried(self.offset)

    def __str__(self) -> str:
        previous = self.append.last - self.append.events
        carried = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.append}, event number {self.append.last}, previous {previous}{carried}"


@dataclass(frozen=True, slots=True)
class Lengths:
    """A request for the lengths of segments, offsets None, or its answer; with `txn`, one to merge a transaction there.

    The loss of an answer is noticed after `lost_ms`; 0: it arrives.
    """

    offsets: Mapping[int, int | None]
    txn: str | None = None
    merged_before: bool = False
    lost_ms: int = 0

    @property
    def wire_bytes(self) -> int:
        """A message for each segment: the number of the request, the names, and the length if it is carried."""
        bare = _HEADER + _NUMBER + (0 if self.txn is None else text_bytes(self.txn))
        return sum(bare + text_bytes(segment_name(segment)) + _carried(end) for segment, end in self.offsets.items())

    def __str__(self) -> str:
        merged = "" if self.txn is None else f"{self.txn}{' was merged before' if self.merged_before else ''}: "
        return f"{merged}{Position(self.offsets)}"


class Note(NamedTuple):
    """A noted time: by a `process` of a writer at `noted_ms` of simulated time, or by the commit of a transaction."""

    stream: str
    writer: str
    time: int
    position: Position
    noted_ms: int
    process: str | None = None
    txn: str | None = None

    @property
    def wire_bytes(self) -> int:
        """Both names, the time, and each segment with its offset."""
        return _HEADER + text_bytes(self.stream) + text_bytes(self.writer) + _NUMBER + 2 * _NUMBER * len(self.position)

    def __str__(self) -> str:
        return f"writer {self.writer}, time {self.time}, position {self.position}"


class CommitRequest(NamedTuple):
    """The request to commit a transaction, under the id of its writer and with the time to note; None: without."""

    stream: str
    writer: str | None
    time: int | None
    txn: str

    @property
    def wire_bytes(self) -> int:
        """The names of stream and transaction, and writer id and time if it has them."""
        writer = 0 if self.writer is None else text_bytes(self.writer)
        return _HEADER + text_bytes(self.stream) + text_bytes(self.txn) + writer + _carried(self.time)

    def __str__(self) -> str:
        writer = "no writer id" if self.writer is None else f"writer {self.writer}"
        return f"{self.txn}: {writer}, {'no time' if self.time is None else f'time {self.time}'}"


class Leave(NamedTuple):
    """A process says that its writer need not be waited for: it shuts down, or it is idle."""

    stream: str
    writer: str
    process: str
    call: str
    sent_ms: int

    @property
    def wire_bytes(self) -> int:
        """Both names."""
        return _HEADER + text_bytes(self.stream) + text_bytes(self.writer)

    def __str__(self) -> str:
        return f"writer {self.writer}"


def text_bytes(text: str) -> int:
    """How many bytes a text takes: 2 for its length, and its UTF-8."""
    return 2 + len(text.encode())


def _carried(offset: int | None) -> int:
    return 0 if offset is None else _NUMBER
