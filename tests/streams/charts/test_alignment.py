"""The chart of several lower bounds: who is last, how far they are apart, and what counts of several readers."""

from __future__ import annotations

import pandas as pd
import pytest

import wmlab as wm
from tests.core.charts.layers import layers_of_kind, points
from wmlab.core.charts.scene import Steps
from wmlab.core.errors import ChartError
from wmlab.core.overlap import TimesApartWarning


def table(*rows: tuple[int, str, int | None], **more: list[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["at_ms", "stream", "lower"]).astype({"lower": "Int64"}).assign(**more)


TWO = table((0, "a", None), (0, "b", 0), (1_000, "a", 500), (3_000, "b", 4_000), (5_000, "a", 1_000))


def test_the_smallest_bound_is_known_where_all_are() -> None:
    chart = wm.chart.alignment(TWO)
    assert chart.data["at_ms"] == [0, 1_000, 3_000, 5_000]
    assert chart.data["aligned"] == [None, 0, 500, 1_000]
    assert chart.data["apart_ms"] == [None, 500, 3_500, 3_000]
    assert chart.facts == {"apart at most": 3_500, "behind": "a", "behind for": 2_000}
    assert chart.sentence == "a was behind for 2.0 s, and the bounds were 3.5 s apart at most."


def test_two_of_three_that_are_known_are_compared_as_they_are_drawn() -> None:
    """The third has its first bound when the second has caught up."""
    rows = [(0, "a", 0), (0, "b", 0), (0, "c", None), (2_000, "a", 3_000), (9_000, "b", 3_000), (9_000, "c", 2_900)]
    chart = wm.chart.alignment(table(*rows, (12_000, "c", 3_000)))
    assert chart.data["apart_ms"] == [None, None, 100, 0]
    assert (chart.facts["behind"], chart.facts["behind for"]) == ("b", 7_000)
    assert chart.facts["apart at most"] == 3_000
    behind = chart.scene.panels[1].layers
    assert max(y for layer in behind for _, y in points(layer) if y is not None) == chart.facts["apart at most"]


def test_of_several_readers_the_one_that_is_behind_counts() -> None:
    rows = [(0, "a", 100), (0, "a", 300), (1_000, "a", 900), (0, "b", 200), (2_000, "b", 2_000)]
    chart = wm.chart.alignment(table(*rows, reader=["r1", "r2", "r1", "r1", "r1"]))
    assert chart.data["lower of a"] == [100, 300, 300]


def test_the_readers_of_a_recording_are_drawn_with_what_happened() -> None:
    run = wm.Scenario(
        name="two readers",
        stream=wm.Stream("s", segments=4),
        writers=[wm.EventWriter("w", rate_per_s=20, note_every_ms=500)],
        readers=wm.ReaderGroup(readers=2, publish_every_ms=500),
        script=[wm.script.PauseReader(at_ms=5_000, reader="readers-1", for_ms=4_000)],
        controllers=wm.Controllers(period_ms=500),
        duration_ms=15_000,
    ).record()
    chart = wm.chart.alignment(run, by="reader")
    names = ["readers-0", "readers-1"]
    behind_names = [f"{name} behind the furthest" for name in names]
    assert [layer.name for layer in layers_of_kind(chart, Steps)] == [*names, *behind_names]
    _, behind = chart.scene.panels
    longest = max(y for layer in behind.layers for _, y in points(layer) if y is not None)
    assert longest == max(apart for apart in chart.data["apart_ms"] if apart is not None)
    assert [rule.x for rule in chart.scene.rules] == [5_000, 9_000]
    windows = run.to_pandas("windows").dropna(subset="lower")
    for reader, rows in windows.groupby("reader"):
        seen = dict(zip(chart.data["at_ms"], chart.data[f"lower of {reader}"], strict=True))
        assert [seen[at] for at in rows.at_ms] == [*rows.lower]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ChartError, match="two to four values of 'stream'; the table has 1"):
        wm.chart.alignment(TWO[TWO.stream == "a"])
    with pytest.raises(ChartError, match="No two of the lower bounds of a and b are ever known at once"):
        wm.chart.alignment(table((0, "a", 1), (0, "b", None), (1_000, "b", None)))
    same = wm.chart.alignment(table((0, "a", 5), (0, "b", 5), (1_000, "a", 6), (1_000, "b", 6)))
    assert same.sentence == "The bounds were never apart."
    assert len(same.scene.panels) == 1, "none is ever behind"


def test_streams_of_two_epochs_have_no_time_in_common() -> None:
    """PDP-33: "time epochs that might not even overlap"."""
    a_day = 86_400_000
    scenario = wm.Scenario(
        name="two epochs",
        streams=[wm.Stream("orders"), wm.Stream("deliveries")],
        writers=[
            wm.EventWriter("shop", rate_per_s=10, note_every_ms=500, stream="orders"),
            wm.EventWriter("van", rate_per_s=10, note_every_ms=500, stream="deliveries", event_time=f"clock + {a_day}"),
        ],
        readers=wm.ReaderGroup(streams=["orders", "deliveries"], publish_every_ms=500),
        controllers=wm.Controllers(period_ms=500),
        duration_ms=10_000,
    )
    with pytest.warns(TimesApartWarning, match="orders and deliveries, which group readers reads together"):
        run = scenario.record()
    chart = wm.chart.alignment(run)
    assert chart.facts["behind"] == "orders"
    known = [row for row, apart in enumerate(chart.data["apart_ms"]) if apart is not None]
    assert known
    assert all(chart.data["aligned"][row] < a_day <= chart.data["lower of deliveries"][row] for row in known)
