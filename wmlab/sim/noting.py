"""Which time a writer notes under a noting policy, from what it knows at that moment."""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.scenario.noting import EarliestOpen, LastEventTime, MaxMinusSlack, Never, Noting, WallClock


@dataclass(frozen=True, slots=True)
class WriterView:
    """What a writer knows when it is about to note; times are None while there is no such event."""

    clock_ms: int
    earliest_open: int | None
    last_event_time: int | None
    max_event_time: int | None


def time_to_note(policy: Noting, view: WriterView) -> int | None:
    """The time to note, or None to note nothing; the application chooses (PDP-33, "Event Writer API Changes")."""
    match policy:
        case EarliestOpen():
            return view.clock_ms if view.earliest_open is None else min(view.earliest_open, view.clock_ms)
        case WallClock():
            return view.clock_ms
        case LastEventTime():
            return view.last_event_time
        case MaxMinusSlack(slack_ms=slack_ms):
            return None if view.max_event_time is None else view.max_event_time - slack_ms
        case Never():
            return None
