"""A stream whose leaders run their cycles by hand, in the two steps in which they read and append."""

from __future__ import annotations

from typing import TypeVar

from wmlab.streams.model import cycle
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.model.log import LeaderView, MarksLog, Watermark, open_view, settle_pointer
from wmlab.streams.model.marks import MarkTable

T = TypeVar("T")


def emit(log: MarksLog[T], view: LeaderView[T], entry: T) -> tuple[MarksLog[T], int | None]:
    """What a cycle does last: append if nobody else has, then move the pointer; the revision, or None."""
    log, revision = log.append_if(view.expected_end, entry)
    return log if revision is None else settle_pointer(log, view), revision


class Led:
    """A stream with its writer marks and its log of watermarks."""

    def __init__(self, history: StreamHistory, rules: cycle.CycleRules) -> None:
        self.history = history
        self.rules = rules
        self.now_ms = 0
        self.marks = MarkTable()
        self.log: MarksLog[Watermark] = MarksLog()

    def decide(
        self, state: cycle.CycleState, *, number: int | None = None
    ) -> tuple[cycle.CycleState, LeaderView[Watermark], tuple[cycle.Effect, ...]]:
        """What a leader reads and decides."""
        self.log, view = open_view(self.log, number=number)
        previous = view.previous[1] if view.previous else None
        event = cycle.Observe(now_ms=self.now_ms, marks=self.marks.marks, previous=previous, history=self.history)
        state, effects = cycle.step(state, event, self.rules)
        return state, view, effects

    def emit(self, view: LeaderView[Watermark], effects: tuple[cycle.Effect, ...]) -> list[Watermark]:
        """The watermarks among the effects that were appended."""
        appended = []
        for effect in effects:
            if isinstance(effect, cycle.Append):
                self.log, revision = emit(self.log, view, effect.watermark)
                appended += [effect.watermark] if revision is not None else []
        return appended
