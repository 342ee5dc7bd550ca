"""The reference of public names, from their docstrings: `python tools/reference.py --write` makes docs/reference.md.

Without `--write` it exits with 1 if the page is not what it would write.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import sys
import types
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import wmlab

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
_HEAD = """# Reference

Every public name with the first sentence of its documentation; `help(name)` shows all of it. This page is made by
`python tools/reference.py --write`, and a test compares it.
"""


def page() -> str:
    """The text of the page."""
    parts = [_HEAD]
    names = {name: getattr(wmlab, name) for name in wmlab.__all__}
    parts.append(_section("wmlab", {n: v for n, v in names.items() if not isinstance(v, ModuleType)}))
    for name, space in names.items():
        if isinstance(space, ModuleType):
            parts += _sections(f"wmlab.{name}", space)
    return "\n".join(parts)


def _sections(title: str, space: ModuleType) -> list[str]:
    """A namespace and, after it, the namespaces that it lists."""
    names = {name: getattr(space, name) for name in public(space)}
    inner = {name: value for name, value in names.items() if isinstance(value, ModuleType)}
    rest = {name: value for name, value in names.items() if name not in inner}
    listed = [part for name, value in inner.items() for part in _sections(f"{title}.{name}", value)]
    return [_section(title, rest, _sentence(space)), *listed]


def public(space: ModuleType) -> list[str]:
    """The names that a namespace offers: `__all__`, or whatever is defined in it and has no underscore."""
    listed = getattr(space, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(space).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == space.__name__
    )


def _section(title: str, names: dict[str, Any], about: str = "") -> str:
    lines = [f"## {title}", "", *([about, ""] if about else []), "| name | does |", "|---|---|"]
    for name, value in names.items():
        lines.append(f"| `{name}` | {_sentence(value)} |")
        lines += [f"| `{name}.{method}` | {_sentence(function)} |" for method, function in _methods(value)]
    return "\n".join([*lines, ""])


def _methods(value: Any) -> list[tuple[str, Any]]:
    if not inspect.isclass(value) or not value.__module__.startswith("wmlab"):
        return []
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    members = inspect.getmembers(value, lambda member: inspect.isroutine(member) or isinstance(member, property))
    return [
        (name, member)
        for name, member in members
        if not name.startswith("_") and name not in fields and _home(member).startswith("wmlab")
    ]


def _home(member: Any) -> str:
    function = member.fget if isinstance(member, property) else member
    return getattr(function, "__module__", "") or ""


def _sentence(value: Any) -> str:
    """What a name is in one sentence; raises `LookupError` for a class, function or module without docstring."""
    if typing.get_origin(value) is typing.Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in typing.get_args(value))
    if typing.get_origin(value) is not None or isinstance(value, types.UnionType):
        return "a type, for annotations"
    documented = isinstance(value, ModuleType | property) or inspect.isclass(value) or inspect.isroutine(value)
    if not documented:
        return f"a constant of type {type(value).__name__}"
    text = inspect.getdoc(value)
    if not text:
        raise LookupError(f"{value!r} has no docstring")
    first = " ".join(text.split("\n\n")[0].split())
    return first.replace("|", "\\|")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write or check docs/reference.md.")
    parser.add_argument("--write", action="store_true")
    text = page()
    if parser.parse_args().write:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    return 0 if PAGE.read_text(encoding="utf-8") == text else 1


if __name__ == "__main__":
    sys.exit(main())
