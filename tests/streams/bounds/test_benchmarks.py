"""The benchmarks run, and notice it when contenders disagree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import bounds_peers, log, replay, sweep
from benchmarks.__main__ import CASES, main
from benchmarks.bounds import by_spark, read_only
from benchmarks.bounds_data import Shape, write_data, write_intervals
from benchmarks.measure import Answer, Contender, ContenderError, DifferentAnswersError, Timing, measured, table
from tests.repetitions import repetitions
from wmlab.streams.bounds.bounds import BOUND_COLUMNS


def writing(path: Path, name: str) -> Contender:
    """A contender that adds a line with its name to a file."""

    def run() -> Answer:
        with path.open("a") as file:
            print(name, file=file)
        return {"rows": 1}

    return Contender(name, run)


def test_contenders_run_in_turns_and_the_first_run_is_not_counted(tmp_path: Path) -> None:
    order = tmp_path / "order"
    found = measured([writing(order, "a"), writing(order, "b")], runs=2)
    assert order.read_text().split() == ["a", "b"] * 3
    assert [(timing.name, len(timing.seconds)) for timing in found] == [("a", 2), ("b", 2)]
    assert all(timing.peak_mb > 0 and not timing.ended for timing in found)


def test_without_a_warm_up_one_contender_is_done_before_the_next_begins(tmp_path: Path) -> None:
    order = tmp_path / "order"
    found = measured([writing(order, "a"), writing(order, "b")], runs=2, warm_up=False)
    assert order.read_text().split() == ["a", "a", "b", "b"]
    assert [len(timing.seconds) for timing in found] == [2, 2]


def test_one_that_ends_for_want_of_memory_is_named_and_the_others_go_on() -> None:
    def want() -> Answer:
        return {"rows": len(bytearray(1 << 40))}

    def die() -> Answer:
        os._exit(3)

    contenders = [Contender("modest", lambda: {"rows": 1}), Contender("greedy", want), Contender("dead", die)]
    modest, greedy, dead = timings = measured(contenders, runs=2)
    assert (len(modest.seconds), greedy.seconds, dead.seconds) == (2, (), ())
    assert greedy.ended == "ended for want of memory; it may have 16 GiB"
    assert dead.ended == "ended with code 3; it may have 16 GiB"
    lines = table(timings, "modest").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["modest", "greedy", "dead"]
    assert "for want of memory" in lines[2]


def test_an_error_of_a_contender_is_no_time() -> None:
    with pytest.raises(ContenderError, match="ZeroDivisionError"):
        measured([Contender("wrong", lambda: {"rows": 1 // 0})], runs=1)


def test_different_answers_are_an_error_except_of_a_yardstick() -> None:
    one, two = Contender("one", lambda: {"rows": 1}), Contender("two", lambda: {"rows": 2})
    with pytest.raises(DifferentAnswersError, match="two says"):
        measured([one, two], runs=1)
    assert len(measured([one, Contender("two", two.run, answers=False)], runs=1)) == 2


def test_ratios_are_those_of_the_medians() -> None:
    lines = table([Timing("a", (1.0, 2.0, 9.0)), Timing("bb", (3.0, 4.0, 5.0))], "a").splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["a", "2.00", "1.00", "9.00", "1.00"],
        ["bb", "4.00", "3.00", "5.00", "2.00"],
    ]


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert f"no case 'nothing'; there are {', '.join(CASES)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "shape",
    [
        Shape(4_000, segments=4, watermarks=50),
        Shape(600, streams=50, segments=4, watermarks=300, ordered=False),
        *repetitions([], long=[Shape(4_000, streams=8, segments=2, watermarks=50)]),
    ],
    ids=["one stream", "several watermarks at an offset", *repetitions([], long=["eight streams"])],
)
def test_wmlab_its_peers_and_the_yardstick_give_the_same_answers(
    spark: SparkSession, tmp_path: Path, shape: Shape
) -> None:
    data = write_data(tmp_path, shape, asked=BOUND_COLUMNS)
    found = by_spark(data)
    assert found["rows"] == read_only(data)["rows"] == shape.positions
    assert 0 < found["known_lower"] <= shape.positions
    assert 0 < found["known_upper"] < shape.positions
    answers = {name: ask(data) for name, ask in bounds_peers.PEERS.items()}
    assert answers == dict.fromkeys(bounds_peers.PEERS, found)


def test_the_join_alone_has_the_same_answer_from_prepared_intervals(spark: SparkSession, tmp_path: Path) -> None:
    data = write_data(tmp_path, Shape(4_000, segments=4, watermarks=50))
    intervals = write_intervals(data, tmp_path / "intervals")
    found = bounds_peers.polars(data)
    assert bounds_peers.polars_prepared(data, intervals) == bounds_peers.duckdb_prepared(data, intervals) == found
    assert bounds_peers.duckdb_copies(data, tmp_path / "copied.parquet") == 4_000


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


def test_a_log_has_the_same_lags_and_stragglers_for_both(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FILES", 2)
    assert log.write_log(tmp_path / "log", 40_000, seed=1) == 40_000
    found = log.by_spark(tmp_path / "log")
    assert found == log.by_duckdb(tmp_path / "log")
    assert (found["rows"], found["refused"], found["moments"]) == (39_996, 4, 4)


def test_both_sweep_the_same_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "SCENARIO", sweep.SCENARIO.replace(duration_ms=5_000, script=()))
    one = range(1)
    assert sweep.by_spark(one) == sweep.sums(map(sweep.figures, *sweep.cases(one)))
