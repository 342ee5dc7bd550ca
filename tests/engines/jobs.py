"""Small jobs for the rules of which no real run is kept: what each source says at each moment."""

from __future__ import annotations

from dataclasses import replace

from wmlab.engines.moments import Instance, Job, Moment, smallest
from wmlab.engines.tables import NONE_YET

BEGIN_MS = 1_700_000_000_000
STEP_MS = 5_000
POLLS = 12
SOURCE, JOIN = "Source: in[1] -> WatermarkAssigner[2]", "Join[3] -> sink[4]"
END_MS = BEGIN_MS + (POLLS - 1) * STEP_MS
QUIET = Moment(
    at_ms=0,
    records=0,
    written=0,
    late_records=0,
    busy_share=0.0,
    back_pressured_share=0.0,
    output_watermark_ms=NONE_YET,
    input_watermark_ms=NONE_YET,
)
"""A task that has reported that nothing has come."""


def source(subtask: int = 0, *, task: str = SOURCE, until: int = POLLS, behind_ms: int = 2_000, **fields) -> Instance:
    """A source that reads ten records a poll, and whose watermark follows the clock, up to a poll."""
    moments = []
    for poll in range(POLLS):
        at_ms = BEGIN_MS + poll * STEP_MS
        last = min(poll, until - 1)
        known = {"records": 10 * (last + 1), "output_watermark_ms": BEGIN_MS + last * STEP_MS - behind_ms}
        moments.append(replace(QUIET, at_ms=at_ms, **((known if until else {}) | fields)))
    return Instance(task, subtask, tuple(moments))


def job_of(*sources: Instance, waits: bool | None = None, **fields) -> Job:
    """A job in which one task reads all sources, and has the smallest of their watermarks."""
    moments = []
    for poll in range(POLLS):
        outputs = [each.moments[poll].output_watermark_ms for each in sources if not each.moments[poll].ended]
        watermark = smallest(outputs)
        at = {"at_ms": BEGIN_MS + poll * STEP_MS, "input_watermark_ms": watermark, "records": 10}
        moments.append(replace(QUIET, **(at | fields)))
    tasks = {}
    for each in sources:
        tasks[each.task] = (*tasks.get(each.task, ()), each)
    inputs = dict.fromkeys(tasks, ()) | {JOIN: tuple(tasks)}
    tasks[JOIN] = (Instance(JOIN, 0, tuple(moments)),)
    plans = {JOIN: "Window(TumblingEventTimeWindows(5000), EventTimeTrigger)<br/>"}
    return Job("flink", "job", END_MS, tasks, inputs, JOIN, "Join[3]", waits, plans=plans)
