"""Every way to make a watermark, over one log: strategies as pure steps, compared in one exclusive form."""

from __future__ import annotations

from typing import Final

from wmlab.core.lazy import lazy

_HOMES: Final = (
    {
        name: f"wmlab.strategies.{module}:{name}"
        for module, names in {
            "advice": "Advice advise",
            "comparison": "Comparison Outcome compare",
            "lateness": "Frontier frontier",
            "replay": "aligned",
        }.items()
        for name in names.split()
    }
    | {
        name: f"wmlab.strategies.model.{module}:{name}"
        for module, names in {
            "alignment": "Alignment",
            "adwin": "AdwinWatermark",
            "beam": "LimitedDelay",
            "bounded": "BoundedOutOfOrderness StreamTime",
            "budgeted": "BudgetedMinimum",
            "clocks": "Bytewax Feldera RisingWave",
            "completeness": "CompletenessWatermark",
            "conformal": "ConformalWatermark",
            "flink": "Flink",
            "joins": "JoinSlack",
            "kafka": "Quix",
            "kslack": "AQKSlack MPKSlack",
            "models": "JetWatermark NebulaWatermark",
            "percentiles": "ConfluentWatermark DelayPercentile SampledPercentile SketchedPercentile WindowedPercentile",
            "perfect": "PerfectWatermark",
            "pravega": "PravegaWatermark",
            "spark": "SparkBatches",
            "strategy": "END EndOfInput Record Status Strategy Tick UNKNOWN run",
            "writers": "PerWriterMinimum",
        }.items()
        for name in names.split()
    }
    | {"chart": "wmlab.strategies.charts", "spark": "wmlab.strategies.spark"}
)

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
