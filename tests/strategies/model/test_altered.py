"""A strategy with the error of a report next to the right one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import logs, mets_and_xs, trace
from wmlab.core.errors import ModelError
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.altered import Altered
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.engines import Bytewax, Quix, WallClock
from wmlab.strategies.model.strategy import Record, Strategy, Tick, earlier

ANY = st.sampled_from([BoundedOutOfOrderness(3), Quix(2), Bytewax(5), WallClock(4)])


@given(logs(), ANY)
def test_an_error_that_changes_nothing_is_the_strategy_itself(
    records: list[Record], strategy: Strategy[object]
) -> None:
    right = mets_and_xs(strategy, records)
    assert mets_and_xs(Altered(strategy, lambda x, *_: x), records) == right


@given(logs(), ANY)
def test_a_lag_that_is_taken_off_twice_is_later_by_it(records: list[Record], strategy: Strategy[object]) -> None:
    twice = Altered(strategy, lambda x, *_: earlier(x, 7), error="the lag is taken off twice")
    assert mets_and_xs(twice, records) == [
        (earlier(met, 7), earlier(x, 7)) for met, x in mets_and_xs(strategy, records)
    ]


def test_an_error_is_named_in_a_comparison_and_loses_what_the_right_rule_keeps() -> None:
    log = trace([Record(10, 10, "a"), Record(8, 11, "a"), Record(20, 20, "a")])
    right = BoundedOutOfOrderness(5)
    wrong = Altered(right, lambda x, *_: x + 5, error="no bound is taken off")
    outcomes = compare(log, [right, wrong])
    assert [outcome.late for outcome in outcomes] == [0, 1]
    assert (
        outcomes.outcomes[1].name == "Altered(inner=BoundedOutOfOrderness(bound=5 ms), error='no bound is taken off')"
    )
    with pytest.raises(ModelError, match=r"inner: .*got 5"):
        Altered(5, lambda x, *_: x)  # type: ignore[arg-type]


def test_an_error_that_lasts_makes_all_rows_late_from_then_on() -> None:
    """A timer sends the clock while rows of an hour ago are read: a watermark that was sent is sent."""
    rows = [Record(10_000 * number, 3_600_000 + 1_000 * number, "cdc") for number in range(20)]
    clock = Altered(
        BoundedOutOfOrderness(0),
        lambda x, item, last: max(x, last, item.now_ms if isinstance(item, Tick) else x),
        error="a timer sends the clock",
    )
    assert compare(trace(rows), [clock], tick_ms=200)[clock].late == 19
    assert compare(trace(rows), [BoundedOutOfOrderness(0)])[BoundedOutOfOrderness(0)].late == 0
