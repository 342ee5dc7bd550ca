"""What a job reported, as lines of JSON: of a file, an event log of Spark, or a query of Spark that runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from wmlab.core.errors import EngineError
from wmlab.core.files import as_path, read_text
from wmlab.core.times import moment_ms
from wmlab.core.words import listed, shown
from wmlab.engines.collected import lines_of, samples_of_text
from wmlab.engines.flink_rest import SETTINGS
from wmlab.engines.spark_query import settings_of
from wmlab.engines.tables import Engine, Line, innermost_reason, only_id

_MOST_BYTES: Final = 256 * 2**20
"""How large a file of lines may be."""
_HEADER: Final = "wmlab engine log"
"""The key of the line with which a kept log of Spark begins."""
_OF_HEADER: Final = ("until_ms", "waits", "state", "exception", "settings")
_EVENTS: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
"""How the events of queries begin in Spark's event log."""
_COMPRESSED: Final = {".zstd": "zstd", ".zst": "zstd", ".lz4": "lz4", ".gz": "gzip"}


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one job or query. `until_ms` is until when it was looked at, `waits` whether it is known to have run
    and waited for data then, `state` is "RUNNING", "FAILED" or "ENDED" with its exception for Spark, whose lines have
    none; all are None where nobody said so.
    """

    engine: Engine
    lines: tuple[Line, ...]
    until_ms: int | None = None
    waits: bool | None = None
    state: str | None = None
    exception: str | None = None
    settings: Mapping[str, str] | None = None

    @property
    def settings_known(self) -> Mapping[str, str]:
        """The settings that were asked for; those of Flink are in its first line."""
        return (self.lines[0].get(SETTINGS) if self.engine == "flink" else self.settings) or {}

    def text(self) -> str:
        """The lines as a file has them."""
        known = {name: getattr(self, name) for name in _OF_HEADER}
        header = [{_HEADER: 1} | known] if self.engine == "spark" else []
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [*header, *self.lines])


def read_file(path: str | Path, *, query: str | None = None) -> Lines:
    """The lines in a file: polls of Flink that wmlab kept, a page of Flink's metrics as Prometheus reads it, the
    progress of a Spark query, a line a batch, or Spark's event log, a file or a folder of rolling ones.

    `query` is the name or id of a query of an event log, and may be left out if it has one. Raises `EngineError` for a
    file that is none of these, is too large, or has a line that is no JSON object.
    """
    file = as_path(path, EngineError)
    try:
        text = _text(file)
    except (OSError, UnicodeDecodeError) as wrong:
        reason = (wrong.strerror or str(wrong)) if isinstance(wrong, OSError) else "it is no UTF-8 text"
        raise EngineError(
            f"{str(file)!r} cannot be read: {reason}.",
            remedy="give a file that log.save wrote; of a job that runs, the address of its REST interface, such as "
            "http://localhost:8081.",
        ) from None
    if text.startswith(("# HELP", "# TYPE")):
        return Lines("flink", lines_of(samples_of_text(text, int(file.stat().st_mtime * 1_000)), query))
    lines = [_object(line, f"{file.name}, line {number}") for number, line in _numbered(text)]
    if not lines:
        raise EngineError(f"{str(file)!r} is empty.", remedy="give a file that log.save wrote, or JSON lines of Spark.")
    if "vertices" in lines[0] and "plan" in lines[0]:
        if len(lines) < 2:
            raise EngineError(f"{str(file)!r} has no poll of the job.", remedy="poll the job again.")
        return Lines("flink", tuple(lines))
    if "Event" in lines[0]:
        return _of_events(lines, query, str(file))
    header = lines.pop(0) if _HEADER in lines[0] else {}
    if not lines or "batchId" not in lines[0]:
        raise EngineError(
            f"{str(file)!r} is neither polls of Flink nor progress of Spark: its first line has {_keys(lines)}.",
            remedy="give a file that log.save wrote, or one with query.lastProgress.json a line.",
        )
    return Lines("spark", _one_query(lines), **{name: header.get(name) for name in _OF_HEADER})


def _text(file: Path) -> str:
    """The text of a file, or of the files of a rolling event log, each as it is or compressed."""
    if file.is_dir():
        parts = sorted(file.glob("events_*"), key=lambda part: [int(n) for n in re.findall(r"\d+", part.name)[:1]])
        return "".join(map(_text, parts))
    if compression := _COMPRESSED.get(file.suffix):
        with pa.input_stream(str(file), compression=compression) as stream:
            content: bytes = stream.read(_MOST_BYTES)
        return content.decode()
    return read_text(file, _MOST_BYTES)


def _of_events(events: Iterable[Line], query: str | None, where: str) -> Lines:
    """The progress of one query in an event log, and how it ended."""
    own = [event for event in events if str(event.get("Event")).startswith(_EVENTS)]
    starts = {str(event["id"]): event for event in own if "name" in event}
    reported: dict[str, list[Line]] = {key: [] for key in starts}
    for event in own:
        if "progress" in event:
            reported.setdefault(str(event["progress"]["id"]), []).append(event["progress"])
    names = {key: starts.get(key, {}).get("name") for key in reported}
    fitting = [key for key in reported if query in (None, key, names[key])]
    offered = (f"{names[key] or 'without a name'} ({key})" for key in reported)
    chosen = only_id(fitting, f"such queries in {where}", offered)
    lines = reported[chosen] or [_no_batch(starts[chosen])]
    ends = [e for e in own if "progress" not in e and "name" not in e and str(e.get("id")) == chosen]
    ends = [e for e in ends if e.get("runId") == lines[-1].get("runId") and "exception" in e]
    last_ms = moment_ms(lines[-1]["timestamp"]) + int((lines[-1].get("durationMs") or {}).get("triggerExecution") or 0)
    if not ends:
        return Lines("spark", tuple(lines), until_ms=last_ms)
    wrong = ends[-1]["exception"]
    return Lines("spark", tuple(lines), last_ms, False, "FAILED" if wrong else "ENDED", innermost_reason(wrong))


def queries_in(path: str | Path) -> list[str]:
    """The ids of the queries in an event log of Spark; none for any other file."""
    try:
        text = _text(as_path(path, EngineError))
        events = [json.loads(line) for line in text.splitlines() if _EVENTS in line]
    except (OSError, ValueError):
        return []
    return list(dict.fromkeys(str(event["id"]) for event in events if "name" in event))


def _no_batch(started: Mapping[str, Any]) -> Line:
    """A progress without anything, for a query that has ended before its first batch had."""
    known = {name: started.get(name) for name in ("id", "name", "runId", "timestamp")}
    return {**known, "batchId": 0, "sources": [], "stateOperators": [], "sink": {}}


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _keys(lines: Sequence[Line]) -> str:
    return listed([repr(name) for name in list(lines[0])[:4]], most=4) or "nothing" if lines else "nothing"


def _object(text: str, where: str) -> Line:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise EngineError(f"{where} is no JSON: {wrong}.", remedy="give a file with one JSON object a line.") from None
    if not isinstance(content, dict):
        raise EngineError(f"{where} is {shown(content)}.", remedy="give a file with one JSON object a line.")
    return content


def progress_of(offered: Any) -> Lines:
    """The progress of a StreamingQuery, of a listener with `progress`, or in a list of dicts or StreamingQueryProgress.

    Raises `EngineError` for anything else, for none at all, and for that of several queries.
    """
    known: dict[str, Any] = {}
    if hasattr(offered, "recentProgress"):
        known = _state_of(offered)
        batches = offered.recentProgress
    elif hasattr(offered, "progress"):
        batches = offered.progress
    else:
        batches = offered
    if isinstance(batches, str | bytes) or not isinstance(batches, Sequence):
        raise EngineError(
            f"{shown(offered)} is not progress of a query.",
            remedy="give query, query.recentProgress, or a file with one progress a line.",
        )
    lines = [_plain(batch) for batch in batches]
    if not lines and known.get("state") in ("FAILED", "ENDED"):
        at = datetime.fromtimestamp(known["until_ms"] / 1_000, UTC).isoformat(timespec="milliseconds")
        lines = [_no_batch({"id": str(offered.id), "name": offered.name, "timestamp": at})]
    if not lines:
        raise EngineError("the query has reported no batch yet.", remedy="wait for its first batch, then ask again.")
    return Lines("spark", _one_query(lines), **known)


def _state_of(query: Any) -> dict[str, Any]:
    """Whether a StreamingQuery runs, waits or has died, and when that was asked."""
    status, wrong = query.status, None if query.isActive else query.exception()
    return {
        "until_ms": time.time_ns() // 1_000_000,
        "waits": bool(query.isActive and not status["isDataAvailable"] and not status["isTriggerActive"]),
        "state": "RUNNING" if query.isActive else "ENDED" if wrong is None else "FAILED",
        "exception": None if wrong is None else innermost_reason(str(wrong)),
        "settings": settings_of(query) if query.isActive else None,
    }


def _plain(batch: Any) -> Line:
    """One progress as plain JSON."""
    text = getattr(batch, "json", None)
    if isinstance(batch, dict):
        return dict(batch) if text is None else _object(str(text), "a progress")
    if text is None:
        raise EngineError(f"{shown(batch)} is not progress.", remedy="give query.recentProgress.")
    return _object(text() if callable(text) else text, "a progress")


def _one_query(lines: Sequence[Line]) -> tuple[Line, ...]:
    names = list(dict.fromkeys(str(line.get("name") or line.get("id")) for line in lines))
    if len(names) > 1:
        raise EngineError(
            f"the progress is that of {len(names)} queries: {listed(names, most=4)}.",
            remedy="give the progress of one of them.",
        )
    return tuple(lines)
