"""A hunt: it runs and checks variations of a scenario, and shrinks those that break an invariant as far as possible.

A variation is a configuration, a seed, and some of the faults that are offered, in some order. If there are few, all of
them are run, the smallest first; else some are drawn. Each recording is judged in memory by the rules of the checks of
its kind, so a hunt starts no Spark.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import permutations
from math import perm
from random import Random
from typing import Any, ClassVar, Final, TypeAlias

import pyarrow as pa

from wmlab.core.ablation import Ablation, WeightiestOption, record_quietly, weightiest
from wmlab.core.answers import TableAnswer
from wmlab.core.arguments import the_duration, the_flag, the_number
from wmlab.core.errors import ModelError, ScenarioError, WmlabError
from wmlab.core.invariants import Verdict
from wmlab.core.scenario_file import ScenarioFile
from wmlab.core.shrinking import smallest
from wmlab.core.words import counted, listed, shown

__all__ = ["Hunt", "Variation", "Violation", "hunt"]

Configurations: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By label, the fields of the scenario that are replaced."""
OwnInvariant: TypeAlias = Callable[[Any], str | None]
"""An invariant of your own: says of a recording what is violated, or None."""
_AS_IT_IS: Final[Configurations] = {"as it is": {}}
_MOST_RUNS: Final = 100_000
_MOST_RUNS_TO_SHRINK: Final = 1_000
_MOST_DRAWN: Final = 10
"""How many variations are drawn at most for each run."""


@dataclass(frozen=True, slots=True)
class Variation:
    """One run of a hunt: what was varied, and the invariants that it broke.

    `configuration` is a label, `faults` are the indices of the faults among those offered, in the order in which they
    happen. `refused` is why the scenario is invalid: then nothing was run. `failed` is why an execution of the run
    failed, None if none did.
    """

    configuration: str
    faults: tuple[int, ...]
    seed: int
    violated: tuple[str, ...] = ()
    refused: str | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Violation:
    """An invariant that a variation broke, and the smallest scenario that breaks it.

    `first_run` is the number of the run that broke it, from 1, and `runs` is the number of further runs to shrink it.
    `minimal` says that no single part of the scenario can be left out, and no single field reset.
    """

    invariant: str
    configuration: str
    statement: str
    what: str
    scenario: Any
    first_run: int
    runs: int
    minimal: bool
    title: str = ""

    @property
    def faults(self) -> int:
        """How many faults the smallest scenario has."""
        return len(getattr(self.scenario, _field_of_faults(self.scenario)))

    @property
    def lines(self) -> int:
        """How many lines the smallest scenario has as YAML, or in words if it has a Python function."""
        return len(self.text.splitlines())

    @property
    def text(self) -> str:
        """The smallest scenario as YAML; in words if it has a Python function, which no file can hold."""
        try:
            return self.to_yaml()
        except ScenarioError:
            return repr(self.scenario)

    @property
    def sentence(self) -> str:
        """What was broken, and by what, in one sentence."""
        by = counted(self.faults, "fault") if self.faults else "no fault"
        return (
            f"{self.invariant} ({self.title or self.statement}) is violated with {by}, in run {self.first_run} and "
            f"configuration {self.configuration!r}: {self.what}."
        )

    def to_yaml(self) -> str:
        """The smallest scenario as YAML text; raises `ScenarioError` if it has a Python function."""
        return str(self.scenario.to_yaml())

    def to_test(self) -> str:
        """A test in Python that fails as long as the smallest scenario breaks the invariant.

        Raises `ScenarioError` if the scenario has a Python function: `scenario` is then to be built in the test.
        """
        code = str(self.scenario.to_python()).removeprefix("import wmlab as wm\n\n")
        body = "\n".join(f"    {line}" if line else "" for line in code.rstrip("\n").splitlines())
        return (
            "import wmlab as wm\n\n\n"
            f"def test_{self.invariant.lower()}_holds() -> None:\n"
            f"{body}\n"
            f"    found = wm.hunt(scenario, invariants=[{self.invariant!r}])\n"
            "    assert not found.violations, found\n"
        )

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{self.text}"


@dataclass(frozen=True, repr=False)
class Hunt(TableAnswer[Violation]):
    """The result of a hunt: a `Violation` for each invariant that a configuration broke, and every run.

    `exhaustive` says that all variations were run, and not only a random sample. `offered` names the faults; the
    indices in a `Variation` refer to it. `options` has each option in which two sets of rules differ, if `ablate` was
    given, with the variation in which it matters most; the most important one comes first.
    """

    name: str
    violations: tuple[Violation, ...]
    runs: tuple[Variation, ...]
    offered: tuple[str, ...]
    exhaustive: bool
    options: tuple[WeightiestOption, ...] = ()

    entries: ClassVar[str] = "violations"
    heads: ClassVar[tuple[str, ...]] = ("", "configuration", "run", "faults", "lines", "what")
    left: ClassVar[tuple[int, ...]] = (0, 1, 5)
    columns: ClassVar[Mapping[str, str]] = {
        "run": "the run that broke it first, from 1",
        "faults": "how many faults the smallest scenario has",
        "lines": "how many lines the smallest scenario has as YAML, or in words if it has a Python function",
    }
    schema: ClassVar[pa.Schema] = pa.schema(
        [(name, pa.string()) for name in ("invariant", "configuration", "statement", "what")]
        + [pa.field(name, pa.int64(), nullable=False) for name in ("first_run", "faults", "lines", "runs")]
    )

    @cached_property
    def exercised(self) -> Mapping[str, int]:
        """In how many runs each fault and each configuration was used, by name; 0 for those without a run."""
        counts = Counter[str]()
        labels = dict.fromkeys(run.configuration for run in self.runs)
        for run in self.runs:
            if run.refused is None:
                counts.update([run.configuration, *(self.offered[index] for index in run.faults)])
        return {name: counts[name] for name in (*labels, *self.offered)}

    @property
    def sentence(self) -> str:
        """How many runs there were, and what they broke, in one sentence; and that nothing was varied, if so."""
        ran = sum(run.refused is None for run in self.runs)
        kind = "all variations" if self.exhaustive else "drawn at random"
        broken = listed([f"{violation.invariant} ({violation.configuration})" for violation in self.violations])
        never = [name for name, count in self.exercised.items() if not count]
        without = f"; never exercised: {listed(never)}" if never else ""
        reasons = [run.failed for run in self.runs if run.failed is not None]
        without += f"; {len(reasons)} of them failed, the first one with: {reasons[0]}" if reasons else ""
        if len(self.runs) == 1 and self.exhaustive:
            return (
                f"Nothing was varied: one run of {self.name!r} violated {broken or 'nothing'}{without}. "
                "To vary it, give faults=[...], seeds=[...] or configurations={...}."
            )
        text = f"{counted(ran, 'run')} of {self.name!r}, {kind}, violated {broken or 'nothing'}{without}."
        if not self.options:
            return text
        weighty = self.options[0].effect.parts_ms is not None
        most = f"The option that matters most is {self.options[0].sentence}" if weighty else "No option changes a run."
        return f"{text} {most}"

    def __repr__(self) -> str:
        options = ["\n".join(map(repr, self.options))] if self.options else []
        return "\n\n".join([self.sentence, *options, *map(repr, self.violations)])

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        for broken in self.violations:
            yield broken.invariant, broken.configuration, broken.first_run, broken.faults, broken.lines, broken.what


def hunt(
    scenario: Any,
    faults: Sequence[Any] = (),
    invariants: Sequence[str | OwnInvariant] = (),
    *,
    configurations: Configurations = _AS_IT_IS,
    seeds: Sequence[int] | None = None,
    most_faults: int = 3,
    quiet_ms: int | str = 0,
    runs: int = 200,
    seed: int = 0,
    shrink: bool = True,
    ablate: tuple[str, str] | None = None,
    stream: str | None = None,
) -> Hunt:
    """Look for variations of a scenario that violate an invariant, and shrink each as far as possible.

    `scenario` is of any kind, and `faults` are possible entries of its `script`, or of the `faults` of a dataflow. A
    variation adds up to `most_faults` of them, in any order: the selected faults exchange their moments.
    `configurations` gives, by label, the fields of the scenario to replace, such as {"shipped": {"rules":
    "implementation"}}, and `seeds` gives its possible seeds, by default its own. During the last `quiet_ms` (ms),
    nothing new is sent, so that everything can come to rest; then the liveness invariants are checked, too.
    `invariants` are names as in `check`, or your own functions, which take the recording and return a sentence about
    the violation, or None. The default is all invariants that are checked in memory. Without faults, seeds and
    configurations, there is one run of the unchanged scenario, and the answer says that nothing was varied.

    With `ablate`, two sets of rules such as ("sound", "design"), each variation is also run with each option changed
    alone, as `scenario.ablate` does, and the answer has for each option the variation in which it matters most.
    `stream` chooses one of several streams or queries for that.

    If there are at most `runs` variations, all of them are run, those with the fewest faults first; otherwise `runs` of
    them are drawn by `seed`. A variation that the scenario refuses, such as a crash of a writer that is down, is listed
    with the reason and is not a run. For each invariant and configuration, the first violation is kept, and shrunk if
    `shrink` is True. Raises `ModelError` for an unknown invariant and for invalid arguments, `ScenarioError` for a
    fault that the scenario never accepts, and the error of a replaced field.
    """
    shrink = the_flag(shrink, "shrink", ModelError)
    if ablate is not None and (not isinstance(ablate, tuple | list) or len(ablate) != 2):
        raise ModelError(f"ablate is {shown(ablate)}.", remedy='give two sets of rules, as in ("sound", "design").')
    _require(scenario, faults, configurations)
    quiet_ms = the_duration(quiet_ms, ModelError, name="quiet_ms", least_ms=0)
    runs = the_number(runs, ModelError, name="runs", least=1, most=_MOST_RUNS)
    most_faults, seed = (
        the_number(number, ModelError, name=name, least=0)
        for name, number in (("most_faults", most_faults), ("seed", seed))
    )
    seeds = (scenario.seed,) if seeds is None else tuple(seeds)
    if not seeds:
        raise ModelError("seeds is empty.", remedy="give one seed or more, or leave it out.")
    field = _field_of_faults(scenario)
    made = {label: scenario.replace(**fields) for label, fields in configurations.items()}
    offered = _names(faults)
    space = _Space(tuple(made), seeds, len(faults), min(most_faults, len(faults)))

    def varied(variation: Variation) -> Any:
        base = made[variation.configuration]
        added = _in_order([faults[index] for index in variation.faults])
        entries = (*getattr(base, field), *added)
        return base.replace(**{field: entries}, seed=variation.seed).followed_by_quiet(quiet_ms)

    _refuse_faults_that_never_fit(varied(Variation(next(iter(made)), (), seeds[0])), faults, field)
    done: list[Variation] = []
    ablations: list[tuple[Any, Ablation]] = []
    first: dict[tuple[str, str], tuple[int, Any, Verdict]] = {}
    exhaustive = space.size <= runs
    refused = 0
    # A variation that cannot be, in which a writer crashes while it is down for one, is not a run: another one is
    # drawn.
    drawn = space.drawn(Random(seed), min(space.size, _MOST_DRAWN * runs))
    for variation in space.all() if exhaustive else drawn:
        if not exhaustive and len(done) - refused == runs:
            break
        try:
            whole = varied(variation)
            verdicts, failed = _judged(whole, invariants, quiet=quiet_ms > 0)
            if ablate is not None:
                ablations.append((whole, whole.ablate(*ablate, stream=stream)))
        except ScenarioError as refusal:
            done.append(dataclasses.replace(variation, refused=str(refusal)))
            refused += 1
            continue
        broken = tuple(verdict for verdict in verdicts if verdict.verdict == "violated")
        names = tuple(verdict.invariant for verdict in broken)
        done.append(dataclasses.replace(variation, violated=names, failed=failed))
        for verdict in broken:
            first.setdefault((verdict.invariant, variation.configuration), (len(done), whole, verdict))
    own = {_name_of(each): each for each in invariants if callable(each)}
    violations = tuple(
        _violation(configuration, number, whole, verdict, own.get(verdict.invariant), shrink=shrink)
        for (_, configuration), (number, whole, verdict) in first.items()
    )
    return Hunt(scenario.name, violations, tuple(done), offered, exhaustive, weightiest(ablations))


def _violation(
    configuration: str, number: int, whole: Any, verdict: Verdict, own: OwnInvariant | None, *, shrink: bool
) -> Violation:
    """The violation, with its scenario as small as it can be."""
    name = verdict.invariant
    asked = (own or name,)
    runs, minimal = 0, False
    if shrink:

        def violates(scenario: Any) -> bool:
            return _judged(scenario, asked)[0][0].verdict == "violated"

        least = smallest(whole, violates, most_runs=_MOST_RUNS_TO_SHRINK)
        whole, runs, minimal = least.scenario, least.runs, least.minimal
        (verdict,), _ = _judged(whole, asked)
    what, title = str(verdict.what), verdict.title
    return Violation(name, configuration, verdict.statement, what, whole, number, runs, minimal, title)


def _judged(
    scenario: Any, invariants: Sequence[str | OwnInvariant], *, quiet: bool = False
) -> tuple[list[Verdict], str | None]:
    """The verdicts on a run of the scenario, and why an execution of it failed, None if none did."""
    recording = record_quietly(scenario)
    checks = import_module(f"wmlab.{recording.kind}.checks")
    names = tuple(each for each in invariants if not callable(each))
    verdicts = [_verdict(each, recording) for each in invariants if callable(each)]
    if names or not invariants:
        verdicts += checks.in_memory(recording, *names)
    if quiet and not invariants:
        verdicts += checks.in_memory(recording, *checks.LIVENESS)
    executions = recording.table("executions").to_pylist() if "executions" in recording.tables else []
    reasons = [str(each["reason"]) for each in executions if each["outcome"] == "failed"]
    return verdicts, reasons[0] if reasons else None


def _verdict(own: OwnInvariant, recording: Any) -> Verdict:
    """The verdict of a function; raises `ModelError` if it answers with anything but a text or None."""
    what = own(recording)
    if what is not None and not isinstance(what, str):
        raise ModelError(
            f"{_name_of(own)} answers {shown(what)}.", remedy="return what is violated, in words, or None."
        )
    statement = (own.__doc__ or _name_of(own)).strip().partition("\n")[0]
    return Verdict(
        invariant=_name_of(own),
        statement=statement,
        verdict="ok" if what is None else "violated",
        judged=1,
        violations=int(what is not None),
        what=what,
    )


def _name_of(own: OwnInvariant) -> str:
    return str(getattr(own, "__name__", None) or type(own).__name__)


@dataclass(frozen=True, slots=True)
class _Space:
    """All variations: each configuration with each seed and each ordered choice of some of the faults."""

    labels: tuple[str, ...]
    seeds: tuple[int, ...]
    faults: int
    most_faults: int

    @property
    def size(self) -> int:
        """How many there are."""
        choices = sum(perm(self.faults, count) for count in range(self.most_faults + 1))
        return len(self.labels) * len(self.seeds) * choices

    def all(self) -> Iterator[Variation]:
        """All of them, those with the fewest faults first."""
        for count in range(self.most_faults + 1):
            for chosen in permutations(range(self.faults), count):
                for label in self.labels:
                    for seed in self.seeds:
                        yield Variation(label, chosen, seed)

    def drawn(self, random: Random, most: int) -> Iterator[Variation]:
        """Up to so many of them, each once: a configuration, a seed, how many faults, and which."""
        seen: set[Variation] = set()
        while len(seen) < most:
            count = random.randint(0, self.most_faults)
            chosen = tuple(random.sample(range(self.faults), count))
            variation = Variation(random.choice(self.labels), chosen, random.choice(self.seeds))
            if variation not in seen:
                seen.add(variation)
                yield variation


def _in_order(faults: Sequence[Any]) -> list[Any]:
    """The faults one after the other, at the moments that they have together; one without a moment keeps its place."""
    moments = iter(sorted(fault.at_ms for fault in faults if hasattr(fault, "at_ms")))
    return [dataclasses.replace(f, at_ms=next(moments)) if hasattr(f, "at_ms") else f for f in faults]


def _names(faults: Sequence[Any]) -> tuple[str, ...]:
    """What each fault is called: its kind, numbered if there are several of it."""
    kinds = [str(fault.kind) for fault in faults]
    counts, names = Counter(kinds), []
    for index, kind in enumerate(kinds):
        names.append(kind if counts[kind] == 1 else f"{kind} {kinds[: index + 1].count(kind)}")
    return tuple(names)


def _field_of_faults(scenario: Any) -> str:
    """The field of a scenario that has what goes wrong."""
    return "faults" if hasattr(scenario, "faults") else "script"


def _refuse_faults_that_never_fit(base: Any, faults: Sequence[Any], field: str) -> None:
    """Raise what the scenario says of a fault that it admits neither alone nor with all others."""

    def refusal(*added: Any) -> WmlabError | None:
        try:
            base.replace(**{field: (*getattr(base, field), *added)})
        except WmlabError as refused:
            return refused
        return None

    for fault in faults:
        if (alone := refusal(fault)) is not None and refusal(*faults) is not None:
            raise alone


def _require(scenario: Any, faults: Any, configurations: Any) -> None:
    """Raise `ModelError` for arguments that cannot be."""
    if not isinstance(scenario, ScenarioFile) or not hasattr(scenario, "record"):
        remedy = "give a wm.Scenario, a wm.dataflow.Dataflow or a wm.progress.PlanScenario."
        raise ModelError(f"{shown(scenario)} is not a scenario that can be run.", remedy=remedy)
    wrong = [fault for fault in faults if not hasattr(fault, "kind")] if isinstance(faults, list | tuple) else [faults]
    if wrong:
        remedy = "give a list of actions of its script, or of faults of a dataflow."
        raise ModelError(f"{shown(wrong[0])} is not a fault of a scenario.", remedy=remedy)
    if not isinstance(configurations, Mapping) or not configurations:
        remedy = 'give fields to replace by label, such as {"shipped": {"rules": "implementation"}}.'
        raise ModelError(f"configurations is {shown(configurations)}.", remedy=remedy)
