"""A stream and a batch are joined with a batch, without watermarks; those of the stream pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.dataflow.checks.dataflows import altered
from tests.dataflow.sim.flows import count, kinds, marks, multiset, outcome, recorded, results, rows, source
from wmlab import dataflow as flow
from wmlab.core.values import Problems
from wmlab.dataflow.sim.rules import rules_of

Made = tuple[Any, ...]
CITIES = [(0, "Brno"), (1, "Oslo"), (1, "Oslo again"), (3, "Rome")]
ORDERS = [(t, t // 30 % 3) for t in range(0, 600, 30)]
STREAM = source("orders", (), rows=ORDERS, columns=["t", "city"], times=flow.EventTime("t", lag_ms=20))
BATCH = flow.Source("cities", columns=["city", "name"], rows=CITIES, every_ms=0, ends=True)
SAME = "left.city == right.city"
PAIRS = [(t, city, other, name) for t, city in ORDERS for other, name in CITIES if other == city]
PADDED = [(t, city, None, None) for t, city in ORDERS if city == 2]


def named(*vertices: Any, stream: Any = STREAM, batch: Any = BATCH, outer: Any = None, **fields: Any) -> Any:
    options = {name: fields.pop(name) for name in ("parallelism",) if name in fields}
    join = flow.HashJoin("named", SAME, outer=outer, **options)
    chain = " -> ".join([stream.name, "named", *(vertex.name for vertex in vertices), "out"])
    given = {"jitter_ms": 0.0, "duration_ms": 2_000}
    return recorded([stream, batch, join, *vertices], [chain, f"{batch.name} -> named"], **(given | fields))


def as_tuples(run: Any, **where: Any) -> Iterable[Made]:
    return multiset(results(run, **where))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("outer", "more"), [(None, []), ("left", PADDED)])
def test_the_result_is_that_of_a_join_of_two_tables(outer: Any, more: list[Made], seed: int) -> None:
    run = named(outer=outer, seed=seed)
    assert as_tuples(run) == multiset(dict(enumerate(row)) for row in PAIRS + more)
    assert list(results(run)[0]) == ["t", "city", "right_city", "name"]


def test_watermarks_of_the_stream_pass_at_once_and_the_batch_needs_none() -> None:
    run = named(count())
    assert marks(run, "named", "count") == marks(run, "orders", "named") != []
    assert [row["n"] for row in results(run)] == [
        sum(start <= t < start + 100 for t, *_ in PAIRS) for start in range(0, 500, 100)
    ]
    assert set(kinds(run, "cities", "named")) == {"event", "done"}
    (join,) = rows(run, "vertices", vertex="named")
    assert (join["kind"], join["keys"]) == ("hash join", [(0, "t")])


def test_an_idle_stream_is_idle_behind_the_join() -> None:
    run = named(stream=source("orders", (), rows=ORDERS, columns=["t", "city"], idle_timeout_ms=100))
    assert kinds(run, "named", "out").count("idle") == 1


def test_two_batches_are_joined_without_any_watermark() -> None:
    first = flow.Source("orders", columns=["t", "city"], rows=ORDERS, every_ms=0, ends=True)
    run = named(stream=first, outer="left")
    assert as_tuples(run) == multiset(dict(enumerate(row)) for row in PAIRS + PADDED)
    assert outcome(run) == "completed"
    assert rows(run, "items", kind="watermark") == rows(run, "items", kind="idle") == []


def test_the_batch_is_read_to_its_end_before_the_first_row_of_the_stream() -> None:
    """Also where the batch takes long, and the edge of the stream would come first."""
    slow = flow.Source("cities", columns=["city", "name"], rows=CITIES, every_ms=70, ends=True)
    run = named(batch=slow, outer="left")
    queues = {queue["source"]: queue["queue"] for queue in rows(run, "queues", target="named")}
    read, waited = (
        [item for item in rows(run, "items") if item["queue"] == queues[name]] for name in ("cities", "orders")
    )
    assert max(item["taken"] for item in read) < min(item["taken"] for item in waited)
    assert min(item["taken_ms"] for item in waited) >= 210
    assert as_tuples(run) == multiset(dict(enumerate(row)) for row in PAIRS + PADDED)
    held = run.explain(vertex="named", at_ms=150)
    assert (held.cause, {holder.name: holder.kind for holder in held.holders}) == (
        "held",
        {"orders": "on queue", "cities": "batch"},
    )
    assert held.facts["end of"] == "cities"


def test_each_instance_has_the_whole_batch_and_the_stream_is_dealt_out() -> None:
    run = named(parallelism=3, outer="left")
    assert as_tuples(run) == multiset(dict(enumerate(row)) for row in PAIRS + PADDED)
    held = {row["instance"]: row["size"] for row in rows(run, "state", vertex="named")}
    assert held == dict.fromkeys(range(3), len(CITIES))
    routing = {queue["source"]: queue["routing"] for queue in rows(run, "queues", target="named")}
    assert routing == {"orders": "round robin", "cities": "broadcast"}


@pytest.mark.parametrize("after_snapshot", [False, True])
def test_a_snapshot_waits_for_the_batch_and_a_restart_keeps_it(after_snapshot: bool) -> None:
    """No barrier could come over an input that is not read yet. Source: upstream class `SnapshotContext`."""
    slow = flow.Source("cities", columns=["city", "name"], rows=CITIES, every_ms=70, ends=True)
    restart = flow.Restart(at_ms=350, after_snapshot=after_snapshot)
    fields = {"guarantee": "exactly_once", "snapshot_every_ms": 50, "faults": [restart]}
    run = named(batch=slow, **fields)
    snapshots = rows(run, "snapshots")
    assert min(row["begun_ms"] for row in snapshots) >= 210
    assert all(row["completed_ms"] is not None for row in snapshots if row["snapshot"] <= 3)
    assert [row["snapshot"] is None for row in rows(run, "executions")] == [True, False]
    assert as_tuples(run, committed=True) == multiset(dict(enumerate(row)) for row in PAIRS)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"ends": False}, "the batch has to end, but 'cities' does not; give its sources ends=True"),
        ({"times": "city"}, "a batch has no watermarks, but 'cities' brings key 0; leave out the times"),
        ({"columns": ["town", "name"]}, "no column is called 'right.city'"),
    ],
)
def test_what_is_no_batch_is_refused(batch: dict[str, Any], message: str) -> None:
    own = {"columns": ["city", "name"], "rows": CITIES, "every_ms": 0, "ends": True}
    with pytest.raises(Problems, match=message):
        named(batch=flow.Source("cities", **(own | batch)))


def test_a_file_holds_it_and_a_drawing_names_its_sides() -> None:
    vertices = [STREAM, BATCH, flow.HashJoin("named", SAME, outer="left"), flow.Sink("out")]
    dataflow = flow.Dataflow("d", vertices=vertices, edges=["orders -> named -> out", "cities -> named"])
    assert flow.Dataflow.from_yaml(dataflow.to_yaml()) == dataflow
    drawn = dataflow.mermaid()
    assert "hash join" in drawn
    assert '"right<br/>no watermark"' in drawn
    assert "(left outer, left.city == right.city); key 0: t" in repr(dataflow)


@pytest.mark.parametrize("outer", [None, "left"])
def test_a_batch_gives_the_same(outer: Any) -> None:
    """Without an outer side it judges everything, for whatever the other rules say of a join with a batch."""
    run = named(count(), outer=outer, parallelism=2)
    verdicts = run.check(*([] if outer is None else ["K11", "K15"]))
    assert {one.invariant: one.what for one in verdicts if one.verdict == "violated"} == {}
    assert (verdicts["K11"].verdict, verdicts["K15"].verdict) == ("ok", "ok")


def test_a_row_that_the_join_lost_is_found_by_the_batch() -> None:
    run = named(outer="left")
    out = rows(run, "queues", source="named")[0]["queue"]
    lost = next(item for item in rows(run, "items", queue=out) if item["kind"] == "event")
    kept = [row for row in rows(run, "items") if (row["queue"], row["sequence"]) != (out, lost["sequence"])]
    (verdict,) = altered(run, {"items": kept}).check("K11")
    assert verdict.verdict == "violated"
    assert "where its on-time rows give 1" in (verdict.what or "")


def test_the_key_is_taken_from_the_condition() -> None:
    condition = "left.city == right.city and left.t > 5 and right.name == left.city"
    vertices = [STREAM, BATCH, flow.HashJoin("named", condition), flow.Sink("out")]
    dataflow = flow.Dataflow("d", vertices=vertices, edges=["orders -> named -> out", "cities -> named"])
    assert rules_of(dataflow).results["named"].rule.equal == ((1, 0), (1, 1))  # type: ignore[union-attr]
