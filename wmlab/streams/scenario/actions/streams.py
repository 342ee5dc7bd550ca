"""What can happen to a whole stream: it is scaled, truncated, sealed, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from wmlab.core.units import Ms, Offset, Period
from wmlab.core.values import value
from wmlab.streams.model.keyspace import KeyRange

_MOST_PARTS = 1_000


def _count_or_ranges(offered: object) -> object:
    count = isinstance(offered, int) and not isinstance(offered, bool) and 1 <= offered <= _MOST_PARTS
    if not count and not (isinstance(offered, Sequence) and offered and all(isinstance(text, str) for text in offered)):
        raise ValueError(f"give a count from 1 to {_MOST_PARTS:,}, or the new key ranges")
    return offered


Into = Annotated[int | tuple[str, ...], BeforeValidator(_count_or_ranges)]


@value
class Scale:
    """Seal segments and open new ones over the same key space (PDP-33, "Watermark Computation", the example).

    `seal` names open segments as `number@epoch`; after a rolling transaction the copy of the same number is meant.
    `into` is how many equal parts their key space becomes, one to merge, for which the sealed segments must be
    neighbours in key space; or it lists the new key ranges, exactly, as "0..3/5" or "0.3..0.6".
    """

    _: KW_ONLY
    at_ms: Ms
    seal: Annotated[tuple[str, ...], Field(min_length=1)]
    into: Into = 2
    stream: str | None = None
    kind: Literal["scale"] = "scale"

    @property
    def ranges(self) -> int | tuple[KeyRange, ...]:
        """What it makes, in the words of the model. Raises `ModelError` for text that is not a key range."""
        return self.into if isinstance(self.into, int) else tuple(KeyRange.parse(text) for text in self.into)


@value
class TruncateStream:
    """Everything written before a cut is deleted; `cut` maps `number@epoch` to an offset in bytes.

    None: everything written until then. A new reader group starts at the cut; the marks stay.
    """

    _: KW_ONLY
    at_ms: Ms
    cut: dict[str, Offset] | None = None
    stream: str | None = None
    kind: Literal["truncate_stream"] = "truncate_stream"


@value
class SealStream:
    """All segments are sealed and nothing follows them; a writer stops when an append is refused."""

    _: KW_ONLY
    at_ms: Ms
    stream: str | None = None
    kind: Literal["seal_stream"] = "seal_stream"


@value
class DeleteStream:
    """The stream, its marks and its marks segment are deleted, and created anew after `recreate_after_ms`, if at all.

    The new stream has the same name and starts at epoch 0, with segment numbers that were never used; its writers
    and readers start again then. A recording tells the two apart: the tables call the second one `name#2`.
    """

    _: KW_ONLY
    at_ms: Ms
    recreate_after_ms: Period | None = None
    stream: str | None = None
    kind: Literal["delete_stream"] = "delete_stream"
