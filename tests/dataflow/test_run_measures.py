"""What runs of a dataflow came to, and such runs side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wmlab as wm
from wmlab.core.errors import RecordingError

flow = wm.dataflow

ROWS = [(time, time + 50, number % 2) for number, time in enumerate(range(0, 20_000, 400))]
WEB = flow.Source(
    "web",
    columns=["t", "at", "city"],
    rows=ROWS,
    arrival="at",
    times=[flow.EventTime("t", lag_ms=300)],
    partitions=2,
    partition_by="city",
)
COUNT = flow.Window("count", "5 s", column="t", by=["city"], aggregates={"orders": "count()"})
LATE = flow.LatePartition("web", 1, at_ms="6 s", for_ms="6 s", by_ms="6 s")
DATAFLOW = flow.Dataflow(
    "orders", vertices=[WEB, COUNT, flow.Sink("out")], edges=["web -> count -> out"], faults=[LATE], duration_ms="30 s"
)


def test_the_measures_count_what_the_tables_have() -> None:
    recording = DATAFLOW.record()
    run = recording.measures()
    items, queues = recording.to_pandas("items"), recording.to_pandas("queues")
    (queue,) = queues[queues.target == "count"].queue
    watermarks = items[(items.queue == queue) & (items.kind == "watermark")]
    came = [(int(row.taken_ms), int(row.value)) for row in watermarks.itertuples()]
    assert [step for step in run.steps if step[1] is not None][:-1] == came
    assert run.measures["rows read"] == len(ROWS)
    assert run.measures["results"] == recording.counts["sunk"] > 0
    assert run.measures["left out"] == recording.counts["drops"] == 0
    assert run.measures["watermarks at count"] == len({value for _, value in came})


def test_the_watermark_is_the_least_of_all_instances() -> None:
    run = DATAFLOW.replace(vertices=[WEB, replace(COUNT, parallelism=2), flow.Sink("out")]).record().measures()
    alone = DATAFLOW.record().measures()
    assert [value for _, value in run.steps if value is not None][-1] == alone.steps[-1][1]
    known = [value for _, value in run.steps if value is not None]
    assert known == sorted(known)


def test_a_restart_begins_without_a_watermark() -> None:
    again = DATAFLOW.replace(faults=[flow.Restart(12_000)]).record().measures()
    assert dict(again.steps)[12_000] is None
    assert max(value for at_ms, value in again.steps if at_ms < 12_000 and value is not None) > 9_000


def test_an_idle_timeout_is_the_difference_and_its_price_is_told() -> None:
    hasty = DATAFLOW.replace(vertices=[replace(WEB, idle_timeout_ms="2 s"), COUNT, flow.Sink("out")])
    comparison = wm.compare(DATAFLOW.record(), hasty.record(), labels=["patient", "hasty"])
    assert comparison.differs == (("web: Idle timeout", ("60 s", "2 s")),)
    assert "The watermark of patient lags most" in comparison.sentence
    patient, soon = dict(comparison.results)["left out"]
    assert patient == 0 < soon


def test_what_does_not_fit_is_refused() -> None:
    recording = DATAFLOW.record()
    with pytest.raises(RecordingError, match="dataflows have none"):
        recording.measures("orders")
    stream = wm.Scenario("s", writers=[wm.EventWriter("w", rate_per_s=10)], duration_ms=2_000).record()
    with pytest.raises(RecordingError, match="recordings of dataflow and streams are not of one kind"):
        wm.compare(recording, stream)
