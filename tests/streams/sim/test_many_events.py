"""Events leave memory while a run is recorded, and nothing that is recorded depends on when they do."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

import wmlab as wm
from tests.repetitions import repetitions
from tests.streams.sim.worlds import drawn, run
from wmlab.core import schemas
from wmlab.core.errors import RecordingError
from wmlab.core.storage import GrowingTable, StoredTable
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import script
from wmlab.streams.scenario.clocks import LocalClock
from wmlab.streams.scenario.parts import Clock, Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.sim import load
from wmlab.streams.sim.load import Backlog, Load

TWO = [Stream("a", segments=2), Stream("b", segments=1)]
WRITERS = [
    EventWriter("w1", rate_per_s=300, delay_mean_ms=200, stream="a"),
    EventWriter("w2", rate_per_s=100, event_bytes=7, stream="b"),
    TransactionalWriter("t", rate_per_s=80, stream="a"),
]


def scenario(**fields: Any) -> wm.Scenario:
    given = {"streams": TWO, "writers": WRITERS, "duration_ms": 10_000, "readers": ReaderGroup(stream="a")}
    given["controllers"] = Controllers(period_ms=1_000)
    return wm.Scenario("many", **(given | fields))


def one_stream(**fields: Any) -> wm.Scenario:
    writer = EventWriter("w", rate_per_s=500, delay_mean_ms=300)
    return scenario(**({"streams": (), "writers": [writer], "readers": ReaderGroup()} | fields))


def small(monkeypatch: pytest.MonkeyPatch, rows: int = 64, span: int = 16) -> None:
    monkeypatch.setattr(schemas, "ROW_GROUP", rows)
    monkeypatch.setattr(load, "SPAN", span)


AT, LATER = st.integers(0, 9_000), st.integers(1, 3_000)
ACTIONS = st.lists(
    st.one_of(
        drawn(script.CrashWriter, at_ms=AT, writer=["w1", "w2", "t"], restart_after_ms=LATER, backlog=["lost", "kept"]),
        drawn(script.ShutDownWriter, at_ms=AT, writer="w1", restart_after_ms=LATER, backlog=["lost", "kept"]),
        drawn(script.DuplicateWriter, at_ms=AT, writer="w2"),
        drawn(script.DeleteStream, at_ms=AT, stream="b"),
    ),
    max_size=3,
)


ONE_OF_EACH = [
    script.CrashWriter(at_ms=2_000, writer="t", restart_after_ms=1_500, backlog="kept"),
    script.CrashWriter(at_ms=3_000, writer="w2", restart_after_ms=900, backlog="lost"),
    script.DuplicateWriter(at_ms=4_000, writer="w2"),
    script.ShutDownWriter(at_ms=6_000, writer="w1", restart_after_ms=2_000, backlog="kept"),
    script.DeleteStream(at_ms=8_000, stream="b"),
]


@settings(max_examples=repetitions(3, long=12), deadline=None)
@given(ACTIONS, st.integers(1, 3), st.integers(0, 5), st.sampled_from([30, 700]))
@example(actions=ONE_OF_EACH, processes=2, seed=1, rows=30)
@example(actions=ONE_OF_EACH, processes=1, seed=1, rows=700)
def test_a_recording_does_not_depend_on_when_its_events_leave_memory(actions, processes, seed, rows):
    writers = [WRITERS[0], EventWriter("w2", rate_per_s=100, processes=processes, stream="b"), WRITERS[2]]
    case = scenario(writers=writers, script=actions, seed=seed)
    whole = case.record(progress=False)
    with pytest.MonkeyPatch.context() as patch:
        small(patch, rows)
        chunked = case.record(progress=False)
    assert whole.tables.in_scratch("events") is None
    assert chunked.tables.in_scratch("events") is not None
    assert chunked == whole


def test_a_run_never_holds_more_than_a_row_group_and_a_batch(monkeypatch):
    small(monkeypatch)
    held, windows = [], []
    append, extend = GrowingTable.append, Backlog._extend

    def counted(self, rows):
        append(self, rows)
        held.append(max(rows.num_rows, self._waiting.num_rows))

    def extended(self, span):
        extend(self, span)
        windows.append(len(self))

    monkeypatch.setattr(GrowingTable, "append", counted)
    monkeypatch.setattr(Backlog, "_extend", extended)
    most = []
    for duration_ms in (20_000, 60_000):
        held.clear()
        windows.clear()
        events = one_stream(duration_ms=duration_ms, readers=None).record(progress=False).counts["events"]
        assert events > 400 * duration_ms / 1_000
        most.append(max(windows))
        # A batch of 100 ms has 50 events; 100 would be far out.
        assert max(held) <= 64 + 100
    # What waits is what is delayed: 300 ms on average, a few seconds at most.
    assert max(most) < 4_000
    assert most[1] < 2 * most[0]


def test_a_long_segment_of_one_size_of_events_takes_no_room():
    world = run(writers=[EventWriter("w", rate_per_s=50)], stream=Stream())
    (stored,) = world.stream().store.values()
    assert (len(stored._runs), stored.end_of(stored.events)) == (1, stored.length)


def test_a_saved_recording_has_the_same_bytes(monkeypatch, tmp_path):
    whole = one_stream().record(progress=False)
    monkeypatch.setattr(schemas, "ROW_GROUP", 64)
    whole.save(tmp_path / "whole")
    small(monkeypatch)
    chunked = one_stream().record(tmp_path / "chunked", progress=False)
    bytes_of = [(tmp_path / name / "events" / "part-0.parquet").read_bytes() for name in ("whole", "chunked")]
    assert bytes_of[0] == bytes_of[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chunked", "whole"]
    assert chunked.tables.in_scratch("events") is None
    assert chunked == wm.trace.Recording.read(tmp_path / "chunked") == whole


def test_what_has_left_memory_goes_with_the_recording(monkeypatch, tmp_path):
    small(monkeypatch)
    recording = one_stream().record(progress=False)
    stored = recording.tables.in_scratch("events")
    assert (stored.num_rows, stored.file.exists()) == (recording.counts["events"], True)
    elsewhere = recording.save(tmp_path / "r")
    file = stored.file
    del recording, stored
    assert not file.parent.exists()
    assert elsewhere.table("events").num_rows == elsewhere.counts["events"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_run_that_is_stopped_leaves_nothing(monkeypatch, tmp_path, failure):
    small(monkeypatch)
    seen = []

    def stop(percent):
        seen.extend(p.name for p in tmp_path.iterdir())
        if percent == 90:
            raise failure

    with pytest.raises(failure):
        one_stream().record(tmp_path / "run", progress=stop)
    assert seen
    assert "run" not in seen
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_recording_error_and_leaves_nothing(monkeypatch, tmp_path):
    small(monkeypatch)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(RecordingError, match=r"events of the run cannot be kept on disk.*No space left"):
        one_stream().record(tmp_path / "run", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_answers_are_the_same_from_disk(monkeypatch):
    case = one_stream(script=[script.CrashWriter(at_ms=4_000, writer="w", restart_after_ms=2_000)])
    whole = case.record(progress=False)
    small(monkeypatch)
    chunked = case.record(progress=False)
    assert isinstance(chunked.tables.in_scratch("events"), StoredTable)
    for answer in (
        lambda run: run.scrub(at_ms=5_000).chart,
        lambda run: str(run.explain(at_ms=5_000)),
        lambda run: run.time_at(run.stream_cut_at(5_000)),
        lambda run: str(wm.chart.topology(run)),
    ):
        assert answer(chunked) == answer(whole)
    assert chunked.tables.in_scratch("events") is not None
    assert list(chunked.tables) == list(whole.tables) == list(StreamRecording.schemas)


def test_spark_reads_what_has_left_memory(spark, monkeypatch):
    small(monkeypatch, 2_000)
    recording = one_stream().record(progress=False)
    frame, count = recording.spark(spark, "events"), recording.counts["events"]
    assert recording.time_bounds(spark).where("perfect_watermark is not null").count()
    assert recording.tables.in_scratch("events") is not None
    del recording
    assert frame.count() == count


@settings(max_examples=300)
@given(st.data())
def test_a_load_in_spans_is_the_load(data):
    gaps = data.draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200)), min_size=1, max_size=40))
    happens = np.cumsum([gap for gap, _ in gaps])
    whole = Load(happens, happens + np.array([late for _, late in gaps]), np.arange(len(gaps), dtype=np.uint64))
    ends = sorted(data.draw(st.sets(st.integers(1, len(gaps)))) | {len(gaps)})
    spans = [whole[begin:end] for begin, end in pairwise([0, *ends])]
    backlogs = [Backlog(given, LocalClock(0, Clock()), start_ms=0, batch_ms=10) for given in ((whole,), spans)]

    def both(name, *args, **fields):
        """What both do and say."""
        said = [getattr(backlog, name) for backlog in backlogs]
        one, other = (say(*args, **fields) if callable(say) else say for say in said)
        assert np.array_equal(one, other)
        return one

    now_ms, sent = 0, []
    for step in data.draw(st.lists(st.sampled_from(["tick", "take", "pop_ready", "answer", "note", "crash", "flush"]))):
        now_ms += data.draw(st.integers(0, 60))
        if step == "tick":
            both("next_tick")
        elif step in ("take", "pop_ready"):
            sent.append(both(step, now_ms))
            both("keys_of", sent[-1])
            both("times_of", sent[-1])
        elif step == "answer" and sent:
            both("acknowledge", sent.pop(data.draw(st.integers(0, len(sent) - 1))))
        elif step == "crash":
            sent.clear()
            both("start_over", now_ms, keep=data.draw(st.booleans()))
        elif step == "flush":
            both("all_settled", both("unanswered"))
        both("earliest_open", now_ms)
        both("acknowledged_times")
    one, other = (backlog.from_now_on(now_ms, moves=True) for backlog in backlogs)
    for name in ("happens_ms", "arrives_ms", "key"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_chunks_of_a_table_in_memory_are_the_table():
    recording = one_stream(duration_ms=1_000).record(progress=False)
    (chunk,) = recording.chunks("events", "writer")
    assert chunk == recording.table("events").select(["writer"])
    assert isinstance(chunk, pa.Table)
