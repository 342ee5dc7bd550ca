from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.core.charts.layers import layers_of, points, tick_labels
from wmlab.core.charts.scene import Dots
from wmlab.core.errors import ChartError
from wmlab.streams.charts.diagrams import message_diagram


def table(*rows: tuple[int, int | None, str, str, str], stream: str | None = "orders") -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["sent_ms", "received_ms", "sender", "receiver", "kind"])
    return frame.assign(stream=stream, content="x < y").astype({"received_ms": "Int64"})


TALK = table(
    (29_700, 29_760, "w1", "controller-0", "note"),
    (30_000, None, "w2", "controller-0", "note"),
    (30_010, 30_015, "w1", "store", "append"),
    (30_015, 30_040, "store", "w1", "ack"),
    (35_000, 35_005, "w1", "store", "append"),
)


def test_the_sentence_counts() -> None:
    chart = message_diagram(TALK, around_ms=30_000)
    assert repr(chart) == "Messages: 4, between 4 parties; the slowest took 60 ms."
    assert chart.facts == {"messages": 4, "parties": 4, "slowest took": 60}


def test_a_message_runs_from_its_sender_to_its_receiver() -> None:
    chart = message_diagram(TALK, around_ms=30_000, parties=["w1", "store"])
    assert points(layers_of(chart)["append"]) == [(30_010, 0), (30_015, 1)]
    assert tick_labels(chart.scene.panels[0].up) == ["w1", "store"]
    assert chart.data["kind"] == ["append", "ack"]


def test_messages_about_no_stream_are_shown_with_those_of_a_stream() -> None:
    plan = table((30_020, 30_030, "coordinator", "controller-0", "shares changed"), stream=None)
    chart = message_diagram(pd.concat([TALK, plan]), around_ms=30_000)
    assert (chart.facts["messages"], chart.facts["parties"]) == (5, 5)
    assert chart.scene.title == "What was said in orders around 30 s?"
    shown = dict(zip(chart.data["kind"], chart.data["stream"], strict=True))
    assert (shown["shares changed"], shown["append"]) == (None, "orders")
    alone = message_diagram(plan, around_ms=30_000)
    assert alone.sentence == "Messages: 1, between 2 parties; the slowest took 10 ms."
    assert alone.scene.title == "What was said around 30 s?"


def test_messages_of_one_kind_are_counted_and_drawn_by_sender() -> None:
    appends = table(*((n, n + 5, "w1" if n % 3 else "w2", "store", "append") for n in range(60)))
    chart = message_diagram(appends, around_ms=30, span_ms=200)
    drawn = layers_of(chart)
    assert [len(drawn[f"append from {writer}"].xs) for writer in ("w1", "w2")] == [40 * 3 - 1, 20 * 3 - 1]


def test_many_messages_are_thin_lines() -> None:
    many = table(*((n, n + 5, "a", "b", "note") for n in range(60)))
    drawn = [message_diagram(messages, around_ms=30, span_ms=200) for messages in (many, many[:10])]
    assert [layers_of(chart)["note from a"].thin for chart in drawn] == [True, False]


def test_a_lost_message_breaks_off_half_way() -> None:
    chart = message_diagram(TALK, around_ms=30_000, parties=["w2", "controller-0"])
    lost = layers_of(chart)["did not arrive"]
    assert (lost.ys, lost.hover) == ([0.5], ["note: w2 → controller-0 x < y"])
    assert chart.data["received_ms"] == [None]


def test_a_message_on_its_way_at_the_edge_is_shown() -> None:
    assert len(message_diagram(TALK, around_ms=30_762, span_ms=1_500).data["kind"]) == 2
    assert len(message_diagram(TALK, around_ms=29_750, span_ms=20).data["kind"]) == 1


def test_parties_that_talk_to_each_other_stand_side_by_side() -> None:
    lanes = tick_labels(message_diagram(TALK, around_ms=30_000).scene.panels[0].up)
    assert abs(lanes.index("w1") - lanes.index("store")) == 1


def test_of_very_many_messages_the_nearest_are_drawn() -> None:
    many = table(*((n, n + 1, "a", "b", "note") for n in range(1_000)))
    chart = message_diagram(many, around_ms=500)
    assert len(chart.data["kind"]) == 1_000
    arrived = layers_of(chart)["arrived"].xs
    assert (len(arrived), min(arrived), max(arrived)) == (240, 381, 620)
    assert chart.scene.note == "Drawn are 240 of 1 000 messages, the nearest."


def test_of_many_alike_that_are_on_their_way_at_once_a_share_is_drawn() -> None:
    """Behind a partition 34 appends wait for its end; as a line each they would be one brush."""
    waiting = [(30_000 + 10 * n, 38_000, "south", "store", "append") for n in range(34)]
    quick = [(30_000 + 100 * n, 30_020 + 100 * n, "south/2", "store", "append") for n in range(34)]
    chart = message_diagram(table(*waiting, *quick), around_ms=34_000, span_ms=10_000)
    drawn = [message for layer in layers_of(chart).values() if isinstance(layer, Dots) for message in layer.hover]
    assert len(drawn) == 12 + 34
    assert chart.scene.note == "Drawn are 46 of 68 messages."
    assert len(chart.data["sent_ms"]) == 68


def test_real_clocks_are_written_in_utc() -> None:
    start = 1_388_757_600_000
    real = table((start, start + 20, "a", "b", "note"))
    chart = message_diagram(real, around_ms=start)
    assert "Jan 3, 14:00:00" in chart.scene.title
    assert chart.scene.across.instants


@pytest.mark.parametrize(
    ("offered", "at", "message"),
    [
        (TALK.drop(columns="sender"), {"around_ms": 30_000}, "no column 'sender'"),
        (TALK, {"around_ms": 50_000}, "No message was on its way within 500 ms of 50 s"),
        (TALK, {"around_ms": 30_000, "span_ms": 0}, "A span of 0 ms"),
        (TALK, {"around_ms": "30"}, "around_ms is '30'"),
        (TALK, {"around_ms": 30_000, "parties": "w1"}, "parties is 'w1'"),
        (
            pd.concat([TALK, table((30_000, 30_001, "a", "b", "note"), stream="b")]),
            {"around_ms": 30_000},
            "the table has 2: b, orders",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(offered: Any, at: dict[str, Any], message: str) -> None:
    with pytest.raises(ChartError, match=message):
        message_diagram(offered, **at)
