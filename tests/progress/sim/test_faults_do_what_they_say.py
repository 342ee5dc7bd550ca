"""Lost and late buffers, silent and disordered sources, empty buffers: what each one does to time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.progress.sim.plans import growing, query, rows, run, source, tracked
from wmlab.core.values import Problems
from wmlab.progress.rules import Rules
from wmlab.progress.scenario import (
    DelayBuffer,
    DuplicateBuffer,
    Emit,
    EmptyBuffer,
    LoseBuffer,
    Renumber,
    SilenceSource,
    Workers,
)
from wmlab.progress.sim.records import Records


def watermarks(world, local="running_max") -> list[int | None]:
    """The global watermark after each arrival at the windows."""
    return [state.watermark for _, state in tracked(world, local=local)]


def fired(world, cause: str) -> int:
    return len(rows(world, "windows_fired", cause=cause))


CHUNKED = [query(growing("a", 3), source("b"))]
PLAIN_OR_CHUNKED = pytest.mark.parametrize(
    ("queries", "chunk"), [([query()], None), (CHUNKED, 1)], ids=["a buffer", "a chunk"]
)


def copies(world, chunk: int | None) -> list:
    """The arrivals of the buffer or chunk at which the faults of these tests aim."""
    chosen = {} if chunk is None else {"chunk": chunk}
    return rows(world, "buffers", operator="build", emitter="a", sequence=20, **chosen)


def in_windows(world) -> int:
    return sum(row["records"] for row in rows(world, "windows_fired"))


@pytest.mark.parametrize(("count", "lost", "longest"), [(5, [], 5), (6, [4], 3), (6, [2, 5], 1)])
def test_a_run_shows_the_three_rows_of_the_table_of_the_document(count, lost, longest) -> None:
    one = query(source("s", times_ms=[100 * n for n in range(count)], buffer_records=1))
    world = run(queries=[one], script=[LoseBuffer("s", number) for number in lost])
    seen = sorted(rows(world, "buffers", operator="build"), key=lambda row: row["arrival"])
    assert {row["sequence"] for row in seen} == {*range(1, count + 1)} - {*lost}
    assert seen[-1]["reached_prefix"] == longest


@PLAIN_OR_CHUNKED
def test_what_is_lost_stops_time_until_the_end(queries, chunk) -> None:
    world = run(queries=queries, script=[LoseBuffer("a", 20, chunk=chunk)])
    assert max(mark for mark in watermarks(world) if mark is not None) < 1_100
    assert (fired(world, "watermark"), fired(world, "end of stream")) == (0, 10)
    told = [(row["kind"], row["target"], row["detail"]) for row in rows(world, "incidents")]
    target, records = ("a 20", 10) if chunk is None else ("a 20 chunk 1", 3)
    assert told == [("loss", target, f"{target} is lost, with {records} records")]
    assert {row["chunk"] for row in copies(world, None)} == (set() if chunk is None else {0, 2})
    assert in_windows(world) == sum(row["records"] for row in rows(world, "buffers", operator="build"))


@PLAIN_OR_CHUNKED
def test_what_is_delayed_stops_time_until_it_comes_and_the_windows_wait_for_it(queries, chunk) -> None:
    plain, world = run(queries=queries), run(queries=queries, script=[DelayBuffer("a", 20, 9_500, chunk=chunk)])
    (before,), (after,) = copies(plain, chunk), copies(world, chunk)
    assert after["arrived_ms"] > before["arrived_ms"] + 9_000
    assert min(row["fired_ms"] for row in rows(world, "windows_fired", cause="watermark")) >= after["arrived_ms"]
    assert fired(world, "watermark") >= 8
    assert in_windows(world) == in_windows(plain)
    assert rows(world, "incidents", kind="late") == []


@PLAIN_OR_CHUNKED
def test_a_repeated_buffer_is_counted_twice_and_named(queries, chunk) -> None:
    fault = DuplicateBuffer("a", 20, chunk=chunk, after_ms=5)
    plain, world = run(queries=queries), run(queries=queries, script=[fault])
    one, _ = copies(world, chunk)
    assert in_windows(world) - in_windows(plain) == one["records"] > 0
    assert [row["detail"].split(":")[0] for row in rows(world, "incidents", kind="breach")] in (
        ["repeated buffer"],
        ["buffer of a finished sequence"],
    )


def test_a_repeated_chunk_completes_a_sequence_too_early_for_one_that_counts() -> None:
    fault = {"script": [DuplicateBuffer("a", 20, chunk=2), DelayBuffer("a", 20, 3_000, chunk=0)]}
    for rule, early in [("set", False), ("count", True)]:
        world = run(queries=CHUNKED, rules=Rules(complete=rule), **fault)
        (completing,) = rows(world, "buffers", operator="build", emitter="a", sequence=20, completed=True)
        assert (completing["chunk"] != 0) == early, rule
        assert bool(rows(world, "incidents", kind="late")) == early, rule


def never(*script: object, **fields: object) -> list[tuple[str, str]]:
    found = rows(run(script=script, **fields), "incidents", kind="never happened")
    return [(row["target"], row["detail"]) for row in found]


def test_a_fault_of_what_is_never_sent_says_so() -> None:
    script = [LoseBuffer("a", 9_999), DelayBuffer("a", 20, 5, chunk=9), EmptyBuffer("b", 9_999), LoseBuffer("a", 3)]
    assert never(*script, queries=CHUNKED) == [
        ("a 9999", "lose buffer: no such buffer was sent"),
        ("a 20 chunk 9", "delay buffer: no such buffer was sent"),
        ("b 9999", "empty buffer: no such buffer was sent"),
    ]


@pytest.mark.parametrize("plan", [query(), query(growing("c", 3), source("a", operators=[Renumber("r")]))])
def test_a_fault_of_a_chunk_needs_an_emission(plan) -> None:
    assert never(LoseBuffer("a", 1, chunk=0), queries=[plan]) == [
        ("a 1 chunk 0", "lose buffer: no such buffer was sent")
    ]


def test_faults_that_contradict_each_other_never_happen() -> None:
    script = [DelayBuffer("a", 3, 50), LoseBuffer("a", 3), EmptyBuffer("a", 3), DelayBuffer("b", 3, 50)]
    script += [DelayBuffer("b", 3, 70), SilenceSource("a", at_ms=9_000), SilenceSource("a", at_ms=8_000)]
    assert sorted(never(*script)) == [
        ("a", "silence source: it was silent before"),
        ("a 3", "delay buffer: the buffer is lost"),
        ("a 3", "empty buffer: the buffer is lost"),
        ("b 3", "delay buffer: another fault of this kind comes before"),
    ]
    assert never(SilenceSource("a", at_ms=10_000)) == [("a", "silence source: the source had ended before")]


SCHEMA = {
    "columns": ["made_s", "sent_ms", "received_ms"],
    "rows": [(1, 2_500, 2_600), (4, 3_100, 3_200), (2, 3_300, 3_400), (5, 5_100, 5_200)],
    "arrival": "received_ms",
    "buffer_records": 1,
}


@pytest.mark.parametrize(
    ("fields", "marks"),
    [
        ({"event_time": "made_s", "unit_ms": 1_000}, [1_000, 4_000, 2_000, 5_000]),
        ({"event_time": "made_s", "unit_ms": 1_000, "allowed_lateness_ms": 1_500}, [0, 2_500, 500, 3_500]),
        ({"event_time": "sent_ms"}, [2_500, 3_100, 3_300, 5_100]),
        ({}, [2_600, 3_200, 3_400, 5_200]),
        ({"stamp": "ingestion_time", "buffer_records": 2}, [2_600, 3_400, 5_200]),
    ],
)
def test_the_event_time_is_the_field_of_the_schema_that_is_chosen(fields, marks) -> None:
    world = run(queries=[query(source("a", **(SCHEMA | fields)))], workers=Workers(1))
    assert [row["watermark"] for row in rows(world, "buffers", operator="build")] == marks


def test_a_field_that_is_not_in_order_makes_records_late() -> None:
    chosen = {"made_s": {"event_time": "made_s", "unit_ms": 1_000}, "sent_ms": {"event_time": "sent_ms"}}
    late = {
        name: len(rows(run(queries=[query(source("a", **(SCHEMA | fields)))]), "incidents", kind="late"))
        for name, fields in chosen.items()
    }
    assert late == {"made_s": 1, "sent_ms": 0}


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"event_time": "t"}, "event_time", "no column is called 't'; there are: made_s, sent_ms, received_ms"),
        ({"arrival": None}, "event_time", "name the column that is the time of a record"),
        ({"rows": [(1, 2)]}, "rows[0]", "has 2 values for 3 columns"),
        ({"rows": None, "rate_per_s": 1}, "arrival", "a schema belongs to rows"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(fields, path, message) -> None:
    with pytest.raises(Problems, match=message) as raised:
        source("a", **(SCHEMA | fields))
    assert raised.value.problems[0].path == path


def test_a_silent_source_stops_time_for_ever() -> None:
    world = run(script=[SilenceSource("b")])
    assert set(watermarks(world)) == {None}
    assert rows(world, "windows_fired") == []
    assert rows(world, "buffers", emitter="b") == []


def test_a_source_that_falls_silent_stops_it_there() -> None:
    world = run(script=[SilenceSource("b", at_ms=4_000)])
    assert 3_900 <= max(mark for mark in watermarks(world) if mark is not None) < 4_000
    assert {row["end"] for row in rows(world, "windows_fired")} == {1_000, 2_000, 3_000}


@pytest.mark.parametrize(("local", "least"), [("head", 0), ("running_max", 500)])
def test_an_empty_buffer_pulls_the_head_of_the_prefix_to_0(local, least) -> None:
    rules = Rules(stamped="filter", local=local)
    world = run(script=[EmptyBuffer("a", 20)], workers=Workers(1), rules=rules)
    late = [m for m in watermarks(world, local=local) if m is not None][5:]
    assert (min(late) == 0) == (least == 0)
    assert len(rows(world, "windows_fired")) == 10
    (empty,) = rows(world, "buffers", operator="build", emitter="a", sequence=20)
    assert (empty["records"], empty["watermark"]) == (0, 0)


def test_stamped_at_the_source_an_empty_buffer_keeps_its_watermark() -> None:
    world = run(script=[EmptyBuffer("a", 20)])
    (empty,) = rows(world, "buffers", operator="build", emitter="a", sequence=20)
    assert (empty["records"], empty["slices"]) == (0, [])
    assert empty["watermark"] > 0


def test_disorder_at_the_source_makes_records_late() -> None:
    world = run(queries=[query(source("a", disorder_ms=2_500), source("b"))])
    late = rows(world, "incidents", kind="late")
    assert late
    assert {row["target"] for row in late} == {"a"}
    assert late[0]["detail"].startswith(tuple("123456789"))


def test_a_sparse_source_needs_a_flush_interval() -> None:
    firsts = []
    for flush_every_ms in (500, None):
        sparse = source("a", rate_per_s=2, flush_every_ms=flush_every_ms)
        world = run(queries=[query(sparse, source("b"))], rules=Rules(sends="when full"))
        first = next(place for place, mark in enumerate(watermarks(world)) if mark is not None)
        firsts.append(rows(world, "buffers", operator="build")[first]["arrived_ms"])
    assert firsts[0] + 1_000 < firsts[1]


def test_ingestion_time_is_the_creation_of_the_buffer() -> None:
    world = run(queries=[query(source("a", stamp="ingestion_time", delay_mean_ms=200))])
    assert all(row["watermark"] == row["created_ms"] for row in rows(world, "buffers", operator="build"))


def test_by_event_time_a_worker_goes_through_all_tuples_of_a_buffer() -> None:
    """ "Watermarking and Progress", Watermark Timestamp: NebulaStream "has to iterate over all tuples"."""
    workers = Workers(1, service_mean_ms=0, event_time_record_ms=2)

    def service_ms(stamp: str) -> set[int]:
        plan = query(source("a", times_ms=[*range(0, 1_000, 10)], stamp=stamp), operators=[Emit()])
        world = run(queries=[plan], workers=workers)
        came = {row["sequence"]: row["arrived_ms"] for row in rows(world, "buffers", operator="scan")}
        return {row["arrived_ms"] - came[row["sequence"]] for row in rows(world, "buffers", operator="build")}

    assert (service_ms("event_time"), service_ms("ingestion_time")) == ({20}, {0})


def test_by_the_design_a_source_writes_as_many_tuples_to_a_buffer_as_possible() -> None:
    """ "Watermarking and Progress", ChunkNumber."""
    sparse = query(source("a", rate_per_s=2, buffer_records=5), window=None)
    for rules, full in (("design", True), ("implementation", False), ("sound", False)):
        assert Rules(rules).options["sends"] == ("when full" if full else "every second")
        sent = rows(run(queries=[sparse], rules=rules), "buffers", operator="scan")
        assert ({row["records"] for row in sent[:-1]} == {5}) is full, rules


def test_the_literal_rule_never_completes_a_single_chunk() -> None:
    world = run(rules=Rules(complete="literal"))
    assert fired(world, "watermark") == 0
    wrong = run(rules=Rules(complete="literal"), queries=[query(growing("a", 3), growing("b", 3))])
    assert rows(wrong, "incidents", kind="breach")


def test_the_literal_sentence_lets_time_pass_the_chunks_that_are_still_to_come() -> None:
    plan = {"queries": [query(growing("a", 3), growing("b", 3))], "workers": Workers(8, service_mean_ms=200)}
    assert rows(run(**plan), "incidents", kind="late") == []
    assert rows(run(**plan, rules=Rules(local="literal")), "incidents", kind="late")


def test_a_trace_is_replayed_as_it_arrived() -> None:
    log = Records(np.array([50, 20, 400]), np.array([100, 200, 20_000]), np.array([0, 1, 0]))
    world = run({"t": log}, queries=[query(source("t", trace="log"))])
    (buffer,) = rows(world, "buffers", operator="build")
    assert (buffer["records"], buffer["watermark"], buffer["created_ms"]) == (2, 50, 100)
    assert rows(world, "windows_fired")[0]["records"] == 2
