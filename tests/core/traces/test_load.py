"""Logs of your own: columns by name, times in any unit, and clear words for what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import wmlab as wm
from wmlab.core import traces
from wmlab.core.errors import ScenarioError, TraceError
from wmlab.streams.recording import StreamRecording

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


def test_rows_are_sorted_by_arrival_and_ties_keep_their_order(tmp_path):
    file = parquet(tmp_path / "log.parquet", [5, 4, 3, 2, 1], arrival_ms=[7, 6, 7, 6, 7], key=list("abcde"))
    assert traces.load(file).table["key"].to_pylist() == ["b", "d", "a", "c", "e"]


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
        ([2**62], "s", f"is beyond 64 bits of milliseconds in 1 of its rows, first in row 1: '{2**62}'"),
        (
            ["2024-01-01", "7", "-"],
            "ms",
            "'event_time' is a number in a column of dates in 1 of its rows, first in row 2: '7'",
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
    StreamRecording.from_tables({}, name="a run").save(tmp_path / "run")
    assert "run is a recording, not a log." in problem_of(tmp_path / "run")


def test_a_name_that_does_not_come_with_wmlab(tmp_path, monkeypatch):
    assert "no trace 'trains' comes with wmlab, and there is no such file.\n" in problem_of("trains")
    for folder in ("DIRECTORY", "_EXPORTS"):
        monkeypatch.setattr(traces, folder, tmp_path / "none")
    assert "are not installed here" in problem_of("flights")


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
