"""Everything that can be made to happen in a run, as values.

Times are milliseconds after the start of the scenario. A `stream` of None is the first stream of the scenario.
`script.network` holds what can be said about the network for the whole of a run, `script.noting` which time a writer
notes.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wmlab.core.units import Ms, Period
from wmlab.streams.scenario import network, noting
from wmlab.streams.scenario.actions.controllers import (
    AddController,
    CommitPoint,
    CrashController,
    CyclePoint,
    ExpireSession,
    LoseBucketOwner,
    LoseMarksSegment,
    PauseController,
    RemoveController,
    TruncateMarks,
)
from wmlab.streams.scenario.actions.network import Partition, StepClock, StoreUnavailable
from wmlab.streams.scenario.actions.readers import (
    AddReader,
    Checkpoint,
    CrashReader,
    PauseReader,
    ReleaseSegment,
    RemoveReader,
    ResetToCheckpoint,
)
from wmlab.streams.scenario.actions.streams import DeleteStream, Scale, SealStream, TruncateStream
from wmlab.streams.scenario.actions.transactions import (
    AbortTransaction,
    CommitTransaction,
    CrashCommitHandler,
    LoseMergeReply,
    SlowTransaction,
    WriteInTransaction,
)
from wmlab.streams.scenario.actions.writers import (
    CrashWriter,
    DuplicateWriter,
    MarkIdle,
    NoteTime,
    ShutDownWriter,
    SilenceWriter,
)

__all__ = [
    "AbortTransaction",
    "Action",
    "AddController",
    "AddReader",
    "Checkpoint",
    "CommitPoint",
    "CommitTransaction",
    "CrashCommitHandler",
    "CrashController",
    "CrashReader",
    "CrashWriter",
    "CyclePoint",
    "DeleteStream",
    "DuplicateWriter",
    "ExpireSession",
    "LoseBucketOwner",
    "LoseMarksSegment",
    "LoseMergeReply",
    "MarkIdle",
    "Ms",
    "NoteTime",
    "Partition",
    "PauseController",
    "PauseReader",
    "Period",
    "ReleaseSegment",
    "RemoveController",
    "RemoveReader",
    "ResetToCheckpoint",
    "Scale",
    "SealStream",
    "ShutDownWriter",
    "SilenceWriter",
    "SlowTransaction",
    "StepClock",
    "StoreUnavailable",
    "TruncateMarks",
    "TruncateStream",
    "WriteInTransaction",
    "network",
    "noting",
]

_WriterAction = CrashWriter | SilenceWriter | NoteTime | ShutDownWriter | MarkIdle | DuplicateWriter
_TransactionAction = (
    CommitTransaction | AbortTransaction | WriteInTransaction | SlowTransaction | LoseMergeReply | CrashCommitHandler
)
_NetworkAction = Partition | StoreUnavailable | StepClock
_ControllerAction = (
    CrashController | PauseController | ExpireSession | LoseBucketOwner | AddController | RemoveController
)
_StreamAction = Scale | TruncateStream | SealStream | DeleteStream | LoseMarksSegment | TruncateMarks
_ReaderAction = CrashReader | PauseReader | AddReader | RemoveReader | ReleaseSegment | Checkpoint | ResetToCheckpoint
Action = Annotated[
    _WriterAction | _TransactionAction | _NetworkAction | _ControllerAction | _StreamAction | _ReaderAction,
    Field(discriminator="kind"),
]
"""Any entry of a script."""
