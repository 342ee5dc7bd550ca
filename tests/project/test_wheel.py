"""What an installed wheel needs travels in it: every scenario and log that comes with wmlab."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import setuptools

from tests.conftest import module_of
from tests.project.source import ROOT
from wmlab.core import files


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py tells setuptools."""
    told: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: told.update(options))
    monkeypatch.chdir(ROOT)
    module_of(ROOT / "setup.py")
    return told


def test_every_package_and_the_data_are_in_it(said: dict[str, Any]) -> None:
    assert said["package_dir"] == {"wmlab.data": "data", "wmlab.notebooks": "notebooks"}
    folders = {".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "wmlab").rglob("*.py")}
    assert set(said["packages"]) == folders | {"wmlab.data", "wmlab.notebooks"}


def packed(folder: str) -> set[Path]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    return {file for pattern in settings[f"wmlab.{folder}"] for file in (ROOT / folder).glob(pattern)}


def test_every_file_of_data_but_the_texts_is_in_it() -> None:
    files_of_data = {file for file in (ROOT / "data").rglob("*") if file.is_file()}
    assert packed("data") == {file for file in files_of_data if file.suffix not in (".md", ".py", ".pyc")}


def test_every_notebook_is_in_it() -> None:
    notebooks = {file for file in (ROOT / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in file.parts}
    assert {file for file in packed("notebooks") if file.suffix == ".ipynb"} == notebooks


@pytest.mark.parametrize("folder", ["data", "notebooks"])
def test_what_comes_with_it_is_inside_an_installed_package_and_next_to_one_of_a_clone(
    folder: str, tmp_path: Path
) -> None:
    package = tmp_path / "wmlab"
    package.mkdir()
    assert files.shipped(package, folder) == tmp_path / folder
    (package / folder).mkdir()
    assert files.shipped(package, folder) == package / folder
    assert (files.DATA, files.NOTEBOOKS) == (ROOT / "data", ROOT / "notebooks")
