"""Lost and late buffers, silent and disordered sources, empty buffers: what each one does to time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.progress.sim.plans import growing, query, rows, run, source, tracked
from wmlab.progress.scenario import Aggregate, DelayBuffer, EmptyBuffer, Filter, LoseBuffer, SilenceSource, Workers
from wmlab.progress.sim.records import Records


def watermarks(world, local="running_max") -> list[int | None]:
    """The global watermark after each arrival at the windows."""
    return [state.watermark for _, state in tracked(world, local=local)]


def fired(world, cause: str) -> int:
    return len(rows(world, "windows_fired", cause=cause))


def test_a_lost_buffer_stops_time_until_the_end() -> None:
    world = run(script=[LoseBuffer("a", 20)])
    marks = watermarks(world)
    assert max(mark for mark in marks if mark is not None) < 1_100
    assert (fired(world, "watermark"), fired(world, "end of stream")) == (0, 10)
    (fault,) = rows(world, "incidents")
    assert (fault["kind"], fault["target"], fault["detail"]) == ("loss", "a 20", "10 records")
    sequences = {row["sequence"] for row in rows(world, "buffers", emitter="a")}
    assert 20 not in sequences


def test_a_delayed_buffer_stops_time_until_it_comes() -> None:
    world = run(script=[DelayBuffer("a", 20, 4_000)])
    during = [r["fired_ms"] for r in rows(world, "windows_fired") if 1_300 < r["fired_ms"] < 4_900]
    assert during == []
    assert fired(world, "watermark") >= 8


def test_a_silent_source_stops_time_for_ever() -> None:
    world = run(script=[SilenceSource("b")])
    assert set(watermarks(world)) == {None}
    assert rows(world, "windows_fired") == []
    assert rows(world, "buffers", emitter="b") == []


def test_a_source_that_falls_silent_stops_it_there() -> None:
    world = run(script=[SilenceSource("b", at_ms=4_000)])
    assert 3_900 <= max(mark for mark in watermarks(world) if mark is not None) < 4_000
    assert {row["end"] for row in rows(world, "windows_fired")} == {1_000, 2_000, 3_000}


def test_a_lagging_source_holds_time_back_by_its_lag() -> None:
    world = run(queries=[query(source("a"), source("b", lag_ms=3_000))])
    assert min(row["fired_ms"] for row in rows(world, "windows_fired")) > 4_000


@pytest.mark.parametrize(("local", "least"), [("head", 0), ("running_max", 500)])
def test_an_empty_buffer_pulls_the_head_of_the_prefix_to_0(local, least) -> None:
    sources = source("a", stamped="filter"), source("b")
    world = run(queries=[query(*sources)], script=[EmptyBuffer("a", 20)], workers=Workers(1), local=local)
    late = [m for m in watermarks(world, local=local) if m is not None][5:]
    assert (min(late) == 0) == (least == 0)
    assert len(rows(world, "windows_fired")) == 10
    (empty,) = rows(world, "buffers", emitter="a", sequence=20)
    assert (empty["records"], empty["watermark"]) == (0, 0)


def test_stamped_at_the_source_an_empty_buffer_keeps_its_watermark() -> None:
    world = run(script=[EmptyBuffer("a", 20)])
    (empty,) = rows(world, "buffers", emitter="a", sequence=20)
    assert (empty["records"], empty["slices"]) == (0, [])
    assert empty["watermark"] > 0


def test_disorder_at_the_source_makes_records_late() -> None:
    world = run(queries=[query(source("a", disorder_ms=2_500), source("b"))])
    late = rows(world, "incidents", kind="late")
    assert late
    assert {row["target"] for row in late} == {"a"}
    assert late[0]["detail"].startswith(tuple("123456789"))


def test_an_engine_that_forgets_fires_a_window_twice() -> None:
    window = Aggregate(1_000, forget_fired=True)
    world = run(queries=[query(source("a", disorder_ms=2_500), source("b"), window=window)])
    twice = rows(world, "windows_fired", again=True)
    assert len(twice) == len(rows(world, "incidents", kind="double fire")) > 0
    assert rows(run(queries=[query(source("a", disorder_ms=2_500), source("b"))]), "windows_fired", again=True) == []


def test_a_sparse_source_needs_a_flush_interval() -> None:
    firsts = []
    for flush_every_ms in (500, None):
        sparse = source("a", rate_per_s=2, flush_every_ms=flush_every_ms)
        world = run(queries=[query(sparse, source("b"))])
        first = next(place for place, mark in enumerate(watermarks(world)) if mark is not None)
        firsts.append(rows(world, "buffers", operator="build")[first]["arrived_ms"])
    assert firsts[0] + 1_000 < firsts[1]


def test_ingestion_time_is_the_creation_of_the_buffer() -> None:
    world = run(queries=[query(source("a", stamp="ingestion_time", delay_mean_ms=200))])
    assert all(row["watermark"] == row["created_ms"] for row in rows(world, "buffers", operator="build"))


def test_a_filter_thins_the_records_and_keeps_the_buffers() -> None:
    whole, thin = run(), run(queries=[query(source("a", operators=[Filter(0.25)]), source("b"))])
    counts = [[row["records"] for row in rows(world, "buffers", emitter="a")] for world in (whole, thin)]
    assert len(counts[0]) == len(counts[1])
    assert 0.15 < sum(counts[1]) / sum(counts[0]) < 0.35


def test_the_literal_rule_never_completes_a_single_chunk() -> None:
    world = run(complete="literal")
    assert fired(world, "watermark") == 0
    wrong = run(complete="literal", queries=[query(growing("a", 3), growing("b", 3))])
    assert rows(wrong, "incidents", kind="breach")


def test_a_trace_is_replayed_as_it_arrived() -> None:
    log = Records(np.array([50, 20, 400]), np.array([100, 200, 20_000]), np.array([0, 1, 0]))
    world = run({"t": log}, queries=[query(source("t", trace="log"))])
    (buffer,) = rows(world, "buffers", operator="build")
    assert (buffer["records"], buffer["watermark"], buffer["created_ms"]) == (2, 50, 100)
    assert rows(world, "windows_fired")[0]["records"] == 2
