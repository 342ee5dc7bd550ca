"""The chart of a moment draws the facts of `answers.moment`: offsets where they were written, times where they are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import wmlab as wm
from tests.core.charts.layers import check_chart, layers_of, points
from tests.streams.answers.runs import mark, segment, written
from tests.streams.everything import LENGTH_MS, everything, unread
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Blocks, Path, Scene
from wmlab.core.charts.svg import draw_svg
from wmlab.core.errors import ChartError, RecordingError
from wmlab.streams.answers.moment import read_states
from wmlab.streams.charts.moment import MomentView, describe_moment, draw_moment

STATES = read_states(everything(), "orders")
VIEW = MomentView.of(STATES)
MOMENTS = st.integers(0, LENGTH_MS)
KEYS, TIMES = 0, 1


def drawn(at_ms: int) -> Chart:
    return draw_moment(VIEW, at_ms)


def known(path: Path) -> list[tuple[Any, Any]]:
    return [point for point in points(path) if point[0] is not None]


def lane_words(chart: Chart) -> list[str]:
    boxes = layers_of(chart, TIMES)["words"].boxes
    return [box.label for box in boxes]


def appended_ms(segment_id: int, offset: int) -> int:
    """When a segment became so long."""
    rows = [row for row in everything().table("events").to_pylist() if row["segment_id"] == segment_id]
    return min(row["append_ms"] for row in rows if row["offset"] >= offset)


def test_it_is_a_question_a_sentence_and_a_picture() -> None:
    chart = wm.chart.moment(everything(), 14_000)
    check_chart(chart)
    assert chart == wm.chart.moment(everything(), "14 s") == drawn(14_000)
    assert chart.scene.title == "What was written, noted and read of orders at 14.0 s?"
    answer = everything().explain(14_000, group="billing")
    assert (chart.sentence, dict(chart.facts)) == (answer.headline, dict(answer.facts))


@settings(max_examples=30)
@given(MOMENTS)
def test_the_newest_cut_lies_where_its_segments_became_so_long(at_ms: int) -> None:
    cut = layers_of(drawn(at_ms), KEYS)["newest cut, earlier ones thin"]
    mark, axis = STATES.at(at_ms).watermark, VIEW.axis(at_ms)
    expected = set()
    if mark is not None:
        lows = {
            row["segment_id"]: (row["low"], row["created_ms"]) for row in everything().table("segments").to_pylist()
        }
        for segment_id, offset in mark["cut"].items():
            place_ms = appended_ms(segment_id, offset) if offset else lows[segment_id][1]
            expected.add((max(place_ms, axis.low), lows[segment_id][0]))
    assert {(x, y) for x, y in known(cut)} >= expected
    assert bool(known(cut)) == (mark is not None)


@settings(max_examples=30)
@given(MOMENTS)
def test_the_position_of_the_group_begins_what_it_has_not_read(at_ms: int) -> None:
    layers = layers_of(drawn(at_ms), KEYS)
    position = {x for x, _ in known(layers["position of billing"])}
    assert {box.x_low for box in layers["not read by billing"].boxes} == position
    for box in layers["not read by billing"].boxes:
        assert box.x_low <= box.x_high <= at_ms


@settings(max_examples=30)
@given(MOMENTS)
def test_bounds_and_notes_lie_at_their_times(at_ms: int) -> None:
    state, axis, layers = STATES.at(at_ms), VIEW.axis(at_ms), layers_of(drawn(at_ms), TIMES)
    first = len(state.writers) + 1
    for bound in ("lower", "upper"):
        values = {(lane, getattr(reader, bound)) for lane, reader in enumerate(state.readers, start=first)}
        values |= {(first - 1, row[bound]) for row in [state.watermark] if row is not None}
        values = {(lane, value) for lane, value in values if value is not None}
        inside = {(lane, value) for lane, value in values if axis.low <= value <= axis.high}
        assert {(int(y), x) for x, y in known(layers[f"{bound} bound"])} == inside
    newest = {note.time for writer in state.writers if (note := writer.newest) and axis.low <= note.time <= axis.high}
    assert set(layers["newest noted time"].xs) == newest


@settings(max_examples=30)
@given(MOMENTS)
def test_everything_lies_on_the_axis_with_the_moment(at_ms: int) -> None:
    scene = drawn(at_ms).scene
    xs = [x for layer in scene.layers if not isinstance(layer, Blocks) for x in layer.xs if x is not None]
    xs += [
        x for layer in scene.layers if isinstance(layer, Blocks) for box in layer.boxes for x in (box.x_low, box.x_high)
    ]
    assert all(scene.across.low <= x <= scene.across.high for x in xs)
    assert [rule.x for rule in scene.rules] == [at_ms]


def test_each_lane_says_its_times_and_what_befell_its_party() -> None:
    words = lane_words(drawn(16_000))
    assert words[-4].startswith("writer w2 noted 11.")
    assert words[-4].endswith("s, down, waited for")
    assert re.fullmatch(r"watermark \d+\.\d s to \d+\.\d s, emitted \d+\.\d s", words[-3])
    assert re.fullmatch(r"reader billing-0 saw \d+\.\d s(, no upper bound| to \d+\.\d s)", words[-2])
    assert lane_words(drawn(0)) == [
        *(f"writer {name} has noted no time" for name in ("t1", "w1", "w2")),
        "no watermark yet",
        "reader billing-0 has not polled yet",
        "reader billing-1 has not polled yet",
    ]


def test_what_is_described_is_what_the_lanes_say() -> None:
    lines = describe_moment(VIEW, 14_000)
    assert lines[-6:] == lane_words(drawn(14_000))
    assert any(re.fullmatch(r"segment 1@0, sealed, .* kB, read by billing-\d, .*B not read", line) for line in lines)
    assert any(re.fullmatch(r"segment 1@3, open, .* kB", line) for line in lines)


def test_the_words_of_dates_name_the_day_and_the_axis_is_in_utc() -> None:
    start_ms = 1_388_757_600_000
    chart = wm.chart.moment(everything(start_ms), start_ms + 14_000)
    assert "(UTC, 2014)" in chart.scene.across.title
    assert chart.scene.title.endswith("at Jan 3, 14:00:14?")
    *_, log, reader, _ = lane_words(chart)
    assert re.fullmatch(r"watermark Jan 3, 14:00:\d\d, emitted 14:00:\d\d", log)
    assert re.fullmatch(r"reader billing-0 saw Jan 3, 14:00:\d\d to 14:00:\d\d", reader)


def test_a_time_that_has_left_the_axis_is_a_triangle_at_its_end_and_in_the_words() -> None:
    notes = [*(mark("w", 1_000 * n, 1_000 * n + 100) for n in range(1, 60)), mark("old", 2_000, 2_100)]
    recording = written(writer_marks=sorted(notes, key=lambda row: row["received_ms"]), segments=[segment()])
    chart = wm.chart.moment(recording, 50_000)
    beyond = layers_of(chart, TIMES)["beyond the axis"]
    assert (beyond.shape, beyond.xs, beyond.hover) == ("triangle", [chart.scene.across.low], ["2.0 s, beyond the axis"])
    assert lane_words(chart)[0] == "writer old noted 2.0 s"


def test_a_long_name_is_cut_where_the_lane_has_no_room_but_not_beside_the_pointer() -> None:
    name = "a writer with a name that is as long as a sentence about it"
    chart = wm.chart.moment(written(writer_marks=[mark(name, 1_000 * n, 1_000 * n) for n in range(1, 9)]), 8_000)
    box = layers_of(chart, TIMES)["words"].boxes[0]
    assert box.hover == f"writer {name} noted 8.0 s"
    assert re.fullmatch(r"writer a writer with .*… noted 8\.0 s", box.label)
    assert len(box.label) == 60
    assert all(text in draw_svg(chart.scene, 540, headed=False) for text in (box.label, "no watermark yet"))


def test_event_times_on_another_scale_have_the_axis_alone() -> None:
    """An offset lies at the largest event time up to there."""
    events = [
        {"stream": "orders", "segment_id": 0, "offset": 100 * n, "event_time": 10**9 + 50 * n, "writer": "w"}
        | {"append_ms": 1_000 * n}
        for n in range(1, 31)
    ]
    marks = [mark("w", 10**9 + 50 * n, 1_000 * n) | {"position": {0: 100 * n - 200}} for n in range(3, 31)]
    chart = wm.chart.moment(written(events=events, writer_marks=marks), 20_000)
    assert chart.scene.across.name == "event time"
    assert chart.scene.rules[0].label == "newest event time"
    assert layers_of(chart, KEYS)["where a writer last noted a time"].xs == [10**9 + 50 * 18]


def test_of_many_writers_those_furthest_behind_have_a_lane() -> None:
    marks = [mark(f"w{n:02}", at_ms - 100 * n, at_ms) for n in range(20) for at_ms in (5_000, 10_000)]
    chart = wm.chart.moment(written(writer_marks=marks), 10_000)
    assert [words.split()[1] for words in lane_words(chart)[:-1]] == [f"w{n}" for n in range(12, 20)]
    assert chart.scene.note == "Drawn are 8 of 20 writers and readers, those furthest behind."
    assert len([row for row in chart.data["what"] if row == "noted"]) == 20


def test_without_readers_nothing_is_read() -> None:
    chart = wm.chart.moment(unread(), 3_000)
    assert {layer.name for layer in chart.scene.panels[KEYS].layers} == {
        "segment",
        "words",
        "earlier cuts",
        "newest cut, earlier ones thin",
        "where a writer last noted a time",
    }
    assert lane_words(chart)[-1].startswith("watermark") or lane_words(chart)[-1] == "no watermark yet"


def test_the_picture_keeps_its_height_while_the_moment_moves() -> None:
    def height(scene: Scene) -> str:
        return re.findall(r'height="(\d+)"', draw_svg(scene, headed=False))[0]

    assert len({height(drawn(at_ms).scene) for at_ms in range(3_000, LENGTH_MS, 1_000)}) == 1


def test_the_words_of_a_marker_are_in_the_picture_only_if_wanted() -> None:
    scene = drawn(14_000).scene
    assert "<title>writer w1 noted" in draw_svg(scene, hover=True)
    assert draw_svg(scene).count("<title>") == 1


def test_wrong_moments_groups_and_streams_are_refused() -> None:
    with pytest.raises(ChartError, match="not a moment"):
        wm.chart.moment(everything(), 1.5)  # type: ignore[arg-type]
    with pytest.raises(RecordingError, match="outside the run"):
        wm.chart.moment(everything(), 10**9)
    with pytest.raises(RecordingError, match="No reader group 'audit'"):
        wm.chart.moment(everything(), 1_000, group="audit")
    with pytest.raises(ChartError, match="no rows of stream 'payments'"):
        wm.chart.moment(everything(), 1_000, stream="payments")
