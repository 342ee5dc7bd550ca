"""The chart of the map from reader to time: its least is the group's, and a reader without segments leaves it."""

from __future__ import annotations

from functools import cache

import pytest

import wmlab as wm
from tests.core.charts.layers import layers_of_kind
from wmlab.core.charts.scene import Blocks
from wmlab.core.errors import ChartError
from wmlab.streams.answers.alignment import TimesOfReaders, map_head
from wmlab.streams.recording import StreamRecording


@cache
def two_readers(*script: wm.script.CrashReader | wm.script.ResetToCheckpoint, **options: str) -> StreamRecording:
    return wm.Scenario(
        name="two readers",
        stream=wm.Stream("orders", segments=4),
        writers=[wm.EventWriter("shop", rate_per_s=40, note_every_ms=1_000)],
        readers=wm.ReaderGroup(readers=2, rate_per_s=120.0, publish_every_ms=1_000),
        rules=wm.Rules(**options),
        controllers=wm.Controllers(period_ms=900),
        script=[wm.script.Checkpoint(at_ms=8_500, name="noon"), *script],
        duration_ms=30_000,
    ).record()


DIES = wm.script.CrashReader(at_ms=10_500, reader="readers-1", offline_after_ms=5_000)


@pytest.mark.parametrize("script", [(), (DIES,), (wm.script.ResetToCheckpoint(at_ms=15_500, checkpoint="noon"),)])
def test_the_least_time_is_that_of_the_group_s_own_map(script: tuple[wm.script.CrashReader, ...]) -> None:
    run = two_readers(*script, read_side="document")
    chart = wm.chart.reader_times(run)
    kept = {at_ms: window.lower for at_ms, window in run.group_windows()["readers"]}
    drawn = dict(zip(chart.data["at_ms"], chart.data["least"], strict=True))
    both = drawn.keys() & kept.keys()
    assert len(both) > 20
    assert {at_ms: drawn[at_ms] for at_ms in both} == {at_ms: kept[at_ms] for at_ms in both}


def test_of_a_group_with_a_map_it_is_that_map_which_may_be_ahead_of_the_positions() -> None:
    run = two_readers(read_side="document", enters_time="on_passing")
    chart = wm.chart.reader_times(run)
    rows = [row for row in run.table("group_updates").to_pylist() if row["outcome"] == "applied"]
    assert chart.data["at_ms"] == [row["at_ms"] for row in rows]
    for reader in ("readers-0", "readers-1"):
        assert chart.data[f"time of {reader}"] == [dict(row["lowers"]).get(reader) for row in rows]
    assert chart.data["least"] == [row["lower"] for row in rows]
    between = {row["at_ms"] for row in rows if row["operation"] == "time"} - {
        row["at_ms"] for row in run.table("positions").to_pylist()
    }
    assert len(between) > 10


def test_the_time_of_a_dead_reader_is_that_of_the_group_until_its_segments_are_taken_over() -> None:
    chart = wm.chart.reader_times(two_readers(DIES, read_side="document"))
    at = dict(
        zip(
            chart.data["at_ms"],
            zip(*(chart.data[name] for name in chart.data if name != "at_ms"), strict=True),
            strict=True,
        )
    )
    ahead, stopped, least = at[14_000]
    assert ahead > stopped == least
    ahead, gone, least = at[20_000]
    assert (ahead, gone) == (least, None)
    assert chart.sentence.startswith("The least time in the map was that of readers-1 for ")


def test_the_lanes_have_the_segments_of_each_reader() -> None:
    chart = wm.chart.reader_times(two_readers(DIES, read_side="document"))
    (lanes,) = layers_of_kind(chart, Blocks)
    labels = [box.label for box in lanes.boxes]
    assert labels == ["0@0 and 1@0", "0@0, 1@0, 2@0 and 3@0", "2@0 and 3@0"]


def test_a_group_that_shares_offsets_has_no_map_to_draw() -> None:
    with pytest.raises(ChartError, match=r"(?s)no map of times of group readers in orders.*read_side=.document"):
        wm.chart.reader_times(two_readers())


def test_another_group_is_refused() -> None:
    with pytest.raises(ChartError, match="has 1 reader group: readers"):
        wm.chart.reader_times(two_readers(), group="writers")


def test_readers_that_pass_a_watermark_together_are_behind_for_no_time() -> None:
    rows = [
        TimesOfReaders(1_000, {"a": 100, "b": 100}),
        TimesOfReaders(2_000, {"a": 200, "b": 100}),
        TimesOfReaders(2_000, {"a": 200, "b": 200}),
        TimesOfReaders(5_000, {"a": 200, "b": 200}),
    ]
    assert map_head(rows).headline == "All readers in the map had passed the same watermark, for 4.0 s."
    rows[2:3] = [TimesOfReaders(3_000, {"a": 200, "b": 200})]
    assert map_head(rows).headline == "The least time in the map was that of b for 1.0 s."
    assert map_head(rows).facts == {"least time for": 4_000, "behind": "b", "behind for": 1_000}
