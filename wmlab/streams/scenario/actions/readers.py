"""What can be made to happen to a reader group, as values.

Times are milliseconds after the start of the scenario; readers are called after their group: `readers-0`,
`readers-1` and so on. `group` names the group where there are several.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Literal

from wmlab.core.units import Ms, Name, Period
from wmlab.core.values import value


@value
class CrashReader:
    """Stop a reader without a word; what it read since it last published is read again by others.

    A group never notices by itself: somebody declares the reader offline, `offline_after_ms` later, and its segments
    are free from then on. None: nobody does, and its segments hold the group. The next owner of a segment begins at
    the last checkpoint, or where the reader had taken it over if that is later (upstream `ReaderGroupState`).
    With `restart_after_ms` a new reader of that name joins.
    """

    _: KW_ONLY
    at_ms: Ms
    reader: str
    offline_after_ms: Ms | None = 0
    restart_after_ms: Period | None = None
    kind: Literal["crash_reader"] = "crash_reader"


@value
class PauseReader:
    """A reader keeps its segments and neither reads nor publishes for `for_ms`, or until the end when that is None."""

    _: KW_ONLY
    at_ms: Ms
    reader: str
    for_ms: Period | None = None
    kind: Literal["pause_reader"] = "pause_reader"


@value
class AddReader:
    """A new reader joins the group; it acquires segments as others give them back."""

    _: KW_ONLY
    at_ms: Ms
    reader: Name
    group: str | None = None
    kind: Literal["add_reader"] = "add_reader"


@value
class RemoveReader:
    """A reader closes: it releases its segments where it stands and leaves the group."""

    _: KW_ONLY
    at_ms: Ms
    reader: str
    kind: Literal["remove_reader"] = "remove_reader"


@value
class ReleaseSegment:
    """A reader gives a segment, `number@epoch`, back; nobody acquires it for `keep_free_ms`.

    `stream` says of which stream, for a group that reads several; None: of the first one.
    Nothing happens if it does not own the segment at that time.
    """

    _: KW_ONLY
    at_ms: Ms
    reader: str
    segment: str
    stream: str | None = None
    keep_free_ms: Ms = 0
    kind: Literal["release_segment"] = "release_segment"


@value
class Checkpoint:
    """Ask the group for a checkpoint; each reader reports at its next turn, and the last one completes it."""

    _: KW_ONLY
    at_ms: Ms
    name: Name
    group: str | None = None
    kind: Literal["checkpoint"] = "checkpoint"


@value
class ResetToCheckpoint:
    """Take the whole group back to a checkpoint, the last completed one when none is named; all readers begin anew.

    `ranges=False`: the key ranges of the segments are not known after the reset, so that each of them is compared
    with all segments of a stream cut (upstream issue 4194). Nothing happens if there is no such completed checkpoint.
    """

    _: KW_ONLY
    at_ms: Ms
    checkpoint: Name | None = None
    ranges: bool = True
    group: str | None = None
    kind: Literal["reset_to_checkpoint"] = "reset_to_checkpoint"


ReaderAction = CrashReader | PauseReader | AddReader | RemoveReader | ReleaseSegment | Checkpoint | ResetToCheckpoint
"""Any entry of a script that concerns readers."""
