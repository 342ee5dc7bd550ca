"""Everything that can be made to happen in a run, as values: scaling, crashes, silence.

Times are milliseconds after the start of the scenario.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.scenario.value import value

Ms = Annotated[int, Field(ge=0, strict=True)]
Period = Annotated[int, Field(gt=0, strict=True)]


@value
class Scale:
    """Seal segments and open new ones over the same key space (PDP-33, "Watermark Computation", the example).

    `seal` names open segments as `number@epoch`; `into` is how many equal parts their key space becomes, one to
    merge. The sealed segments must be neighbours in key space.
    """

    _: KW_ONLY
    at_ms: Ms
    seal: Annotated[tuple[str, ...], Field(min_length=1)]
    into: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 2
    kind: Literal["scale"] = "scale"


@value
class CrashWriter:
    """Stop a writer without a word; it notes and writes nothing until it restarts, if it does.

    `backlog` says what becomes of events that happened but were not sent when it restarts: `lost` with the
    process, or `kept` by their source and sent at once.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    restart_after_ms: Period | None = None
    backlog: Literal["lost", "kept"] = "lost"
    kind: Literal["crash_writer"] = "crash_writer"


@value
class SilenceWriter:
    """A writer goes on writing but notes no time for `for_ms`, or until the end when that is None."""

    _: KW_ONLY
    at_ms: Ms
    writer: str
    for_ms: Period | None = None
    kind: Literal["silence_writer"] = "silence_writer"


Action = Annotated[Scale | CrashWriter | SilenceWriter, Field(discriminator="kind")]
"""Any entry of a script."""
