"""A replayed log: which event keeps the bound, and who is silent though it goes on noting times."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from wmlab.core.holders import Holders
from wmlab.core.spark.log import of_log, stragglers
from wmlab.streams.answers import history
from wmlab.streams.answers.curves import LOG, Curves
from wmlab.streams.answers.explain import BoundExplanation
from wmlab.streams.answers.history import events_of, the_stream
from wmlab.streams.api import Scenario
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario.parts import Controllers, EventWriter, Noting, ReaderGroup, Stream

START_MS = 1_388_757_600_000
DAY_MS = 86_400_000
Log = list[tuple[int, int, str]]
"""Event time and arrival, in ms since the start, and the writer."""


def replayed(log: Log, folder: Path, **fields: Noting) -> StreamRecording:
    log = sorted(log, key=lambda row: row[1])
    times, arrivals, writers = ([row[n] for row in log] for n in range(3))
    table = {"event_time": [START_MS + t for t in times], "arrival_ms": [START_MS + t for t in arrivals]}
    pq.write_table(pa.table(table | {"writer": writers, "key": writers}), folder / "log.parquet")
    path = str(folder / "log.parquet")
    return Scenario(
        "replayed",
        stream=Stream("orders", segments=1, timestamp_aggregation_timeout_ms=60_000),
        writers=[EventWriter(name, trace=path, **fields) for name in sorted({*writers})],
        readers=ReaderGroup(readers=1),
        controllers=Controllers(period_ms=1_000),
        start_ms=START_MS,
        duration_ms=max(arrivals) + 1_000,
    ).record(progress=False)


def explained(recording: StreamRecording, at_ms: int) -> BoundExplanation:
    found = recording.explain(at_ms=START_MS + at_ms)
    assert isinstance(found, BoundExplanation)
    return found


def one_writer() -> Log:
    """An event a second, 300 ms late; that of 20 s happened a day before."""
    return [(1_000 * n - (DAY_MS if n == 20 else 300), 1_000 * n, "w") for n in range(1, 40)]


def test_the_writer_of_the_event_that_keeps_the_bound_is_named_with_its_time(tmp_path: Path) -> None:
    (writer,) = explained(replayed(one_writer(), tmp_path), 12_000).cause.parties
    assert (writer.name, writer.time) == ("w", START_MS + 20_000 - DAY_MS)


def test_the_whole_run_names_its_single_writer_and_the_event(tmp_path: Path) -> None:
    found = replayed(one_writer(), tmp_path).explain()
    assert isinstance(found, Holders)
    assert (found.facts["at"], found.facts["held by"]) == (START_MS + 20_000 - DAY_MS, "w")
    assert "unknown" not in repr(found)


def three_writers() -> Log:
    """An event of each a second; "b" stops at 15 s, and an event of "c" that arrives at 50 s happened at 30 s."""
    log = [(1_000 * n - 300, 1_000 * n, name) for n in range(1, 60) for name in "abc" if name != "b" or n <= 15]
    return [(30_000, 50_000, "c") if row[1:] == (50_000, "c") else row for row in log]


@pytest.fixture(scope="module")
def run_of_three(tmp_path_factory: pytest.TempPathFactory) -> tuple[StreamRecording, Path]:
    """The run of three writers, and its log."""
    folder = tmp_path_factory.mktemp("three")
    return replayed(three_writers(), folder), folder / "log.parquet"


@pytest.fixture(scope="module")
def of_events(spark: SparkSession, run_of_three: tuple[StreamRecording, Path]) -> list[Row]:
    """Who is furthest behind in the log, second by second."""
    columns = {"event_time": "event_time", "arrival": "arrival_ms", "writer": "writer", "key": "key"}
    log = of_log(spark.read.parquet(str(run_of_three[1])), **columns)
    return stragglers(log, 1_000).collect()


def test_many_moments_read_the_events_once(
    run_of_three: tuple[StreamRecording, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(history, "events_of", lambda *asked: read.append(asked) or events_of(*asked))
    run, _ = run_of_three
    curves = Curves(run, the_stream(run, None))
    moments = (START_MS + after_ms for after_ms in (10_000, 20_000, 45_000, 50_000))
    facts = [curves.cause(LOG, at_ms).silent for at_ms in moments]
    assert (facts[0], facts[2]) == (None, "b")
    assert len(read) == 1


def test_both_questions_who_holds_time_back_are_asked_of_one_log(
    run_of_three: tuple[StreamRecording, Path], of_events: list[Row]
) -> None:
    """By its events "b" holds the least time, by its marks "c": explain says the one and names the other."""
    run, _ = run_of_three
    held = {row.at_ms - START_MS: row for row in of_events}
    found = explained(run, 45_000)
    assert (list(found.cause.names), held[45_000].straggler) == (["c"], "b")
    assert found.facts["silent writer"] == "b"
    assert found.sentence.endswith("b sends nothing, but goes on noting times.")
    assert "silent writer" not in explained(run, 10_000).facts
    assert sum(row.straggler == "b" for row in of_events) > len(of_events) / 2
