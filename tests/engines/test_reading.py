"""Jobs are read from an address, an object or a file, which says the same; what is none is refused."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import wmlab as wm
from tests.engines.truth import file_of
from wmlab.__main__ import main
from wmlab.core.errors import EngineError
from wmlab.engines import flink_rest
from wmlab.engines.flink_rest import address_of
from wmlab.engines.tables import innermost_reason

FLINK = wm.engine.DIRECTORY / "flink" / "other_silent.jsonl"
SPARK = wm.engine.DIRECTORY / "spark" / "one_source_silent.jsonl"
HEADER, *POLLS = [json.loads(line) for line in FLINK.read_text().splitlines()]
JOB = HEADER["job"]["jid"]


class Rest(BaseHTTPRequestHandler):
    """Flink's REST interface with the last poll of a kept log; `asked` has every path."""

    asked: list[str]
    leaves_after: int | None = None
    wants: str = ""
    state: str = "RUNNING"

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if (
            self.leaves_after is not None
            and sum(path.startswith(f"/jobs/{JOB}/vert") for path in self.asked) > self.leaves_after
        ):
            self.send_error(503)
            return
        if self.wants and self.headers["Authorization"] != self.wants:
            self.send_error(401)
            return
        if self.path.startswith("/elsewhere"):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()
            return
        content = json.dumps(self.content()).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def content(self) -> Any:
        path, _, query = unquote(self.path).partition("?")
        query = query.removeprefix("get=")
        parts = path.strip("/").split("/")
        vertices = POLLS[-1]["vertices"]
        if parts == ["jobs", "overview"]:
            return {"jobs": [{"jid": JOB, "name": HEADER["job"]["name"], "state": self.state}]}
        if parts == ["config"]:
            return {"flink-version": "2.3.0"}
        if parts == ["jobs", JOB]:
            listed = [vertex | {"status": vertices[vertex["id"]]["status"]} for vertex in HEADER["vertices"]]
            return HEADER["job"] | {"vertices": listed, "state": self.state}
        if parts == ["jobs", JOB, "exceptions"]:
            trace = "JobException: suppressed\n\tat x\nCaused by: java.lang.IllegalStateException: row 7\n\tat y"
            return {"exceptionHistory": {"entries": [{"stacktrace": trace}]}}
        if parts == ["jobs", JOB, "plan"]:
            return {"plan": HEADER["plan"]}
        if parts == ["jobmanager", "config"]:
            return [{"key": "pipeline.auto-watermark-interval", "value": "0 ms"}, {"key": "rest.port", "value": "1"}]
        if len(parts) < 5:
            return {}
        said = vertices[parts[3]]
        if parts[4] == "watermarks":
            return [{"id": name, "value": value} for name, value in said["watermarks"].items()]
        if query.startswith(("0", "1")):
            return [{"id": name, "value": said["metrics"][name]} for name in query.split(",")]
        return [{"id": name} for name in [*said["metrics"], "0.Shuffle.Netty.Output.numBuffers"]]

    def log_message(self, *_: Any) -> None:
        """Nothing on the standard error."""


@contextmanager
def served(kind: type[BaseHTTPRequestHandler], **fields: Any) -> Iterator[str]:
    """The address of an HTTP interface while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (kind,), fields))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def rest() -> Iterator[tuple[str, list[str]]]:
    """The address of a REST interface, and the paths that it was asked for."""
    asked: list[str] = []
    with served(Rest, asked=asked) as address:
        yield address, asked


@pytest.mark.parametrize(
    ("text", "url", "job"),
    [
        ("localhost:8081", "http://localhost:8081", None),
        ("http://host:8081/", "http://host:8081", None),
        ("https://host/proxy/app1/", "https://host/proxy/app1", None),
        ("http://host:8081/#/job/running/8e9f/overview", "http://host:8081", "8e9f"),
        ("http://[::1]:8081", "http://[::1]:8081", None),
    ],
)
def test_an_address_is_taken_as_people_copy_it(text: str, url: str, job: str | None) -> None:
    address = address_of(text)
    assert (address.url, address.job, dict(address.headers)) == (url, job, {})


def test_a_user_and_a_header_are_sent_and_a_refusal_names_them() -> None:
    basic = f"Basic {base64.b64encode(b'ann:s:cret').decode()}"
    with served(Rest, asked=[], wants=basic) as address:
        with_user = address.replace("http://", "http://ann:s%3Acret@")
        log = wm.engine.flink(with_user, polls=1)
        assert "cret" not in repr(log) + log.source + log.reports.text()
        assert wm.engine.flink(address, polls=1, headers={"Authorization": basic}).table.num_rows
        assert main(["explain-job", address, "--polls", "1", "--header", f"Authorization: {basic}"]) == 3
        with pytest.raises(EngineError, match="a user and a password"):
            wm.engine.flink(address, polls=1)


def test_what_was_polled_is_kept_when_the_cluster_goes_away(tmp_path: Path) -> None:
    with served(Rest, asked=[], leaves_after=14) as address:
        log = wm.engine.flink(address, polls=40, every_ms=1)
    assert 1 <= len(log.reports.lines) - 1 < 40
    assert log.broke_off is not None
    assert "503" in log.broke_off
    assert wm.engine.read(log.save(tmp_path / "half.jsonl")).broke_off == log.broke_off
    assert any("Flink went away" in line for line in log.explain().lines)


def test_a_job_that_has_failed_says_why() -> None:
    with served(Rest, asked=[], state="FAILED") as address:
        explanation = wm.engine.flink(address, polls=2, every_ms=1).explain()
        assert main(["explain-job", address, "--polls", "1"]) == 4
    assert (explanation.cause, explanation.certainty) == ("failed", "sure")
    assert "java.lang.IllegalStateException: row 7" in explanation.sentence


def test_a_watched_job_prints_a_line_when_its_answer_changes(
    rest: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "watched.jsonl"
    assert main(["explain-job", rest[0], "--watch", "--polls", "2", "--every", "1ms", "--keep", str(kept)]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert len(wm.engine.read(kept).reports.lines) == 4


def test_the_exit_code_is_that_of_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_flink = {"healthy": 0, "hour_behind": 1, "future_row": 2, "delay_too_large": 1}
    for name, code in of_flink.items():
        assert main(["explain-job", str(FLINK.with_name(f"{name}.jsonl"))]) == code
    healthy = str(FLINK.with_name("healthy.jsonl"))
    assert main(["explain-job", healthy, "--max-lag", "1s"]) == 1
    assert "more than --max-lag 1.0 s" in capsys.readouterr().out
    assert main(["explain-job", healthy, "--max-lag", "5 min"]) == 0
    with served(Rest, asked=[]) as address:
        pass
    assert main(["explain-job", address.removeprefix("http://")]) == 3


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_a_page_has_the_answer_its_evidence_the_advice_and_the_chart(tmp_path: Path, suffix: str) -> None:
    page = tmp_path / f"ticket{suffix}"
    assert main(["explain-job", str(FLINK), "--output", str(page)]) == 1
    text = page.read_text(encoding="utf-8")
    assert "other[5] has read 0 rows" in text
    assert "table.exec.source.idle-timeout" in text
    assert "<svg" in (text if suffix == ".html" else page.with_suffix(".svg").read_text(encoding="utf-8"))
    with pytest.raises(EngineError, match="cannot be written"):
        wm.engine.save_page(wm.engine.read(FLINK), wm.engine.read(FLINK).explain(), page)
    with pytest.raises(EngineError, match="not a page"):
        wm.engine.save_page(wm.engine.read(FLINK), wm.engine.read(FLINK).explain(), tmp_path / "x.pdf")


def test_several_jobs_are_named_with_the_option_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    two = [{"jid": name, "name": name, "state": "RUNNING"} for name in "ab"]

    class Several(Rest):
        def content(self) -> Any:
            return {"jobs": two} if "overview" in self.path else super().content()

    with served(Several, asked=[]) as address:
        assert wm.engine.flink_jobs(address) == {"a": "a (RUNNING)", "b": "b (RUNNING)"}
        with pytest.raises(EngineError, match="2 jobs that run"):
            wm.engine.flink(address)
        assert main(["explain-job", address, "--id", "c"]) == 64
        assert "name one with --id , by its id" in capsys.readouterr().err.replace("--id,", "--id ,")


def test_a_watched_view_keeps_what_it_has_when_the_job_goes_away() -> None:
    with served(Rest, asked=[]) as address:
        watched = wm.engine.flink(address, polls=1).watch(every="1s")
        watched.refresh()
        assert len(watched.log.reports.lines) == 4
        assert [each.cause for _, each in watched.changes] == ["cannot tell"]
    watched.refresh()
    assert watched.lost is not None
    assert len(watched.log.reports.lines) == 4
    assert "cannot be asked any more" in watched.widget.children[2].value
    assert "<svg" in watched.widget.children[3].value
    watched.stop()
    with pytest.raises(EngineError, match="does not run"):
        wm.engine.read(FLINK).watch()


def test_a_polled_job_is_a_kept_one(rest: tuple[str, list[str]], tmp_path: Path) -> None:
    address, asked = rest
    log = wm.engine.flink(address, polls=2, every_ms=1)
    kept = wm.engine.flink(log.save(tmp_path / "job.jsonl"))
    assert kept.table.equals(log.table)
    last = [row | {"at_ms": 0} for row in wm.engine.read(FLINK).table.to_pylist() if row["at_ms"] == POLLS[-1]["at_ms"]]
    moments = sorted(set(log.table["at_ms"].to_pylist()))
    polled = [row | {"at_ms": 0} for row in log.table.to_pylist() if row["at_ms"] == moments[-1]]
    assert polled[-len(last) :] == last
    assert not [path for path in asked if "numBuffers" in path]
    with pytest.raises(EngineError, match="cannot be written"):
        log.save(tmp_path / "job.jsonl")


def test_only_the_address_that_was_given_is_asked(rest: tuple[str, list[str]]) -> None:
    address, _ = rest
    with pytest.raises(EngineError, match="elsewhere/jobs/overview cannot be reached"):
        wm.engine.flink(f"{address}/elsewhere")
    with pytest.raises(EngineError, match="not an address"):
        wm.engine.flink("http://")
    with pytest.raises(EngineError, match="0 jobs 'other', of insert-into"):
        wm.engine.flink(address, job="other")
    with pytest.raises(EngineError, match="polls is 0"):
        wm.engine.flink(address, polls=0)


def test_the_columns_are_declared_with_units_and_unknown_is_null() -> None:
    table = wm.engine.read(FLINK).table
    assert table.schema == wm.engine.ENGINE_TABLE
    assert all(b"unit" in field.metadata for field in table.schema if field.name.endswith("_ms"))
    rows = table.to_pylist()
    source = next(row for row in rows if row["operator"] == "Source__orders[1]")
    assert source["output_watermark_ms"] == -(2**63)  # there is none yet
    assert source["busy_share"] is None  # it said NaN
    assert source["idle_share"] == 0.0
    assert {row["delay_ms"] for row in rows if "WatermarkAssigner" in row["operator"]} == {2_000}
    first = wm.engine.read(SPARK).table.to_pylist()[0]
    assert (first["input_watermark_ms"], first["batch"]) == (-(2**63), 0)  # it said 1970


@dataclass
class Query:
    """A StreamingQuery as far as it is read."""

    recentProgress: list[Any]  # noqa: N815
    isActive: bool = True  # noqa: N815
    data_available: bool = False
    wrong: str | None = None
    id: str = "q"
    name: str | None = None

    def exception(self) -> str | None:
        return self.wrong

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "", "isDataAvailable": self.data_available, "isTriggerActive": False}


@dataclass
class Progress:
    """A StreamingQueryProgress as far as it is read."""

    json: str


def test_a_query_its_progress_a_listener_and_a_file_are_one_log(tmp_path: Path) -> None:
    texts = SPARK.read_text().splitlines()
    dicts, objects = [json.loads(text) for text in texts], [Progress(text) for text in texts]
    expected = wm.engine.spark(SPARK).table
    listener = type("Listener", (), {"progress": objects})()
    for offered in (dicts, objects, listener, Query(dicts), Query(objects)):
        assert wm.engine.spark(offered).table.equals(expected)
    log = wm.engine.spark(Query(objects))
    assert wm.engine.read(log.save(tmp_path / "query.jsonl")).explain() == log.explain()


def test_a_query_that_has_died_says_so_and_why(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in SPARK.with_name("healthy.jsonl").read_text().splitlines()]
    query = Query(
        lines, isActive=False, wrong="[TASK] failed\n\tat x\nCaused by: ZeroDivisionError: division by zero\n"
    )
    log = wm.engine.spark(query)
    dead = log.explain()
    assert (dead.cause, dead.certainty, dead.verdict) == ("failed", "sure", "not running")
    assert "ZeroDivisionError: division by zero" in dead.sentence
    assert wm.engine.read(log.save(tmp_path / "dead.jsonl")).explain() == dead
    stopped = wm.engine.spark(Query(lines, isActive=False)).explain()
    assert (stopped.cause, stopped.verdict) == ("not running", "not running")


def test_a_query_that_waits_for_data_says_so() -> None:
    lines = [json.loads(line) for line in SPARK.with_name("no_more_data.jsonl").read_text().splitlines()]
    waiting = wm.engine.spark(Query(lines)).explain()
    assert waiting.facts["all silent"] is True
    assert (waiting.cause, waiting.certainty) == ("no new data", "candidates")
    working = wm.engine.spark(Query(lines, data_available=True)).explain()
    assert (working.cause, working.verdict) == ("no new data", "held")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("{}", "neither polls of Flink nor progress of Spark"),
        ("[1]", r"line 1 is \[1\]"),
        ("{", "no JSON"),
        ('{"vertices": [], "plan": {}}', "no poll"),
        ('{"batchId": 1, "id": "a"}', "another form"),
        ('{"batchId": 1, "id": "a"}\n{"batchId": 2, "id": "b"}', "2 queries: a and b"),
        ('{"vertices": [], "plan": {"nodes": []}, "job": {"name": "j"}}\n{"at_ms": 1, "vertices": {}}', "no task"),
    ],
)
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(EngineError, match=says):
        wm.engine.read(path).explain()


def test_what_is_no_progress_is_refused() -> None:
    for offered in (5, [5], []):
        with pytest.raises(EngineError):
            wm.engine.spark(offered)
    with pytest.raises(EngineError, match="log of flink"):
        wm.engine.spark(FLINK)
    with pytest.raises(EngineError, match="begins at"):
        wm.engine.read(SPARK).explain(5)


def test_the_command_line_explains_a_kept_log_and_a_running_job(
    rest: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain-job", str(FLINK)]) == 1
    said = capsys.readouterr().out
    assert "other[5] has read 0 rows" in said.replace("\n", " ")
    assert "table.exec.source.idle-timeout" in said
    assert "scan.watermark.idle-timeout" not in said
    assert main(["explain-job", str(SPARK), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["whose"] == "FileStreamSource[file:/data/b]"
    assert main(["explain-job", rest[0], "--polls", "1", "--keep", str(tmp_path / "kept.jsonl")]) == 3
    assert "The reports do not tell" in capsys.readouterr().out
    assert wm.engine.read(tmp_path / "kept.jsonl").table.num_rows > 0
    assert main(["explain-job", str(tmp_path / "none.jsonl")]) == 64
    assert "To repair it" in capsys.readouterr().err


def test_a_log_is_shown_by_what_it_is() -> None:
    assert repr(wm.engine.read(FLINK)).startswith("EngineLog of the Flink job 'insert-into")
    assert ": 9 batches, 2026-11-27 " in repr(wm.engine.read(SPARK))
    assert isinstance(wm.engine.read(SPARK).table, pa.Table)


EVENTS = Path(__file__).with_name("spark_event_log.jsonl")


def test_a_query_that_has_died_is_explained_from_the_event_log_of_its_application(tmp_path: Path) -> None:
    dead = wm.engine.spark(EVENTS).explain()
    assert (dead.cause, dead.certainty, dead.verdict) == ("failed", "sure", "not running")
    assert "row 31 has no device" in dead.sentence
    assert dead.facts["state_rows"] == 9
    assert main(["explain-job", str(EVENTS), "--id", "orders"]) == 4
    rolling = tmp_path / "eventlog_v2_app"
    rolling.mkdir()
    lines = EVENTS.read_text().splitlines(keepends=True)
    for number, part in (("10", lines[4:]), ("9", lines[:4])):
        with pa.output_stream(str(rolling / f"events_{number}_app.zstd"), compression="zstd") as file:
            file.write("".join(part).encode())
    assert wm.engine.spark(rolling).explain() == dead


def test_an_event_log_without_the_query_is_refused_and_one_that_goes_on_says_nothing_of_an_end(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"0 such queries in .*, of orders"):
        wm.engine.spark(EVENTS, job="payments")
    open_log = tmp_path / "events"
    open_log.write_text("".join(EVENTS.read_text().splitlines(keepends=True)[:-1]))
    explanation = wm.engine.spark(open_log).explain()
    assert explanation.cause == "no fault"


def test_the_settings_that_flink_tells_are_facts(rest: tuple[str, list[str]]) -> None:
    log = wm.engine.flink(rest[0], polls=1)
    assert log.reports.lines[0]["settings"] == {"pipeline.auto-watermark-interval": "0 ms"}
    assert log.explain().facts["no interval"] is True
    assert "no interval" in wm.engine.read(FLINK).explain().facts["not known"]


class Other(Rest):
    """Another program that answers with JSON."""

    answer: Any = None

    def content(self) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [{"status": "ok"}, [], {"jobs": 3}, {"jobs": [{"id": 1}]}, None])
def test_the_json_of_another_program_is_refused_and_no_answer(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with served(Other, asked=[], answer=answer) as address:
        assert main(["explain-job", address, "--polls", "1"]) == 3
        with pytest.raises(EngineError, match="does not answer as Flink does"):
            wm.engine.flink(address, polls=1)
    assert "does not answer as Flink does" in capsys.readouterr().err


def test_an_answer_that_comes_a_byte_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Rest):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                for _ in range(100):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.02)

    monkeypatch.setattr(flink_rest, "_TIMEOUT_S", 0.2)
    begun = time.monotonic()
    with served(Slow, asked=[]) as address, pytest.raises(EngineError, match="no whole answer within"):
        wm.engine.flink(address, polls=1)
    assert time.monotonic() - begun < 3


def test_a_flink_that_goes_away_is_at_least_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Rest, asked=[], leaves_after=14) as address:
        assert main(["explain-job", address, "--every", "1ms"]) in (1, 3)
    assert "Flink went away" in capsys.readouterr().out


def test_jobs_of_the_past_are_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    name = HEADER["job"]["name"]
    past = [
        {"jid": "a", "name": name, "state": "CANCELED"},
        {"jid": "b", "name": name, "state": "FAILED"},
        {"jid": "c", "name": "other", "state": "FINISHED"},
    ]

    class Again(Rest):
        def content(self) -> Any:
            known = super().content()
            return {"jobs": [*past, *known["jobs"]]} if "overview" in self.path else known

    with served(Again, asked=[]) as address:
        assert len(wm.engine.flink_jobs(address)) == 4
        assert list(wm.engine.flink_jobs(address, past=False)) == [JOB]
        assert main(["explain-job", address, "--polls", "1"]) == 3
        assert main(["explain-job", address, "--polls", "1", "--id", name]) == 3
        assert capsys.readouterr().out.count("EngineLog of") == 2


@pytest.mark.parametrize(
    "options", [["--id", "nosuch"], ["--every", "5x"], ["--last", "10y"], ["--max-lag", "no"], ["--polls", "0"]]
)
def test_an_option_that_is_wrong_is_a_mistake_of_usage(
    rest: tuple[str, list[str]], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain-job", rest[0], *options]) == 64
    assert "To repair it" in capsys.readouterr().err


def _events(*names: str, failed: Sequence[str] = ()) -> str:
    """An event log of queries of which some have failed before their first batch; the others have one batch each."""
    kind = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
    progress = json.loads(SPARK.read_text().splitlines()[1])
    events: list[dict[str, Any]] = []
    for name in names:
        ids = {"id": f"id-{name}", "runId": f"run-{name}", "name": name}
        events.append({"Event": f"{kind}StartedEvent", "timestamp": "2026-11-27T01:00:00.000Z", **ids})
        if name in failed:
            end = {key: ids[key] for key in ("id", "runId")} | {"exception": "Boom\nCaused by: x.Y: row 9"}
            events.append({"Event": f"{kind}TerminatedEvent", **end})
        else:
            events.append({"Event": f"{kind}ProgressEvent", "progress": progress | ids})
    return "".join(json.dumps(event) + "\n" for event in events)


def test_all_queries_of_an_event_log_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tmp_path / "events"
    events.write_text(_events("one", "two", "dies", failed=["dies"]))
    assert wm.engine.queries_in(events) == ["id-one", "id-two", "id-dies"]
    assert wm.engine.queries_in(FLINK) == []
    assert main(["explain-job", str(events)]) == 4
    said = capsys.readouterr().out
    assert said.count("EngineLog of the Spark query") == 3
    assert "row 9" in said
    assert main(["explain-job", str(events), "--id", "dies"]) == 4
    assert main(["explain-job", str(events), "--id", "one"]) == 3
    assert main(["explain-job", str(events), "--id", "none"]) == 64


def test_a_query_that_died_in_its_first_batch_has_failed() -> None:
    dead = Query([], isActive=False, wrong="[STREAM_FAILED] terminated\nCaused by: x.Y: no module")
    dead.id, dead.name = "7ace", "dies"
    answer = wm.engine.spark(dead).explain()
    assert (answer.cause, answer.certainty, answer.verdict, answer.job) == ("failed", "sure", "not running", "dies")
    assert "no module" in answer.sentence
    with pytest.raises(EngineError, match="no batch yet"):
        wm.engine.spark(Query([]))


def test_the_reason_of_an_exception_of_python_is_its_last_line() -> None:
    text = (
        "An exception was thrown\nTraceback (most recent call last):\n  File 'x', line 1\nZeroDivisionError: by zero\n"
    )
    assert innermost_reason(text) == "ZeroDivisionError: by zero"
    assert innermost_reason("a\nCaused by: b\n\tat c\nCaused by: d") == "d"


def test_times_beyond_the_year_9999_are_read_and_written() -> None:
    log = wm.engine.read(file_of("further spark3/s15_epoch_ms_as_seconds"))
    answer = log.explain()
    assert "unit of time" in [each.cause for each in answer.candidates]
    assert "+" not in answer.headline
    assert re.search(r" \d{5}-\d\d-\d\d ", answer.headline)
