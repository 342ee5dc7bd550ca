"""The public names of wmlab, for the pages of the reference and for the tests that ask something of every name.

Nothing is listed by hand. The walk starts from the namespaces of `wmlab`, then adds the kinds of recordings, the
classes of the values that all these return or hold, the errors, and the schemas of every table.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import sys
import typing
from collections.abc import Callable, Container, Iterator
from functools import cache, cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa

import wmlab
from wmlab.core.errors import WmlabError
from wmlab.open import Recording


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


def module_named(title: str) -> ModuleType:
    """The namespace of that title, as "wmlab.script"."""
    space: Any = wmlab
    for name in title.split(".")[1:]:
        space = getattr(space, name)
    return typing.cast("ModuleType", space)


def recording_kinds() -> list[type[Recording]]:
    """The classes of recordings, one for each model, by kind."""
    return sorted((made for made in Recording.__subclasses__() if is_ours(made)), key=lambda made: made.kind)


def errors() -> list[type[WmlabError]]:
    """All errors that wmlab raises, the most general first."""
    for module in pkgutil.walk_packages(wmlab.__path__, "wmlab."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes, waiting = [], [WmlabError]
    while waiting:
        error = waiting.pop(0)
        if is_ours(error) and not error.__name__.startswith("_"):
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
            waiting += [made for hint in annotations_of(value).values() for made in _classes(hint)]
    return list(classes)


def _is_listed(made: type) -> bool:
    return is_ours(made) and not made.__name__.startswith("_") and not issubclass(made, WmlabError)


def is_ours(made: Any) -> bool:
    """Whether a class or function is defined in wmlab."""
    return (getattr(made, "__module__", "") or "").startswith("wmlab")


def _returned(member: Any) -> list[type]:
    function = function_of(member)
    return [] if function is None else _classes(annotations_of(function).get("return"))


def function_of(member: Any) -> Callable[..., Any] | None:
    """The function behind a method or an attribute; None: it is a plain value."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if inspect.isroutine(member) else None


def annotations_of(value: Any) -> dict[str, Any]:
    """The annotations as types; one that can be read only by a type checker is left out."""
    try:
        return typing.get_type_hints(value)
    except (NameError, TypeError):
        written = getattr(value, "__annotations__", {})
    names = vars(sys.modules[value.__module__]) if is_ours(value) else {}
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
        home, member = definition_of(made, name)
        if name.startswith("_") or name in fields or home is None or not is_ours(home):
            continue
        function = function_of(member)
        if function is not None and not is_ours(inspect.unwrap(function)):
            continue
        own[name] = member
    return own


def definition_of(made: type, name: str) -> tuple[type | None, Any]:
    """The class that defines a member, and how it stands there."""
    return next(((base, vars(base)[name]) for base in made.__mro__ if name in vars(base)), (None, None))


def fields_of(made: type) -> list[str]:
    """What a value of the class is made of, in the order of its construction."""
    if dataclasses.is_dataclass(made):
        return [field.name for field in dataclasses.fields(made) if not field.name.startswith("_")]
    if issubclass(made, enum.Enum):
        return [member.name for member in made]
    return [*getattr(made, "_fields", ())]


def documented_at(made: type, name: str, listed: Container[type]) -> type:
    """The class whose rows have this member: the most general one on the page that says the same of it."""
    text = _text(definition_of(made, name)[1])
    bases = [base for base in made.__mro__[1:] if base in listed and name in members(base)]
    return next((base for base in reversed(bases) if _text(definition_of(base, name)[1]) in (text, text or None)), made)


def _text(member: Any) -> str | None:
    function = function_of(member)
    return inspect.getdoc(function) if function is not None else None


def text_below(space: ModuleType, name: str) -> str:
    """The text below the assignment of that name, in the module of the namespace or in that which it takes it from."""
    homes = getattr(space, "_HOMES", {})
    if name in homes:
        module, _, attribute = homes[name].partition(":")
        return text_below(importlib.import_module(module), attribute) if attribute else ""
    for statement in _tree(space).body:
        taken = [alias for alias in getattr(statement, "names", ()) if (alias.asname or alias.name) == name]
        if taken and isinstance(statement, ast.ImportFrom) and statement.module:
            return text_below(importlib.import_module(statement.module), taken[0].name)
    return texts_below(space).get(name, "")


@cache
def texts_below(owner: ModuleType | type) -> dict[str, str]:
    """The texts that stand alone below an assignment, by the assigned name, in a module or class."""
    module = sys.modules[owner.__module__] if inspect.isclass(owner) else owner
    body = _tree(module).body
    for name in owner.__qualname__.split(".") if inspect.isclass(owner) else ():
        classes = (node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
        body = next((node.body for node in classes), [])
    texts = {}
    for statement, below in pairwise(body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            texts[target.id] = str(below.value.value)
    return texts


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


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
