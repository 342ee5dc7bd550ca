"""What a job reported, as lines of JSON: polled from Flink's REST interface, taken from a Spark query, or of a file.

Flink is asked at the one address that the user gave; a redirect to another one is refused. Nothing is written to a job.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from wmlab.core.errors import EngineError
from wmlab.core.files import as_path, read_text
from wmlab.core.words import listed, shown
from wmlab.engines.tables import FLINK_METRICS, Engine, Line

_MOST_BYTES: Final = 256 * 2**20
"""How large a file of lines may be."""
_MOST_ANSWER: Final = 16 * 2**20
"""How large an answer of Flink may be."""
_TIMEOUT_S: Final = 10.0
_MOST_POLLS: Final = 3_600
_NAMES_A_REQUEST: Final = 40
_HEADER: Final = "wmlab engine log"
"""The key of the line with which a kept log of Spark begins: until when it goes, and whether the query waited then."""

Asked = Callable[[str], Any]
"""Gives the JSON at a path of a REST interface."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one job or query. `until_ms` is until when it was looked at, and `waits` whether it is known to have
    run and waited for data then; both are None where nobody said so.
    """

    engine: Engine
    lines: tuple[Line, ...]
    until_ms: int | None = None
    waits: bool | None = None

    def text(self) -> str:
        """The lines as a file has them."""
        header = [{_HEADER: 1, "until_ms": self.until_ms, "waits": self.waits}] if self.engine == "spark" else []
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [*header, *self.lines])


def read_file(path: str | Path) -> Lines:
    """The lines in a file: polls of Flink that wmlab kept, or the progress of a Spark query, a line a batch.

    Raises `EngineError` for a file that is neither, is too large, or has a line that is no JSON object.
    """
    file = as_path(path, EngineError)
    try:
        text = read_text(file, _MOST_BYTES)
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "it is no UTF-8 text"
        raise EngineError(
            f"{str(file)!r} cannot be read: {reason}.", remedy="give a file that log.save wrote."
        ) from None
    lines = [_object(line, f"{file.name}, line {number}") for number, line in _numbered(text)]
    if not lines:
        raise EngineError(f"{str(file)!r} is empty.", remedy="give a file that log.save wrote, or JSON lines of Spark.")
    if "vertices" in lines[0] and "plan" in lines[0]:
        if len(lines) < 2:
            raise EngineError(f"{str(file)!r} has no poll of the job.", remedy="poll the job again.")
        return Lines("flink", tuple(lines))
    header = lines.pop(0) if _HEADER in lines[0] else {}
    if not lines or "batchId" not in lines[0]:
        raise EngineError(
            f"{str(file)!r} is neither polls of Flink nor progress of Spark: its first line has {_keys(lines)}.",
            remedy="give a file that log.save wrote, or one with query.lastProgress.json a line.",
        )
    return Lines("spark", _one_query(lines), header.get("until_ms"), header.get("waits"))


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
    until_ms, waits = None, None
    if hasattr(offered, "recentProgress"):
        status, active = offered.status, offered.isActive
        until_ms = time.time_ns() // 1_000_000
        waits = bool(active and not status["isDataAvailable"] and not status["isTriggerActive"])
        batches = offered.recentProgress
    elif hasattr(offered, "progress"):
        batches = offered.progress
    else:
        batches = offered
    if isinstance(batches, str | bytes) or not isinstance(batches, Sequence):
        raise EngineError(
            f"{shown(offered)} is no progress of a query.",
            remedy="give query, query.recentProgress, or a file with one progress a line.",
        )
    lines = [_plain(batch) for batch in batches]
    if not lines:
        raise EngineError("the query has reported no batch yet.", remedy="wait for its first batch, then ask again.")
    return Lines("spark", _one_query(lines), until_ms, waits)


def _plain(batch: Any) -> Line:
    """One progress as plain JSON."""
    text = getattr(batch, "json", None)
    if isinstance(batch, dict):
        return dict(batch) if text is None else _object(str(text), "a progress")
    if text is None:
        raise EngineError(f"{shown(batch)} is no progress.", remedy="give query.recentProgress.")
    return _object(text() if callable(text) else text, "a progress")


def _one_query(lines: Sequence[Line]) -> tuple[Line, ...]:
    names = list(dict.fromkeys(str(line.get("name") or line.get("id")) for line in lines))
    if len(names) > 1:
        raise EngineError(
            f"the progress is that of {len(names)} queries: {listed(names, most=4)}.",
            remedy="give the progress of one of them.",
        )
    return tuple(lines)


def poll(url: str, *, job: str | None = None, polls: int = 40, every_ms: int = 1_000) -> Lines:
    """Asks a Flink job so many times, `every_ms` apart, for its plan, watermarks and metrics.

    `url` is that of the REST interface, `http://localhost:8081`; `job` is the id or the name of a job, and may be left
    out if one runs. Raises `EngineError` if the address cannot be reached, or no or several jobs fit.
    """
    if type(polls) is not int or not 1 <= polls <= _MOST_POLLS:
        raise EngineError(f"polls is {shown(polls)}.", remedy=f"give a whole number from 1 to {_MOST_POLLS}.")
    if type(every_ms) is not int or not 1 <= every_ms <= 60_000:
        raise EngineError(f"every_ms is {shown(every_ms)}.", remedy="give whole milliseconds from 1 to 60 000.")
    ask = _asker(url)
    chosen = _job(ask("/jobs/overview")["jobs"], job)
    detail, plan = ask(f"/jobs/{chosen}"), ask(f"/jobs/{chosen}/plan")["plan"]
    header = {
        "version": ask("/config").get("flink-version"),
        "job": {key: detail.get(key) for key in ("jid", "name", "state", "start-time")},
        "vertices": [{key: vertex[key] for key in ("id", "name", "parallelism")} for vertex in detail["vertices"]],
        "plan": plan,
    }
    lines: list[Line] = [header]
    begun = time.monotonic()
    for number in range(polls):
        time.sleep(max(begun + number * every_ms / 1_000 - time.monotonic(), 0.0))
        lines.append(_poll(ask, chosen))
    return Lines("flink", tuple(lines))


def _poll(ask: Asked, job: str) -> Line:
    """What a job says at one moment, in the form of a line of a kept file."""
    at_ms = time.time_ns() // 1_000_000
    detail = ask(f"/jobs/{job}")
    vertices = {}
    for vertex in detail["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}"
        names = [entry["id"] for entry in ask(f"{path}/metrics")]
        wanted = [name for name in names if name.rpartition(".")[2] in FLINK_METRICS]
        metrics: list[dict[str, str]] = []
        for begin in range(0, len(wanted), _NAMES_A_REQUEST):
            some = ",".join(quote(name) for name in wanted[begin : begin + _NAMES_A_REQUEST])
            metrics += ask(f"{path}/metrics?get={some}")
        vertices[vertex["id"]] = {
            "status": vertex["status"],
            "watermarks": {entry["id"]: entry["value"] for entry in ask(f"{path}/watermarks")},
            "metrics": {entry["id"]: entry["value"] for entry in metrics},
        }
    return {"at_ms": at_ms, "vertices": vertices, "state": detail["state"]}


def _job(jobs: Sequence[Line], wanted: str | None) -> str:
    fitting = [each for each in jobs if wanted in (each["jid"], each["name"])]
    if wanted is None:
        fitting = [each for each in jobs if each["state"] == "RUNNING"]
    if len(fitting) != 1:
        offered = listed([f"{each['name']} ({each['jid']}, {each['state']})" for each in jobs], most=6) or "none"
        what = "jobs that run" if wanted is None else f"jobs {wanted!r}"
        raise EngineError(f"there are {len(fitting)} {what}, of {offered}.", remedy="name one with job=, by its id.")
    return str(fitting[0]["jid"])


class _SameAddress(urllib.request.HTTPRedirectHandler):
    """Refuses every redirect, which could lead to an address that nobody gave."""

    def redirect_request(self, *_: Any) -> None:
        """No request follows."""


def _asker(url: str) -> Asked:
    """Asks the REST interface at an address, and no other one."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise EngineError(f"{shown(url)} is no address.", remedy="give one such as http://localhost:8081.")
    # Not through a proxy of the environment, which would see the job.
    opener = urllib.request.build_opener(_SameAddress, urllib.request.ProxyHandler({}))

    def ask(path: str) -> Any:
        address = url.rstrip("/") + path
        try:
            with opener.open(address, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MOST_ANSWER + 1)
            if len(content) > _MOST_ANSWER:
                raise EngineError(f"{address} answers with more than 16 MB.", remedy="ask a Flink REST interface.")
            return json.loads(content)
        except (OSError, urllib.error.URLError) as wrong:
            reason = getattr(wrong, "reason", wrong)
            raise EngineError(
                f"{address} cannot be reached: {reason}.", remedy="check that Flink's REST interface listens there."
            ) from None
        except (ValueError, RecursionError) as wrong:
            if isinstance(wrong, EngineError):
                raise
            raise EngineError(f"{address} does not answer with JSON.", remedy="ask a Flink REST interface.") from None

    return ask
