from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pandas as pd
import pytest

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
        "w2 (lagging) cost most: the lower bound of orders was on average 900 ms lower for it, 75% of what all "
        "holders cost; it held for 10.0 s."
    )


def test_bars_stand_in_order_of_cost_with_the_unknown_last() -> None:
    chart = holder_costs(RUN)
    figure = chart.figure()
    bars = sorted(
        (row, x, text) for trace in figure.data for row, x, text in zip(trace.y, trace.x, trace.text, strict=True)
    )
    assert [x for _, x, _ in bars] == [900, 300, 0]
    assert list(figure.layout.yaxis.ticktext) == ["w2 (lagging)", "w1 (slowest)", "nobody had noted a time"]
    assert [text for *_, text in bars] == [" 900 ms, held 10.0 s", " 300 ms, held 45.9 s", " cost unknown, held 1.0 s"]
    assert chart.data["cost_ms"] == [900, 300, None]


def test_the_still_picture_is_xml_with_every_label() -> None:
    chart = holder_costs(RUN, title="A <question>")
    root = ET.fromstring(chart.svg)
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A <question>", "w2 (lagging)", "cost unknown, held 1.0 s"} <= set(texts)
    assert len(root.findall(".//{http://www.w3.org/2000/svg}path[@fill-opacity]")) == 2


def test_only_the_most_expensive_are_drawn_of_many() -> None:
    many = table(*((f"w{n}", "lagging", 100, 10, 10.0 + n) for n in range(20)))
    chart = holder_costs(many)
    assert len(chart.figure().data[0].y) == 12
    assert len(chart.data["who"]) == 20
    assert "8 more cost less." in chart.svg


def test_a_run_without_cost_says_so() -> None:
    free = table(("w1", "slowest", 100, None, None))
    assert holder_costs(free).sentence == "Nobody held the lower bound of orders below what the others had noted."


def test_costs_against_the_clock_are_told_apart() -> None:
    alone = table(
        ("w1", "slowest", 100, 900, 700.0), ("w2", "lagging", 50, 10, 5.0), ("nobody", "no mark", 9, None, None)
    )
    alone = alone.assign(against=["the clock", "the others", "no bound"])
    chart = holder_costs(alone)
    assert chart.sentence.startswith("w2 (lagging) cost most: ")
    assert "100% of what all holders cost" in chart.sentence
    assert list(chart.figure().layout.yaxis.ticktext) == ["w2 (lagging)", "nobody", "w1 (slowest, alone)"]
    assert "700 ms behind the clock, held 100 ms" in chart.svg
    assert "no bound, held 9 ms" in chart.svg
    assert holder_costs(alone[:1]).sentence == (
        "w1 (slowest) held the lower bound of orders for 100 ms with nobody else to compare: behind the clock, that "
        "makes 700 ms of mean lag."
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (RUN.drop(columns="cost_ms"), "no column 'cost_ms'"),
        (pd.concat([RUN, table(("w", "slowest", 1, 1, 1.0), stream="b")]), "it has 2: b, orders"),
        (RUN[:0], "it has no rows"),
        (7, "cannot be drawn from a int"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ChartError, match=message):
        holder_costs(given)
