"""A scenario is the same value in Python and in YAML."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streams.sim.worlds import drawn
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter

policies = st.one_of(
    st.just(noting.EarliestOpen()),
    st.just(noting.WallClock()),
    st.just(noting.LastEventTime()),
    st.just(noting.Never()),
    st.builds(noting.MaxMinusSlack, st.integers(0, 10**9)),
)


def writer(name: str) -> st.SearchStrategy[EventWriter]:
    return drawn(
        EventWriter,
        name=name,
        rate_per_s=st.floats(0, 1e6),
        delay_mean_ms=st.floats(0, 1e4),
        noting=policies,
        note_every_ms=st.none() | st.integers(1, 10**6),
        clock=drawn(Clock, skew_ms=st.integers(-(10**6), 10**6)),
        starts_ms=st.integers(0, 10**6),
    )


AT = st.integers(0, 999)
actions = st.one_of(
    drawn(
        script.CrashWriter,
        at_ms=AT,
        writer="a",
        restart_after_ms=st.none() | st.integers(1, 500),
        backlog=["lost", "kept"],
    ),
    drawn(script.SilenceWriter, at_ms=AT, writer="b", for_ms=st.none() | st.just(7)),
    drawn(
        script.NoteTime,
        at_ms=AT,
        writer="a",
        time=st.integers(-(2**63), 2**63 - 1),
        position=st.none() | st.dictionaries(st.sampled_from(["0@0", "7@3"]), st.none() | st.integers(0, 2**62)),
    ),
    drawn(script.DuplicateWriter, at_ms=AT, writer="a", load="copied"),
    drawn(
        script.CommitTransaction, at_ms=AT, writer="t", transaction=[None, "t-1"], time=[None, "policy", 0, -(2**63)]
    ),
    drawn(script.CrashCommitHandler, at_ms=AT, point=["before_merge", "after_noting"]),
)
transactional = drawn(
    TransactionalWriter,
    name="t",
    rate_per_s=st.floats(0, 1e6),
    noting=policies,
    writer_id=[None, "{name}", "shared", "{name}.x"],
    every_ms=st.integers(1, 10**6),
    open_ms=st.none() | st.integers(1, 10**6),
    keys=["0..1", "1/3..0.5"],
)

scenarios = st.builds(
    Scenario,
    st.text(min_size=1, max_size=30).filter(lambda text: text.strip() == text and text.isprintable()),
    stream=drawn(
        Stream,
        segments=st.integers(1, 100),
        cut_algorithm=["sound", "pravega"],
        timeout_from=["first_behind", "last_note"],
    ),
    writers=st.tuples(writer("a"), writer("b"), transactional),
    readers=st.none() | drawn(ReaderGroup, readers=st.integers(1, 9), rate_per_s=st.none() | st.floats(0.1, 1e6)),
    controllers=drawn(Controllers, period_ms=st.integers(1, 10**6)),
    script=st.lists(actions, max_size=4).map(tuple),
    duration_ms=st.just(1_000),
    start_ms=st.integers(-(10**12), 10**13),
    seed=st.integers(0, 2**63 - 1),
)


@given(scenarios)
def test_yaml_round_trip_is_exact(scenario):
    assert Scenario.from_yaml(scenario.to_yaml()) == scenario


@given(scenarios)
def test_the_repr_is_the_code_that_makes_it(scenario):
    names = {**vars(noting), **vars(script), "Scenario": Scenario, "Stream": Stream, "EventWriter": EventWriter}
    names |= {"Clock": Clock, "Controllers": Controllers, "ReaderGroup": ReaderGroup}
    names |= {"TransactionalWriter": TransactionalWriter}
    assert eval(repr(scenario), names) == scenario


def test_a_file_round_trips(tmp_path):
    scenario = Scenario("one", writers=[EventWriter("w", rate_per_s=1)], duration_ms=10)
    assert Scenario.load(scenario.save(tmp_path / "one.yaml")) == scenario


def test_all_mistakes_of_a_file_are_reported_with_their_lines():
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
        (Path("a.yaml"), "a.yaml.. is no text"),
        ("name: x", "no format version"),
        ("wmlab: 2\nname: x", "format version 2"),
        ("wmlab: 1\nname: x\nname: y", "given twice"),
        ("wmlab: 1\nname: [", "line 2"),
        ("wmlab: 1\nname: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_what_is_no_scenario_file_is_refused(text, words):
    with pytest.raises(ScenarioError, match=words):
        Scenario.from_yaml(text)


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.yaml.*No such file"):
        Scenario.load(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        Scenario.load(tmp_path / "bytes.yaml")


def test_long_numbers_are_grouped_in_a_repr() -> None:
    assert repr(script.SilenceWriter(at_ms=43_200_000, writer="w1")) == "SilenceWriter(at_ms=43_200_000, writer='w1')"
