"""Every kept run of a real engine: its answer as people and programs read it, its settings, and its chart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wmlab as wm
from tests.engines.truth import FURTHER_REMEDIES, RUNS, file_of
from tools import flink_runs, spark_runs
from tools.remedies import problem_of
from wmlab.core.errors import ChartError
from wmlab.core.words import wrapped
from wmlab.engines.answers import EngineLog, jobs_at
from wmlab.engines.cause_table import CAUSES
from wmlab.engines.facts import WORDS
from wmlab.engines.reading import Lines
from wmlab.engines.verdicts import VERDICTS

LOGS = wm.engine.DIRECTORY
KEPT = [name.removeprefix("kept ") for name in RUNS if name.startswith("kept ")]


def log_of(name: str) -> wm.engine.EngineLog:
    return wm.engine.read(LOGS / f"{name}.jsonl")


def moments_of(log: wm.engine.EngineLog) -> list[int]:
    return sorted(set(log.table["at_ms"].to_pylist()))


def test_every_kept_log_is_here() -> None:
    assert {path.relative_to(LOGS).with_suffix("").as_posix() for path in LOGS.rglob("*.jsonl")} == set(KEPT)
    assert all(path.stat().st_size < 40_000 for path in LOGS.rglob("*.jsonl"))
    assert all(file_of(name).is_file() for name in RUNS)


@pytest.mark.parametrize(
    ("name", "cause", "holder"),
    [
        ("flink/healthy", "no fault", None),
        ("flink/other_silent", "silent source", "other[5]"),
        ("flink/one_subtask_without_rows", "silent subtask or partition", "subtask 1 of orders[1]"),
        ("flink/future_row", "jump into the future", "subtask 0 of orders[1]"),
        ("flink/restarts", "restarts", None),
        ("flink/other_ends", "ended", "other[5]"),
        ("flink/waits_to_restart", "restarting", None),
        ("spark/late_rows", "delay smaller than the lateness", None),
    ],
)
def test_what_the_facts_prove_is_sure(name: str, cause: str, holder: str | None) -> None:
    answer = log_of(name).explain()
    assert (answer.cause, answer.certainty, answer.whose) == (cause, "sure", holder)
    assert all(each.apart == "" for each in answer.candidates)


@pytest.mark.parametrize("name", KEPT)
def test_a_candidate_says_what_would_tell_it_from_the_others(name: str) -> None:
    answer = log_of(name).explain()
    assert 1 <= len(answer.candidates) <= 3
    if answer.certainty == "candidates":
        assert all(each.apart and each.remedy and each.facts for each in answer.candidates)
    assert len(wrapped(answer.headline).splitlines()) <= 2


@pytest.mark.parametrize("name", KEPT)
def test_the_verdict_is_the_first_line_of_its_table_of_which_a_fact_holds(name: str) -> None:
    """Computed a second time, from the published facts and the table."""
    told = json.loads(log_of(name).explain().to_json())
    lines = [(verdict, [fact for fact in facts if told["facts"].get(fact)]) for verdict, facts in VERDICTS]
    first = next(((verdict, facts) for verdict, facts in lines if facts), ("cannot tell", []))
    assert (told["verdict"], [each["name"] for each in told["because"]]) == first


@pytest.mark.parametrize("name", KEPT)
def test_each_fact_holds_does_not_hold_or_is_not_known(name: str) -> None:
    facts = log_of(name).explain().facts
    unknown = facts.get("not known") or ()
    unknown = unknown if isinstance(unknown, tuple) else (unknown,)
    flags = {fact for fact in WORDS if fact in facts}
    assert not flags & set(unknown)
    assert all(isinstance(facts[fact], bool) for fact in flags)
    assert len(flags) + len(unknown) > 40


def test_what_was_not_reported_and_what_there_is_not_yet_are_two_things() -> None:
    log = log_of("flink/other_silent")
    assert log.explain().facts["none yet"] is True
    header, *polls = [json.loads(line) for line in (LOGS / "flink/other_silent.jsonl").read_text().splitlines()]
    for poll in polls:
        for task in poll["vertices"].values():
            task["watermarks"] = {}
            task["metrics"] = {key: value for key, value in task["metrics"].items() if not key.endswith("Watermark")}
    without = EngineLog("x", Lines("flink", (header, *polls))).explain()
    assert "none yet" not in without.facts
    assert "none yet" in without.facts["not known"]
    assert (without.verdict, without.certainty) == ("cannot tell", "candidates")


@pytest.mark.parametrize("name", KEPT)
def test_what_is_cut_off_at_a_moment_changes_nothing_that_was_known_then(name: str) -> None:
    log = log_of(name)
    at_ms = moments_of(log)[-2]
    before, job = log.explain(at_ms), jobs_at(log, at_ms)[0]
    assert before.at_ms == at_ms
    assert all(each.last.at_ms <= at_ms for instances in job.tasks.values() for each in instances)


def test_that_nothing_has_come_since_is_a_fact_when_somebody_has_waited() -> None:
    log = log_of("spark/no_more_data")
    later = log.explain(log.until_ms + 60_000)
    assert (later.cause, later.certainty, later.verdict) == ("no new data", "candidates", "held")
    assert later.stands
    assert later.watermark_ms == log.explain().watermark_ms


def test_what_waiting_costs_is_counted_since_the_watermark_stands() -> None:
    log = log_of("spark/one_source_silent")
    answer = log.explain()
    assert (answer.facts["state_rows"], answer.facts["state_rows_more"]) == (82, 50)
    # The fourth batch, without data, is the first with this watermark.
    assert answer.since_ms == moments_of(log)[3]
    assert answer.watermark_ms == 1_700_000_009_000


def test_what_came_out_is_counted_over_restarts() -> None:
    assert log_of("flink/restarts").explain().facts["came_out"] == 3


def test_the_settings_are_in_the_words_of_the_engine_and_only_where_a_cause_fits() -> None:
    named = {name: [each.name for each in log_of(name).advise()] for name in KEPT}
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
        "flink/no_watermark": ["WatermarkStrategy", "pipeline.auto-watermark-interval"],
        "flink/no_interval": ["WatermarkStrategy", "pipeline.auto-watermark-interval"],
        "flink/undeclared": ["WATERMARK FOR"],
        "spark/fastest_decides": ["spark.sql.streaming.multipleWatermarkPolicy"],
        "spark/no_batches_without_rows": ["spark.sql.streaming.noDataMicroBatches.enabled"],
        "spark/late_rows": ["withWatermark"],
        "spark/delay_too_large": ["withWatermark"],
        "spark/no_watermark": ["withWatermark"],
        "spark/one_source_silent": ["spark.sql.streaming.multipleWatermarkPolicy"],
        "spark/source_without_records": ["spark.sql.streaming.multipleWatermarkPolicy"],
    }
    assert "a delay of more than 39 s instead of 10 s" in log_of("spark/late_rows").advise().sentence
    assert "no change" in log_of("flink/healthy").advise().sentence
    (of_candidate,) = log_of("flink/partition_silent").advise().settings
    assert "; if " in of_candidate.reason


APPLIED = [
    *((f"kept flink/{before}", setting, f"kept flink/{after}") for before, setting, after in flink_runs.REMEDIES),
    *((f"kept spark/{before}", setting, f"kept spark/{after}") for before, setting, after in spark_runs.REMEDIES),
    *((f"further {before}", setting, f"further {after}") for before, setting, after in FURTHER_REMEDIES),
]
"""Every setting that was set on a real engine where it is advised: the run, the setting, and the run with it."""


@pytest.mark.parametrize(("before", "setting", "after"), APPLIED)
def test_a_run_with_the_setting_that_was_advised_has_another_answer(before: str, setting: str, after: str) -> None:
    assert problem_of(file_of(before), setting, file_of(after)) is None


def test_every_advised_setting_was_set_on_a_real_engine() -> None:
    """For each cause on its own: a setting that repairs one cause may change nothing for another one."""
    advised = {(row.name, advice.name) for row in CAUSES.values() for advice in row.settings}
    applied = {
        (candidate.cause, setting)
        for before, setting, _ in APPLIED
        for answer in _ends_of(before)
        for candidate in answer.candidates
        if setting in [each.name for each in candidate.settings]
    }
    assert advised - applied == set()


def _ends_of(run: str) -> list[wm.engine.JobExplanation]:
    answer = wm.engine.read(file_of(run)).explain()
    return [answer, *answer.others]


@pytest.mark.parametrize(
    "name",
    [
        "flink4/d32_split_moves_long",
        "flink4/d38_split_moves_minute",
        "flink4/d39_split_moves_idle_minute",
        "flink5/e03_split_ends_reader_empty",
        "flink5/e15_split_ends_idle",
    ],
)
def test_no_idle_timeout_is_advised_for_a_reader_that_has_no_split_left(name: str) -> None:
    """Two of these jobs have the timeout, and it changes nothing there."""
    log = wm.engine.read(file_of(f"further {name}"))
    assert log.advise().settings == ()
    assert log.explain().facts["no split left"] is True


def test_a_setting_that_changes_nothing_is_no_remedy() -> None:
    silent = LOGS / "flink" / "other_silent.jsonl"
    assert "is advised again" in str(problem_of(silent, "table.exec.source.idle-timeout", silent))
    assert "is not advised" in str(problem_of(silent, "scan.watermark.idle-timeout", silent))


def test_every_kept_run_of_flink_has_a_maker() -> None:
    assert {path.stem for path in (LOGS / "flink").iterdir()} == flink_runs.RUNS.keys()


def test_an_answer_is_plain_data_and_html() -> None:
    answer = log_of("flink/other_silent").explain()
    told = json.loads(answer.to_json())
    assert list(told)[:5] == ["verdict", "headline", "cause", "certainty", "whose"]
    assert (told["cause"], told["certainty"], told["whose"]) == ("silent source", "sure", "other[5]")
    assert told["facts"]["source silent"] is True
    assert told["candidates"][0]["settings"][0]["name"] == "table.exec.source.idle-timeout"
    assert "<details>" in answer._repr_html_()
    assert log_of("flink/other_silent").advise().to_pandas().shape == (1, 3)


@pytest.mark.parametrize("name", KEPT)
def test_the_chart_says_what_explain_says_and_marks_the_holder(name: str) -> None:
    log = log_of(name)
    chart = wm.engine.chart.watermarks(log)
    assert chart.sentence == log.explain().sentence
    holders = [layer.name for layer in chart.scene.layers if layer.role == "upper"] if chart.data["at_ms"] else []
    if name in ("flink/hour_behind", "flink/future_row"):
        assert holders
        assert all("other[5]" in each or "orders[1], subtask 0" in each for each in holders)
    assert all(value != -(2**63) for value in chart.data["watermark_ms"])
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
