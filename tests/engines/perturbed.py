"""Logs of real engines with something taken out, renamed, shifted or swapped; each keeps what is true of its run."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from tests.engines.truth import file_of
from tests.repetitions import repetitions
from wmlab.engines.answers import EngineLog, JobExplanation
from wmlab.engines.moments import title_of
from wmlab.engines.reading import Lines, read_file
from wmlab.engines.tables import FLINK_METRICS

Line = dict[str, Any]
_OF_EVENT_TIME: Final = ("max", "min", "avg", "watermark")
_OF_STATE: Final = ("numRowsTotal", "numRowsRemoved", "numRowsDroppedByWatermark")
_OWN_NAME: Final = re.compile(r"^[A-Za-z][A-Za-z ]*")
SHIFTS_MS: Final = repetitions((-3_600_000, 15_000), long=(-3_600_000, -15_000, 15_000, 3_600_000))


@cache
def lines_of(run: str) -> Lines:
    """The lines of a run; nobody may change them."""
    return read_file(file_of(run))


@cache
def log_of_run(run: str) -> EngineLog:
    """The log of a run, with one table for all that ask it."""
    return log_of(lines_of(run))


@cache
def answer_of(run: str) -> JobExplanation:
    """The answer at the end of a run."""
    return log_of_run(run).explain()


def log_of(lines: Lines) -> EngineLog:
    return EngineLog("a perturbed log", lines)


def perturbed(run: str) -> Iterator[tuple[str, EngineLog]]:
    """Every log that is made of a run, with what was done to it."""
    lines = lines_of(run)
    parts = (_of_flink if lines.engine == "flink" else _of_spark)(lines.lines)
    for what, changed in parts:
        # Where nothing was there to be taken out, the log is the one that it was made of.
        if changed and changed != list(lines.lines):
            yield what, log_of(replace(lines, lines=tuple(changed)))


def _copy(lines: Sequence[Any]) -> list[Line]:
    return json.loads(json.dumps(list(lines)))


def _of_flink(lines: Sequence[Any]) -> Iterator[tuple[str, list[Line]]]:
    header, *polls = lines
    for metric in sorted(FLINK_METRICS):
        yield f"without {metric}", [header, *(_without(poll, metric) for poll in polls)]
    yield "without a plan", [_without_plan(header), *polls]
    yield "half of the polls", [header, *polls[::2]]
    yield "the other half", [header, *polls[1::2]] if len(polls) > 1 else []
    yield "one poll", [header, polls[-1]]
    yield "without the first poll of one task", [header, *_without_first(_copy(polls))]
    for shift_ms in SHIFTS_MS:
        yield f"clock {shift_ms} ms off", [header, *({**poll, "at_ms": poll["at_ms"] + shift_ms} for poll in polls)]
    yield "sources in the other order", _reversed(header, polls)
    yield "operators renamed", _renamed(lines)


def _without(poll: Line, metric: str) -> Line:
    def left(of: Line) -> Line:
        return {key: value for key, value in of.items() if not key.endswith(f".{metric}")}

    vertices = {
        key: {**task, "metrics": left(task["metrics"]), "watermarks": left(task["watermarks"])}
        for key, task in poll["vertices"].items()
    }
    return {**poll, "vertices": vertices}


def _without_plan(header: Line) -> Line:
    changed = _copy([header])[0]
    for node in changed["plan"]["nodes"]:
        node["description"] = ""
    return changed


def _without_first(polls: list[Line]) -> list[Line]:
    """One task has reported nothing in the first poll, as of a task manager that is asked later."""
    if len(polls) > 2:
        for task in list(polls[0]["vertices"].values())[:1]:
            task |= {"metrics": {}, "watermarks": {}}
    return polls


def _reversed(header: Line, polls: Sequence[Line]) -> list[Line]:
    """The tasks and the inputs of each the other way round; but for equal names, which are told apart by order."""
    names = [vertex["name"] for vertex in header["vertices"]]
    if len(set(names)) < len(names):
        return []
    changed, *others = _copy([header, *polls])
    changed["vertices"].reverse()
    changed["plan"]["nodes"].reverse()
    for node in changed["plan"]["nodes"]:
        node.get("inputs", []).reverse()
    return [changed, *({**poll, "vertices": dict(reversed(poll["vertices"].items()))} for poll in others)]


def _renamed(lines: Sequence[Any]) -> list[Line]:
    """Jobs of the DataStream API have names that somebody chose: others take the place of some."""
    if any("]:" in node.get("description", "") for node in lines[0]["plan"]["nodes"]):
        return []
    text = json.dumps(list(lines))
    for old, new in (("window", "Async wait"), ("sink: Writer", "Sort: out"), ("sink__Writer", "Sort__out")):
        text = text.replace(old, new)
    return json.loads(text)


def _of_spark(lines: Sequence[Any]) -> Iterator[tuple[str, list[Line]]]:
    for name in _OF_EVENT_TIME:
        yield f"without eventTime.{name}", [_of(b, "eventTime", name) for b in _copy(lines)]
    for name in _OF_STATE:
        yield f"without {name}", [_of_states(b, name) for b in _copy(lines)]
    yield "without durations", [_of(b, "durationMs", "triggerExecution") for b in _copy(lines)]
    yield "without what came out", [_of(b, "sink", "numOutputRows") for b in _copy(lines)]
    yield "half of the batches", list(lines[::2])
    yield "the other half", list(lines[1::2])
    yield "one batch", list(lines[-1:])
    yield "without the first batches", list(lines[3:])
    yield "sources in the other order", [{**b, "sources": b["sources"][::-1]} for b in _copy(lines)]


def _of(batch: Line, part: str, name: str) -> Line:
    (batch.get(part) or {}).pop(name, None)
    return batch


def _of_states(batch: Line, name: str) -> Line:
    for state in batch["stateOperators"]:
        state.pop(name, None)
    return batch


def swapped(run: str) -> tuple[EngineLog, str, str] | None:
    """The log of a Flink job whose two sources have changed places: what one has reported is said of the other.

    With the names that have to change places in the answer; None unless there are two sources of different names.
    """
    text = (
        gzip.decompress(file_of(run).read_bytes()).decode()
        if file_of(run).suffix == ".gz"
        else file_of(run).read_text()
    )
    header = json.loads(text.partition("\n")[0])
    names = [title_of(vertex["name"]) for vertex in header.get("vertices", ()) if vertex["name"].startswith("Source: ")]
    chosen = [_OWN_NAME.match(name) for name in names]
    if len(names) != 2 or not all(chosen) or len({match[0] for match in chosen if match}) < 2:
        return None
    one, other = (match[0] for match in chosen if match)
    changed = text.replace(one, "\0").replace(other, one).replace("\0", other)
    lines = tuple(json.loads(line) for line in changed.splitlines())
    return log_of(Lines("flink", lines)), one, other
