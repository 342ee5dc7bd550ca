"""Jobs that run elsewhere: why the watermark of a Flink job or a Spark query stands, from the metrics that it reports.

`flink` and `spark` read a job, `chart` draws what they read.
"""

from __future__ import annotations

from typing import Final

from wmlab.core import lazy

_HOMES: Final = {
    "chart": "wmlab.engines.charts",
    "Cause": "wmlab.engines.causes:Cause",
    "EngineLog": "wmlab.engines.answers:EngineLog",
    "DIRECTORY": "wmlab.engines.answers:DIRECTORY",
    "ENGINE_TABLE": "wmlab.engines.tables:ENGINE_TABLE",
    "Listener": "wmlab.engines.listener:Listener",
    "flink": "wmlab.engines.answers:flink",
    "read": "wmlab.engines.answers:read",
    "spark": "wmlab.engines.answers:spark",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
