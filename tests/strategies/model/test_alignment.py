"""Flink's alignment against plain statements of it, and what each of its known errors loses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import logs
from wmlab.strategies.model import alignment
from wmlab.strategies.model.alignment import Alignment, AlignmentRule, Reads
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Input, Record, SourceEnd, Tick

BUFFERS = st.sampled_from([0, 1, 3])
END_OF_INPUT = EndOfInput()
RULES: tuple[AlignmentRule, ...] = get_args(AlignmentRule)


def reads(group: Alignment, inputs: list[Any], last: Input = END_OF_INPUT) -> Reads:
    """Everything that is read over a log and with the last input, with the X that it met."""
    state, found = group.start(), []
    for item in [*inputs, last]:
        state, read = group.step(state, item)
        found += read
    return found


def late(read: Reads) -> list[Record]:
    return [record for record, met in read if record.event_time < met]


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 99), min_size=1), st.integers(0, 9))
def test_a_group_reads_as_far_as_its_least_report_and_the_drift(reports: dict[Any, int], drift: int) -> None:
    limit = alignment.limit(reports, drift)
    assert all(limit <= report + drift for report in reports.values())
    assert any(limit == report + drift for report in reports.values())
    assert alignment.limit({0: END}, drift) == END
    assert [alignment.paused(mark, limit) for mark in (limit - 1, limit, limit + 1)] == [False, False, True]


def test_the_clock_of_a_source_with_one_split_runs_on_until_flink_36751_is_mended() -> None:
    for rule, waiting in {"fixed": (False, False), "flink_36751": (True, False), "flink_35886": (True, True)}.items():
        assert tuple(alignment.clock_runs(True, splits, rule) for splits in (1, 2)) == waiting  # type: ignore[arg-type]
        assert alignment.clock_runs(False, 1, rule)  # type: ignore[arg-type]


def test_flink_37670_a_source_with_all_its_splits_waits_at_the_last_limit_that_it_heard() -> None:
    for rule, waits in (("fixed", False), ("flink_37670", True)):
        known = alignment.known_limit(END, 20, rule=rule)  # type: ignore[arg-type]
        known = alignment.known_limit(known, 90, assigned=True, rule=rule)  # type: ignore[arg-type]
        assert alignment.paused(50, known) == waits


FAST = [Record(time, at, "a") for time, at in ((0, 0), (100, 1_100), (101, 1_200), (102, 1_300))]
SLOW = [Record(time, at, "b") for time, at in ((0, 0), (10, 1_100), (20, 2_100), (90, 6_100), (99, 9_100))]


def test_a_record_meets_the_least_of_the_largest_times_less_the_bound() -> None:
    log: list[Input] = [Record(20, 0, "a"), Record(30, 10, "b"), Record(40, 250, "a"), Record(50, 450, "a")]
    found = reads(Alignment(drift=100, update_ms=100, bound=3), log)
    assert [met for _, met in found] == [UNKNOWN, 17, 17, 27]


@pytest.mark.parametrize(
    ("buffer", "read_at"), [(0, [7_000] * 3), (1, [1_200, 1_300, 7_000]), (2, [1_200, 1_300, 2_500])]
)
def test_a_source_waits_by_its_watermark_of_some_announcements_ago(buffer: int, read_at: list[int]) -> None:
    log = sorted([*FAST, *SLOW, Record(103, 2_500, "a")], key=lambda record: record.arrival_ms)
    found = [record.arrival_ms for record, _ in reads(Alignment(20, buffer=buffer), [*log]) if record.writer == "a"]
    assert found == [0, 1_100, *read_at]


def test_an_announcement_comes_before_a_record_of_its_moment() -> None:
    log: list[Input] = [Record(0, 0, "b"), Record(100, 900, "a"), Record(101, 1_000, "a")]
    assert [record.arrival_ms for record, _ in reads(Alignment(20), log)] == [0, 900, 2_000]


def test_the_clock_of_idleness_stands_still_while_a_split_waits() -> None:
    split = alignment.AlignedSource()
    alignment.advance_split(split, 50, now=0)
    for now, split.limit in ((5, 10), (20, 10), (40, 10), (45, 60)):
        alignment.check_split(split, now)
    for now, idle in ((55, False), (56, True)):
        alignment.find_idle(split, now, idle_ms=15)
        assert split.idle == idle


def test_a_source_waits_even_if_it_is_idle() -> None:
    slow = [Record(time, at, "b") for time, at in ((10, 1_500), (11, 1_900), (12, 2_400), (13, 2_900), (90, 3_400))]
    log = [Record(100, 0, "a"), *slow, Record(91, 3_900, "b"), Record(105, 2_500, "a")]
    found = reads(Alignment(20, idle_ms=500), sorted(log, key=lambda record: record.arrival_ms))
    assert [record.arrival_ms for record, _ in found if record.writer == "a"] == [0, 4_000]


@pytest.mark.parametrize("rule", ["flink_35886", "flink_36751"])
def test_a_source_that_falls_idle_while_it_waits_loses_its_records(rule: Any) -> None:
    # "a" waits at 100 for "b", which jumps to 500 before "a" hears that it may go on to 101 and 102.
    slow = [Record(0, 0, "b"), *[Record(20 + n, 1_100 + 500 * n, "b") for n in range(7)]]
    log: list[Input] = sorted([*FAST, *slow, Record(500, 4_500, "b")], key=lambda record: record.arrival_ms)
    assert late(reads(Alignment(20, idle_ms=2_000), log)) == []
    lost = late(reads(Alignment(20, idle_ms=2_000, rule=rule), log))
    assert [record.event_time for record in lost] == [101, 102]


def test_a_source_that_is_found_idle_when_it_has_to_wait_is_not_resumed() -> None:
    # "b" comes back with a time that brings the limit below "a", which has just become quiet for too long.
    log: list[Input] = [Record(100, 0, "a"), Record(10, 900, "b"), Record(110, 1_500, "a"), Record(200, 2_500, "b")]
    for rule, read in (("fixed", [100, 10, 200, 110]), ("flink_40093", [100, 10, 200])):
        assert [r.event_time for r, _ in reads(Alignment(20, idle_ms=500, rule=rule), log)] == read  # type: ignore[arg-type]


def test_an_idle_source_and_one_without_splits_hold_the_others_by_a_known_error_only() -> None:
    log: list[Input] = [Record(0, 0, "b"), *[Record(10 * n, 500 * n, "a") for n in range(1, 20)]]
    # The silent "b" is done when the log ends, so what is read until then counts.
    for rule, read in (("fixed", 20), ("flink_32496", 4)):
        found = reads(Alignment(20, idle_ms=2_000, rule=rule), log)  # type: ignore[arg-type]
        assert sum(record.arrival_ms <= 9_500 for record, _ in found) == read
    assert len(reads(Alignment(20, writers=("a", "b", "c")), log)) == 20
    assert len(reads(Alignment(20, writers=("a", "b", "c"), rule="flink_32414"), log)) < 20


@given(logs(), st.sampled_from([0, 30, 2_000]), st.sampled_from([None, 400, 1_500]), BUFFERS, st.sampled_from(RULES))
def test_sources_are_read_in_order_not_before_their_records_come_and_no_further_than_the_limit(
    log: list[Record], drift: int, idle_ms: int | None, buffer: int, rule: AlignmentRule
) -> None:
    found = reads(Alignment(drift, 300, idle_ms=idle_ms, buffer=buffer, rule=rule), [*log])
    assert [r.arrival_ms for r, _ in found] == sorted(r.arrival_ms for r, _ in found)
    assert [met for _, met in found] == sorted(met for _, met in found)
    for writer in "abc":
        given = [record for record in log if record.writer == writer]
        mine = [record for record, _ in found if record.writer == writer]
        assert [r.event_time for r in mine] == [r.event_time for r in given][: len(mine)]
        assert all(r.arrival_ms >= g.arrival_ms for r, g in zip(mine, given, strict=False))
    if rule == "fixed":
        assert len(found) == len(log)


@given(logs(), st.sampled_from([None, 400]), BUFFERS)
def test_without_a_limit_nothing_waits_and_announcements_that_change_nothing_can_be_left_out(
    log: list[Record], idle_ms: int | None, buffer: int
) -> None:
    assert [r for r, _ in reads(Alignment(10**9, 300, idle_ms=idle_ms), [*log])] == log
    group, state, each = Alignment(50, 300, idle_ms=idle_ms, buffer=buffer), None, []
    state = group.start()
    for before, after in pairwise([None, *log, None]):
        first = 0 if before is None else before.arrival_ms
        last = 10**6 if after is None else after.arrival_ms
        if before is not None and after is not None:
            for now in range(first, last, 100):
                state, read = group.step(state, alignment.Tick(now))
                each += read
        state, read = group.step(state, EndOfInput() if after is None else after)
        each += read
    assert each == reads(group, [*log])


A_SECOND_EACH = [Record(1_000 * n, 1_000 * n, "a") for n in range(10)]
TWO_SECONDS_EACH = [Record(2_000 * n, 1_000 * n, "b") for n in range(60)]


def read_until(group: Alignment, inputs: list[Any], now: int) -> Reads:
    """What is read before the input ends."""
    in_time = sorted(inputs, key=lambda item: item.arrival_ms if isinstance(item, Record) else item.now_ms)
    return reads(group, in_time, Tick(now))


@pytest.mark.parametrize(("failed", "error"), [(False, "flink_35157"), (True, "flink_40505")])
def test_a_source_that_has_ended_or_failed_holds_the_others_by_a_known_error_only(failed: bool, error: Any) -> None:
    log = [*A_SECOND_EACH, *TWO_SECONDS_EACH, SourceEnd(9_500, "a", failed)]
    fixed = read_until(Alignment(5_000), log, 70_000)
    assert [record.event_time for record, _ in fixed if record.writer == "b"] == list(range(0, 120_000, 2_000))
    stuck = read_until(Alignment(5_000, rule=error), log, 70_000)
    # "a" has come to 9 s. "b" waits once its watermark is above 14 s, which the record of 16 s brings about.
    assert max(record.event_time for record, _ in stuck if record.writer == "b") == 16_000
    other = "flink_35157" if failed else "flink_40505"
    assert len(read_until(Alignment(5_000, rule=other), log, 70_000)) == len(fixed)  # type: ignore[arg-type]


def test_the_watermark_passes_a_source_that_has_ended_and_waits_for_one_that_has_failed() -> None:
    log = [*A_SECOND_EACH, *TWO_SECONDS_EACH]
    met = {
        failed: max(met for _, met in read_until(Alignment(10**6), [*log, SourceEnd(9_500, "a", failed)], 70_000))
        for failed in (False, True)
    }
    assert met == {False: 116_000, True: 9_000}


def test_a_source_that_has_ended_is_done_once_it_has_read_what_waits_and_a_failed_one_loses_it() -> None:
    # "b" is ahead of "a" and waits with its second record, and ends before it may read it.
    log: list[Any] = [Record(0, 0, "a"), Record(100, 100, "b"), Record(200, 1_100, "b"), Record(190, 3_000, "a")]
    for failed, read in ((False, [0, 100, 190, 200]), (True, [0, 100, 190])):
        found = read_until(Alignment(20), [*log, SourceEnd(1_200, "b", failed)], 10_000)
        assert [record.event_time for record, _ in found] == read


def test_a_failed_source_that_sends_again_counts_again() -> None:
    log = [*A_SECOND_EACH, *TWO_SECONDS_EACH, SourceEnd(9_500, "a", True), Record(10_000, 30_500, "a")]
    found = read_until(Alignment(5_000), log, 59_500)
    behind = [record.event_time for record, _ in found if record.writer == "b" and record.arrival_ms > 32_000]
    assert behind == []


class Counting(Alignment):
    """Keeps when it makes announcements, in `times`."""

    times: ClassVar[list[int]] = []

    def _announce(self, state: alignment.AlignmentState, now: int, read: Reads) -> None:
        self.times.append(now)
        assert len(self.times) < 99
        super()._announce(state, now, read)


def test_announcements_that_change_nothing_are_left_out_however_long_all_are_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Counting, "times", [])
    log = [Record(10, 1_050, 0, "a"), Record(20, 9 * 10**9, 0, "a")]
    reads(Counting(20, 300, idle_ms=10**9), [*log])
    # After a record its source reports; a billion ms later it is found idle; each time one more changes nothing.
    quiet = [1_200, 1_500, 1_000_001_100, 1_000_001_400, 1_000_001_700]
    assert Counting.times == [*quiet, 9_000_000_300, 10_000_000_200, 10_000_000_500]
