"""The command line records a scenario file and prints its bounds."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from wmlab.__main__ import main

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


def test_check_and_explain(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "run")
    wm.Scenario.load(ROOT / "data/scenarios/first_bounds.yaml").record(target)
    assert main(["check", target]) == 0
    told = capsys.readouterr().out
    assert all(f"I{number}" in told for number in range(1, 10))
    assert main(["check", target, "--only", "I7", "I1"]) == 0
    assert "2 invariants of 2 hold\nI1 ok" in capsys.readouterr().out
    assert main(["check", target, "--only", "K1"]) == 1
    assert "'K1'" in capsys.readouterr().err
    assert main(["explain", target, "--at-ms", "36000"]) == 0
    assert "w2" in capsys.readouterr().out
    assert main(["explain", target, "--at-ms", "36000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["explain", target]) == 0
    assert "w2" in capsys.readouterr().out


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
