"""The three models as strategies, against their rules said in a few lines."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import pytest
from hypothesis import given, strategies as st

from tests.strategies.model.logs import by_writer, logs, rising, top, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.models import JetWatermark, NebulaWatermark
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run

WRITERS = ("a", "b", "c")


@given(
    st.one_of(logs(), logs(times=100, gap_ms=100, live=True)),
    st.integers(1, 600),
    st.integers(0, 1_500),
    st.one_of(st.none(), st.integers(1, 400)),
)
def test_pravega_is_its_table_of_states(
    records: list[Record], period_ms: int, timeout_ms: int, note_every_ms: int | None
) -> None:
    marks: dict[str, int] = {}
    behind_since: dict[str, int] = {}
    bounds: tuple[int, int] | None = None
    expected = []
    cycle, noted_until = (records[0].arrival_ms if records else 0) + period_ms, 0
    for index, record in enumerate(records):
        while cycle <= record.arrival_ms:
            until = cycle if note_every_ms is None else cycle // note_every_ms * note_every_ms
            fresh = [r for r in records[noted_until:index] if note_every_ms is None or r.arrival_ms < until]
            noted_until += len(fresh)
            for writer in by_writer(fresh):
                own = by_writer(fresh if note_every_ms is None else records[:noted_until])[writer]
                marks[writer] = max(top(own), marks.get(writer, UNKNOWN))
            bounds = _cycle(marks, behind_since, bounds, cycle, timeout_ms)
            cycle += period_ms
        expected.append(bounds)
    strategy = PravegaWatermark(period_ms, timeout_ms, note_every_ms)
    steps = list(run(strategy, records))
    assert [step.native for step in steps] == expected
    assert [step.x for step in steps] == [UNKNOWN if b is None else b[0] for b in expected]


def _cycle(
    marks: dict[str, int], since: dict[str, int], bounds: tuple[int, int] | None, now: int, timeout_ms: int
) -> tuple[int, int] | None:
    behind = [writer for writer, time in marks.items() if bounds is not None and time <= bounds[0]]
    for writer in list(since):
        if writer not in behind:
            del since[writer]
    waits = False
    for writer in behind:
        if now - since.setdefault(writer, now) >= timeout_ms:
            del marks[writer], since[writer]
        else:
            waits = True
    counted = [time for writer, time in marks.items() if writer not in behind]
    return bounds if waits or not counted else (min(counted), max(counted))


def test_pravega_notes_at_multiples_of_the_clock() -> None:
    strategy = PravegaWatermark(period_ms=10, note_every_ms=4)
    inputs = [Record(1, 0, "a"), Record(7, 8, "a"), Tick(10), Tick(20), EndOfInput()]
    # The cycle at 10 finds what was noted at 8, before the second record; the one at 20 that record.
    assert [(s.x, s.native) for s in run(strategy, inputs)][2:] == [(1, (1, 1)), (7, (7, 7)), (END, (7, 7))]


def test_pravega_skips_the_cycles_of_a_long_silence() -> None:
    day = 86_400_000
    strategy = PravegaWatermark(period_ms=7, timeout_ms=100)
    # 300 days and 1 ms are a multiple of the period.
    inputs = [Record(1, 0, "a"), Record(2, 300 * day + 2, "a"), Tick(300 * day + 7), Tick(300 * day + 8)]
    assert xs(strategy, inputs) == [UNKNOWN, 1, 1, 2]


@given(logs(), st.integers(0, 200), st.one_of(st.none(), st.integers(1, 1_000)), st.integers(1, 300))
def test_jet_merges_inputs_and_leaves_idle_ones_out(
    records: list[Record], lag: int, idle_ms: int | None, frame: int
) -> None:
    expected, merged = [], UNKNOWN
    last = dict.fromkeys(WRITERS, records[0].arrival_ms) if records else {}
    marks = dict.fromkeys(WRITERS, UNKNOWN)
    idle: set[str] = set()

    def merge() -> int:
        active = [marks[writer] for writer in WRITERS if writer not in idle]
        return max(merged, min(active) if active else max(marks.values()))

    for record in records:
        quiet = [w for w in WRITERS if w != record.writer and idle_ms and record.arrival_ms - last[w] >= idle_ms]
        for writer in sorted(quiet, key=lambda w: last[w]):
            if writer not in idle:
                idle.add(writer)
                merged = merge()
        last[record.writer] = record.arrival_ms
        idle.discard(record.writer)
        marks[record.writer] = max(marks[record.writer], (record.event_time - lag) // frame * frame)
        merged = merge()
        expected.append(merged)
    assert xs(JetWatermark(WRITERS, lag, idle_ms, frame), [*records, EndOfInput()]) == [*expected, END]


@given(logs(), st.one_of(st.none(), st.integers(1, 6)), st.one_of(st.none(), st.integers(1, 2_000)))
def test_nebulastream_takes_the_least_over_origins_of_whole_buffers(
    records: list[Record], rows: int | None, interval_ms: int | None
) -> None:
    rows = 4 if rows is interval_ms is None else rows

    def watermark(seen: list[Record], of: Callable[[list[int]], int]) -> int:
        sent = [_buffers(by_writer(seen).get(writer, []), rows, interval_ms, seen[-1].arrival_ms) for writer in WRITERS]
        return min(map(of, sent)) if all(sent) else UNKNOWN

    # Without the last sent buffers, the order in which they are sent matters to the largest of the minimum.
    expected = rising(records, lambda seen: watermark(seen, max))
    heads = [watermark(records[: count + 1], itemgetter(-1)) for count in range(len(records))]
    assert xs(NebulaWatermark(WRITERS, rows, interval_ms), records) == expected
    native = [step.native for step in run(NebulaWatermark(WRITERS, rows, interval_ms, local="head"), records)]
    assert native == [None if head == UNKNOWN else head for head in heads]


def _buffers(own: list[Record], rows: int | None, interval_ms: int | None, now_ms: int) -> list[int]:
    """The largest event time of each buffer that a writer has sent by `now_ms`."""
    sent: list[int] = []
    part: list[Record] = []
    for record in [*own, Record(0, now_ms)]:
        late = bool(part) and interval_ms is not None and record.arrival_ms - part[0].arrival_ms >= interval_ms
        if late or len(part) == rows:
            sent.append(top(part))
            part = []
        part.append(record)
    return sent


def test_the_watermark_of_nebulastream_may_go_back_and_x_does_not() -> None:
    strategy = NebulaWatermark(("a",), rows=1, local="head")
    steps = list(run(strategy, [Record(9, 0, "a"), Record(4, 1, "a"), EndOfInput()]))
    assert [(step.x, step.native) for step in steps] == [(9, 9), (9, 4), (END, 4)]


def test_idle_and_full_begin_exactly_after_their_time() -> None:
    assert xs(JetWatermark(("a", "b"), idle_ms=10), [Record(5, 0, "a"), Record(9, 10, "a")]) == [UNKNOWN, 9]
    by_time = NebulaWatermark(("a",), rows=None, interval_ms=10)
    assert xs(by_time, [Record(5, 3, "a"), Tick(12), Tick(13)]) == [UNKNOWN, UNKNOWN, 5]


def test_what_was_not_declared_is_refused() -> None:
    with pytest.raises(ModelError, match="Writer 'd' is not among the declared ones: a, b, c"):
        list(run(JetWatermark(WRITERS), [Record(1, 0, "d")]))
    with pytest.raises(ModelError, match="No buffer is ever full"):
        NebulaWatermark(WRITERS, rows=None)
    with pytest.raises(ModelError, match=r"lag: .*got -1"):
        JetWatermark(WRITERS, lag=-1)
