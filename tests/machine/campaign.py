"""Many runs of a machine: made in shards, each from a seed of its own, judged as they come, gathered for Spark.

The runs of a shard depend on its seed and on nothing else. A shard only makes runs; the smallest scenario that breaks a
promise is looked for afterwards, by `smallest`.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, Phase, Verbosity, seed as seeded, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.base import Machine, Violated
from tests.machine.batch import TABLES, Batch, Given, given_of, of_run
from tests.machine.hazards import EndsThatAreNone, PravegaCuts, StaleMarks
from tests.machine.judge import Findings, judge, violated
from tests.machine.rules import Everything
from wmlab.core import shrinking
from wmlab.streams.api import Scenario

RUNS_OF_A_SHARD: Final = 250
STEPS: Final = 10
MOST_RUNS_TO_SHRINK: Final = 1_000


class SharedTimes(Everything):
    """Whatever can happen, with readers that share a map of times."""

    shares_times = True


class PravegaEverything(Everything):
    """Whatever can happen, with the cuts of the real system and every other deviation of a stream."""

    faults: ClassVar[Mapping[str, Any]] = {
        "cut_algorithm": "pravega",
        "bug_6510": True,
        "commit_without_time": "minimum_long",
        "empty_mark_after_roll": True,
    }
    timeouts_ms = timeouts_when_slow_ms = (0, 600)


MACHINES: Final[Mapping[str, type[Machine]]] = {
    "sound": Everything,
    "shared_times": SharedTimes,
    "faulty": PravegaEverything,
    "pravega": PravegaCuts,
    "bug_6510": EndsThatAreNone,
    "stale": StaleMarks,
}
"""The machines by name; all but the first two may break promises."""


@dataclass(frozen=True, slots=True)
class Shard:
    """What to make: which machine, how many runs, from which seed."""

    machine: str
    runs: int
    seed: int

    @property
    def name(self) -> str:
        """What the streams of its runs are called after."""
        return f"{self.machine}-{self.seed}"


@dataclass(slots=True)
class Made:
    """What came of a shard: all scenarios as YAML by run, the tables of all runs, and what the second judge found."""

    shard: Shard
    scenarios: dict[str, str] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    findings: Findings = field(default_factory=dict)
    broken: dict[str, frozenset[str]] = field(default_factory=dict)
    exercised: dict[str, frozenset[str]] = field(default_factory=dict)
    """By run, the kinds of its actions and the options in effect, as "option=value"."""
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> Counter[str]:
        """How many single things were judged, by invariant."""
        counts: Counter[str] = Counter()
        for (_, invariant), found in self.findings.items():
            counts[invariant] += found.judged
        return counts


class Enough(Exception):
    """A shard has its runs; hypothesis would go on, for it does not count repeated ones."""


def make(shard: Shard) -> Made:
    """Make the runs of a shard, each of them once."""
    made, batch = Made(shard), Batch()
    gc.freeze()  # what is there by now stays, and is much more to look through for garbage than what a run makes

    def keep(scenario: Scenario, given: Given, found: Findings) -> None:
        if len(made.scenarios) >= shard.runs:
            raise Enough
        run = f"{shard.name}-{len(made.scenarios)}"
        made.scenarios[run] = scenario.to_yaml()
        made.findings |= of_run(run, found)
        made.exercised[run] = exercised_by(scenario)
        made.kinds.update(action.kind for action in scenario.script)
        batch.add(run, given)
        if broken := violated(found):
            made.broken[run] = frozenset(broken)

    with suppress(Enough):
        _run(_doing(MACHINES[shard.machine], keep), shard, Phase.generate)
    made.tables = {name: batch.table(name) for name in TABLES}
    return made


def exercised_by(scenario: Scenario) -> frozenset[str]:
    """Which actions and which rules a scenario exercises."""
    rules = (f"{path.rpartition('.')[2]}={value}" for path, value in scenario.options.items())
    return frozenset({action.kind for action in scenario.script} | {*rules})


def smallest(shard: Shard, invariant: str | None = None, *, shrink: bool = True) -> Violated | None:
    """The smallest scenario found that breaks a promise, or this one; the first one found without `shrink`."""

    def raise_if_broken(scenario: Scenario, given: Given, found: Findings) -> None:
        broken = violated(found)
        if broken and invariant in (None, *broken):
            raise Violated(broken, scenario)

    try:
        _run(_doing(MACHINES[shard.machine], raise_if_broken), shard, Phase.generate)
    except Violated as found:
        return _shrunk(found, invariant) if shrink else found
    return None


def _shrunk(found: Violated, invariant: str | None) -> Violated:
    """The smallest scenario that breaks the promise that is named, by default the first of those that were broken."""

    def broken(scenario: Scenario) -> set[str]:
        return violated(judge(given_of(scenario.record(progress=False))))

    wanted = invariant or min(found.invariants, key=lambda name: int(name[1:]))
    least = shrinking.smallest(found.scenario, lambda s: wanted in broken(s), most_runs=MOST_RUNS_TO_SHRINK)
    return Violated(broken(least.scenario), least.scenario)


def _doing(kind: type[Machine], done: Callable[[Scenario, Given, Findings], None]) -> type[Machine]:
    """The machine with another end of its runs."""

    class Doing(kind):  # type: ignore[valid-type,misc]
        def done(self, *outcome: Any) -> None:
            done(*outcome)

    Doing.__name__ = kind.__name__
    return Doing


def _run(machine: type[Machine], shard: Shard, *phases: Phase) -> None:
    """Run the machine from the shard's seed, whatever modules are loaded.

    Now and then hypothesis would draw a number that stands in a module of wmlab or of its tests: an edit anywhere in
    them would change the runs of every seed.
    """
    seeded(shard.seed)(machine)
    with patch.object(HypothesisProvider, "_maybe_draw_constant", return_value=None):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=shard.runs,
                stateful_step_count=STEPS,
                phases=phases,
                database=None,
                deadline=None,
                derandomize=True,
                print_blob=False,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
                verbosity=Verbosity.quiet,
            ),
        )


def shards(machine: str, runs: int, seed: int) -> list[Shard]:
    """The shards that make so many runs, with consecutive seeds."""
    sizes = [RUNS_OF_A_SHARD] * (runs // RUNS_OF_A_SHARD) + ([runs % RUNS_OF_A_SHARD] if runs % RUNS_OF_A_SHARD else [])
    return [Shard(machine, size, seed + number) for number, size in enumerate(sizes)]
