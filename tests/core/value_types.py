"""The classes of values of the package: all of them, what a field may hold and what it says, and one value of each."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
import types
import typing
from typing import Any, Final

import numpy as np

import wmlab
from wmlab import dataflow, progress
from wmlab.core.errors import WmlabError
from wmlab.core.values import Problem, Problems

NO_FLAGS: Final[tuple[Any, ...]] = ("no", "yes", "true", "", 0, 1, 1.0, [], [True], np.array([True]), np.int64(1))


def value_types() -> list[type]:
    """Every class of the package that pydantic validates."""
    for module in pkgutil.walk_packages(wmlab.__path__, "wmlab."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    modules = [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "wmlab"]
    return [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and found.__module__ == module.__name__ and "__pydantic_validator__" in vars(found)
    ]


TYPES: Final[list[Any]] = value_types()


def choices(hint: Any) -> tuple[Any, ...]:
    """The branches of a union, or the one type that it is."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


class Field(typing.NamedTuple):
    """A field of a class of values, with all types that it may hold."""

    made: Any
    name: str
    choices: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.made.__module__.split('.')[1]}.{self.made.__name__}.{self.name}"


def fields_of(made: Any) -> list[Field]:
    hints = typing.get_type_hints(made)
    return [Field(made, field.name, choices(hints[field.name])) for field in dataclasses.fields(made) if field.init]


FIELDS: Final = [field for made in TYPES for field in fields_of(made)]


def is_inherited(field: Field) -> bool:
    """Whether a base that is a class of values itself has the field with the same type."""
    has_own_type = field.name in vars(field.made).get("__annotations__", {})
    return not has_own_type and any(Field(base, *field[1:]) in FIELDS for base in field.made.__mro__[1:])


def refused(made: Any, *places: Any, **fields: Any) -> list[Problem]:
    """What is said of each field, if the value cannot be made; anything but an error of wmlab goes on."""
    try:
        made(*places, **fields)
    except Problems as error:
        return list(error.problems)
    except WmlabError as error:
        return [Problem((), str(error))]
    return []


def refused_at(made: Any, name: str, offered: object) -> list[Problem]:
    """What is said of that field of a value of which no other is given."""
    return [problem for problem in refused(made, **{name: offered}) if problem.location[:1] in ((name,), ())]


def example(made: Any) -> Any:
    """A value of the class, of which only what is required is given."""
    missing = dataclasses.MISSING
    required = {f.name for f in dataclasses.fields(made) if f.default is missing and f.default_factory is missing}
    by_type = {field.name: BY_TYPE.get(field.choices[0]) for field in fields_of(made)}
    given = {name: BY_NAME.get(name, by_type[name]) for name in required}
    return made(**given | BY_CLASS.get(f"{made.__module__}.{made.__name__}".removeprefix("wmlab."), {}))


BY_TYPE: Final[dict[Any, Any]] = {int: 5, float: 0.5, str: "n"}
"""What a field holds that has to be given, by the first type of its choices."""
BY_NAME: Final[dict[str, Any]] = {
    "aggregates": {"n": "count()"},
    "b": "reader-1",
    "columns": ["t"],
    "condition": "left.t <= right.t",
    "edges": "s -> out",
    "fault": "lose",
    "function": len,
    "operators": [],
    "queries": [progress.Query("q", sources=[progress.Source("s", rate_per_s=5)])],
    "rows": [[1]],
    "seal": ["0"],
    "sources": [progress.Source("s", rate_per_s=5)],
    "time": 4,
    "vertices": [dataflow.Source("s", columns=["t"], rows=[[1]]), dataflow.Sink("out")],
    "where": "t > 1",
    "writers": [wmlab.EventWriter("w", rate_per_s=5)],
}
BY_CLASS: Final[dict[str, dict[str, Any]]] = {
    "dataflow.scenario.source.Source": {"columns": ["t"], "rows": [[1], [2]], "times": "t"},
    "dataflow.scenario.vertices.Custom": {"function": divmod},
    "dataflow.scenario.vertices.Selecting": {"function": len},
    "dataflow.scenario.vertices.Map": {"select": {"t": "t"}},
    "dataflow.scenario.vertices.FlatMap": {"select": [{"t": "t"}, {"t": "t + 1"}]},
    "progress.scenario.Source": {"rate_per_s": 5},
    "streams.scenario.noting.Compute": {"time": "clock"},
    "streams.scenario.parts.EventWriter": {"rate_per_s": 5},
    "streams.scenario.parts.TransactionalWriter": {"rate_per_s": 5},
    "streams.scenario.parts.WriterPart": {"rate_per_s": 5},
    "streams.scenario.script.ReleaseSegment": {"segment": "0"},
}
"""Of a class that needs one of several fields, or another value, what is given too."""
