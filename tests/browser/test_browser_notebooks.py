"""Every tutorial in JupyterLab, as a reader runs it: no cell fails, and each picture is seen whole and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "notebooks" / "tutorials").glob("*.ipynb"))
EXPLORATION = [ROOT / "notebooks" / "exploration" / "sandbox.ipynb"]
WIDTH = 1_280
PICTURES = ".js-plotly-plot, .jp-RenderedSVG svg, .jp-RenderedMermaid svg, .jupyter-widgets svg"


@pytest.fixture(scope="module")
def lab(shoot: ModuleType) -> Iterator[tuple[str, str]]:
    """One JupyterLab over the whole clone: (address, token)."""
    with shoot.jupyter_lab(ROOT, dark=False) as found:
        yield found


@pytest.mark.parametrize("notebook", [*TUTORIALS, *EXPLORATION], ids=lambda path: path.stem)
def test_a_reader_can_run_it_and_see_its_pictures(
    shoot: ModuleType, browser: Any, lab: tuple[str, str], notebook: Path
) -> None:
    before = notebook.read_bytes()
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    assert shoot.run_notebook(page, *lab, str(notebook.relative_to(ROOT)), timeout_s=240) == []
    pictures = page.locator(PICTURES)
    assert pictures.count() > 0
    for number in range(pictures.count()):
        picture = pictures.nth(number)
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box is not None, f"picture {number + 1} is hidden"
        assert box["width"] > 250, f"picture {number + 1} is {box['width']} px wide"
        assert box["height"] > 60, f"picture {number + 1} is {box['height']} px high"
        assert box["x"] + box["width"] <= WIDTH, f"picture {number + 1} is cut off"
    assert complaints == []
    page.close()
    assert notebook.read_bytes() == before
