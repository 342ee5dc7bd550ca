"""The messages of a run: sender, receiver, content and losses; and a sentence about what its diagrams show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from wmlab.core.charts.axis import format_instant
from wmlab.core.invariants import TableRow
from wmlab.core.words import counted, is_instant, listed, rounded

_NAMED: Final = 4


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
    def phrase(self) -> str:
        """The message in words."""
        return f"{'an' if self.kind[:1] in 'aeiou' else 'a'} {self.kind} from {self.sender} to {self.receiver}"

    @property
    def words(self) -> str:
        """The message with its content."""
        return f"{self.kind}: {self.sender} → {self.receiver} {self.content}".strip()


def kinds_of(messages: Sequence[Message]) -> list[str]:
    """What each message is counted and drawn as: its kind, or if all are of one kind, its kind and sender."""
    if len({message.kind for message in messages}) > 1:
        return [message.kind for message in messages]
    return [f"{message.kind} from {message.sender}" for message in messages]


def by_frequency(names: Sequence[str]) -> list[tuple[str, int]]:
    """How often each name occurs, the most frequent first."""
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))


def message_sentences(messages: Sequence[Message], subject: str, from_ms: int, to_ms: int) -> str:
    """How many messages passed between how many parties, which was the slowest, and what was lost."""
    nodes = {node for message in messages for node in (message.sender, message.receiver)}
    begin, end = (exact_clock(at_ms, to_ms - from_ms) for at_ms in (from_ms, to_ms))
    passed = f"{counted(len(messages), 'message')} of {subject} passed between {len(nodes)} parties"
    sentences = [f"{passed} from {begin} to {end}.", f"Their kinds: {_counts(messages)}."]
    if arrived := [message for message in messages if message.received_ms is not None]:
        slow = max(arrived, key=lambda message: message.end_ms - message.sent_ms)
        sentences.append(f"The slowest, {slow.phrase}, took {rounded(slow.end_ms - slow.sent_ms)}.")
    if lost := [message for message in messages if message.received_ms is None]:
        first = "first " if len(lost) > 1 else ""
        sentences.append(f"{len(lost)} did not arrive, {first}{lost[0].phrase}.")
    return " ".join(sentences)


def _counts(messages: Sequence[Message]) -> str:
    """How many messages of which kind, or sender, the most frequent first; the rare ones of many are only counted."""
    counts = by_frequency(kinds_of(messages))
    shown = counts if len(counts) <= _NAMED + 1 else counts[:_NAMED]
    rest = counts[len(shown) :]
    noun = "kinds" if len({message.kind for message in messages}) > 1 else "senders"
    others = [f"{sum(number for _, number in rest)} of {len(rest)} other {noun}"] if rest else []
    return listed([*(f"{number} {name}" for name, number in shown), *others])


def exact_clock(at_ms: int, span_ms: int) -> str:
    """A time of the clock, exact to the millisecond, or as an instant in UTC as fine as a span of the clock shows."""
    if is_instant([at_ms]):
        return format_instant(at_ms, span_ms=span_ms)
    seconds = f"{abs(at_ms) / 1_000:.3f}".rstrip("0").rstrip(".")
    return f"{'−' if at_ms < 0 else ''}{seconds} s"


def lineage_sentence(stream: str, segments: Sequence[TableRow]) -> str:
    """How many segments a stream had, and how many of them others succeeded."""
    sealed = sum(row["sealed_ms"] is not None for row in segments)
    return f"Stream {stream}: {counted(len(segments), 'segment')}, {sealed} of them sealed and succeeded."


def topology_sentence(counts: Sequence[str]) -> str:
    """How many parties of each kind took part."""
    return f"{', '.join(counts)}."
