"""Everything that can be made to happen in a run, as values: scaling, crashes, silence.

Times are milliseconds after the start of the scenario.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.scenario.reader_script import AddReader as AddReader
from wmlab.scenario.reader_script import Checkpoint as Checkpoint
from wmlab.scenario.reader_script import CrashReader as CrashReader
from wmlab.scenario.reader_script import PauseReader as PauseReader
from wmlab.scenario.reader_script import ReaderAction
from wmlab.scenario.reader_script import ReleaseSegment as ReleaseSegment
from wmlab.scenario.reader_script import RemoveReader as RemoveReader
from wmlab.scenario.reader_script import ResetToCheckpoint as ResetToCheckpoint
from wmlab.scenario.units import Ms as Ms
from wmlab.scenario.units import Period as Period
from wmlab.scenario.value import value


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


@value
class CrashBeforeIndexAppend:
    """The leader appends its next watermark and stops before the record in the index (PDP-33, "Future Possibilities").

    That is the first watermark emitted at `at_ms` or later. The stream has no leader for `takeover_after_ms`; then
    one without memory takes over, runs its first cycle one period later, and repairs the index.
    """

    _: KW_ONLY
    at_ms: Ms
    takeover_after_ms: Period = 10_000
    kind: Literal["crash_before_index_append"] = "crash_before_index_append"


Action = Annotated[
    Scale | CrashWriter | SilenceWriter | CrashBeforeIndexAppend | ReaderAction, Field(discriminator="kind")
]
"""Any entry of a script."""
