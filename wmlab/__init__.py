"""An analytical workbench for stream watermarks, used from Jupyter.

    import wmlab as wm

    recording = wm.Scenario.load("first_bounds").record()
    bounds = recording.time_bounds(wm.spark_session())
    wm.chart.time_bounds(bounds)

Names are loaded when they are first used, so that a Spark executor that needs `wmlab.streams.model` gets nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlab.core import lazy

if TYPE_CHECKING:
    from wmlab import (
        dataflow as dataflow,
        engines,
        open,
        paper as paper,
        progress as progress,
        spark as spark,
        strategies,
        testing as testing,
    )
    from wmlab.core.run_comparison import compare as compare
    from wmlab.core.spark.session import spark_session as spark_session
    from wmlab.hunting import hunt as hunt
    from wmlab.open import load_recording
    from wmlab.streams import charts
    from wmlab.streams.api import Scenario as Scenario
    from wmlab.streams.scenario import script as script
    from wmlab.streams.scenario.parts import (
        Clock as Clock,
        Controllers as Controllers,
        EventWriter as EventWriter,
        ReaderGroup as ReaderGroup,
        Stream as Stream,
        TransactionalWriter as TransactionalWriter,
    )
    from wmlab.streams.scenario.rules import Rules as Rules

    engine = engines
    trace = open
    strategy = strategies
    load = load_recording
    chart = charts

__version__ = "0.1.0"
lazy(__name__)
