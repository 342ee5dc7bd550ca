"""The measures of a run are averages over its time."""

from __future__ import annotations

import pyarrow as pa

from tests.streams.answers.runs import owned, written
from wmlab.streams.answers.measures import lags, ownership, slack_ms

BOUNDS = [(100, 50, 70), (200, 90, 90), (400, 90, 90)]


def events(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"append_ms": [at for at, _ in rows], "event_time": [time for _, time in rows]}).cast(
        pa.schema([("append_ms", pa.int64()), ("event_time", pa.int64())])
    )


def test_lag_and_width_are_weighted_by_how_long_they_lasted() -> None:
    assert lags(BOUNDS) == {"lag_ms": 173.3, "worst_lag_ms": 310, "uncertainty_ms": 6.7}
    assert lags([]) == {"lag_ms": None, "worst_lag_ms": None, "uncertainty_ms": None}


def test_slack_is_the_distance_to_the_smallest_time_still_to_come() -> None:
    # From 100 the event of 60 is to come, 10 above the bound; from 150 that of 80, 30 above and from 200 10 below it.
    assert slack_ms(BOUNDS, events((50, 10), (150, 60), (300, 80))) == (50 * 10 + 50 * 30 + 100 * -10) / 200
    assert slack_ms([], events((50, 10))) is None
    assert slack_ms(BOUNDS, events()) is None
    assert slack_ms(BOUNDS, events((90, 10))) is None


def test_a_bucket_may_change_hands_in_the_first_millisecond_of_1970() -> None:
    recording = written(ownership=[owned(0, "c1", -100, 0), owned(1, "c2", -50, None)])
    assert ownership(recording).share == {"c1": 100 / 150, "c2": 50 / 150}
