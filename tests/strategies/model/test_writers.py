"""The least over writers, and the perfect watermark."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import by_writer, late, logs, rising, top, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, PerfectWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run
from wmlab.strategies.model.writers import PerWriterMinimum


@given(logs(), st.integers(0, 100), st.one_of(st.none(), st.integers(1, 1_000)), st.booleans())
def test_it_is_the_least_over_the_writers_that_are_not_idle(
    records: list[Record], bound: int, idle_ms: int | None, declared: bool
) -> None:
    writers = ("a", "b", "c", "d") if declared else ()

    def watermark(seen: list[Record]) -> int:
        silent = {writer: [Record(UNKNOWN + bound, seen[0].arrival_ms)] for writer in writers}
        owns = (silent | by_writer(seen)).values()
        active = [own for own in owns if idle_ms is None or seen[-1].arrival_ms - own[-1].arrival_ms <= idle_ms]
        return min((top(own) - bound for own in active), default=UNKNOWN)

    assert xs(PerWriterMinimum(bound, idle_ms, writers), records) == rising(records, watermark)


@given(logs())
def test_nothing_is_late_where_each_writer_is_in_order_and_known(records: list[Record]) -> None:
    tops: dict[str, int] = {}
    ordered = []
    for record in records:
        tops[record.writer] = max(tops.get(record.writer, 0), record.event_time)
        ordered.append(record._replace(event_time=tops[record.writer]))
    strategy = PerWriterMinimum(writers=("a", "b", "c"))
    assert late(strategy, ordered) == 0
    assert all(x <= p for x, p in zip(xs(strategy, ordered), _perfect(ordered), strict=True))


@given(logs())
def test_one_writer_is_bounded_out_of_orderness_and_a_longer_timeout_is_never_ahead(records: list[Record]) -> None:
    alone = [record._replace(writer="a") for record in records]
    assert xs(PerWriterMinimum(7), alone) == xs(BoundedOutOfOrderness(7), alone)
    short, longer = xs(PerWriterMinimum(0, 100), records), xs(PerWriterMinimum(0, 300), records)
    assert all(a >= b for a, b in zip(short, longer, strict=True))
    assert all(a >= b for a, b in zip(longer, xs(PerWriterMinimum(), records), strict=True))


@given(logs(), st.integers(0, 60))
def test_a_run_that_is_split_is_one_run(records: list[Record], place: int) -> None:
    strategy = PerWriterMinimum(5, 200)
    state, x = strategy.start(), UNKNOWN
    for record in records[:place]:
        state, x, _ = strategy.step(state, record)
    state = copy.deepcopy(state)
    for record in records[place:]:
        state, x, _ = strategy.step(state, record)
    assert [x] == ([UNKNOWN, *xs(strategy, records)])[-1:]


def test_ticks_see_silence() -> None:
    assert xs(PerWriterMinimum(), [Record(10, 0, "a"), Record(90, 1, "b"), EndOfInput()])[-1] == END
    ticks = [Record(10, 0, "a"), Record(90, 50, "b"), Tick(100), Tick(101)]
    assert xs(PerWriterMinimum(idle_ms=100), ticks) == [10, 10, 10, 90]


def test_while_all_are_idle_x_stays_and_the_first_to_come_back_moves_it() -> None:
    log = [Record(10, 0, "a"), Record(90, 0, "b"), Tick(101), Record(95, 102, "b")]
    assert xs(PerWriterMinimum(idle_ms=100), log) == [10, 10, 10, 95]


@given(logs())
def test_the_perfect_watermark_is_the_least_time_to_come(records: list[Record]) -> None:
    times = [record.event_time for record in records]
    steps = list(run(PerfectWatermark.of(times), records))
    assert [step.x for step in steps] == _perfect(records)
    assert [step.met for step in steps] == [min(times[index:]) for index in range(len(times))]


def test_the_perfect_watermark_knows_no_other_log() -> None:
    strategy = PerfectWatermark.of([3, 1])
    with pytest.raises(ModelError, match="Record 2 with event time 2"):
        list(run(strategy, [Record(3, 0), Record(2, 0)]))
    with pytest.raises(ModelError, match="Record 3"):
        list(run(strategy, [Record(3, 0), Record(1, 0), Record(1, 0)]))
    assert xs(strategy, [Record(3, 0), Tick(9), EndOfInput()]) == [1, 1, END]


def _perfect(records: list[Record]) -> list[int]:
    return [min((r.event_time for r in records[index + 1 :]), default=END) for index in range(len(records))]
