"""The words of all answers about streams: labels, states, causes and headlines, in one table each.

A curve is one of three lower bounds, and each has one name:

    in the log         the watermark that the controllers made: `watermark`
    at the position    what the log says at the position that a group has published: `at position`. Nobody need have
                       seen it, so it is never said to be known or seen
    seen by a reader   what a reader got at its last poll: `saw`

"By then" is until the moment of the answer, this included. A *holder* is the party that keeps a curve from a higher
value: a writer, a reader, a controller, a bucket, a store or the marks segment. A headline is the one whose cause
holds; causes are listed in the order in which they are looked for, so the first one that is true is the one.

Source: PDP-33, Periodic Watermark Workflow and Watermarking in the Reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wmlab.core.facts import Kind, vocabulary


class State(StrEnum):
    """What has befallen a party and lasts; of several of one party the first one here is said."""

    DOWN = "down"
    """A writer, reader or controller has crashed."""
    SHUT_DOWN = "shut down"
    """A writer has said goodbye."""
    GONE = "gone"
    """A reader or controller has left."""
    PAUSED = "paused"
    """A reader or controller does nothing, and goes on later."""
    UNAVAILABLE = "unavailable"
    """A store answers no call."""
    MISSING = "missing"
    """The marks segment is not found."""
    UNOWNED = "without an owner"
    """A bucket, which some controller owned before."""
    SESSION_LOST = "without a session"
    """A controller has lost its session, and has not noticed it."""
    IDLE = "idle"
    """A writer has marked itself idle."""
    SILENT = "silent"
    """A writer writes and notes nothing."""
    CUT_OFF = "cut off"
    """A partition of the network is between the party and others."""
    IN_TRANSACTION = "in a transaction"
    """A writer holds a transaction open for longer, as the script says; since it began, until it asks to end it."""
    WITHOUT_COMMIT = "without a commit"
    """A writer has aborted a transaction; until its next accepted note."""


class CauseKind(StrEnum):
    """What holds a bound. Those of the log first, in the order of precedence."""

    DELETED = "deleted"
    NOT_THERE = "not there"
    NO_MARK = "no mark"
    NO_WRITER_LEFT = "no writer left"
    FIRST_CYCLE = "first cycle"
    CONTROLLER = "controller"
    LAGGING = "lagging"
    SLOWEST = "slowest"
    PERIOD = "period"
    STORE = "store"
    EXPECTED = "expected"
    CYCLE_FAILED = "cycle failed"
    NEWEST = "newest"
    NOT_STARTED = "not started"
    READER = "reader"
    ASSIGNMENT = "assignment"
    UNREAD = "unread"
    PUBLICATION = "publication"
    NEXT_LOOK = "next look"
    OTHER_POSITION = "other position"


MEANINGS: Final[Mapping[CauseKind, str]] = {
    CauseKind.DELETED: "the stream was deleted",
    CauseKind.NOT_THERE: "the stream had not been created yet",
    CauseKind.NO_MARK: "no writer was on record, and no time had been accepted yet",
    CauseKind.NO_WRITER_LEFT: "no writer was on record any more",
    CauseKind.FIRST_CYCLE: "a time was accepted, and the first cycle had not run yet",
    CauseKind.CONTROLLER: "a cycle was due and did not run, up to the next cycle",
    CauseKind.LAGGING: "the last cycle waited for this writer, whose accepted time was not above the watermark",
    CauseKind.SLOWEST: "the last cycle emitted, and no time of this writer above the watermark was accepted since",
    CauseKind.PERIOD: "no writer was behind the watermark, and the next cycle was not due yet",
    CauseKind.STORE: "the last cycle could not use a store or the marks segment",
    CauseKind.EXPECTED: "fewer writers than expected had a time accepted, and the first watermark waited for others",
    CauseKind.CYCLE_FAILED: "the last cycle ended for another reason, which its row has",
}
"""What each cause of the log means, as the table of a whole run says it.

"The next cut" is that of the oldest watermark that the position has not passed.

A writer is *on record* from its first accepted mark on until a cycle has it in `removed`, and again from its next one.
It is *behind* if its last accepted time is not above the lower bound of the newest watermark, whether that counts
writers or not, and it has neither shut down nor marked itself idle since: the next cycle drops such a one. The next
cycle is that of the bucket's owner, since it came: due as its rows say and not begun yet, or the delay of a first cycle
after it came; a controller that has lost the bucket may run others meanwhile. After a watermark that is appended no
earlier, and so is that of a cycle which left no row, it is due a period of the last row after it. Nothing is known of
it while nobody owns the bucket, while another controller without a session has a cycle of its own due, where a first
cycle has a jitter, and once the stream has left its bucket (its last cycle found no active writer, and its row says no
next one) until a new owner comes after a writer noted again. The causes of the log, in this order:

    deleted         an incident `delete` of the stream by then
    not there       no time accepted by then, and before the creation of its first segment
    no mark         no writer on record, and no time accepted by then
    no writer left  no writer on record
    first cycle     no cycle by then
    controller      the next cycle was due before the moment; while nobody owns the bucket, that of its last owner
    lagging         the last cycle has writers in `lagging` that are still behind
    period          the last cycle has writers in `lagging`, and none of them is behind any more
    slowest         the last cycle emitted (or counted no active writer), and some writer is behind
    period          the last cycle emitted (or counted no active writer), and none is
    store           the last cycle failed, and when it ran, the store that its row names was unavailable, the marks
                    segment missing, or its controller cut off from that store
    expected        the cause of the last cycle is the code of expected writers
    cycle failed    else

`holder` is said for lagging, slowest, controller, store and reader only; of segments `read by` says it. A controller is
kept from running cycles if it is down, gone, paused, without a session, or cut off from a store or the coordinator. For
the cause controller the holder is the owner of the bucket, or the last one, if that is kept from running cycles; the
bucket if nobody owns it, and nobody may or its last owner could run cycles; the owner if it could, and was kept from
that since the last cycle, and since it came. For another owner there is no holder.

`delayed by` are the holders by the causes controller and store, at any moment after the watermark that gives the curve
its value (where it has none: from the begin on) and before the one after it in the log; where that is not made yet,
without those that hold the log at the moment. So is a bucket that was without an owner in that time, after a cycle and
with a writer on record, if the owner that came runs its first cycle later than the last one planned.

The bound at the position of a group that has a map of times is `lower` of its last applied row in `group_updates`. Of a
group: newest (the position has passed the cut of the last watermark by then; of a map of times whose newest watermark
has a bound: the least entry is that, published or not); deleted (as of the log); not started (no position published);
reader (an owner of a segment before the next cut is down, gone, paused or cut off from the segment store; or the group
has a map of times that lacks the newest watermark: its readers with no entry or the smallest one); assignment (a
segment before the next cut has no owner: a reader had published in it and released it, and nobody has read it since);
unread (some segment before the next cut is not read up to it); publication
(else).

Of a reader: what holds its group, which may be newest, if it saw the bound at the position and is neither down nor
gone; deleted (as of the log); not started (it has not polled); reader (it is itself down, gone, paused or cut off from
the segment store); store (the marks segment is unavailable or missing now); next look (its last poll is not after the
moment at which the position got its bound); other position (else).
"""

LABELS: Final = vocabulary(
    ("moment", Kind.MOMENT, "the moment that is explained"),
    # The three curves.
    ("watermark", Kind.MOMENT, "lower bound of the newest watermark of the log; absent if that counts no writers"),
    ("made at", Kind.MOMENT, "when the newest watermark was appended"),
    ("set by", Kind.NAME, "the counted writers whose time is the value of the curve, by name"),
    (
        "at position",
        Kind.MOMENT,
        "lower bound of the last watermark whose cut the position has passed, or the least of a map",
    ),
    ("saw", Kind.MOMENT, "lower bound that a reader saw at its last poll; of a group one for each reader"),
    ("saw first at", Kind.MOMENT, "first of the polls in a row at which the reader saw that lower bound"),
    ("polled at", Kind.MOMENT, "last poll of a reader; of a group one for each reader"),
    ("seen by", Kind.NAME, "the readers of the group that have polled by then, by name"),
    ("newest watermark", Kind.MOMENT, "lower bound of the newest watermark of the log, beside another curve"),
    (
        "upper bound",
        Kind.MOMENT,
        "largest counted time of the newest watermark; of a group that of the first ahead, else of the last not passed",
    ),
    ("group", Kind.NAME, "the reader group"),
    ("reader", Kind.NAME, "the reader"),
    ("reader state", Kind.WORD, "what has befallen the reader, or each of the group that has polled, and lasts"),
    ("reader since", Kind.MOMENT, "since when"),
    ("starts at", Kind.MOMENT, "when what is not there yet begins, by the script: the stream, a group or a reader"),
    # Who holds the curve.
    ("cause", Kind.WORD, "the kind of what holds the curve"),
    (
        "holder",
        Kind.NAME,
        "writers by last accepted time and name, readers by name, a controller, a bucket or a store",
    ),
    ("holder state", Kind.WORD, "what has befallen each holder and lasts; a store: when the last cycle ran"),
    ("holder since", Kind.MOMENT, "since when it is in that state"),
    ("holder until", Kind.MOMENT, "until when at the earliest, by the script"),
    (
        "holder back at",
        Kind.MOMENT,
        "when that state of a store was over, or one of a controller that is late",
    ),
    ("cut off from", Kind.NAME, "the nodes on the other side of the partition, of each holder"),
    ("last noted", Kind.MOMENT, "last accepted time of each writer that holds"),
    ("noted at", Kind.MOMENT, "when the writer noted that time"),
    (
        "others ahead by",
        Kind.LENGTH,
        "smallest last accepted time of the other writers on record minus the watermark, if above 0",
    ),
    ("waited for since", Kind.MOMENT, "from when the timeout of each writer counts, as the row of the last cycle says"),
    ("given up at", Kind.MOMENT, "when that timeout ends: a cycle from then on drops the writer, if it notes no more"),
    ("refused", Kind.NAME, "writers whose newest judged note was refused; of a run those with a refused note; by name"),
    ("refused as", Kind.WORD, "outcome of that note; of a run of the last note of each of them that was refused"),
    # The cycles.
    (
        "next cycle",
        Kind.MOMENT,
        "when the bucket's owner runs its next cycle, while a writer is on record; overdue: absent",
    ),
    ("reason", Kind.WORD, "why the last cycle made no watermark, as its row says, where it failed"),
    (
        "bucket owner",
        Kind.NAME,
        "owner of the stream's bucket, or nobody, where a cycle is overdue or kept from running",
    ),
    ("controller", Kind.NAME, "owner of the bucket, or the last one, where a cycle is overdue or kept from running"),
    ("controller state", Kind.WORD, "what keeps that controller from running cycles"),
    ("controller since", Kind.MOMENT, "since when"),
    (
        "delayed by",
        Kind.NAME,
        "who kept cycles from making the next watermark of the curve, and no longer does",
    ),
    ("delayed until", Kind.MOMENT, "when each of them was back, or kept no cycle any more"),
    # The stream and the run.
    ("sealed at", Kind.MOMENT, "when the stream was sealed"),
    ("deleted at", Kind.MOMENT, "when the stream was deleted; its watermarks are those until then"),
    # What a group has to read.
    (
        "segment",
        Kind.NAME,
        "segments before the next cut, ascending: not owned, not read or not published, by the cause",
    ),
    ("read by", Kind.NAME, "owner of each of them"),
    (
        "bytes left",
        Kind.SIZE,
        "from the published offset to the next cut; absent if that is the end of the segment, and not reached",
    ),
    (
        "read before by",
        Kind.NAME,
        "last other owner of a segment that nobody owns, or whose last owner is down or gone",
    ),
    ("position holder", Kind.NAME, "who holds the bound at the position, beside what a reader saw"),
    ("log holder", Kind.NAME, "who holds the watermark in the log, beside another curve"),
    # Imported logs.
    ("silent writer", Kind.NAME, "replayed writer with the smallest newest event, if it is silent and is no holder"),
    # Over a run.
    ("curve", Kind.NAME, "the curve with the longest stop"),
    ("longest stop", Kind.LENGTH, "longest time in which that curve kept one known value"),
    ("from", Kind.MOMENT, "when that stop began"),
    ("to", Kind.MOMENT, "when it ended, or the run"),
    ("at", Kind.MOMENT, "the value that the curve kept"),
    ("held by", Kind.NAME, "who held the curve for longest in that stop, or what, where no party did"),
    ("held for", Kind.LENGTH, "for how long of that stop they held it, by all causes together"),
    ("never came", Kind.NAME, "acts of the script that waited for a moment that never came"),
    ("streams apart", Kind.NAME, "streams that one group reads together although their times do not overlap"),
)
"""All labels of answers about streams.

States are those of `State` at the moment, `since` from the act of the script (or its incident; of a transaction its
begin), `until` by the script;
where the recording has owners, a controller has no `until`, since another one takes over. Once a stream was deleted,
nothing has befallen anybody of it. A label with several values has them in the order of `holder`, `set by`, `seen by`,
`segment` or `refused`; one that is unknown is absent among them, and a label without any value is not there.

Each answer at a moment has `moment`. One about the log has, as far as there are values: watermark to set by, cause,
holder to next cycle and what follows it, delayed by and until, sealed at, deleted at, and the silent writer.
One about a group has group, at position, newest watermark, set by (of the watermark at the position),
delayed by, cause, the holder and his state, the segments, seen by with saw, polled at, reader state and reader since,
and log holder; for the cause newest all labels about the log in their place. One about a reader has reader, group, saw,
saw first at, polled at, at position, newest watermark, set by (of the newest watermark with the value that it saw),
delayed by, cause, holder, segments, reader state, position holder, log cause and log holder; for newest all labels
about the log in their place. A group or reader before any watermark has the labels about the log only. One of a stream
that was deleted has deleted at, too.
"""

Templates = tuple[str, ...]
"""Of these the first is said whose labels are all there, and of which at most one has several values."""
WAS_DELETED: Final = "The stream was deleted at {deleted at}."
"""The only sentence about a curve of a stream that was deleted: its watermarks went with it."""
_WAS_SEALED: Final = "The stream was sealed at {sealed at}."
_HAS_NOT_POLLED: Final = "Reader {reader} has not polled yet."
OF_LOG: Final[Mapping[CauseKind, Templates]] = {
    CauseKind.DELETED: (WAS_DELETED,),
    CauseKind.NOT_THERE: ("The stream is not there before {starts at}.",),
    CauseKind.NO_MARK: ("No noted time has been accepted yet.",),
    CauseKind.NO_WRITER_LEFT: ("No writer is on record any more.",),
    CauseKind.FIRST_CYCLE: ("A time is accepted, and no cycle has run yet.",),
    CauseKind.CONTROLLER: (
        "A cycle is overdue: {holder} has been {holder state} since {holder since}.",
        "A cycle is overdue.",
    ),
    CauseKind.LAGGING: (
        "The watermark waits for {holder}, {holder state} since {holder since}.",
        "The watermark waits for {holder}.",
    ),
    CauseKind.SLOWEST: (
        "No time above the watermark is accepted from {holder}, {holder state} since {holder since}.",
        "No time above the watermark is accepted from {holder}.",
    ),
    CauseKind.PERIOD: (
        "The watermark waits for a cycle, and {bucket owner} owns the bucket.",
        "The watermark waits for the next cycle.",
    ),
    CauseKind.STORE: (
        "The last cycle made no watermark: {holder} {holder state} from {holder since} to {holder back at}.",
        "The last cycle made no watermark: {holder} {holder state} since {holder since}.",
    ),
    CauseKind.EXPECTED: ("The first watermark waits for expected writers.",),
    CauseKind.CYCLE_FAILED: ("The last cycle made no watermark: {reason}.",),
}
"""The headline about the watermark in the log, by its cause."""
OF_LOG_NEXT: Final[Templates] = (
    _WAS_SEALED,
    "Writer {silent writer} sends nothing, but goes on noting times.",
    "The newest judged note of {refused} was refused.",
    "Cycles were kept from running or storing until {delayed until} by {delayed by}.",
    "At {moment} the watermark is {watermark}, made at {made at}.",
    "At {moment} there is no watermark.",
)
"""The second sentence about the watermark in the log."""
OF_GROUP: Final[Mapping[CauseKind, Templates]] = {
    CauseKind.DELETED: (WAS_DELETED,),
    CauseKind.NEWEST: ("Group {group} has passed the cut of the newest watermark.",),
    CauseKind.NOT_STARTED: ("Group {group} has published no position yet.",),
    CauseKind.READER: (
        "The bound at the position of {group} waits for {holder}, {holder state} since {holder since}.",
        "The bound at the position of {group} waits for {holder}.",
        "The bound at the position of {group} waits for a reader.",
    ),
    CauseKind.ASSIGNMENT: ("No reader of {group} has taken segment {segment} since its release.",),
    CauseKind.UNREAD: ("Group {group} has not read up to the next cut.",),
    CauseKind.PUBLICATION: (
        "Group {group} has read up to the next cut, and its published position has not passed it.",
    ),
}
"""The headline about the bound at the position of a group, by its cause; before any watermark that of the log."""
OF_GROUP_NEXT: Final[Templates] = (
    "At {moment} the bound at the position is {at position}, and the newest watermark {newest watermark}.",
    "At {moment} there is no bound at the position, and the newest watermark is {newest watermark}.",
)
"""The second sentence about a group; for the cause newest it is the headline about the log."""
OF_READER: Final[Mapping[CauseKind, Templates]] = {
    CauseKind.DELETED: (WAS_DELETED,),
    CauseKind.NEWEST: ("Reader {reader} saw the newest watermark at its last poll.",),
    CauseKind.NOT_STARTED: (_HAS_NOT_POLLED,),
    CauseKind.READER: ("Reader {reader} has been {reader state} since {reader since}.",),
    CauseKind.STORE: ("The {holder} has been {holder state} since {holder since}.",),
    CauseKind.NEXT_LOOK: ("Reader {reader} has not polled since the bound at the position of {group} changed.",),
    CauseKind.OTHER_POSITION: ("Reader {reader} saw another bound than that at the position of {group}.",),
}
"""The headline about the bound that a reader saw, by its cause; that of the group if what holds the group is the cause
and it is not newest, and before any watermark that of the log."""
OF_READER_NEXT: Final[Templates] = (
    "Reader {reader} saw {saw} at {polled at}, and the newest watermark at {moment} is {newest watermark}.",
    "Reader {reader} saw no lower bound at {polled at}, and the newest watermark at {moment} is {newest watermark}.",
    "At {moment} the newest watermark is {newest watermark}.",
)
"""The second sentence about a reader; for the cause newest it is the headline about the log."""
OF_UPPER: Final[Mapping[str, Templates]] = {
    "log": ("The upper bound in the log is {upper bound}.", "There is no upper bound in the log."),
    "group": (
        "The upper bound at the position of {group} is {upper bound}.",
        "There is no upper bound at the position of {group}.",
    ),
    "reader": (
        "Reader {reader} saw the upper bound {upper bound} at {polled at}.",
        "Reader {reader} saw no upper bound at {polled at}.",
        _HAS_NOT_POLLED,
    ),
}
"""The headline about an upper bound of the log, a group or a reader; it has no second sentence.

Its labels are upper bound, group, reader, polled at, reader state, reader since, newest watermark, deleted at.
"""
OF_RUN: Final[Templates] = (
    "{curve} stood still for {longest stop}, held by {held by} ({holder state}).",
    "{curve} stood still for {longest stop}, held by {held by}.",
    "No watermark was made.",
)
"""The headline of a whole run."""
OF_RUN_NEXT: Final[Templates] = (
    "One group reads {streams apart} together, although their event times do not overlap.",
    "The script waited for a moment that never came: {never came}.",
    WAS_DELETED,
    _WAS_SEALED,
    "Notes of {refused} were refused.",
)
"""The second sentence of a whole run; there may be none."""
NAME_OF_CURVE: Final[Mapping[str, str]] = {
    "log": "The watermark in the log of {name}",
    "group": "The bound at the position of {name}",
    "reader": "The bound seen by {name}",
}
"""What `curve` says.

The curve of a reader that left for good ends when it left. The longest stop of a run is looked for in the log first,
then in groups by name, then in readers by name. Another curve takes its place if its longest stop is longer and at
most half of it lies within the longest stop taken so far. The first of equally long stops of one curve counts. The
state of who held it, `holder state` and `holder since`, and `cause` are those of the last moment of the stop at which
the same parties held it and a `holder` was in a state, else of the last one at which they held it. Where no label
`holder` is said, as for segments, there is no state. Up to the first cycle after parties came back that kept cycles
from running, they hold the curve, where no writer does.
"""
OF_ITSELF: Final = (CauseKind.NEXT_LOOK, CauseKind.OTHER_POSITION, CauseKind.NOT_STARTED)
"""The causes of what a reader saw that are the reader itself: `held by` and `position holder` say it, `holder` not."""
WITHOUT_PARTY: Final[Mapping[CauseKind, str]] = {
    CauseKind.DELETED: "the deletion",
    CauseKind.NOT_THERE: "no stream yet",
    CauseKind.NO_MARK: "no accepted time",
    CauseKind.FIRST_CYCLE: "no cycle yet",
    CauseKind.EXPECTED: "expected writers",
    CauseKind.PERIOD: "the cycle period",
    CauseKind.CONTROLLER: "an overdue cycle",
    CauseKind.STORE: "stores",
    CauseKind.NO_WRITER_LEFT: "no active writer",
    CauseKind.CYCLE_FAILED: "failed cycles",
    CauseKind.NOT_STARTED: "no position yet",
    CauseKind.READER: "no reader",
    CauseKind.UNREAD: "unread segments",
    CauseKind.PUBLICATION: "no publication",
}
"""What `held by` and `log holder` say where no party holds the curve.

Of unread segments and of a position that is not published the parties are the readers of these segments, of segments
without an owner the last ones, of the next look and another position the reader.
"""
