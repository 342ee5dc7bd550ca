from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.core.charts.layers import layers_of, layers_of_kind, tick_labels
from wmlab.core.charts.scene import Blocks
from wmlab.core.errors import ChartError
from wmlab.streams.charts.parties import holder_costs


def table(*rows: tuple[str, str, int, int | None, float | None], stream: str = "orders") -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["who", "why", "held_ms", "worst_ms", "cost_ms"])
    return frame.assign(stream=stream, stretches=1).astype({"worst_ms": "Int64"})


RUN = table(
    ("nobody had noted a time", "no mark", 1_005, None, None),
    ("w1", "slowest", 45_900, 3_215, 300.0),
    ("w2", "lagging", 10_000, 12_574, 900.0),
)


def test_the_sentence_names_the_most_expensive_holder() -> None:
    assert repr(holder_costs(RUN)) == (
        "w2 (lagging) cost most: without it the watermark of orders would have been 900 ms higher on average. "
        "That is 75% of what all causes cost; it held for 10.0 s."
    )


def test_bars_stand_in_order_of_cost_with_the_unknown_last() -> None:
    chart = holder_costs(RUN)
    bars_by_reason = layers_of_kind(chart, Blocks)
    assert {bars.beside for bars in bars_by_reason} == {True}
    boxes = [box for bars in bars_by_reason for box in bars.boxes]
    assert [(box.x_high, box.label) for box in boxes] == [
        (900, "900 ms, held 10.0 s"),
        (300, "300 ms, held 45.9 s"),
        (0, "cost unknown, held 1.0 s"),
    ]
    assert tick_labels(chart.scene.panels[0].up) == ["w2 (lagging)", "w1 (slowest)", "nobody had noted a time"]
    assert chart.data["cost_ms"] == [900, 300, None]


def test_only_the_most_expensive_are_drawn_of_many() -> None:
    many = table(*((f"w{n}", "lagging", 100, 10, 10.0 + n) for n in range(20)))
    chart = holder_costs(many)
    assert len(layers_of(chart)["lagging"].boxes) == 12
    assert len(chart.data["who"]) == 20
    assert chart.scene.note == "Drawn are 12 of 20 causes, those with the largest cost."


def test_a_run_without_cost_says_so() -> None:
    free = table(("w1", "slowest", 100, None, None))
    assert holder_costs(free).sentence == "Nobody held the watermark of orders below what the others had noted."


def test_costs_against_the_clock_are_told_apart() -> None:
    alone = table(
        ("w1", "slowest", 100, 900, 700.0), ("w2", "lagging", 50, 10, 5.0), ("nobody", "no mark", 9, None, None)
    )
    alone = alone.assign(against=["the clock", "the others", "no bound"])
    chart = holder_costs(alone)
    assert chart.sentence.startswith("w2 (lagging) cost most: ")
    assert "100% of what all causes cost" in chart.sentence
    assert tick_labels(chart.scene.panels[0].up) == ["w2 (lagging)", "nobody", "w1 (slowest, alone)"]
    labels = [box.label for bars in layers_of_kind(chart, Blocks) for box in bars.boxes]
    assert {"700 ms behind the clock, held 100 ms", "no bound, held 9 ms"} <= {*labels}
    assert holder_costs(alone[:1]).sentence == (
        "w1 (slowest) held the watermark of orders for 100 ms, with nobody else to compare. "
        "Behind the clock, that makes 700 ms of mean lag."
    )


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (RUN.drop(columns="cost_ms"), "no column 'cost_ms'"),
        (pd.concat([RUN, table(("w", "slowest", 1, 1, 1.0), stream="b")]), "it has 2: b, orders"),
        (RUN[:0], "it has no rows"),
        (7, "cannot be drawn from a int"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(offered: Any, message: str) -> None:
    with pytest.raises(ChartError, match=message):
        holder_costs(offered)
