"""Case `simulate`: recorded events and protocol messages a second, against a bare SimPy process loop.

The loop does nothing but wait: one process, one timeout after another. It is the price of the simulated clock alone,
per event of the clock. wmlab keeps everything that happened; a message is one that the `messages` table would list.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import simpy

from benchmarks.measure import Answer, Contender, Timing, measured, table
from wmlab.scenario import Controllers, EventWriter, ReaderGroup, Scenario, Stream
from wmlab.scenario.network import Network

ROWS = 5_000_000
THREADS = 1
WRITERS = 5
MESSAGES_PER_S = 1_000


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    events = ROWS if rows is None else rows
    batched = _batched(events)
    count = batched.record(progress=False).counts["events"]
    timings = measured([_recording("wmlab, recorded events", batched), _loop(count // 10)], runs)
    yield f"{count:,} events in batches; the loop makes a tenth as many timeouts"
    yield _per_second(timings, [count, count // 10])
    chatty = _chatty(seconds=max(1, events // 500_000))
    sent = chatty.replace(network=Network(keep_messages=True)).record(progress=False).counts["messages"]
    timings = measured([_recording("wmlab, messages", chatty), _loop(sent)], runs)
    yield f"{sent:,} messages, each with its rules and its rows; the loop makes as many timeouts"
    yield _per_second(timings, [sent, sent])
    yield table(timings, "SimPy, bare loop")


def _batched(events: int) -> Scenario:
    """Few large appends: what is measured is the way of an event into the recording."""
    rate = 200_000.0
    duration_ms = max(100, round(events / (WRITERS * rate) * 1_000))
    return Scenario(
        "batched",
        stream=Stream(segments=4),
        writers=[EventWriter(f"w{n}", rate_per_s=rate, delay_mean_ms=50) for n in range(WRITERS)],
        readers=ReaderGroup(readers=2),
        controllers=Controllers(period_ms=1_000),
        duration_ms=duration_ms,
    )


def _chatty(seconds: int) -> Scenario:
    """Many small messages: every writer sends a batch of few events and notes the time every few milliseconds."""
    return Scenario(
        "chatty",
        stream=Stream(segments=2),
        writers=[EventWriter(f"w{n}", rate_per_s=MESSAGES_PER_S, batch_ms=5, note_every_ms=5) for n in range(WRITERS)],
        controllers=Controllers(period_ms=100),
        duration_ms=1_000 * seconds,
    )


def _recording(name: str, scenario: Scenario) -> Contender:
    def record() -> Answer:
        return scenario.record(progress=False).counts

    return Contender(name, record, answers=False)


def _loop(timeouts: int) -> Contender:
    def wait(env: simpy.Environment) -> Generator[simpy.Event]:
        for _ in range(timeouts):
            yield env.timeout(1)

    def loop() -> Answer:
        env = simpy.Environment()
        env.process(wait(env))
        env.run()
        return {"now": int(env.now)}

    return Contender("SimPy, bare loop", loop, answers=False)


def _per_second(timings: list[Timing], counts: list[int]) -> str:
    return "\n".join(
        f"{timing.name}: {round(count / timing.median):,} a second"
        for timing, count in zip(timings, counts, strict=True)
    )
