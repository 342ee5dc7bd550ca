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
    Workers,
)
from wmlab.progress.checks import INVARIANTS
from wmlab.progress.recording import ProgressRecording
from wmlab.progress.rules import Rules

ROOT = Path(__file__).resolve().parents[2]
DIAGRAM = ROOT / "data" / "scenarios" / "progress_diagram.yaml"
LOST = scenario(queries=[query(source("a"), growing("b", 2))], script=[LoseBuffer("a", 20)])
LOST_AT_MS = LOST.record().table("incidents").to_pylist()[0]["at_ms"]


def test_a_gap_is_explained_at_a_moment() -> None:
    found = LOST.record().explain(at_ms=9_000)
    facts = found.facts
    assert (facts["holder"], facts["missing sequence"], facts["holder state"]) == ("a", 20, "lost")
    assert facts["holder since"] == LOST_AT_MS
    assert facts["waiting behind"] > 100
    assert "missing chunks" not in facts
    held, since, lost = map(clock_words, (facts["watermark"], facts["watermark since"], LOST_AT_MS))
    assert found.headline == f"The watermark waits for sequence 20 of a, which was lost at {lost} and never comes."
    assert found.sentence == f"{found.headline} At build of q it has been {held} since {since}."
    assert " ".join(repr(found).splitlines()) == found.sentence
    assert json.loads(found.to_json())["facts"]["holder"] == "a"
    assert "<details>" in found._repr_html_()


def test_the_others_are_ranked_by_their_watermarks() -> None:
    facts = LOST.record().explain(at_ms=9_000).facts
    assert facts["others"] == "b"
    assert facts["others at"] > facts["watermark"]


def test_a_delayed_buffer_is_explained_with_the_time_at_which_it_comes() -> None:
    run = scenario(queries=[query(source("a"))], script=[DelayBuffer("a", 20, 4_000)]).record()
    (delay,) = run.table("incidents").to_pylist()
    begun_ms = delay["at_ms"]
    found = run.explain(at_ms=begun_ms + 1_000)
    until = clock_words(begun_ms + 4_000)
    assert found.headline == f"The watermark waits for sequence 20 of a, which is delayed until {until}."
    assert (found.facts["holder since"], found.facts["holder until"]) == (begun_ms, begun_ms + 4_000)
    assert run.explain(at_ms=begun_ms + 4_000).facts.get("holder state") != "delayed"


def test_a_lost_chunk_is_explained_although_no_chunk_of_its_sequence_has_come() -> None:
    a = source("a", operators=[Emit()])
    run = scenario(queries=[query(a)], script=[LoseBuffer("a", 20, chunk=0)]).record()
    assert "waits for sequence 20 of a, which was lost" in run.explain(at_ms=9_000).headline


def test_a_worker_that_stands_still_is_named_with_what_it_holds() -> None:
    run = scenario(queries=[query(source("a"))], script=[StallWorker(1, at_ms=3_000, for_ms=3_000)]).record()
    (held,) = (row for row in run.table("incidents").to_pylist() if row["kind"] == "held")
    of_worker = (row for row in run.table("buffers").to_pylist() if row["worker"] == 1 and row["arrived_ms"] >= 6_000)
    stuck = min((row for row in of_worker if row["operator"] == "build"), key=lambda row: row["arrived_ms"])
    assert held["target"] == f"a {stuck['sequence']} on worker 1"
    found = run.explain(at_ms=5_000)
    assert (found.facts["missing sequence"], found.facts["worker"]) == (stuck["sequence"], 1)
    assert f"which worker 1 holds, until {clock_words(6_000)} at least." in found.headline
    assert "worker" not in run.explain(at_ms=stuck["arrived_ms"]).sentence
    assert "held by a worker" in {holder.why for holder in run.explain()}


def test_stalls_of_a_worker_that_overlap_do_not_add_up() -> None:
    one, two = (
        scenario(
            queries=[query(Source("a", times_ms=[900], buffer_records=1), window=None)],
            workers=Workers(1, service_mean_ms=500, service="constant"),
            script=[StallWorker(1, at_ms=at_ms, for_ms=for_ms) for at_ms, for_ms in stalls],
        ).record()
        for stalls in ([(1_000, 4_000)], [(1_000, 3_000), (2_000, 3_000)])
    )
    assert one.table("buffers") == two.table("buffers")


def test_a_silent_origin_is_named_although_it_never_sent() -> None:
    run = scenario(script=[SilenceSource("b")]).record()
    assert run.explain(at_ms=9_000).sentence == (
        "The watermark waits for b, which has been silent since 0 s. At build of q it is unknown."
    )
    (holder,) = [holder for holder in run.explain() if holder.who == "b"]
    assert holder.why == "silent"
    assert holder.held_ms == run.explain().run_ms


def test_a_source_that_is_silenced_twice_at_one_moment_is_told() -> None:
    run = scenario(script=[SilenceSource("b"), SilenceSource("b")]).record()
    assert run.explain().facts["never happened"] == "b (silence source: it was silent before)"


def test_before_anything_has_come_an_operator_waits_for_all_its_origins() -> None:
    silent = scenario(queries=[query(source("a"))], script=[SilenceSource("a")]).record()
    sentence = "The watermark waits for a, which has been silent since 0 s. At build of q it is unknown."
    assert silent.explain(at_ms=9_000).sentence == sentence
    assert silent.explain().sentence.startswith("The global watermark of q was held longest by a (silent), for")
    early = scenario().record().explain(at_ms="0 s")
    assert early.headline == "The watermark waits for a and b."
    assert early.facts["holder"] == ("a", "b")
    assert early.facts["holder state"] == ("not sent yet", "not sent yet")
    bare = ProgressRecording.from_tables({"buffers": silent.table("buffers")}, name="bare")
    with pytest.raises(RecordingError, match="has no query"):
        bare.explain(at_ms=9_000)


LITERAL = "complete when as many buffers have come as the number of the last chunk says"
"""What the literal rule does, in the words of the answer about a run."""


def test_the_literal_rule_is_explained() -> None:
    run = scenario(rules=Rules(complete="literal")).record()
    facts = run.explain(at_ms=5_000).facts
    assert (facts["holder state"], facts["rule"]) == (("not complete by the rule",) * 2, "literal")
    alone = scenario(queries=[query(source("a"))], rules=Rules(complete="literal")).record().explain(at_ms=5_000)
    assert "sequence 1 of a, which has come and is not complete by the rule 'literal'." in alone.headline
    assert f"By the rule 'literal' a sequence is {LITERAL} (for chunks from 0 that is one" in run.explain().sentence
    for right in (scenario(rules=Rules(complete="literal", chunk_base=1)), scenario()):
        assert "literal" not in right.record().explain().sentence


def test_the_check_says_what_the_literal_rule_does() -> None:
    (verdict,) = scenario(rules=Rules(complete="literal")).record().check("N3")
    assert verdict.verdict == "violated"
    assert "was complete unnoticed (rule 'literal')" in verdict.what
    (sound,) = scenario().record().check("N3")
    assert sound.verdict == "ok"


def test_the_diagram_of_the_document_runs_under_rules_of_its_own_name() -> None:
    """Under the design's rules no window fires, since its inputs are single chunks with the number 0."""
    diagram = PlanScenario.load(DIAGRAM)
    assert diagram.rules == Rules("diagram")
    design = diagram.replace(rules="design")
    assert diagram.options == design.options | {"complete": "set"}
    assert diagram.resolved.rules.base == "diagram"
    assert diagram.with_rules(complete="count").options["complete"] == "count"
    assert PlanScenario.from_yaml(diagram.to_yaml()) == diagram
    assert [one.record().counts["windows_fired"] for one in (diagram, design)] == [2, 0]
    (literal,) = design.record().check("N3")
    assert (literal.verdict, literal.violations) == ("violated", literal.judged)
    (complete,) = diagram.record().check("N3")
    assert complete.verdict == "ok"
    with pytest.raises(ScenarioError, match=r"rules: give one of .*'diagram', or wm\.progress\.Rules\("):
        diagram.replace(rules="drawn")


def test_who_held_a_run_longest_is_told() -> None:
    held = LOST.record().explain()
    first = next(iter(held))
    assert (first.who, first.why) == ("a", "lost")
    assert 8_000 < first.held_ms < held.run_ms
    assert held.headline.startswith("The global watermark of q stood still longest for 9.1 s")
    assert held.headline.endswith(", held by a (lost).")
    assert held.facts["held for"] == first.held_ms
    assert (held.facts["stop held by"], held.facts["stop cause"]) == ("a", "lost")
    assert held.facts["to"] == held.facts["from"] + held.facts["longest stop"] == held.run_ms
    assert len({(holder.who, holder.why) for holder in held}) == len(held)


def test_over_the_run_an_operator_that_waits_is_no_holder_but_what_it_waits_for() -> None:
    run = wm.progress.PlanScenario.load("progress_meetings").record()
    answer = run.explain()
    first = answer.holders[0]
    assert (first.who, first.why) == ("cars", "lost")
    assert answer.headline.endswith("held by cars (lost).")
    at_the_end = run.explain(at_ms="10 s")
    assert "sequence 60 of cars, which was lost at 5.6 s and never comes" in at_the_end.headline
    assert (at_the_end.facts["operator"], at_the_end.facts["missing at"]) == ("build-2", "build")
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


def test_origins_before_a_renumbering_are_named() -> None:
    run = scenario(queries=[query(operators=[Renumber("merged")])], script=[SilenceSource("b", at_ms=2_000)]).record()
    facts = run.explain(at_ms=5_000).facts
    assert (facts["operator"], facts["holder"], facts["missing at"]) == ("build", "b", "merged")
    assert "merged" not in {holder.who for holder in run.explain() if holder.why != "on its way"}


def test_a_join_that_feeds_windows_is_an_origin_and_what_holds_it_is_explained() -> None:
    joined = query(operators=[Join(500), Emit()], window=Aggregate(1_000))
    run = scenario(queries=[joined], script=[LoseBuffer("b", 60)]).record()
    facts = run.explain(at_ms=9_000).facts
    assert (facts["operator"], facts["holder"], facts["missing at"]) == ("build-2", "b", "build")
    assert (facts["missing sequence"], facts["holder state"]) == (60, "lost")
    of_join = run.explain(at_ms=9_000, operator="build").facts
    assert [of_join[label] for label in ("holder", "missing at", "missing sequence")] == ["b", "build", 60]
    assert (run.explain().holders[0].who, run.explain().holders[0].why) == ("b", "lost")
    assert run.measures().measures["records counted in windows"] == run.measures().results > 0
    assert [verdict.verdict for verdict in run.check()] == ["ok"] * len(INVARIANTS)
    never = scenario(queries=[joined], script=[SilenceSource("b")]).record().explain(at_ms=9_000)
    assert (
        never.sentence == "The watermark waits for b, which has been silent since 0 s. At build-2 of q it is unknown."
    )
    with pytest.raises(RecordingError, match="no operator 'merge' that follows progress"):
        run.explain(operator="merge")


def test_without_windows_the_sink_is_explained_and_of_several_queries_one_is_named() -> None:
    queries = [query(), Query("p", sources=[Source("c", times_ms=[500])])]
    run = scenario(queries=queries).record()
    assert run.explain(at_ms=9_000, stream="p").facts["operator"] == "sink"
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
    facts, known = bare.explain(at_ms=9_000).facts, run.explain(at_ms=9_000).facts
    for label in ("watermark", "holder", "missing at", "missing sequence", "waiting behind"):
        assert facts[label] == known[label]
    assert (facts["holder state"], known["holder state"]) == ("missing", "lost")
    first = next(iter(bare.explain()))
    assert (first.who, first.why) == ("a", "missing")
    assert next(iter(run.explain())).held_ms <= first.held_ms < run.explain().run_ms, "a log begins with a buffer"


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
    assert "waits for source-1, which ended at 5.0 s" in " ".join(capsys.readouterr().out.split())
    assert main(["explain", target]) == 1
    assert "several queries" in capsys.readouterr().err
    assert main(["bounds", target]) == 1
    assert "a recording of progress" in capsys.readouterr().err
