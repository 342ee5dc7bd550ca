"""The README's screenshots: the scrubber and the panel in JupyterLab, as a reader sees them.

    python tools/screenshots.py       makes docs/images/scrubber.png and docs/images/panel.png

Needs what tools/shoot.py needs.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import nbformat
import shoot
from playwright.sync_api import sync_playwright

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = ROOT / "docs" / "images"
SCENARIO: Final = ROOT / "data" / "scenarios" / "first_bounds.yaml"
CELLS: Final = {
    "scrubber": "scenario.record().scrub(at_ms=36_000)",
    "panel": "scenario.panel()",
}
"""What each picture shows: the last line of a cell."""


def notebook(code: str) -> Any:
    """A notebook of one cell that shows `code`'s value."""
    source = f"import wmlab as wm\n\nscenario = wm.Scenario.load({str(SCENARIO)!r})\n{code}"
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)], metadata={"kernelspec": kernel})


def main() -> int:
    """Take the pictures; 1 if a cell failed."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as home:
        for name, code in CELLS.items():
            nbformat.write(notebook(code), Path(home) / f"{name}.ipynb")
        with (
            shoot.jupyter_lab(Path(home), dark=False) as (address, token),
            sync_playwright() as playwright,
            contextlib.closing(shoot.launch(playwright)) as browser,
        ):
            page = browser.new_page(viewport={"width": 1_280, "height": 1_300})
            shoot.open_lab(page, address, token, timeout_s=120)
            for name in CELLS:
                failed += shoot.run_notebook(page, f"{name}.ipynb")
                page.locator(".wmlab-live").first.screenshot(path=IMAGES / f"{name}.png")
                shoot.shut_down(page)
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
