from __future__ import annotations

from pathlib import Path
from types import ModuleType

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
