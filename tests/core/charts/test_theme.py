"""The texts of a stored figure have the colours of the page, and those of `figure()` are plain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from wmlab.core.charts.axis import Numbers, Tick, time_axis
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.scene import Blocks, Box, Panel, Rule, Scene, Steps
from wmlab.core.charts.style import page_colour
from wmlab.core.charts.theme import themed

ACROSS = time_axis("clock", [0, 10_000])
LANES = Numbers("", 0.5, -0.5, (Tick(0, "w1"),))
SCENE = Scene(
    title="Who?",
    subtitle="Nobody.",
    across=ACROSS,
    panels=[
        Panel(
            up=ACROSS,
            layers=[
                Steps(name=name, role=role, xs=[0, 9_000], ys=[n, n])
                for n, (name, role) in enumerate([("first", "lower"), ("second", "upper")])
            ],
        ),
        Panel(up=LANES, layers=[Blocks(name="held", role="alarm", boxes=[Box(0, 9_000, -0.4, 0.4, "inside")])]),
    ],
    rules=[Rule(5_000, "w1 crashes")],
)
CHART = Chart(sentence="Nobody.", data={}, scene=SCENE)
NAMES = {"title", "text", "name", "ticktext"}
OF_A_ROLE = re.compile(r'<span style="color:(color\([^"]+\))">(.+?)</span>')


def texts(figure: Any, key: str = "") -> list[str]:
    """Every text of a figure that a reader sees, wherever it stands."""
    if isinstance(figure, dict):
        return [text for name, value in figure.items() if name != "template" for text in texts(value, name)]
    if isinstance(figure, list):
        return [text for value in figure for text in texts(value, key)]
    return [figure] if key in NAMES and isinstance(figure, str) and figure.strip() else []


def test_every_text_of_a_stored_figure_has_the_colour_of_its_role() -> None:
    stored = CHART._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    colours = {words: colour for text in texts(stored) for colour, words in OF_A_ROLE.findall(text)}
    wanted = {
        "title": ["inside"],
        "text": ["clock (s)", "w1", "w1 crashes", "first", "second", "held"],
    }
    assert {words.strip(): colour for words, colour in colours.items()} == {
        words: page_colour(role) for role, of_role in wanted.items() for words in of_role
    }
    axes = [axis for name, axis in stored["layout"].items() if "axis" in name and axis.get("visible", True)]
    assert len(axes) == 3
    assert {axis["tickprefix"] for axis in axes} == {f'<span style="color:{page_colour("text")}">'}


def test_a_figure_to_continue_with_has_plain_texts() -> None:
    figure = CHART.figure().to_plotly_json()
    assert "<span" not in str(figure)
    before = str(figure)
    assert "<span" in str(themed(figure))
    assert str(figure) == before, "the figure stays as it is"


def test_a_saved_page_has_a_background_that_its_texts_follow(tmp_path: Path) -> None:
    page = CHART.save(tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "<head><style>:root{color-scheme:light dark;--jp-layout-color0:#ffffff}" in page
    assert "prefers-color-scheme:dark" in page
