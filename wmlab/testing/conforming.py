"""A program in any language, judged by a rule: first the cases of a table, then random histories."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from wmlab.core.answers import Answer
from wmlab.core.words import counted, grouped
from wmlab.testing.cases import cases_of
from wmlab.testing.compare import Disagreement, find_disagreement, first_difference, without_needless_steps
from wmlab.testing.known_rules import rule_of
from wmlab.testing.program import Program


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Conformance(Answer):
    """Whether a program answers like a rule and, if not, the smallest history in which it differs.

    `cases` counts the cases that it has passed, `examples` the random histories that were judged, of `wanted`. `case`
    is the name of the case in which it failed, if it is a case of a table; its history is shrunk. `answer_s` is how
    long an answer takes on average.
    """

    rule: str
    command: tuple[str, ...]
    cases: int
    examples: int
    wanted: int
    answer_s: float
    case: str | None = None
    disagreement: Disagreement | None = None

    @property
    def conforms(self) -> bool:
        """Whether no disagreement was found."""
        return self.disagreement is None

    @property
    def sentence(self) -> str:
        """The result, in one sentence."""
        name = " ".join(self.command)
        if self.disagreement is None:
            passed = f" in {counted(self.cases, 'case')} and" if self.cases else " in"
            rest = f"; the time was over before the other {grouped(self.wanted - self.examples)}, an answer takes "
            late = f"{rest}{self.answer_s * 1_000:.0f} ms" if self.examples < self.wanted else ""
            return (
                f"{name!r} answers as the rule {self.rule!r}{passed} {grouped(self.examples)} random histories{late}."
            )
        where = f"In the case {self.case!r}" if self.case else "In a random history, the smallest that was found,"
        return f"{name!r} is not the rule {self.rule!r}. {where} {self.disagreement.clause}."

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of standard input with which the program shows the disagreement."""
        if self.disagreement is None:
            return ()
        start = {"start": self.rule, "parameters": dict(self.disagreement.parameters)}
        return tuple(json.dumps(message) for message in (start, *map(dict, self.disagreement.steps)))

    def __repr__(self) -> str:
        if self.disagreement is None:
            return self.sentence
        return "\n".join([self.sentence, "", *self.lines, f"expected: {json.dumps(self.disagreement.expected)}"])

    def _repr_html_(self) -> str:
        lines = escape("\n".join(self.lines))
        return f"<p>{escape(self.sentence)}</p>" + (f"<pre>{lines}</pre>" if lines else "")


def conformance(
    command: Sequence[str], rule: str, *, examples: int = 500, timeout_s: float = 5.0, limit_s: float = 300.0
) -> Conformance:
    """Judge a program by a rule of `RULES`, over its standard input and output.

    `command` is the program with its arguments. The protocol is one line of JSON for each line of JSON; see
    docs/how-to/conformance.md. After `limit_s` no more histories are judged, and the answer says how many were. Raises
    `ModelError` for an unknown rule, or if hypothesis is not installed, and `ProgramError` for a program that cannot be
    started, dies, does not answer within `timeout_s`, or writes no JSON.
    """
    name = rule_of(rule).name
    cases = cases_of(name)
    until_s = time.monotonic() + limit_s
    judged = 0

    def goes_on() -> bool:
        nonlocal judged
        judged += time.monotonic() < until_s
        return time.monotonic() < until_s

    with Program(command, name, timeout_s=timeout_s) as program:
        for number, case in enumerate(cases):
            differs = first_difference(program.machine, name, case.history, case.answers, called="the program")
            if differs:
                smaller = without_needless_steps(differs, program.machine, rule_of(name), "the program")
                return Conformance(
                    rule=name,
                    command=program.command,
                    cases=number,
                    examples=0,
                    wanted=examples,
                    answer_s=program.answer_s,
                    case=case.name,
                    disagreement=smaller,
                )
        differs = find_disagreement(program.machine, name, examples=examples, called="the program", goes_on=goes_on)
        program.end()
    return Conformance(
        rule=name,
        command=program.command,
        cases=len(cases),
        examples=min(judged, examples),
        wanted=examples,
        answer_s=program.answer_s,
        disagreement=differs,
    )
