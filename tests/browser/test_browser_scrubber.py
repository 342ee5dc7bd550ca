"""The saved page of a scrubber in a real browser."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import wmlab as wm
from tests.browser.test_browser_charts import BOXES, collisions, outside
from tests.repetitions import repetitions
from wmlab.core.answers import Proof, Verdict, Verdicts
from wmlab.core.charts.style import ROLES
from wmlab.streams.scrubber.frames import ScrubberFrames
from wmlab.streams.scrubber.page import Scrubber, frame_parts, frames_json, script

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
DRAWN = """selector => [...document.querySelectorAll(selector)].map(e => {
    const box = e.getBBox()
    const place = e.tagName === "text" ? ["x", "y"].map(name => Number(e.getAttribute(name)))
        : [box.x, box.y, box.x + box.width, box.y + box.height]
    return [e.tagName, e.getAttribute("class"), e.tagName === "text" ? e.textContent : "", ...place]
})"""
CLOCKS = """async ([source, frames, moments]) => {
    const { clockOf } = await import(source)
    return moments.map(at => clockOf(frames, at))
}"""
SIZES = """texts => texts.map(text => {
    const { a, b } = text.getScreenCTM()
    return Number(text.getAttribute("font-size")) * Math.hypot(a, b)
})"""
"""How large words are on the screen (px), also turned ones."""
PICTURE_RIGHT = "document.querySelector('.wmlab-scrubber svg').getBoundingClientRect().right"
CONTROLS = ".wmlab-scrubber button, .wmlab-scrubber input, .wmlab-scrubber select"
ROUNDING_PX = 0.15
PICTURE_MS = 17
"""The time between two pictures of a browser that draws 60 a second."""


def verdict(invariant: str, at_ms: int) -> Verdict:
    proof = Proof("watermarks", {"stream": "orders", "emitted_ms": at_ms})
    said = {"statement": "a promise", "judged": 1, "violations": 1, "what": "made up", "evidence": (proof,)}
    return Verdict(invariant=invariant, verdict="violated", **said)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def scrubber() -> Scrubber:
    names: dict[str, Any] = {"wm": wm}
    exec(SCENARIO, names)
    found = Verdicts("seen", (verdict("I3", 20_005), verdict("I1", 25_005)))
    made: Scrubber = names["recording"].scrub(at_ms=14_000, verdicts=found)
    return made


@pytest.fixture(scope="module")
def saved(scrubber: Scrubber, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scrubber.save(tmp_path_factory.mktemp("saved") / "run.html")


@contextlib.contextmanager
def opened(browser: Any, saved: Path, *, stopped: bool = False, **options: Any) -> Iterator[Any]:
    """The saved page; `stopped`: its clock moves only with `page.clock.run_for`, so no test depends on the machine."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
    if stopped:
        page.clock.install(time=0)
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != saved.as_uri() else None)
    page.goto(saved.as_uri())
    if stopped:
        page.clock.pause_at(3_600_000)
    yield page
    page.close()
    assert said == []


@pytest.fixture
def page(browser: Any, saved: Path) -> Iterator[Any]:
    with opened(browser, saved) as found:
        yield found


def clock_ms(page: Any) -> int:
    return int(page.locator(".wmlab-clock").inner_text().removesuffix(" ms").replace(" ", ""))


def assert_shows(browser: Any, page: Any, scrubber: Scrubber, at_ms: int) -> None:
    """The page shows exactly the frame that Python draws, in all panels, and says what `explain` says."""
    assert clock_ms(page) == at_ms
    live = page.evaluate(DRAWN, ".wmlab-scrubber svg text, .wmlab-scrubber svg path")
    other = browser.new_page()
    frames = scrubber.frames
    inside = "".join(frame_parts(frames, at_ms))
    other.set_content(f'<svg viewBox="0 0 {frames.width} {frames.height}">{inside}</svg>')
    still = other.evaluate(DRAWN, "svg text, svg path")
    other.close()
    assert_same(still, live)
    said = page.locator(".wmlab-sentence").inner_text()
    assert said.lower() == f"{frames.sentence(at_ms)}.".lower()


def assert_same(still: list[list[Any]], live: list[list[Any]]) -> None:
    """Both hold the same elements at the same places, in whatever order they are drawn."""
    assert len(still) == len(live) > 100
    left = list(live)
    for drawn in still:
        twin = next((other for other in left if is_same(drawn, other)), None)
        assert twin is not None, drawn
        left.remove(twin)


def is_same(one: list[Any], other: list[Any]) -> bool:
    places = zip(one[3:], other[3:], strict=True)
    return one[:3] == other[:3] and all(abs(a - b) <= ROUNDING_PX for a, b in places)


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ([], lambda _: 14_000),
        (["ArrowRight"], lambda frames: frames.step(14_000, 1)),
        (["ArrowLeft", "ArrowLeft"], lambda frames: frames.step(14_000, -2)),
        (["PageDown"], lambda frames: frames.step(14_000, 10)),
        (["PageUp"], lambda frames: frames.step(14_000, -10)),
        (["Home"], lambda frames: frames.low_ms),
        (["End"], lambda frames: frames.high_ms),
        (["p"], lambda _: 8_000),
        (["v"], lambda _: 20_005),
        (["v", "v", "Shift+V"], lambda _: 20_005),
    ],
)
def test_keys_move_all_panels_together(
    browser: Any, page: Any, scrubber: Scrubber, keys: list[str], wanted: Callable[[ScrubberFrames], int]
) -> None:
    assert clock_ms(page) == 14_000
    for key in keys:
        page.keyboard.press(key)
    assert_shows(browser, page, scrubber, wanted(scrubber.frames))


@pytest.mark.parametrize("at_ms", repetitions([8_003, 30_000], long=[0, 8_003, 9_500, 21_999, 30_000]))
def test_the_slider_moves_all_panels_together(browser: Any, page: Any, scrubber: Scrubber, at_ms: int) -> None:
    page.get_by_label("Clock").fill(str(at_ms))
    assert_shows(browser, page, scrubber, at_ms)


def test_an_arrow_on_the_slider_is_a_step_too(page: Any, scrubber: Scrubber) -> None:
    page.get_by_label("Clock").focus()
    page.keyboard.press("ArrowRight")
    assert clock_ms(page) == scrubber.frames.step(14_000, 1)


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "moments"),
    [
        (0, 599_999, (0, 7, 59_999, 599_999)),
        (0, 1_200_000, (0, 7, 400, 60_000, 720_500, 1_200_000)),
        (-700_000, 300_000, (-700_000, -1_250, 0, 45_000)),
        (0, 200_000_000, (3_599_999, 3_600_000, 3_723_456, 90_061_007, 200_000_000)),
        (1_388_757_600_000, 1_388_757_700_000, (1_388_757_600_000, 1_388_757_612_500)),
    ],
)
def test_the_clock_reads_as_in_python(
    browser: Any, scrubber: Scrubber, low_ms: int, high_ms: int, moments: tuple[int, ...]
) -> None:
    frames = replace(scrubber.frames, low_ms=low_ms, high_ms=high_ms, instants=low_ms > 0, panels=())
    page, source = browser.new_page(), f"data:text/javascript,{quote(script())}"
    said = page.evaluate(CLOCKS, [source, json.loads(frames_json(frames)), list(moments)])
    page.close()
    assert said == [frames.clock(at_ms) for at_ms in moments]


def test_buttons_and_the_chosen_kind(page: Any, scrubber: Scrubber) -> None:
    page.get_by_label("Kind of event").select_option("fault")
    page.get_by_role("button", name="Next event of this kind").click()
    assert clock_ms(page) == 22_000
    assert "w2 restarts" in page.locator(".wmlab-status").inner_text()
    page.get_by_role("button", name="Next event of this kind").click()
    assert clock_ms(page) == 22_000
    assert "There is no later fault" in page.locator(".wmlab-status").inner_text()
    page.get_by_role("button", name="Previous event of this kind").click()
    page.get_by_role("button", name="Next change").click()
    assert clock_ms(page) == scrubber.frames.step(12_000, 1)


def test_any_reader_can_be_chosen(browser: Any, page: Any, scrubber: Scrubber) -> None:
    page.get_by_label("Reader").select_option("billing-1")
    assert "The bounds that billing-1 of group billing sees" in page.locator(".wmlab-scrubber svg").text_content()
    page.keyboard.press("Escape")
    page.get_by_label("Reader").select_option("billing-0")
    assert_shows(browser, page, scrubber, 14_000)


def test_in_a_narrow_page_words_keep_their_size_and_the_picture_scrolls(browser: Any, saved: Path) -> None:
    with opened(browser, saved) as page:
        page.set_viewport_size({"width": 570, "height": 900})
        sizes = page.eval_on_selector_all(".wmlab-scrubber svg text", SIZES)
        assert min(sizes) >= 11
        assert page.evaluate("document.documentElement.scrollWidth") <= 570


def test_a_click_into_the_whole_run_goes_there(page: Any, scrubber: Scrubber) -> None:
    whole, box = scrubber.frames.panels[-1], page.locator(".wmlab-scrubber svg").bounding_box()
    scale = box["width"] / scrubber.frames.width
    page.mouse.click(box["x"] + scale * (whole.left + whole.width / 3), box["y"] + scale * (whole.bottom - 4))
    assert clock_ms(page) == pytest.approx(10_000, abs=60)


def test_space_plays_and_pauses_and_from_the_end_begins_anew(browser: Any, saved: Path) -> None:
    with opened(browser, saved, stopped=True) as page:
        page.keyboard.press("End")
        page.keyboard.press("Space")
        page.clock.run_for(600)
        page.keyboard.press("Space")
        stopped = clock_ms(page)
        assert 2 * (600 - PICTURE_MS) <= stopped <= 2 * 600, "thirty seconds are played at twice their speed"
        assert page.get_by_role("button", name="Play").count() == 1
        page.clock.run_for(5_000)
        assert clock_ms(page) == stopped
        page.keyboard.press("Space")
        page.clock.fast_forward(15_000)
        assert clock_ms(page) == 30_000
        assert page.get_by_role("button", name="Play").count() == 1


def test_who_prefers_reduced_motion_gets_two_pictures_a_second(browser: Any, saved: Path) -> None:
    with opened(browser, saved, stopped=True, reduced_motion="reduce") as page:
        page.keyboard.press("Home")
        page.keyboard.press("Space")
        seen = []
        for _ in range(26):
            page.clock.run_for(50)
            seen.append(clock_ms(page))
    assert seen == [0] * 9 + [1_000] * 10 + [2_000] * 7


def test_everything_has_a_name_and_the_focus_is_seen(page: Any, scrubber: Scrubber) -> None:
    names = page.eval_on_selector_all(CONTROLS, "controls => controls.map(c => c.getAttribute('aria-label'))")
    assert len(names) == 12
    assert all(names)
    assert page.locator(".wmlab-scrubber").get_attribute("role") == "group"
    assert page.evaluate("document.activeElement.classList.contains('wmlab-scrubber')")
    told = page.locator(".wmlab-scrubber svg").get_attribute("aria-label")
    assert told.split(". ") == [line.strip() for line in scrubber.frames.text(14_000).splitlines()[2:]]
    for _ in range(len(names)):
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement)"
        assert page.evaluate(f"[{style}.outlineStyle, {style}.outlineWidth]") == ["solid", "2px"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_preferred_colour_scheme(browser: Any, saved: Path, scheme: str) -> None:
    with opened(browser, saved, color_scheme=scheme) as page:
        paper = page.evaluate("getComputedStyle(document.querySelector('.wmlab-scrubber')).backgroundColor")
        line = page.evaluate("getComputedStyle(document.querySelector('.wmlab-stroke-lower')).stroke")
    assert paper == rgb(getattr(ROLES["paper"], scheme))
    assert line == rgb(getattr(ROLES["lower"], scheme))


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[place : place + 2], 16)) for place in (1, 3, 5))})"


@pytest.mark.parametrize("width", [760, 1280])
def test_words_neither_collide_nor_leave_the_picture(browser: Any, saved: Path, scrubber: Scrubber, width: int) -> None:
    with opened(browser, saved) as page:
        page.set_viewport_size({"width": width, "height": 900})
        for at_ms in (0, 8_000, 9_500, 14_000, 21_000, 30_000):
            page.get_by_label("Clock").fill(str(at_ms))
            boxes = page.evaluate(BOXES, ".wmlab-scrubber svg text")
            assert outside(boxes, max(width, page.evaluate(PICTURE_RIGHT))) == []
            assert collisions(boxes) == [], at_ms


def test_without_scripts_the_page_shows_the_moment(browser: Any, saved: Path, scrubber: Scrubber) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(saved.as_uri())
    assert scrubber.frames.heading(14_000) in page.locator("main svg text").all_text_contents()
    context.close()
