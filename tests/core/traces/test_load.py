"""Logs of your own: columns by name, times in any unit, and clear words for what cannot be read."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import wmlab as wm
from wmlab.core import traces
from wmlab.core.errors import ScenarioError, TraceError

CSV = "event_time,arrival_ms,writer,key\n"
NEW_YEAR_MS = 1_356_998_400_000
"""The beginning of 2013."""


def parquet(path, event_time, **columns):
    rows = len(event_time)
    filled = {"event_time": event_time, "arrival_ms": [1] * rows, "writer": ["w"] * rows, "key": ["k"] * rows}
    pq.write_table(pa.table(filled | columns), path)
    return path


def problem_of(path, **options):
    with pytest.raises(TraceError) as raised:
        traces.load(path, **options)
    assert raised.value.remedy
    return str(raised.value)


def test_a_csv_with_columns_of_its_own_is_read(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("taken,stored,sensor,room,more\n3,9,8,x,1\n1,5,007,NA,2\n")
    trace = traces.load(file, event_time="taken", arrival="stored", writer="sensor", key="room", unit="s")
    assert trace.name == "log"
    assert list(trace.events()) == [(1_000, 5_000, "007", "NA"), (3_000, 9_000, "8", "x")]


@pytest.mark.parametrize("name", ["log.tsv", "log.csv.gz", "LOG.CSV"])
def test_other_spellings_of_csv_are_read(tmp_path, name):
    text = CSV + "1,2,w,k\n"
    file = tmp_path / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    if name.endswith("tsv"):
        file.write_text(text.replace(",", "\t"))
    assert list(traces.load(str(file)).events()) == [(1, 2, "w", "k")]


def test_rows_are_sorted_by_arrival_and_ties_keep_their_order(tmp_path):
    file = parquet(tmp_path / "log.parquet", [5, 4, 3, 2, 1], arrival_ms=[7, 6, 7, 6, 7], key=list("abcde"))
    assert traces.load(file).table["key"].to_pylist() == ["b", "d", "a", "c", "e"]


@pytest.mark.parametrize(
    ("unit", "ticks", "expected_ms"),
    [
        ("d", [1, -2], [86_400_000, -172_800_000]),
        ("s", [2], [2_000]),
        ("ms", [-1, 1], [-1, 1]),
        ("us", [2_999, -1, 1, -1_000, -1_001], [2, -1, 0, -1, -2]),
        ("ns", [2_999_999], [2]),
        ("d", [1.5], [129_600_000]),
        ("s", [1517966773.84, -0.5, 0.5], [1_517_966_773_840, -500, 500]),
        ("us", [2_600.0], [3]),
        ("ms", pa.array([2], pa.uint8()), [2]),
        ("s", pa.array([2], pa.int32()), [2_000]),
        ("s", pa.array([datetime(2013, 1, 1)], pa.timestamp("ns")), [NEW_YEAR_MS]),
        ("s", pa.array([datetime(2013, 1, 1, tzinfo=UTC)], pa.timestamp("us", "America/New_York")), [NEW_YEAR_MS]),
        ("s", pa.array([date(2013, 1, 1)]), [NEW_YEAR_MS]),
        ("ms", [datetime(1969, 12, 31)], [-86_400_000]),
    ],
    ids=str,
)
def test_times_become_whole_milliseconds_never_later_and_may_be_before_1970(tmp_path, unit, ticks, expected_ms):
    file = parquet(tmp_path / "log.parquet", ticks)
    assert traces.load(file, unit=unit).table["event_time"].to_pylist() == expected_ms


def test_iso_times_in_a_csv_are_utc_unless_they_name_a_zone(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(CSV + "2013-01-01 00:00:00,2013-01-01T05:00:00.250+02:00,w,k\n")
    assert list(traces.load(file).events()) == [(NEW_YEAR_MS, 1_357_009_200_250, "w", "k")]


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv", "log.parquet"])
def test_iso_texts_of_every_form_are_times(tmp_path, name):
    texts = ["2024-01-01T00:00:00.1234Z", "2024-01-01 02:00:00.5+02:00", "2024-01-01T00:00:01", "2024-01-02"]
    times = [1_704_067_200_123, 1_704_067_200_500, 1_704_067_201_000, 1_704_153_600_000]
    file = parquet(tmp_path / name, texts, arrival_ms=times)
    table = pq.read_table(pa.BufferReader(file.read_bytes()))
    if name == "log.csv":
        pyarrow.csv.write_csv(table, file)
    elif name == "log.jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    read = traces.load(file).table
    assert read["event_time"] == read["arrival_ms"]


def test_a_log_without_writer_and_key_is_one_writer(tmp_path):
    trace = traces.load(parquet(tmp_path / "log.parquet", [1, 2]), writer=None, key=None)
    assert list(trace.events()) == [(1, 1, "log", "log"), (2, 1, "log", "log")]


def test_integers_and_coded_texts_may_be_names_and_one_column_both_times(tmp_path):
    file = parquet(tmp_path / "log.parquet", [1, 2], writer=[7, 8], key=pa.array(["a", "b"]).dictionary_encode())
    assert list(traces.load(file, arrival="event_time").events()) == [(1, 1, "7", "a"), (2, 2, "8", "b")]


def test_the_key_says_how_the_events_of_a_writer_are_spread(tmp_path):
    """Without a key of their own all events of a writer go to one segment, with one they are spread."""
    for key, segments in (("w", 1), (None, 4)):
        keys = [key or str(n) for n in range(40)]
        file = parquet(tmp_path / "log.parquet", list(range(1, 41)), key=keys)
        assert key is None or traces.load(file, key=None) == traces.load(file)
        writers = [wm.EventWriter("w", trace=str(file))]
        run = wm.Scenario("spread", stream=wm.Stream(segments=4), writers=writers, duration_ms=1_000)
        assert len(set(run.record(progress=False).table("events")["segment_id"].to_pylist())) == segments


@pytest.mark.parametrize(
    ("event_time", "unit", "said"),
    [
        ([1, None, None], "ms", "'event_time' has no value in 2 of its rows, first in row 2"),
        ([1.0, float("nan")], "ms", "'event_time' is not a finite number in 1 of its rows, first in row 2"),
        ([float("inf"), 1.0], "ms", "is not a finite number in 1 of its rows, first in row 1"),
        ([float("-inf"), 1.0], "ms", "is not a finite number in 1 of its rows, first in row 1"),
        ([2**62], "s", f"is beyond 64 bits of milliseconds in 1 of its rows, first in row 1: '{2**62}'"),
        (
            pa.array([1, 2**63], pa.uint64()),
            "ms",
            f"is beyond 64 bits of milliseconds in 1 of its rows, first in row 2: '{2**63}'",
        ),
        ([1e300], "ms", "is beyond 64 bits of milliseconds in 1"),
        ([1e306], "s", "is beyond 64 bits of milliseconds in 1"),
        ([-1e300], "ms", "is beyond 64 bits of milliseconds in 1"),
        ([-(2**62)], "s", f"is beyond 64 bits of milliseconds in 1 of its rows, first in row 1: '{-(2**62)}'"),
        (["yesterday"], "ms", "'event_time' is not a time of a known form in 1 of its rows, first in row 1: 'yest"),
        (
            ["2024-01-01", "7", "-"],
            "ms",
            "'event_time' is a number in a column of dates in 1 of its rows, first in row 2: '7'",
        ),
        (
            ["2024-01-01", "7", "-"],
            "ms",
            "'event_time' is not a time of a known form in 1 of its rows, first in row 3: '-'",
        ),
        ([True], "ms", "'event_time' holds bool, not times"),
        ([], "ms", "has no rows"),
        ([1], "min", "unit is 'min'"),
    ],
)
def test_times_that_are_none_are_refused(tmp_path, event_time, unit, said):
    assert said in problem_of(parquet(tmp_path / "log.parquet", event_time), unit=unit)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"writer": ["w", None]}, "'writer' has no value in 1 of its rows, first in row 2"),
        ({"writer": ["", "w"]}, "'writer' has no value in 1 of its rows, first in row 1"),
        ({"writer": [1.5, 2.5]}, "'writer' holds double, not names"),
        ({"key": [None, "k"]}, "'key' has no value in 1 of its rows, first in row 1"),
        (
            {"arrival_ms": [1, -1]},
            "before 1970 in 1 of its rows, first in row 2: '-1'.\nTo repair it: drop those rows, or add",
        ),
    ],
)
def test_names_and_arrivals_that_are_none_are_refused(tmp_path, columns, said):
    assert said in problem_of(parquet(tmp_path / "log.parquet", [1, 2], **columns))


def test_a_missing_or_doubled_column_is_named_with_those_there_are(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("event_time,arrival_ms,key\n1,2,k\n")
    assert "log.csv has no column 'who'; it has 'event_time', 'arrival_ms', 'key'.\n" in problem_of(file, writer="who")
    file.write_text("event_time,arrival_ms,writer,key,key\n1,2,w,k,k\n")
    assert "has more than one column 'key'" in problem_of(file)
    assert "has no column 'sent'" in problem_of(parquet(tmp_path / "log.parquet", [1]), event_time="sent")


def test_files_that_cannot_be_read_are_trace_errors(tmp_path):
    broken = parquet(tmp_path / "log.parquet", [1])
    broken.write_bytes(broken.read_bytes()[:-9])
    assert "cannot be read" in problem_of(broken)
    ragged = tmp_path / "log.csv"
    ragged.write_text(CSV + "1,2,w\n")
    said = "log.csv has 1 bad row of 1: 1 line, first in row 1, does not have one value for each column: '1,2,w'."
    assert said in problem_of(ragged)
    ragged.write_text("")
    assert "is empty" in problem_of(ragged)
    assert "there is no file" in problem_of(tmp_path / "none.csv")
    (tmp_path / "log.json").write_text("{}")
    assert "log.json has no column 'event_time'; it has none." in problem_of(tmp_path / "log.json")


def test_a_recording_is_not_read_as_a_log(tmp_path: Path) -> None:
    wm.trace.Recording.from_tables({}, name="a run").save(tmp_path / "run")
    assert "run is a recording, not a log." in problem_of(tmp_path / "run")


def test_a_name_that_does_not_come_with_wmlab(tmp_path, monkeypatch):
    assert "no trace 'trains' comes with wmlab, and there is no such file.\n" in problem_of("trains")
    for folder in ("DIRECTORY", "_EXPORTS"):
        monkeypatch.setattr(traces, folder, tmp_path / "none")
    assert "are not installed here" in problem_of("flights")


def test_a_semicolon_an_encoding_and_json_lines_are_read(tmp_path):
    texts = {
        "a.csv": ("event_time;arrival_ms;writer;key\n1;2;J\u00f6rg M;k\n", "latin-1"),
        "b.jsonl": ('{"event_time": 1, "arrival_ms": 2, "writer": "J\u00f6rg M", "key": "k"}\n', "utf-8"),
        "c.jsonl": ('{"event_time": 1, "arrival_ms": 2, "writer": "J\u00f6rg M", "key": "k"}\n', "latin-1"),
    }
    for name, (text, encoding) in texts.items():
        (tmp_path / name).write_text(text, encoding=encoding)
        assert list(traces.load(tmp_path / name, encoding=encoding).events()) == [(1, 2, "J\u00f6rg M", "k")]
    for name in ("a.csv", "c.jsonl"):
        with pytest.raises(TraceError, match="encoding="):
            traces.load(tmp_path / name)


@pytest.mark.parametrize(("unit", "doubtful"), [("ms", True), ("s", False), ("d", True)])
def test_a_unit_that_gives_odd_years_is_doubted(tmp_path, unit, doubtful):
    file = parquet(tmp_path / "log.parquet", [1_700_000_000], arrival_ms=[1_700_000_000])
    assert ("unit= right?" in repr(traces.load(file, unit=unit))) is doubtful


def test_writers_with_any_name_are_replayed(tmp_path):
    names = ["J\u00f6rg M\u00fcller", "<b>x & 'y'", 'a "b"; c']
    rows = [{"event_time": n, "arrival_ms": n, "writer": name, "key": name} for n, name in enumerate(names)]
    file = tmp_path / "names.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=traces.TRACE_SCHEMA), file)
    writers = [wm.EventWriter(name, trace=str(file)) for name in traces.load(file).writer_names]
    scenario = wm.Scenario("names", writers=writers, readers=wm.ReaderGroup(), duration_ms=3_000)
    assert wm.Scenario.from_yaml(scenario.to_yaml()) == scenario
    recording = scenario.record(progress=False)
    assert sorted(recording.to_pandas("events")["writer"]) == sorted(names)
    assert "<b>" not in wm.chart.event_vs_arrival(recording).svg
    with pytest.raises(ScenarioError, match="printable"):
        wm.EventWriter("a\nb", rate_per_s=1)
