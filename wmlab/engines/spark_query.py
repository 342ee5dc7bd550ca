"""What a running Spark query is asked for besides its progress: the policy of its watermarks, and its plan.

The policy is that of the session in which the query runs, which has a copy of the settings of its start. The plan names
each watermark with its delay, and marks each column that has one: `window#8-T10000ms`.
"""

from __future__ import annotations

import re
from typing import Any, Final

POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
WATERMARKS: Final = "watermarks of the plan"
WITHOUT_WATERMARK: Final = "state without watermark"
"""The names under which what the plan says is kept, next to the settings of the session."""
_DECLARED: Final = re.compile(r"EventTimeWatermark [^,\n]*, (\w+)#\d+[^,\n]*: [^,\n]*, ([^\n,]+)")
_GROUPED: Final = re.compile(r"~?(?:Aggregate|Deduplicate\w*) \[([^\]]*)\]")
_OF_WATERMARK: Final = re.compile(r"-T\d+ms")


def settings_of(query: Any) -> dict[str, str]:
    """The settings of a StreamingQuery and what its plan says of watermarks; nothing of one that cannot be asked."""
    java = getattr(query, "_jsq", None)
    if java is None:
        return {}
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        session = java.streamingQuery().sparkSessionForStream().conf()
        settings = {name: str(session.get(name)) for name in (POLICY, NO_DATA)}
        return settings | of_plan(str(java.explainInternal(True)))
    except Py4JError:
        return {}


def of_plan(text: str) -> dict[str, str]:
    """What the text of a plan says: each watermark with its delay, and the columns of a state that have none.

    >>> plan = "== Analyzed Logical Plan ==\\n~Aggregate [day#2], []\\n~EventTimeWatermark 5c, ts#0: timestamp, 1 hours"
    >>> of_plan(plan)
    {'watermarks of the plan': 'ts 1 hours', 'state without watermark': 'day'}
    """
    analyzed = text.partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    declared = [f"{column} {delay.strip()}" for column, delay in _DECLARED.findall(analyzed)]
    columns = [columns for columns in _GROUPED.findall(analyzed) if not _OF_WATERMARK.search(columns)]
    if not declared:
        return {}
    return {WATERMARKS: ", ".join(declared), WITHOUT_WATERMARK: re.sub(r"#\d+L?", "", ", ".join(columns))}
