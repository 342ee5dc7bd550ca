"""Every scenario that comes with wmlab: what its rules fill in, its text, its options, each option changed alone."""

from __future__ import annotations

import ast
import dataclasses
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


def options_by_hand(scenario: Any) -> Iterator[tuple[str, str, object, dict[str, object]]]:
    """Of each option of a part that there is: one of its parts, its name, what the rules give, what each set has."""
    made = {base.__name__ for part in parts_of(scenario) for base in type(part).__mro__}
    for row in scenario.rule_set.table().to_pylist():
        values = {name: ast.literal_eval(row[name]) for name in scenario.rule_set.sets}
        for part in made & set(row["part"].split(", ")):
            yield part, row["option"], getattr(scenario.rules, row["option"]), values


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
def test_the_options_of_a_stored_scenario_are_its_own_or_those_of_the_set(scenario: Any, rules: str) -> None:
    bare, kept = type(scenario.rules)(rules), scenario.with_rules(rules)
    for _, name, given, values in options_by_hand(scenario):
        assert bare.options[name] == getattr(bare.in_effect, name) == values[rules]
        assert kept.options[name] == (values[rules] if given is None else given)


@pytest.mark.parametrize("scenario", STORED)
def test_each_option_of_a_stored_scenario_is_changed_alone(scenario: Any) -> None:
    base = shortened(scenario)
    several = [part.name for part in getattr(base, "streams", ()) or getattr(base, "queries", ())]
    found = base.ablate("sound", "design", stream=several[0] if several else None)
    left_to_rules = {
        name
        for _, name, given, values in options_by_hand(base)
        if given is None and values["design"] != values["sound"]
    }
    assert {effect.option for effect in found} == left_to_rules
    # To note the time on entering needs a second option, and the document of the design has no map of times for it.
    assert {effect.option for effect in found if effect.refused} <= {"enters_time"}
    assert found.together.refused is None
