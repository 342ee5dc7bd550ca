"""Progress by origin, sequence and chunk numbers, as in NebulaStream: all that query plans are made of, charts, Spark.

`chart` holds the charts, `spark` the functions from DataFrame to DataFrame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.progress import charts
    from wmlab.progress import spark as spark
    from wmlab.progress.recording import PlanScenario as PlanScenario
    from wmlab.progress.scenario import Aggregate as Aggregate
    from wmlab.progress.scenario import DelayBuffer as DelayBuffer
    from wmlab.progress.scenario import DuplicateBuffer as DuplicateBuffer
    from wmlab.progress.scenario import Emit as Emit
    from wmlab.progress.scenario import EmptyBuffer as EmptyBuffer
    from wmlab.progress.scenario import Filter as Filter
    from wmlab.progress.scenario import InOrder as InOrder
    from wmlab.progress.scenario import Join as Join
    from wmlab.progress.scenario import LogicalStream as LogicalStream
    from wmlab.progress.scenario import LoseBuffer as LoseBuffer
    from wmlab.progress.scenario import Map as Map
    from wmlab.progress.scenario import Query as Query
    from wmlab.progress.scenario import Renumber as Renumber
    from wmlab.progress.scenario import Scan as Scan
    from wmlab.progress.scenario import SilenceSource as SilenceSource
    from wmlab.progress.scenario import Source as Source
    from wmlab.progress.scenario import StallWorker as StallWorker
    from wmlab.progress.scenario import Workers as Workers

    chart = charts

lazy(__name__)
