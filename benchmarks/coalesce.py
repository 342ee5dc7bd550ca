"""Case `coalesce`: watermarks coalesced over many inputs, one key and two, against a bare loop that asks all inputs.

The bare loop is what one would write first: the last watermark per input in a dict, and their minimum after each. It
knows neither keys nor idleness nor that watermarks have to rise. One core, pure Python on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from benchmarks.measure import Answer, Contender, measured, table
from wmlab.dataflow.model.coalescer import Coalescer, KeyedCoalescer
from wmlab.dataflow.model.items import MIN, Watermark

ROWS = 1_000_000
INPUTS = (2, 8, 64)
THREADS = 1

Update = tuple[int, Watermark]
"""An input, counted from 0, and the watermark that came on it."""


def run(rows: int | None, runs: int) -> Iterator[str]:
    """The lines of the report."""
    count = ROWS if rows is None else rows
    for inputs in INPUTS:
        yield f"{count:,} updates of {inputs} inputs"
        updates = made_updates(count, inputs, keys=1, seed=inputs)
        timings = measured(
            [
                Contender("wmlab, one key", lambda u=updates, n=inputs: _one_key(u, n)),
                Contender("wmlab, keyed", lambda u=updates, n=inputs: _keyed(u, n)),
                Contender("bare loop, min()", lambda u=updates, n=inputs: _bare(u, n)),
                _two_keys(count, inputs),
            ],
            runs,
        )
        yield table(timings, "wmlab, keyed")
        yield "million updates per second: " + ", ".join(
            f"{timing.name} {count / timing.median / 1e6:.2f}" for timing in timings
        )


def made_updates(count: int, inputs: int, *, keys: int, seed: int) -> list[Update]:
    """Watermarks that rise per key and input, on inputs in no particular order."""
    random = Random(seed)
    at = [[0] * keys for _ in range(inputs)]
    updates: list[Update] = []
    for _ in range(count):
        index, key = random.randrange(inputs), random.randrange(keys)
        at[index][key] += random.randrange(1, 10)
        updates.append((index, Watermark(key, at[index][key])))
    return updates


def _one_key(updates: list[Update], inputs: int) -> Answer:
    coalescer, emitted = Coalescer(inputs), 0
    for index, watermark in updates:
        emitted += coalescer.step(index, watermark) is not None
    return {"coalesced": coalescer.last, "emitted": emitted}


def _keyed(updates: list[Update], inputs: int) -> Answer:
    coalescer, emitted = KeyedCoalescer(inputs), 0
    for index, watermark in updates:
        emitted += len(coalescer.step(index, watermark))
    return {"coalesced": coalescer.keys[0].last, "emitted": emitted}


def _two_keys(count: int, inputs: int) -> Contender:
    updates = made_updates(count, inputs, keys=2, seed=inputs)
    return Contender("wmlab, two keys", lambda: _keyed(updates, inputs), answers=False)


def _bare(updates: list[Update], inputs: int) -> Answer:
    marks = dict.fromkeys(range(inputs), MIN)
    last, emitted = MIN, 0
    for index, watermark in updates:
        marks[index] = watermark.value
        lowest = min(marks.values())
        if lowest > last:
            last = lowest
            emitted += 1
    return {"coalesced": last, "emitted": emitted}
