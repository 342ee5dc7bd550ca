"""A log read by Spark is the trace that `load` reads, and its bad rows are kept with the reason."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.repetitions import repetitions
from wmlab.core.errors import ModelError, TraceError
from wmlab.core.spark.log import read_log, stragglers
from wmlab.core.traces import TRACE_SCHEMA, load
from wmlab.strategies.advice import advise
from wmlab.strategies.comparison import compare
from wmlab.strategies.log_profile import profile

COLUMNS: dict[str, Any] = {"event_time": "happened", "arrival": "arrived", "writer": "who", "key": "what"}
LOG = [(1_700_000_000_000 + at * 700, 1_700_000_000_000 + at * 1_000, f"w{at % 3}", str(at % 5)) for at in range(40)]
LOG.append((-1_234_567, 1_700_000_040_000, "w0", "1"))
TIMES = {
    "ms": lambda ms: ms,
    "s": lambda ms: ms // 1_000,
    "us": lambda ms: ms * 1_000 + 7,
    "ns": lambda ms: ms * 1_000_000 + 7,
    "d": lambda ms: ms // 86_400_000,
}


def kept(folder: Path, name: str, table: pa.Table) -> Path:
    path = folder / name
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    else:
        options = pyarrow.csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        pyarrow.csv.write_csv(table, path, options)
    return path


def log_of(convert: Any) -> pa.Table:
    happened, arrived, who, what = zip(*LOG, strict=True)
    times = {"happened": [*map(convert, happened)], "arrived": [*map(convert, arrived)]}
    return pa.table({"other": [1.5] * len(LOG), **times, "who": who, "what": what})


def same(spark: SparkSession, path: Path, **mapping: Any) -> bool:
    """Whether every row is good, and Spark reads the rows that `load` reads."""
    found = [tuple(row) for row in read_log(spark, path, **mapping).collect()]
    wanted = load(path, **mapping).table
    assert {row[4:6] for row in found} == {(None, None)}
    return Counter(row[:4] for row in found) == Counter(
        tuple(row[name] for name in TRACE_SCHEMA.names) for row in wanted.to_pylist()
    )


FORMS = ("log.csv", "log.tsv", "log.jsonl", "log.parquet")


@pytest.mark.parametrize(
    ("name", "unit"),
    repetitions(
        [(FORMS[number % len(FORMS)], unit) for number, unit in enumerate(TIMES)], long=list(product(FORMS, TIMES))
    ),
)
def test_every_form_and_unit_is_read_as_load_reads_it(
    spark: SparkSession, tmp_path: Path, name: str, unit: str
) -> None:
    assert same(spark, kept(tmp_path, name, log_of(TIMES[unit])), **COLUMNS, unit=unit)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()])
def test_dates_and_timestamps_are_times(spark: SparkSession, tmp_path: Path, name: str, kind: pa.DataType) -> None:
    log = log_of(lambda ms: ms)
    for index, column in ((1, "happened"), (2, "arrived")):
        log = log.set_column(index, column, log[column].cast(pa.timestamp("ms")).cast(kind))
    assert same(spark, kept(tmp_path, name, log), **COLUMNS)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_fractions_of_seconds_are_rounded_as_load_rounds_them(spark: SparkSession, tmp_path: Path, name: str) -> None:
    assert same(spark, kept(tmp_path, name, log_of(lambda ms: ms / 1_000 + 0.0625)), **COLUMNS, unit="s")


def test_a_log_without_writer_and_key_is_one_writer(spark: SparkSession, tmp_path: Path) -> None:
    path = kept(tmp_path, "sensors.csv", log_of(lambda ms: ms))
    assert same(spark, path, **(COLUMNS | {"writer": None, "key": None}))


def test_a_bad_row_is_kept_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "happened;arrived;who;what\n10;20;a;k\nsoon;20;b;k\n10;-20;c;k\n10;;d;k\n10;20;;k\n10;20;e;\n"
        "10;99999999999999999999;f;k\n10;20\n12:00:00;20;g;k\n"
    )
    found = read_log(spark, path, **COLUMNS).collect()
    assert {row.event_time for row in found if "'happened' is no" in (row.reason or "")} == {None}
    rows = {row["text"]: row["reason"] for row in found}
    assert rows.pop(None) is None
    assert sorted(rows.values()) == [
        "column 'arrived' has no value",
        "column 'arrived' is before 1970",
        "column 'arrived' is beyond 64 bits of milliseconds",
        "column 'happened' is no time of a known form",
        "column 'happened' is no time of a known form",
        "column 'what' has no value",
        "column 'who' has no value",
        "does not have one value for each column",
    ]
    assert [json.loads(row)["who"] for row, reason in rows.items() if "known form" in reason] == ["b", "g"]


def test_a_line_that_is_no_json_is_a_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"happened": 1, "arrived": 2, "who": "a", "what": "k"}\n{"happened": \n{"arrived": 2}\n')
    found = read_log(spark, path, **COLUMNS).orderBy("reason").collect()
    assert [row.reason for row in found] == [
        None,
        "column 'happened' has no value",
        "is no JSON",
    ]


@pytest.mark.parametrize("wrong", [{"path": 5}, {"event_time": None}, {"writer": ["who"]}, {"encoding": None}])
def test_what_is_no_name_is_refused(spark: SparkSession, wrong: dict[str, Any]) -> None:
    (given,) = wrong
    with pytest.raises(TraceError, match="5 is no path" if given == "path" else f"{given} is "):
        read_log(spark, **({"path": "log.csv"} | COLUMNS | wrong))


NO_TIMES = pa.table({"happened": [True], "arrived": [1], "who": ["a"], "what": ["k"]})


@pytest.mark.parametrize(
    ("name", "content", "options", "said"),
    [
        ("log.csv", None, {}, r"log\.csv cannot be read: \[PATH_NOT_FOUND\]"),
        ("log.jsonl", None, {}, r"log\.jsonl cannot be read: \[PATH_NOT_FOUND\]"),
        ("log.parquet", None, {}, r"log\.parquet cannot be read: \[PATH_NOT_FOUND\]"),
        ("log.parquet", b"PAR1 and no more", {}, "CANNOT_READ_FILE_FOOTER"),
        ("log.txt", b"happened,arrived\n", {}, "has no column 'who'; it has 'happened', 'arrived'"),
        ("log.txt", b"nothing of the kind", {}, "log.txt begins with 'nothing of the kind'.*tab or bar"),
        ("log.parquet", log_of(lambda ms: pa.scalar(ms, pa.timestamp("ns"))), {}, "NANOS"),
        ("log.parquet", NO_TIMES, {}, "column 'happened' holds bool, not times"),
        ("log.csv", NO_TIMES, {"event_time": "when"}, "has no column 'when'; it has 'happened'"),
        ("log.csv", b"", {}, r"has no column 'happened'; it has none\."),
        ("log.csv", NO_TIMES, {"encoding": "utf-16"}, "no text in 'utf-16'"),
    ],
)
def test_what_spark_does_not_read_is_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path, name: str, content: pa.Table | bytes | None, options: Any, said: str
) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        kept(tmp_path, name, content)
    with pytest.raises(TraceError, match=said):
        read_log(spark, tmp_path / name, **(COLUMNS | options))


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_a_text_in_latin_1_is_read_as_load_reads_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = kept(tmp_path, name, log_of(lambda ms: ms))
    path.write_text(path.read_text().replace("w0", "Jörg"), encoding="latin-1")
    assert same(spark, path, **COLUMNS, encoding="latin-1")


def test_the_files_of_a_folder_have_one_header(spark: SparkSession, tmp_path: Path) -> None:
    header = ",happened,arrived,who,what,more,more\n"
    for name in ("0.csv", "1.csv"):
        (tmp_path / name).write_text(header + "7,1,2,a,k,8,9\n")
    assert [tuple(row)[:4] for row in read_log(spark, tmp_path, **COLUMNS).collect()] == [(1, 2, "a", "k")] * 2
    for name, header in (("0.csv", "happened,arrived,who,what\n"), ("1.csv", "arrived,happened,who,what\n")):
        (tmp_path / name).write_text(header + "1,2,a,k\n")
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        read_log(spark, tmp_path, **COLUMNS).collect()


def test_the_straggler_is_the_writer_with_the_least_newest_time(spark: SparkSession) -> None:
    rows = [(event_time, arrival_ms, who) for event_time, arrival_ms, who, _ in LOG] + [(5, 1_700_000_004_500, "late")]
    log = spark.createDataFrame(rows, "event_time long, arrival_ms long, writer string")
    found = {row.at_ms: row for row in stragglers(log, 1_500).collect()}
    assert sorted(found) == list(range(min(found), max(found) + 1, 1_500))
    assert {max(found) - 1_500 < arrival <= max(found) for _, arrival, _ in rows[-2:-1]} == {True}
    for at_ms, row in found.items():
        newest: dict[str, int] = {}
        for event_time, arrival_ms, who in rows:
            if arrival_ms <= at_ms:
                newest[who] = max(event_time, newest.get(who, event_time))
        lower, straggler = min((time, who) for who, time in newest.items())
        assert (row.writers, row.lower, row.straggler) == (len(newest), lower, straggler)
        assert row.ahead_ms == max(newest.values()) - lower
    with pytest.raises(ModelError, match="log has no column 'writer'"):
        stragglers(log.drop("writer"), 1_500)
    with pytest.raises(TraceError, match=r"every_ms is 2\.5"):
        stragglers(log, 2.5)  # type: ignore[arg-type]


DIRTY: dict[str, str] = {
    "iso.csv": "happened,arrived,who,what\n"
    "2015-07-20 03:49:24 UTC,2015-7-20 3:49:25,a,k\n"
    "2015-02-30 01:00:00,2015-07-20 03:49:25,a,k\n"
    "2015-07-20 03:49:24 +0200,2015-07-20 03:49:25 -19:00,b,k\n"
    "2015,2015-07-20 03:49:25,b,k\n"
    "2015-07-20 03:49:24,,c,k\n"
    "2015-07-20 03:49:24,1960-07-20,c,k\n"
    "2015-07-20 03:49:24 CEST,2015-07-20,c,k\n"
    "2015-07-20 03:49:24,2015-07-20,,k\n"
    "2015-07-20 03:49:24,2015-07-20,c,\n"
    "2015-07-20 03:49:24,2015-07-20,c\n"
    "soon,later,c,\n"
    ' 2015-07-20T24:00:00 ,"Mon, 20 Jul 2015 03:49:24 +0200 (CEST)",c,k\n',
    "numbers.csv": "happened,arrived,who,what\n1,2,a,k\n1e3,2.5,a,k\n2015-07-20,3,a,k\n9223372036854775808,5,a,k\n"
    "nan,5,a,k\n-7,+8,a,k\n",
    "broken.csv": 'happened,arrived,who,what\n1,2,"a\nb",k\n3,4,c,"k\n\n"\nsoon,4,c,"k"\n',
    "log": "happened|arrived|who|what\n1|2|a|k\n3|x|a|k\n",
    "log.jsonl": '{"happened": "2015-07-20", "arrived": "Mon, 20 Jul 2015 03:49:24 GMT", "who": 1, "what": 2.5}\n'
    '{"happened": 2015, "arrived": "2015-07-20", "who": "a", "what": "k"}\n\n'
    '{"happened": {"a": 1}, "arrived": "2015-07-20", "who": "a", "what": "k"}\nno json\n[{"happened": "2015-07-21"}]\n'
    '{"happened": "2015-07-21", "arrived": "2015-07-22", "who": "a\ufffd", "what": "k"}\n',
    "array.json": '[\n {"happened": 1, "arrived": 2, "who": "a", "what": "k"},\n'
    ' {"happened": 3, "who": "a", "what": "k"}\n]\n',
}
"""Logs with rows of every kind."""


def answers_of(spark: SparkSession, path: Path, **mapping: Any) -> tuple[Counter[Any], list[tuple[int, str]]]:
    """The good rows, and the numbers of the bad ones with their reasons, as `read_log` has them."""
    rows = read_log(spark, path, **mapping).collect()
    good = Counter(tuple(row)[:4] for row in rows if row.reason is None)
    return good, sorted((row.row, row.reason) for row in rows if row.reason is not None)


def answers_of_load(path: Path, **mapping: Any) -> tuple[Counter[Any], list[tuple[int, str]]]:
    """The same of `load`."""
    trace = load(path, **mapping, bad_rows="drop")
    said = [
        (row["row"], row["reason"] if row["column"] is None else f"column {row['column']!r} {row['reason']}")
        for row in trace.refused.to_pylist()
    ]
    return Counter(tuple(event) for event in trace.events()), sorted(said)


@pytest.mark.parametrize("name", DIRTY)
def test_both_readers_take_and_refuse_the_same_rows_for_the_same_reasons(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text(DIRTY[name], encoding="utf-8")
    good, bad = answers_of_load(path, **COLUMNS)
    assert good
    assert bad
    assert answers_of(spark, path, **COLUMNS) == (good, bad)


def test_both_readers_take_a_format(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("happened,arrived,who,what\n20.07.2015 03:49,5,a,k\n31.02.2015 03:49,5,a,k\n2015-07-20,5,a,k\n")
    mapping = COLUMNS | {"format": "%d.%m.%Y %H:%M"}
    assert answers_of(spark, path, **mapping) == answers_of_load(path, **mapping)
    assert answers_of_load(path, **mapping)[1] == [(row, "column 'happened' does not fit the format") for row in (2, 3)]


def test_texts_of_parquet_and_nested_columns_are_read_as_load_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    times = ["2015-07-20 03:49:24 UTC", None, "20 Jul 2015 03:49:24 GMT", "soon"]
    pq.write_table(pa.table({"happened": times, "arrived": [1, 2, 3, 4], "who": ["a"] * 4, "what": ["k"] * 4}), path)
    assert answers_of(spark, path, **COLUMNS) == answers_of_load(path, **COLUMNS)
    nested = [{"happened": 1, "rx": [{"t": 5, "gw": "a"}, {"t": 6, "gw": "b"}]}, {"happened": 2, "rx": []}]
    mapping = {"event_time": "happened", "arrival": "rx[].t", "writer": "rx[].gw"}
    pq.write_table(pa.Table.from_pylist(nested), path)
    assert answers_of(spark, path, **mapping)[0] == answers_of_load(path, **mapping)[0]
    path.unlink()
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, nested)))
    assert answers_of(spark, path, **mapping) == answers_of_load(path, **mapping)
    assert answers_of_load(path, **mapping)[1] == [(3, "column 'rx[].t' has no value")]


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_bytes_of_another_encoding_merge_no_writers(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = kept(
        tmp_path, name, pa.table({"happened": [1, 1], "arrived": [2, 2], "who": ["M1", "M2"], "what": ["k", "k"]})
    )
    path.write_text(path.read_text().replace("M1", "Müller").replace("M2", "Möller"), encoding="latin-1")
    rows = read_log(spark, path, **COLUMNS).collect()
    assert [row.reason is None for row in rows] == [False, False]
    assert all("of the encoding" in row.reason for row in rows)
    assert sorted(row.writer for row in read_log(spark, path, **COLUMNS, encoding="latin-1").collect()) == [
        "Möller",
        "Müller",
    ]


@pytest.mark.parametrize("name", repetitions(["log.csv"], long=["log.csv", "log.jsonl", "log.parquet"]))
def test_file_and_row_give_the_order_of_the_files_however_they_are_cut(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number, count in enumerate((400, 3, 150)):
        rows = pa.table(
            {"happened": range(count), "arrived": [7] * count, "who": [f"w{number}"] * count, "what": ["k"] * count}
        )
        kept(folder, f"{number}-{name}", rows)
    setting = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(setting)
    orders = []
    for most in ("1000", "3000", "128MB"):
        spark.conf.set(setting, most)
        try:
            log = read_log(spark, folder, **COLUMNS)
            tasks = (
                log.select("row", F.spark_partition_id()).distinct().select("spark_partition_id()").distinct().count()
            )
            found = log.where("writer <> 'w1'").orderBy("file", "row").select("file", "writer", "event_time", "row")
            orders.append([tuple(row) for row in found.collect()])
        finally:
            spark.conf.set(setting, before)
        # Parquet this small has one group of rows, which no cut divides.
        assert tasks > 3 or most != "1000" or name == "log.parquet"
    names = [(f"w{number}", n) for number, count in ((0, 400), (2, 150)) for n in range(count)]
    for order in orders:
        assert [row[1:3] for row in order] == names
        assert len({(row[0], row[3]) for row in order}) == len(order)
    assert [row[3] for row in orders[-1]] == [n + 1 for _, n in names]


def test_a_row_is_bad_whichever_columns_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("happened,arrived,who,what,more\n1,2,a,k,5\n3,4,a,k\n")
    log = read_log(spark, path, **COLUMNS)
    assert log.where("reason is null").select("writer").count() == 1
    assert log.where("reason is null").count() == 1
    assert sorted(row["count"] for row in log.groupBy("reason").count().collect()) == [1, 1]


def test_a_folder_of_files_without_a_suffix_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").write_bytes(b"crc\x00")
    for number in range(2):
        (folder / f"part-{number:04}").write_text(f"event_time,arrival_ms\n{number},5\nsoon,5\n")
    assert answers_of(spark, folder) == answers_of_load(folder)
    packed = folder / "part-0000"
    packed.write_bytes(gzip.compress(packed.read_bytes()))
    with pytest.raises(TraceError, match=r"is compressed, which Spark sees by the end of a name only.\n.*end in \.gz"):
        read_log(spark, folder)


def test_quoted_line_breaks_are_asked_for_or_found_or_told(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('happened,arrived,who,what\n1,2,"a\nb",k\n3,4,c,k\n')
    assert answers_of(spark, path, **COLUMNS) == (Counter({(1, 2, "a\nb", "k"): 1, (3, 4, "c", "k"): 1}), [])
    assert answers_of(spark, path, **COLUMNS, line_breaks=True)[1] == []
    bad = answers_of(spark, path, **COLUMNS, line_breaks=False)[1]
    assert [row for row, _ in bad] == [1, 2]
    assert {"line_breaks=True reads it" in reason for _, reason in bad} == {True}
    with pytest.raises(TraceError, match="line_breaks is 'yes'"):
        read_log(spark, path, **COLUMNS, line_breaks="yes")  # type: ignore[arg-type]


def test_what_spark_has_read_becomes_a_trace(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(DIRTY["iso.csv"])
    log = read_log(spark, path, **COLUMNS)
    trace, whole = load(log), load(path, **COLUMNS, bad_rows="drop")
    assert trace.table == whole.table
    assert trace.refused["row"] == whole.refused["row"]
    assert trace.refused["reason"].to_pylist()[0] == "column 'happened' is a date or a time of day that does not exist"
    assert f"{whole.refused.num_rows} left-out bad rows" in repr(trace)
    times = spark.sql("select timestamp '2015-07-20 03:49:24' as t, timestamp_ntz '2015-07-20 03:49:25' as u, 'w' as w")
    assert list(load(times, event_time="t", arrival="u", writer="w").events()) == [
        (1_437_364_164_000, 1_437_364_165_000, "w", "w")
    ]
    advice = advise(log, 0.5)
    assert advice.whole == advise(trace, 0.5).whole
    assert compare(log, [advice.strategy]).outcomes == (advice.whole,)
    assert profile(log).writers.writers == profile(trace).writers.writers
    assert profile(log).log.refused["row"] == whole.refused["row"]
    with pytest.raises(TraceError, match=r"no column 'event_time'.*\n.*with wm\.trace\.load\(frame, "):
        advise(times)
