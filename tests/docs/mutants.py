"""Without a feature that a row of docs/seeds.md names, the tests that the row names fail.

A mutant is wmlab without one feature: an option reads as another value whatever it is set to, an action is left out of
every script, an argument of a verb is not passed, a rule refuses to be called. Each mutant is a process of its own,
which imports the tests after the feature is gone; the processes are forked from one that has imported wmlab.

    python -m tests.docs.mutants [TEXT ...]      # rows that have one of the texts; without, all of them
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import inspect
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import pytest

import wmlab as wm
from tests.docs.names import ROOT, Row, in_backticks, names_for, parsed, rows
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.values import Timed

SCENARIOS: Final = (wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario)
MODELS: Final = ("wmlab.streams.model", "wmlab.dataflow.model", "wmlab.progress.model")


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """A feature by its name on the page, and what takes it away from this process."""

    name: str
    apply: Callable[[], None]


def features(row: Row) -> Iterator[Mutant]:
    """A mutant for each option, action and rule that a row names."""
    document = row.heading.partition(":")[0]
    for quoted in in_backticks(row.cells[2]):
        file, name, options = parsed(quoted)
        if file:
            if file.endswith(".py") and [*functions_of(file, name)]:
                yield Mutant(quoted, functools.partial(refuse_rule, file, name))
            continue
        target = names_for(document).get(name)
        for option, text in options.items():
            if inspect.isclass(target):
                for value in other_values(target, option, text):
                    called = f"{name}({option} is {value!r})"
                    yield Mutant(called, functools.partial(force_option, target, option, value))
            elif callable(target):
                yield Mutant(f"{name} without {option}", functools.partial(drop_argument, name, option))
        if inspect.isclass(target) and issubclass(target, Timed) and not options:
            yield Mutant(name, functools.partial(leave_out, target))


def force_option(part: type, option: str, value: object) -> None:
    """Let an option of a class read as one value, and that of the same name in values of the models."""
    owners = [part, *(kind for kind in model_values() if any(f.name == option for f in dataclasses.fields(kind)))]
    for owner in owners:
        _read_as(owner, option, lambda _: value)


def other_values(part: Any, option: str, text: str) -> list[Any]:
    """What an option is when it is not the value on the page.

    That is what `sound` sets, or its default, or else another value that it can have; where the page leaves the value
    open, each of the values that it can have.
    """
    field = next(field for field in dataclasses.fields(part) if field.name == option)
    tables = [values for kind in SCENARIOS for base, values in kind.rule_table.items() if issubclass(part, base)]
    by_rules = next((values[option] for values in tables if option in values), ())
    candidates = [*by_rules[::-1]]
    if not by_rules and field.default is not dataclasses.MISSING:
        candidates.append(field.default)
    if field.default_factory is not dataclasses.MISSING:
        candidates.append(field.default_factory())
    choices = [*by_rules, *_choices(field.type)]
    candidates += choices
    if text == "...":
        return list(dict.fromkeys(candidates)) or [1]
    return [next(value for value in [*candidates, True, False, 1] if str(value) != text.strip('"'))]


def _choices(annotation: Any) -> list[Any]:
    """The values of a `Literal` somewhere in an annotation."""
    if get_origin(annotation) is Literal:
        return [*get_args(annotation)]
    return [choice for inner in get_args(annotation) for choice in _choices(inner)]


@functools.cache
def model_values() -> tuple[type, ...]:
    """The dataclasses of the folders `model`."""
    found: dict[type, None] = {}
    for package in map(import_module, MODELS):
        for module in pkgutil.iter_modules(package.__path__):
            content = vars(import_module(f"{package.__name__}.{module.name}")).values()
            found |= dict.fromkeys(kind for kind in content if inspect.isclass(kind) and dataclasses.is_dataclass(kind))
    return tuple(found)


def _read_as(owner: Any, field: str, read: Callable[[Any], Any]) -> None:
    """Let a field of all values of a class read as something else, however they are made."""
    setattr(owner, field, property(read, lambda _, value: None))


def leave_out(action: type) -> None:
    """Leave actions of one kind out of every script."""
    for scenario in SCENARIOS:
        if any(field.name == "script" for field in dataclasses.fields(scenario)):
            setattr(scenario, "script", _Without(action))  # noqa: B010


class _Without:
    """The script of a scenario without the actions of one kind."""

    def __init__(self, action: type) -> None:
        self.action = action

    def __get__(self, scenario: Any, owner: type | None = None) -> tuple[Any, ...]:
        script = () if scenario is None else scenario.__dict__["script"]
        return tuple(action for action in script if not isinstance(action, self.action))

    def __set__(self, scenario: Any, script: Any) -> None:
        scenario.__dict__["script"] = script


def drop_argument(verb: str, argument: str) -> None:
    """Call a verb of recordings of streams without an argument."""
    name = verb.rpartition(".")[2]
    recording: Any = names_for("Pravega")[verb]
    owner = next(kind for kind in wm.trace.Recording.__subclasses__() if getattr(kind, name, None) is recording)

    def without(self: Any, *args: Any, **options: Any) -> Any:
        options.pop(argument, None)
        return recording(self, *args, **options)

    setattr(owner, name, without)


def refuse_rule(file: str, name: str) -> None:
    """Let a rule raise when it is called, a class in each of its methods."""
    for function in functions_of(file, name):
        function.__code__ = _refusal(len(function.__code__.co_freevars)).__code__


def functions_of(file: str, name: str) -> Iterator[Any]:
    """The functions of a rule: itself, its getter, or the methods of a class; a constant or an enumeration has none."""
    module = import_module(file.removesuffix(".py").replace("/", "."))
    rule = vars(module).get(name, _member(module, name))
    if inspect.isclass(rule):
        if not issubclass(rule, enum.Enum):
            yield from (each for each in vars(rule).values() if inspect.isfunction(each))
    elif isinstance(rule, property):
        yield rule.fget
    elif callable(rule) and inspect.isfunction(inspect.unwrap(rule)):
        yield inspect.unwrap(rule)


def _refusal(closed_over: int) -> Any:
    """A function that raises whatever it is given. It closes over as many values as the one that it stands for."""
    names = [f"value_{number}" for number in range(closed_over)]
    lines = [
        f"def outer({', '.join(names)}):",
        "    def refuse(*_, **__):",
        f"        raise AssertionError('this rule is gone', {', '.join(names)})",
        "    return refuse",
    ]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)
    return made["outer"](*names)


def _member(module: Any, name: str) -> Any:
    """A method or property of a class of the module, by its name alone."""
    classes = (kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == module.__name__)
    return next((vars(kind)[name] for kind in classes if name in vars(kind)), None)


def failed_tests(mutant: Mutant, tests: Iterable[str]) -> frozenset[str]:
    """Which of some tests fail without a feature, in a process of its own.

    Raises `RuntimeError` if they cannot be run, which is not a failure of a test.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.suppress(BaseException):
            os.write(writer, json.dumps(_run(mutant, sorted(set(tests)))).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeError(f"The tests cannot be run without {mutant.name}.")
    return frozenset(json.loads(answer))


class _Failures:
    """A plugin of pytest that notes which tests fail, by the name on the page."""

    def __init__(self) -> None:
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid.removeprefix("tests/").partition("[")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid.removeprefix("tests/"))


def _run(mutant: Mutant, tests: list[str]) -> list[str]:
    """The tests that fail in this process, which has no output."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir(ROOT)
    mutant.apply()
    failures = _Failures()
    # What is imported already is not rewritten for assertions.
    options = ["-n0", "--long", "--assert=plain", "-p", "no:nbval", "-p", "no:cacheprovider"]
    # One file after the other: one that cannot be imported without the feature keeps pytest from running any.
    for file in sorted({test.partition("::")[0] for test in tests}):
        of_file = [f"tests/{test}" for test in tests if test.partition("::")[0] == file]
        outcome = pytest.main([*options, *of_file], plugins=[failures])
        if outcome != pytest.ExitCode.OK and not any(test.startswith(file) for test in failures.failed):
            raise RuntimeError(f"pytest ends with {outcome}.")
    return [test for test in tests if {test, test.partition("::")[0]} & failures.failed]


def passing_without_features(page: Iterable[Row]) -> dict[str, list[str]]:
    """By requirement, the tests of each row that pass whatever feature of the row is gone.

    Rows that name no option, action or rule are left out: what they name is a table or an answer.
    """
    by_row = {row: [*features(row)] for row in page}
    tests_of = {row: in_backticks(row.cells[4]) for row in page}
    tests: dict[str, set[str]] = {}
    mutants: dict[str, Mutant] = {}
    for row, named in by_row.items():
        for mutant in named:
            mutants[mutant.name] = mutant
            tests.setdefault(mutant.name, set()).update(tests_of[row])
    failed: Mapping[str, frozenset[str]] = {name: failed_tests(mutant, tests[name]) for name, mutant in mutants.items()}
    passing = {
        row.cells[0]: [test for test in tests_of[row] if not any(test in failed[mutant.name] for mutant in by_row[row])]
        for row in by_row
        if by_row[row]
    }
    return {requirement: survivors for requirement, survivors in passing.items() if survivors}


def page() -> list[Row]:
    """The rows of docs/seeds.md."""
    return rows(Path(ROOT / "docs" / "seeds.md").read_text(encoding="utf-8"))


def main(texts: list[str]) -> int:
    """Prints the tests that pass without the features of their rows; returns 1 if there are any."""
    chosen = [row for row in page() if not texts or any(text in " ".join(row.cells) for text in texts)]
    passing = passing_without_features(chosen)
    for requirement, tests in passing.items():
        print(requirement, *tests, sep="\n    ")
    print(f"{len(passing)} of {len(chosen)} rows have a test that passes without what they name.")
    return 1 if passing else 0


if __name__ == "__main__":
    assert issubclass(wm.Scenario, ScenarioFile)
    sys.exit(main(sys.argv[1:]))
