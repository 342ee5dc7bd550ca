"""A click on a chart: the moment on its axis, and the sentence that the kernel gives back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.charts.recordings import frame, recording
from wmlab.core.charts import clicked as module
from wmlab.core.charts.axis import time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.clicked import AnsweringChart, ClickedMoment
from wmlab.core.errors import ChartError, RecordingError
from wmlab.core.facts import Facts, Head
from wmlab.streams.answers.explain import explain
from wmlab.streams.answers.head_labels import HEAD_LABELS
from wmlab.streams.charts import time_bounds

BOUNDS = frame([0, 1_000, None]).assign(stream="orders")


@pytest.mark.parametrize(
    ("times", "clicked", "at_ms"),
    [([0, 900], 70.0, 70), ([0, 60_000], 6.0004, 6_000), ([0, 10**7], 2.5, 150_000), ([1_388_757_600_000] * 2, 7.2, 7)],
    ids=["ms", "s", "min", "dates"],
)
def test_a_click_is_a_moment_in_the_unit_of_the_axis(times: list[int], clicked: float, at_ms: int) -> None:
    asked: list[int] = []
    said = Head(facts=Facts(HEAD_LABELS, {"cycles": 3}), templates=("Cycles: {cycles} < 4.",))
    moment = ClickedMoment(lambda at_ms: asked.append(at_ms) or said, time_axis("clock", times))
    assert moment.sentence == repr(moment) == "Click on the chart: what held the lower bound at that moment?"
    assert moment.shown == f"<p>{moment.sentence}</p>"
    moment.clicked = clicked
    assert asked == [at_ms]
    assert moment.sentence == "Cycles: 3 < 4."
    assert moment.shown == said._repr_html_()
    assert moment.shown.startswith("<p>Cycles: 3 &lt; 4.</p><details><summary>Facts</summary>")


def test_a_click_on_the_bounds_gives_what_explain_says() -> None:
    run = recording()
    chart = time_bounds(BOUNDS, recording=run)
    assert isinstance(chart, AnsweringChart)
    moment = ClickedMoment(chart.answer, time_axis("clock", [0, 9_000]))
    moment.clicked = 7.5
    answer = explain(run, at_ms=7_500, stream="orders")
    assert (moment.sentence, moment.shown) == (answer.sentence, answer._repr_html_())
    with pytest.raises(RecordingError, match="no stream 'sales'"):
        time_bounds(BOUNDS.assign(stream="sales"), recording=run)


def test_what_is_stored_is_the_picture_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who executes a notebook to store it does not look on."""
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.publish_display_data", shown.append)
    monkeypatch.setattr(module, "publish", shown.append)
    monkeypatch.setattr(module, "display", shown.append)
    answering = time_bounds(BOUNDS, recording=recording())
    plain = Chart(sentence=answering.sentence, data=answering.data, scene=answering.scene, facts=answering.facts)
    assert type(time_bounds(BOUNDS)) is Chart
    plain._ipython_display_()
    stored = list(shown)
    assert [list(output) for output in stored] == [["text/html", "text/plain"], list(plain._repr_mimebundle_())]
    for looks_on, more in ((False, 0), (True, 2)):
        shown.clear()
        monkeypatch.setattr(module, "is_interactive", lambda: looks_on)  # noqa: B023
        answering._ipython_display_()
        assert [shown[0], shown[-1]] == stored
        assert len(shown[1:-1]) == more
    assert isinstance(shown[-2], ClickedMoment)


def test_only_a_recording_answers() -> None:
    with pytest.raises(ChartError, match="is not a recording"):
        time_bounds(BOUNDS, recording=BOUNDS)
