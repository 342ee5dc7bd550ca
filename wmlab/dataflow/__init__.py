"""Keyed watermarks over a dataflow, as in Hazelcast Jet: everything that a dataflow is made of, its charts, its Spark.

`chart` holds the charts, `spark` the functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from typing import Final

from wmlab.core import lazy

_HOMES: Final = {
    "AGAIN": "wmlab.dataflow.model.transform:AGAIN",
    "chart": "wmlab.dataflow.charts",
    "spark": "wmlab.dataflow.spark",
    "Dataflow": "wmlab.dataflow.recording:Dataflow",
    "Watermark": "wmlab.dataflow.model.items:Watermark",
    "sql": "wmlab.dataflow.recording:sql",
    "permutations": "wmlab.dataflow.answers.permutations:permutations",
    **{
        name: f"wmlab.dataflow.scenario.{module}:{name}"
        for module, names in {
            "faults": "AddPartition Disorder FailCall LatePartition RemovePartition Restart SilentPartition SlowCalls "
            "Stall SwallowAll",
            "source": "EventTime Source",
            "vertices": "AsyncMap Custom Edge Filter FlatMap HashJoin Join LateDrop Map Merge SessionWindow Sink "
            "StatefulMap Window",
        }.items()
        for name in names.split()
    },
    **{name: f"wmlab.core.simulation:{name}" for name in ("Exponential", "Fixed", "LogNormal", "Uniform")},
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
