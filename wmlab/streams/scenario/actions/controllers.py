"""What can happen to controllers: they join, leave, crash, pause, and lose their session or a bucket.

Besides a name such as `controller-1`, three roles name a controller: `leader` is the one that owns the bucket of the
stream (of the first stream, unless `stream` says otherwise), `committer` the one that commits the transactions of the
stream, `distributor` the elected one that spreads the buckets.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Literal

from wmlab.core.units import Ms, Period
from wmlab.core.values import value

CyclePoint = Literal["after_marks", "after_log", "before_removal", "before_append", "after_append", "before_leave"]
"""A place in the watermark cycle: the writer marks are read; then the log; writers are about to be removed; the
watermark is about to be appended; it is appended but neither its record in the index nor the mark pointer is written
yet; the stream is about to be taken out of its bucket."""
CommitPoint = Literal["before_merge", "after_merge", "after_noting"]
"""A place in the commit of a batch of transactions: nothing is done; all events can be read and no mark is noted; the
marks are noted and the transactions not recorded as committed."""


@value
class CrashController:
    """Stop a controller without a word: at once, or when its cycle or its commits next come to `point`.

    Its session lives on until it times out, and only then others take over its buckets and its commits.
    """

    _: KW_ONLY
    at_ms: Ms
    controller: str = "leader"
    stream: str | None = None
    point: CyclePoint | CommitPoint | None = None
    restart_after_ms: Period | None = None
    kind: Literal["crash_controller"] = "crash_controller"


@value
class PauseController:
    """Freeze a controller for `for_ms`, at once or when its cycle or its commits next come to `point`; then it goes on.

    A pause longer than the session timeout costs it its session, which it learns after it has gone on.
    """

    _: KW_ONLY
    at_ms: Ms
    for_ms: Period
    controller: str = "leader"
    stream: str | None = None
    point: CyclePoint | CommitPoint | None = None
    kind: Literal["pause_controller"] = "pause_controller"


@value
class ExpireSession:
    """The coordination service ends a controller's session; the controller works on for `notice_after_ms`.

    Others may own its buckets meanwhile: two leaders. When it notices, it starts its services again.
    """

    _: KW_ONLY
    at_ms: Ms
    controller: str = "leader"
    stream: str | None = None
    notice_after_ms: Ms = 5_000
    kind: Literal["expire_session"] = "expire_session"


@value
class LoseBucketOwner:
    """The owner of a stream's bucket gives it up, and nobody can take it for `for_ms`."""

    _: KW_ONLY
    at_ms: Ms
    for_ms: Period
    stream: str | None = None
    kind: Literal["lose_bucket_owner"] = "lose_bucket_owner"


@value
class AddController:
    """One more controller joins; it gets the next free name."""

    _: KW_ONLY
    at_ms: Ms
    kind: Literal["add_controller"] = "add_controller"


@value
class RemoveController:
    """A controller leaves in good order: it gives up its buckets and ends its session."""

    _: KW_ONLY
    at_ms: Ms
    controller: str
    kind: Literal["remove_controller"] = "remove_controller"


@value
class LoseMarksSegment:
    """The marks segment of a stream cannot be found for `for_ms`; its content is there again afterwards."""

    _: KW_ONLY
    at_ms: Ms
    for_ms: Period
    stream: str | None = None
    kind: Literal["lose_marks_segment"] = "lose_marks_segment"


@value
class TruncateMarks:
    """The marks segment is truncated; only its newest `keep` entries stay.

    Nobody does that in the real system. With `keep` 0 the mark pointer lies before the start, and no cycle succeeds.
    """

    _: KW_ONLY
    at_ms: Ms
    keep: Ms = 1
    stream: str | None = None
    kind: Literal["truncate_marks"] = "truncate_marks"
