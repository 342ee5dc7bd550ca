"""Every way to make a watermark, over one log: strategies as pure steps, compared in one exclusive form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.strategies import charts, spark as spark
    from wmlab.strategies.advice import Advice as Advice, advise as advise
    from wmlab.strategies.clocks import writer_clocks as writer_clocks
    from wmlab.strategies.comparison import Comparison as Comparison, Outcome as Outcome, compare as compare
    from wmlab.strategies.findings import Finding as Finding
    from wmlab.strategies.idle_timeouts import Holds as Holds, Idleness as Idleness, idleness as idleness
    from wmlab.strategies.lateness import Knee as Knee, LatenessCurve as LatenessCurve, lateness_curve as lateness_curve
    from wmlab.strategies.model.adwin import AdwinWatermark as AdwinWatermark
    from wmlab.strategies.model.alignment import Alignment as Alignment
    from wmlab.strategies.model.altered import Altered as Altered
    from wmlab.strategies.model.bounded import (
        BoundedOutOfOrderness as BoundedOutOfOrderness,
        PerfectWatermark as PerfectWatermark,
        StreamTime as StreamTime,
    )
    from wmlab.strategies.model.conformal import ConformalWatermark as ConformalWatermark
    from wmlab.strategies.model.engines import (
        Bytewax as Bytewax,
        Feldera as Feldera,
        LimitedDelay as LimitedDelay,
        Quix as Quix,
        RisingWave as RisingWave,
        WallClock as WallClock,
    )
    from wmlab.strategies.model.flink import Flink as Flink
    from wmlab.strategies.model.guard import Guarded as Guarded
    from wmlab.strategies.model.idle_increments import IdleIncrements as IdleIncrements
    from wmlab.strategies.model.kslack import AQKSlack as AQKSlack, MPKSlack as MPKSlack
    from wmlab.strategies.model.models import JetWatermark as JetWatermark, NebulaWatermark as NebulaWatermark
    from wmlab.strategies.model.percentiles import (
        ConfluentWatermark as ConfluentWatermark,
        DelayPercentile as DelayPercentile,
        WindowedPercentile as WindowedPercentile,
    )
    from wmlab.strategies.model.pravega import PravegaWatermark as PravegaWatermark
    from wmlab.strategies.model.spark import SparkBatches as SparkBatches
    from wmlab.strategies.model.strategy import (
        END as END,
        UNKNOWN as UNKNOWN,
        EndOfInput as EndOfInput,
        Record as Record,
        SourceEnd as SourceEnd,
        Strategy as Strategy,
        Tick as Tick,
        run as run,
    )
    from wmlab.strategies.model.writers import PerWriterMinimum as PerWriterMinimum
    from wmlab.strategies.recipes import Setting as Setting, settings as settings
    from wmlab.strategies.windows import Windows as Windows

    chart = charts

lazy(__name__)
