"""The parties of a run as values: the stream, its writers, reader groups, controllers and clocks; and their plain
types.

Names follow the documents. Every difference between the design, its implementation and sound rules is a named option:
the scenario's `rules` decide on those that are `UNSET`, by the table in `wmlab.streams.scenario.scenario`. All other
options keep their default under all rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, asdict
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core.expression import rule_over
from wmlab.core.values import (
    EACH_ONCE,
    UNSET,
    AnyName,
    Flag,
    MeanMs,
    Ms,
    Name,
    Offset,
    Option,
    Period,
    Problem,
    SignedMs,
    Time,
    value,
)
from wmlab.streams.model.cycle import CycleRules
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.replay import Configuration
from wmlab.streams.model.segment import Arithmetic, KeyRange
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.noting import EarliestOpen, Noting

WriterId = Annotated[str, Field(max_length=256, pattern=r"^(\{name\}|[A-Za-z0-9._-])+$")]
"""The id under which a writer's marks are kept; "{name}" stands for the writer's name."""

_SCOPED: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?")


def _stream_name(text: str) -> str:
    if not _SCOPED.fullmatch(text) or {".", ".."} & set(text.split("/")):
        raise ValueError(
            "give a name of letters, digits, dots, dashes and underscores, or one with a scope before a single slash, "
            "'scope/stream'; neither part is empty, '.' or '..'"
        )
    return text


StreamName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_stream_name)]
"""The name of a stream, with or without its scope: "stream" or "scope/stream"."""

SEGMENT_STORE: Final = "segment-store"
"""Where segments live, the marks segment and a group's shared state among them."""
METADATA_STORE: Final = "metadata-store"
"""Where writer marks, epochs, transactions and bucket members live."""
COORDINATOR: Final = "coordinator"
"""The coordination service: sessions of controllers, their leader, and who owns which bucket."""
SERVICES: Final = (SEGMENT_STORE, METADATA_STORE, COORDINATOR)
"""The parties of every scenario besides its writers, readers and controllers."""
EVERY: Final = ("writers", "readers", "controllers")
"""Names that stand for all parties of a kind."""


def _key_range(text: str) -> str:
    KeyRange.parse(text)
    return text


KeyRangeText = Annotated[str, AfterValidator(_key_range)]
"""A key range as "low..high" in rationals, for example "0..1/2"."""


def controller_name(index: int) -> str:
    """The name of the controller with that index, counted from 0 in the order of joining."""
    return f"controller-{index}"


def process_name(writer: str, number: int) -> str:
    """The name of a writer's process, counted from 1."""
    return writer if number == 1 else f"{writer}/{number}"


EventTimeRule = Annotated[Any, BeforeValidator(rule_over("clock"))]
"""The time of an event, by what the writer's clock showed when it happened."""


@value
class Clock:
    """A party's clock: `skew_ms` ahead of simulated time at the start, or behind it when negative.

    It gains `drift_ppm` microseconds a second, or loses them when negative. `script.StepClock` sets it during a run.
    """

    _: KW_ONLY
    skew_ms: SignedMs = 0
    drift_ppm: Annotated[int, Field(gt=-1_000_000, le=1_000_000, strict=True)] = 0


@value
class Stream:
    """A stream and the rules its watermarks follow.

    `name` may have a scope, "scope/stream". `segments` is how many segments it is created with, of equal key ranges; a
    `script.Scale` changes that during a run. The stream is in the bucket of the hash of its fully qualified name; one
    without a scope is in the scope "scope" (PDP-33, "Distributing Streams Across Controller Instances").
    `timestamp_aggregation_timeout_ms` is how long a cycle waits for a silent writer (PDP-33, "Config Changes").
    `timeout_from`: `first_behind` counts from the first cycle that saw the writer behind the previous lower bound, as
    Pravega does (PDP-33, "Periodic Watermark Workflow": not included "after starting a new generation"); `last_note`
    counts from its last noted time (PDP-33, "Config Changes"), so the cycle waits for a writer as long as it keeps
    noting old times (I10); `earlier` follows both sentences: it counts from whichever of the two comes first.
    `forgets`: of the writers that shut down or were silent for the timeout, which ones are dropped. `behind`: only
    those at or behind the lower bound, as in Pravega, which keeps the upper bound at or above all noted times. `all`
    (PDP-33, "Config Changes": "will be forgotten", and "Internal Changes": "no longer needs to be considered"): all of
    them, which may break that promise (I2, I11).
    `cycles`: `while_noted` runs the watermark cycle from the first noted time until a cycle finds no writer left, as
    Pravega does; `unconditional` runs it from the creation of the stream to its deletion (PDP-33, "Distributing Streams
    Across Controller Instances" and "Periodic Watermark Workflow").
    `start_delay_ms`: the delay of the first cycle for this stream (PDP-33, "Config Changes"); None: that of the
    controllers.
    `expected_writers`: the first watermark waits until that many writers have noted a time, so that the first writer
    does not decide the time alone; it waits at most one timeout, from the first cycle that finds too few (PDP-33,
    "Periodic Watermark Workflow": "to give time for all Writers to be started").
    `automatically_note_time`: all its writers note their clocks by themselves, as with the writers' option of this name
    (PDP-33 in the wiki, "Config changes").
    `note_rule`: `implementation` accepts an equal time and compares common segments, as Pravega does; `design` is
    stricter (PDP-33, "Metadata").
    `first_barrier`: before the first watermark every writer counts (`none`), as in Pravega; or those with a time above
    0 (`zero`; PDP-33, "Periodic Watermark Workflow").
    `cut_algorithm`: `sound`; `pravega`, as shipped; or `document`, the pseudo-code as written (PDP-33, "Watermark
    Computation"), without the previous cut. The latter two depend on the `visit_order`, and their cuts can move back.
    `bug_6510`: a segment without acknowledgement enters the cut as "end of segment" (Pravega issue 6510).
    `null_without_writers`: while no writer is known, readers get null (PDP-33, "Config Changes"); otherwise they keep
    the bounds of the last watermark, as in Pravega.
    `acks_carry_offset=False`: an older server whose answers to appends and merges do not contain the length of the
    segment; the client notices this and requests the length (PDP-33, "Internal Changes").
    `commit_without_time`: what committing without a time notes: nothing; the minimum long, as Pravega does since
    PR 6283; or zero, as it did in issue 4291.
    `txn_marks`: one mark for each writer and batch of commits, with the largest time; or one for each transaction,
    as the document says and as Pravega did until issue 4357.
    `commit_batch`: how many transactions are committed together at most.
    `committer`: the controller that commits the transactions: `by_hash`, one drawn by the stream's name, for as long as
    its session lasts; `leader`, the one that owns the stream's bucket (PDP-33, "Controller Changes": it may be useful
    that the aggregating instance is the one that manages transactions).
    `commit_order`: transactions are committed in the order of the commit requests, or, with `by_id`, in an unrelated
    order, as in Pravega issue 3420.
    `empty_mark_after_roll`: a commit that is tried again after a rolling transaction notes an empty position, as in
    Pravega, instead of the end of the segments.
    """

    name: StreamName = "stream"
    _: KW_ONLY
    segments: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    timestamp_aggregation_timeout_ms: Ms = 60_000
    timeout_from: Option[Literal["first_behind", "last_note", "earlier"]] = UNSET
    forgets: Option[Literal["behind", "all"]] = UNSET
    cycles: Option[Literal["while_noted", "unconditional"]] = UNSET
    start_delay_ms: Ms | None = None
    expected_writers: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    automatically_note_time: Flag = False
    note_rule: Option[Literal["implementation", "design"]] = UNSET
    first_barrier: Option[Literal["none", "zero"]] = UNSET
    cut_algorithm: Option[Literal["sound", "pravega", "document"]] = UNSET
    visit_order: Literal["as_noted", "newest_first", "oldest_first"] = "as_noted"
    bug_6510: Option[Flag] = UNSET
    null_without_writers: Option[Flag] = UNSET
    acks_carry_offset: Flag = True
    commit_without_time: Option[Literal["no_mark", "minimum_long", "zero"]] = UNSET
    txn_marks: Option[Literal["per_batch", "per_transaction"]] = UNSET
    commit_batch: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 100
    committer: Option[Literal["by_hash", "leader"]] = UNSET
    commit_order: Literal["requested", "by_id"] = "requested"
    empty_mark_after_roll: Option[Flag] = UNSET

    @property
    def rules(self) -> CycleRules:
        """The rules of its watermark cycles; of a stream of a `resolved` scenario."""
        return CycleRules(
            timeout_ms=self.timestamp_aggregation_timeout_ms,
            timeout_from=self.timeout_from,
            forgets=self.forgets,
            algorithm=self.cut_algorithm,
            visit_order=self.visit_order,
            bug_6510=self.bug_6510,
            leaves_bucket=self.cycles == "while_noted",
            null_without_writers=self.null_without_writers,
            first_barrier=0 if self.first_barrier == "zero" else None,
            expected_writers=self.expected_writers,
        )


def created_history(stream: Stream, first_number: int = 0) -> StreamHistory:
    """A stream of a `resolved` scenario as it is created, its segments numbered from `first_number`."""
    # Pravega computes even ranges in doubles, which is what makes 49 segments fail there.
    arithmetic: Arithmetic = "double" if stream.cut_algorithm == "pravega" else "exact"
    return StreamHistory.create(stream.segments, first_number=first_number, arithmetic=arithmetic)


@value
class WriterPart:
    """What all writers have; `EventWriter` says what the fields mean."""

    name: AnyName
    _: KW_ONLY
    rate_per_s: Annotated[float, Field(ge=0, le=10_000_000, strict=True)] | None = None
    trace: str | None = None
    delay_mean_ms: MeanMs = 0.0
    keys: KeyRangeText = "0..1"
    event_time: EventTimeRule | None = None
    noting: Noting = EarliestOpen()
    writer_id: WriterId | None = "{name}"
    automatically_note_time: Flag = False
    clock: Clock = Clock()
    starts_ms: Ms = 0
    batch_ms: Period = 100
    event_bytes: Annotated[int, Field(ge=0, le=8_388_600, strict=True)] = 100
    stream: StreamName | None = None

    @property
    def id(self) -> str | None:
        """The id under which its marks are kept; None: it has none."""
        return None if self.writer_id is None else self.writer_id.replace("{name}", self.name)

    def _problems(self) -> Iterator[Problem]:
        if (self.rate_per_s is None) == (self.trace is None):
            which = "both" if self.trace is not None else "neither"
            yield Problem(("rate_per_s",), f"give either rate_per_s or trace (got {which})")
        if self.trace is not None and self.delay_mean_ms:
            yield Problem(("delay_mean_ms",), "a trace has its own arrival times; leave delay_mean_ms out")
        if self.trace is not None and self.keys != "0..1":
            yield Problem(("keys",), "a trace has its own keys; leave keys out")


@value
class EventWriter(WriterPart):
    """A writer of events that notes the time.

    `name` is its name in marks, tables and charts. Its load is either synthetic, or the events of a real `trace` (a
    name or a file) whose writer has this writer's name, each sent when it arrived. A synthetic load has `rate_per_s`
    events a second, which happen at random. Its events have their keys in the range `keys`. An event is sent after an
    exponential delay of mean `delay_mean_ms`. Events are sent in batches every `batch_ms`. An event is `event_bytes`
    long besides an 8-byte header. The writer begins `starts_ms` after the scenario. `clock` is the writer's clock,
    which may be ahead, behind or drift.

    `event_time` is the application's meaning of time (PDP-33, "Introduction"): an expression over `clock`, what the
    writer's clock showed when an event happened, or a Python function of a dict with it; None: the clock itself, in ms.
    It must not fall as the clock rises, or the earliest open event has not the smallest time. Charts and sentences
    write event times as milliseconds and subtract them from clocks, so only their order counts in any other unit.

    Every `note_every_ms` the application notes the time (None: it never notes by itself). `noting` chooses which time
    it notes. It is noted under `writer_id`; noting without an id (None) is an error, which is recorded. With
    `flush_before_note`, all events given to the writer are acknowledged before the time goes to the controller; Pravega
    does not flush. With `automatically_note_time` the writer itself notes its clock every `automatic_note_period_ms`,
    and the application may not (PDP-33, "Config Changes"). With `auto_note_survives_close`, this does not stop when the
    writer is closed (Pravega issue 4218). `processes` share the writer's id and load; the second one is called `w1/2`.
    `probe_on_seal`: a writer that finds a segment sealed sends an empty append to all others, as Pravega's client does,
    and so finds their seals, too. Without it, a sealed segment stays in the writer's position until it writes there:
    the position with segments 1 and 2 in the example of PDP-33, "Watermark Computation". `stream` names the stream it
    writes to; None: the only one.
    """

    _: KW_ONLY
    note_every_ms: Period | None = 1_000
    flush_before_note: Flag = False
    automatic_note_period_ms: Period = 5_000
    auto_note_survives_close: Option[Flag] = UNSET
    probe_on_seal: Option[Flag] = UNSET
    processes: Annotated[int, Field(ge=1, le=100, strict=True)] = 1


@value
class TransactionalWriter(WriterPart):
    """A writer whose events become visible when their transaction is committed (PDP-33, "Event Writer API Changes").

    Every `every_ms` it begins a transaction. It commits one `open_ms` later (None: when the next one begins). With
    `open_ms` up to `every_ms` transactions do not overlap, and one that is late delays the next; with more they do.
    Committing notes the time that `noting` chooses; `noting.Never()` commits without one, and so does a writer
    without a `writer_id`, whose attempt is recorded as an error (Pravega issue 4222). With `automatically_note_time`
    every commit notes the writer's clock, and committing with a given time is an error.

    The controller starts the commit `commit_latency_ms` after the request. If the writer dies, the controller aborts
    its open transactions after `lease_ms`, Pravega's transaction timeout. The other fields are those of `EventWriter`.
    """

    _: KW_ONLY
    every_ms: Period = 2_000
    open_ms: Period | None = None
    commit_latency_ms: Ms = 400
    lease_ms: Period = 90_000
    kind: Literal["transactional"] = "transactional"


@value
class ReaderGroup:
    """A group of readers that share the segments of the stream.

    `name` is the name of the group in tables and charts; its readers are named after it. `readers` is how many it
    starts with, called `readers-0` and so on. Each reader reads up to `rate_per_s` events a second (None: as fast as
    they come). The group starts `starts_ms` after the scenario. Every `publish_every_ms` a reader publishes its
    position and reads its time window.

    These fields decide how time windows are computed:

    - `read_side`: `implementation`, the group shares offsets and each reader compares them with the marks (upstream
      `WatermarkReaderImpl`); `document`, the group shares a map from reader to the time it passed, and the lower bound
      is its minimum (PDP-33, "Client Changes"), the same for all readers; the upper bound is the largest of those that
      the readers have for their segments. A released segment holds the group at the time that its reader had passed,
      and a joining reader begins with the time of the group. Checkpoints carry the offset in the marks segment.
    - `enters_time`: when a reader of the document's design puts the time it has passed into that map: `at_publish`,
      when it publishes its position; `on_passing`, every time it advances beyond a stream cut with what it has read
      (PDP-33, "Client Changes": "Every time a Reader advances beyond a streamCut"). With `on_passing`, it reads every
      `read_every_ms` and publishes as before, so the map may be ahead of the published positions. A finished segment
      stays with the reader, with its entry in the map, until the reader polls the group again and may take the
      successors.
    - `time_windows`: if False, readers do not read the watermarks.
    - `tracker_ms`: how long a reader works on one position, in the background; of the positions that arrive meanwhile,
      only the last one is used. (In the document's design a reader compares when it publishes, and that takes no time.)

    - `read_latency_ms`: one-way delay of reading events and marks from the segment store (PDP-33, "Client Changes":
      "Each reader needs to read from the mark Segment"). At each step, a reader requests the next events of all its
      segments, and the watermarks if it needs them, and continues when it has all answers. A loss costs a
      retransmission, and a partition stops the reader. None: the delay and loss of the scenario's `network`; without
      these, reading takes no time and no messages.

    These fields decide how the state is shared:

    - `publish_timer`: with `fixed`, everything happens every `publish_every_ms`. With `pravega`, a reader reads events
      every `read_every_ms` and polls the shared state every `group_refresh_ms`. At such a poll it publishes if it has
      acquired a segment, or if (readers + 1) times `publish_every_ms` have passed since it last did (upstream
      `ReaderGroupStateManager`).
    - `state_latency_ms`: one-way delay to the shared state; None: the delay of the scenario's network. Readers change
      the state by compare-and-set: with a delay, a reader may find that it has changed, and tries again.
    - `rebalance`: which readers release segments for others with less work. `segments` counts segments, after the
      members have changed; `bytes` sums the unread bytes; `time` sums how far segments are behind the last watermark
      (PDP-33, "Future Possibilities"). Differences up to `rebalance_slack_bytes` or `rebalance_slack_ms` are ignored.
    - `starting_time`: begin at the stream cut that the watermark index has for a time, or at the head if there is none
      (PDP-33, "Future Possibilities"); `starting_checkpoint`: begin where another group was at a checkpoint or stream
      cut. With either, its readers continue in the marks segment from there.

    `stream` names the stream that the group reads; None: the only one. A group that reads several names them all in
    `streams` instead: it has one state and one set of readers, and a time window for each stream. It does not come
    back to a stream that is deleted and created again; a group of one stream starts again there.
    """

    name: Name = "readers"
    _: KW_ONLY
    readers: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 1
    rate_per_s: Annotated[float, Field(gt=0, le=10**12, strict=True)] | None = None
    publish_every_ms: Period = 1_000
    starts_ms: Ms = 0
    read_side: Option[Literal["implementation", "document"]] = UNSET
    enters_time: Option[Literal["at_publish", "on_passing"]] = UNSET
    time_windows: Flag = True
    tracker_ms: Ms = 0
    read_latency_ms: Ms | None = None
    publish_timer: Option[Literal["fixed", "pravega"]] = UNSET
    read_every_ms: Period = 100
    group_refresh_ms: Period = 3_000
    state_latency_ms: Ms | None = 0
    rebalance: Literal["segments", "bytes", "time"] = "segments"
    rebalance_slack_bytes: Offset = 100_000
    rebalance_slack_ms: Ms = 5_000
    starting_time: Time | None = None
    starting_checkpoint: Name | None = None
    stream: StreamName | None = None
    streams: Annotated[tuple[StreamName, ...], EACH_ONCE] = ()

    def _problems(self) -> Iterator[Problem]:
        if self.streams and self.stream is not None:
            yield Problem(("stream",), f"does not go with several streams (got {self.stream!r})")
        if self.starting_time is not None and self.starting_checkpoint is not None:
            message = f"does not go with starting_time (got {self.starting_checkpoint!r})"
            yield Problem(("starting_checkpoint",), message)

    @property
    def compares_position(self) -> bool:
        """Whether each reader compares the position of the group with the marks, and sees what comes of that.

        Otherwise it sees the window of the group's map of times, which is empty when nobody looks at the marks.
        """
        return self.time_windows and self.read_side != "document"

    @property
    def enters_on_passing(self) -> bool:
        """Whether its readers put a time into a map as soon as they have passed it; of a `resolved` scenario."""
        return self.time_windows and (self.read_side, self.enters_time) == ("document", "on_passing")

    def reads_over_network(self, network: Network) -> bool:
        """Whether reading takes time in this network, and messages."""
        return network.delays_reads if self.read_latency_ms is None else self.read_latency_ms > 0

    @property
    def step_ms(self) -> int:
        """How often its readers read."""
        is_rare = self.publish_timer == "fixed" and not self.enters_on_passing
        return self.publish_every_ms if is_rare else self.read_every_ms

    def reader_names(self) -> tuple[str, ...]:
        """The readers that the group starts with."""
        return tuple(f"{self.name}-{index}" for index in range(self.readers))


@value
class Controllers:
    """The controllers: any of them judges a noted time; the owner of a stream's bucket runs its watermark cycle.

    There are `count` of them, called `controller-0`, `controller-1` and so on. Streams are hashed into `buckets`. A
    controller that sends nothing for `session_timeout_ms` loses its session and its buckets, even if it does not
    notice. `distribution`: with `even` the elected distributor spreads the buckets evenly over the controllers when one
    joins or goes, at most every `redistribute_every_ms`; with `contest`, the document's way, each controller tries to
    take every free bucket, one every 10 ms in an order of its own, and keeps what it gets, so that one that joins later
    finds nothing free (Pravega issue 6663).

    A stream's first cycle runs `start_delay_ms` after the stream came to its owner (None: one period, Pravega's
    intentional delay). Each later watermark cycle runs `period_ms` after the one before has ended, plus up to
    `period_jitter_ms`. `contact` says which controller a writer calls next: all in turn (`round_robin`), any one
    (`random`), or the previous one (`sticky`) until it fails. A controller fails if it has left, refuses, or cannot
    reach its store; then the writer draws another one. PDP-33 wants no "affinity requirements for writers", so the
    bounds must not depend on it. `clocks` are the clocks by which the first controllers measure a writer's silence; the
    others have an exact clock.

    `double_work_entry`: a stream that leaves its bucket and returns within a period runs twice as many cycles from then
    on, as in Pravega, where the old entry in the work queue survives (upstream `BucketService`).

    Source: PDP-33, "Distributing Streams Across Controller Instances"; upstream `BucketManager`, `BucketService`.
    """

    count: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 1
    _: KW_ONLY
    buckets: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 100
    period_ms: Period = 10_000
    start_delay_ms: Ms | None = None
    period_jitter_ms: Ms = 0
    session_timeout_ms: Period = 10_000
    distribution: Option[Literal["even", "contest"]] = UNSET
    redistribute_every_ms: Ms = 10_000
    contact: Literal["round_robin", "random", "sticky"] = "round_robin"
    clocks: tuple[Clock, ...] = ()
    double_work_entry: Option[Flag] = UNSET

    def configuration(self, stream: Stream) -> Configuration:
        """The rules of a stream's cycles and when they run; of a `resolved` scenario."""
        delay_ms = self.start_delay_ms if stream.start_delay_ms is None else stream.start_delay_ms
        return Configuration(
            **asdict(stream.rules), period_ms=self.period_ms, start_delay_ms=delay_ms, note_rule=stream.note_rule
        )

    def _problems(self) -> Iterator[Problem]:
        if len(self.clocks) > self.count:
            yield Problem(("clocks",), f"has {len(self.clocks)} clocks for {self.count} controllers")
