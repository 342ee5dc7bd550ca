"""Every kept run of a real engine: the cause that its log shows, at first place or among those it cannot tell apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wmlab as wm
from tools import flink_runs, spark_runs
from tools.remedies import problem_of
from wmlab.core.errors import ChartError
from wmlab.core.words import wrapped
from wmlab.engines.answers import jobs_at

Cause = wm.engine.Cause
LOGS = wm.engine.DIRECTORY
RIGHT = {
    "flink/healthy": (Cause.NO_FAULT, "sure", None),
    "flink/hour_behind": (Cause.SOURCE_BEHIND, "sure", "other[5]"),
    "flink/other_ends": (Cause.ENDED, "sure", "other[5]"),
    "flink/other_silent": (Cause.SILENT_SOURCE, "sure", "other[5]"),
    "flink/future_row": (Cause.JUMP, "sure", "subtask 0 of orders[1]"),
    "flink/late_rows": (Cause.DELAY_TOO_SMALL, "likely", None),
    "flink/delay_too_large": (Cause.DELAY_TOO_LARGE, "candidates", "orders[1]"),
    "flink/window_not_over": (Cause.NO_FAULT, "sure", None),
    "flink/one_subtask_without_rows": (Cause.SILENT_SUBTASK, "sure", "subtask 1 of orders[1]"),
    "flink/all_idle": (Cause.NO_NEW_DATA, "likely", None),
    "flink/union_behind": (Cause.SOURCE_BEHIND, "sure", "other[4]"),
    "flink/back_pressure": (Cause.BACK_PRESSURE, "likely", "Calc[4]"),
    "flink/partition_silent": (Cause.SILENT_SUBTASK, "sure", "partition p1 of orders, subtask 0"),
    "flink/partition_behind": (Cause.SOURCE_BEHIND, "sure", "partition p1 of orders, subtask 0"),
    "flink/aligned": (Cause.SOURCE_BEHIND, "sure", "payments"),
    "flink/idle_subtask": (Cause.NO_FAULT, "likely", None),
    "flink/join_side_idle": (Cause.NO_FAULT, "likely", None),
    "flink/join_idle_timeout": (Cause.NO_FAULT, "likely", None),
    "flink/failed": (Cause.FAILED, "sure", None),
    "flink/cancelled": (Cause.CANCELLED, "sure", None),
    "flink/waits_to_restart": (Cause.RESTARTING, "sure", None),
    "flink/ahead_of_clock": (Cause.AHEAD, "sure", "subtask 0 of orders"),
    "flink/processing_time": (Cause.NO_FAULT, "sure", None),
    "flink/time_zone": (Cause.TIME_ZONE, "sure", "orders[1]"),
    "flink/two_pipelines": (Cause.SOURCE_BEHIND, "sure", "other[10]"),
    "flink/sources_of_one_name": (Cause.SOURCE_BEHIND, "sure", "Kafka Source (2)"),
    "flink/stock_source_behind": (Cause.SOURCE_BEHIND, "sure", "old numbers"),
    "flink/source_silent": (Cause.SILENT_SOURCE, "sure", "payments"),
    "flink/restarts": (Cause.RESTARTS, "sure", None),
    "flink/silent_in_scan": (Cause.SILENT_SOURCE, "sure", "other"),
    "flink/silent_in_scan_idle_timeout": (Cause.NO_FAULT, "likely", None),
    "flink/behind_in_scan": (Cause.SOURCE_BEHIND, "sure", "other"),
    "flink/behind_in_scan_aligned": (Cause.SOURCE_BEHIND, "sure", "other"),
    "flink/partition_idle_timeout": (Cause.NO_FAULT, "likely", None),
    "flink/source_idle_timeout": (Cause.NO_FAULT, "likely", None),
    "flink/stock_source_aligned": (Cause.SOURCE_BEHIND, "sure", "old numbers"),
    "flink/no_watermark": (Cause.NO_WATERMARK, "sure", "orders"),
    "flink/watermark_strategy": (Cause.NO_FAULT, "likely", None),
    "flink/undeclared": (Cause.NO_WATERMARK, "likely", "orders[1]"),
    "flink/declared": (Cause.NO_FAULT, "sure", None),
    "flink/time_zone_utc": (Cause.NO_FAULT, "likely", None),
    "spark/healthy": (Cause.NO_FAULT, "candidates", None),
    "spark/future_row": (Cause.JUMP, "sure", None),
    "spark/late_rows": (Cause.DELAY_TOO_SMALL, "sure", None),
    "spark/no_more_data": (Cause.NO_NEW_DATA, "candidates", None),
    "spark/one_source_silent": (Cause.SILENT_SOURCE, "likely", "FileStreamSource[file:/data/b]"),
    "spark/source_without_records": (Cause.SILENT_SOURCE, "likely", "FileStreamSource[file:/data/b]"),
    "spark/one_source_behind": (Cause.SOURCE_BEHIND, "likely", None),
    "spark/delay_too_large": (Cause.DELAY_TOO_LARGE, "likely", "the delay"),
    "spark/no_newer_rows": (Cause.NO_NEW_DATA, "sure", None),
    "spark/no_watermark": (Cause.NO_WATERMARK, "sure", None),
    "spark/chained_windows": (Cause.NO_FAULT, "candidates", None),
    "spark/two_delays": (Cause.DELAY_TOO_LARGE, "likely", "the longest delay"),
    "spark/fastest_decides": (Cause.FASTEST_DECIDES, "likely", None),
    "spark/no_batches_without_rows": (
        Cause.NO_DATA_BATCHES,
        "likely",
        "spark.sql.streaming.noDataMicroBatches.enabled",
    ),
    "spark/session_open": (Cause.NO_FAULT, "candidates", None),
    "spark/restart": (Cause.NO_FAULT, "candidates", None),
    "spark/one_source_silent_max": (Cause.NO_FAULT, "candidates", None),
    "spark/source_without_records_max": (Cause.NO_FAULT, "candidates", None),
    "spark/slowest_decides": (Cause.DELAY_TOO_LARGE, "likely", "the longest delay"),
    "spark/late_rows_longer_delay": (Cause.NO_FAULT, "candidates", None),
}
"""What is wrong in each run, how sure its log can be of that, and what holds the watermark."""


def log_of(name: str) -> wm.engine.EngineLog:
    return wm.engine.read(LOGS / f"{name}.jsonl")


def moments_of(log: wm.engine.EngineLog) -> list[int]:
    return sorted(set(log.table["at_ms"].to_pylist()))


def test_every_kept_log_is_here() -> None:
    assert {path.relative_to(LOGS).with_suffix("").as_posix() for path in LOGS.rglob("*.jsonl")} == RIGHT.keys()
    assert all(path.stat().st_size < 40_000 for path in LOGS.rglob("*.jsonl"))


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_cause_is_first_or_one_of_the_candidates(name: str) -> None:
    cause, certainty, holder = RIGHT[name]
    explanation = log_of(name).explain()
    assert explanation.certainty == certainty
    assert explanation.whose == holder
    if certainty == "candidates":
        assert cause in [each.cause for each in explanation.findings]
    else:
        assert explanation.cause is cause
    assert explanation.evidence
    assert cause in explanation.sentence


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_sure_is_proved_and_a_sentence_has_three_lines_at_most(name: str) -> None:
    log = log_of(name)
    for at_ms in [None, *moments_of(log)]:
        explanation = log.explain(at_ms)
        assert all(bool(each.proof) == (each.certainty == "sure") for each in explanation.findings)
        assert len(wrapped(explanation.sentence).splitlines()) <= 3
        candidates = [each for each in explanation.findings if each.certainty == "candidates"]
        assert len(candidates) <= 3


@pytest.mark.parametrize("name", RIGHT)
def test_at_no_moment_is_an_answer_sure_and_wrong(name: str) -> None:
    cause, _, holder = RIGHT[name]
    log = log_of(name)
    for at_ms in moments_of(log):
        explanation = log.explain(at_ms)
        if explanation.certainty == "sure":
            assert explanation.cause in (cause, Cause.NO_FAULT)
            assert explanation.whose in (holder, None)


@pytest.mark.parametrize("name", [name for name, right in RIGHT.items() if right[0] is Cause.NO_FAULT])
def test_a_healthy_run_has_the_same_cause_at_every_moment_at_which_it_has_one(name: str) -> None:
    log = log_of(name)
    causes = {log.explain(at_ms).cause for at_ms in moments_of(log)} - {Cause.CANNOT_TELL}
    assert causes == {Cause.NO_FAULT}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_cut_off_at_a_moment_changes_nothing_that_was_known_then(name: str) -> None:
    log = log_of(name)
    at_ms = moments_of(log)[-2]
    early = log.table.filter([at <= at_ms for at in log.table["at_ms"].to_pylist()])
    assert set(early["at_ms"].to_pylist()) == {at for at in moments_of(log) if at <= at_ms}
    before, job = log.explain(at_ms), jobs_at(log, at_ms)[0]
    assert before.at_ms == at_ms
    assert all(each.last.at_ms <= at_ms for instances in job.tasks.values() for each in instances)


def test_a_healthy_query_that_is_asked_between_its_batches_has_no_fault() -> None:
    log = log_of("spark/healthy")
    third_ms = next(row["at_ms"] for row in log.table.to_pylist() if row["batch"] == 4)
    answers = [log.explain(at_ms) for at_ms in range(third_ms, log.until_ms + 10_000, 500)]
    assert {each.cause for each in answers} == {Cause.NO_FAULT}
    assert {each.verdict for each in answers} == {"no fault"}


def test_that_nothing_has_come_since_is_known_when_somebody_has_waited() -> None:
    log = log_of("spark/no_more_data")
    later = log.explain(log.until_ms + 60_000)
    assert (later.cause, later.certainty) == (Cause.NO_NEW_DATA, "likely")
    assert later.stands
    assert later.watermark_ms == log.explain().watermark_ms


def test_what_waiting_costs_is_counted_since_the_watermark_stands() -> None:
    log = log_of("spark/one_source_silent")
    explanation = log.explain()
    assert (explanation.cost.state_rows, explanation.cost.state_rows_more) == (82, 50)
    # The fourth batch, without data, is the first with this watermark.
    assert explanation.since_ms == moments_of(log)[3]
    assert explanation.watermark_ms == 1_700_000_009_000
    assert "82 rows of state, 50 more" in " ".join(explanation.lines)


def test_what_came_out_is_counted_over_restarts() -> None:
    explanation = log_of("flink/restarts").explain()
    assert explanation.cost.rows_out == 3
    assert "at least 2 times" in explanation.sentence


def test_the_settings_are_in_the_words_of_the_engine_and_only_where_the_evidence_supports_them() -> None:
    named = {name: [each.name for each in log_of(name).advise()] for name in RIGHT}
    assert {name: settings for name, settings in named.items() if settings} == {
        "flink/other_silent": ["table.exec.source.idle-timeout"],
        "flink/one_subtask_without_rows": ["table.exec.source.idle-timeout"],
        "flink/partition_silent": ["withIdleness"],
        "flink/source_silent": ["withIdleness"],
        "flink/sources_of_one_name": ["withWatermarkAlignment"],
        "flink/stock_source_behind": ["withWatermarkAlignment"],
        "flink/time_zone": ["table.local-time-zone"],
        "flink/silent_in_scan": ["scan.watermark.idle-timeout", "table.exec.source.idle-timeout"],
        "flink/behind_in_scan": ["scan.watermark.alignment.group"],
        "flink/no_watermark": ["WatermarkStrategy"],
        "flink/undeclared": ["WATERMARK FOR"],
        "spark/fastest_decides": ["spark.sql.streaming.multipleWatermarkPolicy"],
        "spark/no_batches_without_rows": ["spark.sql.streaming.noDataMicroBatches.enabled"],
        "spark/late_rows": ["withWatermark"],
        "spark/delay_too_large": ["withWatermark"],
        "spark/no_watermark": ["withWatermark"],
        "spark/one_source_silent": ["spark.sql.streaming.multipleWatermarkPolicy"],
        "spark/source_without_records": ["spark.sql.streaming.multipleWatermarkPolicy"],
    }
    assert "39.0 s or more instead of 10.0 s" in log_of("spark/late_rows").advise().sentence
    assert "no change" in log_of("flink/healthy").advise().sentence


@pytest.mark.parametrize(
    ("engine", "before", "setting", "after"),
    [("flink", *remedy) for remedy in flink_runs.REMEDIES] + [("spark", *remedy) for remedy in spark_runs.REMEDIES],
)
def test_a_run_with_the_setting_that_was_advised_has_another_answer(
    engine: str, before: str, setting: str, after: str
) -> None:
    folder = LOGS / engine
    assert problem_of(folder / f"{before}.jsonl", setting, folder / f"{after}.jsonl") is None


def test_every_setting_that_is_advised_was_run() -> None:
    advised = {each.name for name in RIGHT for each in log_of(name).advise()}
    assert advised == {setting for _, setting, _ in (*flink_runs.REMEDIES, *spark_runs.REMEDIES)}


def test_a_setting_that_changes_nothing_is_no_remedy() -> None:
    silent = LOGS / "flink" / "other_silent.jsonl"
    assert "is advised again" in str(problem_of(silent, "table.exec.source.idle-timeout", silent))
    assert "is not advised" in str(problem_of(silent, "scan.watermark.idle-timeout", silent))


def test_every_kept_run_of_flink_has_a_maker() -> None:
    assert {path.stem for path in (LOGS / "flink").iterdir()} == flink_runs.RUNS.keys()


def test_an_answer_is_plain_data_and_html() -> None:
    explanation = log_of("flink/other_silent").explain()
    told = json.loads(explanation.to_json())
    assert (told["cause"], told["certainty"], told["whose"]) == ("silent source", "sure", "other[5]")
    assert "<table>" in explanation._repr_html_()
    assert log_of("flink/other_silent").advise().to_pandas().shape == (1, 3)


@pytest.mark.parametrize("name", RIGHT)
def test_the_chart_says_what_explain_says_and_marks_the_holder(name: str) -> None:
    log = log_of(name)
    chart = wm.engine.chart.watermarks(log)
    assert chart.sentence == log.explain().sentence
    holders = [layer.name for layer in chart.scene.layers if layer.role == "upper"] if chart.data["at_ms"] else []
    if name in ("flink/hour_behind", "flink/future_row"):
        assert holders
        assert all("other[5]" in each or "orders[1], subtask 0" in each for each in holders)
    assert "<svg" in chart.svg


def test_the_chart_draws_the_watermarks_of_the_table() -> None:
    log = log_of("flink/hour_behind")
    chart = wm.engine.chart.watermarks(log)
    rows = [row for row in log.table.to_pylist() if row["operator"] == "WatermarkAssigner[7]" and row["subtask"] == 1]
    drawn = dict(zip(chart.data["of"], chart.data["watermark_ms"], strict=True))
    assert drawn["other[5], subtask 1"] == rows[-1]["output_watermark_ms"]


def test_a_holder_without_any_watermark_has_a_lane() -> None:
    svg = wm.engine.chart.watermarks(log_of("flink/other_silent")).svg
    assert all(f"holds: other[5], subtask {subtask}" in svg for subtask in (0, 1))


def test_a_chart_of_anything_else_is_refused() -> None:
    with pytest.raises(ChartError, match="not a log of an engine"):
        wm.engine.chart.watermarks(Path("x"))
