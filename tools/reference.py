"""The reference of public names, from their docstrings: `python tools/reference.py --write` makes docs/reference.md.

Without `--write` it exits with 1 if the page is not what it would write.

Nothing is listed by hand. The page starts from the namespaces of `wmlab`, then adds the kinds of recordings, the
classes of the values that all these return or hold, the errors, and the tables and columns of every schema.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import sys
import types
import typing
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

import wmlab
from wmlab.core.errors import WmlabError
from wmlab.open import Recording

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
_HEAD = """# Reference

Every public name with the first sentence of its documentation; `help(name)` shows all of it. This page is made by
`python tools/reference.py --write`, and a test compares it.

A method or attribute stands with the class that defines it; a class that inherits it names it behind "from". Where
several classes of a section inherit the same, a sentence above their table says so. Behind the namespaces follow the
recordings, the other classes (what functions return, what that holds, and what classes have in common), the errors,
and the tables with their columns.
"""
_SEVERAL = 3
"""From so many classes of a section on, what they inherit stands once, above their table."""
_TYPES = {"int64": "integer", "string": "text", "double": "number", "bool": "flag"}


def page() -> str:
    """The text of the page."""
    spaces, listed = dict(namespaces()), public_classes()
    named = {made for names in spaces.values() for made in names.values() if inspect.isclass(made)}
    parts = [_HEAD]
    for title, names in spaces.items():
        parts.append(_section(title, names.items(), listed, _module(title)))
    for kind in recording_kinds():
        parts.append(_section(f"Recordings of {kind.kind}", _titled([kind]), listed))
    others = [made for made in listed if made not in named and made not in recording_kinds()]
    for package in sorted({_package(made) for made in others}):
        classes = sorted((made for made in others if _package(made) == package), key=_order)
        parts.append(_section(f"Other classes of {package}", _titled(classes), listed))
    parts.append(_section("Errors", _titled(errors()), listed))
    parts += [_columns(title, schema) for title, schema in tables().items()]
    return "\n".join(parts)


def _titled(classes: Iterable[type]) -> list[tuple[str, Any]]:
    return [(made.__name__, made) for made in classes]


def _package(made: type) -> str:
    """The package of the model that a class belongs to."""
    return ".".join(made.__module__.split(".")[:2])


def _order(made: type) -> tuple[str, str]:
    return made.__name__, made.__module__


def namespaces() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every namespace by its title, `wmlab` first, with the values of its names; each module is one of its own."""
    waiting: list[tuple[str, ModuleType]] = [("wmlab", wmlab)]
    while waiting:
        title, space = waiting.pop(0)
        names = {name: getattr(space, name) for name in public(space)}
        inner = [(f"{title}.{name}", value) for name, value in names.items() if isinstance(value, ModuleType)]
        yield title, {name: value for name, value in names.items() if not isinstance(value, ModuleType)}
        waiting = inner + waiting


def public(space: ModuleType) -> list[str]:
    """The names that a namespace offers: `__all__`; or what is defined in it and has no underscore, and its modules."""
    listed = getattr(space, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(name for name, value in vars(space).items() if not name.startswith("_") and _is_own(space, value))


def _is_own(space: ModuleType, value: Any) -> bool:
    """Whether it is defined there, or is a module of the same package, which says what this one offers."""
    if isinstance(value, ModuleType):
        return value.__name__.startswith(space.__name__.rpartition(".")[0] + ".")
    return getattr(value, "__module__", None) == space.__name__


def _module(title: str) -> ModuleType:
    space: Any = wmlab
    for name in title.split(".")[1:]:
        space = getattr(space, name)
    return typing.cast("ModuleType", space)


def recording_kinds() -> list[type[Recording]]:
    """The classes of recordings, one for each model, by kind."""
    return sorted((made for made in Recording.__subclasses__() if _is_ours(made)), key=lambda made: made.kind)


def errors() -> list[type[WmlabError]]:
    """All errors that wmlab raises, the most general first."""
    for module in pkgutil.walk_packages(wmlab.__path__, "wmlab."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes, waiting = [], [WmlabError]
    while waiting:
        error = waiting.pop(0)
        if _is_ours(error) and not error.__name__.startswith("_"):
            classes.append(error)
        waiting += sorted(error.__subclasses__(), key=lambda made: made.__name__)
    return list(dict.fromkeys(classes))


def public_classes() -> list[type]:
    """All classes on the page but the errors: of the namespaces, of recordings, and of what those return and hold."""
    offered = [value for _, names in namespaces() for value in names.values()]
    waiting = [*recording_kinds(), *offered]
    classes: dict[type, None] = {}
    while waiting:
        value = waiting.pop(0)
        if not inspect.isclass(value):
            waiting += _returned(value) if inspect.isroutine(value) else []
        elif _is_listed(value) and value not in classes:
            classes[value] = None
            waiting += value.__bases__
            waiting += [made for member in members(value).values() for made in _returned(member)]
            waiting += [made for hint in _hints(value).values() for made in _classes(hint)]
    return list(classes)


def _is_listed(made: type) -> bool:
    return _is_ours(made) and not made.__name__.startswith("_") and not issubclass(made, WmlabError)


def _is_ours(made: Any) -> bool:
    return (getattr(made, "__module__", "") or "").startswith("wmlab")


def _returned(member: Any) -> list[type]:
    function = _function(member)
    return [] if function is None else _classes(_hints(function).get("return"))


def _function(member: Any) -> Callable[..., Any] | None:
    """The function behind a method or an attribute; None: it is a plain value."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if inspect.isroutine(member) else None


def _hints(value: Any) -> dict[str, Any]:
    """The annotations as types; one that can be read only by a type checker is left out."""
    try:
        return typing.get_type_hints(value)
    except (NameError, TypeError):
        written = getattr(value, "__annotations__", {})
    names = vars(sys.modules[value.__module__]) if _is_ours(value) else {}
    hints = {}
    for name, text in written.items():
        try:
            hints[name] = eval(text, dict(names)) if isinstance(text, str) else text
        except (NameError, TypeError):
            continue
    return hints


def _classes(hint: Any) -> list[type]:
    """The classes that a type names, inside of unions, lists and so on too."""
    inner = [made for argument in typing.get_args(hint) for made in _classes(argument)]
    return [hint, *inner] if inspect.isclass(hint) and not typing.get_args(hint) else inner


def members(made: type) -> dict[str, Any]:
    """The methods and attributes of a class that stand with it: those not of a class that is on the page as well.

    Fields are not among them.
    """
    fields = fields_of(made)
    own = {}
    for name in dir(made):
        home, member = _definition(made, name)
        if name.startswith("_") or name in fields or home is None or not _is_ours(home):
            continue
        function = _function(member)
        if function is not None and not _is_ours(inspect.unwrap(function)):
            continue
        own[name] = member
    return own


def _definition(made: type, name: str) -> tuple[type | None, Any]:
    """The class that defines a member, and how it stands there."""
    return next(((base, vars(base)[name]) for base in made.__mro__ if name in vars(base)), (None, None))


def fields_of(made: type) -> list[str]:
    """What a value of the class is made of, in the order of its construction."""
    if dataclasses.is_dataclass(made):
        return [field.name for field in dataclasses.fields(made) if not field.name.startswith("_")]
    if issubclass(made, enum.Enum):
        return [member.name for member in made]
    return [*getattr(made, "_fields", ())]


def documented_at(made: type, name: str, listed: Iterable[type]) -> type:
    """The class whose rows have this member: the most general one on the page that says the same of it."""
    text = _text(_definition(made, name)[1])
    bases = [base for base in made.__mro__[1:] if base in listed and name in members(base)]
    return next((base for base in reversed(bases) if _text(_definition(base, name)[1]) in (text, text or None)), made)


def _text(member: Any) -> str | None:
    function = _function(member)
    return inspect.getdoc(function) if function is not None else None


def _section(
    title: str, names: Iterable[tuple[str, Any]], listed: Iterable[type], space: ModuleType | None = None
) -> str:
    names, about = list(names), [] if space in (None, wmlab) else [_sentence(space), ""]
    shared = _shared(names, listed)
    for (base, members_of_base), classes in shared.items():
        about += [f"From `{base}`: {members_of_base}. Classes that have these: {_quoted(classes)}.", ""]
    lines = [f"## {title}", "", *about, "| name | is a | does |", "|---|---|---|"]
    for name, value in names:
        has_text = inspect.isclass(value) or _function(value) is not None or space is None
        text = _sentence(value, "" if has_text or space is None else _text_in(space, name))
        lines.append(f"| `{name}` | {_kind(value)} | {text}{_parts(value, listed, shared)} |")
        if inspect.isclass(value) and _is_ours(value):
            lines += [f"| `{name}.{member}` | {kind} | {text} |" for member, kind, text in _rows(value, listed)]
    return "\n".join([*lines, ""])


def _shared(names: Iterable[tuple[str, Any]], listed: Iterable[type]) -> dict[tuple[str, str], list[str]]:
    """What several classes inherit: base class and members, and the names of the classes."""
    classes: dict[tuple[str, str], list[str]] = {}
    for name, value in names:
        if inspect.isclass(value) and _is_ours(value):
            for base, inherited in _by_home(value, listed).items():
                if base is not value:
                    classes.setdefault((base.__name__, _quoted(inherited)), []).append(name)
    return {heritage: heirs for heritage, heirs in classes.items() if len(heirs) >= _SEVERAL}


def _by_home(made: type, listed: Iterable[type]) -> dict[type, list[str]]:
    """The methods and attributes of a class by the class that has their rows."""
    homes: dict[type, list[str]] = {}
    for name in members(made):
        homes.setdefault(documented_at(made, name, listed), []).append(name)
    return homes


def _rows(made: type, listed: Iterable[type]) -> Iterator[tuple[str, str, str]]:
    """The methods and attributes that stand with a class: name, which of the two, and what it is."""
    for name, member in members(made).items():
        home, _ = _definition(made, name)
        text = "" if home is None or _function(member) is not None else _texts_below(inspect.getsource(home)).get(name)
        if documented_at(made, name, listed) is made and (text or _function(member) is not None):
            yield name, _kind(member, "method", "attribute"), _sentence(member, text or "")


def _parts(value: Any, listed: Iterable[type], shared: Container[tuple[str, str]]) -> str:
    """The fields of a class, its attributes that nothing is said about, and what it has from other classes.

    What is `shared` with others is said above the table.
    """
    if not inspect.isclass(value) or not _is_ours(value):
        return ""
    here = _by_home(value, listed)
    with_rows = [name for name, _, _ in _rows(value, listed)]
    plain = [name for name in here.pop(value, ()) if name not in with_rows]
    fields = [*fields_of(value), *plain]
    texts = [f"{'One of' if issubclass(value, enum.Enum) else 'Fields'}: {_quoted(fields)}."] if fields else []
    own = ((base.__name__, _quoted(names)) for base, names in here.items())
    texts += [f"From `{base}`: {names}." for base, names in own if (base, names) not in shared]
    return "".join(f" {text}" for text in texts)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _kind(value: Any, routine: str = "function", other: str = "constant") -> str:
    if inspect.isclass(value):
        return "class"
    if isinstance(value, property | cached_property):
        return "attribute"
    if _function(value) is not None:
        return routine
    return "type" if _is_type(value) else other


def _is_type(value: Any) -> bool:
    return typing.get_origin(value) is not None or isinstance(value, types.UnionType)


def _sentence(value: Any, text_below: str = "") -> str:
    """What a name is in one sentence; raises `LookupError` for a class, function or module without docstring.

    Of a value it is the text below its assignment.
    """
    described = value if _function(value) is None else _function(value)
    if isinstance(described, ModuleType) or inspect.isclass(described) or inspect.isroutine(described):
        text = inspect.getdoc(described)
        if not text:
            raise LookupError(f"{value!r} has no docstring")
        return _first_sentence(text)
    choices = typing.get_args(value) if typing.get_origin(value) is typing.Literal else ()
    texts = [f"One of {_quoted(map(str, choices))}."] if choices else []
    texts += [_first_sentence(text_below)] if text_below else []
    return " ".join(texts) or ("For annotations." if _is_type(value) else f"Of type {type(value).__name__}.")


def _text_in(space: ModuleType, name: str) -> str:
    """The text below the assignment of that name, in the module of the namespace or in that which it takes it from."""
    homes = getattr(space, "_HOMES", {})
    source = inspect.getsource(space)
    if name in homes:
        module, _, attribute = homes[name].partition(":")
        return _text_in(importlib.import_module(module), attribute) if attribute else ""
    for statement in ast.parse(source).body:
        taken = [alias for alias in getattr(statement, "names", ()) if (alias.asname or alias.name) == name]
        if taken and isinstance(statement, ast.ImportFrom) and statement.module:
            return _text_in(importlib.import_module(statement.module), taken[0].name)
    return _texts_below(source).get(name, "")


@cache
def _texts_below(source: str) -> dict[str, str]:
    """The texts that stand alone below an assignment, by the assigned name, in the source of a module or class."""
    tree: Any = ast.parse(inspect.cleandoc(source) if source[:1].isspace() else source)
    body = tree.body[0].body if len(tree.body) == 1 and isinstance(tree.body[0], ast.ClassDef) else tree.body
    texts = {}
    for statement, below in pairwise(body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            texts[target.id] = str(below.value.value)
    return texts


def _first_sentence(text: str) -> str:
    return _in_a_row(" ".join(text.split("\n\n")[0].split()))


def _in_a_row(text: str) -> str:
    return text.replace("|", "\\|")


def tables() -> dict[str, pa.Schema]:
    """Every table that a user can ask for, by its title: those of the recordings, and the schemas of the namespaces."""
    schemas = {
        f"Table {name} of a recording of {kind.kind}": schema
        for kind in recording_kinds()
        for name, schema in kind.schemas.items()
    }
    return schemas | {
        f"Columns of {title}.{name}": value
        for title, names in namespaces()
        for name, value in names.items()
        if isinstance(value, pa.Schema)
    }


def _columns(title: str, schema: pa.Schema) -> str:
    lines = [f"## {title}", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
    for field in schema:
        metadata = {key.decode(): _in_a_row(value.decode()) for key, value in (field.metadata or {}).items()}
        kind = _in_a_row(_type_words(field.type) + (", or null" if field.nullable else ""))
        lines.append(f"| `{field.name}` | {kind} | {metadata.get('unit', '')} | {metadata.get('about', '')} |")
    return "\n".join([*lines, ""])


def _type_words(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"map from {_type_words(kind.key_type)} to {_type_words(kind.item_type)}"
    if pa.types.is_list(kind):
        return f"list of {_type_words(kind.value_type)}"
    return _TYPES.get(str(kind), str(kind))


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
