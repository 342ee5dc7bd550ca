"""What a writer has to write: when each event happens, when it can be sent, and its routing key.

A synthetic load is a Poisson process drawn as whole arrays; a real trace is the same arrays, read from a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wmlab.sim.draws import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmlab.scenario import EventWriter, Scenario


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


def synthetic(writer: EventWriter, scenario: Scenario, *, name: str | None = None, from_ms: int | None = None) -> Load:
    """Draw the load of a writer with `rate_per_s`: Poisson events, exponential delays, uniform keys.

    A second process of the writer has a `name` of its own to draw by, and begins at `from_ms` of simulated time.
    """
    first = scenario.start_ms + writer.starts_ms if from_ms is None else from_ms
    span = max(0, scenario.start_ms + scenario.duration_ms - first)
    draws = generator(scenario.seed, f"load of {name or writer.name}")
    count = int(draws.poisson((writer.rate_per_s or 0.0) * span / 1_000))
    # Normalised sums of exponential gaps are sorted uniform draws, without the sort.
    sums = np.cumsum(draws.exponential(size=count + 1))
    happens = first + (sums[:-1] / sums[-1] * span).astype(np.int64)
    delays = (draws.exponential(size=count) * writer.delay_mean_ms).astype(np.int64)
    key = draws.integers(0, 2**64, size=count, dtype=np.uint64)
    return Load(happens, happens + delays, key)
