"""Noting policies: which time a writer notes, given what it knows.

A noted time T promises that the writer will not write an event older than T any more. Each policy keeps that
promise under its own condition. PDP-33 leaves the choice to the application ("Introduction"; "Event Writer API
Changes" for the wall clock of automatic noting).
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from wmlab.core.values import value


@value
class EarliestOpen:
    """The time of the earliest event that happened but is not acknowledged yet; the clock when there is none.

    Always keeps the promise. For an airline it is the earliest departure among its flights still in the air.
    """

    _: KW_ONLY
    kind: Literal["earliest_open"] = "earliest_open"


@value
class WallClock:
    """The writer's clock. Keeps the promise only if events are written the moment they happen."""

    _: KW_ONLY
    kind: Literal["wall_clock"] = "wall_clock"


@value
class LastEventTime:
    """The time of the last acknowledged event. Keeps the promise only if events are written in order."""

    _: KW_ONLY
    kind: Literal["last_event_time"] = "last_event_time"


@value
class MaxMinusSlack:
    """The latest acknowledged event time less `slack_ms`. Keeps the promise while disorder stays below the slack."""

    slack_ms: Annotated[int, Field(ge=0, strict=True)]
    _: KW_ONLY
    kind: Literal["max_minus_slack"] = "max_minus_slack"


@value
class Never:
    """No time at all; readers then know no bound (PDP-33, "Compatibility and Migration")."""

    _: KW_ONLY
    kind: Literal["never"] = "never"


Noting = Annotated[EarliestOpen | WallClock | LastEventTime | MaxMinusSlack | Never, Field(discriminator="kind")]
"""Any of the policies."""
