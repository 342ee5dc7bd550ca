"""Jobs are read from an address, an object or a file, which says the same; what is none is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
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

FLINK = wm.engine.DIRECTORY / "flink" / "other_silent.jsonl"
SPARK = wm.engine.DIRECTORY / "spark" / "one_source_silent.jsonl"
HEADER, *POLLS = [json.loads(line) for line in FLINK.read_text().splitlines()]
JOB = HEADER["job"]["jid"]


class Rest(BaseHTTPRequestHandler):
    """Flink's REST interface with the last poll of a kept log; `asked` has every path."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
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
        path, _, query = unquote(self.path).partition("?get=")
        parts = path.strip("/").split("/")
        vertices = POLLS[-1]["vertices"]
        if parts == ["jobs", "overview"]:
            return {"jobs": [{"jid": JOB, "name": HEADER["job"]["name"], "state": "RUNNING"}]}
        if parts == ["config"]:
            return {"flink-version": "2.3.0"}
        if parts == ["jobs", JOB]:
            listed = [vertex | {"status": vertices[vertex["id"]]["status"]} for vertex in HEADER["vertices"]]
            return HEADER["job"] | {"vertices": listed}
        if parts == ["jobs", JOB, "plan"]:
            return {"plan": HEADER["plan"]}
        said = vertices[parts[3]]
        if parts[4] == "watermarks":
            return [{"id": name, "value": value} for name, value in said["watermarks"].items()]
        if query:
            return [{"id": name, "value": said["metrics"][name]} for name in query.split(",")]
        return [{"id": name} for name in [*said["metrics"], "0.Shuffle.Netty.Output.numBuffers"]]

    def log_message(self, *_: Any) -> None:
        """Nothing on the standard error."""


@pytest.fixture
def rest() -> Iterator[tuple[str, list[str]]]:
    """The address of a REST interface, and the paths that it was asked for."""
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Rest,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


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
    with pytest.raises(EngineError, match="no address"):
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


def test_a_query_that_waits_for_data_says_so() -> None:
    lines = [json.loads(line) for line in SPARK.with_name("no_more_data.jsonl").read_text().splitlines()]
    waiting = wm.engine.spark(Query(lines)).explain()
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
    assert main(["explain-job", str(FLINK)]) == 0
    said = capsys.readouterr().out
    assert "other[5] has never read a record" in said.replace("\n", " ")
    assert "scan.watermark.idle-timeout" in said
    assert main(["explain-job", str(SPARK), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holder"] == "FileStreamSource[file:/data/b]"
    assert main(["explain-job", rest[0], "--polls", "1", "--keep", str(tmp_path / "kept.jsonl")]) == 0
    assert "cannot tell" in capsys.readouterr().out
    assert wm.engine.read(tmp_path / "kept.jsonl").table.num_rows > 0
    assert main(["explain-job", str(tmp_path / "none.jsonl")]) == 1
    assert "To repair it" in capsys.readouterr().err


def test_a_log_is_shown_by_what_it_is() -> None:
    assert repr(wm.engine.read(FLINK)).startswith("EngineLog of the Flink job 'insert-into")
    assert ": 9 batches, 2026-11-27 " in repr(wm.engine.read(SPARK))
    assert isinstance(wm.engine.read(SPARK).table, pa.Table)
