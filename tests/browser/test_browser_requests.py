"""Nothing leaves the machine: no chart, widget or saved page contacts anything but the server of the notebook.

Every request of the window is looked at, also those of windows that a button opens, while each chart is hovered over
and each button that it offers is pressed. Requests to other hosts are refused, so that a fault does not depend on
whether this machine has a network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.browser.test_browser_charts import frame
from tests.browser.test_browser_lab import PANEL, ROOT, write_notebook
from tests.browser.test_browser_scrubber import SCENARIO
from wmlab.streams.charts.bounds import time_bounds

LOGO: Final = ".modebar-btn--logo"
BUTTONS: Final = f".modebar-btn:not({LOGO})"
SHARING: Final = ("share", "cloud", "upload", "send", "edit in", "chart studio")
LOCAL: Final = ("data", "blob", "about", "file", "chrome", "devtools")
"""Schemes of what is inside the page, or was saved next to it."""

SCENARIOS: Final = ROOT / "data" / "scenarios"
CHARTS: Final = (
    "import wmlab as wm" + SCENARIO + "wm.chart.writer_marks(recording)",
    "wm.chart.topology(recording)",
    "wm.chart.key_space(recording)",
    "recording.timeline()",
    "recording.scrub(at_ms=14_000)",
    f"plan = wm.progress.PlanScenario.load({str(SCENARIOS / 'progress_diagram.yaml')!r})",
    "wm.progress.chart.windows_firing(plan.record())",
    f"wm.dataflow.Dataflow.load({str(SCENARIOS / 'flows' / 'join_over_join.yaml')!r})",
)
FIGURES: Final = (
    "wm.chart.writer_marks(recording).figure()",
    "import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1, 3, 2]), layout={'template': wm.chart.template()})",
)
"""Figures of the class of plotly, which notebooks show with the settings of plotly: with a logo that is a link."""


def foreign(url: str, *, server: str = "") -> bool:
    """Whether a request goes to another host than the server of the notebook."""
    parts = urlsplit(url)
    return parts.scheme not in LOCAL and f"{parts.hostname}:{parts.port}" != server


@contextlib.contextmanager
def watched(browser: Any, *, server: str = "", **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page, and what it, and every window that it opens, asked of other hosts."""
    context = browser.new_context(accept_downloads=True, **options)
    asked: list[str] = []

    def look(route: Any) -> None:
        if foreign(route.request.url, server=server):
            asked.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    context.route("**/*", look)
    context.on("page", lambda opened: asked.append(opened.url) if foreign(opened.url, server=server) else None)
    yield context.new_page(), asked
    context.close()


def press_every_button(page: Any) -> list[str]:
    """Hover over each chart, press each of its buttons, and confirm what it asks; their titles."""
    said: list[str] = []
    plots = page.locator(".js-plotly-plot")
    for number in range(plots.count()):
        plot = plots.nth(number)
        plot.scroll_into_view_if_needed()
        plot.locator(".nsewdrag").first.hover()
        buttons = plot.locator(BUTTONS)
        assert buttons.count() >= 3
        for place in range(buttons.count()):
            button = buttons.nth(place)
            said.append(str(button.get_attribute("data-title") or button.get_attribute("aria-label")))
            button.click()
            for confirm in page.locator(".plotly-cloud-dialog-btn--confirm").all():
                confirm.click()
    page.wait_for_timeout(500)
    return said


def assert_none_shares(said: list[str]) -> None:
    assert said, "no button was seen"
    assert [title for title in said if any(word in title.lower() for word in SHARING)] == []


def test_a_saved_chart_asks_nothing_of_the_network(browser: Any, tmp_path: Path) -> None:
    saved = time_bounds(frame()).save(tmp_path / "chart.html")
    with watched(browser) as (page, asked):
        page.goto(saved.as_uri())
        page.locator(".js-plotly-plot .nsewdrag").first.wait_for()
        assert_none_shares(press_every_button(page))
        assert page.locator(LOGO).count() == 0
        assert asked == []


@pytest.mark.long
def test_a_saved_page_of_plotly_without_the_settings_offers_to_share(browser: Any, tmp_path: Path) -> None:
    """Otherwise the tests of this file could not fail."""
    figure = time_bounds(frame()).figure().update_layout(template="plotly")
    saved = tmp_path / "figure.html"
    figure.write_html(saved, include_plotlyjs=True)
    with watched(browser) as (page, asked):
        page.goto(saved.as_uri())
        page.locator(".js-plotly-plot .nsewdrag").first.wait_for()
        said = press_every_button(page)
        with pytest.raises(AssertionError, match="hare"):
            assert_none_shares(said)
        assert any(urlsplit(url).hostname == "cloud.plotly.com" for url in asked)


@pytest.mark.long
def test_no_cell_contacts_anything_but_the_notebook_server(shoot: ModuleType, browser: Any, tmp_path: Path) -> None:
    write_notebook(tmp_path / "charts.ipynb", *CHARTS, *FIGURES, PANEL)
    with shoot.jupyter_lab(tmp_path, dark=False) as (address, token):
        server = urlsplit(address).netloc
        with watched(browser, server=server, viewport={"width": 1_280, "height": 900}) as (page, asked):
            shoot.open_lab(page, address, token, timeout_s=120)
            asked.clear()  # JupyterLab's own, such as its news
            assert shoot.run_notebook(page, "charts.ipynb") == []
            assert_none_shares(press_every_button(page))
            assert page.locator(LOGO).count() == len(FIGURES)
            scrubber = page.locator(".wmlab-scrubber")
            scrubber.scroll_into_view_if_needed()
            for button in scrubber.locator("button:visible").all():
                button.hover()
            page.locator(".wmlab-pictures svg:visible").first.hover()
            page.wait_for_timeout(1_000)
            shoot.shut_down(page)
            assert asked == []
