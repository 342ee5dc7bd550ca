"""What is said of a log, computed twice: advice and findings against the oracle, and the oracle against lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

from tests.oracles.dirt import PAIRS, SPOILED, Book, effects, spoiled
from tests.oracles.log_answers import (
    advice_facts,
    advice_kinds,
    comparison_facts,
    constant_faults,
    curve_facts,
    differences,
    tail_faults,
    whole_log,
)
from tests.oracles.logs import FAULTS, column, faults_of, random_log, replayed
from tests.repetitions import Count, repetitions
from wmlab.core.traces import Trace
from wmlab.strategies.advice import Advice, advise
from wmlab.strategies.candidates import Candidates
from wmlab.strategies.comparison import compare
from wmlab.strategies.findings import Finding, findings_of
from wmlab.strategies.lateness import lateness_curve
from wmlab.strategies.model.bounded import BoundedOutOfOrderness
from wmlab.strategies.model.engines import WallClock
from wmlab.strategies.model.strategy import Strategy
from wmlab.strategies.model.writers import PerWriterMinimum

PARTS: Final = 4
"""Into how many tests the random logs are parted, so that several processes share them."""
LOGS: Final = repetitions(20, long=2_000)
ANSWERS: Final = repetitions(12, long=400)
ADVISED: Final = ("late", "lag")
"""Labels that may be missing."""
OF_ADVICE: Final = ("few records", "target missed", "not sure", "wide lag", "stands still", "silent writer")
NOT_COMPARED: Final = ("windows", "wrong times", "wrong times of")
FINDINGS: Final = repetitions(1, long=40)
SHARE: Final = 0.01
WAYS: Final = (*((way,) for way in SPOILED), *PAIRS)


def asked(seed: int) -> tuple[Trace, float, int | None]:
    """A random log, a target, and the length of the windows in ms."""
    log = random_log(seed, most_rows=repetitions(2_000, long=50_000 if seed % 20 == 0 else 6_000))
    random = np.random.default_rng(seed + 1_000_000)
    target = float(random.choice([0.001, 0.01, 0.05, 0.2]))
    first, last = log.span_ms
    return log, target, None if random.random() < 0.6 else max(1, (last - first) // int(random.choice([10, 100])))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_of_an_advice_holds_on_the_half_that_it_has_not_seen(part: int, count: Count) -> None:
    for seed in range(part, LOGS, PARTS):
        log, target, window_ms = asked(seed)
        assert faults_of(log, target, advise(log, target, window_ms=window_ms), window_ms) == {}, f"seed {seed}"
    count(len(range(part, LOGS, PARTS)), "advices by brute force")


@cache
def missed() -> tuple[Trace, float, Advice]:
    """An advice that misses its target."""
    for seed in range(100):
        log, target, window_ms = asked(seed)
        if window_ms is None and (advice := advise(log, target)).missed_share > target:
            return log, target, advice
    raise AssertionError("no log misses its target")


@cache
def kept() -> tuple[Trace, float, Advice]:
    """An advice that keeps its target, of a log of several writers with candidates that do not."""
    for seed in range(100):
        log, target, window_ms = asked(seed)
        if window_ms is None and len(log.writer_names) > 1 and (advice := advise(log, target)).missed_share <= target:
            worse = [each for each in advice.judged if each.lag_p50_ms and each.lag_p50_ms > 1.2 * advice.lag_ms > 0]
            if any(each.missed_share > target for each in advice.judged) and worse:
                return log, target, advice
    raise AssertionError("no log keeps its target")


def of(advice: Advice, strategy: Any) -> Advice:
    """The advice with another strategy, and its numbers."""
    unseen = next(each for each in advice.judged if each.strategy == strategy)
    return replace(advice, strategy=strategy, unseen=unseen, lag_ms=unseen.lag_p50_ms or 0)


def _worse(advice: Advice, target: float) -> Advice:
    return of(advice, next(each.strategy for each in advice.judged if each.missed_share > target))


def _slower(advice: Advice, target: float) -> Advice:
    slow = max(
        (each for each in advice.judged if each.missed_share <= target and each.lag_p50_ms is not None),
        key=lambda each: each.lag_p50_ms or 0,
    )
    return of(advice, slow.strategy)


def _without_waiting(advice: Advice, _: float) -> Advice:
    return replace(advice, judged=tuple(each for each in advice.judged if "PerWriterMinimum" not in each.name))


def _other_lines(advice: Advice, _: float) -> Advice:
    lines = {name: replace(line, expected="with 0.123% late") for name, line in advice.settings.items()}
    return replace(advice, settings=lines)


def _dead(advice: Advice, _: float) -> Advice:
    return replace(advice, strategy=BoundedOutOfOrderness(10**12))


LIES: dict[str, tuple[Callable[[], tuple[Trace, float, Advice]], Callable[[Advice, float], Advice]]] = {
    "numbers differ": (kept, lambda advice, _: replace(advice, lag_ms=advice.lag_ms + 1)),
    "target missed without the word": (missed, lambda advice, _: replace(advice, findings=())),
    "says missed, but is kept": (kept, lambda advice, _: replace(advice, findings=missed()[2].findings)),
    "dead watermark": (kept, _dead),
    "a kept candidate was not advised": (kept, _worse),
    "lag above the best by a tenth": (kept, _slower),
    "no minimum over writers among the judged": (kept, _without_waiting),
    "the bound that keeps it is not named": (missed, lambda advice, _: replace(advice, kept_by_ms=1)),
    "line without its own numbers": (missed, _other_lines),
}


@pytest.mark.parametrize("fault", LIES)
def test_an_advice_that_is_made_false_is_noticed(fault: str) -> None:
    made, lie = LIES[fault]
    log, target, advice = made()
    assert fault in faults_of(log, target, lie(advice, target))


def test_every_fault_has_a_lie() -> None:
    assert set(LIES) == set(FAULTS)


def found(log: Trace) -> Book:
    """What is found in a log, as its book has it."""
    return {each.kind: (each.rows, tuple(sorted(each.writers)), each.count) for each in _findings(log)}


def _findings(log: Trace) -> tuple[Finding, ...]:
    return findings_of(log, SHARE, None, column(log, "key")).findings


@pytest.mark.parametrize("ways", WAYS, ids=" and ".join)
def test_what_was_planted_is_found_and_nothing_else(ways: tuple[str, ...], count: Count) -> None:
    for seed in range(FINDINGS):
        log = spoiled(seed, *ways)
        assert found(log.trace) == log.book, f"seed {seed}"
    count(FINDINGS, "logs with planted dirt")


@pytest.mark.parametrize("way", ["ahead", "old", "copies", "clock", "zone", "early writer"])
def test_the_effect_of_a_finding_is_that_of_its_rows(way: str, count: Count) -> None:
    for seed in range(FINDINGS):
        log = spoiled(seed, way)
        (finding,) = _findings(log.trace)
        effect = finding.bound_ms, finding.without_ms, finding.facts["late by them"]
        assert effect == effects(log.trace, finding.rows, SHARE), f"seed {seed}"
    count(FINDINGS, "effects")


@pytest.mark.parametrize("way", ["pause", "two pauses"])
def test_a_silence_has_its_ends_and_the_longest_is_told(way: str) -> None:
    log = spoiled(0, way).trace
    found = findings_of(log, SHARE)
    (clock,), (finding,) = (row for row in found.writers.itertuples(index=False) if row.silences), found.findings
    mine = np.sort(column(log, "arrival_ms")[column(log, "writer") == clock.writer])
    count = 1 + (way == "two pauses")
    ends = [(mine[row], mine[row + 1]) for row in sorted(np.argsort(np.diff(mine))[-count:])]
    assert clock.silences == tuple(ends)
    begin, end = ends[-1]
    assert [finding.facts[label] for label in ("from", "to", "silent for")] == [begin, end, end - begin]


def test_a_finding_that_is_left_out_or_made_up_is_noticed() -> None:
    log = spoiled(0, "ahead")
    (rows, writers, count) = log.book["wrong times"]
    assert found(log.trace) == log.book
    for wrong in ({}, {"wrong times": (rows[1:], writers, count)}, log.book | {"ties": ((), (), 2)}):
        assert found(log.trace) != wrong
    assert found(spoiled(0).trace) != log.book


def advice_faults(log: Trace, target: float, advice: Advice, window_ms: int | None) -> dict[str, Any]:
    """What the facts and the kinds of an advice say that the log denies."""
    known = advice_facts(log, target, advice, window_ms)
    said = {label: advice.facts[label] for label in advice.facts if label in known or label in ADVISED}
    said |= dict(zip(("missed at least", "missed at most"), advice.missed_range, strict=True))
    said |= dict(zip(("least lag", "largest lag"), advice.lag_range, strict=True))
    faults: dict[str, Any] = dict(differences(known, said))
    whole = advice.whole.missed_share, advice.whole.lag_p50_ms, advice.unseen_from, advice.bound_ms
    if whole != (expected := whole_log(log, target, advice, window_ms)):
        faults["whole"] = expected, whole
    numbers = {each.kind.value for each in advice.findings if each.kind in OF_ADVICE}
    kinds = advice_kinds(log, target, advice, window_ms)
    if numbers != kinds:
        faults["kinds"] = kinds, numbers
    if any(each.kind == "one tail" for each in advice.findings):
        faults |= tail_faults(log, target, advice, window_ms)
    return faults | constant_faults(log, target, advice, window_ms)


@pytest.mark.parametrize("part", range(PARTS))
def test_facts_of_answers_are_those_of_the_log(part: int, count: Count) -> None:
    for seed in range(part, ANSWERS, PARTS):
        log, target, window_ms = asked(seed)
        assert advice_faults(log, target, advise(log, target, window_ms=window_ms), window_ms) == {}, f"seed {seed}"
        curve = lateness_curve(log, window_ms=window_ms).facts
        said = {label: curve[label] for label in curve if label != "windows"}
        assert differences(curve_facts(log, window_ms), said) == {}, f"seed {seed}"
        compared = compare(log, compared_strategies(log), window_ms=window_ms)
        said = {label: value for label, value in compared.facts.items() if label not in NOT_COMPARED}
        assert differences(comparison_facts(log, compared, window_ms), said) == {}, f"seed {seed}"
    count(3 * len(range(part, ANSWERS, PARTS)), "answers by their facts")


def compared_strategies(log: Trace) -> list[Strategy[Any]]:
    """Strategies with much and little lag, ahead of the arrivals, and without a watermark."""
    first, last = log.span_ms
    span_ms = last - first
    bounds = [BoundedOutOfOrderness(span_ms // part) for part in (1_000, 20)]
    return [*bounds, PerWriterMinimum(), WallClock(span_ms // 50), PerWriterMinimum(writers=("nobody",))]


def test_an_answer_that_is_made_false_is_noticed() -> None:
    log, target, advice = kept()
    other = next(each for each in advice.judged if each.late != advice.unseen.late)
    assert "missed" in advice_faults(log, target, replace(advice, unseen=other), None)
    assert "lag" in advice_faults(log, target, replace(advice, unseen=replace(advice.unseen, lag_p50_ms=-1)), None)
    assert "missed at most" in advice_faults(log, target, replace(advice, missed_range=(0, 1)), None)
    assert "largest lag" in advice_faults(log, target, replace(advice, lag_range=(0, 1)), None)
    assert "kinds" in advice_faults(log, target, replace(advice, findings=missed()[2].findings), None)
    for lie in ({"whole": other}, {"unseen_from": advice.unseen_from - 1}, {"bound_ms": advice.bound_ms + 1}):
        assert "whole" in advice_faults(log, target, replace(advice, **lie), None)
    compared = compare(log, compared_strategies(log))
    fewer = replace(compared, outcomes=compared.outcomes[1:], paths=compared.paths[1:])
    assert differences(comparison_facts(log, compared, None), fewer.facts) != {}


def test_between_two_bounds_that_miss_the_target_no_tail_is_named() -> None:
    """In this log the advised bound is for a tail, but misses the target with it as well."""
    target, log = 0.05, random_log(106, most_rows=2_000)
    advice = advise(log, target)
    assert replayed(log, advice.strategy).missed.mean() > target
    assert "one tail" not in {each.kind for each in advice.findings}


def test_candidates_are_those_of_the_log_alone() -> None:
    """No sentence about writers leaves one out: of several writers all kinds are judged."""
    log, target, _ = kept()
    names = {type(each.strategy).__name__ for each in Candidates(log, target, guard=False).all()}
    assert names == {
        "BoundedOutOfOrderness",
        "PerWriterMinimum",
        "ConformalWatermark",
        "WindowedPercentile",
        "DelayPercentile",
    }
