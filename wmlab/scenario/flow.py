"""Everything that a dataflow is made of; `wmlab.flow` is another name of this module.

`flow.plan` holds the query plans whose progress is proved by origin, sequence and chunk.
"""

from __future__ import annotations

from wmlab.scenario import plan
from wmlab.scenario.flow_dataflow import Dataflow
from wmlab.scenario.flow_edges import Edge
from wmlab.scenario.flow_faults import (
    AddPartition,
    Disorder,
    FailCall,
    LatePartition,
    RemovePartition,
    Restart,
    SilentPartition,
    SlowCalls,
    Stall,
    SwallowAll,
)
from wmlab.scenario.flow_permutations import permutations
from wmlab.scenario.flow_source import EventTime, Source
from wmlab.scenario.flow_vertices import AsyncMap, Filter, FlatMap, LateDrop, Map, Merge, Sink, StatefulMap
from wmlab.scenario.flow_windows import Join, SessionWindow, Window
from wmlab.scenario.network import Exponential, Fixed, LogNormal, Uniform

__all__ = [
    "AddPartition",
    "AsyncMap",
    "Dataflow",
    "Disorder",
    "Edge",
    "EventTime",
    "Exponential",
    "FailCall",
    "Filter",
    "Fixed",
    "FlatMap",
    "Join",
    "LateDrop",
    "LatePartition",
    "LogNormal",
    "Map",
    "Merge",
    "RemovePartition",
    "Restart",
    "SessionWindow",
    "SilentPartition",
    "Sink",
    "SlowCalls",
    "Source",
    "Stall",
    "StatefulMap",
    "SwallowAll",
    "Uniform",
    "Window",
    "permutations",
    "plan",
]
