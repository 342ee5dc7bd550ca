"""The chart of one stream cut shows the steps of its computation, and refuses a cut that is none of its run's rules."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

import wmlab as wm
from tests.core.charts.layers import layers_of, stretches, tick_labels
from tests.streams.charts.recordings import recording
from wmlab.core.errors import ChartError
from wmlab.streams.recording import StreamRecording


@cache
def example(algorithm: str = "document") -> StreamRecording:
    """The example of PDP-33: 0 [0-0.5] and 1 [0.5-1] become 2 [0-0.6] and 3 [0.6-1] under one slow writer."""
    return wm.Scenario(
        name="the example of PDP-33",
        stream=wm.Stream("orders", segments=2),
        writers=[wm.EventWriter("w", rate_per_s=2, note_every_ms=250)],
        rules=wm.Rules(cut_algorithm=algorithm, probe_on_seal=False),
        controllers=wm.Controllers(period_ms=500),
        script=[wm.script.Scale(at_ms=10_000, seal=["0@0", "1@0"], into=["0..3/5", "3/5..1"])],
        duration_ms=15_000,
        seed=4,
    ).record()


def steps(chart: wm.chart.Chart) -> dict[str, dict[str, int]]:
    """The segments with their offsets at each step."""
    offsets: dict[str, dict[str, int]] = {}
    for step, segment, offset in zip(*(chart.data[name] for name in ("step", "segment", "offset")), strict=True):
        offsets.setdefault(step, {})[segment] = offset
    return offsets


def test_the_example_goes_over_the_upper_bound_that_misses_a_range() -> None:
    run = example()
    drawn = wm.chart.stream_cut(run, at_ms=12_000)
    assert steps(drawn) == {
        "w noted": {"1@0": 972, "2@1": 108},
        "furthest position": {"2@1": 108},
        "stream cut": {"2@1": 108, "3@1": 0},
    }
    assert drawn.facts == {"cut": "(2@1/108, 3@1/0)"}
    assert drawn.sentence == "The stream cut is (2@1/108, 3@1/0)."
    assert tick_labels(drawn.scene.across) == ["0", "1/2", "3/5", "1"]
    assert stretches(layers_of(drawn)["missing range"]) == [(600_000, 1_000_000)]


def test_the_algorithms_that_look_at_the_cut_before_show_it() -> None:
    drawn = wm.chart.stream_cut(example("sound"), at_ms=12_000)
    assert steps(drawn)["the cut before"] == {"2@1": 108, "3@1": 0}
    drawn = wm.chart.stream_cut(example("pravega"), at_ms=12_000)
    assert [*steps(drawn)] == ["w noted", "the cut before", "furthest position", "with the cut before", "stream cut"]


def test_a_cut_without_gaps_is_its_upper_bound() -> None:
    drawn = wm.chart.stream_cut(example(), at_ms=9_000)
    assert steps(drawn)["stream cut"] == steps(drawn)["furthest position"] == steps(drawn)["w noted"]
    assert "missing range" not in layers_of(drawn)


@pytest.mark.parametrize("algorithm", ["sound", "pravega", "document"])
def test_every_cut_of_a_run_with_scales_is_explained(algorithm: str) -> None:
    run = wm.Scenario(
        name="scales",
        stream=wm.Stream("s", segments=2),
        rules=wm.Rules(cut_algorithm=algorithm),
        writers=[wm.EventWriter(name, rate_per_s=10, note_every_ms=700) for name in ("a", "b", "c")],
        script=[
            wm.script.Scale(at_ms=5_000, seal=["0@0", "1@0"], into=["0..1/3", "1/3..1"]),
            wm.script.Scale(at_ms=9_000, seal=["3@1"], into=2),
        ],
        controllers=wm.Controllers(period_ms=500),
        duration_ms=15_000,
    ).record()
    cuts = run.to_pandas("watermarks")
    for mark in cuts.itertuples():
        drawn = wm.chart.stream_cut(run, at_ms=mark.emitted_ms)
        assert sorted(steps(drawn)["stream cut"].values()) == sorted(mark.cut.values())
    assert len(cuts) > 15


def test_what_cannot_be_drawn_is_said() -> None:
    run = example()
    with pytest.raises(ChartError, match="No watermark was emitted until 100 ms"):
        wm.chart.stream_cut(run, at_ms=100)
    with pytest.raises(ChartError, match="does not follow from the recorded positions"):
        wm.chart.stream_cut(recording(), at_ms=6_000)
    marks = [row | {"writers": {}} for row in recording().table("watermarks").to_pylist(maps_as_pydicts="strict")]
    with pytest.raises(ChartError, match="counts no writer"):
        wm.chart.stream_cut(recording(watermarks=marks), at_ms=6_000)


def test_without_a_moment_it_is_the_last_cut_that_counts_a_writer() -> None:
    run = wm.Scenario(
        name="nobody is left",
        rules="design",
        stream=wm.Stream("orders", timestamp_aggregation_timeout_ms=2_000),
        writers=[wm.EventWriter("w", rate_per_s=50)],
        controllers=wm.Controllers(period_ms=1_000, start_delay_ms=2_000),
        script=[wm.script.SilenceWriter(at_ms=6_000, writer="w", for_ms=20_000)],
        duration_ms=26_000,
    ).record()
    marks = run.table("watermarks").to_pylist()
    assert not marks[-1]["writers"]
    last = max(mark["emitted_ms"] for mark in marks if mark["writers"])
    assert wm.chart.stream_cut(run).sentence == wm.chart.stream_cut(run, at_ms=last).sentence


def test_a_segment_that_is_open_next_to_its_successors_is_drawn_above_them() -> None:
    run = wm.Scenario(
        name="a scale in steps",
        stream=wm.Stream("orders", segments=2),
        writers=[wm.EventWriter("w", rate_per_s=20, note_every_ms=250)],
        controllers=wm.Controllers(period_ms=500),
        script=[wm.script.Scale(at_ms=5_000, seal=["0@0", "1@0"], into=["0..3/5", "3/5..1"], seal_every_ms=2_000)],
        duration_ms=12_000,
    ).record()
    drawn = layers_of(wm.chart.key_space(run))
    (together,) = stretches(drawn["segment open next to its successors"])
    sealed = dict(zip(run.to_pandas("segments").segment_id, run.to_pandas("segments").sealed_ms, strict=True))
    assert together == (5_000, sealed[1])
    assert sealed[1] - sealed[0] == 2_000
    names = {box.label.strip(): box for box in drawn["names"].boxes}
    assert [*names] == ["0@0", "1@0", "1@0 open", "2@1", "3@1"]
    assert names["3@1"].x_low >= sealed[1], "not under the segment that is drawn above it"


def test_the_first_cut_of_other_segments_is_drawn_and_names_stand_between_the_lines() -> None:
    drawn = layers_of(wm.chart.key_space(example()))
    cuts = drawn["stream cut of a watermark"]
    xs = [x for x, y in zip(cuts.xs, cuts.ys, strict=True) if y == 1]
    assert len(xs) == 8
    assert 10_000 in xs, "3@1 at offset 0, where the segment begins"
    for box in drawn["names"].boxes:
        middle = (box.y_low + box.y_high) / 2
        at = [
            x
            for (x, y), (_, top) in pairwise(zip(cuts.xs, cuts.ys, strict=True))
            if None not in (y, top) and y < middle < top
        ]
        assert not [x for x in at if box.x_low < x < box.x_high]


def test_two_positions_of_one_writer_stand_above_each_other_with_their_words() -> None:
    chart = wm.chart.stream_cut(example(), at_ms=12_000)
    (lanes,) = chart.scene.panels
    boxes = layers_of(chart)["position of a writer"].boxes
    assert [box.label for box in boxes] == ["1@0/972", "2@1/108"]
    assert all(lanes.height / 3 * (box.y_high - box.y_low) > 24 for box in boxes), "lower ones have no room for words"
