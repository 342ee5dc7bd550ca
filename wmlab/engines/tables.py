"""The one table of what a Flink job or a Spark query reported, and how the lines of each engine become its rows.

A line is what the engine said at one moment: of Flink a poll of its REST interface, of Spark the progress of a batch.
What an engine does not say is null: the table holds no guess. A watermark that an engine says there is not yet is
another value, `NONE_YET`: Flink writes −2^63 for it, Spark 1970. Flink writes an unknown share as NaN.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from typing import Any, Final, Literal

import pyarrow as pa

from wmlab.core.errors import UnknownJobError
from wmlab.core.schemas import FLAG, LONG, REAL, TEXT, column, table
from wmlab.core.times import moment_ms
from wmlab.core.words import CALENDAR_MS, CALENDAR_YEARS, listed

Engine = Literal["flink", "spark"]
Line = Mapping[str, Any]
"""One line of a log: JSON as the engine said it."""

ENGINE_TABLE: Final = table(
    column("at_ms", LONG, "when the engine was asked (Flink), or the batch began (Spark)", unit="ms"),
    column("job", TEXT, "the job's or the query's name, or its id without one"),
    column("state", TEXT, "Flink: the job's state, RUNNING or FAILED for example", nullable=True),
    column("exception", TEXT, "why the job has failed, in its first line", nullable=True),
    column("task", TEXT, "Flink: operators that are chained into one task; Spark: 'query', or a source"),
    column("plan", TEXT, "Flink: what the plan says of the task", nullable=True),
    column("inputs", pa.list_(TEXT), "the tasks that it reads; none of a source"),
    column("operator", TEXT, "the operator, as the engine calls it"),
    column("chain", LONG, "its position in the chain of its task, from 0"),
    column("subtask", LONG, "number of the parallel instance, from 0; Spark reports none", nullable=True),
    column("split", TEXT, "Flink: the split or partition of a source that the row is about", nullable=True),
    column("ended", FLAG, "whether the task has finished, so that nobody waits for it"),
    column("input_watermark_ms", LONG, "the watermark that it has got; −2^63: none yet", unit="ms", nullable=True),
    column("output_watermark_ms", LONG, "the watermark that it has sent; −2^63: none yet", unit="ms", nullable=True),
    column("delay_ms", LONG, "the delay of its watermark, where the plan states it", unit="ms", nullable=True),
    column(
        "records_in", LONG, "records received: Flink since the task began, Spark since the log began", nullable=True
    ),
    column("records_out", LONG, "records sent, counted likewise", nullable=True),
    column("late_records", LONG, "rows or groups dropped as late, counted likewise", nullable=True),
    column("state_rows", LONG, "rows in its state", nullable=True),
    column("pending_records", LONG, "records that its source has and it has not read", nullable=True),
    column("idle_share", REAL, "share of its time without anything to do", nullable=True),
    column("busy_share", REAL, "share of its time at work", nullable=True),
    column("back_pressured_share", REAL, "share of its time in which it waited for the next task", nullable=True),
    column("paused_share", REAL, "share of its time in which alignment paused a split", nullable=True),
    column("drift_ms", LONG, "how far alignment has it ahead of its group", unit="ms", nullable=True),
    column("event_max_ms", LONG, "latest event time in the batch; Spark only", unit="ms", nullable=True),
    column("event_min_ms", LONG, "earliest event time in the batch; Spark only", unit="ms", nullable=True),
    column("batch", LONG, "number of the batch; Spark only", nullable=True),
    column("offset", TEXT, "up to where the source has read, in its own words; Spark only", nullable=True),
    column("run", TEXT, "which start of the query; Spark only", nullable=True),
    column("duration_ms", LONG, "how long the batch took; Spark only", unit="ms", nullable=True),
    column("removed_rows", LONG, "rows removed from its state, counted since the log began; Spark only", nullable=True),
)
"""The columns; a row for each operator or split, subtask and poll of Flink, stateful operator, source and batch of
Spark."""

QUERY: Final = "query"
"""The task of a Spark query's own watermark."""
NONE_YET: Final = -(2**63)
"""The watermark of what reports that there has been none; null is one that was not reported."""
_END_OF_TIME: Final = 2**63 - 1
_SHARES: Final = {
    "idle_share": "idleTimeMsPerSecond",
    "busy_share": "busyTimeMsPerSecond",
    "back_pressured_share": "backPressuredTimeMsPerSecond",
}
_COUNTS: Final = {
    "records_in": "numRecordsIn",
    "records_out": "numRecordsOut",
    "late_records": "numLateRecordsDropped",
    "pending_records": "pendingRecords",
    "drift_ms": "watermarkAlignmentDrift",
}
_OF_SPLIT: Final = re.compile(r"(.*)\.split\.(.+)\.watermark\.(\w+)")
"""The metrics of a split, whose name may have dots: `Source__orders.split.topic-0.watermark.currentWatermark`."""
FLINK_METRICS: Final = frozenset(
    [
        *("currentInputWatermark", "currentOutputWatermark", "currentWatermark", "pausedTimeMsPerSecond"),
        *_SHARES.values(),
        *_COUNTS.values(),
    ]
)
"""The metrics of Flink that the table has columns for, by the last part of their names."""
_PLANNED_WATERMARK: Final = re.compile(r"\[(\d+)\]:WatermarkAssigner\(.*?watermark=\[\(?`?\w+`?(?: - (\d+):INTERVAL)?")
_NUMBER: Final = re.compile(r"\[(\d+)\]")


def rows_of(engine: Engine, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The rows of all lines, in order, each with all columns of `ENGINE_TABLE`.

    Raises `KeyError`, `TypeError` or `ValueError` for a line of another form.
    """
    empty = dict.fromkeys(ENGINE_TABLE.names)
    return [empty | row for row in (_rows_of_flink(lines) if engine == "flink" else _rows_of_spark(lines))]


def _rows_of_flink(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    header, *polls = lines
    # A vertex is known by its id: two sources that nobody has named have one name.
    vertices = header["vertices"]
    names = dict(zip([each["id"] for each in vertices], _titled([each["name"] for each in vertices]), strict=True))
    nodes = header["plan"]["nodes"]
    inputs = {node["id"]: [names[edge["id"]] for edge in node.get("inputs", ())] for node in nodes}
    plans = {node["id"]: unescape(node.get("description", "")) for node in nodes}
    # The delay of each watermark by the number of its operator, where the plan states it: `ts - 2000:INTERVAL`.
    stated = (match for node in nodes for match in _PLANNED_WATERMARK.finditer(node.get("description", "")))
    delays = {match[1]: int(match[2] or 0) for match in stated}
    for poll in polls:
        job = {"at_ms": poll["at_ms"], "job": header["job"]["name"]}
        job |= {"state": poll.get("state"), "exception": poll.get("exception")}
        for vertex, reported in poll["vertices"].items():
            task = job | {"task": names[vertex], "inputs": inputs.get(vertex, []), "plan": plans.get(vertex)}
            for row in _rows_of_task(names[vertex], reported, delays):
                yield task | row


def _rows_of_task(task: str, reported: Mapping[str, Any], delays: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The rows of one task at one moment: of each subtask, each operator in the order of the chain, and its splits."""
    by_operator: dict[tuple[int, str], dict[str, str]] = {}
    splits: dict[tuple[int, str, str], dict[str, str]] = {}
    for key, value in {**reported["watermarks"], **reported["metrics"]}.items():
        subtask, _, rest = key.partition(".")
        if of_split := _OF_SPLIT.fullmatch(rest):
            splits.setdefault((int(subtask), of_split[1], of_split[2]), {})[of_split[3]] = value
            continue
        operator, _, metric = rest.rpartition(".")
        by_operator.setdefault((int(subtask), operator), {})[metric] = value
    chained = task.replace(":", "_").replace(" ", "_")
    operators = sorted({name for _, name in by_operator if name}, key=lambda name: (chained.find(name), name))
    ended = reported["status"] == "FINISHED"
    for subtask in sorted({number for number, _ in by_operator}) or [0]:
        of_task = by_operator.get((subtask, ""), {})
        for position, operator in enumerate(operators or [task]):
            metrics = by_operator.get((subtask, operator), {}) if operators else of_task
            number = _NUMBER.search(operator)
            output = _whole(metrics.get("currentOutputWatermark"))
            yield {
                "operator": operator,
                "chain": position,
                "subtask": subtask,
                "ended": ended or (output is not None and output >= _END_OF_TIME),
                "input_watermark_ms": _known_watermark(_whole(metrics.get("currentInputWatermark"))),
                "output_watermark_ms": _known_watermark(output),
                "delay_ms": delays.get(number[1]) if number and operator.startswith("WatermarkAssigner") else None,
                **{name: _whole(metrics.get(metric)) for name, metric in _COUNTS.items()},
                **{name: _share(of_task.get(metric)) for name, metric in _SHARES.items()},
            }
    for (subtask, operator, split), metrics in sorted(splits.items()):
        yield {
            "operator": operator,
            "chain": 0,
            "subtask": subtask,
            "split": split,
            "ended": False,
            "output_watermark_ms": _known_watermark(_whole(metrics.get("currentWatermark"))),
            "idle_share": _share(metrics.get("idleTimeMsPerSecond")),
            "paused_share": _share(metrics.get("pausedTimeMsPerSecond")),
        }


def _known_watermark(watermark: int | None) -> int | None:
    return watermark if watermark is not None and watermark < _END_OF_TIME else None


def _whole(text: str | None) -> int | None:
    """A metric of Flink as a whole number; None for one that is missing, or NaN."""
    if text is None or text == "NaN":
        return None
    return int(text) if "." not in text else int(float(text))


def _share(text: str | None) -> float | None:
    """Milliseconds a second as a share; None for one that is missing, or NaN."""
    number = math.nan if text is None else float(text)
    return None if math.isnan(number) else number / 1_000


def _rows_of_spark(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    totals: Counter[str] = Counter()
    batches = [line for line in lines if not _is_idle(line)] or lines
    for progress in sorted(batches, key=lambda line: str(line["timestamp"])):
        common = {
            "at_ms": moment_ms(progress["timestamp"]),
            "job": progress.get("name") or progress["id"],
            "batch": progress["batchId"],
            "run": progress.get("runId"),
            "duration_ms": (progress.get("durationMs") or {}).get("triggerExecution"),
            "chain": 0,
            "ended": False,
        }
        sources = _titled([source["description"] for source in progress["sources"]])
        yield from (common | row for row in _rows_of_query(progress, sources, totals))
        for title, source in zip(sources, progress["sources"], strict=True):
            totals[title] += source["numInputRows"]
            pending = (source.get("metrics") or {}).get("maxOffsetsBehindLatest")
            yield common | {
                "task": title,
                "inputs": [],
                "operator": title,
                "records_out": totals[title],
                "pending_records": None if pending is None else int(pending),
                "offset": str(source.get("endOffset")),
            }


def _is_idle(progress: Line) -> bool:
    """Whether a progress is of no batch, only of a look for rows: its watermark is that of a batch that has not run."""
    return (progress.get("durationMs") or {}).keys() - {"triggerExecution"} == {"latestOffset"}


def _rows_of_query(progress: Line, sources: Sequence[str], totals: Counter[str]) -> Iterator[dict[str, Any]]:
    """The rows of a query's operators with state in one batch, or of the query itself if it has none."""
    event = progress.get("eventTime") or {}
    watermark = _spark_time(event.get("watermark"))
    operators = progress["stateOperators"] or [{"operatorName": QUERY}]
    written = (progress.get("sink") or {}).get("numOutputRows", -1)
    # Spark's event log has the rows of each source, and no sum of them.
    totals["read"] += sum(source["numInputRows"] for source in progress["sources"])
    totals["written"] += max(written, 0)
    for position, (title, state) in enumerate(
        zip(_titled([each["operatorName"] for each in operators]), operators, strict=True)
    ):
        totals[f"late {title}"] += state.get("numRowsDroppedByWatermark", 0)
        totals[f"removed {title}"] += state.get("numRowsRemoved", 0)
        yield {
            "task": QUERY,
            "inputs": list(sources),
            "operator": title,
            "chain": position,
            # Spark starts with 1970, which is not a watermark of any row.
            "input_watermark_ms": NONE_YET if watermark == 0 else watermark,
            "records_in": totals["read"],
            "records_out": None if written < 0 else totals["written"],
            "late_records": totals[f"late {title}"] if "numRowsDroppedByWatermark" in state else None,
            "state_rows": state.get("numRowsTotal"),
            "removed_rows": totals[f"removed {title}"] if "numRowsRemoved" in state else None,
            "event_max_ms": _spark_time(event.get("max")),
            "event_min_ms": _spark_time(event.get("min")),
        }


def only_id(ids: Sequence[str], what: str, offered: Iterable[str]) -> str:
    """The id of the one job or query that fits; else raises `UnknownJobError`, which names those that are offered."""
    if len(ids) == 1:
        return ids[0]
    names = listed(list(offered), most=6) or "none"
    raise UnknownJobError(f"there are {len(ids)} {what}, of {names}.", remedy="name one with job=, by its id.")


def innermost_reason(text: str | None) -> str | None:
    """The innermost cause in the text of an exception, in a line: of Python, the last line of its traceback; of Java,
    the last cause; or the first line without any.
    """
    raw = (text or "").splitlines()
    begins = [number for number, line in enumerate(raw) if "Traceback (most recent call last)" in line]
    behind = [line for line in raw[begins[-1] + 1 :] if line[:1].isalpha()] if begins else []
    lines = [line.strip() for line in raw if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return next(iter((*behind[:1], *causes[-1:], *lines)), None)


def _titled(names: Sequence[str]) -> list[str]:
    """The names; equal ones get numbers, from 1."""
    counts, numbers = Counter(names), Counter[str]()
    titles = []
    for name in names:
        numbers[name] += 1
        titles.append(f"{name} ({numbers[name]})" if counts[name] > 1 else name)
    return titles


def _spark_time(text: str | None) -> int | None:
    """A time of a progress; Spark writes a year beyond 9999 with its sign: "+57840-11-09T00:43:20.000Z"."""
    if text is None or not (far := _FAR_YEAR.fullmatch(text)):
        return None if text is None else moment_ms(text)
    cycles, year = divmod(int(far[1]), CALENDAR_YEARS)
    return moment_ms(f"{CALENDAR_YEARS + year:04}{far[2]}") + (cycles - 1) * CALENDAR_MS


_FAR_YEAR: Final = re.compile(r"([+-]\d{5,})(-.*)")
