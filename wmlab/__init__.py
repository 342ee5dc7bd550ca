"""An analytical workbench for stream watermarks, used from Jupyter.

    import wmlab as wm

    recording = wm.Scenario.load("first_bounds").record()
    bounds = recording.time_bounds(wm.spark_session())
    wm.chart.time_bounds(bounds)

Names are loaded when they are first used, so that a Spark executor that needs `wmlab.streams.model` gets nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wmlab.core import lazy

if TYPE_CHECKING:
    # What Tab and type checkers see of the names below; a test compares both.
    from wmlab import dataflow, paper, progress, spark, testing
    from wmlab import engines as engine
    from wmlab import open as trace
    from wmlab import strategies as strategy
    from wmlab.core.run_comparison import compare
    from wmlab.core.spark.session import spark_session
    from wmlab.hunting import hunt
    from wmlab.open import load_recording as load
    from wmlab.streams import charts as chart
    from wmlab.streams.api import Scenario
    from wmlab.streams.scenario import script
    from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter

__version__ = "0.1.0"

_HOMES: Final = {
    "Clock": "wmlab.streams.scenario.parts:Clock",
    "Controllers": "wmlab.streams.scenario.parts:Controllers",
    "EventWriter": "wmlab.streams.scenario.parts:EventWriter",
    "ReaderGroup": "wmlab.streams.scenario.parts:ReaderGroup",
    "Scenario": "wmlab.streams.api:Scenario",
    "Stream": "wmlab.streams.scenario.parts:Stream",
    "TransactionalWriter": "wmlab.streams.scenario.parts:TransactionalWriter",
    "chart": "wmlab.streams.charts",
    "compare": "wmlab.core.run_comparison:compare",
    "dataflow": "wmlab.dataflow",
    "engine": "wmlab.engines",
    "hunt": "wmlab.hunting:hunt",
    "load": "wmlab.open:load_recording",
    "paper": "wmlab.paper",
    "progress": "wmlab.progress",
    "script": "wmlab.streams.scenario.script",
    "spark": "wmlab.spark",
    "spark_session": "wmlab.core.spark.session:spark_session",
    "strategy": "wmlab.strategies",
    "testing": "wmlab.testing",
    "trace": "wmlab.open",
}

__all__ = [
    "Clock",
    "Controllers",
    "EventWriter",
    "ReaderGroup",
    "Scenario",
    "Stream",
    "TransactionalWriter",
    "chart",
    "compare",
    "dataflow",
    "engine",
    "hunt",
    "load",
    "paper",
    "progress",
    "script",
    "spark",
    "spark_session",
    "strategy",
    "testing",
    "trace",
]
__getattr__, __dir__ = lazy(__name__, _HOMES)
