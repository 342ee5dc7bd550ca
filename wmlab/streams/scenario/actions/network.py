"""What can happen between the parties: partitions, stores out of reach, clocks that are set."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.units import Ms, Period
from wmlab.core.values import Problem, Problems, value


@value
class Partition:
    """Nothing passes between `a` and `b` for `for_ms`, or until the end when that is None.

    Each side is a party (a writer, a reader such as `readers-0`, a controller such as `controller-0`,
    `segment-store`, `metadata-store`, `coordinator`) or all of a kind: `writers`, `readers`, `controllers`. Calls
    sent meanwhile are lost, or with `calls="held"` arrive when it ends; what is on a connection always waits. A
    controller that stays cut off from the coordinator loses its session and does not notice before the end.
    """

    _: KW_ONLY
    at_ms: Ms
    a: str
    b: str
    for_ms: Period | None = None
    calls: Literal["lost", "held"] = "lost"
    kind: Literal["partition"] = "partition"

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise Problems("Partition", [Problem(("b",), f"is the same side as a (got {self.b!r})")])


@value
class StoreUnavailable:
    """A store refuses everything for `for_ms`.

    `writer_marks`: no note can be judged and no cycle run; `segment_metadata`: no cycle can compute a cut;
    `marks_segment`: no cycle can read or extend the log, and readers learn of nothing new.
    """

    _: KW_ONLY
    at_ms: Ms
    for_ms: Period
    store: Literal["writer_marks", "segment_metadata", "marks_segment"] = "writer_marks"
    kind: Literal["store_unavailable"] = "store_unavailable"


@value
class StepClock:
    """The clock of a writer or a controller is set forward by `by_ms`, or back when negative."""

    _: KW_ONLY
    at_ms: Ms
    party: str
    by_ms: Annotated[int, Field(strict=True)]
    kind: Literal["step_clock"] = "step_clock"
