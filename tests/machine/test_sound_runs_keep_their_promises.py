"""Whatever happens to a sound stream, I1 to I12 hold; and enough happens for that to mean something."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from tests.machine.campaign import Made, Shard, make
from tests.machine.conftest import wanted
from tests.machine.judge import RULES
from tests.repetitions import repetitions
from wmlab.core.values import Timed
from wmlab.streams.api import Scenario
from wmlab.streams.checks import in_memory
from wmlab.streams.scenario import script
from wmlab.streams.scenario.script import Action


def of(made: list[Made], machine: str) -> list[Made]:
    return [one for one in made if one.shard.machine == machine]


def test_no_run_on_a_sound_stream_breaks_a_promise(made: list[Made]) -> None:
    broken = [
        f"{', '.join(sorted(invariants))} violated by\n{one.scenarios[run]}"
        for one in [*of(made, "sound"), *of(made, "shared_times")]
        for run, invariants in one.broken.items()
    ]
    assert broken == []


@pytest.mark.parametrize("machine", ["sound", "shared_times", "faulty"])
def test_nearly_all_scenarios_differ(made: list[Made], machine: str) -> None:
    texts = [text for one in of(made, machine) for text in one.scenarios.values()]
    assert len(texts) == sum(shard.runs for shard in wanted() if shard.machine == machine)
    assert len(set(texts)) > 0.9 * len(texts)


def test_everything_that_a_script_can_say_happened(made: list[Made]) -> None:
    happened: Counter[str] = sum((one.kinds for one in of(made, "sound")), Counter())
    kinds = {
        name: made.kind
        for name, made in vars(script).items()
        if isinstance(made, type) and issubclass(made, Timed) and made is not Timed
    }
    assert len(kinds) == len(get_args(get_args(Action)[0]))
    assert {kind for kind in kinds.values() if happened[kind] < 3} == set()


def test_every_rule_had_much_to_judge(made: list[Made]) -> None:
    judged: Counter[str] = sum((one.judged for one in of(made, "sound")), Counter())
    assert {name for name in RULES if judged[name] < repetitions(400, long=2_000)} == set()


CHOICES = {
    "cycles": ("while_noted", "unconditional"),
    "note_rule": ("implementation", "design"),
    "txn_marks": ("per_batch", "per_transaction"),
    "committer": ("by_hash", "leader"),
    "auto_note_survives_close": (False, True),
    "probe_on_seal": (True, False),
    "publish_timer": ("fixed", "pravega"),
    "distribution": ("even", "contest"),
}
"""The rules that the machine of sound streams leaves to chance."""


def test_every_rule_that_may_be_chosen_was_in_force_in_many_runs(made: list[Made]) -> None:
    runs = [exercised for one in of(made, "sound") for exercised in one.exercised.values()]
    assert len(runs) == sum(len(one.scenarios) for one in of(made, "sound"))
    counts = Counter(name for exercised in runs for name in exercised)
    wanted = {f"{option}={value}" for option, values in CHOICES.items() for value in values}
    assert {name for name in wanted if counts[name] < 0.02 * len(runs)} == set()


def test_sound_runs_come_to_rest() -> None:
    """Once everybody is silent, the last cycle emits, or the recording says who prevents it."""
    verdicts: Counter[str] = Counter()
    runs = repetitions(40, long=120)
    for text in make(Shard("sound", runs, seed=900)).scenarios.values():
        recording = Scenario.from_yaml(text).followed_by_quiet(2_500).record(progress=False)
        (verdict,) = in_memory(recording, "I14")
        assert verdict.verdict != "violated", f"{verdict}\n{text}"
        verdicts[verdict.verdict] += 1
    assert verdicts["ok"] > 0.7 * runs
