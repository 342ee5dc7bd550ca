"""What runs of a query plan came to, and such runs side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wmlab as wm
from wmlab.core.errors import RecordingError

plan = wm.progress

SOURCE = plan.Source("s", times_ms=[0, 400, 1_000, 1_400, 2_000], buffer_records=1)
QUERY = plan.Query("q", sources=[SOURCE], operators=[plan.Aggregate(1_000)])
SCENARIO = plan.PlanScenario("a run", queries=[QUERY], duration_ms="4 s")


def test_the_measures_count_what_the_tables_have() -> None:
    recording = SCENARIO.record()
    run = recording.measures()
    buffers = recording.to_pandas("buffers").query("operator == 'build'")
    fired = recording.to_pandas("windows_fired")
    on_way_ms = buffers.arrived_ms - buffers.created_ms
    assert run.steps == tuple(zip(buffers.arrived_ms, buffers.reached, strict=True))
    assert run.measures["buffers at build"] == len(buffers) == 5
    assert run.measures["longest time of a buffer on its way (ms)"] == on_way_ms.max()
    assert run.measures["windows fired by the watermark"] == (fired.cause == "watermark").sum() == 2
    assert run.measures["windows fired by the end of the stream"] == (fired.cause != "watermark").sum() == 1
    assert run.measures["records counted in windows"] == 5
    assert run.bound == "global watermark"


def test_a_lost_buffer_is_the_difference_and_its_effect_is_told() -> None:
    lost = SCENARIO.replace(script=[plan.LoseBuffer("s", 2)])
    comparison = wm.compare(SCENARIO.record(), lost.record(), labels=["whole", "one lost"])
    assert comparison.sentence.startswith("The global watermark of one lost lags most")
    results = dict(comparison.results)
    assert results["windows fired by the watermark"] == (2, 0)
    assert results["records counted in windows"] == (5, 4)
    assert comparison.chart.scene.title == "How do the global watermarks of the runs differ?"
    assert comparison.chart.data["global_watermark"][:5] == [0, 400, 1_000, 1_400, 2_000]


def test_an_option_left_to_the_rules_is_shown_as_they_set_it() -> None:
    runs = SCENARIO.record(), SCENARIO.with_rules(complete="count").record()
    assert wm.compare(*runs).differs == (("Complete", ("set", "count")),)


def test_without_windows_the_sink_counts_and_a_query_is_named_where_there_are_several() -> None:
    twice = SCENARIO.replace(queries=[plan.Query("p", sources=[replace(SOURCE, name="r")]), QUERY]).record()
    assert twice.measures("p").measures["buffers at sink"] == 5
    with pytest.raises(RecordingError, match="several queries"):
        twice.measures()


def test_a_fault_of_what_is_never_sent_is_told_of_the_run() -> None:
    recording = SCENARIO.replace(script=[plan.LoseBuffer("s", 9_999)]).record()
    answer = recording.explain()
    assert answer.facts["never happened"] == "s 9999 (lose buffer: no such buffer was sent)"
    assert "An act of the script never happened to s 9999" in answer.sentence
