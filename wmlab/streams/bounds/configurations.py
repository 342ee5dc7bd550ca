"""The configurations that a user names for a replay or a live query, checked field by field.

An executor of Spark gets them checked, and imports neither this nor pydantic.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from wmlab.core.arguments import the_duration, the_flag
from wmlab.core.errors import ModelError
from wmlab.core.values import Problems, problems_of
from wmlab.streams.model.replay import Configuration

_HINTS: Final = typing.get_type_hints(Configuration)


def _without_lax_fields(raw: object) -> object:
    """The fields of a configuration, durations as numbers; its annotations would let pydantic take "no" for a flag."""
    if not isinstance(raw, Mapping):
        return raw
    fields = dict(raw)
    for name, offered in raw.items():
        if _HINTS.get(name) is bool:
            the_flag(offered, name, ModelError)
        elif _HINTS.get(name) in (int, int | None) and offered is not None:
            fields[name] = the_duration(offered, ModelError, name=name)
    return fields


_CONFIGURATIONS: Final = TypeAdapter(
    dict[str, Annotated[Configuration, BeforeValidator(_without_lax_fields)]],
    config=ConfigDict(extra="forbid", revalidate_instances="always"),
)


def configurations(offered: Mapping[str, Configuration | Mapping[str, Any]]) -> dict[str, Configuration]:
    """The configurations by label, all their fields checked. Raises `Problems`."""
    try:
        return _CONFIGURATIONS.validate_python(offered)
    except ValidationError as wrong:
        raise Problems("The replay", problems_of(wrong, offered)) from None
