"""Several recordings as the streams of one: no row is lost, each has the name it was given, and what is refused."""

from __future__ import annotations

import pytest

from tests.dataflow.flows import merged
from tests.streams.sim.worlds import scenario
from wmlab import trace
from wmlab.core.errors import RecordingError
from wmlab.streams.api import Scenario
from wmlab.streams.scenario.parts import EventWriter, Stream


def test_every_table_that_names_a_stream_is_there_whole_and_under_the_new_name() -> None:
    runs = {name: scenario(seed=seed).record() for seed, name in enumerate(("one", "other"))}
    both = trace.as_streams(runs, name="two runs")
    assert both.name == "two runs"
    assert both.scenario is None
    for table, schema in both.schemas.items():
        if "stream" not in schema.names:
            assert both.counts[table] == 0
            continue
        for name, run in runs.items():
            rows = [row for row in both.table(table).to_pylist() if row["stream"] == name]
            assert rows == [row | {"stream": name} for row in run.table(table).to_pylist()], table
    assert both.counts["reads"] > 0


def test_what_is_no_mapping_of_recordings_of_one_stream_is_refused() -> None:
    run = scenario().record()
    with pytest.raises(RecordingError, match="there is no recording"):
        trace.as_streams({}, name="none")
    with pytest.raises(RecordingError, match="not of one kind"):
        trace.as_streams({"a": run, "b": merged().record()}, name="two kinds")
    with pytest.raises(RecordingError, match="is not a recording"):
        trace.as_streams({"a": run, "b": None}, name="half")
    writers = [EventWriter("w", rate_per_s=5, stream="x"), EventWriter("v", rate_per_s=5, stream="y")]
    streams = [Stream("x"), Stream("y")]
    several = Scenario("two streams", streams=streams, writers=writers, duration_ms=5_000).record()
    with pytest.raises(RecordingError, match="has several streams: x, y"):
        trace.as_streams({"a": several}, name="two of them")
