"""Progress by origin, sequence and chunk numbers, as in NebulaStream: all that query plans are made of, charts, Spark.

`chart` holds the charts, `spark` the functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from typing import Final

from wmlab.core import lazy

_NAMES: Final = (
    "Aggregate DelayBuffer DuplicateBuffer Emit EmptyBuffer Filter InOrder Join LogicalStream LoseBuffer Map Query "
    "Renumber Scan SilenceSource Source StallWorker Workers"
)
_HOMES: Final = {
    "chart": "wmlab.progress.charts",
    "spark": "wmlab.progress.spark",
    "PlanScenario": "wmlab.progress.recording:PlanScenario",
    **{name: f"wmlab.progress.scenario:{name}" for name in _NAMES.split()},
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
