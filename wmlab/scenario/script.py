"""Everything that can be made to happen in a run, as values.

Times are milliseconds after the start of the scenario. A `stream` of None is the first stream of the scenario.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.scenario.reader_script import (
    AddReader,
    Checkpoint,
    CrashReader,
    PauseReader,
    ReaderAction,
    ReleaseSegment,
    RemoveReader,
    ResetToCheckpoint,
)
from wmlab.scenario.script_controllers import (
    AddController,
    CrashBeforeIndexAppend,
    CrashController,
    CyclePoint,
    ExpireSession,
    LoseBucketOwner,
    LoseMarksSegment,
    PauseController,
    RemoveController,
    TruncateMarks,
)
from wmlab.scenario.script_network import Partition, StepClock, StoreUnavailable
from wmlab.scenario.script_streams import DeleteStream, ReplaceWriter, SealStream, TruncateStream
from wmlab.scenario.units import Ms, Period
from wmlab.scenario.value import value

__all__ = [
    "Action",
    "AddController",
    "AddReader",
    "Checkpoint",
    "CrashBeforeIndexAppend",
    "CrashController",
    "CrashReader",
    "CrashWriter",
    "CyclePoint",
    "DeleteStream",
    "ExpireSession",
    "LoseBucketOwner",
    "LoseMarksSegment",
    "Ms",
    "Partition",
    "PauseController",
    "PauseReader",
    "Period",
    "ReleaseSegment",
    "RemoveController",
    "RemoveReader",
    "ReplaceWriter",
    "ResetToCheckpoint",
    "Scale",
    "SealStream",
    "SilenceWriter",
    "StepClock",
    "StoreUnavailable",
    "TruncateMarks",
    "TruncateStream",
]


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
    stream: str | None = None
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


_WriterAction = Scale | CrashWriter | SilenceWriter | ReplaceWriter
_NetworkAction = Partition | StoreUnavailable | StepClock
_ControllerAction = (
    CrashController
    | CrashBeforeIndexAppend
    | PauseController
    | ExpireSession
    | LoseBucketOwner
    | AddController
    | RemoveController
)
_StreamAction = TruncateStream | SealStream | DeleteStream | LoseMarksSegment | TruncateMarks
Action = Annotated[
    _WriterAction | _NetworkAction | _ControllerAction | _StreamAction | ReaderAction, Field(discriminator="kind")
]
"""Any entry of a script."""
