"""What scaling and odd streams do to the bounds: one test for each known failure of a stream.

S6 and S9 to S12 are failures of controllers and of the store.
"""

import numpy as np
import pytest

from tests.streams.sim.claims import assert_sound, held, late_events
from tests.streams.sim.worlds import noted, rows, run, scripted
from wmlab.core.values import Problems
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, Stream, TransactionalWriter
from wmlab.streams.sim.load import Load


def cut_of(**names):
    return {parse_segment(f"{name[1:].replace('_', '@')}"): offset for name, offset in names.items()}


def test_s1_repeated_scaling_between_notes_gives_cuts_of_several_epochs_with_fillers_at_the_start():
    scales = [
        script.Scale(at_ms=5_000, seal=["0@0"], into=2),
        script.Scale(at_ms=5_300, seal=["3@1"], into=2),
        script.Scale(at_ms=5_600, seal=["1@0", "5@2"], into=1),
    ]
    quiet = EventWriter("quiet", rate_per_s=0.5)
    world = run(writers=[EventWriter("w", rate_per_s=300), quiet], script=scales)
    epochs = [{segment >> 32 for segment in row["cut"]} for row in rows(world, "watermarks")]
    assert any(len(found) > 1 for found in epochs)
    assert_sound(world)
    assert late_events(world) == 0


def test_s1_a_segment_that_nobody_has_reached_stands_at_its_start():
    scales = [script.Scale(at_ms=100, seal=["0@0"], into=4)]
    world = scripted(*scales, noted(1_000, "a", 10, {"2@1": 9}), writers="a")
    assert rows(world, "watermarks")[0]["cut"] == cut_of(_1_1=0, _2_1=9, _3_1=0, _4_1=0)


def test_s2_a_writer_at_a_predecessor_and_a_successor_as_in_the_document():
    scale = script.Scale(at_ms=100, seal=["0@0", "1@0"], into=["0..3/5", "3/5..1"])
    world = scripted(scale, noted(1_000, "a", 10, {"1@0": 30, "2@1": 8}), writers="a", stream={"segments": 2})
    assert rows(world, "watermarks")[0]["cut"] == cut_of(_2_1=8, _3_1=0)


def test_s3_a_writer_stuck_at_a_sealed_epoch_holds_the_time_but_not_the_cut():
    stuck = EventWriter("stuck", rate_per_s=0, noting=noting.WallClock(), note_every_ms=3_000)
    scale = script.Scale(at_ms=2_000, seal=["0@0"], into=2)
    world = run(writers=[EventWriter("w", rate_per_s=200), stuck], stream=Stream(), script=[scale])
    last = rows(world, "watermarks")[-1]
    assert set(rows(world, "writer_marks", writer="stuck")[-1]["position"]) == {parse_segment("0@0")}
    assert set(last["cut"]) == {parse_segment("1@1"), parse_segment("2@1")}
    assert last["lower"] == last["writers"]["stuck"] == 18_000


def test_s4_a_rolling_transaction_moves_the_cut_through_both_duplicate_epochs():
    """The first cycle comes after the first commit: whoever notes for the first time behind a watermark is late."""
    txn = TransactionalWriter("t", rate_per_s=60, every_ms=4_000)
    writers = [EventWriter("w", rate_per_s=60, note_every_ms=300), txn]
    scale = script.Scale(at_ms=2_500, seal=["0@0"], into=2)
    world = run(writers=writers, script=[scale], controllers=Controllers(period_ms=4_300), stream=Stream(segments=2))
    kinds = [(row["epoch"], row["kind"]) for row in rows(world, "epochs")]
    assert kinds == [(0, "create"), (1, "scale"), (2, "rolling"), (3, "rolling")]
    (mark,) = rows(world, "writer_marks", txn="t-1")
    assert {segment >> 32 for segment in mark["position"]} == {2}
    seen = [max(segment >> 32 for segment in row["cut"]) for row in rows(world, "watermarks")]
    assert seen == sorted(seen)
    assert seen[-1] == 3
    assert {segment >> 32 for segment in rows(world, "watermarks")[-1]["cut"]} == {3}
    assert_sound(world)
    assert late_events(world) == 0


def test_s4_a_scale_after_a_rolling_transaction_means_the_copy_of_the_same_number():
    txn = TransactionalWriter("t", rate_per_s=60, every_ms=4_000)
    scales = [script.Scale(at_ms=2_500, seal=["0@0"], into=2), script.Scale(at_ms=9_000, seal=["1@0", "3@1"], into=1)]
    world = run(writers=[EventWriter("w", rate_per_s=60), txn], script=scales)
    sealed = [row["target"] for row in rows(world, "incidents", kind="scale")]
    assert sealed == ["0@0", "1@3, 3@3"]
    assert_sound(world)


@pytest.mark.parametrize(
    ("rule", "watermarks", "noted_times"),
    [("no_mark", True, []), ("minimum_long", False, [-(2**63)] * 9), ("zero", True, [0] * 9)],
)
def test_s5_a_commit_without_a_time_notes_nothing_or_as_implemented_blocks_the_first_watermark(
    rule, watermarks, noted_times
):
    txn = TransactionalWriter("t", rate_per_s=20, noting=noting.Never())
    stream = Stream(commit_without_time=rule)
    world = run(writers=[txn, EventWriter("w", rate_per_s=20, starts_ms=2_500)], stream=stream)
    assert [row["time"] for row in rows(world, "writer_marks", writer="t")] == noted_times
    assert bool(rows(world, "watermarks")) is watermarks
    assert ("time not advanced" in held(world)) is not watermarks
    assert all(row["time"] is None for row in rows(world, "transactions"))


@pytest.mark.parametrize("segments", [49, 98, 103])
@pytest.mark.parametrize(("algorithm", "emits"), [("sound", True), ("pravega", False)])
def test_s7_ranges_in_doubles_keep_the_loop_of_the_cut_from_ending(segments, algorithm, emits):
    world = scripted(noted(1_000, "a", 10), writers="a", stream={"segments": segments, "cut_algorithm": algorithm})
    assert bool(rows(world, "watermarks")) is emits
    assert ("cut failed: did not terminate" in held(world)) is not emits


@pytest.mark.parametrize(
    "into", [["0..0.30000000000000004", "0.3..1"], ["0..0.3", "0.30000000000000004..1"], ["0..0.5"], ["half"], 0, []]
)
def test_s8_ranges_that_do_not_line_up_are_refused(into):
    with pytest.raises(Problems):
        run(stream=Stream(), script=[script.Scale(at_ms=100, seal=["0@0"], into=into)])


def test_s8_ranges_that_line_up_exactly_are_not():
    world = run(stream=Stream(), script=[script.Scale(at_ms=100, seal=["0@0"], into=["0..0.3", "0.3..1"])])
    assert [row["keys"] for row in rows(world, "segments")] == ["0..1", "0..3/10", "3/10..1"]


@pytest.mark.parametrize(("bug", "stuck"), [(False, False), (True, True)])
def test_s13_keys_without_events_stay_at_the_start_and_hold_the_windows_only_with_the_bug(bug, stuck):
    writer = EventWriter("w", rate_per_s=100, keys="0..1/2")
    world = run(writers=[writer], stream=Stream(segments=2, bug_6510=bug))
    assert {row["cut"][1] for row in rows(world, "watermarks")} == {None if bug else 0}
    lowers = [row["lower"] for row in rows(world, "windows")]
    assert (lowers[-1] is None) is stuck


def test_a_load_from_outside_keeps_its_keys():
    load = Load.of(np.array([5]), np.array([5]), np.array([2**63], np.uint64))
    world = run({"w": load}, writers=[EventWriter("w", trace="log")], stream=Stream(segments=2))
    assert world.journal.events(("w",)).segment_id.tolist() == [1]
