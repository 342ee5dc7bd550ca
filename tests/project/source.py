"""The project's own files, as its tests about itself see them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "wmlab"

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def texts() -> dict[str, str]:
    """Text by path of every file that is, or is about to be, under version control; binary files are left out."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for name in names:
        try:
            found[name] = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return found


STEPS = frozenset({"start", "step", "met", "at_end"})
"""The methods of a strategy."""


def public(tree: ast.Module) -> Iterator[tuple[str, Documented]]:
    """The module itself and every public class, function and method in it, by dotted name."""
    yield "(module)", tree
    yield from _public_below(tree, "")


def _public_below(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Documented]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            if _is_overload(child) or (prefix and child.name in STEPS and _is_strategy(node)):
                continue
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from _public_below(child, f"{prefix}{child.name}.")


def _is_strategy(node: ast.Module | ast.ClassDef) -> bool:
    """Whether a class is a strategy by its base, which documents the methods in `STEPS`."""
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(ast.unparse(base).startswith("Strategy[") for base in bases)


def _is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)
