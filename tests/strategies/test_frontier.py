"""The frontier of a log: every bound in one pass, exact to the row against running each of them."""

from __future__ import annotations

from statistics import median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import late, logs
from tests.strategies.over import trace
from wmlab.core.errors import ModelError
from wmlab.strategies import lateness
from wmlab.strategies.lateness import frontier
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.strategy import Record

records_of = logs(times=40).filter(bool)


@given(records_of)
def test_the_late_records_of_every_bound_are_those_of_its_run(records):
    found = frontier(trace(records))
    bounds = range(45)
    runs = [late(BoundedOutOfOrderness(bound), records) for bound in bounds]
    assert found.late(np.arange(45)).tolist() == runs == [found.late(bound) for bound in bounds]
    assert found.late_share(3) == runs[3] / len(records)


@given(records_of)
def test_values_spread_widely_are_sorted_and_found_the_same(records):
    dense = frontier(trace(records)).to_dict()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lateness, "_DENSE", 0)
        assert frontier(trace(records)).to_dict() == dense
        patch.setattr(lateness, "_DENSE", 1_000)
        assert frontier(trace(records)).to_dict() == dense


@given(records_of, st.sampled_from(["writer", "key"]))
def test_with_a_watermark_for_each_group_every_group_is_a_log_of_its_own(records, by):
    found = frontier(trace(records), by)
    alone = {
        name: frontier(trace([record for record in records if getattr(record, by) == name]))
        for name in {getattr(record, by) for record in records}
    }
    assert {name: part.to_dict() | {"name": ""} for name, part in found.groups.items()} == {
        name: part.to_dict() | {"name": ""} for name, part in alone.items()
    }
    for bound in (0, 1, 7, 40):
        assert found.late(bound) == sum(part.late(bound) for part in alone.values())


@given(records_of, st.floats(0, 1))
def test_the_bound_of_a_share_is_the_least_that_keeps_it(records, share):
    found = frontier(trace(records))
    bound = found.bound_ms(share)
    assert found.late(bound) <= share * found.rows
    assert bound == 0 or found.late(bound - 1) > share * found.rows


@given(records_of)
def test_the_lag_is_the_median_of_arrival_less_x(records):
    lags = [record.arrival_ms - max(r.event_time for r in records[: n + 1]) for n, record in enumerate(records)]
    assert frontier(trace(records)).lag_ms(9) == median_low(lags) + 9


def test_a_frontier_states_itself_and_is_a_table():
    found = frontier(trace([Record(10, 10, "a"), Record(4, 11, "a"), Record(7, 12, "a"), Record(4, 13, "b")]))
    assert repr(found) == (
        "Of 4 records of 'log', 75.000% are late for B = 0, at most 1% for B = 6 ms, at most 0.1% for B = 6 ms, and "
        "none for B = 6 ms."
    )
    assert found.to_pandas().to_dict("list") == {"bound_ms": [0, 3, 6], "late": [3, 2, 0], "late_share": [0.75, 0.5, 0]}
    assert "2 records are in order" in repr(frontier(trace([Record(1, 1, "a"), Record(1, 2, "a")])))


@pytest.mark.parametrize("ask", [lambda f: f.late(-1), lambda f: f.bound_ms(1.5), lambda f: f.bound_ms(-0.1)])
def test_what_is_no_bound_or_no_share_is_refused(ask):
    with pytest.raises(ModelError):
        ask(frontier(trace([Record(1, 1, "a")])))


def test_there_are_groups_by_writer_and_key_only():
    with pytest.raises(ModelError, match="no groups by 'arrival_ms'"):
        frontier(trace([Record(1, 1, "a")]), by="arrival_ms")
    with pytest.raises(ModelError, match="'dengue' is no trace"):
        frontier("dengue")
