"""The run that the tests of the checks doctor or vary."""

from __future__ import annotations

from typing import Any

from wmlab.core.recording import Recording
from wmlab.streams.api import Scenario
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream


def recorded(name: str, **fields: Any) -> Recording:
    """A run of two writers, one with delays, and two readers, with other fields."""
    usual: dict[str, Any] = {
        "stream": Stream("orders", segments=2, timestamp_aggregation_timeout_ms=2_000),
        "writers": [EventWriter("w1", rate_per_s=40, delay_mean_ms=200), EventWriter("w2", rate_per_s=40)],
        "readers": ReaderGroup(readers=2, publish_every_ms=500),
        "controllers": Controllers(period_ms=1_000),
        "duration_ms": 8_000,
        "seed": 5,
    }
    return Scenario(name, **(usual | fields)).record(progress=False)
