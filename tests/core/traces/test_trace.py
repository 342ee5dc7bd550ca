"""A trace as a value: its order, its parts, its columns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from wmlab.core import traces
from wmlab.core.errors import TraceError

DAY_MS = 86_400_000


def table(*rows):
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, traces.TRACE_SCHEMA, strict=True)], traces.TRACE_SCHEMA
    )


@pytest.fixture
def trace():
    return traces.Trace(
        "log", table((50, 0, "b", "x"), (10, DAY_MS - 1, "a", "y"), (60, DAY_MS, "c", "x"), (60, 3 * DAY_MS, "a", "z"))
    )


def test_events_come_one_by_one_in_order_of_arrival(trace):
    events = list(trace.events())
    assert events[0] == traces.TraceEvent(event_time=50, arrival_ms=0, writer="b", key="x")
    assert [event.arrival_ms for event in events] == [0, DAY_MS - 1, DAY_MS, 3 * DAY_MS]


@pytest.mark.parametrize(
    ("start", "end", "arrivals"),
    [
        (0, DAY_MS, [0, DAY_MS - 1]),
        ("1970-01-02", "1970-01-03", [DAY_MS]),
        ("1970-01-02T02:00:00+02:00", "1970-01-03", [DAY_MS]),
        ("1970-01-01T23:59:59.999", DAY_MS, [DAY_MS - 1]),
        (-5, 10 * DAY_MS, [0, DAY_MS - 1, DAY_MS, 3 * DAY_MS]),
    ],
)
def test_between_takes_arrivals_from_start_to_before_end(trace, start, end, arrivals):
    assert trace.between(start, end).table["arrival_ms"].to_pylist() == arrivals


def test_between_refuses_what_is_no_moment_and_what_meets_nothing(trace):
    for wrong in ("soon", 1.5, True, None):
        with pytest.raises(TraceError, match=r"start is .*, which is not a moment"):
            trace.between(wrong, 10)
    with pytest.raises(TraceError, match=r"^10 is after 5: the ends are swapped\.") as raised:
        trace.between(10, 5)
    assert raised.value.remedy == "write between(5, 10)."
    with pytest.raises(TraceError, match="nothing of trace 'log' arrives from 5 to 5") as raised:
        trace.between(5, 5)
    assert "1970-01-01 00:00 to 1970-01-04 00:00" in raised.value.remedy


def test_writers_keeps_the_named_ones(trace):
    assert trace.writers("a").table["event_time"].to_pylist() == [10, 60]
    assert trace.writers("c", "b").writer_names == ("b", "c")
    with pytest.raises(TraceError, match="has no writer 'z'") as raised:
        trace.writers("a", "z")
    assert raised.value.remedy == "name some of: a, b, c."
    with pytest.raises(TraceError, match="has no writer without a name"):
        trace.writers()


def test_columns_are_numpy_arrays_with_writers_as_indices(trace):
    columns = trace.columns()
    assert {name: array.dtype for name, array in columns.items()} == {
        "event_time": np.dtype("int64"),
        "arrival_ms": np.dtype("int64"),
        "writer": np.dtype("int32"),
        "key": np.dtype("O"),
    }
    assert [trace.writer_names[code] for code in columns["writer"]] == ["b", "a", "c", "a"]
    assert columns["key"].tolist() == ["x", "y", "x", "z"]
    assert columns["event_time"].tolist() == [50, 10, 60, 60]


def test_it_is_a_value(trace):
    twin = traces.Trace("log", trace.table)
    assert trace == twin
    assert len({trace, twin}) == 1
    assert trace != trace.writers("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.name = "other"


def test_the_reprs_say_the_main_numbers(trace):
    assert repr(trace) == (
        "Trace 'log': 4 events, 3 writers, 1970-01-01 00:00 to 1970-01-01 00:00 event times (UTC), "
        "1970-01-01 00:00 to 1970-01-04 00:00 arrivals (UTC), 25.0% out of order, 1 arrive before they happen"
    )
    shown = traces.Trace("<i>", trace.table)._repr_html_()
    assert "&lt;i&gt;" in shown
    assert "<td style='text-align:left'>events</td><td style='white-space:nowrap'>4</td>" in shown
    assert "before they happen" not in repr(trace.writers("a"))
    assert "9223372036854775807 ms" in repr(traces.Trace("log", table((1, 2**63 - 1, "w", "k"))))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "trace 'log' has no events"),
        (
            [(1, 5, "w", "k"), (1, 4, "w", "k"), (1, 3, "w", "k")],
            "'arrival_ms' goes back behind the row before it in 2 of",
        ),
        ([(1, -5, "w", "k")], "'arrival_ms' is before 1970.*\n.*add one constant"),
        ([(None, 5, "w", "k")], "'event_time' has no value"),
        ([(1, 5, None, "k")], "'writer' has no value"),
        ([(1, 5, "", "k")], "'writer' is empty"),
        ([(1, 4, "w", "k"), (1, 5, "w", "k"), (1, 3, "w", "k")], "first in row 3"),
    ],
)
def test_a_table_that_is_no_trace_is_refused(rows, said):
    with pytest.raises(TraceError, match=said):
        traces.Trace("log", table(*rows))


@pytest.mark.parametrize("wrong", [pa.table({"event_time": [1]}), [1, 2], None])
def test_other_columns_are_refused(wrong):
    with pytest.raises(TraceError, match="trace 'log' is made of"):
        traces.Trace("log", wrong)
