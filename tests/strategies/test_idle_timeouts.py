"""The cost of every idle timeout at once: exact against a run of each."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies.logs import ordered
from tests.strategies.model.logs import logs, trace
from wmlab.core.errors import ChartError, ModelError
from wmlab.strategies import charts
from wmlab.strategies.comparison import compare
from wmlab.strategies.idle_timeouts import idleness
from wmlab.strategies.model.engines import RisingWave
from wmlab.strategies.model.flink import Flink
from wmlab.strategies.model.strategy import Record, run
from wmlab.strategies.model.writers import Minimum, PerWriterMinimum

records_of = st.one_of(logs(times=40, gap_ms=6), logs(times=60, gap_ms=9, live=True, writers="abcdef")).filter(bool)
timeouts = st.integers(1, 60)


def late_rows(strategy, records):
    return {
        row
        for row, (of, step) in enumerate(zip(records, run(strategy, records), strict=True))
        if of.event_time < step.met
    }


@settings(max_examples=60)
@given(records_of, st.sampled_from([0, 0, 3, 20]), st.sampled_from(["writer", "key"]), st.integers(0, 3))
def test_the_late_records_of_every_timeout_are_those_of_its_run(records, bound, by, keys):
    keyed = [record._replace(key=f"k{record.event_time % (keys + 1)}") for record in records]
    found = idleness(trace(keyed), bound, by)
    inputs = [record._replace(writer=getattr(record, by)) for record in keyed]
    without = late_rows(PerWriterMinimum(bound), inputs)
    assert found.late_anyway == len(without)
    for timeout in (1, 3, 7, 20, 99):
        late = late_rows(RisingWave(bound, timeout), inputs)
        assert without <= late
        because = late - without
        assert found.late(timeout) == len(because), timeout
        for name, part in found.inputs.items():
            assert part.late(timeout) == sum(inputs[row].writer == name for row in because)
    assert sum(part.rows for part in found.inputs.values()) == len(records)


class Declared(RisingWave):
    """The same with writers that are there from the beginning."""

    def start(self):
        return Minimum(self.idle_ms, "abcdefg", flush=True)


@settings(max_examples=40)
@given(records_of, st.sampled_from([0, 3, 20]))
def test_writers_that_have_not_sent_yet_are_waited_for_until_the_timeout(records, bound):
    found = idleness(trace(records), bound, writers="abcdefg")
    without = late_rows(PerWriterMinimum(bound, writers=tuple("abcdefg")), records)
    assert found.late_anyway == len(without)
    for timeout in (1, 3, 7, 20, 99):
        assert found.late(timeout) == len(late_rows(Declared(bound, timeout), records) - without), timeout


def test_the_records_of_a_partition_that_begins_late_are_named():
    p0 = [Record(1_000 * n, 1_000 * n, "p0") for n in range(40)]
    p1 = [Record(10_000 + 1_000 * n, 30_000 + 50 * n, "p1") for n in range(20)]
    log = trace(sorted([*p0, *p1], key=lambda record: record.arrival_ms))
    alone = idleness(log)
    assert (alone.late(5_000), alone.late_anyway) == (0, 20)
    assert alone.facts["most late anyway"] == "p1"
    known = idleness(log, writers=("p0", "p1"))
    (flink,) = compare(log, [Flink(1_000, idle_ms=5_000, writers=("p0", "p1"))])
    assert known.late_anyway == 0
    # Flink probes every 200 ms, and its bound leaves a millisecond more.
    assert idleness(log, 1_000, writers=("p0", "p1")).late(5_000) == flink.late + 1 == 19
    assert known.timeout_ms(0) == 30_000


@given(records_of, timeouts)
def test_false_idles_are_silences_longer_than_the_timeout_that_end(records, timeout):
    last, count = {}, 0
    for record in records:
        count += record.arrival_ms - last.get(record.writer, record.arrival_ms) > timeout
        last[record.writer] = record.arrival_ms
    found = idleness(trace(records))
    assert found.false_idles(timeout) == count == sum(part.false_idles(timeout) for part in found.inputs.values())


def holds(records, timeout):
    """How long each silence holds the watermark: moment by moment, from the definition."""
    lengths = []
    for row, record in enumerate(records):
        of = record.writer
        largest = max(r.event_time for r in records[: row + 1] if r.writer == of)
        later = (n for n in range(row + 1, len(records)) if records[n].writer == of)
        end = next(later, len(records) - 1)
        held = 0
        for now in range(record.arrival_ms, records[end].arrival_ms):
            so_far = [r.event_time for r in records[:end] if r.arrival_ms <= now]
            held += max(so_far) > largest and now < record.arrival_ms + timeout
        lengths.append(held)
    return lengths


@settings(max_examples=40)
@given(logs(times=40, gap_ms=6, most=12).filter(bool), st.integers(1, 30))
def test_a_silent_writer_holds_the_watermark_from_when_another_is_ahead_until_it_sends_or_is_idle(records, timeout):
    found = idleness(trace(records))
    lengths = holds(records, timeout)
    assert found.longest_hold_ms(timeout) == max(lengths)
    assert found.held_ms(timeout) == sum(lengths) == sum(part.held_ms(timeout) for part in found.inputs.values())
    if (none_ms := found.facts.get("timeout for none")) is not None:
        assert found.facts["longest hold"] == max(holds(records, none_ms))
    late = [name for name, part in found.inputs.items() for _ in range(part.late_anyway)]
    most = [name for name in found.inputs if len(found.inputs) > 1 and 2 * late.count(name) > len(late)]
    assert found.facts.get("most late anyway") == (most[0] if most else None)


@given(records_of, st.floats(0, 1))
def test_the_timeout_of_a_share_is_the_least_that_keeps_it(records, share):
    found = idleness(trace(records))
    timeout = found.timeout_ms(share)
    assert found.late_share(timeout) <= share
    assert timeout == 0 or found.late_share(timeout - 1) > share


@given(records_of)
def test_the_table_has_every_timeout_at_which_something_changes(records):
    found = idleness(trace(records))
    table, timeouts = found.to_pandas(), np.arange(70)
    rows = np.searchsorted(table["timeout_ms"], timeouts, side="right") - 1
    assert table["false_idles"].to_numpy()[rows].tolist() == [found.false_idles(timeout) for timeout in range(70)]
    assert table["late"].to_numpy()[rows].tolist() == [found.late(timeout) for timeout in range(70)]
    assert np.array_equal(found.late(table["timeout_ms"].to_numpy()), table["late"])


OUTAGE = [
    *(
        Record(time, time, writer)
        for time in range(100)
        for writer in ("a", "b")
        if writer == "a" or not 20 < time < 70
    ),
    Record(60, 100, "b"),
    Record(99, 101, "b"),
]
"""Two writers, of which one is silent for 50 ms and brings one record of that time at the end."""


def test_one_outage_is_one_false_idle_and_its_record_is_late_below_the_length_of_the_outage():
    found = idleness(trace(OUTAGE))
    assert (found.false_idles(49), found.false_idles(50), found.false_idles("49 ms")) == (1, 0, 1)
    assert found.late_anyway == 1, "b was at 99 when its record of 60 came"
    kept = idleness(trace([record._replace(event_time=71) if record.event_time == 60 else record for record in OUTAGE]))
    assert kept.late_anyway == 1
    brought = [record for record in OUTAGE if record.writer == "a" or record.event_time <= 20]
    found = idleness(trace([*brought, Record(60, 100, "b")]))
    assert (found.late(79), found.late(80), found.late_anyway) == (1, 0, 0)
    assert (found.longest_hold_ms(10), found.longest_hold_ms(1_000)) == (9, 79)
    assert " ".join(repr(found).split()) == (
        "An idle timeout of 80 ms makes no record late, and holds the watermark for up to 79 ms."
    )
    labels = ("records", "bound", "late anyway", "timeout for none")
    assert [found.facts[label] for label in labels] == [122, 0, 0, 80]
    assert json.loads(found.to_json())["inputs"]["b"]["late_below_ms"] == [80]


def test_a_log_without_a_silence_says_so():
    once = idleness(trace([Record(1, 1, "a"), Record(2, 2, "b")]))
    assert "Nobody in log has a second record" in repr(once)
    assert once.to_pandas().to_dict("list")["late"] == [0]
    assert idleness(trace([Record(1, 1, "a"), Record(2, 9, "a")])).facts["timeout for none"] == 0


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda log: idleness(log, -1), "bound -1 is negative"),
        (lambda log: idleness(log, "soon"), "bound is 'soon'"),
        (lambda log: idleness(log, by="arrival_ms"), "no groups by 'arrival_ms'"),
        (lambda log: idleness("flights"), "'flights' is not a trace"),
        (lambda log: idleness(log).late(-1), "timeout -1 is negative"),
        (lambda log: idleness(log).held_ms(-1), "timeout -1 is negative"),
        (lambda log: idleness(log).timeout_ms(1.5), "1.5 is not a share"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, problem):
    with pytest.raises(ModelError, match=problem):
        ask(trace(OUTAGE))


def test_the_chart_has_the_table_and_draws_its_heights():
    found = idleness(trace(OUTAGE))
    chart = charts.idleness(found)
    assert chart.data == found.to_pandas().to_dict("list")
    assert chart.sentence == found.sentence
    losses, waiting = chart.scene.panels
    assert [layer.name for layer in (*losses.layers, *waiting.layers)] == [
        "false idles",
        "late because of it",
        "held in all",
        "longest hold",
    ]
    for layer, name in zip(losses.layers, ("false_idles", "late"), strict=True):
        heights = [0 if count == 0 else np.log10(count) + 1 for count in chart.data[name]]
        assert list(dict.fromkeys(layer.ys)) == list(dict.fromkeys(heights))


def test_of_very_many_timeouts_some_are_drawn_each_at_its_height():
    arrivals = np.cumsum(np.random.default_rng(2).lognormal(5, 2, 1_500).astype(int) + 1)
    log = ordered(arrivals, arrivals, [f"w{n % 3}" for n in range(1_500)])
    found = idleness(log)
    chart = charts.idleness(found)
    drawn = chart.scene.panels[1].layers[1]
    assert len(drawn.xs) <= 402 < len(found.timeouts_ms)
    for x, y in zip(drawn.xs, drawn.ys, strict=True):
        assert y == pytest.approx(np.log10(max(1, found.longest_hold_ms(round(10**x)))))
    assert f"Drawn are {len(drawn.xs)} of" in chart.scene.note


def test_a_chart_of_something_else_or_of_nothing_is_refused():
    with pytest.raises(ChartError, match="not an answer about idleness"):
        charts.idleness(trace(OUTAGE))
    with pytest.raises(ChartError, match="No writer of 'log' is ever silent"):
        charts.idleness(idleness(trace([Record(1, 1, "a")])))
