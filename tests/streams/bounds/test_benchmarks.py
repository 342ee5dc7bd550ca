"""The benchmarks run, and notice it when contenders disagree."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import log, replay, sweep
from benchmarks.__main__ import CASES, main
from benchmarks.bounds import PEERS, _scan, _wmlab
from benchmarks.bounds_data import with_log, write_positions
from benchmarks.measure import Answer, Contender, DifferentAnswersError, Timing, measured, table


def test_contenders_run_in_turns_and_the_first_run_is_not_counted() -> None:
    order: list[str] = []

    def contender(name: str) -> Contender:
        def run() -> Answer:
            order.append(name)
            return {"rows": 1}

        return Contender(name, run)

    found = measured([contender("a"), contender("b")], runs=2)
    assert order == ["a", "b"] * 3
    assert [(timing.name, len(timing.seconds)) for timing in found] == [("a", 2), ("b", 2)]


def test_different_answers_are_an_error_except_of_a_yardstick() -> None:
    one, two = Contender("one", lambda: {"rows": 1}), Contender("two", lambda: {"rows": 2})
    with pytest.raises(DifferentAnswersError, match="two says"):
        measured([one, two], runs=1)
    assert len(measured([one, Contender("two", two.run, answers=False)], runs=1)) == 2


def test_ratios_are_those_of_the_medians() -> None:
    lines = table([Timing("a", (1.0, 2.0, 9.0)), Timing("bb", (3.0, 4.0, 5.0))], "a").splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["a", "2.00", "1.00", "9.00", "1.00"],
        ["bb", "4.00", "3.00", "5.00", "2.00"],
    ]


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert f"no case 'nothing'; there are {', '.join(CASES)}" in capsys.readouterr().err


def test_wmlab_its_peers_and_the_yardstick_give_the_same_answers(spark: SparkSession, tmp_path: Path) -> None:
    write_positions(tmp_path / "positions", rows=4_000, segments=4, seed=1)
    data = with_log(tmp_path / "positions", tmp_path / "log", rows=4_000, segments=4, watermarks=50, seed=2)
    found = _wmlab(data).run()
    assert found["rows"] == _scan(data).run()["rows"] == 4_000
    assert 3_000 < found["known_lower"] < 4_000
    assert {peer: answer(data) for peer, answer in PEERS.items()} == dict.fromkeys(
        ("duckdb", "polars", "pandas"), found
    )


def test_the_replay_of_spark_gives_the_answer_of_the_rule(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "WRITERS", 4)
    monkeypatch.setattr(replay, "SECONDS", 120)
    marks = tmp_path / "marks"
    count = replay.write_marks(marks, 2, seed=3)
    assert 2 * 4 * 120 * 0.7 < count < 2 * 4 * 120
    found = replay.by_spark(marks)
    assert found == replay.by_the_rule(marks)
    assert found["watermarks"] > 8 * 2 * 5


def test_a_log_has_the_same_lags_and_stragglers_for_both(spark: SparkSession, tmp_path: Path) -> None:
    assert log.write_log(tmp_path / "log", 40_000, seed=1) == 40_000
    found = log.by_spark(tmp_path / "log")
    assert found == log.by_duckdb(tmp_path / "log")
    assert (found["rows"], found["refused"], found["moments"]) == (39_996, 4, 4)


def test_both_sweep_the_same_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "SCENARIO", sweep.SCENARIO.replace(duration_ms=5_000, script=()))
    one = range(1)
    assert sweep.by_spark(one) == sweep.sums(map(sweep.figures, *sweep.cases(one)))
