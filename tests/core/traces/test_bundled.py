"""The traces that come with wmlab are what their provenance says."""

from __future__ import annotations

import hashlib
import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from wmlab.core import traces

NAMES = ("dengue", "flights", "quakes")
"""The traces; the export "presses" is raw, so `load` needs to be told its columns and no list has it."""


def provenance_of(name):
    return json.loads((traces.DIRECTORY / f"{name}.provenance.json").read_text())


@pytest.fixture(scope="module", params=NAMES)
def bundled(request):
    return traces.load(request.param), provenance_of(request.param)


def test_these_traces_come_with_wmlab():
    assert traces.names() == NAMES


def test_the_file_is_the_one_that_the_provenance_describes(bundled):
    trace, provenance = bundled
    content = (traces.DIRECTORY / f"{trace.name}.parquet").read_bytes()
    assert hashlib.sha256(content).hexdigest() == provenance["numbers"]["sha256"]
    assert len(content) == provenance["numbers"]["bytes"] < 5_000_000


def test_the_numbers_are_those_of_the_file(bundled):
    trace, provenance = bundled
    numbers = provenance["numbers"]
    assert trace.rows == numbers["rows_kept"] == numbers["rows_in"] - sum(numbers["rows_dropped"].values())
    delay = pc.subtract(trace.table["arrival_ms"], trace.table["event_time"])
    p50, p99 = pc.quantile(delay, [0.5, 0.99], interpolation="lower").to_pylist()
    assert numbers["delay_ms"] == {"p50": p50, "p99": p99, "max": pc.max(delay).as_py()}
    assert (numbers["first_arrival_ms"], numbers["last_arrival_ms"]) == trace.span_ms
    assert (numbers["writers"], numbers["out_of_order"]) == (len(trace.writer_names), trace.out_of_order)
    assert numbers["arrived_before_event"] == trace.early == 0
    within = sum(trace.writers(writer).out_of_order for writer in trace.writer_names)
    assert numbers["out_of_order_within_writer"] == within


def test_every_column_and_the_origin_are_explained(bundled):
    trace, provenance = bundled
    columns = pq.read_schema(traces.DIRECTORY / f"{trace.name}.parquet").names
    assert list(provenance["columns"]) == columns
    assert provenance["licence"]["name"]
    assert {"package", "registry", "version", "file", "archive_sha256", "origin"} <= set(provenance["source"])
    assert (traces.DIRECTORY.parent.parent / provenance["built_by"]).is_file()


def test_flights_are_minutes_of_one_year_with_many_ties():
    flights = traces.load("flights")
    columns = flights.columns()
    assert not (columns["event_time"] % 60_000).any()
    assert not (columns["arrival_ms"] % 60_000).any()
    assert flights.rows - len(pc.unique(flights.table["arrival_ms"])) > 100_000
    counts = pc.value_counts(flights.table["writer"]).to_pylist()
    assert {row["values"]: row["counts"] for row in counts if row["values"] in ("OO", "HA")} == {"OO": 29, "HA": 342}


def test_a_known_flight_is_where_it_belongs():
    # The first row of the source: UA 1545 left Newark at 5:17 on 1 January and flew 227 minutes.
    flights = traces.load("flights", key="dest")
    departure_ms = 1_357_035_420_000
    assert (departure_ms, departure_ms + 227 * 60_000, "UA", "IAH") in set(flights.writers("UA").events())


def test_airports_and_regions_serve_as_writers_and_keys():
    assert traces.load("flights", writer="origin").writer_names == ("EWR", "JFK", "LGA")
    quakes = traces.load("quakes", key="region")
    assert len(pc.unique(quakes.table["key"])) == 74
