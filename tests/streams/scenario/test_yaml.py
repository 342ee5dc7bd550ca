"""A scenario is the same value in Python and in YAML, and its repr is the code that makes it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.machine import actions, parts
from tests.overlaps import without_overlaps
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.model.history import StreamHistory
from wmlab.streams.scenario import network, noting, parts as made_of, script
from wmlab.streams.scenario.parts import EventWriter
from wmlab.streams.scenario.rules import Rules

RATES = st.floats(0, 1e6)
PERIODS = st.integers(1, 10**6)
NAMES = {"Scenario": Scenario, "Rules": Rules} | {
    name: thing for module in (network, noting, script, made_of) for name, thing in vars(module).items()
}
ONCE = ("add_reader", "checkpoint", "take_stream_cut")
"""What makes something new, which the strategies always give the same name."""


def finished(makers: parts.Makers[Any], **fields: Any) -> st.SearchStrategy[Any]:
    """Parts or actions of the machine's makers, these fields given or drawn."""
    drawn = {name: field if isinstance(field, st.SearchStrategy) else st.just(field) for name, field in fields.items()}
    return st.builds(lambda make, **rest: make(**rest), makers, **drawn)


acts = finished(
    st.one_of(
        actions.on_writer("a"),
        actions.notes(500, "b", StreamHistory.create(2)),
        actions.on_transactions(500, "t", "stream"),
        actions.action(script.DuplicateWriter, writer="b", load="copied"),
        actions.action(script.TruncateStream, cut={"0@0": 2**62}),
        actions.on_controllers("stream", ("controller-0",), inside_a_cycle=True),
        actions.on_stores("stream"),
        actions.on_network(
            [("a", "controllers"), ("readers-0", "segment-store"), ("coordinator", "controller-0")], ["a"]
        ),
        actions.on_readers("readers", ["readers-0"], ["readers-0"], "new", "0@0", "stream"),
    ),
    at_ms=st.integers(1, 999),
)
ALGORITHMS = st.sampled_from(["sound", "pravega", None])
scenarios = st.builds(
    Scenario,
    st.text(min_size=1, max_size=30).filter(lambda text: text.strip() == text and text.isprintable()),
    stream=finished(parts.streams(0, 2**53)),
    rules=finished(
        parts.rules(shares_times=False),
        base=st.sampled_from(Rules.sets),
        cut_algorithm=ALGORITHMS,
        read_side=st.sampled_from(["implementation", "document"]),
    ),
    writers=st.tuples(
        finished(parts.event_writers(), name="a", rate_per_s=RATES, starts_ms=st.integers(0, 10**6)),
        finished(parts.event_writers(), name="b", delay_mean_ms=st.floats(0, 1e4)),
        finished(
            parts.transactional_writers(),
            name="t",
            writer_id=st.sampled_from([None, "{name}", "shared", "{name}.x"]),
            every_ms=PERIODS,
        ),
    ),
    readers=finished(
        st.one_of(parts.reader_groups(shares_times=False), parts.reader_groups(shares_times=True)), name="readers"
    ),
    controllers=finished(parts.controllers(slow=True), period_ms=PERIODS),
    network=finished(parts.networks(slow=True)),
    script=st.lists(acts, min_size=3, max_size=9, unique_by=lambda act: "new" if act.kind in ONCE else act.kind).map(
        without_overlaps
    ),
    duration_ms=st.just(1_000),
    start_ms=st.integers(-(10**12), 10**13),
    seed=st.integers(0, 2**63 - 1),
)


@given(scenarios)
def test_a_scenario_is_what_its_yaml_and_its_repr_say(scenario: Scenario) -> None:
    assert Scenario.from_yaml(scenario.to_yaml()) == scenario
    assert eval(repr(scenario), dict(NAMES)) == scenario


def test_a_file_round_trips(tmp_path: Path) -> None:
    scenario = Scenario("one", writers=[EventWriter("w", rate_per_s=1)], duration_ms=10)
    assert Scenario.load(scenario.save(tmp_path / "one.yaml")) == scenario


def test_all_mistakes_of_a_file_are_reported_with_their_lines() -> None:
    text = """\
wmlab: 1
name: bad
writers:
  - name: a
    rate_per_s: fast
  - name: b
    rate_per_s: 1
    noting: {kind: max_minus_slack}
script:
  - {kind: scale, seal: ["0@0"]}
duration_ms: -5
colour: red
"""
    with pytest.raises(Problems) as raised:
        Scenario.from_yaml(text)
    assert [(p.path, p.line) for p in raised.value.problems] == [
        ("writers[0].rate_per_s", 5),
        ("writers[1].noting.slack_ms", 8),
        ("script[0].at_ms", 10),
        ("duration_ms", 11),
        ("colour", 12),
    ]
    assert "To repair it" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing"),
        ("- 1", "a list"),
        (Path("a.yaml"), "a.yaml.. is not text"),
        ("name: x", "no format version"),
        ("wmlab: 2\nname: x", "format version 2"),
        ("wmlab: 1\nname: x\nname: y", "given twice"),
        ("wmlab: 1\nname: [", "line 2"),
        ("wmlab: 1\nname: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_what_is_no_scenario_file_is_refused(text: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Scenario.from_yaml(text)


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), (b"\xff\xfe\x00", "not UTF-8")])
def test_an_unreadable_file_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    file = tmp_path / "some.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ScenarioError, match=rf"some\.yaml.*{words}"):
        Scenario.load(file)


def test_long_numbers_are_grouped_in_a_repr() -> None:
    assert repr(script.SilenceWriter(at_ms=43_200_000, writer="w1")) == "SilenceWriter(at_ms=43_200_000, writer='w1')"
