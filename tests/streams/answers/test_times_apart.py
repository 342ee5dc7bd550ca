"""Streams that a group reads together although their event times do not overlap: a warning, and what explain says."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import wmlab as wm
from wmlab.core.overlap import TimeRange, TimesApartWarning, without_common_times

A_DAY_MS = 24 * 3_600 * 1_000


def two_streams(event_time: str | None, **writer: int) -> wm.Scenario:
    return wm.Scenario(
        name="two streams",
        streams=[wm.Stream("orders"), wm.Stream("deliveries")],
        writers=[
            wm.EventWriter("shop", rate_per_s=20, stream="orders"),
            wm.EventWriter("van", rate_per_s=20, stream="deliveries", event_time=event_time, **writer),
        ],
        readers=[wm.ReaderGroup("joiner", streams=["orders", "deliveries"]), wm.ReaderGroup("alone", stream="orders")],
        duration_ms=20_000,
    )


@pytest.mark.parametrize("shift", [1_000_000_000, -A_DAY_MS, 20_000])
def test_times_that_do_not_overlap_are_warned_of_with_their_values_and_a_remedy(shift: int) -> None:
    with pytest.warns(TimesApartWarning) as caught:
        run = two_streams(f"clock + {shift}").record(progress=False)
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("The event times of ")
    assert "orders" in text
    assert "deliveries, which" in text or "deliveries and orders, which" in text
    assert "which group joiner reads together, do not overlap in this run: " in text
    assert "until they do, a watermark of one says nothing about the other. To repair it: give the writers" in text
    assert text.endswith("; or, if one is only behind the other, run for longer than that.")
    assert warning.message.recording == run
    assert warning.filename == __file__
    for stream in ("orders", "deliveries"):
        assert run.explain(stream=stream).facts["streams apart"] == ("deliveries", "orders")
        assert "reads deliveries and orders together, although" in run.explain(stream=stream).sentence


@pytest.mark.parametrize(
    ("event_time", "writer"),
    [(None, {}), ("clock + 15_000", {}), ("clock - 15_000", {}), (None, {"starts_ms": 19_950})],
)
def test_times_that_overlap_and_events_that_come_later_are_not_warned_of(
    event_time: str | None, writer: dict[str, int]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = two_streams(event_time, **writer).record(progress=False)
    assert "do not overlap" not in run.explain(stream="orders").sentence


def test_streams_that_nobody_reads_together_may_have_any_times() -> None:
    scenario = two_streams(f"clock + {A_DAY_MS}")
    apart = scenario.replace(readers=[wm.ReaderGroup(name, stream=name) for name in ("orders", "deliveries")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart.record(progress=False)


def test_of_three_ranges_two_that_are_apart_are_enough_and_one_that_comes_later_does_not_count() -> None:
    wide, low, high = TimeRange("w", 0, 9, 0, 9), TimeRange("l", 0, 3, 0, 9), TimeRange("h", 5, 9, 0, 9)
    assert without_common_times([high, wide, low]) == [low, wide, high]
    assert without_common_times([wide, low]) == without_common_times([low]) == without_common_times([]) == []
    assert without_common_times([low, high._replace(from_ms=9, to_ms=20)]) == []
    assert without_common_times([low, high._replace(first=3)]) == []


def test_a_stream_that_is_only_behind_is_apart_in_a_short_run_by_so_much_and_not_in_a_longer_one() -> None:
    short = two_streams("clock - 30_000")
    with pytest.warns(TimesApartWarning, match=r", 10\.\d+ s apart; until they do, "):
        short.record(progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short.replace(duration_ms=31_000).record(progress=False)


def test_where_warnings_are_errors_the_recording_is_there_all_the_same(tmp_path: Path) -> None:
    scenario = two_streams(f"clock + {A_DAY_MS}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TimesApartWarning) as raised:
            scenario.record(tmp_path / "run", progress=False)
    assert raised.value.recording.counts["events"] > 0
    assert wm.trace.Recording.read(tmp_path / "run") == raised.value.recording
