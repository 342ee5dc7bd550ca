"""The check of streams: one verdict for each invariant I1 to I12, from the tables of a recording alone.

It shares no state with the simulator. All are rules over the rows of one stream, and run in memory; the events, which
may not fit there, are reduced first, part by part.

Source: PDP-33, Watermark Computation and Watermarking in the Reader; wmlab's own list of what both guarantee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from wmlab.core.invariants import Derived, Invariant, TableRows, Verdicts, chosen_of, of_one_stream, verdicts_of
from wmlab.core.late import Late
from wmlab.core.recording import Recording
from wmlab.streams.checks import facts, liveness, log, readers
from wmlab.streams.checks.events import (
    EVENT_COLUMNS,
    EVENT_FACTS,
    CoveredEvents,
    EventReduction,
    delivered_events,
    deliveries_at_bound,
    late_deliveries,
)

INVARIANTS: Final[Mapping[str, Invariant]] = {
    "I1": log.lower_increases,
    "I2": log.upper_never_decreases,
    "I3": log.cut_never_moves_back,
    "I4": log.cut_beyond_writers,
    "I5": log.cut_complete,
    "I6": readers.nothing_late,
    "I7": log.bounds_in_order,
    "I8": log.one_winner,
    "I9": readers.windows_monotone,
    "I10": readers.lower_rises,
    "I11": readers.upper_covers_noted,
    "I12": readers.lower_below_latest,
}
"""What a recording has to keep, by name."""
LIVENESS: Final[Mapping[str, Invariant]] = {"I14": liveness.comes_to_rest}
"""What holds once a run has come to rest."""
BY_NAME: Final[Mapping[str, Invariant]] = {**LIVENESS, "I15": readers.nothing_at_bound}
"""What is judged when it is named: what it has to keep once everything has come to rest, for most runs end before that,
and the stricter reading of I6."""
INPUT_TABLES: Final = (
    "cycles", "epochs", "incidents", "ownership", "reads", "segments", "watermarks", "windows", "writer_marks",
)  # fmt: skip
"""The tables of a recording that the rules take whole."""
DERIVED: Final[Mapping[str, Derived]] = {
    "ordered_log": Derived(facts.ordered_log),
    "counting_log": Derived(facts.counting_log),
    "accepted_marks": Derived(facts.accepted_marks),
    "marks_by_writer": Derived(facts.marks_by_writer),
    "views_by_writer": Derived(facts.views_by_writer),
    "lineage": Derived(log.Lineage.of),
    "delivered_events": Derived(delivered_events),
    "late_deliveries": Derived(late_deliveries),
    "deliveries_at_bound": Derived(deliveries_at_bound),
    "covered_events": Derived(CoveredEvents),
}
"""What the rules take besides tables, made of the rows of one stream."""
_OF_EVENTS: Final = frozenset(name for name, entry in DERIVED.items() if "event_facts" in entry.inputs)
"""What is made of the events: for rules that take none of it they are not read."""


def inputs_of(recording: Recording) -> dict[str, pa.Table]:
    """The tables that the rules take whole, by name: all but the events."""
    return {name: recording.table(name) for name in INPUT_TABLES}


def with_reduced_events(
    tables: Mapping[str, pa.Table], events: Iterable[pa.Table], *, at_bound: bool = False
) -> dict[str, pa.Table]:
    """These tables with the `EVENT_FACTS` of the events, which come in parts: only one of them is in memory.

    With `at_bound` those of events with the time of a bound are among them.
    """
    facts = EventReduction(tables, at_bound=at_bound)(batch for part in events for batch in part.to_batches())
    return {**tables, "event_facts": pa.Table.from_batches(facts, EVENT_FACTS)}


def in_memory(
    recording: Recording, *only: str, events_in_log: Callable[[Recording, str], EventsInLog] | None = None
) -> Verdicts:
    """One verdict per invariant, I1 to I12, with the rows that prove a violation.

    `only` names those that are judged; without names, all are. If I6 is among them, the `events_in_log` of each stream
    say what is late in it. Raises `ModelError` for an unknown name.
    """
    chosen = chosen_of(INVARIANTS, BY_NAME, only)
    streams: list[str] = recording.table("segments")["stream"].unique().to_pylist()
    late = dict[str, Late]()
    is_judged = events_in_log is not None and "I6" in chosen
    in_logs = {stream: events_in_log(recording, stream) for stream in streams} if events_in_log and is_judged else {}

    def tables() -> Iterator[tuple[str, dict[str, pa.Table]]]:
        for stream, of_stream in _tables(recording, streams, chosen, in_logs.values()):
            if stream in in_logs:
                late[stream] = in_logs[stream].late(late_reads(of_stream["event_facts"].to_pylist()))
            yield stream, of_stream

    verdicts = verdicts_of(recording.name, chosen, tables(), DERIVED)
    return replace(verdicts, scrubbed=tuple(streams), late=late)


class LateReads(NamedTuple):
    """How many events were read first below a bound that had been shown, and those that I6 leaves out, by its words."""

    read: int
    left_out: Mapping[str, int]


class EventsInLog(Protocol):
    """The events of one stream against the bounds of its log, while they pass by."""

    stream: str

    def passing(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The same parts of the events of all streams."""

    def late(self, reads: LateReads) -> Late:
        """What is late of those that have passed, with the late reads."""


def late_reads(event_facts: TableRows) -> LateReads:
    """The late reads of a stream, of which these are the facts."""
    rows = late_deliveries(event_facts)
    left_out: Counter[str] = Counter()
    for row in rows:
        if row["because"] is not None:
            left_out[row["because"]] += row["count"]
    return LateReads(sum(row["count"] for row in rows), left_out)


def late_reads_of(recording: Recording, in_log: EventsInLog) -> LateReads:
    """The late reads of one stream of a recording, whose events pass by its log."""
    ((_, tables),) = _tables(recording, [in_log.stream], {"I6": INVARIANTS["I6"]}, [in_log])
    return late_reads(tables["event_facts"].to_pylist())


def violations_of(recording: Recording, stream: str) -> int:
    """How often the invariants are violated in one stream."""
    verdicts = verdicts_of(recording.name, INVARIANTS, _tables(recording, [stream], INVARIANTS), DERIVED)
    return sum(verdict.violations for verdict in verdicts)


def _tables(
    recording: Recording,
    streams: Iterable[str],
    chosen: Mapping[str, Invariant],
    in_logs: Iterable[EventsInLog] = (),
) -> Iterator[tuple[str, dict[str, pa.Table]]]:
    """Each of the streams with its tables, as far as the chosen invariants take them.

    The events are read once: they pass by the logs, and are reduced.
    """
    tables = inputs_of(recording)
    if any(not _OF_EVENTS.isdisjoint(entry.inputs) for entry in chosen.values()):
        events = recording.chunks("events", "stream", *EVENT_COLUMNS)
        for in_log in in_logs:
            events = in_log.passing(events)
        tables = with_reduced_events(tables, events, at_bound="I15" in chosen)
    for stream in streams:
        yield stream, of_one_stream(tables, stream)
