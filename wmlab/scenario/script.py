"""Everything that can be made to happen in a run, as values: scaling, crashes, silence, and all that others define.

Times are milliseconds after the start of the scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from wmlab.model.keyspace import KeyRange
from wmlab.scenario.txn_script import AbortTransaction as AbortTransaction
from wmlab.scenario.txn_script import CommitTransaction as CommitTransaction
from wmlab.scenario.txn_script import CrashCommitHandler as CrashCommitHandler
from wmlab.scenario.txn_script import LoseMergeReply as LoseMergeReply
from wmlab.scenario.txn_script import SlowTransaction as SlowTransaction
from wmlab.scenario.txn_script import TxnAction
from wmlab.scenario.units import Ms as Ms
from wmlab.scenario.units import Period as Period
from wmlab.scenario.value import value
from wmlab.scenario.writer_script import DuplicateWriter as DuplicateWriter
from wmlab.scenario.writer_script import MarkIdle as MarkIdle
from wmlab.scenario.writer_script import NoteTime as NoteTime
from wmlab.scenario.writer_script import ShutDownWriter as ShutDownWriter
from wmlab.scenario.writer_script import WriterAction

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
    kind: Literal["scale"] = "scale"


def new_ranges(into: int | Sequence[str]) -> int | tuple[KeyRange, ...]:
    """What a scale makes, in the words of the model. Raises `ModelError` for text that is not a key range."""
    return into if isinstance(into, int) else tuple(KeyRange.parse(text) for text in into)


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


Action = Annotated[Scale | CrashWriter | SilenceWriter | WriterAction | TxnAction, Field(discriminator="kind")]
"""Any entry of a script."""
