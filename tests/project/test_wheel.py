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
    assert said["package_dir"] == {"wmlab.data": "data"}
    folders = {".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "wmlab").rglob("*.py")}
    assert set(said["packages"]) == folders | {"wmlab.data"}


def test_every_file_of_data_but_the_texts_is_in_it() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["wmlab.data"]
    packed = {file for pattern in patterns for file in (ROOT / "data").glob(pattern)}
    there = {
        file for file in (ROOT / "data").rglob("*") if file.is_file() and file.suffix not in (".md", ".py", ".pyc")
    }
    assert packed == there


def test_the_data_are_inside_an_installed_package_and_beside_one_of_a_clone(tmp_path: Path) -> None:
    package = tmp_path / "wmlab"
    package.mkdir()
    assert files.data_of(package) == tmp_path / "data"
    (package / "data").mkdir()
    assert files.data_of(package) == package / "data"
    assert files.DATA == ROOT / "data"
