"""What `explain` says of random runs is what their tables say, label by label, and each thing is said by its cause."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from string import Formatter
from typing import Any, NamedTuple

import pytest

from tests.oracles.counterfactuals import the_only_one
from tests.oracles.cycle_plans import owner, ownership
from tests.oracles.cycles_that_ran import moments_between, objection
from tests.oracles.lags import measures
from tests.oracles.log_facts import cause_of_log
from tests.oracles.other_runs import (
    apart_run,
    dying_cycles_run,
    expected_run,
    former_owner_run,
    left_alone_run,
    replayed_run,
    sealed_run,
    struck_twice_run,
    taken_over_run,
    unowned_run,
)
from tests.oracles.runs import DECK, GROUP, ORDERS, drawn_run, moments_of
from tests.oracles.streams import Curve, Oracle, differences
from tests.oracles.tables import Row, Run
from tests.repetitions import Count, repetitions
from wmlab.core.overlap import TimesApartWarning
from wmlab.streams.answers import curves as answers, vocabulary
from wmlab.streams.answers.curves import Curves
from wmlab.streams.answers.explain import explain_curve
from wmlab.streams.answers.vocabulary import CauseKind
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script

FEW, MANY = 24, 1_000
DRAWN = (*range(repetitions(FEW, long=MANY)), 33, 36, 40, 51, 53, 56, 89, 122, 129, 275, 1278)

OF_OWN_SHAPE = (
    taken_over_run,
    struck_twice_run,
    expected_run,
    dying_cycles_run,
    former_owner_run,
    unowned_run,
    sealed_run,
    replayed_run,
    apart_run,
    left_alone_run,
)
RUNS = (*range(-len(OF_OWN_SHAPE), 0), *DRAWN)
"""The seeds of drawn runs; those below zero are runs of a shape of their own."""
MOMENTS = 5
BETWEEN = 12
"""The moments of each stream at which the next cycle is compared with those that ran."""
SOON_MS = 200
"""Notes that are judged within this time are not asked about."""
AT_LEAST = 0.98
"""The share of moments at which the only party without which the bound is higher is named."""


def scenario_of(seed: int) -> Scenario:
    if seed >= 0:
        return drawn_run(seed)
    return OF_OWN_SHAPE[seed](seed)


@lru_cache(maxsize=2 * FEW)
def oracle_of(seed: int) -> Oracle:
    scenario = scenario_of(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TimesApartWarning)
        return Oracle(scenario, scenario.record(progress=False))


class Compared(NamedTuple):
    """What was found of one run: each difference in words, how many labels were compared, and what was said."""

    of_moments: list[str]
    of_run: list[str]
    labels_of_moments: int
    labels_of_run: int
    labels: set[str]
    templates: set[str]


@cache
def compared(seed: int) -> Compared:
    """Each answer about a run beside what is computed of its tables.

    The answers at moments are those of one reader of the tables of each stream, as a chart has it; one of them is asked
    of the recording as well.
    """
    oracle, found = oracle_of(seed), Compared([], [], 0, 0, set(), set())
    curves = {stream: Curves(oracle.run.recording, stream) for stream in oracle.run.titles}
    asked = list(oracle.curves())
    chosen = asked[seed % len(asked)]
    for curve in asked:
        of_answers = answers.Curve(group=None if curve.reader else curve.group, reader=curve.reader)
        moments = moments_of(f"{seed} {curve}", MOMENTS)
        for at_ms in moments:
            said = explain_curve(curves[curve.stream], of_answers, curve.stream, at_ms, bound=curve.bound)
            computed = oracle.facts(curve, at_ms)
            wrong = differences(said.facts, computed)
            templates = sentences(oracle, curve, at_ms, computed)
            if wrong or said.templates != templates:
                words = f"{wrong}, {said.templates}, {templates}"
                found.of_moments.append(f"run {seed}, {curve}, {at_ms} ms: (said, computed) {words}")
            if (curve, at_ms) == (chosen, moments[0]):
                again = oracle.run.recording.explain(at_ms=at_ms, **curve.asked)
                assert (dict(again.facts), again.templates) == (dict(said.facts), said.templates)
            found = _with(found, said, of_moments=len(computed))
    for stream in oracle.run.titles:
        whole = oracle.run.recording.explain(stream=stream)
        computed = oracle.of_run(stream)
        wrong = differences(whole.facts, computed)
        templates = first_with_labels(vocabulary.OF_RUN, computed) + first_with_labels(vocabulary.OF_RUN_NEXT, computed)
        if wrong or whole.templates != templates:
            found.of_run.append(f"run {seed}, {stream}: (said, computed) {wrong}, {whole.templates}, {templates}")
        found = _with(found, whole, of_run=len(computed))
    return found


def _with(found: Compared, said: Any, *, of_moments: int = 0, of_run: int = 0) -> Compared:
    return found._replace(
        labels_of_moments=found.labels_of_moments + of_moments,
        labels_of_run=found.labels_of_run + of_run,
        labels=found.labels.union(said.facts),
        templates=found.templates.union(said.templates),
    )


def test_every_action_is_drawn() -> None:
    kinds = {kind for name in script.__all__ if isinstance(kind := getattr(script, name), type)}
    assert set(DECK) == kinds
    assert {type(act) for seed in DRAWN for act in drawn_run(seed).script} == kinds


def test_every_fact_of_a_moment_is_what_the_tables_say(count: Count) -> None:
    for seed in RUNS:
        assert not compared(seed).of_moments, "\n".join(compared(seed).of_moments)
    count(sum(compared(seed).labels_of_moments for seed in RUNS), "labels of explain compared")


def test_every_fact_of_a_whole_run_is_what_the_tables_say(count: Count) -> None:
    for seed in RUNS:
        assert not compared(seed).of_run, "\n".join(compared(seed).of_run)
    count(sum(compared(seed).labels_of_run for seed in RUNS), "labels of whole runs compared")


def streams_of_runs() -> Iterator[tuple[int, Run, str]]:
    """Each stream of each drawn run, with the seed of the run."""
    for seed in RUNS:
        run = oracle_of(seed).run
        yield from ((seed, run, stream) for stream in run.titles)


def test_the_next_cycle_is_the_one_that_runs(count: Count) -> None:
    compared_moments = 0
    for seed, run, stream in streams_of_runs():
        curves, moments = Curves(run.recording, stream), moments_between(run, stream, seed, BETWEEN)
        for at_ms in moments:
            said: Any = explain_curve(curves, answers.LOG, stream, at_ms).facts.get("next cycle")
            wrong = objection(run, stream, at_ms, said)
            assert not wrong, f"run {seed}, {stream}, {at_ms} ms: the next cycle is said to be {said}: {wrong}"
        compared_moments += len(moments)
    count(compared_moments, "moments at which the next cycle is compared with those that ran")


def test_while_nobody_owns_the_bucket_the_next_cycle_is_not_said_to_come_without_that(count: Count) -> None:
    moments_judged = 0
    for seed, run, stream in streams_of_runs():
        unowned_from_ms = [row["to_ms"] for row in ownership(run, stream) if row["to_ms"] is not None]
        for at_ms in unowned_from_ms:
            if owner(run, stream, at_ms)[0] is None and cause_of_log(run, stream, at_ms) == "period":
                said = run.recording.explain(at_ms, stream=stream).sentence
                assert "nobody owns" in said, f"run {seed}, {stream}, {at_ms} ms: {said}"
                moments_judged += 1
    count(moments_judged, "moments at which nobody owns the bucket and no writer is behind")
    assert moments_judged > 0


def test_the_measures_of_a_stream_end_with_it(count: Count) -> None:
    compared_measures = 0
    for seed, run, stream in streams_of_runs():
        said, computed = run.recording.measures(stream), measures(run, stream)
        told = {name: said.measures[name] for name in computed}
        assert told == pytest.approx(computed, abs=0.051), f"run {seed}, {stream}"
        mean_ms = computed["mean lag of the lower bound (ms)"]
        assert said.lag_ms == pytest.approx(mean_ms, abs=0.051)
        assert mean_ms is None or f"The lower bound of {stream} lags " in said.sentence
        compared_measures += len(told)
    count(compared_measures, "measures of streams compared")


def test_what_a_writer_noted_and_nobody_has_judged_yet_is_not_denied(count: Count) -> None:
    moments_judged = 0
    for seed, run, stream in streams_of_runs():
        curves = Curves(run.recording, stream)
        for at_ms, row in noted_above(run, stream):
            answer = explain_curve(curves, answers.LOG, stream, at_ms)
            held = row["writer"] in names_of(answer.facts.get("holder"))
            assert not (held and "noted" in answer.sentence), f"run {seed}, {stream}, {at_ms} ms: {answer.sentence}"
            moments_judged += held
    count(moments_judged, "moments at which a holder's time above the watermark is not judged yet")
    assert moments_judged > 0


def noted_above(run: Run, stream: str) -> Iterator[tuple[int, Row]]:
    """The notes above the watermark that took long to be judged, each with the moment before that."""
    for row in run.all_rows("writer_marks", stream):
        at_ms = row["received_ms"] - 1
        if row["noted_ms"] < at_ms - SOON_MS and row["time"] > (run.lower(stream, at_ms) or 0):
            yield at_ms, row


def names_of(value: Any) -> tuple[Any, ...]:
    """The names of a label with one value or several."""
    return value if isinstance(value, tuple) else (value,)


def sentences(oracle: Oracle, curve: Curve, at_ms: int, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The headline of the first cause that is true, and what follows it: of templates the first with all its labels.

    Of a stream that was deleted only that is said: it has no watermark any more.
    """
    if oracle.run.incident(curve.stream, "delete", at_ms) is not None:
        return (vocabulary.WAS_DELETED,)
    if curve.bound == "upper":
        whose = "log" if curve.group is None else "group" if curve.reader is None else "reader"
        return first_with_labels(vocabulary.OF_UPPER[whose], facts)
    whose, cause = oracle.cause(curve, at_ms)
    tables = {"log": vocabulary.OF_LOG, "group": vocabulary.OF_GROUP, "reader": vocabulary.OF_READER}
    headline = first_with_labels(of_cause(tables[whose], cause), facts)
    if whose == "log":
        return headline + first_with_labels(vocabulary.OF_LOG_NEXT, facts)
    if cause == "newest":
        _, of_log = oracle.cause(Curve(curve.stream), at_ms)
        return headline + first_with_labels(of_cause(vocabulary.OF_LOG, of_log), facts)
    following = vocabulary.OF_GROUP_NEXT if curve.reader is None else vocabulary.OF_READER_NEXT
    return headline + first_with_labels(following, facts)


def of_cause(table: Mapping[CauseKind, tuple[str, ...]], cause: str) -> tuple[str, ...]:
    """The headlines of a cause; none if nothing is said of it."""
    return next((templates for kind, templates in table.items() if kind == cause), ())


def first_with_labels(templates: tuple[str, ...], facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The first template whose labels are all there, and of which at most one has several values; there may be none."""
    for template in templates:
        labels = [name for _, name, _, _ in Formatter().parse(template) if name]
        several = [name for name in labels if isinstance(facts.get(name), tuple)]
        if all(name in facts for name in labels) and len(several) <= 1:
            return (template,)
    return ()


def test_every_label_and_headline_is_reached_by_a_drawn_run() -> None:
    labels = {label for seed in RUNS for label in compared(seed).labels}
    said = {template for seed in RUNS for template in compared(seed).templates}
    assert set(vocabulary.LABELS) - labels == set()
    assert all_templates() - said == set()


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
    for seed in range(repetitions(29, long=300)):
        oracle = oracle_of(seed)
        groups = (None, GROUP) if (ORDERS, GROUP) in groups_of(seed) else (None,)
        for group, at_ms, party in the_only_one(drawn_run(seed), oracle, groups, moments_of(f"without {seed}", 12)):
            curve = Curve(ORDERS, group)
            named.append(is_named(party, oracle.run.recording.explain(at_ms=at_ms, **curve.asked).facts))
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
