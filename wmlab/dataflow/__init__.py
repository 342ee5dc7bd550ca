"""Keyed watermarks over a dataflow, as in Hazelcast Jet: everything that a dataflow is made of, its charts, its Spark.

`chart` holds the charts, `spark` the functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.core.simulation import Exponential as Exponential
    from wmlab.core.simulation import Fixed as Fixed
    from wmlab.core.simulation import LogNormal as LogNormal
    from wmlab.core.simulation import Uniform as Uniform
    from wmlab.dataflow import charts
    from wmlab.dataflow import spark as spark
    from wmlab.dataflow.answers.permutations import permutations as permutations
    from wmlab.dataflow.model.items import Watermark as Watermark
    from wmlab.dataflow.model.transform import AGAIN as AGAIN
    from wmlab.dataflow.recording import Dataflow as Dataflow
    from wmlab.dataflow.scenario.faults import AddPartition as AddPartition
    from wmlab.dataflow.scenario.faults import Disorder as Disorder
    from wmlab.dataflow.scenario.faults import FailCall as FailCall
    from wmlab.dataflow.scenario.faults import LatePartition as LatePartition
    from wmlab.dataflow.scenario.faults import RemovePartition as RemovePartition
    from wmlab.dataflow.scenario.faults import Restart as Restart
    from wmlab.dataflow.scenario.faults import SilentPartition as SilentPartition
    from wmlab.dataflow.scenario.faults import SlowCalls as SlowCalls
    from wmlab.dataflow.scenario.faults import Stall as Stall
    from wmlab.dataflow.scenario.faults import SwallowAll as SwallowAll
    from wmlab.dataflow.scenario.source import EventTime as EventTime
    from wmlab.dataflow.scenario.source import Source as Source
    from wmlab.dataflow.scenario.vertices import AsyncMap as AsyncMap
    from wmlab.dataflow.scenario.vertices import Custom as Custom
    from wmlab.dataflow.scenario.vertices import Edge as Edge
    from wmlab.dataflow.scenario.vertices import Filter as Filter
    from wmlab.dataflow.scenario.vertices import FlatMap as FlatMap
    from wmlab.dataflow.scenario.vertices import HashJoin as HashJoin
    from wmlab.dataflow.scenario.vertices import Join as Join
    from wmlab.dataflow.scenario.vertices import LateDrop as LateDrop
    from wmlab.dataflow.scenario.vertices import Map as Map
    from wmlab.dataflow.scenario.vertices import Merge as Merge
    from wmlab.dataflow.scenario.vertices import SessionWindow as SessionWindow
    from wmlab.dataflow.scenario.vertices import Sink as Sink
    from wmlab.dataflow.scenario.vertices import StatefulMap as StatefulMap
    from wmlab.dataflow.scenario.vertices import Window as Window

    chart = charts

lazy(__name__)
