"""The switch `rules`: the table of the documentation is that of the code, and a set option overrides it."""

import dataclasses
import re
from pathlib import Path

import pytest

import wmlab as wm
from wmlab.core.scenario_file import ScenarioFile, with_changes
from wmlab.core.values import UNSET, Problems, Rules
from wmlab.dataflow.scenario.dataflow import DataflowScenario
from wmlab.progress.scenario import ProgressScenario
from wmlab.streams.scenario.scenario import StreamScenario

KINDS: tuple[type[ScenarioFile], ...] = (StreamScenario, DataflowScenario, ProgressScenario)
TABLE = [
    (part, name, values)
    for kind in KINDS
    for part, options in kind.rule_table.items()
    for name, values in options.items()
]
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"


def scenario(**fields):
    given = {"writers": [wm.EventWriter("w", rate_per_s=1)], "readers": wm.ReaderGroup(), "duration_ms": 1_000}
    return wm.Scenario("s", **given | fields)


def test_the_documented_table_is_that_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(.+?)` \| `(.+?)` \| `(.+?)` \|$", DESIGN.read_text("utf-8"), re.M)
    assert rows == [(part.__name__, name, *map(repr, values)) for part, name, values in TABLE]


@pytest.mark.parametrize(("part", "name", "values"), TABLE, ids=lambda entry: getattr(entry, "__name__", str(entry)))
def test_every_option_of_the_table_is_unset_by_default_and_the_rules_differ(part, name, values):
    field = {f.name: f for f in dataclasses.fields(part)}[name]
    assert field.default is UNSET
    assert len(set(values)) > 1


@pytest.mark.parametrize("rules", Rules.__args__)
def test_what_the_rules_set_is_what_a_part_may_say(rules):
    filled = scenario(rules=rules).resolved
    again = wm.Scenario.from_yaml(filled.to_yaml())
    assert again == filled


@pytest.mark.parametrize("rules", Rules.__args__)
def test_a_set_option_overrides_the_rules_and_is_all_that_a_file_says(rules):
    written = scenario(
        rules=rules, stream=wm.Stream(note_rule="design"), controllers=wm.Controllers(double_work_entry=False)
    )
    assert written.options["stream.note_rule"] == "design"
    assert written.options["controllers.double_work_entry"] is False
    assert wm.Scenario.from_yaml(written.to_yaml()) == written
    assert written.to_dict()["stream"] == {"note_rule": "design"}


def test_a_run_follows_the_rules_and_a_recording_keeps_what_was_written():
    pair = [scenario(rules="implementation"), scenario(readers=wm.ReaderGroup(publish_timer="pravega"))]
    runs = [one.replace(duration_ms=20_000).record(progress=False) for one in pair]
    assert runs[0].table("positions") == runs[1].table("positions")
    assert runs[0].scenario["rules"] == "implementation"
    assert "publish_timer" not in runs[0].scenario["readers"]


def test_a_change_of_a_part_sets_only_that_and_a_scenario_shows_what_is_in_effect():
    one = scenario(rules="design")
    left = with_changes(one, {("rules",): "implementation"})
    assert left.stream == one.stream
    changed = with_changes(left, {("stream", "bug_6510"): False})
    assert changed.options["readers.read_side"] == "implementation"
    assert changed.options["stream.bug_6510"] is False
    assert "read_side=&#x27;document&#x27;" in one._repr_html_()


def test_an_unknown_rule_is_refused():
    with pytest.raises(Problems, match="design"):
        scenario(rules="pravega")
