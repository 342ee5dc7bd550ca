"""A query plan is drawn as in the document, with the buffers of a recording on its edges."""

from __future__ import annotations

import re

import pytest

import wmlab as wm
from wmlab.core.errors import ChartError
from wmlab.progress.recording import ProgressRecording
from wmlab.streams.recording import StreamRecording

plan = wm.progress

LEFT = plan.Source("source-1", times_ms=[100, 900, 2_500, 3_100], buffer_records=2, operators=[plan.Scan()])
RIGHT = plan.Source(
    "source-2",
    times_ms=[300, 1_900, 3_200, 3_300],
    buffer_records=2,
    operators=[plan.Scan(), plan.Filter(0.9)],
)
THIRD = plan.Source(
    "source-3", times_ms=[900], flush_every_ms=1_000, operators=[plan.Scan(), plan.Projection(1.5), plan.Emit()]
)
JOIN = plan.Join(2_000, slide_ms=1_000)


def scenario(*queries: plan.Query) -> plan.PlanScenario:
    rules = plan.Rules(sends="when full", carries="largest")
    return plan.PlanScenario("drawn", queries=queries, duration_ms=5_000, flush_at_end=False, rules=rules, seed=1)


DIAGRAM = scenario(
    plan.Query("query-1", sources=[LEFT, RIGHT], operators=[JOIN, plan.Emit()]),
    plan.Query("query-2", sources=[THIRD]),
)
BOTH = plan.LogicalStream("both", sources=[LEFT, RIGHT], operators=[JOIN, plan.Emit()])
CHAINED = scenario(plan.Query("q", sources=[BOTH, THIRD], operators=[plan.Join(4_000), plan.Aggregate(4_000)]))


def edges(text: str) -> list[tuple[str, str, str]]:
    """Every edge with the bold names of its nodes and its label."""
    names = dict(re.findall(r"(q\d+n\d+)\W+<b>([^<]*)</b>", text))
    found = re.findall(r"(q\d+n\d+) -->(?:\|\"([^\"]*)\"\|)? (q\d+n\d+)", text.replace("#160;", " "))
    return [(names[source], label, names[target]) for source, label, target in found]


def test_the_pipelines_are_those_of_the_document() -> None:
    text = DIAGRAM.mermaid()
    pipelines = sorted(re.findall(r"\"Pipeline (\d)\"\](.*?)    end", text, re.DOTALL))
    assert [re.findall(r"<b>(.*?)</b>", box) for _, box in pipelines] == [
        ["Scan", "Join Build"],
        ["Scan", "Filter", "Join Build"],
        ["Join Probe", "Emit"],
        ["Scan", "Projection", "Emit"],
    ]
    assert ("Join Build", "", "Join Probe") in edges(text)
    assert ("source-1", "origin 1", "Scan") in edges(text)
    assert ("Scan", "", "Join Build") in edges(text)


def test_the_edges_have_the_identifiers_of_the_diagram() -> None:
    """Source 1 sends now, source 2 now + y; the join puts out now + y, now and now + x."""
    now, now_y, now_x = "900 ms", "1.9 s", "2.5 s"
    text = DIAGRAM.mermaid(DIAGRAM.record()).replace("#160;", " ")
    assert text.index('"query-2"') < text.index('"query-1"'), "Mermaid puts the last one first"
    labels = {(source, target): label.split("<br/>") for source, label, target in edges(text)}
    first = "sequence 1, chunk 0"
    assert labels["source-1", "Scan"][:3] == ["origin 1", first, f"last, watermark {now}"]
    assert labels["source-2", "Scan"][:3] == ["origin 2", first, f"last, watermark {now_y}"]
    assert labels["source-3", "Scan"] == ["origin 1", first, f"last, watermark {now}"]
    of_the_second = {(source, target): label for source, label, target in edges(text[: text.index('"query-1"')])}
    assert of_the_second["Emit", "sink"] == f"origin 1<br/>{first}<br/>last, watermark {now}"
    assert f"sequence 1, chunk 0<br/>not last, watermark {now_y}" in text
    assert f"sequence 1, chunk 1<br/>last, watermark {now}" in text
    assert f"sequence 2, chunk 0<br/>last, watermark {now_x}" in text


def test_of_many_buffers_the_range_is_drawn() -> None:
    source = plan.Source("s", times_ms=[*range(0, 900, 100)], buffer_records=1)
    many = scenario(plan.Query("q", sources=[source], operators=[plan.Aggregate(1_000)]))
    assert "origin 1<br/>9 buffers<br/>watermarks from 0 ms<br/>to 800 ms" in many.mermaid(many.record()).replace(
        "#160;", " "
    )


def test_chains_over_all_sources_are_one_pipeline() -> None:
    sources = [plan.Source(name, rate_per_s=20, operators=[plan.Emit()]) for name in ("trucks", "cars")]
    merged = scenario(
        plan.Query(
            "q", sources=sources, operators=[plan.Renumber("merge"), plan.Projection(2.0), plan.Aggregate(1_000)]
        )
    )
    found = edges(merged.mermaid())
    assert [edge for edge in found if edge[2] == "Renumber"] == [
        ("Emit", "origin 1", "Renumber"),
        ("Emit", "origin 2", "Renumber"),
    ]
    assert ("Renumber", "origin 3", "Projection") in found
    assert found[-1] == ("Aggregation Probe", "origin 4", "sink")


def test_windows_that_feed_windows_are_pipelines_one_behind_the_other() -> None:
    found = edges(CHAINED.mermaid())
    for edge in (
        ("Emit", "origin 4", "Join Build"),
        ("Emit", "origin 3", "Join Build"),
        ("Join Probe", "", "Aggregation Build"),
        ("Aggregation Probe", "origin 6", "sink"),
    ):
        assert edge in found


def test_the_chart_of_a_recording_has_its_buffers() -> None:
    run = DIAGRAM.record()
    drawn = wm.progress.chart.plan(run)
    assert drawn.mermaid == DIAGRAM.mermaid(run)
    assert drawn.sentence == "The query plans of drawn."
    assert drawn.mermaid.count("sequence ") == 9


def test_other_recordings_are_refused() -> None:
    with pytest.raises(ChartError, match="has no table 'buffers'"):
        DIAGRAM.mermaid(StreamRecording.from_tables({}, name="a stream"))
    with pytest.raises(ChartError, match="has no scenario"):
        wm.progress.chart.plan(ProgressRecording.from_tables({}, name="bare"))
