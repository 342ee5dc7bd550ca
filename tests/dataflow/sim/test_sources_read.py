"""What sources read, when, and what becomes of their watermarks: partitions, faults of arrival, traces, streams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import wmlab as wm
from tests.dataflow.sim.flows import count, kinds, line, marks, outcome, results, rows, source, times
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError
from wmlab.core.recording import Recording
from wmlab.core.values import Problems
from wmlab.dataflow.scenario.faults import known_partitions


def two_partitions(*faults: Any, **fields: Any) -> Recording:
    """Partition 0 at even hundreds of ms, partition 1 at odd ones."""
    data = [[100 * n, n % 2] for n in range(10)]
    given = {"columns": ["t", "p"], "rows": data, "partitions": 2, "partition_by": "p"}
    return line(source("s", [], **(given | fields)), faults=faults, jitter_ms=0.0)


def first_put(run: Recording) -> dict[int, int]:
    """When each watermark left, in ms."""
    return {item["value"]: item["put_ms"] for item in rows(run, "items", kind="watermark")}


def test_rows_come_every_so_often_or_when_their_column_says() -> None:
    paced = line(source("s", [5, 3, 9], arrival=None, every_ms=20, starts_ms=100), jitter_ms=0.0)
    assert [row["at_ms"] for row in rows(paced, "source_rows")] == [100, 120, 140]
    timed = line(source("s", [5, 3, 9]), jitter_ms=0.0)
    assert [(row["at_ms"], row["number"]) for row in rows(timed, "source_rows")] == [(3, 1), (5, 0), (9, 2)]


def test_a_watermark_leaves_before_the_row_that_raised_it_and_never_passes_it() -> None:
    assert kinds(line(source("s", [10, 20]), duration_ms=100), "s", "out") == ["watermark", "event"] * 2
    by_clock = source("s", [-20], arrival=None, times=[flow.EventTime("t", policy="real_time")])
    ahead = line(by_clock, duration_ms=90, jitter_ms=0.0)
    assert [(i["kind"], i["value"]) for i in rows(ahead, "items")] == [("watermark", -20), ("event", None)]


def test_a_policy_of_the_clock_goes_on_without_rows() -> None:
    by_clock = source("s", [10], times=[flow.EventTime("t", policy="real_time", lag_ms=50)], poll_ms=200)
    run = line(by_clock, duration_ms=1_000, jitter_ms=0.0)
    assert marks(run, "s", "out") == [-50, -40, 150, 350, 550, 750]


def by_a_list(*given: int | None) -> flow.EventTime:
    """A policy of your own that says these watermarks, row by row."""

    def policy(memory: int | None, time: int) -> tuple[int, int | None]:
        number = memory or 0
        return number + 1, given[number]

    return flow.EventTime("t", policy=policy)


def test_what_a_policy_says_above_the_time_of_its_row_leaves_at_the_next_idle_turn() -> None:
    fields: dict[str, Any] = {"columns": ["symbol", "t"], "times": by_a_list(200_000, 250_000), "arrival": None}
    prices = source(
        "s", [], **fields | {"rows": [["MSFT", 100_000], ["MSFT", 50_000]], "starts_ms": 1, "every_ms": 599}
    )
    run = line(prices, count(size_ms=100_000), duration_ms=2_000, jitter_ms=0.0)
    assert first_put(run).items() >= {100_000: 1, 200_000: 101, 250_000: 700}.items()
    assert [(out["start"], out["n"]) for out in results(run)] == [(100_000, 1)]
    (drop,) = rows(run, "drops")
    assert (drop["time"], drop["at_ms"]) == (50_000, 600)
    held = run.explain(at_ms=50, vertex="s").holders
    assert [(holder.kind, holder.mark) for holder in held] == [("slow", 100_000)]
    assert run.explain(at_ms=150, vertex="s").holders[0].mark == 200_000


def test_rows_that_go_on_coming_do_not_put_an_idle_turn_off() -> None:
    paced = source("s", range(0, 500, 10), times=by_a_list(*[7_000] * 50))
    assert first_put(line(paced, duration_ms=600, jitter_ms=0.0)) == {0: 0, 7_000: 100} | {
        n: n for n in range(10, 100, 10)
    } | {100: 100}
    by_clock = source("s", range(-90, 500, 10), arrival=None, times=[flow.EventTime("t", policy="real_time")])
    sent = first_put(line(by_clock, duration_ms=600, jitter_ms=0.0))
    assert [mark for mark, at_ms in sent.items() if mark == at_ms] == [100, 200, 300, 400, 500]


def test_an_idle_turn_comes_before_the_partition_is_left_out() -> None:
    quick = source("s", [10], times=by_a_list(500), idle_timeout_ms=30)
    assert [mark for mark in first_put(line(quick, duration_ms=600)) if mark is not None] == [10, 500]


@settings(max_examples=40, deadline=None)
@given(
    said=st.lists(st.tuples(st.integers(0, 900), st.none() | st.integers(0, 1_500)), min_size=1, max_size=8),
    partitions=st.integers(1, 3),
    lag_ms=st.sampled_from([0, 40]),
)
def test_a_policy_of_ones_own_is_followed_as_upstream_does(
    said: list[tuple[int, int | None]], partitions: int, lag_ms: int
) -> None:
    """A judge without the model: upstream's rule, row by row, with an idle turn behind each."""
    answers = {(number, time): mark for number, (time, mark) in enumerate(said)}

    def policy(memory: list[int] | None, time: int) -> tuple[list[int], int | None]:
        number = memory[0] if memory else next(order)
        return [number + partitions], answers[number, time]

    order = iter(range(partitions))
    times = [time for time, _ in said]
    fields: dict[str, Any] = {"arrival": None, "every_ms": 300, "partitions": partitions, "idle_timeout_ms": 0}
    time = flow.EventTime("t", policy=policy, lag_ms=lag_ms)
    run = line(source("s", times, times=time, **fields), jitter_ms=0.0)
    marks_of: list[int | None] = [None] * partitions
    wanted: list[int | None] = [None] * partitions
    expected: list[int] = []
    for number, (happened, mark) in enumerate(said):
        wanted[number % partitions] = None if mark is None else mark - lag_ms
        for cap in (happened, 10**9):
            for place, want in enumerate(wanted):
                if want is not None:
                    before = marks_of[place]
                    marks_of[place] = min(want, cap) if before is None else max(before, min(want, cap))
            known = [mark for mark in marks_of if mark is not None]
            if len(known) == partitions and (not expected or min(known) > expected[-1]):
                expected.append(min(known))
    assert marks(run, "s", "out") == expected


def test_a_partition_without_rows_holds_the_source_until_it_is_idle() -> None:
    run, for_ever = (two_partitions(flow.SilentPartition("s", 1), idle_timeout_ms=ms) for ms in (1_000, 0))
    assert next(iter(first_put(run).items())) == (800, 1_000)
    assert marks(for_ever, "s", "out") == []
    assert len(results(for_ever)) == 5


def test_a_late_partition_comes_later_and_in_order() -> None:
    run = two_partitions(flow.LatePartition("s", 1, by_ms=350, at_ms=200, for_ms=200))
    late = [(row["number"], row["at_ms"]) for row in rows(run, "source_rows", partition=1)]
    assert late == [(1, 100), (3, 650), (5, 650), (7, 700), (9, 900)]


def test_an_added_partition_holds_the_watermark_and_a_removed_one_lets_it_go() -> None:
    added = two_partitions(flow.AddPartition("s", 1, at_ms=450))
    assert first_put(added) == {0: 0, 200: 200, 400: 400, 500: 600, 600: 700, 700: 800, 800: 900}
    assert [row["at_ms"] for row in rows(added, "source_rows", partition=1)] == [450, 450, 500, 700, 900]
    removed = two_partitions(flow.RemovePartition("s", 1, at_ms=250))
    assert first_put(removed) == {0: 100, 100: 200, 200: 250, 400: 400, 600: 600, 800: 800}
    assert len(results(removed)) == 6


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (flow.LatePartition("s", 1, by_ms=350, for_ms=190), [0, 200, 400, 600, 800]),
        (flow.LatePartition("s", 1, by_ms=50, for_ms=190), [0, 100, 200, 400, 600, 800]),
    ],
)
def test_rows_that_are_late_when_their_partition_is_gone_never_come(fault: Any, left: list[int]) -> None:
    run = two_partitions(flow.RemovePartition("s", 1, at_ms=200), fault)
    assert times(run) == left
    assert outcome(run) == "running"


def test_the_watermark_is_the_highest_time_so_far_less_the_lag() -> None:
    run = line(source("s", [100, 150, 120, 170], arrival=None, times=[flow.EventTime("t", lag_ms=20)]), jitter_ms=0.0)
    assert marks(run, "s", "out") == [80, 130, 150]


def test_disorder_beyond_the_lag_makes_rows_late() -> None:
    lagging = source("s", range(0, 3_000, 10), times=[flow.EventTime("t", lag_ms=20)])
    for by_ms, expected in ((20, False), (400, True)):
        run = line(lagging, flow.LateDrop("late", "t"), faults=[flow.Disorder("s", by_ms=by_ms)])
        assert bool(rows(run, "drops")) is expected
        assert all(row["margin"] == row["limit"] - row["time"] > 0 for row in rows(run, "drops"))
        assert len(results(run)) + len(rows(run, "drops")) == 300


def test_the_filter_of_a_source_can_be_made_to_swallow_everything() -> None:
    swallow = flow.SwallowAll("s", at_ms=250, for_ms=300)
    run = line(source("s", range(0, 1_000, 100), where="t >= 0"), faults=[swallow], jitter_ms=0.0)
    assert times(run) == [0, 100, 200, 600, 700, 800, 900]


@pytest.mark.parametrize(("frame", "expected"), [(1, [10, 120, 250]), (100, [0, 100, 200]), (0, [])])
def test_watermarks_are_throttled_to_frames(frame: int, expected: list[int]) -> None:
    assert marks(line(source("s", [10, 120, 250], frame_ms=frame), duration_ms=500), "s", "out") == expected


def test_several_columns_have_watermarks_of_their_own_and_one_idleness() -> None:
    keys = [flow.EventTime("t", key=3), flow.EventTime("u", key=-1, lag_ms=2)]
    run = line(source("s", [], columns=["t", "u"], rows=[[10, 7], [20, 30]], idle_timeout_ms=100, times=keys))
    assert (marks(run, "s", "out", 3), marks(run, "s", "out", -1)) == ([10, 20], [5, 28])
    assert kinds(run, "s", "out").count("idle") == 1


def test_a_trace_is_read_at_its_arrivals() -> None:
    lagging = [flow.EventTime("event_time", lag_ms=7_200_000)]
    traced = flow.Source("flights", trace="flights", writers=("HA", "UA"), times=lagging, frame_ms=60_000)
    day = {"start_ms": 1_373_846_400_000, "duration_ms": 86_400_000}
    run = line(traced, count(size_ms=3_600_000, column="event_time", by="writer"), **day)
    trace = wm.trace.load("flights").writers("HA", "UA").between(day["start_ms"], day["start_ms"] + day["duration_ms"])
    read = rows(run, "source_rows")
    assert [row["at_ms"] // 10 for row in read] == [event.arrival_ms // 10 for event in trace.events()]
    assert sum(row["n"] for row in results(run)) + len(rows(run, "drops")) <= trace.rows
    assert len(results(run)) > 10


def test_a_trace_that_has_nothing_then_is_a_mistake() -> None:
    traced = flow.Source("flights", trace="flights", times=[flow.EventTime("event_time")])
    with pytest.raises(Problems, match="nothing of trace flights arrives from 0 ms to 10 s; set start_ms"):
        line(traced)


def promised(stream: Any) -> flow.Source:
    return flow.Source("stream", stream=stream, times=[flow.EventTime("event_time", policy="lower_bound")])


@pytest.mark.parametrize("name", ["first_bounds", "days/split_under_load"])
def test_the_lower_bound_of_a_stream_is_the_watermark_of_a_source_and_no_row_is_late(name: str) -> None:
    scenario = wm.Scenario.load(f"data/scenarios/{name}.yaml")
    counted = count(size_ms=1_000, column="event_time")
    late = flow.LateDrop("late", "event_time")
    run = line(promised(scenario), late, counted, duration_ms=scenario.duration_ms, jitter_ms=0.0)
    assert rows(run, "drops") == []
    assert len(marks(run, "stream", "late")) > 5
    events = scenario.record(progress=False).table("events")["event_time"].to_pylist()
    for result in results(run):
        assert result["n"] == sum(result["start"] <= time < result["end"] for time in events)
    assert run.dataflow.vertex("stream").stream.to_dict() == scenario.to_dict()


def test_a_recording_can_be_the_stream_and_its_readers_come_and_go(tmp_path) -> None:  # type: ignore[no-untyped-def]
    kept = wm.Scenario.load("data/scenarios/first_bounds.yaml").record(tmp_path / "kept", progress=False)
    from_disk = promised(kept)
    assert from_disk.stream == str(kept.path)
    assert promised(kept.path) == from_disk
    assert len(results(line(from_disk, duration_ms=5_000))) > 100
    for fault in (flow.AddPartition("stream", 0, at_ms=3_000), flow.RemovePartition("stream", 0, at_ms=3_000)):
        run = line(from_disk, duration_ms=5_000, faults=[fault])
        assert outcome(run) == "running"
        # Rows and bounds of the partition come from then on, or until then.
        steps = [row["at_ms"] for row in rows(run, "coalescing", level="partition", input=0, stimulus="bound")]
        assert (min(steps) >= 3_000) if fault.kind == "add_partition" else (max(steps) < 3_000)


def two_streams() -> wm.Scenario:
    """Writer wa into stream a, which nobody reads, and wb into b, which two groups read."""
    return wm.Scenario(
        "two",
        streams=[wm.Stream("a"), wm.Stream("b", segments=2)],
        writers=[wm.EventWriter(f"w{name}", rate_per_s=20, stream=name) for name in "ab"],
        readers=[wm.ReaderGroup("g1", stream="b"), wm.ReaderGroup("g2", stream="b", readers=2)],
        duration_ms=3_000,
    )


NOT_SAID = [
    ({}, "several streams", "name one of: a, b", "its streams: a, b"),
    ({"stream_name": "c"}, "'c'", "there are: a, b", "its streams: a, b"),
    ({"stream_name": "b"}, "several reader groups", "name one of: g1, g2", "its reader groups: g1, g2"),
    ({"stream_name": "b", "group": "g3"}, "'g3'", "there are: g1, g2", "its reader groups: g1, g2"),
]


@pytest.fixture(scope="module")
def kept_streams(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(two_streams().record(progress=False).save(tmp_path_factory.mktemp("two") / "kept").path)


@pytest.mark.parametrize(("chosen", "problem", "in_scenario", "in_recording"), NOT_SAID)
def test_of_several_streams_and_groups_none_is_read_unless_it_is_named(
    kept_streams: str, chosen: dict[str, str], problem: str, in_scenario: str, in_recording: str
) -> None:
    with pytest.raises(Problems, match=in_scenario) as refused:
        flow.Source("log", stream=two_streams(), times="event_time", **chosen)
    assert problem in str(refused.value)
    source = flow.Source("log", stream=kept_streams, times="event_time", **chosen)
    with pytest.raises(RecordingError, match=in_recording) as refused_then:
        line(source, duration_ms=3_000)
    assert problem in str(refused_then.value)
    assert f"{'group' if 'stream_name' in chosen and chosen['stream_name'] == 'b' else 'stream_name'}=" in str(
        refused_then.value
    )


@pytest.mark.parametrize("is_kept", [False, True])
def test_the_stream_and_the_group_that_are_named_are_read(kept_streams: str, is_kept: bool) -> None:
    stream = kept_streams if is_kept else two_streams()
    unread = line(flow.Source("log", stream=stream, stream_name="a", times="event_time"), duration_ms=3_000)
    assert {row["writer"] for row in results(unread)} == {"wa"}
    source = flow.Source("log", stream=stream, stream_name="b", group="g2", times="event_time")
    read = line(source, duration_ms=3_000)
    assert {row["writer"] for row in results(read)} == {"wb"}
    assert {row["partition"] for row in rows(read, "source_rows")} == {0, 1}
    assert known_partitions(source) == (None if is_kept else 2)
    assert source.detail.startswith("stream b of ")
