"""The plain types that scenario fields are made of, and the names of the parties every scenario has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from wmlab.errors import ModelError
from wmlab.model.segment import as_segment_id, segment_name

Ms = Annotated[int, Field(ge=0, strict=True)]
Period = Annotated[int, Field(gt=0, strict=True)]
Share = Annotated[float, Field(ge=0, lt=1, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$")]

SEGMENT_STORE: Final = "segment-store"
"""Where segments live, the marks segment and a group's shared state among them."""
METADATA_STORE: Final = "metadata-store"
"""Where writer marks, epochs and bucket members live."""
COORDINATOR: Final = "coordinator"
"""The coordination service: sessions of controllers, their leader, and who owns which bucket."""
SERVICES: Final = (SEGMENT_STORE, METADATA_STORE, COORDINATOR)
"""The parties of every scenario besides its writers, readers and controllers."""
EVERY: Final = ("writers", "readers", "controllers")
"""Names that stand for all parties of a kind."""


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


def controller_name(index: int) -> str:
    """The name of the controller with that index, counted from 0 in the order of joining."""
    return f"controller-{index}"


def reader_name(group: str, index: int) -> str:
    """The name of the reader with that index in a group."""
    return f"{group}-{index}"
