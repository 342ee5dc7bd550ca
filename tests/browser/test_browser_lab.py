from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

CHART = """
import pandas as pd
import wmlab as wm
times = pd.DataFrame({"stream": "orders", "at_ms": range(0, 60_000, 1_000)})
wm.chart.time_bounds(times.assign(lower=times["at_ms"] - 2_000, upper=times["at_ms"] + 1_000))
"""


def write_notebook(path: Path, *sources: str) -> bytes:
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path.read_bytes()


@pytest.mark.parametrize("dark", [False, True])
def test_jupyterlab_shows_a_chart_and_the_error_of_a_cell(shoot: ModuleType, tmp_path: Path, dark: bool) -> None:
    notebook = tmp_path / "look here.ipynb"
    before = write_notebook(notebook, CHART, "1 / 0")
    pictures, errors = shoot.shoot(notebook, tmp_path / "out.png", dark=dark, width=1_000, timeout_s=90)
    assert errors == ["cell 2: ZeroDivisionError: division by zero"]
    assert [picture.name for picture in pictures] == ["out.png", "out-1.png"]
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
    assert notebook.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["look here.ipynb", "out-1.png", "out.png"]


def test_a_chart_that_is_scrolled_out_keeps_its_height_and_fits_the_width(
    shoot: ModuleType, browser: Any, tmp_path: Path
) -> None:
    """The theme changes, and the side bar opens, while JupyterLab does not lay the chart out."""
    write_notebook(tmp_path / "long.ipynb", CHART, *["print('\\n' * 60)"] * 10)
    plots = "[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.getBoundingClientRect())"
    with shoot.jupyter_lab(tmp_path, dark=False) as lab:
        page = browser.new_page(viewport={"width": 1_280, "height": 900})
        assert shoot.run_notebook(page, *lab, "long.ipynb", timeout_s=90) == []
        assert page.evaluate("jupyterapp.shell.currentWidget.content.notebookConfig.windowingMode") == (
            "contentVisibility"
        )
        (before,) = page.evaluate(plots)
        page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 1e6")
        page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
        page.wait_for_timeout(2_000)
        page.evaluate("jupyterapp.shell.expandLeft()")
        page.wait_for_timeout(2_000)
        page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
        page.wait_for_timeout(1_000)
        (after,) = page.evaluate(plots)
        shoot.shut_down(page)
        page.close()
    assert after["height"] == before["height"] > 400
    assert after["width"] < before["width"] - 100
