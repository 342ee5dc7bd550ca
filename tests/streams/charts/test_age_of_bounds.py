from __future__ import annotations

import pytest

from tests.core.charts.layers import layers_of, stretches, tick_labels
from wmlab.core.errors import ChartError
from wmlab.streams.answers.delays import Delays
from wmlab.streams.charts import delays


def late(watermark_ms: int, publish_ms: int, poll_ms: int) -> Delays:
    parts = {"watermark_ms": watermark_ms, "publish_ms": publish_ms, "poll_ms": poll_ms}
    return Delays(stream="orders", group="readers", from_ms=0, to_ms=60_000, **parts)


QUICK, SLOW = late(1_300, 0, 100), late(1_300, 4_000, 800)


def test_the_parts_of_a_bar_stand_one_after_the_other_up_to_the_whole() -> None:
    chart = delays({"quick": QUICK, "slow": SLOW})
    assert chart.data == {
        "run": ["quick", "slow"],
        "watermark_ms": [1_300, 1_300],
        "publish_ms": [0, 4_000],
        "poll_ms": [100, 800],
    }
    *parts, whole = layers_of(chart).values()
    assert [stretches(bars) for bars in parts] == [
        [(0, 1_300), (0, 1_300)],
        [(1_300, 1_300), (1_300, 5_300)],
        [(1_300, 1_400), (5_300, 6_100)],
    ], "each begins where the one before ends"
    assert [(box.x_low, box.label) for box in whole.boxes] == [(1_400, "1.4 s"), (6_100, "6.1 s")]
    assert whole.beside
    assert tick_labels(chart.scene.panels[0].up) == ["quick", "slow"]


def test_the_sentence_says_what_makes_the_difference() -> None:
    assert repr(delays({"slow": SLOW, "quick": QUICK})) == (
        "The time is known 1.4 s late with quick, and 6.1 s late with slow: "
        "4.0 s more pass until the group's positions are beyond it."
    )
    assert repr(delays({"fixed": QUICK, "as quick": QUICK})) == (
        "The time is known 1.4 s late with fixed, and so it is with the others."
    )
    assert repr(delays(QUICK)) == QUICK.sentence == repr(delays({"quick": QUICK}))


@pytest.mark.parametrize("offered", [None, [QUICK], {"quick": 3}, "quick"], ids=str)
def test_anything_else_is_refused_with_what_to_pass(offered: object) -> None:
    with pytest.raises(ChartError, match=r"cannot be drawn(?s:.*)recording\.delays\(\)"):
        delays(offered)  # type: ignore[arg-type]


def test_no_run_is_refused() -> None:
    with pytest.raises(ChartError, match="no run to draw"):
        delays({})
