"""The options of a scenario that the panel offers and comparisons name: what they are called, and what they do.

All else about an option comes from the annotation of its field, in `panel.fields`. What is not offered is YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wmlab.core.scenario_words import Vocabulary
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.scenario.scenario import StreamScenario


@dataclass(frozen=True, slots=True)
class Option:
    """An option that the panel offers: its field, dotted if it is in an inner value, what it is called, what it does.

    `slider` is from where to where its slider goes, in ms for a duration; None: it has none. `empty` is what None
    means, if that is not what `WORDS.empty` says.
    """

    field: str
    label: str
    help: str
    slider: tuple[float, float] | None = None
    empty: str = ""


_RATE: Final = Option(
    "rate_per_s", "Events per second", "How many events happen each second, at random.", (1, 1_000), "as its trace has"
)
_DELAY: Final = Option("delay_mean_ms", "Mean delay", "How late an event is sent, on average.", (0, 10_000))
_NOTING: Final = Option("noting", "Noting", "Which time the writer notes.")
_AUTOMATIC: Final = Option("automatically_note_time", "Notes by itself", "The writer notes its clock by itself.")
_CLOCK: Final = (
    Option("clock.skew_ms", "Clock ahead by", "How far its clock is ahead; negative: behind.", (-10_000, 10_000)),
    Option("clock.drift_ppm", "Clock drift (ppm)", "Microseconds that its clock gains each second."),
    Option("starts_ms", "Starts after", "When the writer begins.", (0, 60_000)),
)
OPTIONS: Final[Mapping[type, tuple[Option, ...]]] = {
    EventWriter: (
        _RATE,
        _DELAY,
        _NOTING,
        Option("note_every_ms", "Notes every", "How often the application notes the time.", (100, 30_000)),
        *_CLOCK,
        Option("flush_before_note", "Flushes before it notes", "All events are acknowledged before the time is noted."),
        _AUTOMATIC,
    ),
    TransactionalWriter: (
        _RATE,
        _DELAY,
        _NOTING,
        Option("every_ms", "Begins every", "How often it begins a transaction.", (500, 30_000)),
        Option("open_ms", "Open for", "How long a transaction is open before it is committed.", (500, 60_000)),
        Option("commit_latency_ms", "Commit latency", "When the controller takes up a commit.", (0, 10_000)),
        Option("lease_ms", "Lease", "When the controller aborts what a dead writer left open.", (1_000, 120_000)),
        *_CLOCK,
        _AUTOMATIC,
    ),
    Stream: (
        Option("segments", "Segments", "How many segments the stream is created with.", (1, 16)),
        Option("timestamp_aggregation_timeout_ms", "Timeout", "How long a silent writer is waited for.", (0, 120_000)),
        Option("start_delay_ms", "First cycle after", "When the first watermark cycle runs.", (0, 60_000)),
        Option("expected_writers", "Expected writers", "The first watermark waits for so many writers.", (1, 10)),
        Option("automatically_note_time", "Writers note by themselves", "All its writers note their clocks."),
    ),
    Controllers: (
        Option("period_ms", "Period", "How long after a watermark cycle the next one runs.", (500, 60_000)),
        Option("period_jitter_ms", "Jitter of the period", "By how much a period is longer, at most.", (0, 10_000)),
        Option("count", "Controllers", "How many controllers there are.", (1, 8)),
        Option("session_timeout_ms", "Session timeout", "When a silent controller loses its buckets.", (1_000, 60_000)),
        Option("contact", "Writers contact", "Which controller a writer calls next."),
    ),
    ReaderGroup: (
        Option("readers", "Readers", "How many readers share the segments.", (1, 8)),
        Option("rate_per_s", "Events per second", "How fast each reader reads.", (1, 1_000)),
        Option("publish_every_ms", "Publishes every", "How often a reader publishes its position.", (100, 30_000)),
        Option("starts_ms", "Starts after", "When the group begins.", (0, 60_000)),
    ),
    Rules: (Option("base", "Rules", "The design, the shipped implementation, or sound rules."),),
    StreamScenario: (
        Option("duration_ms", "Duration", "How long the run lasts, in simulated time.", (10_000, 600_000)),
        Option("latency_ms", "Latency", "One-way delay of a message to or from a writer.", (0, 5_000)),
        Option("network.loss", "Lost calls (share)", "Which share of the calls is lost.", (0, 0.5)),
        Option("seed", "Seed", "All randomness comes from it.", (0, 20)),
    ),
}
"""What is offered, by the class of its part, besides every option of the rules; other fields are YAML."""

SECTIONS: Final[Mapping[str, str]] = {
    "Writers": "writers",
    "Faults": "script",
    "Stream": "stream",
    "Controllers": "controllers",
    "Readers": "readers",
    "Rules": "rules",
    "Run": "",
}
"""The sections of the form, each with the field of the scenario that its parts are in; the run is the scenario."""

WORDS: Final = Vocabulary(
    labels={owner: {option.field: option.label for option in options} for owner, options in OPTIONS.items()},
    empty={
        "note_every_ms": "never",
        "restart_after_ms": "never",
        "offline_after_ms": "never",
        "recreate_after_ms": "never",
        "for_ms": "to the end",
        "rate_per_s": "no limit",
        "point": "at once",
        "seal_every_ms": "all at once",
        "open_ms": "until the next one",
        "start_delay_ms": "as the controllers",
        "transaction": "the oldest open one",
        "checkpoint": "the last one",
        "stream": "the first one",
        "group": "the only one",
        "position": "its own",
        "cut": "all that is written",
    },
    untitled=frozenset({"stream", "controllers", "network"}),
)
"""The words of scenarios of streams."""
