"""The charts of a trade-off have a dot for every run and say which value is safe."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import wmlab as wm
from wmlab.core.charts.scene import Dots, Path
from wmlab.core.errors import ChartError
from wmlab.streams.recording import StreamRecording


def runs(**changes: list[Any]) -> pd.DataFrame:
    columns = {
        "timeout_ms": [4_000, 1_000, 1_000, 4_000, 1_000, 500],
        "lag_ms": [3_000.0, 900.0, 1_100.0, 3_400.0, 1_000.0, None],
        "late_share": [0.0, 0.02, 0.0, 0.0, 0.01, None],
    }
    return pd.DataFrame(columns | changes)


def test_a_sweep_is_a_dot_for_every_run_and_a_line_through_the_medians() -> None:
    chart = wm.chart.sweep(runs(), by="timeout_ms")
    lag, late = chart.scene.panels
    (line, dots) = lag.layers
    assert isinstance(line, Path)
    assert isinstance(dots, Dots)
    assert (line.xs, line.ys) == ([0, 1], [1_000, 3_200])
    assert sorted(zip(dots.xs, dots.ys, strict=True)) == [(0, 900), (0, 1_000), (0, 1_100), (1, 3_000), (1, 3_400)]
    assert [round(share, 6) for share in late.layers[0].ys] == [1.0, 0.0]
    assert chart.sentence == "From a timeout of 1 s to 4 s the lag goes from 1.0 s to 3.2 s."
    assert chart.scene.note == "Drawn are 5 of 6 runs, those with a lag."
    assert [tick.label for tick in chart.scene.across.ticks(6)] == ["1 s", "4 s"]


def test_a_sweep_without_a_bound_is_refused() -> None:
    with pytest.raises(ChartError, match="No run of the sweep has a lower bound"):
        wm.chart.sweep(runs(lag_ms=[None] * 6), by="timeout_ms")
    with pytest.raises(ChartError, match="no column 'period_ms'"):
        wm.chart.sweep(runs(), by="period_ms")


def test_a_value_of_none_is_a_value_of_the_field() -> None:
    chart = wm.chart.sweep(runs(timeout_ms=[4_000, None, None, 4_000, None, 500]), by="timeout_ms")
    assert [tick.label for tick in chart.scene.across.ticks(6)] == ["None", "4 s"]


def recording(*, since_ms: int = 0) -> Any:
    tables = {
        "events": [
            {"stream": "s", "segment_id": 0, "offset": n, "event_time": at - 100, "append_ms": at, "writer": "w"}
            for n in (1_000, 2_000, 3_000, 4_000)
            for at in (since_ms + n,)
        ]
    }
    return StreamRecording.from_tables(tables, name="log")


def marks(config: str, *bounds: tuple[int, int]) -> list[dict[str, Any]]:
    return [
        {"stream": "s", "config": config, "seq": seq, "lower": lower, "upper": lower, "emitted_ms": at_ms}
        for seq, (at_ms, lower) in enumerate(bounds)
    ]


def test_a_replay_names_the_configuration_with_the_least_lag_and_no_late_event() -> None:
    table = pd.DataFrame(
        marks("slow", (1_500, 500), (3_500, 1_500))
        + marks("good", (1_500, 900), (2_500, 1_900), (3_500, 2_900))
        + marks("hasty", (1_500, 1_450), (2_500, 2_950), (3_500, 3_400))
    )
    chart = wm.chart.replay(table, recording())
    assert chart.data["config"] == ["hasty", "good", "slow"]
    assert chart.data["late_share"] == [0.25, 0.0, 0.0]
    assert chart.sentence == ("Of the configurations with the fewest late events good has the least mean lag, 1.1 s.")
    assert chart.facts == {"best": "good", "best lag": chart.data["lag_ms"][1]}
    with pytest.raises(ChartError, match="No configuration gave a watermark"):
        wm.chart.replay(table[:0], recording())


def test_a_replay_knows_no_bound_from_an_end_of_known_time_on() -> None:
    table = pd.DataFrame(marks("ended", (1_500, 900), (2_500, 900)) + marks("good", (1_500, 900), (2_500, 1_900)))
    chart = wm.chart.replay(table.assign(writers=[{"w": 900}, {}, {"w": 900}, {"w": 1_900}]), recording())
    assert chart.data["config"] == ["ended", "good"]
    assert chart.data["lag_ms"] == [1_100, 1_250]


def test_a_replay_of_one_stream_before_1970() -> None:
    early = [(bound[0] - 10**6, bound[1] - 10**6) for bound in ((1_500, 900), (2_500, 1_900), (3_500, 2_900))]
    table = pd.DataFrame(marks("good", *early))
    chart = wm.chart.replay(table, recording(since_ms=-(10**6)))
    assert (chart.facts["best"], chart.data["late_share"]) == ("good", [0.0])
    with pytest.raises(ChartError, match="the table has 2: s, t"):
        wm.chart.replay(pd.concat([table, table.assign(stream="t")]), recording())


@pytest.mark.parametrize(("from_ms", "share"), [(3_500, 0.25), (500, 1.0)])
def test_a_replay_in_which_all_are_late_names_the_fewest(from_ms: int, share: float) -> None:
    table = pd.DataFrame(marks("a", (500, 5_000)) + marks("b", (from_ms, 4_500)))
    chart = wm.chart.replay(table, recording())
    shares = dict(zip(chart.data["config"], chart.data["late_share"], strict=True))
    assert shares[chart.facts["best"]] == share == min(shares.values())
