"""A scenario that cannot be run is refused, with all its mistakes and their places; what is said about readers."""

import dataclasses

import numpy as np
import pytest

from wmlab.core.errors import WmlabError
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup, Stream


def scenario(**fields):
    given = {"writers": [EventWriter("w", rate_per_s=1)], "duration_ms": 1_000} | fields
    return Scenario("s", **given)


def paths(raised):
    return [problem.path for problem in raised.value.problems]


def test_mistakes_of_one_part_are_gathered():
    with pytest.raises(Problems) as raised:
        EventWriter("w", rate_per_s=-1, note_every_ms=0, colour="red")
    assert paths(raised) == ["rate_per_s", "note_every_ms", "colour"]
    assert "got -1" in str(raised.value)


@pytest.mark.parametrize("load", [{}, {"rate_per_s": 1, "trace": "flights"}])
def test_a_writer_has_exactly_one_load(load):
    with pytest.raises(Problems, match="either rate_per_s or trace"):
        EventWriter("w", **load)


def test_mistakes_across_parts_are_gathered():
    with pytest.raises(Problems) as raised:
        scenario(
            writers=[EventWriter("w", rate_per_s=1), EventWriter("w", rate_per_s=2)],
            script=[
                script.CrashWriter(at_ms=5_000, writer="nobody"),
                script.Scale(at_ms=1, seal=["0@0"]),
                script.Scale(at_ms=2, seal=["0@0"]),
            ],
        )
    assert paths(raised) == [
        "writers[0].name",
        "writers[1].name",
        "script[0].at_ms",
        "script[0].writer",
        "script[2].seal",
    ]


@pytest.mark.parametrize("seal", [["0@0", "2@0"], ["9@0"], ["zero"], []])
def test_scales_that_do_not_line_up_are_refused(seal):
    with pytest.raises(WmlabError):
        scenario(stream=Stream(segments=3), script=[script.Scale(at_ms=1, seal=seal, into=1)])


def test_scales_are_tried_in_order_of_time():
    merge = script.Scale(at_ms=20, seal=["2@1", "3@1"], into=1)
    split = script.Scale(at_ms=10, seal=["0@0"], into=2)
    assert scenario(stream=Stream(segments=2), script=[merge, split]).script == (merge, split)


@pytest.mark.parametrize("wrong", [True, 1.5, "5", None])
def test_times_are_whole_numbers(wrong):
    with pytest.raises(Problems):
        scenario(duration_ms=wrong)


def test_values_are_frozen_and_replaced():
    one = scenario()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.seed = 2
    assert one.replace(seed=2).seed == 2
    assert one.seed == 0


def test_the_html_escapes_names():
    assert "<b>" not in Scenario("<b>x", writers=[EventWriter("w", rate_per_s=1)], duration_ms=1)._repr_html_()


def test_a_writer_has_any_name_even_that_of_a_path():
    names = ["src/main", "a b", "Jörg <j@x.de>", "w1/x"]
    run = scenario(
        duration_ms=9_000,
        writers=[EventWriter(name, rate_per_s=5, writer_id=f"id-{i}") for i, name in enumerate(names)],
        script=[
            script.DuplicateWriter(at_ms=2_000, writer="src/main"),
            script.NoteTime(at_ms=3_000, writer="src/main/2", time=5),
            script.CrashWriter(at_ms=4_000, writer="w1/x"),
        ],
    )
    assert [writer.name for writer in run.writers] == names
    with pytest.raises(Problems, match="starts at 2000"):
        run.replace(script=[*run.script, script.SilenceWriter(at_ms=1_000, writer="src/main/2", for_ms=100)])


def test_numbers_may_be_those_of_numpy():
    writer = EventWriter("w", rate_per_s=np.float64(5), batch_ms=np.int64(50))
    assert writer == EventWriter("w", rate_per_s=5.0, batch_ms=50)
    assert type(writer.batch_ms) is int


def test_a_writer_is_not_called_like_a_process_of_another():
    writers = [EventWriter("w1", rate_per_s=5, processes=2), EventWriter("w1/2", rate_per_s=5, writer_id="other")]
    with pytest.raises(Problems, match=r"another writer has a process called 'w1/2'"):
        scenario(writers=writers)


def with_readers(*actions, readers=None):
    part = ReaderGroup(readers=2) if readers is None else readers
    return Scenario("s", writers=[EventWriter("w", rate_per_s=1)], readers=part, script=actions, duration_ms=9_000)


@pytest.mark.parametrize(
    ("actions", "places"),
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
def test_mistakes_about_readers_are_found(actions, places):
    with pytest.raises(Problems) as raised:
        with_readers(*actions)
    assert paths(raised) == places


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
    assert with_readers(*actions).script == tuple(actions)


def test_everything_about_readers_goes_through_yaml():
    made = with_readers(
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
