"""The actions of a script, as values: faults, scales, and everything else that can happen in a run.

Times are milliseconds after the start of the scenario. `stream` names a stream; None is the first one of the scenario.
What was stopped starts again after `restart_after_ms`; None: never.

A `writer` is called as in the scenario. One with several processes is called like its first one; the others are `w1/2`,
`w1/3` and so on.
A `transaction` is named after its writer and counted from 1, `t1-1`, `t1-2`; None: the oldest open one.
A `controller` is named, or told by its role: `leader` owns the bucket of the stream (of the first one, unless `stream`
says otherwise), `committer` commits the transactions of the stream, `distributor` is elected to spread the buckets.
A `reader` is called after its group, `readers-0` and so on.
`group` names a reader group where there are several; None: the only one.

`script.network` holds what can be said about the network for the whole of a run, `script.noting` which time a writer
notes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core import namespace
from wmlab.core.values import (
    EACH_ONCE,
    Flag,
    Ms,
    Name,
    Offset,
    Period,
    Problem,
    SignedMs,
    Time,
    Timed,
    action,
    each_once,
)
from wmlab.core.words import grouped
from wmlab.streams.model.segment import KeyRange
from wmlab.streams.scenario import network as network, noting as noting
from wmlab.streams.scenario.noting import EarliestOpen, Noting
from wmlab.streams.scenario.parts import EventWriter, WriterId, WriterPart

__all__ = [
    "AbortTransaction",
    "AddController",
    "AddReader",
    "Checkpoint",
    "CommitTransaction",
    "CrashCommitHandler",
    "CrashController",
    "CrashReader",
    "CrashWriter",
    "CreateStream",
    "DeleteStream",
    "DuplicateWriter",
    "ExpireSession",
    "LoseBucketOwner",
    "LoseMarksSegment",
    "LoseMergeReply",
    "MarkIdle",
    "NoteTime",
    "Partition",
    "PauseController",
    "PauseReader",
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
    "TakeStreamCut",
    "TruncateMarks",
    "TruncateStream",
    "UpgradeWriter",
    "WriteInTransaction",
    "network",
    "noting",
]
namespace(__name__)

CyclePoint = Literal["after_marks", "after_log", "before_removal", "before_append", "after_append", "before_leave"]
"""A place in the watermark cycle: the writer marks are read; then the log; writers are about to be removed; the
watermark is about to be appended; it is appended but neither its record in the index nor the mark pointer is written
yet; the stream is about to be taken out of its bucket."""
CommitPoint = Literal["before_merge", "after_merge", "after_noting"]
"""A place in the commit of a batch of transactions: nothing is done; all events can be read and no mark is noted; the
marks are noted and the transactions not recorded as committed."""
ScalePoint = Literal["between_seals"]
"""A place in a scale in steps: one of its segments is sealed, and the next one is still open."""
ControllerPoint = Literal[CyclePoint, CommitPoint, ScalePoint]
"""Any place in what a controller does."""


@action
class CrashController(Timed):
    """Crash a controller: at once, or when its cycle, its commits or its scale next reach `point`.

    Its session lives on until it times out, and only then others take over its buckets and its commits.
    """

    controller: str = "leader"
    stream: str | None = None
    point: ControllerPoint | None = None
    restart_after_ms: Period | None = None


@action
class PauseController(Timed):
    """Freeze a controller for `for_ms`, at once or when it next reaches `point`, as in `CrashController`.

    Then it continues. In a pause longer than the session timeout it loses its session, but notices only afterwards.
    """

    for_ms: Period
    controller: str = "leader"
    stream: str | None = None
    point: ControllerPoint | None = None


@action
class ExpireSession(Timed):
    """The coordination service ends a controller's session; the controller continues to work for `notice_after_ms`.

    Meanwhile others may own its buckets, so there are two leaders. When it notices, it restarts its services.
    """

    controller: str = "leader"
    stream: str | None = None
    notice_after_ms: Ms = 5_000


@action
class LoseBucketOwner(Timed):
    """The owner of a stream's bucket gives it up, and no controller can take it for `for_ms`."""

    for_ms: Period
    stream: str | None = None


@action
class AddController(Timed):
    """One more controller joins; it gets the next free name."""


@action
class RemoveController(Timed):
    """A controller leaves properly: it gives up its buckets and ends its session."""

    controller: str


@action
class LoseMarksSegment(Timed):
    """The marks segment of a stream is unavailable for `for_ms`; afterwards its content is there again."""

    for_ms: Period
    stream: str | None = None


@action
class TruncateMarks(Timed):
    """The marks segment is truncated; only its newest `keep` entries stay.

    The real system never does this. With `keep` 0 the mark pointer lies before the start, and no cycle succeeds.
    """

    keep: Annotated[int, Field(ge=0, le=10**9, strict=True)] = 1
    stream: str | None = None


# Writers.


def _pairs(raw: object) -> object:
    return tuple(raw.items()) if isinstance(raw, Mapping) else raw


def _each_segment_once(pairs: tuple[tuple[str, int | None], ...]) -> tuple[tuple[str, int | None], ...]:
    each_once([segment for segment, _ in pairs])
    return pairs


SegmentOffsets = Annotated[
    tuple[tuple[str, Offset | None], ...], BeforeValidator(_pairs), AfterValidator(_each_segment_once)
]
"""Segments as `number@epoch` with their offsets, as a mapping or as pairs; None: nothing acknowledged yet."""


@action
class CrashWriter(Timed):
    """Crash a writer; it notes and writes nothing until it restarts, if it does.

    `backlog` says what happens to unsent events when it restarts: they are `lost` with the process, or `kept` by their
    source and sent at once.
    """

    writer: str
    restart_after_ms: Period | None = None
    backlog: Literal["lost", "kept"] = "lost"


@action
class SilenceWriter(Timed):
    """A writer continues to write but notes no time for `for_ms`, or until the end if that is None."""

    writer: str
    for_ms: Period | None = None


@action
class NoteTime(Timed):
    """The application notes `time` explicitly (PDP-33, "Event Writer API Changes").

    The position is the writer's own, unless `position` gives another one, which may be partial, empty, or name
    segments that the stream never had. A writer that notes time automatically refuses; that is recorded.
    """

    writer: str
    time: Time
    position: SegmentOffsets | None = None


@action
class ShutDownWriter(Timed):
    """Close a writer properly: its events are written and acknowledged, and then it tells a controller that it leaves.

    With `last_note` it notes the time once more before that. Without it, no mark covers the events after its last note,
    and they may be late. The call is that of PDP-33, "Internal Changes"; Pravega's client does not make it. A
    transactional writer commits its open transactions and waits for them. `backlog` is as in `CrashWriter`.
    """

    writer: str
    last_note: Flag = False
    restart_after_ms: Period | None = None
    backlog: Literal["lost", "kept"] = "lost"


@action
class MarkIdle(Timed):
    """A writer reports that it is idle and notes nothing for `for_ms`, or until the end if that is None.

    It continues to write. From its next noted time on, it counts again (Pravega issue 7387, `markIdle`).
    """

    writer: str
    for_ms: Period | None = None


@action
class DuplicateWriter(Timed):
    """A second process starts under the same writer id while the first one keeps noting (PDP-33, "Metadata").

    This happens when a partitioned writer is replaced. To the network, the new process is a separate node, so a
    partition of the first one does not affect it. `load` says which process writes the events from then on: only the
    new one (`moves`), or both (`copied`). The process is named after its writer, `w1/2`.
    """

    writer: str
    load: Literal["moves", "copied"] = "moves"


_AnyWriter = TypeVar("_AnyWriter", bound=WriterPart)


@action
class UpgradeWriter(Timed):
    """A writer shuts down properly and starts again at once with another client; no event is lost meanwhile.

    In this way a fleet migrates while it writes (PDP-33, "Compatibility and Migration"). An old client has no
    `writer_id` and notes nothing: `EventWriter(writer_id=None, note_every_ms=None)`, or a transactional writer with
    `noting.Never()`. The fields are those that the writer has from then on, by default of a client that notes its
    earliest open event every second; an old client's values take it back. `noting` is which time it notes then. With
    `automatically_note_time` it notes by itself, and not when the application asks. A transactional writer notes when
    it commits, whatever `note_every_ms` says. No controller learns that the old client leaves: if it had an id that the
    new one does not have, its last mark stays until the timeout.
    """

    writer: str
    writer_id: WriterId | None = "{name}"
    note_every_ms: Period | None = 1_000
    noting: Noting = EarliestOpen()
    automatically_note_time: Flag = False

    def client(self, before: _AnyWriter) -> _AnyWriter:
        """The writer with the new client instead of the one `before`."""
        own: dict[str, Any] = {"note_every_ms": self.note_every_ms} if isinstance(before, EventWriter) else {}
        return dataclasses.replace(
            before,
            writer_id=self.writer_id,
            noting=self.noting,
            automatically_note_time=self.automatically_note_time,
            **own,
        )


# Transactions: named after their writer and counted from 1, `t1-1`, `t1-2`; without a name, the oldest open one.
# Source: PDP-33, "Controller Changes"; upstream `CommitRequestHandler`.

ReplyCount = Annotated[int, Field(gt=0, le=10_000_000, strict=True)]


def _time_or_policy(raw: object) -> object:
    if raw in (None, "policy") or (type(raw) is int and -(2**63) <= raw < 2**63):
        return raw
    raise ValueError('give "policy", a 64-bit integer, or nothing for a commit without a time')


CommitTime = Annotated[int | Literal["policy"] | None, BeforeValidator(_time_or_policy)]


@action
class CommitTransaction(Timed):
    """Commit a transaction now, regardless of its writer's plan.

    `time` is the time of `commit(time)`: the time of the writer's noting policy, a given time, or None for `commit()`.
    Committing a transaction that is not open is an error, which is recorded.
    """

    writer: str
    transaction: str | None = None
    time: CommitTime = "policy"


@action
class AbortTransaction(Timed):
    """Abort a transaction now; its events never become visible.

    `backlog` says what happens to them: they are `lost`, or `kept` by their source and written in the next transaction.
    """

    writer: str
    transaction: str | None = None
    backlog: Literal["lost", "kept"] = "lost"


@action
class WriteInTransaction(Timed):
    """Write the writer's pending events to a transaction now, without waiting for the batch.

    Writing to a transaction that is not open is an error, which is recorded; the events go into the next open one.
    """

    writer: str
    transaction: str | None = None


@action
class SlowTransaction(Timed):
    """Hold the writer's oldest open transaction open for `hold_ms` longer than planned."""

    writer: str
    hold_ms: Period


@action
class LoseMergeReply(Timed):
    """Lose the next `count` answers of the segment store to merge requests.

    `noticed_after_ms` later the controller asks again, learns that the transaction is merged already, and takes the
    segment's length instead of the offset (PDP-33, "Server Changes").
    """

    count: ReplyCount = 1
    noticed_after_ms: Period = 1_000
    stream: str | None = None


@action
class CrashCommitHandler(Timed):
    """The handler of a stream's commits fails the next time it reaches `point`; the batch is tried again later.

    Its controller continues. `CrashController(controller="committer", point=...)` crashes the controller, too, and
    another one commits once the session has ended.
    """

    point: CommitPoint = "after_merge"
    restart_after_ms: Period = 1_000
    stream: str | None = None


# What is between the nodes.


@action
class Partition(Timed):
    """Nothing passes between `a` and `b` for `for_ms`, or until the end when that is None.

    Each side is a node (a writer, a reader such as `readers-0`, a controller such as `controller-0`, `segment-store`,
    `metadata-store`, `coordinator`) or all of a kind: `writers`, `readers`, `controllers`. Calls sent meanwhile are
    lost, or with `calls="held"` arrive when it ends; messages on a connection always wait. A controller that stays cut
    off from the coordinator loses its session and does not notice before the end.
    """

    a: str
    b: str
    for_ms: Period | None = None
    calls: Literal["lost", "held"] = "lost"

    def _problems(self) -> Iterator[Problem]:
        if self.a == self.b:
            yield Problem(("b",), f"is the same side as a (got {self.b!r})")


Store = Literal["writer_marks", "segment_metadata", "marks_segment"]
"""The stores that a script may make unavailable."""


@action
class StoreUnavailable(Timed):
    """A store refuses everything for `for_ms`.

    `store` names the store. `writer_marks`: no note can be judged and no cycle run; `segment_metadata`: no cycle can
    compute a cut; `marks_segment`: no cycle can read or extend the log, and readers see no new watermarks.
    """

    for_ms: Period
    store: Store = "writer_marks"


@action
class StepClock(Timed):
    """The clock of `party`, a writer or a controller, is set forward by `by_ms`, or back when negative."""

    party: str
    by_ms: SignedMs

    def _problems(self) -> Iterator[Problem]:
        if not self.by_ms:
            yield Problem(("by_ms",), "sets no clock; give ms forward, or back when negative (got 0)")


# Whole streams.

_MOST_PARTS = 1_000


def _count_or_ranges(raw: object) -> object:
    count = isinstance(raw, int) and not isinstance(raw, bool) and 1 <= raw <= _MOST_PARTS
    if not count and not (isinstance(raw, Sequence) and raw and all(isinstance(text, str) for text in raw)):
        raise ValueError(f"give a count from 1 to {grouped(_MOST_PARTS)}, or the new key ranges")
    return raw


Into = Annotated[int | tuple[str, ...], BeforeValidator(_count_or_ranges)]


@action
class Scale(Timed):
    """Seal segments and open new ones over the same key space (PDP-33, "Watermark Computation", the example).

    `seal` names open segments as `number@epoch`; after a rolling transaction the copy of the same number is meant.
    `into` is the number of equal parts into which their key space is divided; 1 merges the sealed segments, which must
    be neighbours in key space. Or it lists the exact new key ranges, as "0..3/5" or "0.3..0.6".

    None for `seal_every_ms`: all are sealed at one moment. Otherwise they are sealed one by one in the order of `seal`,
    that long after one another, by the controller that also commits transactions (`committer`): "0 is sealed but 1 may
    still be open". If it crashes or cannot reach a store, the scale stays half finished until it, or the controller
    that takes over, continues. Meanwhile commits and other changes of the stream's segments wait (upstream
    `ScaleOperationTask`).
    """

    seal: Annotated[tuple[str, ...], Field(min_length=1), EACH_ONCE]
    into: Into = 2
    seal_every_ms: Ms | None = None
    stream: str | None = None

    @property
    def ranges(self) -> int | tuple[KeyRange, ...]:
        """What it makes, in the words of the model. Raises `ModelError` for text that is not a key range."""
        return self.into if isinstance(self.into, int) else tuple(KeyRange.parse(text) for text in self.into)


@action
class TruncateStream(Timed):
    """Everything written before a cut is deleted; `cut` maps `number@epoch` to an offset in bytes.

    None: everything written until then. A new reader group starts at the cut; the marks stay.
    """

    cut: dict[str, Offset] | None = None
    stream: str | None = None


@action
class SealStream(Timed):
    """All segments are sealed without successors; a writer stops when an append is refused."""

    stream: str | None = None


@action
class CreateStream(Timed):
    """The stream is created at this moment; until then it does not exist.

    Its writers, and the groups that read nothing else, begin then, or later if they start later. A stream that was
    deleted is created again (PDP-33, "Distributing Streams Across Controller Instances").
    """

    stream: str


@action
class DeleteStream(Timed):
    """The stream, its marks and its marks segment are deleted, and created again after `recreate_after_ms`, if at all.

    The new stream has the same name and starts at epoch 0, with segment numbers that were never used; its writers
    and readers start again then. A recording tells the two apart: the tables call the second one `name#2`.
    """

    recreate_after_ms: Period | None = None
    stream: str | None = None


# Reader groups.


@action
class CrashReader(Timed):
    """Crash a reader; others read again the events that it read since it last published.

    A group never notices by itself: the application declares the reader offline `offline_after_ms` later, and then its
    segments are free. None: it is never declared offline, and its segments hold the group. The next owner of a segment
    begins at the last checkpoint, or where the reader had taken it over if that is later (upstream `ReaderGroupState`).
    With `restart_after_ms` a new reader of that name joins.
    """

    reader: str
    offline_after_ms: Ms | None = 0
    restart_after_ms: Period | None = None


@action
class PauseReader(Timed):
    """A reader keeps its segments and neither reads nor publishes for `for_ms`, or until the end when that is None."""

    reader: str
    for_ms: Period | None = None


@action
class AddReader(Timed):
    """A new reader joins the group; it acquires segments as others release them."""

    reader: Name
    group: str | None = None


@action
class RemoveReader(Timed):
    """A reader closes: it releases its segments at its current position and leaves the group."""

    reader: str


@action
class ReleaseSegment(Timed):
    """A reader releases `segment`, `number@epoch`; no reader acquires it for `keep_free_ms`.

    `stream` names the stream, for a group that reads several; None: the first one. Nothing happens if it does not own
    the segment at that time.
    """

    reader: str
    segment: str
    stream: str | None = None
    keep_free_ms: Ms = 0


@action
class Checkpoint(Timed):
    """Ask the group for a checkpoint called `name`; each reader reports at its next poll, and the last completes it."""

    name: Name
    group: str | None = None


@action
class TakeStreamCut(Timed):
    """Take the stream cut of the group's published position, at once and without asking its readers.

    `name` is its name. With `read_side="document"` it also has the smallest offset in the marks segment that a reader
    has reached (PDP-33, "Client Changes", `getStreamCut`). It is stored like a checkpoint: the group can be reset to
    it, and another group can begin there with `starting_checkpoint`.
    """

    name: Name
    group: str | None = None


@action
class ResetToCheckpoint(Timed):
    """Take the whole group back to `checkpoint`, the last completed one when none is named; all readers start again.

    `ranges=False`: the key ranges of the segments are not known after the reset, so that each of them is compared
    with all segments of a stream cut (upstream issue 4194). Nothing happens if there is no such completed checkpoint.
    """

    checkpoint: Name | None = None
    ranges: Flag = True
    group: str | None = None


_WriterAction = CrashWriter | SilenceWriter | NoteTime | ShutDownWriter | MarkIdle | DuplicateWriter | UpgradeWriter
_TransactionAction = (
    CommitTransaction | AbortTransaction | WriteInTransaction | SlowTransaction | LoseMergeReply | CrashCommitHandler
)
_NetworkAction = Partition | StoreUnavailable | StepClock
_ControllerAction = (
    CrashController | PauseController | ExpireSession | LoseBucketOwner | AddController | RemoveController
)
_StreamAction = Scale | TruncateStream | SealStream | CreateStream | DeleteStream | LoseMarksSegment | TruncateMarks
ReaderAction = (
    CrashReader
    | PauseReader
    | AddReader
    | RemoveReader
    | ReleaseSegment
    | Checkpoint
    | TakeStreamCut
    | ResetToCheckpoint
)
Action = Annotated[
    _WriterAction | _TransactionAction | _NetworkAction | _ControllerAction | _StreamAction | ReaderAction,
    Field(discriminator="kind"),
]
"""Any entry of a script."""
