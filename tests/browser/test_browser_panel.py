"""The panel in JupyterLab: it is seen, its fields have names, and a changed number moves the picture."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat

SCENARIO = Path(__file__).parents[2] / "data" / "scenarios" / "first_bounds.yaml"
CELL = f"""
import wmlab as wm
from wmlab.streams.panel import panel
shown = panel(wm.Scenario.load({str(SCENARIO)!r}))
shown
"""


def test_a_changed_number_moves_the_picture(shoot: ModuleType, browser: Any, tmp_path: Path) -> None:
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)], metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "panel.ipynb")
    with shoot.jupyter_lab(tmp_path, dark=False) as (address, token):
        page = browser.new_page(viewport={"width": 1_280, "height": 900})
        assert shoot.run_notebook(page, address, token, "panel.ipynb", timeout_s=90) == []
        picture = page.locator(".jupyter-widgets svg")
        picture.wait_for()
        before = picture.inner_html()
        assert "w2 (lagging)" in page.locator(".jupyter-widgets [aria-live=polite]").inner_text()
        timeout = page.get_by_label("timestamp aggregation timeout (ms)")
        label = page.get_by_text("timestamp aggregation timeout (ms)")
        assert label.evaluate("e => e.scrollWidth <= e.clientWidth"), "the unit is not cut off"
        timeout.fill("4000")
        timeout.press("Tab")
        page.locator(".jupyter-widgets [aria-live=polite]", has_text="w2 (slowest)").wait_for()
        assert picture.inner_html() != before
        timeout.fill("-5")
        timeout.press("Tab")
        page.locator(".jupyter-widgets [role=alert]", has_text="timestamp_aggregation_timeout_ms").wait_for()
        assert timeout.input_value() == "-5", "a number outside the bounds of its field is a mistake, not another one"
        page.close()
