from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.core.charts.layers import layers_of, layers_of_kind, tick_labels
from wmlab.core.charts.scene import Blocks
from wmlab.core.errors import ChartError
from wmlab.streams.charts.parties import holders


def table(*rows: tuple[str, str, int], stream: str = "orders") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["who", "why", "held_ms"]).assign(stream=stream, stretches=1)


RUN = table(("no accepted time", "no mark", 1_005), ("w1", "slowest", 45_900), ("w2", "lagging", 10_000))


def test_the_sentence_names_who_held_longest() -> None:
    assert repr(holders(RUN)) == "The watermark in the log of orders was held longest by w1 (slowest), for 45.9 s."


def test_bars_stand_in_order_of_time() -> None:
    chart = holders(RUN)
    bars_by_reason = layers_of_kind(chart, Blocks)
    assert {bars.beside for bars in bars_by_reason} == {True}
    boxes = [box for bars in bars_by_reason for box in bars.boxes]
    assert [(box.x_high, box.label) for box in boxes] == [(45_900, "45.9 s"), (10_000, "10.0 s"), (1_005, "1.0 s")]
    assert tick_labels(chart.scene.panels[0].up) == ["w1 (slowest)", "w2 (lagging)", "no accepted time (no mark)"]
    assert chart.data["held_ms"] == [45_900, 10_000, 1_005]


def test_only_the_first_are_drawn_of_many() -> None:
    chart = holders(table(*((f"w{n}", "lagging", 100 + n) for n in range(20))))
    assert len(layers_of(chart)["lagging"].boxes) == 12
    assert len(chart.data["who"]) == 20
    assert chart.data["who"][0] == "w19"
    assert "12 of 20 causes" in chart.scene.note


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (RUN.drop(columns="held_ms"), "no column 'held_ms'"),
        (
            pd.concat([RUN, table(("w", "slowest", 1), stream="b")]),
            "One chart shows one stream, but the table has 2: b, orders",
        ),
        (RUN[:0], "The table of holders has no rows"),
        (7, "cannot be drawn from a int"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(offered: Any, message: str) -> None:
    with pytest.raises(ChartError, match=message):
        holders(offered)
