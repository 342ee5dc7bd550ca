"""What a dataflow's rules say about the times to come, as far as an answer predicts: sources, windows, joins, limits.

All times in ms. Source: "Keyed watermark support", WM generation; "Stream-to-stream join", time bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from wmlab.dataflow.model.frames import Frames

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """How a source makes watermarks: `lags_ms` by key, and `policies` (lag, real_time, lower_bound) by key.

    `frames` is the grid of its watermarks, None: it sends none. `idle_timeout_ms` None: a partition is never idle.
    `partitions` None: unknown. `rejected_count`: rows that its filter rejects count as activity.
    """

    lags_ms: Mapping[int, int]
    policies: Mapping[int, str]
    frames: Frames | None
    idle_timeout_ms: int | None
    partitions: int | None
    parallelism: int = 1
    rejected_count: bool = True

    def sent(self, mark: int | None) -> int | None:
        """The watermark that a partition's own one stands for; None: none yet."""
        return None if mark is None or self.frames is None else self.frames.floor(mark)

    def needs(self, key: int, watermark: int) -> int | None:
        """The lowest event time that brings a partition to `watermark`; None if its events do not decide."""
        if self.frames is None or self.policies.get(key) != "lag":
            return None
        return self.frames.higher(watermark - 1) + self.lags_ms[key]

    def by_clock_ms(self, key: int, watermark: int) -> int | None:
        """When the clock brings a partition to `watermark`; None if it does not."""
        if self.frames is None or self.policies.get(key) != "real_time":
            return None
        return self.frames.higher(watermark - 1) + self.lags_ms[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRules:
    """Windows of `size_ms`, one every `slide_ms`, of the time in `column` per group `by`, driven by `key`.

    `slide_ms` None: sessions, whose rows follow each other within less than `size_ms`.
    """

    column: str
    key: int
    size_ms: int
    slide_ms: int | None
    by: tuple[str, ...] = ()

    def needs(self, end: int) -> int:
        """The watermark that closes the window or session that ends at `end`."""
        return end if self.slide_ms is not None else end + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """`bounds[a][b] = amount`: the time of b is at least that of a less `amount`. `sides`: the keys of both inputs.

    `emit` is the formula of the output watermark, state or buffer.
    """

    bounds: Mapping[int, Mapping[int, int]]
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    outer: Side | None = None
    emit: Literal["state", "buffer"] = "state"

    def bounding(self, key: int) -> tuple[tuple[int, int], ...]:
        """The keys whose watermarks raise the limit of `key`, each with its amount."""
        return tuple((other, bounded[key]) for other, bounded in sorted(self.bounds.items()) if key in bounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRules:
    """The rules by vertex. `limits` are those of state, in rows or accumulators; `end_ms` when the run ends."""

    sources: Mapping[str, SourceRules] = field(default_factory=dict)
    windows: Mapping[str, WindowRules] = field(default_factory=dict)
    joins: Mapping[str, JoinRules] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    end_ms: int | None = None
