"""Scenarios in words: what differs between them, what their runs are called for it, and faults as phrases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wmlab as wm
from wmlab.core.scenario_words import (
    Vocabulary,
    differences,
    duration_in_words,
    fault_in_words,
    names_of_runs,
    words_of,
)
from wmlab.streams.scenario.options import WORDS

script = wm.script
FIRST_BOUNDS = wm.Scenario.load("first_bounds")
HASTY = FIRST_BOUNDS.replace(stream=replace(FIRST_BOUNDS.stream, timestamp_aggregation_timeout_ms="5.6 s"))


def names(*scenarios: wm.Scenario) -> tuple[str, ...]:
    return names_of_runs([words_of(scenario, WORDS) for scenario in scenarios])


def differing(*scenarios: wm.Scenario) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return differences([words_of(scenario, WORDS) for scenario in scenarios])


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 s"),
        (400, "400 ms"),
        (1_500, "1.5 s"),
        (-90_000, "−90 s"),
        (29_400, "29.4 s"),
        (2_700_000, "45 min"),
        (2.5, "2.5 ms"),
    ],
)
def test_a_duration_is_written_as_one_reads_and_types_it(ms: float, words: str) -> None:
    assert duration_in_words(ms) == words


def test_a_fault_is_said_in_words() -> None:
    assert fault_in_words(FIRST_BOUNDS.script[1], WORDS) == "crash writer w2 at 30 s"
    cut_off = script.Partition(at_ms=20_000, a="w2", b="controllers", for_ms=9_000)
    assert fault_in_words(cut_off, WORDS) == "partition w2 and controllers at 20 s, for 9 s"
    words = Vocabulary()
    late = wm.dataflow.LatePartition("web", 1, at_ms="6 s", for_ms="6 s", by_ms="2 s")
    assert fault_in_words(late, words) == "late partition web at 6 s, for 6 s, partition 1, by 2 s"
    assert fault_in_words(wm.progress.LoseBuffer("s", 2), words) == "lose buffer s, sequence 2"


def test_runs_are_called_by_what_differs() -> None:
    assert names(FIRST_BOUNDS) == ("a split and a dead writer",)
    assert names(FIRST_BOUNDS, HASTY) == ("timeout 15 s", "timeout 5.6 s")
    assert differing(FIRST_BOUNDS, HASTY) == (("Timeout", ("15 s", "5.6 s")),)
    alive = FIRST_BOUNDS.replace(script=FIRST_BOUNDS.script[:1])
    assert names(FIRST_BOUNDS, alive) == ("crash writer w2 at 30 s", "without crash writer w2 at 30 s")
    assert names(FIRST_BOUNDS, HASTY, alive)[1] == "timeout 5.6 s, crash writer w2 at 30 s"
    first, second = FIRST_BOUNDS.writers
    skewed = FIRST_BOUNDS.replace(writers=[first, replace(second, clock=wm.Clock(skew_ms="2 s"))])
    assert names(FIRST_BOUNDS, skewed) == ("w2: Clock ahead by 0 s", "w2: Clock ahead by 2 s")


def test_another_kind_of_value_differs() -> None:
    first, second = FIRST_BOUNDS.writers
    clock = FIRST_BOUNDS.replace(writers=[replace(first, noting=script.noting.WallClock()), second])
    assert differing(FIRST_BOUNDS, clock) == (("w1: Noting", ("earliest open", "wall clock")),)


def test_a_fault_at_another_time_differs_as_a_fault() -> None:
    later = FIRST_BOUNDS.replace(script=[FIRST_BOUNDS.script[0], replace(FIRST_BOUNDS.script[1], at_ms="40 s")])
    assert differing(FIRST_BOUNDS, later) == (("Faults", ("crash writer w2 at 30 s", "crash writer w2 at 40 s")),)


def test_parts_are_found_by_name_and_what_one_scenario_lacks_is_a_dash() -> None:
    first, second = FIRST_BOUNDS.writers
    turned = FIRST_BOUNDS.replace(writers=[second, first])
    assert differing(FIRST_BOUNDS, turned) == ()
    more = FIRST_BOUNDS.replace(writers=[first, second, wm.EventWriter("w3", rate_per_s=7)])
    assert differing(FIRST_BOUNDS, more) == (("w3: Events per second", ("–", "7.0")),)


def test_what_follows_from_the_rules_is_no_difference_of_its_own() -> None:
    assert differing(FIRST_BOUNDS, FIRST_BOUNDS.replace(rules="design")) == (("Rules", ("sound", "design")),)
    document = FIRST_BOUNDS.with_rules(cut_algorithm="document")
    assert differing(FIRST_BOUNDS, document) == (("Cut algorithm", ("sound", "document")),)


def test_runs_of_other_scenarios_begin_with_their_names_and_no_name_is_there_twice() -> None:
    other = wm.Scenario.load("clock_skew")
    assert names(FIRST_BOUNDS, other, HASTY) == (
        f"{FIRST_BOUNDS.name}: timeout 15 s",
        other.name,
        f"{FIRST_BOUNDS.name}: timeout 5.6 s",
    )
    many = HASTY.replace(controllers=replace(HASTY.controllers, count=3), latency_ms="9 ms", seed=1, duration_ms="50 s")
    assert names(FIRST_BOUNDS, many)[1].endswith("2 other differences")
    assert names(FIRST_BOUNDS, FIRST_BOUNDS) == (FIRST_BOUNDS.name, f"{FIRST_BOUNDS.name} (2)")


KINDS = (wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in kind.names()])
def test_every_scenario_that_comes_with_wmlab_is_said_in_words(kind: Any, name: str) -> None:
    scenario = kind.load(name)
    words = words_of(scenario, WORDS)
    assert words.given <= words.settings.keys()
    assert len(words.faults) == len(getattr(scenario, "script", ()) or getattr(scenario, "faults", ()))
    code = [label for label, _ in words.settings.values() if "_" in label.rpartition(": ")[2]]
    assert code == []
