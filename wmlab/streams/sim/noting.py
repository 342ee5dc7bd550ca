"""Which time a writer notes under a noting policy, from what it knows at that moment."""

from __future__ import annotations

from typing import Protocol

from wmlab.streams.scenario.noting import EarliestOpen, LastEventTime, MaxMinusSlack, Never, Noting, WallClock


class WriterView(Protocol):
    """What a writer knows when it is about to note; times are None while there is no such event.

    A policy looks at one or two of them, so whoever has to compute them does so when it is asked.
    """

    @property
    def clock_ms(self) -> int:
        """What the writer's clock shows."""

    @property
    def earliest_open(self) -> int | None:
        """Time of the earliest event that has happened and may still be lost or come late."""

    @property
    def last_event_time(self) -> int | None:
        """Time of the event that was acknowledged last."""

    @property
    def max_event_time(self) -> int | None:
        """The highest time of an acknowledged event."""


def time_to_note(policy: Noting, view: WriterView) -> int | None:
    """The time to note, or None to note nothing; the application chooses (PDP-33, "Event Writer API Changes")."""
    match policy:
        case EarliestOpen():
            earliest, shown = view.earliest_open, view.clock_ms
            return shown if earliest is None else min(earliest, shown)
        case WallClock():
            return view.clock_ms
        case LastEventTime():
            return view.last_event_time
        case MaxMinusSlack(slack_ms=slack_ms):
            highest = view.max_event_time
            return None if highest is None else highest - slack_ms
        case Never():
            return None
