"""Reading events and marks are calls over the network: they take its delay and its losses, and are messages.

Source: PDP-33, "Client Changes" ("Each reader needs to read from the mark Segment").
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.sim.worlds import Run, run
from wmlab.core.simulation import Fixed
from wmlab.streams.api import Scenario
from wmlab.streams.run_measures import EventsInLog, measured
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules

READ_SIDES = ["implementation", "document"]


def seen_first(world: Run) -> dict[int, int]:
    """When a reader saw each lower bound for the first time."""
    seen: dict[int, int] = {}
    for row in world.rows("windows"):
        if row["lower"] is not None:
            seen.setdefault(row["lower"], row["at_ms"])
    return seen


def reading(delay_ms: int | None, **fields: Any) -> Run:
    part = {"publish_every_ms": 500, "read_latency_ms": delay_ms, **fields.pop("readers", {})}
    return run(readers=ReaderGroup(**part), **fields)


@pytest.mark.parametrize("read_side", READ_SIDES)
@pytest.mark.parametrize("delay_ms", [40, 400, 1_100])
def test_events_and_marks_come_after_the_delay_and_not_before(delay_ms: int, read_side: str) -> None:
    later = reading(delay_ms, rules=Rules(read_side=read_side))
    emitted = {row["lower"]: row["emitted_ms"] for row in later.rows("watermarks")}
    assert len(seen_first(later)) > 4
    assert all(at_ms >= emitted[lower] + delay_ms for lower, at_ms in seen_first(later).items())
    events = later.events
    ends = zip(events.segment_id.tolist(), events.offset.tolist(), strict=True)
    appended_ms = dict(zip(ends, events.append_ms.tolist(), strict=True))
    reads = later.rows("reads")
    assert all(row["at_ms"] >= appended_ms[row["segment_id"], row["to_offset"]] + delay_ms for row in reads)
    assert later.late_first_reads() == 0
    later.assert_lower_never_falls()


def test_without_a_delay_or_a_loss_in_the_network_nothing_is_asked_and_nothing_takes_time() -> None:
    tables = ("reads", "windows", "positions", "group_updates")
    local, kept = (run(network=network) for network in (Network(), Network(keep_messages=True)))
    assert [local.rows(table) for table in tables] == [kept.rows(table) for table in tables]
    assert not {"read events", "read watermarks"} & set(kept.column("messages", "kind"))
    prompt = reading(0, network=Network(delay=Fixed(5), keep_messages=True))
    assert not {"read events", "read watermarks"} & set(prompt.column("messages", "kind"))


def test_reads_are_messages_to_the_segment_store_and_back() -> None:
    world = run(readers=ReaderGroup(), network=Network(delay=Fixed(70), keep_messages=True))
    for kind, answer in (("read events", "events"), ("read watermarks", "watermarks")):
        asked = world.rows("messages", kind=kind, sender="readers-0", receiver="segment-store")
        answered = world.rows("messages", kind=answer, sender="segment-store", receiver="readers-0")
        assert len(asked) == len(answered) > 10
        assert all(row["received_ms"] == row["sent_ms"] + 70 for row in [*asked, *answered])
        assert [row["sent_ms"] for row in answered] == [row["received_ms"] for row in asked]
    assert world.column("messages", "content", kind="read events")[0] == "0@0 from 0"


def test_a_loss_costs_a_retransmission() -> None:
    lossy = run(readers=ReaderGroup(), network=Network(delay=Fixed(10), loss=0.4, keep_messages=True))
    took = {row["received_ms"] - row["sent_ms"] for row in lossy.rows("messages", kind="read events")}
    assert {10, 210, 410} <= took
    lossy.assert_delivered()


def test_a_partition_holds_an_answer_that_is_on_its_way() -> None:
    cut = script.Partition(at_ms=5_020, a="readers-0", b="segment-store", for_ms=3_000)
    world = run(readers=ReaderGroup(), network=Network(delay=Fixed(50)), script=[cut])
    assert not world.rows("reads", 5_020, 8_020)
    assert world.rows("reads", 8_019, 8_100)
    world.assert_delivered()


def test_a_reader_that_crashes_while_it_reads_has_read_nothing() -> None:
    crash = script.CrashReader(at_ms=5_050, reader="readers-0", restart_after_ms=4_000)
    world = run(readers=ReaderGroup(read_latency_ms=100), script=[crash])
    assert not world.rows("reads", 5_049, 9_000)
    world.assert_delivered()


def test_the_end_of_a_segment_is_known_when_it_is_read() -> None:
    split = script.Scale(at_ms=6_000, seal=["0@0"])
    for delay_ms in (0, 700):
        world = reading(delay_ms, stream=Stream(), script=[split])
        (done,) = world.rows("group_updates", operation="complete")
        (sealed_ms,) = {row["sealed_ms"] for row in world.rows("segments") if row["sealed_ms"] is not None}
        assert done["at_ms"] >= sealed_ms + delay_ms
        world.assert_delivered()


def test_the_lag_that_readers_saw_has_the_time_that_reading_took() -> None:
    worst, mean = zip(
        *(
            (figures["seen_worst_lag_ms"], figures["lag_ms"])
            for delay_ms in (0, 600)
            for one in [
                Scenario(
                    name="slow reads",
                    stream=Stream(),
                    writers=[EventWriter("w", rate_per_s=50)],
                    readers=ReaderGroup(publish_every_ms=500, read_latency_ms=delay_ms),
                    controllers=Controllers(period_ms=1_000, start_delay_ms=1_000),
                    duration_ms=12_000,
                ).record(progress=False)
            ]
            for figures in [measured(one, EventsInLog(one, "stream"))]
        ),
        strict=True,
    )
    assert mean[0] == mean[1]
    assert worst[1] >= worst[0] + 600
