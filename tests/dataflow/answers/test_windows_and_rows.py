"""What became of a window or a row, and what would let it go."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataflow.answers.test_explain import ROWS, joined, merged, source
from wmlab import dataflow as flow
from wmlab.core.recording import Recording


@pytest.fixture(scope="module")
def run() -> Recording:
    return merged().record()


def late(rows: list[tuple[int, int]], *vertices: Any, **fields: Any) -> flow.Dataflow:
    """One source into the given vertices, one after the other."""
    names = " -> ".join(["s", *(vertex.name for vertex in vertices), "out"])
    return flow.Dataflow(
        "late", vertices=[source("s", rows), *vertices, flow.Sink("out")], edges=[names], duration_ms=2_000, **fields
    )


WINDOW = flow.Window("w", 40, column="t", aggregates={"n": "count()"})


def test_a_window_that_came_out_tells_what_let_it(run: Recording) -> None:
    found = run.explain(window=80)
    assert (found.cause, found.since_ms, found.watermark) == ("came out", 370, 140)
    assert "the window from 40 ms to 80 ms of count came out at 370 ms with 1 result" in found.sentence


def test_a_window_that_waits_names_who_it_waits_for(run: Recording) -> None:
    found = run.explain(window=(40, 80), at_ms=200)
    assert (found.cause, found.needed, found.release_ms) == ("waiting", 80, 370)
    assert [holder.name for holder in found.holders] == ["partition 1 of a"]
    further = run.explain(window=200, at_ms=200)
    assert {holder.name for holder in further.holders} == {"partition 1 of a", "partition 0 of b"}


def test_a_window_without_rows_gives_nothing(run: Recording) -> None:
    assert run.explain(window=1_000).cause == "empty"


def test_a_window_whose_rows_came_too_late_says_so() -> None:
    recording = late([(0, 200), (1, 10)], WINDOW).record()
    assert "1 row of its time came too late and were dropped" in recording.explain(window=40).sentence


def test_in_two_stages_it_is_the_same(run: Recording) -> None:
    staged = merged(
        vertices=[*merged().vertices[:3], replace(WINDOW, name="count", stages=2), merged().vertices[-1]]
    ).record()
    assert staged.explain(window=80).cause == "came out"
    waiting = staged.explain(window=80, at_ms=200)
    assert (waiting.cause, waiting.release_ms) == ("waiting", 370)
    assert waiting.holders == run.explain(window=80, at_ms=200).holders


def test_a_session_needs_a_watermark_beyond_its_end() -> None:
    session = flow.SessionWindow("session", 30, column="t", by="id", aggregates={"n": "count()"})
    rows = [(0, 0), (0, 20), (1, 50), (1, 51)]
    recording = late(rows, session).record()
    assert recording.explain(window=(0, 50), at_ms=25).cause == "waiting"
    assert recording.explain(window=(0, 50), at_ms=25).needed == 51
    assert recording.explain(window=(0, 50)).cause == "came out"
    assert recording.explain(window=81).cause == "waiting"


def test_a_row_is_followed_to_where_it_is(run: Recording) -> None:
    assert run.explain(row={"id": 3}, at_ms=200).cause == "came out"
    waiting = run.explain(row={"id": 20}, at_ms=250)
    assert (waiting.asked, waiting.cause, waiting.needed) == ("row", "waiting", 240)
    assert waiting.sentence.startswith("row (id 20, t 200) went into count: the window from 200 ms to 240 ms")


def test_a_row_in_a_join_waits_for_its_partner() -> None:
    recording = joined().record()
    waiting = recording.explain(row={"id": 31}, at_ms=312)
    assert (waiting.vertex, waiting.cause, waiting.needed) == ("join", "waiting", 311)
    assert [holder.vertex for holder in waiting.holders] == ["deliveries"]
    assert waiting.holders[0].needs_time == 331
    came = recording.explain(row={"id": 31})
    assert came.cause == "came out"
    raised = [row for row in recording.table("source_rows").to_pylist() if json.loads(row["row"])["t"] >= 331]
    assert came.since_ms == min(row["at_ms"] for row in raised if row["vertex"] == "deliveries")


def test_rows_that_go_elsewhere_are_told() -> None:
    rejected = late(ROWS[:5], flow.Filter("f", "id > 2")).record()
    assert rejected.explain(row={"id": 1}).cause == "rejected"
    changed = late(ROWS[:5], flow.Map("m", select={"t": "t", "double": "id * 2"})).record()
    assert changed.explain(row={"id": 1}).cause == "gone"
    assert changed.explain(row={"t": 10}).cause == "came out"
    calling = late(ROWS[:5], flow.AsyncMap("call", latency=flow.Fixed(100))).record()
    assert calling.explain(row={"id": 1}, at_ms=50).cause == "waiting"
    stalled = late(ROWS[:5], WINDOW, faults=[flow.Stall("w", at_ms=0)]).record()
    assert stalled.explain(row={"id": 1}, at_ms=50).cause == "on queue"
    filtered = late(ROWS[:5], WINDOW).replace(
        vertices=[source("s", ROWS[:5], where="id > 2"), WINDOW, flow.Sink("out")]
    )
    assert "rejected by the filter of source s" in filtered.record().explain(row={"id": 1}).sentence


@pytest.mark.parametrize(
    ("vertex", "rule", "limit", "margin"),
    [
        (WINDOW, "window", 120, 100),
        (flow.LateDrop("d", "t"), "late drop", 130, 110),
        (flow.SessionWindow("x", 30, column="t", aggregates={"n": "count()"}), "session", 130, 110),
        (flow.StatefulMap("x", column="t", aggregates={"n": "count()"}, ttl_ms=50), "stateful map", 130, 110),
    ],
)
def test_a_dropped_row_names_the_rule_and_the_margin(vertex: Any, rule: str, limit: int, margin: int) -> None:
    recording = late([(0, 0), (1, 130), (2, 20), (3, 140)], vertex).record()
    drops = recording.why_dropped()
    (drop,) = drops
    assert (drop.vertex, drop.rule, drop.time, drop.limit, drop.margin) == (vertex.name, rule, 20, limit, margin)
    assert drop.passed_ms is not None
    assert drop.passed_ms <= drop.at_ms
    assert recording.explain(row={"id": 2}).drop == drop
    assert drop.sentence in drops.sentence
    assert f"{margin} ms below {limit} ms" in drops.sentence
    assert len(recording.why_dropped({"id": 1})) == 0
    assert recording.why_dropped(vertex=vertex.name).rows == drops.rows


def test_a_row_that_is_late_for_a_join_is_dropped_by_its_side() -> None:
    run = joined().replace(faults=[flow.Disorder("orders", at_ms=300, by_ms=100, for_ms=10)])
    drops = run.record().why_dropped()
    assert {drop.rule for drop in drops} <= {"join"}
    assert all(drop.margin == drop.limit - drop.time > 0 for drop in drops)


def test_drops_are_counted_by_rule() -> None:
    recording = late([(0, 0), (1, 130), (2, 20), (3, 30), (4, 150)], flow.LateDrop("d", "t"), WINDOW).record()
    drops = recording.why_dropped()
    assert drops.sentence == "2 rows of late were dropped: 2 by the late drop rule of d, late by 100 ms to 110 ms."
    assert drops.to_pandas()["margin"].tolist() == [110, 100]
    assert json.loads(drops.to_json())["sentence"] == drops.sentence
    assert "<table>" in drops._repr_html_()
    assert late([(0, 0)], WINDOW).record().why_dropped().sentence == "No row was dropped in late."


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 30).map(lambda n: 10 * n), min_size=1, max_size=25), st.integers(0, 2))
def test_every_row_came_out_in_a_window_waits_or_was_dropped(times: list[int], lag: int) -> None:
    """A batch of the rows says the same as what is told of every row."""
    rows = list(enumerate(times))
    lagging = source("s", rows, times=[flow.EventTime("t", lag_ms=20 * lag)])
    windows = replace(WINDOW, by=("id",))
    recording = late(rows, windows).replace(vertices=[lagging, windows, flow.Sink("out")]).record()
    told = {number: recording.explain(row={"id": number}).cause for number, _ in rows}
    results = {json.loads(row["row"])["id"] for row in recording.table("sunk").to_pylist()}
    dropped = {drop.row["id"] for drop in recording.why_dropped()}
    assert {number for number, cause in told.items() if cause == "dropped"} == dropped
    assert {number for number, cause in told.items() if cause == "came out"} >= results
    assert Counter(told.values()).keys() <= {"came out", "waiting", "dropped"}
