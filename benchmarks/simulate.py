"""Case `simulate`: recorded events and protocol messages a second, against a bare SimPy process loop.

The loop does nothing but wait, one timeout after another: the price of the simulated clock alone. wmlab keeps
everything that happened. Two things make a message comparable with a timeout. Every message counted takes its turn in
the clock: a message is one that the `messages` table would list, and those between controllers and stores, which take
no time by default, take a millisecond here. And the clock is as busy: what an entry of SimPy's queue costs grows with
the number of those that wait, so the loop has as many processes as wmlab has entries waiting. A loop of one process,
whose queue is never longer than one, is measured too, for whoever wants to compare with that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import simpy

from benchmarks.measure import Answer, Contender, Timing, measured, table
from wmlab.core.simulation import Fixed
from wmlab.streams.api import Scenario
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream

ROWS = 5_000_000
THREADS = 1
WRITERS = 5
_LOOP = "SimPy, bare loop"
_ONE = "SimPy, a loop of one process"
EVENTS_PER_S = 1_000
WAITING = 46
"""How many entries the clock's queue has on average while the messages are sent: 10 processes of the writers, the
cycle, and the messages under way."""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    events = ROWS if rows is None else rows
    batched = _batched(events)
    count = batched.record(progress=False).counts["events"]
    timings = measured([_recording("wmlab, recorded events", batched), _loop(_ONE, count // 10, processes=1)], runs)
    yield f"{count:,} events in batches; the loop makes a tenth as many timeouts"
    yield _per_second(timings, [count, count // 10])
    chatty = _chatty(seconds=max(1, events // 500_000))
    kept = Network(inside=chatty.network.inside, keep_messages=True)
    sent = chatty.replace(network=kept).record(progress=False).counts["messages"]
    loops = [_loop(_LOOP, sent, processes=WAITING), _loop(_ONE, sent, processes=1)]
    timings = measured([_recording("wmlab, messages", chatty), *loops], runs)
    yield f"{sent:,} messages, each with its rules and its rows; the loops make as many timeouts"
    yield _per_second(timings, [sent] * len(timings))
    yield table(timings, _LOOP)


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
        writers=[EventWriter(f"w{n}", rate_per_s=EVENTS_PER_S, batch_ms=5, note_every_ms=5) for n in range(WRITERS)],
        controllers=Controllers(period_ms=100),
        network=Network(inside=Fixed(1)),
        duration_ms=1_000 * seconds,
    )


def _recording(name: str, scenario: Scenario) -> Contender:
    def record() -> Answer:
        return scenario.record(progress=False).counts

    return Contender(name, record, answers=False)


def _loop(name: str, timeouts: int, *, processes: int) -> Contender:
    def wait(env: simpy.Environment, times: int) -> Generator[simpy.Event]:
        for _ in range(times):
            yield env.timeout(1)

    def loop() -> Answer:
        env = simpy.Environment()
        for number in range(processes):
            env.process(wait(env, len(range(number, timeouts, processes))))
        env.run()
        return {"now": int(env.now)}

    return Contender(name, loop, answers=False)


def _per_second(timings: list[Timing], counts: list[int]) -> str:
    return "\n".join(
        f"{timing.name}: {round(count / timing.median):,} a second"
        for timing, count in zip(timings, counts, strict=True)
    )
