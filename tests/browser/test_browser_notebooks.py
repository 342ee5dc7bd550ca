"""The tutorials in JupyterLab, as a reader meets them: opened as they are stored, and run from the first cell on.

Opening shows every stored picture. Running all of them takes as long as nbval does, which has checked already that each
cell runs and says what is stored; so one tutorial and the sandbox are run here, and all with WMLAB_BROWSER=all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "notebooks" / "tutorials").glob("*.ipynb"))
SANDBOX = ROOT / "notebooks" / "exploration" / "sandbox.ipynb"
RUN = [*(TUTORIALS if os.environ.get("WMLAB_BROWSER") == "all" else TUTORIALS[:1]), SANDBOX]
WIDTH = 1_280
PICTURES = ".js-plotly-plot, .jp-RenderedSVG svg, .jp-RenderedMermaid svg, .jupyter-widgets svg"


@pytest.fixture(scope="module")
def lab(shoot: ModuleType) -> Iterator[tuple[str, str]]:
    """One JupyterLab over the whole clone: (address, token)."""
    with shoot.jupyter_lab(ROOT, dark=False) as found:
        yield found


@pytest.fixture
def page(shoot: ModuleType, browser: Any) -> Iterator[Any]:
    """A window that complains of errors on the page, and whose kernel ends with it."""
    opened = browser.new_page(viewport={"width": WIDTH, "height": 900})
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    shoot.shut_down(opened)
    opened.close()
    assert complaints == []


def look_at_all_pictures(page: Any) -> None:
    pictures = page.locator(PICTURES)
    pictures.first.wait_for()
    for number in range(pictures.count()):
        picture = pictures.nth(number)
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box is not None, f"picture {number + 1} is hidden"
        assert box["width"] > 250, f"picture {number + 1} is {box['width']} px wide"
        assert box["height"] > 40, f"picture {number + 1} is {box['height']} px high"
        assert box["x"] + box["width"] <= WIDTH, f"picture {number + 1} is cut off"


@pytest.mark.parametrize("notebook", TUTORIALS, ids=lambda path: path.stem)
def test_a_stored_tutorial_shows_its_pictures(
    shoot: ModuleType, page: Any, lab: tuple[str, str], notebook: Path
) -> None:
    shoot.open_notebook(page, *lab, str(notebook.relative_to(ROOT)), timeout_s=120)
    page.locator(".js-plotly-plot").first.wait_for()
    look_at_all_pictures(page)


@pytest.mark.parametrize("notebook", RUN, ids=lambda path: path.stem)
def test_a_reader_can_run_it_and_see_its_pictures(
    shoot: ModuleType, page: Any, lab: tuple[str, str], notebook: Path
) -> None:
    before = notebook.read_bytes()
    assert shoot.run_notebook(page, *lab, str(notebook.relative_to(ROOT)), timeout_s=240) == []
    look_at_all_pictures(page)
    assert notebook.read_bytes() == before
