"""What can happen to writers: crashes, silence, explicit notes, goodbyes, and a second process with the same id.

A writer with several processes is called like its first one; the others are `w1/2`, `w1/3` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import BeforeValidator

from wmlab.core.units import Ms, Offset, Period, Time
from wmlab.core.values import value


def _pairs(offered: object) -> object:
    return tuple(offered.items()) if isinstance(offered, Mapping) else offered


Offsets = Annotated[tuple[tuple[str, Offset | None], ...], BeforeValidator(_pairs)]
"""Segments as `number@epoch` with their offsets, as a mapping or as pairs; None: nothing acknowledged yet."""


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
class NoteTime:
    """The application notes a time explicitly (PDP-33, "Event Writer API Changes").

    The position is the writer's own, unless `position` gives another one, which may be partial, empty, or name
    segments that the stream never had. A writer that notes time automatically refuses; that is recorded.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    time: Time
    position: Offsets | None = None
    kind: Literal["note_time"] = "note_time"


@value
class ShutDownWriter:
    """Close a writer gracefully: what it has is written and acknowledged, then it says goodbye to a controller.

    With `last_note` it notes the time once more before that; without, no mark covers what it wrote after its last
    note, and that may come late. Pravega's client neither notes nor says goodbye when it closes:
    `tell_controller=False` (the call exists since PDP-33, "Internal Changes", but nothing uses it on master).
    A transactional writer commits what is open and waits until that is done.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    last_note: bool = False
    tell_controller: bool = True
    restart_after_ms: Period | None = None
    backlog: Literal["lost", "kept"] = "lost"
    kind: Literal["shut_down_writer"] = "shut_down_writer"


@value
class MarkIdle:
    """A writer says that it is idle and notes nothing for `for_ms`, or until the end when that is None.

    It goes on writing. Its next noted time lets it take part again (Pravega issue 7387, `markIdle`).
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    for_ms: Period | None = None
    kind: Literal["mark_idle"] = "mark_idle"


@value
class DuplicateWriter:
    """A second process starts under the same writer id while the first one goes on noting (PDP-33, "Metadata").

    That is what happens when a partitioned writer is replaced: to the network the new process is a party of its own,
    so a partition of the first one leaves it alone. `load` says who writes the events that happen from then on: the
    new process alone (`moves`), or both (`copied`). It is called after its writer, `w1/2`.
    """

    _: KW_ONLY
    at_ms: Ms
    writer: str
    load: Literal["moves", "copied"] = "moves"
    kind: Literal["duplicate_writer"] = "duplicate_writer"
