"""The plain types that only fields of stream scenarios are made of, and the names of the parties they all have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core.errors import ModelError
from wmlab.core.values import Offset
from wmlab.streams.model.segment import KeyRange, as_segment_id, segment_name

WriterId = Annotated[str, Field(max_length=256, pattern=r"^(\{name\}|[A-Za-z0-9._-])+$")]
"""The id under which a writer's marks are kept; "{name}" stands for the writer's name."""

SEGMENT_STORE: Final = "segment-store"
"""Where segments live, the marks segment and a group's shared state among them."""
METADATA_STORE: Final = "metadata-store"
"""Where writer marks, epochs, transactions and bucket members live."""
COORDINATOR: Final = "coordinator"
"""The coordination service: sessions of controllers, their leader, and who owns which bucket."""
SERVICES: Final = (SEGMENT_STORE, METADATA_STORE, COORDINATOR)
"""The parties of every scenario besides its writers, readers and controllers."""
EVERY: Final = ("writers", "readers", "controllers")
"""Names that stand for all parties of a kind."""


def _key_range(text: str) -> str:
    try:
        KeyRange.parse(text)
    except ModelError as error:
        raise ValueError(error.problem.rstrip(".")) from None
    return text


Keys = Annotated[str, AfterValidator(_key_range)]
"""A key range as "low..high" in rationals, for example "0..1/2"."""


def _by_name(offered: object) -> object:
    """A stream cut with its segments as `number@epoch`, ascending, whether given by id or by name."""
    if not isinstance(offered, Mapping):
        return offered
    try:
        ids = sorted((as_segment_id(segment), segment) for segment in offered)
    except ModelError as error:
        raise ValueError(error.problem) from None
    return {segment_name(identifier): offered[segment] for identifier, segment in ids}


Cut = Annotated[dict[str, Offset], Field(min_length=1), BeforeValidator(_by_name)]
"""A stream cut: offset in bytes by segment; `recording.stream_cut_at` gives one."""


def controller_name(index: int) -> str:
    """The name of the controller with that index, counted from 0 in the order of joining."""
    return f"controller-{index}"


def reader_name(group: str, index: int) -> str:
    """The name of the reader with that index in a group."""
    return f"{group}-{index}"


def process_name(writer: str, number: int) -> str:
    """The name of a writer's process, counted from 1."""
    return writer if number == 1 else f"{writer}/{number}"
