"""The judge of dataflows says ok of a sound run, finds the defects of `hz`, and proves every promise that is broken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.dataflow.checks.dataflows import Row, Tables, frames_of, rows_of
from wmlab import dataflow as flow
from wmlab.core.errors import ModelError
from wmlab.core.recording import Recording
from wmlab.core.spark import verdict
from wmlab.dataflow.checks import INVARIANTS, TABLES, UNKNOWN_DATAFLOW, inputs_of
from wmlab.dataflow.sim.rules import DataflowRules, rules_of


def source(name: str, moments: Any, **fields: Any) -> flow.Source:
    rows = [[t + 50, t, t // 10 % 2] for t in moments]
    given = {"columns": ["arrival", "t", "k"], "rows": rows, "arrival": "arrival", "times": "t", "idle_timeout_ms": 60}
    return flow.Source(name, **(given | {"ends": True} | fields))


def sound(until: int = 800, **fields: Any) -> Recording:
    """Rows of two sources, some of them late, through everything that promises something."""
    late = [[t + 50, t - (45 if t % 150 == 0 else 0), t // 10 % 2] for t in range(0, 600, 30)]
    vertices = [
        source("a", (), rows=late),
        source("b", range(0, 900, 70)),
        source("c", range(0, until, 50), times=[flow.EventTime("t", key=1)]),
        flow.Filter("f", where="k >= 0"),
        flow.Merge("m"),
        flow.AsyncMap("call", latency=flow.Uniform(0, 50), capacity=2),
        flow.Window("w", 100, column="t", by="k", aggregates={"n": "count()"}, limit=50),
        flow.Join("j", "left.t - 60 <= right.t and right.t <= left.t + 100", outer="left", limit=500),
        flow.Sink("counts"),
        flow.Sink("pairs"),
    ]
    edges = ["a -> f -> m -> call -> w -> counts", "b -> m", "f -> j -> pairs", "c -> j"]
    return flow.Dataflow("sound", vertices=vertices, edges=edges, duration_ms=3_000, **fields).record()


SOUND = cache(sound)


def checked(spark: SparkSession, name: str, tables: Tables, rules: DataflowRules | None = None) -> Any:
    invariants = UNKNOWN_DATAFLOW if rules is None else INVARIANTS
    (row,) = verdict.verdict(name, invariants[name], inputs_of(frames_of(spark, tables), rules)).collect()
    return row


def test_all_is_well_in_a_sound_run(spark: SparkSession) -> None:
    recording = SOUND()
    with pytest.raises(ModelError, match="no invariant 'I1'"):
        recording.check(spark, "I1")
    verdicts = recording.check(spark)
    assert [one.invariant for one in verdicts] == list(INVARIANTS)
    assert {one.invariant: one.what for one in verdicts if one.verdict != "ok"} == {}


@cache
def lossy() -> Recording:
    """Mode `hz`, with a right side of the join that ends before the left one."""
    return sound(until=400, mode="hz")


@cache
def woken() -> Recording:
    """Mode `hz`, with an edge that is idle, and then brings watermarks without rows."""
    keyed = [flow.EventTime("t", key=0), flow.EventTime("u", key=1)]
    rows = [[t, t, 1_000 + t, t // 10 % 2] for t in (0, 10, 20, 300, 310, 320, 330)]
    columns = {"columns": ["arrival", "t", "u", "k"], "arrival": "arrival", "times": keyed, "ends": True}
    vertices = [
        flow.Source("a", rows=rows, idle_timeout_ms=50, partitions=2, parallelism=2, **columns),
        flow.Source("b", rows=[[t + 5, t, 900 + t, 0] for t in range(0, 400, 20)], idle_timeout_ms=40, **columns),
        source("c", (0, 10, *range(150, 250, 10), 600), times=[flow.EventTime("t", key=2)]),
        flow.Filter("none", where="k > 5"),
        flow.Merge("m", parallelism=2),
        flow.Join("j", "left.t - 20 <= right.t and right.t <= left.t + 20"),
        flow.Sink("out"),
        flow.Sink("pairs"),
    ]
    edges = ["a -> m -> out", "b -> m", "b -> j -> pairs", "c -> none -> j"]
    return flow.Dataflow("woken", vertices=vertices, edges=edges, duration_ms=2_000, mode="hz").record()


HZ: dict[str, tuple[Callable[[], Recording], str]] = {
    "K3": (woken, "where merging gives no watermark"),
    "K4": (woken, "does not say that all its inputs are idle"),
    "K6": (woken, "never left m["),
    "K11": (lossy, "where its on-time rows give 1"),
    "K14": (lossy, "an idle message left call before call"),
}


@pytest.mark.parametrize("name", HZ)
def test_the_defects_of_the_shipped_code_are_found(spark: SparkSession, name: str) -> None:
    run, words = HZ[name][0](), HZ[name][1]
    row = checked(spark, name, rows_of(run, TABLES), rules_of(run.dataflow))
    assert row.verdict == "violated"
    assert words in row.what


def _own(function: Callable[[Any, Any], Any], *, unchecked: bool = False) -> Recording:
    """One source, whose watermarks go through a processor of one's own."""
    rows = [[t] for t in range(0, 600, 30)]
    columns = {"columns": ["t"], "arrival": "t", "times": "t"}
    vertices = [flow.Source("s", rows=rows, **columns), flow.Custom("own", function=function), flow.Sink("out")]
    off = ["emission_unchecked"] if unchecked else None
    return flow.Dataflow("own", vertices=vertices, edges=["s -> own -> out"], deviations=off).record()


def _back(state: Any, item: Any) -> Any:
    return state, [flow.Watermark(0, item.value // 100)] if isinstance(item, flow.Watermark) else [item]


def _ahead(state: Any, item: Any) -> Any:
    return state, [flow.Watermark(0, item.value + 40)] if isinstance(item, flow.Watermark) else [item]


def _one_behind(state: Any, item: Any) -> Any:
    if not isinstance(item, flow.Watermark):
        return state, [item]
    return item.value, [] if state is None else [flow.Watermark(0, state)]


def _dropped(state: Any, item: Any) -> Any:
    return state, [] if isinstance(item, flow.Watermark) else [item]


RULES: dict[str, tuple[str, Recording, str]] = {
    "monotonicity": ("K1", _own(_back, unchecked=True), "watermark 0 of key 0 from own to out is not above 0"),
    "no overtaking": ("K7", _own(_ahead), "left own late, though it had come on time"),
    "no latency, delayed": ("K15", _own(_one_behind), "watermark 0 of key 0, merged by own[0] at"),
    "no latency, dropped": ("K15", _own(_dropped), "never left"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_processor_of_ones_own_breaks_each_rule_about_watermarks_and_is_found(spark: SparkSession, rule: str) -> None:
    name, run, words = RULES[rule]
    row = checked(spark, name, rows_of(run, TABLES))
    assert (row.verdict, words in row.what) == ("violated", True), row.what
    forwards = _own(lambda state, item: (state, [item]))
    assert checked(spark, name, rows_of(forwards, TABLES)).verdict == "ok"


def test_the_batch_query_reads_the_time_of_each_input_from_its_own_column(spark: SparkSession) -> None:
    columns = {"columns": ["arrival", "t", "u"], "arrival": "arrival", "ends": True}
    vertices = [
        flow.Source("a", rows=[[t, t, 0] for t in range(0, 300, 30)], times="t", **columns),
        flow.Source("b", rows=[[t, 0, t] for t in range(0, 300, 50)], times="u", **columns),
        flow.Window("w", 100, column="t", columns=["t", "u"], aggregates={"n": "count()"}),
        flow.Sink("out"),
    ]
    run = flow.Dataflow("two columns", vertices=vertices, edges=["a -> w -> out", "b -> w"]).record()
    assert checked(spark, "K10", rows_of(run, TABLES), rules_of(run.dataflow)).verdict == "ok"


def first(rows: list[Row], number: int = 0, **where: Any) -> Row:
    return [row for row in rows if all(row[name] == value for name, value in where.items())][number]


def queue(tables: Tables, source_: str, target: str) -> int:
    return int(first(tables["queues"], source=source_, target=target)["queue"])


def _same_mark(tables: Tables) -> None:
    place = {"queue": queue(tables, "m", "call"), "kind": "watermark"}
    first(tables["items"], 4, **place)["value"] = first(tables["items"], 3, **place)["value"]


def _idle_again(tables: Tables) -> None:
    row = first(tables["coalescing"], emitted_idle=True, level="global", vertex="m")
    row_after = max(one["step"] for one in tables["coalescing"] if one["vertex"] == "m") + 1
    tables["coalescing"] += [row | {"step": row_after}, row | {"step": row_after + 1}]


def _too_high(tables: Tables) -> None:
    row = [row for row in tables["coalescing"] if row["vertex"] == "m" and row["emitted"]][3]
    row["emitted"] = {0: row["emitted"][0] + 1}


def _not_idle(tables: Tables) -> None:
    first(tables["coalescing"], emitted_idle=True, level="global", vertex="m")["emitted_idle"] = False


def _not_heard(tables: Tables) -> None:
    tables["coalescing"].remove(first(tables["coalescing"], 2, level="global", stimulus="watermark", vertex="m"))


def _not_sent(tables: Tables) -> None:
    tables["items"].remove(first(tables["items"], 2, queue=queue(tables, "m", "call"), kind="watermark"))


def _overtaken(tables: Tables) -> None:
    """The rows of the merge leave behind all its watermarks."""
    place = queue(tables, "m", "call")
    for row in tables["items"]:
        if row["queue"] == place and row["kind"] == "event":
            row["sequence"] += 10_000


def _early(tables: Tables) -> None:
    """The watermarks of the filter leave behind all its rows."""
    place = queue(tables, "f", "m")
    for row in tables["items"]:
        if row["queue"] == place and row["kind"] == "watermark":
            row["sequence"] += 10_000


def _dropped(tables: Tables) -> None:
    row = first(tables["drops"], vertex="j")
    row["limit"] += 9_999
    row["margin"] += 9_999


def _miscounted(tables: Tables) -> None:
    place = queue(tables, "w", "counts")
    row = first(tables["items"], 2, queue=place, kind="event")
    row["row"] = json.dumps(json.loads(row["row"]) | {"n": 77})


def _unmatched(tables: Tables) -> None:
    tables["items"].remove(first(tables["items"], 5, queue=queue(tables, "j", "pairs"), kind="event"))


def _overfull(tables: Tables) -> None:
    first(tables["state"], 2, vertex="j", buffer="all")["size"] = 501


def _called_twice(tables: Tables) -> None:
    first(tables["calls"], 3)["call"] = 2


def _crowded(tables: Tables) -> None:
    for row in tables["calls"]:
        row["ended_ms"] += 500


def _overtaking(tables: Tables) -> None:
    idle = first(tables["items"], queue=queue(tables, "call", "w"), kind="idle")
    said = first(tables["coalescing"], level="global", vertex="call", emitted_idle=True)
    row = max((row for row in tables["calls"] if row["began_ms"] < said["at_ms"]), key=lambda row: int(row["call"]))
    row["ended_ms"] = idle["put_ms"] + 1


BROKEN: dict[str, tuple[str, Callable[[Tables], None], str]] = {
    "a mark twice": ("K1", _same_mark, "from m to call is not above"),
    "idle twice": ("K2", _idle_again, "m[0] says again that it is idle"),
    "a mark too high": ("K3", _too_high, "where merging gives"),
    "idle not said": ("K4", _not_idle, "m[0] does not say that all its inputs are idle"),
    "a mark not heard": ("K5", _not_heard, "let through never reached it"),
    "a mark not sent": ("K6", _not_sent, "never left m[0]"),
    "a row overtaken": ("K7", _overtaken, "left m late, though it had come on time"),
    "a late row early": ("K8", _early, "left f on time, though it had come late"),
    "a row dropped": ("K9", _dropped, "j dropped a row at"),
    "a wrong count": ("K10", _miscounted, "w gave"),
    "a pair lost": ("K11", _unmatched, "j gave"),
    "too many rows": ("K12", _overfull, "j held 501 at a limit of 500"),
    "a call twice": ("K13", _called_twice, "under"),
    "too many calls": ("K13", _crowded, "calls in flight at a capacity of 2"),
    "idle first": ("K14", _overtaking, "an idle message left call before call"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_proved(spark: SparkSession, what: str) -> None:
    name, change, words = BROKEN[what]
    tables = copy.deepcopy(rows_of(SOUND(), TABLES))
    change(tables)
    row = checked(spark, name, tables, rules_of(SOUND().dataflow))
    assert (row.invariant, row.verdict) == (name, "violated")
    assert words in row.what
    assert 1 <= row.violations <= row.judged
    assert row.evidence
    assert all(proof["table"] in TABLES and json.loads(proof["row"]) for proof in row.evidence)


def test_a_run_that_was_stopped_is_judged_by_what_is_settled(spark: SparkSession) -> None:
    run = sound(queue_size=2, faults=(flow.Stall("w", at_ms=300), flow.Stall("j", at_ms=400)))
    tables = rows_of(run, TABLES)
    assert [row["outcome"] for row in tables["executions"]] == ["running"]
    for name in ("K10", "K11"):
        row = checked(spark, name, tables, rules_of(run.dataflow))
        assert (row.verdict, row.what) == ("ok", None)


def test_what_nobody_tells_is_unknown(spark: SparkSession) -> None:
    row = checked(spark, "K12", {name: [] for name in TABLES})
    assert (row.verdict, row.what) == (
        "unknown",
        "the recording does not tell its dataflow, as it has Python functions",
    )
