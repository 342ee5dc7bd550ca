"""When a reader looks at the shared state, and when it publishes.

Source: upstream `ReaderGroupStateManager`. The check itself happens only while events are read.
"""

from __future__ import annotations

from wmlab.streams.scenario.reader_group import ReaderGroup


class Timers:
    """One reader's timers; with the fixed timer everything is due at every step."""

    def __init__(self, part: ReaderGroup, now_ms: int) -> None:
        self._part = part
        self._fixed = part.publish_timer == "fixed"
        self._refresh_ms = now_ms
        self._acquire_ms = now_ms
        self._publish_ms = now_ms + part.publish_every_ms

    @property
    def step_ms(self) -> int:
        """How often a reader reads."""
        return self._part.publish_every_ms if self._fixed else self._part.read_every_ms

    def check_due(self, now_ms: int, *, free: bool) -> bool:
        """Whether to look at the shared state now; `free`: the reader knows of segments that nobody owns."""
        due = self._fixed or now_ms >= self._refresh_ms or (free and now_ms >= self._acquire_ms)
        if due:
            self._refresh_ms = now_ms + self._part.group_refresh_ms
            self._acquire_ms = now_ms + self._part.publish_every_ms
        return due

    def publish_due(self, now_ms: int, readers: int, *, acquired: bool) -> bool:
        """Whether to publish at a check: after an acquisition, or (readers + 1) periods after the last time."""
        due = self._fixed or acquired or now_ms >= self._publish_ms
        if due:
            self._publish_ms = now_ms + (readers + 1) * self._part.publish_every_ms
        return due

    def expire(self) -> None:
        """Let the next check be due at once, as after a checkpoint."""
        self._refresh_ms = 0
