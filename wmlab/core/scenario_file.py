"""What every scenario can do with a file: YAML both ways, mistakes reported with their location and line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from pydantic import TypeAdapter, ValidationError

from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems, plain, problems_of
from wmlab.core.yamlfile import dump, line_of, parse, read_text

KINDS: Final = {"writers": "wm.Scenario", "queries": "wm.progress.PlanScenario", "vertices": "wm.dataflow.Dataflow"}
"""The field that only one kind of scenario has, and what users call that kind."""


class ScenarioFile:
    """The base of the scenarios, which are values: written as YAML, read back equal, replaced but never changed."""

    def replace(self, **fields: Any) -> Self:
        """The same scenario with some fields changed."""
        return dataclasses.replace(self, **fields)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """The scenario as dicts, lists and scalars; defaults are left out."""
        return dict(plain(self))  # type: ignore[call-overload,no-any-return]

    def to_yaml(self) -> str:
        """The scenario as YAML text that `from_yaml` reads back to an equal scenario."""
        return dump(self.to_dict())

    def save(self, path: str | Path) -> Path:
        """Write the scenario as a YAML file; returns its path."""
        target = Path(path)
        target.write_text(self.to_yaml(), encoding="utf-8")
        return target

    @classmethod
    def from_yaml(cls, text: str, *, source: str = "the YAML text") -> Self:
        """Read a scenario from YAML text; every mistake is reported with its location and line."""
        data, lines = parse(text, source)
        _require_kind(cls, data, source)
        try:
            return TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            found = problems_of(error, data)
            located = (dataclasses.replace(p, line=line_of(p.location, lines)) for p in found)
            raise Problems(source, located) from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a scenario from a YAML file."""
        return cls.from_yaml(read_text(path), source=str(path))


def _require_kind(cls: type, data: Mapping[str, object], source: str) -> None:
    """Refuse a file that is a scenario of another kind, and say of which."""
    own = {field.name for field in dataclasses.fields(cls)}
    for field, kind in KINDS.items():
        if field in data and field not in own:
            raise ScenarioError(
                f"{source} has {field!r}: it is a {kind}, not a {cls.__name__}.", remedy=f"load it with {kind}.load."
            )
