"""Snapshots, and what a restart keeps, repeats or loses under each guarantee."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.dataflow.sim.flows import count, line, multiset, outcome, queue_between, recorded, results, rows
from wmlab import dataflow as flow
from wmlab.core.recording import Recording

DATA = [(10 * n, n % 3) for n in range(60)]
EXPECTED = Counter((t // 50 * 50, t // 50 * 50 + 50, k) for t, k in DATA)
BATCH = Counter((*window, n) for window, n in EXPECTED.items())


def source(**fields: Any) -> flow.Source:
    given: dict[str, Any] = {"columns": ["t", "k"], "rows": DATA, "every_ms": 10, "times": "t", "ends": True}
    return flow.Source("s", **(given | fields))


def restarted(guarantee: str, *vertices: Any, after_snapshot: bool = False, **fields: Any) -> Recording:
    """A restart at 250 ms, with a snapshot every 100 ms if there is a guarantee; by default of windows."""
    window = count(size_ms=50, by="k", parallelism=2)
    given: dict[str, Any] = {"faults": [flow.Restart(at_ms=250, after_snapshot=after_snapshot)], "guarantee": guarantee}
    if guarantee != "none":
        given["snapshot_every_ms"] = 100
    return line(*(vertices or (source(parallelism=2, partitions=2), window)), **(given | fields))


@pytest.mark.parametrize("at_ms", [21, 22, 23, 24])
def test_a_job_that_ends_with_the_snapshot_of_its_restart_is_complete(at_ms: int) -> None:
    """The source has ended at 20 ms, and the barrier and the end come to the sink together."""
    short = {"faults": [flow.Restart(at_ms=at_ms, after_snapshot=True)], "snapshot_every_ms": None}
    run = restarted("exactly_once", source(rows=DATA[:3]), flow.Map("m", select={"t": "t"}), **short)
    assert (outcome(run), len(rows(run, "sunk", committed=True))) == ("completed", 3)


def test_a_snapshot_is_complete_when_every_instance_has_saved() -> None:
    run = restarted("exactly_once", faults=[])
    first = rows(run, "snapshots", snapshot=1)
    assert {(row["vertex"], row["instance"]) for row in first} == {
        ("s", 0), ("s", 1), ("count", 0), ("count", 1), ("out", 0),
    }  # fmt: skip
    assert {row["completed_ms"] for row in first} == {max(row["saved_ms"] for row in first)}
    assert sum(row["size"] for row in first) > 0


@pytest.mark.parametrize("seed", range(6))
def test_exactly_once_gives_every_committed_result_once(seed: int) -> None:
    run = restarted("exactly_once", seed=seed)
    assert multiset(results(run, committed=True)) == BATCH
    assert [row["outcome"] for row in rows(run, "executions")] == ["restarted", "completed"]
    assert rows(run, "executions")[1]["snapshot"] is not None


@pytest.mark.parametrize("seed", range(6))
def test_at_least_once_loses_nothing(seed: int) -> None:
    run = restarted("at_least_once", seed=seed)
    assert {row["committed"] for row in rows(run, "sunk")} == {True}
    assert {row[:3] for row in multiset(results(run))} == {row[:3] for row in BATCH}
    again = [row["number"] for row in rows(run, "source_rows", execution=2)]
    assert min(again) < 25


def test_without_a_guarantee_everything_begins_anew() -> None:
    run = restarted("none")
    assert rows(run, "snapshots") == []
    assert rows(run, "executions")[1]["snapshot"] is None
    assert sorted(row["number"] for row in rows(run, "source_rows", execution=2)) == list(range(60))
    assert multiset(results(run)) > BATCH


def test_a_restart_behind_a_terminal_snapshot_repeats_nothing() -> None:
    run = restarted("exactly_once", after_snapshot=True)
    numbers = [row["number"] for row in rows(run, "source_rows")]
    assert sorted(numbers) == list(range(60))
    assert multiset(results(run)) == BATCH
    assert {row["committed"] for row in rows(run, "sunk")} == {True}
    assert rows(run, "executions")[0]["ended_ms"] >= 250


def test_edge_case_31_a_lower_watermark_comes_again_and_opens_windows_again() -> None:
    """The window sees watermarks go back in the second execution, and gives results that it had given before."""
    run = restarted("at_least_once", seed=3)
    items = [item for item in queue_between(run, "s", "count") if item["key"] == 0]
    before, after = ([item["value"] for item in items if item["execution"] == number] for number in (1, 2))
    assert after[0] < before[-1]
    assert max(multiset(results(run)).values()) == 2
    assert outcome(run) == "completed"


@pytest.mark.parametrize(("emit", "padded"), [("state", False), ("buffer", True)])
def test_edge_case_44_a_row_that_was_late_before_the_restart(emit: str, padded: bool) -> None:
    """TDD-15: l1 and r1 at 10 are joined, the left watermark reaches 15, r1 goes; then the job restarts, and l2 comes.

    With the saved watermark l2 is late, as it would have been; with `buffer` it is not, and is padded although r1 was.
    """
    data = [[10, 0], [15, 0], [10, 1], [30, 1]]
    left = flow.Source("l", columns=["t", "p"], rows=data, every_ms=100, times="t", partitions=2, partition_by="p")
    right = flow.Source("r", columns=["u"], rows=[[10], [100]], every_ms=400, times=[flow.EventTime("u", key=1)])
    join = flow.Join("join", "left.t <= right.u <= left.t", outer="left")
    fields: dict[str, Any] = {
        "guarantee": "exactly_once",
        "snapshot_every_ms": 160,
        "duration_ms": 1_000,
        "rules": flow.Rules(emit=emit),
    }
    fields["faults"] = [flow.AddPartition("l", 1, at_ms=190), flow.Restart(at_ms=180)]
    run = recorded([left, right, join], ["l -> join -> out", "r -> join"], **fields)
    late = {"t": 10, "p": 1, "u": None}
    assert (late in results(run)) is padded
    assert bool(rows(run, "drops", rule="join")) is not padded
    assert {"t": 10, "p": 0, "u": 10} in results(run)


def calling(**fields: Any) -> flow.AsyncMap:
    return flow.AsyncMap("call", capacity=3, latency=flow.Fixed(75), **fields)


def test_an_unordered_map_makes_the_calls_in_flight_again() -> None:
    run = restarted("exactly_once", source(), calling(ordered=False))
    assert {row["outcome"] for row in rows(run, "calls", execution=1)} == {"answered", "in flight"}
    assert max(row["size"] for row in rows(run, "snapshots", vertex="call") if row["completed_ms"]) == 3
    assert multiset(results(run, committed=True)) == Counter(DATA)


def test_an_ordered_map_stops_for_a_snapshot() -> None:
    run = restarted("exactly_once", source(), calling(), faults=[])
    saved = rows(run, "snapshots", vertex="call")
    assert {row["size"] for row in saved} == {0}
    assert any(row["saved_ms"] - row["begun_ms"] > 50 for row in saved)
    assert [(row["t"], row["k"]) for row in results(run)] == DATA
