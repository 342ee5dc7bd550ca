"""What is said of query plans is what their tables and scripts say: at moments, over whole runs, and above charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from string import Formatter
from typing import Any

import wmlab as wm
from tests.oracles.progress import PlanOracle
from tests.oracles.random_plans import KINDS, random_plan
from tests.repetitions import Count, repetitions
from wmlab.core.holders import OF_RUN, OF_STOP
from wmlab.core.words import zone_once
from wmlab.progress.answers import vocabulary
from wmlab.progress.answers.vocabulary import State
from wmlab.progress.recording import ProgressRecording

RUNS = range(-3, repetitions(50, long=1_000))
MOMENTS = 2
ABSENT = "absent"
BARE = 4
"""Of so many runs one is judged as a log without a script, too, and its progress as a table alone."""


@cache
def oracles(seed: int) -> list[tuple[Any, PlanOracle]]:
    """Each query of a run: with its recording, and some as a log that has tables only."""
    return [*_oracles(seed)]


def _oracles(seed: int) -> Iterator[tuple[Any, PlanOracle]]:
    scenario = random_plan(seed)
    recording = scenario.record()
    for query in scenario.queries:
        oracle = PlanOracle(scenario, recording, query.name)
        yield recording, oracle
        if seed % BARE == 0 and oracle.is_sound and oracle.sent:
            tables = {name: recording.table(name) for name in recording.schemas}
            yield (
                ProgressRecording.from_tables(tables, name="a log"),
                PlanOracle(scenario, recording, query.name, has_script=False),
            )


def moments(oracle: PlanOracle, salt: object) -> list[int]:
    """Some moments of a run, and one at which something happens."""
    draw = Random(f"moments {salt}")
    drawn = [draw.randint(oracle.begin_ms, oracle.until_ms) for _ in range(MOMENTS)]
    return [*drawn, draw.choice(oracle.breaks(oracle.until_ms))]


def differences(said: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The labels that are not the same on both sides, with what was said and what was computed."""
    both = {label: (said.get(label, ABSENT), computed.get(label, ABSENT)) for label in [*said, *computed]}
    return {label: values for label, values in both.items() if values[0] != values[1]}


def first_with_labels(templates: tuple[str, ...], facts: Mapping[str, Any]) -> str:
    """The first template whose labels are all there, and of which at most one has several values."""
    for template in templates:
        labels = [name for _, name, _, _ in Formatter().parse(template) if name]
        if all(label in facts for label in labels) and sum(isinstance(facts[label], tuple) for label in labels) <= 1:
            return template
    raise AssertionError(f"no template of {templates} has its labels in {sorted(facts)}")


class Said:
    """How often the answers about drawn runs have each label and each template."""

    def __init__(self) -> None:
        self.labels, self.templates = Counter[str](), Counter[str]()

    def take(self, answer: Any) -> None:
        """Count what an answer says."""
        self.labels.update(answer.facts.keys())
        self.templates.update(answer.templates)


@cache
def at_moments() -> Said:
    """Judge the answers at moments, and what comes to pass after them; raises for the first one that is wrong."""
    said = Said()
    for seed in RUNS:
        for recording, oracle in oracles(seed):
            for operator in oracle.plan.inputs:
                for at_ms in moments(oracle, (seed, operator)):
                    where = (seed, recording.name, oracle.query, operator, at_ms)
                    answer = recording.explain(at_ms=at_ms, stream=oracle.query, operator=operator)
                    computed, state = oracle.of_moment(operator, at_ms), oracle.holders(operator, at_ms)[0].state
                    assert differences(answer.facts, computed) == {}, where
                    expected = (vocabulary.OF_STATE[State(state)], vocabulary.OF_WATERMARK)
                    assert answer.templates == tuple(first_with_labels(each, computed) for each in expected), where
                    said.take(answer)
    return said


@cache
def over_runs() -> Said:
    """Judge the answers about whole runs; raises for the first one that is wrong."""
    said = Said()
    for seed in RUNS:
        for recording, oracle in oracles(seed):
            for operator in oracle.plan.inputs:
                answer = recording.explain(stream=oracle.query, operator=operator)
                facts = answer.facts.to_dict()
                never = facts.pop("never happened", [])
                told = sorted(text.split(" (")[0] for text in ([never] if isinstance(never, str) else never))
                assert told == oracle.never_happened(), (seed, recording.name)
                if "complete when" in facts:
                    facts["complete when"] = oracle.scenario.rules.complete
                where = (seed, recording.name, oracle.query, operator)
                computed = oracle.of_run(operator)
                assert differences(facts, computed) == {}, where
                assert answer.templates[0] == first_with_labels((OF_STOP, *OF_RUN), computed), where
                rows = [(each.who, each.why, each.stretches, each.held_ms) for each in answer]
                assert rows == oracle.table(operator), where
                said.take(answer)
    return said


def as_progress(recording: Any) -> Any:
    """The buffers of a recording as a table of progress, which tells nothing of the run."""
    noted = {"reached_prefix": "prefix", "reached_local": "local_watermark", "reached": "global_watermark"}
    return recording.to_pandas("buffers").rename(columns=noted)


@cache
def above_charts() -> Said:
    """Judge the heads of charts of whole runs; raises for the first one that is wrong."""
    said, chart = Said(), wm.progress.chart
    for seed in RUNS:
        for recording, oracle in oracles(seed):
            for operator, arrivals in oracle.arrivals.items():
                if not arrivals:
                    continue
                where = (seed, oracle.query, operator)
                asked = {"stream": oracle.query, "operator": operator}
                drawings: list[tuple[Any, dict[str, Any], tuple[str, ...]]] = [
                    (chart.progress(recording, **asked), oracle.head_of_progress(operator), vocabulary.OF_PROGRESS),
                ]
                if seed % BARE == 0:
                    drawn = chart.progress(as_progress(recording), **asked)
                    computed = oracle.head_of_progress(operator, alone=True)
                    drawings.append((drawn, computed, vocabulary.OF_PROGRESS))
                for name in sorted({row["emitter"] for row in arrivals}):
                    computed = oracle.head_of_prefix(operator, name)
                    drawn = chart.sequence_prefix(recording, emitter=name, **asked)
                    drawings.append((drawn, computed, vocabulary.OF_PREFIX))
                if any(row["operator"] == operator for row in oracle.fired):
                    drawn = chart.windows_firing(recording, **asked)
                    drawings.append((drawn, oracle.head_of_windows(operator), vocabulary.OF_WINDOWS))
                for drawn, computed, templates in drawings:
                    at = (*where, drawn.scene.title)
                    assert differences(drawn.facts, computed) == {}, at
                    template = first_with_labels(templates, computed)
                    assert drawn.sentence == zone_once(drawn.facts.fill(template)), at
                    said.labels.update(drawn.facts.keys())
                    said.templates[template] += 1
    return said


def test_every_fact_and_headline_of_a_moment_is_what_the_tables_say(count: Count) -> None:
    count(at_moments().labels.total(), "labels of plans at moments compared")


def test_every_fact_and_row_of_a_whole_run_is_what_the_tables_say(count: Count) -> None:
    count(over_runs().labels.total(), "labels of whole runs of plans compared")


def test_every_fact_and_headline_above_a_chart_is_what_the_tables_say(count: Count) -> None:
    count(above_charts().labels.total(), "labels above charts of plans compared")


def test_every_label_and_headline_is_reached_by_a_drawn_run() -> None:
    everything = (at_moments(), above_charts())
    of_state = {template for templates in vocabulary.OF_STATE.values() for template in templates}
    of_others = {*vocabulary.OF_WATERMARK, *vocabulary.OF_PROGRESS, *vocabulary.OF_PREFIX, *vocabulary.OF_WINDOWS}
    assert set(vocabulary.LABELS) - {label for said in everything for label in said.labels} == set()
    assert of_state | of_others == {template for said in everything for template in said.templates}
    assert {OF_STOP, OF_RUN[0]} <= set(over_runs().templates)


def test_every_kind_of_fault_is_drawn() -> None:
    assert {type(act) for seed in RUNS for act in random_plan(seed).script} == set(KINDS)


def test_what_is_said_to_come_comes_and_nothing_else_raises_the_watermark(count: Count) -> None:
    """What an operator recorded later decides: no rise before all that holds is complete, nor of what never comes."""
    judged = 0
    for seed in RUNS:
        for _, oracle in oracles(seed):
            if not oracle.is_sound:
                continue
            for operator in oracle.plan.inputs:
                for at_ms in moments(oracle, (seed, operator, "later")):
                    raised_ms = oracle.raised_ms(operator, at_ms)
                    for held in oracle.holders(operator, at_ms):
                        judged += 1
                        completed_ms = oracle.completed_ms(held.operator, held.name, held.sequence)
                        at = (seed, operator, at_ms, held)
                        assert completed_ms is None or completed_ms > at_ms, at
                        if held.state in ("lost", "ended", "silent"):
                            assert completed_ms is None, at
                            assert raised_ms is None, at
                        if held.until is not None and completed_ms is not None:
                            assert completed_ms >= held.until, at
                        if raised_ms is not None:
                            assert completed_ms is not None, at
                            assert completed_ms <= raised_ms, at
    count(judged, "holders of plans judged by what came later")


def test_windows_come_out_by_what_the_tables_say(count: Count) -> None:
    windows = 0
    for seed in RUNS:
        for _, oracle in oracles(seed):
            for operator in oracle.plan.windows:
                rows = [row for row in oracle.fired if row["operator"] == operator]
                by_mark, left = oracle.windows(operator)
                said = [(row["start"], row["end"], row["records"], row["arrival"]) for row in rows]
                released = [each for each, row in zip(said, rows, strict=True) if row["cause"] == "watermark"]
                assert released == by_mark, (seed, operator)
                at_end = {
                    each[:2]: each[2] for each, row in zip(said, rows, strict=True) if row["cause"] != "watermark"
                }
                assert at_end in ({}, left), (seed, operator)
                windows += len(rows)
    count(windows, "windows of plans by two judges")
