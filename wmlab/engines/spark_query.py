"""What a running Spark query is asked for besides its progress: the policy of its watermarks, and its plan.

The policy is that of the session in which the query runs, which has a copy of the settings of its start. The plan names
each watermark with its delay, and marks each column that has one: `window#8-T10000ms`. Of a window it has the length in
microseconds, of each side of a join the time up to which its rows are removed at a watermark, or that none is.
"""

from __future__ import annotations

import re
from typing import Any, Final

POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
WATERMARKS: Final = "watermarks of the plan"
WITHOUT_WATERMARK: Final = "state without watermark"
KEPT: Final = "rows of the plan are kept"
MODE: Final = "output mode"
"""The names under which what the plan says is kept, next to the settings of the session."""
FOR_EVER: Final = "for ever"
_DECLARED: Final = re.compile(r"EventTimeWatermark [^,\n]*, (\w+)#\d+[^,\n]*: [^,\n]*, ([^\n,]+)")
_GROUPED: Final = re.compile(r"~?(?:Aggregate|Deduplicate) \[([^\]]*)\]")
_WINDOW: Final = re.compile(r"\+ (\d+)\), LongType, TimestampType")
_JOIN: Final = re.compile(r", \d+, (\d+), state cleanup \[ left(.*?), right(.*?) \], ")
_UNTIL: Final = re.compile(r" (?:<|<=) (-?\d+)\)")
_MODE: Final = re.compile(r"StateStoreSave.*, (Complete|Update|Append), -?\d+")
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
    """What the text of a plan says: each watermark with its delay, the columns of a state without one, the output mode.

    >>> plan = "== Analyzed Logical Plan ==\\n~Aggregate [day#2], []\\n~EventTimeWatermark 5c, ts#0: timestamp, 1 hours"
    >>> of_plan(plan)["watermarks of the plan"], of_plan(plan)["state without watermark"]
    ('ts 1 hours', 'day')
    """
    analyzed = text.partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    declared = [f"{column} {delay.strip()}" for column, delay in _DECLARED.findall(analyzed)]
    columns = [columns for columns in _GROUPED.findall(analyzed) if not _OF_WATERMARK.search(columns)]
    # How long the windows are, in ms.
    lengths = [str(int(length) // 1_000) for length in _WINDOW.findall(analyzed)]
    mode = {MODE: modes[1]} if (modes := _MODE.search(text)) else {}
    if not declared:
        return mode
    return mode | {
        WATERMARKS: ", ".join(declared),
        WITHOUT_WATERMARK: re.sub(r"#\d+L?", "", ", ".join(columns)),
        KEPT: ", ".join(dict.fromkeys([*lengths, *_sides(text)])),
    }


def _sides(text: str) -> list[str]:
    """For how long each side of a join keeps its rows, in ms of event time, or that it does so for ever.

    >>> _sides("= None, 0, 9000, state cleanup [ left value predicate: (ts#1-T5000ms <= 7000000), right = null ], 2")
    ['2000', 'for ever']
    """
    sides = [(int(mark), side) for mark, *both in _JOIN.findall(text) for side in both]
    known = [(mark, _UNTIL.search(side)) for mark, side in sides]
    return [str(mark - int(until[1]) // 1_000) if until else FOR_EVER for mark, until in known]
