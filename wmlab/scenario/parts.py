"""The parties of a run as values: the stream, its writers, its reader group.

Names and defaults follow the documents; every deviation of an implementation from its design is a named
option that is off by default.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.scenario.clock import Clock
from wmlab.scenario.noting import EarliestOpen, Noting
from wmlab.scenario.reader_group import ReaderGroup as ReaderGroup
from wmlab.scenario.units import Ms, Period
from wmlab.scenario.units import Name as Name
from wmlab.scenario.value import Problem, Problems, value


@value
class Stream:
    """A stream and the rules its watermarks follow.

    `timestamp_aggregation_timeout_ms` is how long a silent writer is waited for (PDP-33, "Config Changes").
    `timeout_from`: `first_behind` counts from the first cycle that saw the writer behind the barrier, as Pravega
    does; `last_note` counts from its last noted time, as the document says.
    `note_rule`: `implementation` accepts an equal time and compares common segments; `design` is stricter.
    `cut_algorithm`: `sound`, or `pravega` with its `visit_order`, which can produce cuts that move back.
    `bug_6510`: a segment without acknowledgement enters the cut as "end of segment" (Pravega issue 6510).
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


@value
class EventWriter:
    """A writer of events that notes the time.

    Its load is either synthetic, `rate_per_s` events a second that happen at random and are sent after an
    exponential delay of mean `delay_mean_ms`, or the events of a real `trace` (a name or a file) whose writer has
    this writer's name, each sent when it arrived. Events are sent in batches every `batch_ms`, each event
    `event_bytes` long besides an 8-byte header. Every `note_every_ms` the writer notes the time that `noting`
    chooses (None: it never notes by itself). `stream` names the stream it writes to; None: the only one.
    """

    name: Name
    _: KW_ONLY
    rate_per_s: Annotated[float, Field(ge=0, le=10_000_000, strict=True)] | None = None
    trace: str | None = None
    delay_mean_ms: Annotated[float, Field(ge=0, strict=True)] = 0.0
    noting: Noting = EarliestOpen()
    note_every_ms: Period | None = 1_000
    clock: Clock = Clock()
    starts_ms: Ms = 0
    batch_ms: Period = 100
    event_bytes: Annotated[int, Field(ge=0, le=8_388_600, strict=True)] = 100
    stream: Name | None = None

    def __post_init__(self) -> None:
        if (self.rate_per_s is None) == (self.trace is None):
            given = "both" if self.trace is not None else "neither"
            message = f"give either rate_per_s or trace (got {given})"
            raise Problems(f"EventWriter {self.name!r}", [Problem(("rate_per_s",), message)])
        if self.trace is not None and self.delay_mean_ms:
            message = "a trace has its own arrival times; leave delay_mean_ms out"
            raise Problems(f"EventWriter {self.name!r}", [Problem(("delay_mean_ms",), message)])
