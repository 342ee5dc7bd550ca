"""The messages of a run: sender, receiver, content and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wmlab.core.charts.axis import format_instant
from wmlab.core.facts import Head
from wmlab.core.invariants import TableRow
from wmlab.core.words import is_instant
from wmlab.streams.answers.head_labels import head_of


class Message(NamedTuple):
    """One message of the protocol, a row of its table.

    `received_ms` is None if it was lost, or still on its way at the end; `stream` is None if it is about no stream,
    such as what controllers and coordinator say to each other.
    """

    stream: str | None
    sent_ms: int
    received_ms: int | None
    sender: str
    receiver: str
    kind: str
    content: str

    @property
    def end_ms(self) -> int:
        """When it left the network, as far as known."""
        return self.sent_ms if self.received_ms is None else self.received_ms

    @property
    def words(self) -> str:
        """The message with its content."""
        return f"{self.kind}: {self.sender} → {self.receiver} {self.content}".strip()


def kinds_of(messages: Sequence[Message]) -> list[str]:
    """What each message is counted and drawn as: its kind, or if all are of one kind, its kind and sender."""
    if len({message.kind for message in messages}) > 1:
        return [message.kind for message in messages]
    return [f"{message.kind} from {message.sender}" for message in messages]


def message_head(messages: Sequence[Message]) -> Head:
    """How many messages passed between how many parties, and how long the slowest took."""
    took = [message.end_ms - message.sent_ms for message in messages if message.received_ms is not None]
    return head_of(
        "messages",
        {
            "messages": len(messages),
            "parties": len({node for message in messages for node in (message.sender, message.receiver)}),
            "slowest took": max(took, default=None),
        },
    )


def exact_clock(at_ms: int, span_ms: int) -> str:
    """A time of the clock, exact to the millisecond, or as an instant in UTC as fine as a span of the clock shows."""
    if is_instant([at_ms]):
        return format_instant(at_ms, span_ms=span_ms)
    seconds = f"{abs(at_ms) / 1_000:.3f}".rstrip("0").rstrip(".")
    return f"{'−' if at_ms < 0 else ''}{seconds} s"


def lineage_sentence(segments: Sequence[TableRow]) -> str:
    """How many segments a stream had, and how many of them are open."""
    return f"Segments: {len(segments)}; open at the end: {sum(row['sealed_ms'] is None for row in segments)}."


def topology_sentence(counts: Mapping[str, int]) -> str:
    """How many parties of each kind took part."""
    return f"{'; '.join(f'{kind}: {number}' for kind, number in counts.items())}."
