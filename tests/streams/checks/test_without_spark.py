"""A check runs without Spark, and has one part of the events in memory at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.scenario_files import FOLDER
from wmlab.core.errors import ModelError
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording


@pytest.fixture(scope="module")
def run() -> StreamRecording:
    return Scenario.load(FOLDER / "first_bounds.yaml").record(progress=False)


def test_a_check_starts_no_spark() -> None:
    code = f"""
import wmlab as wm
from pyspark import SparkContext
wm.Scenario.load({str(FOLDER / "first_bounds.yaml")!r}).record(progress=False).check()
print(SparkContext._gateway)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_a_stored_recording_has_the_same_verdicts_though_its_events_come_in_parts(
    run: StreamRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = run.table("events")
    parts = [events.slice(start, 100) for start in range(0, len(events), 100)]
    stored = StreamRecording.read(run.save(tmp_path / "stored").path or "")
    monkeypatch.setattr(type(stored.tables), "chunks", lambda *_: iter([events.schema.empty_table(), *parts]))
    monkeypatch.setattr(StreamRecording, "table", _without_events(StreamRecording.table))
    assert stored.check() == run.check()
    assert len(parts) > 10


def _without_events(read):  # type: ignore[no-untyped-def]
    def table(recording: StreamRecording, name: str) -> pa.Table:
        assert name != "events", "a check asks for the whole table of events"
        return read(recording, name)

    return table


def test_rules_that_take_nothing_of_the_events_do_not_read_them(
    run: StreamRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(run.tables), "chunks", lambda *_: pytest.fail("the events are read"))
    assert [verdict.verdict for verdict in run.check("I1", "I9")] == ["ok", "ok"]


@pytest.mark.parametrize("given", [["I1"], 1, "I99"], ids=repr)
def test_what_is_no_invariant_is_refused(run: StreamRecording, given: object) -> None:
    with pytest.raises(ModelError, match=r"(?s)There is no invariant .* I12, or for I14, I15, which is judged only"):
        run.check(given)  # type: ignore[arg-type]
