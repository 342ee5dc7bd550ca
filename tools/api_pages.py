"""The pages of the reference, as Markdown for Sphinx: one for each namespace, and for recordings, errors and tables.

`docs/conf.py` writes them when the site is built. A name has its signature, its docstring, its fields as a table, an
example of the notebooks, guides, gallery or stored scenarios, and links to where it is shown.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
import textwrap
import types
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tools import gallery, public_names
from wmlab.core.scenario_words import sentence_about
from wmlab.core.signatures import PlainType, plain_type
from wmlab.open import load_scenario

ROOT: Final = Path(__file__).resolve().parents[1]
_TYPES: Final = {"int64": "integer", "string": "text", "double": "number", "bool": "flag"}
_LONGEST_EXAMPLE: Final = 14
_LONGEST_LINE: Final = 110
_MOST_LINKS: Final = 3
_PYTHON_BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDRESS: Final = re.compile(r"<[\w.]*\s?([\w.<>]+) at 0x[0-9a-f]+>")


def pages() -> dict[str, str]:
    """The pages by the name of their file, without its suffix; `index` lists the others."""
    classes = public_names.public_classes()
    spaces = dict(public_names.namespaces())
    named = {made for names in spaces.values() for made in names.values() if inspect.isclass(made)}
    rest = [made for made in classes if made not in named]
    kinds = public_names.recording_kinds()
    others = sorted((made for made in rest if made not in kinds), key=lambda made: (made.__name__, made.__module__))
    reference = _Reference(classes)
    texts = {title: reference.namespace(title, names) for title, names in spaces.items()}
    texts["recordings"] = reference.classes(
        "Recordings", "What `record` and `wm.load` return, one class for each model.", kinds
    )
    texts["other_classes"] = reference.classes(
        "Other classes", "What functions return, what that holds, and what classes have in common.", others
    )
    texts["errors"] = reference.classes("Errors", "Every error that wmlab raises.", public_names.errors())
    texts["tables"] = tables_page()
    return {"index": _index(texts), **texts}


def _index(texts: Mapping[str, str]) -> str:
    listed = "\n".join(texts)
    return f"""# Reference

Every public name with its signature, its fields and an example. The pages are made from the docstrings when the site is
built; `help(name)` shows the same text. A method or attribute is described with the class that defines it.

```{{toctree}}
:maxdepth: 1

{listed}
```
"""


class Place(NamedTuple):
    """A page that uses a public name, and the statement that does."""

    page: str
    title: str
    code: str


class _Reference:
    """Writes names; a class, method or function that is described twice is in the index of the site once."""

    def __init__(self, classes: list[type]) -> None:
        self._listed = frozenset(classes)
        self._indexed: Counter[str] = Counter()

    def namespace(self, title: str, names: Mapping[str, Any]) -> str:
        space = public_names.module_named(title)
        about = inspect.getdoc(space)
        if not about:
            raise LookupError(f"{title} has no docstring")
        parts = [f"# {title}", f"```{{py:module}} {title}\n```", markdown(about)]
        parts += [self.name(title, name, value, space) for name, value in names.items()]
        return "\n\n".join(parts) + "\n"

    def classes(self, title: str, about: str, classes: Iterable[type]) -> str:
        return "\n\n".join([f"# {title}", about, *(self.name("", made.__name__, made) for made in classes)]) + "\n"

    def name(self, title: str, name: str, value: Any, space: ModuleType | None = None) -> str:
        path = f"{title}.{name}".removeprefix(".")
        if inspect.isclass(value):
            return self._class(path, value)
        if inspect.isroutine(value):
            parts = [markdown(docstring(value)), *_example(path), *_links(path, value)]
            return self._directive(6, "function", f"{name}{signature(value)}", path, parts)
        text = "" if space is None else public_names.text_below(space, name)
        choices = typing.get_args(value) if typing.get_origin(value) is typing.Literal else ()
        about = f"One of {_quoted(map(str, choices))}." if choices else ""
        about = " ".join(filter(None, (about, markdown(text)))) or (
            "For annotations." if _is_type(value) else f"Of type {type(value).__name__}."
        )
        return self._directive(6, "data", name, path, [about, *_links(path, value)])

    def _class(self, path: str, made: type) -> str:
        parts = [markdown(docstring(made))]
        if not public_names.is_ours(made):
            return self._directive(6, "class", made.__name__, path, parts)
        parts += [*fields_table(made), *_example(path), *_links(path, made), *self._inherited(made)]
        for name, member in public_names.members(made).items():
            if public_names.documented_at(made, name, self._listed) is made:
                parts += self._member(path, made, name, member)
        return self._directive(6, "class", f"{made.__name__}{_class_signature(made)}", path, parts)

    def _member(self, path: str, made: type, name: str, member: Any) -> Iterator[str]:
        function = public_names.function_of(member)
        if function is None:
            home, _ = public_names.definition_of(made, name)
            text = public_names.texts_below(home).get(name, "") if home is not None else ""
            yield self._directive(5, "attribute", name, f"{path}.{name}", [markdown(text)])
        elif isinstance(member, property | cached_property):
            yield self._directive(5, "property", name, f"{path}.{name}", [markdown(docstring(function))])
        else:
            parts = [markdown(docstring(function)), *_links(f"{path}.{name}", function)]
            head = f"{name}{signature(function, bound=not isinstance(member, staticmethod))}"
            yield self._directive(5, "method", head, f"{path}.{name}", parts)

    def _inherited(self, made: type) -> Iterator[str]:
        homes: dict[type, list[str]] = {}
        for name in public_names.members(made):
            homes.setdefault(public_names.documented_at(made, name, self._listed), []).append(name)
        for base, names in homes.items():
            if base is not made:
                yield f"From `{base.__name__}`: {_quoted(names)}."

    def _directive(self, ticks: int, kind: str, head: str, path: str, parts: Iterable[str]) -> str:
        options = ":no-index:\n" if self._indexed[path] else ""
        self._indexed[path] += 1
        body = "\n\n".join(part for part in parts if part)
        return f"{'`' * ticks}{{py:{kind}}} {head}\n{options}\n{body}\n{'`' * ticks}"


def docstring(value: Any) -> str:
    """The docstring of a class or a function; raises `LookupError` if there is none."""
    text = inspect.getdoc(value)
    if not text:
        raise LookupError(f"{value!r} has no docstring")
    return text


def markdown(text: str) -> str:
    """A docstring as Markdown: its examples as code, and what Markdown would take for markup as it stands."""
    blocks: list[str] = []
    in_list = False
    for block in filter(str.strip, re.split(r"\n\s*\n", text.strip("\n"))):
        lines = block.splitlines()
        if lines[0].lstrip().startswith(">>>"):
            blocks.append(f"```pycon\n{inspect.cleandoc(block)}\n```")
        elif all(line.startswith("    ") for line in lines) and not in_list:
            blocks.append(f"```\n{inspect.cleandoc(block)}\n```")
        else:
            in_list = bool(re.match(r"\s*([-*]|\d+\.) ", lines[0]))
            blocks.append("\n".join(map(_escaped, lines)))
    return "\n\n".join(blocks)


def _escaped(line: str) -> str:
    """A line in which only backticks, and the dash or number of a list, are markup."""
    parts = re.split(r"(`+[^`]*`+)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]{}#$])", r"\\\1", part) for part in parts)


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def signature(function: Any, *, bound: bool = False) -> str:
    """The signature with plain types; of a `bound` method without its first parameter."""
    made = inspect.signature(inspect.unwrap(function))
    hints = public_names.annotations_of(inspect.unwrap(function))
    parameters = [
        parameter.replace(
            annotation=_plain(hints.get(name, parameter.annotation)), default=_plain_default(parameter.default)
        )
        for name, parameter in made.parameters.items()
    ]
    returned = _plain(hints.get("return", made.return_annotation))
    return str(made.replace(parameters=parameters[1:] if bound else parameters, return_annotation=returned))


def _plain(hint: Any) -> Any:
    if hint is inspect.Parameter.empty:
        return hint
    return PlainType(hint if isinstance(hint, str) else plain_type(hint))


def _plain_default(value: Any) -> Any:
    """A default whose text has no address in memory."""
    if value is inspect.Parameter.empty:
        return value
    return PlainType(_ADDRESS.sub(r"\1", repr(value)))


def _class_signature(made: type) -> str:
    """How a value of the class is made, without the types, which its table has."""
    if issubclass(made, enum.Enum | BaseException) or getattr(made, "_is_protocol", False):
        return ""
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_plain_default(parameter.default))
        for parameter in parameters
    ]
    return str(inspect.Signature(plain))


def fields_table(made: type) -> Iterator[str]:
    """The fields of a class, each with its type, its default and what it means."""
    fields = fields_given(made)
    if not fields:
        return
    if issubclass(made, enum.Enum):
        yield f"One of: {_quoted(fields)}."
        return
    hints = public_names.annotations_of(made)
    defaults = _defaults(made)
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name in fields:
        kind = f"`{plain_type(hints[name])}`" if name in hints else ""
        default = f"`{defaults[name]}`" if name in defaults else ""
        meaning = markdown(meaning_of(made, name)).replace("\n", " ")
        lines.append(f"| `{name}` | {_in_cell(kind)} | {_in_cell(default)} | {_in_cell(meaning)} |")
    yield "\n".join(lines)


def fields_given(made: type) -> list[str]:
    """The fields that a user gives or reads: all but the kind of a value, which its class says."""
    values = {field.name: field.default for field in dataclasses.fields(made)} if dataclasses.is_dataclass(made) else {}
    return [name for name in public_names.fields_of(made) if name != "kind" or not isinstance(values.get(name), str)]


def _defaults(made: type) -> dict[str, str]:
    if not dataclasses.is_dataclass(made):
        return {name: repr(value) for name, value in getattr(made, "_field_defaults", {}).items()}
    defaults = {}
    for field in dataclasses.fields(made):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = _ADDRESS.sub(r"\1", repr(field.default))
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = _ADDRESS.sub(r"\1", repr(field.default_factory()))
    return defaults


def meaning_of(made: type, field: str) -> str:
    """What is said of a field: below it, in the docstring of its class, or in that of its module; "" if nothing is.

    Of a docstring it is the sentence that begins with the field, else the first one that names it.
    """
    ours = [base for base in made.__mro__ if public_names.is_ours(base)]
    for base in ours:
        if text := public_names.texts_below(base).get(field):
            return text
    referred = [other for base in ours for other in _referred(base) if field in public_names.fields_of(other)]
    described = [*ours, *referred, *(inspect.getmodule(base) for base in ours)]
    return sentence_about(field, described)


def _referred(made: type) -> list[type]:
    """The classes of its module that the docstring of a class names, as "`EventWriter` says what the fields mean"."""
    names = vars(inspect.getmodule(made))
    described = re.findall(r"`(\w+)`", inspect.getdoc(made) or "")
    return [names[name] for name in described if inspect.isclass(names.get(name)) and public_names.is_ours(names[name])]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _is_type(value: Any) -> bool:
    return typing.get_origin(value) is not None or isinstance(value, types.UnionType)


def _example(path: str) -> Iterator[str]:
    """The shortest statement of a page that uses the name, else a value of a stored scenario."""
    places = [place for place in uses().get(path, ()) if place.code.count("\n") < _LONGEST_EXAMPLE]
    places = [place for place in places if place.page] or places
    if places:
        yield f"```python\n{min(places, key=lambda place: (len(place.code), place.code)).code}\n```"


def _links(path: str, value: Any) -> Iterator[str]:
    """Where the name is shown: its chart in the gallery, and the first pages that use it."""
    links = []
    name = path.rpartition(".")[2]
    if inspect.isroutine(value):
        charts = [entry.name for entry in gallery.entries() if entry.name.rpartition(".")[2] == name]
        links += [f"[the chart `{chart}`](../gallery.md#{chart.replace('.', '')})" for chart in charts]
    shown = dict.fromkeys((place.title, place.page) for place in uses().get(path, ()) if place.page)
    links += [f"[{title}](../../{page})" for title, page in [*shown][:_MOST_LINKS]]
    if links:
        yield f"See {', '.join(links)}."


@cache
def uses() -> dict[str, list[Place]]:
    """The statements that use each public name, by its path: of notebooks, guides, the gallery and stored scenarios."""
    offered = {f"{title}.{name}": value for title, names in public_names.namespaces() for name, value in names.items()}
    places: dict[str, list[Place]] = {}
    for page, title, code in _code():
        for path, statement in _statements(code):
            if path in offered:
                places.setdefault(path, []).append(Place(page, title, statement))
    paths = {value: path for path, value in offered.items() if inspect.isclass(value)}
    for file in sorted((ROOT / "data" / "scenarios").rglob("*.yaml")):
        for made, text in _parts(load_scenario(file)):
            if made in paths and len(text) <= _LONGEST_LINE and not text.endswith("()"):
                places.setdefault(paths[made], []).append(Place("", "", text))
    return places


def _parts(value: Any) -> Iterator[tuple[type, str]]:
    """The values that a scenario is made of, with the text that makes each."""
    if isinstance(value, tuple):
        for inner in value:
            yield from _parts(inner)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value), repr(value)
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))


def _code() -> Iterator[tuple[str, str, str]]:
    """Every page with Python: its file, what a link to it says, and its code from top to bottom."""
    for file in [*sorted(ROOT.glob("notebooks/tutorials/*.ipynb")), *sorted(ROOT.glob("notebooks/*/*.ipynb"))]:
        cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
        code = "\n".join("".join(line for line in cell["source"] if line[:1] not in "%!") for cell in cells)
        yield file.relative_to(ROOT).as_posix(), file.stem, code
    for file in [*sorted((ROOT / "docs" / "how-to").glob("*.md")), ROOT / "README.md"]:
        code = "\n".join(_PYTHON_BLOCK.findall(file.read_text()))
        yield file.relative_to(ROOT).as_posix(), file.stem.replace("_", " "), code
    for entry in gallery.entries():
        yield "", "", f"import wmlab as wm\n{entry.code}"


def _statements(code: str) -> Iterator[tuple[str, str]]:
    """The public paths that are used, each with its simple statement."""
    tree, lines = ast.parse(code), code.splitlines()
    aliases = dict(_aliases(tree))
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Expr | ast.Assign | ast.Return):
            text = textwrap.dedent("\n".join(lines[statement.lineno - 1 : statement.end_lineno]))
            for node in ast.walk(statement):
                if path := _path(node, aliases):
                    yield path, text


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names if alias.name == "wmlab")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "wmlab":
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _path(node.value, {"wm": "wmlab"})
            if value:
                yield node.targets[0].id, value


def _path(node: ast.AST, aliases: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        inner = _path(node.value, aliases)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def tables_page() -> str:
    """Every table that a user can ask for, with its columns."""
    parts = ["# Tables", "The tables of recordings, and the columns of what the namespaces return."]
    for title, schema in public_names.tables().items():
        lines = [f"## {title}", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
        for field in schema:
            metadata = {key.decode(): _in_cell(value.decode()) for key, value in (field.metadata or {}).items()}
            kind = _in_cell(_type_words(field.type) + (", or null" if field.nullable else ""))
            about = _escaped(metadata.get("about", ""))
            lines.append(f"| `{field.name}` | {kind} | {metadata.get('unit', '')} | {about} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _type_words(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"map from {_type_words(kind.key_type)} to {_type_words(kind.item_type)}"
    if pa.types.is_list(kind):
        return f"list of {_type_words(kind.value_type)}"
    return _TYPES.get(str(kind), str(kind))
