"""A transactional writer as a value."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.units import Ms, Name, Period
from wmlab.core.values import Problems, value
from wmlab.streams.scenario.clock import Clock
from wmlab.streams.scenario.noting import EarliestOpen, Noting
from wmlab.streams.scenario.parts import load_problems
from wmlab.streams.scenario.units import Keys, WriterId


@value
class TransactionalWriter:
    """A writer whose events are seen when their transaction is committed (PDP-33, "Event Writer API Changes").

    Every `every_ms` it begins a transaction and commits it `open_ms` later (None: when the next one begins). With
    `open_ms` up to `every_ms` transactions do not overlap, and one that is late delays the next; with more they do.
    Committing notes the time that `noting` chooses; `noting.Never()` commits without one, and so does a writer
    without a `writer_id`, whose attempt is recorded as an error (Pravega issue 4222).

    The controller takes up the commit `commit_latency_ms` after the request. When the writer dies, the controller
    aborts what it left open after `lease_ms`, Pravega's transaction timeout. The other fields are those of
    `EventWriter`.
    """

    name: Name
    _: KW_ONLY
    rate_per_s: Annotated[float, Field(ge=0, le=10_000_000, strict=True)] | None = None
    trace: str | None = None
    delay_mean_ms: Annotated[float, Field(ge=0, strict=True)] = 0.0
    keys: Keys = "0..1"
    every_ms: Period = 2_000
    open_ms: Period | None = None
    commit_latency_ms: Ms = 400
    lease_ms: Period = 90_000
    noting: Noting = EarliestOpen()
    writer_id: WriterId | None = "{name}"
    clock: Clock = Clock()
    starts_ms: Ms = 0
    batch_ms: Period = 100
    event_bytes: Annotated[int, Field(ge=0, le=8_388_600, strict=True)] = 100
    stream: Name | None = None
    kind: Literal["transactional"] = "transactional"

    def __post_init__(self) -> None:
        problems = tuple(load_problems(self))
        if problems:
            raise Problems(f"TransactionalWriter {self.name!r}", problems)

    @property
    def id(self) -> str | None:
        """The id under which its marks are kept; None: it has none."""
        return None if self.writer_id is None else self.writer_id.replace("{name}", self.name)
