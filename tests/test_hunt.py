"""A hunt is the same each time, what it finds is real and as small as can be, and all variations include drawn ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import wmlab as wm
from tests import scenario_files
from wmlab import dataflow as flow
from wmlab.core.errors import ModelError, ScenarioError
from wmlab.dataflow.model.coalescer import Coalescer
from wmlab.dataflow.model.items import MIN
from wmlab.hunting import Hunt
from wmlab.open import load_scenario

FAULTS = [
    wm.script.CrashWriter(at_ms=1_000, writer="a"),
    wm.script.PauseController(at_ms=2_000, for_ms=900, point="after_marks"),
    wm.script.Scale(at_ms=2_500, seal=["0@0"], into=2),
]
SHIPPED: dict[str, dict[str, Any]] = {"shipped": {"rules": "implementation"}}


@pytest.fixture(scope="module")
def scenario() -> wm.Scenario:
    """Two writers, of which one says little."""
    return wm.Scenario(
        "two writers",
        stream=wm.Stream(segments=3),
        writers=[wm.EventWriter("a", rate_per_s=20), wm.EventWriter("b", rate_per_s=2)],
        controllers=wm.Controllers(2, period_ms=500),
        duration_ms=4_000,
    )


@pytest.fixture(scope="module")
def found(scenario: wm.Scenario) -> Hunt:
    """What all variations break."""
    return wm.hunt(scenario, FAULTS, configurations=SHIPPED)


def test_sound_rules_break_nothing_and_every_fault_is_exercised(scenario: wm.Scenario) -> None:
    found = wm.hunt(scenario, FAULTS, quiet_ms=3_000)
    assert found.violations == ()
    assert found.exhaustive
    assert found.exercised == {"as it is": 16, "crash_writer": 11, "pause_controller": 11, "scale": 11}
    assert "never exercised" not in found.sentence


def test_a_hunt_that_varies_nothing_says_so(scenario: wm.Scenario) -> None:
    sentence = wm.hunt(scenario).sentence
    assert sentence.startswith("Nothing was varied: one run of 'two writers' violated nothing.")
    assert "faults=[...]" in sentence
    for varied in (wm.hunt(scenario, seeds=[1, 2]), wm.hunt(scenario, FAULTS[:1]), wm.hunt(scenario, FAULTS, runs=1)):
        assert not varied.sentence.startswith("Nothing")


def test_variations_with_overlapping_faults_are_no_runs_and_others_take_their_place(scenario: wm.Scenario) -> None:
    crashes = [wm.script.CrashWriter(at_ms=at_ms, writer="a", restart_after_ms=500) for at_ms in (1_000, 1_200, 3_000)]
    every = wm.hunt(scenario, crashes, seeds=range(5), shrink=False)
    refused = [run for run in every.runs if run.refused is not None]
    assert {"a is down from 1 s to 1.5 s" in str(run.refused) for run in refused} == {True}
    assert (len(every.runs), len(refused)) == (80, 40)
    drawn = wm.hunt(scenario, crashes, seeds=range(5), runs=20, shrink=False)
    assert sum(run.refused is None for run in drawn.runs) == 20 < len(drawn.runs)
    assert min(drawn.exercised.values()) > 0


def test_the_same_hunt_finds_the_same(scenario: wm.Scenario, found: Hunt) -> None:
    assert wm.hunt(scenario, FAULTS, configurations=SHIPPED) == found
    drawn = [wm.hunt(scenario, FAULTS, configurations=SHIPPED, runs=6, seed=seed, shrink=False) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0].runs != drawn[2].runs


def test_all_variations_find_what_drawn_ones_find(scenario: wm.Scenario, found: Hunt) -> None:
    drawn = wm.hunt(scenario, FAULTS, configurations=SHIPPED, runs=12, seed=3, shrink=False)
    assert not drawn.exhaustive
    assert drawn.violations
    assert {one.invariant for one in drawn} <= {one.invariant for one in found}
    assert {run.faults for run in drawn.runs} < {run.faults for run in found.runs}
    assert len({*drawn.runs}) == 12


def test_the_smallest_scenario_violates_and_none_of_its_faults_can_be_left_out(found: Hunt) -> None:
    assert {"I3", "I11"} <= {one.invariant for one in found}
    for one in found:
        assert one.minimal
        assert breaks(one.scenario, one.invariant)
        for place in range(one.faults):
            script = one.scenario.script
            assert not breaks(one.scenario.replace(script=script[:place] + script[place + 1 :]), one.invariant)


def test_the_smallest_scenario_is_the_same_as_yaml_and_as_a_test(found: Hunt) -> None:
    for one in found:
        assert wm.Scenario.from_yaml(one.to_yaml()) == one.scenario
        space: dict[str, Any] = {}
        exec(one.to_test(), space)
        with pytest.raises(AssertionError, match=one.invariant):
            space[f"test_{one.invariant.lower()}_holds"]()


def breaks(scenario: Any, invariant: str) -> bool:
    """Whether the scenario breaks the invariant as it is."""
    return bool(wm.hunt(scenario, invariants=[invariant], shrink=False).violations)


def test_faults_happen_in_every_order_at_the_moments_that_they_have() -> None:
    plan = wm.progress.PlanScenario.load(scenario_files.FOLDER / "progress_diagram.yaml")
    found = wm.hunt(plan, seeds=(1, 2), configurations={"text": {"rules": "design"}, "sound": {}}, quiet_ms=1_000)
    assert {(run.configuration, run.seed) for run in found.runs} == {(c, s) for c in ("text", "sound") for s in (1, 2)}
    assert {"N3", "N12"} <= {one.invariant for one in found if one.configuration == "text"}


DEVIATIONS = [
    ("hazelcast_20740", "rejected_rows_silent", "K16", 0),
    ("hazelcast_26474", "idle_repeated", "K4", 0),
    ("flink_7728", "highest_held_back", "K3", 1_000),
    ("hazelcast_22440", "event_leaves_idle", "K4", 1_000),
    ("hazelcast_22440_ended", "end_counts_as_active", "K4", 1_000),
]


@pytest.mark.parametrize(("name", "deviation", "invariant", "quiet_ms"), DEVIATIONS)
def test_a_deviation_is_found_and_sound_rules_break_nothing(
    name: str, deviation: str, invariant: str, quiet_ms: int
) -> None:
    dataflow = load_scenario(scenario_files.FOLDER / "flows" / f"{name}.yaml")
    rules = wm.dataflow.Rules(**{deviation: True})
    configurations = {"sound": {"rules": "sound"}, "deviation": {"rules": rules}}
    found = wm.hunt(
        dataflow,
        invariants=[invariant],
        configurations=configurations,
        seeds=range(12),
        quiet_ms=quiet_ms,
    )
    (violation,) = found
    assert violation.configuration == "deviation"
    assert violation.scenario.rules == rules
    assert violation.minimal


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"invariants": ["I99"]}, "I99"),
        ({"runs": 0}, "runs is 0"),
        ({"seeds": []}, "seeds is empty"),
        ({"most_faults": True}, "most_faults is True"),
        ({"configurations": {}}, "configurations is"),
        ({"faults": ["crash"]}, "'crash' is not a fault"),
        ({"shrink": "no"}, "shrink"),
    ],
)
def test_arguments_that_cannot_be_are_refused(scenario: wm.Scenario, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        wm.hunt(scenario, **arguments)


def test_a_fault_that_never_fits_is_refused_and_one_that_fits_with_others_is_not(scenario: wm.Scenario) -> None:
    with pytest.raises(ScenarioError, match="nobody"):
        wm.hunt(scenario, [wm.script.CrashWriter(at_ms=1_000, writer="nobody")])
    with pytest.raises(ModelError, match="not a scenario"):
        wm.hunt("first_bounds.yaml")


def test_a_hunt_compares_the_results_of_a_dataflow_with_a_batch() -> None:
    found = wm.hunt(
        load_scenario(scenario_files.FOLDER / "flows" / "flink_7728.yaml"), seeds=range(2), invariants=["K10"]
    )
    assert [entry.invariant for entry in found.violations] == []
    assert len(found.runs) == 2


def test_shrinking_stops_at_its_limit(scenario: wm.Scenario) -> None:
    from wmlab.core.shrinking import smallest

    several = scenario.replace(writers=[replace(scenario.writers[0], name=name) for name in "abcd"])
    least = smallest(several, lambda one: len(one.writers) > 1, most_runs=1_000)
    assert (len(least.scenario.writers), least.minimal) == (2, True)
    stopped = smallest(several, lambda one: len(one.writers) > 1, most_runs=2)
    assert (stopped.runs, stopped.minimal) == (2, False)


def test_a_merging_that_skips_what_comes_after_a_small_step_back_is_found_to_stand_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in numaflow issue 3424: once the lowest input fell below what was published, nothing was published again."""
    step = Coalescer.step
    stalled: set[int] = set()

    def skips(self: Coalescer, index: int, item: Any) -> int | None:
        coalesced = step(self, index, item)
        stalled.update([id(self)] if MIN < self.lowest < self.last else [])
        return None if id(self) in stalled else coalesced

    rows = {"a": [(0, 100), (1_500, 300), (3_000, 3_000)], "b": [(0, 600), (3_100, 3_100)]}
    flow = wm.dataflow
    sources = [
        flow.Source(
            name,
            columns=["at", "t"],
            rows=of_one,
            arrival="at",
            times=[flow.EventTime("t")],
            idle_timeout_ms=200,
        )
        for name, of_one in rows.items()
    ]
    dataflow = flow.Dataflow(
        "a small step back",
        vertices=[*sources, flow.Merge("both"), flow.Sink("out")],
        edges=["a -> both -> out", "b -> both"],
        duration_ms=4_000,
    )
    assert wm.hunt(dataflow, invariants=["K16"], quiet_ms=1_000, seeds=range(3)).violations == ()
    monkeypatch.setattr(Coalescer, "step", skips)
    (found,) = wm.hunt(dataflow, invariants=["K16"], quiet_ms=1_000, seeds=range(3), shrink=False)
    assert "stands at" in found.what


def with_function(function: Any) -> flow.Dataflow:
    """A dataflow whose second step is a function of the test."""
    rows = [(20 * k, 20 * k) for k in range(1, 40)]
    source = flow.Source("a", columns=["at", "t"], rows=rows, arrival="at", times=[flow.EventTime("t", lag_ms=40)])
    window = flow.Window("count", 100, column="t", aggregates={"n": "count()"})
    vertices = [source, flow.Custom("own", function=function), window, flow.Sink("out")]
    return flow.Dataflow("own", vertices=vertices, edges=["a -> own -> count -> out"], duration_ms=3_000)


def stops(count: int | None, item: Any) -> tuple[int, list[Any]]:
    count = count or 0
    is_mark = isinstance(item, flow.Watermark)
    return count + is_mark, [] if is_mark and count >= 3 else [item]


def passes_on(state: None, item: Any) -> tuple[None, list[Any]]:
    return state, [item]


def goes_back(state: None, item: Any) -> tuple[None, list[Any]]:
    return state, [item] if isinstance(item, flow.Watermark) else [item, flow.Watermark(0, 0)]


def test_what_a_hunt_has_found_is_shown_also_with_a_python_function() -> None:
    found = wm.hunt(with_function(stops), quiet_ms=1_000)
    (violation,) = found
    assert violation.invariant == "K15"
    assert "custom of a (stops)" in repr(found)
    assert "K15" in found._repr_html_()
    assert found.to_pandas().shape[0] == 1
    with pytest.raises(ScenarioError, match="Python function"):
        violation.to_test()


def test_runs_that_failed_are_counted_and_said() -> None:
    found = wm.hunt(with_function(goes_back), seeds=[0, 1])
    assert [run.failed is not None for run in found.runs] == [True, True]
    assert "2 of them failed, the first one with: own: watermark 0 of key 0 is emitted behind 0" in found.sentence


def test_an_invariant_of_ones_own_is_a_function_of_the_recording() -> None:
    def something_comes_out(recording: Any) -> str | None:
        """A window comes out."""
        return None if recording.table("sunk").num_rows else "nothing came out"

    (violation,) = wm.hunt(with_function(goes_back), invariants=[something_comes_out])
    assert (violation.invariant, violation.statement) == ("something_comes_out", "A window comes out.")
    assert violation.what == "nothing came out"
    assert not wm.hunt(with_function(passes_on), invariants=[something_comes_out]).violations
    with pytest.raises(ModelError, match="answers 5"):
        wm.hunt(with_function(stops), invariants=[lambda _: 5])


def test_pravega_4291_breaks_no_invariant_and_is_found_by_one_of_your_own() -> None:
    """A bound of 0 is true, and what waits comes on after a timeout; that it comes often is nobody's promise."""
    scenario = load_scenario(scenario_files.FOLDER / "reports" / "pravega_4291.yaml")
    configurations = {
        "arrives as 0": {"rules": scenario.rules},
        "no mark": {"rules": wm.Rules(commit_without_time="no_mark")},
    }
    assert not wm.hunt(scenario, configurations=configurations, quiet_ms=5_000, shrink=False).violations

    def watermarks_go_on(recording: Any) -> str | None:
        """A watermark comes at least every four seconds."""
        emitted = recording.table("watermarks")["emitted_ms"].to_pylist()
        longest = max(after - before for before, after in pairwise(emitted))
        return None if longest <= 4_000 else f"no watermark came for {longest} ms"

    found = wm.hunt(scenario, invariants=[watermarks_go_on], configurations=configurations, shrink=False)
    assert [violation.configuration for violation in found.violations] == ["arrives as 0"]
    assert found.violations[0].what == "no watermark came for 6000 ms"
