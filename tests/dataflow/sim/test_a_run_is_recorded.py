"""A recording of a dataflow holds everything that happened, and the same dataflow always gives the same one."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.dataflow.sim.flows import count, kinds, line, marks, outcome, recorded, results, rows, source, times
from wmlab import dataflow as flow
from wmlab.core.errors import RecordingError, UnknownNameError
from wmlab.core.recording import Recording
from wmlab.dataflow.model.coalescer import KeyedCoalescer
from wmlab.dataflow.model.items import DONE, IDLE_MESSAGE, Item, Watermark
from wmlab.streams.recording import StreamRecording

TWO = [source("a", range(0, 1_000, 50)), source("b", range(25, 1_000, 50), idle_timeout_ms=400)]


def merged(**fields: object) -> Recording:
    vertices = [*TWO, flow.Merge("merge", parallelism=2), count(parallelism=2, by="t")]
    return recorded(vertices, ["a -> merge -> count -> out", "b -> merge"], **fields)


def test_the_same_dataflow_gives_the_same_recording_and_another_seed_other_orders_with_the_same_results() -> None:
    assert merged() == merged()
    other = merged(seed=2)
    assert other != merged()
    assert sorted(map(str, results(other))) == sorted(map(str, results(merged())))


def test_a_recording_is_kept_and_read_with_its_dataflow(tmp_path: Path) -> None:
    dataflow = flow.Dataflow("kept", vertices=[TWO[0], flow.Sink("out")], edges=["a -> out"], duration_ms=500)
    run = dataflow.record(tmp_path / "kept")
    again = Recording.read(tmp_path / "kept")
    assert again == run
    assert again.dataflow == dataflow


def test_files_do_not_keep_the_functions_of_a_dataflow(tmp_path: Path) -> None:
    twice = flow.Map("twice", function=lambda row: {"t": 2 * row["t"]})
    run = line(TWO[0], twice)
    assert times(run) == [2 * t for t in range(0, 1_000, 50)]
    saved = run.save(tmp_path / "twice")
    assert saved.dataflow.vertices == run.dataflow.vertices
    assert twice in saved.dataflow.vertices
    with pytest.raises(RecordingError, match="Python functions"):
        _ = Recording.read(tmp_path / "twice").dataflow


def test_a_recording_of_something_else_has_no_dataflow() -> None:
    with pytest.raises(UnknownNameError, match="a recording of streams, which has no dataflow"):
        _ = StreamRecording.from_tables({}, name="empty").dataflow


def test_every_item_is_put_once_and_taken_in_order() -> None:
    run = merged()
    taken: dict[tuple[str, int], list[int]] = defaultdict(list)
    for queue in rows(run, "queues"):
        items = rows(run, "items", queue=queue["queue"])
        assert [item["sequence"] for item in items] == list(range(len(items))) != []
        assert all(before["taken"] < after["taken"] for before, after in pairwise(items))
        assert all(item["put_ms"] <= item["taken_ms"] for item in items)
        taken[queue["target"], queue["target_instance"]] += [item["taken"] for item in items]
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in taken.values())


def test_a_watermark_goes_to_all_instances_and_a_row_to_one() -> None:
    run = merged()
    first, second = kinds(run, "a", "merge", 0), kinds(run, "a", "merge", 1)
    assert first.count("watermark") == second.count("watermark") == 20
    assert first.count("event") + second.count("event") == 20
    assert min(first.count("event"), second.count("event")) == 10


def test_the_steps_of_merging_are_those_of_the_rule_over_the_items() -> None:
    """The items of an instance, in the order taken, through the pure rule give the recorded steps of its edge."""
    run = merged()
    queues = {q["queue"]: q for q in rows(run, "queues", target="count", target_instance=0)}
    items = sorted((i for i in rows(run, "items") if i["queue"] in queues), key=lambda item: item["taken"])
    known: dict[str, Item] = {"event": (), "idle": IDLE_MESSAGE, "done": DONE}
    coalescer, expected = KeyedCoalescer(len(queues)), []
    for item in items:
        stimulus = known.get(item["kind"], Watermark(item["key"], item["value"]))
        out = coalescer.step(queues[item["queue"]]["input"], stimulus)
        found = [(o.key, o.value) for o in out if isinstance(o, Watermark)]
        expected += [(item["taken"] + 1, found, IDLE_MESSAGE in out)] if out else []
    steps = rows(run, "coalescing", vertex="count", instance=0, level="edge")
    emitting = [s for s in steps if s["emitted"] or s["emitted_idle"]]
    assert [(s["taken"], s["emitted"], s["emitted_idle"]) for s in emitting] == expected
    assert expected


def test_a_source_notes_which_partition_holds_it() -> None:
    parts = {"columns": ["t", "p"], "rows": [[0, 0], [100, 1], [200, 0], [300, 0]], "partitions": 2}
    run = line(source("a", (), **parts, partition_by="p", idle_timeout_ms=500), duration_ms=1_000)
    steps = rows(run, "coalescing", vertex="a")
    assert [(s["input"], s["stimulus"], s["value"], s["emitted"]) for s in steps] == [
        (0, "event", 0, []),
        (1, "event", 100, [(0, 0)]),
        (0, "event", 200, [(0, 100)]),
        (0, "event", 300, []),
        (None, "tick", None, [(0, 300)]),
        (None, "tick", None, []),
    ]
    assert [s["idle"] for s in steps[-2:]] == [[1], [0, 1]]
    assert steps[-1]["emitted_idle"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_dataflow_whose_sources_end_is_complete_and_lets_everything_out(ends: bool) -> None:
    run = line(source("a", [0, 40, 130], ends=ends), count())
    assert outcome(run) == ("completed" if ends else "running")
    assert results(run) == [{"start": 0, "end": 100, "n": 2}, *([{"start": 100, "end": 200, "n": 1}] if ends else [])]


def test_the_size_of_a_join_is_told_by_side() -> None:
    join = flow.Join("join", "left.t - 100 <= right.t <= left.t + 100")
    sides = [source("a", [100, 200, 300]), source("b", [1_000], times=[flow.EventTime("t", key=1)])]
    run = recorded([*sides, join], ["a -> join -> out", "b -> join"], duration_ms=900)
    assert [row["size"] for row in rows(run, "state", vertex="join", buffer="left")] == [1, 2, 3]
    assert rows(run, "state", vertex="join", buffer="right") == []
    assert marks(run, "join", "out") == []


def test_instances_keep_up_with_a_row_and_a_watermark_each_millisecond() -> None:
    """A turn goes on while there is something on the queues: one run of rows each turn would fall behind for good."""
    run = line(source("s", range(2_000)), count(), duration_ms=2_010, jitter_ms=2.0)
    assert len(rows(run, "source_rows")) == 2_000
    assert not rows(run, "incidents")
    waited = [item["taken_ms"] - item["put_ms"] for item in rows(run, "items")]
    assert max(waited) <= 2
