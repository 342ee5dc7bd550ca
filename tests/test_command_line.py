"""The command line records a scenario file and prints its bounds."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from wmlab.__main__ import main
from wmlab.core.errors import ScenarioError

ROOT = Path(__file__).resolve().parents[1]


def test_record_and_bounds(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "run")
    assert main(["record", str(ROOT / "data/scenarios/first_bounds.yaml"), target]) == 0
    assert "watermarks 37" in capsys.readouterr().out
    assert main(["bounds", target, "--output", str(tmp_path / "bounds.csv")]) == 0
    with (tmp_path / "bounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"stream", "group", "version", "at_ms", "lower", "upper", "perfect_watermark"} <= set(rows[0])
    assert [row["lower"] for row in rows if row["version"] == "0"] == [""]
    assert all("." not in row["lower"] for row in rows)
    assert main(["bounds", target, "--output", str(tmp_path / "none" / "bounds.csv")]) == 1
    assert "none/bounds.csv" in capsys.readouterr().err


def test_a_check_with_exceptions_has_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = wm.Scenario.load(ROOT / "data/scenarios/reports/pravega_7408.yaml")
    scenario.record(tmp_path / "late", progress=False)
    assert main(["check", str(tmp_path / "late")]) == 3
    told = capsys.readouterr().out
    assert "leaves out 154 late events of a dropped writer. Late events: 225," in told.replace("\n", " ")
    assert main(["check", str(tmp_path / "late"), "--only", "I1"]) == 0
    scenario = wm.Scenario.load(ROOT / "data/scenarios/reports/cut_order.yaml")
    scenario.record(tmp_path / "wrong", progress=False)
    assert main(["check", str(tmp_path / "wrong")]) == 1
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "  3  none is violated, but some hold with exceptions" in capsys.readouterr().out


def test_check_and_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "run")
    wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml").record(target)
    assert main(["check", target]) == 0
    told = capsys.readouterr().out
    assert all(f"I{number}" in told for number in range(1, 10))
    assert main(["check", target, "--only", "I7", "I1"]) == 0
    assert "2 invariants of 2 hold.\nI1 ok" in capsys.readouterr().out
    assert main(["check", target, "--only", "K1"]) == 1
    assert "'K1'" in capsys.readouterr().err
    assert main(["explain", target, "--at-ms", "36000"]) == 0
    assert "w2" in capsys.readouterr().out
    assert main(["explain", target, "--at-ms", "36000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["explain", target, "--at-ms", "36000", "--group", "readers"]) == 0
    assert capsys.readouterr().out.startswith("Group readers ")
    assert main(["explain", target]) == 0
    assert "w2" in capsys.readouterr().out


def test_what_to_do_is_said_in_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "run")
    wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml").record(target)
    for arguments, remedy in [
        (["explain", target, "--stream", "parcels"], "name one of them with --stream ..."),
        (["explain", target, "--reader", "r"], "give --at-ms ..., or leave it out"),
        (["explain", target, "--group", "readers"], "give --at-ms ..., or leave it out"),
        (["advise", "dengue", "--event-time", "when"], "--event-time event_time, --arrival arrival_ms"),
        (["explain", str(ROOT / "data/scenarios/first_bounds.yaml")], "is a file"),
    ]:
        assert main(arguments) == 1
        assert remedy in capsys.readouterr().err


def test_a_moment_of_a_job_counts_from_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(ROOT / "data/engine_logs/flink/hour_behind.jsonl")
    begin_ms = wm.engine.read(log).begin_ms
    assert main(["explain-job", log, "--at-ms", "20s"]) == 1
    of_text = capsys.readouterr().out
    assert main(["explain-job", log, "--at-ms", str(begin_ms + 20_000)]) == 1
    assert capsys.readouterr().out == of_text
    assert main(["explain-job", log, "--at-ms", "1"]) == 64
    assert f"milliseconds since 1970 from {begin_ms} on" in capsys.readouterr().err


def test_a_mistake_is_told_and_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("wmlab: 1\nname: x\nduration_ms: 0\n")
    assert main(["record", str(tmp_path / "bad.yaml"), str(tmp_path / "run")]) == 1
    told = capsys.readouterr().err
    assert "duration_ms (line 3)" in told
    assert "To repair it" in told
    assert not (tmp_path / "run").exists()


def test_an_output_that_nobody_reads_is_no_traceback(tmp_path: Path) -> None:
    wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml").record(tmp_path / "run")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "wmlab", "explain", str(tmp_path / "run")]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_advise_prints_the_advice_its_doubts_and_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of your own, a record a second from two devices; the second time one record is stamped a day ahead."""
    arrivals = [1_700_000_000_000 + 1_000 * n for n in range(22_000)]
    rows = [(at_ms - (n * 7_919) % 5_000, at_ms, f"d{n % 2}") for n, at_ms in enumerate(arrivals)]
    paths = [tmp_path / "clean.csv", tmp_path / "dirty.csv"]
    for path in paths:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("ts", "received_at", "device"), *rows])
        rows[5_000] = (rows[5_000][1] + 86_400_000, *rows[5_000][1:])
    options = ["--event-time", "ts", "--arrival", "received_at", "--writer", "device", "--late", "0.01"]
    assert main(["advise", str(paths[0]), *options, "--unit", "ms", "--window-ms", "60000"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Take ")
    assert "  Flink SQL: " in told
    assert "doubt" not in told
    assert main(["advise", str(paths[1]), *options]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("The log dirty does not support a watermark for 1.000% (wrong times); the best guess is ")
    assert told.count("- Wrong times: 1 of d0. The constant bound is ") == 1
    assert " Flink (a guess): " in told
    assert main(["advise", str(paths[1]), *options, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (finding,) = [finding for finding in found["findings"] if finding["doubt"] and finding["rows"]]
    assert (finding["kind"], finding["rows"], found["supported"]) == ("wrong times", [5_001], False)


def test_profile_says_what_is_dirty_and_fails_if_anything_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = str(ROOT / "data" / "exports" / "presses.csv")
    columns = ["--event-time", "taken_at", "--arrival", "received_at", "--writer", "device"]
    assert main(["profile", export, *columns, "--chart", str(tmp_path / "writers.svg")]) == 1
    told = capsys.readouterr().out
    assert "- Bad rows are left out: 3, the first is row 2 001." in told
    assert "profile." not in told
    assert "Next (after its dirt is left out): wmlab advise " in told
    assert (tmp_path / "writers.svg").read_text().startswith("<svg")
    assert main(["profile", export, *columns, "--json"]) == 1
    kinds = [finding["kind"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert kinds == ["bad rows", "wrong times", "copies", "silent"]
    assert main(["profile", "dengue"]) == 0
    assert "Nothing in it is seen to be dirty" in " ".join(capsys.readouterr().out.split())
    assert main(["profile", export]) == 1
    assert "--event-time taken_at, --arrival received_at, --writer device" in capsys.readouterr().err
    assert main(["profile", export, *columns, "--bad-rows", "refuse"]) == 1
    told = capsys.readouterr().err
    assert "presses.csv has 3 bad rows" in told
    assert told.endswith("To repair it: repair those rows, or leave them out with --bad-rows drop.\n")


def test_advise_reads_raw_logs_and_leaves_out_bad_rows_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [(1_700_000_000_000 + 1_000 * n - n % 7 * 100, 1_700_000_000_000 + 1_000 * n) for n in range(200)]
    lines = [json.dumps({"event_time": event, "arrival_ms": arrival}) for event, arrival in times]
    (tmp_path / "log.data").write_text("\n".join(lines))
    with gzip.open(tmp_path / "log.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    for source in (["log.data", "--form", "json"], ["log.jsonl.gz"]):
        assert main(["advise", str(tmp_path / source[0]), *source[1:], "--late", "0.1"]) == 1
        assert "- The log is too short: it has 200 records" in capsys.readouterr().out
    (tmp_path / "bad.jsonl").write_text("\n".join(['{"event_time": "x", "arrival_ms": 5}', *lines]))
    assert main(["advise", str(tmp_path / "bad.jsonl")]) == 1
    assert "bad.jsonl has 1 bad row of 201" in capsys.readouterr().err
    assert main(["advise", str(tmp_path / "bad.jsonl"), "--bad-rows", "drop", "--json"]) == 1
    told = capsys.readouterr()
    assert told.err == "1 bad row left out of 'bad'.\n"
    assert json.loads(told.out)["whole"]["rows"] == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["missing.csv"], "there is no file missing.csv."),
        (["quake"], "choose one of dengue, flights, quakes"),
        (["quakes", "--late", "2"], "late_share: input should be less than 1; 2% is 0.02 (got 2.0)."),
        (["quakes", "--late", "nan"], "late_share: input should be less than 1"),
        (["quakes", "--window-ms", "0"], "window_ms is 0."),
        (["quakes", "--encoding", "klingon"], "encoding is 'klingon'"),
    ],
)
def test_advise_says_what_it_does_not_take(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *options]) == 1
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


def test_options_of_logs_may_differ_by_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "till.csv"
    rows = [f"2024-07-20,{n // 60:02}:{n % 60:02},1500,2" for n in range(600)]
    log.write_text("\n".join(["day,clock,late,number", *rows]))
    options = ["--event-time", "day", "--event-time", "clock", "--delay", "late", "--count", "number"]
    zone = ["--timezone", "event-time=Europe/Berlin", "--unit", "delay=ms", "--unit", "event_time=s"]
    assert main(["profile", str(log), *options, *zone]) in (0, 1)
    told = " ".join(capsys.readouterr().out.split())
    assert "1 200 records" in told
    assert "2024-07-19 22:00" in told
    assert main(["profile", str(log), *options, "--unit", "weeks"]) == 1
    assert "unit is 'weeks'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (
            "ts,received_at\nsoon,5\n",
            "--format ..., as of datetime.strptime; or repair those rows, or leave them out with --bad-rows",
        ),
        ("ts,received_at\n1e300,5\n", "such as --unit us; or"),
        ("ts\n5\n", "--event-time ts, --arrival ..., --writer ... if these are the columns that you mean; or say"),
        ("ts\n5\n", "such as --form json."),
        ("", "give a log with at least one event."),
    ],
)
def test_the_remedy_of_a_shell_has_no_python(
    tmp_path: Path, content: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text(content)
    assert main(["advise", str(tmp_path / "log.csv"), "--event-time", "ts", "--arrival", "received_at"]) == 1
    told = capsys.readouterr().err
    assert remedy in told
    assert not re.search(r"\w=\S|\w\(|\.\w+\(", told.partition("To repair it")[2])


def test_the_help_of_advise_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["advise", "--help"])
    told = capsys.readouterr().out
    assert left.value.code == 0
    assert all(f"\n  {code}  " in told.partition("exit codes:")[2] for code in (0, 1, 2))
    with pytest.raises(SystemExit) as left:
        main(["advise", "quakes", "--late", "x"])
    assert left.value.code == 2


def test_advise_takes_a_log_that_comes_with_wmlab_and_refuses_what_is_no_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", "quakes", "--late", "0.01"]) == 1
    assert "- The log is too short: it has 1 707 records" in capsys.readouterr().out
    (tmp_path / "log.csv").write_text("ts,received_at\n1,2\n")
    assert main(["advise", str(tmp_path / "log.csv"), "--event-time", "time", "--arrival", "received_at"]) == 1
    assert "'time'" in capsys.readouterr().err


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listing = capsys.readouterr().out
    assert all(
        f"\n    {command} " in listing
        for command in ("demo", "record", "bounds", "check", "explain", "profile", "advise")
    )


def test_the_demo_needs_no_file(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "demo.html"
    assert main(["demo", "--page", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "event time from 0 to 60.0 s" in printed
    assert "The lower bound is a promise" in printed
    assert "The watermark waits for w2, down since 30.0 s." in printed
    lines = [line for line in printed.splitlines() if line.startswith("  ") and " s  " in line]
    assert len(lines) == 24
    assert any("#" in line and "unknown" not in line for line in lines), "both bounds are seen"
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2, "the picture for wide and for narrow windows"
    assert "The watermark waits for w2, down since 30.0 s." in text
    assert "crash_writer" in text
    assert main(["demo", "--page", str(page)]) == 1
    assert "there is something at" in capsys.readouterr().err
    assert main(["demo", "--page", str(tmp_path / "none" / "demo.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_notebooks_are_copied_to_a_folder_that_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "mine"
    assert main(["tutorials", str(target)]) == 0
    copied = {file.relative_to(target) for file in target.rglob("*") if file.is_file()}
    assert copied == {file.relative_to(ROOT / "notebooks") for file in (ROOT / "notebooks").rglob("*.ipynb")}
    assert f"{len(copied)} notebooks in {target}." in capsys.readouterr().out
    assert main(["tutorials", str(target)]) == 1
    assert "there is something at" in capsys.readouterr().err


def test_a_scenario_is_recorded_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "run"
    assert main(["record", "pravega_7408", str(target)]) == 0
    assert wm.load(target) == wm.Scenario.load("pravega_7408").record(progress=False)
    capsys.readouterr()
    assert main(["record", "pravega_7409", str(tmp_path / "none")]) == 1
    assert "no scenario 'pravega_7409' comes with wmlab" in (told := capsys.readouterr().err)
    assert "To repair it: give 'pravega_7408', or" in told


@pytest.mark.parametrize("kind", [wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario])
def test_every_scenario_that_comes_with_wmlab_has_a_name(kind: Any) -> None:
    assert kind.names()
    assert all(isinstance(kind.load(name), kind) for name in kind.names())
    with pytest.raises(ScenarioError, match="give the path"):
        kind.load("none.yaml")


def test_each_scenario_file_is_of_one_kind() -> None:
    kinds = (wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario)
    files = [file.stem for file in (ROOT / "data" / "scenarios").rglob("*.yaml")]
    assert sorted(name for kind in kinds for name in kind.names()) == sorted(files)
