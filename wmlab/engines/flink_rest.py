"""A Flink job polled at its REST interface: its plan, its state, and the watermarks and metrics of its tasks.

Flink is asked at the one address that the user gave; a redirect to another one is refused. Nothing is written to a job.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from wmlab.core.arguments import the_duration, the_number
from wmlab.core.errors import EngineError
from wmlab.core.words import counted, shown
from wmlab.engines.tables import FLINK_METRICS, Line, innermost_reason, only_id

_MOST_ANSWER: Final = 16 * 2**20
"""How large an answer of Flink may be."""
_TIMEOUT_S: Final = 10.0
_MOST_POLLS: Final = 3_600
_MOST_KEPT: Final = 600
"""How many polls of a job that is watched are kept."""
_NAMES_A_REQUEST: Final = 40
_REMEDY: Final = "give one such as http://localhost:8081."
_NO_FLINK: Final = "the address does not answer as Flink does."
ENDED: Final = ("FINISHED", "CANCELED", "FAILED")
"""The states of a job that does not come back."""
SCHEMES: Final = ("http://", "https://")
BROKE_OFF: Final = "broke_off"
"""The key of the first line that says why no more polls follow."""
SETTINGS: Final = "settings"
"""The key of the first line that has the settings that Flink was asked for."""

INTERVAL: Final = "pipeline.auto-watermark-interval"
IDLE_TIMEOUT: Final = "table.exec.source.idle-timeout"

Asked = Callable[[str], Any]
"""Gives the JSON, or the text, at a path of an HTTP interface."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an HTTP interface is, which job of it is meant, and the headers that each request has."""

    url: str
    job: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def is_address(text: object) -> bool:
    """Whether a text is an address, also without its scheme: "localhost:8081"."""
    if not isinstance(text, str):
        return False
    host, _, port = text.partition("/")[0].rpartition(":")
    return text.startswith(SCHEMES) or (bool(host) and port.isdecimal())


def address_of(text: str, headers: Mapping[str, str] | None = None) -> Address:
    """An address as people copy it: without scheme, with user and password, or of a page of Flink's web interface.

    `http://host:8081/#/job/running/<id>/overview` names a job. Raises `EngineError` for any other text.
    """
    url = text if not isinstance(text, str) or text.startswith(SCHEMES) else f"http://{text}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError, TypeError):
        raise EngineError(f"{shown(text)} is not an address.", remedy=_REMEDY) from None
    if not is_address(text) or parts.scheme not in ("http", "https") or not host:
        raise EngineError(f"{shown(text)} is not an address.", remedy=_REMEDY)
    name = f"[{host}]" if ":" in host else host
    base = f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    words = parts.fragment.strip("/").split("/")
    job = words[2] if words[0] == "job" and len(words) > 2 else None
    known = dict(headers or {})
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        known.setdefault("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    return Address(base, job, known)


def to_run(jobs: Sequence[Line]) -> list[Line]:
    """The jobs that somebody waits for: none that has ended, nor has failed and runs again under its name."""
    running = {each["name"] for each in jobs if each["state"] not in ENDED}
    return [
        each
        for each in jobs
        if each["state"] not in ENDED or (each["state"] == "FAILED" and each["name"] not in running)
    ]


def jobs_known(ask: Asked) -> list[Line]:
    """All jobs of the overview, each with "jid", "name" and "state"; raises `EngineError` for the JSON of another."""
    answer = ask("/jobs/overview")
    jobs = answer.get("jobs") if isinstance(answer, dict) else None
    if not isinstance(jobs, list) or not all(
        isinstance(each, dict) and {"jid", "name", "state"} <= each.keys() for each in jobs
    ):
        raise EngineError(_NO_FLINK, remedy="ask a Flink REST interface.")
    return jobs


def poll(address: Address, *, job: str | None = None, polls: int = 40, every_ms: int = 1_000) -> tuple[Line, ...]:
    """Asks a Flink job so many times, `every_ms` apart; the first line has its plan.

    `job` is its id or name, and may be left out if one runs. If Flink goes away meanwhile, the lines so far are
    returned, and the first one says so. Raises `EngineError` if it cannot be reached, or no or several jobs fit.
    """
    polls = the_number(polls, EngineError, name="polls", least=1, most=_MOST_POLLS)
    every_ms = the_duration(every_ms, EngineError, name="every_ms", least_ms=1)
    ask = asker(address)
    chosen = _job(jobs_known(ask), job or address.job)
    try:
        header = _header(ask, chosen)
    except (LookupError, TypeError, AttributeError):
        raise EngineError(_NO_FLINK, remedy="ask a Flink REST interface.") from None
    lines: list[Line] = []
    begun = time.monotonic()
    with ThreadPoolExecutor(max_workers=4) as workers:
        for number in range(polls):
            time.sleep(max(begun + number * every_ms / 1_000 - time.monotonic(), 0.0))
            try:
                lines.append(_poll(ask, chosen, workers))
            except EngineError as wrong:
                if not lines:
                    raise
                header[BROKE_OFF] = f"after {counted(len(lines), 'poll')}: {wrong.problem}"
                break
    return (header, *lines)


def _header(ask: Asked, job: str) -> dict[str, Any]:
    """What does not change of a job: its plan, and the settings that Flink tells."""
    detail = ask(f"/jobs/{job}")
    return {
        "version": ask("/config").get("flink-version"),
        "job": {key: detail.get(key) for key in ("jid", "name", "state", "start-time")},
        "vertices": [{key: vertex[key] for key in ("id", "name", "parallelism")} for vertex in detail["vertices"]],
        "plan": ask(f"/jobs/{job}/plan")["plan"],
        SETTINGS: _settings(ask, job),
    }


def poll_again(address: Address, lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines of a job with one poll more, of the last `_MOST_KEPT`; raises `EngineError` if it cannot be reached."""
    header, *polls = lines
    with ThreadPoolExecutor(max_workers=4) as workers:
        new = _poll(asker(address), header["job"]["jid"], workers)
    return (header, *polls[1 - _MOST_KEPT :], new)


def _settings(ask: Asked, job: str) -> dict[str, str]:
    """The settings of watermarks, where the cluster's configuration or the job's has them, the job's above all.

    What a job sets in its program is in neither. A Flink without such a page says nothing.
    """
    known: dict[str, str] = {}
    for path in ("/jobmanager/config", f"/jobs/{job}/jobmanager/config", f"/jobs/{job}/config"):
        try:
            answer = ask(path)
            pairs = answer if isinstance(answer, list) else answer["execution-config"]["user-config"].items()
            known |= dict((each["key"], each["value"]) if isinstance(each, dict) else each for each in pairs)
        except (EngineError, LookupError, TypeError, AttributeError):
            continue
    return {name: str(known[name]) for name in (INTERVAL, IDLE_TIMEOUT) if name in known}


def _poll(ask: Asked, job: str, workers: ThreadPoolExecutor) -> Line:
    """What a job says at one moment, in the form of a line of a kept file."""
    at_ms = time.time_ns() // 1_000_000
    detail = ask(f"/jobs/{job}")
    tasks = workers.map(lambda vertex: _task(ask, job, vertex), detail["vertices"])
    ids = [vertex["id"] for vertex in detail["vertices"]]
    line = {"at_ms": at_ms, "vertices": dict(zip(ids, tasks, strict=True)), "state": detail["state"]}
    if detail["state"] in ("FAILED", "FAILING", "RESTARTING"):
        line["exception"] = _exception(ask(f"/jobs/{job}/exceptions?maxExceptions=1"))
    return line


def _task(ask: Asked, job: str, vertex: Mapping[str, Any]) -> Line:
    path = f"/jobs/{job}/vertices/{vertex['id']}"
    names = [entry["id"] for entry in ask(f"{path}/metrics")]
    wanted = [name for name in names if name.rpartition(".")[2] in FLINK_METRICS]
    metrics: list[dict[str, str]] = []
    for begin in range(0, len(wanted), _NAMES_A_REQUEST):
        some = ",".join(quote(name) for name in wanted[begin : begin + _NAMES_A_REQUEST])
        metrics += ask(f"{path}/metrics?get={some}")
    return {
        "status": vertex["status"],
        "watermarks": {entry["id"]: entry["value"] for entry in ask(f"{path}/watermarks")},
        "metrics": {entry["id"]: entry["value"] for entry in metrics},
    }


def _exception(answer: Mapping[str, Any]) -> str | None:
    """The innermost reason of the newest exception, in a line."""
    entries = (answer.get("exceptionHistory") or {}).get("entries") or []
    return innermost_reason(entries[0].get("stacktrace") if entries else answer.get("root-exception"))


def _job(jobs: Sequence[Line], wanted: str | None) -> str:
    named = [each for each in jobs if wanted in (each["jid"], each["name"])]
    # One that was started again has the name of those before it.
    fitting = [each for each in named if each["state"] not in ENDED] or named
    if wanted is None:
        fitting = [each for each in jobs if each["state"] == "RUNNING"] if len(jobs) > 1 else list(jobs)
    return only_id(
        [str(each["jid"]) for each in fitting],
        "jobs that run" if wanted is None else f"jobs {wanted!r}",
        (f"{each['name']} ({each['jid']}, {each['state']})" for each in jobs),
    )


def _content(answer: Any) -> bytes:
    """A whole answer, or the part of it that is too much; raises `TimeoutError` if it takes longer than one may."""
    content, until = b"", time.monotonic() + _TIMEOUT_S
    while len(content) <= _MOST_ANSWER and (part := answer.read1(2**16)):
        content += part
        if time.monotonic() > until:
            raise TimeoutError(f"no whole answer within {_TIMEOUT_S:.0f} s")
    return content


class _SameAddress(urllib.request.HTTPRedirectHandler):
    """Refuses every redirect, which could lead to an address that nobody gave."""

    def redirect_request(self, *_: Any) -> None:
        """No request follows."""


def asker(address: Address, *, as_text: bool = False) -> Asked:
    """Asks the HTTP interface at an address, and no other one, for JSON or for text."""
    # Not through a proxy of the environment, which would see the job.
    opener = urllib.request.build_opener(_SameAddress, urllib.request.ProxyHandler({}))

    def ask(path: str) -> Any:
        url = address.url + path
        request = urllib.request.Request(url, headers=dict(address.headers))
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                content = _content(answer)
            if len(content) > _MOST_ANSWER:
                raise EngineError(f"{url} answers with more than 16 MB.", remedy="ask a Flink REST interface.")
            return content.decode() if as_text else json.loads(content)
        except EngineError:
            raise
        except (OSError, urllib.error.URLError) as wrong:
            code = getattr(wrong, "code", None)
            reason = getattr(wrong, "reason", wrong)
            raise EngineError(
                f"{url} cannot be reached: {reason if code is None else f'{code} {reason}'}.",
                remedy="give a user and a password in the address, or a header."
                if code in (401, 403)
                else "check that the interface listens there.",
            ) from None
        except (ValueError, RecursionError):
            raise EngineError(f"{url} does not answer with JSON.", remedy="ask a Flink REST interface.") from None

    return ask
