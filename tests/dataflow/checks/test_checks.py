"""The judge of dataflows says ok of a sound run, finds the defects of the shipped code, and proves what is broken."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest

from tests.dataflow.checks.dataflows import TABLES, Tables, altered, rows_of
from tests.dataflow.checks.own_rules import OWN_RULES, check
from wmlab import dataflow as flow
from wmlab.core.errors import ModelError
from wmlab.core.invariants import Verdict
from wmlab.core.recording import Recording
from wmlab.dataflow.checks import INVARIANTS
from wmlab.dataflow.recording import DataflowRecording


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


def judged(recording: Recording, name: str) -> Verdict:
    (verdict,) = check(recording, name)
    return verdict


def test_all_is_well_in_a_sound_run() -> None:
    verdicts = SOUND().check()
    assert [one.invariant for one in verdicts] == list(INVARIANTS)
    assert {one.invariant: one.what for one in [*verdicts, *check(SOUND(), *OWN_RULES)] if one.verdict != "ok"} == {}


def test_an_unknown_invariant_is_refused() -> None:
    with pytest.raises(ModelError, match="no invariant 'I1'"):
        SOUND().check("I1")


@cache
def lossy() -> Recording:
    """The shipped code, with a right side of the join that ends before the left one."""
    return sound(until=400, rules="implementation")


@cache
def woken() -> Recording:
    """The shipped code, with an edge that is idle, and then brings watermarks without rows."""
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
    return flow.Dataflow("woken", vertices=vertices, edges=edges, duration_ms=2_000, rules="implementation").record()


SHIPPED: dict[str, tuple[Callable[[], Recording], str]] = {
    "K3": (woken, "where coalescing gives no watermark"),
    "K4": (woken, "does not say that all its inputs are idle"),
    "K6": (woken, "never left m["),
    "K11": (lossy, "where its on-time rows give 1"),
    "K14": (lossy, "an idle message left call before call"),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_defects_of_the_shipped_code_are_found(name: str) -> None:
    run, words = SHIPPED[name]
    verdict = judged(run(), name)
    assert verdict.verdict == "violated"
    assert words in (verdict.what or "")


def _own(change: Callable[[Any, int], tuple[Any, list[int]]]) -> Recording:
    """One source, of whose watermarks a processor of your own makes others: `change(state, mark)` of each."""

    def function(state: Any, item: Any) -> tuple[Any, list[Any]]:
        if not isinstance(item, flow.Watermark):
            return state, [item]
        after, marks = change(state, item.value)
        return after, [flow.Watermark(0, mark) for mark in marks]

    rows = [[t] for t in range(0, 600, 30)]
    vertices = [
        flow.Source("s", columns=["t"], rows=rows, arrival="t", times="t"),
        flow.Custom("own", function=function),
    ]
    edges, rules = ["s -> own -> out"], flow.Rules(emission_unchecked=True)
    return flow.Dataflow("own", vertices=[*vertices, flow.Sink("out")], edges=edges, rules=rules).record()


RULES: dict[str, tuple[str, Callable[[Any, int], tuple[Any, list[int]]], str]] = {
    "monotonicity": (
        "K1",
        lambda state, mark: (state, [mark // 100]),
        "mark 0 of key 0 from own to out is not above 0",
    ),
    "no overtaking": ("K7", lambda state, mark: (state, [mark + 40]), "left own late, though it had come on time"),
    "no latency, delayed": (
        "K15",
        lambda state, mark: (mark, [] if state is None else [state]),
        "watermark 0 of key 0, coalesced by own[0] at",
    ),
    "no latency, dropped": ("K15", lambda state, _: (state, []), "never left"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_processor_of_ones_own_breaks_each_rule_about_watermarks_and_is_found(rule: str) -> None:
    name, change, words = RULES[rule]
    verdict = judged(_own(change), name)
    assert verdict.verdict == "violated"
    assert words in (verdict.what or "")
    forwards = _own(lambda state, mark: (state, [mark]))
    assert judged(forwards, name).verdict == "ok"


def test_of_a_window_that_sends_bounds_only_no_other_watermarks_are_due() -> None:
    window = flow.Window("w", 100, column="t", aggregates={"n": "count()"})
    vertices = [source("a", range(3, 500, 20)), window, flow.Sink("out")]
    again = {"guarantee": "exactly_once", "snapshot_every_ms": 90, "faults": [flow.Restart(350)]}
    rules = flow.Rules(bounds_only=True)
    run = flow.Dataflow("bounds", vertices=vertices, edges=["a -> w -> out"], rules=rules, **again).record()
    as_they_come = altered(run, {"vertices": [row | {"grid": None} for row in rows_of(run)["vertices"]]})
    for recording, expected in ((run, "ok"), (as_they_come, "violated")):
        verdicts = check(recording, "K6", "K15")
        assert {one.invariant: one.verdict for one in verdicts} == {"K6": expected, "K15": expected}


def test_the_batch_reads_the_time_of_each_input_from_its_own_column() -> None:
    columns = {"columns": ["arrival", "t", "u"], "arrival": "arrival", "ends": True}
    vertices = [
        flow.Source("a", rows=[[t, t, 0] for t in range(0, 300, 30)], times="t", **columns),
        flow.Source("b", rows=[[t, 0, t] for t in range(0, 300, 50)], times="u", **columns),
        flow.Window("w", 100, column="t", columns=["t", "u"], aggregates={"n": "count()"}),
        flow.Sink("out"),
    ]
    run = flow.Dataflow("two columns", vertices=vertices, edges=["a -> w -> out", "b -> w"]).record()
    assert judged(run, "K10").verdict == "ok"


class Altered(NamedTuple):
    """Rows of a table with these values, of which some are changed or (None) go, and what then is found.

    A `queue` is given by the two vertices that it connects.
    """

    invariant: str
    found: str
    table: str
    rows: slice
    of: dict[str, Any]
    change: dict[str, Any] | None


FIRST, THIRD, FIFTH, ALL = slice(1), slice(2, 3), slice(4, 5), slice(None)
MARKS = {"queue": ("m", "call"), "kind": "watermark"}
MERGED = {"level": "global", "vertex": "m"}
HEARD = MERGED | {"stimulus": "watermark"}
SAID = MERGED | {"emitted_idle": True}
ROWS = {"queue": ("m", "call"), "kind": "event"}
FILTERED = {"queue": ("f", "m"), "kind": "watermark"}
COUNTS = {"queue": ("w", "counts"), "kind": "event"}
PAIRS = {"queue": ("j", "pairs"), "kind": "event"}
BEHIND = {"sequence": 10_000}
ENDLESS = {"ended_ms": 9_999}
WRONG = {"row": '{"start": 0, "end": 100, "k": 0, "n": 77}'}
BROKEN = {
    "a mark twice": Altered("K1", "from m to call is not above", "items", FIFTH, MARKS, {"value": 0}),
    "idle twice": Altered(
        "K4", "instance m[0] says that it is idle where", "coalescing", ALL, MERGED, {"emitted_idle": True}
    ),
    "a mark too high": Altered("K3", "where coalescing gives", "coalescing", FIRST, HEARD, {"emitted": {0: 999}}),
    "idle not said": Altered("K4", "m[0] does not say that all", "coalescing", FIRST, SAID, {"emitted_idle": False}),
    "a mark not heard": Altered("K5", "let through never reached it", "coalescing", THIRD, HEARD, None),
    "a mark not sent": Altered("K6", "never left m[0]", "items", THIRD, MARKS, None),
    "a row overtaken": Altered("K7", "left m late, though it had come on time", "items", ALL, ROWS, BEHIND),
    "a late row early": Altered("K8", "left f on time, though it had come late", "items", ALL, FILTERED, BEHIND),
    "a row dropped": Altered(
        "K9", "j dropped a row at", "drops", FIRST, {"vertex": "j"}, {"time": 0, "limit": 9_999, "margin": 9_999}
    ),
    "a wrong count": Altered("K10", "w gave", "items", THIRD, COUNTS, WRONG),
    "a pair lost": Altered("K11", "j gave", "items", FIFTH, PAIRS, None),
    "too many rows": Altered("K12", "j held 501 at a limit of 500", "state", THIRD, {"vertex": "j"}, {"size": 501}),
    "a call twice": Altered("K13", "under", "calls", THIRD, {}, {"call": 1}),
    "too many calls": Altered("K13", "calls in flight at a capacity of 2", "calls", ALL, {}, ENDLESS),
    "idle first": Altered("K14", "an idle message left call before call", "calls", ALL, {}, ENDLESS),
}


def alter(tables: Tables, altered_rows: Altered) -> None:
    _, _, table, which, of, change = altered_rows
    connects = {row["queue"]: (row["source"], row["target"]) for row in tables["queues"]}
    known = [(row | {"queue": connects.get(row.get("queue"))}, row) for row in tables[table]]
    rows = [row for seen, row in known if of.items() <= seen.items()][which]
    assert rows
    for row in rows:
        if change is None:
            tables[table].remove(row)
        else:
            row.update(change)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_proved(what: str) -> None:
    name, found = BROKEN[what][:2]
    tables = rows_of(SOUND())
    alter(tables, BROKEN[what])
    verdict = judged(altered(SOUND(), tables), name)
    assert (verdict.invariant, verdict.verdict) == (name, "violated")
    assert found in (verdict.what or "")
    assert 1 <= verdict.violations <= verdict.judged
    assert verdict.evidence
    assert all(proof.table in TABLES and proof.row for proof in verdict.evidence)


def test_a_run_that_was_stopped_is_judged_by_what_is_settled() -> None:
    run = sound(queue_size=2, faults=(flow.Stall("w", at_ms=300), flow.Stall("j", at_ms=400)))
    assert run.table("executions")["outcome"].to_pylist() == ["running"]
    assert [(one.verdict, one.what) for one in run.check("K10", "K11")] == [("ok", None), ("ok", None)]


def test_a_row_without_a_partner_may_come_out_in_the_turn_in_which_its_job_failed() -> None:
    """The window gets null for a time and fails, when the join has only just taken the row that it passed on."""
    vertices = [
        source("a", range(100, 300, 10)),
        source("b", (), rows=[[t + 60, t, 0] for t in range(100, 200, 10)], times=[flow.EventTime("t", key=1)]),
        flow.Join("j", "left.k == right.k and left.t == right.t", outer="right"),
        flow.Window("w", 100, column="t", aggregates={"n": "count()"}),
        flow.Sink("out"),
    ]
    for seed in range(8):
        run = flow.Dataflow("fails", vertices=vertices, edges=["a -> j -> w -> out", "b -> j"], seed=seed).record()
        assert run.table("executions")["outcome"].to_pylist() == ["failed"]
        assert [(one.verdict, one.what) for one in run.check("K11")] == [("ok", None)]


def test_what_nobody_tells_is_unknown() -> None:
    (verdict,) = DataflowRecording.from_tables({}, name="empty").check("K10")
    assert (verdict.verdict, verdict.what) == ("unknown", "the recording does not tell its dataflow")


def test_a_python_function_hides_no_rule_of_the_other_vertices() -> None:
    vertices = [source("s", range(0, 300, 30)), flow.Filter("odd", where=lambda row: row["t"] % 20), flow.Sink("out")]
    window = flow.Window("w", 100, column="t", aggregates={"n": "count()"}, limit=5)
    run = flow.Dataflow("own", vertices=[*vertices, window], edges="s -> odd -> w -> out").record()
    assert [one.verdict for one in check(run, "K10", "K12")] == ["ok", "ok"]
