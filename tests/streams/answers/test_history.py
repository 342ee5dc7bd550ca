from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.streams.answers.runs import owned, written
from wmlab.streams.answers.history import StreamTables, group_states, late_events
from wmlab.streams.answers.run_state import RunWalk


def change(version: int, segment: int, offset: int, *, finished: bool = False) -> dict[str, Any]:
    return {"version": version, "at_ms": 10 * version, "segment_id": segment, "offset": offset, "finished": finished}


def test_a_group_stands_where_its_last_changes_left_it() -> None:
    rows = [change(2, 0, 9, finished=True), change(2, 1, 0), change(1, 0, 4), change(3, 1, 7)]
    states = [(at_ms, {s: row["offset"] for s, row in state.items()}) for at_ms, state in group_states(rows)]
    assert states == [(10, {0: 4}), (20, {1: 0}), (30, {1: 7})]


def test_an_event_is_late_below_the_last_bound_emitted_before_it() -> None:
    watermarks = [{"emitted_ms": 100, "lower": 50}, {"emitted_ms": 200, "lower": 150}]
    events = [
        {"append_ms": at_ms, "event_time": time}
        for at_ms, time in [(99, 0), (100, 0), (101, 49), (101, 50), (200, 60), (201, 149), (201, 150)]
    ]
    late = [
        (event["append_ms"], event["event_time"])
        for event in late_events(pa.Table.from_pylist(events), watermarks).to_pylist()
    ]
    assert late == [(101, 49), (201, 149)], "at the clock of a watermark and at its bound an event is not late"


def test_a_bucket_that_changes_hands_has_the_new_owner_in_whatever_order_that_is_recorded() -> None:
    recording = written(ownership=[owned(0, "c2", 900, None, "orders"), owned(0, "c1", 0, 900, "orders")])
    assert [RunWalk(StreamTables(recording, "orders")).at(at_ms).owner for at_ms in (899, 900)] == ["c1", "c2"]
