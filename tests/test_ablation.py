"""What each option of a set of rules costs: it is changed alone, and its effect is that of the option."""

from __future__ import annotations

from typing import Any

import pytest

import wmlab as wm
from wmlab.core.ablation import Ablation, OptionEffect, first_difference_ms
from wmlab.core.errors import ModelError, RecordingError, ScenarioError

AHEAD = wm.Scenario(
    "a till that is ahead",
    stream=wm.Stream("sales", timestamp_aggregation_timeout_ms="6 s"),
    writers=[
        wm.EventWriter("till-1", rate_per_s=20, note_every_ms="1 s"),
        wm.EventWriter("till-2", rate_per_s=20, note_every_ms=None),
    ],
    readers=wm.ReaderGroup(publish_every_ms="1 s"),
    controllers=wm.Controllers(period_ms="2 s"),
    script=[
        wm.script.NoteTime(at_ms="3 s", writer="till-2", time=30_000),
        wm.script.CrashWriter(at_ms="5 s", writer="till-2"),
    ],
    duration_ms="34 s",
)


@pytest.fixture(scope="module")
def ablation() -> Ablation:
    return AHEAD.ablate("sound", "design")


def effect_of(option: str, found: Ablation) -> OptionEffect:
    (effect,) = [effect for effect in found if effect.option == option]
    return effect


def test_each_option_is_changed_alone() -> None:
    before = AHEAD.options
    changes = list(AHEAD.option_changes("design"))
    design = AHEAD.replace(rules="design").options
    assert {name for name, _, _ in changes} == {name for name, value in design.items() if value != before[name]}
    parts = {"Stream", "EventWriter", "ReaderGroup", "Controllers"}
    assert {part for _, said, make in changes if make is not None for part in said.parts} == parts
    for option, said, make in changes:
        if make is None:
            assert said.parts == ("TransactionalWriter",)
        elif option == "enters_time":
            with pytest.raises(ScenarioError, match="there is no map of times"):
                make()
        else:
            other = {name: value for name, value in make().options.items() if value != before[name]}
            assert other == {option: said.values["design"]}


def test_the_option_that_breaks_a_promise_is_found_with_its_sentence(ablation: Ablation) -> None:
    forgets = effect_of("forgets", ablation)
    assert forgets.breaks == ("I2", "I11")
    assert "forgotten" in forgets.sentence
    assert max(ablation, key=lambda effect: effect.weight) == forgets
    assert "The option forgets matters most: 'all' instead of 'behind'" in ablation.sentence
    assert forgets.width_change_ms is not None
    assert forgets.width_change_ms < 0


def test_the_figures_of_a_row_are_those_of_two_runs(ablation: Ablation) -> None:
    timeout = effect_of("timeout_from", ablation)
    changed = next(make for name, _, make in AHEAD.option_changes("design") if name == "timeout_from")
    runs = [AHEAD.record(), changed().record()]
    lags = [run.measures().lag_ms for run in runs]
    lowers = [dict(run.to_pandas("watermarks")[["emitted_ms", "lower"]].itertuples(index=False)) for run in runs]
    assert timeout.lag_change_ms == round(lags[1] - lags[0], 1) != 0
    assert timeout.bound_ms == min(at for at, _ in lowers[0].items() ^ lowers[1].items())
    assert timeout.parts_ms is not None
    assert timeout.parts_ms <= timeout.bound_ms


def test_an_option_that_does_nothing_parts_nowhere(ablation: Ablation) -> None:
    cut = effect_of("cut_algorithm", ablation)
    assert (cut.parts_ms, cut.bound_ms, cut.lag_change_ms, cut.breaks) == (None, None, 0, ())
    assert cut.effect == "changes nothing"
    assert first_difference_ms(AHEAD.record(), AHEAD.record()) is None


def test_back_again_what_was_broken_is_mended() -> None:
    back = effect_of("forgets", AHEAD.ablate("design", "sound"))
    assert back.mends == ("I2", "I11")
    assert back.broken_names == "−I2, −I11"


def test_what_the_scenario_sets_itself_is_not_changed() -> None:
    found = AHEAD.replace(rules=wm.Rules(forgets="behind"), readers=[]).ablate("sound", "design")
    assert "forgets" in found.unaffected
    assert "read_side" in found.unaffected
    assert not {"forgets", "read_side"} & {effect.option for effect in found}


def test_an_option_that_cannot_be_changed_alone_says_why() -> None:
    readers = wm.ReaderGroup(publish_every_ms="1 s")
    found = wm.Scenario(
        "on passing", stream=wm.Stream(), writers=[wm.EventWriter("w", rate_per_s=5)], readers=readers,
        duration_ms="4 s",
    ).ablate("sound", "design")  # fmt: skip
    refused = effect_of("enters_time", found)
    assert refused.refused is not None
    assert "read_side='document'" in refused.refused
    assert refused.effect == "cannot be changed alone"
    assert found.together.refused is None
    assert "refused" in repr(found)


def test_a_plan_and_the_drawing_of_its_document() -> None:
    plan = wm.progress.PlanScenario.load("progress_diagram")
    (complete,) = plan.ablate("design", "diagram", stream="query-1")
    assert complete.option == "complete"
    assert complete.mends == ("N3",)
    with pytest.raises(RecordingError, match="several queries"):
        plan.ablate("design", "diagram")


def test_a_dataflow_has_a_row_for_each_deviation() -> None:
    found = wm.dataflow.Dataflow.load("hazelcast_20740").ablate("sound", "implementation")
    assert [effect.option for effect in found if effect.parts_ms is not None] == ["rejected_rows_silent"]
    assert len(found) > 5
    own = wm.dataflow.Dataflow.load("hazelcast_20740").with_rules(idle_repeated=True)
    absent = ("unmatched_lost_at_end", "key_zero_only")
    assert own.ablate("sound", "implementation").unaffected == ("idle_repeated", *absent)


def test_the_answer_is_a_table_and_a_page(ablation: Ablation) -> None:
    frame = ablation.to_pandas()
    assert list(frame.option) == [effect.option for effect in ablation]
    assert frame.set_index("option").broken_names["forgets"] == "I2, I11"
    assert "all of them" in ablation._repr_html_()
    assert "will be forgotten" in repr(ablation)
    assert ablation.to_dict()["together"]["option"] == "all of them"


@pytest.mark.parametrize("rules", [("sound", "nothing"), ("diagram", "design"), (3, "design")])
def test_rules_that_are_none_are_refused(rules: tuple[Any, Any]) -> None:
    with pytest.raises(ScenarioError, match="base: input should be 'design'"):
        AHEAD.ablate(*rules)


def test_a_hunt_finds_the_scenario_in_which_an_option_matters_most() -> None:
    calm = AHEAD.replace(script=[])
    found = wm.hunt(calm, [*AHEAD.script], invariants=["I1"], most_faults=2, runs=5, ablate=("sound", "design"))
    first = found.options[0]
    assert first.effect.option == "forgets"
    assert first.effect.breaks == ("I2", "I11")
    assert "note_time" in [action.kind for action in first.scenario.script]
    assert effect_of("forgets", calm.ablate("sound", "design")).parts_ms is None
    assert "The option that matters most is forgets" in found.sentence
    quiet = wm.hunt(wm.dataflow.Dataflow.load("join_over_join"), ablate=("sound", "implementation"))
    assert all(option.effect.parts_ms is None for option in quiet.options)
    assert "matters most" not in quiet.sentence
    with pytest.raises(ModelError, match="ablate is"):
        wm.hunt(calm, [], ablate="design")  # type: ignore[arg-type]
