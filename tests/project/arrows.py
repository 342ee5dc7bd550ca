"""Who may import whom: the rooms of wmlab, and a checker that reads the imports of a file.

Every import statement counts, wherever it stands: at the top, in a function, under `TYPE_CHECKING`. Only the door
tells them apart: it may be named where nothing is imported when the module is.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DOOR: Final = "lab"
"""The composition root. Methods that reach to the right import it when they are called, and only then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one room may import besides the standard library, `wmlab.errors` and itself."""

    rooms: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    packages_when_called: frozenset[str] = frozenset()
    """Third-party packages that only a function body may import: functions that run on Spark's executors."""
    door: bool = True
    """Whether its methods may come through the door."""
    banned: frozenset[str] = frozenset()
    """Modules of the standard library that it does without."""


def _room(rooms: str = "", packages: str = "", when_called: str = "", *, door: bool = True, banned: str = "") -> Room:
    return Room(
        rooms=frozenset(rooms.split()),
        packages=frozenset(packages.split()),
        packages_when_called=frozenset(when_called.split()),
        door=door,
        banned=frozenset(banned.split()),
    )


_CLOCK_FILE_RANDOMNESS: Final = (
    "asyncio datetime io logging multiprocessing os pathlib random secrets shutil socket subprocess tempfile "
    "threading time urllib warnings"
)

ROOMS: Final = {
    "errors": _room(door=False),
    "model": _room(door=False, banned=_CLOCK_FILE_RANDOMNESS),
    "tables": _room(packages="pyarrow", door=False),
    "scenario": _room("model", "pydantic yaml"),
    "sim": _room("model scenario", "simpy numpy"),
    "recording": _room("tables", "pyarrow"),
    "traces": _room("recording tables", "pyarrow numpy"),
    "spark": _room("model tables", "pyspark pyarrow numpy", "pandas"),
    "answers": _room("model recording tables", "pyarrow numpy", door=False),
    "view": _room("recording tables", "pyarrow plotly resvg_py ipywidgets anywidget traitlets IPython"),
}
FILES: Final = {
    "columns": "tables",
    "manifest": "recording",
    "storage": "recording",
    "tables_dataflow": "tables",
    "tables_progress": "tables",
    "trace_files": "traces",
}
"""Rooms of several files that are no package: the file's name, and the room that it belongs to."""
RIM: Final = frozenset(
    {
        "__init__",
        "__main__",
        DOOR,
        "lab_compare",
        "lab_dataflow",
        "lab_dataflow_answers",
        "lab_panel",
        "lab_progress",
        "notebooks",
        "places",
    }
)
"""Files around the rooms, where everything may come together."""

FOUNDATION: Final = "errors"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module by its dotted name."""

    line: int
    module: str
    when_called: bool
    only_typing: bool


def room_of(name: str) -> str | None:
    """The room of `wmlab.<name>`; None for the rim and for what is unknown."""
    room = FILES.get(name, name)
    return room if room in ROOMS else None


def imports(tree: ast.AST, package: str, *, when_called: bool = False, only_typing: bool = False) -> Iterator[Import]:
    """Every import below `tree`; `package` is the dotted name that relative imports start from."""
    for node in ast.iter_child_nodes(tree):
        inside = when_called or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing = only_typing or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, when_called, only_typing)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                module = f"{base}.{alias.name}" if base == "wmlab" else base
                yield Import(node.lineno, module, when_called, only_typing)
        else:
            yield from imports(node, package, when_called=inside, only_typing=typing)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def violations(path: Path, package_root: Path) -> list[str]:
    """One sentence for each import of the file at `path` that its room does not allow."""
    inner = path.relative_to(package_root).with_suffix("").parts
    if inner[0] in RIM:
        return []
    where = "wmlab/" + path.relative_to(package_root).as_posix()
    room = room_of(inner[0])
    if room is None:
        return [f"{where} belongs to no room"]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(["wmlab", *inner[:-1]])
    return [
        f"{where}:{found.line} imports {found.module}, which {room} may not"
        for found in imports(tree, package)
        if not _allowed(room, found)
    ] + [f"{where}:{line} imports by a computed name" for line in _computed(tree)]


def _allowed(room: str, found: Import) -> bool:
    rules = ROOMS[room]
    top, _, below = found.module.partition(".")
    if top == "wmlab":
        name = below.partition(".")[0]
        if name == DOOR:
            return rules.door and (found.when_called or found.only_typing)
        return room_of(name) in {room, FOUNDATION, *rules.rooms}
    if top in sys.stdlib_module_names:
        return top not in rules.banned
    return top in rules.packages or (found.when_called and top in rules.packages_when_called)


def _computed(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in {"__import__", "import_module"}:
            yield node.lineno


def inner_imports(source: str, public: frozenset[str]) -> list[str]:
    """What a notebook's code imports from wmlab beyond `import wmlab` and the names in `public`."""
    modules = ((found.line, *found.module.partition(".")) for found in imports(ast.parse(source), ""))
    return [
        f"line {line}: {top}.{below}"
        for line, top, _, below in modules
        if top == "wmlab" and below and below not in public
    ]
