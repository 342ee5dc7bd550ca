"""Progress by origin, sequence and chunk numbers, as in NebulaStream: all that query plans are made of, charts, Spark.

`chart` holds the charts, `spark` the functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.progress import charts, spark as spark
    from wmlab.progress.recording import PlanScenario as PlanScenario
    from wmlab.progress.rules import Rules as Rules
    from wmlab.progress.scenario import (
        Aggregate as Aggregate,
        DelayBuffer as DelayBuffer,
        DuplicateBuffer as DuplicateBuffer,
        Emit as Emit,
        EmptyBuffer as EmptyBuffer,
        Filter as Filter,
        InOrder as InOrder,
        Join as Join,
        LogicalStream as LogicalStream,
        LoseBuffer as LoseBuffer,
        Projection as Projection,
        Query as Query,
        Renumber as Renumber,
        Scan as Scan,
        SilenceSource as SilenceSource,
        Source as Source,
        StallWorker as StallWorker,
        Workers as Workers,
    )

    chart = charts

lazy(__name__)
