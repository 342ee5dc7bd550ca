"""Streams work without the other models: their folders, lines and strategies go, and the first tutorial runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.project import source

TUTORIAL = source.ROOT / "notebooks" / "tutorials" / "00_first_bounds.ipynb"
REMOVED = ("dataflow", "progress")
PROGRAM = """
import importlib, pathlib, pkgutil
import wmlab
assert pathlib.Path(wmlab.__file__).is_relative_to(pathlib.Path.cwd()), wmlab.__file__
for module in pkgutil.walk_packages(wmlab.__path__, "wmlab."):
    importlib.import_module(module.name)
for code in pathlib.Path("tutorial.txt").read_text().split("\\f"):
    exec(code)
print(bounds.count(), "positions")
"""


def remove_lines(file: Path) -> None:
    """Take out the lines of a file that import from the removed models, and those that use what these import."""
    lines = file.read_text(encoding="utf-8").splitlines()
    culprit = re.compile(rf"wmlab\.(?:{'|'.join(REMOVED)})\b")
    imported = {name for line in lines if culprit.search(line) for name in re.findall(r" import (\w+)$", line)}
    uses = re.compile(rf"\b(?:{'|'.join(imported)})\b") if imported else culprit
    kept = [line for line in lines if not culprit.search(line) and not uses.search(line)]
    file.write_text("\n".join(kept) + "\n", encoding="utf-8")


@pytest.mark.long
def test_the_first_tutorial_runs_without_the_other_models(tmp_path: Path) -> None:
    package = tmp_path / "wmlab"
    shutil.copytree(source.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "data").symlink_to(source.ROOT / "data")
    for model in REMOVED:
        shutil.rmtree(package / model)
    for needs_them in ("strategies/model/models.py", "paper/coalescing.py", "paper/sequence_numbers.py"):
        (package / needs_them).unlink()
    remove_lines(package / "open.py")
    remove_lines(package / "__init__.py")
    cells = [cell.source for cell in nbformat.read(TUTORIAL, as_version=4).cells if cell.cell_type == "code"]
    (tmp_path / "tutorial.txt").write_text("\f".join(cells), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "WMLAB_SPARK": "local[2]"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ positions", done.stdout.splitlines()[-1])
