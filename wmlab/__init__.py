"""An experiment bench for stream watermarks, used from Jupyter.

    import wmlab as wm

    recording = wm.Scenario.load("data/scenarios/first_bounds.yaml").record()
    bounds = recording.time_bounds(wm.spark_session())
    wm.chart.time_bounds(bounds)

Names are loaded when they are first used, so that a Spark executor that needs `wmlab.model` gets nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmlab import spark
    from wmlab import traces as trace
    from wmlab import view as chart
    from wmlab.lab_compare import compare
    from wmlab.lab_panel import panel
    from wmlab.scenario import (
        Clock,
        Controllers,
        EventWriter,
        ReaderGroup,
        Scenario,
        Stream,
        TransactionalWriter,
        flow,
        script,
    )
    from wmlab.spark import spark_session

__version__ = "0.1.0"

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
    "flow",
    "panel",
    "script",
    "spark",
    "spark_session",
    "trace",
]

_PARTS = ("Clock", "Controllers", "EventWriter", "ReaderGroup", "Scenario", "Stream", "TransactionalWriter")
_HOMES = dict.fromkeys(_PARTS, "wmlab.scenario")
_HOMES |= {"compare": "wmlab.lab_compare", "panel": "wmlab.lab_panel", "spark_session": "wmlab.spark"}
_NAMESPACES = {
    "chart": "wmlab.view",
    "flow": "wmlab.scenario.flow",
    "script": "wmlab.scenario.script",
    "spark": "wmlab.spark",
    "trace": "wmlab.traces",
}


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        return importlib.import_module(_NAMESPACES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'wmlab' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
