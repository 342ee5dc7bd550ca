"""Scales in steps: what the documents' example makes of positions and cuts, and failures between two seals."""

from dataclasses import replace

import pytest

from tests.streams.sim.worlds import run, scenario
from wmlab.core.schemas import NEVER_HAPPENED
from wmlab.core.simulation import Uniform
from wmlab.streams.model.position import Position
from wmlab.streams.model.segment import parse_segment
from wmlab.streams.positions import read_sides
from wmlab.streams.scenario import script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream, TransactionalWriter
from wmlab.streams.scenario.rules import Rules

ZERO, ONE, TWO, THREE = map(parse_segment, ("0@0", "1@0", "2@1", "3@1"))
DOCUMENT = {"seal": ["0@0", "1@0"], "into": ["0..3/5", "3/5..1"]}
STEPS = script.Scale(at_ms=5_000, **DOCUMENT, seal_every_ms=2_000)
CASE = {
    "stream": Stream(segments=2),
    "writers": [EventWriter(name, rate_per_s=100, note_every_ms=200) for name in ("w1", "w2")],
    "readers": ReaderGroup("readers", readers=2),
    "network": Network(keep_messages=True),
    "script": [STEPS],
    "duration_ms": 12_000,
}


def sealed_ms(world):
    return {row["segment_id"]: row["sealed_ms"] for row in world.rows("segments")}


def seals(world):
    """(when, by whom, which segment, what the store answered) of every request to seal."""
    asked = world.rows("messages", kind="seal segment")
    answered = world.rows("messages", kind="seal segment: answer")
    return [
        (ask["sent_ms"], ask["sender"], ask["content"], answer["content"])
        for ask, answer in zip(asked, answered, strict=True)
    ]


def keeps_its_promises(world):
    world.assert_sound()
    world.assert_delivered()
    assert world.late_events() == 0


def test_the_documents_example_arises_by_itself():
    """PDP-33, "Watermark Computation": 0 is sealed, 1 may still be open, the writer is at (1/off1, 2/off2)."""
    world = run(**CASE)
    assert sealed_ms(world) == {ZERO: 5_005, ONE: 7_005, TWO: None, THREE: None}
    stages = [(row["noted_ms"], set(row["position"])) for row in world.rows("writer_marks")]
    assert all(stage == {ZERO, ONE} for at, stage in stages if at < 5_000)
    assert all(stage == {ONE, TWO} for at, stage in stages if 5_300 < at < 7_000)
    assert all(stage == {TWO, THREE} for at, stage in stages if at > 7_300)
    # The upper bound (2/off2) is completed by the sibling of 2 at offset 0, which replaces 1.
    (between, *_) = world.rows("watermarks", 5_500, 7_000)
    assert between["cut"][TWO] > 0
    assert between["cut"] == {TWO: between["cut"][TWO], THREE: 0}
    keeps_its_promises(world)


def test_an_open_predecessor_takes_events_while_its_successors_do():
    world = run(**CASE)
    appended = {segment: [] for segment in (ONE, TWO)}
    for segment, at in zip(world.events.segment_id.tolist(), world.events.append_ms.tolist(), strict=True):
        if segment in appended and 5_100 < at < 7_000:
            appended[segment].append(at)
    assert all(len(at) > 50 for at in appended.values())
    (read,) = world.column("positions", "at_ms", segment_id=ZERO, waits=True)
    assert read < 6_500
    # Both successors wait for 1, of whose keys each has some.
    first_ms = min(row["at_ms"] for row in world.rows("reads") if row["segment_id"] in (TWO, THREE))
    (gone,) = world.column("positions", "at_ms", segment_id=ZERO, finished=True)
    assert 7_005 < gone <= first_ms


def test_seals_come_in_the_order_of_the_action_and_in_messages():
    other = replace(STEPS, seal=("1@0", "0@0"), seal_every_ms=300)
    world = run(**CASE | {"script": [other]})
    assert [(at, which, said) for at, _, which, said in seals(world)] == [
        (5_005, "1@0", "sealed"),
        (5_305, "0@0", "sealed"),
    ]
    # A merge of other parts: then the writer is at (0/off0, 3/off3) in between.
    assert {ZERO, THREE, TWO} >= set(world.rows("writer_marks", noted_ms=5_200)[0]["position"]) >= {ZERO}
    slow = run(**CASE | {"network": Network(keep_messages=True, inside=Uniform(5, 400))})
    first, second = (row["received_ms"] for row in slow.rows("messages", kind="seal segment"))
    assert (sealed_ms(slow)[ZERO], sealed_ms(slow)[ONE]) == (first, second)
    assert second > first + 2_000
    slow.assert_sound()
    slow.assert_delivered()


def test_without_a_time_between_seals_all_are_sealed_at_once_and_nobody_is_told():
    world = run(**CASE | {"script": [replace(STEPS, seal_every_ms=None)]})
    assert sealed_ms(world) == {ZERO: 5_005, ONE: 5_005, TWO: None, THREE: None}
    assert seals(world) == []


@pytest.mark.parametrize("committer", ["leader", "by_hash"])
def test_a_controller_that_crashes_between_two_seals_leaves_the_scale_half_done_and_another_one_finishes_it(committer):
    crash = script.CrashController(at_ms=4_000, controller="committer", point="between_seals")
    case = {"controllers": Controllers(2), "script": [crash, STEPS], "duration_ms": 25_000}
    world = run(**CASE | case | {"rules": Rules(committer=committer)})
    (_, crashed, *first), (_, other, *again), (at_ms, *last) = seals(world)
    assert (first, again, last[1:]) == (["0@0", "sealed"], ["0@0", "was sealed before"], ["1@0", "sealed"])
    assert other == last[0] != crashed
    # The crashed controller's session has to time out first.
    assert sealed_ms(world)[ONE] == at_ms > 5_005 + world.scenario.controllers.session_timeout_ms - 2_000
    assert any(set(row["position"]) == {ONE, TWO} for row in world.rows("writer_marks") if row["noted_ms"] > 9_000)
    keeps_its_promises(world)


@pytest.mark.parametrize(
    ("failure", "sealed_at_ms"),
    [
        (script.Partition(at_ms=5_500, a="controllers", b="segment-store", for_ms=3_000), 8_500),
        (script.StoreUnavailable(at_ms=4_900, for_ms=1_000, store="segment_metadata"), 5_900 + 2_000),
        (script.PauseController(at_ms=4_000, controller="committer", point="between_seals", for_ms=700), 5_005 + 2_700),
    ],
)
def test_a_store_that_cannot_be_reached_or_a_pause_puts_the_next_seal_off(failure, sealed_at_ms):
    world = run(**CASE | {"script": [failure, STEPS]})
    assert sealed_at_ms <= sealed_ms(world)[ONE] <= sealed_at_ms + 105
    keeps_its_promises(world)


def test_commits_and_other_changes_of_the_segments_wait_for_the_scale():
    case = {
        "writers": [TransactionalWriter("t", rate_per_s=50, every_ms=500, open_ms=300)],
        "script": [
            STEPS,
            script.Scale(at_ms=5_500, seal=["2@1"], into=2),
            script.TruncateStream(at_ms=5_600),
            script.SealStream(at_ms=11_000),
        ],
    }
    world = run(**CASE | case)
    assert not [at for at in world.column("transactions", "committed_ms") if at and 5_005 < at < 7_005]
    (truncated,) = world.column("incidents", "at_ms", kind="truncate")
    assert truncated >= 7_005
    assert world.column("epochs", "at_ms")[:2] == [0, 5_000]
    assert min(world.column("epochs", "at_ms")[2:]) >= 7_005
    assert None not in sealed_ms(world).values()
    world.assert_merged_once()


def test_a_stream_that_is_deleted_half_way_is_forgotten_with_its_scale():
    reset = script.DeleteStream(at_ms=6_000, recreate_after_ms=300)
    world = run(**CASE | {"script": [STEPS, reset, script.Scale(at_ms=8_000, seal=["4@0"], into=2, seal_every_ms=0)]})
    # Its controller waits to seal 1 when the stream goes, and finds nothing to seal.
    assert world.column("messages", "content", kind="seal segment: answer") == ["sealed", "sealed"]
    assert world.column("segments", "sealed_ms", of="stream", segment_id=ONE) == [None]
    assert world.column("segments", "sealed_ms", number=4) == [8_005]


def test_the_time_of_ingestion_does_not_pass_what_a_successor_holds_already():
    """A reader at the end of 1 has yet to read what was stored in 2 while 1 was open."""
    recording = scenario(**CASE).record(progress=False)
    *_, ingested = read_sides(recording)
    events = recording.table("events").to_pydict()
    columns = list(zip(events["segment_id"], events["offset"], events["append_ms"], strict=True))
    end_of_one = max(offset for segment, offset, _ in columns if segment == ONE)
    first_of_two = min(at for segment, _, at in columns if segment == TWO)
    assert ingested.window(Position({ONE: end_of_one}), 12_000).lower == first_of_two < 7_005


def test_a_scale_that_waited_for_a_segment_that_was_never_made_or_for_a_deleted_stream_never_happens() -> None:
    given = {
        "stream": Stream("s", segments=3),
        "writers": [TransactionalWriter("w", rate_per_s=20)],
        "readers": ReaderGroup("g"),
        # The second scale waits for the first one, and with it for ever once its stream is deleted.
        "script": [
            script.Scale(at_ms=3, seal=["0@0"], into=3, seal_every_ms=200),
            script.Scale(at_ms=3, seal=["2@0"]),
            script.DeleteStream(at_ms=4, recreate_after_ms=300),
            script.DeleteStream(at_ms=405),
            script.CreateStream(at_ms=805, stream="s"),
            script.Scale(at_ms=1_406, seal=["13@0"]),
        ],
        "duration_ms": 3_000,
        "seed": 355,
    }
    incidents = scenario(**given).record(progress=False).table("incidents").to_pylist()
    never = [(row["at_ms"], row["target"], row["detail"]) for row in incidents if row["outcome"] == NEVER_HAPPENED]
    waits = "was to begin when no commit was in work"
    assert (1_406, "13@0", f"the scale of 13@0 {waits}, but 13@0 of s is not open then") in never
    assert [target for _, target, _ in never] == ["2@0", "13@0"]
