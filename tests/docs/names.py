"""Names of wmlab on the pages of the documentation: the rows, the objects that they name, and texts that mention them.

A name in backticks is one of these: a class with options, `Stream(segments=...)`; `recording.` with a verb; `chart.`,
`script.` or `paper.` with a name of that namespace; a table or `table.column` of a recording; an invariant, `I6`; a
file, or a rule or scenario in it as `path::name`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import wmlab as wm
from wmlab.dataflow.recording import DataflowRecording
from wmlab.progress.recording import ProgressRecording
from wmlab.streams.recording import StreamRecording

ROOT = Path(__file__).parents[2]
INVARIANT = re.compile(r"\b[IKN]\d+\b")
DOCUMENTS: dict[str, tuple[type[wm.trace.Recording], ModuleType, list[ModuleType]]] = {
    "Pravega": (StreamRecording, wm.chart, [wm, wm.script, wm.script.network, wm.script.noting]),
    "Hazelcast Jet": (DataflowRecording, wm.dataflow.chart, [wm.dataflow]),
    "NebulaStream": (ProgressRecording, wm.progress.chart, [wm.progress]),
}
"""For each document the recordings that it is about, their charts, and where the classes are that it names."""


class Row(NamedTuple):
    """A row of a table, with the heading (`##`) above it."""

    heading: str
    cells: tuple[str, ...]


def rows(page: str) -> list[Row]:
    """The rows of all tables of a page; those with the titles of the columns are left out."""
    heading, lines, table_rows = "", page.splitlines(), []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| ") and not below.startswith("|--"):
            table_rows.append(Row(heading, tuple(cell.strip() for cell in line[1:-1].split(" | "))))
    return table_rows


def in_backticks(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


class Name(NamedTuple):
    """A name as a page has it: of what a file defines, or dotted with options."""

    file: str
    name: str
    options: dict[str, str]


def parsed(text: str) -> Name:
    path, _, definition = text.partition("::")
    if "/" in path:
        return Name(path, definition, {})
    call = re.fullmatch(r"(?P<name>[\w.]+)(?:\((?P<options>.*)\))?", text, re.DOTALL)
    assert call is not None, f"{text} is not a name"
    return Name("", call["name"], dict(re.findall(r"(\w+)=(\[?\"?[\w.]+\"?\]?)", call["options"] or "")))


def members(owner: ModuleType | type, prefix: str) -> dict[str, Any]:
    """What a namespace or a class offers, each name with the prefix before it."""
    offered = owner.__all__ if isinstance(owner, ModuleType) else dir(owner)
    return {f"{prefix}{name}": getattr(owner, name) for name in offered if not name.startswith("_")}


@functools.cache
def public_names() -> dict[str, Any]:
    """Every dotted name that a user can write: namespaces, what they offer, and what the classes in them have."""
    names, waiting = {"wmlab": wm}, ["wmlab"]
    for owner in waiting:
        inner = members(names[owner], f"{owner}.")
        names |= inner
        waiting += [name for name, value in inner.items() if isinstance(value, ModuleType) or inspect.isclass(value)]
    return names


@functools.cache
def names_for(document: str) -> dict[str, Any]:
    """Every name that a page may use of a document, with what it stands for."""
    recording, charts, namespaces = DOCUMENTS[document]
    names = members(recording, "recording.") | members(charts, "chart.") | members(wm.script, "script.")
    names |= members(wm.paper, "paper.")
    for namespace in namespaces:
        names |= members(namespace, "")
    for table, schema in recording.schemas.items():
        names |= {table: schema} | {f"{table}.{field.name}": field for field in schema}
    package = inspect.getmodule(recording).__package__.replace(".", "/")  # type: ignore[union-attr]
    checks = "".join(file.read_text() for file in (ROOT / package).rglob("checks/*.py"))
    return names | dict.fromkeys(INVARIANT.findall(checks))


def exists(document: str, text: str) -> bool:
    """Whether a name stands for something in the part of wmlab that is made after the document."""
    file, name, options = parsed(text)
    if file:
        definition = rf"(?m)^\s*((def|class) )?{name}\b"
        return (ROOT / file).is_file() and (not name or bool(re.search(definition, (ROOT / file).read_text())))
    names = names_for(document)
    return name in names and (not options or options.keys() <= inspect.signature(names[name]).parameters.keys())


def mentions(text: str, quoted: str) -> bool:
    """Whether a text has what is quoted: its name without options, or else the options, with the values they have."""
    file, name, options = parsed(quoted)
    if file:
        return bool(re.search(rf"\b{name or Path(file).stem}\b", text))
    words = [word for option, value in options.items() for word in (option, *re.findall(r"\w+", value))]
    if not words:
        steps = name.split(".")
        words = steps[-1:] if steps[0] in ("recording", "script", "chart") else steps
    snake = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower() for word in words]
    return all(re.search(rf"\b({word}|{kind})\b", text) for word, kind in zip(words, snake, strict=True))


def source_of_test(named: str) -> str | None:
    """The source of a test with the functions and values of its file that it uses; of a vector the case itself."""
    path, _, name = named.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file():
        return None
    if path == "conformance/test_vectors.py":
        return case_of_vectors(name)
    source = file.read_text()
    found: dict[str, str] = {}
    waiting = [name] if name else [one for one in definitions(source) if one.startswith("test_")]
    while waiting:
        used = waiting.pop()
        if used not in found and used in definitions(source):
            found[used] = definitions(source)[used]
            waiting += re.findall(r"\w+", found[used])
    return "\n".join(found.values()) if name in found or (found and not name) else None


@functools.cache
def definitions(source: str) -> dict[str, str]:
    """The functions, classes and values of a module by name, each with its decorators."""
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        decorators = getattr(node, "decorator_list", [])
        text = "\n".join(lines[min([node.lineno, *(one.lineno for one in decorators)]) - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = text
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id: text for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def case_of_vectors(name: str) -> str | None:
    """The case of the vectors with that name or id, if it is one that is run."""
    from tests.conformance.test_vectors import runs_in

    for file in sorted((ROOT / "tests" / "conformance" / "vectors").glob("*.json")):
        if name and any(run == name or run.startswith(f"{name}-") for run, _ in runs_in(file)):
            return "\n".join(json.dumps(case) for case in named_in(json.loads(file.read_text()), name))
    return None


def named_in(content: object, name: str) -> list[object]:
    """The objects somewhere in JSON that have this name or id."""
    if isinstance(content, list):
        return [found for part in content for found in named_in(part, name)]
    if not isinstance(content, dict):
        return []
    return [content] if name in (content.get("name"), content.get("id")) else named_in([*content.values()], name)
