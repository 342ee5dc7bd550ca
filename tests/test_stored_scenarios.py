"""Every scenario that comes with wmlab: what its rules fill in, its text, its options, each option changed alone."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import wmlab as wm

KINDS = (wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario)
STORED = [pytest.param(kind.load(name), id=name) for kind in KINDS for name in kind.names()]
RULES = ("design", "implementation", "sound")


def parts_of(entry: Any) -> Iterator[Any]:
    """The value and all values in it, without the default stream where several are given."""
    if isinstance(entry, tuple):
        for inner in entry:
            yield from parts_of(inner)
    elif dataclasses.is_dataclass(entry):
        yield entry
        for field in dataclasses.fields(entry):
            if field.name != "stream" or not getattr(entry, "streams", ()):
                yield from parts_of(getattr(entry, field.name))


def options_by_hand(scenario: Any) -> Iterator[tuple[str, str, object, tuple[object, ...]]]:
    """Of each part, each option: its class, its name, what the part gives, and what the three sets of rules set."""
    for part in parts_of(scenario):
        # Of several classes of the table that a part extends, the nearest one has its options.
        nearest = next((made for made in type(part).__mro__ if made in scenario.rule_table), None)
        for name, values in scenario.rule_table[nearest].items() if nearest else ():
            yield nearest.__name__, name, getattr(part, name), values


def shortened(scenario: Any) -> Any:
    """A stream scenario of one second, so that fifteen runs take little; of its script what its readers wait for."""
    if not isinstance(scenario, wm.Scenario):
        return scenario
    kept = [dataclasses.replace(action, at_ms=500) for action in scenario.script if action.kind == "take_stream_cut"]
    return scenario.replace(script=kept, duration_ms=1_000)


@pytest.mark.parametrize("scenario", STORED)
def test_a_stored_scenario_is_read_back_as_it_runs(scenario: Any) -> None:
    kind, runs = type(scenario), scenario.resolved
    assert kind.from_yaml(scenario.to_yaml()) == scenario
    assert kind.from_yaml(runs.to_yaml()) == runs
    assert runs.resolved == runs
    assert runs.options == scenario.options


@pytest.mark.parametrize("scenario", STORED)
@pytest.mark.parametrize("rules", RULES)
def test_the_options_of_a_stored_scenario_are_those_of_its_parts(scenario: Any, rules: str) -> None:
    ruled = scenario.replace(rules=rules)
    expected = Counter(
        (name, repr(values[RULES.index(rules)] if given is None else given))
        for _, name, given, values in options_by_hand(ruled)
    )
    found = ruled.options
    assert Counter((path.rpartition(".")[2], repr(value)) for path, value in found.items()) == expected
    assert not (getattr(scenario, "streams", ()) and any(path.startswith("stream.") for path in found))


@pytest.mark.parametrize("scenario", STORED)
def test_each_option_of_a_stored_scenario_is_changed_alone(scenario: Any) -> None:
    base = shortened(scenario)
    several = [part.name for part in getattr(base, "streams", ()) or getattr(base, "queries", ())]
    found = base.ablate("sound", "design", stream=several[0] if several else None)
    left_to_rules = {
        f"{made}.{name}"
        for made, name, given, values in options_by_hand(base)
        if given is None and values[RULES.index("design")] != values[RULES.index("sound")]
    }
    if "DataflowScenario.mode" in left_to_rules:
        # A mode is some deviations, which are changed one at a time; between these two there is one.
        left_to_rules = left_to_rules - {"DataflowScenario.mode"} | {"Deviations.highest_held_back"}
    assert {effect.option for effect in found} == left_to_rules
    # To note the time on entering needs a second option, and the document of the design has no map of times for it.
    assert {effect.option for effect in found if effect.refused} <= {"ReaderGroup.enters_time"}
    assert found.together.refused is None
