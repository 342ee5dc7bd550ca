"""The table of the retold reports: a row for every notebook, and a notebook for every row and every report's file."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks" / "scenarios"
ROW = re.compile(r"^\| \[(\w+)\]\((\w+)\.ipynb\) \| \S.* \|$", re.MULTILINE)


def listed() -> list[tuple[str, str]]:
    return ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))


def sources(path: Path) -> str:
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


def test_every_notebook_has_a_row_and_every_row_a_notebook() -> None:
    assert sorted(name for _, name in listed()) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def test_a_row_is_named_as_the_notebook_it_opens() -> None:
    assert [shown for shown, name in listed() if shown != name] == []


@pytest.mark.parametrize("report", sorted((ROOT / "data/scenarios/reports").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_report_is_retold_and_its_file_named(report: Path) -> None:
    issue = re.fullmatch(r"pravega_\d+", report.stem)
    (notebook,) = FOLDER.glob(f"{report.stem}_*.ipynb" if issue else "pravega_cuts_*.ipynb")
    text = sources(notebook)
    assert report.name in text
    assert "in one sentence" in text
    assert "\n## The fix" in text
