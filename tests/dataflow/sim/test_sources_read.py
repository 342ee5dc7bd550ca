"""What sources read, when, and what becomes of their watermarks: partitions, faults of arrival, traces, streams."""

from __future__ import annotations

import pytest

import wmlab as wm
from tests.dataflow.sim.flows import count, kinds, marks, recorded, results, rows, source
from wmlab import dataflow as flow
from wmlab.core.values import Problems


def two_partitions(**fields: object) -> flow.Source:
    """Partition 0 at even hundreds of ms, partition 1 at odd ones."""
    data = [[100 * n, n % 2] for n in range(10)]
    return source("s", [], **({"columns": ["t", "p"], "rows": data, "partitions": 2, "partition_by": "p"} | fields))


def test_rows_come_every_so_often_or_when_their_column_says() -> None:
    paced = recorded([source("s", [5, 3, 9], arrival=None, every_ms=20, starts_ms=100)], ["s -> out"], jitter_ms=0.0)
    assert [row["at_ms"] for row in rows(paced, "source_rows")] == [100, 120, 140]
    timed = recorded([source("s", [5, 3, 9])], ["s -> out"], jitter_ms=0.0)
    assert [(row["at_ms"], row["number"]) for row in rows(timed, "source_rows")] == [(3, 1), (5, 0), (9, 2)]


def test_a_watermark_leaves_before_the_row_that_raised_it_and_never_passes_it() -> None:
    run = recorded([source("s", [10, 20])], ["s -> out"], duration_ms=100)
    assert kinds(run, "s", "out") == ["watermark", "event"] * 2
    by_clock = source("s", [-20], arrival=None, times=[flow.EventTime("t", policy="real_time")])
    ahead = recorded([by_clock], ["s -> out"], duration_ms=90, jitter_ms=0.0)
    assert [(i["kind"], i["value"]) for i in rows(ahead, "items")] == [("watermark", -20), ("event", None)]


def test_a_policy_of_the_clock_goes_on_without_rows() -> None:
    run = recorded([source("s", [10], times=[flow.EventTime("t", policy="real_time", lag_ms=50)], poll_ms=200)],
                   ["s -> out"], duration_ms=1_000, jitter_ms=0.0)  # fmt: skip
    assert marks(run, "s", "out") == [-50, -40, 160, 360, 560, 760]


def test_a_partition_without_rows_holds_the_source_until_it_is_idle() -> None:
    silent = flow.SilentPartition("s", 1)
    run = recorded([two_partitions(idle_timeout_ms=1_000)], ["s -> out"], faults=[silent], jitter_ms=0.0)
    (first, *_) = [item for item in rows(run, "items") if item["kind"] == "watermark"]
    assert (first["put_ms"], first["value"]) == (1_000, 800)
    for_ever = recorded([two_partitions(idle_timeout_ms=0)], ["s -> out"], faults=[silent])
    assert marks(for_ever, "s", "out") == []
    assert len(results(for_ever)) == 5


def test_a_late_partition_comes_later_and_in_order() -> None:
    fault = flow.LatePartition("s", 1, by_ms=350, at_ms=200, for_ms=200)
    run = recorded([two_partitions()], ["s -> out"], faults=[fault], jitter_ms=0.0)
    assert [row["at_ms"] for row in rows(run, "source_rows", partition=1)] == [100, 650, 650, 700, 900]
    assert [row["number"] for row in rows(run, "source_rows", partition=1)] == [1, 3, 5, 7, 9]


def test_an_added_partition_holds_the_watermark_and_a_removed_one_lets_it_go() -> None:
    added = recorded([two_partitions()], ["s -> out"], faults=[flow.AddPartition("s", 1, at_ms=450)], jitter_ms=0.0)
    at = {item["value"]: item["put_ms"] for item in rows(added, "items") if item["kind"] == "watermark"}
    assert at == {0: 0, 200: 200, 400: 400, 500: 600, 600: 700, 700: 800, 800: 900}
    assert [row["at_ms"] for row in rows(added, "source_rows", partition=1)] == [450, 450, 500, 700, 900]
    removed = recorded(
        [two_partitions()], ["s -> out"], faults=[flow.RemovePartition("s", 1, at_ms=250)], jitter_ms=0.0
    )
    at = {item["value"]: item["put_ms"] for item in rows(removed, "items") if item["kind"] == "watermark"}
    assert at == {0: 100, 100: 200, 200: 250, 400: 400, 600: 600, 800: 800}
    assert len(results(removed)) == 6


def test_disorder_beyond_the_lag_makes_rows_late() -> None:
    vertices = [source("s", range(0, 3_000, 10)), flow.LateDrop("late", "t")]
    for by_ms, expected in ((20, False), (400, True)):
        lagging = [source("s", range(0, 3_000, 10), times=[flow.EventTime("t", lag_ms=20)]), vertices[1]]
        run = recorded(lagging, ["s -> late -> out"], faults=[flow.Disorder("s", by_ms=by_ms)])
        assert bool(rows(run, "drops")) is expected
        assert all(row["margin"] == row["limit"] - row["time"] > 0 for row in rows(run, "drops"))
        assert len(results(run)) + len(rows(run, "drops")) == 300


@pytest.mark.parametrize(("mode", "expected"), [("design", [0, 100, 200]), ("hz", [])])
def test_edge_case_21_a_source_whose_filter_rejects_all_rows(mode: str, expected: list[int]) -> None:
    run = recorded([source("s", [0, 100, 200], where="t < 0")], ["s -> out"], mode=mode, duration_ms=1_000)
    assert marks(run, "s", "out") == expected
    assert [row["passed"] for row in rows(run, "source_rows")] == [False] * 3


def test_the_filter_of_a_source_can_be_made_to_swallow_everything() -> None:
    vertices = [source("s", range(0, 1_000, 100), where="t >= 0")]
    run = recorded(vertices, ["s -> out"], faults=[flow.SwallowAll("s", at_ms=250, for_ms=300)], jitter_ms=0.0)
    assert [row["t"] for row in results(run)] == [0, 100, 200, 600, 700, 800, 900]


@pytest.mark.parametrize(
    ("frame", "expected"), [(1, [10, 120, 250]), (100, [0, 100, 200]), (0, []), ("sql", [0, 100, 200])]
)
def test_watermarks_are_throttled_to_frames(frame: object, expected: list[int]) -> None:
    run = recorded([source("s", [10, 120, 250], frame_ms=frame)], ["s -> out"], duration_ms=500)
    assert marks(run, "s", "out") == expected


def test_upstream_frames_follow_the_windows_downstream() -> None:
    run = recorded([source("s", [10, 120, 250], frame_ms="pipeline"), count(slide_ms=50)], ["s -> count -> out"])
    assert marks(run, "s", "count") == [0, 100, 250]


def test_several_columns_have_watermarks_of_their_own_and_one_idleness() -> None:
    two = source("s", [], columns=["t", "u"], rows=[[10, 7], [20, 30]], idle_timeout_ms=100,
                 times=[flow.EventTime("t", key=3), flow.EventTime("u", key=-1, lag_ms=2)])  # fmt: skip
    run = recorded([two], ["s -> out"])
    assert (marks(run, "s", "out", 3), marks(run, "s", "out", -1)) == ([10, 20], [5, 28])
    assert kinds(run, "s", "out").count("idle") == 1


def test_a_trace_is_read_at_its_arrivals() -> None:
    fields = {"trace": "flights", "writers": ["HA", "UA"], "times": [flow.EventTime("event_time", lag_ms=7_200_000)]}
    traced = flow.Source("flights", **fields, frame_ms=60_000)  # type: ignore[arg-type]
    day = {"start_ms": 1_373_846_400_000, "duration_ms": 86_400_000}
    hours = count(size_ms=3_600_000, column="event_time", by="writer")
    run = recorded([traced, hours], ["flights -> count -> out"], **day)
    trace = wm.trace.load("flights").writers("HA", "UA").between(day["start_ms"], day["start_ms"] + day["duration_ms"])
    read = rows(run, "source_rows")
    assert [row["at_ms"] // 10 for row in read] == [event.arrival_ms // 10 for event in trace.events()]
    assert sum(row["n"] for row in results(run)) + len(rows(run, "drops")) <= trace.rows
    assert len(results(run)) > 10


def test_a_trace_that_has_nothing_then_is_a_mistake() -> None:
    traced = flow.Source("flights", trace="flights", times=[flow.EventTime("event_time")])
    with pytest.raises(Problems, match="nothing of trace flights arrives from 0 to 10000 ms; set start_ms"):
        recorded([traced], ["flights -> out"])


@pytest.mark.parametrize("name", ["first_bounds", "days/split_under_load"])
def test_the_lower_bound_of_a_stream_is_the_watermark_of_a_source_and_no_row_is_late(name: str) -> None:
    scenario = wm.Scenario.load(f"data/scenarios/{name}.yaml")
    stream = flow.Source("stream", stream=scenario, times=[flow.EventTime("event_time", policy="lower_bound")])
    vertices = [stream, flow.LateDrop("late", "event_time"), count(size_ms=1_000, column="event_time")]
    run = recorded(vertices, ["stream -> late -> count -> out"], duration_ms=scenario.duration_ms, jitter_ms=0.0)
    assert rows(run, "drops") == []
    assert len(marks(run, "stream", "late")) > 5
    events = scenario.record(progress=False).table("events")["event_time"].to_pylist()
    for result in results(run):
        assert result["n"] == sum(result["start"] <= time < result["end"] for time in events)
    assert run.dataflow.vertex("stream").stream.to_dict() == scenario.to_dict()


def test_a_recording_can_be_the_stream(tmp_path) -> None:  # type: ignore[no-untyped-def]
    kept = wm.Scenario.load("data/scenarios/first_bounds.yaml").record(tmp_path / "kept", progress=False)
    times = [flow.EventTime("event_time", policy="lower_bound")]
    from_disk = flow.Source("stream", stream=kept, times=times)
    assert from_disk.stream == str(kept.path)
    assert flow.Source("stream", stream=kept.path, times=times) == from_disk
    assert len(results(recorded([from_disk], ["stream -> out"], duration_ms=5_000))) > 100
