"""The charts that are drawn from a recording: what each says and what it draws, for a run with known answers.

Of more events than a chart keeps, what it says is exact, and what it draws is an even share.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.core.charts.layers import Points, check_chart, layers_of, points, stretches
from tests.streams.charts.recordings import BORN_1, CHARTS, frame, recording
from tests.streams.charts.test_holders import RUN
from tests.streams.charts.test_message_diagram import TALK
from tests.streams.sim.worlds import scenario
from wmlab.core import schemas
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Blocks
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.recording import Recording
from wmlab.core.run_comparison import compare
from wmlab.streams import charts as view
from wmlab.streams.answers.cause import OF_WRITERS
from wmlab.streams.answers.explain import BoundExplanation, explain
from wmlab.streams.api import Scenario
from wmlab.streams.charts.diagrams import message_diagram
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, Stream

DRAWN: dict[str, Callable[..., Chart]] = {
    **{chart.__name__: partial(chart, recording()) for chart in CHARTS},
    "time_bounds": partial(view.time_bounds, frame([0, 1_000, None])),
    "message_diagram": partial(message_diagram, TALK, around_ms=30_000),
    "holders": partial(view.holders, RUN),
}
OF_A_STREAM = [chart for chart in CHARTS if chart is not view.bucket_ownership]


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_chart_is_a_sentence_a_still_picture_and_plain_json(draw: Callable[..., Chart]) -> None:
    chart = draw()
    check_chart(chart)
    assert draw() == chart, "the same data give the same chart"


@pytest.mark.parametrize("draw", OF_A_STREAM, ids=lambda draw: draw.__name__)
def test_a_stream_is_chosen_by_name_and_a_wrong_one_is_named(draw: Callable[..., Chart]) -> None:
    assert draw(recording(), stream="orders").sentence == draw(recording()).sentence
    with pytest.raises(ChartError, match=r"no rows of stream 'sales' .* it has orders"):
        draw(recording(), stream="sales")
    with pytest.raises(ChartError, match=r"it has no stream\.(?s:.*)Record a scenario"):
        draw(StreamRecording.from_tables({}, name="empty"), stream="sales")
    with pytest.raises(ChartError, match="no stream"):
        draw(StreamRecording.from_tables({}, name="empty"))
    with pytest.raises(ChartError, match="'orders' is not a recording"):
        draw("orders")


@pytest.mark.parametrize("draw", CHARTS, ids=lambda draw: draw.__name__)
def test_of_a_stream_there_may_be_one_thing_only(draw: Callable[..., Chart]) -> None:
    whole = recording()
    one = {name: whole.table(name).slice(0, 1) for name in whole.counts}
    sentence = draw(StreamRecording.from_tables(one, name="one")).sentence
    assert not re.search(r"\b1 \w+s\b(?! of)", sentence), sentence


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_title_replaces_the_question(draw: Callable[..., Chart]) -> None:
    assert draw(title="A <title>").scene.title == "A <title>"


@pytest.mark.parametrize("draw", [view.time_bounds, view.holders])
def test_a_recording_is_no_table(draw: Callable[..., Chart]) -> None:
    with pytest.raises(ChartError, match=r"cannot be drawn from a StreamRecording(?s:.*)Pass a table"):
        draw(recording())


@pytest.mark.parametrize(
    ("draw", "sentence", "drawn"),
    [
        (
            view.key_space,
            "Stream cuts: 2, one for each watermark; segments: 3, open at the end: 2.",
            {
                "segment": [(0, 4_000), (3_990, 6_000), (3_990, 6_000)],
                "stream cut of a watermark": [
                    *((1_000, 0), (1_000, 1), (None, None)),
                    *((3_990, 0), (3_990, 0.5), (3_990, 0.5), (3_990, 1), (None, None)),
                ],
                "position of the readers": [
                    *((2_000, 0), (2_000, 1), (None, None)),
                    *((5_000, 0), (5_000, 0.5), (3_990, 0.5), (3_990, 1), (None, None)),
                    *((5_000, 0), (5_000, 0.5), (6_000, 0.5), (6_000, 1), (None, None)),
                ],
            },
        ),
        (
            view.event_vs_arrival,
            "Half of the events arrived within 100 ms of their time, the slowest after 3.0 s.",
            {
                "event below the lower bound in the log": [(3_500, 500)],
                "lower bound in the log": [(2_500, 800), (5_000, 2_800), (6_000, 2_800)],
            },
        ),
        (
            view.writer_marks,
            "The watermark in the log stood still for 3.0 s, held by w2.",
            {
                "accepted": [
                    *((at_ms, writer) for at_ms in (1_000, 2_000, 3_000) for writer in (0, 1)),
                    *((at_ms, 0) for at_ms in range(4_000, 9_000, 1_000)),
                ],
                "refused": [(4_000, 1)],
                "no mark when one was due": [(5_500, 8_000)],
                "held the watermark in the log": [(5_000, 8_000)],
            },
        ),
        (
            view.watermark_cycles,
            "Cycles that emitted a watermark: 2 of 4; that waited for w2: 2.",
            {
                "emitted": [(2_500, 0), (5_000, 0)],
                "held": [(7_000, 0), (8_000, 0)],
                "previous lower bound": [(2_500, None), (5_000, 800), (7_000, 2_800), (8_000, 2_800)],
            },
        ),
        (
            view.bucket_ownership,
            "Bucket 0 was without an owner for longest, for 1.5 s from 3.0 s.",
            {"no owner": [(3_000, 4_500)]},
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_chart_says_and_draws_what_the_tables_hold(
    draw: Callable[..., Chart], sentence: str, drawn: dict[str, Points]
) -> None:
    chart = draw(recording())
    assert chart.sentence == sentence
    layers = {name: layers_of(chart)[name] for name in drawn}
    assert {name: places_of(layer) for name, layer in layers.items()} == drawn


def places_of(layer: Any) -> Points:
    """The points of a curve or of markers, or where boxes begin and end."""
    return stretches(layer) if isinstance(layer, Blocks) else points(layer)


def test_boxes_and_markers_say_what_they_are() -> None:
    segments = layers_of(view.key_space(recording()))
    assert [box.label.strip() for box in segments["names"].boxes] == ["0@0", "1@1", "2@1"]
    assert [box.hover for box in segments["names"].boxes] == [box.hover for box in segments["segment"].boxes]
    held = layers_of(view.watermark_cycles(recording()))["held"]
    assert held.hover == ["7.0 s, c0: waits for w2", "8.0 s, c0: waits for w2"]
    marks = layers_of(view.writer_marks(recording()))
    boxes = [*marks["no mark when one was due"].boxes, *marks["held the watermark in the log"].boxes]
    assert [(box.y_low + box.y_high) / 2 for box in boxes] == [1, 1], "both are of w2, which has the second row"


def test_the_key_space_of_a_run_before_1970_is_that_of_the_run() -> None:
    writer = EventWriter("w", rate_per_s=20)
    now, early = (
        Scenario("run", writers=[writer], duration_ms=30_000, start_ms=start_ms).record(progress=False)
        for start_ms in (0, -(10**6))
    )
    cuts = [layers_of(view.key_space(run))["stream cut of a watermark"] for run in (now, early)]
    assert view.key_space(early).sentence == view.key_space(now).sentence
    assert list(cuts[1].xs) == [None if x is None else x - 10**6 for x in cuts[0].xs]


def test_from_an_end_of_known_time_on_no_bound_is_drawn() -> None:
    first, *ends = recording().table("watermarks").to_pylist(maps_as_pydicts="strict")
    chart = view.event_vs_arrival(recording(watermarks=[first, *(row | {"writers": {}} for row in ends)]))
    assert list(layers_of(chart)["lower bound in the log"].ys) == [800, None, None]


def test_events_of_another_time_are_beyond_the_axis_and_counted() -> None:
    begin = 1_704_067_200_000
    rows = recording().table("events").to_pylist()
    times = [(begin + n * 1_000, begin + n * 1_000 + 300) for n in range(60)] + [
        (5, begin + 30_000),
        (0, begin + 40_000),
    ]
    events = [rows[0] | {"offset": n, "event_time": t, "append_ms": at} for n, (t, at) in enumerate(times, start=1)]
    chart = view.event_vs_arrival(recording(events=events, watermarks=[]))
    assert chart.scene.beyond == "Beyond the axis: event (2 values), down to Jan 1 1970."
    up = chart.scene.panels[0].up
    assert up.instants
    assert up.high - up.low < 70_000
    assert sorted(chart.data["event_time"])[:2] == [0, 5]


def test_who_held_the_bound_is_drawn_as_explain_says() -> None:
    held = layers_of(view.writer_marks(recording()))["held the watermark in the log"]
    writers = sorted({row["writer"] for row in recording().table("writer_marks").to_pylist()})
    for at_ms in range(1_100, 8_000, 100):
        explained = explain(recording(), at_ms=at_ms)
        assert isinstance(explained, BoundExplanation)
        names = explained.cause.names if explained.cause.kind in OF_WRITERS else ()
        drawn = {writers[round((box.y_low + box.y_high) / 2)] for box in held.boxes if box.x_low <= at_ms < box.x_high}
        assert drawn == set(names), at_ms


@pytest.mark.parametrize(
    ("lagging", "writer", "number"),
    [
        ([["w2"]], "w2", 1),
        ([["w2"], ["w2", "w3"], ["w2"]], "w2", 3),
        ([["w3"], ["w2"], ["w3"]], "w3", 2),
        ([["w3"], ["w2"]], "w2", 1),
        ([[], [], []], None, None),
    ],
)
def test_the_writer_that_most_cycles_waited_for_is_named(
    lagging: list[list[str]], writer: str | None, number: int | None
) -> None:
    rows = recording().table("cycles").to_pylist()
    emitted, held = ([row for row in rows if (row["outcome"] == "emitted") is kind] for kind in (True, False))
    cycles = [*emitted, *(held[0] | {"at_ms": 9_000 + n, "lagging": names} for n, names in enumerate(lagging))]
    chart = view.watermark_cycles(recording(cycles=cycles))
    assert (chart.facts.get("waited for most"), chart.facts.get("waited for in")) == (writer, number)
    assert chart.sentence.startswith(f"Cycles that emitted a watermark: 2 of {len(cycles)}")


def test_a_log_that_says_nothing_of_buckets_has_no_ownership() -> None:
    with pytest.raises(RecordingError, match="its log does not say who owned them"):
        view.bucket_ownership(recording(ownership=[]))


@pytest.mark.parametrize(
    ("used", "drawn", "which"), [(1, 1, "those with streams"), (40, 30, "the first with streams"), (0, 30, "the first")]
)
def test_buckets_without_streams_are_left_out(used: int, drawn: int, which: str) -> None:
    same = {"controller": "c0", "from_ms": 0, "to_ms": None}
    rows = [same | {"bucket": n, "streams": ["orders"] if n < used else []} for n in range(100)]
    scene = view.bucket_ownership(recording(ownership=rows)).scene
    assert len(scene.panels[0].up.ticks(9)) == drawn
    assert scene.note == f"Drawn are {drawn} of 100 buckets, {which}."


def test_the_two_epochs_of_a_rolling_transaction_are_one_label() -> None:
    days = Scenario.load("data/scenarios/days/rolling_transaction.yaml").record(progress=False)
    rules = view.key_space(days).scene.rules
    assert [rule.label for rule in rules] == ["scale", "rolling"]


def test_cuts_that_are_not_drawn_are_counted() -> None:
    (mark, *_) = recording().table("watermarks").to_pylist(maps_as_pydicts="strict")
    marks = [mark | {"seq": seq} for seq in range(30)]
    assert view.key_space(recording(watermarks=marks)).scene.note == "Drawn are 8 of 30 cuts."


def test_lag_and_uncertainty_come_from_the_windows() -> None:
    chart = view.lag(recording())
    assert chart.sentence == ("The lag of what readers saw was at most 3.2 s for half of the time, and 4.7 s at worst.")
    assert points(layers_of(chart)["r0"]) == [(2_600, 1_800), (5_500, 4_700), (5_500, 2_700), (6_500, 3_700)]
    assert chart.data["lag_ms"] == [1_800, 2_700, 3_700]
    assert chart.data["uncertainty_ms"] == [None, 1_100, 1_100]
    distribution = layers_of(view.lag_distribution(recording()))
    shares = shares_of(distribution["lag"])
    assert sum(shares) == pytest.approx(100)
    # From 1.8 s to 2.7 s one window holds, then both do, and from 3.7 s to 4.7 s one: of 3.9 s in all.
    begin, end = stretches(distribution["lag"])[0]
    assert max(shares) == pytest.approx(100 * 2 * (end - begin) / 3_900)
    assert shares_of(distribution["uncertainty"]) == [100]


def shares_of(bars: Any) -> list[float]:
    """How high each bar of a distribution is, in percent."""
    return [box.y_high - box.y_low for box in bars.boxes]


def test_a_distribution_of_nothing_asks_for_the_reason() -> None:
    unknown = [row | {"lower": None, "upper": None} for row in recording().table("windows").to_pylist()]
    with pytest.raises(ChartError, match="ever saw a lower bound"):
        view.lag_distribution(recording(windows=unknown))
    assert view.lag(recording(windows=unknown)).sentence == "No reader saw a lower bound."


def test_lineage_joins_segments_whose_keys_were_handed_over() -> None:
    drawn = view.lineage(recording())
    assert drawn.sentence == "Segments: 3; open at the end: 2."
    arrows = [line.strip() for line in drawn.mermaid.splitlines() if "-->" in line]
    assert arrows == [f"s0 --> s{BORN_1 + 1}", f"s0 --> s{BORN_1 + 2}"]


def test_topology_names_every_party_once(tmp_path: Any) -> None:
    drawn = view.topology(recording())
    assert drawn.sentence == "Streams: 1; writers: 2; controllers: 1; readers: 1."
    assert [drawn.mermaid.count(f'["{name}"]') for name in ("w1", "w2", "r0")] == [1, 1, 1]
    assert drawn._repr_mimebundle_()["text/vnd.mermaid"] == drawn.mermaid
    assert drawn.save(tmp_path / "a.mmd").read_text() == drawn.mermaid
    with pytest.raises(ChartError, match=r"its suffix is '\.png'(?s:.*)Choose one of \.mmd"):
        drawn.save(tmp_path / "a.png")
    with pytest.raises(ChartError, match="no stream to draw"):
        view.topology(StreamRecording.from_tables({}, name="empty"))


WRITERS = [EventWriter("a", rate_per_s=200, delay_mean_ms=400), EventWriter("b", rate_per_s=100)]
SILENT = script.SilenceWriter(at_ms=4_000, writer="a")


@pytest.fixture(scope="module")
def spilled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Recording]:
    """A run in memory, and the same run on disk in row groups of 500 events."""
    made = scenario(writers=WRITERS, stream=Stream(segments=2, timestamp_aggregation_timeout_ms=2_000), script=[SILENT])
    whole = made.record(progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemas, "ROW_GROUP", 500)
        return whole, made.record(tmp_path_factory.mktemp("runs") / "run", progress=False)


@pytest.mark.parametrize("chart", [view.event_vs_arrival, view.key_space], ids=lambda chart: chart.__name__)
def test_a_chart_of_row_groups_is_that_of_the_whole_table(chart, spilled) -> None:
    whole, stored = spilled
    assert whole.counts["events"] > 2_000
    assert chart(stored) == chart(whole)


def test_of_many_events_a_share_is_kept_and_all_are_counted(spilled, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, stored = spilled
    exact = view.event_vs_arrival(whole)
    assert len(layers_of(exact)["event below the lower bound in the log"].xs) > 10
    monkeypatch.setattr(sys.modules[view.event_vs_arrival.__module__], "_MOST_IN_DATA", 10)
    chart = view.event_vs_arrival(stored)
    drawn = layers_of(chart)["event"]
    events = whole.table("events").to_pylist()
    delays = [row["append_ms"] - row["event_time"] for row in events]
    shown = [x - y for x, y in zip(drawn.xs, drawn.ys, strict=True)]
    assert (min(shown), max(shown)) == (min(delays), max(delays)), "the slowest, which the sentence names, is drawn"
    assert chart.sentence == exact.sentence
    assert f"Drawn are {len(drawn.xs)} of {whole.counts['events']:,} events".replace(",", " ") in chart.scene.note
    assert [len(rows) for rows in chart.data.values()] == [10, 10]
    assert chart.data["append_ms"][-1] == exact.data["append_ms"][-1]
    assert len(drawn.xs) in (10, 11, 12)
    assert len(layers_of(chart)["event below the lower bound in the log"].xs) == 10


def test_a_comparison_reads_row_groups_and_keeps_none(spilled) -> None:
    whole, stored = spilled
    comparison = compare(whole, stored, labels=["whole", "stored"])
    assert comparison.results == ()
    assert "lag equally" in comparison.sentence


OF_A_RECORDING = [*CHARTS, view.lineage, view.topology]
OF_A_TABLE: list[Callable[..., Any]] = [
    view.time_bounds,
    view.message_diagram,
    view.holders,
    partial(view.sweep, by="timeout_ms"),
    view.replay,
]
NO_TABLES = [None, "orders", {"stream": ["s"]}, [1, 2], 7]


@pytest.mark.parametrize("draw", OF_A_RECORDING, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("offered", [*NO_TABLES, TALK, pa.table(TALK)], ids=lambda offered: type(offered).__name__)
def test_a_chart_of_a_recording_says_that_it_takes_one(draw: Callable[..., Any], offered: object) -> None:
    with pytest.raises(ChartError, match=r"is not a recording\.(?s:.*)Draw what scenario\.record\(\) gives"):
        draw(offered)


@pytest.mark.parametrize("draw", OF_A_TABLE)
@pytest.mark.parametrize("offered", NO_TABLES, ids=lambda offered: type(offered).__name__)
def test_a_chart_of_a_table_says_what_to_pass(draw: Callable[..., Any], offered: object) -> None:
    with pytest.raises(ChartError, match=r"cannot be drawn from a \w+\.(?s:.*)Pass a table, for example \w+\."):
        draw(offered)


def test_a_chart_of_a_recorded_table_takes_the_recording_too() -> None:
    run = StreamRecording.from_tables({"messages": TALK.to_dict("records")}, name="talk")
    drawn = view.message_diagram(TALK, around_ms=30_000)
    assert view.message_diagram(run, around_ms=30_000) == drawn
    for offered in (run, TALK):
        with pytest.raises(ChartError, match=r"around a moment, and none is given\.(?s:.*)around_ms=\d+, when the"):
            view.message_diagram(offered)
    with pytest.raises(ChartError, match="and record a scenario that keeps its messages"):
        view.message_diagram(StreamRecording.from_tables({}, name="silent"))


def test_what_else_a_chart_of_a_table_needs_is_said() -> None:
    with pytest.raises(ChartError, match=r"values of one field, and none is given\.(?s:.*)by="):
        view.sweep(pd.DataFrame({"timeout_ms": [1], "lag_ms": [2.0], "late_share": [0.0]}))
    marks = {"stream": ["s"], "config": ["c"], "seq": [0], "lower": [1], "upper": [2], "emitted_ms": [3]}
    with pytest.raises(ChartError, match="None is not a recording"):
        view.replay(pd.DataFrame(marks))


BEGIN = 1_704_067_200_000


def far_windows() -> list[dict[str, Any]]:
    """Windows of one reader, one a second; for ten of the 200 s the lower bound is of 1970."""
    first = recording().table("windows").to_pylist()[0]
    clock = [BEGIN + 1_000 * second for second in range(201)]
    return [
        first | {"at_ms": at, "lower": 5 if 50 <= n < 60 else at - 2_000, "upper": at + 1_000}
        for n, at in enumerate(clock)
    ]


def test_a_lag_of_decades_is_beyond_the_axis_of_both_charts_of_lag() -> None:
    far = recording(windows=far_windows())
    chart = view.lag(far)
    assert chart.scene.beyond == "Beyond the axis: r0, up to 19 723 d 1 min."
    assert [panel.up.high < 10_000 for panel in chart.scene.panels] == [True, True]
    assert max(chart.data["lag_ms"]) == BEGIN + 59_000 - 5
    chart = view.lag_distribution(far)
    assert 3_000 <= chart.scene.across.high < 5_000
    drawn = layers_of(chart)
    assert sum(shares_of(drawn["lag"])) == pytest.approx(95)


def test_a_run_of_another_time_is_beyond_the_axis_of_a_sweep() -> None:
    table = pd.DataFrame({"timeout_ms": range(10), "lag_ms": [*range(1_000, 1_900, 100), 10**12], "late_share": 0.0})
    chart = view.sweep(table, by="timeout_ms")
    assert chart.scene.panels[0].up.high < 3_000
    assert chart.scene.beyond.endswith("a run (1 value), up to 11 574 d 1 h 47 min.")
    assert chart.data["lag_ms"][-1] == 10**12


def test_a_previous_bound_of_another_time_is_beyond_the_axis() -> None:
    first = recording().table("cycles").to_pylist()[0]
    cycles = [
        first | {"at_ms": BEGIN + 1_000 * n, "previous_lower": 5 if n in {30, 31} else BEGIN + 1_000 * n - 500}
        for n in range(100)
    ]
    marks = [row | {"lower": BEGIN, "emitted_ms": BEGIN} for row in recording().table("watermarks").to_pylist()]
    chart = view.watermark_cycles(recording(cycles=cycles, watermarks=marks))
    assert chart.scene.beyond == "Beyond the axis: previous lower bound, down to Jan 1 1970."
    assert chart.scene.panels[1].up.low > BEGIN - 60_000


def test_the_marks_and_stretches_that_are_not_drawn_are_counted() -> None:
    mark = recording().table("writer_marks").to_pylist()[0]
    marks = [
        mark | {"received_ms": at, "noted_ms": at, "time": at, "outcome": "success" if n < 600 else "time went back"}
        for n, at in enumerate(range(0, 601_000, 1_000))
    ]
    note = view.writer_marks(recording(writer_marks=marks, cycles=[])).scene.note
    assert note == "Drawn are 500 of 600 accepted marks."
    # After every third mark the next one comes late.
    gaps = [mark | {"received_ms": 1_000 * n + 9_000 * (n // 3), "outcome": "success"} for n in range(1_200)]
    note = view.writer_marks(recording(writer_marks=gaps, cycles=[])).scene.note
    assert note.endswith(" and 300 of 399 stretches without a mark that was due, the longest.")
