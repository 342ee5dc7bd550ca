"""The idle timeout that let the watermark pass rows on their way is named, and the one that keeps them."""

from __future__ import annotations

import pytest

from wmlab import dataflow as flow
from wmlab.dataflow.recording import DataflowRecording

ROWS = tuple((p, i * 1_000, f"p{p}-{i}") for i in range(40) for p in (0, 1))


def delayed(idle_timeout_ms: int) -> DataflowRecording:
    """Two partitions, the rows of one of which are 6 s late for a while."""
    source = flow.Source(
        "in",
        columns=("p", "t", "id"),
        rows=ROWS,
        every_ms=500,
        partitions=2,
        partition_by="p",
        times=(flow.EventTime("t"),),
        idle_timeout_ms=idle_timeout_ms,
    )
    window = flow.Window("w", 1_000, column="t", by=("p",), aggregates={"n": "count()"})
    return flow.Dataflow(
        "delayed",
        vertices=(source, window, flow.Sink("out")),
        edges=("in -> w -> out",),
        faults=(flow.LatePartition("in", 1, at_ms=10_000, for_ms=5_000, by_ms=6_000),),
        duration_ms=60_000,
        jitter_ms=0,
    ).record()


@pytest.fixture(scope="module")
def two_seconds() -> DataflowRecording:
    return delayed(2_000)


def test_six_rows_are_lost_while_their_partition_is_idle_and_the_timeout_that_keeps_them_is_said(
    two_seconds: DataflowRecording,
) -> None:
    drops = two_seconds.why_dropped()
    assert [drop.row["id"] for drop in drops] == [f"p1-{number}" for number in range(10, 16)]
    labels = ("lost because", "partition", "row before at", "idle since", "idle timeout", "kept with timeout")
    said = {tuple(drop.facts[label] for label in labels) for drop in drops}
    assert said == {("idle", "partition 1 of in", 9_500, 11_500, 2_000, 7_000)}
    assert drops.sentence == (
        "Rows of delayed that were dropped: 6, late by at most 6.0 s. Nothing waited for partition 1 of in when 6 of "
        "them were passed; a timeout of 7 s keeps these."
    )


@pytest.mark.parametrize(("idle_timeout_ms", "lost"), [(6_999, 6), (7_000, 0)])
def test_one_millisecond_less_than_that_loses_them(idle_timeout_ms: int, lost: int) -> None:
    assert len(delayed(idle_timeout_ms).why_dropped()) == lost


def test_rows_that_their_own_partition_is_ahead_of_are_not_put_down_to_idleness() -> None:
    source = flow.Source(
        "s",
        columns=("t", "id"),
        rows=((0, "a"), (5_000, "b"), (1_000, "c"), (9_000, "d")),
        every_ms=100,
        times=(flow.EventTime("t", lag_ms=500),),
        idle_timeout_ms=50,
    )
    window = flow.Window("w", 1_000, column="t", aggregates={"n": "count()"})
    run = flow.Dataflow(
        "ahead", vertices=(source, window, flow.Sink("out")), edges=("s -> w -> out",), duration_ms=1_000
    ).record()
    (drop,) = run.why_dropped()
    assert (drop.row["id"], drop.facts["lost because"], drop.facts["watermark of partition"]) == (
        "c",
        "own rows",
        4_500,
    )
    assert "idle since" not in drop.facts
