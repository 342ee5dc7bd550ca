"""Mistakes in machines are found and shrunk to a test that fails; a machine of the rule itself never is."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
from hypothesis import errors, given, settings

import wmlab as wm
from tests.repetitions import repetitions
from tests.testing.mutants import MUTANTS, Silent, bounded
from wmlab.core.errors import ModelError, WmlabError
from wmlab.testing import compare
from wmlab.testing.compare import DisagreementError, compare_with_rule, find_disagreement, first_difference
from wmlab.testing.known_rules import RULES, History, Valve


def test_nearly_all_mutants_are_found() -> None:
    missed = [
        f"{rule}: {mistake}"
        for rule, mistake, machine in MUTANTS
        if find_disagreement(machine, rule, examples=400, shrink=False) is None
    ]
    assert len(MUTANTS) == 30
    assert len(missed) <= 2, missed
    assert {rule for rule, _, _ in MUTANTS} == set(RULES)


SHRUNK = repetitions(
    [
        ("bounded", "keeps its state"),
        ("per-writer-minimum", "idle for ever"),
        ("flink-bounded", "ticks are not seen"),
        ("flink-valve", "aligned at once"),
        ("jet-coalescer", "wakes one key"),
        ("nebula-tracker", "by the count"),
        ("spark-batches", "late at once"),
        ("spark-batches", "empty streams hold"),
    ],
    long=[(rule, mistake) for rule, mistake, _ in MUTANTS],
)
"""The mistakes whose histories are shrunk: in `make test` those with the longest smallest history of each rule."""


@pytest.mark.parametrize(
    ("rule", "machine"), [(r, machine) for r, mistake, machine in MUTANTS if (r, mistake) in SHRUNK]
)
def test_every_step_of_the_smallest_history_is_needed(rule: str, machine: Any) -> None:
    shrunk = find_disagreement(machine, rule, examples=100)
    if shrunk is None:
        return  # the test above says how many these may be
    for left_out in range(len(shrunk.steps)):
        shorter = History(shrunk.parameters, shrunk.steps[:left_out] + shrunk.steps[left_out + 1 :])
        start = RULES[rule].start(**shrunk.parameters)
        try:
            expected = [start.step(step) for step in shorter.steps]
        except WmlabError:
            continue  # not a history of this rule, for example one whose watermarks fall
        assert first_difference(machine, rule, shorter, expected) is None, (left_out, shrunk)


@pytest.mark.parametrize("rule", RULES)
def test_a_machine_of_the_rule_itself_is_never_refused(rule: str) -> None:
    compare_with_rule(RULES[rule].start, rule, examples=50)


def test_a_disagreement_is_shrunk_and_its_test_fails_for_the_mutant_only() -> None:
    found = find_disagreement(Silent, "flink-valve", examples=100)
    assert found is not None
    assert found.steps == ({"op": "idle", "channel": 0},)
    assert (dict(found.parameters), found.answer, found.expected) == ({"channels": 1}, [], ["IDLE"])
    assert found.sentence == "After 1 step Silent answers [], where the rule 'flink-valve' answers ['IDLE']."
    assert "def test_silent_answers_as_flink_valve():" in repr(found)
    for machine, fails in ((Silent, True), (Valve, False)):
        names = {"Silent": machine}
        exec(found.test, names)
        if fails:
            with pytest.raises(AssertionError):
                names["test_silent_answers_as_flink_valve"]()
        else:
            names["test_silent_answers_as_flink_valve"]()


def test_a_machine_that_differs_is_an_error_and_a_failed_test() -> None:
    with pytest.raises(DisagreementError, match="answers 1, where the rule 'bounded' answers 0") as refused:
        compare_with_rule(lambda bound: Late(bound), "bounded", examples=50)
    assert isinstance(refused.value, AssertionError)
    assert isinstance(refused.value, WmlabError)
    assert "machine = mine(bound=0)" in str(refused.value)


class Late:
    """Ahead by one."""

    def __init__(self, bound):
        self.of = RULES["bounded"].start(bound)

    def step(self, item):
        answer = self.of.step(item)
        return None if answer is None else answer + 1


class Raises:
    def __init__(self, **parameters):
        pass

    def step(self, item):
        raise KeyError("channel")


def test_a_machine_that_raises_an_error_does_not_answer() -> None:
    found = find_disagreement(Raises, "jet-coalescer", examples=50)
    assert found is not None
    assert "After 1 step Raises raised KeyError: 'channel', where the rule" in found.sentence


def test_answers_may_be_tuples_and_numbers_of_numpy_and_true_is_no_number() -> None:
    np = pytest.importorskip("numpy")

    class Tuples(Valve):
        def step(self, item):
            return tuple(np.int64(of) if isinstance(of, int) else of for of in super().step(item))

    class Flags(Valve):
        def step(self, item):
            return [bool(of) if of == 1 else of for of in super().step(item)]

    assert find_disagreement(Tuples, "flink-valve", examples=50) is None
    assert find_disagreement(Flags, "flink-valve", examples=200, shrink=False) is not None


class Once:
    """Answers wrongly one time only, whichever machine is asked: when so many answers have been given before."""

    def __init__(self, answers_before: int) -> None:
        self.left = answers_before

    def __call__(self, bound):
        outer, of = self, RULES["bounded"].start(bound)

        class Machine:
            def step(self, item):
                outer.left -= 1
                return 10**9 if outer.left == -1 else of.step(item)

        return Machine()


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("answers_before", [0, 1, 12, 90])
def test_a_machine_that_answers_one_history_in_two_ways_is_refused(
    answers_before: int, seed: int, shrink: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever histories are drawn first."""
    monkeypatch.setattr(compare, "_SEED", seed)
    machine = Once(answers_before)
    with pytest.raises(ModelError, match="Once answers one history in two ways"):
        find_disagreement(machine, "bounded", examples=50, shrink=shrink)
    assert machine.left < 0


@pytest.mark.parametrize("in_a_group", [True, False])
def test_it_is_refused_in_whatever_form_hypothesis_says_so(in_a_group: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that holds the difference is taken for the difference by `contextlib.suppress` of Python 3.12."""

    class InGroup(ExceptionGroup, errors.Flaky):
        pass

    different = [compare._DiffersError()]

    def given_that_ends(_: Any) -> Any:
        def judge() -> None:
            raise InGroup("flaky", different) if in_a_group else errors.Flaky("flaky")

        return lambda _: judge

    monkeypatch.setattr("hypothesis.given", given_that_ends)
    monkeypatch.setattr("hypothesis.seed", lambda _: lambda judge: judge)
    monkeypatch.setattr("hypothesis.settings", lambda **_: lambda judge: judge)
    with pytest.raises(ModelError, match="Late answers one history in two ways"):
        find_disagreement(Late, "bounded", examples=50)


def test_a_machine_that_answers_at_random_differs() -> None:
    class Random(Late):
        def step(self, item):
            return random.SystemRandom().randrange(2**60)

    assert find_disagreement(Random, "bounded", examples=50) is not None


def test_histories_are_a_strategy_for_properties_of_ones_own() -> None:
    seen = []

    @settings(max_examples=60)
    @given(wm.testing.histories("flink-bounded"))
    def collect(history):
        seen.extend(history.steps)
        clocks = [step["now"] for step in history.steps if "now" in step]
        assert clocks == sorted(clocks)

    collect()
    records = [step for step in seen if step["op"] == "record"]
    assert {step["op"] for step in seen} == {"record", "tick", "restart"}
    assert any(step["time"] > step["now"] for step in records)
    assert any(step["time"] < step["now"] for step in records)
    assert len({step["writer"] for step in records}) == 3


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda: compare_with_rule(Valve, "valve"), "no rule 'valve'"),
        (lambda: compare_with_rule(Valve, "flink-valve", examples=0), "examples is 0"),
        (lambda: compare_with_rule(Valve(2), "flink-valve"), "makes no machine"),
        (lambda: wm.testing.histories("valve"), "no rule 'valve'"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, problem) -> None:
    with pytest.raises(ModelError, match=problem):
        ask()


def test_without_hypothesis_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(
        ModelError, match=r"not installed\.\nTo repair it: install it: python -m pip install hypothesis"
    ):
        compare_with_rule(Valve, "flink-valve")


def test_a_mutant_whose_class_has_no_name_is_called_mine() -> None:
    found = find_disagreement(bounded(more=1), "bounded", examples=50)
    assert found is not None
    assert found.machine == "mine"
