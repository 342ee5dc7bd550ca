"""Every way to make a watermark, over one log: strategies as pure steps, compared in one exclusive form."""

from __future__ import annotations

from typing import Final

from wmlab.core import lazy

_NAMES: Final = {
    "advice": "Advice advise",
    "findings": "Finding",
    "comparison": "Comparison Outcome compare",
    "idle_timeouts": "Holds Idleness idleness",
    "lateness": "Knee LatenessCurve lateness_curve",
    "recipes": "Setting settings",
    "clocks": "writer_clocks",
    "windows": "Windows",
    "model.alignment": "Alignment",
    "model.altered": "Altered",
    "model.adwin": "AdwinWatermark",
    "model.bounded": "BoundedOutOfOrderness PerfectWatermark StreamTime",
    "model.engines": "Bytewax Feldera LimitedDelay Quix RisingWave WallClock",
    "model.flink": "Flink",
    "model.guard": "Guarded",
    "model.idle_increments": "IdleIncrements",
    "model.kslack": "AQKSlack MPKSlack",
    "model.models": "JetWatermark NebulaWatermark",
    "model.pravega": "PravegaWatermark",
    "model.percentiles": "ConfluentWatermark DelayPercentile WindowedPercentile",
    "model.spark": "SparkBatches",
    "model.strategy": "END EndOfInput Record SourceEnd Status Strategy Tick UNKNOWN run",
    "model.conformal": "ConformalWatermark",
    "model.writers": "PerWriterMinimum",
}
_HOMES: Final = {
    name: f"wmlab.strategies.{module}:{name}" for module, names in _NAMES.items() for name in names.split()
} | {"chart": "wmlab.strategies.charts", "spark": "wmlab.strategies.spark"}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
