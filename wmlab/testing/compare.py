"""Compares your machine with the rule that it should follow, and finds the smallest history in which they differ.

Histories are drawn by hypothesis, always the same ones, and shrunk by it to the fewest steps and smallest numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from unittest.mock import patch

from wmlab.core.answers import Answer
from wmlab.core.arguments import the_flag, the_number
from wmlab.core.errors import ModelError, WmlabError
from wmlab.core.words import counted, shown
from wmlab.testing.cases import ANYTHING
from wmlab.testing.known_rules import History, Machine, Rule, Step, rule_of
from wmlab.testing.program import ProgramError

EXAMPLES: Final = 500
"""Histories that are drawn if nothing else is said."""
_SEED: Final = 0
_MOST_EXAMPLES: Final = 1_000_000


class DisagreementError(WmlabError, AssertionError):
    """A machine does not answer like the rule that it should follow; the message has a test that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Disagreement(Answer):
    """A history in which a machine answers its last step differently from the rule, which answers `expected`.

    `answer` is the machine's answer, or a text that begins with "raised" if it raised an error. `in_json` is whether
    answers are shown as JSON, as for a program.
    """

    rule: str
    machine: str
    parameters: Mapping[str, Any]
    steps: tuple[Step, ...]
    answer: Any
    expected: Any
    in_json: bool = False

    @property
    def sentence(self) -> str:
        """What differs, in one sentence."""
        return f"{self.clause[0].upper()}{self.clause[1:]}."

    @property
    def clause(self) -> str:
        """The same as a part of a sentence."""
        after = counted(len(self.steps), "step")
        write = json.dumps if self.in_json else repr
        answer = self.answer if isinstance(self.answer, _Raised) else f"answers {write(self.answer)}"
        return f"after {after} {self.machine} {answer}, where the rule {self.rule!r} answers {write(self.expected)}"

    @property
    def test(self) -> str:
        """A Python test that shows it; paste it where the machine can be imported."""
        parameters = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        name = "".join(sign if sign.isalnum() else "_" for sign in self.rule)
        lines = [
            f"def test_{self.machine.lower()}_answers_as_{name}():",
            f"    machine = {self.machine}({parameters})",
            "    steps = [",
            *(f"        {dict(step)!r}," for step in self.steps),
            "    ]",
            "    answers = [machine.step(step) for step in steps]",
            f"    assert answers[-1] {'is' if self.expected is None else '=='} {self.expected!r}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{self.test}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.sentence)}</p><pre>{escape(self.test)}</pre>"


class _Raised(str):
    """Of a machine that raised an error instead of answering: which one."""

    __slots__ = ()


class _DiffersError(Exception):
    """What hypothesis is told of a history in which the two differ."""


def compare_with_rule(mine: Callable[..., Machine], rule: str, *, examples: int = EXAMPLES) -> None:
    """Raise `DisagreementError` if your machine does not answer like a rule, with the smallest such history.

    `mine` is called with the parameters of the rule by name, and returns an object whose `step` takes a dict and
    returns the answer; `RULES` describes the steps and answers of each rule. Use it in your own test:

        def test_my_valve():
            wm.testing.compare_with_rule(MyValve, rule="flink-valve")

    The same `examples` histories are drawn each time, by hypothesis. Raises `ModelError` for an unknown rule, if
    hypothesis is not installed, and if the machine answers one history in two ways.
    """
    if disagreement := find_disagreement(mine, rule, examples=examples):
        remedy = "correct the machine, or compare it with another rule."
        raise DisagreementError(f"{disagreement.sentence} As a test:\n\n{disagreement.test}\n", remedy=remedy)


def find_disagreement(
    mine: Callable[..., Machine],
    rule: str,
    *,
    examples: int = EXAMPLES,
    shrink: bool = True,
    called: str = "",
    goes_on: Callable[[], bool] = lambda: True,
) -> Disagreement | None:
    """The smallest history in which a machine does not answer like a rule; None if no drawn history shows a difference.

    No step of the smallest history can be left out. With `shrink=False` it is the first one found; `called` is the name
    of the machine in words; before each history `goes_on` says whether to judge it. Raises as `compare_with_rule`, but
    for `DisagreementError`.
    """
    the_flag(shrink, "shrink", ModelError)
    of = rule_of(rule)
    _require(mine, examples)
    try:
        from hypothesis import HealthCheck, Phase, errors, given, seed, settings
        from hypothesis.internal.conjecture import providers
        from hypothesis.internal.constants_ast import Constants

        from wmlab.testing.drawn import histories
    except ImportError as missing:
        raise ModelError(
            "Histories are drawn by hypothesis, which is not installed.",
            remedy="install it: python -m pip install hypothesis.",
        ) from missing
    disagreements: list[Disagreement] = []
    failed: list[ProgramError] = []

    # Without a number hypothesis would draw by the text of this function: other histories after each change of it.
    @seed(_SEED)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    @given(histories(rule))
    def judge(history: History) -> None:
        differs = None
        # A program that has failed is not asked again while hypothesis tries to shrink.
        if not failed and goes_on():
            try:
                differs = first_difference(mine, rule, history, _answers(of, history), called=called)
                disagreements.extend([differs] if differs else [])
            except ProgramError as failure:
                failed.append(failure)
        # To hypothesis, errors that are raised in two places are two.
        if failed or differs:
            raise _DiffersError

    # Otherwise hypothesis would also draw the numbers that it finds in modules of a project that happen to be loaded.
    with patch.multiple(providers, _get_local_constants=Constants, CONSTANTS_CACHE={}):
        flaky = _ends_flaky(judge, errors.Flaky)
    if failed:
        raise failed[0]
    if flaky:
        raise ModelError(
            f"{_name(mine)} answers one history in two ways.",
            remedy="Let each machine start again, and depend on nothing but its steps.",
        )
    if not disagreements:
        return None
    return without_needless_steps(disagreements[-1], mine, of, called) if shrink else disagreements[-1]


def _ends_flaky(judge: Callable[[], None], flaky: type[Exception]) -> bool:
    """Whether hypothesis has seen a history differ, and then not.

    It says so by a group of errors that holds `_DiffersError`, which `suppress` would take for that error itself.
    """
    try:
        judge()
    except flaky:
        return True
    except _DiffersError:
        return False
    return False


def without_needless_steps(
    disagreement: Disagreement, mine: Callable[..., Machine], of: Rule, called: str
) -> Disagreement:
    """The disagreement without each step that can be left out, until every one is needed.

    Hypothesis leaves out what it has drawn, as the time that passes before a step; here the times of the others stay.
    """
    number = 0
    while number < len(disagreement.steps):
        steps = disagreement.steps[:number] + disagreement.steps[number + 1 :]
        shorter = History(disagreement.parameters, steps)
        number += 1
        try:
            expected = list(_answers(of, shorter))
        except ModelError:
            continue  # it is not a history of this rule, for example one whose watermarks fall
        if differs := first_difference(mine, of.name, shorter, expected, called=called):
            disagreement, number = differs, 0
    return disagreement


def _require(mine: object, examples: object) -> None:
    the_number(examples, ModelError, name="examples", least=1, most=_MOST_EXAMPLES)
    if not callable(mine):
        raise ModelError(f"{shown(mine)} makes no machine.", remedy="Give a class, or a function of the parameters.")


def _answers(rule: Rule, history: History) -> Iterator[Any]:
    """What the rule answers, step by step."""
    machine = rule.start(**history.parameters)
    return (machine.step(step) for step in history.steps)


def first_difference(
    mine: Callable[..., Machine], rule: str, history: History, expected: Iterable[Any], *, called: str = ""
) -> Disagreement | None:
    """The first step that a machine answers otherwise than is expected of it; None if there is none."""
    machine: Machine | None = None
    for number, (step, wanted) in enumerate(zip(history.steps, expected, strict=True), 1):
        try:
            machine = machine or mine(**history.parameters)
            answer = plain(machine.step(dict(step)))
        except ProgramError:
            raise
        except Exception as error:
            answer = _Raised(f"raised {type(error).__name__}: {error}")
        if wanted is not ANYTHING and not _same(answer, wanted):
            return Disagreement(
                rule=rule,
                machine=called or _name(mine),
                parameters=history.parameters,
                steps=history.steps[:number],
                answer=answer,
                expected=wanted,
                in_json=bool(called),
            )
    return None


def _same(answer: Any, wanted: Any) -> bool:
    """Whether two answers are one; True is not a number, although Python takes it for 1."""
    if isinstance(answer, list) and isinstance(wanted, list):
        return len(answer) == len(wanted) and all(map(_same, answer, wanted))
    return bool(answer == wanted) and isinstance(answer, bool) == isinstance(wanted, bool)


def plain(answer: Any) -> Any:
    """An answer as JSON would have it: tuples as lists, numbers of numpy as those of Python."""
    if isinstance(answer, list | tuple):
        return [plain(part) for part in answer]
    return answer.item() if hasattr(answer, "item") and getattr(answer, "shape", None) == () else answer


def _name(mine: Any) -> str:
    """How a test calls what makes the machine."""
    name = getattr(mine, "__name__", None) or type(mine).__name__
    return name if str(name).isidentifier() else "mine"
