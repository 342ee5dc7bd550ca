"""Strategies over one log: every measure against its definition, row by row."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies.model.logs import Clock, logs, trace
from wmlab.core.errors import ModelError
from wmlab.strategies import comparison
from wmlab.strategies.comparison import compare
from wmlab.strategies.model.bounded import BoundedOutOfOrderness, PerfectWatermark, StreamTime
from wmlab.strategies.model.engines import Quix
from wmlab.strategies.model.strategy import END, UNKNOWN, Record, Tick
from wmlab.strategies.model.writers import PerWriterMinimum

WINDOW = 10
records_of = logs(times=60).filter(bool)
STRATEGIES = (BoundedOutOfOrderness(0), BoundedOutOfOrderness(7), PerWriterMinimum(writers=("a", "b", "c")))
any_strategy = st.sampled_from([*STRATEGIES, Quix(0), Clock(), None])  # None: the perfect watermark of the log


def stepped(strategy, records, tick_ms):
    """For each record the X it meets and the X after it, by hand: a tick comes after the records of its moment."""
    state, x, due, found = strategy.start(), UNKNOWN, records[0].arrival_ms, []
    for record in records:
        while due < record.arrival_ms:
            state, x, _ = strategy.step(state, Tick(due))
            due += tick_ms
        met = strategy.met(state, x, record)
        state, x, _ = strategy.step(state, record)
        found.append((met, x))
    return found


def quantile(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


@given(records_of, any_strategy, st.integers(1, 50))
@settings(deadline=None)
def test_every_measure_is_what_its_definition_says(records, strategy, tick_ms):
    strategy = strategy or PerfectWatermark.of(record.event_time for record in records)
    n, steps = len(records), stepped(strategy, records, tick_ms)
    (found,) = compare(trace(records), [strategy], window_ms=WINDOW, tick_ms=tick_ms)
    same = [[not strategy.keyed or a.key == b.key for b in records] for a in records]
    late = [record.event_time < met for record, (met, _) in zip(records, steps, strict=True)]
    assert (found.late, found.late_share) == (sum(late), sum(late) / n)
    lags = [r.arrival_ms - x for r, (_, x) in zip(records, steps, strict=True) if x not in (UNKNOWN, END)]
    assert (found.lag_p50_ms, found.lag_p95_ms, found.lag_max_ms) == tuple(quantile(lags, q) for q in (0.5, 0.95, 1))
    least = [min((r.event_time for j, r in enumerate(records) if j > i and same[i][j]), default=END) for i in range(n)]
    gaps = [p - x for p, (_, x) in zip(least, steps, strict=True) if p != END and x not in (UNKNOWN, END)]
    assert found.gap_p50_ms == quantile(gaps, 0.5)
    assert found.unsafe_share == pytest.approx(sum(x > p for p, (_, x) in zip(least, steps, strict=True)) / n)
    assert found.stall_ms == stall(records, steps, same)
    windows(found, records, steps, same)


def stall(records, steps, same):
    longest = 0
    for i, record in enumerate(records):
        since = record.arrival_ms
        for j in range(i - 1, -1, -1):
            if same[i][j] and since is not None:
                longest = max(longest, record.arrival_ms - records[j].arrival_ms)
                since = None if not standing(j, steps, same) else since
    return longest


def standing(j, steps, same):
    """Whether X after record j is the X after the record before it, of its group."""
    earlier = [k for k in range(j) if same[j][k]]
    return bool(earlier) and steps[earlier[-1]][1] == steps[j][1]


def windows(found, records, steps, same):
    ends = [(r.event_time // WINDOW + 1) * WINDOW for r in records]
    counted = [met < end for end, (met, _) in zip(ends, steps, strict=True)]
    names = sorted({(r.key, end) for r, end in zip(records, ends, strict=True)})
    rows = {name: [i for i, r in enumerate(records) if (r.key, ends[i]) == name] for name in names}
    complete = [sum(counted[i] for i in mine) / len(mine) for mine in rows.values()]
    assert found.complete_mean == pytest.approx(sum(complete) / len(complete))
    assert found.complete_least == pytest.approx(min(complete))
    open_at = [
        sum(
            any(counted[i] for i in mine if i <= at)
            and not any(steps[j][1] >= end and (j == mine[0] or same[mine[0]][j]) for j in range(at + 1))
            for (_, end), mine in rows.items()
        )
        for at in range(len(records))
    ]
    assert found.open_max == max(open_at)


def test_the_worst_stretch_slides_record_by_record(monkeypatch):
    monkeypatch.setattr(comparison, "CONSECUTIVE", 3)
    times = [50, 60, 1, 70, 2, 3, 80, 90, 4]
    (found,) = compare(trace([Record(t, n, "a") for n, t in enumerate(times)]), [BoundedOutOfOrderness(0)])
    assert (found.late, found.worst_late_share) == (4, pytest.approx(2 / 3))


def test_windows_are_told_apart_however_far_their_times_are():
    far = [Record(0, 0, "a", "k1"), Record(5 * 10**18, 1, "a", "k1"), Record(5 * 10**18, 2, "a", "k2")]
    for key in range(200):
        far.append(Record(5 * 10**18 + 1 + key, 3 + key, "a", f"n{key}"))
    (found,) = compare(trace(far), [BoundedOutOfOrderness(0)], window_ms=1)
    assert (found.complete_mean, found.complete_least, found.late) == (1, 1, 0)


def test_a_distance_beyond_64_bits_is_refused_with_its_record():
    log = trace([Record(5, 10, "a"), Record(6 * 10**18, 11, "a"), Record(-4 * 10**18, 12, "a")])
    with pytest.raises(ModelError, match="-4000000000000000000 and 6000000000000000000, of record 2 in order of arr"):
        compare(log, [BoundedOutOfOrderness(0)])
    with pytest.raises(ModelError, match=r"watermark -9223372036854775809 after record 1(?s:.*)within 64 bits"):
        compare(trace([Record(1, 0, "a")]), [Clock(2**63 + 1)])


def test_without_windows_nothing_is_said_of_them_and_the_clock_can_be_switched_off():
    first, second = records = [Record(5, 10, "a"), Record(6, 30, "a")]
    still, ticking = both = [compare(trace(records), [Clock()], tick_ms=tick_ms) for tick_ms in (0, 1)]
    assert [(outcome.complete_mean, outcome.open_max) for (outcome,) in both] == [(None, None)] * 2
    # Without ticks the second record meets the clock of the first arrival, with them that of a moment before its own.
    for found, met in ((still, first.arrival_ms), (ticking, second.arrival_ms - 1)):
        late = found.late_rows()
        assert late[["row", "met", "late_by_ms"]].values.tolist() == [[2, met, met - second.event_time]]
        assert [(outcome.late, outcome.lag_max_ms) for outcome in found] == [(1, 0)]


def test_a_strategy_that_never_gave_a_watermark_is_not_called_the_best_and_of_many_writers_two_are_named():
    silent = PerWriterMinimum(writers=tuple("abcde"))
    found = compare(trace([Record(10, 10, "a"), Record(4, 11, "a"), Record(20, 12, "a")]), [silent, StreamTime(0)])
    assert [(outcome.late, outcome.lag_p50_ms) for outcome in found] == [(0, None), (1, 0)]
    assert found.sentence == "None misses fewer records than StreamTime(grace=0 ms), 33.333%, with a median lag of 0 s."
    assert found.facts["without a watermark"] == "PerWriterMinimum(writers=('a', …, 'e'))"
    assert found[silent].name == "PerWriterMinimum(writers=('a', …, 'e'))"


def test_a_strategy_that_loses_the_least_and_is_the_least_behind_is_named_once():
    log = trace([Record(10, 10, "a"), Record(4, 11, "a"), Record(20, 12, "a")])
    best, worse = BoundedOutOfOrderness(0), BoundedOutOfOrderness(1)
    assert compare(log, [best, worse]).sentence == (
        "None misses fewer records than BoundedOutOfOrderness(bound=0 ms), 33.333%, with a median lag of 0 s."
    )
    assert compare(log, [best]).sentence.count("BoundedOutOfOrderness") == 1


def test_a_comparison_states_itself_and_is_a_table_and_one_row_a_late_record():
    log = trace([Record(10, 10, "a", "k"), Record(4, 11, "b", "k"), Record(20, 50, "a", "k")])
    found = compare(log, [BoundedOutOfOrderness(0), BoundedOutOfOrderness(6), PerWriterMinimum()])
    assert found.sentence == (
        "None misses fewer records than BoundedOutOfOrderness(bound=6 ms), 0.000%, with a median lag of 7 ms. "
        "None of use lags less than BoundedOutOfOrderness(bound=0 ms), 1 ms, and it misses 33.333%."
    )
    assert found.sentence in repr(found).replace("\n", " ")
    assert "PerWriterMinimum()" in found._repr_html_()
    frame = found.to_pandas()
    assert frame["late"].tolist() == [found[o.strategy].late for o in found] == [1, 0, 1]
    rows = found.late_rows().to_dict("records")
    assert len(rows) == 2
    assert rows[0] == {
        "strategy": "BoundedOutOfOrderness(bound=0 ms)",
        "row": 2,
        "event_time": 4,
        "arrival_ms": 11,
        "writer": "b",
        "key": "k",
        "met": 10,
        "x": 10,
        "perfect": 20,
        "late_by_ms": 6,
        "lost": None,
    }
    with pytest.raises(ModelError, match="was not compared"):
        found[StreamTime(1)]


def test_what_is_ahead_of_the_arrivals_is_not_called_the_least_behind():
    ahead = [Record(60_000 * n + 86_400_000 * (n == 3), 60_000 * n, "a") for n in range(13)]
    alone = compare(trace(ahead), [BoundedOutOfOrderness(60_000)])
    assert alone.sentence == "No strategy is of use for log. Records have wrong times: 1."
    assert (alone.facts["wrong times of"], alone.facts["ahead by"]) == ("a", 23 * 3_600_000 + 53 * 60_000)
    assert alone.facts["ahead"] == "BoundedOutOfOrderness(bound=60 s)"
    found = compare(trace(ahead), [BoundedOutOfOrderness(n) for n in (0, 1, 2, 3)] + [Clock(5_000), Clock(90_000)])
    assert found.headline == "None misses fewer records than Clock(behind=5 s), 0.000%, with a median lag of 5.0 s."
    assert len(found.facts["ahead"]) == 4


def test_a_clock_of_arrivals_that_is_slow_makes_no_watermark_unusable():
    slow = trace([Record(60_000 * n + 600_000, 60_000 * n + 300_000, "a") for n in range(20)])
    found = compare(slow, [BoundedOutOfOrderness(0), BoundedOutOfOrderness(60_000)])
    assert "bound=0 ms), 0.000%, with a median lag of −5 min." in found.sentence


def test_what_loses_most_records_is_not_the_least_behind():
    early = trace([Record(1_000 * n, 1_000 * n + 500, "a") for n in range(20)])
    found = compare(early, [Clock(0), BoundedOutOfOrderness(0), BoundedOutOfOrderness(9_000)])
    assert found[Clock(0)].late_share > 0.9
    assert found.facts["misses least"] == "BoundedOutOfOrderness(bound=0 ms)"
    assert "lags least" not in found.facts
    assert found.facts["misses most records"] == found[Clock(0)].name


def test_every_column_of_the_table_is_explained_beside_it():
    log = trace([Record(10, 10, "a")])
    found = compare(log, [StreamTime(0)], window_ms=5)
    assert tuple(found.columns) == found.heads
    without = repr(compare(log, [StreamTime(0)]))
    for head in ("lost", "complete", "open", "never closed", "result after"):
        assert head in repr(found)
        assert head not in without
    assert repr(found).endswith("What each column says: .columns")
    assert all(text in found._repr_html_() for text in ("<details>", "<b>stall</b>: the longest time for which X"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategies": []},
        {"strategies": [StreamTime]},
        {"strategies": "flink"},
        {"trace": "dengue"},
        {"window_ms": 0},
        {"window_ms": "1 hour"},
        {"tick_ms": -1},
        {"tick_ms": 0.5},
    ],
)
def test_what_cannot_be_compared_is_refused(wrong):
    ((name, _),) = wrong.items()
    with pytest.raises(ModelError, match="is not a trace" if name == "trace" else f"{name}( is |: )"):
        compare(**({"trace": trace([Record(1, 1, "a")]), "strategies": [StreamTime(0)]} | wrong))


def test_more_ticks_than_memory_holds_are_refused():
    log = trace([Record(1, 1, "a"), Record(2, 10**12, "a")])
    with pytest.raises(ModelError, match=r"tick_ms is 5, for 199 999 999 999 ticks(?s:.*)Give 100000 or more"):
        compare(log, [StreamTime(0)], tick_ms=5)


def test_one_strategy_needs_no_list():
    log = trace([Record(1, 1, "a")])
    assert compare(log, StreamTime(0)).to_dict() == compare(log, [StreamTime(0)]).to_dict()


LOG = [Record(n * 7 % 40, n, "ab"[n % 2]) for n in range(60)]


def test_beside_others_a_strategy_gives_what_it_gives_alone():
    class Local(StreamTime):
        """A strategy of the caller."""

    strategies = [StreamTime(0), Local(3), PerWriterMinimum()]
    together = compare(trace(LOG), strategies).to_dict()["outcomes"]
    assert together == [compare(trace(LOG), strategy).to_dict()["outcomes"][0] for strategy in strategies]


def test_what_a_strategy_raises_is_raised():
    class Refusing(StreamTime):
        def step(self, state, given):
            raise ModelError("No.", remedy="None.")

    with pytest.raises(ModelError, match="No"):
        compare(trace(LOG), [StreamTime(0), Refusing(1)])
