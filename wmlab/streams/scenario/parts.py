"""The parties of a run as values: the stream, its writers, its reader group.

Names and defaults follow the documents; every deviation of an implementation from its design is a named
option that is off by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from wmlab.core.units import Ms, Name, Period
from wmlab.core.values import Problem, Problems, value
from wmlab.streams.scenario.clock import Clock
from wmlab.streams.scenario.noting import EarliestOpen, Noting
from wmlab.streams.scenario.units import Keys, WriterId

if TYPE_CHECKING:
    from wmlab.streams.scenario.transactional import TransactionalWriter


@value
class Stream:
    """A stream and the rules its watermarks follow.

    `timestamp_aggregation_timeout_ms` is how long a silent writer is waited for (PDP-33, "Config Changes").
    `timeout_from`: `first_behind` counts from the first cycle that saw the writer behind the barrier, as Pravega
    does; `last_note` counts from its last noted time, as the document says.
    `note_rule`: `implementation` accepts an equal time and compares common segments; `design` is stricter.
    `cut_algorithm`: `sound`, or `pravega` with its `visit_order`, which can produce cuts that move back.
    `bug_6510`: a segment without acknowledgement enters the cut as "end of segment" (Pravega issue 6510).
    `acks_carry_offset=False`: an older server whose answers to appends and merges do not say how long the segment is;
    that is noticed, and the length is asked for (PDP-33, "Internal Changes").
    `commit_without_time`: what committing without a time notes: nothing; the minimum long, as Pravega does since
    PR 6283; or zero, as it did in issue 4291.
    `txn_marks`: one mark for each writer and batch of commits, with the largest time; or one for each transaction,
    as the document says and as Pravega did until issue 4357.
    `commit_batch`: how many transactions are committed together at most.
    `commit_order`: transactions are committed in the order in which that was asked for; or, `by_id`, in one that has
    nothing to do with it, as in Pravega issue 3420.
    `empty_mark_after_roll`: a commit that is tried again after a rolling transaction notes an empty position, as
    Pravega does, instead of where the segments end.
    """

    name: Name = "stream"
    _: KW_ONLY
    segments: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    timestamp_aggregation_timeout_ms: Ms = 60_000
    timeout_from: Literal["first_behind", "last_note"] = "first_behind"
    note_rule: Literal["implementation", "design"] = "implementation"
    cut_algorithm: Literal["sound", "pravega"] = "sound"
    visit_order: Literal["as_noted", "newest_first", "oldest_first"] = "as_noted"
    bug_6510: bool = False
    acks_carry_offset: bool = True
    commit_without_time: Literal["no_mark", "minimum_long", "zero"] = "no_mark"
    txn_marks: Literal["per_batch", "per_transaction"] = "per_batch"
    commit_batch: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 100
    commit_order: Literal["requested", "by_id"] = "requested"
    empty_mark_after_roll: bool = False


@value
class EventWriter:
    """A writer of events that notes the time.

    Its load is either synthetic, `rate_per_s` events a second that happen at random, have their keys in `keys` and
    are sent after an exponential delay of mean `delay_mean_ms`, or the events of a real `trace` (a name or a file)
    whose writer has this writer's name, each sent when it arrived. Events are sent in batches every `batch_ms`, each
    event `event_bytes` long besides an 8-byte header.

    Every `note_every_ms` the application notes the time that `noting` chooses (None: it never notes by itself),
    under `writer_id`; noting without an id (None) is an error, which is recorded. With `flush_before_note` all that
    was given to the writer is acknowledged before the time goes to the controller; Pravega does not flush. With
    `automatically_note_time` the writer itself notes its clock every `automatic_note_period_ms`, and the application
    may not (PDP-33, "Config Changes"); `auto_note_survives_close`: nobody stops that when the writer is closed
    (Pravega issue 4218). `processes` share the writer's id and load; the second one is called `w1/2`.
    `stream` names the stream it writes to; None: the only one.
    """

    name: Name
    _: KW_ONLY
    rate_per_s: Annotated[float, Field(ge=0, le=10_000_000, strict=True)] | None = None
    trace: str | None = None
    delay_mean_ms: Annotated[float, Field(ge=0, strict=True)] = 0.0
    keys: Keys = "0..1"
    noting: Noting = EarliestOpen()
    note_every_ms: Period | None = 1_000
    writer_id: WriterId | None = "{name}"
    flush_before_note: bool = False
    automatically_note_time: bool = False
    automatic_note_period_ms: Period = 5_000
    auto_note_survives_close: bool = False
    processes: Annotated[int, Field(ge=1, le=100, strict=True)] = 1
    clock: Clock = Clock()
    starts_ms: Ms = 0
    batch_ms: Period = 100
    event_bytes: Annotated[int, Field(ge=0, le=8_388_600, strict=True)] = 100
    stream: Name | None = None

    def __post_init__(self) -> None:
        problems = (*load_problems(self), *_automatic_problems(self))
        if problems:
            raise Problems(f"EventWriter {self.name!r}", problems)

    @property
    def id(self) -> str | None:
        """The id under which its marks are kept; None: it has none."""
        return None if self.writer_id is None else self.writer_id.replace("{name}", self.name)


def load_problems(writer: EventWriter | TransactionalWriter) -> Iterator[Problem]:
    """Mistakes in what a writer has to write."""
    if (writer.rate_per_s is None) == (writer.trace is None):
        given = "both" if writer.trace is not None else "neither"
        yield Problem(("rate_per_s",), f"give either rate_per_s or trace (got {given})")
    if writer.trace is not None and writer.delay_mean_ms:
        yield Problem(("delay_mean_ms",), "a trace has its own arrival times; leave delay_mean_ms out")
    if writer.trace is not None and writer.keys != "0..1":
        yield Problem(("keys",), "a trace has its own keys; leave keys out")


def _automatic_problems(writer: EventWriter) -> Iterator[Problem]:
    """Options of automatic noting that contradict each other or have no effect."""
    if writer.automatically_note_time:
        if writer.noting != EarliestOpen():
            yield Problem(("noting",), "a writer that notes time automatically notes its clock; leave noting out")
        if writer.note_every_ms != 1_000:
            message = "a writer that notes time automatically has automatic_note_period_ms; leave note_every_ms out"
            yield Problem(("note_every_ms",), message)
        return
    if writer.automatic_note_period_ms != 5_000:
        yield Problem(("automatic_note_period_ms",), "needs automatically_note_time")
    if writer.auto_note_survives_close:
        yield Problem(("auto_note_survives_close",), "needs automatically_note_time")
