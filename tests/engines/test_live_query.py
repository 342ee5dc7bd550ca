"""A query of Spark is read while it runs: of itself and of a listener, with the same answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import wmlab as wm
from wmlab.core.errors import EngineError


@dataclass
class Progress:
    """A StreamingQueryProgress as far as it is read."""

    name: str
    json: str


def test_a_query_that_runs_is_explained(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = spark.readStream.schema("ts long").json(str(tmp_path / "in"))
    counted = rows.select(F.timestamp_seconds("ts").alias("t")).withWatermark("t", "10 seconds")
    counted = counted.groupBy(F.window("t", "5 seconds")).count()
    query = counted.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for number in range(2):
            part = tmp_path / f"{number}.json"
            part.write_text("\n".join(json.dumps({"ts": 1_700_000_000 + 20 * number + second}) for second in range(5)))
            part.rename(tmp_path / "in" / part.name)
            query.processAllAvailable()
        log = wm.engine.spark(query)
    finally:
        query.stop()
    explanation = log.explain()
    assert explanation.watermark_ms == 1_700_000_014_000
    assert explanation.cause in (wm.engine.Cause.NO_FAULT, wm.engine.Cause.NO_NEW_DATA)
    assert {each.cause for each in explanation.findings} >= {wm.engine.Cause.NO_NEW_DATA}
    listener = wm.engine.Listener()
    for progress in query.recentProgress:
        listener.onQueryProgress(SimpleNamespace(progress=progress))
    assert wm.engine.spark(listener).table.equals(log.table)


def test_a_listener_keeps_one_query_and_the_last_batches() -> None:
    listener = wm.engine.Listener("mine", most=2)
    for number in range(4):
        for name in ("mine", "other"):
            listener.onQueryProgress(SimpleNamespace(progress=Progress(name, str(number))))
    assert [(each.name, each.json) for each in listener.progress] == [("mine", "2"), ("mine", "3")]
    with pytest.raises(EngineError, match="most is 0"):
        wm.engine.Listener(most=0)
