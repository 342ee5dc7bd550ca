"""Every way to make a watermark, over one log: strategies as pure steps, compared in one exclusive form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab.strategies import charts
    from wmlab.strategies import spark as spark
    from wmlab.strategies.advice import Advice as Advice
    from wmlab.strategies.advice import advise as advise
    from wmlab.strategies.clocks import writer_clocks as writer_clocks
    from wmlab.strategies.comparison import Comparison as Comparison
    from wmlab.strategies.comparison import Outcome as Outcome
    from wmlab.strategies.comparison import compare as compare
    from wmlab.strategies.findings import Finding as Finding
    from wmlab.strategies.idle_timeouts import Holds as Holds
    from wmlab.strategies.idle_timeouts import Idleness as Idleness
    from wmlab.strategies.idle_timeouts import idleness as idleness
    from wmlab.strategies.lateness import Knee as Knee
    from wmlab.strategies.lateness import LatenessCurve as LatenessCurve
    from wmlab.strategies.lateness import lateness_curve as lateness_curve
    from wmlab.strategies.model.adwin import AdwinWatermark as AdwinWatermark
    from wmlab.strategies.model.alignment import Alignment as Alignment
    from wmlab.strategies.model.altered import Altered as Altered
    from wmlab.strategies.model.bounded import BoundedOutOfOrderness as BoundedOutOfOrderness
    from wmlab.strategies.model.bounded import PerfectWatermark as PerfectWatermark
    from wmlab.strategies.model.bounded import StreamTime as StreamTime
    from wmlab.strategies.model.conformal import ConformalWatermark as ConformalWatermark
    from wmlab.strategies.model.engines import Bytewax as Bytewax
    from wmlab.strategies.model.engines import Feldera as Feldera
    from wmlab.strategies.model.engines import LimitedDelay as LimitedDelay
    from wmlab.strategies.model.engines import Quix as Quix
    from wmlab.strategies.model.engines import RisingWave as RisingWave
    from wmlab.strategies.model.engines import WallClock as WallClock
    from wmlab.strategies.model.flink import Flink as Flink
    from wmlab.strategies.model.guard import Guarded as Guarded
    from wmlab.strategies.model.idle_increments import IdleIncrements as IdleIncrements
    from wmlab.strategies.model.kslack import AQKSlack as AQKSlack
    from wmlab.strategies.model.kslack import MPKSlack as MPKSlack
    from wmlab.strategies.model.models import JetWatermark as JetWatermark
    from wmlab.strategies.model.models import NebulaWatermark as NebulaWatermark
    from wmlab.strategies.model.percentiles import ConfluentWatermark as ConfluentWatermark
    from wmlab.strategies.model.percentiles import DelayPercentile as DelayPercentile
    from wmlab.strategies.model.percentiles import WindowedPercentile as WindowedPercentile
    from wmlab.strategies.model.pravega import PravegaWatermark as PravegaWatermark
    from wmlab.strategies.model.spark import SparkBatches as SparkBatches
    from wmlab.strategies.model.strategy import END as END
    from wmlab.strategies.model.strategy import UNKNOWN as UNKNOWN
    from wmlab.strategies.model.strategy import EndOfInput as EndOfInput
    from wmlab.strategies.model.strategy import Record as Record
    from wmlab.strategies.model.strategy import SourceEnd as SourceEnd
    from wmlab.strategies.model.strategy import Strategy as Strategy
    from wmlab.strategies.model.strategy import Tick as Tick
    from wmlab.strategies.model.strategy import run as run
    from wmlab.strategies.model.writers import PerWriterMinimum as PerWriterMinimum
    from wmlab.strategies.recipes import Setting as Setting
    from wmlab.strategies.recipes import settings as settings
    from wmlab.strategies.windows import Windows as Windows

    chart = charts

lazy(__name__)
