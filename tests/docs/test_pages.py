"""Every page of the documentation does what it says: its code runs, its links lead somewhere, all names are listed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
README = ROOT / "README.md"
PAGES = sorted([README, *DOCS.rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


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
    others = [page.name for page in PAGES if page not in HOW_TO and any(b[0] == "python" for b in blocks(page))]
    assert others == ["README.md", "gallery.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_navigation_of_the_site_and_on_its_first_page() -> None:
    def pages_of(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        below = entry.values() if isinstance(entry, dict) else entry
        assert isinstance(below, Iterable)
        return [page for part in below for page in pages_of(part)]

    navigation = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(navigation) == sorted(pages)
    assert set(LINK.findall((DOCS / "index.md").read_text())) >= set(pages) - {"index.md"}
