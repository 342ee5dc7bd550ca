"""Recordings of query plans are explained and checked like those of streams, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from tests.progress.sim.plans import growing, query, scenario, source
from wmlab.__main__ import main
from wmlab.core.errors import RecordingError, ScenarioError, UnknownNameError
from wmlab.core.words import clock_words
from wmlab.open import load_scenario
from wmlab.progress import (
    Aggregate,
    DelayBuffer,
    Emit,
    Join,
    LoseBuffer,
    PlanScenario,
    Query,
    Renumber,
    SilenceSource,
    Source,
    StallWorker,
)
from wmlab.progress.checks import INVARIANTS
from wmlab.progress.recording import ProgressRecording

ROOT = Path(__file__).resolve().parents[2]
DIAGRAM = ROOT / "data" / "scenarios" / "progress_diagram.yaml"
LOST = scenario(queries=[query(source("a"), growing("b", 2))], script=[LoseBuffer("a", 20)])
LOST_AT_MS = LOST.record().table("incidents").to_pylist()[0]["at_ms"]


def test_a_gap_is_explained_at_a_moment() -> None:
    found = LOST.record().explain(at_ms=9_000)
    (origin,) = found.origins
    assert (found.emitters, origin.origin, origin.sequence, origin.started) == (("a",), 1, 20, False)
    held, since, lost = map(clock_words, (found.watermark, found.since_ms, LOST_AT_MS))
    assert found.sentence == (
        f"The global watermark of q at build is held at {held} since {since}: a (origin 1) lacks sequence 20, "
        f"which was lost at {lost} and never comes. {origin.waiting} buffers wait behind it."
    )
    assert " ".join(repr(found).splitlines()) == found.sentence
    assert json.loads(found.to_json())["emitters"] == ["a"]
    assert "lacks sequence 20" in found._repr_html_()


def test_a_delayed_buffer_is_explained_with_the_time_at_which_it_comes() -> None:
    run = scenario(queries=[query(source("a"))], script=[DelayBuffer("a", 20, 4_000)]).record()
    (delay,) = run.table("incidents").to_pylist()
    begun_ms = delay["at_ms"]
    begun, until = clock_words(begun_ms), clock_words(begun_ms + 4_000)
    sentence = run.explain(at_ms=begun_ms + 1_000).sentence
    assert f"lacks sequence 20, which was delayed at {begun} until {until}. " in sentence


def test_a_worker_that_stands_still_is_named_with_what_it_holds() -> None:
    run = scenario(queries=[query(source("a"))], script=[StallWorker(1, at_ms=3_000, for_ms=3_000)]).record()
    (held,) = (row for row in run.table("incidents").to_pylist() if row["kind"] == "held")
    of_worker = (row for row in run.table("buffers").to_pylist() if row["worker"] == 1 and row["arrived_ms"] >= 6_000)
    stuck = min((row for row in of_worker if row["operator"] == "build"), key=lambda row: row["arrived_ms"])
    assert held["target"] == f"a {stuck['sequence']} on worker 1"
    text = f"lacks sequence {stuck['sequence']}, held by worker 1, which stands still until {clock_words(6_000)}. "
    assert text in run.explain(at_ms=5_000).sentence
    assert "worker" not in run.explain(at_ms=stuck["arrived_ms"]).sentence


def test_a_silent_origin_is_named_although_it_never_sent() -> None:
    run = scenario(script=[SilenceSource("b")]).record()
    assert run.explain(at_ms=9_000).sentence == (
        "The global watermark of q at build is unknown: b (origin 2) has sent nothing and is silent from 0 s on. "
        "No buffer waits behind it."
    )
    (holder,) = [holder for holder in run.explain() if holder.who == "b"]
    assert holder.why == "it had sent nothing complete"
    assert holder.held_ms == run.explain().run_ms


def test_nothing_that_came_to_windows_is_asked_of_them_and_not_of_a_sink() -> None:
    silent = scenario(queries=[query(source("a"))], script=[SilenceSource("a")]).record()
    with pytest.raises(RecordingError, match="no buffer of query 'q' had come to 'build'"):
        silent.explain(at_ms=9_000)


LITERAL = "complete when as many buffers have come as the number of the last chunk says"
"""What the literal rule does, in the words of the answers."""


def test_the_literal_rule_is_explained() -> None:
    run = scenario(complete="literal").record()
    told = run.explain(at_ms=5_000).sentence
    assert "a (origin 1) has all chunks of sequence 1, but not by the rule 'literal': it is " + LITERAL in told
    assert f"By the rule 'literal' a sequence is {LITERAL} (for chunks from 0 that is one" in run.explain().sentence
    for right in (scenario(complete="literal", chunk_base=1), scenario()):
        assert "literal" not in right.record().explain().sentence


def test_the_check_says_what_the_literal_rule_does() -> None:
    (verdict,) = scenario(complete="literal").record().check("N3")
    assert verdict.verdict == "violated"
    assert (
        "was complete, but not by the rule; by the rule 'literal' it is complete when as many buffers have come"
        in verdict.what
    )
    (sound,) = scenario().record().check("N3")
    assert sound.verdict == "ok"


def test_the_diagram_of_the_document_runs_under_rules_of_its_own_name() -> None:
    """Under the design's rules no window fires, since its inputs are single chunks with the number 0."""
    diagram = PlanScenario.load(DIAGRAM)
    assert diagram.rules == "diagram"
    design = diagram.replace(rules="design")
    assert diagram.options == design.options | {"complete": "set"}
    assert diagram.resolved.rules == "diagram"
    assert diagram.replace(complete="count").options["complete"] == "count"
    assert PlanScenario.from_yaml(diagram.to_yaml()) == diagram
    assert [one.record().counts["windows_fired"] for one in (diagram, design)] == [2, 0]
    (literal,) = design.record().check("N3")
    assert (literal.verdict, literal.violations) == ("violated", literal.judged)
    (complete,) = diagram.record().check("N3")
    assert complete.verdict == "ok"
    with pytest.raises(ScenarioError, match=r"rules: input should be .*'diagram'"):
        diagram.replace(rules="drawn")


def test_who_held_a_run_is_told_with_its_price() -> None:
    held = LOST.record().explain()
    first = next(iter(held))
    assert (first.who, first.why) == ("a", "a gap, behind which buffers wait")
    assert first.held_ms > 8_000
    assert 3_500 < first.cost_ms < 5_500
    assert held.sentence.startswith("Over 10.0 s ")
    assert "the global watermark of q was held back most by a" in held.sentence


def test_origins_behind_a_renumbering_are_named() -> None:
    run = scenario(queries=[query(operators=[Renumber("merged")])]).record()
    assert run.explain(at_ms=5_000).emitters == ("merged",)
    assert {holder.who for holder in run.explain()} == {"merged"}


def test_a_join_that_feeds_windows_is_an_origin_and_what_holds_it_is_explained() -> None:
    joined = query(operators=[Join(500), Emit()], window=Aggregate(1_000))
    run = scenario(queries=[joined], script=[LoseBuffer("b", 60)]).record()
    found = run.explain(at_ms=9_000)
    assert (found.operator, found.emitters) == ("build-2", ("build",))
    (join,) = found.upstream
    assert (join.operator, join.emitters, join.upstream) == ("build", ("b",), ())
    assert f"build (origin 3) has sent nothing after sequence {found.origins[0].sequence - 1}" in found.sentence
    assert "b (origin 2) lacks sequence 60, which was lost at" in found.sentence
    assert run.explain(at_ms=9_000, operator="build") == join
    assert {holder.who for holder in run.explain()} == {"build"}
    assert run.measures().measures["records counted in windows"] == run.measures().results > 0
    assert [verdict.verdict for verdict in run.check()] == ["ok"] * len(INVARIANTS)
    never = scenario(queries=[joined], script=[SilenceSource("b")]).record().explain(at_ms=9_000)
    assert "at build-2 is unknown: build (origin 3) has sent nothing. " in never.sentence
    assert "at build is unknown: b (origin 2) has sent nothing and is silent from 0 s on" in never.sentence
    with pytest.raises(RecordingError, match="no operator 'merge' that follows progress"):
        run.explain(operator="merge")


def test_without_windows_the_sink_is_explained_and_of_several_queries_one_is_named() -> None:
    queries = [query(), Query("p", sources=[Source("c", times_ms=[500])])]
    run = scenario(queries=queries).record()
    assert run.explain(at_ms=9_000, stream="p").operator == "sink"
    with pytest.raises(RecordingError, match="has several queries; its queries: p, q"):
        run.explain(at_ms=9_000)
    with pytest.raises(RecordingError, match="no query 'x'"):
        run.explain(at_ms=9_000, stream="x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_ms": 9_000, "reader": "r"}, "query plans have none"),
        ({"at_ms": 1.5}, "1.5, which is not a moment"),
        ({"at_ms": 0}, "no buffer of query 'q' had come to 'build' by 0 ms"),
    ],
)
def test_what_cannot_be_explained_is_refused(options, message) -> None:
    with pytest.raises(RecordingError, match=message):
        LOST.record().explain(**options)


@pytest.mark.parametrize(
    "plan",
    [
        LOST.queries[0],
        query(source("a", operators=[Renumber("r")]), source("b")),
        query(operators=[Renumber("r")]),
        query(source("a"), window=None),
    ],
    ids=["two sources", "one is renumbered", "both are renumbered", "a sink"],
)
def test_a_recording_of_buffers_alone_is_explained_too(plan: Query) -> None:
    run = LOST.replace(queries=[plan]).record()
    bare = ProgressRecording.from_tables({"buffers": run.table("buffers")}, name="bare")
    assert bare.explain(at_ms=9_000).origins == run.explain(at_ms=9_000).origins
    assert bare.explain().stragglers == run.explain().stragglers


def test_a_plan_has_no_time_bounds(spark: SparkSession) -> None:
    with pytest.raises(UnknownNameError, match="a recording of progress, which has no time_bounds"):
        LOST.record().time_bounds(spark)


def test_a_file_says_what_kind_it_is() -> None:
    with pytest.raises(ScenarioError, match=r"it is a wm\.progress\.PlanScenario, not a") as raised:
        wm.Scenario.load(DIAGRAM)
    assert "load it with wm.progress.PlanScenario.load" in str(raised.value)
    with pytest.raises(ScenarioError, match=r"has 'writers': it is a wm\.Scenario, not a PlanScenario"):
        PlanScenario.load(ROOT / "data" / "scenarios" / "first_bounds.yaml")
    assert isinstance(load_scenario(DIAGRAM), PlanScenario)
    assert isinstance(load_scenario(ROOT / "data" / "scenarios" / "first_bounds.yaml"), wm.Scenario)


def test_the_command_line_takes_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "run")
    assert main(["record", str(DIAGRAM), target]) == 0
    assert "windows_fired 2" in capsys.readouterr().out
    assert main(["check", target]) == 1
    told = capsys.readouterr().out
    assert "violated: N1.\n" in told
    sound = PlanScenario.load(DIAGRAM).replace(rules="sound").record(tmp_path / "sound")
    assert main(["check", str(sound.path)]) == 0
    told = capsys.readouterr().out
    assert all(f"{name} ok" in told for name in INVARIANTS)
    assert main(["explain", target, "--at-ms", "5000", "--stream", "query-1"]) == 0
    assert "source-1 (origin 1) has sent nothing after sequence 2" in " ".join(capsys.readouterr().out.split())
    assert main(["explain", target]) == 1
    assert "several queries" in capsys.readouterr().err
    assert main(["bounds", target]) == 1
    assert "a recording of progress" in capsys.readouterr().err
