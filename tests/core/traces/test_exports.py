"""What raw exports have besides two columns of times: counts, delays, clocks, zones, origins, marks, and any JSON."""

from __future__ import annotations

import codecs
import datetime as dt
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wmlab.core import traces
from wmlab.core.errors import TraceError
from wmlab.core.traces import load, unit_doubts
from wmlab.strategies.log_profile import profile

AT_MS = 1_437_364_164_000
"""2015-07-20 03:49:24 UTC."""
HOUR_MS = 3_600_000
TIMES = {"event_time": "e", "arrival": "a"}


def events(file: Path, content: str | bytes, **options: Any) -> list[tuple[int, int]]:
    """The event times and arrivals of a file with that content."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [event[:2] for event in load(file, **(TIMES | options)).events()]


def reasons(trace: traces.Trace) -> list[tuple[int, str | None, str]]:
    return [(row["row"], row["column"], row["reason"]) for row in trace.refused.to_pylist()]


# JSON.


def test_json_of_one_object_over_several_lines_is_read(tmp_path: Path) -> None:
    text = (
        '{"type":"FeatureCollection","features":[{"t":1517966773840,"a":1517966996303},\n'
        '{"t":1517966900000,"a":1517966990000}]}'
    )
    wanted = [(1517966900000, 1517966990000), (1517966773840, 1517966996303)]
    paths = {"event_time": "features[].t", "arrival": "features[].a"}
    for written in (text, text.replace("\n", ""), json.dumps(json.loads(text), indent=2), f"\ufeff\n\n{text}\n"):
        for name in ("x.json", "x.geojson", "x.log"):
            assert events(tmp_path / name, written, **paths) == wanted


DOCUMENTS = [{"e": n, "a": n + 1, "remark": 'a "}\n{" b'} for n in range(5)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("between", ["\n", "\r\n", " ", ""])
def test_documents_may_stand_one_after_the_other(tmp_path: Path, indent: int | None, between: str) -> None:
    text = between.join(json.dumps(document, indent=indent) for document in DOCUMENTS)
    assert events(tmp_path / "x.jsonl", text) == [(n, n + 1) for n in range(5)]


def test_of_broken_documents_the_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(
        '{"e": 1, "a": 2}\n{"e": 3,\n{"e": 5, "a": 6}\nno\n[{"e": 7, "a": 8},\n{"e": 9, "a": 9}]\n{"e": 1} x\n'
    )
    trace = load(file, **TIMES, bad_rows="drop")
    assert [event[:2] for event in trace.events()] == [(1, 2), (5, 6), (7, 8), (9, 9)]
    assert reasons(trace) == [(row, None, "is no JSON") for row in (2, 4, 7)]
    assert trace.refused["value"].to_pylist() == ['{"e": 3,', "no", '{"e": 1} x']


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"e": ' + "9" * 5_000 + "}", "[null, 5]", '"text"']
)
def test_deep_and_odd_json_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError):
        events(tmp_path / "x.json", text)


# Counts, delays, and two columns.


def test_a_column_of_counts_makes_so_many_records(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_text("e,a,n\n1,2,3\n3,4,0\n5,6,x\n7,8,1.5\n9,10,-1\n11,12,2.0\n13,14,\n15,16,5 min\n")
    trace = load(file, **TIMES, count="n", bad_rows="drop")
    assert [event[:2] for event in trace.events()] == [(1, 2)] * 3 + [(11, 12)] * 2
    no_count = "is not a count, which is a whole number from 0 on"
    assert reasons(trace) == [
        *((row, "n", no_count) for row in (3, 4, 5)),
        (7, "n", "has no value"),
        (8, "n", no_count),
    ]
    frame = pd.DataFrame({"e": [1, 2], "a": [3, 4], "n": [2, 1]})
    assert load(frame, **TIMES, count="n").table["event_time"].to_pylist() == [1, 1, 2]
    with pytest.raises(TraceError, match=r"stand for 1,000,000,000,001 records.*\n.*divide all counts"):
        load(frame.assign(n=[10**12, 1]), **TIMES, count="n")
    with pytest.raises(TraceError, match="has no records: all counts are 0"):
        load(frame.assign(n=0), **TIMES, count="n")
    with pytest.raises(TraceError, match="has no column 'number'"):
        load(frame, **TIMES, count="number")


def test_an_arrival_may_be_an_event_time_and_a_delay(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("e,late\n1700000000,1500\n1700000001,\n1700000002,-5\n1700000003,soon\nsoon,1\n")
    units = {"event_time": "s", "delay": "ms"}
    trace = load(file, event_time="e", delay="late", unit=units, bad_rows="drop")
    assert [event[:2] for event in trace.events()] == [
        (1_700_000_000_000, 1_700_000_001_500),
        (1_700_000_002_000, 1_700_000_001_995),
    ]
    assert reasons(trace) == [
        (2, "late", "has no value"),
        (4, "late", "is not a duration of a known form"),
        (5, "e", "is not a time of a known form"),
    ]
    text = "e,late\n2015-07-20 03:49:24,1.5\n2015-07-20 03:49:24,00:01:30\n"
    assert events(file, text, delay="late", unit="s") == [(AT_MS, AT_MS + 1_500), (AT_MS, AT_MS + 90_000)]
    frame = pd.DataFrame({"e": pd.to_datetime(["2015-07-20 03:49:24"]), "late": pd.to_timedelta(["90s"])})
    assert load(frame, event_time="e", delay="late").span_ms == (AT_MS + 90_000,) * 2
    far = pd.DataFrame({"e": [2**63 - 1], "late": [1]})
    with pytest.raises(TraceError, match="column 'late' is beyond 64 bits of milliseconds"):
        load(far, event_time="e", delay="late")
    with pytest.raises(TraceError, match="column 'late' is before 1970"):
        load(pd.DataFrame({"e": [5], "late": [-6]}), event_time="e", delay="late")


def test_a_date_and_a_time_of_day_may_be_two_columns(tmp_path: Path) -> None:
    file = tmp_path / "till.csv"
    text = "day,clock,a\n2015-07-20,03:49:24,2015-07-20 04:00\n,03:49,2015-07-20 04:00\n2015-07-20,,2015-07-20 04:00\n"
    file.write_text(text)
    two = {"event_time": ("day", "clock"), "arrival": "a"}
    trace = load(file, **two, bad_rows="drop")
    assert trace.table["event_time"].to_pylist() == [AT_MS]
    assert reasons(trace) == [(row, "day clock", "has no value") for row in (2, 3)]
    german = "day,clock,a\n20.07.2015,05:49:24,2015-07-20T03:50:00Z\n"
    form = {"format": {"event_time": "%d.%m.%Y %H:%M:%S"}, "timezone": {"event_time": "Europe/Berlin"}}
    assert events(file, german, **two, **form) == [(AT_MS, AT_MS + 36_000)]
    assert events(file, german, event_time=["day", "clock"], arrival=["day", "clock"], format="%d.%m.%Y %H:%M:%S") == [
        (AT_MS + 2 * HOUR_MS,) * 2
    ]
    typed = pa.table(
        {
            "day": [dt.date(2015, 7, 20)],
            "clock": [dt.time(3, 49, 24)],
            "since": [dt.timedelta(hours=4)],
            "midnight": pa.array([dt.datetime(2015, 7, 20)], pa.timestamp("ns")),
        }
    )
    read = load(typed, event_time=("day", "clock"), arrival=("midnight", "since"))
    assert [event[:2] for event in read.events()] == [(AT_MS, AT_MS + 636_000)]
    for wrong in (("day",), ("day", 5), ("day", "clock", "more"), 5):
        with pytest.raises(TraceError, match=r"event_time is .*\n.*or two, of the dates and of the times of day"):
            load(file, event_time=wrong, arrival="a")
    with pytest.raises(TraceError, match="has no column 'hour'"):
        load(file, event_time=("day", "hour"), arrival="a")


def test_units_zones_and_origins_may_differ_by_column(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    text = "e,a\n1700000000,1700000000650\n1700000010,1700000010050\n"
    wanted = [(1_700_000_000_000, 1_700_000_000_650), (1_700_000_010_000, 1_700_000_010_050)]
    assert events(file, text, unit={"event_time": "s"}) == wanted
    assert events(file, text, unit={"event_time": "s", "arrival": "ms"}) == wanted
    local = "e,a\n2015-07-20 05:49:24,2015-07-20 03:49:25\n"
    assert events(file, local, timezone={"event_time": "Europe/Berlin"}) == [(AT_MS, AT_MS + 1_000)]
    days = "e,a\n45000.5,1678881601000\n"
    mixed = {"unit": {"event_time": "d"}, "origin": {"event_time": "1899-12-30"}}
    assert events(file, days, **mixed) == [(1_678_881_600_000, 1_678_881_601_000)]
    with pytest.raises(TraceError, match=r"unit is given for 'e'.\n.*'event_time', 'arrival', 'delay'"):
        load(file, **TIMES, unit={"e": "s"})
    with pytest.raises(TraceError, match="unit is 'weeks'"):
        load(file, **TIMES, unit={"arrival": "weeks"})


# Spellings of CSV.


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_marks_line_ends_quotes_and_delimiters(tmp_path: Path, newline: str, delimiter: str, mark: str) -> None:
    rows = [
        ["e", "a", "who", "n"],
        ['"1,5"', "2", '"a ""b""; |c\t"', "x"],
        [".5", "2.5", "007", "NA"],
        ["3", "3", "ä", ""],
    ]
    text = mark + newline * 2 + newline.join(delimiter.join(row) for row in rows)
    file = tmp_path / ("log.tsv" if delimiter == "\t" else "log.csv")
    file.write_bytes(text.encode())
    trace = load(file, **TIMES, writer="who", unit="s")
    assert list(trace.events()) == [
        (1_500, 2_000, 'a "b"; |c\t', 'a "b"; |c\t'),
        (500, 2_500, "007", "007"),
        (3_000, 3_000, "ä", "ä"),
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_a_mark_of_the_encoding_says_it(tmp_path: Path, encoding: str) -> None:
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    content = marks.get(encoding, b"") + "e;a;who\r\n1;2;Jörg\r\n".encode(encoding)
    assert events(tmp_path / "log.csv", content, writer="who") == [(1, 2)]
    assert load(tmp_path / "log.csv", **TIMES, writer="who").writer_names == ("Jörg",)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(content))
    assert load(packed, **TIMES, writer="who").writer_names == ("Jörg",)


def test_headers_of_spreadsheets_and_of_hands(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    assert events(file, "sep=;\r\ne;a\r\n1,5;2\r\n", unit="s") == [(1_500, 2_000)]
    file.write_text("e, a, writer\n1, 2, w\n")
    assert list(load(file, **TIMES).events()) == [(1, 2, "w", "w")]
    assert events(file, "e,a,x,x,\n1,2,3,4,5\n") == [(1, 2)]
    assert events(file, '"e","a",a b\n"1","2",3\n') == [(1, 2)]
    with pytest.raises(TraceError, match="has more than one column 'a'"):
        events(file, "e,a,a\n1,2,3\n")
    assert events(file, "e,a,text\n1,2," + "x" * 3_000_000 + "\n3,4,5\n") == [(1, 2), (3, 4)]


def test_missing_cells_and_huge_numbers_of_every_unit(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    cells = ["", "NA", "NaN", "null", "None", r"\N", "N/A"]
    file.write_text(
        "e,a\n1700000000000000001,1700000000000000001\n" + "".join(f"{cell},5\n5,{cell}\n" for cell in cells)
    )
    trace = load(file, **TIMES, unit="ns", bad_rows="drop")
    assert next(trace.events())[:2] == (1_700_000_000_000,) * 2
    assert reasons(trace) == [
        (row, column, "has no value") for row, column in zip(range(2, 16), ["e", "a"] * len(cells), strict=True)
    ]
    for unit, digits in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9)):
        text = f"1700000000{'0' * digits}"
        assert events(file, f"e,a\n{text},{text}\n", unit=unit) == [(1_700_000_000_000,) * 2]
    frame = pd.DataFrame({"e": [2**70, 5], "a": [5, 5]}, dtype=object)
    with pytest.raises(TraceError, match=f"beyond 64 bits of milliseconds in 1 of its rows, first in row 1: '{2**70}'"):
        load(frame, **TIMES)


def test_a_log_with_all_dirt_at_once_has_the_numbers_of_pandas(tmp_path: Path) -> None:
    draw = random.Random(52)
    start = pd.Timestamp("2024-10-26T22:00:00Z")
    writers = {
        "a": lambda at: at.isoformat().replace("+00:00", "Z"),
        "b": lambda at: str(at.tz_convert("Asia/Kolkata")),
        "c": lambda at: (
            at.tz_convert("America/New_York").strftime("%a, %d %b %Y %H:%M:%S.%f %z (%Z) (by c)").replace(".000000", "")
        ),
        "d": lambda at: at.tz_localize(None).isoformat(" "),
        "e": lambda at: at.strftime("%a %b %d %H:%M:%S UTC %Y"),
    }
    rows = []
    for _ in range(3_000):
        event = start + pd.Timedelta(seconds=draw.randrange(40_000))
        arrival, who = event + pd.Timedelta(seconds=draw.randrange(900)), draw.choice("abcde")
        rows.append((event, arrival, who, writers[who](event), arrival.tz_convert("Europe/Berlin").isoformat()))
    frame = pd.DataFrame(rows, columns=["event", "arrival", "who", "e", "a"])
    bad = frame.sample(300, random_state=1).index
    frame.loc[bad, "e"] = [draw.choice(["", "soon", "2024-02-30", "1700000000", "12:00"]) for _ in bad]
    file = tmp_path / "dirty.csv.gz"
    frame[["e", "a", "who"]].to_csv(file, index=False, sep=";", encoding="utf-16")
    trace = load(file, **TIMES, writer="who", bad_rows="drop")
    good = frame.drop(bad).sort_values("arrival", kind="stable")
    assert trace.table["event_time"].to_pylist() == (good["event"].astype("int64") // 10**6).to_list()
    assert trace.table["arrival_ms"].to_pylist() == (good["arrival"].astype("int64") // 10**6).to_list()
    assert trace.table["writer"].to_pylist() == good["who"].to_list()
    assert trace.refused["row"].to_pylist() == sorted(index + 1 for index in bad)


# Units.


def log_of(event: Any, arrival: Any) -> traces.Trace:
    return load(pd.DataFrame({"e": event, "a": arrival}), **TIMES)


SECONDS = [1_700_000_000 + n for n in range(50)]


@pytest.mark.parametrize(
    ("event", "arrival", "said"),
    [
        (SECONDS, [n * 1_000 + 650 for n in SECONDS], "Its events are 53 years before their arrival"),
        ([n * 1_000 for n in SECONDS], SECONDS, "Its events are 53 years after their arrival"),
        ([n * 10**6 for n in SECONDS], [n * 1_000 for n in SECONDS], "53 852 years after their arrival"),
        ([n // 86_400 for n in SECONDS], [n * 1_000 for n in SECONDS], "one of the two columns is in another unit"),
        (SECONDS, SECONDS, "Most of its event times are of the year 1970"),
        (
            [n * 10**6 for n in SECONDS],
            [n * 10**6 for n in SECONDS],
            "Most of its arrival times are of the year 55 839",
        ),
        ([20240312061500 + n for n in range(50)], [20240312061501 + n for n in range(50)], "dates, digit by digit"),
        ([202403120600 + n for n in range(50)], [202403120601 + n for n in range(50)], "dates, digit by digit"),
        (
            [20240301 + n for n in range(30)],
            [n * 1_000 for n in SECONDS[:30]],
            "The numbers of its event times are dates",
        ),
    ],
)
def test_a_wrong_unit_is_found(event: list[int], arrival: list[int], said: str) -> None:
    log = log_of(event, arrival)
    assert said in " ".join(doubt.text for doubt in unit_doubts(log))
    assert "is unit= right?" in repr(log)
    found = [finding for finding in profile(log).findings if finding.kind == "unit"]
    assert [finding.headline for finding in found] == [doubt.text for doubt in unit_doubts(log)]
    assert all("unit=" in finding.remedy or "format=" in finding.remedy for finding in found)


@pytest.mark.parametrize("start", [0, 1_000, 20_000_000, 631_152_000_000, 1_700_000_000_000, 3_000_000_000_000])
def test_no_unit_is_doubted_of_other_logs(start: int) -> None:
    event = [start + 997 * n for n in range(500)]
    assert unit_doubts(log_of(event, [time + 400 for time in event])) == ()


@pytest.mark.parametrize("name", [name for name in traces.names() if name != "presses"])
def test_no_unit_of_a_bundled_trace_is_doubted(name: str) -> None:
    assert unit_doubts(load(name)) == ()


def test_the_remedy_of_a_wrong_unit_mends_it(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("e,a\n" + "".join(f"{20240312061500 + n},{20240312061500 + n}\n" for n in range(50)))
    assert {"format={'event_time': '%Y%m%d%H%M%S'}" in d.remedy for d in unit_doubts(load(file, **TIMES))} == {
        True,
        False,
    }
    assert unit_doubts(load(file, **TIMES, format="%Y%m%d%H%M%S")) == ()
    table = pa.table({"e": [20240312061500], "a": [20240312061500]})
    pq.write_table(table, tmp_path / "log.parquet")
    assert load(tmp_path / "log.parquet", **TIMES, format="%Y%m%d%H%M%S").span_ms == (1_710_224_100_000,) * 2
