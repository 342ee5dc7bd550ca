"""bytewax's own `ClockLogic`, with a clock that the test moves, against the rule: random histories, call by call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from bytewax.operators.windowing import UTC_MAX, EventClock

from wmlab.strategies.model.engines import Bytewax
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Input, Record, Tick, run

HISTORIES: Final = 10_000
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO: Final = datetime(1000, 1, 1, tzinfo=UTC)
"""Watermarks before it have been set by no record."""


def history(random: Random) -> tuple[int, list[Input]]:
    """A wait, and records of one key among probes, while the wall clock goes on or, at times, back."""
    now, inputs = random.randrange(1000), []
    spread = random.choice((10, 1000, 100_000))
    for _ in range(random.randrange(1, 20)):
        now += random.choice((0, 1, random.randrange(spread), -random.randrange(5)))
        if random.random() < 0.25:
            inputs.append(Tick(now))
        else:
            inputs.append(Record(now + random.randrange(-spread, spread // 4), now))
    return random.choice((0, 1, random.randrange(spread))), [*inputs, EndOfInput()]


def answers(wait: int, inputs: list[Input]) -> list[int]:
    """What bytewax says after each input."""
    now = EPOCH

    def watermark(shown: datetime) -> int:
        if shown == UTC_MAX:
            return END
        return UNKNOWN if shown < LONG_AGO else (shown - EPOCH) // timedelta(milliseconds=1)

    clock = EventClock(
        ts_getter=lambda record: EPOCH + timedelta(milliseconds=record.event_time),
        wait_for_system_duration=timedelta(milliseconds=wait),
        now_getter=lambda: now,
    )
    first = inputs[0]
    now = EPOCH + timedelta(milliseconds=first.arrival_ms if isinstance(first, Record) else first.now_ms)
    logic = clock.build(None)
    found = []
    for given in inputs:
        if isinstance(given, Record):
            now = EPOCH + timedelta(milliseconds=given.arrival_ms)
            logic.before_batch()
            found.append(watermark(logic.on_item(given)[1]))
        elif isinstance(given, Tick):
            now = EPOCH + timedelta(milliseconds=given.now_ms)
            found.append(watermark(logic.on_notify()))
        else:
            found.append(watermark(logic.on_eof()))
    return found


def test_bytewax_and_the_rule_agree_call_by_call() -> None:
    random, records = Random(14), 0
    for _ in range(HISTORIES):
        wait, inputs = history(random)
        assert [step.x for step in run(Bytewax(wait), inputs)] == answers(wait, inputs), (wait, inputs)
        records += len(inputs)
    assert records > 100_000
