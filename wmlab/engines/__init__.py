"""Jobs that run elsewhere: why the watermark of a Flink job or a Spark query stands, from the metrics that it reports.

`flink` and `spark` read a job, `chart` draws what they read.
"""

from __future__ import annotations

from typing import Final

from wmlab.core import lazy

_HOMES: Final = {
    "answers_of": "wmlab.engines.watching:answers_of",
    "chart": "wmlab.engines.charts",
    "Cause": "wmlab.engines.causes:Cause",
    "EngineLog": "wmlab.engines.answers:EngineLog",
    "DIRECTORY": "wmlab.engines.answers:DIRECTORY",
    "ENGINE_TABLE": "wmlab.engines.tables:ENGINE_TABLE",
    "Listener": "wmlab.engines.listener:Listener",
    "flink": "wmlab.engines.api:flink",
    "flink_jobs": "wmlab.engines.api:flink_jobs",
    "is_address": "wmlab.engines.flink_rest:is_address",
    "prometheus": "wmlab.engines.api:prometheus",
    "read": "wmlab.engines.api:read",
    "save_page": "wmlab.engines.watching:save_page",
    "spark": "wmlab.engines.api:spark",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
