"""A run with something of everything for the tests of moments: a split, a rolling transaction, a crash."""

from __future__ import annotations

from functools import cache

import wmlab as wm
from wmlab.core.recording import Recording

LENGTH_MS = 30_000


@cache
def everything(start_ms: int = 0) -> Recording:
    """Thirty seconds; nothing chance-dependent is asserted of it but what its tables say."""
    return wm.Scenario(
        name="everything",
        stream=wm.Stream("orders", segments=2, timestamp_aggregation_timeout_ms=5_000),
        writers=[
            wm.EventWriter("w1", rate_per_s=40, note_every_ms=1_000),
            wm.EventWriter("w2", rate_per_s=20, note_every_ms=1_000, clock=wm.Clock(skew_ms=300)),
            wm.TransactionalWriter("t1", rate_per_s=10, every_ms=2_000, commit_latency_ms=400),
        ],
        readers=wm.ReaderGroup("billing", readers=2, rate_per_s=20),
        controllers=wm.Controllers(2, period_ms=1_000),
        script=[
            wm.script.Scale(at_ms=8_000, seal=["0@0"], into=2),
            wm.script.CrashWriter(at_ms=12_000, writer="w2", restart_after_ms=10_000),
        ],
        start_ms=start_ms,
        duration_ms=LENGTH_MS,
        seed=3,
    ).record(progress=False)


@cache
def unread() -> Recording:
    """Five seconds in which nobody reads."""
    return wm.Scenario(
        name="unread",
        stream=wm.Stream("orders"),
        writers=[wm.EventWriter("w1", rate_per_s=10)],
        duration_ms=5_000,
        seed=1,
    ).record(progress=False)
