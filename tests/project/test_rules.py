"""Rules as one value: its table is that of the documentation, and all else about an option follows from its line."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest

import wmlab as wm
from wmlab.core.rules import Option, option
from wmlab.core.scenario_file import with_changes
from wmlab.core.values import Problems, value
from wmlab.streams.panel.fields import fields_of, parts_of

KINDS = [wm.Scenario, wm.dataflow.Dataflow, wm.progress.PlanScenario]
"""The kinds of scenarios that follow rules."""
OPTIONS = [(kind.rule_set, name) for kind in KINDS for name in kind.rule_set.decided]
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
PARTS = (wm.Stream, wm.EventWriter, wm.ReaderGroup, wm.Controllers)


def scenario(**fields):
    given = {"writers": [wm.EventWriter("w", rate_per_s=1)], "readers": wm.ReaderGroup(), "duration_ms": 1_000}
    return wm.Scenario("s", **given | fields)


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_table_is_made_from_the_rules(kind):
    rules = kind.rule_set
    heads = ["option", "part", *rules.sets]
    rows = [[f"`{row[head]}`" if head != "part" else row[head] for head in heads] for row in rules.table().to_pylist()]
    lines = [heads, ["---"] * len(heads), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" if cells[0] != "---" else "|---" * len(cells) + "|" for cells in lines)
    assert table in DESIGN.read_text("utf-8"), table


@pytest.mark.parametrize(("rules", "name"), OPTIONS, ids=lambda entry: getattr(entry, "users_call_it", entry))
def test_an_option_is_unset_by_default_its_sets_differ_and_the_document_says_something_of_it(rules, name):
    said = rules.decided[name]
    assert getattr(rules(), name) is None
    assert len({repr(said.values[one]) for one in rules.sets}) > 1
    assert said.meaning
    assert said.sentence
    assert said.source
    assert f"`{name}`: " in inspect.getdoc(rules)
    for one in rules.sets:
        assert getattr(rules(one, **{name: said.values[one]}), name) == said.values[one]


def test_a_field_of_a_part_is_no_option_and_a_newcomer_reads_few():
    assert sum(len(inspect.signature(part).parameters) for part in PARTS) <= 58
    for part in PARTS:
        assert not {field.name for field in dataclasses.fields(part)} & wm.Rules.decided.keys()
        text = inspect.getdoc(part)
        assert len(text.splitlines()) <= 20
        assert [f.name for f in dataclasses.fields(part) if f"`{f.name}`" not in text and f.name != "kind"] == []


@pytest.mark.parametrize("rules", wm.Rules.sets)
def test_what_a_set_of_rules_has_is_what_one_may_write(rules):
    filled = scenario(rules=rules).resolved
    assert wm.Scenario.from_yaml(filled.to_yaml()) == filled
    assert filled.resolved == filled
    assert filled.options == scenario(rules=rules).options


@pytest.mark.parametrize("rules", wm.Rules.sets)
def test_a_set_option_is_all_that_a_file_says_besides_the_set(rules):
    written = scenario(rules=wm.Rules(rules, note_rule="design", double_work_entry=False))
    assert written.options["note_rule"] == "design"
    assert written.options["double_work_entry"] is False
    assert wm.Scenario.from_yaml(written.to_yaml()) == written
    base = {} if rules == "sound" else {"base": rules}
    assert written.to_dict()["rules"] == base | {"note_rule": "design", "double_work_entry": False}
    assert written.to_dict().get("rules") != rules
    assert scenario(rules=rules).to_dict().get("rules", "sound") == rules


def test_rules_in_files_and_code_are_a_name_or_a_value():
    made = wm.Rules("sound", cut_algorithm="document")
    one = scenario(rules=made)
    text = one.to_yaml().replace("rules:\n", "rules:\n  base: sound\n")
    assert "base: sound\n  cut_algorithm: document" in text
    assert wm.Scenario.from_yaml(text) == one
    assert wm.Scenario.from_yaml(scenario().to_yaml() + "rules: design\n") == scenario(rules="design")
    assert repr(wm.Rules("design", forgets="behind")) == "Rules('design', forgets='behind')"
    assert (
        "rules=wm.Rules('design', forgets='behind')" in scenario(rules=wm.Rules("design", forgets="behind")).to_python()
    )


def test_replace_drops_the_options_and_with_rules_keeps_them():
    one = scenario(rules=wm.Rules("sound", forgets="all"))
    assert one.replace(rules="design").rules == wm.Rules("design")
    assert one.with_rules("implementation").rules == wm.Rules("implementation", forgets="all")
    assert one.with_rules(cycles="unconditional").rules == wm.Rules("sound", forgets="all", cycles="unconditional")
    assert "with_rules" in wm.Scenario.replace.__doc__
    changed = one.replace(duration_ms=2_000)
    assert changed.resolved.duration_ms == 2_000
    assert one.resolved.replace(rules="design").resolved.rules.forgets == "all"
    assert one.resolved.replace(rules=wm.Rules("sound")).resolved.rules.forgets == "behind"


def test_an_option_is_pinned_at_the_value_of_its_set():
    pinned = scenario(rules=wm.Rules("sound", forgets="behind"))
    assert pinned != scenario()
    assert pinned.options == scenario().options
    unaffected = [name for name, _, make in pinned.option_changes("design") if make is None]
    assert "forgets" in unaffected


def test_a_run_follows_the_rules_and_a_recording_keeps_what_was_written():
    pair = [scenario(rules="implementation"), scenario(rules=wm.Rules(publish_timer="pravega"))]
    runs = [one.replace(duration_ms=20_000).record(progress=False) for one in pair]
    assert runs[0].table("positions") == runs[1].table("positions")
    assert runs[0].scenario["rules"] == "implementation"
    assert runs[1].scenario["rules"] == {"publish_timer": "pravega"}


def test_a_change_of_the_rules_sets_only_that_and_a_scenario_shows_what_is_in_effect():
    one = scenario(rules="design")
    left = with_changes(one, {("rules",): "implementation"})
    assert left == one.replace(rules="implementation")
    changed = with_changes(left, {("rules", "bug_6510"): False})
    assert changed.options["read_side"] == "implementation"
    assert changed.options["bug_6510"] is False
    assert "read_side=&#x27;document&#x27;" in one._repr_html_()


@pytest.mark.parametrize("offered", ["pravega", None, 5, wm.Stream()])
def test_rules_that_are_none_are_refused_with_those_that_are(offered):
    with pytest.raises(Problems, match=r"rules: .*'design', 'implementation', 'sound', or wm\.Rules\(\.\.\.\)"):
        scenario(rules=offered)


def test_an_option_that_is_unknown_or_has_another_value_is_named():
    with pytest.raises(Problems, match=r"forget: no such field, did you mean forgets\?"):
        wm.Rules(forget="all")
    with pytest.raises(Problems, match=r"rules\.forgets .*'behind' or 'all' \(got 'none'\)"):
        wm.Scenario.from_yaml(scenario().to_yaml() + "rules: {forgets: none}\n")
    with pytest.raises(Problems, match="base: input should be 'design', 'implementation' or 'sound'"):
        wm.Rules("pravega")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("name", "given", "code", "text"),
    [("forgets", "all", "forgets='all'", "forgets: 'all'"), ("bug_6510", True, "bug_6510=True", "bug_6510: True")],
)
def test_an_option_that_is_given_to_a_part_is_answered_with_what_to_write(part, name, given, code, text):
    with pytest.raises(Problems) as refused:
        part(**{name: given})
    hint = f"{name}: is an option of the rules; give the scenario rules=wm.Rules({code}), in a file rules: {{{text}}}"
    assert hint in str(refused.value)
    assert "did you mean" not in str(refused.value)


def test_an_option_at_another_place_of_a_scenario_is_answered_with_what_to_write():
    hint = r"give the scenario rules=wm\.Rules\(forgets='all'\)"
    with pytest.raises(Problems, match=hint):
        scenario(forgets="all")
    with pytest.raises(Problems, match=rf"stream\.forgets \(line \d+\).*{hint}"):
        wm.Scenario.from_yaml(scenario().to_yaml() + "stream: {forgets: all}\n")
    with pytest.raises(Problems, match=r"0\.3\)|no such field"):
        wm.Stream(loss=0.3)


NEEDS = [
    ({"stream": wm.Stream(visit_order="newest_first")}, "stream.visit_order", {"cut_algorithm": "pravega"}),
    ({"streams": [wm.Stream("a"), wm.Stream("s", visit_order="oldest_first")]}, "streams[1].visit_order",
     {"cut_algorithm": "document"}),
    ({"readers": wm.ReaderGroup(read_every_ms=50)}, "readers.read_every_ms", {"publish_timer": "pravega"}),
    ({"readers": wm.ReaderGroup(read_every_ms=50)}, "readers.read_every_ms",
     {"read_side": "document", "enters_time": "on_passing"}),
    ({"readers": [wm.ReaderGroup(group_refresh_ms=500)]}, "readers[0].group_refresh_ms", {"publish_timer": "pravega"}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "where", "rules"), NEEDS)
def test_a_field_that_only_some_options_use_is_refused_by_the_sound_rules_alone(fields, where, rules):
    if "streams" in fields:
        fields = fields | {"writers": [wm.EventWriter("w", rate_per_s=1, stream="a")], "readers": []}
    with pytest.raises(Problems) as refused:
        scenario(**fields)
    (problem,) = refused.value.problems
    assert problem.path == where
    assert "has no effect by the sound rules; leave it out, or give the scenario rules=wm.Rules(" in problem.message
    made = scenario(**fields, rules=wm.Rules(**rules))
    assert made.with_rules("design").with_rules("implementation").with_rules("sound") == made
    scenario(**fields, rules="design")
    scenario(**fields, rules="implementation")


@pytest.mark.parametrize("field", ["visit_order", "read_every_ms", "group_refresh_ms", "redistribute_every_ms"])
def test_a_field_and_the_options_that_it_matters_by_name_each_other(field):
    (part,) = [part for part in PARTS if field in {f.name for f in dataclasses.fields(part)}]
    (line,) = [line for line in inspect.getdoc(part).splitlines() if line.startswith(f"`{field}`")]
    options = re.findall(r"`(\w+)=", line)
    assert options
    assert [name for name in options if field not in wm.Rules.decided[name].meaning] == []


@value
class _More(wm.Rules):
    wakes: Option[Literal["at_once", "later"]] = option(
        "when a reader wakes up.", "ReaderGroup", "Nobody", design="later", implementation="at_once", sound="at_once",
        sentence="It wakes.", source="Nowhere",
    )  # fmt: skip


@value
class _Ruled(wm.Scenario):
    rules: _More = _More()
    rule_set = _More


def test_an_option_is_added_in_one_line_of_one_class():
    given = {"writers": [wm.EventWriter("w", rate_per_s=1)], "readers": wm.ReaderGroup(), "duration_ms": 1_000}
    one = _Ruled("s", **given, rules=_More("design", forgets="behind"))
    assert "`wakes`: when a reader wakes up." in inspect.getdoc(_More)
    assert "wakes" in inspect.signature(_More).parameters
    assert get_args(get_type_hints(_More)["wakes"])[0] == Literal["at_once", "later"]
    assert _More.table().to_pylist()[-1] == {
        "option": "wakes", "part": "ReaderGroup, Nobody", "design": "'later'", "implementation": "'at_once'",
        "sound": "'at_once'", "meaning": "when a reader wakes up.", "sentence": "It wakes.", "source": "Nowhere",
    }  # fmt: skip
    assert len(_More.table()) == len(wm.Rules.table()) + 1
    assert one.options["wakes"] == "later"
    assert one.resolved.rules.wakes == "later"
    assert one.with_rules("sound").options["wakes"] == "at_once"
    ((said, make),) = [(said, make) for name, said, make in one.option_changes("sound") if name == "wakes"]
    assert (said.values["design"], said.values["sound"]) == ("later", "at_once")
    assert make().rules == _More("design", forgets="behind", wakes="at_once")
    (unread,) = [make for name, _, make in one.replace(readers=None).option_changes("sound") if name == "wakes"]
    assert unread is None
    pinned = one.with_rules(wakes="later")
    assert _Ruled.from_yaml(pinned.to_yaml()) == pinned
    assert "wakes: later" in pinned.to_yaml()
    (form,) = parts_of(one, "Rules")
    (field,) = [field for field in fields_of(one, form) if field.path == ("rules", "wakes")]
    assert (field.label, field.help, field.empty) == ("Wakes", "When a reader wakes up.", "later, by the rules")
    assert "wakes" not in wm.Rules.decided


def test_rules_of_another_model_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Others:
        base: str = "design"

    with pytest.raises(Problems, match="rules: give one of"):
        scenario(rules=Others())
