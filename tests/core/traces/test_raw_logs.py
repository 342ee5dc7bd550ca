"""Logs as people have them: forms of files, bad rows, encodings, nested documents, data frames, and two columns."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wmlab.core import traces
from wmlab.core.errors import TraceError
from wmlab.strategies.lateness import lateness_curve

HEADER = "event_time,arrival_ms,writer,key\n"
ROW = "2015-07-20 03:49:24,2015-07-20 03:49:25,w,k\n"
AT_MS = 1_437_364_164_000


def problem_of(source, **options):
    with pytest.raises(TraceError) as raised:
        traces.load(source, **options)
    return str(raised.value)


def refused(trace):
    return [(row["row"], row["column"], row["value"], row["reason"]) for row in trace.refused.to_pylist()]


@pytest.fixture
def dirty(tmp_path):
    """Bad rows of every kind among good ones."""
    file = tmp_path / "dirty.csv"
    rows = [ROW] * 6
    rows[1] = "2015-02-30 01:00:00,2015-07-20 03:49:25,w,k\n"
    rows[2] = "2015-02-31 01:00:00,soon,,k\n"
    rows[4] = "2015,2015-07-20 03:49:25,w\n"
    file.write_text(HEADER + "".join(rows))
    return file


def test_the_row_named_is_the_bad_one(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(HEADER + ROW * 6_999 + ROW.replace("07-20 03", "02-30 01", 1) + ROW * 5)
    said = (
        "'event_time' is a date or a time of day that does not exist in 1 of its rows, first in row 7000: '2015-02-30"
    )
    assert said in problem_of(file)


def test_all_faults_of_all_columns_are_told_at_once(dirty):
    said = problem_of(dirty)
    for part in (
        "dirty.csv has 3 bad rows of 6: ",
        "1 line, first in row 5, does not have one value for each column: '2015,2015-07-20 03:49:25,w'",
        "'event_time' is a date or a time of day that does not exist in 2 of its rows, first in row 2: '2015-02-30 01",
        "'arrival_ms' is not a time of a known form in 1 of its rows, first in row 3: 'soon'",
        "'writer' has no value in 1 of its rows, first in row 3",
        "bad_rows='drop'",
    ):
        assert part in said


def test_bad_rows_are_left_out_and_listed(dirty):
    trace = traces.load(dirty, bad_rows="drop")
    assert list(trace.events()) == [(AT_MS, AT_MS + 1_000, "w", "k")] * 3
    assert refused(trace) == [
        (2, "event_time", "2015-02-30 01:00:00", "is a date or a time of day that does not exist"),
        (3, "event_time", "2015-02-31 01:00:00", "is a date or a time of day that does not exist"),
        (5, None, "2015,2015-07-20 03:49:25,w", "does not have one value for each column"),
    ]
    assert set(trace.refused["file"].to_pylist()) == {str(dirty)}
    assert "3 left-out bad rows" in repr(trace)
    said = "2: column &#x27;event_time&#x27; is a date or a time of day that does not exist; 1: does not have one value"
    assert said in trace._repr_html_()
    assert trace.between("2015-07-20 05:49:24 +0200", "Mon, 20 Jul 2015 03:49:26 GMT").rows == 3
    assert trace.writers("w").refused == trace.between(0, 2**60).refused == trace.refused


def test_a_log_with_no_good_row_is_refused_and_what_is_no_choice_too(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(HEADER + "soon,1,w,k\n")
    assert "has 1 bad row of 1" in problem_of(file, bad_rows="drop")
    assert "bad_rows is 'ignore'" in problem_of(file, bad_rows="ignore")


def test_a_format_is_for_all_other_texts(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("e,a\n20/07/2015 03:49,20/07/2015 03:50\n21/07/2015 03:49,22/07/2015 03:50\n")
    proposed = "'%d/%m/%Y %H:%M' ('%d/%m/%Y %H:%M' reads 4 of 4 values)"
    assert proposed in problem_of(file, event_time="e", arrival="a")
    trace = traces.load(file, event_time="e", arrival="a", format="%d/%m/%Y %H:%M")
    assert trace.span_ms == (AT_MS + 36_000, AT_MS + 36_000 + 2 * 86_400_000)
    assert "format is '%H:%M', which does not give a day" in problem_of(file, format="%H:%M")


def test_quoted_line_breaks_in_a_large_file_are_read_and_rows_counted_as_rows(tmp_path):
    file = tmp_path / "log.csv"
    long = '"a text\nof two lines, ' + "x" * 100 + '"'
    rows = [f"{n},{n},w,{long}\n" for n in range(20_000)]
    rows[15_000] = f"soon,15000,w,{long}\n"
    file.write_text("event_time,arrival_ms,writer,text\n" + "".join(rows))
    assert file.stat().st_size > 2 * 2**20
    assert "first in row 15001: 'soon'" in problem_of(file)
    assert traces.load(file, bad_rows="drop").rows == 19_999


def test_a_truncated_last_line_is_named(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(HEADER + ROW * 4 + ROW[:30])
    assert "1 line, first in row 5, does not have one value for each column: '2015-07-20 03:49:24," in problem_of(file)
    file.write_text(HEADER + ROW * 4 + ROW.replace(",k", ',"k') + ROW * 3)
    assert "1 line, first in row 5, opens a quote that is not closed" in problem_of(file)
    assert traces.load(file, bad_rows="drop").rows == 4
    file.write_text(HEADER + ROW.replace(",k", ',5" pipe') + ROW * 3)
    assert traces.load(file).table["key"].to_pylist()[0] == '5" pipe'


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_bytes_of_another_encoding_are_bad_rows_and_merge_no_writers(tmp_path, name):
    file = tmp_path / name
    writers = ["Müller", "Möller", "Maier"]
    if name == "log.csv":
        text = HEADER + "".join(f"1,2,{writer},k\n" for writer in writers)
    else:
        rows = [{"event_time": 1, "arrival_ms": 2, "writer": writer, "key": "k"} for writer in writers]
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    file.write_text(text, encoding="latin-1")
    assert "'writer' holds U+FFFD, which stands for bytes that were not of the encoding" in problem_of(file)
    assert "encoding='latin-1'" in problem_of(file)
    trace = traces.load(file, bad_rows="drop")
    assert (trace.writer_names, [row[0] for row in refused(trace)]) == (("Maier",), [1, 2])
    assert traces.load(file, encoding="latin-1").writer_names == tuple(sorted(writers))
    file.write_text(text.replace("ü", "\ufffd"), encoding="utf-8")
    assert "'writer' holds U+FFFD" in problem_of(file)
    assert "encoding is 'klingon', which nobody knows" in problem_of(file, encoding="klingon")


PACKED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: pa.compress(text, "zstd", asbytes=True),
    "": bytes,
}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("name", ["x.CSV", "x.log", "x.txt", "x", "x.ndjson", "x.json"])
def test_the_form_is_that_of_the_name_or_of_the_content(tmp_path, name, packed):
    text = HEADER + ROW
    if "json" in name:
        text = '{"event_time": "2015-07-20 03:49:24", "arrival_ms": "2015-07-20 03:49:25", "writer": "w", "key": "k"}\n'
    file = tmp_path / f"{name}{packed}"
    file.write_bytes(PACKED[packed](text.encode()))
    trace = traces.load(file)
    assert (trace.name, list(trace.events())) == ("x", [(AT_MS, AT_MS + 1_000, "w", "k")])


def test_content_that_says_nothing_is_read_as_csv(tmp_path, monkeypatch):
    file = tmp_path / "export"
    file.write_text("hello\n")
    assert "export has no column 'event_time'; it has 'hello'" in problem_of(file)
    assert "or say how it is written, such as form='json'." in problem_of(file)
    assert "form is 'xml'" in problem_of(file, form="xml")
    file.write_text("event_time\n1\n")
    one = traces.load(file, arrival="event_time", form="csv")
    assert list(one.events()) == [(1, 1, "export", "export")]
    pq.write_table(one.table, file)
    monkeypatch.chdir(tmp_path)
    assert traces.load("export").rows == 1


@pytest.mark.parametrize("ending", ["", ".csv", ".csv.gz"])
def test_a_folder_is_read_without_the_files_of_spark(tmp_path, ending):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("_SUCCESS", f".part-0{ending}.crc"):
        (folder / name).write_bytes(b"crc\x00")
    for number, rows in enumerate(["3,3,b,k\n", "1,1,a,k\nsoon,2,a,k\n"]):
        text = (HEADER + rows).encode()
        (folder / f"part-{number:04}{ending}").write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    assert f"first in row 2 of part-0001{ending}: 'soon'" in problem_of(folder)
    trace = traces.load(folder, bad_rows="drop")
    assert (trace.name, list(trace.events())) == ("out", [(1, 1, "a", "k"), (3, 3, "b", "k")])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no files of a log" in problem_of(empty)


UPLINKS = [
    {"at": "2015-07-20T03:49:24Z", "device": {"id": "d1"}, "rx": [{"time": 5, "gw": "a"}, {"time": 7, "gw": "b"}]},
    {"at": "2015-07-20T03:49:25Z", "device": {"id": "d2"}, "rx": []},
    {"at": "2015-07-20T03:49:26Z", "device": {"id": "d2"}, "rx": [{"time": 9, "gw": "a"}]},
]
PATHS = {"event_time": "at", "arrival": "rx[].time", "writer": "rx[].gw", "key": "device.id"}
EXPLODED = [(AT_MS, 5, "a", "d1"), (AT_MS, 7, "b", "d1"), (AT_MS + 2_000, 9, "a", "d2")]


@pytest.mark.parametrize("kind", ["lines", "array", "pandas", "arrow", "parquet"])
def test_each_element_of_an_array_is_a_row_and_none_is_lost(tmp_path, kind):
    source = tmp_path / ("log.parquet" if kind == "parquet" else "log.json")
    if kind == "lines":
        source.write_text("\n".join(map(json.dumps, UPLINKS)))
    elif kind == "array":
        source.write_text(json.dumps(UPLINKS, indent=1))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(UPLINKS), source)
    else:
        source = pd.DataFrame(UPLINKS) if kind == "pandas" else pa.Table.from_pylist(UPLINKS)
    assert "'rx[].time' has no value in 1 of its rows, first in row 3" in problem_of(source, **PATHS)
    trace = traces.load(source, **PATHS, bad_rows="drop")
    assert list(trace.events()) == EXPLODED
    first = traces.load(source, **(PATHS | {"arrival": "rx[0].time", "writer": "device.id"}), bad_rows="drop")
    assert first.table["arrival_ms"].to_pylist() == [5, 9]


def test_paths_are_proposed_and_different_arrays_refused(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"a.b": 1, "x": [{"t": 1}], "y": [{"t": 2}], "n": {"m": 5}}))
    said = problem_of(file, event_time="x[].u", arrival="a.b")
    assert "has no column 'x[].u'; it has 'a.b', 'x[].t', 'y[].t', 'n.m'" in said
    assert "'x[].t', 'y[].t' go through different arrays" in problem_of(
        file, event_time="x[].t", arrival="y[].t"
    ).replace("x[].t, y[].t", "'x[].t', 'y[].t'")
    assert "'n' holds a nested value; name the path" in problem_of(file, event_time="n", arrival="a.b")
    assert list(traces.load(file, event_time="n.m", arrival="a.b").events()) == [(5, 1, "log", "log")]


def test_two_columns_are_enough_and_likely_names_are_proposed(tmp_path):
    file = tmp_path / "sensor.csv"
    file.write_text("event_time,arrival_ms\n1,2\n")
    assert list(traces.load(file).events()) == [(1, 2, "sensor", "sensor")]
    assert traces.load(file, name="mine").name == "mine"
    file.write_text("ts,received_at,device_id,value\n1,2,d,5\n")
    assert "event_time='ts', arrival='received_at', writer='device_id'" in problem_of(file)
    file.write_text("a,b\n1,2\n")
    assert "event_time=..., arrival=..., writer=...\x2e" in problem_of(file)


WHEN = datetime(2015, 7, 20, 3, 49, 24, tzinfo=UTC)
ZONED = {"naive": [WHEN.replace(tzinfo=None)] * 2, "zoned": [WHEN.astimezone()] * 2, "text": [str(WHEN)] * 2}
MIXED = [WHEN, str(WHEN)]


@pytest.mark.parametrize("times", [*ZONED.values(), MIXED], ids=[*ZONED, "mixed"])
def test_a_pandas_frame_is_a_log(times):
    frame = pd.DataFrame({"t": times, "arrival_ms": [AT_MS, AT_MS], "writer": [7, 8]})
    assert [event[:3] for event in traces.load(frame, event_time="t").events()] == [
        (AT_MS, AT_MS, "7"),
        (AT_MS, AT_MS, "8"),
    ]


def test_a_missing_time_in_a_frame_is_refused_with_its_row():
    frame = pd.DataFrame({"event_time": [WHEN, pd.NaT, WHEN], "arrival_ms": [1, 2, 3]}, index=[5, 5, 9])
    assert "the data frame has 1 bad row of 3: column 'event_time' has no value in 1 of its rows, first in row 2" in (
        problem_of(frame)
    )
    assert traces.load(frame, bad_rows="drop").rows == 2
    assert "the data frame has no column 'when'; it has 'event_time', 'arrival_ms'" in problem_of(
        frame, event_time="when"
    )


def test_arrow_and_other_frames_of_that_protocol_are_logs():
    table = pa.table({"event_time": [1], "arrival_ms": [2]})

    class Other:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    for frame in (table, Other(), table.to_batches()[0]):
        assert list(traces.load(frame).events()) == [(1, 2, "log", "log")]


def test_a_polars_frame_is_a_log():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"event_time": [WHEN], "arrival_ms": [WHEN + timedelta(seconds=1)], "writer": ["w"]})
    for given in (frame, frame.lazy()):
        assert list(traces.load(given).events()) == [(AT_MS, AT_MS + 1_000, "w", "w")]


def test_what_takes_a_trace_takes_a_frame_with_its_columns_and_says_how_another_one_becomes_one():
    frame = pd.DataFrame({"event_time": [1] * 1_000, "arrival_ms": [2] * 1_000})
    assert lateness_curve(frame).rows == 1_000
    with pytest.raises(TraceError) as raised:
        lateness_curve(frame.rename(columns={"event_time": "taken_at"}))
    assert "wm.trace.load(frame, ...), and there name its columns: event_time='taken_at'" in str(raised.value)
    assert len(str(raised.value)) < 400


def test_errors_of_a_trace_name_public_functions():
    with pytest.raises(TraceError, match=r"To repair it: load it with wm\.trace\.load\."):
        traces.Trace("mine", pa.table({"a": [1]}))
