"""Metrics as Prometheus collects them: a page of Flink's reporter and a range of a Prometheus, both of one real job."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import wmlab as wm
from tests.engines.test_reading import served
from wmlab.__main__ import main
from wmlab.core.errors import EngineError

HERE = Path(__file__).parent
PAGE = HERE / "flink_metrics.txt"
RANGE = HERE / "prometheus_range.json"


class Answers(BaseHTTPRequestHandler):
    """The page at /metrics, and the range at the interface of a Prometheus."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write((PAGE if self.path.startswith("/metrics") else RANGE).read_bytes())

    def log_message(self, *_: Any) -> None:
        """Nothing on the standard error."""


def test_a_range_of_a_prometheus_names_the_silent_partition_and_is_never_sure() -> None:
    with served(Answers, asked=[]) as address:
        log = wm.engine.prometheus(address, last="4 min", every="30s")
        named = wm.engine.prometheus(address, job="part_silent")
    assert log.table.equals(named.table)
    explanation = log.explain()
    assert (explanation.cause, explanation.certainty) == ("silent subtask or partition", "candidates")
    assert explanation.whose == "partition p1 of orders, subtask 0"
    assert [each.name for each in log.advise()] == ["withIdleness"]
    rows = [row for row in log.table.to_pylist() if row["split"] == "p1"]
    assert len({row["output_watermark_ms"] for row in rows}) == 1
    assert len({row["at_ms"] for row in rows}) > 3


def test_the_range_is_asked_for_the_metrics_and_the_time_that_were_wanted() -> None:
    asked: list[str] = []
    with served(Answers, asked=asked) as address:
        wm.engine.prometheus(address, last="10 min", every="20s")
    query = parse_qs(urlsplit(asked[0]).query)
    assert float(query["end"][0]) - float(query["start"][0]) == pytest.approx(600)
    assert query["step"] == ["20.0"]
    assert "flink_taskmanager_job_task_operator_split_watermark_currentWatermark" in query["query"][0]


def test_a_page_of_metrics_is_polled_and_read_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Answers, asked=[]) as address:
        log = wm.engine.flink(f"{address}/metrics", polls=2, every_ms=1)
        two = wm.engine.flink([f"{address}/metrics", f"{address}/metrics"], polls=1)
        assert main(["explain-job", f"{address}/metrics", "--polls", "1"]) == 3
    capsys.readouterr()
    of_file = wm.engine.read(PAGE)
    columns = ["task", "operator", "subtask", "split", "output_watermark_ms", "records_out"]
    assert two.table.select(columns).equals(of_file.table.select(columns))
    assert set(log.table["task"].to_pylist()) == {"Source: orders", "window -> sink: Writer"}
    assert {row["split"] for row in of_file.table.to_pylist()} == {None, "p0", "p1"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("part_silent", "other"), "0 jobs 'part_silent', of other"),
        (lambda _: "{}", "does not answer as Prometheus does"),
    ],
)
def test_what_is_no_range_of_the_job_is_refused(change: Callable[[str], str], says: str) -> None:
    class Other(Answers):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(change(RANGE.read_text()).encode())

    with served(Other, asked=[]) as address, pytest.raises(EngineError, match=says):
        wm.engine.prometheus(address, job="part_silent")


def test_the_kept_answers_are_of_one_job() -> None:
    names = {series["metric"]["job_name"] for series in json.loads(RANGE.read_text())["data"]["result"]}
    assert names == {"part_silent"}
