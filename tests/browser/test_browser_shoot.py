from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.browser.test_browser_lab import CHART, write_notebook


@pytest.mark.long
def test_a_chart_and_the_error_of_a_cell_are_pictured(shoot: ModuleType, tmp_path: Path) -> None:
    notebook = tmp_path / "look here.ipynb"
    before = write_notebook(notebook, CHART, "1 / 0")
    pictures, errors = shoot.shoot(notebook, tmp_path / "out.png", dark=True, width=1_000, timeout_s=90)
    assert errors == ["cell 2: ZeroDivisionError: division by zero"]
    assert [picture.name for picture in pictures] == ["out.png", "out-1.png"]
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
    assert notebook.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["look here.ipynb", "out-1.png", "out.png"]
