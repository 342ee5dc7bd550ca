"""The three models as strategies, against their rules said in a few lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.model.logs import by_writer, logs, rising, top, xs
from wmlab.core.errors import ModelError
from wmlab.strategies.model.models import JetWatermark, NebulaWatermark
from wmlab.strategies.model.pravega import PravegaWatermark
from wmlab.strategies.model.strategy import END, UNKNOWN, EndOfInput, Record, Tick, run

WRITERS = ("a", "b", "c")


@given(st.one_of(logs(), logs(times=100, gap_ms=100, live=True)), st.integers(1, 600), st.integers(0, 1_500))
def test_pravega_is_its_table_of_states(records: list[Record], period_ms: int, timeout_ms: int) -> None:
    marks: dict[str, int] = {}
    behind_since: dict[str, int] = {}
    bounds: tuple[int, int] | None = None
    expected = []
    cycle, noted_until = (records[0].arrival_ms if records else 0) + period_ms, 0
    for index, record in enumerate(records):
        while cycle <= record.arrival_ms:
            for writer, own in by_writer(records[noted_until:index]).items():
                marks[writer] = max(top(own), marks.get(writer, UNKNOWN))
            noted_until = index
            bounds = _cycle(marks, behind_since, bounds, cycle, timeout_ms)
            cycle += period_ms
        expected.append(bounds)
    strategy = PravegaWatermark(period_ms, timeout_ms)
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


def test_pravega_skips_the_cycles_of_a_long_silence() -> None:
    day = 86_400_000
    strategy = PravegaWatermark(period_ms=7, timeout_ms=100)
    # 300 days and 1 ms are a multiple of the period.
    inputs = [Record(1, 0, "a"), Record(2, 300 * day + 2, "a"), Tick(300 * day + 7), Tick(300 * day + 8)]
    assert xs(strategy, inputs) == [UNKNOWN, 1, 1, 2]


@given(logs(), st.integers(0, 200), st.one_of(st.none(), st.integers(1, 1_000)))
def test_jet_merges_inputs_and_leaves_idle_ones_out(records: list[Record], lag: int, idle_ms: int | None) -> None:
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
        marks[record.writer] = max(marks[record.writer], record.event_time - lag)
        merged = merge()
        expected.append(merged)
    assert xs(JetWatermark(WRITERS, lag, idle_ms), [*records, EndOfInput()]) == [*expected, END]


@given(logs(), st.integers(1, 6))
def test_nebulastream_takes_the_least_over_origins_of_whole_buffers(records: list[Record], rows: int) -> None:
    def watermark(seen: list[Record]) -> int:
        owns = [by_writer(seen).get(writer, []) for writer in WRITERS]
        sent = [own[: len(own) // rows * rows] for own in owns]
        return min(map(top, sent)) if all(sent) else UNKNOWN

    expected = rising(records, watermark)
    steps = list(run(NebulaWatermark(WRITERS, rows), [*records, EndOfInput()]))
    assert [step.x for step in steps] == [*expected, END]
    natives = [None if x == UNKNOWN else x for x in expected]
    assert [step.native for step in steps] == [*natives, *([None, *natives][-1:])]


def test_an_input_is_idle_exactly_after_its_time() -> None:
    assert xs(JetWatermark(("a", "b"), idle_ms=10), [Record(5, 0, "a"), Record(9, 10, "a")]) == [UNKNOWN, 9]


def test_what_was_not_declared_is_refused() -> None:
    with pytest.raises(ModelError, match="Writer 'd' is not among the declared ones: a, b, c"):
        list(run(JetWatermark(WRITERS), [Record(1, 0, "d")]))
    with pytest.raises(ModelError, match=r"lag: .*got -1"):
        JetWatermark(WRITERS, lag=-1)
