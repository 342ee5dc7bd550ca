"""Jobs are read from an address, an object or a file, which says the same; what is none is refused."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import wmlab as wm
from wmlab.__main__ import main
from wmlab.core.errors import EngineError
from wmlab.engines.flink_rest import address_of

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
    assert (explanation.cause, explanation.certainty) == (wm.engine.Cause.FAILED, "sure")
    assert "java.lang.IllegalStateException: row 7" in explanation.sentence


def test_a_watched_job_prints_a_line_when_its_answer_changes(
    rest: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "watched.jsonl"
    assert main(["explain-job", rest[0], "--watch", "--polls", "2", "--every", "1ms", "--keep", str(kept)]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert len(wm.engine.read(kept).reports.lines) == 4


def test_the_exit_code_is_that_of_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_flink = {"healthy": 0, "hour_behind": 1, "future_row": 2, "delay_too_large": 3}
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
    assert "other[5] has never read a record" in text
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
        assert main(["explain-job", address, "--id", "c"]) == 3
        assert "name one with --id , by its id" in capsys.readouterr().err.replace("--id,", "--id ,")


def test_a_watched_view_keeps_what_it_has_when_the_job_goes_away() -> None:
    with served(Rest, asked=[]) as address:
        watched = wm.engine.flink(address, polls=1).watch(every="1s")
        watched.refresh()
        assert len(watched.log.reports.lines) == 4
        assert [each.cause for _, each in watched.changes] == [wm.engine.Cause.CANNOT_TELL]
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
    assert source["output_watermark_ms"] is None  # it said −2^63
    assert source["busy_share"] is None  # it said NaN
    assert source["idle_share"] == 0.0
    assert {row["delay_ms"] for row in rows if "WatermarkAssigner" in row["operator"]} == {2_000}
    first = wm.engine.read(SPARK).table.to_pylist()[0]
    assert (first["input_watermark_ms"], first["batch"]) == (None, 0)  # it said 1970


@dataclass
class Query:
    """A StreamingQuery as far as it is read."""

    recentProgress: list[Any]  # noqa: N815
    isActive: bool = True  # noqa: N815
    data_available: bool = False
    wrong: str | None = None

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
    assert (dead.cause, dead.certainty, dead.verdict) == (wm.engine.Cause.FAILED, "sure", "not running")
    assert "ZeroDivisionError: division by zero" in dead.sentence
    assert wm.engine.read(log.save(tmp_path / "dead.jsonl")).explain() == dead
    stopped = wm.engine.spark(Query(lines, isActive=False)).explain()
    assert (stopped.cause, stopped.verdict) == (wm.engine.Cause.NOT_RUNNING, "not running")


def test_a_query_that_waits_for_data_says_so() -> None:
    lines = [json.loads(line) for line in SPARK.with_name("no_more_data.jsonl").read_text().splitlines()]
    waiting = wm.engine.spark(Query(lines)).explain()
    assert waiting.sentence.count("no batch with rows has begun") == 1
    assert (waiting.cause, waiting.certainty) == (wm.engine.Cause.NO_NEW_DATA, "sure")
    working = wm.engine.spark(Query(lines, data_available=True)).explain()
    assert (working.cause, working.certainty) == (wm.engine.Cause.NO_NEW_DATA, "likely")


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
    assert "other[5] has never read a record" in said.replace("\n", " ")
    assert "table.exec.source.idle-timeout" in said
    assert "scan.watermark.idle-timeout" not in said
    assert main(["explain-job", str(SPARK), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["whose"] == "FileStreamSource[file:/data/b]"
    assert main(["explain-job", rest[0], "--polls", "1", "--keep", str(tmp_path / "kept.jsonl")]) == 3
    assert "cannot tell" in capsys.readouterr().out
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
    assert (dead.cause, dead.certainty, dead.verdict) == (wm.engine.Cause.FAILED, "sure", "not running")
    assert "row 31 has no device" in dead.sentence
    assert dead.cost.state_rows == 9
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
    assert explanation.cause is wm.engine.Cause.NO_FAULT
