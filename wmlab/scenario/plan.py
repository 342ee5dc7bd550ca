"""Everything that a scenario of query plans is made of; `wmlab.flow.plan` is another name of this module."""

from __future__ import annotations

from wmlab.scenario.plan_operators import Emit, Filter, InOrder, Map, Renumber, Scan
from wmlab.scenario.plan_parts import (
    Aggregate,
    DelayBuffer,
    EmptyBuffer,
    Join,
    LoseBuffer,
    Query,
    SilenceSource,
    Source,
    StallWorker,
    Workers,
)
from wmlab.scenario.plan_scenario import PlanScenario

__all__ = [
    "Aggregate",
    "DelayBuffer",
    "Emit",
    "EmptyBuffer",
    "Filter",
    "InOrder",
    "Join",
    "LoseBuffer",
    "Map",
    "PlanScenario",
    "Query",
    "Renumber",
    "Scan",
    "SilenceSource",
    "Source",
    "StallWorker",
    "Workers",
]
