"""What can happen to a whole stream: it is truncated, sealed, deleted; and a writer gets a second process."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.scenario.units import Ms, Period
from wmlab.scenario.value import value


@value
class TruncateStream:
    """Everything written before a cut is deleted; `cut` maps `number@epoch` to an offset in bytes.

    None: everything written until then. A new reader group starts at the cut; the marks stay.
    """

    _: KW_ONLY
    at_ms: Ms
    cut: dict[str, Annotated[int, Field(ge=0, strict=True)]] | None = None
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


@value
class ReplaceWriter:
    """A second process starts under a writer's id, as for a writer that is believed dead but is not.

    To the network it is a party of its own, `NAME (replacement)`, so a partition of the first one leaves it alone.
    The first process goes on. The new one draws a load of its own from now to the end, as the writer's description
    says; for a writer that replays a trace there is none, and it only notes.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    kind: Literal["replace_writer"] = "replace_writer"
