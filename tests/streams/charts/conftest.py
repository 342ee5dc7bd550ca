"""Tables of bounds for the tests of the charts: hand-made, small, with known answers."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

Bounds = Callable[..., pd.DataFrame]


@pytest.fixture
def bounds() -> Bounds:
    """A function that builds the bounds of one reader over a minute, a row per second.

    The truth is 500 ms behind the clock, lower 1.5 s behind it, upper 1 s ahead; lower is unknown for 3 s, upper in the
    last 2 s, and lower stands still at 30 s from 32 s to 55 s. `start_ms` shifts clock and times; other keyword
    arguments replace columns.
    """

    def build(*, start_ms: int = 0, **columns: object) -> pd.DataFrame:
        rows = []
        for second in range(61):
            lower = None if second < 3 else 30_000 if 32 <= second < 55 else second * 1_000 - 2_000
            rows.append(
                {
                    "stream": "orders",
                    "group": "billing",
                    "at_ms": start_ms + second * 1_000,
                    "lower": None if lower is None else start_ms + lower,
                    "upper": None if second > 58 else start_ms + second * 1_000 + 1_000,
                    "perfect_watermark": start_ms + max(second * 1_000 - 500, 0),
                }
            )
        frame = pd.DataFrame(rows).astype(dict.fromkeys(("lower", "upper", "perfect_watermark"), "Int64"))
        return frame.assign(**columns)

    return build


@pytest.fixture
def happened() -> list[list[dict[str, object]] | None]:
    """A column `happened` for the 61 rows: a split, and a writer that is down for 25 s; said twice, as joins may."""
    entries = [
        {"at_ms": 20_000, "kind": "scale", "what": "0@0 → 2@1, 3@1"},
        {"at_ms": 30_000, "kind": "crash", "what": "w2"},
        {"at_ms": 55_000, "kind": "restart", "what": "w2"},
    ]
    return [[entries[0]], entries, *[None] * 59]
