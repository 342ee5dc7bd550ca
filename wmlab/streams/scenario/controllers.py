"""The controllers of a scenario as one value."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.units import Ms, Period
from wmlab.core.values import Problem, Problems, value
from wmlab.streams.scenario.clock import Clock


@value
class Controllers:
    """The controllers: any of them judges a noted time; the owner of a stream's bucket runs its watermark cycle.

    They are called `controller-0`, `controller-1` and so on. Streams are hashed into `buckets`; the elected
    distributor spreads the buckets evenly over the controllers when one joins or goes, at most every
    `redistribute_every_ms`. A controller that is not heard of for `session_timeout_ms` loses its session and with it
    its buckets, whether it notices or not.

    A stream's first cycle runs `start_delay_ms` after the stream came to its owner (None: one period, Pravega's
    intentional delay), each later one `period_ms` after the one before has ended, plus up to `period_jitter_ms`.
    `contact` says which controller a writer calls next. `clocks` are the clocks of the first controllers, which they
    measure a writer's silence with; the others have an exact one. `marks_read_ms` is how long it takes to read the
    writer marks of a stream, one after the other: beyond 0 it is no snapshot.

    `double_work_entry`: a stream that leaves its bucket and comes back within a period is worked on twice as often
    from then on, as in Pravega, where the old entry of the work queue survives (upstream `BucketService`).

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
    contact: Literal["round_robin", "random"] = "round_robin"
    clocks: tuple[Clock, ...] = ()
    marks_read_ms: Ms = 0
    double_work_entry: bool = False

    def __post_init__(self) -> None:
        if len(self.clocks) > self.count:
            message = f"has {len(self.clocks)} clocks for {self.count} controllers"
            raise Problems("Controllers", [Problem(("clocks",), message)])
