"""Every page of the documentation does what it says: its code runs, its links lead somewhere, all names are listed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tools import symptoms

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
README = ROOT / "README.md"
GENERATED = {"reference", "sections"}
"""Folders of docs/ that `make docs` writes."""
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for page in DOCS.rglob("*.md") if page.parent.name not in GENERATED),
        *(ROOT / "data").rglob("*.md"),
        *(ROOT / "notebooks").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
    ]
)
NOTEBOOKS = sorted(path for path in ROOT.glob("notebooks/*/*.ipynb"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Language, code and line of every block."""
    text = page.read_text()
    return [(found[1], found[2], text[: found.start()].count("\n") + 2) for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", [*HOW_TO, README], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("scenarios", "exports"):
        shutil.copytree(ROOT / "data" / folder, tmp_path / "data" / folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    ran = 0
    for language, code, line in blocks(page):
        if page == README and language != "python":
            continue
        if language == "sh":
            subprocess.run(["sh", "-n"], input=code, text=True, check=True)
            continue
        assert language == "python", f"{page.name}:{line} cannot be checked here"
        padded = "\n" * (line - 1) + code
        exec(compile(padded, str(page), "exec"), names)
        ran += 1
    assert ran >= 3, "a how-to page shows how"
    assert "Traceback" not in capsys.readouterr().out


def test_pages_with_code_for_readers_are_those_that_are_run() -> None:
    """Python stands in the README, on the how-to pages, and in the gallery, which is made by running it."""
    pages = [page for page in PAGES if page.parent in (ROOT, DOCS)]
    assert [page.name for page in pages if any(b[0] == "python" for b in blocks(page))] == ["README.md", "gallery.md"]


def without_code(page: Path) -> str:
    """The text of a page, or of the text cells of a notebook, without its code."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = (cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def anchors(page: Path) -> set[str]:
    """The names of the headings of a page, as GitHub and the site call them in an address."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        return set()
    titles = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    dead = []
    for path, anchor in LINK.findall(without_code(page)):
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            dead.append(f"{path}#{anchor}")
    assert dead == []


def test_a_dead_link_and_a_dead_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](other.md) [b](#one-two) [c](page.md#three) `[d](none.md)`\n")
    assert LINK.findall(without_code(page)) == [("other.md", ""), ("", "one-two"), ("page.md", "three")]
    assert anchors(page) == {"one-two"}


def test_every_page_is_on_the_first_page_of_the_site() -> None:
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)]
    assert {path for path, _ in LINK.findall((DOCS / "index.md").read_text())} >= set(pages) - {"index.md"}


def test_a_symptom_leads_to_the_reports_of_its_section() -> None:
    """The site gives these words to its search (`docs/conf.py`)."""
    for notebook in (ROOT / "notebooks" / "scenarios").glob("*.ipynb"):
        assert symptoms.words_of(notebook.stem), f"{notebook.name} is in no section"
    assert {"window", "never", "closes"} <= set(symptoms.words_of("hazelcast_jet_1605"))
    assert {"watermark", "stuck"} <= set(symptoms.words_of("flink_40475_a_valve_that_stays_silent"))
    assert "closes" not in symptoms.words_of("pravega_7408_timeout_zero")
    assert symptoms.words_of("first_bounds") == ()
