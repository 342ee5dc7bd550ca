"""The windows of readers are the time bounds of their groups at that moment, and which groups cannot be compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from tests.machine.batch import given_of, judged_by_checks
from tests.machine.compared import compared_groups
from tests.machine.judge import Found, judge
from tests.streams.checks.runs import recorded
from wmlab.core.recording import Recording
from wmlab.core.simulation import Fixed
from wmlab.streams.api import Scenario
from wmlab.streams.bounds.maps import groups_with_map
from wmlab.streams.recording import StreamRecording
from wmlab.streams.scenario import noting, script
from wmlab.streams.scenario.network import Network
from wmlab.streams.scenario.parts import Controllers, EventWriter, ReaderGroup, Stream
from wmlab.streams.scenario.rules import Rules


def record(*groups: ReaderGroup, **fields: Any) -> Recording:
    return recorded("looked at", **({"readers": groups} if groups else {}), **fields)


def found_in(run: Recording) -> Found:
    """What comparing the windows of `orders` with its time bounds finds; the second judge finds the same."""
    found = judged_by_checks(given_of(run)).get(("orders", "windows"), Found(0))
    assert judge(given_of(run)).get(("orders", "windows"), Found(0)) == found
    return found


def altered(run: Recording, *, of: str | None = None, **columns: Any) -> Recording:
    """The recording with other values in its last window that has a lower bound, or the last `of` a group."""
    rows = run.table("windows").to_pylist()
    last = max(number for number, row in enumerate(rows) if row["lower"] is not None or row["group"] == of)
    rows[last] |= {name: change(rows[last][name]) for name, change in columns.items()}
    tables = {**run.tables, "windows": rows}
    return StreamRecording.from_tables(tables, name=run.name, scenario=run.scenario, seed=run.manifest.seed)


@pytest.mark.parametrize("bound", ["lower", "upper"])
def test_a_window_that_its_group_cannot_have_seen_is_found(bound: str) -> None:
    run = record()
    assert found_in(run) == Found(len(run.table("windows")))
    wrong = altered(run, **{bound: lambda value: (value or 0) + 1})
    assert found_in(wrong) == Found(len(run.table("windows")), (max(wrong.table("windows")["at_ms"].to_pylist()),))


def test_a_window_from_before_the_last_watermark_is_found() -> None:
    """A window is not only one that the group had at some time."""
    run = record()
    earlier = run.table("windows")["lower"].drop_null()[0].as_py()
    assert len(found_in(altered(run, lower=lambda _: earlier)).broken) == 1


REASONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"state_latency_ms": 20}, {"rules": Rules(read_side="document")}, "state_latency_ms"),
    (
        {},
        {
            "script": [script.ReleaseSegment(at_ms=3_000, reader="late-0", segment="0@0")],
            "rules": Rules(read_side="document", publish_timer="pravega"),
        },
        "gave a segment back",
    ),
    ({"tracker_ms": 50}, {}, "(tracker_ms)"),
    ({"state_latency_ms": 20}, {}, "state_latency_ms"),
    ({"state_latency_ms": None}, {}, "state_latency_ms"),
    ({"state_latency_ms": None}, {"latency_ms": 0, "network": Network(delay=Fixed(3))}, "state_latency_ms"),
    ({"state_latency_ms": None}, {"latency_ms": 0, "network": Network(loss=0.5)}, "state_latency_ms"),
    ({}, {"script": [script.LoseMarksSegment(at_ms=3_000, for_ms=2_000)]}, "could not be read"),
    ({}, {"script": [script.StoreUnavailable(at_ms=3_000, for_ms=2_000, store="marks_segment")]}, "could not be read"),
    ({}, {"script": [script.TruncateMarks(at_ms=3_000)]}, "truncated"),
    (
        {},
        {
            "script": [
                script.Checkpoint(at_ms=2_000, name="a"),
                script.ResetToCheckpoint(at_ms=5_000, checkpoint="a", ranges=False),
            ]
        },
        "without key ranges",
    ),
]


@pytest.mark.parametrize(("group", "fields", "reason"), REASONS, ids=lambda value: str(value)[:40])
def test_a_group_that_is_not_compared_is_named_with_the_reason(
    group: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    (row,) = compared_groups(record(ReaderGroup("late", **group), **fields)).to_pylist()
    assert (row["stream"], row["group"]) == ("orders", "late")
    assert reason in row["why_not"]


def test_what_delays_nothing_is_compared() -> None:
    groups = [ReaderGroup("a", state_latency_ms=None), ReaderGroup("b", rebalance="time")]
    steps = [
        script.StoreUnavailable(at_ms=3_000, for_ms=2_000),
        script.Checkpoint(at_ms=2_000, name="x", group="a"),
        script.ResetToCheckpoint(at_ms=5_000, checkpoint="x", group="a"),
    ]
    for timer in ("fixed", "pravega"):
        rules = Rules(publish_timer=timer)
        run = record(*groups, rules=rules, script=steps, latency_ms=0, network=Network(inside=Fixed(3)))
        assert [row["why_not"] for row in compared_groups(run).to_pylist()] == [None, None]


def test_a_reader_that_joins_behind_where_the_group_had_been_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group had passed the cuts in one segment only, and so has read all; who starts again is before the first."""
    notes = [
        script.NoteTime(at_ms=at_ms, writer="w2", time=at_ms, position={"0@0": 5 * at_ms, "1@0": 108})
        for at_ms in (1_000, 2_000, 3_000)
    ]
    run = record(
        ReaderGroup("again", publish_every_ms=200, rate_per_s=10.0),
        writers=[
            EventWriter("w1", rate_per_s=60, noting=noting.Never()),
            EventWriter("w2", rate_per_s=0, note_every_ms=None),
        ],
        script=[*notes, script.CrashReader(at_ms=4_804, reader="again-0", restart_after_ms=600)],
    )
    assert found_in(run) == Found(len(run.table("windows")))
    monkeypatch.setattr("tests.machine.judge._has_missed", lambda *_: False)
    assert judge(given_of(run))["orders", "windows"].broken


def test_a_reader_that_did_not_look_before_a_crash_took_the_group_back_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mark becomes visible where the crashed reader had published; nobody looks before its segment is read again."""
    runs = [
        record(
            ReaderGroup("g", readers=2, rate_per_s=40.0),
            stream=Stream("orders"),
            writers=[EventWriter("v", rate_per_s=50)],
            controllers=Controllers(period_ms=1_000, start_delay_ms=1_000),
            script=[script.CrashReader(at_ms=6_700, reader="g-0")],
            duration_ms=12_000,
            seed=seed,
        )
        for seed in (1, 2, 6, 8, 9, 12, 16, 17, 18)
    ]
    for run in runs:
        assert found_in(run) == Found(len(run.table("windows")))
    monkeypatch.setattr("tests.machine.judge._has_missed", lambda *_: False)
    assert all(judge(given_of(run))["orders", "windows"].broken for run in runs)


SHARING = ReaderGroup("sharing", readers=2, publish_every_ms=500, rate_per_s=25.0)
SHARES_TIMES = Rules(read_side="document")
HARD = [
    script.Checkpoint(at_ms=2_000, name="x"),
    script.LoseMarksSegment(at_ms=3_000, for_ms=1_000),
    script.CrashReader(at_ms=4_200, reader="sharing-0"),
    script.ResetToCheckpoint(at_ms=5_000, checkpoint="x", ranges=False),
    script.TruncateMarks(at_ms=6_000),
]
"""What keeps other groups from being compared: it changes the map, or when the map changes, and no window of it."""


@pytest.mark.parametrize("steps", [[], HARD], ids=["quiet", "hard"])
@pytest.mark.parametrize("enters", ["at_publish", "on_passing"])
@pytest.mark.parametrize("timer", ["fixed", "pravega"])
def test_readers_that_share_times_see_the_window_of_their_map(
    steps: list[Any],
    timer: Literal["fixed", "pravega"],
    enters: Literal["at_publish", "on_passing"],
) -> None:
    rules = replace(SHARES_TIMES, publish_timer=timer, enters_time=enters)
    run = record(replace(SHARING, group_refresh_ms=700, tracker_ms=50), rules=rules, script=steps)
    assert compared_groups(run).to_pylist() == [
        {"stream": "orders", "group": "sharing", "why_not": None, "with_map": True}
    ]
    assert found_in(run) == Found(len(run.table("windows")))
    assert run.table("windows")["lower"].null_count < len(run.table("windows")) - 3


@pytest.mark.parametrize("bound", ["lower", "upper"])
def test_a_window_that_the_map_never_had_is_found(bound: str) -> None:
    wrong = altered(record(SHARING, rules=SHARES_TIMES), **{bound: lambda value: (value or 0) + 1})
    assert len(found_in(wrong).broken) == 1


def test_readers_that_look_at_no_marks_know_nothing() -> None:
    run = record(ReaderGroup("blind", time_windows=False, tracker_ms=50, state_latency_ms=20))
    assert found_in(run) == Found(len(run.table("windows")))
    assert len(found_in(altered(run, lower=lambda _: 1_000, of="blind")).broken) == 1


def test_the_times_of_a_map_are_found_without_a_scenario() -> None:
    shared = record(SHARING, rules=SHARES_TIMES)
    assert groups_with_map(StreamRecording.from_tables(dict(shared.tables), name="bare")) == [("orders", "sharing")]
    assert groups_with_map(StreamRecording.from_tables(dict(record().tables), name="bare")) == []


def test_only_the_windows_of_groups_that_are_compared_are_judged() -> None:
    run = record(ReaderGroup("late", tracker_ms=50), ReaderGroup("prompt"))
    assert found_in(run) == Found(sum(row["group"] == "prompt" for row in run.table("windows").to_pylist()))


def test_without_a_scenario_no_group_is_compared() -> None:
    bare = StreamRecording.from_tables(dict(record().tables), name="bare")
    (row,) = compared_groups(bare).to_pylist()
    assert row["why_not"] == "no scenario says how its readers look"
    empty = compared_groups(StreamRecording.from_tables({}, name="empty"))
    assert (len(empty), empty.schema) == (0, compared_groups(bare).schema)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reader_that_enters_its_time_at_once_stays_in_the_map_until_it_may_take_what_follows(seed: int) -> None:
    """All segments are sealed at once; who has read one to its end before the others does not leave its successor."""
    run = Scenario(
        name="all segments are sealed",
        rules=Rules("design", enters_time="on_passing"),
        stream=Stream("orders", segments=2),
        writers=[EventWriter(name, rate_per_s=30) for name in ("u", "v")],
        readers=ReaderGroup("group", readers=2, rate_per_s=25.0),
        controllers=Controllers(period_ms=700, start_delay_ms=1_000),
        script=[script.Scale(at_ms=5_482, seal=["0@0", "1@0"])],
        duration_ms=16_000,
        seed=seed,
    ).record()
    assert {row.invariant: row.verdict for row in run.check("I6", "I9")} == {"I6": "ok", "I9": "ok"}


def scaled(kind: str, at_ms: int) -> list[script.Scale | script.SealStream]:
    """A stream of three segments is merged, merged and split again, scaled to other boundaries, or sealed."""
    merge = script.Scale(at_ms=at_ms, seal=["0@0", "1@0", "2@0"], into=1)
    return {
        "merge": [merge],
        "merge, split": [merge, script.Scale(at_ms=at_ms + 1_900, seal=["3@1"], into=2)],
        "other boundaries": [script.Scale(at_ms=at_ms, seal=["0@0", "1@0", "2@0"], into=2)],
        "seal": [script.SealStream(at_ms=at_ms)],
    }[kind]


@pytest.mark.parametrize("timer", ["fixed", "pravega"])
@pytest.mark.parametrize("kind", ["merge", "merge, split", "other boundaries", "seal"])
def test_a_reader_that_looks_less_often_sees_the_same_while_finished_segments_wait(
    kind: str, timer: Literal["fixed", "pravega"]
) -> None:
    """What is forgotten at the end of a segment made the upper bound depend on the moments of looking."""
    waits = 0
    for seed in range(1, 3):
        run = record(
            ReaderGroup(readers=2 + seed % 2, rate_per_s=25.0, group_refresh_ms=700),
            stream=Stream("orders", segments=3),
            writers=[EventWriter(name, rate_per_s=30) for name in "vu"],
            rules=Rules(publish_timer=timer, probe_on_seal=False),
            controllers=Controllers(period_ms=700, start_delay_ms=1_000),
            script=scaled(kind, 5_000 + 977 * seed),
            duration_ms=11_000,
            seed=seed,
        )
        assert found_in(run) == Found(len(run.table("windows"))), seed
        waits += sum(row["waits"] for row in run.table("positions").to_pylist())
    assert waits >= 2


def test_the_upper_bound_covers_what_was_noted_before_the_end_of_a_segment_that_is_read() -> None:
    """PDP-33, Event Reader API Changes: it is at or above any time noted before the location in the stream."""
    run = record(
        ReaderGroup(readers=2, rate_per_s=25.0),
        stream=Stream("orders", segments=2),
        writers=[EventWriter(name, rate_per_s=30) for name in "vu"],
        rules=Rules(probe_on_seal=False),
        controllers=Controllers(period_ms=700, start_delay_ms=1_000),
        script=[script.Scale(at_ms=7_786, seal=["0@0", "1@0"], into=1)],
        duration_ms=12_000,
        seed=9,
    )
    done = next(row for row in run.table("positions").to_pylist() if row["waits"])
    marks = run.table("watermarks").to_pylist(maps_as_pydicts="strict")
    behind = [row for row in marks if row["cut"].get(done["segment_id"], done["offset"]) < done["offset"]]
    window = next(
        row
        for row in run.table("windows").to_pylist()
        if row["reader"] == done["reader"] and row["at_ms"] >= done["at_ms"]
    )
    assert window["upper_seq"] == behind[-1]["seq"] + 1
