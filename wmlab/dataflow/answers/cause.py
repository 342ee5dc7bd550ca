"""What holds a watermark of a dataflow at a moment: one cause for each curve, as a value.

A curve is the watermark of one key at one instance, of which a window may wait. It is held by

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
from what was known by then. `release_ms` is no prediction: the rules release it then if nothing else happens.

Source: "Keyed watermark support", Description of current behavior; "Stream-to-stream join", Implementation of multiple
watermarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from wmlab.core.errors import RecordingError
from wmlab.dataflow.answers.run import JobEnd, instance_name
from wmlab.dataflow.model.join import START
from wmlab.dataflow.model.window import OpenWindow
from wmlab.dataflow.sim.layout import OWN_BY_INPUT

if TYPE_CHECKING:
    from wmlab.dataflow.answers.outcome import WindowAnswers
    from wmlab.dataflow.answers.search import Search

Kind = Literal[
    "slow", "throttled", "clock", "idle", "silent", "ended", "no key", "no watermark", "no bound", "batch", "on queue",
    "behind rows", "no room", "inside",
]  # fmt: skip
IN_FLIGHT: Final = ("on queue", "behind rows", "no room", "inside")
"""The kinds of a watermark that has come, or what stands for it, and is on its way."""


class CauseKind(StrEnum):
    """What is the matter with a curve, in one word."""

    HELD = "held"
    IDLE = "idle"
    ENDED = "ended"
    STUCK = "stuck"
    MOVING = "moving"
    FAILED = "failed"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What holds a watermark back, at the place where it begins; times in ms, None if unknown or if there is none.

    `vertex`, `instance`, `partition` say where (the partition of a source, otherwise None; `parallelism` is how many
    instances the vertex has), `kind` why, see the module. What is on a queue waits there since `last_ms`, to be taken
    by `queue_to`, behind `items_before` items; so many items fill a queue without room.

    `mark` is its own watermark, `last_ms` when the last row came, `rejected` how many rows a filter of the source has
    rejected since. `needs_time` is the event time that would release it; where the clock moves it, a row after
    `row_after_ms` would. `next_mark` is the next watermark that a throttled source lets through. `idle_at_ms` is when
    it becomes idle if nothing comes, `idle_since_ms` since when it is. `behind_by` is how far it is behind the next
    input, `end_helps` whether its end would release it. `through` are the vertices between it and the one explained.
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
    row_after_ms: int | None = None
    idle_at_ms: int | None = None
    idle_since_ms: int | None = None
    behind_by: int | None = None
    end_helps: bool = True
    through: tuple[str, ...] = ()
    parallelism: int = 1
    queue_to: str | None = None
    items_before: int | None = None

    @property
    def name(self) -> str:
        """Where it is, in words."""
        if self.partition is not None:
            return f"partition {self.partition} of {self.vertex}"
        return instance_name(self.vertex, self.instance, self.parallelism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What holds the watermark of `key` at an instance of a vertex at `at_ms` (clock, ms).

    `watermark` is what has come or, of a source or join, left, `since_ms` from when on; `needed` the one that is
    awaited, None if any is; `window` the one that waits for it. `holders` keep it from there. `release_ms` is when it
    is released if nothing else happens, None if that is not known; `is_sure`: the clock does that by itself, so a row
    that comes in between changes nothing. `end` is how the job had ended by then.
    """

    kind: CauseKind
    at_ms: int
    vertex: str
    instance: int
    key: int
    watermark: int | None = None
    since_ms: int | None = None
    needed: int | None = None
    window: OpenWindow | None = None
    holders: tuple[Holder, ...] = ()
    release_ms: int | None = None
    end: JobEnd | None = None

    @property
    def is_sure(self) -> bool:
        """Whether the clock releases it by itself."""
        return self.release_ms is not None and all(holder.kind == "clock" for holder in self.holders)


def release_ms_of(holders: Sequence[Holder], at_ms: int) -> int | None:
    """When the last holder becomes idle, or the clock gets there; None if one never does, or without holders."""
    known = [holder.idle_at_ms for holder in holders if holder.idle_at_ms is not None]
    return max([at_ms, *known]) if known and len(known) == len(holders) else None


def cause_at(
    search: Search, vertex: str, key: int | None, instance: int | None, windows: WindowAnswers | None
) -> Cause:
    """What holds the watermark of a vertex: of the instance and the key that are held most, of those asked for.

    `windows` are those of the vertex, if it has some. Raises `RecordingError` if no watermark can reach it, or for a
    key or instance that it does not have.
    """
    known = search.run.keys(vertex)
    if not known:
        raise RecordingError(
            f"no watermark reaches {vertex!r}.", remedy="ask for a vertex behind a source that has times=."
        )
    if key is not None and key not in known:
        raise RecordingError(
            f"{vertex!r} has no watermarks of key {key}.", remedy=f"ask for one of: {', '.join(map(str, known))}."
        )
    copies = range(search.run.vertex(vertex)["parallelism"])
    if instance is not None and instance not in copies:
        raise RecordingError(
            f"{vertex!r} has no instance {instance}.", remedy=f"give a number from 0 to {copies[-1]}, or leave it out."
        )
    if windows is not None:
        known = (windows.key,)
    causes = [
        _cause(search, vertex, number, wanted, windows)
        for wanted in (known if key is None else (key,))
        for number in (copies if instance is None else (instance,))
    ]

    def weight(cause: Cause) -> tuple[bool, int, int, int]:
        """The lower, the more it is held: held at all, then the key, the lowest watermark, the lowest instance."""
        number = 0 if vertex in search.joins else cause.key
        return not cause.holders, number, START if cause.watermark is None else cause.watermark, cause.instance

    return min(causes, key=weight)


def _cause(search: Search, vertex: str, instance: int, key: int, windows: WindowAnswers | None) -> Cause:
    outwards = vertex in search.joins or search.run.vertex(vertex)["kind"] in {"source", OWN_BY_INPUT}
    coalesced = None if outwards else search.level(vertex, instance)
    watermarks = search.job.sent(vertex, instance) if coalesced is None else coalesced.emitted
    watermark, since_ms = watermarks.get(key, (None, None))
    needed = START if watermark is None else watermark + 1
    # One that the watermark has closed is on its way out.
    window = None if windows is None else windows.first_open(instance, needed)
    if windows is not None and window is not None:
        needed = windows.rule.closed_by(window.end)
    holders = search.holders(vertex, instance, key, needed, at="output" if outwards else "inputs")
    kind = CauseKind(search.end.outcome) if search.end is not None else _kind(holders)
    return Cause(
        kind=kind,
        at_ms=search.at_ms,
        vertex=vertex,
        instance=instance,
        key=key,
        watermark=watermark,
        since_ms=since_ms,
        needed=None if needed == START else needed,
        window=window,
        holders=holders,
        release_ms=release_ms_of(holders, search.at_ms) if kind in (CauseKind.HELD, CauseKind.IDLE) else None,
        end=search.end,
    )


def _kind(holders: Sequence[Holder]) -> CauseKind:
    kinds = {holder.kind for holder in holders}
    if kinds & {"no key", "no bound"}:
        return CauseKind.STUCK
    if not kinds:
        return CauseKind.MOVING
    if kinds <= {"idle"}:
        return CauseKind.IDLE
    return CauseKind.ENDED if kinds <= {"ended"} else CauseKind.HELD
