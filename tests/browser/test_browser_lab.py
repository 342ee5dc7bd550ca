"""What a reader meets in JupyterLab: stored tutorials, notebooks that are run, charts, the panel and the scrubber.

Opening a tutorial shows every stored picture. nbval checks already that each cell runs and says what is stored; so few
tutorials are opened here and one is run, and all of them with --long. All tests share one JupyterLab and one window, in
which each opens a notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from tests.browser import test_browser_scrubber as scrubber
from tests.dataflow.scenario.test_values import behind_orders
from tests.progress.test_drawn_plans import CHAINED, DIAGRAM
from tests.repetitions import repetitions
from wmlab import dataflow as flow
from wmlab.core import mermaid
from wmlab.core.charts.style import ROLES

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "notebooks" / "tutorials").glob("*.ipynb"))
SANDBOX = ROOT / "notebooks" / "exploration" / "sandbox.ipynb"
OPENED = repetitions([TUTORIALS[2], TUTORIALS[6]], long=TUTORIALS)
RUN = repetitions(TUTORIALS[:1], long=[*TUTORIALS, SANDBOX])
WIDTH = 1_280
PICTURES = ".js-plotly-plot, .jp-RenderedSVG svg, .jp-RenderedMermaid svg, .wmlab-live svg:not(.icon):visible"
ANSWER = ".jp-OutputArea .wmlab-live > [role=status]"
THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme: `JupyterLab ${theme}`})"
THEMED = (
    "theme => document.body.dataset.jpThemeName === `JupyterLab ${theme}`"
    " && document.getElementById('jupyterlab-splash') === null"
)
CONTENT = "window.jupyterapp.shell.currentWidget.content"
LAST_OUTPUT = f"{CONTENT}.model.toJSON().cells[2].outputs[0]?.data?.['text/plain']"
RUN_LAST = "void window.jupyterapp.commands.execute('notebook:run-all-below')"
CHANGE_LAST = f"{CONTENT}.model.sharedModel.cells[2].setSource('scrubber.at_ms = 10**9')"

SHOWN_FILL = "papers => papers.filter(e => e.checkVisibility()).map(e => getComputedStyle(e).fill)"

CHART = """
import pandas as pd
import wmlab as wm
times = pd.DataFrame({"stream": "orders", "at_ms": range(0, 60_000, 1_000)})
wm.chart.time_bounds(times.assign(lower=times["at_ms"] - 2_000, upper=times["at_ms"] + 1_000))
"""
PANEL = f"""
import wmlab as wm
from wmlab.streams.panel import panel
shown = panel(wm.Scenario.load({str(ROOT / "data" / "scenarios" / "first_bounds.yaml")!r}))
shown
"""
MARKUP = "<img src=x onerror=alert(1)>"
NAMES_WITH_MARKUP = f"""
import wmlab as wm
from wmlab.streams.recording import StreamRecording
name = {MARKUP!r}
row = {{"stream": "orders", "writer": name, "process": name, "txn": None, "controller": name, "outcome": "success"}}
marks = [row | {{"time": n, "position": {{0: 10}}, "noted_ms": n, "received_ms": n}} for n in (100, 200, 300)]
segment = {{"stream": "orders", "segment_id": 0, "number": 0, "epoch": 0, "low": 0.0, "high": 1.0, "keys": "0..1"}}
segment |= {{"created_ms": 0, "sealed_ms": None}}
incident = {{"stream": "orders", "at_ms": 200, "kind": "crash", "target": name, "detail": name + " crashes"}}
incident |= {{"subject": "writer", "outcome": "done"}}
tables = {{"writer_marks": marks, "segments": [segment], "incidents": [incident]}}
recording = StreamRecording.from_tables(tables, name=name)
recording
"""
SHOW_THEM = (
    "recording.explain()",
    "recording.timeline()",
    "wm.chart.writer_marks(recording, title=name)",
    "wm.chart.topology(recording)",
)


def write_notebook(path: Path, *sources: str) -> bytes:
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path.read_bytes()


def change_theme(page: Any, theme: str) -> None:
    """Change JupyterLab's theme, and wait until the splash screen over it is gone.

    JupyterLab takes its one splash screen away 0.2 s after a change; after two changes in that time, it does so twice,
    and the second time is an error on the page.
    """
    page.evaluate(THEME, theme)
    page.wait_for_function(THEMED, arg=theme)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that JupyterLab shows: the clone, and what tests write."""
    made = tmp_path_factory.mktemp("home")
    (made / "clone").symlink_to(ROOT, target_is_directory=True)
    return made


@pytest.fixture(scope="module")
def window(shoot: ModuleType, browser: Any, home: Path) -> Iterator[Any]:
    with shoot.jupyter_lab(home, dark=False) as (address, token):
        opened = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        shoot.open_lab(opened, address, token, timeout_s=120)
        yield opened
        opened.close()


def is_of_the_splash_screen(stack: str) -> bool:
    """Whether an error of the page is that of `change_theme`, which a slow machine may meet: a timer of JupyterLab's
    own, and nothing else, removes what is gone already."""
    message, *frames = stack.splitlines()
    return "Failed to execute 'removeChild'" in message and len(frames) == 1 and "/lab/jlab_core." in frames[0]


@pytest.fixture
def page(shoot: ModuleType, window: Any) -> Iterator[Any]:
    """The window for one notebook, whose kernel ends with the test; it complains of errors on the page and dialogs."""
    complaints: list[str] = []
    listeners = {
        "pageerror": lambda error: complaints.append(error.stack or str(error)),
        "dialog": lambda dialog: (complaints.append(dialog.message), dialog.dismiss()),
    }
    for event, listener in listeners.items():
        window.on(event, listener)
    change_theme(window, "Light")
    window.evaluate("window.jupyterapp.shell.collapseLeft()")
    yield window
    shoot.shut_down(window)
    for event, listener in listeners.items():
        window.remove_listener(event, listener)
    assert [text for text in complaints if not is_of_the_splash_screen(text)] == []


def in_clone(notebook: Path) -> str:
    return f"clone/{notebook.relative_to(ROOT).as_posix()}"


def look_at_all_pictures(page: Any) -> None:
    pictures = page.locator(PICTURES)
    pictures.first.wait_for()
    for number in range(pictures.count()):
        picture = pictures.nth(number)
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box is not None, f"picture {number + 1} is hidden"
        assert box["width"] > 250, (
            f"picture {number + 1} is {box['width']} px wide: {picture.evaluate('e => e.outerHTML.slice(0, 200)')}"
        )
        assert box["height"] > 40, f"picture {number + 1} is {box['height']} px high"
        assert box["x"] + box["width"] <= WIDTH, f"picture {number + 1} is cut off"


def stored_kinds(notebook: Path) -> set[str]:
    """The media types of the outputs of a stored notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return {kind for cell in cells for output in cell.get("outputs", ()) for kind in output.get("data", ())}


def test_every_kind_of_stored_picture_is_among_those_that_are_opened() -> None:
    assert set().union(*map(stored_kinds, OPENED)) == set().union(*map(stored_kinds, TUTORIALS))


@pytest.mark.parametrize("notebook", OPENED, ids=lambda path: path.stem)
def test_a_stored_tutorial_shows_its_pictures(shoot: ModuleType, page: Any, notebook: Path) -> None:
    shoot.open_notebook(page, in_clone(notebook))
    page.locator(".js-plotly-plot").first.wait_for()
    look_at_all_pictures(page)


@pytest.mark.parametrize("notebook", RUN, ids=lambda path: path.stem)
def test_a_reader_can_run_it_and_see_its_pictures(shoot: ModuleType, page: Any, notebook: Path) -> None:
    before = notebook.read_bytes()
    assert shoot.run_notebook(page, in_clone(notebook)) == []
    look_at_all_pictures(page)
    assert notebook.read_bytes() == before


def test_a_chart_that_is_scrolled_out_keeps_its_height_and_fits_the_width(
    shoot: ModuleType, page: Any, home: Path
) -> None:
    """The theme changes, and the side bar opens, while JupyterLab does not lay the chart out."""
    write_notebook(home / "long.ipynb", CHART, *["print('\\n' * 60)"] * 10)
    plots = "[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.getBoundingClientRect())"
    assert shoot.run_notebook(page, "long.ipynb") == []
    assert page.evaluate(f"{CONTENT}.notebookConfig.windowingMode") == "contentVisibility"
    (before,) = page.evaluate(plots)
    page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 1e6")
    change_theme(page, "Dark")
    page.wait_for_timeout(2_000)
    page.evaluate("window.jupyterapp.shell.expandLeft()")
    page.wait_for_timeout(2_000)
    page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    page.wait_for_timeout(1_000)
    (after,) = page.evaluate(plots)
    assert after["height"] == before["height"] > 400
    assert after["width"] < before["width"] - 100


def test_names_with_markup_are_text(shoot: ModuleType, page: Any, home: Path) -> None:
    """No chart, diagram or table makes elements of them."""
    write_notebook(home / "markup.ipynb", NAMES_WITH_MARKUP, *SHOW_THEM)
    assert shoot.run_notebook(page, "markup.ipynb") == []
    page.locator(".jp-RenderedMermaid svg, .jp-RenderedMermaid img").first.wait_for()
    page.wait_for_timeout(1_000)
    assert page.locator(".jp-OutputArea img[src='x']").count() == 0
    assert MARKUP in page.locator(".js-plotly-plot").inner_text()


def in_a_row(depth: int) -> flow.Dataflow:
    """A dataflow of so many vertices one behind the other."""
    return behind_orders(*(flow.Filter(f"filter-{n}", where="t > 0 and id > 0") for n in range(depth - 2)))


DIAGRAMS = {
    "plans of the document": DIAGRAM.mermaid(DIAGRAM.record()),
    "windows behind windows": CHAINED.mermaid(CHAINED.record()),
    "dataflow that goes down": in_a_row(5).mermaid(),
    "dataflow too long to go down": in_a_row(6).mermaid(),
}
CROSSED_TITLES = """async image => {
    const text = await (await fetch(image.src)).text()
    const svg = document.body.appendChild(new DOMParser().parseFromString(text, "image/svg+xml").documentElement)
    const labels = [...svg.querySelectorAll(".cluster-label")]
    const titles = labels.map(label => [label.textContent.trim(), label.getBoundingClientRect()])
    const crossed = [...svg.querySelectorAll("path.flowchart-link")].flatMap(path => {
        const onPage = path.getScreenCTM(), length = path.getTotalLength()
        const points = [...Array(200).keys()].map(n => path.getPointAtLength(length * n / 199).matrixTransform(onPage))
        return titles.filter(([_, box]) => points.some(
            point => box.left < point.x && point.x < box.right && box.top < point.y && point.y < box.bottom
        ))
    })
    const links = svg.querySelectorAll("path.flowchart-link").length
    svg.remove()
    return {titles: titles.map(([title]) => title), links, crossed: crossed.map(([title]) => title)}
}"""


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_diagram_fits_a_screen_and_its_edges_leave_titles_free(
    shoot: ModuleType, page: Any, home: Path, theme: str
) -> None:
    """Of a window 1,440 px wide, a screen has 900 px below each other."""
    write_notebook(home / "drawn.ipynb", *map(repr, DIAGRAMS))
    notebook = nbformat.read(home / "drawn.ipynb", as_version=4)
    for cell, text in zip(notebook.cells, DIAGRAMS.values(), strict=True):
        cell.outputs = [nbformat.v4.new_output("display_data", {mermaid.MIME: text})]
    nbformat.write(notebook, home / "drawn.ipynb")
    change_theme(page, theme)
    page.set_viewport_size({"width": 1_440, "height": 900})
    shoot.open_notebook(page, "drawn.ipynb")
    pictures = page.locator(".jp-RenderedMermaid img")
    for number, name in enumerate(DIAGRAMS):
        page.evaluate(f"{CONTENT}.scrollToItem({number}, 'start')")
        picture = pictures.nth(number)
        picture.wait_for()
        box = picture.bounding_box()
        assert box is not None, f"{name} is hidden"
        assert 40 < box["height"] <= 900, name
        assert box["x"] + box["width"] <= 1_440, name
        drawn = picture.evaluate(CROSSED_TITLES)
        assert drawn["links"] == DIAGRAMS[name].count(" -->"), name
        assert len(drawn["titles"]) == DIAGRAMS[name].count("subgraph "), name
        assert drawn["crossed"] == [], name
    page.set_viewport_size({"width": WIDTH, "height": 900})


CURVES = "[...document.querySelectorAll('.wmlab-panel .js-line')].map(line => line.getAttribute('d')).join()"
"""The curves of the panel's picture."""


def test_a_value_that_is_committed_in_the_panel_moves_the_picture(shoot: ModuleType, page: Any, home: Path) -> None:
    """By Enter, by the arrow keys of a slider, and back by the button; a mistake is said at its field.

    The button that checks the run has its answer below it, above the picture.
    """
    write_notebook(home / "panel.ipynb", PANEL)
    assert shoot.run_notebook(page, "panel.ipynb") == []
    panel = page.locator(".wmlab-panel")
    panel.locator(".js-line").first.wait_for()
    before = page.evaluate(CURVES)
    panel.get_by_role("button", name="Stream", exact=True).click()
    timeout = panel.get_by_label("Timeout", exact=True)
    timeout.fill("4 s")
    panel.locator("input[data-uncommitted]").wait_for()
    timeout.press("Enter")
    panel.locator("input[data-uncommitted]").wait_for(state="detached")
    panel.get_by_text("stood still for 5.0").wait_for()
    page.wait_for_function(f"before => {CURVES} !== before", arg=before)
    timeout.fill("-5 s")
    timeout.press("Enter")
    panel.get_by_role("alert").filter(has_text="greater than or equal to 0").wait_for()
    assert timeout.input_value() == "-5 s", "a number outside the bounds of its field is a mistake, not another one"
    panel.get_by_role("button", name="Undo").click()
    panel.get_by_role("alert").wait_for(state="detached")
    assert timeout.input_value() == "4 s"
    panel.get_by_role("button", name="Undo").click()
    panel.get_by_text("stood still for 16.0").wait_for()
    assert timeout.input_value() == "15 s"
    check = panel.get_by_role("button", name="Check", exact=True)
    check.click()
    verdict = panel.locator("summary").filter(has_text="12 invariants of 12 hold.")
    verdict.wait_for()
    button, answer, picture = (each.bounding_box() for each in (check, verdict, panel.locator(".js-line").first))
    assert button["y"] < answer["y"] < min(picture["y"], button["y"] + 120)


def test_the_panel_is_used_by_keyboard_alone_and_keeps_its_keys(shoot: ModuleType, page: Any, home: Path) -> None:
    write_notebook(home / "panel.ipynb", PANEL)
    assert shoot.run_notebook(page, "panel.ipynb") == []
    panel = page.locator(".wmlab-panel")
    panel.locator(".js-line").first.wait_for()
    panel.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowRight")
    rate = panel.get_by_label("Events per second", exact=True)
    page.wait_for_function("input => input.value === '300'", arg=rate.element_handle())
    for name in ("Faults", "Add a fault"):
        panel.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
    assert panel.locator("select[size] option").last.inner_text().split() == [
        "silence",
        "writer",
        "w1",
        "at",
        "30",
        "s",
    ]
    source = f"{CONTENT}.model.toJSON().cells[0].source.length"
    before = page.evaluate(source)
    page.keyboard.press("x")
    page.wait_for_timeout(500)
    assert page.evaluate(source) == before, "x cuts the cell where the panel does not keep its keys"


@pytest.mark.parametrize(("width", "columns"), [(WIDTH, 2), (620, 1)])
def test_the_panel_fits_narrow_and_wide_windows(
    shoot: ModuleType, page: Any, home: Path, width: int, columns: int
) -> None:
    write_notebook(home / "panel.ipynb", PANEL)
    page.set_viewport_size({"width": width, "height": 900})
    assert shoot.run_notebook(page, "panel.ipynb") == []
    panel = page.locator(".wmlab-panel")
    panel.locator(".js-line").first.wait_for()
    page.wait_for_timeout(500)
    form, plot = (panel.locator(part).first.bounding_box() for part in (".wmlab-fields", ".js-plotly-plot"))
    page.set_viewport_size({"width": WIDTH, "height": 900})
    assert form is not None
    assert plot is not None
    assert plot["x"] + plot["width"] <= width
    assert (plot["x"] >= form["x"] + form["width"]) is (columns == 2)
    assert plot["width"] > 0.8 * (width - form["x"] - (form["width"] if columns == 2 else 0) - 100)


def test_a_click_on_a_stall_shows_what_explain_says_and_a_comparison_follows_the_theme(
    shoot: ModuleType, page: Any, home: Path
) -> None:
    """The theme is dark, and the desktop light; the style sheet of a scrubber in the same window hides no chart."""
    drawn = (
        "import pandas as pd\nrows = pd.DataFrame({'stream': 'orders', 'at_ms': range(0, 30_000, 1_000)})\n"
        "rows['lower'] = (rows.at_ms - 2_000).clip(upper=10_000)\n"
        "wm.chart.time_bounds(rows.assign(upper=None), recording=recording)"
    )
    said = "print(recording.explain(at_ms=15_000))"
    sources = (drawn, said, "wm.compare(*[recording] * 2)", "recording.scrub()")
    write_notebook(home / "ask.ipynb", "import wmlab as wm" + scrubber.SCENARIO, *sources)
    change_theme(page, "Dark")
    assert shoot.run_notebook(page, "ask.ipynb") == []
    page.locator(".wmlab-scrubber").wait_for(state="attached")
    status = page.locator(ANSWER)
    assert status.inner_text().startswith("Click on the chart")
    plot = page.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None, "the chart is hidden"
    page.mouse.click(box["x"] + box["width"] * 15 / 29, box["y"] + box["height"] / 2)
    page.locator(ANSWER, has_text="The watermark").wait_for()
    words = page.evaluate(f"{CONTENT}.model.toJSON().cells[2].outputs[0].text").split()
    assert status.inner_text().split()[:8] == words[:8]
    folded = status.locator("details")
    assert not folded.locator("table").is_visible()
    folded.locator("summary").click()
    assert folded.locator("tr", has_text="holder").first.is_visible()
    plot.scroll_into_view_if_needed()
    below = plot.bounding_box()  # the open facts have moved the chart
    assert below is not None
    page.mouse.click(below["x"] + below["width"] * 20 / 29, below["y"] + below["height"] / 2)
    status.locator("tr", has_text=re.compile(r"moment\s*(19\.9|20\.0)")).wait_for(state="visible")
    paper = page.locator(".wmlab-page svg > rect").first.evaluate("e => getComputedStyle(e).fill")
    assert paper == scrubber.rgb(ROLES["paper"].dark)


def test_the_scrubber_follows_the_theme_moves_and_tells_the_kernel(shoot: ModuleType, page: Any, home: Path) -> None:
    """The theme is dark, and the desktop light."""
    sources = ("scrubber = recording.scrub(at_ms=14_000)\nscrubber", "scrubber.at_ms")
    write_notebook(home / "look.ipynb", "import wmlab as wm" + scrubber.SCENARIO, *sources)
    change_theme(page, "Dark")
    assert shoot.run_notebook(page, "look.ipynb") == []
    root = page.locator(".wmlab-scrubber")
    root.wait_for(state="visible")
    (paper,) = root.locator("svg > rect").evaluate_all(SHOWN_FILL)
    assert paper == scrubber.rgb(ROLES["paper"].dark)
    root.locator("[role=slider]").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".wmlab-scrubber b", has_text="14.1").wait_for()
    page.get_by_label("Events about").select_option("w1")
    page.get_by_role("button", name="Previous event").focus()
    for key in ("Enter", "x"):
        page.keyboard.press(key)
    page.locator(".wmlab-scrubber b", has_text="1.0").wait_for()
    assert page.evaluate(f"{CONTENT}.model.toJSON().cells.length") == 3
    page.keyboard.press("Control+s")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.evaluate(f"{CONTENT}.activeCellIndex = 2")
    # The widget holds a change back while the kernel is at an earlier one.
    page.wait_for_function(f"{LAST_OUTPUT} === '1005' || {RUN_LAST}", polling=500)
    page.evaluate(CHANGE_LAST)
    page.evaluate(RUN_LAST)
    page.locator(".wmlab-scrubber", has_text="which ends at 30.0").wait_for()
    assert page.get_by_role("button", name="Next event").is_disabled()


def test_where_no_kernel_runs_the_still_picture_is_shown(shoot: ModuleType, page: Any, home: Path) -> None:
    """The notebook is closed and opened again, without the state of its widgets."""
    source = "import wmlab as wm" + scrubber.SCENARIO + "recording.scrub(at_ms=14_000)"
    write_notebook(home / "again.ipynb", source)
    assert shoot.run_notebook(page, "again.ipynb") == []
    outputs = "[...document.querySelectorAll('.jp-OutputArea-child')].map(e => getComputedStyle(e).display !== 'none')"
    page.locator(".wmlab-scrubber").wait_for()
    assert page.evaluate(outputs) == [False, False, True]
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    shoot.shut_down(page)
    shoot.open_notebook(page, "again.ipynb")
    page.locator(".wmlab-note").wait_for()
    assert page.evaluate(outputs) == [True, True, False]
    assert "run this cell" in page.locator(".wmlab-note").inner_text()
