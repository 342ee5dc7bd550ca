"""Whole streams, scaling and odd ones: rows S1 to S12 of the failures, and many streams at once."""

from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.streams.sim.worlds import cut_of, group, noted, run, run_of, scenario, scripted
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems
from wmlab.streams.api import Scenario
from wmlab.streams.charts import watermark_cycles
from wmlab.streams.model.index import window_at
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import parse_segment, segment_name
from wmlab.streams.model.window import Tracker
from wmlab.streams.scenario import network, noting, script
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules
from wmlab.streams.sim.load import Load
from wmlab.streams.sim.run import journals_of
from wmlab.streams.tables import TABLES


def test_s6_a_cycle_without_segment_metadata_fails_and_the_next_tries_again():
    """Row S6: the cycle fails, is written down, and is retried."""
    world = run(script=[script.StoreUnavailable(at_ms=6_000, for_ms=2_000, store="segment_metadata")])
    failed = world.column("cycles", "at_ms", reason="cycle failed: segment metadata unavailable")
    assert failed == [6_005, 6_505, 7_005, 7_505]
    assert set(world.outcomes()) == {"success"}
    assert world.rows("watermarks", 8_000)


SPLIT = script.Scale(at_ms=4_000, seal=["0@0"])


def test_s9_marks_outlive_the_data_and_a_reader_at_the_head_has_passed_them():
    """Row S9: a group that starts after the truncation starts at the cut and passes every mark before it."""
    groups = (ReaderGroup("early"), ReaderGroup("late", starts_ms=14_100, rate_per_s=0.001))
    world = run(script=[SPLIT, script.TruncateStream(at_ms=14_000)], readers=groups)
    start = {segment_name(r["segment_id"]): r["offset"] for r in world.rows("positions", group="late", version=0)}
    assert set(start) == {"1@0", "2@1", "3@1"}
    assert all(start.values())
    passed = [lower for at, lower in world.emitted() if at < 14_000]
    assert world.column("windows", "lower", group="late")[0] >= passed[-2]
    assert len(world.stream().log.entries) == len(world.rows("watermarks"))


def test_s9_a_reader_behind_the_truncation_goes_on_at_its_start():
    slow = ReaderGroup(readers=2, rate_per_s=2, publish_every_ms=500)
    world = run(script=[SPLIT, script.TruncateStream(at_ms=14_000)], readers=slow)
    assert set(world.column("positions", "segment_id", finished=True)) == {parse_segment("0@0")}
    ends = {row["segment_id"]: row["offset"] for row in world.rows("positions", finished=False)}
    assert all(ends[segment] >= offset for segment, offset in world.stream().head.items())


def test_s9_a_cut_is_one_or_is_refused():
    cut = {"0@0": 500, "1@0": 0}
    world = run(script=[script.TruncateStream(at_ms=9_000, cut=cut)])
    assert world.stream().head == {0: 432, 1: 0}
    with pytest.raises(ScenarioError, match="not a stream cut"):
        run(script=[script.TruncateStream(at_ms=9_000, cut={"0@0": 500})])


def test_s10_of_a_sealed_stream_everything_is_read_and_the_last_watermark_passed():
    """Row S10: writers stop; then lower is that of the last watermark and upper is unknown."""
    world = run(script=[script.SealStream(at_ms=9_050)])
    assert max(world.events.append_ms) <= 9_055
    assert max(world.column("writer_marks", "noted_ms")) <= 10_000
    assert set(world.column("segments", "sealed_ms")) == {9_055}
    last = world.bounds()[-1][0]
    assert {(row["lower"], row["upper"]) for row in world.rows("windows", 18_000)} == {(last, None)}
    # Both are read to their ends, where they count for ever: no successor takes their place.
    ended = {row["segment_id"]: row["offset"] for row in world.rows("positions", waits=True)}
    assert ended == {segment: world.stream().store[segment].length for segment in (0, 1)}
    assert not world.rows("positions", finished=True)
    reading = world.group.state.streams["stream"]
    assert not reading.offsets
    assert reading.position.offsets == ended


def test_s11_a_stream_that_is_created_again_begins_anew():
    """Row S11: the log is empty, a leader that remembers the old one fails once, times may restart lower."""
    reset = script.DeleteStream(at_ms=9_000, recreate_after_ms=2_000)
    world = run(script=[reset], controllers=Controllers(period_ms=500))
    reasons = world.column("cycles", "reason", of="stream#2")
    assert reasons[0] == "cycle failed: no such marks segment"
    assert reasons.count(reasons[0]) == 1
    first = world.rows("watermarks", of="stream#2")[0]
    assert first["seq"] == 0
    assert first["emitted_ms"] > 12_000
    assert not world.rows("cycles", 9_000, of="stream")
    assert [segment_name(segment) for segment in world.column("segments", "segment_id", of="stream#2")] == [
        "2@0",
        "3@0",
    ]
    assert set(world.column("windows", "group", of="stream#2")) == {"readers"}
    assert max(lower or 0 for lower in world.column("windows", "lower", of="stream#2")) > 12_000


def test_s11_a_stream_that_stays_deleted_is_silent():
    crash = script.CrashWriter(at_ms=2_000, writer="w2", restart_after_ms=9_000)
    world = run(script=[script.DeleteStream(at_ms=9_000), crash])
    assert list(journals_of(world)) == ["stream", None]
    journal = journals_of(world)["stream"]
    assert max(journal.events(()).append_ms) < 9_100
    assert max(row["at_ms"] for row in journal.rows["windows"]) <= 9_000
    assert len(journal.rows["segments"]) == 2


def test_s11_a_note_that_arrives_after_the_deletion_is_refused():
    world = run(script=[script.DeleteStream(at_ms=9_002)])
    last = world.rows("writer_marks", of="stream")[-2:]
    assert [(row["noted_ms"], row["outcome"]) for row in last] == [(9_000, "no such stream")] * 2


def test_s12_a_note_in_the_instant_of_leaving_the_bucket_wakes_nobody():
    """Row S12: the mark is stored, but no cycle runs until the next note."""
    case = {
        "writers": [EventWriter("w", rate_per_s=50)],
        "stream": Stream(timestamp_aggregation_timeout_ms=0),
        "controllers": Controllers(2, period_ms=400),
    }
    calm = run(**case)
    leader = calm.rows("cycles")[0]["controller"]
    # A cycle takes the stream out of its bucket; the note after it goes to the other controller.
    left_ms, note = next(
        (cycle["at_ms"], note)
        for cycle in calm.rows("cycles", reason="no active writer")
        for note in calm.rows("writer_marks")
        if 0 < note["received_ms"] - cycle["at_ms"] < 500 and note["controller"] != leader
    )
    resumes_ms = note["received_ms"] + 100
    world = run(
        script=[
            script.PauseController(at_ms=left_ms - 1, for_ms=resumes_ms - left_ms, point="before_leave"),
            script.SilenceWriter(at_ms=note["noted_ms"] + 1, writer="w", for_ms=4_000),
        ],
        **case,
    )
    assert world.rows("writer_marks", noted_ms=note["noted_ms"])[0]["outcome"] == "success"
    following = next(row["received_ms"] for row in world.rows("writer_marks") if row["received_ms"] > resumes_ms)
    assert following > note["received_ms"] + 3_000
    assert world.column("cycles", "at_ms", resumes_ms)[0] >= following + 400
    assert world.rows("watermarks", following)


def several(**fields):
    given = {
        "streams": [Stream("a"), Stream("b", segments=3), Stream("idle")],
        "writers": [
            EventWriter("wa", rate_per_s=50, stream="a"),
            EventWriter("wb", rate_per_s=20, stream="b"),
            EventWriter("wc", rate_per_s=20, stream="b"),
        ],
        "readers": [ReaderGroup("ra", stream="a"), ReaderGroup("rb", readers=2, stream="b")],
        "controllers": Controllers(3, period_ms=500, buckets=7),
        "duration_ms": 20_000,
    }
    return Scenario("several", **(given | fields))


def test_many_streams_have_their_own_marks_cycles_and_owners():
    recording = several().record(progress=False)
    tables = {name: recording.to_pandas(name) for name in TABLES}
    for stream, writers in {"a": {"wa"}, "b": {"wb", "wc"}}.items():
        of = {name: frame[frame["stream"] == stream] for name, frame in tables.items() if "stream" in frame}
        assert set(of["writer_marks"]["writer"]) == set(of["events"]["writer"]) == writers
        lowers = of["watermarks"]["lower"].tolist()
        assert len(lowers) > 15
        assert all(earlier < later for earlier, later in pairwise(lowers))
        assert set(of["windows"]["group"]) == {f"r{stream}"}
        assert of["watermarks"]["seq"].tolist() == list(range(len(lowers)))
    assert set(tables["segments"]["stream"]) == {"a", "b", "idle"}
    assert "idle" not in set(tables["cycles"]["stream"])
    homes = {name: row["bucket"] for _, row in tables["ownership"].iterrows() for name in row["streams"]}
    assert set(homes) == {"a", "b", "idle"}
    by_bucket = dict(zip(tables["ownership"]["bucket"], tables["ownership"]["controller"], strict=True))
    ran = set(zip(tables["cycles"]["stream"], tables["cycles"]["controller"], strict=True))
    assert ran == {(name, by_bucket[homes[name]]) for name in ("a", "b")}


def test_one_stream_in_either_style_is_the_same_run():
    one = scenario(stream=Stream("river", segments=2), script=[script.CrashWriter(at_ms=9_000, writer="w1")])
    other = one.replace(stream=Stream(), streams=[Stream("river", segments=2)])
    assert one.record(progress=False).tables == other.record(progress=False).tables


def test_a_fault_of_one_stream_leaves_the_other_alone():
    calm = several().record(progress=False)
    seal = script.SealStream(at_ms=5_000, stream="a")
    split = script.Scale(at_ms=6_000, stream="b", seal=["1@0"])
    broken = several(script=[seal]).record(progress=False)

    def of(recording, table, stream):
        return recording.table(table).filter(pc.field("stream") == stream)

    assert of(calm, "watermarks", "b") == of(broken, "watermarks", "b")
    assert of(calm, "watermarks", "a") != of(broken, "watermarks", "a")
    epochs = of(several(script=[split]).record(progress=False), "epochs", "b")
    assert epochs["epoch"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"stream": Stream("x")}, ["streams"]),
        ({"readers": ReaderGroup()}, ["readers.stream"]),
        ({"readers": [ReaderGroup(stream="a"), ReaderGroup("r", stream="z")]}, ["readers[1].stream"]),
        ({"readers": [ReaderGroup(stream="a"), ReaderGroup(stream="a")]}, ["readers[0].name", "readers[1].name"]),
        ({"writers": [EventWriter("w", rate_per_s=1)]}, ["writers[0].stream"]),
        ({"streams": [Stream("a"), Stream("a"), Stream("b")]}, ["streams[0].name", "streams[1].name"]),
        ({"script": [script.Scale(at_ms=1, seal=["0@0"], stream="q")]}, ["script[0].stream"]),
    ],
)  # fmt: skip
def test_streams_are_named_exactly(fields, paths):
    with pytest.raises(Problems) as raised:
        several(**fields)
    assert [problem.path for problem in raised.value.problems] == paths


def test_scales_around_a_new_creation_are_checked_too():
    reset = script.DeleteStream(at_ms=500, recreate_after_ms=100)
    good = [script.Scale(at_ms=100, seal=["0@0"]), reset, script.Scale(at_ms=700, seal=["4@0"])]
    assert len(scenario(script=good).script) == 3
    for at_ms, path in ((550, "at_ms"), (700, "seal")):
        with pytest.raises(Problems) as raised:
            scenario(script=[reset, script.Scale(at_ms=at_ms, seal=["0@0"])])
        assert [problem.path for problem in raised.value.problems] == [f"script[1].{path}"]


def test_a_mistake_in_one_of_several_groups_says_in_which():
    case = several()
    assert "rb" in case._repr_html_()
    text = case.to_yaml().replace("readers: 2", "readers: none")
    with pytest.raises(Problems) as raised:
        Scenario.from_yaml(text)
    assert [problem.path for problem in raised.value.problems] == ["readers[1].readers"]


def test_s1_a_segment_that_nobody_has_reached_stands_at_its_start():
    scale = script.Scale(at_ms=100, seal=["0@0"], into=4)
    world = scripted(scale, noted(1_000, "a", 10, {"2@1": 9}), writers="a")
    assert world.rows("watermarks")[0]["cut"] == cut_of(_1_1=0, _2_1=9, _3_1=0, _4_1=0)


def test_s2_a_writer_at_a_predecessor_and_a_successor_as_in_the_document():
    scale = script.Scale(at_ms=100, seal=["0@0", "1@0"], into=["0..3/5", "3/5..1"])
    world = scripted(scale, noted(1_000, "a", 10, {"1@0": 30, "2@1": 8}), writers="a", stream={"segments": 2})
    assert world.rows("watermarks")[0]["cut"] == cut_of(_2_1=8, _3_1=0)


def test_s3_a_writer_stuck_at_a_sealed_epoch_holds_the_time_but_not_the_cut():
    stuck = EventWriter("stuck", rate_per_s=0, noting=noting.WallClock(), note_every_ms=3_000)
    scale = script.Scale(at_ms=2_000, seal=["0@0"], into=2)
    world = run(writers=[EventWriter("w", rate_per_s=200), stuck], stream=Stream(), script=[scale])
    last = world.rows("watermarks")[-1]
    assert set(world.rows("writer_marks", writer="stuck")[-1]["position"]) == {parse_segment("0@0")}
    assert set(last["cut"]) == {parse_segment("1@1"), parse_segment("2@1")}
    assert last["lower"] == last["writers"]["stuck"] == 18_000


def test_s4_a_scale_after_a_rolling_transaction_means_the_copy_of_the_same_number():
    txn = TransactionalWriter("t", rate_per_s=60, every_ms=4_000)
    scales = [script.Scale(at_ms=2_500, seal=["0@0"], into=2), script.Scale(at_ms=9_000, seal=["1@0", "3@1"], into=1)]
    world = run(writers=[EventWriter("w", rate_per_s=60), txn], script=scales)
    assert world.column("incidents", "target", kind="scale") == ["0@0", "1@3, 3@3"]
    world.assert_sound()


@pytest.mark.parametrize(
    ("rule", "watermarks", "noted_times"),
    [("no_mark", True, []), ("minimum_long", False, [-(2**63)] * 9), ("zero", True, [0] * 9)],
)
def test_s5_a_commit_without_a_time_notes_nothing_or_as_implemented_blocks_the_first_watermark(
    rule, watermarks, noted_times
):
    txn = TransactionalWriter("t", rate_per_s=20, noting=noting.Never())
    writers = [txn, EventWriter("w", rate_per_s=20, starts_ms=2_500)]
    world = run(writers=writers, stream=Stream(), rules=Rules(commit_without_time=rule))
    assert world.column("writer_marks", "time", writer="t") == noted_times
    assert bool(world.rows("watermarks")) is watermarks
    assert ("time not advanced" in world.held()) is not watermarks
    assert set(world.column("transactions", "time")) == {None}


@pytest.mark.parametrize(
    "into", [["0..0.30000000000000004", "0.3..1"], ["0..0.3", "0.30000000000000004..1"], ["0..0.5"], ["half"], 0, []]
)
def test_s8_ranges_that_do_not_line_up_are_refused(into):
    with pytest.raises(Problems):
        run(stream=Stream(), script=[script.Scale(at_ms=100, seal=["0@0"], into=into)])


def test_a_load_from_outside_keeps_its_keys():
    load = Load.of(np.array([5]), np.array([5]), np.array([2**63], np.uint64))
    world = run({"w": load}, writers=[EventWriter("w", trace="log")], stream=Stream(segments=2))
    assert world.events.segment_id.tolist() == [1]


CREATE, DELETE, SCALE, SEAL, TRUNCATE = (
    partial(kind, stream="late")
    for kind in (script.CreateStream, script.DeleteStream, script.Scale, script.SealStream, script.TruncateStream)
)


def of_two(*actions, **fields):
    """The streams `early` and `late`, each with a writer and a group."""
    parts = {
        "stream": Stream(),
        "streams": [Stream(name, segments=2, timestamp_aggregation_timeout_ms=3_000) for name in ("early", "late")],
        "writers": [EventWriter(f"w-{name}", rate_per_s=50, stream=name) for name in ("early", "late")],
        "readers": [ReaderGroup(f"g-{name}", stream=name) for name in ("early", "late")],
    }
    return scenario(**(parts | {"script": actions} | fields))


def test_a_stream_that_is_created_during_the_run_begins_with_its_writers_and_readers():
    world = run_of(of_two(CREATE(at_ms=8_000)))
    assert world.column("segments", "created_ms") == [0, 0]
    assert (world.column("segments", "created_ms", of="late"), world.column("segments", "number", of="late")) == (
        [8_000, 8_000],
        [0, 1],
    )
    assert world.column("writer_marks", "noted_ms", of="late")[0] == 9_000
    assert world.column("windows", "at_ms", of="late")[0] == 9_000
    assert [(row["kind"], row["at_ms"]) for row in world.rows("incidents", of="late")] == [("create", 8_000)]


def test_a_stream_can_be_deleted_and_created_again_by_two_actions():
    twice = of_two(DELETE(at_ms=6_000), CREATE(at_ms=9_000)).record(progress=False)
    once = of_two(DELETE(at_ms=6_000, recreate_after_ms=3_000)).record(progress=False)
    assert twice.tables == once.tables
    assert "late#2" in twice.to_pandas("watermarks")["stream"].unique()


def test_the_owner_of_a_bucket_is_notified_when_a_stream_comes_and_goes():
    news = []
    for cycles in ("while_noted", "unconditional"):
        streams = [Stream(name) for name in ("early", "late")]
        fields = {"streams": streams, "rules": Rules(cycles=cycles), "network": network.Network(keep_messages=True)}
        world = run_of(of_two(CREATE(at_ms=8_000), DELETE(at_ms=12_000), **fields))
        news.append(world.column("messages", "sent_ms", kind="bucket changed", stream="late"))
    assert news == [[9_005, 12_000], [8_000, 12_000]]


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        ([CREATE(at_ms=1), CREATE(at_ms=2)], "there already then"),
        ([DELETE(at_ms=1), DELETE(at_ms=1)], "not there then"),
        ([SCALE(at_ms=1, seal=["0@0"]), CREATE(at_ms=2)], "not there"),
        ([TRUNCATE(at_ms=1), CREATE(at_ms=2)], "not there"),
        ([SEAL(at_ms=1), SCALE(at_ms=2, seal=["0@0"])], "is sealed then"),
    ],
)
def test_what_a_stream_cannot_do_at_that_time_is_refused(actions, problem):
    with pytest.raises(Problems, match=problem):
        of_two(*actions)


def test_an_unconditional_loop_runs_from_creation_to_deletion_whether_anybody_notes_or_not():
    case = {"writers": [EventWriter("w", rate_per_s=10, note_every_ms=None)], "duration_ms": 10_000}
    case["script"] = [script.DeleteStream(at_ms=6_100)]
    assert not run(**case).rows("cycles", of="stream")
    world = run(stream=Stream(start_delay_ms=200), rules=Rules(cycles="unconditional"), **case)
    ran = [(row["at_ms"], row["reason"]) for row in world.rows("cycles", of="stream")]
    assert ran == [(at_ms, "no active writer") for at_ms in range(200, 6_100, 500)]


def test_a_cycle_says_when_the_next_one_is_due():
    streams = [Stream(name) for name in ("early", "late")]
    writers = [EventWriter(f"w-{name}", rate_per_s=10, note_every_ms=None, stream=name) for name in ("early", "late")]
    fleet = Controllers(2, buckets=4, period_ms=500, start_delay_ms=1_500)
    case = of_two(
        CREATE(at_ms=8_000),
        streams=streams,
        writers=writers,
        controllers=fleet,
        readers=None,
        rules=Rules(cycles="unconditional"),
    )
    run_of_two = case.record(progress=False)
    for name in ("early", "late"):
        cycles = [row for row in run_of_two.table("cycles").to_pylist() if row["stream"] == name]
        assert all(row["due_ms"] == following["at_ms"] for row, following in pairwise(cycles))
        assert len(cycles) > 3
        assert {row["reason"] for row in cycles} == {"no active writer"}
    facts = watermark_cycles(run_of_two, stream="late").facts
    assert facts["cycles"] == len(cycles)


def test_a_stream_has_a_start_delay_of_its_own():
    streams = [Stream("early"), Stream("late", start_delay_ms=3_000)]
    world = run_of(of_two(streams=streams))
    first = {
        name: world.rows("cycles", of=name)[0]["at_ms"] - world.rows("writer_marks", of=name)[0]["received_ms"]
        for name in ("early", "late")
    }
    assert first == {"early": 500, "late": 3_000}


@pytest.mark.parametrize(("third_starts_ms", "first_ms"), [(4_000, 5_505), (12_000, 7_505)])
def test_the_first_watermark_waits_for_the_writers_that_are_expected(third_starts_ms, first_ms):
    """All three have noted at 5 005 ms; or the third one comes later than one timeout after the first cycle."""
    starts_ms = {"w1": 0, "w2": 1_000, "w3": third_starts_ms}
    world = run(
        stream=Stream(timestamp_aggregation_timeout_ms=6_000, expected_writers=3),
        writers=[EventWriter(name, rate_per_s=20, starts_ms=at_ms) for name, at_ms in starts_ms.items()],
        controllers=Controllers(period_ms=500),
    )
    assert world.rows("watermarks")[0]["emitted_ms"] == first_ms
    assert world.held()[0] == "waits for 2 more of 3 expected writers"
    assert set(world.rows("watermarks")[0]["writers"]) == {name for name, at in starts_ms.items() if at < first_ms}
    world.assert_sound()


def silent(base="design", options=(), **fields):
    """Both writers note nothing from 5 to 14 s, and go on writing."""
    silence = [script.SilenceWriter(at_ms=5_000, writer=name, for_ms=9_000) for name in ("w1", "w2")]
    others = {"cut_algorithm": "sound", "timeout_from": "first_behind", "cycles": "while_noted"} | dict(options)
    stream = Stream(segments=2, timestamp_aggregation_timeout_ms=2_000)
    return run(rules=Rules(base, **others), stream=stream, script=silence, **fields)


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_a_reader_gets_null_where_no_writer_is_known(read_side):
    world = silent(readers=group(), options={"read_side": read_side})
    (end,) = world.rows("watermarks", writers={})
    lowers = world.column("windows", "lower", 5_000)
    unknown_ms = [row["at_ms"] for row in world.rows("windows", 5_000, lower=None)]
    assert end["emitted_ms"] < min(unknown_ms) < 10_500
    assert 14_000 < max(unknown_ms) < 17_000
    assert None not in (lowers[0], lowers[-1])
    written = world.events.append_ms
    assert np.count_nonzero((written > 10_500) & (written < 14_000)) > 400
    assert len(world.stream().index) == len(world.rows("watermarks")) - 1


@pytest.mark.parametrize("read_side", ["implementation", "document"])
def test_both_bounds_are_null_from_where_the_writers_were_forgotten_to_the_next_mark(read_side):
    """PDP-33, Config Changes ("at the corresponding position"); in the wiki "a null for both upper and lower times"."""
    world = silent(readers=group(publish_every_ms=100), options={"read_side": read_side})
    before, end, after = (world.rows("watermarks")[i] for i in end_and_neighbours(world))
    written = {s: world.events.offset[world.events.segment_id == s] for s in end["cut"]}
    stored = {s: world.events.append_ms[world.events.segment_id == s] for s in end["cut"]}
    # The region begins where the stream ended when the last writer was forgotten, far beyond the last mark's cut.
    lengths = {s: int(written[s][stored[s] < end["cycle_ms"]].max()) for s in end["cut"]}
    assert end["cut"] == lengths
    assert all(lengths[s] - before["cut"][s] > 5_000 for s in lengths)
    # A late reader, when the next mark is known already, knows neither bound; before it, the last lower one.
    late = late_windows(world, end, after)
    assert late == {(None, None)}
    position = {s: (before["cut"][s] + end["cut"][s]) // 2 for s in lengths}
    log, segments = world.stream().log, world.stream().history.segments
    between = Tracker().advance(Position(position), log, segments).window
    assert (between.lower, between.upper) == (before["lower"], None)
    # Beyond the end in one segment and before it in the other: what is ahead is an end, though the next mark is known.
    first, second = sorted(lengths)
    partly = Position({first: end["cut"][first] + 500, second: before["cut"][second] + 500})
    for window in (
        Tracker().advance(partly, log, segments).window,
        window_at(world.stream().index, log, partly, segments),
    ):
        assert (window.lower, window.upper) == (before["lower"], None)


def end_and_neighbours(world):
    """The places of the only end of known time in the log and of its neighbours."""
    (place,) = (i for i, row in enumerate(world.rows("watermarks")) if not row["writers"])
    return place - 1, place, place + 1


def late_windows(world, end, after):
    """The bounds of readers with the whole log that stand at several places from the end to the mark after it."""
    stream = world.stream()
    places = [
        {s: end["cut"][s] + (after["cut"][s] - end["cut"][s]) * tenth // 10 for s in end["cut"]} for tenth in range(10)
    ]
    windows = [
        *(Tracker().advance(Position(place), stream.log, stream.history.segments).window for place in places),
        *(window_at(stream.index, stream.log, Position(place), stream.history.segments) for place in places),
    ]
    return {(window.lower, window.upper) for window in windows}


def test_the_lengths_are_asked_for_in_messages():
    world = silent(readers=None, network=network.Network(keep_messages=True))
    (asked,) = world.rows("messages", kind="get lengths")
    (end,) = world.rows("watermarks", writers={})
    assert (asked["receiver"], asked["sent_ms"]) == ("segment-store", end["cycle_ms"])


def test_with_the_implementation_the_last_bounds_stay_where_no_writer_is_known():
    world = silent("sound")
    assert all(world.column("watermarks", "writers"))
    assert None not in world.column("windows", "lower", 5_000)


def test_a_run_by_the_design_starts_at_barrier_zero():
    notes = [noted(at, "a", time) for at, time in ((1_000, -500), (2_000, -100), (6_000, 700))]
    lowers = {
        rules: scripted(*notes, writers="a", rules=rules).column("watermarks", "lower") for rules in ("sound", "design")
    }
    assert lowers == {"sound": [-500, -100, 700], "design": [700, 700]}
