"""What holds for every file: what it says about itself, and what it must not say."""

from __future__ import annotations

import ast
import re
from types import ModuleType

import pytest

import wmlab
from tests.project import source

TOP_LEVEL_NAMES = 15

# Spelled in pieces, so that this file is not an instance of what it looks for.
MACHINE_PATH = re.compile(r"(?<![\w.~/:$}-])/(?:" + "|".join(["work", "root", "home", "tmp/w", "Users"]) + r")(?:/|\b)")
LEFT_OVER = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")


def test_everything_public_is_documented() -> None:
    silent = [
        f"{path.relative_to(source.ROOT)}: {name}"
        for path in source.modules()
        for name, node in source.public(ast.parse(path.read_text()))
        if ast.get_docstring(node) is None
    ]
    assert silent == []


def test_public_names_are_those_a_reader_can_reach() -> None:
    text = "class A:\n def b(self): ...\n def _c(self): ...\nclass _D:\n def e(self): ...\ndef f():\n def g(): ..."
    assert [name for name, _ in source.public(ast.parse(text))] == ["(module)", "A", "A.b", "f"]


def test_the_top_level_has_at_most_15_names_beside_its_namespaces_and_all_exist() -> None:
    namespaces = {"chart", "dataflow", "engine", "paper", "progress", "script", "spark", "strategy", "testing", "trace"}
    assert {name for name in wmlab.__all__ if isinstance(getattr(wmlab, name), ModuleType)} == namespaces
    assert len(set(wmlab.__all__) - namespaces) <= TOP_LEVEL_NAMES
    assert len(set(wmlab.__all__)) == len(wmlab.__all__)
    assert [name for name in wmlab.__all__ if not hasattr(wmlab, name)] == []


@pytest.mark.parametrize("pattern", [MACHINE_PATH, LEFT_OVER], ids=["machine path", "left over"])
def test_no_file_holds(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in source.texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["see /" + "work/main", "'/" + "home/me/x'", "cd /" + "root", "log=/" + "tmp/w/x"])
def test_a_machine_path_is_found(line: str) -> None:
    assert MACHINE_PATH.search(line)
    other = "docs/home/x spark-work/ a/workspaces /homes https://x.org/root n/root"
    assert not MACHINE_PATH.search(other)
