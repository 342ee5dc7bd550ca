"""Who may import whom: the layers of wmlab, and a checker that reads the imports of a file.

`core` knows no model. Each model is a folder, in which imports go down its layers; no model imports another, but the
strategies call the pure rules of the others. Every import statement counts, wherever it stands: at the top, in a
function, under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODELS: Final = ("streams", "dataflow", "progress", "strategies", "engines")
TOP: Final = frozenset({"__init__", "__main__", "demo", "hunting", "open", "spark"})
"""Files next to the folders, where everything comes together."""
TESTING: Final = "testing"
"""The folder that compares foreign code with the pure rules of every model, and imports nothing else of them."""
PAPER: Final = "paper"
"""The folder that reads the documents' notation: it shows the pure rules of every model in their words and pictures."""
SHOWN_ON_PAPER: Final = frozenset({"model", "rules", "answers", "charts"})

LAYERS: Final = (
    ("model",),
    ("rules",),
    ("scenario", "vocabulary"),
    ("tables", "sim"),
    ("simulate", "reading", "moments", "collected", "flink_rest", "spark_query"),
    ("bounds", "replay"),
    (
        "checks",
        "clocks",
        "comparison",
        "idle_timeouts",
        "lateness",
        "windows",
        "cause_table",
        "facts",
        "flink_facts",
        "flink_view",
        "spark_facts",
        "verdicts",
    ),
    (
        "answers",
        "positions",
        "advice",
        "candidates",
        "doubts",
        "judging",
        "recipes",
        "findings",
    ),
    ("charts", "diagram"),
    ("scrub", "watching"),
    ("recording", "run_measures", "log_profile"),
    ("__init__", "api", "feed", "panel", "spark", "sweep"),
)
"""The folders and files of a model from the bottom to the top; each imports its own layer and those below."""

RANK: Final = {name: rank for rank, names in enumerate(LAYERS) for name in names}

PURE: Final = frozenset({"wmlab.core.arguments", "wmlab.core.durations", "wmlab.core.errors", "wmlab.core.words"})
"""What `model/` imports of core; of everything else, only modules of the standard library that are not `BANNED`."""
WITH_PYDANTIC: Final = frozenset({"strategies/model/strategy"})
"""The one module of a `model/` that imports pydantic: it checks the parameters of every strategy."""
BANNED: Final = (
    {"asyncio", "multiprocessing", "subprocess", "threading"}
    | {"io", "logging", "os", "pathlib", "shutil", "socket", "tempfile", "urllib", "warnings"}
    | {"datetime", "random", "secrets", "time"}
)
PYSPARK_ONLY_IN: Final = (
    "core/spark/",
    "core/recording",
    "/bounds/",
    "/checks/",
    "/recording",
    "/spark",
    "/panel",
)
"""Parts of paths of the files that may import PySpark at all."""

STREAMS_AS_A_SOURCE: Final = frozenset({"dataflow/simulate", "dataflow/scenario/source"})
"""The one exception: a recorded stream is the source of a dataflow."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module by its dotted name."""

    line: int
    module: str
    only_typing: bool


def imports(tree: ast.AST, package: str, *, only_typing: bool = False) -> Iterator[Import]:
    """Every import below `tree`; `package` is the dotted name that relative imports start from."""
    for node in ast.iter_child_nodes(tree):
        typing = only_typing or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, only_typing)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                yield Import(node.lineno, f"{base}.{alias.name}" if base.startswith("wmlab") else base, only_typing)
        else:
            yield from imports(node, package, only_typing=typing)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def violations(path: Path, package_root: Path) -> list[str]:
    """One sentence for each import of the file at `path` that its layer does not allow."""
    inner = path.relative_to(package_root).with_suffix("").parts
    if len(inner) == 1 and inner[0] in TOP:
        return []
    name, where = "/".join(inner), "wmlab/" + path.relative_to(package_root).as_posix()
    if inner[0] not in ("core", TESTING, PAPER, *MODELS) or (inner[0] in MODELS and inner[1] not in RANK):
        return [f"{where} belongs to no layer"]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(["wmlab", *inner[:-1]])
    found = [
        f"{where}:{entry.line} imports {entry.module}, which it may not"
        for entry in imports(tree, package)
        if not _allowed(name, entry.module)
    ]
    if name == "core/__init__":
        return found
    return found + [f"{where}:{line} imports by a computed name" for line in _computed(tree)]


def _allowed(name: str, module: str) -> bool:
    folder, _, rest = name.partition("/")
    layer = rest.partition("/")[0]
    top, *below = module.split(".")
    if top != "wmlab":
        if layer == "model":
            pydantic_too = top == "pydantic" and name in WITH_PYDANTIC
            return pydantic_too or (top in sys.stdlib_module_names and top not in BANNED)
        return top != "pyspark" or any(part in name for part in PYSPARK_ONLY_IN)
    if folder in ("strategies", TESTING) and below[1:2] == ["model"]:
        return True
    if folder == TESTING:
        return below[0] in ("core", TESTING)
    if folder == PAPER:
        return below[0] in ("core", PAPER) or (below[0] in MODELS and below[1] in SHOWN_ON_PAPER)
    if layer == "model" and below[:1] == ["core"]:
        return module == "wmlab.core" or any(f"{module}.".startswith(f"{pure}.") for pure in PURE)
    if below[:1] == ["core"]:
        return True
    if len(below) < 2 or below[0] != folder:
        return below[:1] == ["streams"] and name in STREAMS_AS_A_SOURCE
    return RANK[below[1]] <= RANK[layer] if below[1] in RANK else layer in LAYERS[-1]


def _computed(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in {"__import__", "import_module"}:
            yield node.lineno


def circles(package_root: Path, *, for_typing: bool = False) -> list[tuple[str, ...]]:
    """Every set of modules that import each other, those in functions included; `for_typing`: those for typing too."""
    modules = {_dotted(path, package_root): path for path in package_root.rglob("*.py")}
    arrows = {
        name: {
            target
            for entry in imports(ast.parse(path.read_text(encoding="utf-8")), name.rpartition(".")[0])
            if (for_typing or not entry.only_typing)
            and (target := _module(entry.module, modules)) is not None
            and target != name
        }
        for name, path in modules.items()
    }
    return sorted({tuple(sorted(knot)) for knot in _knots(arrows)})


def _dotted(path: Path, package_root: Path) -> str:
    parts = ["wmlab", *path.relative_to(package_root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(name: str, modules: Iterable[str]) -> str | None:
    """The module that an import of `name` loads: itself, or the one that has it."""
    known = set(modules)
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name if name not in ("", "wmlab") else None


def _knots(arrows: dict[str, set[str]]) -> Iterator[set[str]]:
    """For each name that reaches itself in a small graph, the names that it reaches and that reach it."""
    reach: dict[str, set[str]] = {}
    for start in arrows:
        seen, todo = set(), [start]
        while todo:
            for following in arrows[todo.pop()] - seen:
                seen.add(following)
                todo.append(following)
        reach[start] = seen
    for name in arrows:
        if name in reach[name]:
            yield {other for other in reach[name] if name in reach[other]}


def inner_imports(source: str, public: frozenset[str]) -> list[str]:
    """What a notebook's code imports from wmlab beyond `import wmlab` and the names in `public`."""
    modules = ((found.line, *found.module.partition(".")) for found in imports(ast.parse(source), ""))
    return [
        f"line {line}: {top}.{below}"
        for line, top, _, below in modules
        if top == "wmlab" and below and below.partition(".")[0] not in public
    ]
