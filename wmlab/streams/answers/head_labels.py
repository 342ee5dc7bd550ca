"""What stands above the charts of streams: a question, a headline that answers it, and the labels of its facts.

A chart folds the facts below its headline. Every one is arithmetic on the rows that the chart shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wmlab.core.facts import Facts, Head, Kind, Value, Vocabulary, vocabulary
from wmlab.streams.answers.vocabulary import LABELS

OF_STOP: Final = ("longest stop", "at", "from", "to", "held by")
"""The labels of a longest stop, which mean what they mean in the answer about a run."""
_OWN: Final = vocabulary(
    # time bounds
    ("bound", Kind.NAME, "which lower bound is drawn: in the log, at the position of a group, or seen by a reader"),
    ("last", Kind.MOMENT, "the last known value of the lower bound"),
    ("above perfect for", Kind.LENGTH, "for how long the lower bound was above the perfect watermark"),
    ("above perfect by", Kind.LENGTH, "by how much it was at most"),
    # cycles and generations
    ("cycles", Kind.COUNT, "how many cycles there were, with those that died after their watermark was in the log"),
    ("emitted", Kind.COUNT, "how many of them emitted a watermark"),
    ("waited for most", Kind.NAME, "the writer that most of the cycles without a watermark waited for"),
    ("waited for in", Kind.COUNT, "how many cycles waited for that writer"),
    ("left out longest", Kind.NAME, "the writer that was left out of most generations in a row"),
    ("left out of", Kind.COUNT, "how many generations in a row that writer was left out of"),
    ("left out from", Kind.MOMENT, "the first cycle of these"),
    # what readers saw, and bounds side by side
    ("median lag", Kind.LENGTH, "a reader's clock minus the lower bound that it saw: not more for half of the time"),
    ("worst lag", Kind.LENGTH, "the largest such lag"),
    (
        "behind",
        Kind.NAME,
        "whose bound, or time in a map, was longest the least known one, and less than another",
    ),
    ("behind for", Kind.LENGTH, "for how long it was"),
    ("apart at most", Kind.LENGTH, "the largest distance between the smallest and the largest known bound"),
    ("least time for", Kind.LENGTH, "for how long the map of a group had a least time"),
    # arrivals and messages
    ("median delay", Kind.LENGTH, "from the time of an event to its arrival: half of the events took no longer"),
    ("longest delay", Kind.LENGTH, "the longest such delay"),
    ("messages", Kind.COUNT, "how many messages were on their way in the period that is drawn"),
    ("parties", Kind.COUNT, "how many senders and receivers they had"),
    ("slowest took", Kind.LENGTH, "how long the slowest of those that arrived took"),
    # stream cuts and segments
    ("cut", Kind.NAME, "the stream cut: segments, each with an offset"),
    ("watermarks", Kind.COUNT, "how many watermarks were made"),
    ("segments", Kind.COUNT, "how many segments the stream had"),
    ("open segments", Kind.COUNT, "how many of them were open at the end"),
    # owners of buckets
    ("longest gap", Kind.LENGTH, "the longest of these times"),
    ("bucket", Kind.NAME, "the bucket that it was"),
    ("gap from", Kind.MOMENT, "when it began"),
    # configurations
    ("best", Kind.NAME, "of those with the fewest late events the one with the least mean lag"),
    ("best lag", Kind.LENGTH, "its mean lag"),
    ("field", Kind.NAME, "the option whose values are compared"),
    ("first value", Kind.NAME, "its first value"),
    ("last value", Kind.NAME, "its last value"),
    ("lag of the first", Kind.LENGTH, "the median of the mean lags of the runs with the first value"),
    ("lag of the last", Kind.LENGTH, "the median of the mean lags of the runs with the last value"),
)
HEAD_LABELS: Final[Vocabulary] = {name: LABELS[name] for name in OF_STOP} | dict(_OWN)

HEADS: Final[Mapping[str, tuple[str, ...]]] = {
    "time bounds": (
        "{bound} stood still for {longest stop} from {from}, held by {held by}.",
        "{bound} stood still for {longest stop} from {from}.",
        "{bound} is {last}.",
        "{bound} is unknown all the time.",
    ),
    "notes": (
        "The watermark in the log stood still for {longest stop}, held by {held by}.",
        "There is no watermark in the log.",
    ),
    "cycles": (
        "Cycles that emitted a watermark: {emitted} of {cycles}; that waited for {waited for most}: {waited for in}.",
        "Cycles that emitted a watermark: {emitted} of {cycles}.",
    ),
    "generations": (
        "Generations in a row without {left out longest}: {left out of}, from {left out from} on.",
        "Every known writer was in every generation.",
    ),
    "lag": (
        "The lag of what readers saw was at most {median lag} for half of the time, and {worst lag} at worst.",
        "No reader saw a lower bound.",
    ),
    "alignment": (
        "{behind} was behind for {behind for}, and the bounds were {apart at most} apart at most.",
        "The bounds were never apart.",
    ),
    "map": (
        "The least time in the map was that of {behind} for {behind for}.",
        "All readers in the map had passed the same watermark, for {least time for}.",
        "The map had no least time.",
    ),
    "arrivals": ("Half of the events arrived within {median delay} of their time, the slowest after {longest delay}.",),
    "messages": (
        "Messages: {messages}, between {parties} parties; the slowest took {slowest took}.",
        "Messages: {messages}, between {parties} parties; none of them arrived.",
    ),
    "cut": ("The stream cut is {cut}.",),
    "key space": (
        "Stream cuts: {watermarks}, one for each watermark; segments: {segments}, open at the end: {open segments}.",
    ),
    "owners": (
        "Bucket {bucket} was without an owner for longest, for {longest gap} from {gap from}.",
        "No bucket was without an owner once it had one.",
    ),
    "replay": ("Of the configurations with the fewest late events {best} has the least mean lag, {best lag}.",),
    "sweep": (
        "From a {field} of {first value} to {last value} the lag goes from {lag of the first} to {lag of the last}.",
    ),
}
"""The headlines of each chart; of these the first is said whose labels are all there."""


QUESTIONS: Final[Mapping[str, str]] = {
    "time bounds": "Which time bounds does {stream} have{whose}?",
    "bounds seen": "Which time bounds of {stream} did {reader} see?",
    "notes": "Who noted time in {stream}, and who held its watermark?",
    "holders": "Who held the watermark in the log of {stream}, and for how long?",
    "cycles": "When did the watermark cycle of {stream} emit, and why not?",
    "generations": "Which writers of {stream} were in each generation, and why were others not?",
    "owners": "Who owned which bucket of streams?",
    "lag": "How far were the bounds that readers saw of {stream} behind their clocks, and apart?",
    "lag distribution": "How long did readers of {stream} see which lag and uncertainty?",
    "alignment": "Which {by} held the others back, and how far apart were they?",
    "map": "Whose time is the least one in the map of {group}?",
    "arrivals": "When did the events of {stream} happen, and when did they arrive?",
    "messages": "What was said{within} around {moment}?",
    "cut": "How did the stream cut of {stream} at {moment} come about?",
    "key space": "Which segment held which keys of {stream}, and where did the cuts pass?",
    "moment": "What was written, noted and read of {stream} at {moment}?",
    "replay": "Which configuration would {stream} have needed?",
    "sweep": "How does the {field} trade lag against late events?",
}
"""The question above each chart, with the names of what is drawn; a title of the caller's own replaces it."""


def asked(chart: str, **named: str) -> str:
    """The question of `QUESTIONS` above a chart; raises `KeyError` without one of its names."""
    return QUESTIONS[chart].format_map(named)


def head_of(chart: str, values: Mapping[str, Value], *, clock_ms: int | None = None) -> Head:
    """What stands above a chart of `HEADS` with these facts; `clock_ms` is a time of the clock of the run."""
    facts = Facts(HEAD_LABELS, values, clock_ms=clock_ms)
    return Head(facts=facts, templates=facts.chosen(HEADS[chart]))
