"""Kinds of numbers and names that the fields of a scenario share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from wmlab.errors import ModelError
from wmlab.model.segment import as_segment_id, segment_name

Ms = Annotated[int, Field(ge=0, strict=True)]
"""Milliseconds of simulated time, possibly none."""

Period = Annotated[int, Field(gt=0, strict=True)]
"""Milliseconds of simulated time, at least one."""

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]
"""The name of a party."""


def _by_name(offered: object) -> object:
    """A stream cut with its segments as `number@epoch`, ascending, whether given by id or by name."""
    if not isinstance(offered, Mapping):
        return offered
    try:
        ids = sorted((as_segment_id(segment), segment) for segment in offered)
    except ModelError as error:
        raise ValueError(error.problem) from None
    return {segment_name(identifier): offered[segment] for identifier, segment in ids}


Cut = Annotated[dict[str, Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1), BeforeValidator(_by_name)]
"""A stream cut: offset in bytes by segment; `recording.stream_cut_at` gives one."""
