"""Names with markup are shown as they are, by JupyterLab too: no chart, diagram or table makes elements of them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from tests.browser.test_browser_lab import write_notebook

NAME = "<img src=x onerror=alert(1)>"
CODE = f"""
import wmlab as wm
name = {NAME!r}
row = {{"stream": "orders", "writer": name, "process": name, "txn": None, "controller": name, "outcome": "success"}}
marks = [row | {{"time": n, "position": {{0: 10}}, "noted_ms": n, "received_ms": n}} for n in (100, 200, 300)]
segment = {{"stream": "orders", "segment_id": 0, "number": 0, "epoch": 0, "low": 0.0, "high": 1.0, "keys": "0..1"}}
segment |= {{"created_ms": 0, "sealed_ms": None}}
incident = {{"stream": "orders", "at_ms": 200, "kind": "crash", "target": name, "detail": name + " crashes"}}
tables = {{"writer_marks": marks, "segments": [segment], "incidents": [incident]}}
recording = wm.trace.Recording.from_tables(tables, name=name)
recording
"""
SHOWN = (
    "recording.explain()",
    "recording.timeline()",
    "wm.chart.writer_marks(recording, title=name)",
    "wm.chart.topology(recording)",
)


def test_names_with_markup_are_text_in_jupyterlab(shoot: ModuleType, browser: Any, tmp_path: Path) -> None:
    write_notebook(tmp_path / "markup.ipynb", CODE, *SHOWN)
    with shoot.jupyter_lab(tmp_path, dark=False) as lab:
        page = browser.new_page(viewport={"width": 1_280, "height": 900})
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        assert shoot.run_notebook(page, *lab, "markup.ipynb", timeout_s=90) == []
        page.locator(".jp-RenderedMermaid svg, .jp-RenderedMermaid img").first.wait_for()
        page.wait_for_timeout(1_000)
        made = page.locator(".jp-OutputArea img[src='x']").count()
        plot = page.locator(".js-plotly-plot").inner_text()
        shoot.shut_down(page)
        page.close()
    assert (made, dialogs) == (0, [])
    assert NAME in plot
