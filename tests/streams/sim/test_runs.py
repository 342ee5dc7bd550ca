"""Whole runs: the invariants of the log, safe bounds, and the failures a script can cause."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streams.sim.worlds import rows, run, scenario
from wmlab.streams.model.position import Position, is_lineage_valid, is_valid_cut
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.sim.load import synthetic


def held_reasons(world):
    return [row["reason"] for row in rows(world, "cycles", outcome="held")]


def test_no_watermark_before_one_period_after_the_first_mark():
    world = run()
    assert rows(world, "watermarks")[0]["emitted_ms"] == rows(world, "writer_marks")[0]["received_ms"] + 500


def test_a_dead_writer_holds_the_bound_until_it_times_out():
    world = run(script=[script.CrashWriter(at_ms=8_000, writer="w2")])
    held = [row for row in rows(world, "cycles", outcome="held") if row["at_ms"] > 8_000]
    waits = [row for row in held if row["reason"].startswith("waits for w2")]
    removal = next(row for row in rows(world, "cycles") if row["removed"] == ["w2"])
    assert removal["at_ms"] - waits[0]["at_ms"] == 5_000
    assert removal["outcome"] == "emitted"
    emitted = [row["emitted_ms"] for row in rows(world, "watermarks")]
    assert not [at for at in emitted if waits[0]["at_ms"] <= at < removal["at_ms"]]


def test_a_short_pause_costs_one_wait_and_nobody_is_dropped():
    world = run(script=[script.SilenceWriter(at_ms=8_000, writer="w2", for_ms=3_000)])
    assert any("waits for w2" in reason for reason in held_reasons(world))
    assert not [row for row in rows(world, "cycles") if row["removed"]]


def test_nobody_notes_no_watermark():
    world = run(writers=[EventWriter("w", rate_per_s=100, noting=noting.Never())])
    assert not rows(world, "watermarks")
    assert not rows(world, "cycles")
    assert {(row["lower"], row["upper"]) for row in rows(world, "windows")} == {(None, None)}


def test_when_all_writers_are_gone_the_stream_leaves_the_work_list_and_returns():
    writers = [EventWriter("w", rate_per_s=100)]
    world = run(writers=writers, script=[script.CrashWriter(at_ms=3_000, writer="w", restart_after_ms=10_000)])
    gone = [row for row in rows(world, "cycles") if row["reason"] == "no active writer"]
    assert len(gone) == 1
    assert not [row for row in rows(world, "cycles") if gone[0]["at_ms"] < row["at_ms"] < 13_000]
    assert [row for row in rows(world, "watermarks") if row["emitted_ms"] > 13_000]


def test_a_time_that_goes_back_is_refused_and_recorded():
    writer = EventWriter("w", rate_per_s=50, delay_mean_ms=2_000, noting=noting.LastEventTime(), note_every_ms=100)
    outcomes = {row["outcome"] for row in rows(run(writers=[writer]), "writer_marks")}
    assert outcomes == {"success", "invalid time"}


@pytest.mark.parametrize(("algorithm", "emits"), [("sound", True), ("pravega", False)])
def test_forty_nine_segments_end_the_loop_only_with_exact_ranges(algorithm, emits):
    world = run(stream=Stream(segments=49, cut_algorithm=algorithm))
    assert bool(rows(world, "watermarks")) is emits
    assert ("cut failed: did not terminate" in held_reasons(world)) is not emits


@pytest.mark.parametrize("bug", [True, False])
def test_bug_6510_keeps_the_readers_bound_unknown(bug):
    quiet = EventWriter("w", rate_per_s=0)
    busy = EventWriter("v", rate_per_s=5)
    world = run(stream=Stream(segments=16, bug_6510=bug), writers=[quiet, busy], duration_ms=4_000)
    assert all(row["lower"] is None for row in rows(world, "windows")) is bug


def test_readers_finish_a_sealed_segment_before_its_successors_open():
    world = run(script=[script.Scale(at_ms=6_000, seal=["0@0", "1@0"], into=1)])
    positions = rows(world, "positions")
    finished = [index for index, row in enumerate(positions) if row["finished"]]
    merged = parse_segment("2@1")
    opened = next(index for index, row in enumerate(positions) if row["segment_id"] == merged)
    assert len(finished) == 2
    assert max(finished) < opened
    assert positions[opened]["offset"] == 0
    assert positions[opened]["version"] == positions[max(finished)]["version"]


def test_a_slow_reader_keeps_to_its_rate():
    world = run(readers=ReaderGroup(rate_per_s=50))
    offsets = {row["segment_id"]: row["offset"] for row in rows(world, "positions")}
    assert sum(offsets.values()) // 108 == 50 * 19


actions = st.lists(
    st.one_of(
        st.builds(script.SilenceWriter, at_ms=st.integers(1_500, 9_000), writer=st.sampled_from(["a", "b", "c"])),
        st.builds(
            script.CrashWriter,
            at_ms=st.integers(0, 9_000),
            writer=st.sampled_from(["a", "b", "c"]),
            restart_after_ms=st.none() | st.integers(1, 4_000),
        ),
        st.builds(script.Scale, at_ms=st.just(4_000), seal=st.just(("0@0",)), into=st.integers(1, 4)),
    ),
    max_size=3,
    unique_by=lambda action: action.kind,
)


@st.composite
def runs(draw, *, safe=False):
    """Random runs; the `safe` ones lose no writer, and everybody has noted before the first cycle."""
    writers = [
        EventWriter(
            name,
            rate_per_s=draw(st.sampled_from([0, 3, 40])),
            delay_mean_ms=draw(st.sampled_from([0, 30, 900])),
            note_every_ms=draw(st.sampled_from([100, 700, 900 if safe else 2_500])),
            starts_ms=draw(st.sampled_from([0, 0, 0 if safe else 5_000])),
        )
        for name in "abc"
    ]
    return scenario(
        stream=Stream(segments=draw(st.integers(1, 5)), timestamp_aggregation_timeout_ms=100_000),
        writers=writers,
        readers=ReaderGroup(readers=draw(st.integers(1, 3)), publish_every_ms=300),
        controllers=Controllers(period_ms=draw(st.sampled_from([1_000 if safe else 200, 1_000]))),
        script=[a for a in draw(actions) if not (safe and isinstance(a, script.CrashWriter))],
        duration_ms=10_000,
        seed=draw(st.integers(0, 2**32)),
        latency_ms=draw(st.sampled_from([0, 5, 60])),
    )


@settings(max_examples=60)
@given(runs())
def test_the_invariants_of_the_log_hold(case):
    world = run(**{field: getattr(case, field) for field in case.__dataclass_fields__ if field != "name"})
    watermarks = rows(world, "watermarks")
    for earlier, later in pairwise(watermarks):
        assert earlier["lower"] < later["lower"]
        assert earlier["upper"] <= later["upper"]
        assert earlier["revision"] < later["revision"]
    for watermark in watermarks:
        assert watermark["lower"] == min(watermark["writers"].values())
        assert watermark["upper"] == max(watermark["writers"].values())
        cut = Position(watermark["cut"])
        assert is_valid_cut(cut, world.history)
        assert is_lineage_valid(cut, world.history)
    windows = defaultdict(list)
    for row in rows(world, "windows"):
        windows[row["reader"]].append((row["lower"], row["upper"]))
    for seen in windows.values():
        lowers = [lower for lower, _ in seen if lower is not None]
        assert lowers == sorted(lowers)


@settings(max_examples=60)
@given(runs(safe=True))
def test_no_event_older_than_the_lower_bound_lies_beyond_the_cut(case):
    """With the safe noting policy and no writer lost, a watermark's claim holds for every event of the run."""
    world = run(**{field: getattr(case, field) for field in case.__dataclass_fields__ if field != "name"})
    events = world.journal.events(tuple(writer.name for writer in case.writers))
    for watermark in rows(world, "watermarks"):
        cut = watermark["cut"]
        passed = list({ancestor.id for segment in cut for ancestor in world.history.ancestors(segment)})
        limit = np.array([cut.get(int(segment_id), 0) for segment_id in events.segment_id], np.int64)
        beyond = (events.offset > limit) & ~np.isin(events.segment_id, passed)
        assert not (beyond & (events.event_time < watermark["lower"])).any()


def test_synthetic_loads_are_sorted_and_inside_the_run():
    case = scenario(start_ms=1_000_000)
    load = synthetic(case.writers[1], case)
    assert (load.happens_ms[1:] >= load.happens_ms[:-1]).all()
    assert load.happens_ms[0] >= 1_000_000
    assert load.happens_ms[-1] < 1_020_000
    assert (load.arrives_ms >= load.happens_ms).all()
    assert 700 < len(load) < 900
