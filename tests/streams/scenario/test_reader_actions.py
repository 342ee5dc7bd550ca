"""What a script may say about readers."""

import pytest

from wmlab.core.errors import WmlabError
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup


def scenario(*actions, readers=None):
    part = ReaderGroup(readers=2) if readers is None else readers
    return Scenario("s", writers=[EventWriter("w", rate_per_s=1)], readers=part, script=actions, duration_ms=9_000)


@pytest.mark.parametrize(
    ("actions", "paths"),
    [
        ([script.CrashReader(at_ms=5, reader="readers-2")], ["script[0].reader"]),
        ([script.PauseReader(at_ms=0, reader="readers-1")], ["script[0].at_ms"]),
        ([script.AddReader(at_ms=5, reader="readers-1")], ["script[0].reader"]),
        ([script.AddReader(at_ms=n, reader="r") for n in (5, 6)], ["script[0].reader", "script[1].reader"]),
        ([script.Checkpoint(at_ms=n, name="c") for n in (5, 6)], ["script[0].name", "script[1].name"]),
        ([script.ResetToCheckpoint(at_ms=5, checkpoint="c")], ["script[0].checkpoint"]),
        ([script.ReleaseSegment(at_ms=5, reader="readers-0", segment="zero")], ["script[0].segment"]),
    ],
)
def test_mistakes_are_found(actions, paths):
    with pytest.raises(Problems) as raised:
        scenario(*actions)
    assert [problem.path for problem in raised.value.problems] == paths


def test_there_is_nothing_to_do_to_readers_without_a_group():
    with pytest.raises(Problems, match="concerns readers"):
        Scenario(
            "s",
            writers=[EventWriter("w", rate_per_s=1)],
            script=[script.RemoveReader(at_ms=5, reader="readers-0")],
            duration_ms=9_000,
        )


def test_a_reader_that_joins_can_be_named():
    actions = [script.AddReader(at_ms=5, reader="late"), script.RemoveReader(at_ms=50, reader="late")]
    assert scenario(*actions).script == tuple(actions)


def test_everything_goes_through_yaml():
    made = scenario(
        script.CrashReader(at_ms=5, reader="readers-0", offline_after_ms=None, restart_after_ms=7),
        script.PauseReader(at_ms=5, reader="readers-0", for_ms=3),
        script.AddReader(at_ms=5, reader="late"),
        script.RemoveReader(at_ms=5, reader="readers-1"),
        script.ReleaseSegment(at_ms=5, reader="readers-1", segment="0@0", keep_free_ms=9),
        script.Checkpoint(at_ms=5, name="c"),
        script.ResetToCheckpoint(at_ms=6, checkpoint="c", ranges=False),
        script.CrashController(at_ms=7, point="after_append", restart_after_ms=1),
        readers=ReaderGroup(
            readers=2, read_side="document", starting_cut={"0@0": 0}, ending_cut={0: 9}, rebalance="time"
        ),
    )
    assert made.readers.ending_cut == {"0@0": 9}
    assert Scenario.from_yaml(made.to_yaml()) == made


@pytest.mark.parametrize("cut", [{}, {"zero": 1}, {"0@0": -1}, {-4: 1}, 7])
def test_a_cut_that_is_none_is_refused(cut):
    with pytest.raises(WmlabError, match="ending_cut"):
        ReaderGroup(ending_cut=cut)
