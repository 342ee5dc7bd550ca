"""Where the reports of a job come from: an address, a Prometheus, a query of Spark that runs, or a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wmlab.core.arguments import the_duration, the_flag
from wmlab.core.errors import EngineError
from wmlab.engines.answers import EngineLog
from wmlab.engines.collected import lines_of, poll_pages, samples_of_range
from wmlab.engines.flink_rest import address_of, asker, is_address, jobs_known, poll, poll_again, to_run
from wmlab.engines.reading import Lines, progress_of, read_file
from wmlab.engines.tables import Engine
from wmlab.engines.watching import WatchedJob


def _running(source: str, lines: Lines, renew: Callable[[Lines], Lines]) -> EngineLog:
    return EngineLog(source, lines, renew, WatchedJob)


def flink(
    url_or_file: str | Path | Sequence[str],
    *,
    job: str | None = None,
    polls: int = 40,
    every_ms: int = 1_000,
    headers: Mapping[str, str] | None = None,
) -> EngineLog:
    """The metrics of a Flink job: polled at its REST interface, `http://localhost:8081`, or read from a file of `save`.

    The job is polled `polls` times, `every_ms` apart, for its state, its plan, the watermarks of its vertices and the
    metrics of its subtasks, operators and splits; at that address only. The address may be that of a page of Flink's
    web interface, and have a user and a password; `headers` are sent with each request. `job` is the id or name of a
    job; it is not needed if only one runs. Addresses that end with `/metrics`, one or several, are read as pages of
    Flink's Prometheus reporter, one of each task manager. If Flink disappears meanwhile, the polled values are kept.
    Raises `EngineError` if it cannot be reached or read, or if no job or several jobs fit.
    """
    urls = [url_or_file] if isinstance(url_or_file, str | Path) else list(url_or_file)
    if not all(map(is_address, urls)):
        return _of_file(url_or_file if isinstance(url_or_file, str | Path) else urls[0], "flink")
    addresses = [address_of(str(url), headers) for url in urls]
    if all(address.url.endswith("/metrics") for address in addresses):
        samples = poll_pages(addresses, polls=polls, every_ms=every_ms)

        def more(_: Lines) -> Lines:
            samples.extend(poll_pages(addresses, polls=1, every_ms=every_ms))
            return Lines("flink", lines_of(samples, job))

        return _running(addresses[0].url, Lines("flink", lines_of(samples, job)), more)
    lines = poll(addresses[0], job=job, polls=polls, every_ms=every_ms)
    return _running(
        addresses[0].url, Lines("flink", lines), lambda old: Lines("flink", poll_again(addresses[0], old.lines))
    )


def flink_jobs(url: str, *, headers: Mapping[str, str] | None = None, past: bool = True) -> dict[str, str]:
    """The jobs at a Flink REST interface: by id, the name and state, "orders (RUNNING)".

    Without `past` those are left out that have ended, and those that have failed and run again under their name.
    """
    the_flag(past, "past", EngineError)
    known = jobs_known(asker(address_of(url, headers)))
    jobs = known if past else to_run(known)
    return {str(each["jid"]): f"{each['name']} ({each['state']})" for each in jobs}


def prometheus(
    url: str,
    *,
    job: str | None = None,
    last: int | str = "1h",
    every: int | str = "15s",
    headers: Mapping[str, str] | None = None,
) -> EngineLog:
    """The metrics of a Flink job that a Prometheus server has stored for the duration `last`, one value per `every`.

    Durations are milliseconds or texts. Prometheus does not know the plan of the job, so no conclusion about what one
    task sent to another is certain. Raises `EngineError` if it cannot be reached, or if no job or several jobs fit.
    """
    lengths = {"last": last, "every": every}
    last_ms, every_ms = (the_duration(length, EngineError, name=name) for name, length in lengths.items())
    address = address_of(url, headers)

    def asked(_: Lines | None = None) -> Lines:
        return Lines("flink", lines_of(samples_of_range(address, last_ms=last_ms, every_ms=every_ms), job))

    return _running(address.url, asked(), asked)


def spark(progress: Any, *, job: str | None = None) -> EngineLog:
    """The metrics of a Spark query: from a StreamingQuery, its `recentProgress`, a listener, a file of JSON lines, or
    Spark's event log, which also contains failed queries.

    A listener is an object whose `progress` lists the StreamingQueryProgress that it got. Spark itself keeps the last
    hundred; `spark.sql.streaming.numRecentProgressUpdates` changes that. The progress is that of Spark 4. `job` is the
    name or id of a query of an event log. Raises `EngineError` for anything else, no batch, or several queries.
    """
    if isinstance(progress, str | Path):
        return _of_file(progress, "spark", job)
    return _running("the progress", progress_of(progress), lambda _: progress_of(progress))


def read(url_or_file: str | Path, *, job: str | None = None) -> EngineLog:
    """Read a saved log of either engine, or poll the job at the address of a Flink REST interface."""
    if is_address(url_or_file) and not Path(url_or_file).exists():
        return flink(url_or_file, job=job)
    return EngineLog(repr(str(url_or_file)), read_file(url_or_file, query=job))


def _of_file(path: str | Path, engine: Engine, job: str | None = None) -> EngineLog:
    log = EngineLog(repr(str(path)), read_file(path, query=job))
    if log.engine != engine:
        raise EngineError(f"{log.source} is a log of {log.engine}.", remedy=f"read it with wm.engine.{log.engine}.")
    return log
