"""The gallery has every public chart, and its page and pictures are as they would be made now."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import wmlab as wm
from tools import gallery
from wmlab.core.charts.diagram import Diagram

ROOT = Path(__file__).parents[2]
SPACES = {
    "wm.chart": wm.chart,
    "wm.dataflow.chart": wm.dataflow.chart,
    "wm.engine.chart": wm.engine.chart,
    "wm.progress.chart": wm.progress.chart,
    "wm.strategy.chart": wm.strategy.chart,
}
MADE_AGAIN = tuple(entry.name for entry in gallery.entries() if "spark" not in entry.code)
"""What is drawn again by the test: all but what asks Spark."""
LARGEST_PICTURE = 100_000


def charts(space: ModuleType) -> list[str]:
    """The functions of a namespace that give a chart or a diagram."""
    functions = {name: value for name, value in inspect.getmembers(space, inspect.isfunction) if name[0] != "_"}
    return [
        name for name, function in functions.items() if function.__annotations__.get("return") in ("Chart", "Diagram")
    ]


def test_every_public_chart_has_one_entry() -> None:
    offered = sorted(f"{title}.{name}" for title, space in SPACES.items() for name in charts(space))
    assert len(offered) > 25
    assert sorted(entry.name for entry in gallery.entries()) == offered


def test_the_page_shows_each_entry_with_its_code_and_its_picture() -> None:
    text = gallery.PAGE.read_text(encoding="utf-8")
    sentences = {entry.picture.name: "" for entry in gallery.entries()}
    by_file = {file: said for said, file in re.findall(r"!\[(.+)\]\(images/gallery/(\w+\.svg)\)", text)}
    diagrams = dict(re.findall(r"^### ([\w.]+)\n\n```python\n[^`]*```\n\n```mermaid\n([^`]*)```", text, re.MULTILINE))
    assert by_file.keys() | {gallery.Entry(name, "").picture.name for name in diagrams} == sentences.keys()
    assert {path.name for path in gallery.IMAGES.iterdir()} == by_file.keys()
    said = {entry.name: by_file[entry.picture.name] for entry in gallery.entries() if entry.name not in diagrams}
    assert gallery.written(said, diagrams) == text, "run: python tools/gallery.py"
    for file in by_file:
        assert (gallery.IMAGES / file).stat().st_size < LARGEST_PICTURE, file


def test_an_entry_is_about_five_lines() -> None:
    assert {entry.name: entry.code for entry in gallery.entries() if len(entry.code.strip().splitlines()) > 7} == {}


def test_pictures_that_are_drawn_again_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(wm, "spark_session", lambda: None)
    made = dict(gallery.drawn(*MADE_AGAIN))
    assert {entry.name for entry in made} == {*MADE_AGAIN}
    page = gallery.PAGE.read_text(encoding="utf-8")
    for entry, chart in made.items():
        advice = f"{entry.name}: run python tools/gallery.py"
        if isinstance(chart, Diagram):
            assert chart.mermaid.strip() in page, advice
        else:
            assert chart.svg == entry.picture.read_text(encoding="utf-8"), advice
