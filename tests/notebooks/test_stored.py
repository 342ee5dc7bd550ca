"""The notebooks of the repository: small, openable without questions, and stored as a fresh execution stores them.

The table of the retold reports has a row for every notebook, and there is a notebook for every row and report.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.repetitions import repetitions
from tools import notebooks

ROOT = Path(__file__).resolve().parents[2]
SIZE_LIMIT = 500_000
FOLDER = ROOT / "notebooks" / "scenarios"
ROW = re.compile(r"^\| \[(\w+)\]\((\w+)\.ipynb\) \| \S.* \|$", re.MULTILINE)


def stored(room: str = ".") -> list[Path]:
    return notebooks.find([ROOT / "notebooks" / room])


def test_a_stored_notebook_is_byte_for_byte_what_a_fresh_execution_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without Spark, with --long also one with it, as it is by default; `pytest notebooks` compares all outputs."""
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    chosen = [stored("scenarios")[0], *repetitions([], long=stored("tutorials")[:1])]
    assert [path.name for path in notebooks.stale(chosen)] == []


def test_no_notebook_is_over_500_kb() -> None:
    assert {path.name: path.stat().st_size for path in stored() if path.stat().st_size > SIZE_LIMIT} == {}


def test_no_notebook_carries_widget_state_and_each_names_its_kernel() -> None:
    metadata = {path.name: nbformat.read(path, as_version=4).metadata for path in stored()}
    assert [name for name, each in metadata.items() if "widgets" in each] == []
    assert [name for name, each in metadata.items() if each.get("kernelspec") != notebooks.KERNELSPEC] == []


def test_no_checked_notebook_skips_a_check() -> None:
    skipping = re.compile(r"NBVAL_(?:IGNORE_OUTPUT|SKIP)|nbval-(?:ignore-output|skip)")
    checked = stored("tutorials") + stored("scenarios")
    assert [path.name for path in checked if skipping.search(path.read_text(encoding="utf-8"))] == []


def test_the_notebook_that_make_lab_opens_exists() -> None:
    (first,) = re.findall(r"^FIRST := (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert ROOT / first in stored("tutorials")


def test_every_notebook_has_a_row_of_its_name_and_every_row_a_notebook() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    assert sorted(ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8"))) == [(name, name) for name in names]


@pytest.mark.parametrize("report", sorted((ROOT / "data/scenarios/reports").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_report_is_retold_and_its_file_named(report: Path) -> None:
    issue = re.fullmatch(r"pravega_\d+", report.stem)
    (notebook,) = FOLDER.glob(f"{report.stem}_*.ipynb" if issue else "pravega_cuts_*.ipynb")
    text = "\n".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells)
    assert report.name in text
    assert "in one sentence" in text
    assert "\n## The fix" in text
