"""What the strategies make of the traces that come with wmlab.

The figures of reference are late share, late share of the worst 2,000 records in a row, and median lag, as measured for
a target of 1 % by another program. What differs is in how a quantile is defined for small samples: at `QUAKES`, 341
records of sample and 1,707 in all, the constant bound loses 18.75 % here and 18.98 % there, ACI 1.70 % and 1.76 %.
"""

from __future__ import annotations

from typing import Any

import pytest

from wmlab.core.traces import Trace, load
from wmlab.strategies.comparison import compare
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.conformal import ConformalWatermark
from wmlab.strategies.model.percentiles import WindowedPercentile

DAY_S = 86_400
SLIDING = WindowedPercentile(0.99, hold=50)
ACI = ConformalWatermark(0.01, hold=100)


@pytest.mark.parametrize(
    ("name", "strategy", "late", "worst", "lag_s"),
    [
        ("flights", None, 0.71, 6.85, 22_080),
        ("flights", SLIDING, 1.03, 2.80, 21_420),
        ("flights", ACI, 1.00, 1.50, 21_480),
        ("dengue", None, 0.50, 1.30, 49 * DAY_S),
        ("dengue", SLIDING, 0.84, 1.65, 42 * DAY_S),
        ("dengue", ACI, 1.00, 1.70, 35 * DAY_S),
        ("quakes", None, 18.98, None, 84_905),
        ("quakes", SLIDING, 5.86, None, 174_370),
        ("quakes", ACI, 1.76, None, 288_790),
    ],
)
def test_late_shares_and_lags_are_those_of_the_reference(
    name: str, strategy: Any, late: float, worst: float | None, lag_s: int
) -> None:
    log = load(name)
    first_fifth = Trace(name, log.table.slice(0, log.rows // 5))
    (found,) = compare(log, strategy or BoundedOutOfOrderness(lateness_curve(first_fifth).bound_ms(0.01)), tick_ms=0)
    # Of 1,707 records one is 0.06 %, of a median lag of 85,000 s the distance to the next record is 1,000 s.
    few = log.rows < 10_000
    assert 100 * found.late_share == pytest.approx(late, abs=0.25 if few else 0.005)
    assert worst is None or 100 * found.worst_late_share == pytest.approx(worst)
    assert found.lag_p50_ms / 1_000 == pytest.approx(lag_s, rel=0.03 if few else 0)
