"""Events are reduced in any parts: what is counted and what is newest does not depend on how they lie."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.checks import inputs_of, with_reduced_events
from wmlab.streams.checks.events import (
    EVENT_FACTS,
    CoveredEvents,
    EventReduction,
    delivered_events,
    late_deliveries,
)
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream


@pytest.fixture(scope="module")
def run() -> Recording:
    """A run with a scale, two groups and writers who break their word."""
    return Scenario(
        "reduced",
        stream=Stream("orders", segments=2, timestamp_aggregation_timeout_ms=2_000),
        writers=[
            EventWriter("w1", rate_per_s=30, delay_mean_ms=800, noting=noting.WallClock()),
            EventWriter("w2", rate_per_s=30, noting=noting.MaxMinusSlack(100)),
        ],
        readers=[ReaderGroup("fast", readers=2, publish_every_ms=300), ReaderGroup("slow", rate_per_s=25)],
        controllers=Controllers(period_ms=500),
        script=[script.Scale(at_ms=3_000, seal=["0@0"])],
        duration_ms=8_000,
        seed=5,
    ).record(progress=False)


def shuffled_facts(run: Recording, parts: int) -> list[dict[str, Any]]:
    """The facts of the events in some order, in small batches, from several reductions."""
    events = run.table("events")
    order = Random(parts).sample(range(len(events)), len(events))
    rows: list[dict[str, Any]] = []
    for part in range(parts):
        batches = events.take(pa.array(order[part::parts])).combine_chunks().to_batches(max_chunksize=50)
        facts = pa.Table.from_batches(EventReduction(inputs_of(run))(batches), EVENT_FACTS)
        rows += facts.to_pylist()
    return rows


def whole_facts(run: Recording) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = with_reduced_events(inputs_of(run), [run.table("events")])["event_facts"].to_pylist()
    return facts


def late_counts(facts: list[dict[str, Any]]) -> Counter[tuple[int, str | None]]:
    counts: Counter[tuple[int, str | None]] = Counter()
    for row in late_deliveries(facts):
        counts[row["read_ms"], row["because"]] += row["count"]
    return counts


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_of_the_events_come_to_the_same(run: Recording, parts: int) -> None:
    facts, whole = shuffled_facts(run, parts), whole_facts(run)
    assert delivered_events(facts) == delivered_events(whole) > 0
    assert late_counts(facts) == late_counts(whole)
    assert late_counts(whole).total() > len(late_deliveries(whole)) > 5
    assert CoveredEvents(facts).by_segment == CoveredEvents(whole).by_segment


def test_the_newest_event_of_a_cut_is_the_one_that_a_plain_loop_finds(run: Recording) -> None:
    """A null in a cut is the end of the segment."""
    log = run.table("watermarks").to_pylist()
    log[2]["cut"] = [(segment, None) for segment, _ in log[2]["cut"]]
    tables = inputs_of(run) | {"watermarks": pa.Table.from_pylist(log, run.table("watermarks").schema)}
    events = run.table("events").to_pylist()
    covered = CoveredEvents(with_reduced_events(tables, [run.table("events")])["event_facts"].to_pylist())
    for segment, offset in (end for entry in log for end in entry["cut"]):
        own = [row for row in events if row["segment_id"] == segment]
        newest = max((row["append_ms"] for row in own if offset is None or row["offset"] <= offset), default=None)
        assert covered.newest_ms(segment, offset) == newest
