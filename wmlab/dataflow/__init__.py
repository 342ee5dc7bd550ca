"""Keyed watermarks over a dataflow, as in Hazelcast Jet: everything that a dataflow is made of, its charts, its Spark.

`chart` holds the charts, `spark` the functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.core.simulation import (
        Exponential as Exponential,
        Fixed as Fixed,
        LogNormal as LogNormal,
        Uniform as Uniform,
    )
    from wmlab.dataflow import charts, spark as spark
    from wmlab.dataflow.answers.permutations import permutations as permutations
    from wmlab.dataflow.model.items import Watermark as Watermark
    from wmlab.dataflow.model.transform import AGAIN as AGAIN
    from wmlab.dataflow.recording import Dataflow as Dataflow
    from wmlab.dataflow.rules import Rules as Rules
    from wmlab.dataflow.scenario.faults import (
        AddPartition as AddPartition,
        Disorder as Disorder,
        FailCall as FailCall,
        LatePartition as LatePartition,
        RemovePartition as RemovePartition,
        Restart as Restart,
        SilentPartition as SilentPartition,
        SlowCalls as SlowCalls,
        Stall as Stall,
        SwallowAll as SwallowAll,
    )
    from wmlab.dataflow.scenario.source import EventTime as EventTime, Source as Source
    from wmlab.dataflow.scenario.vertices import (
        AsyncMap as AsyncMap,
        Custom as Custom,
        Edge as Edge,
        Filter as Filter,
        FlatMap as FlatMap,
        HashJoin as HashJoin,
        Join as Join,
        LateDrop as LateDrop,
        Map as Map,
        Merge as Merge,
        SessionWindow as SessionWindow,
        Sink as Sink,
        StatefulMap as StatefulMap,
        Window as Window,
    )

    chart = charts

lazy(__name__)
