from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from plotly.offline import get_plotlyjs

from tests.core.charts.test_svg import contrast
from wmlab.core.charts.chart import Chart
from wmlab.core.charts.plotly import draw_heading
from wmlab.core.charts.style import ROLES
from wmlab.streams.charts.bounds import time_bounds

BOXES = """selector => [...document.querySelectorAll(selector)].filter(e => e.textContent.trim()).map(e => {
    const box = e.getBoundingClientRect()
    return {words: e.textContent, left: box.left, top: box.top, right: box.right, bottom: box.bottom}
})"""
DRAW = """async figure => {
    document.body.replaceChildren(document.createElement("div"))
    await Plotly.newPlot(document.body.firstChild, {...JSON.parse(figure), config: {responsive: true}})
}"""
COLOURS = """selector => [...document.querySelectorAll(selector)].filter(e => e.textContent.trim()).map(e => {
    const parts = [...e.querySelectorAll("tspan")].filter(part => !part.querySelector("tspan"))
    const colour = getComputedStyle(parts.at(-1) ?? e).fill
    const numbers = colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
    return [e.textContent, colour.startsWith("color(") ? numbers : numbers.map(channel => channel / 255)]
})"""
PLOTLY_TEXTS = (
    ".gtitle, .gtitle-subtitle, .annotation-text, .textpoint text, .xtick text, .ytick text, .xtitle, .ytitle"
)


def frame(*, start_ms: int = 0, crowded: bool = False, unsafe: bool = False) -> pd.DataFrame:
    """A minute with a split, a writer that is down for 25 s, unknown ends and, if `crowded`, 20 more happenings."""
    happened = [
        {"at_ms": start_ms + at_ms, "kind": kind, "what": what}
        for at_ms, kind, what in (
            (20_000, "scale", "0@0 → 2@1, 3@1"),
            (30_000, "crash", "w2"),
            (31_000, "crash", "controller"),
            (55_000, "restart", "w2"),
            (59_500, "scale", "2@1, 3@1 → 4@2"),
        )
    ]
    if crowded:
        happened += [{"at_ms": start_ms + i * 2_700, "kind": "silence", "what": f"writer-{i}"} for i in range(20)]
    rows = []
    for at_ms in range(0, 61_000, 1_000):
        lower = None if at_ms < 3_000 else 30_000 if 32_000 <= at_ms < 55_000 else at_ms - 2_000
        lower = at_ms + 500 if unsafe and 40_000 <= at_ms < 45_000 else lower
        upper = None if at_ms > 58_000 else at_ms + 1_000
        rows.append({"at_ms": at_ms, "lower": lower, "upper": upper, "perfect_watermark": max(at_ms - 500, 0)})
    times = pd.DataFrame(rows).astype("Int64") + start_ms
    return times.assign(stream="orders", group="billing", incidents=[happened] * len(times))


CASES = {
    "seconds": frame(),
    "dates": frame(start_ms=1_388_757_600_000),
    "crowded": frame(crowded=True),
    "unsafe": frame(unsafe=True),
    "no perfect watermark": frame().drop(columns="perfect_watermark"),
    "clock of its own": frame(start_ms=1_388_757_600_000)
    .drop(columns=["perfect_watermark", "incidents"])
    .assign(at_ms=range(0, 61_000, 1_000)),
    "nothing known": frame().drop(columns="perfect_watermark").assign(lower=pd.NA, upper=pd.NA),
    "one position": frame()[20:21],
}


@pytest.fixture(params=CASES, scope="module")
def chart(request: pytest.FixtureRequest) -> Chart:
    return time_bounds(CASES[request.param])


def collisions(boxes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (one["words"], other["words"])
        for one, other in itertools.combinations(boxes, 2)
        if min(one["right"], other["right"]) - max(one["left"], other["left"]) > 1
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 3
    ]


def outside(boxes: list[dict[str, Any]], width: float) -> list[str]:
    return [box["words"] for box in boxes if box["left"] < 0 or box["top"] < 0 or box["right"] > width]


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 900, "height": 900})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def plotly_page(browser: Any) -> Iterator[Any]:
    """A page that has read the program of plotly."""
    opened = browser.new_page()
    opened.set_content("<body style='margin:0'></body>")
    opened.add_script_tag(content=get_plotlyjs())
    yield opened
    opened.close()


def test_texts_of_the_svg_neither_collide_nor_leave_the_picture(page: Any, chart: Chart) -> None:
    page.set_content(f"<body style='margin:0'>{chart.svg}</body>")
    boxes = page.evaluate(BOXES, "svg text")
    assert len(boxes) >= 8
    assert collisions(boxes) == []
    assert outside(boxes, 900) == []


@pytest.mark.parametrize("width", [520, 760, 1280])
@pytest.mark.parametrize("figure", ["to continue with", "stored"])
def test_texts_of_the_figure_neither_collide_nor_leave_the_picture(
    plotly_page: Any, chart: Chart, width: int, figure: str
) -> None:
    plotly_page.set_viewport_size({"width": width, "height": 900})
    plotly_page.evaluate(DRAW, stored_figure(chart) if figure == "stored" else chart.figure().to_json())
    boxes = plotly_page.evaluate(BOXES, PLOTLY_TEXTS)
    assert len(boxes) >= (6 if figure == "stored" else 8)  # without question and answer
    assert collisions(boxes) == []
    assert outside(boxes, width) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_of_a_stored_figure_is_readable_on_its_page(plotly_page: Any, chart: Chart, theme: str) -> None:
    """WCAG 2.2, 1.4.3, level AA, measured: 4.5 to 1. JupyterLab declares the background of the page by its theme."""
    paper = getattr(ROLES["paper"], theme)
    plotly_page.evaluate("paper => document.body.style.setProperty('--jp-layout-color0', paper)", paper)
    plotly_page.evaluate(DRAW, stored_figure(chart))
    seen = plotly_page.evaluate(COLOURS, "svg.main-svg text")
    assert len(seen) >= 8
    for words, channels in seen:
        colour = "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
        assert contrast(colour, paper) >= 4.5, (words, colour)


def stored_figure(chart: Chart) -> str:
    """What a notebook keeps of a chart for plotly."""
    return json.dumps(chart._repr_mimebundle_()["application/vnd.plotly.v1+json"])


@pytest.mark.parametrize("width", [300, 667, 1280])
def test_question_and_answer_of_a_notebook_wrap_in_any_width(page: Any, chart: Chart, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(f"<body style='margin:0'>{draw_heading(chart.scene, chart.facts)}</body>")
    question, answer = boxes = page.evaluate(BOXES, "body > p")
    assert question["words"] == chart.scene.title
    assert answer["words"].replace("\u00a0", " ").replace("\u202f", " ").startswith(chart.scene.subtitle)
    assert outside(boxes, width) == collisions(boxes) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 900, "height": 900})


def test_the_buttons_of_a_stored_figure_stand_above_all_of_its_texts(plotly_page: Any, chart: Chart) -> None:
    plotly_page.set_viewport_size({"width": 520, "height": 900})
    plotly_page.evaluate(DRAW, stored_figure(chart))
    texts = plotly_page.evaluate(BOXES, PLOTLY_TEXTS)
    buttons = plotly_page.evaluate("document.querySelector('.modebar').getBoundingClientRect().toJSON()")
    assert len(texts) >= 6
    assert 0 <= buttons["top"] < buttons["bottom"] <= min(text["top"] for text in texts)


def test_the_buttons_cover_neither_title_nor_answer(plotly_page: Any, chart: Chart) -> None:
    plotly_page.set_viewport_size({"width": 520, "height": 900})
    plotly_page.evaluate(DRAW, chart.figure().to_json())
    head = plotly_page.evaluate(BOXES, ".gtitle, .gtitle-subtitle")
    (buttons,) = plotly_page.evaluate(
        "[...document.querySelectorAll('.modebar')]"
        ".map(e => ({words: 'buttons', ...e.getBoundingClientRect().toJSON()}))"
    )
    assert buttons["bottom"] > buttons["top"]
    assert len(head) == 2
    assert [pair for pair in collisions([*head, buttons]) if "buttons" in pair] == []


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 17, 17)")])
def test_the_svg_follows_the_preferred_colour_scheme(page: Any, chart: Chart, scheme: str, paper: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_content(chart.svg)
    assert page.evaluate("getComputedStyle(document.querySelector('svg rect')).fill") == paper
