"""The metrics of Flink jobs as Prometheus collects them, in the form of polls of Flink's REST interface.

Flink's reporter gives a page of text, each task manager its own; Prometheus keeps what it has read, so that the hours
before a question are there, too. Neither has the plan of a job: every task counts as a reader of all sources, and what
follows of that is never sure.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

from wmlab.core.errors import EngineError
from wmlab.core.words import shown
from wmlab.engines.flink_rest import Address, asker
from wmlab.engines.tables import FLINK_METRICS, Line, only_id

_OPERATOR: Final = "flink_taskmanager_job_task_operator_"
_SPLIT: Final = f"{_OPERATOR}split_watermark_"
_TASK: Final = "flink_taskmanager_job_task_"
_NAMES: Final = [
    *(f"{_TASK}{metric}" for metric in sorted(FLINK_METRICS)),
    *(f"{_OPERATOR}{metric}" for metric in sorted(FLINK_METRICS)),
    *(f"{_SPLIT}{metric}" for metric in sorted(FLINK_METRICS)),
]
WITHOUT_PLAN: Final = "without plan"
"""The key of the first line that says that the plan of the job is not known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric at one moment, with the labels that Flink's reporter gives it."""

    at_ms: int
    name: str
    labels: Mapping[str, str]
    value: float


def samples_of_text(text: str, at_ms: int) -> list[Sample]:
    """What a page of metrics says, in Prometheus' text form; raises `EngineError` for another text."""
    try:
        return [
            Sample(at_ms, sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in _NAMES
        ]
    except (ValueError, IndexError, KeyError) as wrong:
        raise EngineError(
            f"the text is not a page of metrics: {wrong}.", remedy="give what a /metrics address answers with."
        ) from None


def poll_pages(addresses: Sequence[Address], *, polls: int, every_ms: int) -> list[Sample]:
    """What the pages of all task managers say, so many times; raises `EngineError` if one cannot be reached."""
    samples = []
    begun = time.monotonic()
    for number in range(polls):
        time.sleep(max(begun + number * every_ms / 1_000 - time.monotonic(), 0.0))
        at_ms = time.time_ns() // 1_000_000
        for address in addresses:
            samples += samples_of_text(asker(address, as_text=True)(""), at_ms)
    return samples


def samples_of_range(address: Address, *, last_ms: int, every_ms: int) -> list[Sample]:
    """What Prometheus has kept of the last while, a value every so often; raises `EngineError` without an answer."""
    end_ms = time.time_ns() // 1_000_000
    query = {
        "query": f'{{__name__=~"{"|".join(_NAMES)}"}}',
        "start": (end_ms - last_ms) / 1_000,
        "end": end_ms / 1_000,
        "step": every_ms / 1_000,
    }
    answer = asker(address)(f"/api/v1/query_range?{urlencode(query)}")
    try:
        return [
            Sample(round(float(at_s) * 1_000), series["metric"]["__name__"], series["metric"], float(value))
            for series in answer["data"]["result"]
            for at_s, value in series["values"]
        ]
    except (KeyError, TypeError, ValueError):
        raise EngineError(
            f"{address.url} does not answer as Prometheus does.", remedy="give the address of a Prometheus."
        ) from None


def lines_of(samples: Iterable[Sample], job: str | None = None) -> tuple[Line, ...]:
    """The samples of one job as polls; `job` is its id or name. Raises `EngineError` if none or several jobs fit."""
    by_job: dict[str, list[Sample]] = {}
    names: dict[str, str] = {}
    for sample in samples:
        names[sample.labels.get("job_id", "")] = sample.labels.get("job_name", "")
        by_job.setdefault(sample.labels.get("job_id", ""), []).append(sample)
    fitting = [key for key in by_job if job in (None, key, names[key])]
    what = "jobs" if job is None else f"jobs {shown(job)}"
    chosen = only_id(fitting, what, (f"{name} ({key})" for key, name in names.items()))
    return (_header(chosen, names[chosen], by_job[chosen]), *_polls(by_job[chosen]))


def _header(key: str, name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    # A label keeps the words of the plan, but for some signs.
    tasks = {
        sample.labels["task_id"]: sample.labels["task_name"].replace("____", " -> ").replace(":_", ": ")
        for sample in samples
    }
    numbers = {(sample.labels["task_id"], int(sample.labels["subtask_index"])) for sample in samples}
    sources = [task for task, title in tasks.items() if title.startswith("Source")]
    nodes = [
        {"id": task, "inputs": [] if task in sources else [{"id": source} for source in sources]} for task in tasks
    ]
    vertices = [
        {"id": task, "name": title, "parallelism": 1 + max(n for of, n in numbers if of == task)}
        for task, title in tasks.items()
    ]
    return {"job": {"jid": key, "name": name}, "vertices": vertices, "plan": {"nodes": nodes}, WITHOUT_PLAN: True}


def _polls(samples: Sequence[Sample]) -> Iterator[Line]:
    moments: dict[int, dict[str, dict[str, str]]] = {}
    for sample in samples:
        metrics = moments.setdefault(sample.at_ms, {}).setdefault(sample.labels["task_id"], {})
        value = "NaN" if sample.value != sample.value else str(int(sample.value))
        metrics[_key(sample)] = value
    for at_ms, tasks in sorted(moments.items()):
        vertices = {
            task: {"status": "RUNNING", "watermarks": {}, "metrics": metrics} for task, metrics in tasks.items()
        }
        yield {"at_ms": at_ms, "vertices": vertices, "state": None}


def _key(sample: Sample) -> str:
    """The name that Flink's REST interface gives the same metric."""
    subtask, operator = sample.labels["subtask_index"], sample.labels.get("operator_name", "").replace(":", "_")
    if sample.name.startswith(_SPLIT):
        return f"{subtask}.{operator}.split.{sample.labels['split']}.watermark.{sample.name.removeprefix(_SPLIT)}"
    if sample.name.startswith(_OPERATOR):
        return f"{subtask}.{operator}.{sample.name.removeprefix(_OPERATOR)}"
    return f"{subtask}.{sample.name.removeprefix(_TASK)}"
