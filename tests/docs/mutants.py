"""Without a feature that a row of docs/seeds.md names, the tests that the row names fail.

A mutant is wmlab without one feature. Every name of a row has one or more:

    an option           reads as another value, whatever it is set to
    an argument         is not passed to its verb
    an action           is left out of every script, a fault out of every list of faults
    a column            reads as null, a table as empty
    an invariant        has no findings
    a scenario file     cannot be read
    a constant          is in no module, and neither is an enumeration
    a field             of a value of a model reads as None
    anything else       refuses to be called or made: a verb, a chart, a class, a rule

Two things are judged: each test of a row fails under one of the mutants of the row, and under each mutant of a row one
of its tests fails. Each mutant is a process of its own, which imports the tests after the feature is gone; the
processes are forked from one that has imported wmlab.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

import wmlab as wm
from tests.docs.names import (
    DOCUMENTS,
    INVARIANT,
    ROOT,
    Row,
    in_backticks,
    mentions,
    names_for,
    parsed,
    rows,
    source_of_test,
)
from wmlab.core import scenario_file
from wmlab.core.invariants import Invariant
from wmlab.core.rules import RuleSet
from wmlab.core.simulation import Journal
from wmlab.core.storage import RecordedTables

SCENARIOS: Final = (wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario)
MODELS: Final = ("wmlab.streams.model", "wmlab.dataflow.model", "wmlab.progress.model")


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """A feature, what takes it away from this process, and its name as the page quotes it."""

    name: str
    apply: Callable[[], None]
    quoted: str


def features(row: Row) -> Iterator[Mutant]:
    """The mutants of each name of a row."""
    document = row.heading.partition(":")[0]
    for quoted in in_backticks(row.cells[2]):
        file, name, options = parsed(quoted)
        if file.endswith(".py"):
            yield Mutant(quoted, functools.partial(remove_rule, file, name), quoted)
        elif file:
            yield Mutant(quoted, functools.partial(refuse_file, file), quoted)
        elif INVARIANT.fullmatch(name):
            yield Mutant(name, functools.partial(drop_findings, document, name), quoted)
        elif options:
            for called, apply in without_options(names_for(document)[name], name, options):
                yield Mutant(called, apply, quoted)
        else:
            yield Mutant(name, functools.partial(remove_name, names_for(document)[name], name), quoted)


def without_options(target: Any, name: str, options: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """For each option of a class, with each value that it may have instead, or each argument of a verb: its mutant."""
    for option, text in options.items():
        if inspect.isclass(target):
            for value in other_values(target, option, text):
                yield f"{name}({option} is {value!r})", functools.partial(force_option, target, option, value)
        else:
            yield f"{name} without {option}", functools.partial(drop_argument, name, option)


def remove_name(target: Any, name: str) -> None:
    """Take away what a name without options stands for."""
    if isinstance(target, pa.Schema):
        read_table_as(name, lambda table: table.slice(0, 0))
    elif isinstance(target, pa.Field):
        forget_column(*name.split("."))
    elif places := places_of(target):
        for scenario, field in places:
            setattr(scenario, field, _Without(field, target))
    elif inspect.isclass(target):
        target.__init__ = refuse
    else:
        refuse_call(inspect.unwrap(target))


def refuse(*_: object, **__: object) -> None:
    """What is left of a class that cannot be made."""
    raise AssertionError("this class is gone")


def read_table_as(name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Let a table of all recordings read as what a function makes of it."""
    whole, in_parts = RecordedTables.__getitem__, RecordedTables.chunks

    def read(tables: RecordedTables, asked: str) -> pa.Table:
        return change(whole(tables, asked)) if asked == name else whole(tables, asked)

    def read_in_parts(tables: RecordedTables, asked: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        parts = in_parts(tables, asked, columns)
        return map(change, parts) if asked == name else parts

    RecordedTables.__getitem__ = read  # type: ignore[method-assign]
    RecordedTables.chunks = read_in_parts  # type: ignore[method-assign]


def forget_column(table: str, column: str) -> None:
    """Let a column read as null, in recordings and in what a run has written."""

    class Row(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return None if key == column else super().__getitem__(key)

    def without(rows: pa.Table) -> pa.Table:
        if column not in rows.column_names:
            return rows
        index = rows.column_names.index(column)
        null = pa.nulls(rows.num_rows, rows.schema.field(index).type)
        return rows.set_column(index, pa.field(column, null.type), null)

    write = Journal.write

    def write_row(journal: Journal, name: str, **values: Any) -> Any:
        row = write(journal, name, **values)
        if name == table:
            row = journal.rows[name][-1] = Row(row)
        return row

    Journal.write = write_row  # type: ignore[method-assign]
    read_table_as(table, without)


def drop_findings(document: str, name: str) -> None:
    """Let an invariant have no findings."""
    package = DOCUMENTS[document][0].__module__.rpartition(".")[0]
    for values in vars(import_module(f"{package}.checks")).values():
        if isinstance(values, Mapping) and isinstance(entry := values.get(name), Invariant):
            none = functools.wraps(entry.findings)(lambda **_: ())
            object.__setattr__(entry, "findings", none)


def refuse_file(path: str) -> None:
    """Let a scenario file be one that cannot be read."""
    read = scenario_file.read_scenario_text

    def read_others(source: str | Path) -> str:
        if Path(source).stem == Path(path).stem:
            raise AssertionError("this file is gone")
        return read(source)

    scenario_file.read_scenario_text = read_others


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
    annotation = get_type_hints(part, include_extras=True)[option]
    said = part.decided.get(option) if issubclass(part, RuleSet) else None
    by_rules = () if said is None else [said.values[name] for name in ("design", "implementation", "sound")]
    candidates = [*by_rules[::-1]]
    if not by_rules and field.default is not dataclasses.MISSING:
        candidates.append(field.default)
    if field.default_factory is not dataclasses.MISSING:
        candidates.append(field.default_factory())
    choices = [*by_rules, *_choices(annotation)]
    candidates += choices
    if text == "...":
        return list(dict.fromkeys(candidates)) or [1]
    return [next(value for value in [*candidates, True, False, 1] if str(value) != text.strip('"'))]


def _choices(annotation: Any) -> list[Any]:
    """The values of a `Literal` or of `bool` somewhere in an annotation."""
    inside = _inside(annotation)
    literals = [choice for each in inside if get_origin(each) is Literal for choice in get_args(each)]
    return [*literals, *([True, False] if bool in inside else [])]


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


def places_of(target: Any) -> list[tuple[type, str]]:
    """The scenarios that take an action or a fault of that class, each with the field for it."""
    annotations = [(kind, get_type_hints(kind, include_extras=True)) for kind in SCENARIOS]
    return [
        (kind, field)
        for kind, by_field in annotations
        for field in ("script", "faults")
        if target in _inside(by_field.get(field))
    ]


def _inside(annotation: Any) -> list[Any]:
    """An annotation and all that it is made of."""
    return [annotation, *(each for inner in get_args(annotation) for each in _inside(inner))]


class _Without:
    """A field of a scenario without the entries of one kind."""

    def __init__(self, field: str, kind: type) -> None:
        self.field, self.kind = field, kind

    def __get__(self, scenario: Any, owner: type | None = None) -> tuple[Any, ...]:
        entries = () if scenario is None else scenario.__dict__[self.field]
        return tuple(entry for entry in entries if not isinstance(entry, self.kind))

    def __set__(self, scenario: Any, entries: Any) -> None:
        scenario.__dict__[self.field] = entries


def drop_argument(verb: str, argument: str) -> None:
    """Call a verb of recordings of streams without an argument."""
    name = verb.rpartition(".")[2]
    recording: Any = names_for("Pravega")[verb]
    owner = next(kind for kind in wm.trace.Recording.__subclasses__() if getattr(kind, name, None) is recording)

    def without(self: Any, *args: Any, **options: Any) -> Any:
        options.pop(argument, None)
        return recording(self, *args, **options)

    setattr(owner, name, without)


def remove_rule(file: str, name: str) -> None:
    """Let a rule raise when it is called, a class in each of its methods; a constant or an enumeration is in no module.

    A field of a class reads as None.
    """
    module = import_module(file.removesuffix(".py").replace("/", "."))
    rule = vars(module).get(name)
    if rule is None:
        for owner in [kind for kind in vars(module).values() if inspect.isclass(kind) and name in vars(kind)]:
            member = vars(owner)[name]
            function = member.fget if isinstance(member, property) else inspect.unwrap(member)
            if inspect.isfunction(function):
                refuse_call(function)
            else:
                _read_as(owner, name, lambda _: None)
    elif inspect.isclass(rule) and not issubclass(rule, enum.Enum):
        for function in filter(inspect.isfunction, vars(rule).values()):
            refuse_call(function)
    elif inspect.isfunction(rule):
        refuse_call(inspect.unwrap(rule))
    else:
        for user in [each for key, each in sys.modules.items() if key.partition(".")[0] == "wmlab"]:
            if vars(user).get(name) is rule:
                delattr(user, name)


def refuse_call(function: Any) -> None:
    """Let a function raise, wherever it is called by whatever name."""
    function.__code__ = _refusal(len(function.__code__.co_freevars)).__code__


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
    """A plugin of pytest that notes which tests fail, by the name on the page, and which files cannot be imported."""

    def __init__(self) -> None:
        self.tests: set[str] = set()
        self.files: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tests.add(report.nodeid.removeprefix("tests/").partition("[")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.files.add(report.nodeid.removeprefix("tests/"))


def _run(mutant: Mutant, tests: list[str]) -> list[str]:
    """The tests that fail in this process, which has no output.

    Of a file that cannot be imported those fail that mention what is gone.
    """
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
        noticed = file in failures.files or any(test.startswith(file) for test in failures.tests)
        if outcome != pytest.ExitCode.OK and not noticed:
            raise RuntimeError(f"pytest ends with {outcome}.")
    return [
        test
        for test in tests
        if test in failures.tests
        or (test.partition("::")[0] in failures.files and mentions(source_of_test(test) or "", mutant.quoted))
    ]


def mistakes(page: Iterable[Row]) -> dict[str, list[str]]:
    """By requirement, the tests of each row that fail under no mutant of the row, and the mutants that none notices."""
    by_row = {row: [*features(row)] for row in page}
    tests_of = {row: in_backticks(row.cells[4]) for row in page}
    tests: dict[tuple[str, str], set[str]] = {}
    mutants: dict[tuple[str, str], Mutant] = {}
    for row, named in by_row.items():
        for mutant in named:
            mutants[row.heading, mutant.name] = mutant
            tests.setdefault((row.heading, mutant.name), set()).update(tests_of[row])
    failed = {key: failed_tests(mutant, tests[key]) for key, mutant in mutants.items()}
    wrong = {}
    for row, named in by_row.items():
        noticed = {mutant.name: failed[row.heading, mutant.name].intersection(tests_of[row]) for mutant in named}
        needed = set().union(*noticed.values())
        wrong[row.cells[0]] = [f"{test} needs nothing of the row" for test in tests_of[row] if test not in needed]
        wrong[row.cells[0]] += [f"no test fails without {name}" for name, failing in noticed.items() if not failing]
    return {requirement: sentences for requirement, sentences in wrong.items() if sentences}


def page() -> list[Row]:
    """The rows of docs/seeds.md."""
    return rows(Path(ROOT / "docs" / "seeds.md").read_text(encoding="utf-8"))


def main(texts: list[str]) -> int:
    """Prints the mistakes of the rows that have one of the texts; returns 1 if there are any."""
    chosen = [row for row in page() if not texts or any(text in " ".join(row.cells) for text in texts)]
    wrong = mistakes(chosen)
    for requirement, sentences in wrong.items():
        print(requirement, *sentences, sep="\n    ")
    print(f"{len(wrong)} of {len(chosen)} rows have a mistake.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
