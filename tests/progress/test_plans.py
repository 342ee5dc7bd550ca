"""Recordings of query plans are explained and checked like those of streams, from Python and from the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import wmlab as wm
from tests.progress.sim.plans import growing, query, scenario, source
from tests.repetitions import repetitions
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
    lacks = f"lacks sequence {stuck['sequence']}, which is held by worker 1"
    text = f"{lacks}, which stands still until {clock_words(6_000)}. "
    assert text in run.explain(at_ms=5_000).sentence
    assert "worker" not in run.explain(at_ms=stuck["arrived_ms"]).sentence
    assert "a gap, behind which buffers wait" in {holder.why for holder in run.explain()}


def test_a_silent_origin_is_named_although_it_never_sent() -> None:
    run = scenario(script=[SilenceSource("b")]).record()
    assert run.explain(at_ms=9_000).sentence == (
        "The global watermark of q at build is unknown: b (origin 2) has sent nothing and is silent from 0 s on. "
        "No buffer waits behind it."
    )
    (holder,) = [holder for holder in run.explain() if holder.who == "b"]
    assert holder.why == "it had sent nothing complete"
    assert holder.held_ms == run.explain().run_ms


def test_before_anything_has_come_an_operator_waits_for_all_its_origins() -> None:
    silent = scenario(queries=[query(source("a"))], script=[SilenceSource("a")]).record()
    sentence = "The global watermark of q at build is unknown: a (origin 1) has sent nothing and is silent from 0 s on."
    assert silent.explain(at_ms=9_000).sentence == f"{sentence} No buffer waits behind it."
    assert silent.explain().sentence.startswith("The global watermark of q was held longest by a (it had sent nothing")
    early = scenario().record().explain(at_ms="0 s")
    assert (early.watermark, early.since_ms, early.emitters) == (None, None, ("a", "b"))
    bare = ProgressRecording.from_tables({"buffers": silent.table("buffers")}, name="bare")
    with pytest.raises(RecordingError, match="has no query"):
        bare.explain(at_ms=9_000)


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


def test_who_held_a_run_longest_is_told() -> None:
    held = LOST.record().explain()
    first = next(iter(held))
    assert (first.who, first.why) == ("a", "a gap, behind which buffers wait")
    assert 8_000 < first.held_ms < held.run_ms
    assert held.headline.startswith(
        "The global watermark of q was held longest by a (a gap, behind which buffers wait)"
    )
    assert held.facts["held for"] == first.held_ms
    assert len({(holder.who, holder.why) for holder in held}) == len(held)


def test_over_the_run_an_operator_that_waits_is_no_holder_but_what_it_waits_for() -> None:
    run = wm.progress.PlanScenario.load("progress_meetings").record()
    answer = run.explain()
    first = answer.holders[0]
    assert (first.who, first.why) == ("cars", "a gap, behind which buffers wait")
    assert answer.sentence.startswith("The global watermark of meetings was held longest by cars (a gap")
    (cars,) = run.explain(at_ms="10 s").upstream
    assert "cars (origin 2) lacks sequence 60, which was lost at 5.6 s and never comes" in cars.sentence
    last_ms = max(row["arrived_ms"] for row in run.table("buffers").to_pylist())
    assert answer.run_ms == last_ms > 10_000, "the workers finish after the sources have ended"


def drawn(seed: int) -> PlanScenario:
    """One or two sources into windows, which may feed others, and one fault of a source, drawn by the seed."""
    draw = random.Random(seed)
    sources = [source(name) for name in ("a", "b")[: draw.choice([1, 2])]]
    chain = draw.choice([{}, {"window": Aggregate(1_000)}])
    if len(sources) == 2 and draw.random() < 0.5:
        chain = {"operators": [Join(500), Emit()], "window": Aggregate(1_000)}
    name, sequence = draw.choice(sources).name, draw.randrange(20, 100)
    faults: list[Any] = [LoseBuffer(name, sequence), DelayBuffer(name, sequence, draw.choice([3_000, 5_000]))]
    # A run ends with its last buffer for the measures, so that one without any costs nothing.
    faults += [SilenceSource(name, at_ms=3_000)] if len(sources) == 2 else []
    return scenario(queries=[query(*sources, **chain)], script=[draw.choice(faults)], seed=seed)


@pytest.mark.parametrize("seed", range(repetitions(8, long=100)))
def test_the_run_names_first_the_source_of_the_fault_without_which_the_mean_lag_is_lower(seed: int) -> None:
    plan = drawn(seed)
    run, (fault,) = plan.record(), plan.script
    with_fault, without = (each.measures().lag_ms for each in (run, plan.replace(script=[]).record()))
    assert with_fault is not None
    assert without is not None
    assert with_fault - without > 100, fault
    assert run.explain().holders[0].who == fault.source, (fault, with_fault, without, run.explain().sentence)


def test_origins_behind_a_renumbering_are_named() -> None:
    run = scenario(queries=[query(operators=[Renumber("merged")])]).record()
    assert run.explain(at_ms=5_000).emitters == ("merged",)
    assert "merged" in {holder.who for holder in run.explain()}


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
    assert (run.explain().holders[0].who, run.explain().holders[0].why) == (
        "b",
        "a gap, behind which buffers wait",
    )
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
        ({"at_ms": "1 min"}, "60 s is outside the run, which lasts from 0 ms to 10"),
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
    # A log begins with the first buffer; the run has the time before it as well.
    known = {(held.who, held.why): held for held in run.explain()}
    assert next((held.who, held.why) for held in bare.explain()) == ("a", "a gap, behind which buffers wait")
    for held in bare.explain():
        of_run = known[held.who, held.why]
        assert 0 <= of_run.held_ms - held.held_ms <= run.explain().run_ms - bare.explain().run_ms


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
