"""What a writer has to write: when each event happens, when it can be sent, and its routing key.

A synthetic load is a Poisson process drawn as whole arrays; a real trace is the same arrays, read from a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wmlab.core.clock import generator
from wmlab.streams.model.keyspace import KeyRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.streams.scenario.parts import EventWriter
    from wmlab.streams.scenario.scenario import StreamScenario
    from wmlab.streams.scenario.transactional import TransactionalWriter

_KEYS = 2**64


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Events of one writer in the order in which they happen; all arrays have one entry per event.

    `happens_ms` and `arrives_ms` are simulated clock time in ms, `key` is the event's place in key space as a
    multiple of 2**-64.
    """

    happens_ms: NDArray[np.int64]
    arrives_ms: NDArray[np.int64]
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.happens_ms)

    def __repr__(self) -> str:
        return f"Load({len(self):,} events)"

    @staticmethod
    def of(happens_ms: NDArray[np.int64], arrives_ms: NDArray[np.int64], key: NDArray[np.uint64]) -> Load:
        """Events in any order; those that happen together keep the order given."""
        order = np.argsort(happens_ms, kind="stable")
        return Load(happens_ms[order], arrives_ms[order], key[order])


def synthetic(writer: EventWriter | TransactionalWriter, scenario: StreamScenario) -> Load:
    """Draw the load of a writer with `rate_per_s`: Poisson events, exponential delays, uniform keys in its range."""
    first = scenario.start_ms + writer.starts_ms
    span = max(0, scenario.start_ms + scenario.duration_ms - first)
    draws = generator(scenario.seed, f"load of {writer.name}")
    count = int(draws.poisson((writer.rate_per_s or 0.0) * span / 1_000))
    # Normalised sums of exponential gaps are sorted uniform draws, without the sort.
    sums = np.cumsum(draws.exponential(size=count + 1))
    happens = first + (sums[:-1] / sums[-1] * span).astype(np.int64)
    delays = (draws.exponential(size=count) * writer.delay_mean_ms).astype(np.int64)
    keys = KeyRange.parse(writer.keys)
    low, high = (-(-bound.numerator * _KEYS // bound.denominator) for bound in (keys.low, keys.high))
    key = draws.integers(low, high, size=count, dtype=np.uint64)
    return Load(happens, happens + delays, key)
