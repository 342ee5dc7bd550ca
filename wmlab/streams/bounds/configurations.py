"""The configurations that a user names for a replay or a live query, checked field by field.

An executor of Spark gets them checked, and imports neither this nor pydantic.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Final

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from wmlab.core.values import Flag, Ms, Period, Problems, Time, problems_of
from wmlab.streams.model.replay import Configuration
from wmlab.streams.scenario.rules import Rules

_STRICT: Final = {
    "timeout_ms": Ms,
    "period_ms": Period,
    "start_delay_ms": Ms | None,
    "first_barrier": Time | None,
    "expected_writers": Annotated[int, Field(ge=1, strict=True)],
    "leaves_bucket": Flag,
    **{name: Flag for name, said in Rules.decided.items() if isinstance(said.values["sound"], bool)},
}
"""The types of fields for which pydantic would take "no" for a flag, or True for a number; flags of the rules among
them."""


def _adapter() -> Any:
    """What checks configurations by label, by the types and defaults of `Configuration`."""
    types = typing.get_type_hints(Configuration) | _STRICT
    by_name: Any = {field.name: (types[field.name], field.default) for field in fields(Configuration)}
    checked: Any = create_model("Configuration", __config__=ConfigDict(extra="forbid"), **by_name)
    return TypeAdapter(dict[str, Annotated[checked, BeforeValidator(_plain_fields)]])


def _plain_fields(offered: object) -> dict[str, object]:
    """The fields of a configuration, with numbers of numpy as plain ones."""
    written = asdict(offered) if isinstance(offered, Configuration) else offered
    if not isinstance(written, Mapping):
        raise ValueError("give a Configuration, or a mapping of its fields")
    return {name: field.item() if isinstance(field, np.generic) else field for name, field in written.items()}


_CONFIGURATIONS: Final = _adapter()


def configurations(offered: Mapping[str, Configuration | Mapping[str, Any]]) -> dict[str, Configuration]:
    """The configurations by label, all their fields checked. Raises `Problems`."""
    try:
        checked = _CONFIGURATIONS.validate_python(offered)
    except ValidationError as wrong:
        raise Problems("The replay", problems_of(wrong, offered)) from None
    return {label: Configuration(**dict(of_label)) for label, of_label in checked.items()}
