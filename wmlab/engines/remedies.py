"""Which engine settings repair a finding: only those that the job supports and that are not set yet.

Where a table of Flink SQL makes its watermark in an operator of its own, `WatermarkAssigner` in the plan, the options
`scan.watermark.*` are accepted and have no effect, or are refused. They work where the source makes it: the plan has
it in the scan, or shows no scan, as for connectors that build a source of the DataStream API. A job of that API takes
none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wmlab.core.words import rounded
from wmlab.engines.causes import Cause, Finding
from wmlab.engines.moments import Job

_SCAN: Final = "TableSourceScan("
_IN_SCAN: Final = "watermark=["
_ASSIGNER: Final = "WatermarkAssigner("
_OF_SQL: Final = re.compile(r"\[\d+\]:\w+\(")
"""How the plan describes an operator of Flink SQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting to change, in the engine's own words; `value` is an example where the evidence gives no number."""

    name: str
    value: str
    reason: str


def settings_for(job: Job, finding: Finding) -> list[Setting]:
    """The settings that would change what was found; none for a candidate."""
    if finding.certainty == "candidates":
        return []
    return _of_flink(job, finding) if job.engine == "flink" else _of_spark(finding)


def _of_flink(job: Job, finding: Finding) -> list[Setting]:
    is_sql = bool(_OF_SQL.search(job.plan))
    if finding.cause in (Cause.SILENT_SOURCE, Cause.SILENT_SUBTASK):
        why = f"{finding.whose} sends nothing, and a source that is marked idle is not waited for"
        if not is_sql:
            return [Setting(name="withIdleness", value="Duration.ofSeconds(30), in its WatermarkStrategy", reason=why)]
        whole = Setting(name="table.exec.source.idle-timeout", value="'30 s', for all sources of the job", reason=why)
        if not _takes_watermark(job, finding):
            return [whole]
        one = Setting(name="scan.watermark.idle-timeout", value="'30 s', for the table of that source", reason=why)
        return [one, whole]
    if finding.cause is Cause.NO_WATERMARK:
        why = f"{finding.whose} gives no watermark"
        if is_sql:
            value = "ts AS ts - INTERVAL '5' SECOND, with the time column of the table"
            return [Setting(name="WATERMARK FOR", value=value, reason=why)]
        value = "forBoundedOutOfOrderness(Duration.ofSeconds(5)) with a timestamp assigner"
        return [Setting(name="WatermarkStrategy", value=value, reason=why)]
    if finding.cause is Cause.SOURCE_BEHIND and len({each.task for each in job.sources}) > 1:
        return _alignment(job, finding, is_sql)
    if finding.cause is Cause.TIME_ZONE and is_sql:
        why = "the event times are those of a clock in local time"
        return [Setting(name="table.local-time-zone", value="UTC", reason=why)]
    return []


def _alignment(job: Job, finding: Finding, is_sql: bool) -> list[Setting]:
    others = [each for each in job.sources if each.source != finding.whose and job.is_live(each)]
    waits = any(each.last.records and each.is_silent(job.at_ms) for each in others)
    is_set = waits or any(at.drift_ms is not None for each in job.sources for at in each.moments)
    why = f"{finding.whose} is {rounded(finding.shift_ms or 0)} behind; this moves no watermark, it keeps the others "
    why += "from filling the state meanwhile"
    if is_set or (is_sql and not _takes_watermark(job, finding)):
        return []
    if is_sql:
        value = "one name for both sources, with scan.watermark.alignment.max-drift"
        return [Setting(name="scan.watermark.alignment.group", value=value, reason=why)]
    value = '("group", Duration.ofMinutes(1)), in the WatermarkStrategy of each source'
    return [Setting(name="withWatermarkAlignment", value=value, reason=why)]


def _takes_watermark(job: Job, finding: Finding) -> bool:
    """Whether the source of a table makes the watermark, by the plan."""
    tasks = [each.task for each in job.sources if finding.whose and each.source in finding.whose]
    plans = [(job.plans or {}).get(task, "") for task in tasks]
    scans = [plan.partition("<br/>")[0] for plan in plans]
    return bool(plans) and all(
        _IN_SCAN in scan if _SCAN in scan else _ASSIGNER not in plan for plan, scan in zip(plans, scans, strict=True)
    )


def _of_spark(finding: Finding) -> list[Setting]:
    if finding.cause is Cause.NO_WATERMARK:
        return [Setting(name="withWatermark", value="the time column, and how late its rows come", reason=finding.what)]
    if finding.cause is Cause.SILENT_SOURCE:
        why = f"with min, the default, {finding.whose} holds the watermark of the whole query"
        value = "max, if rows of the slower source may be dropped"
        return [Setting(name="spark.sql.streaming.multipleWatermarkPolicy", value=value, reason=why)]
    if finding.cause is Cause.FASTEST_DECIDES:
        return [Setting(name="spark.sql.streaming.multipleWatermarkPolicy", value="min", reason=finding.what)]
    if finding.cause is Cause.NO_DATA_BATCHES:
        return [Setting(name=str(finding.whose), value="true", reason=finding.what)]
    if finding.cause in (Cause.DELAY_TOO_LARGE, Cause.DELAY_TOO_SMALL) and finding.needed_ms is not None:
        is_late = finding.cause is Cause.DELAY_TOO_SMALL
        why = f"a row was {rounded(finding.needed_ms)} behind the newest one at most" if is_late else finding.what
        value = f"a delay of {rounded(finding.needed_ms)} or more instead of {rounded(finding.shift_ms or 0)}"
        return [Setting(name="withWatermark", value=value, reason=why)]
    return []
