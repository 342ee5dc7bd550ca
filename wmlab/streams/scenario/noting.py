"""Noting policies: which time a writer notes, from its own state.

A noted time T promises that the writer will not write an event older than T any more. Each policy keeps that
promise under its own condition. PDP-33 leaves the choice to the application ("Introduction"; "Event Writer API
Changes" for the wall clock of automatic noting). Times are those of the writer's events, in the unit that its
`event_time` has.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from wmlab.core import namespace
from wmlab.core.expression import rule_over
from wmlab.core.values import Ms, tagged

__all__ = ["Compute", "EarliestOpen", "LastEventTime", "MaxMinusSlack", "Never", "WallClock"]
namespace(__name__)


@tagged
class EarliestOpen:
    """The time of the earliest event that happened but is not acknowledged yet; the clock when there is none.

    Always keeps the promise. For an airline it is the earliest departure among its flights still in the air.
    """


@tagged
class WallClock:
    """The writer's clock. Keeps the promise only if events are written the moment they happen."""


@tagged
class LastEventTime:
    """The time of the last acknowledged event. Keeps the promise only if events are written in order."""


@tagged
class MaxMinusSlack:
    """The latest acknowledged event time minus `slack_ms`. Keeps the promise while disorder stays below the slack."""

    slack_ms: Ms


@tagged
class Compute:
    """The time that the application computes, by an expression or a Python function of a dict; None: no time.

    The available values, each None if there is none: `clock`, what the writer's clock shows; `earliest_open`, the time
    of the earliest event that is not acknowledged; `last_event_time` and `max_event_time` of the acknowledged ones.
    Whether it keeps the promise is up to the application.
    """

    time: Annotated[Any, BeforeValidator(rule_over("clock", "earliest_open", "last_event_time", "max_event_time"))]
    """The expression or the function that gives the noted time, in ms."""


@tagged
class Never:
    """No time at all; readers then know no bound (PDP-33, "Compatibility and Migration")."""


Noting = Annotated[
    EarliestOpen | WallClock | LastEventTime | MaxMinusSlack | Compute | Never, Field(discriminator="kind")
]
"""Any of the policies."""
