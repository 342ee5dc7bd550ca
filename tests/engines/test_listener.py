"""A listener keeps the progress of Spark's own classes; a query that runs is read in tutorial 12."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

import wmlab as wm
from wmlab.core.errors import EngineError

SPARK = wm.engine.DIRECTORY / "spark" / "one_source_silent.jsonl"
LINES = [json.loads(line) for line in SPARK.read_text().splitlines()]


def events(name: str | None) -> list[QueryProgressEvent]:
    return [QueryProgressEvent(StreamingQueryProgress.fromJson(line | {"name": name})) for line in LINES]


def test_what_a_listener_kept_is_the_log_of_the_query() -> None:
    listener = wm.engine.Listener()
    for event in events(None):
        listener.onQueryProgress(event)
    assert wm.engine.spark(listener).table.equals(wm.engine.read(SPARK).table)


def test_a_listener_keeps_one_query_and_its_last_batches() -> None:
    listener = wm.engine.Listener("mine", most=2)
    for mine, other in zip(events("mine"), events("other"), strict=True):
        listener.onQueryProgress(mine)
        listener.onQueryProgress(other)
    assert [(each.name, each.batchId) for each in listener.progress] == [("mine", 7), ("mine", 8)]
    both = wm.engine.Listener()
    for event in [*events("mine"), *events("other")]:
        both.onQueryProgress(event)
    with pytest.raises(EngineError, match="2 queries: mine and other"):
        wm.engine.spark(both)
    with pytest.raises(EngineError, match="most is 0"):
        wm.engine.Listener(most=0)
