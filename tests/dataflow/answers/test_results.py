"""The rows that came out of a dataflow have their columns and the moment, by sink."""

from __future__ import annotations

import json

import pytest

from tests.dataflow.flows import merged, source
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError


def test_they_are_the_rows_of_the_table_with_their_moment() -> None:
    recording = merged().record()
    sunk = recording.table("sunk").to_pylist()
    assert recording.results().to_dict("records") == [json.loads(row["row"]) | {"at_ms": row["at_ms"]} for row in sunk]
    assert len(sunk) > 1


def test_of_several_sinks_one_is_named() -> None:
    vertices = [source("a"), source("b"), flow.Sink("x"), flow.Sink("y")]
    recording = flow.Dataflow("two sinks", vertices=vertices, edges=["a -> x", "b -> y"], duration_ms=1_000).record()
    assert len(recording.results(sink="x")) == 40
    with pytest.raises(RecordingError, match="several sinks; its sinks: x, y"):
        recording.results()


def test_without_rows_there_are_none_and_a_column_of_the_same_name_is_refused() -> None:
    assert recording_of([]).results().empty
    with pytest.raises(RecordingError, match="column 'at_ms' of their own"):
        recording_of([(1, 0)], columns=["id", "at_ms"], times="at_ms").results()


def recording_of(rows: list[tuple[int, int]], **fields: object):
    vertices = [source("a", rows, **fields), flow.Sink("out")]
    return flow.Dataflow("a line", vertices=vertices, edges="a -> out", duration_ms=1_000).record()
