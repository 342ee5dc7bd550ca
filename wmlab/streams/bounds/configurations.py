"""The configurations that a user names for a replay or a live query, checked field by field.

An executor of Spark gets them checked, and imports neither this nor pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from wmlab.core.values import Problems, problems_of
from wmlab.streams.model.replay import Configuration

_CONFIGURATIONS: Final = TypeAdapter(
    dict[str, Configuration], config=ConfigDict(extra="forbid", revalidate_instances="always")
)


def configurations(offered: Mapping[str, Configuration | Mapping[str, Any]]) -> dict[str, Configuration]:
    """The configurations by label, all their fields checked. Raises `Problems`."""
    try:
        return _CONFIGURATIONS.validate_python(offered)
    except ValidationError as wrong:
        raise Problems("The replay", problems_of(wrong, offered)) from None
