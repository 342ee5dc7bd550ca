"""The pictures of moments and the saved page of a scrubber in a real browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wmlab as wm
from tests.browser.test_browser_charts import BOXES, collisions, outside
from tests.repetitions import repetitions
from wmlab.core.charts.style import ROLES
from wmlab.streams.scrub import Scrubber

SCENARIO = """
recording = wm.Scenario(
    name="seen",
    stream=wm.Stream("orders", segments=2, timestamp_aggregation_timeout_ms=5_000),
    writers=[
        wm.EventWriter("w1", rate_per_s=40, note_every_ms=1_000),
        wm.EventWriter("w2", rate_per_s=20, note_every_ms=1_000, clock=wm.Clock(skew_ms=300)),
    ],
    readers=wm.ReaderGroup("billing", readers=2, rate_per_s=24),
    controllers=wm.Controllers(2, period_ms=1_000),
    script=[
        wm.script.Scale(at_ms=8_000, seal=["0@0"], into=3),
        wm.script.CrashWriter(at_ms=12_000, writer="w2", restart_after_ms=10_000),
    ],
    duration_ms=30_000,
    seed=3,
).record(progress=False)
"""
SIZES = """texts => texts.filter(text => text.checkVisibility()).map(text => {
    const { a, b } = text.getScreenCTM()
    return Number(text.getAttribute("font-size")) * Math.hypot(a, b)
})"""
"""How large words are on the screen (px), also turned ones."""
PICTURES = "pictures => pictures.filter(p => p.checkVisibility()).map(p => [p.clientWidth, p.parentNode.clientWidth])"


@pytest.fixture(scope="module")
def scrubber() -> Scrubber:
    names: dict[str, Any] = {"wm": wm}
    exec(SCENARIO, names)
    made: Scrubber = names["recording"].scrub(at_ms=14_000)
    return made


@pytest.fixture(scope="module")
def saved(scrubber: Scrubber, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scrubber.save(tmp_path_factory.mktemp("saved") / "run.html")


@contextlib.contextmanager
def opened(browser: Any, saved: Path, *, width: int = 1_280, **options: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != saved.as_uri() else None)
    page.goto(saved.as_uri())
    yield page
    page.close()
    assert said == []


def clock(page: Any) -> str:
    text: str = page.locator("main b").inner_text()
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def visible(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the pictures that are drawn in several widths only one is shown."""
    return [box for box in boxes if box["right"] > box["left"]]


def test_the_slider_goes_through_the_moments_by_keyboard(browser: Any, saved: Path) -> None:
    with opened(browser, saved) as page:
        assert clock(page) == "14.0 s"
        slider = page.get_by_label("Moment")
        slider.focus()
        page.keyboard.press("Home")
        assert clock(page) == "0 s"
        page.keyboard.press("End")
        assert clock(page) == "30.0 s"
        seen = set()
        for _ in range(5):
            page.keyboard.press("ArrowLeft")
            seen.add(clock(page))
        assert len(seen) == 5


def test_an_event_of_the_page_is_said_with_its_picture(browser: Any, saved: Path) -> None:
    with opened(browser, saved) as page:
        slider = page.get_by_label("Moment")
        for step in range(int(slider.get_attribute("max")) + 1):
            slider.fill(str(step))
            if "w2 crashes." in page.locator("main").inner_text():
                break
        assert clock(page) == "12.0 s"
        assert "writer w2 noted" in page.locator("main").inner_text()


@pytest.mark.parametrize("width", repetitions([550, 1_290], long=[550, 740, 800, 1_040, 1_290]))
def test_the_picture_fills_the_page_and_its_words_neither_collide_nor_leave_it(
    browser: Any, saved: Path, width: int
) -> None:
    with opened(browser, saved, width=width) as page:
        slider = page.get_by_label("Moment")
        for step in range(0, int(slider.get_attribute("max")) + 1, 6):
            slider.fill(str(step))
            ((drawn, room),) = page.eval_on_selector_all(".wmlab-pictures svg", PICTURES)
            assert drawn == room > width - 40
            boxes = visible(page.evaluate(BOXES, ".wmlab-pictures svg text"))
            assert len(boxes) > 20
            assert outside(boxes, width) == []
            assert collisions(boxes) == [], clock(page)
            assert min(page.eval_on_selector_all(".wmlab-pictures svg text", SIZES)) >= 11
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_beside_the_pointer_stands_what_a_mark_means(browser: Any, saved: Path) -> None:
    with opened(browser, saved) as page:
        titles = page.eval_on_selector_all(
            ".wmlab-px1060 g > title", "titles => titles.map(title => title.textContent)"
        )
    assert any(title.startswith("writer w1 noted 1") for title in titles)
    assert any(title.startswith("segment 1@0: ") and title.endswith(" not read by billing") for title in titles)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_preferred_colour_scheme(browser: Any, saved: Path, scheme: str) -> None:
    with opened(browser, saved, color_scheme=scheme) as page:
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        line = page.evaluate("getComputedStyle(document.querySelector('.wmlab-stroke-lower')).stroke")
    assert paper == rgb(getattr(ROLES["paper"], scheme))
    assert line == rgb(getattr(ROLES["lower"], scheme))


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[place : place + 2], 16)) for place in (1, 3, 5))})"


def test_without_scripts_the_page_shows_the_moment(browser: Any, saved: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(saved.as_uri())
    assert clock(page) == "14.0 s"
    assert "writer w2 noted" in page.locator("main").inner_text()
    context.close()
