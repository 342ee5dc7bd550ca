"""The index of the marks segment: from times to cuts and back, and what a crash between the two appends leaves."""

from itertools import pairwise

import pytest

from tests.streams.sim.worlds import rows, run, scenario
from wmlab.core.errors import ModelError, RecordingError
from wmlab.streams.scenario import network, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers

SPLIT = script.Scale(at_ms=6_000, seal=["0@0"])


@pytest.fixture(scope="module")
def recording():
    return scenario(script=[SPLIT]).record(progress=False)


def test_every_watermark_has_a_record_of_where_it_begins():
    world = run(script=[SPLIT])
    marks, records = rows(world, "watermarks"), rows(world, "watermark_index")
    assert [record["time"] for record in records] == [mark["lower"] for mark in marks]
    assert [record["offset"] for record in records] == [0, *(mark["revision"] for mark in marks)][:-1]
    assert not any(record["recovered"] for record in records)
    assert len(world.stream(None).index.content) == 16 * len(marks)


def test_a_crash_between_the_appends_leaves_the_index_short_until_the_next_leader_repairs_it():
    fleet = Controllers(3, period_ms=500, session_timeout_ms=2_000, redistribute_every_ms=500)
    world = run(controllers=fleet, script=[script.CrashController(at_ms=7_000, point="after_append")])
    (crash,) = rows(world, "incidents", kind="crash")
    marks, records = rows(world, "watermarks"), rows(world, "watermark_index")
    (late,) = [record for record in records if record["recovered"]]
    (lost,) = [mark for mark in marks if mark["emitted_ms"] == crash["at_ms"]]
    assert late["time"] == lost["lower"]
    assert late["controller"] != lost["controller"] == crash["target"]
    assert late["appended_ms"] > crash["at_ms"] + 2_000
    assert not [mark for mark in marks if crash["at_ms"] < mark["emitted_ms"] < late["appended_ms"]]
    assert [record["time"] for record in records] == [mark["lower"] for mark in marks]


def test_two_leaders_write_every_record_once():
    expire = script.ExpireSession(at_ms=6_000, notice_after_ms=6_000)
    fleet = Controllers(2, period_ms=500, session_timeout_ms=2_000, redistribute_every_ms=500)
    world = run(controllers=fleet, network=Network(inside=network.Fixed(3)), script=[expire])
    assert len({row["controller"] for row in rows(world, "watermarks")}) == 2
    marks, records = rows(world, "watermarks"), rows(world, "watermark_index")
    assert [record["time"] for record in records] == [mark["lower"] for mark in marks]
    assert [record["place"] for record in records] == list(range(len(marks)))


def test_a_time_gives_the_cut_of_the_last_watermark_not_beyond_it(recording):
    marks = recording.table("watermarks").to_pylist()
    for earlier, later in pairwise(marks):
        for time in (earlier["lower"], later["lower"] - 1):
            assert dict(recording.stream_cut_at(time)) == dict(earlier["cut"])
    assert recording.stream_cut_at(marks[0]["lower"] - 1) is None
    assert dict(recording.stream_cut_at(10**15)) == dict(marks[-1]["cut"])


def test_a_cut_gives_back_its_time(recording):
    marks = recording.table("watermarks").to_pylist()
    for place, mark in enumerate(marks):
        window = recording.time_at(recording.stream_cut_at(mark["lower"]))
        equal = [other["lower"] for other in marks if other["cut"] == mark["cut"]]
        assert window.lower == max(equal)
        ahead = [other for other in marks[place:] if other["cut"] != mark["cut"]]
        assert window.upper == (ahead[0]["upper"] if ahead else None)
    start = recording.time_at({"0@0": 0, "1@0": 0})
    assert (start.lower, start.upper) == (None, marks[0]["upper"])


def test_what_the_index_lacks_is_found_in_the_log():
    crash = script.CrashController(at_ms=7_000, point="after_append")
    recording = scenario(script=[crash]).record(progress=False)
    marks = recording.table("watermarks").to_pylist()
    assert recording.counts["watermark_index"] == len(marks) - 1
    assert dict(recording.stream_cut_at(10**15)) == dict(marks[-1]["cut"])
    assert recording.time_at(dict(marks[-1]["cut"])).lower == marks[-1]["lower"]


@pytest.mark.parametrize("cut", [{}, {"0@0": 5}, {"0@0": 1, "1@0": 1, "2@1": 1}, {"9@9": 1, "1@0": 1}])
def test_a_place_that_is_no_stream_cut_is_refused(recording, cut):
    with pytest.raises(ModelError, match="is not a stream cut"):
        recording.time_at(cut)


def test_an_unknown_stream_is_refused(recording):
    assert recording.stream_cut_at(5_000, stream="stream") == recording.stream_cut_at(5_000)
    with pytest.raises(RecordingError, match="'other'"):
        recording.stream_cut_at(0, stream="other")
