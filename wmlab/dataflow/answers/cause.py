"""What holds a watermark of a dataflow at a moment: one cause for each curve, as a value.

A curve is the watermark of one key at one instance; a window may wait for it. It is held by

    stalled            an instance stands still
    slow               a partition whose rows are not that far
    throttled          a partition that is that far; its source lets watermarks through by frames only
    clock              a partition that follows the clock
    idle               an input that is idle, and so could come back
    silent             a partition that is idle, and has not sent that
    ended              an input that has ended
    no key             an input that brings no watermarks of the key, and is neither idle nor done
    no watermark       a source that sends no watermarks at all
    no bound           a join in which nothing of the other side bounds the key
    batch              the side of a join that is read to its end first
    on queue           what would release it lies on a queue
    behind rows        the instance took it, and is not done with rows that it took before
    no room            a queue out of an instance is full
    inside             an instance has it, and has not forwarded it

or by nothing: then it is `moving`. A job that has failed holds everything, and that is said first. A cause is taken
from what was known by then. `release_ms` is not a prediction: the rules release it then if nothing else happens.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join", Implementation of multiple
watermarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from wmlab.dataflow.answers.job import FaultInForce
from wmlab.dataflow.answers.run import JobEnd, instance_name
from wmlab.dataflow.model.join import START
from wmlab.dataflow.model.window import OpenWindow

Kind = Literal[
    "stalled", "slow", "throttled", "clock", "idle", "silent", "ended", "no key", "no watermark", "no bound", "batch",
    "on queue", "behind rows", "no room", "inside",
]  # fmt: skip
IN_FLIGHT: Final = ("on queue", "behind rows", "no room", "inside")
"""The kinds of a watermark that has come, or what stands for it, and is on its way."""
CauseKind = Literal["held", "idle", "ended", "stuck", "moving", "failed", "completed"]
"""What is the matter with a curve, in one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What holds a watermark back, at the place where it begins; times in ms, None if unknown or if there is none.

    `vertex`, `instance`, `partition` say where (the partition of a source, otherwise None; `parallelism` is how many
    instances the vertex has), `kind` why, see the module. What is on a queue waits there since `last_ms`, to be taken
    by `queue_to`, behind `items_before` items; so many items fill a queue without room.

    `mark` is its own watermark, `last_ms` when the last row came, `rejected` how many rows a filter of the source has
    rejected since. `needs_time` is the event time that would release it. `next_mark` is the next watermark that a
    throttled source lets through. `idle_at_ms` is when it becomes idle if nothing comes, `idle_since_ms` since when it
    is; before `quiet_until_ms`, the end of a fault, no row of it comes, and it does not become idle. `end_helps` says
    whether its end would release it. `through` are the vertices between it and the one explained. `marks` are the
    watermarks of the inputs on the way to it, from the vertex explained on; they rank the holders. A row is enough in
    any of the holders with the same `any_of`, which are idle together; None: it is needed here. With `is_filtered` a
    row has to pass the filter of the source.
    `fault` happens to it or, where `queue_to` has to take something, to that or to what keeps that from it.
    """

    vertex: str
    instance: int
    partition: int | None = None
    kind: Kind
    key: int
    mark: int | None = None
    last_ms: int | None = None
    rejected: int = 0
    needs_time: int | None = None
    next_mark: int | None = None
    idle_at_ms: int | None = None
    quiet_until_ms: int | None = None
    idle_since_ms: int | None = None
    end_helps: bool = True
    through: tuple[str, ...] = ()
    marks: tuple[int, ...] = ()
    parallelism: int = 1
    queue_to: str | None = None
    items_before: int | None = None
    fault: FaultInForce | None = None
    any_of: tuple[object, ...] | None = None
    is_filtered: bool = False

    @property
    def name(self) -> str:
        """Where it is, in words."""
        if self.partition is not None:
            return f"partition {self.partition} of {self.vertex}"
        return instance_name(self.vertex, self.instance, self.parallelism)

    @property
    def place(self) -> tuple[str, int, int | None, int]:
        """Where it is, and the key."""
        return self.vertex, self.instance, self.partition, self.key

    @property
    def stall(self) -> FaultInForce | None:
        """The stall because of which it holds; None if there is none."""
        return self.fault if self.fault is not None and self.fault.kind == "stalled" else None

    @property
    def is_waiting(self) -> bool:
        """Whether something holds that has come, or waits for an instance that stands still."""
        return self.kind in IN_FLIGHT or self.stall is not None

    def is_ahead(self, key: int, watermark: int | None) -> bool:
        """Whether what it has let through is above a watermark of the same key (None: none yet)."""
        return self.key == key and bool(self.marks) and self.marks[-1] > (START if watermark is None else watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What holds the watermark of `key` at an instance of a vertex at one moment.

    `watermark` is what has come or, of a source or join, left, `since_ms` from when on; `needed` the one that is
    awaited, None if any is; `window` the one that waits for it. `holders` keep it from there, those first that keep
    the watermark where it is, `holders_now`; of each the lowest is first. `release_ms` is when it is released if
    nothing else happens, None if that is not known. `end` is how the job had ended by then.
    """

    kind: CauseKind
    vertex: str
    instance: int
    key: int
    watermark: int | None = None
    since_ms: int | None = None
    needed: int | None = None
    window: OpenWindow | None = None
    holders: tuple[Holder, ...] = ()
    holders_now: tuple[Holder, ...] = ()
    release_ms: int | None = None
    end: JobEnd | None = None


def setters_first(holders: Sequence[Holder], now: Sequence[Holder]) -> tuple[Holder, ...]:
    """Holders in their order, those first that keep the watermark where it is."""
    places = {holder.place for holder in now}
    return tuple(sorted(holders, key=lambda holder: holder.place not in places))


def release_ms_of(holders: Sequence[Holder], at_ms: int) -> int | None:
    """When the last holder becomes idle, or the clock gets there; None if one never does, or without holders."""
    known = [holder.idle_at_ms for holder in holders if holder.idle_at_ms is not None]
    return max([at_ms, *known]) if known and len(known) == len(holders) else None
