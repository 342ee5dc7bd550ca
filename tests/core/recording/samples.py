"""Small tables for the tests of recordings."""

from __future__ import annotations

from typing import Any

from wmlab.open import Recording
from wmlab.streams.recording import StreamRecording

WRITERS = [{"name": "w1", "rate_per_s": 2.5}]
SCENARIO = {"name": "split under load", "writers": WRITERS, "seed": None, "note": "0@0 → 2@1"}


def segments() -> list[dict[str, Any]]:
    names = [{"stream": "orders", "segment_id": number, "number": number, "epoch": 0} for number in range(2)]
    keys = [{"low": n / 2, "high": (n + 1) / 2, "keys": f"{n}/2..{n + 1}/2"} for n in range(2)]
    times = [{"created_ms": 0, "sealed_ms": sealed_ms} for sealed_ms in (2**53 + 1, None)]
    return [name | key | time for name, key, time in zip(names, keys, times, strict=True)]


def events(count: int = 4) -> list[dict[str, Any]]:
    return [
        {"stream": "orders", "segment_id": n % 2, "offset": 100 * (n + 1)}
        | {"event_time": 10 * n, "append_ms": 10 * n + 3, "writer": f"w{n % 3}"}
        for n in range(count)
    ]


def watermarks() -> list[dict[str, Any]]:
    bounds = {"lower": 10, "upper": 20, "cut": {0: 100, 1: None}, "writers": {"w1": 10, "w2": 20}}
    return [{"stream": "orders", "seq": 0} | bounds | {"controller": "c1", "emitted_ms": 25, "revision": 48}]


def recording(**changes: Any) -> Recording:
    """A recording with three filled tables, a scenario and a seed."""
    settings: dict[str, Any] = {"name": "split under load", "scenario": SCENARIO, "seed": 7}
    tables = {"segments": segments(), "events": events(), "watermarks": watermarks()}
    return StreamRecording.from_tables(tables, **(settings | changes))
