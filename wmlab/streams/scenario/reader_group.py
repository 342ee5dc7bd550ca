"""A reader group as a value: how its readers read, publish, compare themselves with the marks, and share the work."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.units import Ms, Name, Period
from wmlab.core.values import Problem, Problems, value
from wmlab.streams.scenario.units import Cut, reader_name


@value
class ReaderGroup:
    """A group of readers that share the segments of the stream.

    Each reader reads up to `rate_per_s` events a second (None: as fast as they come), starting `starts_ms` after
    the scenario, and every `publish_every_ms` publishes its position and looks at its time window.

    How time windows come about:

    - `read_side`: `implementation`, the group shares offsets and each reader compares them with the marks (upstream
      `WatermarkReaderImpl`); `document`, the group shares a map from reader to the time it passed, and the lower
      bound is its minimum (PDP-33, "Client Changes"). In the latter no upper bound is known, a crashed reader takes
      its time with it, and checkpoints carry the offset in the marks segment.
    - `time_windows`: False, nobody looks at the marks.
    - `own_position`: True, a reader compares what it has read itself, published or not (upstream issue 4308).
    - `tracker_ms`, `mark_read_ms`: how long a reader works on one position, and on each mark it fetches, in the
      background; of the positions that come meanwhile only the last is looked at. (In the document's design a reader
      compares when it publishes, and that takes no time.)

    How the state is shared:

    - `publish_timer`: `fixed`, everything happens every `publish_every_ms`; `pravega`, events are read every
      `read_every_ms`, the shared state is looked at every `group_refresh_ms`, and at such a moment a reader publishes
      if it has acquired a segment or if (readers + 1) times `publish_every_ms` have gone by since it last did.
    - `state_latency_ms`: one-way delay to the shared state; None: that of the scenario's network. It is changed by
      compare-and-set: with a delay a reader may find it changed, and tries again.
    - `rebalance`: which readers give segments back to those with less. `segments` counts them, once the members have
      changed; `bytes` sums what remains to be read; `time` sums how far segments are behind the last mark (PDP-33,
      "Future Possibilities"). Differences up to `rebalance_slack_bytes` or `rebalance_slack_ms` are left alone.
    - `automatic_checkpoint_every_ms`: a checkpoint that often; Pravega takes one every 30 s.
    - `starting_cut`, `ending_cut`: begin, and stop, at a stream cut instead of the head of the stream and never.

    `stream` names the stream that the group reads; None: the only one. A group that reads several names them all in
    `streams` instead: it has one state and one set of readers, and a time window for each stream. It does not come
    back to a stream that is deleted and created again; a group of one stream starts anew there.
    """

    name: Name = "readers"
    _: KW_ONLY
    readers: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 1
    rate_per_s: Annotated[float, Field(gt=0, strict=True)] | None = None
    publish_every_ms: Period = 1_000
    starts_ms: Ms = 0
    read_side: Literal["implementation", "document"] = "implementation"
    time_windows: bool = True
    own_position: bool = False
    tracker_ms: Ms = 0
    mark_read_ms: Annotated[float, Field(ge=0, strict=True)] = 0.0
    publish_timer: Literal["fixed", "pravega"] = "fixed"
    read_every_ms: Period = 100
    group_refresh_ms: Period = 3_000
    state_latency_ms: Ms | None = 0
    rebalance: Literal["segments", "bytes", "time"] = "segments"
    rebalance_slack_bytes: Annotated[int, Field(ge=0, strict=True)] = 100_000
    rebalance_slack_ms: Ms = 5_000
    automatic_checkpoint_every_ms: Period | None = None
    starting_cut: Cut | None = None
    ending_cut: Cut | None = None
    stream: Name | None = None
    streams: tuple[Name, ...] = ()

    def __post_init__(self) -> None:
        for field in ("stream", "starting_cut", "ending_cut") if self.streams else ():
            if getattr(self, field) is not None:
                message = f"does not go with several streams (got {getattr(self, field)!r})"
                raise Problems(f"ReaderGroup {self.name!r}", [Problem((field,), message)])

    def reader_names(self) -> tuple[str, ...]:
        """The readers that the group starts with."""
        return tuple(reader_name(self.name, index) for index in range(self.readers))
