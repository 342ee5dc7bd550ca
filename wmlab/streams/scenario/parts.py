"""The parties of a run as values: the stream, its writers, reader groups, controllers and clocks; and their plain
types.

Names follow the documents. In what the design, its implementation and sound rules differ is no field of a part but an
option of the scenario's rules, `wmlab.streams.scenario.rules`; a field keeps its default under all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from wmlab.core.expression import rule_over
from wmlab.core.values import (
    EACH_ONCE,
    AnyName,
    Flag,
    MeanMs,
    Ms,
    Name,
    Offset,
    Period,
    Problem,
    SignedMs,
    Time,
    value,
)
from wmlab.streams.model.segment import KeyRange
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
    """A party's clock; `script.StepClock` sets it during a run.

    `skew_ms`: how far the clock is ahead of simulated time at the start, or behind it when negative.
    `drift_ppm`: how many microseconds it gains each second, or loses when negative.
    """

    _: KW_ONLY
    skew_ms: SignedMs = 0
    drift_ppm: Annotated[int, Field(gt=-1_000_000, le=1_000_000, strict=True)] = 0


@value
class Stream:
    """A stream; how its watermarks are made is decided by the scenario's `rules`.

    `name`: its name, with or without a scope: "scope/stream".
    `segments`: how many it is created with, of equal key ranges; a `script.Scale` changes that during a run.
    `timestamp_aggregation_timeout_ms`: how long a cycle waits for a silent writer (PDP-33, "Config Changes").
    `start_delay_ms`: the delay of its first cycle; None: that of the controllers.
    `expected_writers`: how many must have noted a time before the first watermark, which waits at most one timeout
    for them (PDP-33, "Periodic Watermark Workflow": "to give time for all Writers to be started").
    `automatically_note_time`: all its writers note their clocks by themselves (PDP-33 in the wiki, "Config changes").
    `visit_order`: in which order a cut visits positions, for the rules `cut_algorithm="pravega"` and `"document"`.
    `acks_carry_offset`: with False, answers to appends and merges do not say how long the segment is, as those of an
    older server; the client notices this and asks for it (PDP-33, "Internal Changes").
    `commit_batch`: how many transactions are committed together at most.
    `commit_order`: whether they are committed in the order of the requests, or in another (Pravega issue 3420).
    """

    name: StreamName = "stream"
    _: KW_ONLY
    segments: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    timestamp_aggregation_timeout_ms: Ms = 60_000
    start_delay_ms: Ms | None = None
    expected_writers: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    automatically_note_time: Flag = False
    visit_order: Literal["as_noted", "newest_first", "oldest_first"] = "as_noted"
    acks_carry_offset: Flag = True
    commit_batch: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 100
    commit_order: Literal["requested", "by_id"] = "requested"


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
    """The application's meaning of time (PDP-33, "Introduction"): an expression over `clock`, what the writer's clock
    showed when an event happened, or a Python function of a dict with it; None: the clock itself, in ms. It must not
    fall as the clock rises, or the earliest open event has not the smallest time. Charts and sentences write event
    times as milliseconds and subtract them from clocks, so only their order counts in any other unit."""
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
    """A writer of events that notes the time, by `rate_per_s` or a `trace`, and as `noting` and `note_every_ms` say.

    `name`: its name in marks, tables and charts; of the events of a trace it sends those of this writer.
    `rate_per_s`: how many events happen each second, at random.
    `trace`: the name or the file of a trace, whose events are sent when they arrived.
    `delay_mean_ms`: the mean of the exponential delay after which an event is sent.
    `keys`: the range in which the keys of its events are.
    `event_time`: the time of an event, as an expression over `clock` or a function; None: the clock, in ms.
    `noting`: which time is noted. `note_every_ms`: how often the application notes it; None: never by itself.
    `writer_id`: under which id it is noted; noting without one (None) is an error, which is recorded.
    `flush_before_note`: all events are acknowledged before the time goes to a controller; Pravega does not flush.
    `automatically_note_time`: the writer itself notes its clock every `automatic_note_period_ms`, and the application
    may not (PDP-33, "Config Changes").
    `clock`: its clock, which may be ahead, behind or drift. `starts_ms`: when it begins.
    `batch_ms`: how often it sends a batch. `event_bytes`: the length of an event, besides an 8-byte header.
    `stream`: the stream that it writes to; None: the only one.
    `processes`: how many processes share its id and its load; the second one is called `w1/2`.
    """

    _: KW_ONLY
    note_every_ms: Period | None = 1_000
    flush_before_note: Flag = False
    automatic_note_period_ms: Period = 5_000
    processes: Annotated[int, Field(ge=1, le=100, strict=True)] = 1


@value
class TransactionalWriter(WriterPart):
    """A writer whose events become visible when their transaction is committed (PDP-33, "Event Writer API Changes").

    `every_ms`: how often it begins a transaction. `open_ms`: how long one is open before it is committed; None: until
    the next one begins. With `open_ms` up to `every_ms` transactions do not overlap, and one that is late delays the
    next; with more they do.
    `commit_latency_ms`: how long after the request the controller starts the commit.
    `lease_ms`: how long after its writer has died the controller aborts an open transaction, Pravega's transaction
    timeout.
    `noting`: which time a commit notes; `noting.Never()` commits without one, and so does a writer without a
    `writer_id`, whose attempt is recorded as an error (Pravega issue 4222).
    `automatically_note_time`: every commit notes the writer's clock, and committing with a given time is an error.

    The other fields are those of `EventWriter`.
    """

    _: KW_ONLY
    every_ms: Period = 2_000
    open_ms: Period | None = None
    commit_latency_ms: Ms = 400
    lease_ms: Period = 90_000
    kind: Literal["transactional"] = "transactional"


@value
class ReaderGroup:
    """A group of readers that share the segments of the stream, and publish a position every `publish_every_ms`.

    `name`: its name in tables and charts. `readers`: how many it starts with, called `readers-0` and so on.
    `rate_per_s`: how many events each reads in a second at most; None: as they come. `starts_ms`: when it begins.
    `publish_every_ms`: how often a reader publishes its position and reads its time window.
    `read_every_ms`: how often it reads, by the rule `publish_timer="pravega"` or `enters_time="on_passing"`.
    `group_refresh_ms`: how often it polls the shared state, by the rule `publish_timer="pravega"`.
    `time_windows`: whether its readers read the watermarks.
    `tracker_ms`: how long a reader works on one position; of those that arrive meanwhile, only the last one is used.
    `read_latency_ms`: one-way delay of reading events and marks; None: that of the scenario's `network`.
    `state_latency_ms`: one-way delay to the shared state, which readers change by compare-and-set; None: the network's.
    `rebalance`: who releases segments for others: by how many they are, by unread `bytes`, or by the `time` that they
    are behind (PDP-33, "Future Possibilities"). Up to `rebalance_slack_bytes` or `rebalance_slack_ms` nobody does.
    `starting_time`: it begins at the cut that the watermark index has for a time, or else at the head (PDP-33, "Future
    Possibilities"); `starting_checkpoint`: where another group was. Either way it goes on from there in the marks, too.
    `stream`: the stream that it reads; None: the only one.
    `streams`: all of them, if it reads several: it has a window for each, and does not come back to a deleted one.
    """

    name: Name = "readers"
    _: KW_ONLY
    readers: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 1
    rate_per_s: Annotated[float, Field(gt=0, le=10**12, strict=True)] | None = None
    publish_every_ms: Period = 1_000
    starts_ms: Ms = 0
    time_windows: Flag = True
    tracker_ms: Ms = 0
    read_latency_ms: Ms | None = None
    """One-way delay of reading events and marks from the segment store (PDP-33, "Client Changes": "Each reader needs to
    read from the mark Segment"). At each step, a reader requests the next events of all its segments, and the
    watermarks if it needs them, and continues when it has all answers. A loss costs a retransmission, and a partition
    stops the reader. None: the delay and loss of the scenario's `network`; without these, reading takes no time and no
    messages."""
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
            got = self.starting_checkpoint
            yield Problem(("starting_checkpoint",), f"does not go with starting_time (got {got!r})")

    def reads_over_network(self, network: Network) -> bool:
        """Whether reading takes time in this network, and messages: a connection has a delay of its own, or losses."""
        own = network.delay is not None or network.loss > 0
        return own if self.read_latency_ms is None else self.read_latency_ms > 0

    def reader_names(self) -> tuple[str, ...]:
        """The readers that the group starts with."""
        return tuple(f"{self.name}-{index}" for index in range(self.readers))


@value
class Controllers:
    """The controllers: any of them judges a noted time; the owner of a stream's bucket runs its watermark cycle.

    What one chooses first is `count` and `period_ms`:

    `count`: how many there are, called `controller-0`, `controller-1` and so on.
    `period_ms`: how long after a watermark cycle the next one runs. `period_jitter_ms`: by how much that is
    longer at most.
    `start_delay_ms`: when a stream's first cycle runs after the stream came to its owner; None: one period.
    `buckets`: into how many buckets streams are hashed.
    `session_timeout_ms`: when one that sends nothing loses its session and its buckets, even if it does not notice.
    `redistribute_every_ms`: how often buckets are spread again at most, by the rule `distribution="even"`.
    `contact`: which controller a writer calls next: all in turn, any one, or the previous one (`sticky`) until it
    fails: it has left, refuses, or cannot reach its store. Then the writer draws another one. PDP-33 wants no "affinity
    requirements for writers", so the bounds must not depend on it.
    `clocks`: the clocks by which the first ones measure a writer's silence; the others have an exact clock.

    Source: PDP-33, "Distributing Streams Across Controller Instances"; upstream `BucketManager`, `BucketService`.
    """

    count: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 1
    _: KW_ONLY
    buckets: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 100
    period_ms: Period = 10_000
    start_delay_ms: Ms | None = None
    period_jitter_ms: Ms = 0
    session_timeout_ms: Period = 10_000
    redistribute_every_ms: Ms = 10_000
    contact: Literal["round_robin", "random", "sticky"] = "round_robin"
    clocks: tuple[Clock, ...] = ()

    def _problems(self) -> Iterator[Problem]:
        if len(self.clocks) > self.count:
            yield Problem(("clocks",), f"has {len(self.clocks)} clocks for {self.count} controllers")
