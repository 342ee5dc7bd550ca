"""The options of a scenario that the panel offers and comparisons name: what they are called.

What an option does is said in the docstring of its class, and all else in the annotation of its field; see
`panel.fields`. What is not offered is YAML.
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
    """An option that the panel offers: its field, dotted if it is in an inner value, and what it is called.

    `slider` is from where to where its slider goes, in ms for a duration; None: it has none. `empty` is what None
    means, if that is not what `WORDS.empty` says.
    """

    field: str
    label: str
    slider: tuple[float, float] | None = None
    empty: str = ""


_BY_RATE: Final = (
    Option("rate_per_s", "Events per second", (1, 1_000), "as its trace has"),
    Option("delay_mean_ms", "Mean delay", (0, 10_000)),
    Option("noting", "Noting"),
)
_CLOCK: Final = (
    Option("clock.skew_ms", "Clock ahead by", (-10_000, 10_000)),
    Option("clock.drift_ppm", "Clock drift (ppm)"),
    Option("starts_ms", "Starts after", (0, 60_000)),
)
_AUTOMATIC: Final = Option("automatically_note_time", "Notes by itself")
OPTIONS: Final[Mapping[type, tuple[Option, ...]]] = {
    EventWriter: (
        *_BY_RATE,
        Option("note_every_ms", "Notes every", (100, 30_000)),
        *_CLOCK,
        Option("flush_before_note", "Flushes before it notes"),
        _AUTOMATIC,
    ),
    TransactionalWriter: (
        *_BY_RATE,
        Option("every_ms", "Begins every", (500, 30_000)),
        Option("open_ms", "Open for", (500, 60_000)),
        Option("commit_latency_ms", "Commit latency", (0, 10_000)),
        Option("lease_ms", "Lease", (1_000, 120_000)),
        *_CLOCK,
        _AUTOMATIC,
    ),
    Stream: (
        Option("segments", "Segments", (1, 16)),
        Option("timestamp_aggregation_timeout_ms", "Timeout", (0, 120_000)),
        Option("start_delay_ms", "First cycle after", (0, 60_000)),
        Option("expected_writers", "Expected writers", (1, 10)),
        Option("automatically_note_time", "Writers note by themselves"),
    ),
    Controllers: (
        Option("period_ms", "Period", (500, 60_000)),
        Option("period_jitter_ms", "Jitter of the period", (0, 10_000)),
        Option("count", "Controllers", (1, 8)),
        Option("session_timeout_ms", "Session timeout", (1_000, 60_000)),
        Option("contact", "Writers contact"),
    ),
    ReaderGroup: (
        Option("readers", "Readers", (1, 8)),
        Option("rate_per_s", "Events per second", (1, 1_000)),
        Option("publish_every_ms", "Publishes every", (100, 30_000)),
        Option("starts_ms", "Starts after", (0, 60_000)),
    ),
    Rules: (Option("base", "Rules"),),
    StreamScenario: (
        Option("duration_ms", "Duration", (10_000, 600_000)),
        Option("latency_ms", "Latency", (0, 5_000)),
        Option("network.loss", "Lost calls (share)", (0, 0.5)),
        Option("seed", "Seed", (0, 20)),
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
