"""What lies between two places of a recorded stream, where a group was, and what other designs would say there."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.streams.answers import runs
from tests.streams.sim.worlds import scenario, txn_writer
from wmlab.core.errors import ModelError, RecordingError
from wmlab.streams.answers.history import epochs_of
from wmlab.streams.model.position import Position, is_valid_cut
from wmlab.streams.model.segment import segment_name
from wmlab.streams.scenario import script
from wmlab.streams.scenario.parts import EventWriter, ReaderGroup
from wmlab.streams.scenario.rules import Rules

SCALE = script.Scale(at_ms=8_000, seal=["0@0"], into=2)
LATE = EventWriter("late", rate_per_s=40, delay_mean_ms=400)


def recorded(*more, **fields):
    writers = [EventWriter("w", rate_per_s=60), LATE, *more]
    return scenario(writers=writers, script=[SCALE], **fields).record(progress=False)


@pytest.fixture(scope="module")
def run():
    return recorded()


def unread(run, position: Position, column: str) -> int | None:
    """The smallest value of a column of events still to be read at a position."""
    history = epochs_of(run, "stream")
    later = {s.id for s in history.segments.values() if {a.id for a in history.ancestors(s.id)} & set(position.offsets)}
    events = [
        row[column]
        for row in run.table("events").to_pylist()
        if row["segment_id"] in later or row["offset"] > position.offsets.get(row["segment_id"], 2**62)
    ]
    return min(events, default=None)


def test_bytes_between_two_cuts_add_up(run):
    first, second = run.stream_cut_at(4_000), run.stream_cut_at(12_000)
    assert (set(first), set(second)) != (set(second), set(first))
    parts = [run.bytes_between(*ends) for ends in (({}, first), (first, second), (second, {}))]
    whole = run.bytes_between({}, {})
    assert list(whole) == ["0@0", "1@0", "2@1", "3@1"]
    assert {name: sum(part.get(name, 0) for part in parts) for name in whole} == whole
    ends = run.to_pandas("events").groupby("segment_id").offset.max()
    assert whole == {segment_name(segment): end for segment, end in ends.items()}


def test_cuts_in_the_wrong_order_are_refused(run):
    with pytest.raises(ModelError, match="lies before the first"):
        run.bytes_between(run.stream_cut_at(12_000), run.stream_cut_at(4_000))
    with pytest.raises(ModelError, match=r"0@0 would end at \d+ and begin at 1000000000"):
        run.bytes_between({0: 10**9, 1: 0}, {})


def test_what_is_no_time_or_no_cut_is_refused(run):
    with pytest.raises(RecordingError, match="time is 'soon'"):
        run.stream_cut_at("soon")
    assert run.stream_cut_at("4 s") == run.stream_cut_at(4_000)
    with pytest.raises(ModelError, match="5 is not a position"):
        run.time_at(5)
    with pytest.raises(RecordingError, match="no stream 5"):
        run.explain(stream=5)


def test_the_positions_of_each_group_are_those_that_it_published():
    groups = [ReaderGroup("fast"), ReaderGroup("slow", rate_per_s=20.0)]
    run = recorded(readers=groups)
    found = run.group_positions()
    assert list(found) == ["fast", "slow"]
    for name, positions in found.items():
        rows = [row for row in run.table("positions").to_pylist() if row["group"] == name]
        assert [at_ms for at_ms, _ in positions] == list({row["version"]: row["at_ms"] for row in rows}.values())
        last = {row["segment_id"]: row["offset"] for row in rows if not row["finished"]}
        gone = {row["segment_id"] for row in rows if row["finished"]}
        assert positions[-1][1].offsets == {segment: last[segment] for segment in last if segment not in gone}


def test_a_group_with_a_map_of_times_keeps_one_window_that_its_readers_see_later():
    mapped = recorded(readers=ReaderGroup("map", readers=2), rules=Rules(read_side="document"))
    compared = recorded(readers=ReaderGroup("offsets", rate_per_s=30.0))
    assert len(mapped.group_windows()["map"]) == len(mapped.table("group_updates"))
    moments = [at_ms for at_ms, _ in compared.group_windows()["offsets"]]
    published = [at_ms for at_ms, _ in compared.group_positions()["offsets"]]
    emitted = {row["emitted_ms"] for row in compared.table("watermarks").to_pylist()}
    assert set(published) < set(moments) <= set(published) | emitted
    assert moments == sorted(moments)
    for run in (mapped, compared):
        (windows,) = run.group_windows().values()
        assert [window.lower for _, window in windows][-1] > 3_000
        seen = [(row["at_ms"], row["lower"], row["upper"]) for row in run.table("windows").to_pylist()]
        kept = [(0, None, None), *((at_ms, window.lower, window.upper) for at_ms, window in windows)]
        assert all(any(at <= when and known == bounds for at, *known in kept) for when, *bounds in seen)
    updates = compared.table("group_updates").to_pylist()
    assert {(row["lower"], row["upper"]) for row in updates} == {(None, None)}


@pytest.mark.parametrize("read_side", ["document", "implementation"])
def test_the_most_recent_watermark_of_a_reader_is_the_last_one_that_gave_its_lower_bound(read_side):
    run = recorded(readers=[ReaderGroup("map", readers=2)], rules=Rules(read_side=read_side))
    log = {row["seq"]: row for row in run.table("watermarks").to_pylist()}
    looks = run.table("windows").to_pylist()
    passed = 0
    for row in looks:
        last = [other for other in looks if (other["reader"], other["at_ms"]) == (row["reader"], row["at_ms"])][-1]
        watermark = run.most_recent_watermark(row["reader"], row["at_ms"])
        if last["lower_seq"] is None:
            assert watermark is None
        else:
            passed += 1
            entry = log[last["lower_seq"]]
            assert (watermark.lower, watermark.cut.offsets) == (entry["lower"], dict(entry["cut"]))
    assert passed > 10
    end = max(row["at_ms"] for row in looks)
    assert run.most_recent_watermark("map-0") == run.most_recent_watermark("map-0", end)
    assert run.most_recent_watermark("map-0", -1) is None
    with pytest.raises(RecordingError, match=r"(?s)no reader 'map-9' .* Give one of map-0 and map-1"):
        run.most_recent_watermark("map-9")


def test_windows_are_of_what_was_visible_then_or_of_the_complete_log(run):
    with pytest.raises(RecordingError, match="visible is 'later'"):
        run.group_windows(visible="later")


def test_windows_of_a_group_change_while_it_stands_still():
    """One writer notes on, and there is nothing more to read."""
    run = scenario(
        writers=[EventWriter("w1", rate_per_s=0.5, note_every_ms=500)],
        readers=[ReaderGroup("r", publish_every_ms=500)],
    ).record(progress=False)
    windows, looks = run.group_windows()["r"], run.table("windows").to_pylist()
    for row in looks:
        known = [(None, None), *((w.lower, w.upper) for at_ms, w in windows if at_ms < row["at_ms"])][-1]
        at_once = {(w.lower, w.upper) for at_ms, w in windows if at_ms == row["at_ms"]}
        assert (row["lower"], row["upper"]) in at_once | {known}


def test_an_attribute_is_found_by_the_time_before_it(run):
    marks, attributes, *_ = run.read_sides()
    lowers = run.table("watermarks")["lower"].to_pylist()
    for before, after in pairwise(lowers):
        found = attributes.find_next_attribute_following(before)
        assert found is not None
        assert found.lower == after
        assert attributes.find_next_attribute_following(after - 1) == found
    assert attributes.find_next_attribute_following(lowers[-1]) is None
    with pytest.raises(ModelError, match="'marks segment' keeps no attributes"):
        marks.find_next_attribute_following(0)


def test_the_marks_segment_says_what_the_index_finds(run):
    marks, attributes, *_ = run.read_sides()
    history, checked = epochs_of(run, "stream"), 0
    for _, position in run.group_positions()["readers"]:
        if is_valid_cut(position.offsets, history):
            assert marks.window(position, 10**9) == run.time_at(position.offsets) == attributes.window(position, 10**9)
            checked += 1
    assert checked > 30


def test_a_watermark_is_known_when_all_before_it_in_the_log_have_been_emitted() -> None:
    positions = [runs.position(100 * n, n, 100 * n) for n in range(1, 6)]
    times = ((0, 100), (1, 300), (2, 200), (3, 400))
    marks = [runs.watermark(seq, emitted_ms, w=10 * seq + 10) for seq, emitted_ms in times]
    run = runs.written(watermarks=marks[::-1], positions=positions, writer_marks=[runs.mark("w", 10, 90)])
    windows = [(at_ms, window.lower) for at_ms, window in run.group_windows()["r"]]
    assert windows == [(100, 10), (200, 10), (300, 30), (400, 40), (500, 40)]
    design, discarded, *_ = run.read_sides()
    for at_ms, lower in windows:
        place = Position({0: at_ms})
        assert design.window(place, at_ms).lower == discarded.window(place, at_ms).lower == lower
    assert design.window(Position({0: 10_000}), 250).lower == 10, "the second one was emitted at 300 ms"


def test_ingestion_time_is_exact_for_appends_and_not_for_what_happened(run):
    *_, stored = run.read_sides()
    above = 0
    for at_ms, position in run.group_positions()["readers"]:
        window, happened = stored.window(position, at_ms), unread(run, position, "event_time")
        assert window.lower <= (unread(run, position, "append_ms") or 10**9)
        above += happened is not None and window.lower > happened
    assert above > 20


def test_an_index_in_each_segment_is_safe_until_there_are_transactions(run):
    def unsafe(run):
        _, _, index, _ = run.read_sides()
        # At first a segment does not know who else is going to note.
        known = [(at_ms, position) for at_ms, position in run.group_positions()["readers"] if at_ms > 3_000]
        given = [(index.window(p, at_ms).lower, unread(run, p, "event_time")) for at_ms, p in known]
        assert sum(lower is not None for lower, _ in given) > 20
        return sum(lower is not None and happened is not None and lower > happened for lower, happened in given)

    assert unsafe(run) == 0
    assert unsafe(recorded(txn_writer(every_ms=3_000))) > 10


def test_a_new_segment_has_no_index_of_its_own_at_first(run):
    marks, _, index, _ = run.read_sides()
    begun = [(at, p) for at, p in run.group_positions()["readers"] if 8_000 < at <= 9_000 and len(p.offsets) == 3]
    assert begun
    assert {index.window(position, at_ms).lower for at_ms, position in begun} >= {None}
    assert None not in {marks.window(position, at_ms).lower for at_ms, position in begun}
