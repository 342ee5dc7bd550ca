"""What `explain` says of random runs is what their tables say, label by label, and each thing is said by its cause."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any

from tests.oracles.counterfactuals import the_only_one
from tests.oracles.other_runs import apart_run, left_alone_run, replayed_run
from tests.oracles.runs import DECK, GROUP, LENGTH_MS, ORDERS, drawn_run, moments_of
from tests.oracles.streams import Curve, Oracle, differences
from tests.repetitions import Count, repetitions
from wmlab.core.overlap import TimesApartWarning
from wmlab.streams.answers import vocabulary
from wmlab.streams.answers.vocabulary import CauseKind
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script

DRAWN = (*range(repetitions(19, long=1_000)), 36, 40, 51)
RUNS = (*range(-3, 0), *DRAWN)
"""The seeds of drawn runs; those below zero are runs of a shape of their own."""
OF_OWN_SHAPE = (replayed_run, apart_run, left_alone_run)
MOMENTS = 5
AT_LEAST = 0.93
"""The share of moments at which the only party without which the bound is higher is named."""


def scenario_of(seed: int) -> Scenario:
    if seed >= 0:
        return drawn_run(seed)
    return OF_OWN_SHAPE[seed % 3](seed)


@cache
def oracle_of(seed: int) -> Oracle:
    scenario = scenario_of(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TimesApartWarning)
        return Oracle(scenario, scenario.record(progress=False))


@cache
def answers_of(seed: int) -> list[tuple[Curve, int, Any]]:
    """What is said of each curve of a run at some moments."""
    oracle = oracle_of(seed)
    return [
        (curve, at_ms, oracle.run.recording.explain(at_ms=at_ms, **curve.asked))
        for curve in oracle.curves()
        for at_ms in moments_of(f"{seed} {curve}", MOMENTS)
    ]


@cache
def answers_of_run(seed: int) -> dict[str, Any]:
    """What is said of each stream of a whole run."""
    run = oracle_of(seed).run
    return {stream: run.recording.explain(stream=stream) for stream in run.titles}


def test_every_action_is_drawn() -> None:
    kinds = {kind for name in script.__all__ if isinstance(kind := getattr(script, name), type)}
    assert set(DECK) == kinds
    assert {type(act) for seed in DRAWN for act in drawn_run(seed).script} == kinds


def test_every_fact_of_a_moment_is_what_the_tables_say(count: Count) -> None:
    labels = 0
    for seed in RUNS:
        for curve, at_ms, answer in answers_of(seed):
            computed = oracle_of(seed).facts(curve, at_ms)
            found = differences(answer.facts, computed)
            assert not found, f"drawn_run({seed}), {curve}, {at_ms} ms: (said, computed) {found}"
            assert answer.templates[0] == headline(oracle_of(seed), curve, at_ms, computed), (
                f"drawn_run({seed}), {curve}, {at_ms} ms"
            )
            labels += len(computed)
    count(labels, "labels of explain compared")


def test_every_fact_of_a_whole_run_is_what_the_tables_say(count: Count) -> None:
    labels = 0
    for seed in RUNS:
        oracle = oracle_of(seed)
        for stream, answer in answers_of_run(seed).items():
            computed = oracle.of_run(stream)
            found = differences(answer.facts, computed)
            assert not found, f"drawn_run({seed}), {stream}: (said, computed) {found}"
            labels += len(computed)
    count(labels, "labels of whole runs compared")


def headline(oracle: Oracle, curve: Curve, at_ms: int, facts: Mapping[str, Any]) -> str:
    """The headline of the first cause that is true: of its templates the first whose labels are all there."""
    if curve.bound == "upper":
        whose = "log" if curve.group is None else "group" if curve.reader is None else "reader"
        return first_with_labels(vocabulary.OF_UPPER[whose], facts)
    whose, cause = oracle.cause(curve, at_ms)
    tables = {"log": vocabulary.OF_LOG, "group": vocabulary.OF_GROUP, "reader": vocabulary.OF_READER}
    return first_with_labels(tables[whose][CauseKind(cause)], facts)


def first_with_labels(templates: tuple[str, ...], facts: Mapping[str, Any]) -> str:
    """The first template whose labels are all there, and of which at most one has several values."""
    for template in templates:
        labels = [name for _, name, _, _ in Formatter().parse(template) if name]
        several = [name for name in labels if isinstance(facts.get(name), tuple)]
        if all(name in facts for name in labels) and len(several) <= 1:
            return template
    raise AssertionError(f"no template of {templates} has its labels in {sorted(facts)}")


def test_every_label_and_headline_is_reached_by_a_drawn_run() -> None:
    labels, said = Counter[str](), Counter[str]()
    for seed in RUNS:
        for _, _, answer in answers_of(seed):
            labels.update(list(answer.facts))
            said.update(answer.templates)
        for answer in answers_of_run(seed).values():
            labels.update(list(answer.facts))
            said.update(answer.templates)
    assert set(vocabulary.LABELS) - set(labels) == set()
    assert all_templates() - set(said) == set()


def all_templates() -> set[str]:
    """All sentences that an answer about a stream can say."""
    tables = (vocabulary.OF_LOG, vocabulary.OF_GROUP, vocabulary.OF_READER, vocabulary.OF_UPPER)
    lists = (
        vocabulary.OF_LOG_NEXT,
        vocabulary.OF_GROUP_NEXT,
        vocabulary.OF_READER_NEXT,
        vocabulary.OF_RUN,
        vocabulary.OF_RUN_NEXT,
    )
    return {each for table in tables for templates in table.values() for each in templates} | {
        each for templates in lists for each in templates
    }


def test_the_only_party_without_which_a_bound_is_higher_is_named(count: Count) -> None:
    named: list[bool] = []
    for seed in range(repetitions(24, long=300)):
        scenario = drawn_run(seed)
        recording = oracle_of(seed).run.recording
        moments = [at_ms for at_ms in moments_of(f"without {seed}", 12) if at_ms < LENGTH_MS]
        for group in (None, GROUP):
            if group is not None and (ORDERS, GROUP) not in groups_of(seed):
                continue
            for at_ms, party in the_only_one(scenario, group, moments):
                asked: dict[str, Any] = {"stream": ORDERS} if group is None else {"stream": ORDERS, "group": group}
                named.append(is_named(party, recording.explain(at_ms=at_ms, **asked).facts))
    count(len(named), "moments with a single party without which the bound is higher")
    assert len(named) >= 30
    assert sum(named) / len(named) >= AT_LEAST


def groups_of(seed: int) -> set[tuple[str, str]]:
    """The streams and groups of a run that have a position."""
    return {(curve.stream, curve.group) for curve in oracle_of(seed).curves() if curve.group is not None}


def is_named(party: tuple[str, ...], facts: Mapping[str, Any]) -> bool:
    """Whether a fact has one of the names of a party; `controllers` is the name of all of them."""
    values = {str(each) for value in facts.values() for each in (value if isinstance(value, tuple) else (value,))}
    return any(name == each or each.startswith(f"{name.removesuffix('s')}-") for name in party for each in values)
