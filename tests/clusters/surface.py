"""Every function on DataFrames once, and a sweep: what a session answers, as texts that can be compared.

`python -m tests.clusters.surface MASTER FOLDER` prints them as JSON, about what `make` put into FOLDER.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import wmlab as wm
from wmlab import dataflow as flow, progress as plans, script
from wmlab.open import load_recording
from wmlab.progress.spark import fired_windows, progress
from wmlab.spark import (
    FEED,
    Configuration,
    feed,
    group_perfect_watermark,
    group_time_bounds,
    live,
    of_log,
    perfect_watermark,
    quality_of_bounds,
    spark_session,
    stragglers,
    time_bounds,
    with_slack,
    write_feed,
)
from wmlab.strategies.spark import lateness_curve
from wmlab.streams.scenario.network import Network

SCENARIO = wm.Scenario(
    "a split and a silent writer",
    stream=wm.Stream(segments=2, timestamp_aggregation_timeout_ms=2_000),
    writers=[wm.EventWriter("w1", rate_per_s=10), wm.EventWriter("w2", rate_per_s=5, delay_mean_ms=300)],
    readers=wm.ReaderGroup(readers=2),
    controllers=wm.Controllers(period_ms=1_000),
    script=[script.Scale(at_ms=4_000, seal=["0@0"]), script.SilenceWriter(at_ms=3_000, writer="w2", for_ms=4_000)],
    network=Network(keep_messages=True),
    duration_ms=10_000,
)
PLAN = plans.PlanScenario(
    "a plan",
    queries=[
        plans.Query(
            "q",
            sources=[plans.Source(name, rate_per_s=20) for name in "ab"],
            operators=[plans.Aggregate(1_000)],
        )
    ],
    duration_ms=3_000,
)


def make(folder: Path) -> None:
    """Write the recordings and the log that the answers are about."""
    SCENARIO.record(folder / "stream", progress=False)
    _dataflow().record(folder / "dataflow")
    PLAN.record(folder / "plan")
    rows = [f"{n % 97 * 1_000},{n * 50},w{n % 3}" for n in range(400)]
    (folder / "log.csv").write_text("\n".join(["event_time,arrival_ms,writer", *rows, "soon,1,w1"]), "utf-8")


def _dataflow() -> flow.Dataflow:
    rows = [[time - 7 * (time % 4), time % 3] for time in range(0, 400, 9)]
    sources = [
        flow.Source(name, columns=["t", "k"], rows=rows, times=[flow.EventTime("t", key=key)], ends=True)
        for key, name in enumerate("ab")
    ]
    window = flow.Window("count", 40, column="t", aggregates={"n": "count()"})
    joined = flow.Join("pairs", condition="left.t - 5 <= right.t <= left.t + 5")
    edges = ["a -> pairs -> all", "b -> pairs", "c -> count -> out"]
    third = flow.Source("c", columns=["t", "k"], rows=rows, times=[flow.EventTime("t")], ends=True)
    sinks = [flow.Sink("all"), flow.Sink("out")]
    return flow.Dataflow("two results", vertices=[*sources, third, window, joined, *sinks], edges=edges)


def answers(spark: Any, folder: Path) -> dict[str, list[str]]:
    """What each function answers, its rows in the order of their texts."""
    asked = [_of_streams, _of_others, _of_logs_and_runs, _of_charts]
    return {name: _texts(found) for ask in asked for name, found in ask(spark, folder)}


def _of_streams(spark: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    run = load_recording(folder / "stream")
    names = ("positions", "watermarks", "segments", "events")
    positions, watermarks, segments, events = (run.spark(spark, name) for name in names)
    groups = group_time_bounds(positions, watermarks, segments)
    yield "time_bounds", time_bounds(events, watermarks, segments)
    yield "perfect_watermark", perfect_watermark(events, events, segments)
    perfect = group_perfect_watermark(positions, events, segments)
    together = groups.join(perfect, ["stream", "group", "version", "at_ms"])
    yield "groups, with_slack", with_slack(together)
    yield "quality_of_bounds", quality_of_bounds(together)
    yield "replay", run.replay(spark, {"1 s": {"timeout_ms": 1_000}, "60 s": {"timeout_ms": 60_000}})
    marks, shutdowns = run.spark(spark, "writer_marks"), run.spark(spark, "writer_shutdowns")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        write_feed(feed(marks, segments, shutdowns, positions), f"{place}/feed", every_ms=5_000)
        read = spark.readStream.schema(FEED).parquet(f"{place}/feed")
        written = live(read, Configuration(timeout_ms=2_000, period_ms=1_000)).writeStream.format("parquet")
        query = written.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True)
        query.start(f"{place}/live").awaitTermination()
        yield "live", spark.read.parquet(f"{place}/live").collect()


def _of_others(spark: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    run = load_recording(folder / "dataflow")
    yield "coalesced", run.coalesced(spark)
    run = load_recording(folder / "plan")
    buffers = run.spark(spark, "buffers").where("operator = 'build'")
    yield "progress", progress(buffers)
    yield "fired_windows", fired_windows(progress(buffers), size=1_000)


def _of_logs_and_runs(spark: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    log = of_log(spark.read.csv(str(folder / "log.csv"), header=True), key=None)
    yield "of_log", log
    good = log.where("reason is null")
    yield "stragglers", stragglers(good, every_ms=5_000)
    yield "session", [repr(spark).partition(" on ")[0]]
    yield "lateness_curve", [repr(lateness_curve(good, by="writer"))]
    yield "sweep", SCENARIO.sweep(spark, seeds=range(3), timeout_ms=[1_000, 5_000])


def _of_charts(spark: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    """Every chart that takes a table, of a DataFrame of this session."""
    run, plan = load_recording(folder / "stream"), load_recording(folder / "plan")
    bounds = run.time_bounds(spark)
    yield "chart.time_bounds", _drawn(wm.chart.time_bounds(bounds))
    yield "chart.alignment", _drawn(wm.chart.alignment(run.spark(spark, "windows"), by="reader"))
    messages = run.spark(spark, "messages")
    yield "chart.message_diagram", _drawn(wm.chart.message_diagram(messages, around_ms=5_000))
    holders = pa.Table.from_pandas(run.explain().to_pandas(), preserve_index=False)
    yield "chart.holders", _drawn(wm.chart.holders(spark.createDataFrame(holders)))
    replayed = run.replay(spark, {"1 s": {"timeout_ms": 1_000}, "60 s": {"timeout_ms": 60_000}})
    yield "chart.replay", _drawn(wm.chart.replay(replayed, run))
    runs = SCENARIO.sweep(spark, seeds=range(2), timeout_ms=[1_000, 5_000])
    yield "chart.sweep", _drawn(wm.chart.sweep(runs, by="timeout_ms"))
    progressed = progress(plan.spark(spark, "buffers").where("operator = 'build'"))
    yield "progress.chart.progress", _drawn(wm.progress.chart.progress(progressed))
    yield "progress.chart.sequence_prefix", _drawn(wm.progress.chart.sequence_prefix(progressed, emitter="a"))


def _drawn(chart: wm.chart.Chart) -> list[str]:
    return [chart.sentence, json.dumps(chart.data)]


def _texts(found: Any) -> list[str]:
    rows = found.collect() if hasattr(found, "collect") else found
    return sorted(row if isinstance(row, str) else repr(_plain(row.asDict(recursive=True))) for row in rows)


def _plain(value: Any) -> Any:
    """Maps in the order of their keys, for they have none of their own."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    return [_plain(entry) for entry in value] if isinstance(value, list) else value


if __name__ == "__main__":
    master, place = sys.argv[1:]
    print(json.dumps(answers(spark_session(master), Path(place))))
