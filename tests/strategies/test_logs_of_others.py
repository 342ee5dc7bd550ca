"""Logs of others, as they are published: what is advised and found of them, and how their files are read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

import wmlab as wm
from wmlab.core.errors import TraceError
from wmlab.core.traces import Trace, load
from wmlab.strategies.advice import advise
from wmlab.strategies.log_profile import profile
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.writers import PerWriterMinimum

DAY_MS: Final = 86_400_000
START_MS: Final = 1_700_000_000_000


def log_of(rows: list[tuple[int, int, str]]) -> Trace:
    frame = pd.DataFrame(rows, columns=["event_time", "arrival_ms", "writer"])
    return load(frame.sort_values("arrival_ms", kind="stable"), name="rows")


def test_a_watermark_that_waits_for_a_writer_of_one_record_is_not_advised() -> None:
    start, rows = 1_635_724_800_000, []
    for day in range(30):
        late = 4 if day < 15 else 6
        rows += [(start + (day - n % late) * DAY_MS, start + day * DAY_MS + n, "main") for n in range(40)]
    advice = advise(log_of([*rows, (start + 5 * DAY_MS, start + 6 * DAY_MS + 5_000, "rare")]), 0.01)
    assert not isinstance(advice.strategy, PerWriterMinimum)
    assert advice.lag_ms < 6 * DAY_MS
    assert advice.kept_by_ms == 5 * DAY_MS
    assert "A constant bound of 5 d would have kept it there." in repr(advice)


def test_writers_that_send_in_bursts_are_waited_for() -> None:
    rows = [(START_MS + 5 * n, START_MS + 2_000 + 25 * n, "big") for n in range(2_400)]
    for writer in range(5):
        for burst in range(6):
            begin = START_MS + 8_000 * burst + 1_000 * writer
            rows += [(begin + 10 * n, begin + 10 * n + 2_000, f"small-{writer}") for n in range(20)]
    advice = advise(log_of(rows), 0.01)
    assert (advice.strategy, advice.whole.late) == (PerWriterMinimum(0), 0)
    assert advice.whole.lag_p50_ms == pytest.approx(24_400, abs=100)
    assert profile(log_of(rows)).findings == ()


def test_the_line_of_an_engine_that_cannot_have_the_advice_has_a_bound_that_keeps_the_target() -> None:
    rows = []
    for n in range(3_000):
        late_ms = 10_000 * (n % 10 == 0) + 21_000 * (n >= 1_500 and n % 10 in (3, 6))
        rows.append((START_MS + 1_000 * n - late_ms, START_MS + 1_000 * n + 100, "a"))
    instead = advise(log_of(rows), 0.01).settings["Kafka Streams"].instead
    assert instead is not None
    assert "ofMillis(20000L)" in instead.code
    assert instead.expected.startswith("with 0.000% late for a median lag of 20.1 s")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


COLUMNS: Final[dict[str, Any]] = {"event_time": "at", "arrival": "got"}


def test_the_formats_of_a_column_are_named_with_what_each_reads_and_all_are_read(tmp_path: Path) -> None:
    lines = [f"2026-03-02 06:00:{n:02}.500,{1_800_000_000_000 + n}" for n in range(40)]
    lines += [f"13/03/2026 06:00:{n:02},{1_800_000_000_100 + n}" for n in range(10)]
    path = write(tmp_path, "two.csv", "\n".join(["at,got", *lines]))
    formats = ["%Y-%m-%d %H:%M:%S.%f", "%d/%m/%Y %H:%M:%S"]
    with pytest.raises(TraceError) as refused:
        load(path, **COLUMNS)
    assert f"format={formats!r} ('%Y-%m-%d %H:%M:%S.%f' reads 40 of 50 values" in str(refused.value)
    assert "'%d/%m/%Y %H:%M:%S' reads 10 of 50 values)" in str(refused.value)
    log = load(path, **COLUMNS, format=formats)
    assert (log.rows, log.event_time_form) == (50, "several")
    assert "several formats" in advise(log, 0.1).settings["Spark"].note


def test_the_month_may_come_first(tmp_path: Path) -> None:
    path = write(tmp_path, "us.csv", "at,got\n11/02/2021,11/05/2021\n11/30/2021,12/02/2021\n12/03/2021,12/06/2021\n")
    with pytest.raises(TraceError, match=r"format='%m/%d/%Y' \('%m/%d/%Y' reads 6 of 6 values\)"):
        load(path, **COLUMNS)
    either = write(tmp_path, "either.csv", "at,got\n11/02/2021,11/05/2021\n")
    with pytest.raises(TraceError, match=r"reads the same as .*: only the source knows which is meant"):
        load(either, **COLUMNS)


def test_a_zip_archive_of_one_file_is_read_and_of_two_they_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "one.csv", "at,got\n1,2\n3,4\n")
    for name, members in (("one", ["a.csv"]), ("two", ["a.csv", "b.csv"])):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            for member in members:
                archive.write(path, member)
    log = load(tmp_path / "one.zip", **COLUMNS)
    assert (log.name, log.rows) == ("one", 2)
    with pytest.raises(TraceError, match=r"two.zip is a zip archive of 2 files: 'a.csv', 'b.csv'"):
        load(tmp_path / "two.zip", **COLUMNS)


def test_a_file_without_a_header_takes_names_and_loses_no_row(tmp_path: Path) -> None:
    path = write(tmp_path, "bare.csv", "2020-01-01T00:00:00Z,1600000000,a\n2020-01-01T00:00:01Z,1600000001,b\n")
    with pytest.raises(
        TraceError, match=r"first row looks like data(?s:.*)name its 3 columns in their order, columns="
    ):
        load(path, **COLUMNS)
    assert load(path, **COLUMNS, columns=["at", "got", "who"], unit="s").rows == 2
    with pytest.raises(TraceError, match=r"columns has 1 name, and the first row of .* has 3 values"):
        load(path, **COLUMNS, columns=["at"])


def test_lines_about_the_file_before_the_header_are_left_out(tmp_path: Path) -> None:
    """As in the index of Argo floats."""
    text = "# Title : profiles\n# Format : 2.0\nat,got\n20180315122140,20210421083652\n"
    log = load(write(tmp_path, "index.txt", text), **COLUMNS, format="%Y%m%d%H%M%S")
    assert (log.rows, log.event_span_ms[0]) == (1, 1_521_116_500_000)
    assert load(write(tmp_path, "one.csv", "#at,got\n1,2\n"), event_time="#at", arrival="got").rows == 1


def test_a_comparison_never_calls_a_watermark_that_stands_still_the_best() -> None:
    """One report of a country that is never heard of again, as in the cases of MERS: the least over countries dies."""
    rows = [(START_MS + n * DAY_MS, START_MS + (n + 5 + n % 3) * DAY_MS, "many") for n in range(300)]
    log = log_of([(START_MS, START_MS + DAY_MS, "one"), *rows])
    waits, bound = PerWriterMinimum(), BoundedOutOfOrderness(DAY_MS)
    facts = wm.strategy.compare(log, [waits, bound]).facts
    assert (facts["misses least"], facts["stands still"]) == ("BoundedOutOfOrderness(bound=1 d)", "PerWriterMinimum()")


@pytest.mark.parametrize("text", ["2017-12-23 09:13:55 +0100", "Mon, 20 Jul 2015 03:49:24 +0200"])
def test_an_engine_is_given_no_line_that_it_cannot_run(text: str) -> None:
    frame = pd.DataFrame({"at": [text, text], "got": [START_MS, START_MS + 1]})
    settings = advise(load(frame, **COLUMNS, writer=None, name="x"), 0.1).settings
    assert not settings["Flink SQL"].possible
    assert "write the event times in UTC" in settings["Flink SQL"].note
    assert settings["Spark"].possible == text.startswith("2017")


def test_every_log_that_is_listed_loads() -> None:
    assert all(wm.trace.load(name).rows for name in wm.trace.names())


def test_only_formats_that_read_a_refused_time_are_proposed(tmp_path: Path) -> None:
    lines = [f"2026-03-{day:02},1800000000000" for day in range(1, 20)]
    path = write(tmp_path, "onset.csv", "\n".join(["at,got", *lines, "2026-03,1800000000001"]))
    with pytest.raises(TraceError, match="1 bad row of 20") as refused:
        load(path, **COLUMNS)
    assert "format" not in str(refused.value)
    none = write(tmp_path, "none.csv", "at,got\nsoon,1800000000000\nlater,1800000000001\n")
    with pytest.raises(TraceError, match=r"format=\.\.\., as of datetime.strptime"):
        load(none, **COLUMNS)
    two = write(tmp_path, "two.csv", "day,clock,got\n04.03.2026,05:06:07.250,1800000000000\n")
    with pytest.raises(TraceError, match=r"'%d.%m.%Y %H:%M:%S.%f' reads 1 of 1 values"):
        load(two, event_time=("day", "clock"), arrival="got")


def test_a_line_is_given_for_the_texts_that_were_read_and_none_for_two_columns(tmp_path: Path) -> None:
    rows = [f"2026-03-02 06:00:{n:02},{1_800_000_000_000 + n}" for n in range(40)]
    path = write(tmp_path, "units.csv", "\n".join(["at,got", "UTC,UTC", *rows]))
    lines = advise(load(path, **COLUMNS, bad_rows="drop"), 0.1).settings
    assert 'F.expr("try_to_timestamp(at)")' in lines["Spark"].code
    assert "TO_TIMESTAMP(REPLACE" in lines["Flink SQL"].code
    rows = [f"02.03.2026,06:00:{n:02},{1_800_000_000_000 + n}" for n in range(40)]
    path = write(tmp_path, "parts.csv", "\n".join(["day,clock,got", *rows]))
    log = load(path, event_time=("day", "clock"), arrival="got", format={"event_time": "%d.%m.%Y %H:%M:%S"})
    for engine in ("Spark", "Flink SQL"):
        assert "in two columns" in advise(log, 0.1).settings[engine].note


def test_copies_are_known_in_every_kind_of_file_by_its_own_reader(tmp_path: Path) -> None:
    rows = [(START_MS + 1_003 * n, START_MS + 1_003 * n + 20, "w", 7 * n) for n in range(60)]
    frame = pd.DataFrame(
        [*rows, (*rows[9][:1], rows[9][1] + 5_000, *rows[9][2:])], columns=["at", "got", "who", "value"]
    )
    frame.to_csv(tmp_path / "utf16.csv", index=False, sep=";", encoding="utf-16")
    frame.to_json(tmp_path / "lines.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "rows.parquet")
    for name in ("utf16.csv", "lines.jsonl", "rows.parquet"):
        found = profile(tmp_path / name, **COLUMNS, writer="who")
        assert (found.facts["copies are known"], [each.kind for each in found.findings]) == (True, ["copies"]), name
        assert found["copies"].rows == (15,), name
    frame[["at", "got"]].to_csv(tmp_path / "times.csv", index=False)
    assert profile(tmp_path / "times.csv", **COLUMNS).facts["copies are known"] is False
